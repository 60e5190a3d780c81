"""Pieces: what a value of the distributed program is of whole terms, and how pieces are added, cut, joined and moved.

A piece is a linear combination of atoms, all of one whole shape, of which it has certain places along each dimension.
Of an atom that is a sum, as of a matrix product over its inner dimension, it may have some of the addends only: then
it is a partial sum. `Pieces` does the arithmetic, at the programs' real sizes; `lifting.py` has what ops do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from distir.ir import Attributes, Dense, External, Literal, TensorType
from distir.ops import Op, Value, type_of
from distir.ops.numeric import dense, np
from distir.prove import runs as places
from distir.prove.ranks import axes_in
from distir.prove.runs import Runs
from distir.prove.terms import DIGITS, Atom, Form, OpDetails, Shape, Terms, Unproved, combined, factor, scaled_out

MOST_EXACT = 10**11
"""The greatest integer that is a factor: factors are rounded."""

LEAVES = frozenset({"formal", "parameter"})
"""Kinds of atoms that are given."""

SUMS = "a sum is the sum of its parts, in any order"
LINEAR = "what is linear in a sum is the sum of what it is of the addends"
FACTORS = f"factors may be taken out of what is linear, and are rounded to {DIGITS} digits"

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


@dataclass
class Algebra:
    """Arithmetic on pieces, with what the sequential program does to wholes as advice on how to name them.

    Advice never makes a relation true: each one is checked by arithmetic on places.
    """

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
        return found

    # Sums

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
                    raise Unproved(self.at_odds(axis % rank, found, own))
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

    def totalled(self, terms: Iterable[Term]) -> tuple[Term, ...]:
        """Terms added up: of equal atoms, and of parts of one sum."""
        totals: dict[tuple[Atom, Addends], float] = {}
        for atom, c, addends in terms:
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
                            key = atom, _with(others, number, at)
                            rest[key] = rest.get(key, 0.0) + c
                        continue
                    if len(sets) > 1:
                        self.laws[SUMS] = None
                    is_all = met == places.full(self.sizes[number])
                    changed = changed or is_all or len(sets) > 1
                    key = atom, others if is_all else _with(others, number, met)
                    rest[key] = rest.get(key, 0.0) + c
                totals = rest
        return totals

    def some(self, piece: TermPiece, name: str, at: Runs, size: int) -> TermPiece:
        """Of a sum of so many addends, which each of the terms is by an op, those at some places."""
        if (at := places.ordered(at)) == places.full(size):
            return piece
        made: list[Term] = []
        for atom, c, addends in piece.terms:
            number = self.sum_number((atom, name), size)
            made.append((atom, c, _with(addends, number, at)))
        return replace(piece, terms=self.totalled(made))

    # Moving elements

    def cut(self, value: Value, piece: TermPiece, axis: int, start: int, stop: int) -> TermPiece:
        """The places from `start` to `stop` of the piece along an axis."""
        at = places.taken(piece.runs[axis], start, stop)
        key = self._advised([atom for atom, _, _ in piece.terms]), axis
        if self.sequential and piece.has_all_places and (start, stop) != (0, piece.whole[axis]):
            self.windows.setdefault(key, set()).add((start, stop))
        found = replace(piece, value=value, runs=(*piece.runs[:axis], at, *piece.runs[axis + 1 :]))
        inside = [w for w in self.windows.get(key, ()) if at and places.are_within(at, *w)]
        inside += self._padded(piece, axis, at)
        return self._windowed(found, axis, *min(inside, key=lambda w: w[1] - w[0])) if inside else found

    @staticmethod
    def _advised(atoms: Iterable[Atom]) -> Any:
        """What atoms have in common with those of other calls."""
        return tuple([(a.shape, None if a.kind in LEAVES else (a.kind, a.details)) for a in atoms])

    def _padded(self, piece: TermPiece, axis: int, at: Runs) -> list[tuple[int, int]]:
        """The part of a concatenation, if all of these places are in one."""
        found: set[tuple[int, int]] = set()
        for atom, _, _ in piece.terms:
            if atom.kind != "padded" or atom.details[0] != axis:
                return []
            first = atom.details[1]
            found.add((first, first + atom.operands[0][0][0].shape[axis]))
        return [w for w in found if at and places.are_within(at, *w)]

    def _windowed(self, piece: TermPiece, axis: int, start: int, stop: int) -> TermPiece:
        terms = [
            (inner, c, addends)
            for atom, c, addends in piece.terms
            if (inner := self.terms.window(atom, axis, start, stop)) is not None
        ]
        return TermPiece(
            piece.value,
            (*piece.whole[:axis], stop - start, *piece.whole[axis + 1 :]),
            (*piece.runs[:axis], places.shifted(piece.runs[axis], -start), *piece.runs[axis + 1 :]),
            self.totalled(terms),
        )

    def joined(self, value: Value, pieces: Sequence[TermPiece], axis: int) -> TermPiece:
        """The concatenation of pieces. Raises Unproved where they have different places along other dimensions."""
        found = self._grouped(self._of_equal_places(pieces, axis), axis)
        if len(found) > 1:
            bases = [self._base(piece, axis) for piece in found]
            if all(base is not None for base in bases):
                again = self._grouped([base for base in bases if base is not None], axis)
                found = again if len(again) == 1 else found
        first = found[0]
        if len(found) == 1:
            return replace(first, value=value)
        for piece in found[1:]:
            for k in range(len(first.whole)):
                if k != axis and (piece.whole[k], piece.runs[k]) != (first.whole[k], first.runs[k]):
                    own, other = (first.whole[k], first.runs[k]), (piece.whole[k], piece.runs[k])
                    raise Unproved(self.at_odds(k, own, other))
        total = sum(piece.whole[axis] for piece in found)
        terms: list[Term] = []
        at: list[Runs] = []
        start = 0
        for piece in found:
            terms += [(self.terms.padded(atom, axis, start, total), c, addends) for atom, c, addends in piece.terms]
            at.append(places.shifted(piece.runs[axis], start))
            start += piece.whole[axis]
        whole = (*first.whole[:axis], total, *first.whole[axis + 1 :])
        runs = (*first.runs[:axis], places.joined(at), *first.runs[axis + 1 :])
        return TermPiece(value, whole, runs, self.totalled(terms))

    def _of_equal_places(self, pieces: Sequence[TermPiece], axis: int) -> list[TermPiece]:
        """Pieces whose elements are all equal along another dimension, with the places there that others have."""
        whole, runs = list(pieces[0].whole), list(pieces[0].runs)
        for k in range(len(whole)):
            fixed = [piece for piece in pieces if k != axis and not is_free(piece, k)]
            if fixed:
                whole[k], runs[k] = fixed[0].whole[k], fixed[0].runs[k]
        own = [
            ((*whole[:axis], p.whole[axis], *whole[axis + 1 :]), (*runs[:axis], p.runs[axis], *runs[axis + 1 :]))
            for p in pieces
        ]
        return [self.refitted(piece, *at) for piece, at in zip(pieces, own, strict=True)]

    def _grouped(self, pieces: Sequence[TermPiece], axis: int) -> list[TermPiece]:
        """Neighbours of the same terms as one piece, which repeats no place."""
        found: list[TermPiece] = []
        for piece in pieces:
            last = found[-1] if found else None
            if (
                last is not None
                and _apart(last, axis) == _apart(piece, axis)
                and places.union([last.runs[axis], piece.runs[axis]]) is not None
            ):
                at = places.joined([last.runs[axis], piece.runs[axis]])
                found[-1] = replace(last, runs=(*last.runs[:axis], at, *last.runs[axis + 1 :]))
            else:
                found.append(piece)
        return found

    def _base(self, piece: TermPiece, axis: int) -> TermPiece | None:
        """The piece of what it is a window of."""
        starts = {a.details[1:] if a.kind == "window" and a.details[0] == axis else None for a, _, _ in piece.terms}
        if len(starts) != 1 or None in starts:
            return None
        bases = [(a.operands[0][0][0], c, addends) for a, c, addends in piece.terms]
        sizes = {base.shape for base, _, _ in bases}
        if len(sizes) != 1:
            return None
        ((start, _),) = (s for s in starts if s is not None)
        runs = (*piece.runs[:axis], places.shifted(piece.runs[axis], start), *piece.runs[axis + 1 :])
        return TermPiece(piece.value, sizes.pop(), runs, in_order(bases))

    def transposed(self, value: Value, piece: TermPiece, perm: tuple[int, ...]) -> TermPiece:
        """The dimensions in another order."""
        terms = [(self.terms.transposed(atom, perm), c, addends) for atom, c, addends in piece.terms]
        whole, runs = tuple([piece.whole[k] for k in perm]), tuple([piece.runs[k] for k in perm])
        return TermPiece(value, whole, runs, self.totalled(terms))

    def spread(self, value: Value, piece: TermPiece, shape: Shape) -> TermPiece:
        """Broadcast to a shape. Raises Unproved for a dimension of 1 that is a part of a larger one."""
        behind = len(shape) - len(piece.whole)
        dims = [(n, places.full(n)) for n in shape[:behind]]
        for size, at, n in zip(piece.whole, piece.runs, shape[behind:], strict=True):
            if places.length(at) != n and size != 1:
                raise Unproved(f"one place of {size} is broadcast to {n}")
            dims.append((size, at) if places.length(at) == n else (n, places.full(n)))
        whole = tuple([size for size, _ in dims])
        terms = [(self.terms.spread(atom, whole), c, addends) for atom, c, addends in piece.terms]
        return TermPiece(value, whole, tuple([at for _, at in dims]), self.totalled(terms))

    def reshaped(
        self, value: Value, piece: TermPiece, spelled: Sequence[int] = (), whole: Shape | None = None
    ) -> TermPiece:
        """The elements in the shape of `value`.

        `spelled`: the shape as the program says it, with 0 and -1, and `whole`: that of the whole, if they are known.
        Raises Unproved where the places are no product of places of the new dimensions.
        """
        shape = shape_of(value)
        if self.sequential and piece.has_all_places and whole is None:
            whole = shape
        candidates = [whole] if whole is not None else self._wholes(piece, shape, spelled)
        for candidate in candidates:
            found = regrouped(piece.whole, piece.runs, candidate, shape)
            if found is not None:
                if self.sequential:
                    self.shapes.setdefault(piece.whole, {})[candidate] = None
                terms = [(self.terms.reshaped(atom, candidate), c, addends) for atom, c, addends in piece.terms]
                return TermPiece(value, candidate, found, self.totalled(terms))
        raise Unproved(f"a part of {piece.whole} is no part of any shape that {shape} may be a part of")

    def _wholes(self, piece: TermPiece, shape: Shape, spelled: Sequence[int]) -> list[Shape]:
        """Shapes of which `shape` may be a part: as the program says, as the sequential one has, or grown outermost."""
        found: dict[Shape, None] = {}
        if piece.has_all_places:
            return [shape]
        if (meant := _meant(piece.whole, spelled)) is not None and len(meant) == len(shape):
            found[meant] = None
        for seen in self.shapes.get(piece.whole, ()):
            if len(seen) == len(shape):
                found[seen] = None
        if (grown := _grown(piece.whole, piece.shape, shape)) is not None:
            found[grown] = None
        return list(found)

    @staticmethod
    def at_odds(axis: int, one: tuple[int, Runs], other: tuple[int, Runs]) -> str:
        """What to say of two operands with different places of one dimension."""
        if one[0] != other[0]:
            return f"of dimension {axis}, one operand is a part of {one[0]} places and another of {other[0]}"
        return (
            f"of dimension {axis}, one operand has the places {places.shown(one[1])} and another "
            f"{places.shown(other[1])} of {one[0]}"
        )


def is_free(piece: TermPiece, axis: int) -> bool:
    """Whether all elements along a dimension are equal, as they were broadcast: then any places of any size are."""
    return bool(piece.terms) and all(
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


def in_order(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Terms in an order in which they are compared."""
    found = list(terms)
    try:
        found.sort(key=lambda term: (term[0].number, term[2]))
    except Unproved:  # which places come first depends on the device: any order will do
        found.sort(key=lambda term: (term[0].number, repr(term[2])))
    return tuple(found)


