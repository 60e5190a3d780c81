"""When each op runs: the second of the simulator's two passes (paper, section 3.3), and what can be read off it.

An op on devices S starts when all of S are free, and occupies each for its cost. Ops that occupy no device (host ops,
views) are no events. Times are in seconds from the start of the entry function.

Calls are passed over by their summaries; one event, some of them, or the critical path cost the calls that lead there
(`descent`). Only what is asked for as a whole (`effects`, `starts`, `slack`) runs over all events. All agree to the
last bit.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from distir.ir import Apply, Call, Function, Site
from distir.simulate.algebra.clocks import Clocks, run, totals
from distir.simulate.body import Body
from distir.simulate.descent import Descent, Path, Place
from distir.simulate.effects import Effect, to_seconds
from distir.simulate.exposure import Exposure, exposure


@dataclass(frozen=True, slots=True)
class Event:
    """One op on the timeline, in seconds."""

    index: int
    effect: Effect
    start: float
    end: float
    place: Place = field(repr=False, compare=False)

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
        """Where the op stands."""
        return Site(self.function.name, self.place.statement)

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
        names = [f"%{name}" for name in self.statement.results if name]
        return names[0] if names else self.op


@dataclass(frozen=True, slots=True)
class Wait:
    """A device that idles until `event` starts there, because `blocker` still runs elsewhere."""

    device: int
    event: int
    start: float
    seconds: float
    blocker: int


MOST_FOLLOWED = 500_000
"""Of programs of more events, as if inlined, slack, waits and the whole critical path are not worked out."""


class Timeline:
    """The schedule of one run of a body. Events are known by their number, in program order."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self._busy, self._communication = totals(body.summaries)
        self._ends: Clocks = dict.fromkeys(self._busy, 0)
        run(body.summaries, self._ends)

    def __len__(self) -> int:
        """How many events there are."""
        return self.body.events

    @property
    def is_long(self) -> bool:
        """Whether there are more events than are followed one by one, see `MOST_FOLLOWED`."""
        return self.body.events > MOST_FOLLOWED

    @cached_property
    def clocks(self) -> dict[int, float]:
        """By device: when it is done."""
        return {device: to_seconds(ticks) for device, ticks in self._ends.items()}

    @cached_property
    def busy(self) -> dict[int, float]:
        """By device: seconds that ops occupy it."""
        return {device: to_seconds(ticks) for device, ticks in self._busy.items()}

    @cached_property
    def communication(self) -> dict[int, float]:
        """By device: seconds that communication ops occupy it."""
        return {device: to_seconds(self._communication.get(device, 0)) for device in self._busy}

    @property
    def latency(self) -> float:
        """When the last device is done, in seconds."""
        return max(self.clocks.values(), default=0.0)

    def exposure(self, memories: Mapping[int, int]) -> Exposure:
        """How much of the devices' time is unused, and how much goes into exposed communication.

        `memories`: by device of the program, the memory that its streams share.
        """
        latency = max(self._ends.values(), default=0)
        return exposure(self.body, self._busy, self._communication, latency, memories)

    @cached_property
    def descent(self) -> Descent:
        """The way down to single events, through the calls that lead to them."""
        return Descent(self.body, dict.fromkeys(self._busy, 0))

    def event(self, index: int) -> Event:
        """One event, with the place in the program that it comes from."""
        return self._event(self.descent.at(index))

    def events(self, first: int = 0, last: int | None = None) -> Iterator[Event]:
        """All events in program order, or those from number `first` to before `last`."""
        return map(self.event, range(first, self.body.events if last is None else last))

    def effect(self, index: int) -> Effect:
        """What an event does."""
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
        """The last events of the critical path, first to last: so many at most, however long the program is."""
        return [*islice(self.descent.critical(), count)][::-1]

    def blocker(self, index: int) -> int | None:
        """The event that this one waited for: the latest before it, on one of its devices, that ends as it starts."""
        return self.descent.blocker(index)

    @cached_property
    def effects(self) -> list[Effect]:
        """By event: what it does."""
        return _flatten(self.body)

    @cached_property
    def starts(self) -> array[float]:
        """By event: when it starts."""
        return array("d", map(to_seconds, self._starts()))

    @cached_property
    def slack(self) -> array[float]:
        """By event: by how many seconds it could end later without the program ending later."""
        starts, latest = self._starts(), dict.fromkeys(self._ends, max(self._ends.values(), default=0))
        slack = array("d", bytes(8 * len(self)))
        for index in range(len(self) - 1, -1, -1):
            effect = self.effects[index]
            start = min([latest[device] for device in effect.devices]) - effect.ticks
            for device in effect.devices:
                latest[device] = start
            slack[index] = to_seconds(start - starts[index])
        return slack

    @cached_property
    def waits(self) -> list[Wait]:
        """Every time that a device idles before an op, and the op on another device that it waits for."""
        found: list[Wait] = []
        for idle in self.descent.idle():
            free, start = to_seconds(idle.start), to_seconds(idle.place.start)
            if start > free:
                found.append(Wait(idle.device, idle.place.index, free, start - free, idle.blocker))
        return found

    def _event(self, place: Place) -> Event:
        start, end = to_seconds(place.start), to_seconds(place.end)
        return Event(place.index, place.effect, start, end, place)

    def _starts(self) -> list[int]:
        """By event: when it starts, in ticks."""
        clocks = dict.fromkeys(self._ends, 0)
        starts: list[int] = []
        for effect in self.effects:
            group = effect.devices
            if len(group) == 1:
                start = clocks[group[0]]
                clocks[group[0]] = start + effect.ticks
            else:
                start = max([clocks[device] for device in group])
                end = start + effect.ticks
                for device in group:
                    clocks[device] = end
            starts.append(start)
        return starts


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
