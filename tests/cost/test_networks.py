"""What groups get across nodes: cards and who shares them, rails, leaves, tori."""

import copy
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest
from cost_samples import COLLECTIVES, PATTERNS, communication, seconds, small_profile, toml
from hypothesis import given
from hypothesis import strategies as st

from distir.cost import HardwareError, load, parse
from distir.cost.network import Cards, Torus
from distir.ops.resources import Communication, Routed, Work
from distir.validate.machines import with_hybrid_kernels

BYTES = 10**10
PROFILES = Path(__file__).parents[2] / "examples" / "profiles"


def profile(devices=8, nodes_level=None, **shapes):
    """A node of so many devices, without latencies; across nodes 10 GB/s for a device with its card alone."""
    link = {"startup": "0s", "latency": "0s", "bandwidth": "1000GB/s"}
    outer = {**link, "bandwidth": "10GB/s"}
    found = copy.deepcopy(small_profile())
    found["groups"][0]["count"] = devices
    found["levels"] = {
        "inside": {"devices": devices, "send": link, "collective": link},
        "outside": {"devices": "nodes", "send": outer, "collective": outer, **(nodes_level or {}), **shapes},
    }
    return found


def machine(nodes, devices=8, **shapes):
    return parse(toml(profile(devices, **shapes)), "mine", nodes)


def cards(devices):
    return {"devices": devices, "bandwidth": "12GB/s"}


def test_eight_groups_of_one_device_per_node_each_have_a_card_where_there_are_eight():
    own, shared = machine(4, cards=cards(1)), machine(4, cards=cards(2))
    group = tuple(range(0, 32, 8))
    assert seconds(own, "allgather", BYTES, group) == pytest.approx(3 / 4 * BYTES / 10e9)
    # Where two devices share a card, the group of its neighbour is under way at the same time.
    assert seconds(shared, "allgather", BYTES, group) == pytest.approx(2 * seconds(own, "allgather", BYTES, group))


def test_a_group_gets_its_share_of_the_cards_that_its_members_use():
    pairs = tuple(device + node for node in (0, 8) for device in (0, 1))
    for devices, share in ((1, 20e9), (2, 10e9), (4, 5e9), (8, 2.5e9)):
        found = seconds(machine(2, cards=cards(devices)), "broadcast", BYTES, pairs)
        assert found == pytest.approx(BYTES / share), devices


def test_all_devices_of_all_nodes_have_all_cards():
    for devices, together in ((1, 80e9), (2, 40e9), (8, 10e9)):
        found = seconds(machine(4, cards=cards(devices)), "broadcast", BYTES, range(32))
        assert found == pytest.approx(BYTES / together), devices


@pytest.mark.parametrize(
    ("source", "target", "share"),
    # A pipeline of single devices crosses once; stages of four cross with four; of eight, with all.
    [(7, 8, 1), (7, 9, 2), (6, 8, 2), (4, 8, 4), (0, 8, 4), (4, 12, 4), (0, 16, 4)],
)
def test_sends_share_a_card_with_those_that_cross_with_them(source, target, share):
    hardware = machine(3, cards=cards(4))
    assert seconds(hardware, "send", BYTES, (source, target)) == pytest.approx(BYTES / (10e9 / share))


