"""When streams compute, communicate, and wait for their hosts, over a whole program.

What a body does depends on the clocks at its start, but not on all that they say: a clock that others overtake before
anything waits for it may as well be earlier, and if all are later by the same, everything is. So a body is entered once
for all starts from which it does the same, and later ones repeat it. All in whole ticks, exact to the last one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from distir.ir.deep import Deep, finish
from distir.simulate.algebra.clocks import Clock, Clocks, Step, Summary, awaited, ends_on, ready, renamed_clock
from distir.simulate.algebra.lanes import waits_beside_issue
from distir.simulate.body import Body

Moments = list[int]
"""From when and until when, in ticks, interval after interval, in order: starts at even places, ends at odd ones."""


@dataclass(slots=True)
class StreamIntervals:
    """When a stream computes, communicates, and waits for a host. Intervals without a gap are one."""

    computes: Moments = field(default_factory=Moments)
    communicates: Moments = field(default_factory=Moments)
    waits_for_host: Moments = field(default_factory=Moments)

    def repeat(self, other: StreamIntervals, later: int) -> None:
        """Add what another one does, so much later."""
        _repeat(self.computes, other.computes, later)
        _repeat(self.communicates, other.communicates, later)
        self.waits_for_host += [moment + later for moment in other.waits_for_host]


def shares(found: Iterable[Moments], finish: int, parts: int) -> tuple[float, ...]:
    """By part, of so many equal ones of the time until `finish`: the share in which something is under way.

    At most 1, in thousandths.
    """
    width, spent = finish / parts, [0.0] * parts
    for moments in found:
        for start, end in zip(moments[::2], moments[1::2], strict=True):
            for part in range(int(start / width), min(parts, int(end / width) + 1)):
                spent[part] += max(0.0, min(end, (part + 1) * width) - max(start, part * width))
    return tuple(round(min(1.0, ticks / width), 3) for ticks in spent)


NOTHING = StreamIntervals()


def _repeat(own: Moments, other: Moments, later: int) -> None:
    if other:
        if own and own[-1] == other[0] + later:
            own.pop()
            own += [moment + later for moment in other[1:]]
        else:
            own += [moment + later for moment in other]


def intervals_of(
    body: Body, streams: Collection[Clock], hosts: bool = False
) -> tuple[Mapping[Clock, StreamIntervals], Clocks]:
    """When these streams are occupied, with `hosts` when they wait for one too; and where all clocks end."""
    found = finish(IntervalRuns(frozenset(streams), hosts).run(body, dict.fromkeys(streams, 0), set()))
    return {stream: found.streams.get(stream) or StreamIntervals() for stream in streams}, found.ends


class _Op(NamedTuple):
    """An op as far as streams and hosts matter, without the values that it waits for or makes."""

    waits: tuple[Clock, ...]
    """The clocks before which it would not start, were its hosts done."""
    issues: tuple[tuple[Clock, int], ...]
    """Hosts that only issue it, each with how long that takes."""
    ends: tuple[Clock, ...]
    """The clocks that end with it."""
    delays: tuple[tuple[Clock, int], ...]
    """The clocks that it delays otherwise, and by how much."""
    streams: tuple[Clock, ...]
    ticks: int
    communicates: bool

    @classmethod
    def of(cls, move: Step) -> _Op:
        """An op by its effect on clocks."""
        if not isinstance(move, Summary):
            return cls(move.devices, (), move.devices, (), move.devices, move.ticks, move.communicates)
        waits = waits_beside_issue(move)
        issues = tuple([(clock, spent) for clock, spent in move.rows[0] if clock not in waits])
        ends = tuple([clock for clock, _, _ in move.ends])
        return cls(waits, issues, ends, move.shifts, tuple(move.busy), move.ticks, bool(move.communication))


class _Ops(dict[Step, _Op]):
    """Ops by their effects on clocks, found as they are asked for."""

    def __missing__(self, move: Step) -> _Op:
        found = self[move] = _Op.of(move)
        return found


@dataclass(slots=True)
class _Run:
    """What streams do in a run of a body from some clocks."""

    margins: dict[Clock, int]
    """By clock that is waited for: by how much later it could be, and nothing be waited for longer."""
    streams: Mapping[Clock, StreamIntervals]
    ends: Clocks
    """Where the clocks end."""


class _Known(NamedTuple):
    """What streams do in a run of a body, from its clocks by place: those of its summary, in their order.

    They do the same, earlier or later, where the `exact` ones differ from each other as they do here, and the others
    are within their bounds.
    """

    start: int
    """The first of the exact clocks. Other moments are counted as it is."""
    exact: tuple[int, ...]
    bounds: tuple[tuple[int, int], ...]
    """Clocks, each with the latest moment at which nothing waits for it."""
    streams: tuple[tuple[int, StreamIntervals], ...]
    ends: tuple[tuple[int, int], ...]
    """Where clocks end on which an event does."""
    delays: tuple[tuple[int, int], ...]
    """By how much others are delayed, such as those of hosts."""


class _Callee(NamedTuple):
    """A body as it is called."""

    body: Body
    """The one that it follows from on other devices, or itself."""
    clocks: list[Clock]
    """By place among the clocks of that one: the one of the caller; of values, to be replaced."""
    given: tuple[tuple[int, int], ...]
    """The places of values that are given, and which parameters' they are."""
    made: tuple[tuple[int, int], ...]
    """The places of values that are made, and their places among what a call creates."""


