"""Why a statement takes long, in one place: what bounds it, who waits for it, what would be won, what its device does.

It says what hover, lenses and the timeline say, of the statement under the cursor. Seconds, unless said otherwise;
lines are markdown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal

from distir.cost import show_seconds
from distir.diagnostics import Span
from distir.ide.hover_functions import call_in_words
from distir.ide.hover_ops import event_in_words, run
from distir.ide.hover_values import shown_for
from distir.ide.instances import LONGEST_TRACED, CallSite, KnownInstances, View
from distir.ide.lines import in_words
from distir.ide.markdown import code, counted, line_link
from distir.ide.repeated import EachTime, repeated_at
from distir.ide.timeline_index import TimelineIndex
from distir.ir import Apply, Call, Function, Statement
from distir.simulate.intervals import shares
from distir.simulate.timeline import Timeline, Wait
from distir.syntax.tokens import NAME

Roof = Literal["compute", "memory", "latency", "link", "host", "free"]
"""What bounds the time of an op: as of a bar of the timeline, or `host` where its device waits for its host alone."""

MOST_WAITS = 6
"""Of more that wait for a statement those are named that wait longest."""

PARTS = 120
"""A lane is shown in so many parts."""


@dataclass(frozen=True, slots=True)
class LaneShares:
    """What a device does in each of equal parts of the program's time: shares from 0 to 1."""

    device: int
    computes: tuple[float, ...]
    communicates: tuple[float, ...]
    waits_for_host: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Why:
    """Why a statement takes long, in the call shown. `name`: an op and its first result, or what a call is of.

    `roof`: None of a call. `why`: when it runs and what bounds it, as hover says it. `waited_s`: how long devices wait
    for it, all together; `waits` names them. `won_s`: by how much the program would be faster at most if it took no
    time, in all calls of its function; None where that is not known.
    """

    span: Span
    function: str
    statement: int
    name: str
    roof: Roof | None
    start_s: float
    duration_s: float
    latency_s: float
    why: tuple[str, ...]
    waited_s: float | None
    waits: tuple[str, ...]
    won_s: float | None
    won: str
    shown: str
    lane: LaneShares


def why(view: View, offset: int) -> Why | None:
    """Why the statement in the line of an offset takes long; None for one that takes no time, and elsewhere."""
    syntax, index = view.document.program.syntax, view.index
    text, written = syntax.source.text, syntax.function_at(offset)
    if written is None or index is None:
        return None
    while text[offset : offset + 1] in (" ", "\t"):
        offset += 1  # in the indentation before a statement
    number = written.statement_at(offset)
    if number is None:
        return None
    one = repeated_at(syntax, written, number, offset)
    function, statement = (written.function, number) if one is None else (one.function, one.index)
    moment, at = view.moment(function, statement), view.at(function, statement)
    if moment is None or at is None or view.simulated is None:
        return None
    span = written.statement(number) if one is None else one.span
    timeline, path, events = index.timeline, _OnPath.of(view.simulated), view.events(function, statement)
    won = path.won(at[0].instance.function, at[1], one) if path is not None else None
    waited = _waited(view, timeline, events)
    lane = timeline.lane(moment.devices[0])
    return Why(
        span,
        function.name,
        statement,
        _named(view, function.body[statement], span),
        _roof(view, function, statement),
        moment.start,
        moment.seconds,
        timeline.latency,
        tuple(_runs(view, function, statement)),
        None if waited is None else sum(wait.seconds for wait in waited),
        _in_words(view, index, waited or []),
        won,
        _won_in_words(won, timeline.latency, one),
        shown_for(view, function),
        LaneShares(
            moment.devices[0],
            shares([stream.computes for stream in lane], timeline.finish, PARTS),
            shares([stream.communicates for stream in lane], timeline.finish, PARTS),
            shares([stream.waits_for_host for stream in lane], timeline.finish, PARTS),
        ),
    )