@given(st.integers(1, 9), st.data())
def test_the_crowd_of_a_card_is_counted_by_moving_the_group(each, data):
    of = tuple(sorted(data.draw(st.lists(st.integers(0, 3), min_size=each, max_size=each))))
    group = data.draw(st.lists(st.integers(0, 5 * each), min_size=2, max_size=5, unique=True))
    device = data.draw(st.sampled_from(group))
    others = [other for other, card in enumerate(of) if card == of[device % each]]
    crossing = 0
    for other in others:
        moved = [member + other - device % each for member in group]
        crossing += len({member // each for member in moved}) > 1
    assert Cards(of, 1.0).crowd(device, min(group), max(group)) == crossing


@given(st.data(), st.sampled_from([1, 2, 4, 8]), st.sampled_from(PATTERNS), st.integers(0, 10**10))
def test_a_group_costs_the_same_in_other_nodes(data, shared, pattern, nbytes):
    hardware = machine(8, cards=cards(shared), fabric={"kind": "rails", "leaf": 4, "oversubscription": 2})
    group = tuple(data.draw(st.lists(st.integers(0, 31), min_size=2, max_size=8, unique=True)))
    moved = tuple(device + 32 for device in group)
    assert hardware.shape(group) == hardware.shape(moved)
    assert seconds(hardware, pattern, nbytes, group) == seconds(hardware, pattern, nbytes, moved)


def alike(hardware):
    """Two pairs of devices of equal shape."""
    found = {}
    for pair in permutations(range(hardware.devices), 2):
        found.setdefault(hardware.shape(pair), []).append(pair)
    shapes = sorted(found.values(), key=len)
    return st.sampled_from(shapes).flatmap(lambda pairs: st.tuples(st.sampled_from(pairs), st.sampled_from(pairs)))


@given(st.data(), st.sampled_from([1, 2, 4, 8]), st.sampled_from(PATTERNS), st.booleans())
def test_positions_of_equal_shape_cost_the_same_in_a_network(data, shared, pattern, rails):
    kind = "rails" if rails else "fat tree"
    hardware = machine(4, 4, cards=cards(min(shared, 4)), fabric={"kind": kind, "leaf": 2, "oversubscription": 3})
    a, b = data.draw(alike(hardware))
    assert seconds(hardware, pattern, BYTES, a, a[0]) == pytest.approx(seconds(hardware, pattern, BYTES, b, b[0]))


def test_beyond_a_leaf_there_is_less_bandwidth():
    hardware = machine(4, cards=cards(1), fabric={"kind": "fat tree", "leaf": 2, "oversubscription": 4, "hop": "1us"})
    assert seconds(hardware, "send", BYTES, (0, 8)) == pytest.approx(BYTES / 10e9)
    assert seconds(hardware, "send", BYTES, (0, 16)) == pytest.approx(BYTES / 2.5e9 + 2e-6)
    assert seconds(hardware, "alltoall", BYTES, (0, 16)) == pytest.approx(BYTES / 2 / 2.5e9 + 2e-6)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_without_oversubscription_leaves_cost_only_their_switches(pattern):
    flat = machine(4, cards=cards(1))
    leaves = machine(4, cards=cards(1), fabric={"kind": "fat tree", "leaf": 2})
    assert seconds(leaves, pattern, BYTES, (0, 16)) == seconds(flat, pattern, BYTES, (0, 16))


@pytest.mark.parametrize("pattern", COLLECTIVES)
def test_more_oversubscription_never_takes_less_time(pattern):
    fabrics = ({"kind": "fat tree", "leaf": 2, "oversubscription": ratio} for ratio in (1, 1.5, 4))
    times = [seconds(machine(8, cards=cards(1), fabric=fabric), pattern, BYTES, range(0, 64, 4)) for fabric in fabrics]
    assert times == sorted(times)


def test_a_message_to_another_rail_takes_a_step_in_the_node():
    found = profile(cards=cards(1), fabric={"kind": "rails"})
    found["levels"]["inside"] = {**found["levels"]["inside"], "send": {**SLOW, "latency": "3us"}}
    hardware = parse(toml(found), "mine", 2)
    same, other = (seconds(hardware, "send", 10, (0, there)) for there in (8, 9))
    assert other - same == pytest.approx(3e-6)


SLOW = {"startup": "0s", "latency": "0s", "bandwidth": "1000GB/s"}


# Tori.


def torus(sizes, wrap):
    found = copy.deepcopy(small_profile())
    count = 1
    for size in sizes:
        count *= size
    found["groups"][0]["count"] = count
    link = {"startup": "0s", "latency": "1us", "bandwidth": "10GB/s"}
    found["levels"] = {
        "ici": {"devices": count, "send": link, "collective": link, "torus": {"sizes": sizes, "wrap": wrap}}
    }
    return parse(toml(found), "mine")


def test_a_ring_along_an_axis_that_wraps_has_links_in_both_directions():
    ring, line = torus([4, 4], True), torus([4, 4], False)
    axis = (0, 1, 2, 3)
    assert seconds(ring, "allgather", BYTES, axis) == pytest.approx(3 / 4 * BYTES / 20e9, rel=1e-3)
    assert seconds(line, "allgather", BYTES, axis) == pytest.approx(3 / 4 * BYTES / 10e9, rel=1e-3)
    assert seconds(ring, "allgather", BYTES, (0, 4, 8, 12)) == seconds(ring, "allgather", BYTES, axis)


@pytest.mark.parametrize(("sizes", "links"), [([4], 2), ([4, 4], 4), ([4, 4, 4], 6)])
def test_a_ring_over_several_axes_has_the_links_of_all(sizes, links):
    hardware = torus(sizes, True)
    n = hardware.devices
    assert seconds(hardware, "allgather", BYTES, range(n)) == pytest.approx(
        (n - 1) / n * BYTES / (links * 10e9), rel=1e-3
    )


def test_siblings_between_the_members_of_a_group_share_its_links():
    hardware = torus([8], True)
    assert seconds(hardware, "allgather", BYTES, range(0, 8, 2)) == pytest.approx(3 / 4 * BYTES / 10e9, rel=1e-3)


def test_a_send_passes_all_links_between():
    hardware = torus([8, 4], True)
    assert seconds(hardware, "send", 0, (0, 1)) == pytest.approx(1e-6)
    assert seconds(hardware, "send", 0, (0, 3)) == pytest.approx(1e-6)  # around the end
    assert seconds(hardware, "send", 0, (0, 2 + 4 * 4)) == pytest.approx((2 + 4) * 1e-6)
    assert seconds(hardware, "send", BYTES, (0, 2)) == pytest.approx(2 * BYTES / 10e9, rel=1e-3)


@given(st.sampled_from([4, 6, 8, 16]), st.booleans())
def test_an_all_to_all_is_bound_by_the_narrowest_cut(size, wrap):
    grid = Torus((size,), (wrap,)).grid(range(size))
    # Half of the devices send half of what they have over one link, or over two; each in one direction.
    cut = size / 2 * (1 / 2) / (2 if wrap else 1)
    assert (size - 1) / size / grid.exchange == pytest.approx(max(cut, (size - 1) / size / grid.ring))


@given(st.data(), st.sampled_from(PATTERNS), st.booleans())
def test_positions_of_equal_shape_cost_the_same_in_a_torus(data, pattern, wrap):
    hardware = torus([3, 4], wrap)
    a, b = data.draw(alike(hardware))
    assert seconds(hardware, pattern, BYTES, a, a[0]) == pytest.approx(seconds(hardware, pattern, BYTES, b, b[0]))


# Links between all.


def all_linked(devices=8, link="10GB/s"):
    """Devices of which each has a link to each other one."""
    found = copy.deepcopy(small_profile())
    found["groups"][0]["count"] = devices
    figures = {"startup": "0s", "latency": "1us", "bandwidth": link}
    found["levels"] = {"xgmi": {"devices": devices, "send": figures, "collective": figures, "fully_connected": True}}
    return parse(toml(found), "mine")


@pytest.mark.parametrize("members", [(0, 1), (3, 6), (0, 1, 2, 3), (0, 2, 4, 6), tuple(range(8))])
def test_a_group_has_the_links_among_its_members(members):
    n, links = len(members), len(members) - 1
    for pattern in ("allgather", "reducescatter", "alltoall"):
        found = seconds(all_linked(), pattern, BYTES, members)
        assert found == pytest.approx(links / n * BYTES / (links * 10e9), rel=1e-3), pattern


def test_one_message_has_one_link_however_many_there_are():
    hardware = all_linked()
    assert seconds(hardware, "send", BYTES, (0, 5)) == pytest.approx(BYTES / 10e9, rel=1e-3)
    # So has each of a ring of them: the other links lead elsewhere.
    assert seconds(hardware, "shift", BYTES, range(8)) == pytest.approx(BYTES / 10e9, rel=1e-3)


@given(st.data(), st.sampled_from(PATTERNS))
def test_positions_of_equal_shape_cost_the_same_where_all_are_linked(data, pattern):
    hardware = all_linked()
    a, b = data.draw(alike(hardware))
    assert seconds(hardware, pattern, BYTES, a, a[0]) == pytest.approx(seconds(hardware, pattern, BYTES, b, b[0]))


@pytest.mark.parametrize(
    ("level", "shape", "expected"),
    [
        ("inside", {"fully_connected": "yes"}, "expected `true` or `false`"),
        ("inside", {"fully_connected": True, "torus": {"sizes": [8], "wrap": True}}, "or `torus`"),
        ("outside", {"fully_connected": True}, "expected a level that joins devices, and `outside` joins blocks of 8"),
    ],
)
def test_links_between_all_that_are_none(level, shape, expected):
    found = profile()
    found["levels"][level].update(shape)
    with pytest.raises(HardwareError) as caught:
        parse(toml(found))
    (problem,) = caught.value.problems
    assert expected in problem.message
    assert problem.line


# Faults.


FAULTS = {
    "a card that no device uses": ({"cards": {**cards(1), "devices": ["0-7", "8-9"]}}, "no device uses it"),
    "more cards than devices": ({"cards": {"count": 9, "bandwidth": "12GB/s"}}, "8 devices: 1 is used by no device"),
    "many more cards": ({"cards": {"count": 12, "bandwidth": "12GB/s"}}, "8 devices: 4 are used by no device"),
    "no even share": ({"cards": {"count": 3, "bandwidth": "12GB/s"}}, '`devices = ["0-2", "3-5", "6-7"]`'),
    "a device on no card": ({"cards": {**cards(1), "devices": ["0-2", "4-7"]}}, "device 3 is on no card"),
    "a device on two": ({"cards": {**cards(1), "devices": ["0-3", "3-7"]}}, "device 3 is on card 0 and on card 1"),
    "both ways": ({"cards": {**cards(1), "count": 8}}, "exclude each other"),
    "neither": ({"cards": {"bandwidth": "12GB/s"}}, "`levels.outside.cards.count` is missing"),
    "negative": ({"cards": {**cards(1), "bandwidth": "-1GB/s"}}, "expected a bandwidth"),
    "zero": ({"cards": {**cards(1), "bandwidth": "0GB/s"}}, "above zero"),
    "less than is achieved": ({"cards": {**cards(1), "bandwidth": "9GB/s"}}, "less than one device achieves"),
    "no fabric": ({"cards": cards(1), "fabric": {"kind": "mesh"}}, "expected `rails` or `fat tree`, found `mesh`"),
    "without cards": ({"fabric": {"kind": "rails"}}, "`levels.outside.cards` is missing"),
    "undersubscription": (
        {"cards": cards(1), "fabric": {"kind": "fat tree", "oversubscription": 0.5}},
        "`levels.outside.fabric.oversubscription`: expected a number from 1, found `0.5`",
    ),
    "infinite": (
        {"cards": cards(1), "fabric": {"kind": "fat tree", "oversubscription": "2"}},
        "expected a number from 1, found no number",
    ),
    "beyond no leaf": (
        {"cards": cards(1), "fabric": {"kind": "fat tree", "oversubscription": 2}},
        "`levels.outside.fabric.oversubscription`: says nothing where all nodes are below one switch",
    ),
    "a number in quotes": ({"cards": {"count": "8", "bandwidth": "12GB/s"}}, "write it without quotes"),
    "no leaf": ({"cards": cards(1), "fabric": {"kind": "fat tree", "leaf": 0}}, "expected a whole number from 1"),
    "negative hop": ({"cards": cards(1), "fabric": {"kind": "rails", "hop": "-1us"}}, "expected a duration"),
    "a torus of nodes": ({"torus": {"sizes": [2], "wrap": True}}, "expected a level that joins devices"),
    "a typo": ({"cards": {**cards(1), "bandwith": "1GB/s"}}, "unknown key `bandwith`"),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("nodes", [1, 4])
def test_each_fault_is_one_message(name, nodes):
    shapes, expected = FAULTS[name]
    with pytest.raises(HardwareError) as caught:
        machine(nodes, **shapes)
    messages = [problem for problem in caught.value.problems if expected in f"{problem.message} {problem.help}"]
    assert len(messages) == 1, caught.value
    assert len(caught.value.problems) == 1, caught.value
    assert messages[0].line


@pytest.mark.parametrize(
    ("sizes", "wrap", "expected"),
    [
        ([2, 3], True, "2 × 3 are 6 devices, and `inside` joins 8"),
        ([0], True, "expected at least one whole number"),
        ("8", True, "expected at least one whole number"),
        ([8], "yes", "expected `true` or `false`"),
        ([2, 4], [True], "expected 2 of `true` and `false`"),
    ],
)
def test_a_torus_that_is_none(sizes, wrap, expected):
    found = profile()
    found["levels"]["inside"]["torus"] = {"sizes": sizes, "wrap": wrap}
    with pytest.raises(HardwareError) as caught:
        parse(toml(found))
    (problem,) = caught.value.problems
    assert expected in problem.message
    assert problem.line


def test_an_uplink_holds_instead_of_the_cards():
    found = profile(cards=cards(8))
    found["levels"]["outside"]["send"] = {**SLOW, "bandwidth": "10GB/s", "uplink": "20GB/s"}
    assert seconds(parse(toml(found), "mine", 2), "send", BYTES, (0, 8)) == pytest.approx(1)


def test_dgx2_shares_a_card_between_two():
    hardware = load("dgx2-v100x2")
    assert seconds(hardware, "allreduce", BYTES, (0, 16)) == pytest.approx(BYTES / 6.1e9, rel=0.01)


# Collectives across nodes.


def test_nvlink_sharp_reaches_across_nodes_where_the_network_states_it():
    """NVIDIA/nccl issue 1221: 330 GB/s of bus bandwidth on 2 nodes of 8 H100 without it, 430 with it."""
    switch = 'switch = { startup = "17.6us", latency = "14us", bandwidth = "48GB/s" }'
    hardware = parse(f'extends = "dgx-h100"\n[levels.infiniband]\n{switch}\n', "sharp", 2)
    nbytes = 2**33
    plain, reduced = (seconds(h, "allreduce", nbytes, range(16)) for h in (load("dgx-h100x2"), hardware))
    busbw = 2 * 15 / 16 * nbytes / reduced / 1e9
    assert 430 <= busbw < 520
    assert reduced < plain


@pytest.mark.parametrize("name", ["dgx-h100", "dgx-a100"])
def test_an_all_reduce_takes_a_tree_where_nodes_are_many_and_bytes_few(name):
    small = [seconds(load(name, nodes), "allreduce", 2**16, range(0, 8 * nodes, 8)) for nodes in (32, 256, 2048)]
    assert small[2] < 2.3 * small[0]  # log2 of 2,048 is 2.2 times that of 32
    large = [seconds(load(name, nodes), "allreduce", 2**33, range(0, 8 * nodes, 8)) for nodes in (32, 256, 2048)]
    assert large[2] < 1.2 * large[0]


def test_an_all_to_all_across_nodes_takes_what_its_bytes_take():
    """DeepEP's dispatch of 4,096 tokens of 7,168 bytes on 2 and 4 nodes of H100: 749 and 1,791 us (aiconfigurator)."""
    for nodes, remote, measured in ((2, 0.996, 749e-6), (4, 2.7, 1791e-6)):
        per_node = 4096 * 7168 * remote / (nodes - 1)
        group = range(0, 8 * nodes, 8)
        found = seconds(load("dgx-h100", nodes), "alltoall", per_node * nodes, group)
        assert found == pytest.approx(measured, rel=0.2)


# Kernels that forward tokens between nodes and inside.


def exchange(hardware, tokens, size, topk, limit=4):
    """Seconds in which all devices send tokens of 7,168 numbers to their experts."""
    nodes = hardware.devices // 8
    routed = Routed(topk, nodes, min(nodes, limit))
    work = Work(communication=Communication("alltoall", round(tokens * topk * 7168 * size), routed=routed))
    return hardware.cost(work, tuple(range(hardware.devices))).seconds


@pytest.mark.parametrize(
    ("nodes", "tokens", "size", "measured"),
    [
        (1, 131_072, 1 + 4 / 128, 14.69e-3),
        (1, 131_072, 2, 26.91e-3),
        (2, 131_072, 1 + 4 / 128, 22.01e-3),
        (4, 131_072, 1 + 4 / 128, 55.15e-3),
        (4, 131_072, 2, 107.9e-3),
        (4, 128, 1 + 4 / 128, 157.7e-6),
        (4, 128, 2, 267.3e-6),
    ],
)
def test_deepeps_kernels_take_what_was_measured(nodes, tokens, size, measured):
    """Normal kernels on H100, 24 multiprocessors, 8 of 256 experts (aiconfigurator). Rows of 8 nodes contradict it."""
    found = exchange(load("dgx-h100", nodes), tokens, size, 8)
    assert found == pytest.approx(measured, rel=0.16 if tokens > 1024 else 0.25)


def test_who_starts_kernels_that_forward_tokens_gets_what_they_take():
    """NCCL's all-to-all of few tokens is faster, and is not taken instead. A profile without figures has the links'."""
    machine = load("dgx-h100", 2)
    link = machine.levels[-1].links["forwarded"]
    plain = communication("alltoall", 8 * 7168)
    assert exchange(machine, 1, 1, 8) > link.startup > machine.cost(plain, tuple(range(16))).seconds
    stated = parse('extends = "dgx-a100"\n[levels.nvlink]\n' + FORWARDED, nodes=2)
    assert exchange(stated, 4096, 2, 8) > exchange(load("dgx-a100", 2), 4096, 2, 8)


@pytest.mark.parametrize(
    ("profile", "devices", "dispatch", "combine"),
    [
        ("b200", 8, 734.95, 673.84),
        ("gb200", 8, 750.15, 684.27),
        ("gb200", 36, 612.85, 543.27),
        ("dgx-h100", 16, 71.71, 62.95),
        ("dgx-h100", 64, 49.97, 49.77),
    ],
)
def test_hybrideps_kernels_take_what_was_measured(profile, devices, dispatch, combine):
    """GB/s of all that is received, its own part too, or that nodes are sent: 8 experts each (DeepEP, hybrid-ep)."""
    nodes = devices // 8 if profile == "dgx-h100" else 1
    found = with_hybrid_kernels(load(profile, nodes))
    received = 4096 * 7168 * 2 * Routed(8).reached(devices if nodes == 1 else nodes)
    measured = (received / dispatch + received / combine) / 2 / 1e9
    work = Communication("alltoall", 4096 * 7168 * 2 * 8, routed=Routed(8))
    taken = found.cost(Work(communication=work), tuple(range(devices))).seconds
    startup = found.levels[0].links["hybrid"].startup  # for what is done before the kernels
    assert taken - startup == pytest.approx(measured, rel=0.1)
    assert with_hybrid_kernels(load("dgx-a100")) == load("dgx-a100")


FORWARDED = 'forwarded = { startup = "25us", latency = "0us", bandwidth = "120GB/s" }\n'


def test_the_script_finds_the_figures_of_kernels_that_a_table_was_made_of(tmp_path):
    between = 'forwarded = { startup = "25us", latency = "20us", bandwidth = "20GB/s" }\n'
    text = f'extends = "dgx-a100"\n[levels.nvlink]\n{FORWARDED}[levels.infiniband]\n{between}'
    lines = ["# made up", "nodes,hidden,tokens,topk,experts,dispatch_us,combine_us"]
    for nodes in (1, 2, 4):
        truth = parse(text, nodes=nodes)
        for tokens in (2**power for power in range(18)):
            times = ",".join(str(1e6 * exchange(truth, tokens, size, 8)) for size in (1 + 4 / 128, 2))
            lines.append(f"{nodes},7168,{tokens},8,256,{times}")
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines))
    words = [sys.executable, PROFILES / "deepep.py", path, "--like", "dgx-a100", "--source", "ours"]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    found = parse(f'extends = "dgx-a100"\n[sources]\nours = "made up"\n{ended.stdout}', nodes=4)
    truth = parse(text, nodes=4)
    for tokens in (1, 512, 100_000):
        assert exchange(found, tokens, 2, 8) == pytest.approx(exchange(truth, tokens, 2, 8), rel=0.05)
    path.write_text(path.read_text().replace("8,256", "eight,256"))
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "row 1 is no exchange of tokens" in ended.stderr


# Examples.


@pytest.mark.parametrize("path", sorted(PROFILES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_example_profiles_are_valid(path):
    hardware = load(path)
    assert load(path, 2).devices == 2 * hardware.devices
    assert all(figure.source and figure.basis for figure in hardware.figures if not figure.value.startswith("as "))


def test_a_cube_of_tpus_does_an_all_gather_over_all_its_links():
    cube = load("tpu-v5p")
    found = seconds(cube, "allgather", 10**10, range(64))
    assert found == pytest.approx(63 / 64 * 10**10 / (6 * 80e9), rel=0.01)
    axis = seconds(cube, "allgather", 10**10, (0, 16, 32, 48))
    assert axis == pytest.approx(3 / 4 * 10**10 / (2 * 80e9), rel=0.01)


TABLE = "# measured nowhere\npattern,devices,bytes,ms\n"


def table(path, machine):
    """Times that a machine is said to have taken."""
    lines = [
        f"{name},{devices},{2**power},{seconds(machine, pattern, 2**power, range(devices)) * 1e3!r}"
        for name, pattern in (("all_reduce", "allreduce"), ("allgather", "allgather"), ("send_recv", "send"))
        for devices in ((2,) if pattern == "send" else (2, 4, 8))
        for power in range(9, 31)
    ]
    path.write_text(TABLE + "\n".join(lines) + "\n")
    return path


def test_the_script_finds_the_figures_that_a_table_was_made_of(tmp_path):
    truth = parse(
        'extends = "dgx-a100"\n[levels.nvlink]\ncorrection = {}\n'
        'send = { startup = "9us", latency = "2us", bandwidth = "250GB/s" }\n'
        'collective = { startup = "20us", latency = "4us", bandwidth = "150GB/s" }\n'
        'low_latency = { startup = "12us", latency = "1us", bandwidth = "40GB/s" }\n'
    )
    path = table(tmp_path / "table.csv", truth)
    words = [str(path), "--like", "dgx-a100", "--column", "seconds=ms/1000"]
    ended = subprocess.run(
        [sys.executable, PROFILES / "collectives.py", *words], capture_output=True, text=True, check=True
    )
    figures, _, errors = ended.stdout.partition("# ")
    assert float(errors.splitlines()[-1].split()[2].rstrip("%")) < 3
    fitted = parse(f'extends = "dgx-a100"\n[sources]\ntable = "made up"\n{figures}')
    for pattern in ("allreduce", "allgather", "send"):
        for nbytes in (10**4, 10**6, 10**9):
            there, here = (seconds(h, pattern, nbytes, (0, 1)) for h in (truth, fitted))
            assert here == pytest.approx(there, rel=0.1)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("pattern,devices,bytes,seconds\nallreduce,2,1024,soon\n", "`seconds` is `soon`"),
        ("pattern,devices,bytes\nallreduce,2,1024\n", "nothing in the column `seconds`"),
        ("pattern,devices,bytes,seconds\nallreduce,2,0,1\n", "expected a number above zero"),
        ("pattern,devices,bytes,seconds\n", "too few"),
        ("pattern,devices,bytes,seconds\nshuffle,2,8,1\n", "`shuffle` is no pattern"),
        ("pattern,devices,bytes,seconds\nallreduce,99,8,1\n", "has no device 98"),
    ],
)
def test_the_script_names_the_row_that_is_wrong(tmp_path, content, expected):
    path = tmp_path / "table.csv"
    path.write_text(content)
    words = [sys.executable, PROFILES / "collectives.py", path, "--like", "dgx-a100", "--level", "nvlink"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert expected in ended.stderr
    assert "Traceback" not in ended.stderr


CORRECTED = (
    'extends = "dgx-a100"\n[levels.nvlink.correction]\n'
    "allreduce = { devices = [2, 8], bytes = [1024, 1048576], percent = [[50, -20], [10, 0]] }\n"
)


def test_a_correction_multiplies_what_links_say_of_groups_that_were_measured(tmp_path):
    paths = tmp_path / "links.toml", tmp_path / "corrected.toml"
    for path, text in zip(paths, ('extends = "dgx-a100"\nlevels.nvlink.correction = {}\n', CORRECTED), strict=True):
        path.write_text('title = "here"\n' + text)
    links, corrected = (load(str(path)) for path in paths)

    def factor(pattern, nbytes, positions):
        return seconds(corrected, pattern, nbytes, positions) / seconds(links, pattern, nbytes, positions)

    assert factor("allreduce", 1024, range(2)) == pytest.approx(1.5)
    assert factor("allreduce", 1, range(2)) == pytest.approx(1.5)
    assert factor("allreduce", 2**30, (3, 7)) == pytest.approx(0.8)
    assert factor("allreduce", 2**15, range(8)) == pytest.approx(1.05)  # between, in the middle of the logarithms
    assert factor("allreduce", 1024, range(4)) == pytest.approx(1.3)
    assert factor("allgather", 1024, range(2)) == 1
    links, corrected = (load(str(path), 2) for path in paths)
    assert factor("allreduce", 1024, range(8, 10)) == pytest.approx(1.5)
    assert factor("allreduce", 1024, (0, 8)) == 1  # of other links
    assert factor("allreduce", 1024, range(16)) == 1


def test_links_that_change_change_times_that_are_corrected():
    faster = 'collective = { startup = "40us", latency = "2us", bandwidth = "900GB/s" }\n'
    here, there = (parse(text) for text in (CORRECTED, CORRECTED + "[levels.nvlink]\n" + faster))
    assert seconds(there, "allreduce", 10**9, range(8)) < seconds(here, "allreduce", 10**9, range(8)) / 2


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("shuffle = { devices = [2], bytes = [8], percent = [[1]] }", "unknown key `shuffle`"),
        ("gather = { devices = [2], percent = [[1]] }", "correction.gather.bytes` is missing"),
        ("allreduce = { devices = [2], bytes = [8, 4], percent = [[1, 1]] }", "in ascending order"),
        ("allreduce = { devices = [2], bytes = [4, 8], percent = [[1]] }", "1 of 2, as `devices`, `bytes` have"),
    ],
)
def test_a_faulty_correction_of_links_is_named_with_its_line(table, said):
    with pytest.raises(HardwareError) as caught:
        parse(f'extends = "dgx-a100"\n[levels.nvlink.correction]\n{table}\n')
    (problem,) = caught.value.problems
    assert said in problem.message
    assert problem.line == 3


def test_the_script_corrects_links_by_what_is_left(tmp_path):
    truth = parse(CORRECTED)
    path = table(tmp_path / "table.csv", truth)
    plain = tmp_path / "plain.toml"
    plain.write_text('extends = "dgx-a100"\nlevels.nvlink.correction = {}\n')
    words = [str(path), "--like", str(plain), "--level", "nvlink", "--correct", "--column", "seconds=ms/1000"]
    ended = subprocess.run(
        [sys.executable, PROFILES / "collectives.py", *words], capture_output=True, text=True, check=True
    )
    last = ended.stdout.splitlines()[-1]
    assert float(last.split()[2].rstrip("%")) < 2
    figures = "\n".join(line for line in ended.stdout.splitlines() if not line.startswith("#"))
    fitted = parse(f'extends = "dgx-a100"\n[sources]\ntable = "made up"\n{figures}')
    for nbytes in (10**4, 10**6, 10**9):
        there, here = (seconds(h, "allreduce", nbytes, range(8)) for h in (truth, fitted))
        assert here == pytest.approx(there, rel=0.1)
