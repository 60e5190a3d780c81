"""Rules for proofs: how ops of experts act on the rows of experts' owners.

`Dispatch` with `owners` leaves room behind the rows of each owner. Such rows are those of a dispatch without owners, in
other places, and zeros between them; an owner has a part of them, and the experts that these rows are of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.ir import Literal

if TYPE_CHECKING:
    from distir.ops.pieces import Piece, Pieces


def dispatched(p: Pieces, experts: Piece, num_experts: int, capacity: int | None, owners: int, room: int | None) -> Any:
    """The places and the counts."""
    if room is None or capacity is not None:
        return NotImplemented
    places, counts = p.several("Dispatch", 2, experts, num_experts=num_experts)
    return [p.owned_places(places, owners, room), counts]


def permuted(p: Pieces, x: Piece, places: Piece, weights: Piece | None, rows: Piece | None) -> Any:
    """Rows, in the places that owners have for them."""
    found = p.owners_of(places)
    if found is None or rows is None or p.ints(rows) != (found.owners * found.room,):
        return NotImplemented
    (made,) = p.several("Permute", 1, x, found.plain, weights)
    return [p.owned(made, found)]


def of_all_rows(p: Pieces, op: str, given: Sequence[Piece | None], rows: int, places: int) -> Any:
    """An op on rows, all of which are there, and on their places; these by their indices in `given`."""
    found, said = p.owners_of(given[rows]), p.owners_of(given[places])
    if found is None or said is None or not found.has_all or not found.agrees(said):
        return NotImplemented
    plain = list(given)
    plain[rows], plain[places] = found.plain, said.plain
    return p.several(op, 1, *plain)


def multiplied(
    p: Pieces, x: Piece, w: Piece, counts: Piece | None, *, owners: int, transW: bool, load: float, top_k: int
) -> Any:
    """Rows times the matrices of their experts, regardless of attributes about the work."""
    found = p.owners_of(x)
    if found is None or counts is None:
        plain = (load, top_k) == (1.0, 1)
        return NotImplemented if plain else p.several("RaggedMatMul", 1, x, w, counts, transW=transW, owners=owners)
    axis = len(p.shape(counts)) - 1
    if not found.has_experts(counts, owners) or p.places(w, 0) != p.places(counts, axis):
        return NotImplemented
    (made,) = p.several("RaggedMatMul", 1, found.plain, p.whole(w, 0), p.whole(counts, axis), transW=transW)
    return [p.owned(made, found)]


def outer(
    p: Pieces,
    dy: Piece,
    x: Piece,
    counts: Piece | None,
    experts: Piece | None,
    *,
    owners: int,
    transW: bool,
    load: float,
    top_k: int,
) -> Any:
    """The gradient of the matrices of an owner's experts."""
    found, other = p.owners_of(dy), p.owners_of(x)
    if found is None or other is None or counts is None:
        plain = (load, top_k) == (1.0, 1)
        given = dy, x, counts, experts
        return NotImplemented if plain else p.several("RaggedMatMulGrad", 1, *given, transW=transW, owners=owners)
    axis = len(p.shape(counts)) - 1
    if not found.agrees(other) or not found.has_experts(counts, owners):
        return NotImplemented
    (made,) = p.several("RaggedMatMulGrad", 1, found.plain, other.plain, p.whole(counts, axis), transW=transW)
    return [p.placed(made, 0, counts, axis)]


def expanded(p: Pieces, x: Piece, counts: Piece, rows: Piece, *, owners: int) -> Any:
    """The row of each expert for each of its rows, where an owner has them."""
    axis = len(p.shape(counts)) - 1
    found = p.owners_by(counts, p.ints(rows)[0], owners)
    if found is None or p.places(x, 0) != p.places(counts, axis):
        return NotImplemented
    count = Literal(found.rows)
    (made,) = p.several("RaggedExpand", 1, p.whole(x, 0), p.whole(counts, axis), count)
    return [p.owned(made, found)]


def summed(p: Pieces, x: Piece, counts: Piece, *, owners: int) -> Any:
    """The sum of the rows of each of an owner's experts."""
    axis = len(p.shape(counts)) - 1
    found = p.owners_of(x)
    if found is None or not found.has_experts(counts, owners):
        return NotImplemented
    (made,) = p.several("RaggedSum", 1, found.plain, p.whole(counts, axis))
    return [p.placed(made, 0, counts, axis)]
