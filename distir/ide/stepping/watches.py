"""Watches, at which the program stops: statements, functions, waits, the memory peak, the critical path, conditions.

A watch says which statements and calls of a run may hold what it stops at, so that a search passes over all others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property

from distir.ide.stepping.conditions import ConditionError, LogMessage, StopCondition, read_condition
from distir.ide.stepping.events import StreamEvent
from distir.ide.stepping.streams import Spot, device_of, occupied
from distir.ir import Call, Module
from distir.simulate.algebra.clocks import Clock, Summary, run
from distir.simulate.body import Body
from distir.simulate.descent import EventPlace, Run
from distir.simulate.effects import TICKS_PER_SECOND


@dataclass(frozen=True, kw_only=True)
class StopWatch:
    """Any op, under a condition. `number`: by which the client knows it; `count`: which of its hits stop.

    `message`: what is logged in the place of stopping, if anything.
    """

    number: int
    condition: StopCondition | None = None
    count: StopCondition | None = None
    message: LogMessage | None = None

    @property
    def counts(self) -> bool:
        """Whether it matters how often it was reached before."""
        named: frozenset[str] = self.condition.names if self.condition is not None else frozenset()
        return self.count is not None or "hits" in named

    def uncounted(self) -> StopWatch:
        """The same with no regard to how often it was reached."""
        condition = self.condition
        kept = condition is not None and "hits" not in condition.names
        return replace(self, count=None, condition=condition if kept else None)

    def statements(self, within: Run) -> Iterable[int] | None:
        """The statements of a run that may contain a hit, in order; None for all."""
        return None

    def may_hold(self, spot: Spot) -> bool:
        """Whether an event of a call may be one."""
        device = self.condition.device if self.condition is not None else None
        return device is None or any(device_of(s) == device for s in occupied(_move(spot)))

    def is_of(self, spot: Spot) -> bool:
        """Whether a call as a whole is meant, which is reached with its first event."""
        return False

    def reached(self, place: EventPlace) -> bool:
        """Whether an event is meant, with no regard to conditions."""
        return True

    def streams(self, place: EventPlace, focus: Clock | None) -> Collection[Clock]:
        """The streams of an event to be tested: one represents them all, if the condition is the same for all."""
        found = place.streams
        if self.condition is not None and self.condition.device is not None:
            return [stream for stream in found if device_of(stream) == self.condition.device]
        in_order = sorted(found, key=lambda stream: stream != focus)
        return in_order if self.condition is not None and self.condition.is_per_stream else in_order[:1]

    def holds(self, event: StreamEvent) -> bool:
        """Whether the conditions hold."""
        return all(asked is None or asked.value(event) for asked in (self.condition, self.count))


@dataclass(frozen=True, kw_only=True)
class CallGraph:
    """Which functions call which. A module's; recursion does not check, so it has none."""

    module: Module

    @cached_property
    def callers(self) -> Mapping[str, AbstractSet[str]]:
        """By function: those that call it."""
        found: dict[str, set[str]] = {}
        for function in self.module.functions.values():
            for statement in function.body:
                if isinstance(statement, Call):
                    found.setdefault(statement.function, set()).add(function.name)
        return found

    def leading_to(self, names: Iterable[str]) -> AbstractSet[str]:
        """The functions that call one of these, directly or not, and these."""
        found = set(names)
        waiting = list(found)
        while waiting:
            new = self.callers.get(waiting.pop(), frozenset[str]()) - found
            found |= new
            waiting += new
        return found


@dataclass(frozen=True, kw_only=True)
class StatementWatch(StopWatch):
    """A statement, in every run of its function. `leading`: the functions in which a call may lead there."""

    function: str
    statement: int
    leading: AbstractSet[str]
    _known: dict[str, Sequence[int]] = field(default_factory=dict[str, "Sequence[int]"], compare=False, repr=False)

    def statements(self, within: Run) -> Iterable[int] | None:
        """The statement, and the calls that may lead to it."""
        function = within.body.instance.function
        if function.name not in self._known:
            self._known[function.name] = [
                index
                for index, statement in enumerate(function.body)
                if (function.name == self.function and index == self.statement)
                or (isinstance(statement, Call) and statement.function in self.leading)
            ]
        return self._known[function.name]

    def may_hold(self, spot: Spot) -> bool:
        """Whether the callee leads there."""
        step = spot.step
        return isinstance(step, Body) and step.instance.function.name in self.leading and StopWatch.may_hold(self, spot)

    def is_of(self, spot: Spot) -> bool:
        """Whether it is the statement."""
        return spot.statement == self.statement and spot.function.name == self.function

    def reached(self, place: EventPlace) -> bool:
        """Whether it is the statement."""
        return self.is_of(Spot(place.run, place.statement))


