"""Hints on their lines: shortened to the room there is, and placed where they are seen. Knows no program.

Hints have the letters of the text, so blanks before them align them in every editor. Nothing is left out without a
sign: what is shortened holds a `…`, and the tooltip has all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from distir.ide.compact import ELIDED
from distir.ide.staleness import MARK

STEP = 4
"""Columns of times are multiples of this, so that another version's are seldom elsewhere."""

HintKind = Literal["type", "value", "placement", "time", "wait"]


@dataclass(frozen=True, slots=True)
class Hint:
    """A text shown at an offset.

    `index`, `part` and `count`: the statement, and which of its results (or which parameter) it is about, from the
    first one on. `shorter`: what may be shown instead, the longest first. `blanks`: how many columns
    before it are empty.
    """

    offset: int
    label: str
    kind: HintKind
    function: str
    index: int
    part: int = 0
    count: int = 1
    shorter: tuple[str, ...] = ()
    blanks: int = 0

    @property
    def text(self) -> str:
        """What is shown."""
        return " " * self.blanks + self.label

    @property
    def is_timed(self) -> bool:
        """Whether it says when something runs, or what waits for it."""
        return self.kind in ("time", "wait")


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """Where the times of a function stand: the column, from 0; `is_behind`: each after its statement's first result."""

    column: int
    is_behind: bool = False


def shown_type(types: str, is_claimed: bool, is_old: bool = False) -> str:
    """The label of a type: after a name, or after a less precise annotation. The mark of an old one takes no room."""
    return f"{'' if is_claimed else ':'}{MARK if is_old else ' '}{types}"


def fitted(found: Sequence[Hint], room: int) -> list[Hint]:
    """The hints of a statement in `room` characters.

    Types give way first, then placements, values and waits, times last. Of several types the last ones become one `…`,
    as many as it takes; then the first goes without its dimensions. Each kind that was there stays, if only as its
    sign.
    """
    hints = list(found)
    over = sum(len(hint.label) for hint in hints) - room
    if over > 0:
        hints, over = _join_types(hints, over, kept=1)
        for kind in ("type", "placement", "value", "wait", "time"):
            over = _shorten(hints, kind, over)
        hints, _ = _join_types(hints, over, kept=0)
    return hints


def placed(hints: Sequence[Hint], text: str, first: Callable[[], int], column: TimeColumn) -> list[Hint]:
    """Hints of a statement, those of its times in a column: at its end, or at `first`, the offset after one result."""
    timed = [hint for hint in hints if hint.is_timed]
    others = [hint for hint in hints if not hint.is_timed]
    if timed:
        offset, width = _room(hints, text, first if column.is_behind else None)
        blanks = [max(1, column.column - width), *(1 for _ in timed[1:])]
        timed = [replace(hint, offset=offset, blanks=each) for hint, each in zip(timed, blanks, strict=True)]
    return sorted([*others, *timed], key=lambda hint: hint.offset)


def time_column(statements: Iterable[tuple[Sequence[Hint], Callable[[], int]]], text: str, columns: int) -> TimeColumn:
    """The column of the times of a function, from hints of its statements and the offsets after their first results.

    It is behind the longest statement. Where times would end beyond `columns` then, they all follow the first results;
    0 is no limit.
    """
    found = [(hints, first) for hints, first in statements if any(hint.is_timed for hint in hints)]
    for is_behind in (False, True):
        rooms = [(_room(hints, text, first if is_behind else None)[1], hints) for hints, first in found]
        ends = [width + sum(1 + len(hint.label) for hint in hints if hint.is_timed) for width, hints in rooms]
        if not columns or is_behind or max(ends, default=0) <= columns:
            widths = [width for (width, _), end in zip(rooms, ends, strict=True) if not columns or end <= columns]
            return TimeColumn(-(-(1 + max(widths, default=0)) // STEP) * STEP, is_behind)
    raise AssertionError("one of both is returned")


def _room(hints: Sequence[Hint], text: str, first: Callable[[], int] | None) -> tuple[int, int]:
    """The offset of a statement's times, and how many columns are before it, with those of its other hints."""
    offset = first() if first is not None else next(hint.offset for hint in hints if hint.is_timed)
    line = text.rfind("\n", 0, offset) + 1
    before = sum(len(hint.text) for hint in hints if not hint.is_timed and line <= hint.offset <= offset)
    return offset, offset - line + before


def _shorten(hints: list[Hint], kind: HintKind, over: int) -> int:
    """Shorten hints of one kind, the longest first, until none is `over`; gives what still is."""
    longest = sorted((i for i, hint in enumerate(hints) if hint.kind == kind), key=lambda i: -len(hints[i].label))
    for index in longest:
        hint = hints[index]
        if over <= 0:
            break
        if hint.shorter and len(hint.shorter[0]) < len(hint.label):
            over -= len(hint.label) - len(hint.shorter[0])
            hints[index] = replace(hint, label=hint.shorter[0], shorter=hint.shorter[1:])
    return over


def _join_types(hints: list[Hint], over: int, kept: int) -> tuple[list[Hint], int]:
    """Let the last types be one `…`, as many as it takes, but for the first `kept`; with what is still over then."""
    places = [i for i, hint in enumerate(hints) if hint.kind == "type"][kept:]
    sign = shown_type(ELIDED, is_claimed=False)
    joined = 0
    while over > 0 and joined < len(places):
        over -= len(hints[places[-1 - joined]].label) - (len(sign) if not joined else 0)
        joined += 1
    if not joined:
        return hints, over
    gone = places[-joined:]
    first, last = hints[gone[0]], hints[gone[-1]]
    together = replace(last, label=sign, part=first.part, count=last.part + last.count - first.part, shorter=())
    before = set(gone[:-1])
    return [together if i == gone[-1] else hint for i, hint in enumerate(hints) if i not in before], over
