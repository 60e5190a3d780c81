"""Schedules: in which order each device of a pipeline runs its passes. Pure: knows no programs, no costs.

Stages count from 0 along the forward chain; stage s is on device s mod P, so that with v stages per device a
microbatch goes round v times. Adding a schedule is adding one function, marked `@schedule`.

Sources: Huang et al., "GPipe", NeurIPS 2019; Narayanan et al., "PipeDream", SOSP 2019, and "Efficient Large-Scale
Language Model Training on GPU Clusters Using Megatron-LM", SC 2021 (1F1B, interleaved); Qi et al., "Zero Bubble
Pipeline Parallelism", ICLR 2024 (ZB-H1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from distir.ir.registry import Registry


class Pass(Enum):
    """What a stage does with a microbatch."""

    FORWARD = "forward"
    BACKWARD = "backward"
    """The gradients of the stage's input and of its weights; of its input alone where the schedule splits it."""
    WEIGHT = "weight"
    """The gradients of the stage's weights, where the schedule splits the backward pass."""

    __hash__ = object.__hash__  # tasks are looked up often, and `Enum`'s own is slow


@dataclass(frozen=True, slots=True)
class Task:
    """One pass of one stage over one microbatch; both count from 0."""

    stage: int
    microbatch: int
    kind: Pass

    def __str__(self) -> str:
        return f"{self.kind.value[0].upper()}{self.microbatch}@{self.stage}"


Order = tuple[tuple[Task, ...], ...]
"""By device: its tasks, in the order in which it runs them."""

Rule = Callable[[int, int, int], Order]
"""From P devices, K microbatches and v stages per device to the order."""

Lengths = Mapping[tuple[int, Pass], float]
"""How long each pass of each stage takes."""


class ScheduleError(ValueError):
    """Numbers of devices, microbatches or stages that a schedule cannot take; the text says which would do."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule by name. `splits`: it runs `Pass.WEIGHT` apart. `virtual`: it takes more than one stage per device."""

    name: str
    rule: Rule
    splits: bool
    virtual: bool

    def __call__(self, devices: int, microbatches: int, virtual: int = 1) -> Order:
        """The order. Raises ScheduleError."""
        if devices < 1 or microbatches < 1 or virtual < 1:
            counts = f"{devices}, {microbatches} and {virtual}"
            raise ScheduleError(f"expected 1 or more devices, microbatches and stages per device, found {counts}")
        if virtual > 1 and not self.virtual:
            raise ScheduleError(f"`{self.name}` has one stage per device, found `virtual={virtual}`")
        return self.rule(devices, microbatches, virtual)


SCHEDULES: Final[Registry[Schedule]] = Registry()
"""Every schedule by its name: ours and those of plugins."""


def schedule(name: str, *, splits: bool = False, virtual: bool = False) -> Callable[[Rule], Rule]:
    """Register a rule as the schedule of that name."""

    def register(rule: Rule) -> Rule:
        SCHEDULES.register(name, Schedule(name, rule, splits, virtual), rule.__module__)
        return rule

    return register


def inference(devices: int, microbatches: int, virtual: int = 1) -> Order:
    """Forward passes alone: a device runs the stages it has in turn, P microbatches at a time."""
    return tuple(tuple(_forwards(device, devices, microbatches, virtual)) for device in range(devices))


@schedule("gpipe")
def gpipe(devices: int, microbatches: int, virtual: int) -> Order:
    """All forward passes, then all backward passes; K microbatches are in flight on every device."""
    return tuple(
        tuple(Task(device, k, kind) for kind in (Pass.FORWARD, Pass.BACKWARD) for k in range(microbatches))
        for device in range(devices)
    )


