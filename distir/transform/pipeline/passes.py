"""Passes of a pipeline, and orders of them: which device runs which pass, and when. Knows no programs, no costs.

Stages count from 0 in forward direction. An order alone determines the device of a stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple


class Pass(Enum):
    """What a stage does with a microbatch."""

    FORWARD = "forward"
    BACKWARD = "backward"
    """Computes gradients of the stage's input and weights; of its input alone if the schedule splits the pass."""
    WEIGHT = "weight"
    """Computes gradients of the stage's weights, if the schedule splits the backward pass."""

    __hash__ = object.__hash__  # tasks are looked up often, and `Enum`'s own is slow


class Task(NamedTuple):
    """One pass of one stage over one microbatch; both count from 0."""

    stage: int
    microbatch: int
    kind: Pass

    @property
    def stages(self) -> tuple[int, ...]:
        """The stage that runs it, as of a `Message` both."""
        return (self.stage,)

    def moved(self, step: int) -> Task:
        """The same pass over the microbatch `step` further."""
        return Task(self.stage, self.microbatch + step, self.kind) if step else self

    def __str__(self) -> str:
        return f"{self.kind.value[0].upper()}{self.microbatch}@{self.stage}"


Order = tuple[tuple[Task, ...], ...]
"""By device: its tasks, in the order in which it runs them."""

Lengths = Mapping[tuple[int, Pass], float]
"""How long each pass of each stage takes."""


def needs(task: Task, stages: int, chunks: int = 1) -> Iterator[Task]:
    """The passes on which a pass depends: of the neighbouring stage, and of its own.

    With `chunks` of each sequence, that many consecutive stages are one stage that processes the chunks in turn.
    """
    stage, k = task.stage, task.microbatch
    chunk = stage % chunks
    if task.kind is Pass.FORWARD:
        if stage >= chunks:
            yield Task(stage - chunks, k, Pass.FORWARD)
        if chunk:
            yield Task(stage - 1, k, Pass.FORWARD)
    elif task.kind is Pass.BACKWARD:
        yield Task(stage, k, Pass.FORWARD)
        if stage + chunks < stages:
            yield Task(stage + chunks, k, Pass.BACKWARD)
        if chunk + 1 < chunks:
            yield Task(stage + 1, k, Pass.BACKWARD)
    elif task.kind is Pass.WEIGHT:
        yield Task(stage, k, Pass.BACKWARD)


def stage_devices(order: Order) -> tuple[int, ...]:
    """By stage: the device that runs it."""
    found = {task.stage: device for device, tasks in enumerate(order) for task in tasks}
    return tuple(found[stage] for stage in sorted(found))


def forward_only(order: Order) -> Order:
    """The order without backward passes, for programs that have none."""
    return tuple(tuple(task for task in tasks if task.kind is Pass.FORWARD) for tasks in order)


def with_weights(order: Order) -> Order:
    """The order with each backward pass split into two consecutive halves."""

    def split(task: Task) -> tuple[Task, ...]:
        weight = Task(task.stage, task.microbatch, Pass.WEIGHT)
        return (task, weight) if task.kind is Pass.BACKWARD else (task,)

    whole = ([task for task in tasks if task.kind is not Pass.WEIGHT] for tasks in order)
    return tuple(tuple(half for task in tasks for half in split(task)) for tasks in whole)


def in_flight(tasks: Sequence[Task]) -> int:
    """The most microbatches in flight on a device, counted once per stage: forward done, backward not."""
    last = Pass.WEIGHT if any(task.kind is Pass.WEIGHT for task in tasks) else Pass.BACKWARD
    now = most = 0
    for task in tasks:
        now += (task.kind is Pass.FORWARD) - (task.kind is last)
        most = max(most, now)
    return most


def stages_in_flight(order: Order) -> tuple[int, ...]:
    """By stage: the most microbatches in flight: forward done, backward not."""
    by_stage: dict[int, list[Task]] = {}
    for tasks in order:
        for task in tasks:
            by_stage.setdefault(task.stage, []).append(task)
    return tuple(in_flight(by_stage[stage]) for stage in sorted(by_stage))
