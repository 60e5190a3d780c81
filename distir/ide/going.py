"""From a place in the text to the next op of the critical path, wait, or collective that changes a placement."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ide.instances import View, facts
from distir.ide.placements import reshardings
from distir.ir import Site
from distir.simulate.body import events_of

GoalKind = Literal["nextCritical", "previousCritical", "nextWait", "previousWait"]
PlacementGoalKind = Literal["nextResharding", "previousResharding"]
GOALS: tuple[str, ...] = get_args(GoalKind)
PLACEMENT_GOALS: tuple[str, ...] = get_args(PlacementGoalKind)


@dataclass(frozen=True, slots=True)
class Goal:
    """An op to go to: its event, `start_s` and `duration_s` in seconds, and how long the devices before it wait.

    `path`: the calls that lead to it, as functions and statements, outermost first.
    """

    span: Span | None
    function: str
    statement: int
    event: int
    start_s: float
    duration_s: float
    wait_s: float
    path: tuple[tuple[str, int], ...]


def goal(document: Document, offset: int, kind: GoalKind) -> Goal | None:
    """The next or previous op of a kind, in program order, seen from an offset; None where there is none.

    In a function it counts from the call that is shown. For programs with more than 500,000 events nothing is known.
    """
    simulation = document.simulation
    if simulation is None or simulation.timeline().is_long:
        return None
    timeline = simulation.timeline()
    waits: dict[int, float] = {}
    if kind.endswith("Wait"):
        for wait in timeline.idle_devices:
            waits[wait.event] = max(waits.get(wait.event, 0.0), wait.seconds)
    events: Sequence[int] = sorted(waits) if kind.endswith("Wait") else timeline.critical_path()
    first, last = _events_at(document, offset)
    place = bisect_right(events, last) if kind.startswith("next") else bisect_left(events, first) - 1
    if not 0 <= place < len(events):
        return None
    event = timeline.event(events[place])
    path = tuple((function.name, index) for function, index in event.path)
    name, index = path[-1]
    span = document.program.syntax.source_map(Site(name, index))
    seconds = event.end - event.start
    return Goal(span, name, index, event.index, event.start, seconds, waits.get(event.index, 0.0), path[:-1])


@dataclass(frozen=True, slots=True)
class PlacementGoal:
    """A collective to go to, and its time in the call shown, `start_s` and `duration_s`, if that is known."""

    span: Span
    function: str
    statement: int
    start_s: float | None
    duration_s: float | None


def placement_goal(view: View, offset: int, kind: PlacementGoalKind) -> PlacementGoal | None:
    """The next or previous collective that communicates, in the order of the text; None where there is none.

    It needs no simulation.
    """
    found = list(reshardings(view.document))
    starts = [span.start for span, _, _ in found]
    here = bisect_right([span.end for span, _, _ in found], offset)
    is_in = here < len(found) and starts[here] <= offset
    place = (here + 1 if is_in else here) if kind == "nextResharding" else here - 1
    if not 0 <= place < len(found):
        return None
    span, name, index = found[place]
    function = view.document.program.module.functions.get(name)
    moment = view.moment(function, index) if function is not None else None
    start, seconds = (None, None) if moment is None else (moment.start, moment.seconds)
    return PlacementGoal(span, name, index, start, seconds)


def _events_at(document: Document, offset: int) -> tuple[int, int]:
    """The first and the last event of the statement at an offset; of a call none, so that what it calls comes next.

    Between statements, in heads and outside: those around.
    """
    known, syntax = facts(document), document.program.syntax
    written = syntax.function_at(offset)
    occurrence = known.shown(written.function.name) if written is not None else None
    if written is None or occurrence is None or occurrence.body is None:
        return 0, -1
    body, start = occurrence.body, occurrence.first_event
    while document.text[offset : offset + 1] in (" ", "\t"):
        offset += 1  # in the indentation before a statement
    at = bisect_right(written.starts, offset) - 1
    if at < 0:
        return start, start - 1
    at = min(at, len(body.steps) - 1)
    first, count = start + body.first_events[at], events_of(body.steps[at])
    return (first, first) if count == 1 else (first, first - 1)
