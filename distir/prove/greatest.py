"""Maxima over parts of dimensions, and their maximum.

The maximum over some places of one or more dimensions is an atom of its own: of the maximum over all of them, with the
dimensions, the places and how many there are. Of such maxima that differ in the places of one dimension, the greatest
is that over the places of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from distir.ir import Literal
from distir.prove import runs as places
from distir.prove.pieces import Algebra, TermPiece, Unproved
from distir.prove.runs import Runs
from distir.prove.terms import Atom, Form

Over = tuple[tuple[int, Runs, int], ...]
"""The dimensions, in ascending order, of which there are not all places: which there are, and of how many."""


def greatest(p: Any, algebra: Algebra, x: TermPiece, axis: int) -> TermPiece | None:
    """The maximum of `x` along an axis, of size 1 there; None where neither `x` nor what it is joined of is a part."""
    if x.is_partial:
        return None
    if x.runs[axis] != places.full(x.whole[axis]):
        found = p("ReduceMax", p.whole(x, axis), Literal((axis,)), keepdims=True)
        if len(found.terms) != 1 or found.terms[0][1] != 1.0:
            return None
        return greatest_over(algebra, found, [(axis, x.runs[axis], x.whole[axis])])
    covered: list[Runs] = []
    parts: list[Over] = []
    wholes: set[tuple[Form, tuple[int, ...]]] = set()
    for atom, c, _ in x.terms:
        inner = atom.operands[0][0][0] if atom.kind == "padded" and atom.details[0] == axis else None
        if inner is None or inner.shape[axis] != 1 or c != 1.0:
            return None
        found = inner.operands[0][0][0] if inner.kind == "reshape" else inner
        if found.kind != "greatest":
            return None
        covered.append(((atom.details[1], atom.details[1] + 1),))
        parts.append(found.details)
        wholes.add((found.operands[0], inner.shape))
    over = _together(parts)
    if len(wholes) != 1 or over is None or places.union(covered) != places.full(x.whole[axis]):
        return None
    ((form, shape),) = wholes
    made = algebra.terms.reshaped(_over(algebra, form, over), shape)
    return TermPiece(None, made.shape, (*x.runs[:axis], places.full(1), *x.runs[axis + 1 :]), ((made, 1.0, ()),))


def greatest_over(algebra: Algebra, x: TermPiece, over: Sequence[tuple[int, Runs, int]]) -> TermPiece:
    """Of maxima `x` over all places of dimensions, those over some alone. Raises Unproved for a sum of several."""
    if len(x.terms) != 1 or x.terms[0][1:] != (1.0, ()):
        raise Unproved("it is a sum of several values, of which there are no parts by places")
    at = tuple(sorted((axis, places.ordered(runs), size) for axis, runs, size in over))
    return replace(x, terms=((_over(algebra, x.form, at), 1.0, ()),))


def _over(algebra: Algebra, form: Form, over: Over) -> Atom:
    ((atom, _),) = form
    return algebra.terms.atom("greatest", atom.shape, (form,), over) if over else atom


def _together(parts: Sequence[Over]) -> Over | None:
    """The places of all of them, without dimensions of which these are all; None where that is no product of places."""
    if not parts or len({tuple([(axis, size) for axis, _, size in over]) for over in parts}) != 1:
        return None
    columns = list(zip(*parts, strict=True))
    if sum(len(set(column)) > 1 for column in columns) > 1:
        return None
    found: list[tuple[int, Runs, int]] = []
    for column in columns:
        axis, _, size = column[0]
        met = places.union(list({runs for _, runs, _ in column}))
        if met is None:
            return None
        if met != places.full(size):
            found.append((axis, met, size))
    return tuple(found)
