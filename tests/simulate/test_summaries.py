"""Calls that are summarised, looked into, and inlined give the same numbers to the last bit."""

import os
import random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from simulate_samples import inlined, machine, random_module, tensor

from distir.analysis import check
from distir.cost import Cost
from distir.ir import Module
from distir.ir.builder import FunctionBuilder
from distir.ops import Work
from distir.ops.work import Communication
from distir.simulate import simulate
from distir.simulate.effects import Effect, to_seconds, to_ticks
from distir.simulate.summary import retreat, run, summarise, totals

PROGRAMS = int(os.environ.get("DISTIR_TEST_PROGRAMS", "100"))
MACHINE = machine()

quick = settings(max_examples=PROGRAMS, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


# Summaries of random bodies, without any program around them.


def effect(devices, seconds):
    communication = Communication("all_reduce", 1) if len(devices) > 1 else None
    cost = Cost(seconds, "compute")
    return Effect("Op", Work(communication=communication), devices, cost, to_ticks(seconds), (), (), False, (), ())


groups = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True).map(lambda group: tuple(sorted(group)))
effects = st.builds(effect, groups, st.floats(0, 1e3, allow_subnormal=False))


def numbered(steps):
    """How many events come before each step."""
    counts = [len(step[1]) if isinstance(step, tuple) else 1 for step in steps]
    return [sum(counts[:i]) for i in range(len(counts))]


@st.composite
def bodies(draw, depth=3):
    """A body as its summary, and as the ops that it has if inlined."""
    steps = draw(st.lists(effects, min_size=1, max_size=8))
    if depth:
        callees = draw(st.lists(bodies(depth - 1), max_size=2))
        if callees:
            steps += draw(st.lists(st.sampled_from(callees), max_size=4))
            steps = draw(st.permutations(steps))
    flat = [op for step in steps for op in (step[1] if isinstance(step, tuple) else (step,))]
    return summarise([s[0] if isinstance(s, tuple) else s for s in steps], numbered(steps)), flat


def clocks_of(flat, draw):
    devices = sorted({device for op in flat for device in op.devices})
    return {device: to_ticks(draw(st.floats(0, 1e4, allow_subnormal=False))) for device in devices}


@settings(max_examples=300, deadline=None)
@given(bodies(), st.data())
def test_a_summary_moves_clocks_as_the_ops_do(body, data):
    summary, flat = body
    begun = clocks_of(flat, data.draw)
    expected, found = dict(begun), dict(begun)
    run(flat, expected)
    run([summary], found)
    assert found == expected
    retreat(reversed(flat), expected)
    retreat([summary], found)
    assert found == expected
    assert totals([summary]) == totals(flat)
    assert summary.last == {d: max(i for i, op in enumerate(flat) if d in op.devices) for d in begun}


@settings(max_examples=100, deadline=None)
@given(st.lists(effects, min_size=1, max_size=12))
def test_a_summary_holds_the_longest_chain_between_any_two_devices(flat):
    summary = summarise(flat, range(len(flat)))
    for start in summary.devices:
        far = to_ticks(1e9)  # so late that every chain from this device is longer than any other
        chains = {device: far if device == start else 0 for device in summary.devices}
        run(flat, chains)
        delays = {start: summary.ticks} if len(summary.devices) == 1 else {}
        for device, row, ticks in summary.ends:
            delays.update((device, delay + ticks) for source, delay in summary.rows[row] if source == start)
        assert delays == {device: end - far for device, end in chains.items() if end >= far}


def test_devices_that_an_op_joins_share_one_row():
    steps = [effect((1, 2, 3, 4), 1.0), effect((1,), 2.0), effect((2, 3), 0.5)] * 9
    steps += [effect((1, 2, 3, 4), 1.0)]
    summary = summarise(steps, range(len(steps)))
    assert len(summary.rows) == 1
    assert {row for _, row, _ in summary.ends} == {0}


@given(st.floats(1e-9, 1e9))
def test_ticks_keep_every_digit_of_a_nanosecond_and_more(seconds):
    assert to_seconds(to_ticks(seconds)) == pytest.approx(seconds, rel=1e-15, abs=0)


# Programs.


@st.composite
def modules(draw):
    rng = random.Random(draw(st.integers(0, 2**32)))
    return random_module(rng, first_device=rng.choice([0, 1]), statements=rng.choice([5, 12, 20]))


