"""Two versions of a program, or one on two machines, side by side: what one costs more, and where they part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from distir.cost import show_bytes, show_seconds, show_speedup
from distir.diagnostics import Span
from distir.ide.document import Document
from distir.simulate.simulation import Simulation
from distir.simulate.timeline import Event
from distir.transform import Side, difference


@dataclass(frozen=True, slots=True)
class SideCosts:
    """The costs of one side, in seconds and bytes, by device and by communication pattern."""

    name: str
    function: str
    hardware: str
    latency_s: float
    ops: int
    busy_s: Mapping[str, float]
    peak_memory_bytes: Mapping[str, int]
    communication_bytes: Mapping[str, int]
    messages: Mapping[str, int]
    cost: str | None
    """Of a step, as text: the two sides may have prices in different currencies."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The first op of a critical path that the other's does not have."""

    op: str
    label: str
    function: str
    statement: int
    start_s: float
    duration_s: float
    devices: tuple[int, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """`other` against `this`. `speedup`: how many times faster this one is; None where it takes no time.

    `shared`: how many ops the critical paths share from their start. A parting's `span` is in its own text.
    """

    other: SideCosts
    this: SideCosts
    speedup: float | None
    shared: int | None
    other_parting: Parting | None
    this_parting: Parting | None


def compare(other: Document, this: Document, other_name: str, this_name: str) -> Comparison | None:
    """Compare two simulated texts; None where one of them has no simulation."""
    if other.simulation is None or this.simulation is None:
        return None
    found = difference(other.simulation, this.simulation)
    first, second = found.parting
    return Comparison(
        _cost(other_name, other.simulation, found.left),
        _cost(this_name, this.simulation, found.right),
        found.speedup if this.simulation.latency_s else None,
        found.shared,
        _parting(other, first),
        _parting(this, second),
    )


def in_words(found: Comparison) -> str:
    """A comparison in one line."""
    before, now = found.other, found.this
    most = [max(cost.peak_memory_bytes.values(), default=0) for cost in (before, now)]
    times = f"{show_seconds(before.latency_s)} → {show_seconds(now.latency_s)}"
    speed = f" ({show_speedup(found.speedup)})" if found.speedup is not None and found.speedup != 1 else ""
    return f"{before.name} → {now.name}: {times}{speed}, most memory {show_bytes(most[0])} → {show_bytes(most[1])}"


def _cost(name: str, simulation: Simulation, side: Side) -> SideCosts:
    return SideCosts(
        name,
        simulation.function.name,
        simulation.hardware.name,
        side.latency_s,
        side.ops,
        {str(device): seconds for device, seconds in side.busy_s.items()},
        {str(device): nbytes for device, nbytes in side.peak_memory_bytes.items()},
        side.communication_bytes,
        side.messages,
        None if side.cost is None else str(side.cost),
    )


def _parting(document: Document, event: Event | None) -> Parting | None:
    if event is None:
        return None
    site = event.site
    return Parting(
        event.effect.op,
        event.label,
        site.function,
        event.place.statement,
        event.start,
        event.effect.cost.seconds,
        event.effect.devices,
        document.program.syntax.source_map(site),
    )
