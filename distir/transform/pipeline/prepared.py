"""A pipeline cut into passes: finds their order, and writes the program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache

from distir.cost import Hardware
from distir.diagnostics import ProgramError
from distir.ir import Dense, Function, Literal, Module, TensorType, types
from distir.ir.builder import FunctionBuilder
from distir.ops import Value
from distir.transform.counting import percent
from distir.transform.pipeline.best import BestOrder
from distir.transform.pipeline.costs import call_costs
from distir.transform.pipeline.emission import write
from distir.transform.pipeline.filling import filled_orders
from distir.transform.pipeline.frames import LEAST
from distir.transform.pipeline.order import DeadlockError, Event, Message, least_span, makespan, merge
from distir.transform.pipeline.outlining import Outlined
from distir.transform.pipeline.passes import Lengths, Order, Pass, Task, stage_devices
from distir.transform.pipeline.placement import Place, Placement
from distir.transform.pipeline.reading import types_of_parts
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
    """The number of devices."""
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
        return [*self.shares.lines, *([] if self.found is None else [_said(self.found)])]

    @cached_property
    def written(self) -> Module:
        """The pipeline."""
        if self.timed is None:
            return self._first
        if self.found is not None:
            orders = [self.found.order, *self.found.named]
        else:
            order = self.rule(self.count)
            orders = [order, *(() if self.is_given else _filled(order, tuple(self._exact.items())))]
        return write(self.placement, folded(self._shortest(orders, self._exact), LEAST), self.functions)

    @cached_property
    def found(self) -> BestOrder | None:
        """The order found for the lengths of passes, if these are known."""
        return None if self.fit is None or self.timed is None else self.fit(self.count, *self._timed)

    @cached_property
    def _first(self) -> Module:
        """The pipeline in an order for the estimated lengths of passes."""
        return write(self.placement, self.timetable, self.functions)

    @property
    def _each_once(self) -> Module | None:
        """A program that calls each pass once, to time it; None where passes take what may be sizes from the host."""
        reading, passes = self.placement.reading, self.placement.passes
        type_of, main = types_of_parts(reading), FunctionBuilder(reading.entry.name)
        for (stage, _), outlined in passes.items():
            given: list[str | Literal] = []
            for name in outlined.takes:
                value = reading.part(name)
                if isinstance(value, Dense):
                    given.append(Literal(value))
                elif reading.is_host(name) and not _is_of_floats(value):
                    return None
                else:
                    given.append(main.param(name, types.on_device(type_of(name), self.placement.device(stage))))
            main.call(outlined.function.name, *given, results=len(outlined.gives))
        return Module([*self.functions, main.returns()])

    @property
    def _exact(self) -> Lengths:
        """The lengths of passes, measured on their functions, which includes halves of backward passes."""
        return self._timed[0]

    @cached_property
    def _timed(self) -> tuple[Lengths, Lengths]:
        """The lengths of passes, and of the messages that they receive."""
        assert self.timed is not None
        first, device = self.placement.reading.device, self.stage_devices
        ways = {
            (stage, kind): (
                first + min(device[stage - step], device[stage]),
                first + max(device[stage - step], device[stage]),
            )
            for kind, step in ((Pass.FORWARD, 1), (Pass.BACKWARD, -1))
            for stage in range(len(device))
            if 0 <= stage - step < len(device) and device[stage - step] != device[stage]
        }
        alone = self._each_once if self.fit is None else None  # messages are timed in the pipeline
        made, count = (self._first, self.count) if alone is None else (alone, 1)
        exact = _exact_lengths(made, self.placement.passes, ways, count, self.timed)
        return ({where: exact[0].get(where, 0.0) for where in self.lengths}, exact[1]) if exact else (self.lengths, {})

    @cached_property
    def timetable(self) -> Timetable:
        """The order with its messages.

        Computed for fewer microbatches, and extended by repetitions of the steady state, if that gives the order.
        """
        order = self.rule(self.count)
        for few in some(self.devices, len(self.stage_devices), self.count) if self.fit is None else ():
            if few >= self.count:
                break
            with suppress(ScheduleError):  # the schedule may not support this number
                fewer = self.rule(few)
                if stage_devices(fewer) != self.stage_devices:
                    continue
                shorter = folded(self.merged(fewer, self.lengths), LEAST)
                found = self._fitting(stretched(shorter, self.count - few), order)
                if found is not None:
                    return found
        return folded(self.merged(order, self.lengths), LEAST)

    def more(self, count: int) -> list[int] | None:
        """The additional count of each repetition in the order for another number of microbatches; for fewer, 0.

        None if that order has other repetitions.
        """
        if self.timed is not None:
            return None
        repeated = [stretch.count for stretch in self.timetable if stretch.count > 1]
        order = self.rule(count)
        if stage_devices(order) != self.stage_devices:
            return None
        if count > self.count:
            found = self._fitting(stretched(self.timetable, count - self.count), order)
            counts = [stretch.count for stretch in found or () if stretch.count > 1]
            return None if found is None else [now - then for now, then in zip(counts, repeated, strict=True)]
        left = [e for e in unfolded(self.timetable) if e.microbatch < count]
        alike = self._by_device(left) == self._by_device(self.merged(order, self.lengths))
        return [0] * len(repeated) if alike else None

    @property
    def stage_devices(self) -> Sequence[int]:
        """By stage: its device, counted from 0."""
        return self.placement.stage_devices

    @property
    def count(self) -> int:
        """How many microbatches there are."""
        return self.placement.reading.count

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of functions that do not depend on the order."""
        entry = self.placement.reading.entry.name
        return frozenset([*(f.name for f in self.functions), entry, f"{entry}.scatter", f"{entry}.gather"])

    def merged(self, order: Order, lengths: Lengths) -> Sequence[Event]:
        """An order with its messages. Raises ProgramError where stages need values of each other in a circle."""
        count = sum(task.kind is Pass.FORWARD and task.stage == 0 for tasks in order for task in tasks)
        try:
            return _merged(order, _messages(self.placement, count), tuple(lengths.items()))
        except DeadlockError:
            raise self.placement.deadlock() from None

    def _shortest(self, orders: Iterable[Order], lengths: Lengths) -> Sequence[Event]:
        """The first of these orders that takes the least time, with its messages.

        Messages are placed only where an order could take less than those before it.
        """
        least, found = math.inf, list[Event]()
        for order in orders:
            if found and self._least_span(order, lengths) >= least:
                continue
            events = self.merged(order, lengths)
            span = self.span(events, lengths)
            if span < least or not found:
                least, found = span, [*events]
        return found

    def _least_span(self, order: Order, lengths: Lengths) -> float:
        return least_span(order, _messages(self.placement, self.count), lambda t: lengths[t.stage, t.kind])

    def span(self, events: Sequence[Event], lengths: Lengths) -> float:
        """The makespan of the passes, with messages if the schedule accounts for them."""
        home = self.stage_devices
        sends: Lengths = {} if self.timed is None or self.fit is None else self._timed[1]

        def sent(message: Message) -> float:
            return sends.get((message.target.stage, message.target.kind), 0.0)

        return makespan(events, lambda t: home[t.stage], lambda t: lengths[t.stage, t.kind], self.devices, sent)

    def _fitting(self, timetable: Timetable | None, order: Order) -> Timetable | None:
        """The timetable, if it has the tasks of the order."""
        return timetable if timetable is not None and self._tasks(timetable) == order else None

    def _by_device(self, events: Sequence[Event]) -> list[list[Event]]:
        """The events of each device in order, regardless of other devices' events."""
        found: list[list[Event]] = [[] for _ in range(self.devices)]
        for event in events:
            stages = (event.source.stage, event.target.stage) if isinstance(event, Message) else (event.stage,)
            for stage in stages:
                found[self.stage_devices[stage]].append(event)
        return found

    def _tasks(self, timetable: Timetable) -> Order:
        """By device: its tasks."""
        found: list[list[Task]] = [[] for _ in range(self.devices)]
        for event in unfolded(timetable):
            if isinstance(event, Task):
                found[self.stage_devices[event.stage]].append(event)
        return tuple(map(tuple, found))


