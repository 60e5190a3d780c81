"""When streams compute, communicate, and wait for their hosts, over a whole program.

What a body does depends on the clocks at its start, but not on all that they say: a clock that others overtake before
anything waits for it may as well be earlier, and if all are later by the same, everything is. So a body is entered once
for all starts from which it does the same, and later ones repeat it. All in whole ticks, exact to the last one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field

from distir.ir.deep import Deep, finish
from distir.simulate.algebra.clocks import Clock, Clocks, Summary, ends_on, renamed_clock, run, run_op
from distir.simulate.algebra.lanes import is_host, waits_beside_issue
from distir.simulate.body import Body

Interval = tuple[int, int]
"""From when and until when, in ticks."""


@dataclass(slots=True)
class StreamIntervals:
    """When a stream computes, communicates, and waits for a host, in order. Intervals without a gap are one."""

    computes: list[Interval] = field(default_factory=list[Interval])
    communicates: list[Interval] = field(default_factory=list[Interval])
    waits_for_host: list[Interval] = field(default_factory=list[Interval])

    def add(self, start: int, end: int, communicates: bool, since: int | None = None) -> None:
        """Add what runs next; `since`: from when on it would, were its host done."""
        if since is not None and since < start:
            self.waits_for_host.append((since, start))
        own = self.communicates if communicates else self.computes
        if own and (last := own[-1])[1] == start:
            own[-1] = last[0], end
        elif end > start:
            own.append((start, end))

    def repeat(self, other: StreamIntervals, later: int) -> None:
        """Add what another one does, so much later."""
        _repeat(self.computes, other.computes, later)
        _repeat(self.communicates, other.communicates, later)
        self.waits_for_host += [(start + later, end + later) for start, end in other.waits_for_host]


def _repeat(own: list[Interval], other: list[Interval], later: int) -> None:
    if other:
        moved = [(start + later, end + later) for start, end in other]
        if own and own[-1][1] == moved[0][0]:
            moved[0] = own.pop()[0], moved[0][1]
        own += moved


def intervals_of(
    body: Body, streams: Collection[Clock], hosts: bool = False
) -> tuple[Mapping[Clock, StreamIntervals], Clocks]:
    """When these streams are occupied, with `hosts` when they wait for one too; and where all clocks end."""
    found = finish(_Runs(frozenset(streams), hosts).run(body, dict.fromkeys(streams, 0), set()))
    return {stream: found.streams.get(stream) or StreamIntervals() for stream in streams}, found.ends


@dataclass(slots=True)
class _Run:
    """What streams do in a run of a body, and from which other clocks they do the same, earlier or later.

    From those of which the `exact` ones differ from each other as they do here, and the others are within their bounds.
    """

    start: int
    """The first of the exact clocks. Other moments are counted as it is."""
    exact: tuple[Clock, ...]
    bounds: tuple[tuple[Clock, int], ...]
    """Clocks, each with the latest moment at which nothing waits for it."""
    streams: Mapping[Clock, StreamIntervals]
    ends: Clocks
    """Where the clocks end."""

    def leave(self, summary: Summary, names: Mapping[Clock, Clock], clocks: Clocks, later: int) -> None:
        """Move clocks on to where they are after a run that does the same, so much later. `summary`: the body's."""
        if len(summary.devices) == 1:
            clocks[names[summary.devices[0]]] += summary.ticks
        if summary.steps is not None:  # which do not say by how much they delay what no op ends on, as hosts
            inside = {own: clocks[names[own]] for own in summary.devices}
            run((summary,), inside)
            clocks.update([(names[own], moment) for own, moment in inside.items()])
            return
        for own, _, _ in summary.ends:
            clocks[names[own]] = self.ends[own] + later
        for own, ticks in summary.shifts:
            clocks[names[own]] += ticks


