"""Pieces whose elements are moved: cut, joined, transposed, broadcast, regrouped into other shapes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from distir.ops import Value
from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.pieces import Term, TermPiece, at_odds, in_order, is_free, shape_of
from distir.prove.ranks import axes_in
from distir.prove.runs import Runs
from distir.prove.terms import Atom, Shape, Unproved

LEAVES = frozenset({"formal", "parameter"})
"""Kinds of atoms that are given."""

MOST_TERMS = 1 << 9
"""Of each of the unlike values that are concatenated, on average: a concatenation of its own parts has twice as many.

Beyond that it is one value, of which is known what it is computed of.
"""


def cut(algebra: Algebra, value: Value, piece: TermPiece, axis: int, start: int, stop: int) -> TermPiece:
    """The places from `start` to `stop` of the piece along an axis."""
    at = places.taken(piece.runs[axis], start, stop)
    key = _advised([atom for atom, _, _ in piece.terms]), axis
    if algebra.sequential and piece.has_all_places and (start, stop) != (0, piece.whole[axis]):
        algebra.windows.setdefault(key, set()).add((start, stop))
    terms = piece.terms
    if at and piece.is_partial and not axes_in(at):
        terms = algebra.totalled([algebra.without_zeros(term, axis, at) for term in terms])
    found = replace(piece, value=value, runs=(*piece.runs[:axis], at, *piece.runs[axis + 1 :]), terms=terms)
    inside = [w for w in algebra.windows.get(key, ()) if at and places.are_within(at, *w)]
    inside += _padded(algebra, piece, axis, at)
    return _windowed(algebra, found, axis, *min(inside, key=lambda w: w[1] - w[0])) if inside else found


def _advised(atoms: Iterable[Atom]) -> Any:
    """What atoms have in common with those of other calls."""
    return tuple([(a.shape, None if a.kind in LEAVES else (a.kind, a.details)) for a in atoms])


def _padded(algebra: Algebra, piece: TermPiece, axis: int, at: Runs) -> list[tuple[int, int]]:
    """The part of a concatenation, if all of these places are in one."""
    found: set[tuple[int, int]] = set()
    for atom, _, _ in piece.terms:
        if atom.kind != "padded" or atom.details[0] != axis:
            return []
        first = atom.details[1]
        found.add((first, first + atom.operands[0][0][0].shape[axis]))
    return [w for w in found if at and places.are_within(at, *w)]


def _windowed(algebra: Algebra, piece: TermPiece, axis: int, start: int, stop: int) -> TermPiece:
    terms = [
        (inner, c, addends)
        for atom, c, addends in piece.terms
        if (inner := algebra.terms.window(atom, axis, start, stop)) is not None
    ]
    return TermPiece(
        piece.value,
        (*piece.whole[:axis], stop - start, *piece.whole[axis + 1 :]),
        (*piece.runs[:axis], places.shifted(piece.runs[axis], -start), *piece.runs[axis + 1 :]),
        algebra.totalled(terms),
    )


def joined(algebra: Algebra, value: Value, pieces: Sequence[TermPiece], axis: int) -> TermPiece:
    """The concatenation of pieces. Raises Unproved where they have different places along other dimensions."""
    found = _grouped(algebra, _of_equal_places(algebra, pieces, axis), axis)
    if len(found) > 1:
        bases = [_base(algebra, piece, axis) for piece in found]
        if all(base is not None for base in bases):
            again = _grouped(algebra, [base for base in bases if base is not None], axis)
            found = again if len(again) == 1 else found
    first = found[0]
    if len(found) == 1:
        return replace(first, value=value)
    for piece in found[1:]:
        for k in range(len(first.whole)):
            if k != axis and (piece.whole[k], piece.runs[k]) != (first.whole[k], first.runs[k]):
                own, other = (first.whole[k], first.runs[k]), (piece.whole[k], piece.runs[k])
                raise Unproved(at_odds(k, own, other))
    total = sum(piece.whole[axis] for piece in found)
    terms: list[Term] = []
    at: list[Runs] = []
    start = 0
    for piece in found:
        terms += [(algebra.terms.padded(atom, axis, start, total), c, addends) for atom, c, addends in piece.terms]
        at.append(places.shifted(piece.runs[axis], start))
        start += piece.whole[axis]
    if len(terms) > MOST_TERMS * len(found):
        raise Unproved(f"a concatenation of values of more than {MOST_TERMS:,} terms")
    whole = (*first.whole[:axis], total, *first.whole[axis + 1 :])
    runs = (*first.runs[:axis], places.joined(at), *first.runs[axis + 1 :])
    return TermPiece(value, whole, runs, algebra.totalled(terms))


def _of_equal_places(algebra: Algebra, pieces: Sequence[TermPiece], axis: int) -> list[TermPiece]:
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
    return [algebra.refitted(piece, *at) for piece, at in zip(pieces, own, strict=True)]


def _grouped(algebra: Algebra, pieces: Sequence[TermPiece], axis: int) -> list[TermPiece]:
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


def _base(algebra: Algebra, piece: TermPiece, axis: int) -> TermPiece | None:
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


def transposed(algebra: Algebra, value: Value, piece: TermPiece, perm: tuple[int, ...]) -> TermPiece:
    """The dimensions in another order."""
    terms = [(algebra.terms.transposed(atom, perm), c, addends) for atom, c, addends in piece.terms]
    whole, runs = tuple([piece.whole[k] for k in perm]), tuple([piece.runs[k] for k in perm])
    return TermPiece(value, whole, runs, algebra.totalled(terms))


def spread(algebra: Algebra, value: Value, piece: TermPiece, shape: Shape) -> TermPiece:
    """Broadcast to a shape. Raises Unproved for a dimension of 1 that is a part of a larger one."""
    behind = len(shape) - len(piece.whole)
    dims = [(n, places.full(n)) for n in shape[:behind]]
    for size, at, n in zip(piece.whole, piece.runs, shape[behind:], strict=True):
        if places.length(at) != n and size != 1:
            raise Unproved(f"one place of {size} is broadcast to {n}")
        dims.append((size, at) if places.length(at) == n else (n, places.full(n)))
    whole = tuple([size for size, _ in dims])
    terms = [(algebra.terms.spread(atom, whole), c, addends) for atom, c, addends in piece.terms]
    return TermPiece(value, whole, tuple([at for _, at in dims]), algebra.totalled(terms))


def reshaped(
    algebra: Algebra, value: Value, piece: TermPiece, spelled: Sequence[int] = (), whole: Shape | None = None
) -> TermPiece:
    """The elements in the shape of `value`.

    `spelled`: the shape as the program says it, with 0 and -1, and `whole`: that of the whole, if they are known.
    Raises Unproved where the places are no product of places of the new dimensions.
    """
    shape = shape_of(value)
    if algebra.sequential and piece.has_all_places and whole is None:
        whole = shape
    candidates = [whole] if whole is not None else _wholes(algebra, piece, shape, spelled)
    for candidate in candidates:
        found = regrouped(piece.whole, piece.runs, candidate, shape)
        if found is not None:
            if algebra.sequential:
                algebra.shapes.setdefault(piece.whole, {})[candidate] = None
            terms = [(algebra.terms.reshaped(atom, candidate), c, addends) for atom, c, addends in piece.terms]
            return TermPiece(value, candidate, found, algebra.totalled(terms))
    raise Unproved(f"a part of {piece.whole} is no part of any shape that {shape} may be a part of")


def _wholes(algebra: Algebra, piece: TermPiece, shape: Shape, spelled: Sequence[int]) -> list[Shape]:
    """Shapes of which `shape` may be a part: as the sequential one has, as the program says, or grown outermost.

    What -1 means in the program of a part may be something else than the sequential program has: that is tried later.
    """
    if piece.has_all_places:
        return [shape]
    seen = [own for own in algebra.shapes.get(piece.whole, ()) if len(own) == len(shape)]
    meant = _meant(piece.whole, spelled)
    stated = [] if meant is None or len(meant) != len(shape) else [meant]
    found = dict.fromkeys([own for own in stated if own in seen] + seen + stated)
    if (grown := _grown(piece.whole, piece.shape, shape)) is not None:
        found[grown] = None
    return list(found)


def _apart(piece: TermPiece, axis: int) -> Any:
    return piece.whole, piece.runs[:axis], piece.runs[axis + 1 :], piece.terms


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
