"""A lower bound of a plan's latency from one stage that is simulated by itself, with what its shards exchange.

The devices of a pipeline's stages together do for each microbatch what those of a pipeline of one stage do: the same
ops on the same shapes, and the same communication of shards, of devices that share a sequence, and of experts. So a
program of one stage and one replica is simulated for a microbatch, and what its device spends in the order of one
stream, on what grows with the batch, is what a microbatch takes on all stages together. Plans that differ in replicas,
stages, schedules and ZeRO share it. Equal layers are not simulated again and again: programs of two and three of them
tell what the others add (`shortened`). Nothing can hide it: what the step `overlap` puts on streams of its own is left
out. The sums of gradients, which nothing follows but the update, add to it where they are not overlapped: each device
sends its part of the gradients at least once.

A kernel of a product may be another one elsewhere, as fusing depends on the statements around it, so of such a kernel
only the product counts. Shapes and links must be those of all devices: where replicas and shards are not alike
(`symmetry`), nothing is known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from distir.cost import Hardware
from distir.cost.compute import DeviceKind, contracting
from distir.diagnostics import ProgramError
from distir.ir import Apply, Call
from distir.ops import Reject
from distir.ops.resources import Communication, MatrixProduct, Pattern, Work
from distir.search.bounds import ROUNDING, rounds
from distir.search.distributed import Distributed
from distir.search.plans import Plans
from distir.search.shortened import PartOf, parts
from distir.search.space import SpaceError
from distir.search.subject import Subject
from distir.search.symmetry import interchangeable
from distir.search.work import Workers, carry_out
from distir.simulate.body import runs
from distir.simulate.effects import Effect
from distir.simulate.simulation import BindError, Simulation
from distir.transform.steps import StepError
from distir.transform.strategy import Strategy

UNKNOWN = (ProgramError, StepError, BindError, Reject, SpaceError)
"""The exceptions for a stage that cannot be built, or simulated, by itself."""

np: Any = import_module("numpy")

DEVICE_FIELDS = (
    "tensor",
    "context",
    "kind",
    "experts",
    "skew",
    "etp",
    "cp_experts",
    "sequence",
    "overlap",
    "fuse",
    "checkpoint",
    "recompute",
)
"""The fields of a plan on which it depends what a device does for a microbatch, beside the size of that."""

STAGE_FIELDS = (*DEVICE_FIELDS, "microbatches", "chunks", "passes")
"""The fields of a plan on which its stage depends, and whether that bounds the plan."""

BOUND_FIELDS = ("data", "pipeline", "schedule", "virtual", "shard")
"""Those on which the bound depends beside."""

PROBES = tuple(1 << n for n in range(16, 41, 2))
"""Sizes of messages in bytes, of which the fastest per byte bounds all."""


MANY = 128
"""Examples of a microbatch of which activations are larger than what an optimizer needs for a few layers."""

MEMO = 1 << 16
"""Of how many plans at most, those last asked for, the stage is kept."""

Stage = tuple[Strategy, int]
"""The program of one stage, and the examples of its microbatch."""


class StageFigures(NamedTuple):
    """What a device does for a microbatch in a program of one stage.

    `least`: seconds that it takes at least; 0 where nothing is known, infinite where there is no such program.
    `seconds`: that one microbatch more takes. `nbytes`: held for it at the peak. Both 0 where they are not known.
    """

    least: float
    seconds: float = 0.0
    nbytes: float = 0.0


@dataclass(frozen=True, slots=True)
class _Spent:
    """An op on the stream that computes: equal ones take equally long."""

    is_kernel: bool
    work: Work
    seconds: float


class StageTotal(NamedTuple):
    """The ops of a stage's first device, with their counts; the bytes that are held where most is, the time in all."""

    ops: Counter[_Spent]
    peak: int
    latency_s: float


