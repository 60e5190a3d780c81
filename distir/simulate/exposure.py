"""How much of its devices' time a program leaves unused, and how much goes into communication that nothing hides.

A device computes while an op that does not communicate occupies one of its streams, and communicates while a
communication does. Over all devices that the program uses, from its start to its end:

- the *bubble* is the share of (devices × latency) in which a device neither computes nor communicates;
- *exposed communication* is the share in which it communicates and does not compute;
- *host-bound* is the share, a part of the bubble, in which an op there waits for nothing but a host that has yet to
  issue it.

The rest is computation, with or without communication beside it. For devices with one stream the sums in call summaries
suffice; for devices with several, and for hosts, the streams' `intervals` are compared. All in whole ticks, so
summarised and inlined calls give the same shares to the last bit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain, islice

from distir.simulate.intervals import Moments, StreamIntervals


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
        computes, communicates = [s.computes for s in streams], [s.communicates for s in streams]
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
    busy = [moments for stream in streams for moments in (stream.computes, stream.communicates)]
    return covered([*busy, *[stream.waits_for_host for stream in streams]]) - covered(busy)


def hidden(stream: StreamIntervals, others: Iterable[StreamIntervals]) -> int:
    """For how many ticks of those that a stream is occupied another stream of its device computes."""
    occupied = [stream.computes, stream.communicates]
    computing = [other.computes for other in others]
    return covered(occupied) + covered(computing) - covered(occupied + computing)


def covered(found: Collection[Moments]) -> int:
    """How many ticks lie in any of some intervals; those of one collection do not overlap."""
    found = [moments for moments in found if moments]
    starts = [*chain.from_iterable([moments[::2] for moments in found])]
    ends = [*chain.from_iterable([moments[1::2] for moments in found])]
    if len(found) < 2:
        return sum(ends) - sum(starts)
    starts.sort()
    ends.sort()
    # After as many have ended as have started, nothing is under way until the next one starts.
    gaps = [start - end for start, end in zip(islice(starts, 1, None), ends, strict=False) if start > end]
    return ends[-1] - starts[0] - sum(gaps)
