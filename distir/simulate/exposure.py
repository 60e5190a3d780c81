"""How much of its devices' time a program leaves unused, and how much goes into communication that nothing hides.

A *device* is one with a memory of its own, whatever number of streams it has. It computes while an op that does not
communicate occupies one of its streams, and communicates while a communication does. Over all devices that the program
uses, from its start to its end:

- the *bubble* is the share of (devices × latency) in which a device neither computes nor communicates;
- *exposed communication* is the share in which it communicates and does not compute.

What remains is computing, with communication hidden behind it or not. Devices with one stream need nothing but the sums
that summaries of calls hold; for those with several, what runs on one stream is laid beside what runs on the others.
All in whole ticks, so calls summarised or inlined give the same shares to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from distir.simulate.algebra.clocks import Clocks
from distir.simulate.body import Body
from distir.simulate.descent import Run

Piece = tuple[int, int, bool]
"""From when and until when a stream is occupied, in ticks; whether by communication."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """The two shares, from 0 to 1; 0 for a program that takes no time."""

    bubble: float
    exposed_communication: float


def exposure(body: Body, busy: Clocks, communication: Clocks, latency: int, memories: Mapping[int, int]) -> Exposure:
    """The shares for one run of a body.

    `busy`, `communication` and `latency` are in ticks, the first two by device of the program; `memories`: by device of
    the program, the memory that its streams share.
    """
    streams: dict[int, list[int]] = {}
    for device, memory in memories.items():
        streams.setdefault(memory, []).append(device)
    several = {device for own in streams.values() if len(own) > 1 for device in own}
    pieces = _pieces(body, busy, several) if several else {}
    idle = exposed = 0
    for own in streams.values():
        if len(own) == 1:
            computes, communicates = busy.get(own[0], 0), communication.get(own[0], 0)
            computes -= communicates
        else:
            computes, communicates = _laid_beside([pieces[device] for device in own])
        idle += latency - computes - communicates
        exposed += communicates
    whole = latency * len(streams)
    return Exposure(idle / whole, exposed / whole) if whole else Exposure(0.0, 0.0)


def _laid_beside(streams: Iterable[list[Piece]]) -> tuple[int, int]:
    """For how long any of the streams computes, and for how long one communicates while none computes."""
    moments: list[tuple[int, int, int]] = []
    for start, end, communicates in (piece for pieces in streams for piece in pieces):
        communicate = int(communicates)
        compute = 1 - communicate
        moments += [(start, compute, communicate), (end, -compute, -communicate)]
    moments.sort()
    computing = communicating = computes = communicates = before = 0
    for moment, compute, communicate in moments:
        if computing:
            computes += moment - before
        elif communicating:
            communicates += moment - before
        computing, communicating, before = computing + compute, communicating + communicate, moment
    return computes, communicates


def _pieces(body: Body, busy: Clocks, devices: set[int]) -> dict[int, list[Piece]]:
    """By device: what occupies it, in order. What follows without a gap and is of one kind is one piece."""
    found: dict[int, list[Piece]] = {device: [] for device in devices}
    for device, start, end, communicates in _occupied(body, busy, devices):
        own = found[device]
        if own and own[-1][1:] == (start, communicates):
            own[-1] = own[-1][0], end, communicates
        else:
            own.append((start, end, communicates))
    return found


def _occupied(body: Body, busy: Clocks, devices: set[int]) -> Iterator[tuple[int, int, int, bool]]:
    """Device, start, end and kind of all that takes time there, in program order. Calls of one kind are passed over."""
    root = Run(body, dict.fromkeys(busy, 0))
    ways = [(root, iter(range(len(root.begins))))]
    while ways:
        current, statements = ways[-1]
        for statement in statements:
            group, step = current.groups[statement], current.body.steps[statement]
            if devices.isdisjoint(group):
                continue
            if isinstance(step, Body):
                kind = _kind(step)
                if kind is None:
                    entered = current.enter(statement)
                    ways.append((entered, iter(range(len(entered.begins)))))
                    break
                ticks = step.summary.ticks
            else:
                assert step is not None
                kind, ticks = step.work.communication is not None, step.ticks
            begins = current.begins[statement]
            start = begins if isinstance(begins, int) else max(begins)
            for device in group if ticks else ():
                if device in devices:
                    yield device, start, start + ticks, kind
        else:
            ways.pop()


def _kind(body: Body) -> bool | None:
    """Whether all that a body does is communication; None where it does both, or where its devices may wait."""
    summary = body.summary
    if len(summary.devices) != 1:
        return None
    device = summary.devices[0]
    communicates = summary.communication.get(device, 0)
    return bool(communicates) if communicates in (0, summary.busy[device]) else None
