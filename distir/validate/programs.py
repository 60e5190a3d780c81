"""The program of a run: the training step that its framework runs, made by a strategy and by rewrites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from distir.cost import Hardware
from distir.ir import Function, Module
from distir.models.catalogue import program
from distir.models.decoder import Decoder
from distir.models.sizes import BATCH
from distir.transform.entry import entry_of
from distir.transform.overlap import overlapped
from distir.transform.overlap.products import in_bulk
from distir.transform.pipeline import Steady, steady
from distir.transform.steps import Application, applied
from distir.transform.strategy import FIELDS, Strategy
from distir.transform.strategy.steps import (
    DISTRIBUTION,
    SCHEDULING,
    TRAINING,
    part,
    pipeline_options,
    steps_of,
    unchecked,
    words_of,
)
from distir.validate.frameworks import ASYNC_TP, NO_OTHER_MEMORY, HeldMemory
from distir.validate.microbatches import UnlikeMicrobatchesError, with_microbatches
from distir.validate.replicas import DeviceLayout, UnlikeError, fewest_alike, have_equal_kernels, with_replicas

REPLICAS_WITHIN_STAGES: Final = "pdt"
"""The layout of programs that serve other numbers of replicas."""


@dataclass(frozen=True, slots=True, repr=False)
class ProgramRewrite:
    """What a framework does in a training step that no step of `distir transform` does: a function, and its options."""

    function: Callable[..., Module]
    given: tuple[str | int, ...] = ()

    def __call__(self, module: Module) -> Module:
        """The program with what the framework does. Raises what the function does."""
        return self.function(module, *self.given)

    def __repr__(self) -> str:
        """The same in each process: predictions are known by what they are of."""
        return f"{self.function.__name__}{self.given}"


@dataclass(frozen=True, slots=True)
class TrainingProgram:
    """A training step: the model, the strategy by which it is trained, and what a framework does beside.

    Rewrites are `of_model`, before it is trained, `of_step`, before it is distributed, and `of_ranks`, after that.
    `profile`: the machine by which a pipeline orders its messages, as they depend on how long passes take; empty
    without a pipeline, so that runs of one layout on several GPUs are one program.
    """

    model: Decoder
    sequence: int
    strategy: Strategy
    profile: str
    of_model: tuple[ProgramRewrite, ...]
    of_step: tuple[ProgramRewrite, ...]
    of_ranks: tuple[ProgramRewrite, ...]

    def module(self) -> Module:
        """The program. Raises ProgramError or StepError where a step cannot be applied."""
        return self._made[0]

    def shared(self) -> Module:
        """A program that takes as long and as much memory, made of one that serves all numbers of replicas.

        Raises UnlikeError where there is none, or it might differ; else as `module` does.
        """
        own = self.strategy
        unlike = own.experts > 1 or own.expert_parallel or (own.context > 1 and own.shard)
        if unlike or own.state_on_host or own.layout != REPLICAS_WITHIN_STAGES:
            raise UnlikeError("it is a program of its own")
        few = DeviceLayout.of_few(own.tensor, own.context, own.shard)
        if own.tensor == 1 and own.zero and not own.shard:
            few = fewest_alike(entry_of(self.on_one_device), few, own.data)
        if own.data <= few.replicas:
            raise UnlikeError("it is a program of its own")
        other = self.with_strategy(data=few.replicas)
        if own.kernels != "compiled":  # which do not depend on sizes
            return with_replicas(*other._of_few_microbatches, few, own.data)
        unfused, whole = _unfused(other)
        if have_equal_kernels(entry_of(unfused), whole, few, own.data):
            return with_replicas(*other._made, few, own.data)
        return unchecked(with_replicas(unfused, whole, few, own.data), self.steps_of(SCHEDULING[1:]))

    def with_strategy(self, **fields: Any) -> TrainingProgram:
        """The same with other fields of its strategy."""
        return replace(self, strategy=replace(self.strategy, **fields))

    def overlapping(self, kinds: Sequence[str]) -> TrainingProgram:
        """The same with these kinds of overlap."""
        return self.with_strategy(overlap=bool(kinds), kinds=tuple(kinds))

    @property
    def overlap(self) -> tuple[str, ...]:
        """What is communicated beside computation: kinds of the step `overlap`, where they apply."""
        return self.strategy.kinds

    @property
    def words(self) -> list[str]:
        """Its strategy, as the command line writes it."""
        return words_of(self.strategy)

    def steps_of(self, names: Sequence[str]) -> list[Application]:
        """Those of its steps that have these names: a program to simulate, of one representative replica."""
        profile = {"hardware": self.profile} if self.profile else {}
        return part(steps_of(self.strategy, None, **profile, representative=True, ends=False), names)

    @property
    def on_one_device(self) -> Module:
        """The training step on one device."""
        return _step(self.model, self.sequence, self.of_model, Strategy(**_training_of(self.strategy)), self.of_step)

    @property
    def _made(self) -> tuple[Module, Function]:
        """The program, and its entry function before ZeRO."""
        return _made(self)

    @property
    def _of_few_microbatches(self) -> tuple[Module, Function]:
        """The same, if it can be made of one that serves all numbers of microbatches; takes as long, and as much.

        For kernels that do not depend on how far apart statements are, as those across rounds may.
        """
        count, found = self.strategy.microbatches, self._steady
        if found is None:
            return self._made
        module, whole = self.with_strategy(microbatches=found.microbatches)._made
        try:
            return with_microbatches(module, found.more, found.microbatches, count), whole
        except UnlikeMicrobatchesError:
            return self._made

    @property
    def _steady(self) -> Steady | None:
        """How its pipeline follows from one of fewer microbatches; None where it does not, or is not repeated whole."""
        own = self.strategy
        if own.overlap or own.zero == 3:
            return None  # what rounds exchange is opened up: it depends on the rounds next to them
        found = steady(self.on_one_device, own.pipeline, **pipeline_options(self.steps_of(DISTRIBUTION)))
        return found if found is not None and found.microbatches < own.microbatches else None


@dataclass(frozen=True, slots=True)
class RunProgram:
    """A run: its program, how many sequences all replicas take together, and the machine.

    `memory`: what the framework does with memory besides.
    """

    step: TrainingProgram
    batch: int
    hardware: Hardware
    memory: HeldMemory = NO_OTHER_MEMORY
    gpu: str = ""
    tied: int = 0
    """Elements of a tied embedding of which the last stage holds a copy of its own."""
    kept: int = 0
    """Bytes of logits that the last stage holds beside its program's tensors."""
    share: float = 1.0
    """What a device holds of the optimizer state that its program has: see `sharding_in_parts`."""

    @property
    def bind(self) -> dict[str, int]:
        """The size of the program's batch."""
        return {str(BATCH): self.batch}


