"""Pieces: what a value of the distributed program is of whole terms.

A piece is a linear combination of atoms, all of one whole shape, of which it has certain places along each dimension.
Of an atom that is a sum, as of a matrix product over its inner dimension, it may have some of the addends only: then
it is a partial sum. `algebra.py` adds pieces, `moving.py` cuts, joins and moves them; `lifting.py` has what ops do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from distir.ir import Dense, Literal, TensorType
from distir.ops import Value, type_of
from distir.ops.numeric import dense
from distir.prove import runs as places
from distir.prove.runs import Runs
from distir.prove.terms import Atom, Form, OpDetails, Shape, Unproved, combined

Addends = tuple[tuple[int, Runs], ...]
"""Which addends of a sum: by the sum's number, in ascending order. Empty: all."""

Term = tuple[Atom, float, Addends]


@dataclass(frozen=True, slots=True)
class Through:
    """Names the sum that an op, linear in an operand, is of a sum in the operand's place: over the same addends."""

    op: str
    operand: int
    operands: tuple[Form, ...]
    """The others, and none in that one's place."""
    details: OpDetails
    linear: tuple[int, ...]
    number: int
    """The operand's sum."""


@dataclass(frozen=True, slots=True)
class TermPiece:
    """Of which terms, and which places of each dimension; `value` is the type, or the value where it is known."""

    value: Value
    whole: Shape
    runs: tuple[Runs, ...]
    terms: tuple[Term, ...]
    _hash: int = field(default=0, init=False, repr=False, compare=False)
    """Computed once, as the weights of a model are operands of many calls; 0: not yet."""

    def __hash__(self) -> int:
        if not self._hash:
            object.__setattr__(self, "_hash", hash((self.value, self.whole, self.runs, self.terms)) or 1)
        return self._hash

    @property
    def shape(self) -> Shape:
        """The piece's own shape."""
        return tuple([places.length(own) for own in self.runs])

    @property
    def is_whole(self) -> bool:
        """Whether it has all places of each dimension, and all addends."""
        return self.has_all_places and not self.is_partial

    @property
    def has_all_places(self) -> bool:
        """Whether it has all places of each dimension."""
        return all(own == places.full(size) for own, size in zip(self.runs, self.whole, strict=True))

    @property
    def is_partial(self) -> bool:
        """Whether some addends of a sum are missing."""
        return any(addends for _, _, addends in self.terms)

    @property
    def form(self) -> Form:
        """The whole that it is a piece of. Of a partial sum: the sum."""
        return combined([(atom, c) for atom, c, _ in self.terms])

    @property
    def constant(self) -> Atom | None:
        """The constant that it is, or a multiple of it."""
        if len(self.terms) == 1 and self.terms[0][0].kind in ("constant", "fill") and self.has_all_places:
            return self.terms[0][0]
        return None


def is_free(piece: TermPiece, axis: int) -> bool:
    """Whether all elements along a dimension are equal, as they were broadcast: then any places of any size are.

    Zeros, which have no terms, are so along each.
    """
    return all(
        atom.kind == "fill"
        or (atom.kind == "spread" and _size(atom.operands[0][0][0].shape, axis - (axis >= 0) * len(piece.whole)) == 1)
        for atom, _, _ in piece.terms
    )


def _size(shape: Shape, axis: int) -> int:
    """The size of a dimension, counted from the end; 1 where there is none."""
    return shape[axis] if len(shape) >= -axis else 1


def shape_of(value: Value) -> Shape:
    """The sizes of a value's dimensions. Raises Unproved where they are not numbers."""
    found = type_of(value)
    shape = found.shape if isinstance(found, TensorType) else None
    if shape is None or not all(isinstance(dim, int) for dim in shape):
        raise Unproved(f"the shape of `{found}` is not known")
    return tuple([dim for dim in shape if isinstance(dim, int)])


def elements(value: Dense | Literal) -> tuple[Any, ...] | None:
    """The numbers that a known value holds, in row-major order; None where some are names of sizes."""
    held = value.value if isinstance(value, Literal) else value
    if isinstance(held, Dense):
        return None if held.symbolic else held.values
    if isinstance(held, tuple):
        return dense(held).values if any(isinstance(item, tuple) for item in held) else tuple(held)
    return (held,) if isinstance(held, (bool, int, float)) else None


def at_odds(axis: int, one: tuple[int, Runs], other: tuple[int, Runs]) -> str:
    """What to say of two operands with different places of one dimension."""
    if one[0] != other[0]:
        return f"of dimension {axis}, one operand is a part of {one[0]} places and another of {other[0]}"
    return (
        f"of dimension {axis}, one operand has the places {places.shown(one[1])} and another "
        f"{places.shown(other[1])} of {one[0]}"
    )


def in_order(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Terms in an order in which they are compared."""
    found = list(terms)
    try:
        found.sort(key=lambda term: (term[0].number, term[2]))
    except Unproved:  # which places come first depends on the device: any order will do
        found.sort(key=lambda term: (term[0].number, repr(term[2])))
    return tuple(found)


def with_addends(others: Addends, number: int, at: Runs) -> Addends:
    """Addends of one more sum."""
    return tuple(sorted((*others, (number, at))))
