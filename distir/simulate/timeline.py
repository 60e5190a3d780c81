"""When each op runs: the second of the simulator's two passes (paper, section 3.3), and what can be read off it.

An op on devices S starts when all of S are free, and occupies each for its cost. Ops that occupy no device (host ops,
views) are no events. Times are in seconds from the start of the entry function.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from distir.ir import Apply, Function
from distir.simulate.body import Body
from distir.simulate.effects import Effect

ROUNDING = 1e-9
"""Times that differ by less than this part of the latency are the same: sums of many durations are rounded."""


@dataclass(frozen=True, slots=True)
class Event:
    """One op on the timeline. `path`: the calls that lead to it, as functions and statements, the op's own last."""

    index: int
    effect: Effect
    start: float
    path: tuple[tuple[Function, int], ...]

    @property
    def end(self) -> float:
        return self.start + self.effect.cost.seconds

    @property
    def statement(self) -> Apply:
        function, index = self.path[-1]
        statement = function.body[index]
        assert isinstance(statement, Apply)
        return statement

    @property
    def function(self) -> Function:
        """The function that the op stands in."""
        return self.path[-1][0]

    @property
    def label(self) -> str:
        """The op's first result, as in the paper's figure 3, or the op's name if it has none."""
        names = [f"%{name}" for name in self.statement.results if name]
        return names[0] if names else self.statement.op


@dataclass(frozen=True, slots=True)
class Wait:
    """A device that idles until `event` starts there, because `blocker` still runs elsewhere."""

    device: int
    event: int
    start: float
    seconds: float
    blocker: int


class Timeline:
    """The schedule of one run of a body. Events are known by their number, in program order."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.effects = _flatten(body)
        self.starts, self.clocks, self.busy = _schedule(self.effects)

    def __len__(self) -> int:
        return len(self.effects)

    @property
    def latency(self) -> float:
        return max(self.clocks.values(), default=0.0)

    def event(self, index: int) -> Event:
        """One event, with the place in the program that it comes from."""
        path: list[tuple[Function, int]] = []
        body, rest = self.body, index
        while True:
            statement = bisect_right(body.first_events, rest) - 1
            path.append((body.instance.function, statement))
            rest -= body.first_events[statement]
            step = body.steps[statement]
            if not isinstance(step, Body):
                return Event(index, self.effects[index], self.starts[index], tuple(path))
            body = step

    def events(self) -> Iterator[Event]:
        """All events in program order."""
        return map(self.event, range(len(self)))

    @cached_property
    def communication(self) -> dict[int, float]:
        """By device: seconds that communication ops occupy it."""
        total = dict.fromkeys(self.clocks, 0.0)
        for effect in self.effects:
            if effect.work.communication is not None:
                for device in effect.devices:
                    total[device] += effect.cost.seconds
        return total

    def critical_path(self) -> list[int]:
        """Events that end to end make up the latency, first to last: each starts when the one before it ends."""
        latency = self.latency
        last = next((i for i in reversed(range(len(self))) if self.end(i) == latency), None)
        path: list[int] = []
        while last is not None:
            path.append(last)
            last = self.blocker(last)
        return path[::-1]

    def end(self, index: int) -> float:
        return self.starts[index] + self.effects[index].cost.seconds

    def blocker(self, index: int) -> int | None:
        """The event that this one waited for: the latest before it, on one of its devices, that ends as it starts."""
        start, devices = self.starts[index], self.effects[index].devices
        if start == 0.0:
            return None
        for earlier in range(index - 1, -1, -1):
            effect = self.effects[earlier]
            if self.starts[earlier] + effect.cost.seconds == start and not set(devices).isdisjoint(effect.devices):
                return earlier
        return None

    @cached_property
    def slack(self) -> array[float]:
        """By event: by how many seconds it could end later without the program ending later."""
        latest = dict.fromkeys(self.clocks, self.latency)
        rounding = ROUNDING * self.latency
        slack = array("d", bytes(8 * len(self)))
        for index in range(len(self) - 1, -1, -1):
            effect = self.effects[index]
            end = min(latest[device] for device in effect.devices)
            start = end - effect.cost.seconds
            for device in effect.devices:
                latest[device] = start
            spare = start - self.starts[index]
            slack[index] = spare if spare > rounding else 0.0
        return slack

    @cached_property
    def waits(self) -> list[Wait]:
        """Every time that a device idles before an op, and the op on another device that it waits for."""
        found: list[Wait] = []
        clock = dict.fromkeys(self.clocks, 0.0)
        latest: dict[int, int] = {}
        for index, (effect, start) in enumerate(zip(self.effects, self.starts, strict=True)):
            devices = effect.devices
            if len(devices) > 1:
                busiest = max(devices, key=clock.__getitem__)
                for device in devices:
                    if start > clock[device]:
                        idle = start - clock[device]
                        found.append(Wait(device, index, clock[device], idle, latest[busiest]))
            for device in devices:
                clock[device] = start + effect.cost.seconds
                latest[device] = index
        return found


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


def _schedule(effects: list[Effect]) -> tuple[array[float], dict[int, float], dict[int, float]]:
    """The start of each event; by device, when it is done, and how long it was busy."""
    starts = array("d", bytes(8 * len(effects)))
    devices = {device for effect in set(effects) for device in effect.devices}
    clock = dict.fromkeys(devices, 0.0)
    busy = dict.fromkeys(devices, 0.0)
    for index, effect in enumerate(effects):
        seconds = effect.cost.seconds
        group = effect.devices
        if len(group) == 1:
            device = group[0]
            starts[index] = start = clock[device]
            clock[device] = start + seconds
            busy[device] += seconds
        else:
            starts[index] = start = max([clock[device] for device in group])
            for device in group:
                clock[device] = start + seconds
                busy[device] += seconds
    return starts, clock, busy
