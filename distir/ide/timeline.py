"""The timeline of a simulated text, for views beside it: what runs when on which device, and where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ir import Site
from distir.simulate.timeline import Event

MOST_EVENTS = 20_000
"""No answer holds more events, unless it is asked for."""

MOST_LOOKED_AT = 500_000
"""Of programs of more events, as if inlined, slack and waits are not worked out."""


@dataclass(frozen=True, slots=True)
class DeviceLane:
    """What one device does in all, in seconds and bytes."""

    device: int
    busy_s: float
    idle_s: float
    comm_s: float
    peak_memory_bytes: int
    capacity_bytes: int


@dataclass(frozen=True, slots=True)
class Bar:
    """One op on the timeline. `calls`: the functions that lead to it, outermost first, its own last."""

    event: int
    op: str
    label: str
    function: str
    statement: int
    calls: tuple[str, ...]
    span: Span | None
    start_s: float
    duration_s: float
    devices: tuple[int, ...]
    bound: str
    slack_s: float | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A device that idles until an op starts there, for another op."""

    device: int
    start_s: float
    duration_s: float
    before: int
    blocker: int


@dataclass(frozen=True, slots=True)
class TimelineView:
    """A piece of a timeline. `next_event`: where to go on; None at the end."""

    hardware: str
    function: str
    latency_s: float
    ops: int
    events: int
    devices: tuple[DeviceLane, ...]
    bars: tuple[Bar, ...]
    next_event: int | None
    critical_path: tuple[int, ...]
    waits: tuple[Waiting, ...]


def timeline_view(
    document: Document, first_event: int = 0, most: int = MOST_EVENTS, devices: frozenset[int] | None = None
) -> TimelineView | None:
    """The timeline from one event on, in program order; of certain `devices` alone. None without a simulation."""
    simulation = document.simulation
    if simulation is None:
        return None
    timeline = simulation.timeline()
    is_long = len(timeline) > MOST_LOOKED_AT
    slack = None if is_long else timeline.slack
    bars: list[Bar] = []
    following: int | None = None
    for event in timeline.events(first_event):
        if len(bars) >= most:
            following = event.index
            break
        if devices is None or not devices.isdisjoint(event.effect.devices):
            bars.append(_bar(document, event, slack[event.index] if slack is not None else None))
    last = following if following is not None else len(timeline)
    return TimelineView(
        simulation.hardware.name,
        simulation.function.name,
        simulation.latency_s,
        simulation.ops,
        len(timeline),
        tuple(
            DeviceLane(d, use.busy_s, use.idle_s, use.comm_s, use.peak_memory_bytes, use.capacity_bytes)
            for d, use in simulation.devices.items()
        ),
        tuple(bars),
        following,
        () if is_long else tuple(e for e in timeline.critical_path() if first_event <= e < last),
        () if is_long else tuple(_waits(document, first_event, last)),
    )


def _bar(document: Document, event: Event, slack: float | None) -> Bar:
    function, index = event.path[-1]
    return Bar(
        event.index,
        event.effect.op,
        event.label,
        function.name,
        index,
        tuple(f.name for f, _ in event.path),
        document.program.syntax.source_map(Site(function.name, index)),
        event.start,
        event.effect.cost.seconds,
        event.effect.devices,
        event.effect.cost.bound,
        slack,
    )


def _waits(document: Document, first: int, last: int) -> Iterator[Waiting]:
    assert document.simulation is not None
    for wait in document.simulation.timeline().waits:
        if first <= wait.event < last:
            yield Waiting(wait.device, wait.start, wait.seconds, wait.event, wait.blocker)
