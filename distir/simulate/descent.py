"""Enters calls that were applied as summaries: the clocks inside one call, and what follows from them.

When something inside a call is requested, the call runs again from its initial clocks, with its own calls as summaries.
Times are in ticks. Bodies and events are numbered; names are unknown here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from distir.ir import Function
from distir.simulate.algebra.clocks import (
    Clock,
    Clocks,
    Lane,
    Step,
    Summary,
    ends_on,
    of_device,
    retreat,
    run,
    start_of,
)
from distir.simulate.algebra.lanes import allowed, is_host
from distir.simulate.body import CLOSED, Body
from distir.simulate.effects import Effect

Path = tuple[tuple[Function, int], ...]
"""Calls, outermost first: the functions and the statements that call."""

FEW_CALLS = 32
"""Of longer chains of calls that many are shown at either end."""


class Run:
    """One run of a body: the entry function's, or that of one call in the run that called it.

    `clocks` are those that it begins with; they are moved on.
    """

    def __init__(self, body: Body, clocks: Clocks, caller: tuple[Run, int] | None = None) -> None:
        self.body = body
        self.caller = caller
        """The run that called, and the statement that did."""
        self.depth: int = 0 if caller is None else caller[0].depth + 1
        """How many calls lead here."""
        self.outermost: Path = ()
        """The first of those calls."""
        if caller is not None:
            self.outermost = caller[0].outermost
            if len(self.outermost) < FEW_CALLS:
                self.outermost = (*self.outermost, (caller[0].body.instance.function, caller[1]))
        self.first = 0 if caller is None else caller[0].first + caller[0].body.first_events[caller[1]]
        """The number of its first event."""
        self.groups = [step.devices if step is not None else () for step in body.moves]
        """By statement: the devices that it occupies, and what else it waits for or moves on."""
        self.begins: list[int | tuple[int, ...]] = []
        """By statement: the clocks of its devices as it begins; with one device the clock itself."""
        for step, group in zip(body.moves, self.groups, strict=True):
            if step is None or not group:
                self.begins.append(())
            elif len(group) == 1:
                begin = clocks[group[0]]
                self.begins.append(begin)
                clocks[group[0]] = begin + step.ticks
            else:
                self.begins.append(tuple([clocks[device] for device in group]))
                run((step,), clocks)
        self.ends = clocks
        """By device: when it is done."""
        self._child: Run | None = None

    @property
    def path(self) -> Path:
        """The calls that lead here: as many as the program has functions, perhaps."""
        return self._innermost(self.depth)

    @cached_property
    def around(self) -> tuple[Path, int, Path]:
        """The same to be shown: the first calls, how many are left out, and the last ones."""
        last = min(FEW_CALLS, self.depth - len(self.outermost))
        return self.outermost, self.depth - len(self.outermost) - last, self._innermost(last)

    def _innermost(self, count: int) -> Path:
        found: list[tuple[Function, int]] = []
        caller = self.caller
        while caller is not None and len(found) < count:
            found.append((caller[0].body.instance.function, caller[1]))
            caller = caller[0].caller
        return tuple(reversed(found))

    def holds(self, index: int) -> bool:
        """Whether an event's number is in this run, or in its calls."""
        return 0 <= index - self.first < self.body.events

    def span(self, statement: int) -> tuple[int, int]:
        """When the first op of a call starts, and when the last one ends."""
        callee = self.body.steps[statement]
        assert isinstance(callee, Body)
        clocks, move = self.clocks(statement), self.body.moves[statement]
        assert isinstance(move, Summary)
        if any(isinstance(clock, Lane) for clock in clocks):
            start = self.enter(statement).earliest()
        else:
            start = min(max(clocks[device] for device in group) for group in callee.firsts)
        run((move,), clocks)
        return start, max(clocks[clock] for clock in ends_on(move))

    def earliest(self) -> int:
        """When the first op starts: one of those before which nothing ends on any of their clocks."""
        found: list[int] = []
        waiting: list[Run] = [self]
        while waiting:
            current = waiting.pop()
            seen: set[Clock] = set()
            for statement, move in enumerate(current.body.moves):
                if move is None or seen.issuperset(ends_on(move)):
                    continue
                seen.update(ends_on(move))
                if isinstance(current.body.steps[statement], Body):
                    waiting.append(current.enter(statement))
                else:
                    found.append(EventPlace(current, statement).start)
        return min(found)

    def clocks(self, statement: int) -> Clocks:
        """By device: when it is free as a statement begins."""
        return dict(zip(self.groups[statement], _tuple(self.begins[statement]), strict=True))

    def enter(self, statement: int) -> Run:
        """The run of a call. The one last entered is kept."""
        child = self._child  # another thread may enter another call meanwhile
        if child is None or child.caller != (self, statement):
            callee = self.body.steps[statement]
            assert isinstance(callee, Body)
            clocks = defaultdict(int, self.entering(statement))
            child = self._child = Run(callee, clocks, (self, statement))
        return child

    def entering(self, statement: int) -> Clocks:
        """The clocks with which a call begins, as it knows them."""
        return self.body.inside(statement, self.clocks(statement))

    def outside(self, clocks: AbstractSet[Clock]) -> AbstractSet[Clock]:
        """Clocks as the caller knows them."""
        if self.body.edge == CLOSED or self.caller is None:
            return clocks
        caller, statement = self.caller
        names = caller.body.outer_clocks(statement)
        return {names.get(clock, clock) for clock in clocks}

    def before(self, statement: int, devices: AbstractSet[Clock]) -> int | None:
        """The last statement before another of which an event ends on one of the devices."""
        groups, moves = self.groups, self.body.moves
        for index in range(statement - 1, -1, -1):
            if not devices.isdisjoint(groups[index]):
                move = moves[index]
                if not isinstance(move, Summary) or not devices.isdisjoint(move.last):
                    return index
        return None

    def last(self, statement: int, devices: AbstractSet[Clock]) -> int:
        """The last event of a statement that ends on one of the devices."""
        move = self.body.moves[statement]
        inside = move.last.items() if isinstance(move, Summary) else ()
        within = max((number for device, number in inside if device in devices), default=0)
        return self.first + self.body.first_events[statement] + within

    def due(self, statement: int) -> Clocks:
        """By device: when it must be free after a statement, for the program not to end later."""
        return dict(zip(self.groups[statement], self._due[statement], strict=True))

    @cached_property
    def _due(self) -> list[tuple[int, ...]]:
        finish = self.finish
        latest: Clocks = defaultdict(lambda: finish)
        if self.caller is not None:
            outer, calling = self.caller
            latest.update(outer.body.inside(calling, outer.due(calling)))
        found: list[tuple[int, ...]] = []
        for step in reversed(self.body.moves):
            found.append(tuple([latest[device] for device in step.devices]) if step is not None else ())
            if step is not None:
                retreat((step,), latest)
        return found[::-1]

    @property
    def finish(self) -> int:
        """When the program ends."""
        root = self
        while root.caller is not None:
            root = root.caller[0]
        return max(root.ends.values(), default=0)


