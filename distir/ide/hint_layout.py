"""Hints on their lines: shortened to the room there is, and placed where they are seen. Knows no program.

Nothing is left out without a sign: what is shortened holds a `…`, and the tooltip has all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from distir.ide.compact import ELIDED
from distir.ide.staleness import MARK

HintKind = Literal["type", "value", "placement", "time", "wait"]


@dataclass(frozen=True, slots=True)
class Hint:
    """A text shown at an offset.

    `index`, `part` and `count`: the statement, and which of its results (or which parameter) it is about, from the
    first one on. `shorter`: what may be shown instead, the longest first.
    """

    offset: int
    label: str
    kind: HintKind
    function: str
    index: int
    part: int = 0
    count: int = 1
    shorter: tuple[str, ...] = ()


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


def placed(hints: Sequence[Hint], text: str, first: Callable[[], int], columns: int) -> list[Hint]:
    """Hints of a statement, those of its times at its end, or at `first` where the end is beyond `columns`.

    `first` gives the offset after the first result.
    """
    timed = [hint for hint in hints if hint.kind in ("time", "wait")]
    others = [hint for hint in hints if hint.kind not in ("time", "wait")]
    if timed:
        line = text.rfind("\n", 0, timed[0].offset) + 1
        before = sum(len(hint.label) for hint in others if hint.offset >= line)
        column = timed[0].offset - line + before + sum(len(hint.label) + 1 for hint in timed)
        if columns and column > columns and (behind := first()) > line:
            timed = [replace(hint, offset=behind) for hint in timed]
    return sorted([*others, *timed], key=lambda hint: hint.offset)


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
