"""A plan carried out: transformed once, simulated for each batch size, and for other numbers of microbatches.

Where all replicas and shards are alike, only one of them is simulated, as their representative: the others do the same
at the same times. And where a plan only repeats more often, or less, what one of another number of microbatches does,
only that one is made: the figures are extrapolated (`distir.simulate.extrapolation`), to the last bit the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from distir.analysis import check
from distir.cost import Hardware
from distir.diagnostics import Diagnostic, ProgramError
from distir.ir import Constant, Module
from distir.ir.per_thread import kept_per_thread
from distir.ir.rewrite import with_sizes
from distir.ops import Reject, Value
from distir.search.subject import Subject, batch_dimension
from distir.search.symmetry import interchangeable
from distir.simulate.extrapolation.pipeline import ExtrapolatedFigures, Pipeline, read
from distir.simulate.simulation import BindError, Simulation, arguments
from distir.simulate.sizes import Sweep
from distir.transform.checking import broken
from distir.transform.pipeline import Steady, stage_shares, steady
from distir.transform.steps import StepError, applied
from distir.transform.strategy import Strategy
from distir.transform.strategy.steps import (
    DISTRIBUTION,
    SCHEDULING,
    TRAINING,
    At,
    part,
    pipeline_options,
    steps_of,
    unchecked,
    words_of,
)


class Distributed:
    """A plan carried out, ready to be simulated for any batch size; if it is `sized`, for `batch_size`.

    Raises ProgramError or StepError.
    """

    def __init__(self, subject: Subject, plan: Strategy, batch_size: int | None = None) -> None:
        self.subject = subject
        self._at = _at(subject, plan, batch_size)
        self._module = undistributed(subject, plan, batch_size)
        name = subject.entry.name
        ends = (f"{name}.scatter", f"{name}.gather")  # not simulated, so not checked either
        degrees = plan.data, plan.tensor, plan.pipeline, plan.experts, plan.context
        stands = interchangeable(subject.hardware, *degrees)
        try:
            made = self._made(plan, {"ends": False, "representative": stands} if stands or not plan.zero else {})
        except ProgramError:
            if not (stands and plan.zero):
                raise
            made = self._made(plan, {})  # replicas hold different parts of the state
        self.module = Module(f for f in made if f.name not in ends)
        self._analysis = analysis = check(self.module, late=True)
        self._require_sound(analysis.errors)
        entry = self.module.entry(name)
        assert entry is not None
        self.entry = entry
        self.sweep = Sweep(analysis, entry, subject.hardware)
        self.dimension = None if plan.chunks else batch_dimension(subject.entry)
        self._kept: dict[int, Simulation] = {}
        self._given: dict[int, tuple[Value, ...]] = {}
        self._read: list[Pipeline | None] = []

    def _made(self, plan: Strategy, options: Mapping[str, bool]) -> Module:
        """The program of the plan, with these options of the step `dtp`."""
        self._steps = steps_of(plan, self._at)
        return _by_steps(self._module, plan, self._at, tuple(sorted(options.items())))

    def simulation(self, batch_size: int | None, *, alone: bool = False) -> Simulation:
        """`alone`: no other batch size will be asked for.

        Raises ProgramError or BindError where it cannot be simulated for this size.
        """
        bind = self.bind(batch_size)
        try:
            return self.sweep.once(bind) if alone and not self._kept else self.sweep.at(bind)
        except ProgramError:
            self._require_sound(check(self.module).errors)
            raise  # wrong for this size alone

    def elsewhere(self, machine: Hardware, batch_size: int | None) -> Simulation:
        """The same program on another machine, which joins as many devices alike. Raises as `simulation` does."""
        return Sweep(self._analysis, self.entry, machine).once(self.bind(batch_size))

    def _require_sound(self, errors: Sequence[Diagnostic]) -> None:
        """Raise ProgramError, which names the step that has made it, for a program that does not check."""
        if errors:
            raise ProgramError([broken(str(self._steps[-1]), self.subject.module, self.module, errors[0])])

    def kept(self, batch_size: int) -> Simulation:
        """The simulation for a batch size that will be asked for again. Raises as `simulation` does."""
        if batch_size not in self._kept:
            self._kept[batch_size] = self.simulation(batch_size)
        return self._kept[batch_size]

    def given(self, batch_size: int) -> tuple[Value, ...]:
        """The values of the entry function's parameters for a batch size; once. Raises as `arguments` does."""
        if batch_size not in self._given:
            self._given[batch_size] = arguments(self.entry, self.bind(batch_size))
        return self._given[batch_size]

    def pipeline(self, batch_size: int, rounds: Collection[str]) -> Pipeline | None:
        """The pipeline read, for plans of other numbers of microbatches; None where it cannot be. Raises likewise."""
        if not self._read:
            self._read.append(read(self.kept(batch_size), rounds))
        return self._read[0]

    def bind(self, batch_size: int | None) -> Mapping[str, Constant]:
        """The sizes and host values of the entry function for a batch size."""
        sizes = {} if self.dimension is None or batch_size is None else {self.dimension: batch_size}
        return dict(self.subject.bind) | sizes

    def sizes(self, batch_size: int) -> Mapping[str, int]:
        """The sizes alone."""
        return {name: value for name, value in self.bind(batch_size).items() if isinstance(value, int)}


@kept_per_thread(16)  # other searches than grids come back to plans that differ in the number of microbatches
def carried_out_for(subject: Subject, plan: Strategy, batch_size: int | None) -> Distributed:
    """A plan carried out for a batch size, which is None where the program serves them all."""
    return Distributed(subject, plan, batch_size)