@schedule("1f1b")
def one_forward_one_backward(devices: int, microbatches: int, virtual: int) -> Order:
    """One forward pass, one backward pass in turn, as soon as there is something to go back from.

    Device d, counted from 0, has at most P - d microbatches in flight.
    """
    orders: list[tuple[Task, ...]] = []
    for device in range(devices):
        forwards = (Task(device, k, Pass.FORWARD) for k in range(microbatches))
        backwards = (Task(device, k, Pass.BACKWARD) for k in range(microbatches))
        orders.append(tuple(_alternate(forwards, backwards, devices - 1 - device)))
    return tuple(orders)


@schedule("interleaved", virtual=True)
def interleaved(devices: int, microbatches: int, virtual: int) -> Order:
    """1F1B over v stages per device: the bubble is v times smaller, with v times as many messages.

    K must be a multiple of P: microbatches go in groups of P through one stage of a device, then through its next.
    """
    if virtual > 1 and microbatches % devices:
        below, above = microbatches // devices * devices, -(-microbatches // devices) * devices
        near = f"{below} or {above}" if below else f"{above}"
        raise ScheduleError(
            f"`interleaved` expected a multiple of the {devices} devices as `microbatches`, found {microbatches};"
            f" {near} would do"
        )
    if virtual == 1:
        return one_forward_one_backward(devices, microbatches, 1)
    orders: list[tuple[Task, ...]] = []
    for device in range(devices):
        backwards = (
            Task((virtual - 1 - task.stage // devices) * devices + device, task.microbatch, Pass.BACKWARD)
            for task in _forwards(device, devices, microbatches, virtual)
        )
        # One backward pass can begin on the last device once P * (v - 1) + 1 forward passes are done there. A device
        # before it is a forward pass ahead and a backward pass behind: both fit in, hence twice the distance.
        ahead = devices * (virtual - 1) + 2 * (devices - 1 - device)
        orders.append(tuple(_alternate(_forwards(device, devices, microbatches, virtual), backwards, ahead)))
    return tuple(orders)


@schedule("zb-h1", splits=True)
def zero_bubble_h1(devices: int, microbatches: int, virtual: int) -> Order:
    """1F1B with the backward pass split: weight gradients, which nobody waits for, fill the bubble.

    No device holds more microbatches than the first one does in 1F1B. Where the three passes take equally long and
    there are at least as many microbatches as devices, the bubble is a third of that of 1F1B.
    """
    plans = one_forward_one_backward(devices, microbatches, 1)
    orders: list[list[Task]] = [[] for _ in plans]
    taken, weights, held = [0] * devices, [0] * devices, [0] * devices
    done: dict[Task, int] = {}
    time = 0
    # The plan's passes in its order, all of one length, so time goes in steps. A weight gradient is made where the plan
    # cannot go on: its next pass is not ready, or there is no room for another microbatch.
    while any(len(order) < 3 * microbatches for order in orders):
        for device, plan in enumerate(plans):
            task = plan[taken[device]] if taken[device] < len(plan) else None
            full = held[device] == devices and task is not None and task.kind is Pass.FORWARD
            weight = Task(device, weights[device], Pass.WEIGHT)
            if task is not None and not full and _ready(task, devices, done, time):
                taken[device] += 1
                held[device] += task.kind is Pass.FORWARD
            elif Task(device, weights[device], Pass.BACKWARD) in done:
                task = weight
                weights[device] += 1
                held[device] -= 1
            else:
                continue
            orders[device].append(task)
            done[task] = time + 1
        time += 1
    return tuple(map(tuple, orders))


def split_orders(devices: int, microbatches: int, lengths: Lengths) -> Iterator[Order]:
    """Orders for a backward pass that is split, one stage per device, by how long the passes take.

    The passes of 1F1B in its order, each device as early as it can; and in between the weight gradients, where it would
    have to wait for long enough: at all, for half of what they take, or for all of it. And 1F1B itself, with each
    weight gradient behind its backward pass. None holds more microbatches on a device than the first one in 1F1B.
    """
    for patience in (0.0, 0.5, 1.0):
        yield _played(devices, microbatches, lengths, patience)
    plans = one_forward_one_backward(devices, microbatches, 1)
    yield tuple(tuple(passed for task in plan for passed in _with_weight(task)) for plan in plans)


def _with_weight(task: Task) -> tuple[Task, ...]:
    return (task,) if task.kind is Pass.FORWARD else (task, Task(task.stage, task.microbatch, Pass.WEIGHT))


def _played(devices: int, microbatches: int, lengths: Lengths, patience: float) -> Order:
    """The order in which devices run the passes of 1F1B as they are ready, and weight gradients in between."""
    plans = one_forward_one_backward(devices, microbatches, 1)
    orders: list[list[Task]] = [[] for _ in plans]
    clocks, taken, weights, held = [0.0] * devices, [0] * devices, [0] * devices, [0] * devices
    done: dict[Task, float] = {}

    def choice(device: int) -> tuple[float, Task] | None:
        """What the device does next, and when."""
        plan, now = plans[device], clocks[device]
        task = plan[taken[device]] if taken[device] < len(plan) else None
        weight = Task(device, weights[device], Pass.WEIGHT)
        waiting = Task(device, weights[device], Pass.BACKWARD) in done
        full = task is not None and task.kind is Pass.FORWARD and held[device] == devices
        start = math.inf if task is None or full else max(now, _arrival(task, devices, done))
        if waiting and start > now and start - now >= patience * lengths[device, Pass.WEIGHT]:
            return now, weight
        return None if task is None or start == math.inf else (start, task)

    while any(len(order) < 3 * microbatches for order in orders):
        ready = [(*found, device) for device in range(devices) if (found := choice(device)) is not None]
        start, task, device = min(ready, key=lambda found: (found[0], found[2]))
        orders[device].append(task)
        clocks[device] = done[task] = start + lengths[device, task.kind]
        taken[device] += task.kind is not Pass.WEIGHT
        weights[device] += task.kind is Pass.WEIGHT
        held[device] += (task.kind is Pass.FORWARD) - (task.kind is Pass.WEIGHT)
    return tuple(map(tuple, orders))


def _arrival(task: Task, devices: int, done: Mapping[Task, float]) -> float:
    """When what a pass needs of the stage beside it is there; never, as far as is known, if it is not under way."""
    forward = task.kind is Pass.FORWARD
    if task.stage == (0 if forward else devices - 1):
        return 0.0
    return done.get(Task(task.stage + (-1 if forward else 1), task.microbatch, task.kind), math.inf)


def _ready(task: Task, devices: int, done: dict[Task, int], time: int) -> bool:
    """Whether what a pass of one stage needs of the stage beside it is there."""
    forward = task.kind is Pass.FORWARD
    if task.stage == (0 if forward else devices - 1):
        return True
    beside = Task(task.stage + (-1 if forward else 1), task.microbatch, task.kind)
    return done.get(beside, time + 1) <= time


def in_flight(order: tuple[Task, ...]) -> int:
    """The most microbatches, counted once per stage, that a device has gone forward with and not yet back."""
    last = Pass.WEIGHT if any(task.kind is Pass.WEIGHT for task in order) else Pass.BACKWARD
    now = most = 0
    for task in order:
        now += (task.kind is Pass.FORWARD) - (task.kind is last)
        most = max(most, now)
    return most


def _alternate(forwards: Iterator[Task], backwards: Iterator[Task], ahead: int) -> Iterator[Task]:
    """`ahead` forward passes first, then one forward and one backward in turn, then the backward passes left."""
    for number, forward in enumerate(forwards):
        yield forward
        if number >= ahead:
            yield next(backwards)
    yield from backwards


def _forwards(device: int, devices: int, microbatches: int, virtual: int) -> Iterator[Task]:
    """The forward passes of a device: P microbatches through each of its stages, then the next P."""
    for first in range(0, microbatches, devices):
        for chunk in range(virtual):
            for k in range(first, min(first + devices, microbatches)):
                yield Task(chunk * devices + device, k, Pass.FORWARD)
