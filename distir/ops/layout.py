"""Layouts: the dimensions that an op's operands and results share, and the results of splitting them over devices.

A layout follows from the signature or from a rule `@Op.sharding`. `transform` decides which dimensions are split.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from distir.ir import Arg, Constant, Dim, DimensionError, Shape, SymbolicDim, TensorType, dims
from distir.ir.places import Block, Blocks, Repeated, Shared

Letters = tuple[str | None, ...]
"""A letter for each dimension; None for one that cannot be split."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Operands that are split along one letter are brought to be split along another one, and results back.

    `kept`: the results that are not brought back, as only the op's gradient takes them.
    """

    before: str
    inside: str
    mark: str
    """The attribute that says so: it is left out then."""
    kept: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Layout:
    """The letters of an op's dimensions, for given operands.

    If a letter is split, operands and results with it are split along its dimension. Other operands are replicated, and
    other results are partial sums, whose sum over the devices is the result.
    """

    operands: tuple[Letters, ...]
    results: tuple[Letters, ...]
    averaged: frozenset[str] = frozenset()
    """Letters over which a mean is taken: the partial results must be divided by the number of devices."""
    scaled: int | None = None
    """The operand to divide instead of the results, for averaged letters."""
    factors: tuple[int, ...] = ()
    """Operands in which each term of a sum is linear, although the op is not, as it adds something to the sum."""
    divided: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Letter -> attributes to divide by the number of devices if it is split."""
    divided_operands: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Letter -> host operands to divide by the number of devices if it is split."""
    operand_blocks: Mapping[tuple[int, int], Blocks] = field(default_factory=dict[tuple[int, int], Blocks])
    """(operand, axis) -> the blocks of that dimension; empty where it cannot be in blocks."""
    result_blocks: Mapping[tuple[int, int], Blocks] = field(default_factory=dict[tuple[int, int], Blocks])
    apart: str | None = None
    """The letter of a dimension whose blocks are separate dimensions, one of each operand or result.

    Some of them may be split and others replicated.
    """
    contiguous: frozenset[str] = frozenset()
    """Letters whose dimensions cannot be in blocks, because they are regrouped."""
    grains: Mapping[str, int] = field(default_factory=dict[str, int])
    """Letter -> how many of its places, side by side, are one place of the operands and results with fewer: a block."""
    stated: int | None = None
    """The host operand with the shape of the first result."""
    relative: tuple[int, ...] = ()
    """Indices of sizes in that operand that refer to other operands' dimensions, and so are valid for parts, too."""
    start: int | None = None
    """The host operand with the position, by dimension, at which the first operand begins in the whole tensor."""
    starts: bool = False
    """Whether it may list several: of runs of one length."""
    located: frozenset[str] = frozenset()
    """Letters for which it must be stated if they are split: the op depends on positions in the whole tensor."""
    parted: frozenset[str] = frozenset()
    """Letters that can be split only by the decomposition that the op's rule `parted` writes."""
    again: bool = False
    """Whether what that rule writes for one letter may be split along another: it has the op itself, on parts."""
    gathered: frozenset[str] = frozenset()
    """Those of which that rule gathers parts, in blocks or not: the op asks nothing of how they are split."""
    blocked: frozenset[str] = frozenset()
    """Letters among these whose dimensions may be in blocks of one size."""
    instead: str | None = None
    """The hint for users if microbatches would split such a letter."""
    positions: int | None = None
    """The operand with positions along such a letter, as of rows or classes."""
    whole: frozenset[int] = frozenset()
    """Results that each device has whole where they lack the letter that is split: no partial sums."""
    greatest: frozenset[int] = frozenset()
    """Results that are partial maxima then: the greatest over the devices, element by element, is the result."""
    owned: str | None = None
    """The letter of weights that are not moved: if it is split, the op is split along it, regardless of others."""
    sequence: str | None = None
    """The letter of places in a sequence, along which context parallelism splits."""
    exchanged: Exchange | None = None
    """The letter that is split instead of that, between two all-to-alls."""
    others: tuple[Layout, ...] = ()
    """Alternative layouts, the most likely first."""


class WholeParts(Protocol):
    """The interface of `parted` rules for letters that are `gathered`: ops of each device on its parts, as names."""

    def __call__(self, op: str, *args: Arg, **attrs: Constant) -> Arg:
        """Write an op on each device. Returns its result."""
        ...

    def whole(self, x: Arg, like: Arg) -> Arg:
        """A value that is split as the operand `like` is, whole on each device."""
        ...

    def part(self, x: Arg, like: Arg) -> Arg:
        """The part of a whole value that this device has, split as the operand `like` is."""
        ...

    def type(self, x: Arg) -> TensorType:
        """The type of an operand before the split."""
        ...


class Parts(WholeParts, Protocol):
    """The interface of all `parted` rules, which write the ops of each device on its parts."""

    size: int
    """The number of devices."""
    letter: str
    """The letter that is split."""

    def several(self, op: str, count: int, *args: Arg, **attrs: Constant) -> tuple[Arg, ...]:
        """Write an op with `count` results on each device. Returns them."""
        ...

    def sum(self, x: Arg) -> Arg:
        """The sum over the devices (all-reduce)."""
        ...

    def greatest(self, x: Arg, axis: int) -> Arg:
        """The maximum over the devices, on each of them. `x` has size 1 along `axis`."""
        ...

    def gathered(self, x: Arg, axis: int, in_order: bool = True) -> Arg:
        """The parts of all devices, along `axis`: in order of the whole, or where that is cheaper, of the devices."""
        ...

    def scattered(self, x: Arg, axis: int, in_order: bool = True) -> Arg:
        """The part of this device along `axis` of the sum over the devices of what `gathered` gives the order of."""
        ...

    def places(self, length: int) -> tuple[int, ...]:
        """The starts of runs of equal length in an axis of `length`, in order of the devices; (0,) if contiguous."""
        ...

    def own_places(self, length: int, behind: int = 0) -> Arg:
        """The starts of the runs of this device's part of such an axis, or of a device `behind` it in a ring."""
        ...

    def shifted(self, x: Arg) -> Arg:
        """The value of the previous device in a ring."""
        ...

    def own(self, positions: Arg, length: int) -> tuple[Arg, Arg]:
        """Positions from 0 to `length` relative to the device's part, 0 outside of it; and the mask of those inside."""
        ...


