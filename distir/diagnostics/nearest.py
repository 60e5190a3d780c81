"""The name somebody may have meant, for *did you mean*."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

CUTOFF = 0.7
"""How alike two names must be: twice the letters they share in order, over the letters of both."""

LONGEST = 100
"""Longer names are not compared: nobody mistypes them, and comparing takes the square of their length."""

_COMPARED = 200


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `name`, whatever the case of the letters; None if none is alike. Never `name` itself.

    Fast for 100,000 candidates: only those of fitting length that share the first or the last letter are considered,
    and of those only the ones with the longest common beginning and end are compared letter by letter.
    """
    wanted = name.casefold()
    if not wanted or len(wanted) > LONGEST:
        return None
    shortest, longest = CUTOFF * len(wanted) / (2 - CUTOFF), (2 - CUTOFF) * len(wanted) / CUTOFF
    similar: list[tuple[int, str, str]] = []
    for candidate in candidates:
        if not shortest <= len(candidate) <= longest or candidate == name:
            continue
        folded = candidate.casefold()
        if folded == wanted:
            return candidate
        if folded[0] == wanted[0] or folded[-1] == wanted[-1]:
            similar.append((_common(wanted, folded), folded, candidate))
    return _most_alike(wanted, heapq.nlargest(_COMPARED, similar, key=lambda entry: entry[0]))


def _most_alike(wanted: str, similar: list[tuple[int, str, str]]) -> str | None:
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    best, best_ratio = None, 0.0
    for _, folded, candidate in similar:
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
    front = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    back = next((i for i in range(shorter - front) if a[-1 - i] != b[-1 - i]), shorter - front)
    return front + back
