"""Calls that differ only in the offsets of their operands' places: one symbolic call represents all of them.

Microbatches and replicas call a function on other rows of the batch. Here the offset of these rows is a symbol: a rank
along an axis of its own, as if one device represented all calls (`ranks.py`). A result in terms of the rank holds for
each call, with the call's own offset in its place.

Dimensions are identified by their size: the places of all operands along dimensions of one size share an offset, so
that their overlaps stay. These axes are not axes of the mesh: no collective runs along them.

Of a partial sum that is an operand, the number of addends does not matter, only which of them other operands have too.
Addends that are in the same operands are a *cell*, and count as one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Any, cast

from distir.prove import runs as places
from distir.prove.ranks import MeshAxis, Number, RankedPlace, axes_in, bounds, rank
from distir.prove.runs import Runs
from distir.prove.terms import Atom, Unproved

Shift = int
"""What is added to the places of dimensions of a size; as places, it may depend on the device."""


def is_of_call(axis: MeshAxis) -> bool:
    """Whether it is the axis of a beginning, and none of the mesh."""
    return axis.stride < 0


def depends_on_call(thing: Atom | Any) -> bool:
    """Whether an atom, or something that has places in it, depends on where a call's places begin."""
    return any(map(is_of_call, thing.axes if isinstance(thing, Atom) else axes_in(thing)))


def shifts(found: Mapping[int, Collection[Runs]]) -> tuple[dict[int, Shift], dict[MeshAxis, Number]]:
    """By how much the places of dimensions of each size move, and which ranks theirs are.

    `found`: by size, which places operands have that are not all. Raises Unproved where some depend on where the places
    of an outer call begin, and cannot move.
    """
    moved: dict[int, Shift] = {}
    own: dict[MeshAxis, Number] = {}
    for size, sets in found.items():
        ends = {end for runs in sets for run in runs for end in run}
        beginning = _beginning(size, ends)
        if beginning is None:
            if any(depends_on_call((end,)) for end in ends):
                raise Unproved("the places of an outer call are in the way")
            continue
        begin, step, count = beginning
        at = begin // step
        axis = next((axis for axis, number in own.items() if axis.size == count and number == at), None)
        if axis is None:  # dimensions that consist of others, as rows of tokens, move along the same axis
            axis = MeshAxis(-1 - len(own), count)
            own[axis] = at
        moved[size] = cast("Shift", rank(axis) * step - begin)
    return moved, own


def _beginning(size: int, ends: Collection[Number]) -> tuple[Number, int, int] | None:
    """Where places begin, in steps of what, and how many beginnings there may be; None where there is one alone."""
    parts = {_parted(end) for end in ends}
    steps = {(on_mesh, own) for _, on_mesh, own in parts}
    if len(steps) != 1:
        return None
    ((on_mesh, own),) = steps
    if not all(isinstance(step, int) for _, step in own):
        return None
    bases = [base for base, _, _ in parts]
    first = min(bases)
    least, most = bounds(RankedPlace(0, on_mesh))
    room = size - (max(bases) - first) - most
    begin = RankedPlace(first, own) if own else first
    low, high = bounds(begin)
    step = gcd(size, *bases, *[step for _, step in own if isinstance(step, int)])
    return (begin, step, room // step + 1) if min(low, least) >= 0 and max(high, step) <= room else None


def _parted(end: Number) -> tuple[int, tuple[Any, ...], tuple[Any, ...]]:
    """A place of rank 0, what the mesh adds to it, and what outer calls do."""
    if isinstance(end, int):
        return end, (), ()
    on_mesh = tuple([step for step in end.steps if not is_of_call(step[0])])
    return end.base, on_mesh, tuple([step for step in end.steps if is_of_call(step[0])])


@dataclass(frozen=True, slots=True)
class Cells:
    """Addends of a sum that are in the same operands, as one each."""

    count: int
    inside: Mapping[Runs, Runs]
    """Which ones are the addends that an operand has."""
    addends: Sequence[Runs]
    """Of each. Of the last one of `count` they are not given where no operand has these."""

    def of(self, runs: Runs) -> Runs:
        """The addends of some of them."""
        found = places.union([self.addends[k] for start, stop in runs for k in range(start, stop)])
        assert found is not None
        return found


def cells(size: int, sets: Sequence[Runs]) -> Cells | None:
    """The cells of a sum of which operands have these sets of addends; None where they depend on the device."""
    ends = {end for runs in sets for run in runs for end in run}
    if any(not is_of_call(axis) for axis in axes_in(tuple(ends))):
        return None
    found: dict[tuple[int, ...], list[tuple[Number, Number]]] = {}
    try:
        for first, last in pairwise(sorted(ends)):
            own = [k for k, runs in enumerate(sets) if any(start <= first and last <= stop for start, stop in runs)]
            found.setdefault(tuple(own), []).append((first, last))
    except Unproved:
        return None
    found.pop((), None)
    addends = {own: places.joined([cast("Runs", tuple(spans))]) for own, spans in sorted(found.items())}
    inside = {
        runs: places.joined([((i, i + 1),) for i, own in enumerate(addends) if k in own]) for k, runs in enumerate(sets)
    }
    is_all = places.union(addends.values()) == places.full(size)
    return Cells(len(addends) + (not is_all), inside, tuple(addends.values()))
