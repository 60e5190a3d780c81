"""Calls that are summarised, looked into, and inlined give the same numbers to the last bit."""

import random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from simulate_samples import inlined, machine, random_module, tensor
from thorough import most_programs

from distir.analysis import check
from distir.ir import Module
from distir.ir.builder import FunctionBuilder
from distir.simulate import simulate

PROGRAMS = most_programs(100)
MACHINE = machine()

quick = settings(max_examples=PROGRAMS, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


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
