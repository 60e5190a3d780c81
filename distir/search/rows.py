"""The rows of a search, one by one, and their Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from statistics import StatisticsError, correlation
from typing import Any

from distir.cost import show_bytes, show_seconds
from distir.cost.hardware import Fit
from distir.transform.strategy import SEARCHED, Strategy

NOT_MEASURED = "not measured: "
"""How the reason of a row begins that could not be run."""


@dataclass(frozen=True, slots=True)
class Binding:
    """Of all devices' time from the start of a step to its end: shares from 0 to 1, of which the sum is 1.

    `links`: communication that nothing hides. `host`: devices idle as a host has yet to issue what runs next; `bubble`:
    they idle for another reason. `memory`: the share of a device's memory that is taken.
    """

    compute: float
    links: float
    bubble: float
    host: float
    memory: float

    def __str__(self) -> str:
        """As `compute 71%, links 20%, bubble 9%`, the largest first; what is less than 1 % is left out."""
        return self.shown(0.01)

    def shown(self, least: float) -> str:
        """The shares that are no less, the largest first, and the share of memory where 90 % of it is taken."""
        shares = {"compute": self.compute, "links": self.links, "bubble": self.bubble, "host": self.host}
        ordered = sorted(shares.items(), key=lambda item: -item[1])
        said = [f"{name} {share:.0%}" for name, share in ordered if share >= least]
        return ", ".join([*said, *([f"memory {self.memory:.0%}"] if self.memory >= 0.9 else [])])


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration: a plan, a batch size, and its simulated figures.

    Seconds, examples per second, bytes of the device with the highest peak. `reason` says why a configuration could
    not be simulated; its latency is None then. Costs are known if the hardware profile states prices.
    """

    model: str
    batch_size: int | None
    plan: Strategy
    """How the program is distributed; files have a column for each field that a search tries."""
    latency_s: float | None
    throughput: float | None
    peak_memory_bytes: int | None
    fits: bool
    fit: Fit | None = None
    """`fits` with the errors of simulated memory; None without a simulation."""
    hardware: str = ""
    reason: str = ""
    measured_latency_s: float | None = None
    measured_memory_bytes: int | None = None
    cost_per_step: float | None = None
    cost_per_million_tokens: float | None = None
    currency: str = ""
    search: str = ""
    """The search that the row belongs to: a digest of the program, the hardware and the version."""
    flops_share: float | None = None
    """With T > 1: how much of the sequential program's FLOPs each shard does; 1/T is an even part."""
    weights_share: float | None = None
    """With T > 1: how much of the sequential program's weights each shard holds."""
    framework: str = ""
    """The training framework as which it is simulated; empty: none, it is ideal."""
    binding: Binding | None = field(default=None, compare=False, repr=False)
    """What binds it, where a search was asked for that. No column."""
    elsewhere: Mapping[str, float] = field(default_factory=dict[str, float], compare=False, repr=False)
    """Its seconds on other machines, each by what sets it apart, where a search was asked for that. No column."""

    @property
    def columns(self) -> dict[str, Any]:
        """What files have of it, by column."""
        own = {field.column: getattr(self.plan, field.name) for field in SEARCHED.values()}
        own |= {name: getattr(self, name) for name in STORED} | {"stages": ",".join(map(str, self.plan.stages))}
        return {name: own[name] for name in COLUMNS}

    @classmethod
    def of_columns(cls, columns: Mapping[str, Any]) -> Row:
        """The row of these values by column, the layers of stages as numbers."""
        plan = Strategy(**{field.name: columns[field.column] for field in SEARCHED.values()})
        return cls(plan=plan, **{name: columns[name] for name in STORED})

    @property
    def degrees(self) -> str:
        """As the paper writes them: `D/T/P/K`."""
        return "/".join(str(getattr(self.plan, name)) for name in [*SEARCHED][:_DEGREES])

    @property
    def micro_batch(self) -> int | None:
        """Examples in a microbatch of one replica; None where the program fixes the batch."""
        return None if self.batch_size is None else self.batch_size // (self.plan.data * self.plan.microbatches)

    @property
    def key(self) -> tuple[int | None, Strategy]:
        """Identifies the row within its search."""
        return self.batch_size, self.plan


