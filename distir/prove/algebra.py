"""Arithmetic on pieces, at the programs' real sizes: constants, sums, and parts of sums that are added up.

It keeps what the sequential program does to wholes as advice on how to name them. Advice never makes a relation true:
each one is checked by arithmetic on places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from distir.ir import Attributes, Dense, External, Literal, TensorType
from distir.ops import Op, Value, type_of
from distir.ops.numeric import np
from distir.prove import runs as places
from distir.prove.pieces import (
    Addends,
    Term,
    TermPiece,
    Through,
    at_odds,
    elements,
    in_order,
    is_free,
    shape_of,
    with_addends,
)
from distir.prove.ranks import axes_in
from distir.prove.runs import Runs
from distir.prove.terms import DIGITS, Atom, Form, Shape, Terms, Unproved, combined, factor, scaled_out

MOST_EXACT = 10**11
"""The greatest integer that is a factor: factors are rounded."""

SUMS = "a sum is the sum of its parts, in any order"
NONE_BEFORE = "none before"
"""Marks a sum whose addends are zero at places behind their own."""

LINEAR = "what is linear in a sum is the sum of what it is of the addends"
FACTORS = f"factors may be taken out of what is linear, and are rounded to {DIGITS} digits"


@dataclass
class Algebra:
    """The terms of both programs, the sums of which there are partial ones, and what the sequential program does."""

    terms: Terms
    sequential: bool = True
    """Which program is being interpreted: the sequential one gives advice, the distributed one uses it."""
    sums: dict[Any, int] = field(default_factory=dict[Any, int])
    """The sums of which there are partial ones, by what they are, numbered."""
    sizes: list[int] = field(default_factory=list[int])
    """How many addends each one has."""
    names: list[Through | tuple[Any, ...]] = field(default_factory=list["Through | tuple[Any, ...]"])
    """What each one is."""
    windows: dict[Any, set[tuple[int, int]]] = field(default_factory=dict[Any, "set[tuple[int, int]]"])
    """Which parts of a dimension have terms of their own, by what the combination's atoms are and the axis."""
    shapes: dict[Shape, dict[Shape, None]] = field(default_factory=dict[Shape, "dict[Shape, None]"])
    """Into which shapes each shape was regrouped."""
    constants: dict[Shape, dict[Atom, None]] = field(default_factory=dict[Shape, "dict[Atom, None]"])
    """The constants of each shape."""

    attributes: dict[str, dict[Attributes, None]] = field(default_factory=dict[str, "dict[Attributes, None]"])
    """With which attributes each op was applied."""

    names_of: dict[tuple[Shape, Form], str] = field(default_factory=dict[tuple[Shape, Form], str])
    """The sequential program's names of whole values."""
    multiples_of: dict[tuple[Shape, Form], tuple[str, float]] = field(
        default_factory=dict[tuple[Shape, Form], "tuple[str, float]"]
    )
    """The same by combinations whose first factor is 1, with how often a value is that."""
    laws: dict[str, None] = field(default_factory=dict[str, None])
    """The laws of real numbers that were used."""

    wholes: dict[Any, Any] = field(default_factory=dict[Any, Any])
    """What is known of ops on wholes, by their types."""

    operand: Callable[[Op, int], str] | None = None
    """Says what the program calls an operand of the op that is being interpreted."""

    def label(self, op: Op, index: int) -> str:
        """What to call an operand."""
        return self.operand(op, index) if self.operand is not None else op.operand_name(index)

    def name(self, piece: TermPiece, name: str) -> None:
        """A value of the sequential program has a name."""
        form = piece.form
        self.names_of.setdefault((piece.whole, form), name)
        whole, c = scaled_out(form)
        self.multiples_of.setdefault((piece.whole, whole), (name, c))

    def of_value(self, value: Value) -> TermPiece:
        """A host value that is known, or an op's result of which all that is known is its type. Raises Unproved."""
        shape = shape_of(value)
        if isinstance(value, (Dense, Literal)):
            return TermPiece(value, shape, tuple(map(places.full, shape)), self._constant(value, shape))
        if isinstance(value, External):
            atom = self.terms.atom("external", shape, details=(value.dtype.name, value.reference))
            return TermPiece(value, shape, tuple(map(places.full, shape)), ((atom, 1.0, ()),))
        raise Unproved("the value is not known")

    def _constant(self, value: Dense | Literal, shape: Shape) -> tuple[Term, ...]:
        numbers = elements(value)
        if numbers is None:
            raise Unproved("a size is a name: give it a number")
        if numbers and all(n == numbers[0] for n in numbers[1:]):
            number = float(numbers[0])
            if not math.isfinite(number) or (number.is_integer() and abs(number) > MOST_EXACT):
                return ((self.terms.fill(number, shape), 1.0, ()),)
            return ((self.terms.fill(1.0, shape), factor(number), ()),) if number else ()
        atom = self.terms.atom("constant", shape, details=(_kind(value), _Numbers(numbers)))
        if self.sequential:
            self.constants.setdefault(shape, {})[atom] = None
        return ((atom, 1.0, ()),)

    def sum_number(self, name: Through | tuple[Any, ...], size: int) -> int:
        """The number of a sum with so many addends."""
        found = self.sums.get(name)
        if found is None:
            found = self.sums[name] = len(self.sizes)
            self.sizes.append(size)
            self.names.append(name)
        assert self.sizes[found] == size
        return found

    def added(self, value: Value, pieces: Sequence[tuple[float, TermPiece]]) -> TermPiece:
        """The sum of pieces with factors, which broadcast. Raises Unproved where they are of different places."""
        rank = max(len(piece.whole) for _, piece in pieces)
        fixed = [piece for _, piece in pieces if piece.constant is None and piece.terms]
        whole: list[int] = []
        runs: list[Runs] = []
        for axis in range(-rank, 0):
            found: tuple[int, Runs] | None = None
            for piece in fixed or [piece for _, piece in pieces]:
                if len(piece.whole) < -axis or piece.whole[axis] == 1 or (fixed and is_free(piece, axis)):
                    continue
                own = piece.whole[axis], piece.runs[axis]
                if found is None:
                    found = own
                elif found != own:
                    raise Unproved(at_odds(axis % rank, found, own))
            if found is None:
                found = max((p.whole[axis], p.runs[axis]) for _, p in pieces if len(p.whole) >= -axis)
            whole.append(found[0])
            runs.append(found[1])
        target, at = tuple(whole), tuple(runs)
        terms = [
            (self.terms.spread(atom, target), c * d, addends)
            for c, piece in pieces
            for atom, d, addends in self.fitted(self.refitted(piece, target, at), target, at).terms
        ]
        return TermPiece(value, target, at, self.totalled(terms))

    def refitted(self, piece: TermPiece, whole: Shape, runs: tuple[Runs, ...]) -> TermPiece:
        """The piece with these places of dimensions along which all of its elements are equal; they broadcast."""
        behind = len(whole) - len(piece.whole)
        free = [
            k
            for k in range(len(piece.whole))
            if (piece.whole[k], piece.runs[k]) != (whole[behind + k], runs[behind + k])
            and is_free(piece, k)
            and places.length(piece.runs[k]) == places.length(runs[behind + k])
        ]
        if not free:
            return piece
        own = tuple([whole[behind + k] if k in free else n for k, n in enumerate(piece.whole)])
        at = tuple([runs[behind + k] if k in free else r for k, r in enumerate(piece.runs)])
        terms = [
            (self.terms.spread(atom.operands[0][0][0] if atom.kind == "spread" else atom, own), c, addends)
            for atom, c, addends in piece.terms
        ]
        return TermPiece(piece.value, own, at, self.totalled(terms))

    def fitted(self, piece: TermPiece, whole: Shape, runs: tuple[Runs, ...]) -> TermPiece:
        """A constant as a piece of a larger one of the sequential program, if it is; anything else as it is."""
        atom = piece.constant
        if atom is None or atom.kind == "fill":
            return piece
        own = len(piece.whole)
        wanted = tuple(1 if n == 1 else m for n, m in zip(piece.whole, whole[len(whole) - own :], strict=True))
        if wanted == piece.whole:
            return piece
        at = tuple(places.full(1) if n == 1 else r for n, r in zip(piece.whole, runs[len(runs) - own :], strict=True))
        larger = self.containing(atom, wanted, at)
        if larger is None:
            raise Unproved("a constant is not the part of one of the sequential program that is due here")
        return replace(piece, whole=wanted, runs=at, terms=((larger, piece.terms[0][1], ()),))

    def containing(self, atom: Atom, whole: Shape, runs: tuple[Runs, ...]) -> Atom | None:
        """A constant of the sequential program of this shape that has the elements of another one at these places."""
        numbers = atom.details[1].numbers
        shape = tuple(map(places.length, runs))
        if shape != atom.shape or axes_in(runs):
            return None
        for candidate in self.constants.get(whole, ()):
            if candidate.details[0] == atom.details[0] and _at(candidate.details[1].numbers, whole, runs) == numbers:
                return candidate
        return None

    def totalled(self, terms: Sequence[Term]) -> tuple[Term, ...]:
        """Terms added up: of equal atoms, and of parts of one sum."""
        if len(terms) == 1 and not terms[0][2]:
            ((atom, c, _),) = terms
            return ((atom, factor(c), ()),) if factor(c) else ()
        totals: dict[tuple[Atom, Addends], float] = {}
        for atom, c, addends in terms:
            if all(at for _, at in addends):  # else there are none
                totals[atom, addends] = totals.get((atom, addends), 0.0) + c
        if any(addends for _, addends in totals):
            totals = self._completed(totals)
        by_addends: dict[Addends, list[tuple[Atom, float]]] = {}
        for (atom, addends), c in totals.items():
            if factor(c):
                by_addends.setdefault(addends, []).append((atom, factor(c)))
        found: list[Term] = []
        for addends, parts in by_addends.items():
            form = combined(parts)
            if not addends and (factored := self.terms.factored(form)) is not form:
                self.laws[LINEAR] = None
                form = factored
            found += [(atom, c, addends) for atom, c in form]
        return in_order(found)

    def _completed(self, totals: dict[tuple[Atom, Addends], float]) -> dict[tuple[Atom, Addends], float]:
        """Parts of a sum that differ in the addends of one sum alone, as one part; all addends, as the sum."""
        changed = True
        while changed:
            changed = False
            for number in sorted({n for _, addends in totals for n, _ in addends}):
                groups: dict[Any, list[Runs]] = {}
                rest: dict[tuple[Atom, Addends], float] = {}
                for (atom, addends), c in totals.items():
                    own = dict(addends)
                    if number in own:
                        at = own.pop(number)
                        groups.setdefault((atom, factor(c), tuple(own.items())), []).append(at)
                    else:
                        rest[atom, addends] = rest.get((atom, addends), 0.0) + c
                for (atom, c, others), sets in groups.items():
                    met = places.union(sets)
                    if met is None:
                        for at in sets:
                            key = atom, with_addends(others, number, at)
                            rest[key] = rest.get(key, 0.0) + c
                        continue
                    if len(sets) > 1:
                        self.laws[SUMS] = None
                    is_all = met == places.full(self.sizes[number])
                    changed = changed or is_all or len(sets) > 1
                    key = atom, others if is_all else with_addends(others, number, met)
                    rest[key] = rest.get(key, 0.0) + c
                totals = rest
        return totals

    def some(self, piece: TermPiece, name: str, at: Runs, size: int, none_before: int | None = None) -> TermPiece:
        """Of a sum of so many addends, which each of the terms is by an op, those at some places.

        `none_before`: the axis along which an addend is zero at all places behind its own.
        """
        if (at := places.ordered(at)) == places.full(size):
            return piece
        made: list[Term] = []
        for atom, c, addends in piece.terms:
            key = (atom, name) if none_before is None else (atom, name, NONE_BEFORE, none_before, 0)
            made.append((atom, c, with_addends(addends, self.sum_number(key, size), at)))
        return replace(piece, terms=self.totalled(made))

    def without_zeros(self, term: Term, axis: int, at: Runs) -> Term:
        """The same of these places of an axis, without the addends that are zero there: those before them (`some`).

        It is then of the sum of the others.
        """
        atom, c, addends = term
        found: list[tuple[int, Runs]] = []
        for number, own in addends:
            name = self.names[number]
            if isinstance(name, Through) or name[0] is not atom or name[2:4] != (NONE_BEFORE, axis):
                found.append((number, own))
                continue
            begin, size = name[4], self.sizes[number]
            first = min(start for start, _ in at) - begin
            rest = places.shifted(places.between(own, first, size), -first)
            found.append((self.sum_number((*name[:4], begin + first), size - first), rest))
        return atom, c, tuple(sorted(found))


class _Numbers:
    """Numbers, whose hash is computed once."""

    __slots__ = ("_hash", "numbers")

    def __init__(self, numbers: tuple[Any, ...]) -> None:
        self.numbers = numbers
        self._hash = hash(numbers)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Numbers) and self.numbers == other.numbers)


def _kind(value: Dense | Literal) -> str:
    found = type_of(value)
    return found.dtype.name if isinstance(found, TensorType) and found.dtype is not None else "?"


@lru_cache(maxsize=1 << 8)
def _at(numbers: tuple[Any, ...], whole: Shape, runs: tuple[Runs, ...]) -> tuple[Any, ...]:
    """The elements at these places."""
    index = [[k for start, stop in own for k in range(start, stop)] for own in runs]
    found = np.asarray(numbers, dtype=object).reshape(whole)[np.ix_(*index)] if whole else np.asarray(numbers)
    return tuple(found.reshape(-1).tolist())
