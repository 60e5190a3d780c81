"""Simulating a program, the program inlined, and a plainly right simulator all say the same."""

import random
from contextlib import contextmanager
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from oracle import oracle, same
from simulate_samples import inlined, machine, random_module, with_kernels
from thorough import most_programs

from distir.analysis import check
from distir.simulate import simulate

PROGRAMS = most_programs(100)
"""Random programs per law; three laws."""

MACHINE = machine()
CLOSE = 1e-12

quick = settings(max_examples=PROGRAMS, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@st.composite
def modules(draw):
    rng = random.Random(draw(st.integers(0, 2**32)))
    first = rng.choice([0, 1])
    return random_module(rng, first_device=first, statements=rng.choice([5, 12, 20]))


@contextmanager
def shown(*modules):
    """The programs, where the body fails."""
    try:
        yield
    except AssertionError:
        from distir.syntax import print_module

        print(*map(print_module, modules), sep="\n")
        raise


def right(module):
    """Skip what does not check: a function may be right for the arguments it was made for, and wrong in general."""
    assume(not check(module).errors)
    return module


def nonzero(numbers):
    return {key: number for key, number in numbers.items() if number}


@quick
@given(modules())
def test_a_program_runs_as_the_oracle_says_and_as_its_inlined_body_does(module):
    right(module)
    flat = inlined(module)
    expected = oracle(module, MACHINE)
    with shown(module, flat):
        for found in (simulate(module, MACHINE), simulate(flat, MACHINE)):
            same(found, expected)
            timeline = found.timeline()
            for event, op in zip(timeline.events(), expected.events, strict=True):
                assert (event.op, event.effect.cost.seconds) == (op.name, op.seconds)
            assert (found.bubble, found.exposed_communication, found.host_bound) == pytest.approx(
                expected.shares(), rel=1e-12
            )


@quick
@given(modules())
def test_a_program_with_kernels_runs_as_the_oracle_says(module):
    module = with_kernels(right(module))
    assume(any(function.kernel for function in module))
    expected = oracle(module, MACHINE)
    with shown(module):
        found = simulate(module, MACHINE)
        same(found, expected)
        for event, op in zip(found.timeline().events(), expected.events, strict=True):
            assert (event.op, event.effect.cost.seconds) == (op.name, op.seconds)
        inline = simulate(inlined(module), MACHINE)
        assert found.latency_s <= inline.latency_s


@quick
@given(modules(), st.booleans())
def test_the_memory_profile_agrees_with_the_peaks(module, kernels):
    right(module)
    module = with_kernels(module) if kernels else module
    expected = oracle(module, MACHINE)
    simulation = simulate(module, MACHINE)
    profile = simulation.memory()
    highest, last = {}, {}
    with shown(module):
        for point in profile.points():
            assert point.nbytes >= 0
            assert point.time >= last.get(point.memory, 0.0), "time runs forwards"
            last[point.memory] = point.time
            highest[point.memory] = max(highest.get(point.memory, 0), point.nbytes)
        assert nonzero(highest) == nonzero(expected.peaks)
        for memory, peak in expected.peaks.items():
            nbytes, event, live = profile.peak(memory)
            assert nbytes == peak
            temporary = 0
            if event is not None:
                temporary = dict(simulation.timeline().effects[event].temporary).get(memory, 0)
            assert sum(value.nbytes for value in live) + temporary == peak, "what is live makes up the peak"
            assert [v.nbytes for v in live] == sorted((v.nbytes for v in live), reverse=True)
            for limit in {0, peak // 2, max(0, peak - 1), peak}:
                over = profile.first_over(memory, limit)
                assert (over is None) == (peak <= limit)
                if over is not None:
                    first = next(event for event, use in expected.use[memory] if use > limit)
                    assert over[0] == first, "memory overflows at this op"
                if over is not None and limit == peak - 1:
                    assert over == (event, live)


@quick
@given(modules(), st.integers(0, 2**32))
def test_laws_of_the_timeline(module, seed):
    right(module)
    simulation = simulate(module, MACHINE)
    timeline = simulation.timeline()
    tolerance = CLOSE * timeline.latency
    free, idle = dict.fromkeys(timeline.clocks, 0.0), dict.fromkeys(timeline.clocks, 0.0)
    with shown(module):
        for event in timeline.events():
            blocker = timeline.blocker(event.index)
            if event.start == 0.0:
                assert blocker is None
            else:
                assert timeline.end(blocker) == event.start
                assert set(timeline.effects[blocker].devices) & set(event.effect.devices)
            for device in event.effect.devices:
                assert event.start >= free[device], "a device does one thing at a time"
                idle[device] += event.start - free[device]
                free[device] = event.end
        waited = dict.fromkeys(timeline.clocks, 0.0)
        for wait in timeline.waits:
            waited[wait.device] += wait.seconds
            assert wait.start + wait.seconds == pytest.approx(timeline.starts[wait.event], rel=CLOSE)
            assert timeline.end(wait.blocker) == timeline.starts[wait.event]
            assert wait.device not in timeline.effects[wait.blocker].devices
        assert waited.keys() == idle.keys()
        assert all(waited[device] == pytest.approx(idle[device], rel=CLOSE, abs=0) for device in idle)
        for device, use in simulation.devices.items():
            assert use.busy_s + use.idle_s == pytest.approx(timeline.latency, rel=1e-9)
            assert 0 <= use.comm_s <= use.busy_s
            assert device in timeline.clocks or use.busy_s == 0

        path = timeline.critical_path()
        if path:
            assert timeline.starts[path[0]] == 0.0
            assert timeline.end(path[-1]) == timeline.latency
            assert all(timeline.end(a) == timeline.starts[b] for a, b in pairwise(path))
        assert sum(timeline.effects[i].cost.seconds for i in path) == pytest.approx(timeline.latency, rel=1e-9)
        assert all(timeline.slack[i] == 0.0 for i in path), "what is critical has no slack"
        assert all(s >= 0 for s in timeline.slack)

        # An op may take longer by its slack, not by more, before the program does.
        ran, rng = oracle(module, MACHINE), random.Random(seed)
        for index in rng.sample(range(len(timeline)), min(3, len(timeline))):
            seconds = timeline.effects[index].cost.seconds
            slower = ran.latency_with({index: seconds + timeline.slack[index]})
            assert slower <= timeline.latency + tolerance
            more = timeline.slack[index] + timeline.latency / 8 + 1e-6
            slower = ran.latency_with({index: seconds + more})
            added = more - timeline.slack[index]
            assert slower == pytest.approx(timeline.latency + added, rel=1e-9)
