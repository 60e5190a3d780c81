"""Maxima over parts of a dimension, and their maximum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distir.ir import Literal
from distir.prove import runs as places
from distir.prove.pieces import Algebra, TermPiece
from distir.prove.runs import Runs


def greatest(p: Any, algebra: Algebra, x: TermPiece, axis: int) -> TermPiece | None:
    """The maximum of `x` along an axis, of size 1 there; None where neither `x` nor what it is joined of is a part.

    The maximum over some places is an atom of its own. Of the maxima over parts that together are all places, joined
    along the axis, the maximum is that over all.
    """
    if x.is_partial:
        return None
    if x.runs[axis] != places.full(x.whole[axis]):
        found = p("ReduceMax", p.whole(x, axis), Literal((axis,)), keepdims=True)
        if len(found.terms) != 1 or found.terms[0][1] != 1.0:
            return None
        atom = algebra.terms.atom(
            "greatest", found.whole, (found.form,), (axis, tuple(sorted(x.runs[axis])), x.whole[axis])
        )
        return replace(found, terms=((atom, 1.0, ()),))
    parts: list[Runs] = []
    covered: list[Runs] = []
    wholes: set[Any] = set()
    for atom, c, _ in x.terms:
        inner = atom.operands[0][0][0] if atom.kind == "padded" and atom.details[0] == axis else None
        if inner is None or inner.kind != "greatest" or inner.details[0] != axis or c != 1.0:
            return None
        covered.append(((atom.details[1], atom.details[1] + 1),))
        parts.append(inner.details[1])
        wholes.add((inner.operands[0], inner.details[2]))
    if len(wholes) != 1 or places.union(covered) != places.full(x.whole[axis]):
        return None
    ((form, size),) = wholes
    if places.union(parts) != places.full(size):
        return None
    made = form[0][0]
    return TermPiece(None, made.shape, (*x.runs[:axis], places.full(1), *x.runs[axis + 1 :]), ((made, 1.0, ()),))
