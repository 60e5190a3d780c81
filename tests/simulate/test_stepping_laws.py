"""Stepping through simulated time gives what going through all events one by one gives, on random programs."""

import random

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from simulate_samples import machine, random_module, with_hosts, with_kernels, with_streams
from thorough import most_programs

from distir.analysis import check
from distir.cost.host import Host
from distir.ide.stepping.conditions import read_condition
from distir.ide.stepping.events import StreamEvent
from distir.ide.stepping.search import EventSearch
from distir.ide.stepping.stepper import LAST, NothingToStepError, Stepper
from distir.ide.stepping.streams import Key, Spot, device_of, key_of
from distir.ide.stepping.values import LiveValues, leaves_of_value
from distir.ide.stepping.watches import CallGraph, FunctionWatch, StatementWatch, StopWatch, WaitWatch
from distir.ir import Call, Return
from distir.simulate import simulate

PROGRAMS = most_programs(50)

MACHINES = [machine(), with_hosts(machine(), Host(4e-6), Host(1.5e-6), interference=0.1, begin=2e-6)]

law = settings(max_examples=PROGRAMS, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@st.composite
def steppers(draw):
    """A random program with calls, kernels, streams and hosts, at its start."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    module = random_module(rng, first_device=1, statements=rng.choice([5, 12, 20]))
    assume(not check(module).errors)
    if rng.random() < 0.3:
        module = with_kernels(module)
    if rng.random() < 0.5:
        module = with_streams(rng, module, 0.5)
    try:
        return Stepper(simulate(module, draw(st.sampled_from(MACHINES))))
    except NothingToStepError:
        assume(False)


def events(stepper):
    """All events by time."""
    timeline = stepper.streams.timeline
    return sorted((event.place for event in timeline.events()), key=key_of)


def keys(places):
    return [key_of(place) for place in places]


@law
@given(steppers())
def test_each_stream_is_stepped_through_event_by_event_forward_and_back(stepper):
    every = events(stepper)
    for stream in stepper.streams.all:
        own = keys(place for place in every if stream in place.streams)
        assert own == sorted(own)
        stepper.to_time(0)
        first = stepper.streams.following(stream, None)
        there = [stepper.jump(Spot(first.run, first.statement), stream).key]
        while (stop := stepper.event_after(stream)).spot is not None:
            there.append(stop.key)
        assert there == own
        back = []
        while len(back) < len(own):
            back.append(stepper.event_before(stream).key)
        assert back == own[::-1]


@law
@given(steppers(), st.integers(0, 2**32))
def test_what_runs_at_a_time_is_found(stepper, seed):
    every, rng = events(stepper), random.Random(seed)
    moments = [place.start for place in every] + [place.end for place in every]
    for ticks in rng.sample(moments, min(5, len(moments))):
        for moment in (ticks, max(0, ticks - 1), ticks + 1):
            for stream in stepper.streams.all:
                begun = [place for place in every if stream in place.streams and place.start <= moment]
                found = stepper.streams.started(stream, moment)
                assert (found and found.index) == (max(begun, key=key_of).index if begun else None)
                following = stepper.streams.following(stream, found)
                later = [place for place in every if stream in place.streams and place.start > moment]
                assert (following and following.index) == (min(later, key=key_of).index if later else None)


@law
@given(steppers())
def test_steps_over_calls_end_where_steps_into_them_do(stepper):
    """Into each call and out at its end, or over it: the same statements of the entry function come up, back too."""
    for stream in stepper.streams.all:
        on = [*stepper.streams.on(stepper.streams.root.body, stream)]
        stepper.jump(stepper.streams.beginning(stream), stream)
        over = [stepper.now.spot.statement]
        while (stop := stepper.over(stream)).spot is not None:
            over.append(stop.spot.statement)
        assert over == on
        stepper.jump(stepper.streams.beginning(stream), stream)
        into, depths = [stepper.now], set()
        while (stop := stepper.into(stream)).spot is not None:
            into.append(stop)
            depths.add(stop.spot.run.depth)
        assert [s.spot.statement for s in into if s.spot.run.depth == 0] == on
        ops = [s.key for s in into if not s.spot.is_call]
        assert ops == keys(place for place in events(stepper) if stream in place.streams)
        stepper.back(stream)
        while stepper.now.spot.statement != on[0] or stepper.now.spot.run.depth:
            before = stepper.now
            stepper.back(stream)
            assert stepper.now.key <= before.key
        assert stepper.now.key == into[0].key


def watched(stepper, watch):
    """What a search must find: the places of the events, by going through all."""
    found = []
    for place in events(stepper):
        for stream in watch.streams(place, None):
            event = StreamEvent(stepper.streams, stepper.usage, place, stream)
            if watch.reached(place) and watch.holds(event):
                found.append(key_of(place))
                break
    return found


def assert_found(stepper, watch, expected):
    """Forward from the start, back from the end, and from in between."""
    forward = [hit.key for hit in EventSearch(stepper.streams, stepper.usage, [watch])]
    assert forward == expected
    end = Key(stepper.finish, LAST)
    assert [hit.key for hit in EventSearch(stepper.streams, stepper.usage, [watch], end, back=True)] == expected[::-1]
    for key in keys(events(stepper))[::3]:
        later = [hit.key for hit in EventSearch(stepper.streams, stepper.usage, [watch], key)]
        assert later == [each for each in expected if each > key]
        earlier = [hit.key for hit in EventSearch(stepper.streams, stepper.usage, [watch], key, back=True)]
        assert earlier == [each for each in expected if each < key][::-1]


@law
@given(steppers(), st.integers(0, 2**32))
def test_breakpoints_are_hit_in_order_of_time(stepper, seed):
    rng, module = random.Random(seed), stepper.simulation.module
    graph = CallGraph(module=module)
    function = rng.choice([*module])
    statement = rng.choice([i for i, s in enumerate(function.body) if not isinstance(s, Return)] or [0])
    watch = StatementWatch(
        number=1, function=function.name, statement=statement, leading=graph.leading_to([function.name])
    )
    if isinstance(function.body[statement], Call):
        return  # reached with the first event inside: see below
    assert_found(stepper, watch, watched(stepper, watch))


@law
@given(steppers())
def test_a_call_is_hit_with_its_first_event(stepper):
    module = stepper.simulation.module
    graph = CallGraph(module=module)
    for name in [f.name for f in module if f.name in graph.callers and not f.kernel][:2]:
        first = {}
        for place in events(stepper):
            path = place.path
            for depth, (function, statement) in enumerate(path):
                call = function.body[statement]
                if isinstance(call, Call) and call.function == name and depth < len(path) - 1:
                    first.setdefault(tuple((f.name, i) for f, i in path[: depth + 1]), key_of(place))
        watch = FunctionWatch(number=1, function=name, leading=graph.leading_to(graph.callers[name]))
        assert_found(stepper, watch, sorted(set(first.values())))


@law
@given(steppers(), st.sampled_from([0.0, 1e-6, 1e-5]), st.integers(1, 3))
def test_waits_are_found(stepper, least, device):
    for condition in (None, f"wait > 3us and device == {device}"):
        read = read_condition(condition) if condition else None
        watch = WaitWatch(number=1, least=least, condition=read)
        assert_found(stepper, watch, watched(stepper, watch))


@law
@given(steppers())
def test_hits_count_from_the_start_wherever_a_search_begins(stepper):
    every = StopWatch(number=1, condition=read_condition("duration >= 0"), count=read_condition("hits % 3 == 0"))
    assert_found(stepper, every, keys(events(stepper))[2::3])


@law
@given(steppers())
def test_memory_at_an_event_is_that_of_the_profile(stepper):
    simulation = stepper.simulation
    profile = simulation.memory()
    most = {}
    for point in profile.points():
        if point.event >= 0:
            key = point.event, point.memory
            most[key] = max(most.get(key, 0), point.nbytes)
    for place in events(stepper):
        for stream in place.streams:
            memory = simulation.memory_of(device_of(stream))
            used = stepper.usage.during(place, memory)
            live = profile.during(memory, place.index)
            temporary = sum(size for where, size in place.effect.temporary if where == memory)
            assert sum(value.nbytes for value in live) + temporary == used
            if (place.index, memory) in most:
                assert most[place.index, memory] <= used <= simulation.peaks[memory]


@law
@given(steppers())
def test_values_are_live_from_the_op_that_makes_them_to_the_last_that_uses_them(stepper):
    values = LiveValues(stepper.simulation, stepper.streams)
    for place in events(stepper):
        spot = Spot(place.run, place.statement)
        for value in values.live(spot):
            assert values.named(spot, value.name).leaves == value.leaves
            ends = [values.ended(value.run, storage).place for storage in leaves_of_value(value)]
            assert any(end is None or end.index >= place.index for end in ends)
            for storage in leaves_of_value(value):
                made = values.made(value.run, storage)
                assert made is None or not made.effect.devices or made.index <= place.index