def _with(others: Addends, number: int, at: Runs) -> Addends:
    return tuple(sorted((*others, (number, at))))


def _apart(piece: TermPiece, axis: int) -> Any:
    return piece.whole, piece.runs[:axis], piece.runs[axis + 1 :], piece.terms


@lru_cache(maxsize=1 << 8)
def _at(numbers: tuple[Any, ...], whole: Shape, runs: tuple[Runs, ...]) -> tuple[Any, ...]:
    """The elements at these places."""
    index = [[k for start, stop in own for k in range(start, stop)] for own in runs]
    found = np.asarray(numbers, dtype=object).reshape(whole)[np.ix_(*index)] if whole else np.asarray(numbers)
    return tuple(found.reshape(-1).tolist())


def regrouped(whole: Shape, runs: tuple[Runs, ...], target: Shape, shape: Shape) -> tuple[Runs, ...] | None:
    """The places of a piece after its whole was given the shape `target`, in which the piece has `shape`.

    None where there are none such.
    """
    if math.prod(whole) != math.prod(target) or math.prod(shape) != math.prod(map(places.length, runs)):
        return None
    found: list[Runs] = []
    i = j = 0
    while i < len(whole) or j < len(target):
        left, right = [i], [j]
        size = whole[i] if i < len(whole) else 1
        other = target[j] if j < len(target) else 1
        i, j = i + 1, j + 1
        while size != other:
            if size < other and i < len(whole):
                size, left, i = size * whole[i], [*left, i], i + 1
            elif other < size and j < len(target):
                other, right, j = other * target[j], [*right, j], j + 1
            else:
                return None
        rows = 1, places.full(1)
        for k in left:
            if k < len(whole):
                rows = places.merged(rows, (whole[k], runs[k]))
        made: list[Runs] = []
        inside = [k for k in right if k < len(target)]
        for k in reversed(inside[1:]):
            split = places.parted(rows[1], rows[0], target[k], shape[k])
            if split is None:
                return None
            made.append(split[1])
            rows = rows[0] // target[k], split[0]
        if inside:
            made.append(rows[1])
        elif rows[1] != places.full(rows[0]):
            return None
        found += reversed(made)
    return tuple(found) if tuple(map(places.length, found)) == shape else None


