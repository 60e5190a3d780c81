"""Sets of indices ("places") along one dimension, as sorted half-open intervals ("runs"). Arithmetic alone.

The rows 0 to 3 and 8 to 11 of a dimension are `((0, 4), (8, 12))`. One representation serves every split, however
nested: contiguous parts, microbatches of replicas, blocks of a fused weight, zig-zag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from math import prod
from typing import Any

from distir.prove import ranks
from distir.prove.ranks import MeshAxis
from distir.prove.terms import Unproved

Runs = tuple[tuple[int, int], ...]
"""Half-open intervals `(start, stop)`; both ends may depend on the device, as `ranks.RankedPlace`.

Adjacent intervals are merged; those that depend on the device, if they are adjacent on all devices.
"""

MOST_DEVICES = 1 << 10
"""The most devices of which runs are computed one by one, where no expression in ranks covers all of them."""


def full(size: int) -> Runs:
    """All places of a dimension."""
    return ((0, size),) if size else ()


def length(runs: Runs) -> int:
    """How many places."""
    return sum([stop - start for start, stop in runs])


def joined(parts: Iterable[Runs]) -> Runs:
    """One after the other, in this order."""
    found: list[tuple[int, int]] = []
    for runs in parts:
        for start, stop in runs:
            if start == stop:
                continue
            if found and found[-1][1] == start:
                found[-1] = (found[-1][0], stop)
            else:
                found.append((start, stop))
    return tuple(found)


def taken(runs: Runs, start: int, stop: int) -> Runs:
    """Those from the `start`-th place on, up to the `stop`-th."""
    found: list[tuple[int, int]] = []
    at = 0
    for first, last in runs:
        low, high = max(start - at, 0), min(stop - at, last - first)
        if low < high:
            found.append((first + low, first + high))
        at += last - first
    return joined([tuple(found)])


def shifted(runs: Runs, by: int) -> Runs:
    """Each place moved."""
    return tuple([(start + by, stop + by) for start, stop in runs])


def union(sets: Iterable[Runs]) -> Runs | None:
    """The places of sets that have none in common, in ascending order; None where they have."""
    given = tuple(sets)
    try:
        found = _union(*given)
    except Unproved:  # which are first depends on the device
        found = _on_each(_union, given)
    return None if found is None else found[0]


def _union(*sets: Runs) -> tuple[Runs] | None:
    ordered = sorted(run for runs in sets for run in runs)
    if any(before[1] > after[0] for before, after in pairwise(ordered)):
        return None
    return (joined([tuple(ordered)]),)


def cover(sets: Iterable[Runs], size: int) -> bool:
    """Whether sets have all places together, some perhaps more than once. Raises Unproved if devices differ."""
    end = 0
    for start, stop in sorted(run for runs in sets for run in runs):
        if start > end:
            return False
        end = max(end, stop)
    return end >= size


def ordered(runs: Runs) -> Runs:
    """The same places in ascending order."""
    try:
        return _ordered(runs)[0]
    except Unproved:
        found = _on_each(_ordered, (runs,))
        assert found is not None
        return found[0]


def _ordered(runs: Runs) -> tuple[Runs]:
    return (joined([tuple(sorted(runs))]),)


def of_device(runs: Runs, own: Mapping[MeshAxis, ranks.Number]) -> Runs:
    """Those of the device of these ranks."""
    return joined([ranks.at(runs, own)])


def fitted(sets: Sequence[Runs], axes: Sequence[MeshAxis]) -> Runs:
    """One expression in ranks for the runs of each device of a group. Raises Unproved where there is none.

    An interval of one device may be two of another: then it is cut into two.
    """
    if len(set(sets)) == 1:
        return sets[0]
    ends = [list(accumulate(stop - start for start, stop in runs)) for runs in sets]
    if len({tuple(own[-1:]) for own in ends}) > 1:
        raise Unproved(ranks.UNEVEN)
    if len({tuple(own) for own in ends}) > 1:
        cuts = sorted({end for own in ends for end in own})
        sets = [tuple([taken(runs, *cut)[0] for cut in pairwise([0, *cuts])]) for runs in sets]
    return joined([ranks.fitted(sets, axes)])


def _on_each(of: Callable[..., tuple[Runs, ...] | None], given: tuple[Runs, ...]) -> tuple[Runs, ...] | None:
    """The result of a function of runs, computed for each device and then expressed in ranks; None if it is on one.

    Raises Unproved where no expression covers all devices, or there are too many.
    """
    axes = sorted(ranks.axes_in(given))
    if prod(axis.size for axis in axes) > MOST_DEVICES:
        raise Unproved(ranks.UNDECIDED)
    found: list[tuple[Runs, ...]] = []
    for own in ranks.ranks(axes):
        made = of(*[of_device(runs, own) for runs in given])
        if made is None:
            return None
        found.append(made)
    return tuple([fitted(column, axes) for column in zip(*found, strict=True)])


def between(runs: Runs, first: int, last: int) -> Runs:
    """Those from `first` to before `last`. Raises Unproved where it depends on the device which ones these are."""
    return tuple([(max(start, first), min(stop, last)) for start, stop in runs if start < last and stop > first])


def part(runs: Runs, size: int) -> tuple[int, int] | None:
    """(k, n) of runs that are the k-th of n equal parts of a dimension, from 0; None of others."""
    if len(runs) != 1:
        return None
    start, stop = runs[0]
    width = stop - start
    return (start // width, size // width) if not size % width and not start % width else None


def in_blocks(runs: Runs, size: int) -> bool:
    """Whether runs are of whole blocks of a size; of none where it is 0."""
    return size > 0 and not any(end % size for run in runs for end in run)


def grown(at: tuple[int, Runs], by: int) -> tuple[int, Runs]:
    """A dimension and its places, each of which stands for `by` places side by side."""
    size, runs = at
    return size * by, tuple([(start * by, stop * by) for start, stop in runs])


def merged(outer: tuple[int, Runs], inner: tuple[int, Runs]) -> tuple[int, Runs]:
    """Two dimensions, each with its size, as one in row-major order."""
    (n, rows), (m, columns) = outer, inner
    if columns == full(m):
        return n * m, tuple([(start * m, stop * m) for start, stop in rows])
    return n * m, joined(shifted(columns, (start + i) * m) for start, stop in rows for i in range(stop - start))


def parted(runs: Runs, size: int, inner: int, count: int) -> tuple[Runs, Runs] | None:
    """Places of a dimension as those of two, the inner one of size `inner`, of which there are `count`.

    None where they are no product of two sets.
    """
    try:
        return _parted(runs, size, inner, count)
    except Unproved:
        found = _on_each(partial(_parted, size=size, inner=inner, count=count), (runs,))
        return None if found is None else (found[0], found[1])


def _parted(runs: Runs, size: int, inner: int, count: int) -> tuple[Runs, Runs] | None:
    if not inner or size % inner:
        return None
    if count == inner:
        if any(start % inner or stop % inner for start, stop in runs):
            return None
        return tuple([(start // inner, stop // inner) for start, stop in runs]), full(inner)
    rows: list[tuple[int, list[tuple[int, int]]]] = []
    for start, stop in runs:
        while start < stop:
            row, end = start // inner, min(stop, (start // inner + 1) * inner)
            if not rows or rows[-1][0] != row or length(tuple(rows[-1][1])) == count:
                rows.append((row, []))
            rows[-1][1].append((start - row * inner, end - row * inner))
            start = end
    if not rows:
        return None
    columns = joined([tuple(rows[0][1])])
    if length(columns) != count or any(joined([tuple(own)]) != columns for _, own in rows):
        return None
    return joined([tuple([(row, row + 1) for row, _ in rows])]), columns


def are_within(runs: Runs, start: int, stop: int) -> bool:
    """Whether all of them are within `[start, stop)`, on each device that is represented."""
    try:
        return all(start <= first and last <= stop for first, last in runs)
    except Unproved:
        return False


def of_first(runs: Any) -> Any:
    """Those of the device that represents others."""
    return ranks.at(runs, _Zero())


class _Zero(dict[MeshAxis, ranks.Number]):
    """Rank 0 along each axis."""

    def __contains__(self, axis: object) -> bool:
        return True

    def __missing__(self, axis: MeshAxis) -> int:
        return 0


def shown(runs: Runs) -> str:
    """As text, for people: `0–63, 128–191`, the last place included."""
    words = [f"{start}" if stop == start + 1 else f"{start}–{stop - 1}" for start, stop in runs[:4]]
    return ", ".join(words) + (f" and {len(runs) - 4} more runs" if len(runs) > 4 else "")
