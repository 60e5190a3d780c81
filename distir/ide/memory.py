"""The memory of a simulated text over time, and what stands in it when it is fullest, with places in the text."""

from __future__ import annotations

from dataclasses import dataclass

from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ir import Site

MOST_POINTS = 4000
"""A curve of more points is thinned: of each stretch its highest point is kept."""

MOST_WALKED = 2_000_000
"""Of programs of more ops, as if inlined, there are peaks but no curves."""

MOST_VALUES = 50


@dataclass(frozen=True, slots=True)
class Resident:
    """A value in memory at the peak: where it was made (None: a parameter of the entry function)."""

    name: str
    nbytes: int
    function: str
    statement: int | None
    span: Span | None


@dataclass(frozen=True, slots=True)
class Curve:
    """One physical memory. `points`: seconds and bytes, each from then on; `peak_*`: the first op at the peak.

    `values`: the largest values that are live then. `devices`: those of the program that use this memory.
    """

    devices: tuple[int, ...]
    capacity_bytes: int
    peak_bytes: int
    peak_op: str | None
    peak_span: Span | None
    peak_s: float
    values: tuple[Resident, ...]
    points: tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True)
class MemoryView:
    """All memories that a program uses."""

    hardware: str
    function: str
    latency_s: float
    memories: tuple[Curve, ...]


def memory_view(document: Document) -> MemoryView | None:
    """The use of memory over time; None without a simulation."""
    simulation = document.simulation
    if simulation is None:
        return None
    users: dict[int, list[int]] = {}
    for device in simulation.devices:
        users.setdefault(simulation.memory_of(device), []).append(device)
    points: dict[int, list[tuple[float, int]]] = {memory: [] for memory in users}
    profile = simulation.memory()
    if simulation.ops <= MOST_WALKED:
        for point in profile.points():
            if point.memory in points:
                points[point.memory].append((point.time, point.nbytes))
    found: list[Curve] = []
    timeline, locate = simulation.timeline(), document.program.syntax.source_map
    for memory, devices in users.items():
        peak, number, live = profile.peak(memory)
        event = timeline.event(number) if number is not None else None
        place = Site(event.function.name, event.path[-1][1]) if event is not None else None
        values = tuple(
            Resident(
                value.name,
                value.nbytes,
                value.function,
                value.index,
                locate(Site(value.function, value.index)),
            )
            for value in live[:MOST_VALUES]
        )
        found.append(
            Curve(
                tuple(devices),
                simulation.devices[devices[0]].capacity_bytes,
                peak,
                event.effect.op if event is not None else None,
                locate(place) if place is not None else None,
                event.start if event is not None else 0.0,
                values,
                tuple(thinned(points[memory], MOST_POINTS)),
            )
        )
    return MemoryView(simulation.hardware.name, simulation.function.name, simulation.latency_s, tuple(found))


def thinned(points: list[tuple[float, int]], most: int) -> list[tuple[float, int]]:
    """At most so many points in the same order: of each stretch the highest one; the last point stays."""
    if len(points) <= most:
        return points
    size = -(-len(points) // (most - 1))
    kept = [max(points[i : i + size], key=lambda point: point[1]) for i in range(0, len(points), size)]
    return [*kept[: most - 1], points[-1]]