def _is_of_floats(value: Value) -> bool:
    return isinstance(value, TensorType) and value.dtype is not None and value.dtype.kind == "float"


def _said(found: BestOrder) -> str:
    """The line that compares an order with the lower bound."""
    if found.span == found.bound:
        return "no order of the passes is shorter, by what they are estimated to take"
    most = percent(1 - found.bound / found.span)
    return f"no order of the passes is more than {most} shorter, by what they are estimated to take"


def some(devices: int, stages: int, count: int) -> list[int]:
    """The smaller number of microbatches for which the repetitions of `count` are found."""
    least = [stages + more for more in ENOUGH]
    return [n + (count - n) % (devices if stages > devices else 1) for n in least]


@lru_cache(maxsize=32)  # plans of a search differ in the number of microbatches; these caches are shared by them
def _merged(order: Order, messages: tuple[Message, ...], lengths: tuple[tuple[Place, float], ...]) -> Sequence[Event]:
    known = dict(lengths)
    return merge(order, messages, lambda task: known[task.stage, task.kind])


@lru_cache(maxsize=4)
def _filled(order: Order, lengths: tuple[tuple[Place, float], ...]) -> tuple[Order, ...]:
    return tuple(filled_orders(order, dict(lengths)))


def _exact_lengths(
    made: Module,
    passes: Mapping[Place, Outlined],
    ways: Mapping[Place, tuple[int, int]],
    count: int,
    machine: Hardware,
) -> tuple[dict[Place, float], dict[Place, float]] | None:
    """The length of each pass's function as the pipeline calls it, and of the messages on these `ways`.

    In hundredths of the longest pass; None if unknown.
    """
    try:
        cost, sends = call_costs(made, {o.function.name for o in passes.values()}, count, machine)
    except ProgramError:
        return None
    exact = {where: cost.get(o.function.name, 0.0) for where, o in passes.items()}
    longest = max(exact.values()) or 1.0
    return hundredths(exact), {where: round(100 * sends.get(way, 0.0) / longest) for where, way in ways.items()}


def hundredths(seconds: Mapping[Place, float]) -> dict[Place, float]:
    """Times as integers: hundredths of the longest."""
    longest = max(seconds.values()) or 1.0
    return {where: round(100 * s / longest) for where, s in seconds.items()}


def _messages(placement: Placement, count: int) -> tuple[Message, ...]:
    return tuple(
        Message(Task(source[0], k, source[1]), Task(target[0], k, target[1]))
        for source, target in placement.messages
        for k in range(count)
    )
