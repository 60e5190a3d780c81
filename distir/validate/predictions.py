"""Predicts runs by simulating their programs, on all cores."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

from distir.analysis import Analysis, check
from distir.cost import HardwareError
from distir.cost.hardware import Fit, MemoryErrors
from distir.diagnostics import ProgramError
from distir.files.scratch import ended_on_termination
from distir.ir.collection import paused_collection
from distir.models.sizes import ModelError
from distir.ops import Reject
from distir.search.processes import in_processes
from distir.simulate.simulation import BindError, Simulation
from distir.simulate.sizes import Sweep
from distir.transform.steps import StepError
from distir.validate.machines import MachineError
from distir.validate.memory import RunMemory, memory_of
from distir.validate.plans import framework_of, plan_of
from distir.validate.programs import RunProgram, TrainingProgram
from distir.validate.replicas import UnlikeError
from distir.validate.runs import MeasuredRun, UnsupportedError

SMALL = 8
"""The number of runs up to which starting processes takes longer than it saves."""

REFUSALS = (UnsupportedError, MachineError, ProgramError, StepError, ModelError, HardwareError, BindError, Reject)
"""The exceptions for runs that cannot be expressed, or simulated."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction of a run. `step_time_s` is None, and `note` says why, if the run cannot be expressed.

    `peak_memory_bytes`: what a process needs of the fullest device, with all that it holds beside tensors, and
    `capacity_bytes` what that device has; `fits`: whether it is enough there, and in the hosts' memory; `fit`: the same
    with the errors of simulated memory that the machine's profile states.
    `reported_memory_bytes`: the peak as the framework reports it, which measurements are compared with; it may be of
    another device, and of tensors alone (`HeldMemory`).
    """

    id: str
    step_time_s: float | None = None
    peak_memory_bytes: int | None = None
    fits: bool | None = None
    fit: Fit | None = None
    capacity_bytes: int | None = None
    reported_memory_bytes: int | None = None
    note: str = ""


def simulated(run: MeasuredRun) -> Simulation:
    """The simulation of a run. Raises one of `REFUSALS`."""
    return simulation_of(plan_of(run))


def simulation_of(program: RunProgram) -> Simulation:
    """The simulation of a run's program, or of one that serves several. Raises ProgramError, StepError or Reject."""
    try:
        return _simulated(_checked(program.step, shared=True), program)
    except (ProgramError, StepError, UnlikeError):
        return _simulated(_checked(program.step, shared=False), program)


def _simulated(analysis: Analysis, program: RunProgram) -> Simulation:
    entry = analysis.module.entry()
    assert entry is not None
    return Sweep(analysis, entry, program.hardware).once(program.bind)


@lru_cache(maxsize=8)  # the same program is simulated on several machines
def _checked(step: TrainingProgram, *, shared: bool) -> Analysis:
    analysis = check(step.shared() if shared else step.module(), late=True)
    if analysis.errors:
        raise ProgramError(analysis.errors)
    return analysis


@lru_cache(maxsize=1 << 10)
def figures_of(program: RunProgram) -> tuple[float, RunMemory]:
    """Seconds of a step, and its memory. Several rows may be of the same program."""
    found = simulation_of(program)
    return found.latency_s, memory_of(program, found)


def predict(run: MeasuredRun) -> Prediction:
    """Predict a run. Does not raise for one that cannot be expressed, or fails: the note says why."""
    try:
        with paused_collection():
            seconds, memory = figures_of(plan_of(run))
        fits = memory.fits, memory.fit
        return Prediction(run.id, seconds, memory.needed, *fits, memory.capacity, memory.reported)
    except Exception as error:  # a row must not take those with it that can be predicted
        return Prediction(run.id, note=reason(error))


def judged(found: Prediction, errors: MemoryErrors) -> Prediction:
    """A prediction with `fit` as these errors of simulated memory say it."""
    if found.fits is None:
        return found
    if found.peak_memory_bytes is None or found.capacity_bytes is None:
        return replace(found, fit="fits" if found.fits else "does not fit")
    in_hosts = found.fits or found.peak_memory_bytes > found.capacity_bytes
    fit = errors.fit(found.peak_memory_bytes, found.capacity_bytes) if in_hosts else "does not fit"
    return replace(found, fit=fit)


def reason(error: Exception) -> str:
    """Why a run cannot be predicted, on one line."""
    text = error.diagnostics[0].message if isinstance(error, ProgramError) and error.diagnostics else str(error)
    failed = "" if isinstance(error, REFUSALS) else f"DistIR failed with {type(error).__name__}: "
    return f"{failed}{' '.join(text.split())}"


def predict_all(runs: Sequence[MeasuredRun], jobs: int = 0) -> Generator[Prediction]:
    """The predictions of runs, as they come. `jobs`: processes, 0 for one for each core."""
    together = families(runs)
    if jobs == 1 or (jobs == 0 and len(runs) <= SMALL):
        for some in together:
            for run in some:
                yield predict(run)
        return
    with ended_on_termination(), closing(in_processes(_predicted, together, jobs)) as found:
        for some in found:
            yield from some


def families(runs: Iterable[MeasuredRun]) -> list[list[MeasuredRun]]:
    """Runs whose programs share most of the work, together: those of the same model, shards and stages.

    They may differ in replicas, and in how much each of them does: what is written before that is written once. Runs
    that differ in replicas alone are next to each other, and in one family: a large one is several, of `SMALL` runs or
    more, so that all cores have work, and what an interrupted process has done is kept.
    """
    found: list[list[MeasuredRun]] = []
    for _, family in groupby(sorted(runs, key=_family_and_program), key=_family):
        some: list[MeasuredRun] = []
        for _, alike in groupby(family, key=_family_and_program):
            if len(some) >= SMALL:
                found.append(some)
                some = []
            some += alike
        found.append(some)
    return found


def _family(run: MeasuredRun) -> tuple[object, ...]:
    chosen = run.framework if run.fault else str(framework_of(run))
    own = run.strategy
    return run.source, run.model, chosen, own.tensor, own.pipeline, own.stages_per_device


def _family_and_program(run: MeasuredRun) -> tuple[object, ...]:
    of_replica = run.micro_batch or 0, run.global_batch / run.strategy.data
    return *_family(run), run.precision, run.strategy.context, run.seq, *of_replica


def _predicted(runs: Sequence[MeasuredRun]) -> list[Prediction]:
    return [predict(run) for run in runs]