__all__ = [
    "Block",
    "Blocks",
    "Exchange",
    "Layout",
    "Letters",
    "Parts",
    "Repeated",
    "Shared",
    "WholeParts",
    "elementwise",
    "equal_blocks",
    "regrouping",
]

MOST_BLOCKS = 8
"""Up to how many blocks of one size are listed one by one: queries, keys and values are 3."""


def equal_blocks(block: Dim, count: int) -> Blocks:
    """`count` blocks of equal size; none if the size is unknown, or there are too many to list."""
    if count <= MOST_BLOCKS:
        return (block,) * count
    return (Repeated(block),) if isinstance(block, int) else ()


def regrouping(before: Shape | None, after: Shape | None) -> Layout:
    """The layout of a row-major reshape of one operand to one result.

    In each group the outermost dimension can be split. It can also be split along an inner one of the factors that its
    dimensions have in common (of batches, heads and sizes, the heads): what is joined of several factors is in blocks
    then. That is what the other layouts say.
    """
    before, after = before or (), after or ()
    old: list[str | None] = [None] * len(before)
    new: list[str | None] = [None] * len(after)
    contiguous: set[str] = set()
    inner: list[tuple[list[int], list[int]]] = []
    for left, right in _groups(before, after):
        letter = f"g{left[0]}"
        old[left[0]] = new[right[0]] = letter
        if len(left) + len(right) > 2:
            contiguous.add(letter)
            inner.append((left, right))
    main = Layout((tuple(old),), (tuple(new),), contiguous=frozenset(contiguous))
    others = [other for left, right in inner for other in _inner(main, before, after, left, right)]
    return replace(main, others=tuple(others))


def _inner(main: Layout, before: Shape, after: Shape, left: list[int], right: list[int]) -> Iterator[Layout]:
    """The layouts in which a group is split along an inner factor."""
    letter = f"g{left[0]}"
    factors = _factors([before[i] for i in left], [after[j] for j in right])
    for at, (_, i, j) in enumerate(factors[1:], 1):
        old, new = list(main.operands[0]), list(main.results[0])
        old[left[0]] = new[right[0]] = None
        old[left[i]] = new[right[j]] = letter
        own = _blocks_of([(n, k == i) for n, k, _ in factors], at)
        made = _blocks_of([(n, k == j) for n, _, k in factors], at)
        if own is not None and made is not None:
            yield replace(
                main,
                operands=(tuple(old),),
                results=(tuple(new),),
                operand_blocks={(0, left[i]): own[0]} if own else {},
                result_blocks={(0, right[j]): made[0]} if made else {},
                contiguous=main.contiguous - {letter},
            )


def _factors(left: Sequence[Dim], right: Sequence[Dim]) -> list[tuple[Dim, int, int]]:
    """The factors that dimensions of equally many elements have in common, and of which ones they are.

    None if these do not match.
    """
    found: list[tuple[Dim, int, int]] = []
    i = j = 0
    a, b = left[0], right[0]
    while True:
        if a == b:
            found.append((a, i, j))
            i, j = i + 1, j + 1
            if i == len(left) or j == len(right):
                return found
            a, b = left[i], right[j]
        elif (rest := _quotient(b, a)) is not None and i + 1 < len(left):
            found.append((a, i, j))
            i, a, b = i + 1, left[i + 1], rest
        elif (rest := _quotient(a, b)) is not None and j + 1 < len(right):
            found.append((b, i, j))
            j, a, b = j + 1, rest, right[j + 1]
        else:
            return []


def _blocks_of(factors: Sequence[tuple[Dim, bool]], at: int) -> list[Blocks] | None:
    """The blocks of the dimension that has some of the factors, split along one; an empty list if it is that one.

    None if they are unknown.
    """
    outer = dims.product(n for n, own in factors[:at] if own)
    block = dims.product(n for n, own in factors[at:] if own)
    if outer == 1:
        return [()] if block != factors[at][0] else []
    if not isinstance(block, int):
        return None
    return [equal_blocks(block, outer) if isinstance(outer, int) else (Repeated(block),)]


def _quotient(a: Dim, b: Dim) -> Dim:
    """`a / b`; None if it is not exact."""
    if a is None or b is None:
        return None
    try:
        found = dims.divide(a, b)
    except DimensionError:
        return None
    return None if isinstance(found, SymbolicDim) and found.denominator != 1 else found


def _groups(before: Shape, after: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """The groups of dimensions with the same elements, without those of 1 and those that are unknown."""
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
    """The end of the shortest group from `i` and `j` on with equally many elements; None if unknown."""
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
    """Whether `a` is smaller, or divides `b` if they are symbolic."""
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    try:
        return dims.divide(b, a) is not None
    except DimensionError:
        return False


def elementwise(shapes: Sequence[Shape | None]) -> tuple[Letters, ...]:
    """The letters of operands of equal shapes."""
    return tuple(tuple(f"s{k}" for k in range(len(shape or ()))) for shape in shapes)