_DEGREES, _FIGURES = 4, 7
"""Columns that come first: D, T, P and K of a plan; model, batch and figures of a row."""

STORED = tuple(f.name for f in fields(Row) if f.compare and f.name != "plan")
"""What files have of a row beside its plan."""

_PLAN = tuple(field.column for field in SEARCHED.values())

COLUMNS = (*STORED[:2], *_PLAN[:_DEGREES], *STORED[2:_FIGURES], *_PLAN[_DEGREES:], *STORED[_FIGURES:])

KINDS = {f.name: str(f.type) for f in fields(Row)} | {
    SEARCHED[f.name].column: str(f.type) for f in fields(Strategy) if f.name in SEARCHED
}
"""The types of columns, as they are declared."""


def _unless_none(value: float | None) -> float:
    return float("inf") if value is None else value


MEASURES: dict[str, Callable[[Row], float]] = {
    "time": lambda row: _unless_none(row.latency_s),
    "memory": lambda row: _unless_none(row.peak_memory_bytes),
    "throughput": lambda row: -(row.throughput or 0.0),
    "cost": lambda row: _unless_none(row.cost_per_step),
    "devices": lambda row: row.plan.devices,
    "batch": lambda row: _unless_none(row.batch_size),
}
"""The measures by which rows are compared, by name: less is better."""


def pareto(rows: Iterable[Row], first: str = "memory", second: str = "throughput") -> list[Row]:
    """The Pareto front of two of `MEASURES`, among the rows that fit: no row is beaten in both.

    By the first measure. By default of memory and throughput. Raises KeyError for another measure.
    """
    one, other = MEASURES[first], MEASURES[second]
    front: list[Row] = []
    for row in sorted((r for r in rows if r.fits), key=lambda r: (one(r), other(r), *rank(r))):
        if not front or other(row) < other(front[-1]):
            front.append(row)
    return front


def rank_correlation(rows: Iterable[Row]) -> float | None:
    """How alike the orders of simulated and of measured times per example are (Spearman's coefficient), from -1 to 1.

    Of the rows that were measured; None for fewer than three, or where all are equally fast.
    """
    each = [
        (row.latency_s / (row.batch_size or 1), row.measured_latency_s / (row.batch_size or 1))
        for row in rows
        if row.latency_s is not None and row.measured_latency_s is not None
    ]
    if len(each) < 3:
        return None
    simulated, measured = zip(*each, strict=True)
    try:
        return correlation(_places(simulated), _places(measured))
    except StatisticsError:
        return None


def _places(values: Sequence[float]) -> list[float]:
    """By value: its place in their order; of equal ones, the mean of theirs."""
    order = sorted(values)
    return [order.index(value) + (order.count(value) - 1) / 2 for value in values]


def shown_row(row: Row) -> str:
    """A row in a few words: its degrees, time and memory."""
    memory = "" if row.peak_memory_bytes is None else f", {shown_memory(row)}"
    time = "" if row.latency_s is None else f": {show_seconds(row.latency_s)}, {show_rate(row.throughput)}{memory}"
    return f"D/T/P/K {row.degrees}{time}"


def shown_memory(row: Row) -> str:
    """The peak of memory, and what is open about it: `79.1GB, may not fit`."""
    doubt = "" if row.fit in ("fits", None) else f", {row.fit}"
    return f"{show_bytes(row.peak_memory_bytes or 0)}{doubt}"


def show_rate(throughput: float | None) -> str:
    """Examples per second to four digits, as in `15,910/s` and `1.25/s`."""
    rounded = float(f"{throughput or 0.0:.4g}")
    return f"{rounded:,.0f}/s" if rounded >= 1000 else f"{rounded:.4g}/s"


def rank(row: Row) -> tuple[float, int, Strategy]:
    """The sort key of rows: the fastest first, then the one with the least memory."""
    return -(row.throughput or 0.0), row.peak_memory_bytes or 0, row.plan