class StageBounds:
    """Lower bounds of plans at one batch size, each stage simulated when a plan of it is first asked for.

    Recomputation only adds to a stage, and kernels only take from it. So what bounds the stage without the first and
    with the others bounds its variants too: `at_best` asks for that one alone.
    """

    def __init__(self, subject: Subject, size: int | None) -> None:
        self.subject, self.size = subject, size
        kinds = subject.hardware.kinds.distinct
        self.kind = kinds[0] if len(kinds) == 1 else None
        self.micro_batches: set[int] = set()
        """Of plans that may be asked for: a stage is simulated for all of them at once."""
        self.simulated = 0
        """How many stages were simulated."""
        self._simulated = set[Strategy]()
        self.parts = parts(subject.module)
        """Programs that add up to that of the subject."""
        self._found: dict[Stage, StageFigures] = {}
        self._gradients: int | None = None

    def expect(self, plans: Iterable[Strategy]) -> None:
        """Prepare to be asked for these plans."""
        if isinstance(plans, Plans):
            first, _ = plans.groups("data", "microbatches")
            plans = plans.take(first)
        self.micro_batches |= {self._micro_batch(plan) for plan in plans} - {0}

    def seconds(self, plan: Strategy) -> float:
        """Seconds that a simulation of the plan takes at least; 0 where that is not known.

        Infinite where the program of its stage cannot be made, and so that of the plan neither.
        """
        return self._bound(plan, stage_of(plan))

    def at_best(self, plan: Strategy) -> float:
        """The same of all variants of its stage."""
        return self._bound(plan, at_best(plan))

    def known(self, plan: Strategy) -> float:
        """The largest bound for which no stage is simulated."""
        if not self._found:
            return 0.0
        stages, micro = {stage_of(plan), at_best(plan)}, self._micro_batch(plan)
        return max((self._bound(plan, stage) for stage in stages if (stage, micro) in self._found), default=0.0)

    def figures(self, plan: Strategy) -> StageFigures | None:
        """Those of the plan's own stage; None where it was not simulated."""
        return self._found.get((stage_of(plan), self._micro_batch(plan)))

    def all_known(self, plans: Plans) -> Any:
        """What `known` says of each of these plans, as an array."""
        found = np.zeros(len(plans))
        if not self._found:
            return found
        first, place = plans.groups(*STAGE_FIELDS)
        is_known = [not {stage_of(plan), at_best(plan)}.isdisjoint(self._simulated) for plan in plans.take(first)]
        rows = np.flatnonzero(np.array(is_known, dtype=bool)[place])
        found[rows] = plans.take(rows).found(self.known, *STAGE_FIELDS, *BOUND_FIELDS)
        return found

    def _bound(self, plan: Strategy, stage: Strategy) -> float:
        """The bound of a plan from what its stage, or a faster variant of it, takes for a microbatch."""
        if self.lacks(plan, stage):
            self.simulate([stage], Workers(jobs=1), self._micro_batch(plan))
        known = self._found.get((stage, self._micro_batch(plan))) if self._tells(plan) else None
        each = 0.0 if known is None else known.least
        if each in (0.0, math.inf):
            return each
        working = plan.microbatches * each / plan.pipeline
        return max(each * rounds(plan), working + self._sums(plan)) * (1 - ROUNDING)

    def _micro_batch(self, plan: Strategy) -> int:
        """Examples in a microbatch of a replica; 0 where that is not known."""
        size, rest = divmod(self.size or 0, plan.data * plan.microbatches)
        return 0 if rest else size

    def lacks(self, plan: Strategy, stage: Strategy) -> bool:
        """Whether this stage, a variant of the plan's, is yet to be simulated to bound it."""
        return (stage, self._micro_batch(plan)) not in self._found and self._tells(plan)

    def _tells(self, plan: Strategy) -> bool:
        """Whether a stage bounds the plan: all of its devices do the same.

        With `passes` what shards exchange may be hidden, and ops on parts of a sequence are others than those on all of
        it: then products alone bound the plan (`bounds`).
        """
        degrees = plan.data, plan.tensor, plan.pipeline, plan.experts, plan.context
        known = self.kind is not None and self._micro_batch(plan) > 0 and not plan.passes and not plan.chunks
        return known and interchangeable(self.subject.hardware, *degrees)

    def simulate(self, stages: Sequence[Strategy], workers: Workers, micro: int = 0) -> None:
        """Find what a device spends on a microbatch in each of these, for those of the plans that may be asked for."""
        self.simulated += len(stages)
        sizes = tuple(sorted(self.micro_batches | ({micro} if micro else set())))
        self._simulated |= {*stages}
        if workers.jobs > 1 and len(stages) > 1:
            self._found |= dict(carry_out(self.subject, [(stage, sizes) for stage in stages], workers, _each))
        else:
            for stage in stages:
                self._found |= self.each(stage, {*sizes})

    def each(self, stage: Strategy, micro_batches: set[int]) -> dict[Stage, StageFigures]:
        """What a device does for microbatches of these sizes in the program of one stage."""
        parts = stage.data * stage.microbatches
        sizes = sorted(
            {n * micro * parts for micro in micro_batches for n in (1, 2)} | {MANY * parts, 2 * MANY * parts}
        )
        try:
            spent = self.spent(stage, sizes, self.parts) or self.spent(stage, sizes, [PartOf(1, self.subject.module)])
        except UNKNOWN:
            return {(stage, micro): StageFigures(math.inf) for micro in micro_batches}
        found = {(stage, micro): StageFigures(0.0) for micro in micro_batches}
        kind = self.kind
        if spent is None or kind is None:
            return found
        held = max(0, spent[2 * MANY * parts].peak - spent[MANY * parts].peak) / MANY
        one_less = self._one_less(stage, micro_batches, spent)
        for micro in micro_batches:
            once, twice = spent[micro * parts], spent[2 * micro * parts]
            least = sum(times * _least(kind, each) for each, times in once.ops.items() if each not in twice.ops)
            seconds = max(0.0, once.latency_s - one_less[micro])
            found[stage, micro] = StageFigures(least / stage.microbatches, seconds, held * micro)
        return found

    def _one_less(
        self, stage: Strategy, micro_batches: set[int], spent: Mapping[int, StageTotal]
    ) -> Mapping[int, float]:
        """By size of the microbatches: how long a step of one microbatch less takes."""
        if stage.microbatches == 1:
            return dict.fromkeys(micro_batches, 0.0)
        alone = self.spent(replace(stage, microbatches=1), [micro * stage.data for micro in micro_batches], self.parts)
        if alone is None:
            return {micro: spent[2 * micro * stage.data].latency_s / 2 for micro in micro_batches}
        return {micro: alone[micro * stage.data].latency_s for micro in micro_batches}

    def spent(self, stage: Strategy, sizes: Sequence[int], parts: Sequence[PartOf]) -> dict[int, StageTotal] | None:
        """By batch size: what a stage's first device does, as the sum over `parts`.

        None if the stage cannot be simulated, or is not the sum of its parts, because layers affect each other. Raises
        an exception in `UNKNOWN` if the stage's program cannot be built.
        """
        ops = {size: Counter[_Spent]() for size in sizes}
        peaks, latencies = dict.fromkeys(sizes, 0), dict.fromkeys(sizes, 0.0)
        for factor, module in parts:
            made = self._distributed(replace(self.subject, module=module), stage)
            try:
                for size in sizes:
                    simulation = made.simulation(size)
                    peaks[size] += factor * max(simulation.peaks.values(), default=0)
                    latencies[size] += factor * simulation.latency_s
                    for each, times in _spent(simulation).items():
                        ops[size][each] += factor * times
            except UNKNOWN:
                return None
        if any(times < 0 for spent in ops.values() for times in spent.values()):
            return None
        return {
            size: StageTotal(Counter({each: n for each, n in ops[size].items() if n}), peaks[size], latencies[size])
            for size in sizes
        }

    def _distributed(self, subject: Subject, stage: Strategy) -> Distributed:
        """The stage; as it is where nothing in it can be overlapped, though in its plan there may be."""
        try:
            return Distributed(subject, stage)
        except ProgramError:
            if not stage.overlap:
                raise
            return Distributed(subject, replace(stage, overlap=False))

    def _sums(self, plan: Strategy) -> float:
        """Seconds in which a device sends its part of the gradients, where nothing else is done meanwhile."""
        replicas = plan.data * plan.context
        if not self.subject.trains or replicas < 2 or plan.shard or plan.overlap or plan.experts > 1:
            return 0.0
        if self._gradients is None:
            try:
                self._gradients = self._summed()
            except UNKNOWN:
                self._gradients = 0
        nbytes = self._gradients / (plan.tensor * plan.pipeline)
        return nbytes * _per_byte(self.subject.hardware, replicas, plan.tensor)

    def _summed(self) -> int:
        """The bytes of gradients that replicas sum up."""
        found = 0
        made = Distributed(self.subject, Strategy(2, 1, 1))
        for effect, _, times in _on_first(made.simulation(self.size if self.size and not self.size % 2 else 2)):
            communication = effect.work.communication
            if communication is not None and communication.pattern == "allreduce":
                found += times * communication.nbytes
        return found


