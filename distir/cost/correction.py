"""By how much measured times differ from what a form says: a small table. Knows nothing of what is measured.

Libraries choose kernels and protocols by rules that no short form knows. A form with a correction stays a form: figures
that change, as in a what-if, change its times as before.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Correction:
    """How much longer things take than their form says, as a share of it, by sizes.

    `axes`: for each size the ones in the table, at least one, ascending. `shares`: tuples of tuples, nested as deep as
    there are axes. Between sizes it is linear in their logarithms, beyond them as at the edge.
    """

    axes: tuple[tuple[int, ...], ...]
    shares: tuple[Any, ...]

    @property
    def least(self) -> float:
        """The lowest of its factors."""
        return 1 + min(_leaves(self.shares))

    @property
    def count(self) -> int:
        """How many numbers it has."""
        return math.prod(map(len, self.axes))

    def factor(self, *sizes: int) -> float:
        """By what the form's time is multiplied."""
        return 1 + _mean(self.shares, [_around(axis, size) for axis, size in zip(self.axes, sizes, strict=True)])


def _around(axis: tuple[int, ...], size: int) -> list[tuple[int, float]]:
    """The places of the neighbours of a size, and their weights."""
    above = bisect_right(axis, size)
    if above == 0 or above == len(axis):
        return [(max(0, above - 1), 1.0)]
    low, high = axis[above - 1], axis[above]
    weight = math.log(size / low) / math.log(high / low)
    return [(above - 1, 1 - weight), (above, weight)]


def _mean(shares: Any, near: Sequence[list[tuple[int, float]]]) -> float:
    if not near:
        return shares
    return sum(weight * _mean(shares[place], near[1:]) for place, weight in near[0])


def _leaves(shares: Any) -> Iterator[float]:
    if not isinstance(shares, tuple):
        yield shares
        return
    for part in cast("tuple[Any, ...]", shares):
        yield from _leaves(part)
