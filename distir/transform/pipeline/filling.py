"""Moves weight-gradient passes into idle time, for given lengths of passes. Knows no programs.

A schedule that splits the backward pass fixes the order of the other passes; the best places of weight gradients, for
which no other pass waits, depend on the lengths of passes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from distir.transform.pipeline.passes import Lengths, Order, Pass, Task, in_flight, needs, stage_devices, with_weights


def filled_orders(order: Order, lengths: Lengths) -> Iterator[Order]:
    """Orders with the same sequence of forward and backward passes, and other places for weight gradients.

    Each device runs passes as early as it can, and a weight gradient where it would otherwise be idle: for any time,
    for half of the gradient's length, or for all of it. The last order has each weight gradient right after its
    backward pass. In all others no device holds more microbatches than the device of `order` that holds most.
    """
    homes = stage_devices(order)
    plans = [[_Waiting(t, (*needs(t, len(homes)),)) for t in tasks if t.kind is not Pass.WEIGHT] for tasks in order]
    limit = max(map(in_flight, order))
    for patience in (0.0, 0.5, 1.0):
        yield _played(plans, limit, homes, lengths, patience)
    yield with_weights(order)


class _Waiting(NamedTuple):
    """A pass, and those that it waits for."""

    task: Task
    needs: tuple[Task, ...]


def _played(plans: list[list[_Waiting]], limit: int, homes: Sequence[int], lengths: Lengths, patience: float) -> Order:
    """The order in which devices run passes when they are ready, with weight gradients in between.

    `homes`: by stage, its device.
    """
    devices = range(len(plans))
    orders: list[list[Task]] = [[] for _ in plans]
    clocks, taken, held = [0.0 for _ in plans], [0 for _ in plans], [0 for _ in plans]
    weights: list[deque[Task]] = [deque() for _ in plans]
    """By device: the weight gradients that are ready, the earliest first."""
    done: dict[Task, float] = {}

    def choice(device: int) -> tuple[float, Task] | None:
        """The next pass of a device and its start."""
        plan, now, waiting = plans[device], clocks[device], weights[device]
        task, needed = plan[taken[device]] if taken[device] < len(plan) else (None, ())
        full = task is not None and task.kind is Pass.FORWARD and held[device] == limit
        start = math.inf
        if task is not None and not full:
            start = max([now, *[done.get(need, math.inf) for need in needed]])
        if waiting and start > now and start - now >= patience * lengths[waiting[0].stage, Pass.WEIGHT]:
            return now, waiting[0]
        return None if task is None or start == math.inf else (start, task)

    ready: dict[int, tuple[float, int, Task]] = {}
    """By device: its next pass and its start, given the current state."""
    doubtful = set(devices)
    for _ in range(sum(3 * len(plan) // 2 for plan in plans)):
        for device in doubtful:
            found = choice(device)
            if found is None:
                ready.pop(device, None)
            else:
                ready[device] = (found[0], device, found[1])
        start, device, task = min(ready.values())
        # the devices that may wait for this pass: its own and those of neighbouring stages
        doubtful = {device, *homes[max(task.stage - 1, 0) : task.stage + 2]}
        orders[device].append(task)
        clocks[device] = done[task] = start + lengths[task.stage, task.kind]
        if task.kind is Pass.WEIGHT:
            weights[device].popleft()
        else:
            taken[device] += 1
        if task.kind is Pass.BACKWARD:
            weights[device].append(Task(task.stage, task.microbatch, Pass.WEIGHT))
        held[device] += (task.kind is Pass.FORWARD) - (task.kind is Pass.WEIGHT)
    return tuple(map(tuple, orders))
