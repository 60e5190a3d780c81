"""The statements of an entry function as tasks: what they do to the devices' clocks, and what must come before them.

Whatever happens in a call, it maps the clocks of its devices by a max-plus linear map; one is found for each distinct
body and applied wherever it is called. Knows nothing of orders but how to run one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distir.ir import Function, names, operands, results
from distir.simulate import Simulation
from distir.simulate.body import Body, distinct
from distir.simulate.effects import Effect, to_seconds
from distir.simulate.timeline import Timeline

NEVER = float("-inf")

Clocks = dict[int, float]
"""By device: when it is done with what it was given so far, in seconds."""


@dataclass(frozen=True, slots=True)
class StatementTask:
    """What a statement does to the clocks of its devices; nothing where it has none."""

    devices: tuple[int, ...]
    seconds: float
    """From the first device's start to the last one's end, if all are free at once."""
    rows: tuple[tuple[float, ...], ...] | None = None
    """By device, and device it waits for: the seconds in between. None where all wait for all, for `seconds`."""

    def run(self, clocks: Clocks) -> None:
        """Move the clocks of its devices, in seconds, past it."""
        if self.rows is not None:
            before = [clocks[device] for device in self.devices]
            for device, row in zip(self.devices, self.rows, strict=True):
                clocks[device] = max(map(float.__add__, row, before))
        elif len(self.devices) == 1:
            clocks[self.devices[0]] += self.seconds
        elif self.devices:
            end = max(clocks[device] for device in self.devices) + self.seconds
            for device in self.devices:
                clocks[device] = end


@dataclass(frozen=True, slots=True)
class Tasks:
    """All statements but `return`, by number."""

    tasks: Sequence[StatementTask]
    before: Sequence[frozenset[int]]
    """By task: those whose results it uses."""
    after: Sequence[tuple[int, ...]]
    """By task: those that use its results."""
    devices: tuple[int, ...]
    busiest: float
    """How long the busiest stream of a device is busy, in seconds: in every order."""

    def __len__(self) -> int:
        return len(self.tasks)

    def clocks(self) -> Clocks:
        """The clocks of all devices at the start."""
        return dict.fromkeys(self.devices, 0.0)

    def run(self, order: Sequence[int]) -> Clocks:
        """When each device is done, if the tasks are run in this order."""
        clocks = self.clocks()
        for number in order:
            self.tasks[number].run(clocks)
        return clocks

    def tails(self) -> list[float]:
        """By task: seconds from its start to the end of all that depends on it, if no device is ever busy."""
        found = [0.0] * len(self)
        for number in range(len(self) - 1, -1, -1):
            rest = max((found[other] for other in self.after[number]), default=0.0)
            found[number] = self.tasks[number].seconds + rest
        return found

    def longest_path(self) -> float:
        """When the last task ends, in seconds, if each starts as soon as those before it allow. No order is faster."""
        earliest: list[Clocks] = []
        for number, task in enumerate(self.tasks):
            clocks: Clocks = {}
            for other in self.before[number]:
                for device, time in earliest[other].items():
                    clocks[device] = max(clocks.get(device, 0.0), time)
            for device in task.devices:
                clocks.setdefault(device, 0.0)
            task.run(clocks)
            earliest.append(clocks)
        return max((max(clocks.values(), default=0.0) for clocks in earliest), default=0.0)


def tasks_of(simulation: Simulation) -> Tasks:
    """The tasks of the program that was simulated."""
    return tasks_in(simulation.function, simulation.timeline())


def tasks_in(function: Function, timeline: Timeline) -> Tasks:
    """The tasks of a function, by the timeline of one run of its body."""
    known = dict[int, StatementTask]()
    for body in distinct(timeline.body):  # the simulation keeps its bodies, so each id stays its own
        if body is not timeline.body:
            known[id(body)] = _composed([_task(step, known) for step in body.timed])
    tasks = [_task(step, known) for step in timeline.body.steps[: len(function.body) - 1]]
    before = _before(function)
    after: list[list[int]] = [[] for _ in tasks]
    for number, others in enumerate(before):
        for other in others:
            after[other].append(number)
    busy = timeline.body.summary.busy.items()
    busiest = max((ticks for clock, ticks in busy if isinstance(clock, int) or clock.kind == "stream"), default=0)
    return Tasks(tasks, before, [tuple(a) for a in after], tuple(sorted(timeline.busy)), to_seconds(busiest))


def _before(function: Function) -> list[frozenset[int]]:
    made: dict[str, int] = {}
    found: list[frozenset[int]] = []
    for number, statement in enumerate(function.body[:-1]):
        found.append(frozenset(made[name] for name in names(operands(statement)) if name in made))
        made.update((name, number) for name in results(statement) if name)
    return found


def _task(step: Effect | Body | None, known: dict[int, StatementTask]) -> StatementTask:
    if step is None:
        return StatementTask((), 0.0)
    if isinstance(step, Effect):
        return StatementTask(step.devices, step.cost.seconds)
    return known[id(step)]


def _composed(tasks: Sequence[StatementTask]) -> StatementTask:
    """Tasks one after the other, as one."""
    devices = tuple(sorted({device for task in tasks for device in task.devices}))
    if len(devices) <= 1:
        return StatementTask(devices, sum(task.seconds for task in tasks))
    columns: list[Clocks] = []
    for start in devices:  # the clocks after it, if only this one has started
        clocks = dict.fromkeys(devices, NEVER)
        clocks[start] = 0.0
        for task in tasks:
            task.run(clocks)
        columns.append(clocks)
    rows = tuple(tuple(column[device] for column in columns) for device in devices)
    return StatementTask(devices, max(map(max, rows)), rows)
