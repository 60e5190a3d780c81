"""What no distribution of a program can beat: a lower bound of a plan's latency, from the sequential program alone.

Every device of a pipeline stage takes part in every heavy op of its stage for every microbatch. Split evenly along all
there is to split, an op of f operations does f/(D·T·K) of them at a time on each device, and takes no less than the
device needs for so few: what is not split so far takes longer. The stages' totals add up to that of the program, so
one of P stages has at least a P-th, K times over. Communication, light ops and bubbles only add to this.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from distir.cost import Hardware
from distir.cost.compute import Kind, OpFigures, Rate
from distir.ir import DType
from distir.search.space import Plan
from distir.simulate.body import runs
from distir.simulate.effects import Effect
from distir.simulate.simulation import Simulation

HEAVY = frozenset({"Gemm", "MatMul", "Conv", "Einsum"})
"""Ops that no transform leaves out or merges, and whose operations divide by what they are split into."""

ROUNDING = 1e-9
"""By how much a sum of seconds may be off: where nothing but heavy ops takes time, the bound is the latency itself."""


@dataclass(frozen=True, slots=True)
class Load:
    """The heavy ops of a sequential program: operations and element type, and how many there are."""

    ops: tuple[tuple[float, DType | None, int], ...]

    def bound(self, plan: Plan, hardware: Hardware) -> float:
        """Seconds below which no simulation of the plan comes."""
        parts = plan.data * plan.tensor * plan.microbatches
        kinds = {kind.name: kind for kind in hardware.kinds}.values()
        total = sum(
            count * min(_least(kind, flops / parts, dtype, hardware.edge) for kind in kinds)
            for flops, dtype, count in self.ops
        )
        return total * plan.microbatches / plan.pipeline * (1 - ROUNDING)


def load_of(sequential: Simulation) -> Load:
    """The heavy ops of a simulated sequential program whose results depend on the batch."""
    found: Counter[tuple[float, DType | None]] = Counter()
    for body, times in runs(sequential.body):
        for effect in body.timed:
            if isinstance(effect, Effect) and effect.op in HEAVY and effect.work.flops:
                found[float(effect.work.flops), effect.work.dtype] += times
    return Load(tuple((flops, dtype, count) for (flops, dtype), count in sorted(found.items(), key=str)))


def _least(kind: Kind, flops: float, dtype: DType | None, edge: float) -> float:
    """Seconds that a heavy op of at least so many operations takes.

    Whichever it is: a transform may write an op as another, as a product and a sum for a `Gemm`. An op with figures of
    its own takes its launch, its arithmetic and its traffic by them; others take the rate of the kind. Traffic is left
    out: how few bytes a part needs depends on how it is split.
    """
    found: list[float] = []
    for op in sorted(HEAVY):
        figures = kind.figures_of(op, dtype) if kind.ops else None
        if figures is None:
            rate = kind.other if dtype is None else kind.rates[dtype]
            figures = OpFigures(kind.launch, rate, None, kind.uncertainty)
        warm = figures.warm if kind.cache else None  # then an op takes a mean of the two
        for own in (figures,) if warm is None else (figures, warm):
            seconds = own.launch + (_fastest(own.arithmetic, flops) if own.arithmetic is not None else 0.0)
            found.append(seconds * max(0.0, 1 + edge * own.uncertainty))
    return min(found)


def _fastest(rate: Rate, flops: float) -> float:
    """Seconds of arithmetic that so many operations or more take.

    Between its points a rate is a power of the size, and so is the time, which rises or falls: the least of what lies
    above is at a point or at the size itself.
    """
    return min(_seconds(rate, size) for size in (flops, *(size for size, _ in rate.points if size > flops)))


def _seconds(rate: Rate, flops: float) -> float:
    return flops / rate.achieved(flops) if flops > 0 else 0.0 if math.isfinite(flops) else math.inf
