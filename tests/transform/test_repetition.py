"""Laws of what repeats in a pipeline's order: told once it is still the same order, and it can be told more often."""

from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_samples import merged, messages
from thorough import most_examples

from distir.transform.pipeline.order import Message
from distir.transform.pipeline.passes import Pass, Task, stage_devices
from distir.transform.pipeline.repetition import folded, stretched, unfolded

quick = settings(deadline=None, max_examples=most_examples(40))
schedules = st.sampled_from(
    [("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("interleaved", 3), ("zb-h1", 1), ("zb-v", 1)]
)
sizes, seconds = st.integers(1, 5), st.integers(1, 9)


@st.composite
def lengths(draw):
    """How long the passes take, or what is nominal."""
    return draw(st.none() | st.fixed_dictionaries(dict.fromkeys(Pass, seconds)))


@quick
@given(schedules, sizes, st.integers(1, 6), st.integers(2, 5), lengths())
def test_what_is_written_once_is_the_same_order(schedule, devices, groups, least, length):
    name, virtual = schedule
    _, events = merged(name, devices, devices * groups, virtual, length)
    timetable = folded(events, least)
    assert unfolded(timetable) == events
    assert all(stretch.count >= least or stretch.count == 1 for stretch in timetable)


@quick
@given(schedules, sizes, st.integers(1, 4), lengths())
def test_a_stretched_order_runs_every_pass_once_and_sends_in_between(schedule, devices, more, length):
    name, virtual = schedule
    few, many = devices * (virtual + 8), devices * (virtual + 8 + more)
    order, events = merged(name, devices, few, virtual, length)
    timetable = stretched(folded(events, 4), many - few)
    if timetable is None:
        return
    found = unfolded(timetable)
    at = {event: place for place, event in enumerate(found)}
    kinds = {event.kind for event in events if isinstance(event, Task)}
    tasks = {Task(s, k, kind) for s in range(len(stage_devices(order))) for k in range(many) for kind in kinds}
    assert len(found) == len(at)
    assert {event for event in found if isinstance(event, Task)} == tasks
    homes = stage_devices(order)
    order = [[t for t in found if isinstance(t, Task) and homes[t.stage] == d] for d in range(devices)]
    sent = set(messages(order, len(homes)))
    assert {event for event in found if isinstance(event, Message)} == sent
    assert all(at[message.source] < at[message] < at[message.target] for message in sent)


@quick
@given(st.sampled_from(["gpipe", "1f1b"]), sizes, st.integers(12, 64))
def test_the_steady_state_of_the_usual_schedules_is_found(name, devices, more):
    """A few microbatches tell the order of many."""
    _, events = merged(name, devices, devices + 8, 1)
    expected, _ = merged(name, devices, devices + 8 + more, 1)
    timetable = stretched(folded(events, 4), more)
    assert timetable is not None
    found = unfolded(timetable)
    assert expected == tuple(tuple(t for t in found if isinstance(t, Task) and t.stage == d) for d in range(devices))
