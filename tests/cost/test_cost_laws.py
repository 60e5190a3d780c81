"""What holds of every machine, for every work."""

import copy
import math
import pickle
from dataclasses import replace
from itertools import pairwise

import pytest
from cost_samples import COLLECTIVES, PATTERNS, communication, groups, machines, seconds, sizes, works
from hypothesis import assume, given
from hypothesis import strategies as st

from distir.cost import ALGORITHMS, FREE, CollectiveSeconds, algorithm, load, parse
from distir.cost.collectives import hierarchical, hierarchical_allreduce, ring, ring_allreduce
from distir.cost.topology import ranks_of
from distir.ops.resources import NO_WORK, Work

BOUNDS = {"compute", "memory", "latency", "link", "free"}


CORRECTED = ("dgx-a100", "dgx-h100", "h200", "b200", "gb200")


def ranks(hardware, positions, use="collective"):
    return ranks_of(hardware._blocks, positions, lambda level: hardware.levels[level].links.get(use))


@given(st.data(), machines(), works, st.sampled_from(PATTERNS), sizes)
def test_costs_are_finite_and_not_negative(data, hardware, work, pattern, nbytes):
    positions = data.draw(groups(hardware))
    root = data.draw(st.sampled_from(positions))
    for cost in (hardware.cost(work, positions), hardware.cost(communication(pattern, nbytes, root), positions)):
        assert math.isfinite(cost.seconds)
        assert cost.seconds >= 0
        assert cost.bound in BOUNDS


@given(machines(), works)
def test_more_arithmetic_or_traffic_never_takes_less_time(hardware, work):
    before = hardware.cost(work, (0,)).seconds
    for more in (Work(work.flops * 2 + 1, work.bytes, work.dtype), Work(work.flops, work.bytes * 2 + 1, work.dtype)):
        assert hardware.cost(more, (0,)).seconds >= before * (1 - 1e-12)


@given(st.data(), machines(), st.sampled_from(PATTERNS), sizes, sizes)
def test_more_bytes_never_take_less_time(data, hardware, pattern, a, b):
    positions = data.draw(groups(hardware, least=2))
    less, more = sorted((a, b))
    assert seconds(hardware, pattern, less, positions) <= seconds(hardware, pattern, more, positions) * (1 + 1e-12)


@given(st.sampled_from(CORRECTED), st.sampled_from(PATTERNS), st.integers(2, 8), sizes, sizes)
def test_more_bytes_never_take_less_time_in_profiles_fitted_to_measurements(name, pattern, devices, a, b):
    hardware = load(name)
    group, (less, more) = range(min(devices, hardware.devices)), sorted((a, b))
    # Corrections are in whole per cent.
    assert seconds(hardware, pattern, less, group) <= seconds(hardware, pattern, more, group) * 1.015


@given(st.sampled_from(CORRECTED), st.sampled_from(["allreduce", "allgather", "reducescatter"]), st.integers(24, 30))
def test_more_devices_make_a_large_collective_faster_by_what_other_algorithms_bring_at_most(name, pattern, power):
    hardware = load(name)
    times = [seconds(hardware, pattern, 2**power, range(n)) for n in (2, 4, 8) if n <= hardware.devices]
    assert all(more >= less * 0.75 for less, more in pairwise(times))


def test_no_work_is_free():
    assert load().cost(NO_WORK, (0,)) == FREE
    assert load().cost(Work(temporary=10**9), (0, 1)) == FREE


@given(st.data(), machines(), st.sampled_from(PATTERNS), sizes)
def test_alone_a_device_communicates_for_free(data, hardware, pattern, nbytes):
    (position,) = data.draw(groups(hardware).map(lambda positions: positions[:1]))
    assert hardware.cost(communication(pattern, nbytes, position), (position,)) == FREE


@given(st.data(), machines(), st.sampled_from(COLLECTIVES), sizes, st.randoms())
def test_the_order_of_the_devices_does_not_count(data, hardware, pattern, nbytes, random):
    positions = data.draw(groups(hardware, least=2))
    shuffled = random.sample(positions, len(positions))
    root = positions[0]
    there, here = (
        seconds(hardware, pattern, nbytes, shuffled, root),
        seconds(hardware, pattern, nbytes, positions, root),
    )
    assert there == pytest.approx(here)


FAT_TREE = parse('extends = "dgx-h100"\n[levels.infiniband]\nfabric = { kind = "fat tree" }\n', "fat-tree", nodes=2)


