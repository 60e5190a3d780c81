"""What an order is sought for: stages on devices, how long their passes take, and how much a device can hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from distir.transform.pipeline.passes import Lengths, Order, Pass, Task, in_flight, needs


@dataclass(frozen=True)
class OrderProblem:
    """Passes to be ordered. Messages are free here, and no device waits to send one."""

    homes: tuple[int, ...]
    """By stage: its device."""
    lengths: Lengths
    """How long each pass of each stage takes, in whole numbers."""
    count: int
    """How many microbatches there are."""
    room: int
    """The most microbatches, counted once per stage, that a device may have gone forward with and not yet back."""

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return max(self.homes) + 1

    @property
    def stages(self) -> int:
        """How many stages there are."""
        return len(self.homes)

    @cached_property
    def own(self) -> tuple[tuple[int, ...], ...]:
        """By device: its stages."""
        return tuple(tuple(s for s, home in enumerate(self.homes) if home == d) for d in range(self.devices))

    def length(self, task: Task) -> int:
        """How long a pass takes."""
        return int(self.lengths[task.stage, task.kind])

    def of(self, stages: Iterator[int] | range, *kinds: Pass) -> int:
        """How long these passes of these stages take for one microbatch, one after the other."""
        return sum(int(self.lengths[stage, kind]) for stage in stages for kind in kinds)

    def tasks(self) -> Iterator[Task]:
        """All passes of all stages over all microbatches."""
        return (Task(s, k, kind) for s in range(self.stages) for kind in Pass for k in range(self.count))

    def fits(self, order: Order) -> bool:
        """Whether an order has the stages where they are, and no device holds too many microbatches."""
        there = all(self.homes[task.stage] == device for device, tasks in enumerate(order) for task in tasks)
        return there and max(map(in_flight, order)) <= self.room

    def starts(self, order: Order) -> dict[Task, int]:
        """When each pass starts if none waits longer than it must. Raises ValueError where they wait in a circle."""
        ends: dict[Task, int] = {}
        found: dict[Task, int] = {}
        clocks, position = [0] * len(order), [0] * len(order)
        moved = True
        while moved:
            moved = False
            for device, tasks in enumerate(order):
                while position[device] < len(tasks):
                    task = tasks[position[device]]
                    before = [ends.get(need) for need in needs(task, self.stages)]
                    if None in before:
                        break
                    found[task] = max([clocks[device], *(end for end in before if end is not None)])
                    clocks[device] = ends[task] = found[task] + self.length(task)
                    position[device] += 1
                    moved = True
        if any(at < len(tasks) for at, tasks in zip(position, order, strict=True)):
            raise ValueError("the passes wait for each other in a circle")
        return found

    def span(self, order: Order) -> int:
        """How long an order takes."""
        return max(start + self.length(task) for task, start in self.starts(order).items())


def placements(devices: int, per_device: int) -> Iterator[tuple[int, ...]]:
    """By stage, its device: round and round, and, where that is another placement, there and back again."""
    yield tuple(range(devices)) * per_device
    if devices > 1 and per_device > 1:
        ways = (tuple(range(devices)), tuple(reversed(range(devices))))
        yield tuple(device for chunk in range(per_device) for device in ways[chunk % 2])
