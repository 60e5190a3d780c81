"""A pipeline cut into passes: finds their order, and writes the program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache

from distir.cost import Hardware
from distir.ir import Function, Module
from distir.transform.pipeline.alike import with_shared
from distir.transform.pipeline.best import BestOrder
from distir.transform.pipeline.costs import exact_lengths
from distir.transform.pipeline.emission import each_once, write
from distir.transform.pipeline.filling import filled_orders
from distir.transform.pipeline.frames import LEAST
from distir.transform.pipeline.order import DeadlockError, Event, Message, in_waves, least_span, makespan, merge
from distir.transform.pipeline.passes import Lengths, Order, Pass, Task, stage_devices
from distir.transform.pipeline.placement import Place, Placement
from distir.transform.pipeline.repetition import Timetable, folded, stretched, unfolded
from distir.transform.pipeline.shares import StageShares
from distir.transform.pipeline.validation import ScheduleError

ENOUGH = (6, 8, 12)
"""The number of microbatches, beyond fill and drain, after which a steady state is expected."""

Rule = Callable[[int], Order]
"""From the number of microbatches to the order."""


@dataclass(frozen=True)
class Prepared:
    """A pipeline cut into passes, each of which is a function."""

    placement: Placement
    devices: int
    """The number of devices, of which some may have no passes."""
    functions: Sequence[Function]
    rule: Rule
    lengths: Lengths
    timed: Hardware | None
    """The machine on which the passes' functions are timed, for an order that depends on their lengths."""
    find_shares: Callable[[], StageShares]
    fit: Callable[[int, Lengths, Lengths], BestOrder] | None = None
    """For schedules that depend on the lengths of passes: finds the shortest order, with a lower bound."""
    is_uniform: bool = True
    """Whether stages have equally many layers."""
    is_given: bool = False
    """Whether the order was given explicitly, so that weight gradients are not moved."""

    @cached_property
    def shares(self) -> StageShares:
        """Each stage's share of time, FLOPs and weights."""
        return self.find_shares()

    @property
    def lines(self) -> list[str]:
        """The lines that report on the pipeline."""
        return [*self.shares.lines, *([] if self.found is None else [self.found.line])]

    @cached_property
    def written(self) -> Module:
        """The pipeline."""
        if self.timed is None:
            return self._shared(self._first)
        if self.found is not None:
            orders = [self.found.order, *self.found.named]
        else:
            order = self.rule(self.count)
            orders = [order, *(() if self.is_given else _filled(order, tuple(self._timed[0].items())))]
        return self._shared(write(self.placement, folded(self._shortest(orders), LEAST), self.functions))

    def _shared(self, written: Module) -> Module:
        """The pipeline in which passes that do the same are one function."""
        passes = [(each.function, kind.value) for (_, kind), each in self.placement.passes.items()]
        adding = ((each.function, kind.value) for (_, kind), each in self.placement.accumulating.items())
        passes += [(function, f"accumulate_{what}") for function, what in adding]
        return with_shared(written, {function.name: (function.facts.stage, what) for function, what in passes})

    @cached_property
    def found(self) -> BestOrder | None:
        """The order found for the lengths of passes, if these are known."""
        return None if self.fit is None or self.timed is None else self.fit(self.count, *self._timed)

    @cached_property
    def _first(self) -> Module:
        """The pipeline in an order for the estimated lengths of passes."""
        return write(self.placement, self.timetable, self.functions)

    @cached_property
    def _timed(self) -> tuple[Lengths, Lengths]:
        """The lengths of passes, measured on their functions, and of the messages that they receive."""
        assert self.timed is not None
        alone = None if self.fit else each_once(self.placement, self.functions)  # messages are timed in the pipeline
        found = exact_lengths(alone or self._first, self.placement, 1 if alone else self.count, self.timed)
        return (self.lengths, {}) if found is None else ({w: found[0].get(w, 0.0) for w in self.lengths}, found[1])

    @cached_property
    def timetable(self) -> Timetable:
        """The order with its messages.

        Computed for fewer microbatches, and extended by repetitions of the steady state, if that gives the order.
        """
        order = self.rule(self.count)
        for few in some(self.devices, len(self.stage_devices), self.count):
            if few >= self.count or self.fit is not None:
                break
            with suppress(ScheduleError):  # the schedule may not support this number
                shorter = self.rule(few)
                if stage_devices(shorter) == self.stage_devices:
                    folds = folded(self._merged(shorter, self.lengths), LEAST)
                    if found := self._stretched(folds, self.count - few, order):
                        return found
        return folded(self._merged(order, self.lengths), LEAST)

    def more(self, count: int) -> Mapping[str, int] | None:
        """By round, how many more calls of it there are for another number of microbatches; for fewer, 0.

        None if the order for that number has other repetitions.
        """
        if self.timed is not None:
            return None
        more, order = count - self.count, self.rule(count)
        if stage_devices(order) != self.stage_devices:
            return None
        if more > 0:
            alike = self._stretched(self.timetable, more, order) is not None
        else:
            left = [event for event in unfolded(self.timetable) if event.microbatch < count]
            alike = self._by_device(left) == self._by_device(self._merged(order, self.lengths))
        steps = [stretch.step for stretch in self.timetable if stretch.count > 1]
        rounds = [function.name for function in [*self._first][len(self.functions) : -3]]  # before the entry function
        found = {name: max(more, 0) // step for name, step in zip(rounds, steps, strict=False)}
        return found if alike and len(rounds) == len(steps) else None

    @property
    def stage_devices(self) -> Sequence[int]:
        """By stage: its device, counted from 0."""
        return self.placement.stage_devices

    @property
    def count(self) -> int:
        """How many microbatches there are."""
        return self.placement.reading.count

    def _merged(self, order: Order, lengths: Lengths) -> Sequence[Event]:
        """An order with its messages. Raises ProgramError where stages need values of each other in a circle."""
        count = sum(task.kind is Pass.FORWARD and task.stage == 0 for tasks in order for task in tasks)
        try:
            return _merged(order, _messages(self.placement, count), tuple(lengths.items()), tuple(self.stage_devices))
        except DeadlockError:
            raise self.placement.deadlock() from None

    def _shortest(self, orders: Iterable[Order]) -> Sequence[Event]:
        """The first of these orders that takes the least time, with its messages, which `best` accounts for.

        Messages are placed only where an order could take less than those before it.
        """
        lengths, sends = self._timed
        messages, home = _messages(self.placement, self.count), self.stage_devices
        least, found = math.inf, list[Event]()

        def duration(task: Task) -> float:
            return lengths[task.stage, task.kind]

        def sent(message: Message) -> float:
            return sends.get((message.target.stage, message.target.kind), 0.0) if self.fit else 0.0

        for order in orders:
            if not found or least_span(order, messages, duration) < least:
                events = self._merged(order, lengths)
                span = makespan(events, lambda task: home[task.stage], duration, self.devices, sent)
                if span < least or not found:
                    least, found = span, [*events]
        return found

    def _stretched(self, timetable: Timetable, more: int, order: Order) -> Timetable | None:
        """The timetable for more microbatches, if it has the tasks of the order."""
        found = stretched(timetable, more)
        if found is None:
            return None
        rows = self._by_device([event for event in unfolded(found) if isinstance(event, Task)])
        return found if tuple(map(tuple, rows)) == order else None

    def _by_device(self, events: Iterable[Event]) -> list[list[Event]]:
        """The events of each device in order, regardless of other devices' events."""
        found: list[list[Event]] = [[] for _ in range(self.devices)]
        for event in events:
            for stage in event.stages:
                found[self.stage_devices[stage]].append(event)
        return found


def some(devices: int, stages: int, count: int) -> list[int]:
    """The smaller number of microbatches for which the repetitions of `count` are found."""
    least = [stages + more for more in ENOUGH]
    return [n + (count - n) % (devices if stages > devices else 1) for n in least]


@lru_cache(maxsize=32)  # plans of a search differ in the number of microbatches; these caches are shared by them
def _merged(
    order: Order, messages: tuple[Message, ...], lengths: tuple[tuple[Place, float], ...], homes: tuple[int, ...]
) -> Sequence[Event]:
    known = dict(lengths)
    return in_waves(merge(order, messages, lambda task: known[task.stage, task.kind]), lambda task: homes[task.stage])


@lru_cache(maxsize=4)
def _filled(order: Order, lengths: tuple[tuple[Place, float], ...]) -> tuple[Order, ...]:
    return tuple(filled_orders(order, dict(lengths)))


def _messages(placement: Placement, count: int) -> tuple[Message, ...]:
    return tuple(
        Message(Task(source[0], k, source[1]), Task(target[0], k, target[1]))
        for source, target in placement.messages
        for k in range(count)
    )
