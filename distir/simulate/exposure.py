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
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from distir.simulate.algebra.clocks import Clock, Clocks, of_device
from distir.simulate.body import Body
from distir.simulate.descent import EventPlace, Run


class StreamActivity(IntEnum):
    """The activities of a device; of simultaneous ones, the first counts."""

    COMPUTES, COMMUNICATES, WAITS_FOR_HOST = range(3)


Piece = tuple[int, int, StreamActivity]
"""From when and until when a stream is occupied, or waits for a host, in ticks."""

Pieces = Mapping[Clock, list[Piece]]
"""By stream, in order. What follows without a gap and is of one kind is one piece."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """The two shares, from 0 to 1; 0 for a program that takes no time."""

    bubble: float
    exposed_communication: float


@dataclass(frozen=True, slots=True)
class Laid:
    """For how many ticks a device computes, communicates without computing, and does neither but wait for a host."""

    computes: int
    exposed: int
    waits_for_host: int


def exposure(pieces: Pieces, busy: Clocks, communication: Clocks, latency: int, devices: Collection[int]) -> Exposure:
    """The shares for one run of a body.

    `busy`, `communication` and `latency` are in ticks, the first two by stream; `pieces`: what occupies the streams of
    devices that have several; `devices`: those of the program.
    """
    idle = exposed = 0
    for own in by_device(busy, devices).values():
        if len(own) <= 1:
            computes = sum(busy.get(stream, 0) - communication.get(stream, 0) for stream in own)
            communicates = sum(communication.get(stream, 0) for stream in own)
        else:
            laid = laid_beside([pieces[stream] for stream in own])
            computes, communicates = laid.computes, laid.exposed
        idle += latency - computes - communicates
        exposed += communicates
    whole = latency * len(devices)
    return Exposure(idle / whole, exposed / whole) if whole else Exposure(0.0, 0.0)


def by_device(busy: Collection[Clock], devices: Collection[int]) -> dict[int, list[Clock]]:
    """By device: those of its streams that are used."""
    found: dict[int, list[Clock]] = {device: [] for device in devices}
    for stream in busy:
        device = of_device(stream)
        if device in found:
            found[device].append(stream)
    return found


def laid_beside(streams: Iterable[list[Piece]]) -> Laid:
    """The activity of a device, given those of its streams."""
    moments = [(at, by, kind) for pieces in streams for a, b, kind in pieces for at, by in ((a, 1), (b, -1))]
    moments.sort()
    doing, total, before = [0] * len(StreamActivity), [0] * len(StreamActivity), 0
    for moment, by, kind in moments:
        for at in StreamActivity:
            if doing[at]:
                total[at] += moment - before
                break
        doing[kind] += by
        before = moment
    return Laid(*total)


def hidden(stream: Iterable[Piece], others: Iterable[list[Piece]]) -> int:
    """For how many ticks of those that a stream is occupied another stream of its device computes."""
    occupied = [piece for piece in stream if piece[2] is not StreamActivity.WAITS_FOR_HOST]
    moments = [(at, by, 0) for a, b, _ in occupied for at, by in ((a, 1), (b, -1))]
    computing = [piece for pieces in others for piece in pieces if piece[2] is StreamActivity.COMPUTES]
    moments += [(at, by, 1) for a, b, _ in computing for at, by in ((a, 1), (b, -1))]
    moments.sort()
    open_now, total, before = [0, 0], 0, 0
    for moment, by, which in moments:
        total += moment - before if all(open_now) else 0
        open_now[which] += by
        before = moment
    return total


def pieces_of(body: Body, streams: Collection[Clock], hosts: bool = False) -> Pieces:
    """The events that occupy these streams, and with `hosts` those that wait for hosts."""
    found: dict[Clock, list[Piece]] = {stream: [] for stream in streams}
    for stream, start, end, kind in _occupied(body, streams, hosts):
        own = found[stream]
        if own and own[-1][1:] == (start, kind):
            own[-1] = own[-1][0], end, kind
        else:
            own.append((start, end, kind))
    return found


def _occupied(body: Body, streams: Collection[Clock], hosts: bool) -> Iterator[tuple[Clock, int, int, StreamActivity]]:
    """All that takes time on streams, in program order. Calls of one kind are passed over."""
    wanted = set(streams)
    root = Run(body, defaultdict(int))
    ways = [(root, iter(range(len(root.begins))))]
    while ways:
        current, statements = ways[-1]
        for statement in statements:
            group, step = current.groups[statement], current.body.steps[statement]
            if wanted.isdisjoint(group):
                continue
            if isinstance(step, Body):
                kind = _kind(step)
                if kind is None:
                    entered = current.enter(statement)
                    ways.append((entered, iter(range(len(entered.begins)))))
                    break
                (start,) = current.clocks(statement).values()
                for stream in group:  # one
                    yield stream, start, start + step.summary.ticks, kind
                continue
            place = EventPlace(current, statement)
            start, effect = place.start, place.effect
            kind = StreamActivity.COMMUNICATES if effect.communicates else StreamActivity.COMPUTES
            since = place.allowed if hosts else start
            for stream in place.streams:
                if stream in wanted:
                    if since < start:
                        yield stream, since, start, StreamActivity.WAITS_FOR_HOST
                    if effect.ticks:
                        yield stream, start, start + effect.ticks, kind
        else:
            ways.pop()


def _kind(body: Body) -> StreamActivity | None:
    """The single kind of all ops of a body; None if there are several kinds, or waits."""
    summary = body.summary
    if len(summary.devices) != 1:
        return None
    device = summary.devices[0]
    communicates = summary.communication.get(device, 0)
    if communicates not in (0, summary.busy[device]):
        return None
    return StreamActivity.COMMUNICATES if communicates else StreamActivity.COMPUTES
