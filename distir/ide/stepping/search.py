"""The next events, by time, that watches stop at; or the ones before. Calls that hold none are passed over.

A best-first search: what is waiting to be visited is ordered by the earliest time at which an event in it can start,
going back by the latest. So the first event that comes up is the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from distir.ide.stepping.events import MemoryUsage, StreamEvent
from distir.ide.stepping.streams import Key, Spot, Streams, key_of, occupied
from distir.ide.stepping.watches import StopWatch
from distir.ir.errors import DistirError
from distir.simulate.algebra.clocks import Clock, run
from distir.simulate.body import Body
from distir.simulate.descent import EventPlace, Run

BEFORE_ALL = Key(-1, -1)


class PausedError(DistirError):
    """The search was interrupted. `key`: how far it got, going forward or back."""

    def __init__(self, key: Key) -> None:
        super().__init__("paused")
        self.key = key


@dataclass(frozen=True, slots=True)
class Hit:
    """An event that watches stop at; `spot`: its statement, or the call that is meant."""

    spot: Spot
    event: StreamEvent
    watches: tuple[StopWatch, ...]

    @property
    def key(self) -> Key:
        """Its place among all events."""
        return self.event.key


_Found = tuple[Spot, EventPlace]
"""A statement that is perhaps meant, and its first event."""


class EventSearch:
    """From one place on, forward or back, that place left out."""

    def __init__(
        self,
        streams: Streams,
        usage: MemoryUsage,
        watches: Sequence[StopWatch],
        start: Key = BEFORE_ALL,
        *,
        back: bool = False,
        focus: Clock | None = None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self.streams, self.usage, self.watches = streams, usage, watches
        self.start, self.back, self.focus, self.interrupted = start, back, focus, interrupted
        self._waiting: list[tuple[int, int, int, Spot | _Found]] = []
        self._numbers = count()
        self._reached = {watch.number: self._before(watch) for watch in watches if watch.counts}
        self._last: Key = start
        self._expand(streams.root)

    @property
    def last(self) -> Key:
        """The place of the last hit; where the search began, before that."""
        return self._last

    def __iter__(self) -> Iterator[Hit]:
        return self

    def __next__(self) -> Hit:
        found: dict[int, StopWatch] = {}
        event: StreamEvent | None = None
        shown: Spot | None = None
        while self._waiting:
            if self.interrupted():
                raise PausedError(self._key(self._waiting[0]))
            if found and event is not None and self._key(self._waiting[0]) != event.key:
                break
            *_, waiting = heappop(self._waiting)
            if isinstance(waiting, Spot):
                self._look_into(waiting)
                continue
            spot, place = waiting
            for watch in self.watches:
                held = self._held(watch, spot, place) if watch.number not in found else None
                if held is not None:
                    found[watch.number], event = watch, event or held
                    shown = shown or spot
        if event is None or shown is None:
            raise StopIteration
        self._last = event.key
        return Hit(shown, event, tuple(found.values()))

    def _key(self, entry: tuple[int, int, int, Spot | _Found]) -> Key:
        return Key(-entry[0], -entry[1]) if self.back else Key(entry[0], entry[1])

    def _held(self, watch: StopWatch, spot: Spot, place: EventPlace) -> StreamEvent | None:
        """The event, if a watch stops at it."""
        if not (watch.is_of(spot) if spot.is_call else watch.reached(place)):
            return None
        for stream in watch.streams(place, self.focus):
            event = StreamEvent(self.streams, self.usage, place, stream)
            if watch.number in self._reached:
                plain = watch.uncounted()
                if not plain.holds(event):
                    continue
                self._reached[watch.number] += -1 if self.back else 1
                hits = self._reached[watch.number] + self.back
                event = StreamEvent(self.streams, self.usage, place, stream, hits)
            if watch.holds(event):
                return event
        return None

    def _look_into(self, spot: Spot) -> None:
        """A call has come up: visit what is in it."""
        if any(watch.is_of(spot) for watch in self.watches):
            place = self._first(spot)
            if self._is_ahead(key_of(place)):
                self._wait(key_of(place), (spot, place))
        if any(watch.may_hold(spot) for watch in self.watches):
            self._expand(self.streams.enter(spot))

    def _expand(self, within: Run) -> None:
        body = within.body
        for statement in self._statements(within):
            step = body.steps[statement]
            if step is None or not (step.events if isinstance(step, Body) else step.devices):
                continue
            spot = Spot(within, statement)
            if isinstance(step, Body):
                self._wait_for_call(spot, step)
                continue
            place = EventPlace(within, statement)
            if self._is_ahead(key_of(place)):
                self._wait(key_of(place), (spot, place))

    def _statements(self, within: Run) -> Iterable[int]:
        """The statements that some watch may match."""
        wanted = [watch.statements(within) for watch in self.watches]
        if any(each is None for each in wanted):
            return range(len(within.body.steps))
        if len(wanted) == 1:
            return wanted[0] or ()
        return sorted({statement for each in wanted for statement in each or ()})

    def _wait_for_call(self, spot: Spot, step: Body) -> None:
        if not any(watch.is_of(spot) or watch.may_hold(spot) for watch in self.watches):
            return
        move = spot.run.body.moves[spot.statement]
        assert move is not None
        clocks = spot.run.clocks(spot.statement)
        first = spot.run.first + spot.run.body.first_events[spot.statement]
        earliest = min(clocks[stream] for stream in occupied(move))
        if self.back or earliest <= self.start.start:
            run((move,), clocks)
            latest = max(clocks[stream] for stream in occupied(move))
        else:
            latest = earliest
        if self.back:
            if earliest <= self.start.start:
                self._wait(Key(latest, first + step.events - 1), spot)
        elif latest >= self.start.start:
            self._wait(Key(earliest, first), spot)

    def _wait(self, key: Key, waiting: Spot | _Found) -> None:
        sign = -1 if self.back else 1
        heappush(self._waiting, (sign * key.start, sign * key.event, next(self._numbers), waiting))

    def _is_ahead(self, key: Key) -> bool:
        return key < self.start if self.back else key > self.start

    def _first(self, spot: Spot) -> EventPlace:
        """The first event of a call by time."""
        inner = EventSearch(self.streams, self.usage, [StopWatch(number=0)], interrupted=self.interrupted)
        inner._waiting = []
        inner._expand(self.streams.enter(spot))
        return next(inner).event.place

    def _before(self, watch: StopWatch) -> int:
        """How often a watch was reached up to here; going back, with what is here left out."""
        if self.start == BEFORE_ALL:
            return 0
        plain = EventSearch(self.streams, self.usage, [watch.uncounted()], interrupted=self.interrupted)
        reached = 0
        for hit in plain:
            if hit.key > self.start or (self.back and hit.key == self.start):
                break
            reached += 1
        return reached
