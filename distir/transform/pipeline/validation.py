"""Validates orders: every pass once, each stage on one device, no deadlock.

Orders come from functions under `@schedule`, including those of plugins, so errors name the schedule, the pass and the
device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from distir.diagnostics.codes import transforms as codes
from distir.diagnostics.core import Code
from distir.ir.errors import DistirError
from distir.transform.pipeline.passes import Order, Pass, Task, needs


class ScheduleError(DistirError, ValueError):
    """An order that a schedule does not support, or that cannot run; the message says why, or what is possible.

    `code`: the diagnostic's.
    """

    def __init__(self, message: str, code: Code = codes.BAD_SCHEDULE) -> None:
        super().__init__(message)
        self.code = code


def validate(
    name: str,
    order: Order,
    devices: int,
    stages: int,
    microbatches: int,
    splits: bool,
    trains: bool = True,
    chunks: int = 1,
) -> None:
    """Raises ScheduleError for an order of the schedule `name` that cannot be run.

    `splits`: whether backward passes are split; `trains`: whether there are any; `chunks`: as in `needs`.
    """
    if len(order) != devices:
        message = f"`{name}` gave orders for {_counted(len(order), 'device')}, expected {devices}"
        raise ScheduleError(message, codes.SCHEDULE_PASSES)
    _check_passes(name, order, stages, microbatches, tuple(Pass)[: 1 if not trains else 3 if splits else 2])
    _check_stages(name, order)
    _check_dependencies(name, order, stages, chunks)


def _check_passes(name: str, order: Order, stages: int, microbatches: int, kinds: tuple[Pass, ...]) -> None:
    expected = [Task(stage, k, kind) for stage in range(stages) for k in range(microbatches) for kind in kinds]
    found = Counter(task for tasks in order for task in tasks)
    known = set(expected)
    unknown = next((task for task in found if task not in known), None)
    if unknown is not None:
        be = "is" if stages == 1 else "are"
        reason = f"there {be} {_counted(stages, 'stage')} and {_counted(microbatches, 'microbatch', 'es')}"
        if unknown.kind not in kinds:
            reason = "it is registered without `splits=True`"
        raise ScheduleError(f"`{name}` runs {_said(unknown)}, but {reason}", codes.SCHEDULE_PASSES)
    for task in expected:
        if found[task] != 1:
            times = f", {found[task]} times" if found[task] else ""
            never = "" if found[task] else "never "
            raise ScheduleError(f"`{name}` {never}runs {_said(task)}{times}", codes.SCHEDULE_PASSES)


def _check_stages(name: str, order: Order) -> None:
    home: dict[int, tuple[int, Task]] = {}
    for device, tasks in enumerate(order):
        for task in tasks:
            there, first = home.setdefault(task.stage, (device, task))
            if there != device:
                message = f"`{name}` runs {_said(first)}, on device {there} and {_said(task)}, on device {device}"
                raise ScheduleError(f"{message}: a stage is on one device", codes.SCHEDULE_STAGE_MOVES)


def _check_dependencies(name: str, order: Order, stages: int, chunks: int) -> None:
    """Run every device as far as it can."""
    done: set[Task] = set()
    position = [0] * len(order)
    moved = True
    while moved:
        moved = False
        for device, tasks in enumerate(order):
            while position[device] < len(tasks) and done.issuperset(needs(tasks[position[device]], stages, chunks)):
                done.add(tasks[position[device]])
                position[device] += 1
                moved = True
    stuck = {device: tasks[position[device]] for device, tasks in enumerate(order) if position[device] < len(tasks)}
    if stuck:
        raise ScheduleError(_deadlock(name, order, stuck, done, stages, chunks), codes.SCHEDULE_DEADLOCK)


def _deadlock(name: str, order: Order, stuck: dict[int, Task], done: set[Task], stages: int, chunks: int) -> str:
    """Describes a deadlock: each stuck device waits for a pass that another stuck device has yet to run."""
    home = {task: device for device, tasks in enumerate(order) for task in tasks}
    chain: list[tuple[int, Task, Task]] = []
    device = min(stuck)
    while device not in [d for d, _, _ in chain]:
        task = stuck[device]
        missing = next(need for need in needs(task, stages, chunks) if need not in done)
        chain.append((device, task, missing))
        device = home[missing]
    circle = chain[[d for d, _, _ in chain].index(device) :]
    if len(circle) == 1:
        device, task, missing = circle[0]
        return f"`{name}` runs {_said(task)}, on device {device} before {_said(missing)}, which it needs"
    waits = [f"device {d} waits before {_named(task)} for {_named(missing)}" for d, task, missing in circle]
    return f"`{name}` lets devices wait for each other: {_joined(waits)}"


def _counted(count: int, noun: str, plural: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else plural}"


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + f" and {parts[-1]}" if len(parts) > 1 else parts[0]


def _named(task: Task) -> str:
    return f"`{task}`"


def _said(task: Task) -> str:
    """Describes a pass; stages and microbatches count from 0, as in a `Task`."""
    return f"{_named(task)}, the {task.kind.value} pass of stage {task.stage} over microbatch {task.microbatch}"
