"""Estimates the times of plans from a few simulated ones, to choose those that a best-first search simulates next.

Seconds and bytes are sums of terms that physics gives: arithmetic, what the busiest stage has more of it than the mean,
the bubble, each kind of communication by the bytes it carries and the links it goes over; weights and state,
activations by how many microbatches are in flight. The factors of the terms begin as what the sequential program says,
and are fitted to each row that is found (least squares of relative errors, with a prior). Estimates order the search;
nothing is excluded by them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache, partial
from importlib import import_module
from operator import attrgetter
from typing import Any

from distir.cost import Hardware
from distir.ops.attention import CONTEXTS
from distir.ops.resources import Communication, Work
from distir.search.annealing import equal_stages
from distir.search.bounds import Load, PlanBounds
from distir.search.plans import Plans
from distir.search.rows import Row
from distir.search.sequential import Sequential
from distir.search.stages import DEVICE_FIELDS, StageBounds, stage_of
from distir.transform.pipeline import SCHEDULES
from distir.transform.strategy import Strategy

np: Any = import_module("numpy")

PRIOR = 0.05
"""How much the first factors count against a row."""

PROBE = 1 << 26
"""Bytes of the message that tells how fast a group of devices is."""

LAYER_ISSUE = 2e-4
"""Seconds that a layer takes for a microbatch however small it is: those of issuing its ops."""

GRADIENT = 4
"""Bytes of the gradient of a weight, of which those of microbatches are added up."""

SPLIT = 0.4
"""How much of a bubble is left, where weight gradients fill it."""

FEW_RECOMPUTED = 0.2
"""The share of a step that is computed again where products are not."""

GROUPED = ("tensor", "context", "kind", "experts", "pipeline", "schedule", "virtual", "zero")

FAMILY = ("tensor", "experts")
"""What sets stages apart that have little in common: how products are split."""

DOUBT = 0.05
"""How far estimates of memory may be off, as a share: nearer to what there is, a plan may fit or not."""

USUAL_EFFORT = 64
COSTLY = 0.02
"""A plan that takes twice the effort of the usual must be faster by this share to be tried as early."""

OVER = 8.0
"""How much a plan is set back that probably needs more memory than there is, for each of it that is lacking."""


class Estimates:
    """Of plans at one batch size: stages and rows are learnt from, `scores` order what is left."""

    def __init__(self, program: Sequential, load: Load, hardware: Hardware, size: int, plans: Plans) -> None:
        self.plans = plans
        self.capacity = max(kind.memory for kind in hardware.kinds.distinct)
        micro = size // (self.plans.column("data") * self.plans.column("microbatches"))
        several = self.plans.column("microbatches") > 1
        first, self.stage = self.plans.groups(*DEVICE_FIELDS, also=2 * micro + several)
        self.stages = self.plans.take(first)
        """A plan of each stage and size of its microbatches: what a device does for one is the same in many plans."""
        self.each = _Fit(_stage_seconds(program, load, hardware, size, self.stages))
        self.held = _Fit(_stage_bytes(program, size, self.stages))
        self.terms = _Terms(program, load, hardware, size, self.plans)
        self.time, self.memory = _Fit(self.terms.seconds(self._each())), _Fit(self.terms.bytes(self._held()))
        groups = dict[tuple[object, ...], int]()
        self.group = self.plans.found(lambda plan: groups.setdefault(_group(plan), len(groups)), *GROUPED)
        self.groups = groups
        self.refused = np.zeros(len(groups))
        effort = self.plans.found(attrgetter("effort"), "pipeline", "schedule", "virtual", "microbatches")
        self.costly = 1 + COSTLY * np.log2(np.maximum(effort / USUAL_EFFORT, 1.0))

    def unknown(self, places: Iterable[int], stages: StageBounds, count: int) -> list[Strategy]:
        """So many stages, those of the first ones of these plans, that are not simulated yet."""
        found = dict[Strategy, None]()
        for place in places:
            plan = self.plans[place]
            if (stage := stage_of(plan)) not in found and stages.lacks(plan, stage):
                found[stage] = None
                if len(found) == count:
                    break
        return [*found]

    def of_each_family(self, scores: Any) -> list[int]:
        """The place of the best plan of each family, the best one first: what one tells of others is a guess."""
        _, family = self.plans.groups(*FAMILY)
        order = np.argsort(scores, kind="stable")
        _, first = np.unique(family[order], return_index=True)
        best = order[np.sort(first)]
        return best[np.isfinite(scores[best])].tolist()

    def learn_stages(self, stages: StageBounds) -> None:
        """Take what is known of stages by themselves, and what it says of others."""
        for place, plan in enumerate(self.stages):
            figures = stages.figures(plan)
            if figures is not None and place not in self.each.known:
                self.each.add(place, figures.seconds or figures.least)
                self.held.add(place, figures.nbytes)
        self.time.terms = self.terms.seconds(self._each())
        self.memory.terms = self.terms.bytes(self._held())

    def learn(self, rows: Iterable[Row]) -> None:
        """Fit the factors to these rows, too."""
        for row in rows:
            at = self.plans.find(row.plan)
            if row.latency_s is None:
                if (group := self.groups.get(_group(row.plan))) is not None:
                    self.refused[group] += 1
            elif at is not None:
                self.time.add(at, row.latency_s)
                self.memory.add(at, row.peak_memory_bytes or 1)

    def scores(self) -> Any:
        """For each plan its probable seconds, and more where it probably does not fit, cannot be, or is much work."""
        over = self.memory.values() / self.capacity - 1.0
        return (
            self.time.values()
            * (1 + self.refused[self.group])
            * (1 + OVER * np.maximum(over, 0.0) + np.clip((over + DOUBT) / (2 * DOUBT), 0.0, 1.0))
        )

    def _each(self) -> Any:
        """By plan: the seconds of its stage for a microbatch, known or estimated."""
        return self.each.known_or_fitted()[self.stage]

    def _held(self) -> Any:
        """By plan: the bytes that its stage holds for a microbatch."""
        return self.held.known_or_fitted()[self.stage]


def _group(plan: Strategy) -> tuple[object, ...]:
    """A group of plans that are likely feasible or infeasible together: they lose priority together."""
    return plan.tensor, plan.context, plan.kind, plan.experts, plan.pipeline * plan.stages_per_device, plan.zero > 1


class _Fit:
    """A linear model: the value of each plan is the sum of its terms, each times a factor that is learnt."""

    def __init__(self, terms: Any) -> None:
        self.terms = terms
        self.known: dict[int, float] = {}

    def add(self, row: int, value: float) -> None:
        self.known[row] = value

    def values(self) -> Any:
        """Those of all plans, fitted."""
        rows = [row for row, value in self.known.items() if 0 < value < math.inf]
        if not rows:
            return self.terms.sum(axis=1)
        own = self.terms[rows] / np.array([self.known[row] for row in rows])[:, None]
        count = own.shape[1]
        left = np.vstack([own, PRIOR * np.eye(count)])
        right = np.concatenate([np.ones(len(rows)), PRIOR * np.ones(count)])
        factors = np.linalg.lstsq(left, right, rcond=None)[0]
        return self.terms @ np.clip(factors, 0.05, 20.0).astype(self.terms.dtype)

    def known_or_fitted(self) -> Any:
        """The values that are known, the others fitted."""
        found = self.values()
        for row, value in self.known.items():
            if 0 < value < math.inf:
                found[row] = value
        return found


def _stage_seconds(program: Sequential, load: Load, hardware: Hardware, size: int, plans: Plans) -> Any:
    """By plan, the terms of the seconds of a microbatch on all stages together.

    Arithmetic, what of it is recomputed, other ops, issue, sums of gradients; communication of shards, of contexts by
    kind, of experts.
    """
    bounds = PlanBounds(load, hardware)
    bandwidth = max(kind.bandwidth for kind in hardware.kinds.distinct)
    t, c, e = (plans.column(name) for name in ("tensor", "context", "experts"))
    micro = size / plans.column("data") / plans.column("microbatches") / c
    hidden = np.where(plans.column("overlap"), 0.3, 1.0)
    rate, ones = partial(_rates, hardware), np.ones_like(t)

    def even(plan: Strategy) -> float:
        """Without what makes a pipeline wait."""
        alone = Strategy(plan.data, plan.tensor, 1, plan.microbatches, "", fuse=plan.fuse, context=plan.context)
        return bounds.seconds(alone) / plan.microbatches

    least = plans.found(even, "data", "tensor", "microbatches", "fuse", "context")
    passed = micro * program.passed * program.layers
    shared = rate(c, t) * passed * 2 / t * hidden
    several = plans.column("microbatches") > 1
    accumulated = 3 * GRADIENT * program.count / t / e / bandwidth * several
    kind = plans.found(lambda plan: CONTEXTS.index(plan.kind) if plan.kind else 0, "kind")
    return np.stack(
        [
            least,
            least / 3 * plans.found(lambda plan: _recomputed(plan, program.layers), "checkpoint", "recompute"),
            micro * program.others / t * np.where(plans.column("fuse"), 0.6, 1.0),
            np.full(len(plans), LAYER_ISSUE * program.layers),
            accumulated * np.where(plans.column("fuse"), 0.3, 1.0),
            rate(t, ones) * passed * 4 * hidden,
            *(shared * (kind == number) for number in range(len(CONTEXTS))),
            rate(e, t * c) * passed * 4 / t,
        ],
        axis=1,
    )


def _stage_bytes(program: Sequential, size: int, plans: Plans) -> Any:
    """By plan, the terms of the bytes that a microbatch holds on all stages together: activations, inputs of layers."""
    t = plans.column("tensor")
    micro = size / plans.column("data") / plans.column("microbatches") / plans.column("context")
    whole = (t == 1) | plans.column("sequence")
    shards = np.where(whole, t, 1 / (0.7 / t + 0.3))  # some activations are whole on each shard
    again = plans.found(lambda plan: _recomputed(plan, program.layers), "checkpoint", "recompute")
    inputs = program.passed * program.layers / np.where(whole, t, 1)
    working = program.recomputed / shards
    return np.stack([micro * (1 - again) * program.saved / shards, micro * again * (inputs + working)], axis=1)


def _recomputed(plan: Strategy, layers: int) -> float:
    """The share of a step's activations that is computed again."""
    if not plan.checkpoint:
        return 0.0
    what, _, count = plan.recompute.partition(":")
    return FEW_RECOMPUTED if what not in ("", "full") else min(int(count or layers) / layers, 1.0)


