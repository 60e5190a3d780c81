"""The name somebody may have meant, for *did you mean*."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

CUTOFF = 0.7
"""How alike two names must be: twice the letters they share in order, over the letters of both."""

LONGEST = 100
"""Longer names are not compared: nobody mistypes them, and comparing takes the square of their length."""

_COMPARED = 200
_ROUGHLY_COMPARED = 1_000


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `name`, whatever the case of the letters; None if none is alike. Never `name` itself.

    Of several as alike that with the longest common beginning and end, then the first. Fast for 100,000 candidates:
    only those of fitting length that share the first or the last letter are considered, of many those with the longest
    common beginning or end, and of those only the ones with the longest common beginning and end are compared letter
    by letter.
    """
    wanted = name.casefold()
    if not wanted or len(wanted) > LONGEST:
        return None
    shortest, longest = CUTOFF * len(wanted) / (2 - CUTOFF), (2 - CUTOFF) * len(wanted) / CUTOFF
    fitting = {c.casefold(): c for c in candidates if shortest <= len(c) <= longest and c != name}
    if wanted in fitting:
        return fitting[wanted]
    folded = list(fitting)
    similar = _sharing(wanted, folded, from_end=False) | _sharing(wanted, folded, from_end=True)
    in_order = folded if len(similar) == len(folded) else [candidate for candidate in folded if candidate in similar]
    ranked = heapq.nlargest(_COMPARED, in_order, key=lambda candidate: _common(wanted, candidate))
    return _most_alike(wanted, [(candidate, fitting[candidate]) for candidate in ranked])


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


def _most_alike(wanted: str, similar: list[tuple[str, str]]) -> str | None:
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
    return best


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
