"""Finds the steady state of an order: events that recur for later microbatches are listed once.

Pure: knows no programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from distir.transform.pipeline.order import Event

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

    def events_of(self, number: int) -> list[Event]:
        """Those of one repetition, counted from 0."""
        return [event.moved(number * self.step) for event in self.events]


Timetable = tuple[Stretch, ...]
"""Events in order, with repetitions listed once."""


def folded(events: Sequence[Event], least: int) -> Timetable:
    """Events with sequences that repeat at least `least` times listed once, those first that cover most events."""
    best = _best(events, least)
    if best is None:
        return (Stretch(tuple(events)),) if events else ()
    start, period, found = best
    before, after = events[:start], events[start + period * found.count :]
    return (*folded(before, least), found, *folded(after, least))


def unfolded(timetable: Timetable) -> list[Event]:
    """All events, with repetitions expanded."""
    return [event for stretch in timetable for number in range(stretch.count) for event in stretch.events_of(number)]


def stretched(timetable: Timetable, more: int) -> Timetable | None:
    """The timetable for `more` additional microbatches, with higher counts; None if not all events repeat."""
    steady = {number: stretch for number, stretch in enumerate(timetable) if stretch.count > 1}
    home = {_kind(event): number for number, stretch in steady.items() for event in stretch.events}
    found: list[Stretch] = []
    for number, stretch in enumerate(timetable):
        homes = [home.get(_kind(event), -1) for event in stretch.events]
        if -1 in homes or (number in steady and (set(homes) != {number} or more % stretch.step)):
            return None
        if number in steady:
            found.append(replace(stretch, count=stretch.count + more // stretch.step))
        else:
            late = zip(stretch.events, homes, strict=True)
            found.append(Stretch(tuple(event.moved(more if at < number else 0) for event, at in late)))
    return tuple(found)


def _kind(event: Event) -> Event:
    return event.moved(-event.microbatch)


def _best(events: Sequence[Event], least: int) -> tuple[int, int, Stretch] | None:
    """The repetition that saves most: its first event, how many events recur, and the repetition."""
    kinds: dict[Event, int] = {}
    rows = [(kinds.setdefault(_kind(event), len(kinds)), event.microbatch) for event in events]
    places = {row: place for place, row in enumerate(rows)}
    best, saved = None, 0
    for step in STEPS:
        distances = [places.get((kind, k + step), place) - place for place, (kind, k) in enumerate(rows)]
        usual = {period for period, _ in Counter(d for d in distances if d > 0).most_common(2)}
        start = 0
        for period, run in groupby(distances):
            alike = sum(1 for _ in run)
            count = 1 + alike // period if period in usual else 1
            if count >= least and period * (count - 1) > saved:
                best = start, period, Stretch(tuple(events[start : start + period]), count, step)
                saved = period * (count - 1)
            start += alike
        if saved > ENOUGH * len(events):
            break
    return best
