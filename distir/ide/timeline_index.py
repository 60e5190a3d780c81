"""What is asked of a timeline about one statement: when it runs, what its devices wait for, how much slack it has.

Each answer costs the calls that lead to the statement, not the events of the program: calls are passed over by their
summaries (`simulate/summary_run`). Owns no text and no document. Seconds count from the start of the entry function.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from distir.simulate.body import Body
from distir.simulate.effects import Effect, to_seconds
from distir.simulate.show import Moment, Occurrence
from distir.simulate.summary import Clocks, run
from distir.simulate.summary_run import Descent, Run
from distir.simulate.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Idle:
    """A device that idles before an event: from when, for how many seconds."""

    device: int
    start: float
    seconds: float


class TimelineIndex:
    """A timeline, with the runs of the calls that are shown."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self._runs: dict[tuple[int, int], Run] = {}

    @property
    def _descent(self) -> Descent:
        return self.timeline.descent

    def moment(self, occurrence: Occurrence, index: int) -> Moment | None:
        """When a statement runs; None for one that takes no time on any device. For a call: all of it."""
        found = self._run(occurrence)
        if found is None:
            return None
        step = found.body.steps[index]
        if isinstance(step, Body):
            return _call(found, index, step)
        if step is None or not step.devices:
            return None
        start = max(found.clocks(index).values())
        return Moment(to_seconds(start), step.cost.seconds, step.devices) if step.ticks else None

    def start(self, occurrence: Occurrence) -> dict[int, float]:
        """By device: when it is free as an occurrence begins; nothing for the entry function, which begins at 0."""
        found = self._run(occurrence)
        if found is None or found.caller is None:
            return {}
        caller, index = found.caller
        return {device: to_seconds(clock) for device, clock in caller.clocks(index).items()}

    def idle(self, occurrence: Occurrence, index: int) -> tuple[Idle, ...]:
        """The devices that idle until an op starts: those that are free before the last of its devices is."""
        found = self._run(occurrence)
        clocks = found.clocks(index) if found is not None and isinstance(found.body.steps[index], Effect) else {}
        if len(clocks) < 2:
            return ()
        start = max(clocks.values())
        return tuple(
            Idle(device, to_seconds(free), to_seconds(start - free)) for device, free in clocks.items() if free < start
        )

    def event(self, occurrence: Occurrence, index: int) -> int | None:
        """The number of an op's event; None for a call, and for ops that are none."""
        body = occurrence.body
        step = body.steps[index] if body is not None else None
        if body is None or not isinstance(step, Effect) or not step.devices:
            return None
        return occurrence.first_event + body.first_events[index]

    def blocker(self, event: int) -> int | None:
        """The event that this one waited for: the latest before it, on one of its devices, that ends as it starts."""
        return self.timeline.blocker(event)

    def slack(self, event: int) -> float:
        """By how many seconds an event could end later without the program ending later."""
        return self.timeline.spare(event)

    @cached_property
    def critical_path(self) -> list[int]:
        """The events of the critical path, first to last."""
        return self.timeline.critical_path()

    def _run(self, occurrence: Occurrence) -> Run | None:
        """The run that an occurrence is; None where it has no events."""
        body = occurrence.body
        if body is None or not body.events:
            return None
        key = (occurrence.first_event, id(body))  # the timeline keeps its bodies, so that ids stay theirs
        found = self._runs.get(key)
        if found is None:
            current = self._descent.at(occurrence.first_event).run
            while current.body is not body or current.first != occurrence.first_event:
                if current.caller is None:
                    return None
                current = current.caller[0]
            found = self._runs[key] = current
        return found


def _call(caller: Run, index: int, callee: Body) -> Moment | None:
    """When the first of a call's ops starts, and the last one ends."""
    devices = callee.summary.devices if callee.events else ()
    if not devices:
        return None
    clocks = caller.clocks(index)
    start = _first_start(callee, dict(clocks))
    run((callee.summary,), clocks)
    end = max(clocks[device] for device in devices)
    return Moment(to_seconds(start), to_seconds(end - start), devices) if end > start else None


def _first_start(body: Body, clocks: Clocks) -> int:
    """When the first op of a body starts. Walks it until no device is left that could begin anything earlier."""
    waiting = {device: clocks[device] for device in body.summary.devices}
    first: int | None = None
    for step in body.timed:
        if first is not None and min(waiting.values(), default=first) >= first:
            break
        if isinstance(step, Body):
            start = _first_start(step, dict(clocks))
            group, move = step.summary.devices, step.summary
        else:
            start = max(clocks[device] for device in step.devices)
            group, move = step.devices, step
        first = start if first is None else min(first, start)
        for device in group:
            waiting.pop(device, None)
        run((move,), clocks)
    assert first is not None
    return first