@dataclass(frozen=True, slots=True)
class EventPlace:
    """An event: the run and the statement that it is."""

    run: Run
    statement: int

    @property
    def index(self) -> int:
        """Its place among all events, counted from 0."""
        return self.run.first + self.run.body.first_events[self.statement]

    @property
    def effect(self) -> Effect:
        """The effect of the op: devices, ticks, memory."""
        return cast("Effect", self.run.body.steps[self.statement])

    @property
    def move(self) -> Step:
        """The effect of the op on clocks."""
        return cast("Step", self.run.body.moves[self.statement])

    @property
    def allowed(self) -> int:
        """When its streams and its operands would let it start: later, it waits for a host."""
        return allowed(self.move, self.run.clocks(self.statement))

    @property
    def issued(self) -> Iterator[tuple[int, int, int]]:
        """Devices whose hosts take time to issue it, and from when until when; until its end, of a host that waits."""
        move, clocks = self.move, self.run.clocks(self.statement)
        hosts = [clock for clock in move.devices if is_host(clock)]
        if hosts:
            after = defaultdict(int, clocks)
            run((move,), after)
            spent = ((cast("int", of_device(host)), clocks[host], after[host]) for host in hosts)
            yield from (found for found in spent if found[2] > found[1])

    @property
    def streams(self) -> Collection[Clock]:
        """The streams that it occupies."""
        return self.move.busy if isinstance(self.move, Summary) else self.move.devices

    @property
    def path(self) -> Path:
        """The calls that lead to the event, and its own statement."""
        return (*self.run.path, (self.run.body.instance.function, self.statement))

    @property
    def start(self) -> int:
        """When it starts, in ticks."""
        begins = self.run.begins[self.statement]
        if isinstance(begins, int):
            return begins
        return start_of(self.move, self.run.clocks(self.statement))

    @property
    def end(self) -> int:
        """When it ends, in ticks."""
        return self.start + self.effect.ticks


@dataclass(frozen=True, slots=True)
class Idle:
    """A stream that is free from `start`, but idles until an event starts; the event that that waits for, if any.

    Where it waits for none, it waits for the host.
    """

    stream: Clock
    start: int
    place: EventPlace
    blocker: int | None

    @property
    def device(self) -> int:
        """The device that the stream is of."""
        return cast("int", of_device(self.stream))