@given(st.data(), st.sampled_from([FAT_TREE, load("2x-dgx2-v100")]), st.sampled_from(PATTERNS), sizes, st.randoms())
def test_devices_of_a_node_may_be_renamed_and_nodes_may_be_swapped(data, hardware, pattern, nbytes, random):
    node = hardware.devices // 2
    positions = data.draw(groups(hardware, least=2))
    first, second = random.sample(range(node), node), random.sample(range(node, 2 * node), node)
    renaming = [*second, *first] if random.random() < 0.5 else [*first, *second]
    renamed = tuple(renaming[p] for p in positions)
    assert hardware.shape(positions) == hardware.shape(renamed)
    assert seconds(hardware, pattern, nbytes, positions) == pytest.approx(
        seconds(hardware, pattern, nbytes, renamed), rel=1e-12
    )


@given(st.data(), machines(), works, st.sampled_from(PATTERNS), sizes)
def test_positions_of_equal_shape_cost_the_same(data, hardware, work, pattern, nbytes):
    a = data.draw(groups(hardware))
    b = data.draw(st.permutations(range(hardware.devices)).map(lambda order: tuple(order[: len(a)])))
    assume(hardware.shape(a) == hardware.shape(b))
    assert hardware.cost(work, a) == hardware.cost(work, b)
    assert seconds(hardware, pattern, nbytes, a) == pytest.approx(seconds(hardware, pattern, nbytes, b))


@given(st.data(), machines(), sizes)
def test_an_allreduce_never_beats_its_bandwidth(data, hardware, nbytes):
    positions = data.draw(groups(hardware, least=2))
    n = len(positions)
    assume(n > 1)
    # Without help from a switch, each device sends 2(n-1)/n of the payload; with it, the payload once.
    fastest = max(link.bandwidth for level in hardware.levels for link in level.links.values())
    switched = any("switch" in level.links for level in hardware.levels)
    wire = nbytes if switched else 2 * (n - 1) / n * nbytes
    # Several devices of a node drive its links together: a device's share of the work is what its own link carries.
    assert seconds(hardware, "allreduce", nbytes, positions) >= wire / fastest / n * (1 - 1e-9)
    if len(hardware.levels) == 1:
        assert seconds(hardware, "allreduce", nbytes, positions) >= wire / fastest * (1 - 1e-9)


# Not so where the switch adds: of its work, 1/n falls on each device.
@given(st.sampled_from(["dgx-a100", "dgx2-v100", "2x-dgx-a100", "laptop-cpu"]), sizes)
def test_more_devices_never_make_a_collective_faster_by_links_alone(name, nbytes):
    hardware = load(name)
    hardware = replace(hardware, levels=tuple(replace(level, corrections={}) for level in hardware.levels))
    for pattern in ("broadcast", "reduce", "allreduce", "allgather", "reducescatter"):
        times = [seconds(hardware, pattern, nbytes, range(n)) for n in (1, 2, 4, hardware.devices)]
        assert times == sorted(times), pattern


@given(st.data(), machines(), sizes)
def test_reduce_scatter_and_all_gather_make_an_all_reduce(data, hardware, nbytes):
    positions = data.draw(groups(hardware, least=2))
    members = tuple(sorted(positions))
    assume(len(members) > 1)
    group = ranks(hardware, members)
    for half, whole in ((ring, ring_allreduce), (hierarchical, hierarchical_allreduce)):
        assert sum(whole(group, nbytes)) == pytest.approx(2 * sum(half(group, nbytes)))
    parts = seconds(hardware, "reducescatter", nbytes, positions) + seconds(hardware, "allgather", nbytes, positions)
    assert seconds(hardware, "allreduce", nbytes, positions) <= parts * (1 + 1e-9)


@given(st.data(), machines(), sizes)
def test_in_one_node_hierarchical_is_flat(data, hardware, nbytes):
    members = tuple(sorted(data.draw(groups(hardware, least=2))))
    assume(len(members) > 1)
    group = ranks(hardware, members)
    assume(len(group.tiers) == 1)
    assert sum(hierarchical(group, nbytes)) == pytest.approx(sum(ring(group, nbytes)))


@pytest.mark.parametrize(("one", "two"), [("dgx-a100", "2x-dgx-a100"), ("dgx2-v100", "2x-dgx2-v100")])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_second_node_changes_nothing_inside_the_first(one, two, pattern):
    positions = (0, 1, 3, 7)
    for nbytes in (0, 1000, 10**6, 10**9):
        inside = seconds(load(two), pattern, nbytes, positions)
        assert inside == pytest.approx(seconds(load(one), pattern, nbytes, positions))
        assert seconds(load(two), pattern, nbytes, (0, 1, 3, load(two).devices - 1)) > inside