class _Terms:
    """The terms of plans, of which each with the factor 1 is what the sequential program says. A row for each plan."""

    def __init__(self, program: Sequential, load: Load, hardware: Hardware, size: int, plans: Plans) -> None:
        column, head = plans.column, load.beside(program.layers)
        self.program = program
        t, p, d, c, e, k, zero = (
            column(name) for name in ("tensor", "pipeline", "data", "context", "experts", "microbatches", "zero")
        )
        parts, shard = t * p * e, column("shard")
        group = np.where(shard > 0, shard, d) * c
        hidden = np.where(column("overlap"), 0.3, 1.0)
        way = ("pipeline", "schedule", "virtual")
        stages = plans.found(lambda plan: plan.stages_per_device, *way)
        gradients = GRADIENT * program.count / parts
        gathered = np.where(zero >= 3, np.where((p > 1) | (k > 1), 2 * k, 2), 0)
        reduced = np.where((zero >= 2) & (p == 1), k, 1)
        hops = size / d / c * program.passed * 2 * stages
        rate = partial(_rates, hardware)
        self.turns = k / p
        uneven = plans.found(lambda plan: _unevenness(*_cut(plan), program.layers, head), *way, "stages", "balance")
        bubble = (p - 1) / (k * stages)
        splits = plans.found(_splits, "schedule")
        self.factors = _small(
            np.ones_like(bubble),
            uneven,
            np.where(splits, 0, bubble),
            np.where(splits & (stages == 1), bubble * SPLIT, 0),
            np.where(splits & (stages > 1), bubble * SPLIT, 0),
        )
        self.communication = _small(
            rate(d * c, t) * gradients * reduced * hidden,
            rate(group, t) * gradients / 2 * gathered * hidden,
            rate(np.where(p > 1, 2, 1), t * c * d) * hops,
        )
        self.flying = plans.found(_in_flight, *way, "microbatches", "chunks") / p
        self.state = _small(
            program.weights / parts / np.where(zero >= 3, group, 1),
            program.state / parts / np.where(zero >= 1, group, 1),
            gradients / np.where(zero >= 2, group, 1) * bool(program.state),
        )

    def seconds(self, each: Any) -> Any:
        """What stages take for microbatches, on the busiest stage, in bubbles; communication.

        That of replicas, of ZeRO, of stages. `each`: the seconds of a microbatch on all stages.
        """
        working = self.turns * each
        return np.stack([*_small(*(working * factor for factor in self.factors)), *self.communication], axis=1)

    def bytes(self, held: Any) -> Any:
        """Weights, state, gradients, activations in flight. `held`: by a microbatch on all stages."""
        return np.stack([*self.state, *_small(self.flying * held)], axis=1)


