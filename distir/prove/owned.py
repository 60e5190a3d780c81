"""Rows sorted by expert with room behind those of each owner of experts.

`owned(x)` is `x`, whose rows are dense, with the rows of the k-th owner from `k * room` on, and zeros behind them, or
after elementwise ops another number. It moves elements, by places that only the running program knows: `x` and the
dispatch tell them. An owner has a part. `owned places(p)` are the places among such rows of what is at the places `p`
without room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from distir.ir import Attributes, Dense, TensorType
from distir.ops import Op, Value, bind, run, strengthen, to_array, type_of
from distir.ops.numeric import np, numpy_dtype
from distir.ops.splitting import layout
from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.pieces import TermPiece
from distir.prove.runs import Runs
from distir.prove.terms import Atom, Shape, Terms, Unproved

PLACES = "owned places"
"""The kind of an atom that is places among rows with room."""


@dataclass(frozen=True, slots=True)
class Owned:
    """What rows with room, or places among them, are."""

    plain: TermPiece
    dispatch: Atom
    """The places without room."""
    owners: int
    room: int
    here: Runs
    """The owners whose rows are here, in the order of the rows."""
    between: float = 0.0
    """What all elements between owners' rows are."""

    @property
    def elements(self) -> Any:
        """Numpy's type of the elements."""
        known = type_of(self.plain.value)
        assert isinstance(known, TensorType)
        assert known.dtype is not None
        return numpy_dtype(known.dtype)

    @property
    def rows(self) -> int:
        """How many rows there are without room, for all owners together."""
        *_, tokens, choices = self.dispatch.shape
        return tokens * choices

    @property
    def has_all(self) -> bool:
        """Whether the rows of all owners are here."""
        return self.here == places.full(self.owners)

    def agrees(self, other: Owned) -> bool:
        """Whether they are the rows of the same owners, in the same places."""
        return self == replace(other, plain=self.plain, between=self.between)

    def has_experts(self, counts: TermPiece, owners: int) -> bool:
        """Whether counts are those of the experts whose rows are here, which so many owners have."""
        if len(counts.terms) != 1 or counts.terms[0][1:] != (1.0, ()) or owners != places.length(self.here):
            return False
        atom, dispatch = counts.terms[0][0], self.dispatch
        if (atom.kind, dispatch.kind) != ("Dispatch", "Dispatch") or atom.operands != dispatch.operands:
            return False
        if replace(atom.details, result=0) != dispatch.details or atom.details.result != 1:
            return False
        each = counts.whole[-1] // self.owners
        return counts.runs[-1] == _each_of(self.here, each)


def atom_of_rows(terms: Terms, rows: Atom, dispatch: Atom, owners: int, room: int, between: float) -> Atom:
    """All rows, with room, in which all elements are `between`."""
    shape = (*rows.shape[:-2], owners * room, rows.shape[-1])
    return terms.atom("owned", shape, (((rows, 1.0),), ((dispatch, 1.0),)), (owners, room, between))


def owned_places(algebra: Algebra, x: TermPiece, owners: int, room: int) -> TermPiece:
    """Places among rows, with room. Raises Unproved for what is no result of a dispatch."""
    if len(x.terms) != 1 or x.terms[0][1:] != (1.0, ()):
        raise Unproved("nothing says where rows are")
    atom = algebra.terms.atom(PLACES, x.whole, (((x.terms[0][0], 1.0),),), (owners, room))
    return replace(x, terms=((atom, 1.0, ()),))


def of_places(x: TermPiece) -> Owned | None:
    """What places among rows with room are; None of others."""
    atom = x.terms[0][0] if len(x.terms) == 1 and x.terms[0][1:] == (1.0, ()) else None
    if atom is None or atom.kind != PLACES:
        return None
    ((dispatch, _),) = atom.operands[0]
    owners, room = atom.details
    return Owned(replace(x, terms=((dispatch, 1.0, ()),)), dispatch, owners, room, places.full(owners))


def owned(algebra: Algebra, rows: TermPiece, like: Owned, between: float = 0.0) -> TermPiece:
    """Rows without room as those that `like` has. Raises Unproved where some are missing."""
    if between and (len(rows.terms) != 1 or rows.terms[0][1:] != (1.0, ())):
        raise Unproved("rows between those of owners are no sum")
    axis, terms = len(rows.whole) - 2, algebra.terms
    if rows.runs[axis] != places.full(rows.whole[axis]):
        raise Unproved("some of the rows of experts are missing")
    made = [
        (atom_of_rows(terms, atom, like.dispatch, like.owners, like.room, between), c, addends)
        for atom, c, addends in rows.terms
    ]
    at = _each_of(like.here, like.room)
    whole = (*rows.whole[:axis], like.owners * like.room, rows.whole[-1])
    return TermPiece(None, whole, (*rows.runs[:axis], at, rows.runs[-1]), algebra.totalled(made))


def _each_of(owners: Runs, count: int) -> Runs:
    """The places of what these owners have so many of each."""
    return tuple([(start * count, stop * count) for start, stop in owners])


