"""Finds repetitions in an order: in the steady state, the same passes and messages recur for later microbatches.

Pure: knows no programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from distir.transform.pipeline.order import Event, Message
from distir.transform.pipeline.passes import Task

STEPS = (1, 2, 3, 4, 6, 8, 12, 16)
"""The shifts, in microbatches, at which events may recur: 1, or the size of a group that passes through the stages."""

ENOUGH = 0.3
"""The share of events covered by a repetition at which the search stops."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Events repeated `count` times, each time shifted by `step` microbatches."""

    events: tuple[Event, ...]
    count: int = 1
    step: int = 0


Timetable = tuple[Stretch, ...]
"""Events in order, with repetitions listed once."""


def folded(events: Sequence[Event], least: int) -> Timetable:
    """Events with sequences that repeat at least `least` times listed once."""
    found: list[Stretch] = []
    position = 0
    for one in repetitions(events, least):
        found.append(Stretch(tuple(events[position : one.start])))
        position = one.start + one.period * one.count
        found.append(Stretch(tuple(events[one.start : one.start + one.period]), one.count, one.step))
    found.append(Stretch(tuple(events[position:])))
    return tuple(stretch for stretch in found if stretch.events)


def unfolded(timetable: Timetable) -> list[Event]:
    """All events, with repetitions expanded."""
    return [
        moved(event, number * stretch.step)
        for stretch in timetable
        for number in range(stretch.count)
        for event in stretch.events
    ]


def stretched(timetable: Timetable, more: int) -> Timetable | None:
    """The timetable for `more` additional microbatches, with higher counts; None if not all events repeat."""
    home = {
        kind_of(event): number
        for number, stretch in enumerate(timetable)
        for event in stretch.events
        if stretch.count > 1
    }
    found: list[Stretch] = []
    for number, stretch in enumerate(timetable):
        homes = [home.get(kind_of(event)) for event in stretch.events]
        if None in homes or (stretch.count > 1 and (set(homes) != {number} or more % stretch.step)):
            return None
        if stretch.count > 1:
            found.append(Stretch(stretch.events, stretch.count + more // stretch.step, stretch.step))
        else:
            late = zip(stretch.events, homes, strict=True)
            found.append(Stretch(tuple(moved(e, more) if h is not None and h < number else e for e, h in late)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Repetition:
    """From event `start` on, `period` events repeated `count` times, each time shifted by `step` microbatches."""

    start: int
    period: int
    count: int
    step: int


def repetitions(events: Sequence[Event], least: int) -> list[Repetition]:
    """The disjoint repetitions of at least `least` times, in order, found by the number of events that they cover."""
    kinds: dict[object, int] = {}
    rows = [(kinds.setdefault(kind_of(event), len(kinds)), microbatch(event)) for event in events]
    return list(_found(rows, 0, len(rows), least))


def microbatch(event: Event) -> int:
    """The microbatch of a pass or message."""
    return event.source.microbatch if isinstance(event, Message) else event.microbatch


def moved(event: Event, step: int) -> Event:
    """The event shifted by `step` microbatches."""
    if step == 0:
        return event
    if isinstance(event, Message):
        return Message(_moved(event.source, step), _moved(event.target, step))
    return _moved(event, step)


def _moved(task: Task, step: int) -> Task:
    return Task(task.stage, task.microbatch + step, task.kind)


def kind_of(event: Event) -> object:
    """The event without its microbatch."""
    if isinstance(event, Message):
        return event.source.stage, event.source.kind, event.target.stage, event.target.kind
    return event.stage, event.kind


Rows = Sequence[tuple[int, int]]
"""By event: its kind, as a number, and its microbatch."""


def _found(rows: Rows, start: int, end: int, least: int) -> Iterator[Repetition]:
    best = _best(rows, start, end, least)
    if best is not None:
        yield from _found(rows, start, best.start, least)
        yield best
        yield from _found(rows, best.start + best.period * best.count, end, least)


def _best(rows: Rows, start: int, end: int, least: int) -> Repetition | None:
    """The repetition in a range of events that saves most."""
    places = {rows[index]: index for index in range(start, end)}
    best, saved = None, 0
    for step in STEPS:
        distances = Counter(
            [
                places[key] - index
                for (kind, number), index in places.items()
                if (key := (kind, number + step)) in places
            ]
        )
        for period, alike in distances.most_common(2):
            if period > 0 and alike >= period * (least - 1):
                for begin, count in _runs(rows, start, end, period, step):
                    if count >= least and period * (count - 1) > saved:
                        best, saved = Repetition(begin, period, count, step), period * (count - 1)
        if saved > ENOUGH * (end - start):
            break
    return best


def _runs(rows: Rows, start: int, end: int, period: int, step: int) -> Iterator[tuple[int, int]]:
    """Runs of events that recur after a period, shifted by a step: the first event and the count."""
    begin = start
    for index in range(start, end - period + 1):
        kind, number = rows[index]
        if index + period == end or rows[index + period] != (kind, number + step):
            if index > begin:
                yield begin, 1 + (index - begin) // period
            begin = index + 1