def carried_out(subject: Subject, plan: Strategy, batch_size: int | None = None) -> Distributed:
    """A plan carried out; one that is `sized`, for a batch size. Raises as `Distributed` does."""
    return carried_out_for(subject, plan, batch_size if plan.sized else None)


def forget() -> None:
    """Free the memory of plans carried out: those that a best-first search tries next are of other degrees."""
    for kept in (carried_out_for, _by_steps, _over_devices):
        kept.cache_clear()


def at_size(subject: Subject, batch_size: int | None) -> At:
    """The sizes of a program's dimensions, and the machine's name, for steps that depend on them."""
    dimension = batch_dimension(subject.entry)
    sizes = {name: size for name, size in subject.bind if isinstance(size, int) and not isinstance(size, bool)}
    if dimension is not None and batch_size is not None:
        sizes[dimension] = batch_size
    return At(tuple(sorted(sizes.items())), subject.hardware.name.partition(" (")[0])


def undistributed(subject: Subject, plan: Strategy, batch_size: int | None) -> Module:
    """The program that is distributed; with sequences to be cut, one of that batch size."""
    dimension = batch_dimension(subject.entry)
    if not plan.chunks or dimension is None or batch_size is None:
        return subject.module
    return _of_batch(subject.module, dimension, batch_size)


@kept_per_thread(4)
def _of_batch(module: Module, dimension: str, size: int) -> Module:
    return Module(with_sizes(function, {dimension: size}) for function in module)


def program(subject: Subject, plan: Strategy, batch_size: int | None) -> Module:
    """The program of a plan for a batch size, whole. Raises as its steps do."""
    return applied(undistributed(subject, plan, batch_size), steps_of(plan, _at(subject, plan, batch_size)))


def words_for(subject: Subject, plan: Strategy, batch_size: int | None) -> list[str]:
    """The arguments of `distir transform` that make the program of a plan for a batch size."""
    return words_of(plan, _at(subject, plan, batch_size))


def _at(subject: Subject, plan: Strategy, batch_size: int | None) -> At | None:
    return at_size(subject, batch_size) if plan.sized else None


class ExtrapolatedPlan:
    """A plan, derived from one of another number of microbatches. Raises as `Distributed` does."""

    def __init__(self, subject: Subject, plan: Strategy, found: Steady) -> None:
        self.microbatches, self.counted = plan.microbatches, found.microbatches
        self.more = found.more
        self.other = carried_out(subject, replace(plan, microbatches=found.microbatches))

    def figures(self, batch_size: int) -> ExtrapolatedFigures | None:
        """For a batch size, which microbatches divide; None where the plan itself must be asked."""
        size = batch_size // self.microbatches * self.counted  # microbatches are as large
        try:
            pipeline = self.other.pipeline(size, self.more)
            if pipeline is None or not pipeline.determines(self.microbatches):
                return None
            known, sizes, whole = self.other.kept(size), self.other.sizes(size), self.other.given(batch_size)
            return pipeline.figures(known, sizes, whole, self.microbatches, self.more)
        except (ProgramError, BindError, Reject):
            return None  # it may say other numbers than the plan itself


def extrapolated(subject: Subject, plan: Strategy) -> ExtrapolatedPlan | None:
    """The plan, derived from one of another number of microbatches, if it can be."""
    if plan.pipeline == 1 or plan.sized or batch_dimension(subject.entry) is None:
        return None
    if plan.overlap and plan.zero == 3:
        return None  # weights are gathered ahead, in one round for the next: no round is by itself
    try:
        found = steady(_before(subject.module, plan), plan.pipeline, **pipeline_options(steps_of(plan)))
        if found is None or (plan.overlap and plan.microbatches < found.microbatches):
            return None  # with streams, the order of passes does not determine what fewer microbatches do
        return ExtrapolatedPlan(subject, plan, found)
    except (ProgramError, StepError, Reject):
        return None


def layers_of_stages(subject: Subject, plan: Strategy) -> tuple[int, ...]:
    """How many layers each stage of a plan has; none where there is no such pipeline, or that depends on sizes."""
    if plan.sized:
        return ()
    try:
        found = stage_shares(_before(subject.module, plan), plan.pipeline, **pipeline_options(steps_of(plan)))
        return tuple([stage.layers for stage in found.stages])
    except (ProgramError, StepError, Reject):
        return ()


@kept_per_thread(16)  # contenders are simulated on several machines
def _by_steps(module: Module, plan: Strategy, at: At | None, options: tuple[tuple[str, bool], ...]) -> Module:
    """Apply the steps of a plan to a program. Raises as they do."""
    first = replace(plan, zero=0, shard=0, fuse=False, overlap=False, passes=False)
    made = _over_devices(_before(module, plan), first, at if first.sized else None, options)
    return unchecked(made, part(steps_of(plan, at), (*DISTRIBUTION, *SCHEDULING))[1:])


@kept_per_thread(16)  # plans that differ in ZeRO, fusion or overlap begin alike
def _over_devices(module: Module, plan: Strategy, at: At | None, options: tuple[tuple[str, bool], ...]) -> Module:
    """Apply the step `dtp` to a program. Raises as it does."""
    return unchecked(module, part(steps_of(plan, at, **dict(options)), ("dtp",)))


@lru_cache(maxsize=8)
def _recomputed(module: Module, what: Strategy) -> Module:
    return applied(module, part(steps_of(what), TRAINING))


def _before(module: Module, plan: Strategy) -> Module:
    """The sequential program that is distributed. Raises ProgramError where there is nothing to recompute."""
    return _recomputed(module, Strategy(checkpoint=True, recompute=plan.recompute)) if plan.checkpoint else module