def _owners(runs: Runs, count: int) -> Runs | None:
    """The owners that have these places, so many each; None where some owner has others, too."""
    if any(place % count for run in runs for place in run):
        return None
    return tuple([(start // count, stop // count) for start, stop in runs])


def owners_of(algebra: Algebra, x: TermPiece | None) -> Owned | None:
    """What rows with room are; None of others."""
    terms = [] if x is None else [term for term in x.terms if term[0].kind == "owned"]
    rests = [] if x is None else [term for term in x.terms if term[0].kind != "owned"]
    if x is None or not terms or any(atom.kind != "fill" for atom, _, _ in rests):
        return None
    first = terms[0][0]
    owners, room, _ = first.details
    if any((a.details[:2], a.operands[1:]) != (first.details[:2], first.operands[1:]) for a, _, _ in terms):
        return None
    plain = [(atom.operands[0][0][0], c, addends) for atom, c, addends in terms]
    axis = len(x.whole) - 2
    here = _owners(x.runs[axis], room)
    if here is None:
        return None
    count = plain[0][0].shape[axis]
    whole: Shape = (*x.whole[:axis], count, x.whole[-1])
    runs = (*x.runs[:axis], places.full(count), x.runs[-1])
    known = type_of(x.value)
    assert isinstance(known, TensorType)
    value = TensorType(known.dtype, tuple(map(places.length, runs)), known.device, known.offloaded)
    plain += [(algebra.terms.reshaped(atom, plain[0][0].shape), c, addends) for atom, c, addends in rests]
    piece = TermPiece(value, whole, runs, algebra.totalled(plain))
    between = sum(float(atom.details) * c for atom, c, _ in rests) + sum(a.details[2] * c for a, c, _ in terms)
    return Owned(piece, first.operands[1][0][0], owners, room, here, between)


def owners_by(algebra: Algebra, counts: TermPiece, rows: int, owners: int) -> Owned | None:
    """What so many rows are of the experts that `counts` are of, which so many owners have; None without room."""
    if len(counts.terms) != 1 or counts.terms[0][1:] != (1.0, ()):
        return None
    atom = counts.terms[0][0]
    each = places.length(counts.runs[-1]) // owners
    if atom.kind != "Dispatch" or atom.details.result != 1 or not each or counts.whole[-1] % each:
        return None
    here = _owners(counts.runs[-1], each)
    shape = atom.details.shapes[0]
    dispatch = algebra.terms.atom("Dispatch", shape, atom.operands, replace(atom.details, result=0), atom.linear)
    whole = counts.whole[-1] // each
    if here is None or whole == 1:
        return None
    plain = replace(counts, whole=shape, runs=tuple(map(places.full, shape)), terms=((dispatch, 1.0, ()),))
    return Owned(plain, dispatch, whole, rows // owners, here)


def elementwise(
    algebra: Algebra,
    op: Op,
    attrs: Attributes,
    vs: Sequence[TermPiece | None],
    results: Sequence[Value],
    applied: Callable[[tuple[TermPiece | None, ...]], Sequence[TermPiece]],
) -> list[TermPiece] | None:
    """An elementwise op on rows with room; None of others.

    `applied`: to rows without room.
    """
    found = [owners_of(algebra, piece) for piece in vs]
    like = next((x for x in found if x is not None), None)
    if like is None:
        return None
    for x, piece in zip(found, vs, strict=True):
        if x is None and piece is not None and (piece.whole or (piece.terms and piece.constant is None)):
            return None
        if x is not None and not x.agrees(like):
            raise Unproved(f"`{op.name}` is given rows of different owners of experts")
    bound = bind(op, attrs)
    values = [None if piece is None else piece.value for piece in vs]
    strong = strengthen(op, values, attrs)
    letters = layout(op, values, [type_of(w) for w in results], bound)
    if letters is None or letters.parted or letters.located or letters.contiguous or letters.apart or letters.averaged:
        return None
    rows = {own for own, x in zip((*letters.operands, *letters.results), (*found, *[like] * len(results)), strict=True)
            if x is not None}  # fmt: skip
    own = next(iter(rows))
    single = [n == 1 for n in like.plain.shape]  # a dimension of 1 has no letter, as it broadcasts
    if len(rows) != 1 or any(a is None and not one for a, one in zip(own, single, strict=True)):
        return None
    if len(set(own) - {None}) != len(own) - own.count(None) or own[-2] is None:
        return None
    given = [
        np.full((1,) * len(own), x.between, x.elements)
        if x is not None
        else to_array(w)
        if isinstance(w, Dense)
        else None
        for x, w in zip(found, strong, strict=True)
    ]
    between = [float(made.reshape(-1)[0]) for made in run(op, given, bound, len(results))]
    if not all(map(math.isfinite, between)):
        return None
    plain = applied(tuple([piece if x is None else x.plain for x, piece in zip(found, vs, strict=True)]))
    return [owned(algebra, made, like, element) for made, element in zip(plain, between, strict=True)]
