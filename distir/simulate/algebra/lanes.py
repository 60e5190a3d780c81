"""Clocks beside those of compute streams, and the effect of one op on all its clocks.

Per op on the devices D, in program order:

    host[d] += issue                                               for d in D
    start    = max( stream[d, s], host[d]  for d in D;  ready[v]  for its operands v )
    stream[d, s] = ready[result] = start + ticks

A program that names no stream, on a machine whose hosts take no time, has the compute streams' clocks alone: an operand
is never ready later than its own stream. Knows no ops and no functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import repeat

from distir.simulate.algebra.clocks import Clock, Lane, Step, Summary, lane, ready

BLOCKING = -1
"""In place of the ticks that issuing takes: the host waits until the op has ended."""


def host(device: int) -> Lane:
    """The host of a device: when it has issued what came so far."""
    return lane("host", device)


def stream(device: int, name: str) -> Clock:
    """A stream of a device; "" is the compute stream."""
    return lane("stream", device, name) if name else device


def is_host(clock: Clock) -> bool:
    """Whether a clock is a host's."""
    return isinstance(clock, Lane) and clock.kind == "host"


@lru_cache(maxsize=1 << 16)
def occupation(
    devices: tuple[int, ...],
    ticks: int,
    communicates: bool,
    on: str = "",
    issue: tuple[int, ...] = (),
    taxes: tuple[int, ...] = (),
) -> Summary:
    """An op on a stream. Its row is when it starts; what ends with it ends so many ticks after that row.

    `issue`: by device, how long its host takes to issue it, or `BLOCKING`; `taxes`: by device, how much later its
    compute stream gets on if this runs beside it.
    """
    lanes = [stream(device, on) for device in devices]
    start = [(lane, 0) for lane in lanes]
    start += [(host(device), max(spent, 0)) for device, spent in zip(devices, issue, strict=False)]
    outputs = [*lanes]
    outputs += [host(device) for device, spent in zip(devices, issue, strict=False) if spent == BLOCKING]
    ends = [(lane, 0, ticks) for lane in outputs]
    delayed = [(host(device), spent) for device, spent in zip(devices, issue, strict=False) if spent != BLOCKING]
    delayed += [(device, tax) for device, tax in zip(devices, taxes, strict=False) if tax]
    touched = dict.fromkeys([*[lane for lane, _ in start], *outputs, *[lane for lane, _ in delayed]])
    busy = dict.fromkeys(lanes, ticks)
    return Summary(
        tuple(touched),
        ticks,
        (tuple(start),),
        tuple(ends),
        tuple(delayed),
        busy,
        busy if communicates else {},
        dict.fromkeys(outputs, 0),
        1,
        None,
    )


def synchronised(op: Summary, awaited: tuple[int, ...], made: tuple[int, ...]) -> Summary:
    """The same where the op also waits for the values in some storages, and others wait for what it makes in some."""
    if not awaited and not made:
        return op
    waits, makes = [*map(ready, awaited)], [*map(ready, made)]
    return Summary(
        (*op.devices, *waits, *makes),
        op.ticks,
        ((*op.rows[0], *zip(waits, repeat(0))),),
        (*op.ends, *zip(makes, repeat(0), repeat(op.ticks))),
        op.shifts,
        op.busy,
        op.communication,
        op.last | dict.fromkeys(makes, 0) if makes else op.last,
        1,
        None,
    )


def allowed(op: Step, clocks: Mapping[Clock, int]) -> int:
    """When its streams and its operands would let an op start: where it starts later, it waits for a host."""
    return max([clocks[clock] for clock in waits_beside_issue(op)])


def waits_beside_issue(op: Step) -> tuple[Clock, ...]:
    """The clocks that an op waits for, but for those of hosts that only issue it."""
    if not isinstance(op, Summary):
        return op.devices
    return tuple([clock for clock, _ in op.rows[0] if clock in op.last or not is_host(clock)])
