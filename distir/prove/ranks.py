"""Places that depend on the device: where one device represents a group, its place in the group may be any.

A device has a `rank` along each axis of the mesh, from 0. A `RankedPlace` is a number that is a sum of one for the
rank along each axis, as a rule a multiple: `4 + 8 i` is where the part of 8 of the device of rank i begins that is 4
rows further. Around a ring it is any: of four, the device before has rank 3, 0, 1, 2. Comparing two says what is so for
all ranks, and raises `Unproved` where it is so for some and not for others. So what is found of a representative is
what would be found, by the same steps, of each device that it represents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

from distir.prove.terms import Unproved


class MeshAxis(NamedTuple):
    """An axis of the mesh: how far apart neighbours along it are, and how many devices there are."""

    stride: int
    size: int


Step = int | tuple[int, ...]
"""By how much a number grows with each rank along an axis; or, by rank, by how much it is greater than that of rank 0.

The latter is for what is no multiple of the rank.
"""


class RankedPlace:
    """A number that is a sum of one for the rank along each axis: never the same for all of them."""

    __slots__ = ("_hash", "base", "steps")

    def __init__(self, base: int, steps: tuple[tuple[MeshAxis, Step], ...]) -> None:
        self.base = base
        """That of rank 0 along all axes."""
        self.steps = steps
        """What is added for ranks, in order of the axes; none is 0 for all."""
        self._hash = hash((base, steps))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Whether they are equal for all ranks. What is unequal may be equal for some of them."""
        return isinstance(other, RankedPlace) and (self.base, self.steps) == (other.base, other.steps)

    def __repr__(self) -> str:
        return f"RankedPlace({self.base}, {self.steps})"

    def __str__(self) -> str:
        """For people: that of the device that is written down."""
        return str(self.base)

    __format__ = object.__format__

    def __add__(self, other: Number) -> Number:
        return _affine([(1, self), (1, other)])

    __radd__ = __add__

    def __sub__(self, other: Number) -> Number:
        return _affine([(1, self), (-1, other)])

    def __rsub__(self, other: Number) -> Number:
        return _affine([(-1, self), (1, other)])

    def __neg__(self) -> Number:
        return _affine([(-1, self)])

    def __mul__(self, other: int) -> Number:
        return _affine([(other, self)])

    __rmul__ = __mul__

    def __lt__(self, other: Number) -> bool:
        return _is_negative(self - other)

    def __gt__(self, other: Number) -> bool:
        return _is_negative(other - self)

    def __le__(self, other: Number) -> bool:
        return not _is_negative(other - self)

    def __ge__(self, other: Number) -> bool:
        return not _is_negative(self - other)

    def __divmod__(self, other: int) -> tuple[Number, Number]:
        """Quotient and remainder, where both are such numbers. Raises Unproved where they are not."""
        if all(isinstance(step, int) and not step % other for _, step in self.steps):
            steps = tuple([(axis, step // other) for axis, step in self.steps if isinstance(step, int)])
            return RankedPlace(self.base // other, steps), self.base % other
        parts = [(axis, [divmod(n, other) for n in _by_rank(axis, step)]) for axis, step in self.steps]
        whole = _made(self.base // other, [(axis, tuple([n for n, _ in own])) for axis, own in parts])
        rest = _made(self.base % other, [(axis, tuple([n for _, n in own])) for axis, own in parts])
        low, high = bounds(rest)
        if low // other != high // other:
            raise Unproved(UNDECIDED)
        return whole + low // other, rest - low // other * other

    def __floordiv__(self, other: int) -> Number:
        return divmod(self, other)[0]

    def __mod__(self, other: int) -> Number:
        return divmod(self, other)[1]


Number = int | RankedPlace

UNDECIDED = "it depends on the device that one represents which places these are"


def _made(base: int, steps: Iterable[tuple[MeshAxis, Step]]) -> Number:
    kept = tuple(sorted([(axis, own) for axis, step in steps if (own := _least(step))], key=lambda own: own[0]))
    return RankedPlace(base, kept) if kept else base


def _least(step: Step) -> Step:
    """The same as a number, if it is a multiple of the rank."""
    if isinstance(step, int):
        return step
    return step[1] if all(n == rank * step[1] for rank, n in enumerate(step)) else step


def _by_rank(axis: MeshAxis, step: Step) -> tuple[int, ...]:
    """What is added for each rank."""
    return step if isinstance(step, tuple) else tuple([step * rank for rank in range(axis.size)])


def _affine(parts: Sequence[tuple[int, Number]]) -> Number:
    """The sum of numbers, each so many times."""
    base = 0
    steps: dict[MeshAxis, Step] = {}
    for count, number in parts:
        if isinstance(number, int):
            base += count * number
            continue
        base += count * number.base
        for axis, step in number.steps:
            before = steps.get(axis, 0)
            if isinstance(before, int) and isinstance(step, int):
                steps[axis] = before + count * step
            else:
                pairs = zip(_by_rank(axis, before), _by_rank(axis, step), strict=True)
                steps[axis] = tuple([a + count * b for a, b in pairs])
    return _made(base, steps.items())


def bounds(number: Number) -> tuple[int, int]:
    """The least and the greatest that it is for any ranks."""
    if isinstance(number, int):
        return number, number
    low = high = number.base
    for axis, step in number.steps:
        ends = (0, step * (axis.size - 1)) if isinstance(step, int) else step
        low, high = low + min(ends), high + max(ends)
    return low, high


def _is_negative(number: Number) -> bool:
    low, high = bounds(number)
    if low < 0 <= high:
        raise Unproved(UNDECIDED)
    return high < 0


RANK = "rank"
"""The kind of an atom that is a device's rank along an axis."""


def rank(axis: MeshAxis) -> RankedPlace:
    """The rank of a device along an axis."""
    return RankedPlace(0, ((axis, 1),))


def mesh(groups: Iterable[tuple[int, int]]) -> tuple[MeshAxis, ...]:
    """The axes of which all groups, each with its size and stride, are made. Raises Unproved where there are none."""
    spans = sorted({(stride, stride * size) for size, stride in groups if size > 1})
    cuts = sorted({end for span in spans for end in span})
    found: list[MeshAxis] = []
    for start, stop in pairwise(cuts):
        if not any(low <= start and stop <= high for low, high in spans):
            continue
        if stop % start:
            raise Unproved(f"devices {start} apart, and devices {stop} apart, are groups of no mesh")
        found.append(MeshAxis(start, stop // start))
    return tuple(found)


def axes_of(axes: Sequence[MeshAxis], size: int, stride: int) -> tuple[MeshAxis, ...]:
    """The axes that a group is made of, the innermost first."""
    return tuple(axis for axis in axes if stride <= axis.stride < stride * size)


def ranks(axes: Sequence[MeshAxis]) -> list[dict[MeshAxis, int]]:
    """The ranks of the devices of a group along its axes, in the order of the devices."""
    found: list[dict[MeshAxis, int]] = [{}]
    for axis in axes:
        found = [{**inner, axis: rank} for rank in range(axis.size) for inner in found]
    return found


def axes_in(thing: Any) -> frozenset[MeshAxis]:
    """The axes along which something that has places in it depends on the device."""
    if isinstance(thing, RankedPlace):
        return frozenset([axis for axis, _ in thing.steps])
    found: frozenset[MeshAxis] = NONE
    if isinstance(thing, tuple):
        for item in cast("tuple[Any, ...]", thing):
            if not isinstance(item, (str, int, float)):
                found = found | axes_in(item)
    return found


NONE: frozenset[MeshAxis] = frozenset()


def at(thing: Any, given: Mapping[MeshAxis, Number]) -> Any:
    """The same of nested tuples for these ranks. Raises Unproved where one is no number, and each has its own place."""
    if isinstance(thing, RankedPlace):
        kept = tuple([own for own in thing.steps if own[0] not in given])
        found: Number = RankedPlace(thing.base, kept) if kept else thing.base
        for axis, step in thing.steps:
            if axis in given:
                found = found + _times(step, given[axis])
        return found
    return tuple([at(item, given) for item in cast("tuple[Any, ...]", thing)]) if isinstance(thing, tuple) else thing


def _times(step: Step, rank: Number) -> Number:
    """What is added for a rank."""
    if isinstance(step, int):
        return step * rank
    if not isinstance(rank, int):
        raise Unproved(UNDECIDED)
    return step[rank]


def fitted(things: Sequence[Any], axes: Sequence[MeshAxis]) -> Any:
    """What is these things, nested tuples of numbers, for the devices of a group. Raises Unproved where nothing is."""
    first = things[0]
    if all(thing == first for thing in things[1:]):
        return first
    if isinstance(first, tuple):
        if any(not isinstance(row, tuple) or len(cast("tuple[Any, ...]", row)) != len(things[0]) for row in things):
            raise Unproved(UNEVEN)
        return tuple([fitted(column, axes) for column in zip(*things, strict=True)])
    if not all(isinstance(thing, (int, RankedPlace)) for thing in things):
        raise Unproved(UNEVEN)
    steps: list[tuple[MeshAxis, Step]] = []
    width = 1
    for axis in axes:
        own = [things[width * rank] - first for rank in range(axis.size)]
        if not all(isinstance(step, int) for step in own):
            raise Unproved(UNEVEN)
        steps.append((axis, tuple(own)))
        width *= axis.size
    made = first + _made(0, steps)
    if any(at((made,), own) != (thing,) for own, thing in zip(ranks(axes), things, strict=True)):
        raise Unproved(UNEVEN)
    return made


UNEVEN = "nothing says for all devices of the group at once which parts they have"
