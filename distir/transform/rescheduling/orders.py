"""Orders of tasks: by priorities, and by moving single tasks.

Every order keeps a task after those whose results it uses. Memory is not considered: callers check it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from distir.simulate.algebra.clocks import Clock
from distir.transform.rescheduling.tasks import Progress, Tasks

Order = tuple[int, ...]

WINDOWS = (4, 16, 64, 1 << 30)
"""How far ahead of the first task not yet run others are considered: tasks that run early hold memory for long."""

NEXT = 4
"""How many tasks of each kind are tried as fillers of a device's idle time."""

Rule = Callable[[float, float], tuple[float, ...]]
"""A priority, from a task's earliest start and its tail: the task with the lowest runs next; ties keep their order."""

RULES: tuple[Rule, ...] = (
    lambda start, tail: (start, -tail),
    lambda start, tail: (-tail, start),
    lambda start, tail: (start - tail,),
    lambda start, _: (start,),
)

AT_ONCE = (float("-inf"),)
"""The priority of tasks that take no time and occupy no device."""


def by_priority(tasks: Tasks) -> Iterator[Order]:
    """Orders by list scheduling, for each rule and window."""
    tails = tasks.tails()
    for window in WINDOWS:
        for rule in RULES:
            yield _listed(tasks, tails, rule, window)
        if window >= len(tasks):
            return


def _listed(tasks: Tasks, tails: Sequence[float], rule: Rule, window: int) -> Order:
    """List scheduling: repeatedly run the ready task that is first by the rule."""
    progress = Progress(tasks, tasks.clocks())
    missing = [len(before) for before in tasks.before]
    ready = [number for number, count in enumerate(missing) if not count]
    order: list[int] = []
    done = [False] * len(tasks)
    first = 0
    while ready:
        while done[first]:
            first += 1
        number = min(
            (n for n in ready if n < first + window),
            key=lambda n: (rule(progress.start(n), tails[n]) if tasks.tasks[n].devices else AT_ONCE, n),
        )
        progress.run(number)
        ready.remove(number)
        order.append(number)
        done[number] = True
        for other in tasks.after[number]:
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    return tuple(order)


def moved(tasks: Tasks, order: Order) -> Iterator[Order]:
    """Orders that may shorten one wait, for the longest waits first.

    A device that waits before a task may run one of its later tasks first; and the task may move before the last task
    of the device for which it waits.
    """
    progress = Progress(tasks, tasks.clocks())
    clocks = progress.clocks
    last: dict[Clock, int] = {}
    waits: list[tuple[float, int, Clock, int]] = []
    for place, number in enumerate(order):
        devices, there = tasks.tasks[number].devices, progress.there(number)
        if any(clocks[device] < there for device in devices):
            blocker = max(tasks.awaited[number], key=progress.ends.__getitem__)
            idle = [device for device in devices if clocks[device] < there]
            waits += [(clocks[device] - there, place, device, order.index(blocker)) for device in idle]
        elif len(devices) > 1:
            latest = max(devices, key=clocks.__getitem__)
            waits += [
                (clocks[device] - clocks[latest], place, device, last[latest])
                for device in devices
                if clocks[device] < clocks[latest]
            ]
        progress.run(number)
        last.update(dict.fromkeys(devices, place))
    places = {number: place for place, number in enumerate(order)}
    for _, place, device, blocker in sorted(waits, key=lambda wait: wait[:2]):
        for later in _fillers(tasks, order, places, place, device):
            if (made := _before(tasks, order, later, place)) is not None:
                yield made
        if (made := _before(tasks, order, place, blocker)) is not None:
            yield made


def _fillers(tasks: Tasks, order: Order, places: Mapping[int, int], place: int, device: Clock) -> Iterator[int]:
    """The positions of tasks that the device might run before the one at `place`.

    The next ones, and the next ones that do not depend on any task in between.
    """
    following = [i for i in range(place + 1, len(order)) if device in tasks.tasks[order[i]].devices]
    yield from following[:NEXT]
    ready = (i for i in following[NEXT:] if all(places[other] < place for other in tasks.before[order[i]]))
    yield from islice(ready, NEXT)


def _before(tasks: Tasks, order: Order, place: int, target: int) -> Order | None:
    """The order with the task at `place`, and all in between on which it depends, moved before the one at `target`.

    None if it depends on that one.
    """
    taken, wanted = [order[place]], set(tasks.before[order[place]])
    kept: list[int] = []
    for number in order[place - 1 : target : -1]:
        if number in wanted:
            taken.append(number)
            wanted |= tasks.before[number]
        else:
            kept.append(number)
    if order[target] in wanted:
        return None
    return (*order[:target], *reversed(taken), order[target], *reversed(kept), *order[place + 1 :])
