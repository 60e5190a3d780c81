"""The statements of an entry function as tasks: their effects on the devices' clocks, and their dependencies.

A call maps the clocks of its devices by a max-plus linear map, which is computed once for each distinct body. A named
stream counts as another device: its statements wait for their operands alone. This module runs orders, and does not
choose them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from distir.ir import Apply, Call, Function, Statement, names, operands
from distir.ir.dataflow import definitions
from distir.simulate import Simulation
from distir.simulate.algebra.clocks import Clock
from distir.simulate.algebra.lanes import stream
from distir.simulate.body import Body, distinct
from distir.simulate.effects import Effect, to_seconds
from distir.simulate.timeline import Timeline

NEVER = float("-inf")

Clocks = dict[Clock, float]
"""By device, or stream of a device: when it finishes its tasks so far, in seconds."""


@dataclass(frozen=True, slots=True)
class StatementTask:
    """The effect of a statement on the clocks of its devices; none if it has no device."""

    devices: tuple[Clock, ...]
    seconds: float
    """From the first device's start to the last one's end, if all start idle."""
    rows: tuple[tuple[float, ...], ...] | None = None
    """By device, and device it waits for: the seconds in between. None: all wait for all, for `seconds`."""
    is_op: bool = True
    """Whether it is one op, which starts when all its operands are ready."""

    def run(self, clocks: Clocks) -> None:
        """Advance the clocks of its devices, in seconds."""
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


@dataclass(frozen=True)
class Tasks:
    """All statements but `return`, by number."""

    tasks: Sequence[StatementTask]
    before: Sequence[frozenset[int]]
    """By task: its dependencies."""
    after: Sequence[tuple[int, ...]]
    """By task: its dependents."""
    awaited: Sequence[tuple[int, ...]]
    """By task: its dependencies on devices that it does not use itself, so that it waits for their results."""
    devices: tuple[Clock, ...]
    busiest: float
    """The busy time of the busiest stream, in seconds: a lower bound for every order."""

    @cached_property
    def waited_for(self) -> frozenset[int]:
        """The tasks for whose results tasks on other devices wait."""
        return frozenset(other for others in self.awaited for other in others)

    def __len__(self) -> int:
        return len(self.tasks)

    def clocks(self) -> Clocks:
        """The clocks of all devices at the start."""
        return dict.fromkeys(self.devices, 0.0)

    def run(self, order: Sequence[int]) -> Clocks:
        """When each device finishes, for this order."""
        done = Progress(self, self.clocks())
        for number in order:
            done.run(number)
        return done.clocks

    def tails(self) -> list[float]:
        """By task: seconds from its start to the end of all that depends on it, if devices never delay a task."""
        found = [0.0] * len(self)
        for number in range(len(self) - 1, -1, -1):
            rest = max((found[other] for other in self.after[number]), default=0.0)
            found[number] = self.tasks[number].seconds + rest
        return found

    def longest_path(self) -> float:
        """The critical path of the dependencies, in seconds: a lower bound for every order."""
        earliest: list[Clocks] = []
        for number, task in enumerate(self.tasks):
            clocks: Clocks = {}
            for other in self.before[number]:
                for device, time in earliest[other].items():
                    clocks[device] = max(clocks.get(device, 0.0), time)
            # A call may define a result, or need an operand, before its end.
            ops = [o for o in self.awaited[number] if task.is_op and self.tasks[o].is_op]
            floor = max([earliest[o][self.tasks[o].devices[0]] for o in ops], default=0.0)
            for device in task.devices:
                clocks[device] = max(clocks.get(device, 0.0), floor)
            task.run(clocks)
            earliest.append(clocks)
        return max((max(clocks.values(), default=0.0) for clocks in earliest), default=0.0)


@dataclass(slots=True)
class Progress:
    """A partial execution of an order."""

    tasks: Tasks
    clocks: Clocks
    ends: dict[int, float] = field(default_factory=dict[int, float])
    """By task that others wait for: when it ends."""

    def copy(self) -> Progress:
        """A copy, to be continued independently."""
        return Progress(self.tasks, dict(self.clocks), dict(self.ends))

    def there(self, number: int) -> float:
        """When the results that a task waits for are ready."""
        return max([self.ends[other] for other in self.tasks.awaited[number]], default=0.0)

    def start(self, number: int) -> float:
        """The earliest start of a task."""
        return max(self.there(number), *[self.clocks[device] for device in self.tasks.tasks[number].devices])

    def run(self, number: int) -> None:
        """Run a task."""
        task, clocks = self.tasks.tasks[number], self.clocks
        if self.tasks.awaited[number]:
            there = self.there(number)
            clocks.update([(device, max(clocks[device], there)) for device in task.devices])
        task.run(clocks)
        if number in self.tasks.waited_for:
            self.ends[number] = max([clocks[device] for device in task.devices])


def tasks_of(simulation: Simulation) -> Tasks:
    """The tasks of the simulated program."""
    return tasks_in(simulation.function, simulation.timeline())


def tasks_in(function: Function, timeline: Timeline) -> Tasks:
    """The tasks of a function, by the timeline of one run of its body."""
    known = dict[int, StatementTask]()
    for body in distinct(timeline.body):  # the simulation keeps its bodies, so each id stays its own
        if body is not timeline.body:
            statements = zip(body.instance.function.body, body.steps, strict=True)
            known[id(body)] = _composed([_task(step, statement, known) for statement, step in statements])
    steps = timeline.body.steps[: len(function.body) - 1]
    tasks = [_task(step, statement, known) for statement, step in zip(function.body[:-1], steps, strict=True)]
    before = _before(function)
    after: list[list[int]] = [[] for _ in tasks]
    for number, others in enumerate(before):
        for other in others:
            after[other].append(number)
    busy = timeline.body.summary.busy.items()
    busiest = max((ticks for clock, ticks in busy if isinstance(clock, int) or clock.kind == "stream"), default=0)
    devices = tuple(dict.fromkeys([*sorted(timeline.busy), *(device for task in tasks for device in task.devices)]))
    return Tasks(tasks, before, [tuple(a) for a in after], _awaited(tasks, before), devices, to_seconds(busiest))


def _awaited(tasks: Sequence[StatementTask], before: Sequence[frozenset[int]]) -> list[tuple[int, ...]]:
    """By task: its dependencies that may end after its own devices are idle. None if no stream is named."""
    named = any(not isinstance(device, int) for task in tasks for device in task.devices)
    if not named:
        return [()] * len(tasks)
    sets = [frozenset(task.devices) for task in tasks]
    through: list[frozenset[int]] = []
    """By task: itself; or, for one that takes no time, its dependencies."""
    for own, others in zip(sets, before, strict=True):
        made = frozenset[int]().union(*[through[other] for other in others])
        through.append(frozenset((len(through),)) if own else made)
    found: list[tuple[int, ...]] = []
    for own, others in zip(sets, before, strict=True):
        needed = frozenset[int]().union(*[through[other] for other in others]) if own else frozenset[int]()
        found.append(tuple(sorted(other for other in needed if not sets[other] & own)))
    return found


def _before(function: Function) -> list[frozenset[int]]:
    made = definitions(function)
    return [frozenset(made[n] for n in names(operands(statement)) if n in made) for statement in function.body[:-1]]


def _task(step: Effect | Body | None, statement: Statement, known: dict[int, StatementTask]) -> StatementTask:
    if step is None:
        return StatementTask((), 0.0)
    if isinstance(step, Body):
        return known[id(step)]
    name = statement.stream if isinstance(statement, (Apply, Call)) else ""
    return StatementTask(tuple([stream(device, name) for device in step.devices]), step.cost.seconds)


def _composed(tasks: Sequence[StatementTask]) -> StatementTask:
    """The composition of several tasks."""
    devices = tuple(dict.fromkeys([device for task in tasks for device in task.devices]))
    if len(devices) <= 1:
        return StatementTask(devices, sum(task.seconds for task in tasks), is_op=False)
    columns: list[Clocks] = []
    for start in devices:  # a column of the matrix: clocks after the tasks if only this device starts at 0
        clocks = dict.fromkeys(devices, NEVER)
        clocks[start] = 0.0
        for task in tasks:
            task.run(clocks)
        columns.append(clocks)
    rows = tuple(tuple(column[device] for column in columns) for device in devices)
    return StatementTask(devices, max(map(max, rows)), rows, is_op=False)