class Descent:
    """The way down from the entry function to events by their numbers. The way last taken is kept."""

    def __init__(self, body: Body, clocks: Clocks) -> None:
        self.root = Run(body, clocks)
        """The run of the entry function."""
        self._current = self.root

    def reach(self, index: int, body: Body, depth: int) -> Run | None:
        """The run of a body, at a depth of calls, that contains an event's number; None if there is none."""
        current = self._current
        while current.caller is not None and not (current.depth <= depth and current.holds(index)):
            current = current.caller[0]
        while current.depth < depth:
            statement = bisect_right(current.body.first_events, index - current.first) - 1
            if not isinstance(current.body.steps[statement], Body):
                return None
            current = current.enter(statement)
        self._current = current
        return current if current.body is body else None

    def at(self, index: int) -> EventPlace:
        """The event of a number. Raises IndexError if there is none."""
        if not 0 <= index < self.root.body.events:
            raise IndexError(f"there is no event {index}")
        current = self._current
        while current.caller is not None and not current.holds(index):
            current = current.caller[0]
        while True:
            statement = bisect_right(current.body.first_events, index - current.first) - 1
            if not isinstance(current.body.steps[statement], Body):
                self._current = current
                return EventPlace(current, statement)
            current = current.enter(statement)

    def critical(self) -> Iterator[int]:
        """The critical path, last event first."""
        ends, root = self.root.ends, self.root
        latency = max(ends.values(), default=0)
        place = self._before(root, len(root.begins), {device for device, end in ends.items() if end == latency})
        while place is not None:
            yield place.index
            place = self._blocker(place)

    def blocker(self, index: int) -> int | None:
        """The latest event before this one, on one of its devices, that ends as it starts; None if it starts at 0."""
        place = self._blocker(self.at(index))
        return None if place is None else place.index

    def _blocker(self, place: EventPlace) -> EventPlace | None:
        start = place.start
        awaited = _awaited(place, start) if start else None
        return self._before(place.run, place.statement, awaited) if awaited else None

    def _before(self, current: Run, statement: int, devices: AbstractSet[Clock]) -> EventPlace | None:
        """The last event before a statement that ends on one of the devices, in the callers too."""
        while (found := current.before(statement, devices)) is None:
            if current.caller is None or not devices:
                return None
            devices = current.outside(devices)
            current, statement = current.caller
        if isinstance(current.body.steps[found], Body):
            return self.at(current.last(found, devices))
        return EventPlace(current, found)

    def spare(self, index: int) -> int:
        """By how many ticks an event could end later without the program ending later."""
        place = self.at(index)
        due = place.run.due(place.statement)
        return min([due[clock] for clock in ends_on(place.move)]) - place.end

    def idle(self) -> Iterator[Idle]:
        """Every time that a device idles before an event, in program order. Calls on one device are passed over."""
        latest: Clocks = {}
        ways = [(self.root, iter(range(len(self.root.begins))))]
        while ways:
            current, statements = ways[-1]
            body, first = current.body, current.first
            for statement in statements:
                group, step = current.groups[statement], body.steps[statement]
                if not group:
                    continue
                number = first + body.first_events[statement]
                move = body.moves[statement]
                assert move is not None
                if len(group) == 1:
                    within = move.last[group[0]] if isinstance(move, Summary) else 0
                    latest[group[0]] = number + within
                elif isinstance(step, Body):
                    entered = current.enter(statement)
                    ways.append((entered, iter(range(len(entered.begins)))))
                    break
                else:
                    place = EventPlace(current, statement)
                    yield from self._idle(place, latest)
                    latest.update(dict.fromkeys(place.streams, number))
            else:
                ways.pop()

    def _idle(self, place: EventPlace, latest: Clocks) -> Iterator[Idle]:
        """The streams that idle before an event; `latest`: by stream, the last event on it."""
        clocks, start = place.run.clocks(place.statement), place.start
        streams = [stream for stream in place.streams if clocks[stream] < start]
        if not streams:
            return
        awaited = _awaited(place, start)
        if awaited and awaited <= latest.keys():
            blocker = latest[next(clock for clock in place.streams if clock in awaited)]
        else:
            found = self._blocker(place)
            blocker = None if found is None else found.index
        for stream in streams:
            yield Idle(stream, clocks[stream], place, blocker)


def _awaited(place: EventPlace, start: int) -> set[Clock]:
    """The clocks by which an event starts then and not earlier. Hosts do not count that do not wait for events."""
    clocks, move = place.run.clocks(place.statement), place.move
    if not isinstance(move, Summary):
        return {device for device in move.devices if clocks[device] == start}
    tight = [clock for clock, ticks in move.rows[0] if clocks[clock] + ticks == start]
    return {clock for clock in tight if not is_host(clock) or clock in move.last}


def _tuple(begins: int | tuple[int, ...]) -> tuple[int, ...]:
    return (begins,) if isinstance(begins, int) else begins