def _each(
    subject: Subject, stage: Strategy, micro_batches: Sequence[int | None]
) -> Iterator[tuple[Stage, StageFigures]]:
    """In a worker: by stage and microbatch, what a device does for it."""
    bounds = StageBounds(subject, None)
    yield from bounds.each(stage, {micro for micro in micro_batches if micro}).items()


@lru_cache(maxsize=MEMO)
def stage_of(plan: Strategy) -> Strategy:
    """The program of one stage, for as many replicas as share experts: of plans that do the same, the same."""
    return replace(
        plan,
        data=plan.experts,
        pipeline=1,
        microbatches=min(plan.microbatches, 2),
        schedule="1f1b",
        virtual=0,
        zero=0,
        shard=0,
        stages=(),
        sums="layer",
        balance="uniform",
        passes=False,
        chunks=0,
    )


@lru_cache(maxsize=MEMO)
def at_best(plan: Strategy) -> Strategy:
    """The variant of its stage that takes the least time."""
    return replace(stage_of(plan), checkpoint=False, recompute="", fuse=True)


def _on_first(simulation: Simulation) -> Iterator[tuple[Effect, str, int]]:
    """The ops of the first device, with their streams and counts."""
    first = min(simulation.devices)
    for body, times in runs(simulation.body):
        for statement, step in zip(body.instance.function.body, body.steps, strict=True):
            if isinstance(step, Effect) and first in step.devices:
                yield step, statement.stream if isinstance(statement, Apply | Call) else "", times


