"""Cuts a sequence of pieces into contiguous runs, balanced or within a limit. Pure: knows no programs.

A run is a half-open range of pieces; a cut is the list of each run's first piece.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

Weigh = Callable[[int, int, int], float]
"""The weight of a run: its number, first piece and end; infinite if the run is not allowed."""


@dataclass(frozen=True, slots=True)
class Cuttable:
    """An indivisible piece: its seconds, and its bytes by storage.

    A storage of several pieces counts once in a run.
    """

    seconds: float
    throughout: dict[object, float]
    """Bytes held throughout: weights, gradients and optimizer state."""
    in_flight: dict[object, float]
    """Bytes held for each microbatch in flight."""
    working: float = 0.0
    """Temporary bytes while it runs."""


def bytes_held(pieces: Sequence[Cuttable], microbatches: float) -> float:
    """The peak of a run, given the number of microbatches in flight."""
    throughout: dict[object, float] = {}
    in_flight: dict[object, float] = {}
    for piece in pieces:
        throughout |= piece.throughout
        in_flight |= piece.in_flight
    working = max((piece.working for piece in pieces), default=0.0)
    return sum(throughout.values()) + microbatches * sum(in_flight.values()) + working


def least_bytes(pieces: Sequence[Cuttable], microbatches: Sequence[float]) -> list[int]:
    """The cut that minimises the greatest peak of a run. `microbatches`: those in flight, by run."""
    return lightest(_bytes(pieces, microbatches), len(pieces), len(microbatches))


def within(pieces: Sequence[Cuttable], microbatches: Sequence[float], homes: Sequence[int], limit: float) -> list[int]:
    """The cut that minimises the slowest run's time, of those in which no device exceeds the limit.

    `homes`: by run, its device. A device's limit is divided among its runs as in the cut with the least memory. Empty
    if no cut is within the limit.
    """
    held, before = _bytes(pieces, microbatches), [0.0, *accumulate(piece.seconds for piece in pieces)]
    least = least_bytes(pieces, microbatches)
    own = [held(run, begin, end) for run, (begin, end) in enumerate(pairwise([*least, len(pieces)]))]
    of_device = dict.fromkeys(homes, 0.0)
    for home, amount in zip(homes, own, strict=True):
        of_device[home] += amount
    if max(of_device.values()) > limit:
        return []
    limits = [limit * amount / of_device[home] if amount else limit for home, amount in zip(homes, own, strict=True)]

    def seconds(run: int, begin: int, end: int) -> float:
        return before[end] - before[begin] if held(run, begin, end) <= limits[run] * (1 + 1e-9) else math.inf

    return lightest(seconds, len(pieces), len(microbatches))


def _bytes(pieces: Sequence[Cuttable], microbatches: Sequence[float]) -> Weigh:
    """Caches the bytes of runs."""
    tables: dict[int, list[tuple[float, float, float]]] = {}

    def of(begin: int) -> list[tuple[float, float, float]]:
        """By number of pieces from a first one on: bytes held throughout, per microbatch in flight, and temporarily."""
        if begin not in tables:
            seen, throughout, in_flight, working = set[tuple[bool, object]](), 0.0, 0.0, 0.0
            table = [(0.0, 0.0, 0.0)]
            for piece in pieces[begin:]:
                throughout += sum(b for name, b in piece.throughout.items() if (False, name) not in seen)
                in_flight += sum(b for name, b in piece.in_flight.items() if (True, name) not in seen)
                seen.update((False, name) for name in piece.throughout)
                seen.update((True, name) for name in piece.in_flight)
                working = max(working, piece.working)
                table.append((throughout, in_flight, working))
            tables[begin] = table
        return tables[begin]

    def weigh(run: int, begin: int, end: int) -> float:
        throughout, in_flight, working = of(begin)[end - begin]
        return throughout + microbatches[run] * in_flight + working

    return weigh


def lightest(weigh: Weigh, pieces: int, runs: int) -> list[int]:
    """The cut that minimises the heaviest run, then the sum of squares; empty if there is none."""
    heaviest = _chained(weigh, pieces, runs, max)
    if heaviest is None:
        return []
    most = heaviest[0] * (1 + 1e-9)

    def square(run: int, begin: int, end: int) -> float:
        weight = weigh(run, begin, end)
        return weight * weight if weight <= most else math.inf

    found = _chained(square, pieces, runs, lambda a, b: a + b)
    return (found or heaviest)[1]


def _chained(
    weigh: Weigh, pieces: int, runs: int, join: Callable[[float, float], float]
) -> tuple[float, list[int]] | None:
    """The cut that minimises the joined weights of its runs, and that minimum, by dynamic programming over runs."""
    least: dict[int, float] = {0: 0.0}
    chosen: list[dict[int, int]] = []
    for run in range(runs):
        found: dict[int, float] = {}
        starts: dict[int, int] = {}
        ends = (pieces,) if run == runs - 1 else range(run + 1, pieces - (runs - run - 1) + 1)
        for end in ends:
            best = min(((join(so_far, weigh(run, i, end)), i) for i, so_far in least.items() if i < end), default=None)
            if best is not None and best[0] < math.inf:
                found[end], starts[end] = best
        least = found
        chosen.append(starts)
    if pieces not in least:
        return None
    cuts, end = list[int](), pieces
    for starts in reversed(chosen):
        end = starts[end]
        cuts.append(end)
    return least[pieces], cuts[::-1]


def most_even(weights: Sequence[float], count: int) -> list[int]:
    """The starts of `count` non-empty runs that minimise the heaviest, then the sum of squares.

    The least weight of the heaviest run is found by bisection: filling runs greedily up to a limit gives the fewest.
    Within it, dynamic programming minimises the sum of squares.
    """
    low, high = max(weights), sum(weights)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if len(_filled(weights, middle, count)) <= count else (middle, high)
    before, ends = [0.0, *accumulate(weights)], len(weights)
    widest = [bisect_left(before, total - high * (1 + 1e-9)) for total in before]  # where a run up to there may start
    least, chosen = {0: 0.0}, list[dict[int, int]]()
    for runs in range(1, count + 1):
        found: dict[int, float] = {}
        starts: dict[int, int] = {}
        for end in range(runs, ends - (count - runs) + 1):
            sums = [(least[i] + (before[end] - before[i]) ** 2, i) for i in range(widest[end], end) if i in least]
            if sums:
                found[end], starts[end] = min(sums)
        least = found
        chosen.append(starts)
    cuts, end = list[int](), ends
    for starts in reversed(chosen):
        end = starts[end]
        cuts.append(end)
    return cuts[::-1]


def _filled(weights: Sequence[float], limit: float, count: int) -> list[int]:
    """The starts of at least `count` runs that are no heavier than `limit`."""
    starts, load = [0], 0.0
    for i, weight in enumerate(weights):
        left = len(weights) - i
        full = load + weight > limit or left <= count - len(starts)
        if i and full:
            starts.append(i)
            load = 0.0
        load += weight
    return starts
