"""The events of one stream in order: the first, the next, the one before, the one that runs at a time.

A statement of a run *occupies* a stream if an op there does, or one of the calls below it. What one stream runs never
overlaps, and comes in program order. Times are in ticks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from distir.ir import Function
from distir.simulate.algebra.clocks import Clock, Lane, Step, Summary, of_device
from distir.simulate.body import Body
from distir.simulate.descent import EventPlace, Run
from distir.simulate.effects import Effect
from distir.simulate.timeline import Timeline

RUNS_KEPT = 512
"""How many entered calls are cached, as queries alternate between devices."""


class Key(NamedTuple):
    """The place of an event among all, by time: when it starts, and its number in program order."""

    start: int
    event: int


class Spot(NamedTuple):
    """A statement of a run: an op, or a call that is not looked into."""

    run: Run
    statement: int

    @property
    def function(self) -> Function:
        """The function that the statement is in."""
        return self.run.body.instance.function

    @property
    def step(self) -> Effect | Body | None:
        """The step of the statement."""
        return self.run.body.steps[self.statement]

    @property
    def is_call(self) -> bool:
        """Whether it is a call; not that of a kernel, which is one op."""
        return isinstance(self.step, Body)


def key_of(place: EventPlace) -> Key:
    """The place of an event among all."""
    return Key(place.start, place.index)


def device_of(stream: Clock) -> int:
    """The device of a stream."""
    return cast("int", of_device(stream))


def occupied(move: Step) -> Collection[Clock]:
    """The streams that a statement occupies."""
    return move.busy if isinstance(move, Summary) else move.devices


def stream_name(stream: Clock) -> str:
    """A stream in words: `device 3`, or `device 3, stream comm`."""
    return f"device {stream.number}, stream {stream.stream}" if isinstance(stream, Lane) else f"device {stream}"


@dataclass(eq=False)
class _Table:
    """By stream, the statements of a body that occupy it."""

    body: Body  # retained, so that its identity stays its own
    statements: dict[Clock, list[int]]


class Streams:
    """The streams of a timeline, those of compute first, by device."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.root = timeline.descent.root
        own = (stream for streams in timeline.streams.values() for stream in streams)
        self.all: Sequence[Clock] = sorted(own, key=_order)
        self._tables: dict[int, _Table] = {}
        self._entered: OrderedDict[tuple[int, int], Run] = OrderedDict()

    @property
    def finish(self) -> int:
        """When the program ends."""
        return self.root.finish

    def done(self, stream: Clock) -> int:
        """When the last event of a stream ends."""
        return self.root.ends[stream]

    def on(self, body: Body, stream: Clock) -> Sequence[int]:
        """The statements of a body that occupy a stream."""
        table = self._tables.get(id(body))
        if table is None:
            found: dict[Clock, list[int]] = {}
            for index, move in enumerate(body.moves):
                if move is not None:
                    for each in occupied(move):
                        found.setdefault(each, []).append(index)
            table = self._tables[id(body)] = _Table(body, found)
        return table.statements.get(stream, ())

    def enter(self, spot: Spot) -> Run:
        """The run of a call."""
        key = id(spot.run), spot.statement
        found = self._entered.get(key)
        if found is None or found.caller != (spot.run, spot.statement):
            found = self._entered[key] = spot.run.enter(spot.statement)
            if len(self._entered) > RUNS_KEPT:
                self._entered.popitem(last=False)
        self._entered.move_to_end(key)
        return found

    def first(self, spot: Spot, stream: Clock) -> EventPlace:
        """The first event on a stream of a statement that occupies it."""
        while spot.is_call:
            run = self.enter(spot)
            spot = Spot(run, self.on(run.body, stream)[0])
        return EventPlace(*spot)

    def last(self, spot: Spot, stream: Clock) -> EventPlace:
        """The last one."""
        while spot.is_call:
            run = self.enter(spot)
            spot = Spot(run, self.on(run.body, stream)[-1])
        return EventPlace(*spot)

    def beginning(self, stream: Clock) -> Spot:
        """The entry function's first statement that occupies a stream."""
        return Spot(self.root, self.on(self.root.body, stream)[0])

    def after(self, spot: Spot, stream: Clock) -> Spot | None:
        """The next statement that occupies a stream: of the same run, else of the nearest caller that has one."""
        while True:
            on = self.on(spot.run.body, stream)
            number = bisect_right(on, spot.statement)
            if number < len(on):
                return Spot(spot.run, on[number])
            if spot.run.caller is None:
                return None
            spot = Spot(*spot.run.caller)

    def before(self, spot: Spot, stream: Clock) -> Spot | None:
        """The one before, likewise."""
        while True:
            on = self.on(spot.run.body, stream)
            number = bisect_left(on, spot.statement)
            if number:
                return Spot(spot.run, on[number - 1])
            if spot.run.caller is None:
                return None
            spot = Spot(*spot.run.caller)

    def started(self, stream: Clock, ticks: int) -> EventPlace | None:
        """The last event on a stream that starts no later than a time; None if there is none."""
        run = self.root
        while True:
            on = self.on(run.body, stream)
            number = bisect_right(on, ticks, key=lambda statement, run=run: run.clocks(statement)[stream]) - 1
            spot = Spot(run, on[max(0, number)])
            if number >= 0:
                if spot.is_call:
                    run = self.enter(spot)
                    continue
                place = EventPlace(*spot)
                if place.start <= ticks:
                    return place
            earlier = self.before(spot, stream)  # it ends before what waits here begins
            return None if earlier is None else self.last(earlier, stream)

    def following(self, stream: Clock, place: EventPlace | None) -> EventPlace | None:
        """The event on a stream after another, or its first one; None after the last."""
        spot = self.beginning(stream) if place is None else self.after(Spot(place.run, place.statement), stream)
        return None if spot is None else self.first(spot, stream)


def _order(stream: Clock) -> tuple[int, str]:
    return device_of(stream), stream.stream if isinstance(stream, Lane) else ""