def _small(*columns: Any) -> list[Any]:
    """The columns in 32 bits: there may be a million plans."""
    return [column.astype(np.float32) for column in columns]


def _rates(hardware: Hardware, sizes: Any, strides: Any) -> Any:
    """The seconds per byte of an all-reduce over groups of these sizes, of every `strides`-th device."""
    pairs, place = np.unique(sizes.astype(np.int64) << 32 | strides.astype(np.int64), return_inverse=True)
    return np.array([_rate(hardware, pair >> 32, pair & 0xFFFFFFFF) for pair in pairs.tolist()])[place]


def _splits(plan: Strategy) -> bool:
    """Whether weight gradients fill the bubble."""
    known = SCHEDULES.get(plan.schedule)
    return known is not None and known.splits


def _in_flight(plan: Strategy) -> float:
    """How many microbatches have their activations on the first device of a pipeline, in stages of their own."""
    if plan.pipeline == 1:
        return 1.0
    if plan.schedule in ("gpipe", "looped-bfs"):
        return float(plan.microbatches)
    virtual = plan.stages_per_device if plan.schedule == "interleaved" else 1
    if plan.chunks:
        return min(float(plan.microbatches), (plan.pipeline + plan.chunks - 1) / plan.chunks)
    return min(float(plan.microbatches), plan.pipeline * (1 + (virtual - 1) / virtual))


def _cut(plan: Strategy) -> tuple[int, int, bool, bool, tuple[int, ...]]:
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
