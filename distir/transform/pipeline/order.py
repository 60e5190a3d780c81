"""One order for a whole pipeline: the devices' own orders merged, with the messages between stages placed.

A `Send` blocks both ends until both are there, and program order decides who meets when. So it is placed where both
ends are between two passes and no device has to wait that could work: found by playing the schedule through, with some
duration for each pass. Pure: knows no programs.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from distir.transform.pipeline.passes import Order, Pass, Task


class Message(NamedTuple):
    """What `source` makes and `target` needs, on another device: all values between the two in one message."""

    source: Task
    target: Task


Event = Task | Message

NOMINAL: Mapping[Pass, float] = {Pass.FORWARD: 1.0, Pass.BACKWARD: 2.0, Pass.WEIGHT: 1.0}
"""How long passes take by default."""

SPLIT: Mapping[Pass, float] = dict.fromkeys(Pass, 1.0)
"""The same where the backward pass is split."""

PATIENCE = (1.0, 2.0, math.inf)
"""How many times as long as its receiver would wait for it a sender is ready to wait instead. All are tried."""


def merge(
    order: Order, messages: Iterable[Message], duration: Callable[[Task], float] = lambda task: NOMINAL[task.kind]
) -> list[Event]:
    """Tasks and messages in an order in which each device runs its tasks as `order` says: the shortest that is found.

    Raises ValueError if the tasks wait for each other in a circle.
    """
    home = {task: device for device, tasks in enumerate(order) for task in tasks}
    known, sent = {task: duration(task) for task in home}, list(messages)
    bound = _without_blocking(order, sent, known)
    best: tuple[float, list[Event]] = (math.inf, [])
    for patience in PATIENCE:
        events = _Play(order, home, sent, known, patience).events()
        span = makespan(events, home.__getitem__, known.__getitem__, len(order))
        best = min(best, (span, events), key=lambda found: found[0])
        if best[0] <= bound:
            break
    return best[1]


def makespan(
    events: Sequence[Event],
    device_of: Callable[[Task], int],
    duration: Callable[[Task], float],
    devices: int,
    sent: Callable[[Message], float] = lambda message: 0.0,
) -> float:
    """When the events end, in the unit of `duration`. `sent`: how long messages take.

    A message blocks its two devices, from when both have come to it.
    """
    clocks = [0.0] * devices
    for event in events:
        if isinstance(event, Task):
            clocks[device_of(event)] += duration(event)
        else:
            a, b = device_of(event.source), device_of(event.target)
            clocks[a] = clocks[b] = max(clocks[a], clocks[b]) + sent(event)
    return max(clocks)


def _without_blocking(order: Order, messages: Iterable[Message], duration: Mapping[Task, float]) -> float:
    """How long the tasks take if messages never wait: a lower bound. 0 if they wait in a circle."""
    awaited: dict[Task, list[Task]] = defaultdict(list)
    for message in messages:
        awaited[message.target].append(message.source)
    end: dict[Task, float] = {}
    clocks, waiting = [0.0] * len(order), [list(reversed(tasks)) for tasks in order]
    moved = True
    while moved:
        moved = False
        for device, tasks in enumerate(waiting):
            while tasks and all(source in end for source in awaited[tasks[-1]]):
                task = tasks.pop()
                start = max([clocks[device], *(end[source] for source in awaited[task])])
                clocks[device] = end[task] = start + duration[task]
                moved = True
    return 0.0 if any(waiting) else max(clocks)


class _Play:
    """The schedule as it is played through. A device is idle, or busy until its task is done."""

    def __init__(
        self,
        order: Order,
        home: Mapping[Task, int],
        messages: Iterable[Message],
        duration: Mapping[Task, float],
        patience: float,
    ) -> None:
        self.order = order
        self.home = home
        self.duration = duration
        self.patience = patience
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
        """When devices are done with what they run."""
        now = 0.0
        while True:
            idle = [device for device, task in enumerate(self.running) if task is None]
            for device in idle:
                self._meet(device, done)
            for device in idle:
                task = self._next(device)
                if task is not None and not self._better_wait(device, task, now):
                    self.position[device] += 1
                    self.running[device] = task
                    self.until[device] = now + self.duration[task]
                    heapq.heappush(queue, (self.until[device], device))
                    done.append(task)
            if not queue:
                break
            now = queue[0][0]
            while queue and queue[0][0] == now:
                self._finish(heapq.heappop(queue)[1])
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

    def _meet(self, device: int, done: list[Event]) -> None:
        """Deliver the messages of an idle device whose other end is idle too."""
        for message in list(self.pending[device]):
            source, target = self.home[message.source], self.home[message.target]
            if self.running[source] is None and self.running[target] is None:
                del self.pending[source][message], self.pending[target][message]
                self.awaited[message.target] -= 1
                done.append(message)

    def _next(self, device: int) -> Task | None:
        """The device's next task if nothing that it needs is missing."""
        tasks, position = self.order[device], self.position[device]
        if position == len(tasks) or self.awaited[tasks[position]]:
            return None
        return tasks[position]

    def _better_wait(self, device: int, task: Task, now: float) -> bool:
        """Whether to wait before a task until something is sent.

        The receiver will need it next, and be free so soon that it would wait much longer for us than we for it.
        """
        end = now + self.duration[task]
        for message in self.pending[device]:
            target = self.home[message.target]
            if target != device and self.running[target] is not None:
                free = self.until[target]
                needed = self.order[target][self.position[target]] == message.target
                if needed and now < free < end and free - now < self.patience * (end - free):
                    return True
        return False
