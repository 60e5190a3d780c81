"""Weight gradients where devices would have to wait, for passes that take as long as they do. Knows no programs.

A schedule that splits the backward pass says in which order a device runs the others; when it makes the gradients of
weights, which no other pass waits for, depends on how long passes take.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from operator import itemgetter

from distir.transform.pipeline.passes import Lengths, Order, Pass, Task, in_flight, needs, stage_devices, with_weights


def filled_orders(order: Order, lengths: Lengths) -> Iterator[Order]:
    """Orders with the same forward and backward passes on each device, and other places for the weight gradients.

    Each device runs as early as it can; and in between the weight gradients, where it would have to wait for long
    enough: at all, for half of what they take, or for all of it. And with each weight gradient behind its backward
    pass. No device holds more microbatches than the one of `order` that holds most, but for the last of these orders.
    """
    plans = [[task for task in tasks if task.kind is not Pass.WEIGHT] for tasks in order]
    limit, homes = max(map(in_flight, order)), stage_devices(order)
    for patience in (0.0, 0.5, 1.0):
        yield _played(plans, limit, homes, lengths, patience)
    yield with_weights(order)


def _played(plans: list[list[Task]], limit: int, homes: Sequence[int], lengths: Lengths, patience: float) -> Order:
    """The order in which devices run their passes as they are ready, and weight gradients in between.

    `homes`: by stage, its device.
    """
    devices, stages = range(len(plans)), len(homes)
    orders: list[list[Task]] = [[] for _ in plans]
    clocks, taken, held = [0.0 for _ in plans], [0 for _ in plans], [0 for _ in plans]
    weights: list[deque[Task]] = [deque() for _ in plans]
    """By device: the weight gradients that can be made, those that could first in front."""
    done: dict[Task, float] = {}

    def choice(device: int) -> tuple[float, Task] | None:
        """What the device does next, and when."""
        plan, now, waiting = plans[device], clocks[device], weights[device]
        task = plan[taken[device]] if taken[device] < len(plan) else None
        full = task is not None and task.kind is Pass.FORWARD and held[device] == limit
        start = math.inf
        if task is not None and not full:
            start = max([now, *(done.get(need, math.inf) for need in needs(task, stages))])
        if waiting and start > now and start - now >= patience * lengths[waiting[0].stage, Pass.WEIGHT]:
            return now, waiting[0]
        return None if task is None or start == math.inf else (start, task)

    ready: dict[int, tuple[float, int, Task]] = {}
    """By device: when it does what next, as it stands."""
    doubtful = set(devices)
    for _ in range(sum(3 * len(plan) // 2 for plan in plans)):
        for device in doubtful:
            found = choice(device)
            if found is None:
                ready.pop(device, None)
            else:
                ready[device] = (found[0], device, found[1])
        start, device, task = min(ready.values(), key=itemgetter(0, 1))
        # a pass is awaited by its own device, and by those of the stages beside it
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