def _spent(simulation: Simulation) -> Counter[_Spent]:
    """The ops of the first device, in the order of its compute stream."""
    found = Counter[_Spent]()
    for effect, stream, times in _on_first(simulation):
        if not stream and effect.cost.seconds:
            found[_Spent(effect.op.startswith("@"), effect.work, effect.cost.seconds)] += times
    return found


def _least(kind: DeviceKind, spent: _Spent) -> float:
    """Seconds that an op takes at least, in whichever kernel it is."""
    work = spent.work
    if not spent.is_kernel or not work.contractions:
        return spent.seconds
    read = sum(
        (what.m + what.n) * what.k * what.batch * dtype.bytes
        for dtype, _, what in work.contractions
        if isinstance(what, MatrixProduct) and dtype is not None
    )
    alone = Work(bytes=min(read, work.bytes), contractions=work.contractions)
    shaped = contracting(kind, alone)
    return 0.0 if shaped is None else min(shaped.seconds * kind.slowdown, spent.seconds)


@lru_cache(maxsize=1 << 10)
def _per_byte(hardware: Hardware, size: int, stride: int) -> float:
    """Seconds for a byte of gradients that so many devices sum up, one in `stride`: of the fastest size of message."""
    devices = tuple(range(0, size * stride, stride))

    def seconds(pattern: Pattern, nbytes: int) -> float:
        return hardware.cost(Work(communication=Communication(pattern, nbytes)), devices).seconds / nbytes

    return min(seconds(pattern, nbytes) for pattern in ("allreduce", "reducescatter") for nbytes in PROBES)
