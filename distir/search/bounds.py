"""A lower bound of a plan's latency, from the sequential program alone.

Every device of a pipeline stage takes part in every heavy op of its stage for every microbatch. At best an op of f
FLOPs is split evenly D·T·K ways, so each device executes f/(D·T·K) of them at a time, and takes at least as long as an
op of that size does on it; an op that is split less takes longer. The stages' totals add up to the program's, so at
least one of the P stages has 1/P of it, K times over. Communication, light ops and bubbles only add to this, and with
overlap they add less, but never take from it: a device has one stream that computes. Where overlap may cut a product
into chunks beside the communication of tensor parallelism, or a schedule cuts sequences, each FLOP takes at least as
long as at the best rate.

A pipeline with a stage for each device, which runs whole backward passes, cannot be faster than its bubble lets it,
however layers are distributed over stages. Stage i, whose passes for a microbatch take cᵢ, begins after the first
microbatch went through those before it, and after its last backward pass those before it have one each:
Σⱼ﹤ᵢ cⱼ + K·cᵢ. The largest of these is least where all are equal, and then it is C / (1 - (1 - 1/K)ᴾ) for C = Σ cᵢ.

Memory is bounded likewise: some device holds at least the mean of the weights and the state that replicas, stages and
shards divide at best.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from distir.cost import Hardware
from distir.cost.compute import DeviceKind, OpFigures, Rate
from distir.ir import DType
from distir.ops.experts.operands import RAGGED_GRADIENTS, RAGGED_PRODUCTS
from distir.simulate.body import runs
from distir.simulate.effects import Effect
from distir.simulate.simulation import Simulation
from distir.transform.pipeline import SCHEDULES
from distir.transform.strategy import Strategy

HEAVY = frozenset({"Gemm", "MatMul", "Conv", "Einsum", "ScaledMatMul", *RAGGED_PRODUCTS, *RAGGED_GRADIENTS})
"""Ops that no transform removes or merges, and whose FLOPs divide by the number of parts they are split into."""

TIME_FIELDS = (
    "data",
    "tensor",
    "pipeline",
    "context",
    "microbatches",
    "schedule",
    "virtual",
    "chunks",
    "overlap",
    "passes",
    "fuse",
)
"""The fields of a plan on which the bound of its time depends."""

MEMORY_FIELDS = ("data", "tensor", "pipeline", "context", "experts", "zero", "shard")
"""Those on which the bound of its memory depends."""

ROUNDING = 1e-9
"""Relative rounding error of a sum of seconds: where only heavy ops take time, the bound equals the latency."""


@dataclass(frozen=True, slots=True)
class Load:
    """The heavy ops of a sequential program: (FLOPs, element type, count)."""

    ops: tuple[tuple[float, DType | None, int], ...]

    def bound(self, plan: Strategy, hardware: Hardware) -> float:
        """Seconds that a simulation of the plan takes at least."""
        return PlanBounds(self, hardware).seconds(plan)

    def beside(self, layers: int) -> float:
        """The share of FLOPs outside of equal layers: of ops that are fewer than layers, or no multiple of them."""
        own = sum(flops * count for flops, _, count in self.ops if count % layers)
        return own / (sum(flops * count for flops, _, count in self.ops) or 1.0)


class PlanBounds:
    """Lower bounds of plans for one load on one machine: those of many plans cost little more than those of few."""

    def __init__(self, load: Load, hardware: Hardware) -> None:
        self.load, self.hardware = load, hardware
        self._each: dict[tuple[int, bool, bool], float] = {}

    def seconds(self, plan: Strategy) -> float:
        """Seconds that a simulation of the plan takes at least."""
        parts = plan.data * plan.tensor * plan.context * plan.microbatches
        key = parts, plan.fuse, (plan.overlap and (plan.tensor > 1 or plan.passes)) or plan.chunks > 0
        if key not in self._each:
            self._each[key] = self._at_best(*key)
        return self._each[key] * rounds(plan) * (1 - ROUNDING)

    def _at_best(self, parts: int, fuse: bool, cut: bool) -> float:
        """The seconds of all ops of the load, each divided into equal parts."""
        kinds = {(kind.name, kind.slowdown): kind for kind in self.hardware.kinds.distinct}.values()
        ops = (*sorted(HEAVY), *(["a kernel"] if fuse else []))
        edge = self.hardware.edge
        return sum(
            count * min(_least(kind, flops / parts, dtype, edge, ops, cut) for kind in kinds)
            for flops, dtype, count in self.load.ops
        )


def rounds(plan: Strategy) -> float:
    """How often at least a device spends what a microbatch takes on all stages together."""
    count, stages = plan.microbatches, plan.pipeline
    if stages > 1 and not plan.overlap and not plan.virtual and not plan.chunks:
        known = SCHEDULES.get(plan.schedule)
        if known is not None and not known.splits and known.stages == 1:
            return 1 / (1 - (1 - 1 / count) ** stages)
    return count / stages


def least_memory(plan: Strategy, weights: int, state: int) -> float:
    """Bytes of weights and of the optimizer's state that some device holds at least."""
    parts = plan.tensor * plan.pipeline * plan.experts
    sharing = (plan.shard or plan.data) * plan.context
    return (weights / (sharing if plan.zero >= 3 else 1) + state / (sharing if plan.zero else 1)) / parts


