"""The program of a run: the training step that its framework runs, made of steps in words and of rewrites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from inspect import signature
from typing import Final

from distir.cost import Hardware
from distir.ir import Function, Module
from distir.models.catalogue import program
from distir.models.decoder import Decoder
from distir.models.sizes import BATCH
from distir.transform.all_steps import parse_steps, transform
from distir.transform.entry import entry_of
from distir.transform.overlap import overlapped
from distir.transform.overlap.products import in_bulk
from distir.transform.pipeline import Steady, steady
from distir.validate.frameworks import ASYNC_TP, NO_OTHER_MEMORY, HeldMemory
from distir.validate.microbatches import UnlikeMicrobatchesError, with_microbatches
from distir.validate.replicas import DeviceLayout, UnlikeError, fewest_alike, have_equal_kernels, with_replicas

FUSED, EAGER = ("fuse",), ("fuse", "kernels=eager")
"""The steps that give a program its kernels."""

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
    """A training step: the model, and the steps that make its program, as the command line writes them.

    Rewrites are `of_model`, before it is trained, `of_step`, before it is distributed, and `of_ranks`, after that.
    `overlap`: kinds of the step `overlap`, where they apply; `behind_sums`: the option of the kind `weights`.
    """

    model: Decoder
    sequence: int
    of_model: tuple[ProgramRewrite, ...]
    training: tuple[str, ...]
    of_step: tuple[ProgramRewrite, ...]
    distribution: tuple[str, ...]
    overlap: tuple[str, ...]
    behind_sums: bool
    of_ranks: tuple[ProgramRewrite, ...]
    kernels: tuple[str, ...]

    def module(self) -> Module:
        """The program. Raises ProgramError or StepError where a step cannot be applied."""
        return self._made[0]

    def shared(self) -> Module:
        """A program that takes as long and as much memory, made of one that serves all numbers of replicas.

        Raises UnlikeError where there is none, or it might differ; else as `module` does.
        """
        data, shards, stages = self._degrees
        named = {name: value for name, _, value in (word.partition("=") for word in self.distribution)}
        context, holding_parts = int(named.get("context", 1)), int(named.get("shard", 0))
        unlike = named.keys() & {"experts", "expert_parallel"} or (context > 1 and holding_parts)
        on_host = any(word.startswith("offload=") for word in self.kernels)
        if unlike or on_host or named.get("layout") != REPLICAS_WITHIN_STAGES:
            raise UnlikeError("it is a program of its own")
        few = DeviceLayout.of_few(shards, context, holding_parts)
        if shards == 1 and "zero" in named and not holding_parts:
            few = fewest_alike(entry_of(self.on_one_device), few, data)
        if data <= few.replicas:
            raise UnlikeError("it is a program of its own")
        other = replace(self, distribution=(f"dtp={few.replicas},{shards},{stages}", *self.distribution[1:]))
        if any(word.startswith("kernels=") for word in self.kernels):  # which do not depend on sizes
            return with_replicas(*other._of_few_microbatches, few, data)
        unfused, whole = _unfused(other)
        if have_equal_kernels(entry_of(unfused), whole, few, data):
            return with_replicas(*other._made, few, data)
        return _applied(with_replicas(unfused, whole, few, data), self.kernels)

    @property
    def _degrees(self) -> tuple[int, int, int]:
        """Replicas, shards, stages."""
        data, shards, stages = self.distribution[0].removeprefix("dtp=").split(",")
        return int(data), int(shards), int(stages)

    @property
    def on_one_device(self) -> Module:
        """The training step on one device."""
        return _step(self.model, self.sequence, self.of_model, self.training, self.of_step)

    @property
    def _made(self) -> tuple[Module, Function]:
        """The program, and its entry function before ZeRO."""
        return _made(self)

    @property
    def _of_few_microbatches(self) -> tuple[Module, Function]:
        """The same, if it can be made of one that serves all numbers of microbatches; takes as long, and as much.

        For kernels that do not depend on how far apart statements are, as those across rounds may.
        """
        count, found = self._microbatches, self._steady
        if found is None:
            return self._made
        words = [f"microbatches={found.microbatches}" if w == f"microbatches={count}" else w for w in self.distribution]
        module, whole = replace(self, distribution=tuple(words))._made
        try:
            return with_microbatches(module, found.more, found.microbatches, count), whole
        except UnlikeMicrobatchesError:
            return self._made

    @property
    def _microbatches(self) -> int:
        return int(self.distribution[1].removeprefix("microbatches="))

    @property
    def _steady(self) -> Steady | None:
        """How its pipeline follows from one of fewer microbatches; None where it does not, or is not repeated whole."""
        if self.overlap or "zero=3" in self.distribution:
            return None  # what rounds exchange is opened up: it depends on the rounds next to them
        options = parse_steps(self.distribution)[0].options
        given = {name: options[name] for name in signature(steady).parameters if name in options}
        found = steady(self.on_one_device, self._degrees[2], **given)
        return found if found is not None and found.microbatches < self._microbatches else None


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
    return _applied(module, of.kernels), whole


@lru_cache(maxsize=4)
def _unfused(of: TrainingProgram) -> tuple[Module, Function]:
    """The program without kernels, and its entry function before ZeRO."""
    module = of.on_one_device
    whole: Function | None = None
    for application in parse_steps(of.distribution):
        module = application.unchecked(module)
        whole = whole or entry_of(module)
    assert whole is not None
    kinds = [kind for kind in of.overlap if kind != ASYNC_TP]
    if kinds:
        module = overlapped(module, kinds, {"behind_sums": True} if of.behind_sums else {}).module
    if ASYNC_TP in of.overlap:
        module = in_bulk(module)
    for rewrite in of.of_ranks:
        module = rewrite(module)
    return module, whole


def _applied(module: Module, words: Sequence[str]) -> Module:
    """The module after steps whose results are not checked one by one: that of the last one is."""
    for application in parse_steps(words):
        module = application.unchecked(module)
    return module


@lru_cache(maxsize=8)
def _step(
    model: Decoder,
    sequence: int,
    of_model: tuple[ProgramRewrite, ...],
    words: tuple[str, ...],
    of_step: tuple[ProgramRewrite, ...],
) -> Module:
    module = program(model, sequence)
    for rewrite in of_model:
        module = rewrite(module)
    module = transform(module, *words)
    for rewrite in of_step:
        module = rewrite(module)
    return module
