"""The step `dtp`: data, tensor and pipeline parallelism in one, and how their groups are laid out over the devices.

The pipeline is made first, of the program on one device; then each of its devices becomes several. Nothing here knows
how any of this is done: only the order, and the numbers of the devices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from distir.analysis import Analysis
from distir.ir import Function, Module
from distir.ir.collection import paused_collection
from distir.transform.pipeline import pp
from distir.transform.sharding import split
from distir.transform.sharding.data import batch_states
from distir.transform.sharding.flow import Flow
from distir.transform.sharding.partition import checked
from distir.transform.sharding.state import State
from distir.transform.sharding.tensor import parameter_states
from distir.transform.steps import StepError, step

AXES = "dtp"


@step
def dtp(
    module: Module,
    value: tuple[int, ...],
    *,
    microbatches: int = 1,
    schedule: str = "1f1b",
    virtual: int = 1,
    balance: str = "uniform",
    shard: tuple[str, ...] = (),
    bucket_bytes: int = 0,
    layout: str = "pdt",
    sequence: bool = False,
    hardware: str = "dgx-a100",
) -> Module:
    """Data, tensor and pipeline parallelism in one: `dtp=2,4,2` are 2 replicas of 2 stages, each of 4 shards.

    A degree of 1 leaves its part out; `microbatches` with one stage add up gradients. The other options are those of
    the steps `dp`, `tp` and `pp`.

    `layout` orders the groups from outermost to innermost. Devices of the innermost one have neighbouring numbers: in
    `pdt` shards talk over the fastest links, replicas over the next, and stages, which say least, over the slowest.

    Raises ProgramError where one of the three steps does.
    """
    degrees = _degrees(value)
    if sorted(layout) != sorted(AXES):
        raise StepError(f"`layout` expected the letters d, t and p, outermost first, found `{layout}`")

    def run(axis: str, done: str) -> int:
        """How many devices lie next to each other between two neighbours along an axis, of the axes that are there."""
        inside = layout[layout.index(axis) + 1 :]
        return math.prod(degrees[other] for other in inside if other in done)

    d, t, p = (degrees[axis] for axis in AXES)
    with paused_collection():
        analysis, flow = None, None
        if p > 1 or microbatches > 1:
            analysis, flow = _pipeline(module, p, microbatches, schedule, virtual, balance, hardware)
            module = analysis.module

        def shards(analysis: Analysis, entry: Function) -> Sequence[State]:
            return parameter_states(analysis, entry, t, shard, flow)

        if t > 1:
            module, analysis = split(module, t, run("t", "p"), shards, sequence=sequence, analysis=analysis), None
        if d == 1 and (t > 1 or analysis):
            return module

        def replicas(analysis: Analysis, entry: Function) -> Sequence[State]:
            return batch_states(analysis, entry, d)

        return split(module, d, run("d", "pt"), replicas, bucket_bytes, analysis=analysis)


@lru_cache(maxsize=16)  # a search asks for the same pipeline with other degrees of the others
def _pipeline(
    module: Module, stages: int, microbatches: int, schedule: str, virtual: int, balance: str, hardware: str
) -> tuple[Analysis, Flow]:
    """The pipeline, checked, and what is known of its dimensions, whatever they are split over."""
    options = {"schedule": schedule, "virtual": virtual, "balance": balance, "hardware": hardware}
    analysis = checked(pp(module, stages, microbatches=microbatches, **options))
    return analysis, Flow(analysis.domain)


def _degrees(value: tuple[int, ...]) -> dict[str, int]:
    if len(value) != len(AXES) or min(value, default=0) < 1:
        found = ",".join(map(str, value))
        raise StepError(f"`dtp` expected three degrees of 1 or more, as in `dtp=2,4,1`, found `{found}`")
    return dict(zip(AXES, value, strict=True))
