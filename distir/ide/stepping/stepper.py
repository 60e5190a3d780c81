"""The position in simulated time, and movement: along one device, to the next hit, and backwards.

All devices stand still at the same simulated time. One stream has the *focus*: the one that was stepped last.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from distir.cost import show_seconds
from distir.ide.stepping.events import MemoryUsage, StreamEvent
from distir.ide.stepping.search import EventSearch, Hit, PausedError
from distir.ide.stepping.streams import Key, Spot, Streams, stream_name
from distir.ide.stepping.watches import StopWatch
from distir.ir import Function
from distir.ir.counted import called
from distir.ir.errors import DistirError
from distir.simulate.algebra.clocks import Clock
from distir.simulate.body import Body
from distir.simulate.descent import EventPlace
from distir.simulate.effects import TICKS_PER_SECOND, to_seconds
from distir.simulate.simulation import Simulation

LAST = sys.maxsize
"""More than the number of any event."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A moment in simulated time, and the activity of the focused stream.

    `spot`: the statement that it begins; None where it does not begin one just then. `key`: of what is behind.
    """

    stream: Clock
    spot: Spot | None
    ticks: int
    key: Key
    words: str
    hit: Hit | None = field(default=None, compare=False)

    @property
    def time(self) -> float:
        """The simulated time, in seconds."""
        return to_seconds(self.ticks)


class NothingToStepError(DistirError, ValueError):
    """The program has no op that takes time on a device."""


class Stepper:
    """One run of a program. Begins with the first event. Raises NothingToStepError."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.streams = Streams(simulation.timeline())
        self.usage = MemoryUsage(simulation)
        self.interrupted: Callable[[], bool] = lambda: False
        self._watches: tuple[StopWatch, ...] = ()
        self._search: EventSearch | None = None
        first = next(EventSearch(self.streams, self.usage, [StopWatch(number=0)]), None)
        if first is None:
            raise NothingToStepError(f"`@{simulation.function.name}` has no op that takes time on a device")
        self._first = first
        self.now = self._at_hit(first, f"the program starts: {first.event}")

    @property
    def watches(self) -> Sequence[StopWatch]:
        """The watches at which `go` stops."""
        return self._watches

    @watches.setter
    def watches(self, given: Sequence[StopWatch]) -> None:
        self._watches, self._search = tuple(given), None

    @property
    def finish(self) -> int:
        """When the program ends, in ticks."""
        return self.streams.finish

    @property
    def is_over(self) -> bool:
        """Whether the program has ended."""
        return self.now.ticks >= self.finish and self.now.spot is None

    def event(self, spot: Spot, stream: Clock) -> StreamEvent:
        """The first event on a stream of a statement that occupies it."""
        return StreamEvent(self.streams, self.usage, self.streams.first(spot, stream), stream)

    def runs(self, stream: Clock) -> StreamEvent | None:
        """The op that a stream runs now; None if it is idle."""
        if stream == self.now.stream and self.now.spot is not None:
            return self.event(self.now.spot, stream)
        place = self.streams.started(stream, self.now.ticks)
        if place is None or place.end <= self.now.ticks:
            return None
        return StreamEvent(self.streams, self.usage, place, stream)

    def follows(self, stream: Clock) -> StreamEvent | None:
        """The first event on a stream that starts after now; None where it is done."""
        place = self.streams.following(stream, self.streams.started(stream, self.now.ticks))
        return None if place is None else StreamEvent(self.streams, self.usage, place, stream)

    def spot(self, stream: Clock) -> Spot | None:
        """The statement that a stream runs now, the innermost, or as it was stepped to; None where it idles."""
        if stream == self.now.stream and self.now.spot is not None:
            return self.now.spot
        event = self.runs(stream)
        return None if event is None else Spot(event.place.run, event.place.statement)

    # along one stream

    def over(self, stream: Clock) -> Stop:
        """To the stream's next statement in this function, else in the callers. Calls are passed over."""
        spot = self._last(stream)
        return self._to(stream, self.streams.beginning(stream) if spot is None else self.streams.after(spot, stream))

    def into(self, stream: Clock) -> Stop:
        """Into the call that the stream begins; without one, as `over`."""
        spot = self.now.spot if stream == self.now.stream else None
        if spot is None or not spot.is_call:
            return self.over(stream)
        run = self.streams.enter(spot)
        return self._to(stream, Spot(run, self.streams.on(run.body, stream)[0]))

    def out(self, stream: Clock) -> Stop:
        """To the stream's next statement after the call that this function was entered by."""
        spot = self._last(stream)
        if spot is not None and spot.run.caller is None:
            return self._to(stream, None)
        return self._to(stream, None if spot is None else self.streams.after(_outer(spot), stream))

    def event_after(self, stream: Clock) -> Stop:
        """To the stream's next event, in whichever function."""
        place = self.streams.following(stream, self._last_place(stream))
        return self._to(stream, None if place is None else Spot(place.run, place.statement))

    def back(self, stream: Clock) -> Stop:
        """To the stream's statement before this one, in this function, else to the call that entered it."""
        spot = self._last(stream)
        if spot is None:
            return self.to_start()
        if self._is_past(stream):
            return self._to(stream, spot)
        on = self.streams.on(spot.run.body, stream)
        if spot.statement > on[0] or spot.run.caller is None:
            earlier = self.streams.before(spot, stream)
            return self.to_start() if earlier is None else self._to(stream, earlier)
        return self._to(stream, _outer(spot))

    def event_before(self, stream: Clock) -> Stop:
        """To the stream's event before this one, in whichever function."""
        place = self._last_place(stream)
        if place is None:
            return self.to_start()
        if not self._is_past(stream):
            earlier = self.streams.before(Spot(place.run, place.statement), stream)
            if earlier is None:
                return self.to_start()
            place = self.streams.last(earlier, stream)
        return self._to(stream, Spot(place.run, place.statement))

    # to what is watched for

    def go(self, log: Callable[[str], None] = lambda _: None) -> Stop:
        """To the next event that a watch stops at, else to the end. `log`: takes what watches say that do not stop."""
        if self._search is None or self._search.last != self.now.key or self._search.back:
            self._search = self._searched(back=False)
        for hit in self._search:
            if (stop := self._stopped(hit, log)) is not None:
                return stop
        return self.end()

    def go_back(self, log: Callable[[str], None] = lambda _: None) -> Stop:
        """To the event before that a watch stops at, else to the start."""
        if self._search is None or self._search.last != self.now.key or not self._search.back:
            self._search = self._searched(back=True)
        for hit in self._search:
            if (stop := self._stopped(hit, log)) is not None:
                return stop
        return self.to_start()

    def jump(self, spot: Spot, stream: Clock) -> Stop:
        """To any statement that occupies a stream."""
        return self._to(stream, spot)

    def to_time(self, seconds: float) -> Stop:
        """To a simulated time: not earlier than the start, not later than the end."""
        if seconds >= to_seconds(self.finish):
            return self.end()
        ticks = max(0, round(seconds * TICKS_PER_SECOND))
        stream = self.now.stream
        place = self.streams.started(stream, ticks)
        at = show_seconds(to_seconds(ticks))
        if place is not None and place.start == ticks:
            return self._to(stream, Spot(place.run, place.statement))
        self.now = Stop(stream, None, ticks, Key(ticks, LAST), f"at {at}")
        running = self.runs(stream)
        doing = f"runs `{running.op}`" if running is not None else "idles"
        self.now = Stop(stream, None, ticks, Key(ticks, LAST), f"at {at}: {stream_name(stream)} {doing}")
        return self.now

    def to_hit(self, hit: Hit) -> Stop:
        """To an event that was found by a search of its own."""
        self.now = self._at_hit(hit, str(hit.event))
        return self.now

    def search(self, watches: Sequence[StopWatch], start: Key | None = None, *, back: bool = False) -> EventSearch:
        """The events that watches stop at, from a place on; from here, where none is given."""
        key = self.now.key if start is None else start
        return EventSearch(
            self.streams, self.usage, watches, key, back=back, focus=self.now.stream, interrupted=self.interrupted
        )

    def to_start(self) -> Stop:
        """To the program's first event."""
        self.now = self._at_hit(self._first, f"the program starts: {self._first.event}")
        return self.now

    def end(self) -> Stop:
        """To the end of the program."""
        words = f"the program ends after {show_seconds(to_seconds(self.finish))}"
        self.now = Stop(self.now.stream, None, self.finish, Key(self.finish, LAST), words)
        return self.now

    def paused(self, error: PausedError) -> Stop:
        """To where a search got that was interrupted."""
        self._search = None
        key = error.key if error.key.start >= 0 else Key(0, 0)
        where = f"paused at {show_seconds(to_seconds(key.start))}"
        self.now = Stop(self.now.stream, None, key.start, Key(key.start, LAST), where)
        return self.now

    def _searched(self, *, back: bool) -> EventSearch:
        return self.search(self._watches, back=back)

    def _stopped(self, hit: Hit, log: Callable[[str], None]) -> Stop | None:
        stops = tuple(watch for watch in hit.watches if watch.message is None)
        for watch in hit.watches:
            if watch.message is not None:
                log(watch.message.filled(hit.event))
        if not stops:
            return None
        self.now = self._at_hit(Hit(hit.spot, hit.event, stops), str(hit.event))
        return self.now

    def _at_hit(self, hit: Hit, words: str) -> Stop:
        return Stop(hit.event.of, hit.spot, hit.key.start, hit.key, words, hit)

    def _to(self, stream: Clock, spot: Spot | None) -> Stop:
        if spot is None:
            done = self.streams.done(stream)
            if done >= self.finish or (self.now.stream == stream and self.now.key == Key(done, LAST)):
                return self.end()
            until = f"has nothing left to do after {show_seconds(to_seconds(done))}"
            self.now = Stop(stream, None, done, Key(done, LAST), f"{stream_name(stream)} {until}")
            return self.now
        event = self.event(spot, stream)
        words = str(event)
        if spot.is_call:
            words += f", in a call of {called(_callee(spot))}"
        self.now = Stop(stream, spot, event.place.start, event.key, words)
        return self.now

    def _is_past(self, stream: Clock) -> bool:
        """Whether the statement that a stream began last was begun before now."""
        if stream == self.now.stream and self.now.spot is not None:
            return False
        place = self.streams.started(stream, self.now.ticks)
        return place is not None and (place.start < self.now.ticks or self.now.key.event == LAST)

    def _last(self, stream: Clock) -> Spot | None:
        """The statement that a stream began last."""
        if stream == self.now.stream and self.now.spot is not None:
            return self.now.spot
        place = self.streams.started(stream, self.now.ticks)
        return None if place is None else Spot(place.run, place.statement)

    def _last_place(self, stream: Clock) -> EventPlace | None:
        if stream == self.now.stream and self.now.spot is not None:
            return self.streams.first(self.now.spot, stream)
        return self.streams.started(stream, self.now.ticks)


def _outer(spot: Spot) -> Spot:
    """The call that a function was entered by."""
    assert spot.run.caller is not None
    return Spot(*spot.run.caller)


def _callee(spot: Spot) -> Function:
    step = spot.step
    assert isinstance(step, Body)
    return step.instance.function