@quick
@given(modules())
def test_calls_are_timed_as_inlined_bodies_are_to_the_last_bit(module):
    assume(not check(module).errors)
    found, expected = simulate(module, MACHINE), simulate(inlined(module), MACHINE)
    assert found.latency_s == expected.latency_s
    assert found.devices == expected.devices
    a, b = found.timeline(), expected.timeline()
    assert (a.clocks, a.busy, a.communication) == (b.clocks, b.busy, b.communication)
    assert a.waits == b.waits
    assert a.critical_path() == b.critical_path()
    assert (a.starts, a.slack) == (b.starts, b.slack)


@quick
@given(modules(), st.data())
def test_looking_at_some_events_shows_what_looking_at_all_does(module, data):
    assume(not check(module).errors)
    simulation = simulate(module, MACHINE)
    part, whole = simulation.timeline(), simulate(module, MACHINE).timeline()
    count = len(whole)
    assume(count)
    everything = list(whole.events())
    assert [event.start for event in everything] == list(whole.starts)
    assert [event.effect for event in everything] == whole.effects
    for index in data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=8)):
        assert shown(part.event(index)) == shown(everything[index])
        assert part.spare(index) == whole.slack[index]
        assert part.end(index) == everything[index].end
        assert part.blocker(index) == blocker(whole, everything, index)
    first = data.draw(st.integers(0, count))
    last = data.draw(st.integers(first, count))
    assert list(map(shown, part.events(first, last))) == list(map(shown, everything[first:last]))


def shown(event):
    calls = [(function.name, index) for function, index in event.path]
    return event.index, event.start, event.end, event.effect.op, event.effect.devices, calls


def blocker(timeline, everything, index):
    """What an event waited for, by the definition."""
    event = everything[index]
    if event.start == 0.0:
        return None
    for earlier in reversed(everything[:index]):
        if earlier.end == event.start and set(earlier.effect.devices) & set(event.effect.devices):
            return earlier.index
    raise AssertionError("nothing ends as the event starts")


def tower(depth, width):
    """Calls of calls: `width ** depth` layers on two devices, which meet in the innermost call."""
    f = FunctionBuilder("f0")
    x, y = f.param("x", tensor(4, None)), f.param("y", tensor(4, None))
    (x,) = f.apply("Relu", x)
    x, y = f.apply("MPIAllreduce", x, y, results=("x1", "y1"))
    (y,) = f.apply("Relu", y)
    functions = [f.returns(x, y)]
    for level in range(1, depth + 1):
        f = FunctionBuilder(f"f{level}")
        x, y = f.param("x", tensor(4, None)), f.param("y", tensor(4, None))
        for i in range(width):
            x, y = f.call(f"f{level - 1}", *((x, y) if i % 2 else (y, x)), results=(f"x{i}", f"y{i}"))
        functions.append(f.returns(x, y))
    f = FunctionBuilder("main")
    x, y = f.param("x", tensor(4, 1)), f.param("y", tensor(4, 2))
    return Module([*functions, f.returns(*f.call(f"f{depth}", x, y, results=("a", "b")))])


def test_a_hundred_million_ops_are_simulated_and_looked_into():
    small, large = simulate(tower(2, 10), MACHINE), simulate(tower(7, 12), MACHINE)
    layers = 12**7
    assert large.ops == 3 * layers > 100_000_000
    timeline = large.timeline()
    # Both patterns of calls repeat exactly, so times are proportional but for the ends.
    each = small.latency_s / 100
    assert large.latency_s == pytest.approx(each * layers, rel=0.05)
    middle = timeline.event(len(timeline) // 2)
    assert len(middle.path) == 9
    assert 0.4 < middle.start / large.latency_s < 0.6
    before = timeline.event(timeline.blocker(middle.index))
    assert before.end == middle.start
    assert timeline.spare(middle.index) >= 0
    assert timeline.end(len(timeline) - 1) == timeline.latency
    assert [event.index for event in timeline.events(10**8, 10**8 + 3)] == list(range(10**8, 10**8 + 3))
    with pytest.raises(IndexError):
        timeline.event(len(timeline))


def test_a_summary_of_few_ops_is_the_ops():
    pair = summarise([effect((1, 2), 1.0)], [0])
    assert len(pair.inline) == 1
    many = summarise([effect((1, 2), 1.0), effect((1,), 2.0)] * 10, range(20))
    assert many.inline is None