def load_of(sequential: Simulation) -> Load:
    """The heavy ops of a simulated sequential program whose results depend on the batch."""
    found: Counter[tuple[float, DType | None]] = Counter()
    for body, times in runs(sequential.body):
        for effect in body.timed:
            if isinstance(effect, Effect) and effect.op in HEAVY and effect.work.flops:
                found[float(effect.work.flops), effect.work.dtype] += times
    return Load(tuple((flops, dtype, count) for (flops, dtype), count in sorted(found.items(), key=str)))


def _least(kind: DeviceKind, flops: float, dtype: DType | None, edge: float, ops: Sequence[str], cut: bool) -> float:
    """The least seconds that any heavy op of at least `flops` FLOPs takes; with `cut`, in one piece or in several.

    The minimum over all heavy `ops`, because a transform may rewrite one as another (a `Gemm` as a product and a sum),
    or as part of a kernel. An op with figures of its own is charged launch and arithmetic by them; others the rate of
    the device kind, or what its figures by shape say at best. Memory traffic is left out: its minimum depends on how
    the op is split.
    """
    found: list[float] = []
    for op in ops:
        figures = kind.figures_of(op, dtype) if kind.ops else None
        if figures is None:
            rate = kind.other if dtype is None else kind.rates[dtype]
            figures = OpFigures(kind.launch, rate, None, kind.uncertainty)
        warm = figures.warm if kind.cache else None  # then an op takes a mean of the two
        for own in (figures,) if warm is None else (figures, warm):
            fastest = _fastest_cut if cut else _fastest
            seconds = own.launch + (fastest(own.arithmetic, flops) if own.arithmetic is not None else 0.0)
            found.append(seconds * max(0.0, 1 + edge * own.uncertainty))
    by_shape = (
        [] if dtype is None else [table[dtype.name] for table in (kind.products, kind.experts) if dtype.name in table]
    )
    found += [shaped.at_least(flops) * max(0.0, 1 + edge * kind.uncertainty) for shaped in by_shape]
    return min(found) * kind.slowdown


def _fastest(rate: Rate, flops: float) -> float:
    """The least seconds that `flops` FLOPs or more take.

    Between its points a rate is a power of the size, and so is the time, which is monotonic there: the minimum is at
    one of the points above, or at the size itself.
    """
    return min(_seconds(rate, size) for size in (flops, *(size for size, _ in rate.points if size > flops)))


def _fastest_cut(rate: Rate, flops: float) -> float:
    """The least seconds that `flops` FLOPs or more take in pieces of any size: at the best rate of any size."""
    return flops / max(achieved for _, achieved in rate.points)


def _seconds(rate: Rate, flops: float) -> float:
    return flops / rate.achieved(flops) if flops > 0 else 0.0 if math.isfinite(flops) else math.inf