@dataclass(frozen=True, kw_only=True)
class FunctionWatch(StopWatch):
    """Every call of a function. `leading`: the functions in which there is one, and those that lead to them."""

    function: str
    leading: AbstractSet[str]

    def statements(self, within: Run) -> Iterable[int] | None:
        """The calls that may lead to one."""
        wanted = self.leading | {self.function}
        body = within.body.instance.function.body
        return [i for i, statement in enumerate(body) if isinstance(statement, Call) and statement.function in wanted]

    def may_hold(self, spot: Spot) -> bool:
        """Whether the callee calls it, directly or not."""
        step = spot.step
        return isinstance(step, Body) and step.instance.function.name in self.leading and StopWatch.may_hold(self, spot)

    def is_of(self, spot: Spot) -> bool:
        """Whether it is such a call."""
        statement = spot.function.body[spot.statement]
        return isinstance(statement, Call) and statement.function == self.function

    def reached(self, place: EventPlace) -> bool:
        """Whether it is such a call, of a kernel."""
        return self.is_of(Spot(place.run, place.statement))


@dataclass(frozen=True, kw_only=True)
class WaitWatch(StopWatch):
    """Ops before which a device idles for longer than `least` seconds."""

    least: float

    def may_hold(self, spot: Spot) -> bool:
        """Whether a stream idles for that long in a call, in all."""
        move, clocks = _move(spot), spot.run.clocks(spot.statement)
        begins = dict(clocks)
        run((move,), clocks)
        assert isinstance(move, Summary)
        device = self.condition.device if self.condition is not None else None
        least = max(self.least, self.condition.least_wait if self.condition is not None else 0) * TICKS_PER_SECOND
        return any(
            clocks[stream] - begins[stream] - busy > least
            for stream, busy in move.busy.items()
            if device is None or device_of(stream) == device
        )

    def streams(self, place: EventPlace, focus: Clock | None) -> Collection[Clock]:
        """Those that idle, the one that idles longest first."""
        clocks, start = place.run.clocks(place.statement), place.start
        idle = [stream for stream in place.streams if start - clocks[stream] > self.least * TICKS_PER_SECOND]
        return sorted(idle, key=lambda stream: clocks[stream])


@dataclass(frozen=True, kw_only=True)
class EventsWatch(StopWatch):
    """Certain events, by their numbers in ascending order, each perhaps on a device of its own."""

    events: Sequence[int]
    devices: Mapping[int, int] = field(default_factory=dict[int, int])

    def statements(self, within: Run) -> Iterable[int] | None:
        """Those that hold one."""
        inside = self._between(within.first, within.first + within.body.events)
        return sorted({bisect_right(within.body.first_events, event - within.first) - 1 for event in inside})

    def may_hold(self, spot: Spot) -> bool:
        """Whether a call holds one."""
        first = spot.run.first + spot.run.body.first_events[spot.statement]
        step = spot.step
        return isinstance(step, Body) and bool(self._between(first, first + step.events))

    def reached(self, place: EventPlace) -> bool:
        """Whether it is one."""
        return bool(self._between(place.index, place.index + 1))

    def streams(self, place: EventPlace, focus: Clock | None) -> Collection[Clock]:
        """The stream of the event's own device, where it has one."""
        device = self.devices.get(place.index)
        own = [stream for stream in place.streams if device_of(stream) == device]
        return own or StopWatch.streams(self, place, focus)

    def _between(self, first: int, stop: int) -> Sequence[int]:
        return self.events[bisect_left(self.events, first) : bisect_left(self.events, stop)]


def read_count(text: str) -> StopCondition:
    """Which hits stop: `5`, `>= 3`, `% 10`. Raises ConditionError."""
    said = text.strip()
    try:
        if said.isdigit():
            return read_condition(f"hits == {said}")
        return read_condition(f"hits {said} == 0" if said.startswith("%") else f"hits {said}")
    except ConditionError:
        raise ConditionError(f"expected a hit count such as `5`, `>= 3` or `% 10`, found `{said}`") from None


def _move(spot: Spot) -> Summary:
    move = spot.run.body.moves[spot.statement]
    assert isinstance(move, Summary)
    return move
