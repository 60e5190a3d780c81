"""A program reduced to what each draw must simulate: consecutive ops of one device alone become one step.

A device's ops between two that it does with others move its clocks `x`, and `h` of its host, by a matrix whose entries
depend on the device's factor `f` alone: each is the most of some `a + b·f`, seconds in which the host issues, and
seconds in which the device computes. Those compose as any block does (`algebra.clocks`), so that few steps are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from distir.cost.hardware import DeviceLink
from distir.simulate.algebra.lanes import BLOCKING
from distir.simulate.body import CLOSED, Body, distinct
from distir.simulate.effects import DataFlow, Effect, Effects, to_seconds

Line = tuple[float, float]
"""`a + b·f`: seconds that do not depend on the device's factor, and those that do."""

Lines = tuple[Line, ...]
"""The most of them; of none: never."""

NOW: Lines = ((0.0, 0.0),)


@dataclass(frozen=True, slots=True)
class Alone:
    """Local work of a device: the effect on its two clocks, of its stream and of its host, as a matrix."""

    position: int
    device: int
    stream_after_stream: Lines = NOW
    stream_after_host: Lines = ()
    host_after_stream: Lines = ()
    host_after_host: Lines = NOW

    def then(self, other: Alone) -> Alone:
        """Both, one after the other."""
        xx, xh, hx, hh = self.entries
        yx, yh, gx, gh = other.entries
        return Alone(
            self.position,
            self.device,
            _most(_both(yx, xx), _both(yh, hx)),
            _most(_both(yx, xh), _both(yh, hh)),
            _most(_both(gx, xx), _both(gh, hx)),
            _most(_both(gx, xh), _both(gh, hh)),
        )

    @property
    def entries(self) -> tuple[Lines, Lines, Lines, Lines]:
        """The matrix, row by row."""
        return self.stream_after_stream, self.stream_after_host, self.host_after_stream, self.host_after_host


def _both(first: Lines, second: Lines) -> Iterator[Line]:
    return ((a + c, b + d) for a, b in first for c, d in second)


def _most(*some: Iterable[Line]) -> Lines:
    """Those of the lines that are the most for some factor above 0."""
    found: list[Line] = []
    for a, b in sorted({line for lines in some for line in lines}, key=lambda line: (line[1], line[0])):
        while found and found[-1][0] <= a:
            found.pop()  # less, or as much, for every factor
        while len(found) > 1 and _hidden(found[-2], found[-1], (a, b)):
            found.pop()
        found.append((a, b))
    return tuple(found)


def _hidden(flat: Line, middle: Line, steep: Line) -> bool:
    """Whether one of three lines, of which each is steeper than the one before, is nowhere above the others."""
    return (flat[0] - steep[0]) * (middle[1] - flat[1]) <= (flat[0] - middle[0]) * (steep[1] - flat[1])


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """How long an op takes: communication over links, and meanwhile computing on positions, by its seconds."""

    communication: float
    links: tuple[DeviceLink, ...]
    computing: tuple[tuple[float, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """An op that is no part of an `Alone`.

    `issue`: by device, seconds, or `BLOCKING`; `taxes` (`Effect.taxes`): by device, seconds and a share of the op's.
    """

    devices: tuple[int, ...]
    timing: Timing
    issue: tuple[float, ...]
    taxes: tuple[tuple[float, float], ...]
    flow: DataFlow


@dataclass(frozen=True, slots=True, eq=False)
class TrackCall:
    """A call, with our storage for each of the callee's whose value gets ready by a clock of its own."""

    track: Track
    storages: Mapping[int, int]


@dataclass(eq=False)
class Track:
    """A body: its steps in order, its devices, and how many steps it takes in all, calls too."""

    steps: list[Alone | Together | TrackCall] = field(default_factory=list["Alone | Together | TrackCall"])
    devices: frozenset[int] = frozenset()
    length: int = 0


PLAIN = DataFlow("", (), ())


@dataclass
class Tracks:
    """Makes the tracks of a program, each body's once."""

    effects: Effects
    timings: dict[int, Timing] = field(default_factory=dict[int, Timing])
    """By identity of an effect."""

    def of(self, entry: Body) -> Track:
        """The track of a body, with all that it calls. Its effects must live as long as the track does."""
        made: dict[int, Track] = {}
        for body in distinct(entry):
            made[id(body)] = self._track(body, made)
        return made[id(entry)]

    def _track(self, body: Body, made: Mapping[int, Track]) -> Track:
        track = Track()
        waiting: dict[int, Alone] = {}
        """By device: its local work that is not on the track yet."""
        devices: set[int] = set()
        short: dict[int, Alone] = {}

        def flush(of: Iterable[int]) -> None:
            for device in of:
                alone = waiting.pop(device, None)
                if alone is not None:
                    track.steps.append(alone)
                    track.length += 1

        for index, step in enumerate(body.steps):
            if isinstance(step, Body):
                callee = made[id(step)]
                if len(callee.steps) == 1 and isinstance(callee.steps[0], Alone):
                    _append(waiting, callee.steps[0])
                elif callee.steps:
                    flush(callee.devices)
                    track.steps.append(TrackCall(callee, {} if step.edge == CLOSED else body.outside(index)))
                    track.length += callee.length
                devices |= callee.devices
            elif step is not None and step.devices:
                flow = body.flow.get(index, PLAIN)
                if len(step.devices) == 1 and flow == PLAIN and not step.communicates:
                    if id(step) not in short:
                        short[id(step)] = self._alone(step)
                    _append(waiting, short[id(step)])
                else:
                    flush(step.devices)
                    track.steps.append(self._together(step, flow))
                    track.length += 1
                devices.update(step.devices)
        flush(list(waiting))
        track.devices = frozenset(devices)
        return track

    def _alone(self, effect: Effect) -> Alone:
        (device,) = effect.devices
        timing = self._timing(effect)
        lines: Lines = ((0.0, timing.computing[0][0] if timing.computing else 0.0),)
        position = self.effects.place[device]
        if not effect.issue:
            return Alone(position, device, lines)
        if effect.issue[0] == BLOCKING:
            return Alone(position, device, lines, lines, lines, lines)
        issue = to_seconds(effect.issue[0])
        return Alone(position, device, lines, ((issue, lines[0][1]),), (), ((issue, 0.0),))

    def _together(self, effect: Effect, flow: DataFlow) -> Together:
        issue = tuple([BLOCKING if spent == BLOCKING else to_seconds(spent) for spent in effect.issue])
        kinds = [self.effects.hardware.kind(self.effects.place[device]) for device in effect.devices]
        taxes = [(kind.begin, kind.interference) for kind in kinds] if effect.taxes and flow.stream else []
        return Together(effect.devices, self._timing(effect), issue, tuple(taxes), flow)

    def _timing(self, effect: Effect) -> Timing:
        known = self.timings.get(id(effect))
        if known is None:
            hardware = self.effects.hardware
            work, positions = self.effects.placed(effect.work, effect.devices, effect.op)
            spent = hardware.seconds(work, positions, effect.op)
            by_seconds: dict[float, list[int]] = {}
            for position, seconds in spent.computing.items():
                by_seconds.setdefault(seconds, []).append(position)
            computing = tuple([(seconds, tuple(at)) for seconds, at in by_seconds.items()])
            links = hardware.crossed(positions) if spent.communication else ()
            known = self.timings[id(effect)] = Timing(spent.communication, links, computing)
        return known


def _append(waiting: dict[int, Alone], alone: Alone) -> None:
    before = waiting.get(alone.device)
    waiting[alone.device] = alone if before is None else before.then(alone)
