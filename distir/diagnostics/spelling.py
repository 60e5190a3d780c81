"""The name that may have been meant, for *did you mean*."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

CUTOFF = 0.7
"""How alike two names must be: twice the letters they share in order, over the letters of both."""

WHOLE_WORDS = 0.8
"""How alike a name and one that it is whole words of are at least."""

SHORTEST_PART = 3
"""Parts of fewer letters say nothing: `x` is no hint at `x_1`."""

SMALLEST_SHARE = 0.25
"""A part that is less than this of a name says nothing of it."""

LISTED = 20
"""How many known names a suggestion lists."""

LONGEST = 100
"""Longer names are not compared: they are no typos, and comparing takes the square of their length."""

_COMPARED = 200
_ROUGHLY_COMPARED = 1_000


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `name`, whatever the case of the letters; None if none is alike. Never `name` itself.

    A name that is part of another one counts as very like it: `h100` means `dgx-h100` rather than `h200`, `LayerNorm`
    means `LayerNormalization`. Of several as alike that with the longest common beginning and end, then the first. Fast
    for 100,000 candidates: mistyped ones are looked for among those of fitting length that share the first or the last
    letter, of many those with the longest common beginning or end, and of those only the ones with the longest common
    beginning and end are compared letter by letter.
    """
    wanted = name.casefold()
    if not wanted or len(wanted) > LONGEST:
        return None
    others = [c for c in candidates if c != name]
    shortest, longest = CUTOFF * len(wanted) / (2 - CUTOFF), (2 - CUTOFF) * len(wanted) / CUTOFF
    fitting = {c.casefold(): c for c in others if shortest <= len(c) <= longest}
    if wanted in fitting:
        return fitting[wanted]
    folded = list(fitting)
    similar = _sharing(wanted, folded, from_end=False) | _sharing(wanted, folded, from_end=True)
    in_order = folded if len(similar) == len(folded) else [candidate for candidate in folded if candidate in similar]
    ranked = heapq.nlargest(_COMPARED, in_order, key=lambda candidate: _common(wanted, candidate))
    best, alike = _most_alike(wanted, [(candidate, fitting[candidate]) for candidate in ranked])
    part, share = _most_shared(name, others)
    return part if share > alike else best


def suggestion(name: str, known: Iterable[str], sign: str = "") -> str | None:
    """What to write instead of a name that is not `known`: the nearest, or else what there is; None where nothing is.

    `sign` stands before each name, as in `@main`.
    """
    names = list(known)
    if near := nearest(name, names):
        return f"did you mean `{sign}{near}`?"
    shown = [f"`{sign}{known}`" for known in names[:LISTED]]
    if not shown:
        return None
    more = f", and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(shown)}{more}"


def _most_shared(name: str, candidates: Iterable[str]) -> tuple[str | None, float]:
    """The candidate that `name` is part of, or that is part of it, with how alike they count; of several the first."""
    wanted = name.casefold()
    if not _is_word(wanted):
        return None, 0.0
    best, most = None, 0.0
    for candidate in candidates:
        folded = candidate.casefold()
        if wanted in folded:
            alike = _part(wanted, candidate)
        elif folded in wanted and _is_word(folded):
            alike = _part(folded, name)
        else:
            continue
        if alike > most:
            best, most = candidate, alike
    return best, most


def _is_word(folded: str) -> bool:
    """Whether a name says enough to be known again as a part of others."""
    return len(folded) >= SHORTEST_PART and any(map(str.isalpha, folded))


def _part(part: str, whole: str) -> float:
    """How alike a name and a part of it count: much where it is whole words of it, less where a word continues."""
    folded = whole.casefold()
    if len(part) < SMALLEST_SHARE * len(whole) or len(folded) != len(whole):  # `ß` is two letters when folded
        return 0.0
    best, at = 0.0, folded.find(part)
    while at >= 0:
        if _breaks(whole, at):
            least = WHOLE_WORDS if _breaks(whole, at + len(part)) else CUTOFF
            best = max(best, least + (1 - WHOLE_WORDS) * len(part) / len(whole))
        at = folded.find(part, at + 1)
    return best


def _breaks(name: str, at: int) -> bool:
    """Whether a word of a name ends before this place, and another one begins: `dgx|-|h100`, `Layer|Norm`."""
    if at in (0, len(name)) or not (name[at - 1].isalnum() and name[at].isalnum()):
        return True
    return name[at - 1].islower() and name[at].isupper()


def _sharing(wanted: str, candidates: list[str], from_end: bool) -> set[str]:
    """The candidates that share the first letter with `wanted`; of too many, those that share the most."""
    found: list[str] = []
    for length in range(1, len(wanted) + 1):
        if from_end:
            end = wanted[-length:]
            found = [candidate for candidate in candidates if candidate.endswith(end)]
        else:
            start = wanted[:length]
            found = [candidate for candidate in candidates if candidate.startswith(start)]
        if len(found) <= _ROUGHLY_COMPARED:
            break
        candidates = found
    return set(found)


def _most_alike(wanted: str, similar: list[tuple[str, str]]) -> tuple[str | None, float]:
    """The candidate with the most letters in common, in order, with how alike they are."""
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    best, best_ratio = None, 0.0
    for folded, candidate in similar:
        matcher.set_seq1(folded)
        least = max(CUTOFF, best_ratio)
        if matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least:
            ratio = matcher.ratio()
            if ratio >= CUTOFF and ratio > best_ratio:
                best, best_ratio = candidate, ratio
    return best, best_ratio


def _common(a: str, b: str) -> int:
    """How many letters two names share at the beginning and at the end."""
    shorter = min(len(a), len(b))
    front = 0
    while front < shorter and a[front] == b[front]:
        front += 1
    back = 0
    while back < shorter - front and a[-1 - back] == b[-1 - back]:
        back += 1
    return front + back
