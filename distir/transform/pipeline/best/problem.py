"""What an order is sought for: stages on devices, how long their passes take, and how much a device can hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from distir.transform.pipeline.passes import Lengths, Order, Pass, Task, in_flight, needs


@dataclass(frozen=True)
class OrderProblem:
    """Passes to be ordered. Both devices are busy with a message; no device waits to send one."""

    homes: tuple[int, ...]
    """By stage: its device."""
    lengths: Lengths
    """How long each pass of each stage takes, in whole numbers."""
    count: int
    """How many microbatches there are."""
    room: int
    """The most microbatches, counted once per stage, that a device may have gone forward with and not yet back."""
    sends: Lengths = field(default_factory=dict[tuple[int, Pass], float])
    """By pass: how long it is sent what it takes from another device, in whole numbers; without an entry, no time."""

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

    def received(self, stage: int, kind: Pass) -> int:
        """How long a pass is sent what it takes."""
        return int(self.sends.get((stage, kind), 0))

    def length(self, task: Task) -> int:
        """How long a pass keeps its device busy, with what it receives before and what it sends after."""
        return self._busy[task.stage, task.kind]

    @cached_property
    def _busy(self) -> dict[tuple[int, Pass], int]:
        beside = {Pass.FORWARD: 1, Pass.BACKWARD: -1, Pass.WEIGHT: self.stages}
        return {
            (stage, kind): int(length) + self.received(stage, kind) + self.received(stage + beside[kind], kind)
            for (stage, kind), length in self.lengths.items()
        }

    def ready(self, task: Task, need: Task, end: int) -> int:
        """When a pass can start that needs another one, which ends then: what is sent is received meanwhile."""
        return end if need.stage == task.stage else end - self.received(task.stage, task.kind)

    def of(self, stages: Iterator[int] | range, *kinds: Pass) -> int:
        """How long these passes take for one microbatch, one after the other, with what they receive."""
        return sum(int(self.lengths[stage, kind]) + self.received(stage, kind) for stage in stages for kind in kinds)

    def work(self, stages: Iterable[int], *kinds: Pass) -> int:
        """How long a device is busy with these passes of these stages for one microbatch."""
        return sum(self._busy[stage, kind] for stage in stages for kind in kinds)

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
                    before = [(need, ends.get(need)) for need in needs(task, self.stages)]
                    if any(end is None for _, end in before):
                        break
                    ready = [self.ready(task, need, end) for need, end in before if end is not None]
                    found[task] = max([clocks[device], *ready])
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
