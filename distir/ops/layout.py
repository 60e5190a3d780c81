"""Layout: which dimensions of an op's operands and results are one and the same, and what splitting them leaves.

A rule `@Op.sharding` gives one where the signature cannot. Knows no devices: `transform` decides what is split.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol

from distir.ir import Arg, Constant, Dim, DimensionError, Shape, TensorType, dims

Letters = tuple[str | None, ...]
"""A letter for each dimension; None for one that must be whole."""

Blocks = tuple[Dim, ...]
"""The sizes of the parts that a dimension was joined from, or is to be cut into, each to be split by itself."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The letters of an op's dimensions, for certain operands.

    Let a letter be split. Operands that have it are split there, the others are whole. Results that have it are split
    there; the others are partial sums, one on each device, whose sum is the result.
    """

    operands: tuple[Letters, ...]
    results: tuple[Letters, ...]
    averaged: frozenset[str] = frozenset()
    """Letters over which a mean is taken: the partial results are to be divided by the number of devices."""
    scaled: int | None = None
    """The operand that is to be divided in the place of the results, if letters are averaged."""
    divided: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Attributes to be divided by the number of devices when the letter is split."""
    divided_operands: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Operands, host values, to be divided likewise."""
    operand_blocks: Mapping[tuple[int, int], Blocks] = field(default_factory=dict[tuple[int, int], Blocks])
    """By operand and axis: the blocks of that dimension, which must all be split alike."""
    result_blocks: Mapping[tuple[int, int], Blocks] = field(default_factory=dict[tuple[int, int], Blocks])
    contiguous: frozenset[str] = frozenset()
    """Letters whose dimensions cannot be in blocks: they are regrouped."""
    stated: int | None = None
    """The operand, a host value, that states the shape of the first result."""
    relative: tuple[int, ...] = ()
    """Sizes in that operand that take the dimension from other operands, and so hold for parts as for the whole."""
    parted: str | None = None
    """The letter that is split only as the op's rule `parted` says, in other ops."""
    others: tuple[Layout, ...] = ()
    """Other layouts that are right as well, less likely ones last."""


class Parts(Protocol):
    """Writes what an op is on each device, which has a part of an operand: for rules `parted`. Values are names."""

    size: int
    """How many devices there are."""

    def __call__(self, op: str, *args: Arg, **attrs: Constant) -> Arg:
        """The result of another op, on each device by itself."""
        ...

    def sum(self, x: Arg) -> Arg:
        """The sum over the devices, on each of them."""
        ...

    def greatest(self, x: Arg, axis: int) -> Arg:
        """The greatest over the devices, on each of them; `x` has a dimension of 1 at `axis`."""
        ...

    def own(self, positions: Arg, length: int) -> tuple[Arg, Arg]:
        """Positions from 0 to `length` counted in the device's own part, 0 for the others; and which are its own."""
        ...

    def type(self, x: Arg) -> TensorType:
        """The type of an operand of the op in the whole program."""
        ...


MOST_BLOCKS = 8
"""In how many blocks a dimension may be for one that it is regrouped with: queries, keys and values are 3."""


def regrouping(before: Shape | None, after: Shape | None) -> Layout:
    """The layout of dimensions that are regrouped in row-major order, of one operand and one result.

    In each group the outermost dimension can be split. A dimension that is cut into several, or joined from several,
    can also be split along an inner one of those, and is then in blocks: that is what the other layouts say.
    """
    old: list[str | None] = [None] * len(before or ())
    new: list[str | None] = [None] * len(after or ())
    contiguous: set[str] = set()
    inner: list[tuple[list[int], list[int]]] = []
    for left, right in _groups(before or (), after or ()):
        letter = f"g{left[0]}"
        old[left[0]] = new[right[0]] = letter
        if len(left) + len(right) > 2:
            contiguous.add(letter)
            inner.append((left, right))
    main = Layout((tuple(old),), (tuple(new),), contiguous=frozenset(contiguous))
    others = [other for left, right in inner for other in _inner(main, before or (), after or (), left, right)]
    return replace(main, others=tuple(others))


def _inner(main: Layout, before: Shape, after: Shape, left: list[int], right: list[int]) -> Iterator[Layout]:
    """The layouts in which a group is split along a dimension that is not its outermost."""
    joins = len(right) == 1
    if not joins and len(left) > 1:
        return
    one, many, sizes = (right[0], left, before) if joins else (left[0], right, after)
    whole, letter = (after if joins else before)[one], f"g{left[0]}"
    count = 1
    for outer, factor in pairwise(many):
        size = sizes[outer]
        if not isinstance(size, int) or not isinstance(whole, int) or count * size > MOST_BLOCKS:
            return
        count *= size
        letters = list(main.operands[0] if joins else main.results[0])
        letters[many[0]], letters[factor] = None, letter
        blocks = {(0, one): (whole // count,) * count}
        moved, kept = (tuple(letters),), main.contiguous - {letter}
        if joins:
            yield replace(main, operands=moved, result_blocks=blocks, contiguous=kept)
        else:
            yield replace(main, results=moved, operand_blocks=blocks, contiguous=kept)


def _groups(before: Shape, after: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """Which dimensions hold the same elements, those of 1 left out; what cannot be told is left out, too."""
    i = j = 0
    while i < len(before) and j < len(after):
        first, last = (i, j), _group(before, after, i, j)
        if last is None:
            return
        i, j = last
        left = [k for k in range(first[0], i) if before[k] != 1]
        right = [k for k in range(first[1], j) if after[k] != 1]
        if left and right:
            yield left, right


def _group(before: Shape, after: Shape, i: int, j: int) -> tuple[int, int] | None:
    """Where the group that begins at `i` and `j` ends: the shortest with equally many elements; None if unknown."""
    left, right = before[i], after[j]
    i, j = i + 1, j + 1
    while left != right:
        if left is None or right is None:
            return None
        grow_left = _divides(left, right)
        if grow_left and i < len(before):
            left, i = dims.multiply(left, before[i]), i + 1
        elif not grow_left and j < len(after):
            right, j = dims.multiply(right, after[j]), j + 1
        else:
            return None
    return None if left is None else (i, j)


def _divides(a: Dim, b: Dim) -> bool:
    """Whether `a` is the smaller one, as far as can be told."""
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    try:
        return dims.divide(b, a) is not None
    except DimensionError:
        return False


def elementwise(shapes: Sequence[Shape | None]) -> tuple[Letters, ...]:
    """Letters for operands of one shape."""
    return tuple(tuple(f"s{k}" for k in range(len(shape or ()))) for shape in shapes)
