"""Figures of the sequential program for bounds of all plans: weights, activations, work beside products."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from distir.diagnostics import ProgramError
from distir.ops import Reject
from distir.search.bounds import Load, load_of
from distir.search.distributed import Distributed
from distir.search.subject import Subject, layers_of
from distir.simulate.simulation import BindError, Simulation
from distir.transform.all_steps import transform
from distir.transform.steps import StepError
from distir.transform.strategy import Strategy

LAYER_INPUTS = 16
"""How many times as much as its input a layer's backward pass needs, about."""


@dataclass(frozen=True, slots=True)
class Sequential:
    """Bytes and seconds: a constant, and per example."""

    weights: int
    count: int
    """How many weights there are."""
    state: int
    layers: int
    saved: float
    """Bytes in memory at the peak."""
    recomputed: float
    """The same where activations are computed again."""
    others: float
    """Seconds of all but heavy ops."""

    @property
    def passed(self) -> float:
        """Bytes that a layer gets from the one before it."""
        return self.saved / self.layers / LAYER_INPUTS


def load_at(subject: Subject, batch_size: int | None) -> Load:
    """The program's heavy ops that are live and grow with the batch.

    Others may run once for all microbatches, or not at all. Where the program fixes its batch size, these cannot be
    identified, and there are none.
    """
    if batch_size is None:
        return Load(())
    alone = _alone(subject)
    once, twice = (load_of(alone.simulation(size)) for size in (batch_size, 2 * batch_size))
    same = {(flops, dtype) for flops, dtype, _ in twice.ops}
    return Load(tuple(op for op in once.ops if op[:2] not in same))


def sequential(subject: Subject, load: Load, batch_size: int) -> Sequential:
    """The figures of a program whose `load` is for a batch. Raises ProgramError, BindError, Reject."""
    alone = _alone(subject)
    one, two = alone.simulation(1), alone.simulation(2)
    saved = _saved(alone, batch_size)
    recomputed = saved
    if subject.trains:
        with suppress(ProgramError, StepError, BindError, Reject):  # where there is nothing to recompute
            recomputed = _saved(_alone(subject, "checkpoint"), batch_size)
    heavy = load.bound(Strategy(batch_size, 1, 1), subject.hardware)
    others = max(0.0, two.latency_s - one.latency_s - heavy)
    layers = layers_of(subject) or 1
    return Sequential(
        subject.weights_bytes,
        subject.weights_count,
        subject.state_bytes,
        layers,
        max(1, saved),
        max(1, recomputed),
        others,
    )


def simulated(subject: Subject, batch_size: int | None) -> Simulation:
    """The sequential program, without what nothing needs. Raises ProgramError, BindError, Reject."""
    return _alone(subject).simulation(batch_size)


def _alone(subject: Subject, *steps: str) -> Distributed:
    """The sequential program with further steps: behind `cse`, which would merge what is computed again."""
    return Distributed(replace(subject, module=transform(subject.module, "cse", "dce", *steps)), Strategy(1, 1, 1))


def _saved(alone: Distributed, batch_size: int) -> float:
    """Bytes at the peak per example. Of few examples, the peak of a large model is that of its optimizer."""
    once, twice = (_peak(alone.simulation(size).peaks) for size in (batch_size, 2 * batch_size))
    return (twice - once) / batch_size


def _peak(peaks: dict[int, int]) -> int:
    return max(peaks.values(), default=0)
