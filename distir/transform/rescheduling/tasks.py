"""The statements of an entry function as tasks: what they do to the devices' clocks, and what must come before them.

Whatever happens in a call, it maps the clocks of its devices by a max-plus linear map; one is found for each distinct
body and applied wherever it is called. A stream that statements name is one device more: what is on it waits for its
operands alone. Knows nothing of orders but how to run one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from distir.ir import Apply, Call, Function, Statement, names, operands, results
from distir.simulate import Simulation
from distir.simulate.algebra.clocks import Clock
from distir.simulate.algebra.lanes import stream
from distir.simulate.body import Body, distinct
from distir.simulate.effects import Effect, to_seconds
from distir.simulate.timeline import Timeline

NEVER = float("-inf")

Clocks = dict[Clock, float]
"""By device, or stream of one: when it is done with what it was given so far, in seconds."""


@dataclass(frozen=True, slots=True)
class StatementTask:
    """What a statement does to the clocks of its devices; nothing where it has none."""

    devices: tuple[Clock, ...]
    seconds: float
    """From the first device's start to the last one's end, if all are free at once."""
    rows: tuple[tuple[float, ...], ...] | None = None
    """By device, and device it waits for: the seconds in between. None where all wait for all, for `seconds`."""
    is_op: bool = True
    """Whether it is one op, which starts when all its operands are there."""

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


@dataclass(frozen=True)
class Tasks:
    """All statements but `return`, by number."""

    tasks: Sequence[StatementTask]
    before: Sequence[frozenset[int]]
    """By task: those whose results it uses."""
    after: Sequence[tuple[int, ...]]
    """By task: those that use its results."""
    awaited: Sequence[tuple[int, ...]]
    """By task: those before it that have a device which it has not, so that it waits for their results."""
    devices: tuple[Clock, ...]
    busiest: float
    """How long the busiest stream of a device is busy, in seconds: in every order."""

    @cached_property
    def waited_for(self) -> frozenset[int]:
        """The tasks that others wait for beside their devices."""
        return frozenset(other for others in self.awaited for other in others)

    def __len__(self) -> int:
        return len(self.tasks)

    def clocks(self) -> Clocks:
        """The clocks of all devices at the start."""
        return dict.fromkeys(self.devices, 0.0)

    def run(self, order: Sequence[int]) -> Clocks:
        """When each device is done, if the tasks are run in this order."""
        done = Progress(self, self.clocks())
        for number in order:
            done.run(number)
        return done.clocks

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
            # When a call has made a result, and when it needs an operand, may be in the midst of it.
            ops = [o for o in self.awaited[number] if task.is_op and self.tasks[o].is_op]
            floor = max([earliest[o][self.tasks[o].devices[0]] for o in ops], default=0.0)
            for device in task.devices:
                clocks[device] = max(clocks.get(device, 0.0), floor)
            task.run(clocks)
            earliest.append(clocks)
        return max((max(clocks.values(), default=0.0) for clocks in earliest), default=0.0)


@dataclass(slots=True)
class Progress:
    """Tasks run one after the other, so far."""

    tasks: Tasks
    clocks: Clocks
    ends: dict[int, float] = field(default_factory=dict[int, float])
    """By task that others wait for: when it is done."""

    def copy(self) -> Progress:
        """The same, to be gone on with in another way."""
        return Progress(self.tasks, dict(self.clocks), dict(self.ends))

    def there(self, number: int) -> float:
        """When the results are there that a task waits for beside its devices."""
        return max([self.ends[other] for other in self.tasks.awaited[number]], default=0.0)

    def start(self, number: int) -> float:
        """When a task can start."""
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
    """The tasks of the program that was simulated."""
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
    """By task: those before it that are not done as soon as its devices are. None where no stream is named."""
    named = any(not isinstance(device, int) for task in tasks for device in task.devices)
    if not named:
        return [()] * len(tasks)
    sets = [frozenset(task.devices) for task in tasks]
    through: list[frozenset[int]] = []
    """By task: itself; of what takes no time, those that it is made from."""
    for own, others in zip(sets, before, strict=True):
        made = frozenset[int]().union(*[through[other] for other in others])
        through.append(frozenset((len(through),)) if own else made)
    found: list[tuple[int, ...]] = []
    for own, others in zip(sets, before, strict=True):
        needed = frozenset[int]().union(*[through[other] for other in others]) if own else frozenset[int]()
        found.append(tuple(sorted(other for other in needed if not sets[other] & own)))
    return found


def _before(function: Function) -> list[frozenset[int]]:
    made: dict[str, int] = {}
    found: list[frozenset[int]] = []
    for number, statement in enumerate(function.body[:-1]):
        found.append(frozenset(made[name] for name in names(operands(statement)) if name in made))
        made.update((name, number) for name in results(statement) if name)
    return found


def _task(step: Effect | Body | None, statement: Statement, known: dict[int, StatementTask]) -> StatementTask:
    if step is None:
        return StatementTask((), 0.0)
    if isinstance(step, Body):
        return known[id(step)]
    name = statement.stream if isinstance(statement, (Apply, Call)) else ""
    return StatementTask(tuple([stream(device, name) for device in step.devices]), step.cost.seconds)


def _composed(tasks: Sequence[StatementTask]) -> StatementTask:
    """Tasks one after the other, as one."""
    devices = tuple(dict.fromkeys([device for task in tasks for device in task.devices]))
    if len(devices) <= 1:
        return StatementTask(devices, sum(task.seconds for task in tasks), is_op=False)
    columns: list[Clocks] = []
    for start in devices:  # the clocks after it, if only this one has started
        clocks = dict.fromkeys(devices, NEVER)
        clocks[start] = 0.0
        for task in tasks:
            task.run(clocks)
        columns.append(clocks)
    rows = tuple(tuple(column[device] for column in columns) for device in devices)
    return StatementTask(devices, max(map(max, rows)), rows, is_op=False)
