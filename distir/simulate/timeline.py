"""When each op runs: the second of the simulator's two passes (paper, section 3.3), and what follows from that.

An op on devices S starts when all of S are free, and occupies each for its cost; where there are hosts and streams
(`algebra.lanes`), when its streams of S, its hosts, and its operands allow. Ops that occupy no device (host ops, views)
are no events. Times are in seconds from the start of the entry function.

Calls are timed by their summaries; finding one event, some of them, or the critical path enters only the calls that
lead there (`descent`). Only `effects`, `starts` and `slack` visit all events. All agree to the last bit.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import cast

from distir.ir import Apply, Call, Function, Site, names, results
from distir.ir.collection import paused_collection
from distir.ir.counted import is_parts, is_within
from distir.simulate.algebra.clocks import (
    Clock,
    Clocks,
    Lane,
    distinct_steps,
    of_device,
    run,
    run_op,
    stream_name,
    totals,
)
from distir.simulate.algebra.lanes import is_host
from distir.simulate.body import Body
from distir.simulate.descent import Descent, EventPlace, Path
from distir.simulate.effects import Effect, to_seconds
from distir.simulate.exposure import (
    IDLE,
    DeviceActivity,
    Exposure,
    exposure,
    hidden,
    waits_for_host,
)
from distir.simulate.intervals import StreamIntervals, intervals_of


@dataclass(frozen=True, slots=True)
class Event:
    """One op on the timeline, in seconds."""

    index: int
    effect: Effect
    start: float
    end: float
    place: EventPlace = field(repr=False, compare=False)

    @property
    def path(self) -> tuple[tuple[Function, int], ...]:
        """The calls that lead to it, as functions and statements, the op's own last."""
        return self.place.path

    @property
    def shown_path(self) -> tuple[Path, int, Path]:
        """The same to be shown: of many calls the outermost, how many are left out, and the innermost."""
        outermost, left_out, innermost = self.place.run.around
        return outermost, left_out, (*innermost, (self.function, self.place.statement))

    @property
    def site(self) -> Site:
        """The location of the op: of one of those that a statement becomes, that statement."""
        function, index = next(step for step in reversed(self.path) if not is_parts(step[0]))
        return Site(function.name, index)

    @property
    def statement(self) -> Apply | Call:
        """The statement that it runs: an op, or the call of a kernel."""
        statement = self.function.body[self.place.statement]
        assert isinstance(statement, (Apply, Call))
        return statement

    @property
    def op(self) -> str:
        """The op's name; of a kernel, that of its function with `@`."""
        return self.effect.op

    @property
    def function(self) -> Function:
        """The function that the op is in."""
        return self.place.run.body.instance.function

    @property
    def label(self) -> str:
        """The op's first result, as in the paper's figure 3, or the op's name if it has none."""
        given = [self._outside(name) for name in self.statement.results if name]
        return f"%{given[0]}" if given and given[0] else self.op

    @property
    def written_in(self) -> Function:
        """The function in whose text it stands: of what is done several times, the one that says so."""
        if not is_within(self.function):
            return self.function
        return next((function for function, _ in reversed(self.path) if not is_within(function)), self.function)

    def _outside(self, name: str) -> str:
        """What the text calls a result; empty where it has no name of its own there."""
        for function, (caller, index) in zip(reversed(self.callees), reversed(self.path[:-1]), strict=False):
            if not is_within(function):
                break
            returned = names(function.returned)
            name = results(caller.body[index])[returned.index(name)] if name in returned else ""
        return name

    @property
    def callees(self) -> tuple[Function, ...]:
        """The functions that the calls which lead to it call."""
        return tuple(function for function, _ in self.path[1:])


@dataclass(frozen=True, slots=True)
class Wait:
    """A stream that idles until `event` starts there, because `blocker` still runs; None: because the host is late.

    `stream`: which stream of the device idles; "" is that of compute.
    """

    device: int
    event: int
    start: float
    seconds: float
    blocker: int | None
    stream: str = ""


@dataclass(frozen=True, slots=True)
class NamedStream:
    """The activity of a named stream, summed over all devices that have it. Times in seconds.

    `hidden_s`: the part of `busy_s` in which another stream of the device computes.
    """

    devices: int
    busy_s: float
    hidden_s: float


MOST_FOLLOWED = 500_000
"""Of programs of more events, as if inlined, slack, waits and the whole critical path are not worked out."""