@lru_cache(maxsize=8)
def _made(of: TrainingProgram) -> tuple[Module, Function]:
    module, whole = _unfused(of)
    return unchecked(module, of.steps_of(SCHEDULING[1:])), whole


@lru_cache(maxsize=4)
def _unfused(of: TrainingProgram) -> tuple[Module, Function]:
    """The program without kernels, and its entry function before ZeRO."""
    module = of.on_one_device
    whole: Function | None = None
    for application in of.steps_of(DISTRIBUTION):
        module = application.unchecked(module)
        whole = whole or entry_of(module)
    assert whole is not None
    kinds = [kind for kind in of.overlap if kind != ASYNC_TP]
    if kinds:
        options = {"behind_sums": True} if of.strategy.behind_sums else {}
        module = overlapped(module, kinds, options).module
    if ASYNC_TP in of.overlap:
        module = in_bulk(module)
    for rewrite in of.of_ranks:
        module = rewrite(module)
    return module, whole


def _training_of(strategy: Strategy) -> dict[str, Any]:
    """The fields of the training step on one device, which many strategies share."""
    return {name: getattr(strategy, name) for name, field in FIELDS.items() if field.step in TRAINING}


@lru_cache(maxsize=8)
def _step(
    model: Decoder,
    sequence: int,
    of_model: tuple[ProgramRewrite, ...],
    strategy: Strategy,
    of_step: tuple[ProgramRewrite, ...],
) -> Module:
    module = program(model, sequence)
    for rewrite in of_model:
        module = rewrite(module)
    module = applied(module, part(steps_of(strategy), TRAINING))
    for rewrite in of_step:
        module = rewrite(module)
    return module
