"""Maxima over parts of dimensions, and their maximum.

The maximum over some places of one or more dimensions is an atom of its own: of the maximum over all of them, with the
dimensions, the places and how many there are. Of such maxima that differ in the places of one dimension, the greatest
is that over the places of all of them. The greatest of what is joined of several, side by side, is that of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import combinations
from math import prod
from typing import Any

from distir.ir import Literal
from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.pieces import Term, TermPiece
from distir.prove.runs import Runs
from distir.prove.terms import Atom, Movement, Shape, Unproved, movements

Dimension = tuple[int, ...]
"""An operand of the op that finds the maximum, and an axis of it; behind a -1, one of what the operand is maxima of."""

Over = tuple[tuple[Dimension, Runs, int], ...]
"""The dimensions, in ascending order, of which there are not all places: which there are, and of how many."""


def greatest(p: Any, algebra: Algebra, x: TermPiece, axis: int) -> TermPiece | None:
    """The maximum of `x` along an axis, of size 1 there; None where neither `x` nor what it is joined of is a part."""
    if x.is_partial:
        return None
    over: list[tuple[Dimension, Runs, int]] = []
    if x.runs[axis] != places.full(x.whole[axis]):
        over.append(((0, axis), x.runs[axis], x.whole[axis]))
    inner = maxima(algebra, x)
    if inner is not None:
        over += inside(inner[1])
    if over:
        found = p("ReduceMax", p.whole(x if inner is None else inner[0], axis), Literal((axis,)), keepdims=True)
        return greatest_over(algebra, found, over) if _single(found) is not None else None
    parts = _parts(x, axis)
    return None if parts is None else greatest_of(algebra, parts)


def greatest_over(algebra: Algebra, x: TermPiece, over: Sequence[tuple[Dimension, Runs, int]]) -> TermPiece:
    """Of maxima `x` over all places of dimensions, those over some alone. Raises Unproved for a sum of several."""
    atom = _single(x)
    if atom is None:
        raise Unproved("it is a sum of several values, of which there are no parts by places")
    whole, known = _split(atom)
    dimensions = [(dimension, places.ordered(runs), size) for dimension, runs, size in (*known, *over)]
    if len({dimension for dimension, _, _ in dimensions}) < len(dimensions):
        raise Unproved("it is a maximum over some places of a dimension already")
    return replace(x, terms=((_over(algebra, whole, tuple(sorted(dimensions))), 1.0, ()),))


def maxima(algebra: Algebra, x: TermPiece) -> tuple[TermPiece, Over] | None:
    """What `x` would be over all places, and over which ones it is a maximum; None where it is over all."""
    atom = _single(x)
    if atom is None:
        return None
    leaf, steps = movements(atom)
    whole, over = _split(leaf)
    made = _moved(algebra, whole, steps)
    return None if not over or made is None else (replace(x, terms=((made, 1.0, ()),)), over)


def inside(over: Over) -> Over:
    """The dimensions of the operand's maxima, for the maximum of them."""
    return tuple([((-1, *dimension), runs, size) for dimension, runs, size in over])


def greatest_of(algebra: Algebra, pieces: Sequence[TermPiece]) -> TermPiece | None:
    """The greatest of pieces with the same places, element by element; None where nothing is known of it.

    What all of them have may be any sum. Besides, each has the same values side by side: of each the greatest is found
    by itself, and where one is, all others are zero.
    """
    first = pieces[0]
    if any(x.is_partial or (x.whole, x.runs) != (first.whole, first.runs) for x in pieces):
        return None
    common = set(first.terms).intersection(*[x.terms for x in pieces])
    each: list[dict[tuple[tuple[Movement, ...], Shape, float], Atom]] = []
    for x in pieces:
        moved = [(*movements(atom), c) for atom, c, addends in x.terms if (atom, c, addends) not in common]
        each.append({(steps, leaf.shape, c): leaf for leaf, steps, c in moved})
        if len(each[-1]) < len(moved):
            return None
    heads = list(each[0])
    if any(own.keys() != each[0].keys() for own in each) or any(c <= 0 for _, _, c in heads):
        return None
    if not all(_are_side_by_side(a, b) for (*a, _), (*b, _) in combinations(heads, 2)):
        return None
    terms: list[Term] = list(common)
    for head in heads:
        steps, _, c = head
        met = _together(algebra, [own[head] for own in each])
        made = None if met is None else _moved(algebra, met, steps)
        if made is None:
            return None
        terms.append((made, c, ()))
    return replace(first, terms=algebra.totalled(terms))