class Timeline:
    """The schedule of one run of a body. Events are known by their number, in program order."""

    def __init__(self, body: Body) -> None:
        self.body = body

    @cached_property
    def _ends(self) -> Clocks:
        """Where the clocks end, unless the streams have been followed before (`_followed`)."""
        ends: Clocks = defaultdict(int)
        with paused_collection():
            run(self.body.summaries, ends)
        return ends

    @cached_property
    def _totals(self) -> tuple[Clocks, Clocks]:
        with paused_collection():
            return totals(self.body.summaries_alone)

    @property
    def _busy(self) -> Clocks:
        return self._totals[0]

    @property
    def _communication(self) -> Clocks:
        return self._totals[1]

    def __len__(self) -> int:
        """How many events there are."""
        return self.body.events

    @property
    def is_long(self) -> bool:
        """Whether there are more events than are followed one by one, see `MOST_FOLLOWED`."""
        return self.body.events > MOST_FOLLOWED

    @cached_property
    def streams(self) -> Mapping[int, Sequence[Clock]]:
        """By device: its streams, as far as they are used."""
        found: dict[int, list[Clock]] = {}
        for stream in self._busy:
            found.setdefault(cast("int", of_device(stream)), []).append(stream)
        return found

    @cached_property
    def is_simple(self) -> bool:
        """Whether nothing but devices has clocks: neither further streams, nor hosts, nor values."""
        return not any(isinstance(clock, Lane) for clock in self.body.clocks)

    @cached_property
    def has_hosts(self) -> bool:
        """Whether hosts take time to issue ops."""
        return any(is_host(clock) for move in distinct_steps(self.body.summaries_alone) for clock in move.devices)

    @cached_property
    def clocks(self) -> dict[int, float]:
        """By device: when it is done."""
        found: dict[int, int] = {}
        for clock, ticks in self._ends.items():
            if isinstance(clock, int) or clock.kind == "stream":
                device = cast("int", of_device(clock))
                found[device] = max(found.get(device, 0), ticks)
        return {device: to_seconds(ticks) for device, ticks in found.items()}

    @cached_property
    def busy(self) -> dict[int, float]:
        """By device: seconds that ops occupy it, on whichever stream."""
        return {device: to_seconds(found.busy) for device, found in self._activities.items()}

    @cached_property
    def communication(self) -> dict[int, float]:
        """By device: seconds in which communication occupies it, whatever else does."""
        return {device: to_seconds(found.communicates) for device, found in self._activities.items()}

    @cached_property
    def _activities(self) -> dict[int, DeviceActivity]:
        """By device: what it does. For a device with one stream the sums in call summaries suffice."""
        found: dict[int, DeviceActivity] = {}
        for device, streams in self.streams.items():
            if len(streams) == 1:
                busy, communicates = self._busy.get(streams[0], 0), self._communication.get(streams[0], 0)
                found[device] = DeviceActivity(busy - communicates, communicates, busy)
            else:
                found[device] = DeviceActivity.of([self._intervals[stream] for stream in streams])
        return found

    @cached_property
    def named_streams(self) -> Mapping[str, NamedStream]:
        """By name: the streams that statements name, in order of their names."""
        found: dict[str, list[tuple[int, int]]] = {}
        for own in self.streams.values():
            for stream in own:
                if isinstance(stream, Lane):
                    others = [self._intervals[other] for other in own if other != stream]
                    aside = hidden(self._intervals[stream], others) if others else 0
                    found.setdefault(stream.stream, []).append((self._busy[stream], aside))
        return {
            name: NamedStream(len(pairs), *(to_seconds(sum(ticks)) for ticks in zip(*pairs, strict=True)))
            for name, pairs in sorted(found.items())
        }

    @cached_property
    def _intervals(self) -> Mapping[Clock, StreamIntervals]:
        """The streams of devices that have several; with waits for hosts, where these are followed."""
        if self.has_hosts and not self.is_long:
            return self._with_waits
        return self._followed([s for own in self.streams.values() if len(own) > 1 for s in own])

    def lane(self, device: int) -> Sequence[StreamIntervals]:
        """What the streams of a device do; of long programs without their waits for hosts."""
        streams = self.streams.get(device, ())
        found = self._followed(streams) if self.is_long else self._with_waits
        return [found[stream] for stream in streams]

    @property
    def latency(self) -> float:
        """When the last device is done, in seconds."""
        return max(self.clocks.values(), default=0.0)

    @property
    def finish(self) -> int:
        """When the last clock stands still, in ticks."""
        return max(self._ends.values(), default=0)

    def exposure(self, devices: Collection[int]) -> Exposure:
        """How much of the time of the program's devices is unused, and how much goes into exposed communication."""
        return exposure([self._activities.get(device, IDLE) for device in devices], self.finish)

    def host_bound(self, devices: Collection[int]) -> float | None:
        """The share of (devices × latency) in which devices wait for nothing but hosts; None if there are too many ops.

        `devices`: those of the program.
        """
        if not self.has_hosts or not self.finish:
            return 0.0
        if self.is_long:
            return None
        own = [[self._with_waits[stream] for stream in self.streams.get(device, ())] for device in devices]
        return sum(map(waits_for_host, own)) / (self.finish * len(devices))

    @cached_property
    def _with_waits(self) -> Mapping[Clock, StreamIntervals]:
        """All streams, with their waits for hosts: one walk over the program gives all shares."""
        return self._followed(self._busy, hosts=True)

    def _followed(self, streams: Collection[Clock], hosts: bool = False) -> Mapping[Clock, StreamIntervals]:
        with paused_collection():
            found, ends = intervals_of(self.body, streams, hosts)
        vars(self).setdefault("_ends", ends)
        return found

    @cached_property
    def descent(self) -> Descent:
        """The way down to single events, through the calls that lead to them."""
        return Descent(self.body, defaultdict(int, dict.fromkeys(self._busy, 0)))

    def event(self, index: int) -> Event:
        """One event, with the place in the program that it comes from."""
        return self._event(self.descent.at(index))

    def events(self, first: int = 0, last: int | None = None) -> Iterator[Event]:
        """All events in program order, or those from number `first` to before `last`."""
        return map(self.event, range(first, self.body.events if last is None else last))

    def effect(self, index: int) -> Effect:
        """The effect of an event."""
        return self.descent.at(index).effect

    def end(self, index: int) -> float:
        """When an event ends, in seconds."""
        return to_seconds(self.descent.at(index).end)

    def spare(self, index: int) -> float:
        """By how many seconds an event could end later without the program ending later: `slack` of one event."""
        return to_seconds(self.descent.spare(index))

    def critical_path(self) -> list[int]:
        """Events that end to end make up the latency, first to last: each starts when the one before it ends."""
        return [*self.descent.critical()][::-1]

    def critical_end(self, count: int) -> list[int]:
        """The last events of the critical path, at most `count`, in order, for programs of any length."""
        return [*islice(self.descent.critical(), count)][::-1]

    def blocker(self, index: int) -> int | None:
        """The event that this one waited for: the latest before it, on one of its devices, that ends as it starts."""
        return self.descent.blocker(index)

    @cached_property
    def effects(self) -> list[Effect]:
        """By event: its effect."""
        return _flatten(self.body)

    @cached_property
    def starts(self) -> array[float]:
        """By event: when it starts."""
        return array("d", map(to_seconds, self._starts()))

    @cached_property
    def slack(self) -> array[float]:
        """By event: by how many seconds it could end later without the program ending later."""
        if not self.is_simple:
            return array("d", map(self.spare, range(len(self))))
        starts, effects = self._starts(), self.effects
        latest: Clocks = defaultdict(lambda: self.finish)
        slack = array("d", bytes(8 * len(self)))
        for index in range(len(self) - 1, -1, -1):
            effect = effects[index]
            start = min([latest[device] for device in effect.devices]) - effect.ticks
            for device in effect.devices:
                latest[device] = start
            slack[index] = to_seconds(start - starts[index])
        return slack

    @cached_property
    def waits(self) -> list[Wait]:
        """Every time that a stream idles before an op, and the op on another stream that it waits for."""
        found: list[Wait] = []
        for idle in self.descent.idle():
            free, start = to_seconds(idle.start), to_seconds(idle.place.start)
            if start > free:
                found.append(
                    Wait(idle.device, idle.place.index, free, start - free, idle.blocker, stream_name(idle.stream))
                )
        return found

    @property
    def idle_devices(self) -> list[Wait]:
        """The waits of devices. That a stream which statements name is free before it is needed delays nothing."""
        return [wait for wait in self.waits if not wait.stream]

    def _event(self, place: EventPlace) -> Event:
        start, effect = place.start, place.effect
        return Event(place.index, effect, to_seconds(start), to_seconds(start + effect.ticks), place)

    def _starts(self) -> list[int]:
        """By event: when it starts, in ticks."""
        if not self.is_simple:
            return [self.descent.at(index).start for index in range(len(self))]
        clocks: Clocks = defaultdict(int)
        return [run_op(effect, clocks) for effect in self.effects]


def _flatten(body: Body) -> list[Effect]:
    """The effects of the inlined body, in order."""
    effects: list[Effect] = []
    pending = [iter(body.timed)]
    while pending:
        for step in pending[-1]:
            if isinstance(step, Body):
                pending.append(iter(step.timed))
                break
            effects.append(step)
        else:
            pending.pop()
    return effects