@dataclass(slots=True)
class _Runs:
    """Runs of the bodies of a program, as far as they differ."""

    wanted: Set[Clock]
    """The streams that are followed."""
    hosts: bool
    """Whether waits for hosts are, too."""
    known: dict[int, dict[tuple[Clock, ...], dict[tuple[int, ...], list[_Run]]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """By body, by exact clocks, and by how much later than the first of them each is."""
    bounding: dict[int, tuple[Clock, ...]] = field(default_factory=dict[int, "tuple[Clock, ...]"])
    """By op, by identity: the clocks before which it would not start, were its host done."""
    origins: dict[int, tuple[Body, Mapping[Clock, Clock]]] = field(
        default_factory=dict[int, tuple[Body, Mapping[Clock, Clock]]]
    )

    def origin(self, body: Body) -> tuple[Body, Mapping[Clock, Clock]]:
        """The body that this one follows from on other devices, or itself, and by clock of it the one of this."""
        if id(body) not in self.origins:
            origin = body
            names: dict[Clock, Clock] = {clock: clock for clock in body.summary.devices}
            while origin.origin is not None:
                origin, there = origin.origin
                before = {renamed_clock(clock, there.devices): clock for clock in origin.summary.devices}
                names = {before[clock]: ours for clock, ours in names.items()}
            if any((clock in self.wanted) != (ours in self.wanted) for clock, ours in names.items()):
                origin, names = body, {clock: clock for clock in body.summary.devices}
            self.origins[id(body)] = origin, names
        return self.origins[id(body)]

    def like(self, body: Body, names: Mapping[Clock, Clock], clocks: Clocks) -> tuple[_Run, int] | None:
        """A known run of a body that does the same as from these clocks, so much earlier or later.

        `names`: by clock of the body the one that it is there.
        """
        for exact, runs in self.known[id(body)].items():
            first = clocks[names[exact[0]]]
            for found in runs.get(tuple([clocks[names[own]] - first for own in exact]), ()):
                later = first - found.start
                for own, bound in found.bounds:
                    if clocks[names[own]] > bound + later:
                        break
                else:
                    return found, later
        return None

    def first(self, body: Body, names: Mapping[Clock, Clock], clocks: Clocks) -> Deep[tuple[_Run, int]]:
        """The run of a body from these clocks, for others that do the same."""
        inside = {own: clocks[clock] for own, clock in names.items()}
        found = yield self.run(body, inside, set(inside))
        differences = tuple([inside[own] - found.start for own in found.exact])
        self.known[id(body)].setdefault(found.exact, {}).setdefault(differences, []).append(found)
        return found, inside[found.exact[0]] - found.start

    def run(self, body: Body, start: Mapping[Clock, int], given: set[Clock]) -> Deep[_Run]:
        """The run of a body from these clocks. `given`: those that may be others in a run that does the same."""
        wanted = self.wanted
        streams = {clock: StreamIntervals() for clock in start if clock in wanted}
        clocks = defaultdict[Clock, int](int, start)
        margins: dict[Clock, int] = {}
        """By clock that is waited for: by how much later it could be, and nothing be waited for longer."""

        def narrow(clock: Clock, margin: int) -> None:
            margins[clock] = min(margins.get(clock, margin), margin)

        for index, (step, move) in enumerate(zip(body.steps, body.unbound_moves, strict=True)):
            if step is None or move is None:
                continue
            if isinstance(step, Body):
                outer = body.outer_clocks(index)
                origin, names = self.origin(step)
                if outer:
                    names = {**names, **outer}  # on whichever devices, a callee's values are numbered alike
                known = self.like(origin, names, clocks)
                found, later = known or (yield self.first(origin, names, clocks))
                if given:
                    for own in found.exact:
                        if names[own] in given:
                            narrow(names[own], 0)
                    for own, bound in found.bounds:
                        if names[own] in given:
                            narrow(names[own], bound + later - clocks[names[own]])
                    given.difference_update([names[own] for own in ends_on(origin.summary)])
                for stream, done in found.streams.items():
                    streams[names[stream]].repeat(done, later)
                found.leave(origin.summary, names, clocks, later)
            elif isinstance(move, Summary):
                row = move.rows[0]
                begin = max([clocks[clock] + ticks for clock, ticks in row])
                since = None
                if self.hosts:
                    bounding = self.bounding.get(id(move))
                    if bounding is None:
                        bounding = self.bounding[id(move)] = waits_beside_issue(move)
                    since = max([clocks[clock] for clock in bounding])
                if given:
                    allowed = begin if since is None else since
                    for clock, ticks in row:
                        if clock in given:
                            only_issues = is_host(clock) and clock not in move.last
                            narrow(clock, (begin if only_issues else allowed) - clocks[clock] - ticks)
                    given.difference_update(move.last)
                run_op(move, clocks)
                for stream in move.busy:
                    if stream in wanted:
                        streams[stream].add(begin, begin + move.ticks, bool(move.communication), since)
            else:
                group = move.devices
                begin = clocks[group[0]] if len(group) == 1 else max([clocks[device] for device in group])
                end, communicates = begin + move.ticks, step.communicates
                for device in group:
                    if device in given:
                        narrow(device, begin - clocks[device])
                        given.discard(device)
                    clocks[device] = end
                    if device in wanted:
                        streams[device].add(begin, end, communicates)
        exact = tuple([clock for clock, margin in margins.items() if not margin])
        bounds = tuple([(clock, start[clock] + margin) for clock, margin in margins.items() if margin])
        return _Run(start[exact[0]] if exact else 0, exact, bounds, streams, clocks)