def _meant(whole: Shape, spelled: Sequence[int]) -> Shape | None:
    """The shape that 0 and -1 mean for a whole; None where nothing is spelled, or it does not fit."""
    if not any(n in (0, -1) for n in spelled):
        return None
    found = [whole[k] if n == 0 and k < len(whole) else n for k, n in enumerate(spelled)]
    known = math.prod(n for n in found if n != -1)
    if -1 in found:
        if not known or math.prod(whole) % known:
            return None
        found[found.index(-1)] = math.prod(whole) // known
    return tuple(found)


def _grown(whole: Shape, before: Shape, after: Shape) -> Shape | None:
    """The whole of `after` where the outermost dimension of each group is the one that is split."""
    found = list(after)
    i = j = 0
    while i < len(before) and j < len(after):
        first, at = i, j
        left, right = before[i], after[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right and i < len(before):
                left, i = left * before[i], i + 1
            elif right < left and j < len(after):
                right, j = right * after[j], j + 1
            else:
                return None
        while j < len(after) and after[j] == 1 and i < len(before) and before[i] != 1:
            j += 1
        if j == len(after):
            i = len(before)
        size = math.prod(whole[first:i])
        inner = math.prod(after[at + 1 : j])
        if not inner or size % inner:
            return None
        found[at] = size // inner
    return tuple(found) if math.prod(found) == math.prod(whole) else None
