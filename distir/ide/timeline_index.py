"""Queries of a timeline about one statement: when it runs, what its devices wait for, how much slack it has.

Each answer costs the calls that lead to the statement, not the events of the program: calls are passed over by their
summaries (`simulate/descent`). Owns no text and no document. Seconds count from the start of the entry function.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from distir.simulate.algebra.clocks import of_device, stream_name
from distir.simulate.body import events_of
from distir.simulate.descent import EventPlace, Run
from distir.simulate.effects import Effect, to_seconds
from distir.simulate.show import Moment, Occurrence, moment, run_of
from distir.simulate.timeline import Timeline


@dataclass(frozen=True, slots=True)
class IdleTime:
    """A stream that idles before an event: from when, for how many seconds; at the end, perhaps, for a host alone."""

    device: int
    stream: str
    """Its name; "" is that of compute, without which the device idles. That another one is free delays nothing."""
    start: float
    seconds: float
    host: float
    """For how many of the seconds nothing is missing but a host that has yet to issue the op."""


class TimelineIndex:
    """A timeline, asked about statements of occurrences."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline

    def moment(self, occurrence: Occurrence, index: int) -> Moment | None:
        """When a statement runs; None for one that takes no time on any device. For a call: all of it."""
        return moment(self.timeline, occurrence, index)

    def start(self, occurrence: Occurrence) -> dict[int, float]:
        """By device: when it is free as an occurrence begins; nothing for the entry function, which begins at 0."""
        found = self._run(occurrence)
        if found is None or found.caller is None:
            return {}
        caller, index = found.caller
        return {device: to_seconds(clock) for device, clock in caller.clocks(index).items() if isinstance(device, int)}

    def idle(self, occurrence: Occurrence, index: int) -> tuple[IdleTime, ...]:
        """The streams that idle until an op starts: those that are free before the last of them is."""
        found = self._run(occurrence)
        if found is None or not isinstance(found.body.steps[index], Effect) or not found.groups[index]:
            return ()
        place, clocks = EventPlace(found, index), found.clocks(index)
        start = place.start
        host = to_seconds(max(0, start - place.allowed))
        return tuple(
            IdleTime(device, stream_name(stream), to_seconds(clocks[stream]), to_seconds(start - clocks[stream]), host)
            for stream in place.streams
            if clocks[stream] < start and (device := of_device(stream)) is not None
        )

    def event(self, occurrence: Occurrence, index: int) -> int | None:
        """The number of an op's event; None for a call, and for ops that are none."""
        body = occurrence.body
        step = body.steps[index] if body is not None else None
        if body is None or not isinstance(step, Effect) or not step.devices:
            return None
        return occurrence.first_event + body.first_events[index]

    def events(self, occurrence: Occurrence, index: int) -> range:
        """The numbers of the events of a statement; of a call, of all that it does."""
        body = occurrence.body
        if body is None:
            return range(0)
        first = occurrence.first_event + body.first_events[index]
        return range(first, first + events_of(body.steps[index]))

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
        return run_of(self.timeline, occurrence)