def test_the_slowest_kind_decides(two_kinds):
    work = Work(flops=10**12, bytes=10**9)
    slow, fast = two_kinds.cost(work, (2,)), two_kinds.cost(work, (0,))
    assert slow.seconds > fast.seconds
    assert two_kinds.cost(work, (0, 2)) == slow


def test_the_innermost_level_that_holds_both_links_two_devices(two_kinds):
    assert seconds(two_kinds, "send", 10**9, (0, 1)) == pytest.approx(0.01)
    assert seconds(two_kinds, "send", 10**9, (2, 4)) == pytest.approx(0.02)
    assert seconds(two_kinds, "send", 10**9, (1, 2)) == pytest.approx(0.5)


@pytest.fixture
def two_kinds():
    def link(bandwidth):
        figures = f'{{ startup = "0s", latency = "0s", bandwidth = "{bandwidth}" }}'
        return f"send = {figures}\ncollective = {figures}"

    def kind(name, rate):
        return f"""
        [kinds.{name}]
        title = "{name}"
        memory = "1GB"
        launch = "0s"
        memory_bandwidth = {{ peak = "1TB/s", achieved = "1TB/s" }}
        flops.Float32 = {{ peak = "{rate}", achieved = "{rate}" }}
        flops.other = {{ like = "Float32" }}
        """

    return parse(f"""
        title = "two fast devices and three slow ones"
        groups = [{{ kind = "fast", count = 2 }}, {{ kind = "slow", count = 3 }}]
        {kind("fast", "10TFLOP/s")}
        {kind("slow", "1TFLOP/s")}
        [levels.new]
        blocks = ["0-1"]
        {link("100GB/s")}
        [levels.old]
        blocks = ["2-4"]
        {link("50GB/s")}
        [levels.between]
        devices = 5
        {link("2GB/s")}
    """)


def test_groups_that_are_not_contiguous_go_by_how_many_members_each_node_has():
    hardware = load("2x-dgx-a100")
    # Four network cards carry what one would; 5 + 3 go at the pace of the 3.
    even, lopsided, pair = (0, 1, 2, 3, 8, 9, 10, 11), (0, 1, 2, 3, 4, 8, 9, 10), (0, 8)
    times = [seconds(hardware, "broadcast", 10**10, positions) for positions in (even, lopsided)]
    assert times == pytest.approx([10**10 / (4 * 24e9), 10**10 / (3 * 24e9)], rel=0.01)
    assert seconds(hardware, "allreduce", 10**10, pair) == pytest.approx(10**10 / 24e9, rel=0.01)


def test_the_root_of_scatter_and_gather_counts():
    hardware = load("2x-dgx-a100")
    group = (0, 1, 2, 3, 8)
    for pattern in ("scatter", "gather"):
        assert seconds(hardware, pattern, 10**9, group, 8) > seconds(hardware, pattern, 10**9, group, 0)


def test_an_op_computes_while_it_communicates():
    hardware = load()
    computing, moving = Work(flops=10**12), communication("allreduce", 10**9)
    both = Work(flops=10**12, communication=moving.communication)
    times = [hardware.cost(work, (0, 1)).seconds for work in (computing, moving, both)]
    assert times[2] == max(times[:2])


def test_a_root_elsewhere_is_refused():
    with pytest.raises(ValueError, match="root 5"):
        seconds(load(), "broadcast", 10, (0, 1), 5)


def test_an_algorithm_is_one_function():
    def instant(ranks, nbytes):
        return CollectiveSeconds(0.0, 0.0)

    before = seconds(load(), "alltoall", 10**9, (0, 1))
    algorithm("alltoall")(instant)
    try:
        assert seconds(load(), "alltoall", 10**9, (0, 1)) < before
    finally:
        ALGORITHMS["alltoall"].pop()
    assert seconds(load(), "alltoall", 10**9, (0, 1)) == before


def test_every_pattern_has_an_algorithm():
    assert set(ALGORITHMS) == set(PATTERNS)


def test_hardware_is_a_value():
    hardware = load("2x-dgx-h100")
    seconds(hardware, "allreduce", 10**6, range(16))
    same = copy.deepcopy(hardware)
    assert same == hardware
    assert hash(same) == hash(hardware)
    assert same != load("dgx-h100")
    assert same.cost(Work(10**9, 10**6), (0,)) == hardware.cost(Work(10**9, 10**6), (0,))


def test_hardware_can_be_sent_to_another_process():
    assert pickle.loads(pickle.dumps(load())) == load()
