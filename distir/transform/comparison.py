"""Compares two simulated programs: the differences of their costs, and where their critical paths diverge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from distir.cost import StepCost, show_bytes, show_seconds, show_speedup
from distir.ir import notebook
from distir.simulate import Event, Simulation
from distir.simulate.body import runs
from distir.simulate.effects import Effect
from distir.simulate.notebook import needed, pictures, plots, summary


@dataclass(frozen=True, slots=True)
class Side:
    """What one program costs."""

    latency_s: float
    ops: int
    """As if inlined."""
    peak_memory_bytes: Mapping[int, int]
    """By device."""
    busy_s: Mapping[int, float]
    """By device."""
    communication_bytes: Mapping[str, int]
    """By pattern (`send`, `allreduce`, …): the payloads of all messages, as `ops.Communication.nbytes` counts them."""
    messages: Mapping[str, int]
    """By pattern: how many."""
    op_counts: Mapping[str, int]
    """By op: how often it runs."""
    bubble: float
    """The share of (devices × latency) in which a device neither computes nor communicates, from 0 to 1."""
    exposed_communication: float
    """The share in which a device communicates and does not compute, from 0 to 1."""
    cost: StepCost | None
    """In money; None where the machine has no prices."""

    @property
    def most_memory_bytes(self) -> int:
        """The greatest peak of all devices, in bytes."""
        return max(self.peak_memory_bytes.values(), default=0)

    @property
    def total_communication_bytes(self) -> int:
        """The bytes of all messages together."""
        return sum(self.communication_bytes.values())


@dataclass(frozen=True, slots=True, repr=False)
class Difference:
    """Two programs, and the first events at which their critical paths differ (None: the path has ended)."""

    left: Side
    right: Side
    shared: int | None
    """The length of the critical paths' common prefix, in events; None for programs too long to follow them."""
    parting: tuple[Event | None, Event | None]
    simulations: tuple[Simulation, Simulation] | None = field(default=None, compare=False, repr=False)
    """The simulations that were compared."""

    @property
    def speedup(self) -> float:
        """The speedup of the right program over the left; `nan` if it takes no time."""
        return self.left.latency_s / self.right.latency_s if self.right.latency_s else float("nan")

    def __repr__(self) -> str:
        a, b = show_seconds(self.left.latency_s), show_seconds(self.right.latency_s)
        return f"Difference(A {a}, B {b}: {show_speedup(self.speedup)})"

    def _repr_html_(self) -> str:
        shown = pictures(self.simulations, "AB") if self.simulations is not None else ""
        return notebook.lines(repr(self)) + shown + notebook.table(("", "A", "B"), list(self._figures()))

    def _figures(self) -> Iterator[tuple[str, str, str]]:
        for name, show in _FIGURES.items():
            yield name, show(self.left), show(self.right)

    def to_pandas(self) -> Any:
        """The figures of both sides as a `pandas.DataFrame`. Raises ImportError without pandas."""
        sides = {"A": self.left, "B": self.right}
        found = {name: {figure: _MEASURED[figure](side) for figure in _MEASURED} for name, side in sides.items()}
        return needed("pandas").DataFrame(found)

    def plot(self) -> Any:
        """Both timelines on one scale, as a matplotlib figure.

        Raises ImportError without matplotlib, ValueError for too many ops, or where only figures were compared.
        """
        if self.simulations is None:
            raise ValueError("there are no timelines to draw: compare two simulations")
        return plots(
            self.simulations, [f"{name}: {summary(s)}" for name, s in zip("AB", self.simulations, strict=True)]
        )


_MEASURED: Mapping[str, Callable[[Side], float]] = {
    "latency_s": lambda side: side.latency_s,
    "peak_memory_bytes": lambda side: side.most_memory_bytes,
    "communication_bytes": lambda side: side.total_communication_bytes,
    "bubble": lambda side: side.bubble,
    "exposed_communication": lambda side: side.exposed_communication,
    "ops": lambda side: side.ops,
}

_FIGURES: Mapping[str, Callable[[Side], str]] = {
    "latency": lambda side: show_seconds(side.latency_s),
    "peak memory of a device": lambda side: show_bytes(side.most_memory_bytes),
    "communication": lambda side: show_bytes(side.total_communication_bytes),
    "bubble": lambda side: f"{side.bubble:.1%}",
    "exposed communication": lambda side: f"{side.exposed_communication:.1%}",
    "ops": lambda side: f"{side.ops:,}",
}


def difference(left: Simulation, right: Simulation) -> Difference:
    """Compare two simulations. Events are the same where function, op and result have the same names."""
    if left.timeline().is_long or right.timeline().is_long:
        return Difference(side_of(left), side_of(right), None, (None, None), (left, right))
    paths = [_critical_path(side) for side in (left, right)]
    pairs = list(zip(*paths, strict=False))
    shared = next((i for i, (a, b) in enumerate(pairs) if _key(a) != _key(b)), len(pairs))
    first, second = (path[shared] if shared < len(path) else None for path in paths)
    return Difference(side_of(left), side_of(right), shared, (first, second), (left, right))


def side_of(simulation: Simulation) -> Side:
    """What one simulated program costs."""
    volume: dict[str, int] = {}
    messages: dict[str, int] = {}
    op_counts: dict[str, int] = {}
    for body, times in runs(simulation.body):
        for step in body.steps:
            if not isinstance(step, Effect):
                continue
            op_counts[step.op] = op_counts.get(step.op, 0) + times
            communication = step.work.communication if step.devices else None
            if communication is not None:
                volume[communication.pattern] = volume.get(communication.pattern, 0) + times * communication.nbytes
                messages[communication.pattern] = messages.get(communication.pattern, 0) + times
    uses = simulation.devices
    return Side(
        simulation.latency_s,
        simulation.ops,
        {device: use.peak_memory_bytes for device, use in uses.items()},
        {device: use.busy_s for device, use in uses.items()},
        volume,
        messages,
        op_counts,
        simulation.bubble,
        simulation.exposed_communication,
        simulation.cost,
    )


def _critical_path(simulation: Simulation) -> list[Event]:
    timeline = simulation.timeline()
    return [timeline.event(index) for index in timeline.critical_path()]


def _key(event: Event) -> tuple[str, ...]:
    return (*(function.name for function, _ in event.path), event.op, event.label)
