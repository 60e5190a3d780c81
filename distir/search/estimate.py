"""Estimates the times of plans from a few simulated ones, to choose those that a best-first search simulates next.

Seconds and bytes are sums of terms that physics gives: arithmetic, what the busiest stage has more of it than the mean,
the bubble, each kind of communication by the bytes it carries and the links it goes over; weights and state,
activations by how many microbatches are in flight. The factors of the terms begin as what the sequential program says,
and are fitted to each row that is found (least squares of relative errors, with a prior). Estimates order the search;
nothing is excluded by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from operator import attrgetter
from typing import Any

from distir.cost import Hardware
from distir.ops.resources import Communication, Work
from distir.search.annealing import equal_stages
from distir.search.bounds import Load, PlanBounds
from distir.search.plan import Plan
from distir.search.rows import Row
from distir.search.sequential import Sequential
from distir.transform.pipeline import SCHEDULES

np: Any = import_module("numpy")

PRIOR = 0.05
"""How much the first factors count against a row."""

PROBE = 1 << 26
"""Bytes of the message that tells how fast a group of devices is."""

LAYER_ISSUE = 2e-4
"""Seconds that a layer takes for a microbatch however small it is: those of issuing its ops."""

OVER = 8.0
"""How much a plan is set back that probably needs more memory than there is, for each of it that is lacking."""


class Estimates:
    """Of plans at one batch size: rows are learnt from, `scores` order what is left."""

    def __init__(self, program: Sequential, load: Load, hardware: Hardware, size: int, plans: Sequence[Plan]) -> None:
        self.index = {plan: i for i, plan in enumerate(plans)}
        self.capacity = max(kind.memory for kind in hardware.kinds.distinct)
        table = _Table(plans)
        terms = _Terms(program, load, hardware, size, table)
        self.time, self.memory = _Fit(terms.seconds()), _Fit(terms.bytes())
        groups = dict[tuple[object, ...], int]()
        alike = "tensor", "context", "kind", "experts", "pipeline", "schedule", "virtual", "zero"
        self.group = table.found(lambda plan: groups.setdefault(_group(plan), len(groups)), *alike)
        self.groups = groups
        self.refused = np.zeros(len(groups))

    def learn(self, rows: Iterable[Row]) -> None:
        """Fit the factors to these rows, too."""
        for row in rows:
            at = self.index.get(row.plan)
            if row.latency_s is None:
                if (group := self.groups.get(_group(row.plan))) is not None:
                    self.refused[group] += 1
            elif at is not None:
                self.time.add(at, row.latency_s)
                self.memory.add(at, row.peak_memory_bytes or 1)

    def scores(self) -> Any:
        """For each plan its probable seconds, and more where it probably does not fit or cannot be."""
        over = np.maximum(self.memory.values() / self.capacity - 1.0, 0.0)
        return self.time.values() * (1 + OVER * over + (over > 0)) * (1 + self.refused[self.group])


def _group(plan: Plan) -> tuple[object, ...]:
    """A group of plans that are likely feasible or infeasible together: they lose priority together."""
    return plan.tensor, plan.context, plan.kind, plan.experts, plan.pipeline * plan.stages_per_device, plan.zero > 1


class _Fit:
    """A linear model: the value of each plan is the sum of its terms, each times a factor that is learnt."""

    def __init__(self, terms: Any) -> None:
        self.terms = terms
        self.rows: list[int] = []
        self.found: list[float] = []

    def add(self, row: int, value: float) -> None:
        self.rows.append(row)
        self.found.append(value)

    def values(self) -> Any:
        if not self.rows:
            return self.terms.sum(axis=1)
        own = self.terms[self.rows] / np.array(self.found)[:, None]
        count = own.shape[1]
        left = np.vstack([own, PRIOR * np.eye(count)])
        right = np.concatenate([np.ones(len(self.rows)), PRIOR * np.ones(count)])
        factors = np.linalg.lstsq(left, right, rcond=None)[0]
        return self.terms @ np.clip(factors, 0.05, 20.0)


class _Terms:
    """The terms of plans, of which each with the factor 1 is what the sequential program says. A row for each plan."""

    def __init__(self, program: Sequential, load: Load, hardware: Hardware, size: int, table: _Table) -> None:
        column = table.column
        self.program, self.hardware = program, hardware
        self.d = column("data")
        self.t = column("tensor")
        self.p = column("pipeline")
        self.c = column("context")
        self.k = column("microbatches")
        self.e = column("experts")
        self.zero = column("zero")
        self.checkpoint, self.fuse = column("checkpoint"), column("fuse")
        self.hidden = np.where(column("overlap"), 0.3, 1.0)
        self.whole = (self.t == 1) | column("sequence")
        shard = column("shard")
        self.group = np.where(shard > 0, shard, self.d) * self.c
        head, bounds = load.beside(program.layers), PlanBounds(load, hardware)

        def even(plan: Plan) -> Plan:
            """Without what makes a pipeline wait."""
            degrees = plan.data, plan.tensor, plan.pipeline, plan.microbatches
            return Plan(*degrees, "", fuse=plan.fuse, context=plan.context)

        way = ("pipeline", "schedule", "virtual")
        self.idle = table.found(_idle, "schedule")
        self.stages = table.found(lambda plan: plan.stages_per_device, *way)
        self.flying = table.found(_in_flight, *way, "microbatches", "chunks")
        self.uneven = table.found(
            lambda plan: _unevenness(*_cut(plan), program.layers, head), *way, "stages", "balance"
        )
        self.least = table.found(
            lambda plan: bounds.seconds(even(plan)), "data", "tensor", "pipeline", "microbatches", "fuse", "context"
        )
        self.examples = size / self.d / self.c / self.p
        """Of which each device has the activations, in all microbatches."""
        self.micro = size / self.d / self.k / self.c

    def seconds(self) -> Any:
        """Arithmetic, on the busiest stage, recomputed, and the bubble; other ops, issue; communication.

        That of shards, contexts, experts, replicas, stages.
        """
        program, d, t, p, c, k = self.program, self.d, self.t, self.p, self.c, self.k
        bubble = (p - 1) / (k * self.stages) * self.idle
        others = self.examples * program.others / t * np.where(self.fuse, 0.6, 1.0)
        passed = self.examples * program.passed * program.layers
        gradients = program.weights / (t * p * self.e)
        gathered = np.where(self.zero >= 3, np.where((p > 1) | (k > 1), 2 * k, 2), 0)
        reduced = np.where((self.zero >= 2) & (p == 1), k, 1)
        hops = self.examples * program.passed * 2 * self.stages * p
        return np.stack(
            [
                self.least,
                self.least * self.uneven,
                np.where(self.checkpoint, self.least / 3, 0.0),
                self.least * bubble,
                others,
                others * bubble,
                LAYER_ISSUE * k * program.layers / p,
                self.rate(t, np.ones_like(t)) * passed * 4 * self.hidden,
                self.rate(c, t) * passed * 2 / t * self.hidden,
                self.rate(self.e, t * c) * passed * 4 / t,
                self.rate(d * c, t) * gradients * reduced * self.hidden,
                self.rate(self.group, t) * gradients / 2 * gathered * self.hidden,
                self.rate(np.where(p > 1, 2, 1), t * c * d) * hops,
            ],
            axis=1,
        )

    def bytes(self) -> Any:
        """Weights, state, gradients, activations in flight, and those of the microbatch at work."""
        program, t = self.program, self.t
        parts = t * self.p * self.e
        flying = self.micro * self.flying / self.p
        partly = 1 / (0.7 / t + 0.3)
        shards = np.where(self.whole, t, partly)  # some activations are whole on each shard
        inputs = program.passed * program.layers / np.where(self.whole, t, 1)
        working = np.where(self.checkpoint, program.recomputed, program.saved / program.layers)
        return np.stack(
            [
                program.weights / parts / np.where(self.zero >= 3, self.group, 1),
                program.state / parts / np.where(self.zero >= 1, self.group, 1),
                program.weights / parts / np.where(self.zero >= 2, self.group, 1) * bool(program.state),
                flying * np.where(self.checkpoint, inputs, program.saved / shards),
                self.micro * working / shards,
            ],
            axis=1,
        )

    def rate(self, sizes: Any, strides: Any) -> Any:
        """The seconds per byte of an all-reduce over groups of these sizes, of every `strides`-th device."""
        pairs, place = np.unique(sizes.astype(np.int64) << 32 | strides.astype(np.int64), return_inverse=True)
        return np.array([_rate(self.hardware, pair >> 32, pair & 0xFFFFFFFF) for pair in pairs.tolist()])[place]


class _Table:
    """Plans by columns: there may be a million, of which few differ in any few fields."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.plans = plans
        self._coded: dict[str, Any] = {}

    def column(self, name: str) -> Any:
        """The values of a field."""
        return np.array(self._values(name))

    def found(self, of: Callable[[Plan], float], *fields: str) -> Any:
        """For each plan what is found of it, which depends on these fields alone."""
        key = np.zeros(len(self.plans), dtype=np.int64)
        for name in fields:
            codes = self._codes(name)
            key = np.unique(key * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        where: list[int] = first.tolist()
        return np.array([of(self.plans[i]) for i in where])[place]

    def _codes(self, name: str) -> Any:
        """By plan a number of the value that a field has."""
        if name not in self._coded:
            values = self._values(name)
            numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
            self._coded[name] = np.fromiter(map(numbers.__getitem__, values), dtype=np.int64, count=len(values))
        return self._coded[name]

    def _values(self, name: str) -> list[Any]:
        value: Callable[[Plan], Any] = attrgetter(name)
        return [*map(value, self.plans)]


def _idle(plan: Plan) -> float:
    """How much of the bubble is left, where weight gradients fill it."""
    known = SCHEDULES.get(plan.schedule)
    return 0.4 if known is not None and known.splits else 1.0


def _in_flight(plan: Plan) -> float:
    """How many microbatches have their activations on the first device of a pipeline, in stages of their own."""
    if plan.pipeline == 1:
        return 1.0
    if plan.schedule in ("gpipe", "looped-bfs"):
        return float(plan.microbatches)
    virtual = plan.stages_per_device if plan.schedule == "interleaved" else 1
    if plan.chunks:
        return min(float(plan.microbatches), (plan.pipeline + plan.chunks - 1) / plan.chunks)
    return min(float(plan.microbatches), plan.pipeline * (1 + (virtual - 1) / virtual))


def _cut(plan: Plan) -> tuple[int, int, bool, bool, tuple[int, ...]]:
    """The properties of a plan that determine the number of layers per device."""
    known = SCHEDULES.get(plan.schedule)
    turns = known is not None and known.stages > 1 and not known.virtual
    return plan.pipeline, plan.stages_per_device, turns, plan.balance == "uniform", plan.stages


@lru_cache(maxsize=1 << 12)
def _unevenness(
    pipeline: int, each: int, turns: bool, uniform: bool, stages: tuple[int, ...], layers: int, head: float
) -> float:
    """How much more than the mean the busiest device has to do, as a share of the mean.

    `head`: the share of what comes after the layers, on the last stage. `turns`: stages go back the way they came.
    """
    count = pipeline * each
    if pipeline == 1 or count > layers:
        return 0.0
    layer = (1 - head) / layers

    def busiest(sizes: tuple[int, ...]) -> float:
        homes = [i % pipeline if not turns or i < pipeline else count - 1 - i for i in range(count)]
        work = [0.0] * pipeline
        for home, size in zip(homes, sizes, strict=True):
            work[home] += size * layer
        work[homes[-1]] += head
        return max(work) * pipeline - 1

    if stages or uniform:
        return busiest(stages or equal_stages(layers, count))
    last = range(1, -(-layers // count) + 1)
    return min(busiest((*equal_stages(layers - few, count - 1), few)) for few in last)


@lru_cache(maxsize=1 << 12)
def _rate(hardware: Hardware, size: int, stride: int) -> float:
    devices = tuple(range(0, size * stride, stride))
    if size <= 1 or devices[-1] >= hardware.devices:
        return 0.0
    return hardware.cost(Work(communication=Communication("allreduce", PROBE)), devices).seconds / PROBE
