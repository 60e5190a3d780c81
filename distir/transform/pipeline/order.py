"""One order for a whole pipeline: the devices' own orders merged, with the messages between stages placed.

A `Send` blocks both ends until both are there, and program order decides who meets when. So it is placed where both
ends are between two passes and nobody has to wait who could work: found by playing the schedule through, with some
duration for each pass. Pure: knows no programs.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from distir.transform.pipeline.schedules import Order, Pass, Task


@dataclass(frozen=True, slots=True)
class Message:
    """What `source` makes and `target` needs, on another device: all values between the two in one message."""

    source: Task
    target: Task


Event = Task | Message

NOMINAL: Mapping[Pass, float] = {Pass.FORWARD: 1.0, Pass.BACKWARD: 2.0, Pass.WEIGHT: 1.0}
"""How long passes take where nobody says otherwise."""

SPLIT: Mapping[Pass, float] = dict.fromkeys(Pass, 1.0)
"""The same where the backward pass is split."""


def merge(
    order: Order, messages: Iterable[Message], duration: Callable[[Task], float] = lambda task: NOMINAL[task.kind]
) -> list[Event]:
    """Tasks and messages in an order in which each device runs its tasks as `order` says.

    Raises ValueError if the tasks wait for each other in a circle.
    """
    return _Play(order, messages, duration).events()


def makespan(
    events: Sequence[Event], device_of: Callable[[Task], int], duration: Callable[[Task], float], devices: int
) -> float:
    """How long the events take where messages are free: each blocks its two devices until both have come to it."""
    clocks = [0.0] * devices
    for event in events:
        if isinstance(event, Task):
            clocks[device_of(event)] += duration(event)
        else:
            a, b = device_of(event.source), device_of(event.target)
            clocks[a] = clocks[b] = max(clocks[a], clocks[b])
    return max(clocks)


class _Play:
    """The schedule as it is played through. A device is idle, or busy until its task is done."""

    def __init__(self, order: Order, messages: Iterable[Message], duration: Callable[[Task], float]) -> None:
        self.order = order
        self.duration = duration
        self.home = {task: device for device, tasks in enumerate(order) for task in tasks}
        self.outgoing: dict[Task, list[Message]] = defaultdict(list)
        self.awaited: dict[Task, int] = defaultdict(int)
        """By task: how many messages it still waits for."""
        for message in messages:
            self.outgoing[message.source].append(message)
            self.awaited[message.target] += 1
        self.position = [0] * len(order)
        self.until = [0.0] * len(order)
        """By device: when it is or was done with its last task."""
        self.running: list[Task | None] = [None] * len(order)
        self.pending: list[dict[Message, None]] = [{} for _ in order]
        """By device: the messages that are ready and have an end there, in the order in which they became so."""

    def events(self) -> list[Event]:
        done: list[Event] = []
        queue: list[tuple[float, int]] = []
        now = 0.0
        active = deque(range(len(self.order)))
        while True:
            self._meet(active, done)
            for device in active:
                task = self._next(device)
                if task is not None and not self._better_wait(device, task, now):
                    self.position[device] += 1
                    self.running[device] = task
                    self.until[device] = now + self.duration(task)
                    heapq.heappush(queue, (self.until[device], device))
                    done.append(task)
            if not queue:
                break
            now = queue[0][0]
            finished: list[int] = []
            while queue and queue[0][0] == now:
                finished.append(heapq.heappop(queue)[1])
            for device in finished:
                self._finish(device)
            idle = [d for d in range(len(self.order)) if self.running[d] is None]
            active = deque(idle)
        if any(self.position[d] < len(tasks) for d, tasks in enumerate(self.order)) or any(self.pending):
            raise ValueError("the tasks wait for each other in a circle")
        return done

    def _finish(self, device: int) -> None:
        task = self.running[device]
        assert task is not None
        self.running[device] = None
        for message in self.outgoing.pop(task, ()):
            self.pending[device][message] = None
            self.pending[self.home[message.target]][message] = None

    def _meet(self, active: Iterable[int], done: list[Event]) -> None:
        """Deliver every message of which both ends are idle."""
        for device in active:
            for message in [m for m in self.pending[device] if self._idle(m)]:
                del self.pending[self.home[message.source]][message], self.pending[self.home[message.target]][message]
                self.awaited[message.target] -= 1
                done.append(message)

    def _idle(self, message: Message) -> bool:
        return self.running[self.home[message.source]] is None and self.running[self.home[message.target]] is None

    def _next(self, device: int) -> Task | None:
        """The device's next task if nothing that it needs is missing."""
        tasks, position = self.order[device], self.position[device]
        if position == len(tasks) or self.awaited[tasks[position]]:
            return None
        return tasks[position]

    def _better_wait(self, device: int, task: Task, now: float) -> bool:
        """Whether to wait for a neighbour: it is busy for less time than it would wait for us if we went on."""
        end = now + self.duration(task)
        for message in self.pending[device]:
            source, target = self.home[message.source], self.home[message.target]
            other = target if source == device else source
            free = self.until[other]
            following = self.position[other]
            urgent = source != device or self.order[other][following] == message.target
            if urgent and self.running[other] is not None and now < free < end and free - now < end - free:
                return True
        return False
