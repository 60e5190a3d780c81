"""Merges the devices' orders of passes into one, and places the messages between stages.

A `Send` blocks both devices until both have reached it, in program order. So it is placed where both are between two
passes and no device waits that could work. Places are found by simulating the schedule with a duration for each pass.
Pure: knows no programs.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from distir.ir.errors import DistirError
from distir.transform.pipeline.passes import Order, Pass, Task


class DeadlockError(DistirError, ValueError):
    """Passes that wait for each other's messages in a circle."""


class Message(NamedTuple):
    """All values computed by `source` that `target` needs on another device."""

    source: Task
    target: Task

    @property
    def microbatch(self) -> int:
        """The microbatch of both."""
        return self.source.microbatch

    @property
    def stages(self) -> tuple[int, ...]:
        """The stages of both."""
        return self.source.stage, self.target.stage

    def moved(self, step: int) -> Message:
        """The same message of the microbatch `step` further."""
        return Message(self.source.moved(step), self.target.moved(step)) if step else self


Event = Task | Message

NOMINAL: Mapping[Pass, float] = {Pass.FORWARD: 1.0, Pass.BACKWARD: 2.0, Pass.WEIGHT: 1.0}
"""Default lengths of passes."""

SPLIT: Mapping[Pass, float] = dict.fromkeys(Pass, 1.0)
"""Default lengths if the backward pass is split."""

TURNS = {kind: turn for turn, kind in enumerate(Pass)}
"""By kind of pass: its turn among those that devices run side by side."""

PATIENCE = (1.0, 2.0, math.inf)
"""How long a sender is ready to wait, relative to the wait that this saves its receiver. All values are tried."""


def merge(
    order: Order, messages: Iterable[Message], duration: Callable[[Task], float] = lambda task: NOMINAL[task.kind]
) -> list[Event]:
    """The shortest order found of tasks and messages in which each device runs its tasks as in `order`.

    Raises DeadlockError where passes wait for each other.
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


def in_waves(events: Sequence[Event], device_of: Callable[[Task], int]) -> list[Event]:
    """The events in waves of what devices do side by side: passes of one kind, then messages of one kind.

    Each device keeps its order, so that nothing takes another time. Equal statements follow each other in the program.
    """
    waves: defaultdict[int, tuple[list[Task], list[Message]]] = defaultdict(lambda: ([], []))
    reached: defaultdict[int, int] = defaultdict(int)
    """By device: the wave of its last event."""
    for event in events:
        if isinstance(event, Task):
            wave = reached[device_of(event)] = reached[device_of(event)] + 1
            waves[wave][0].append(event)
        else:
            ends = device_of(event.source), device_of(event.target)
            wave = max(reached[device] for device in ends)
            reached.update(dict.fromkeys(ends, wave))
            waves[wave][1].append(event)
    found: list[Event] = []
    for _, (tasks, messages) in sorted(waves.items()):
        found += sorted(tasks, key=lambda task: (TURNS[task.kind], task.stage))
        while messages:
            messages = _run(messages, device_of, found)
    return found


def _run(messages: Sequence[Message], device_of: Callable[[Task], int], found: list[Event]) -> list[Message]:
    """Add those of the first one's kind that need not wait for others; the rest is returned."""
    left: list[Message] = []
    waiting = set[int]()
    for message in messages:
        ends = device_of(message.source), device_of(message.target)
        if message.source.kind is messages[0].source.kind and waiting.isdisjoint(ends):
            found.append(message)
        else:
            left.append(message)
            waiting.update(ends)
    return left


def makespan(
    events: Sequence[Event],
    device_of: Callable[[Task], int],
    duration: Callable[[Task], float],
    devices: int,
    sent: Callable[[Message], float] = lambda message: 0.0,
) -> float:
    """The end of the last event, in the unit of `duration`. `sent`: the duration of messages.

    A message blocks its two devices once both have reached it.
    """
    clocks = [0.0] * devices
    for event in events:
        if isinstance(event, Task):
            clocks[device_of(event)] += duration(event)
        else:
            a, b = device_of(event.source), device_of(event.target)
            clocks[a] = clocks[b] = max(clocks[a], clocks[b]) + sent(event)
    return max(clocks)


def least_span(order: Order, messages: Iterable[Message], duration: Callable[[Task], float]) -> float:
    """A lower bound of the makespan of the order with its messages. 0 for a deadlock."""
    return _without_blocking(order, messages, {task: duration(task) for tasks in order for task in tasks})


def _without_blocking(order: Order, messages: Iterable[Message], duration: Mapping[Task, float]) -> float:
    """The makespan if messages never block: a lower bound. 0 for a deadlock."""
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
    """A simulation of the schedule. A device is idle, or busy until its task ends."""

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
        """By task: the number of messages for which it still waits."""
        for message in messages:
            self.outgoing[message.source].append(message)
            self.awaited[message.target] += 1
        self.position = [0] * len(order)
        self.until = [0.0] * len(order)
        """By device: the end of its last task."""
        self.running: list[Task | None] = [None] * len(order)
        self.pending: list[dict[Message, None]] = [{} for _ in order]
        """By device: its ready messages, in the order in which they became ready."""

    def events(self) -> list[Event]:
        done: list[Event] = []
        queue: list[tuple[float, int]] = []
        """The ends of running tasks."""
        now = 0.0
        while True:
            idle = [device for device, task in enumerate(self.running) if task is None]
            for device in idle:
                if self.pending[device]:
                    self._meet(device, done)
            for device in idle:
                task = self._next(device)
                if task is not None and not (self.pending[device] and self._better_wait(device, task, now)):
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
            raise DeadlockError("the passes wait for each other in a circle")
        return done

    def _finish(self, device: int) -> None:
        task = self.running[device]
        assert task is not None
        self.running[device] = None
        for message in self.outgoing.pop(task, ()):
            self.pending[device][message] = None
            self.pending[self.home[message.target]][message] = None

    def _meet(self, device: int, done: list[Event]) -> None:
        """Deliver the messages of an idle device whose other device is idle too."""
        for message in list(self.pending[device]):
            source, target = self.home[message.source], self.home[message.target]
            if self.running[source] is None and self.running[target] is None:
                del self.pending[source][message], self.pending[target][message]
                self.awaited[message.target] -= 1
                done.append(message)

    def _next(self, device: int) -> Task | None:
        """The device's next task, if it is ready."""
        tasks, position = self.order[device], self.position[device]
        if position == len(tasks) or self.awaited[tasks[position]]:
            return None
        return tasks[position]

    def _better_wait(self, device: int, task: Task, now: float) -> bool:
        """Whether to wait before a task until a message is sent.

        So if the receiver needs it next, and will be idle so soon that it would wait much longer than the sender.
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