@dataclass(slots=True)
class IntervalRuns:
    """Runs of the bodies of a program, as far as they differ."""

    wanted: Set[Clock]
    """The streams that are followed."""
    hosts: bool
    """Whether waits for hosts are, too."""
    known: dict[int, dict[tuple[int, ...], dict[tuple[int, ...], list[_Known]]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """By body, by exact clocks, and by how much later than the first of them each is."""
    ops: _Ops = field(default_factory=_Ops)
    callees: dict[int, _Callee] = field(default_factory=dict[int, _Callee])
    """By body that is called, by identity."""

    def callee(self, body: Body, created: Sequence[tuple[int, int]]) -> _Callee:
        """A body as it is called. `created`: what a call of it creates."""
        origin = body
        names: dict[Clock, Clock] = {clock: clock for clock in body.summary.devices}
        while origin.origin is not None:
            origin, there = origin.origin
            before = {renamed_clock(clock, there.devices): clock for clock in origin.summary.devices}
            names = {before[clock]: ours for clock, ours in names.items()}
        if any((clock in self.wanted) != (ours in self.wanted) for clock, ours in names.items()):
            origin, names = body, {clock: clock for clock in body.summary.devices}
        clocks = origin.summary.devices
        place = {clock: at for at, clock in enumerate(clocks)}
        values = {value.number: place[value] for value in awaited(clocks)}
        made = {theirs: at for at, (theirs, _) in enumerate(created)} if values else {}
        return _Callee(
            origin,
            [names[clock] for clock in clocks],
            tuple([(at, storage) for storage, at in values.items() if storage not in made]),
            tuple([(at, made[storage]) for storage, at in values.items() if storage in made]),
        )

    def run(self, body: Body, start: Mapping[Clock, int], given: set[Clock]) -> Deep[_Run]:
        """The run of a body from these clocks. `given`: those that may be others in a run that does the same."""
        wanted, ops, flows, hosts = self.wanted, self.ops, body.flow, self.hosts
        streams = {clock: StreamIntervals() for clock in start if clock in wanted}
        computes = {clock: found.computes for clock, found in streams.items()}
        communicates = {clock: found.communicates for clock, found in streams.items()}
        clocks = defaultdict[Clock, int](int, start)
        margins: dict[Clock, int] = {}

        for index, (step, move) in enumerate(zip(body.steps, body.moves_alone, strict=True)):
            if move is None:
                continue
            if isinstance(step, Body):
                callee = self.callees.get(id(step))
                if callee is None:
                    callee = self.callees[id(step)] = self.callee(step, body.created[index])
                ours = callee.clocks
                if callee.given or callee.made:
                    ours = ours[:]
                    arguments, created = body.arguments[index], body.created[index]
                    for at, parameter in callee.given:
                        ours[at] = ready(arguments[parameter])
                    for at, place in callee.made:
                        ours[at] = ready(created[place][1])
                inside = [clocks[clock] for clock in ours]
                found = self.like(callee.body, inside) or (yield self.first(callee.body, inside))
                later = inside[found.exact[0]] - found.start
                if given:
                    bounds = [(ours[at], 0) for at in found.exact]
                    bounds += [(ours[at], bound + later - inside[at]) for at, bound in found.bounds]
                    _narrow(margins, [bound for bound in bounds if bound[0] in given])
                    given.difference_update([ours[at] for at, _ in found.ends])
                for at, done in found.streams:
                    streams[ours[at]].repeat(done, later)
                for at, moment in found.ends:
                    clocks[ours[at]] = moment + later
                for at, ticks in found.delays:
                    clocks[ours[at]] += ticks
                continue
            waits, issues, ends, delays, busy, ticks, communicating = ops[move]
            flow = flows.get(index)
            if flow is not None:
                waits = (*waits, *map(ready, flow.awaited))
                ends = (*ends, *map(ready, flow.made))
            allowed = clocks[waits[0]] if len(waits) == 1 else max([clocks[clock] for clock in waits])
            begin = allowed
            for host, spent in issues:
                issued = clocks[host] + spent
                if issued > begin:
                    begin = issued
            if given:
                latest = allowed if hosts else begin
                bounds = [(clock, latest - clocks[clock]) for clock in waits if clock in given]
                bounds += [(host, begin - clocks[host] - spent) for host, spent in issues if host in given]
                _narrow(margins, bounds)
                given.difference_update(ends)
            end = begin + ticks
            for clock in ends:
                clocks[clock] = end
            for clock, delay in delays:
                clocks[clock] += delay
            kind = communicates if communicating else computes
            for stream in busy:
                own = kind.get(stream)
                if own is None:  # not followed
                    continue
                if own and own[-1] == begin:
                    own[-1] = end
                elif end > begin:
                    own.append(begin)
                    own.append(end)
                if hosts and allowed < begin:
                    streams[stream].waits_for_host += (allowed, begin)
        return _Run(margins, streams, clocks)

    def like(self, body: Body, inside: Sequence[int]) -> _Known | None:
        """A known run of a body that does the same as from these clocks, earlier or later."""
        for exact, runs in self.known[id(body)].items():
            first = inside[exact[0]]
            for found in runs.get(tuple([inside[at] - first for at in exact]), ()):
                later = first - found.start
                for at, bound in found.bounds:
                    if inside[at] > bound + later:
                        break
                else:
                    return found
        return None

    def first(self, body: Body, inside: Sequence[int]) -> Deep[_Known]:
        """The run of a body from these clocks, for others that do the same."""
        summary = body.summary
        start = dict(zip(summary.devices, inside, strict=True))
        run: _Run = yield self.run(body, start, set(start))
        place = {clock: at for at, clock in enumerate(summary.devices)}
        exact = tuple([place[clock] for clock, margin in run.margins.items() if not margin])
        last = ends_on(summary)
        others = [(at, run.ends[clock] - start[clock]) for clock, at in place.items() if clock not in last]
        found = _Known(
            inside[exact[0]],
            exact,
            tuple([(place[clock], start[clock] + margin) for clock, margin in run.margins.items() if margin]),
            tuple([(place[clock], done) for clock, done in run.streams.items() if done != NOTHING]),
            tuple([(at, run.ends[clock]) for clock, at in place.items() if clock in last]),
            tuple([(at, ticks) for at, ticks in others if ticks]),
        )
        differences = tuple([inside[at] - found.start for at in exact])
        self.known[id(body)].setdefault(exact, {}).setdefault(differences, []).append(found)
        return found


def _narrow(margins: dict[Clock, int], found: Iterable[tuple[Clock, int]]) -> None:
    """Keep the least margin of each clock."""
    for clock, margin in found:
        known = margins.get(clock)
        if known is None or margin < known:
            margins[clock] = margin
