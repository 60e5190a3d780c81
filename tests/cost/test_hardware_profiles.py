"""The profiles that come with DistIR, and finding, extending and describing profiles."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cost_samples import seconds, small_profile, toml
from hypothesis import given
from hypothesis import strategies as st

import distir.cost
from distir.cost import DEFAULT, HardwareError, describe, larger, load, parse, profiles
from distir.cost.catalogue import most_memory
from distir.ir import DTYPES
from distir.ops.resources import Communication, Work

FOLDER = Path(distir.cost.__file__).parent / "profiles"
README = (FOLDER / "README.md").read_text(encoding="utf-8")


PUBLISHED = 'extends = "dgx-a100"\n[published]\nlow = {low}\nhigh = {high}\napart = 0.1\n'


def test_errors_of_published_runs_are_read_and_kept_by_profiles_that_extend_it():
    errors = parse(PUBLISHED.format(low=0.9, high=1.2)).published
    assert (errors.low, errors.high, errors.apart) == (0.9, 1.2, 0.1)
    assert parse('extends = "dgx-a100"\n[kinds.a100]\nlaunch = "3us"\n').published == load("dgx-a100").published
    assert load("laptop-cpu").published is None


def test_errors_of_published_runs_whose_ends_are_swapped_are_refused():
    with pytest.raises(HardwareError, match="not above `high`"):
        parse(PUBLISHED.format(low=1.2, high=0.9))


def test_the_shipped_profiles():
    assert profiles() == sorted(
        ["dgx2-v100", "dgx-a100", "dgx-h100", "h200", "laptop-cpu"]
        + ["a100-40", "b200", "b300", "gb200", "gb300", "h100-96", "l40s"]
        + ["2x-dgx2-v100", "tpu-v5p", "trainium2"]
        + ["a800", "gh200", "h20", "h800", "mi300x", "mi325x", "mi355x"]
    )
    assert DEFAULT in profiles()


@pytest.mark.parametrize("name", profiles())
class TestShipped:
    def test_every_figure_cites_a_source_and_says_how_it_was_found(self, name):
        hardware = load(name)
        for figure in hardware.figures:
            if figure.value.startswith("as "):
                continue
            assert figure.source, figure
            assert figure.basis, figure
            assert all(key in hardware.sources for key in figure.source.split(", "))
            if figure.basis in ("derived", "estimated"):
                assert figure.note or name == "laptop-cpu" or "launch" in figure.name, figure

    def test_every_source_is_cited(self, name):
        hardware = load(name)
        cited = {key for figure in hardware.figures for key in figure.source.split(", ")}
        assert cited >= set(hardware.sources)

    def test_it_can_compute_with_every_element_type(self, name):
        for kind in load(name).kinds:
            assert set(kind.rates) == set(DTYPES.values())
            for rate in kind.rates.values():
                assert all(0 < achieved <= rate.peak for _, achieved in rate.points)

    def test_the_readme_names_it(self, name):
        assert f"`{name}`" in README

    def test_it_can_be_described(self, name):
        rows = describe(load(name))
        assert rows[0][:2] == ("devices", str(load(name).devices))
        assert all(row.figure and row.value for row in rows)


@pytest.mark.parametrize(
    ("name", "devices", "memory"),
    [("dgx2-v100", 16, 32e9), ("dgx-a100", 8, 80e9), ("dgx-h100", 8, 80e9), ("h200", 8, 141e9), ("2x-h200", 16, 141e9)]
    + [("a100-40", 8, 40e9), ("b200", 8, 180e9), ("gb200", 72, 186e9), ("b300", 8, 270e9), ("gb300", 72, 279e9)]
    + [("tpu-v5p", 64, 95 * 2**30), ("trainium2", 16, 96 * 2**30)]
    + [("a800", 8, 80e9), ("h800", 8, 80e9), ("h20", 8, 96e9), ("gh200", 2, 144e9)]
    + [("mi300x", 8, 192e9), ("mi325x", 8, 256e9), ("mi355x", 8, 288e9)],
)
def test_sizes(name, devices, memory):
    hardware = load(name)
    assert hardware.devices == devices
    assert {hardware.capacity(position) for position in range(devices)} == {memory}


@pytest.mark.parametrize(("name", "of", "share"), [("a800", "dgx-a100", 8 / 12), ("h800", "dgx-h100", 8 / 18)])
def test_what_was_sold_with_fewer_links_computes_the_same_and_has_its_share_of_them(name, of, share):
    less, whole = load(name), load(of)
    assert less.kinds[0].products == whole.kinds[0].products
    assert less.kinds[0].attention == whole.kinds[0].attention
    for use in ("send", "collective", "low_latency"):
        assert less.levels[0].links[use].bandwidth == pytest.approx(
            share * whole.levels[0].links[use].bandwidth, rel=0.01
        )
    assert seconds(load(f"{name}x2"), "send", 10**9, (0, 8)) == seconds(load(f"{of}x2"), "send", 10**9, (0, 8))
    assert less.published == load("h200").published  # that of all runs: those of the other are not of it


@pytest.mark.parametrize(
    ("nbytes", "measured"), [(2**10, 13.7e-6), (2**18, 17.4e-6), (2**24, 150e-6), (2**26, 432e-6), (2**30, 5990e-6)]
)
def test_an_all_reduce_of_8_mi300x_takes_what_was_measured(nbytes, measured):
    assert seconds(load("mi300x"), "allreduce", nbytes, range(8)) == pytest.approx(measured, rel=0.1)


def test_8_bit_floats_of_amd_are_fast_in_the_forms_that_its_devices_have():
    for name, has, lacks in (
        ("mi300x", "Float8E4M3FNUZ", "Float8E4M3FN"),
        ("mi355x", "Float8E4M3FN", "Float8E4M3FNUZ"),
    ):
        rates = load(name).kinds[0].rates
        assert rates[DTYPES[has]].peak == pytest.approx(2 * rates[DTYPES["BFloat16"]].peak, rel=1e-3)
        assert rates[DTYPES[lacks]].instead == "Float16"


# Finding profiles.


def test_a_path_works_where_a_name_does(tmp_path, monkeypatch):
    path = tmp_path / "mine.toml"
    path.write_text(toml(small_profile()))
    monkeypatch.chdir(tmp_path)
    assert load(path) is load(str(path)) is load("mine.toml") is load("./mine.toml")
    assert load(path).name == "mine"


def test_a_profile_is_read_again_when_its_file_or_one_that_it_extends_changes(tmp_path):
    base, path = tmp_path / "base.toml", tmp_path / "mine.toml"
    base.write_text(toml(small_profile()))
    path.write_text('extends = "base.toml"\n')
    before = load(path)
    assert load(path) is before
    base.write_text(toml({**small_profile(), "title": "changed"}))
    os.utime(base, ns=(1, 1))
    assert load(path).title == "changed"
    base.unlink()
    with pytest.raises(HardwareError):
        load(path)


def test_unknown_names_are_refused_with_the_nearest_and_all():
    with pytest.raises(HardwareError) as caught:
        load("dgx-a10")
    (problem,) = caught.value.problems
    assert problem.message == "unknown hardware `dgx-a10`"
    assert "did you mean `dgx-a100`?" in problem.help
    assert all(name in problem.help for name in profiles())


@pytest.mark.parametrize(
    ("name", "near"), [("h900", "h200"), ("h100-nvl", "dgx-h100"), ("a100-pcie", "dgx-a100"), ("mi308x", "mi300x")]
)
def test_an_unknown_machine_near_a_known_one_is_a_profile_of_two_lines(name, near, tmp_path):
    with pytest.raises(HardwareError) as caught:
        load(name)
    (problem,) = caught.value.problems
    said = re.findall(r"`([^`]+)`", problem.help.split("as in", 1)[1])
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(said[:2]))
    mine, whole = load(path), load(near)
    inside = mine.levels[0].links["collective"].bandwidth / whole.levels[0].links["collective"].bandwidth
    assert inside == pytest.approx(0.5)
    assert mine.kinds == whole.kinds


# Extending.


def test_an_extension_adds_and_replaces(tmp_path):
    path = tmp_path / "four.toml"
    path.write_text("""
        extends = "2x-dgx2-v100"
        [sources]
        me = "measured"
        [[groups]]
        kind = "v100"
        count = 64
        [levels.infiniband]
        devices = 64
        send = { startup = "0s", latency = "0s", bandwidth = "1GB/s", uplink = "1GB/s", source = "me" }
        [kinds.v100]
        launch = "3us"
        [kinds.v100.flops.Float64]
        peak = "1TFLOP/s"
        achieved = "1TFLOP/s"
    """)
    four, two = load(path), load("2x-dgx2-v100")
    assert four.devices == 64
    assert four.kind(0).launch == 3e-6
    assert four.kind(0).bandwidth == two.kind(0).bandwidth
    assert four.kind(0).rates[DTYPES["Float64"]].peak == 1e12
    assert four.kind(0).rates[DTYPES["Float16"]] == two.kind(0).rates[DTYPES["Float16"]]
    assert seconds(four, "send", 10**9, (0, 63)) == pytest.approx(1)
    assert seconds(four, "allreduce", 10**9, range(32)) == seconds(two, "allreduce", 10**9, range(32))
    assert {"me", "edr", "nccl-net"} <= set(four.sources)


def test_what_replaces_a_figure_does_not_keep_its_source():
    hardware = parse('extends = "dgx-a100"\n[kinds.a100]\nlaunch = "3us"\n')
    (launch,) = [figure for figure in hardware.figures if figure.name == "a100 launch"]
    assert (launch.value, launch.unit, launch.source, launch.basis) == ("3", "us", "", "")


def test_an_empty_table_drops_what_a_profile_inherits():
    whole = load("dgx-h100")
    dropped = ("published", "levels.nvlink.switch", "kinds.h100.products", "kinds.h100.host_memory")
    less = parse("\n".join(['extends = "dgx-h100"', *(f"{name} = {{}}" for name in dropped)]))
    assert whole.published
    assert whole.kinds[0].products
    assert whole.kinds[0].host_memory
    assert less.published is less.kinds[0].host_memory is None
    assert not less.kinds[0].products
    assert set(whole.levels[0].links) - set(less.levels[0].links) == {"switch"}
    assert not any("switch" in figure.name for figure in less.figures)
    assert less.kinds[0].attention == whole.kinds[0].attention


def test_an_empty_table_that_a_profile_needs_is_missed():
    with pytest.raises(HardwareError, match=r"`levels.nvlink.send`: an empty table drops .* must be there") as caught:
        parse('extends = "dgx-h100"\nlevels.nvlink.send = {}\n')
    (problem,) = caught.value.problems
    assert problem.line == 2


def test_a_heading_with_nothing_below_changes_nothing():
    plain = load("dgx-h100")
    same = parse('extends = "dgx-h100"\n[sources]\n[kinds.h100]\n[levels.nvlink]\n')
    assert (same.sources, same.figures, same.levels) == (plain.sources, plain.figures, plain.levels)


def test_one_device_of_a_profile():
    hardware = parse('extends = "dgx-a100"\n[[groups]]\nkind = "a100"\ncount = 1\n')
    assert hardware.devices == 1
    assert seconds(hardware, "allreduce", 10**9, (0,)) == 0


# Device numbers.


def test_device_numbers_count_from_one_unless_zero_is_used():
    hardware = load("dgx-a100")
    assert hardware.place([1, 2, 8]) == {1: 0, 2: 1, 8: 7}
    assert hardware.place({0, 7}) == {0: 0, 7: 7}
    assert hardware.place([]) == {}
    assert hardware.place([5]) == {5: 4}


@pytest.mark.parametrize(("numbers", "beyond", "last"), [([1, 9], "device `9`", "1 to 8"), ([0, 8], "`8`", "0 to 7")])
def test_more_devices_than_there_are(numbers, beyond, last):
    with pytest.raises(HardwareError) as caught:
        load("dgx-a100").place(numbers)
    assert beyond in str(caught.value)
    assert last in str(caught.value)
    assert "`dgx-a100` has 8 devices" in str(caught.value)
    assert "help:" in str(caught.value)


def test_many_numbers_beyond_are_not_all_listed():
    with pytest.raises(HardwareError, match="…") as caught:
        load("dgx-a100").place(range(1, 5000))
    assert len(str(caught.value)) < 300


def test_the_host_is_no_device():
    with pytest.raises(ValueError, match="-1"):
        load().place([-1, 1])


# The documentation.


def test_the_examples_of_the_readme_are_profiles():
    examples = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    full, several, torus, linked, measured, by_shape, corrected, extension, kinds = examples
    assert parse(full).devices == 8
    assert parse(several, nodes=64).devices == 512
    assert parse(torus).devices == 16
    assert parse(linked).devices == 4
    assert parse(linked).levels[0].fully_connected
    assert parse(measured).uncertain
    kind = parse(by_shape).kinds[0]
    assert kind.products
    assert kind.attention
    found = parse(corrected)
    assert found.kinds[0].products["BFloat16"].correction
    assert set(found.levels[0].corrections) == {"allreduce"}
    assert parse(extension).devices == 4
    assert 'blocks = ["0-7", "8-11"]' in kinds


@pytest.mark.parametrize("name", ["dgx2-v100", "dgx-a100", "dgx-h100", "h200"])
def test_more_nodes_are_like_two(name):
    two, four = load(f"{name}x2"), load(f"{name}x4")
    assert four.devices == 2 * two.devices
    assert load(four.name) is four
    work = Work(communication=Communication("send", 10**9))
    each = two.devices // 2
    for here, there in ((0, 1), (0, each), (each - 1, each)):
        cost = two.cost(work, (here, there))
        assert four.cost(work, (here, there)) == four.cost(work, (here + 2 * each, there + 2 * each)) == cost
    assert four.cost(work, (0, 3 * each)) == two.cost(work, (0, each))
    group = tuple(range(four.devices))
    assert four.cost(Work(communication=Communication("allreduce", 10**9)), group).seconds > 0


@pytest.mark.parametrize("name", ["3x-nothing", "-3x-dgx-a100", "x-h200", "nothingx3", "h200x", "h200x-3"])
def test_what_is_no_number_of_nodes_is_unknown(name):
    with pytest.raises(HardwareError, match="unknown hardware"):
        load(name)


def test_a_machine_has_one_description_whatever_it_is_called():
    for name, meant in (("h100", "dgx-h100"), ("a100-80", "dgx-a100")):
        assert name not in profiles()
        assert load(name) is load(meant)
        assert load(f"{name}x4") is load(meant, 4) is load(f"4x-{name}")
        kind = load(name).kinds[0]
        assert kind.products
        assert kind.attention
        assert kind.process.context
    assert load("2x-dgx-a100") is load("dgx-a100", 2)


NODES = ["dgx2-v100", "dgx-a100", "dgx-h100", "h200"]


@pytest.mark.parametrize("name", NODES)
def test_a_node_is_any_number_of_them(name):
    node, many = load(name), load(f"{name}x4096")
    assert load(f"{name}x1") is load(name, 1) is load(f"1x-{name}") is node
    assert many is load(name, nodes=4096) is load(f"4096x-{name}")
    assert many.devices == 4096 * node.devices
    assert many.name == f"{name}x4096"
    assert "4096 nodes" in many.title
    last = many.devices - 1
    assert many.kind(last) == node.kind(node.devices - 1)
    assert seconds(many, "send", 10**9, (last - 1, last)) == seconds(node, "send", 10**9, (0, 1))
    two, old = load(f"{name}x2"), load(f"2x-{name}")
    everyone = range(two.devices)
    for pattern in ("allreduce", "allgather", "reducescatter", "alltoall"):
        assert seconds(two, pattern, 10**9, everyone) == seconds(old, pattern, 10**9, everyone)


@pytest.mark.parametrize("name", [name for name in profiles() if load(name).network is not None])
def test_a_node_with_a_network_is_many(name):
    assert load(f"{name}x4096").devices == 4096 * load(name).devices
    assert {"dgx-a100", "dgx-h100", "b200", "gb200"} <= {name for name in profiles() if load(name).network is not None}


@pytest.mark.parametrize("nodes", [0, 4097, 10**30])
def test_a_number_of_nodes_that_is_none(nodes):
    for wrong in (lambda: load(f"h200x{nodes}"), lambda: load("h200", nodes), lambda: load(f"{nodes}x-h200")):
        with pytest.raises(HardwareError, match="expected a number of nodes from 1 to 4096") as caught:
            wrong()
        assert len(caught.value.problems) == 1


def test_nodes_are_stated_once():
    for name in ("h200x2", "2x-h200x3"):
        with pytest.raises(HardwareError):
            load(name, 3)


def test_a_profile_without_a_network_says_what_to_add(tmp_path):
    assert load("laptop-cpux1") is load("laptop-cpu")
    with pytest.raises(HardwareError) as caught:
        load("laptop-cpux2")
    (problem,) = caught.value.problems
    assert "no level joins nodes" in problem.message
    assert '`devices = "nodes"`' in problem.help
    assert problem.line


def test_a_file_is_any_number_of_nodes_too(tmp_path):
    path = tmp_path / "node.toml"
    path.write_text('extends = "dgx-h100"\n')
    assert load(f"{path}x3").devices == load(path, 3).devices == 24
    path.write_text('extends = "dgx-h100x3"\n[kinds.h100]\nlaunch = "1us"\n')
    assert load(path).devices == 24
    with pytest.raises(HardwareError, match="extends 3 nodes"):
        load(path, 2)


def test_a_machine_takes_no_room_for_each_device():
    import tracemalloc

    path = FOLDER / "dgx-h100.toml"
    tracemalloc.start()
    try:
        sizes = []
        for nodes in (16, 4096):
            before = tracemalloc.get_traced_memory()[0]
            machine = parse(f'extends = "{path}"', "mine", nodes)
            machine.cost(Work(communication=Communication("send", 1)), (0, machine.devices - 1))
            sizes.append(tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()
    assert sizes[1] < 1.5 * sizes[0]


@given(st.sampled_from(profiles()), st.integers(1, 1000))
def test_a_machine_with_devices_enough_is_named_and_no_node_more_than_it_takes(name, devices):
    found, words = larger.with_devices(load(name), devices)
    machine = load(found)
    assert machine.devices >= devices
    nodes = machine.devices // larger_node(found)
    assert words == f"{nodes} node{'' if nodes == 1 else 's'}, {machine.devices} devices"
    assert machine.devices - larger_node(found) < devices


def larger_node(name):
    """The devices of one node of a machine."""
    return load(re.sub(r"^\d+x-|x\d+$", "", name)).devices


@given(st.sampled_from(profiles()), st.integers(1, 200), st.integers(1, 200 * 10**9))
def test_a_machine_with_memory_enough_is_named(name, devices, nbytes):
    found = larger.with_memory(load(name), devices, nbytes)
    if found is None:
        return
    machine = load(found)
    assert machine.devices >= devices
    assert machine.capacity(0) >= nbytes > load(name).capacity(0)


@pytest.mark.parametrize("name", profiles())
def test_a_glance_at_a_profile_tells_the_most_memory_of_its_devices(name):
    machine = load(name)
    assert most_memory(name) >= max(machine.capacity(position) for position in range(machine.devices))


def test_a_hint_of_more_memory_does_not_read_all_machines():
    program = "import distir.cost.catalogue as c, distir.cost.larger as larger\n"
    program += "machine = c.load('dgx-a100')\n"
    program += (
        "assert larger.memory_in_words(machine, 8, 150 * 10**9) == '`b200` is large enough: 8 devices of 180GB'\n"
    )
    program += "assert larger.memory_in_words(machine, 8, 10**15) is None\n"
    program += "print({path.stem for path, _ in c._loaded})"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert "l40s" not in ran.stdout
    assert "b200" in ran.stdout


@pytest.mark.parametrize("name", sorted({*profiles()} - {"laptop-cpu", "2x-dgx2-v100"}))
@pytest.mark.parametrize("nodes", [1, 2, 4096])
def test_every_node_has_a_network_of_any_number_of_nodes(name, nodes):
    node, many = load(name), load(f"{name}x{nodes}")
    assert many.devices == nodes * node.devices
    if nodes > 1:
        assert seconds(many, "allreduce", 1 << 20, (0, node.devices)) > seconds(many, "allreduce", 1 << 20, (0, 1))


def test_two_nodes_are_no_node_of_more():
    for name, nodes in (("2x-dgx2-v100x3", None), ("2x-dgx2-v100", 3)):
        with pytest.raises(HardwareError, match="is 2 nodes already") as caught:
            load(name, nodes)
        assert "`dgx2-v100x3`" in caught.value.problems[0].help
    assert load("2x-dgx2-v100", 1).devices == 32
