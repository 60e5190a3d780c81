"""How much of its devices' time a program leaves unused, and how much goes into communication that nothing hides.

A device computes while an op that does not communicate occupies one of its streams, and communicates while a
communication does. Over all devices that the program uses, from its start to its end:

- the *bubble* is the share of (devices × latency) in which a device neither computes nor communicates;
- *exposed communication* is the share in which it communicates and does not compute;
- *host-bound* is the share, a part of the bubble, in which an op there waits for nothing but a host that has yet to
  issue it.

The rest is computation, with or without communication beside it. For devices with one stream the sums in call summaries
suffice; for devices with several, and for hosts, the intervals of the streams are compared. All in whole ticks, so
summarised and inlined calls give the same shares to the last bit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from distir.simulate.algebra.clocks import Clock, Summary, run, run_op
from distir.simulate.algebra.lanes import allowed
from distir.simulate.body import Body

Interval = tuple[int, int]
"""From when and until when, in ticks."""


@dataclass(slots=True)
class StreamIntervals:
    """When a stream computes, communicates, and waits for a host, in order. Intervals without a gap are one."""

    computes: list[Interval] = field(default_factory=list[Interval])
    communicates: list[Interval] = field(default_factory=list[Interval])
    waits_for_host: list[Interval] = field(default_factory=list[Interval])

    def add(self, start: int, end: int, communicates: bool, since: int | None = None) -> None:
        """Add what runs next; `since`: from when on it would, were its host done."""
        if since is not None and since < start:
            self.waits_for_host.append((since, start))
        own = self.communicates if communicates else self.computes
        if own and own[-1][1] == start:
            own[-1] = own[-1][0], end
        elif end > start:
            own.append((start, end))


@dataclass(frozen=True, slots=True)
class Exposure:
    """The two shares, from 0 to 1; 0 for a program that takes no time."""

    bubble: float
    exposed_communication: float


@dataclass(frozen=True, slots=True)
class DeviceActivity:
    """For how many ticks a device computes, communicates, and does either of these."""

    computes: int
    communicates: int
    busy: int

    @classmethod
    def of(cls, streams: Collection[StreamIntervals]) -> DeviceActivity:
        """That of a device with several streams."""
        computes = [*chain.from_iterable(stream.computes for stream in streams)]
        communicates = [*chain.from_iterable(stream.communicates for stream in streams)]
        return cls(covered(computes), covered(communicates), covered(computes + communicates))


IDLE = DeviceActivity(0, 0, 0)


def exposure(devices: Collection[DeviceActivity], latency: int) -> Exposure:
    """The shares of the program's devices, for one run of a body that takes `latency` ticks."""
    whole = latency * len(devices)
    if not whole:
        return Exposure(0.0, 0.0)
    busy, exposed = sum(each.busy for each in devices), sum(each.busy - each.computes for each in devices)
    return Exposure((whole - busy) / whole, exposed / whole)


def waits_for_host(streams: Collection[StreamIntervals]) -> int:
    """For how many ticks a device does nothing but wait for its host, given its streams."""
    busy = [*chain.from_iterable(stream.computes + stream.communicates for stream in streams)]
    return covered([*busy, *chain.from_iterable(stream.waits_for_host for stream in streams)]) - covered(busy)


def hidden(stream: StreamIntervals, others: Iterable[StreamIntervals]) -> int:
    """For how many ticks of those that a stream is occupied another stream of its device computes."""
    occupied = stream.computes + stream.communicates
    computing = [*chain.from_iterable(other.computes for other in others)]
    return covered(occupied) + covered(computing) - covered(occupied + computing)


def covered(intervals: Collection[Interval]) -> int:
    """How many ticks lie in any of the intervals."""
    total = until = 0
    for start, end in sorted(intervals):
        if end > until:
            total += end - max(start, until)
            until = end
    return total


def intervals_of(body: Body, streams: Collection[Clock], hosts: bool = False) -> Mapping[Clock, StreamIntervals]:
    """When these streams are occupied, and with `hosts` when they wait for one. Calls of one kind are passed over."""
    found = {stream: StreamIntervals() for stream in streams}
    wanted = found.keys()
    ways = [(body, defaultdict[Clock, int](int), iter(range(len(body.steps))))]
    while ways:
        current, clocks, statements = ways[-1]
        steps, moves = current.steps, current.moves
        for index in statements:
            step, move = steps[index], moves[index]
            if step is None or move is None:
                continue
            if not isinstance(step, Body):
                since = allowed(move, clocks) if hosts else None
                start = run_op(move, clocks)
                for stream in move.busy if isinstance(move, Summary) else move.devices:
                    if stream in wanted:
                        found[stream].add(start, start + step.ticks, step.communicates, since)
                continue
            if wanted.isdisjoint(move.devices):
                run((move,), clocks)
                continue
            communicates = _communicates(step)
            if communicates is None:
                inside = current.inside(index, {clock: clocks[clock] for clock in move.devices})
                run((move,), clocks)
                ways.append((step, defaultdict(int, inside), iter(range(len(step.steps)))))
                break
            start = clocks[move.devices[0]]
            run((move,), clocks)
            found[move.devices[0]].add(start, start + move.ticks, communicates)
        else:
            ways.pop()
    return found


def _communicates(body: Body) -> bool | None:
    """Whether all ops of a body on one device communicate; None if some do, if there are several devices, or waits."""
    summary = body.summary
    if len(summary.devices) != 1:
        return None
    device = summary.devices[0]
    communicates = summary.communication.get(device, 0)
    return None if communicates not in (0, summary.busy[device]) else bool(communicates)