def _named(view: View, statement: Statement, span: Span) -> str:
    """What a statement is, its first result, and its line: that of its text, also of what is done several times."""
    source = view.document.program.source
    result = _RESULT.match(source.text, span.start)
    first = f" {code(result[0])}" if result is not None else ""
    return f"{in_words(view, statement)}{first}, {line_link(source.position(span.start)[0])}"


_RESULT = re.compile(rf"%{NAME}")


def _runs(view: View, function: Function, index: int) -> list[str]:
    statement = function.body[index]
    callee = view.document.program.module.functions.get(statement.function) if isinstance(statement, Call) else None
    if isinstance(statement, Apply) or (callee is not None and callee.kernel):
        return run(view, function, index)
    said = call_in_words(view, CallSite(function.name, index))
    return [said] if said is not None else []


def _roof(view: View, function: Function, index: int) -> Roof | None:
    effect = view.effect(function, index)
    if effect is None:
        return None
    return "host" if any(idle.host > 0 for idle in view.idle(function, index)) else effect.cost.bound


# ---- who waits


@dataclass(slots=True)
class _Waits:
    """The waits of devices in one simulation, by what they wait for."""

    by_blocker: dict[int, list[Wait]] | None = None

    def of(self, timeline: Timeline) -> dict[int, list[Wait]]:
        if self.by_blocker is None:
            self.by_blocker = defaultdict(list)
            for wait in timeline.idle_devices:
                if wait.blocker is not None:
                    self.by_blocker[wait.blocker].append(wait)
        return self.by_blocker


def _waited(view: View, timeline: Timeline, events: range) -> list[Wait] | None:
    """The devices that wait for what a statement does and do not take part in it; None for long programs."""
    if view.simulated is None or timeline.is_long:
        return None
    known = view.simulated.remembered(_Waits).of(timeline)
    blockers = events if len(events) < len(known) else [event for event in known if event in events]
    return [wait for event in blockers for wait in known.get(event, ()) if wait.event not in events]


def _in_words(view: View, index: TimelineIndex, waited: list[Wait]) -> tuple[str, ...]:
    longest = sorted(waited, key=lambda wait: -wait.seconds)
    said = [
        f"device {wait.device} waits **{show_seconds(wait.seconds)}** before {event_in_words(view, index, wait.event)}"
        for wait in longest[:MOST_WAITS]
    ]
    more = longest[MOST_WAITS:]
    rest = f"{counted(len(more), 'more wait')}, {show_seconds(sum(wait.seconds for wait in more))} together"
    return (*said, *([rest] if more else []))


# ---- what would be won


@dataclass(slots=True)
class _OnPath:
    """Seconds of the critical path by function and statement, what is called included, all calls of it together."""

    seconds: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    is_known: bool = False

    @classmethod
    def of(cls, known: KnownInstances) -> _OnPath | None:
        """Those of a simulation; None for programs whose path is too long to be followed."""
        index = known.index
        if index is None or len(index.timeline) > LONGEST_TRACED:
            return None
        found = known.remembered(cls)
        if not found.is_known:
            for number in index.critical_path:
                event = index.timeline.event(number)
                for function, statement in event.path:
                    key = (function.name, statement)
                    found.seconds[key] = found.seconds.get(key, 0.0) + event.end - event.start
            found.is_known = True
        return found

    def won(self, function: Function, index: int, one: EachTime | None) -> float:
        """By how much the program is faster at most where a statement takes no time: without it the path remains."""
        indices = (index,) if one is None else one.indices
        return sum(self.seconds.get((function.name, each), 0.0) for each in indices)


def _won_in_words(won: float | None, latency: float, one: EachTime | None) -> str:
    if won is None:
        return ""
    if not won:
        return "nothing: a critical path is without it"
    share = f" ({won / latency:.1%})" if latency else ""
    every = ", each time" if one is not None else ""
    return f"at most **{show_seconds(won)}** of {show_seconds(latency)}{share}, if it took no time{every}"