def _parts(x: TermPiece, axis: int) -> list[TermPiece] | None:
    """What is joined along an axis, of size 1 each; None where that is not known of all places."""
    parts: dict[int, list[Term]] = {}
    for atom, c, addends in x.terms:
        inner = atom.operands[0][0][0] if atom.kind == "padded" and atom.details[0] == axis else None
        if inner is None or inner.shape[axis] != 1:
            return None
        parts.setdefault(atom.details[1], []).append((inner, c, addends))
    if sorted(parts) != list(range(x.whole[axis])) or len(parts) < 2:
        return None
    whole = (*x.whole[:axis], 1, *x.whole[axis + 1 :])
    runs = (*x.runs[:axis], places.full(1), *x.runs[axis + 1 :])
    return [TermPiece(x.value, whole, runs, tuple(terms)) for terms in parts.values()]


def _are_side_by_side(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two values are moved to different places: each is zero where the other one is."""
    (steps, shape), (others, other_shape) = one, other
    shapes = [*[step.shape for step in steps[1:]], shape], [*[step.shape for step in others[1:]], other_shape]
    for a, b, inner, other_inner in zip(steps, others, *shapes, strict=False):
        if a == b and inner == other_inner:
            continue
        if (a.kind, b.kind) != ("padded", "padded") or a.shape != b.shape or a.details[0] != b.details[0]:
            return False
        (axis, start), (_, other_start) = a.details, b.details
        return start + inner[axis] <= other_start or other_start + other_inner[axis] <= start
    return False


def _moved(algebra: Algebra, atom: Atom, steps: Sequence[Movement]) -> Atom | None:
    """An atom moved by these steps, the last one first."""
    return reduce(lambda a, step: None if a is None else algebra.terms.moved(step, a), reversed(steps), atom)


def _together(algebra: Algebra, atoms: Sequence[Atom]) -> Atom | None:
    """The greatest of maxima of the same values; None of others."""
    if len(set(atoms)) == 1:
        return atoms[0]
    split = list(map(_split, atoms))
    if len({whole for whole, _ in split}) > 1:
        return None
    whole, overs = split[0][0], list(dict.fromkeys([over for _, over in split]))
    if () in overs:
        return whole
    if len({tuple([(dimension, size) for dimension, _, size in over]) for over in overs}) > 1:
        return None
    columns = [list(dict.fromkeys(column)) for column in zip(*overs, strict=True)]
    if len(overs) != prod(map(len, columns)):  # they are not each with each
        return None
    found: list[tuple[Dimension, Runs, int]] = []
    for column in columns:
        dimension, _, size = column[0]
        met = places.union([runs for _, runs, _ in column])
        if met is None:
            return None
        found.append((dimension, met, size))
    return _over(algebra, whole, tuple(found))


def _over(algebra: Algebra, whole: Atom, over: Over) -> Atom:
    """The maximum over these places, without dimensions of which they are all."""
    rest = tuple([(dimension, runs, size) for dimension, runs, size in over if runs != places.full(size)])
    return algebra.terms.atom("greatest", whole.shape, (((whole, 1.0),),), rest) if rest else whole


def _split(atom: Atom) -> tuple[Atom, Over]:
    """The maximum over all places, and over which ones it is."""
    return (atom.operands[0][0][0], atom.details) if atom.kind == "greatest" else (atom, ())


def _single(x: TermPiece) -> Atom | None:
    return x.terms[0][0] if len(x.terms) == 1 and x.terms[0][1:] == (1.0, ()) else None
