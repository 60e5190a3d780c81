"""Clocks beside those of compute streams, and the effect of one op on all its clocks.

Per op on the devices D, in program order:

    host[d] += issue                                               for d in D
    start    = max( stream[d, s], host[d]  for d in D;  ready[v]  for its operands v )
    stream[d, s] = ready[result] = start + ticks

A program that names no stream, on a machine whose hosts take no time, has the compute streams' clocks alone: an operand
is never ready later than its own stream. Knows no ops and no functions.
"""

from __future__ import annotations

from functools import lru_cache

from distir.simulate.algebra.clocks import Clock, Lane, Row, Summary

BLOCKING = -1
"""In place of the ticks that issuing takes: the host waits until the op has ended."""


def host(device: int) -> Lane:
    """The host of a device: when it has issued what came so far."""
    return Lane("host", device)


def ready(storage: int) -> Lane:
    """When the value in a storage is there."""
    return Lane("ready", storage)


def stream(device: int, name: str) -> Clock:
    """A stream of a device; "" is the compute stream."""
    return Lane("stream", device, name) if name else device


@lru_cache(maxsize=1 << 16)
def occupation(
    devices: tuple[int, ...],
    ticks: int,
    communicates: bool,
    *,
    on: str = "",
    issue: tuple[int, ...] = (),
    taxes: tuple[int, ...] = (),
    awaited: tuple[int, ...] = (),
    made: tuple[int, ...] = (),
) -> Summary:
    """An op on a stream. Its first row is when it starts; what ends with it ends so many ticks after that row.

    `issue`: by device, how long its host takes to issue it, or `BLOCKING`; `taxes`: by device, how much later its
    compute stream gets on if this runs beside it; `awaited` and `made`: the storages whose values it waits for, and
    those of its results that others wait for.
    """
    lanes = [stream(device, on) for device in devices]
    start = [(lane, 0) for lane in lanes]
    start += [(host(device), max(spent, 0)) for device, spent in zip(devices, issue, strict=False)]
    start += [(ready(storage), 0) for storage in awaited]
    outputs = [*lanes, *map(ready, made)]
    outputs += [host(device) for device, spent in zip(devices, issue, strict=False) if spent == BLOCKING]
    rows: list[Row] = [tuple(start)]
    ends = [(lane, 0, ticks) for lane in outputs]
    delayed = [(host(device), spent) for device, spent in zip(devices, issue, strict=False) if spent != BLOCKING]
    delayed += [(device, tax) for device, tax in zip(devices, taxes if on else (), strict=False) if tax]
    for lane, delay in delayed:
        ends.append((lane, len(rows), delay))
        rows.append(((lane, 0),))
    touched = dict.fromkeys([*[lane for row in rows for lane, _ in row], *[lane for lane, _, _ in ends]])
    busy = dict.fromkeys(lanes, ticks)
    return Summary(
        tuple(touched),
        ticks,
        tuple(rows),
        tuple(ends),
        busy,
        busy if communicates else {},
        dict.fromkeys(outputs, 0),
        1,
        None,
    )
