"""Rules for proofs: how ops of experts act on the rows of experts' owners.

`Dispatch` with `owners` leaves room behind the rows of each owner. Such rows are those of a dispatch without owners, in
other places, and zeros between them; an owner has a part of them, and the experts that these rows are of. Where a
device has the rows of all tokens, it takes its own out of them, by places that are -1 for the others; what it gives
back is then a sum over the rows that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.ir import Literal

if TYPE_CHECKING:
    from distir.ops.pieces import Piece, Pieces


OF_EXPERTS = "rows of experts"
"""With this the names of sums over the rows of experts begin."""


def dispatched(p: Pieces, experts: Piece, num_experts: int, capacity: int | None, owners: int, room: int | None) -> Any:
    """The places and the counts."""
    if room is None or capacity is not None:
        return NotImplemented
    places, counts = p.several("Dispatch", 2, experts, num_experts=num_experts)
    return [p.owned_places(places, owners, room), counts]


def permuted(p: Pieces, x: Piece, places: Piece, weights: Piece | None, rows: Piece | None) -> Any:
    """Rows, in the places that owners have for them; or those that a device takes out of them."""
    *_, tokens, choices = p.shape(places)
    count = tokens * choices if rows is None else p.ints(rows)[0]
    part, found = p.taken(places), p.of_owned_places(places)
    if part is not None and count == part.count:
        (made,) = p.several("Permute", 1, x, part.positions, weights, Literal(part.size))
        return [p.of_places(made, len(p.shape(x)) - 2, part.places, part.size)]
    if found is not None and count == found.owners * found.room:
        (made,) = p.several("Permute", 1, x, found.plain, weights)
        return [p.owned(made, found)]
    return NotImplemented if rows is None or count != tokens * choices else p.several("Permute", 1, x, places, weights)


def of_rows(p: Pieces, op: str, given: Sequence[Piece | None], rows: int, places: int) -> Any:
    """An op on rows and on their places, these by their indices in `given`: a sum over the rows."""
    found, plain = p.owners_of(given[rows]), list(given)
    part = p.taken(given[places])
    if part is not None:
        axis = len(p.shape(given[rows])) - 2
        if not p.has_rows(given[rows], axis, part):
            return NotImplemented
        plain[rows], plain[places] = p.whole(given[rows], axis), part.positions
        (made,) = p.several(op, 1, *plain)
        order = "" if found is None else f", {found.owners} owners, {found.room} each"
        return [p.some(made, f"{OF_EXPERTS}{order}", p.places(given[rows], axis), part.size)]
    said = p.of_owned_places(given[places])
    if found is None or said is None or not found.has_all or not found.agrees(said):
        return NotImplemented
    plain[rows], plain[places] = found.plain, said.plain
    return p.several(op, 1, *plain)


def multiplied(
    p: Pieces, x: Piece, w: Piece, counts: Piece | None, *, owners: int, transW: bool, load: float, top_k: int
) -> Any:
    """Rows times the matrices of their experts, regardless of attributes about the work."""
    found = p.owners_of(x)
    if counts is None:
        rows = len(p.shape(x)) - 2
        if (load, top_k, owners) == (1.0, 1, 1) and p.has_all(x, rows) and p.has_all(w, 0):
            return NotImplemented
        if found is not None or p.places(x, rows) != _each_of(p.places(w, 0), p.shape(x)[rows] // p.shape(w)[0]):
            return NotImplemented
        (made,) = p.several("RaggedMatMul", 1, p.whole(x, rows), p.whole(w, 0), transW=transW)
        return [p.placed(made, rows, x, rows)]
    if found is None:
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
    if counts is None:
        return _of_equal_experts(p, dy, x, p.ints(experts)[0], transW, (load, top_k, owners) == (1.0, 1, 1))
    if found is None or other is None:
        plain = (load, top_k) == (1.0, 1)
        given = dy, x, counts, experts
        return NotImplemented if plain else p.several("RaggedMatMulGrad", 1, *given, transW=transW, owners=owners)
    axis = len(p.shape(counts)) - 1
    if not found.agrees(other) or not found.has_experts(counts, owners):
        return NotImplemented
    (made,) = p.several("RaggedMatMulGrad", 1, found.plain, other.plain, p.whole(counts, axis), transW=transW)
    return [p.placed(made, 0, counts, axis)]


def _of_equal_experts(p: Pieces, dy: Piece, x: Piece, experts: int, transW: bool, is_plain: bool) -> Any:
    """The gradient of matrices of experts with equally many rows each; `is_plain`: nothing is said of the work."""
    rows = len(p.shape(x)) - 2
    if is_plain and p.has_all(x, rows) and p.has_all(dy, rows):
        return NotImplemented
    each = p.shape(x)[rows] // experts
    if p.places(dy, rows) != p.places(x, rows) or any(n % each for run in p.places(x, rows) for n in run):
        return NotImplemented
    count = p.whole_size(x, rows) // each
    given = p.whole(dy, rows), p.whole(x, rows), None, Literal(count)
    (made,) = p.several("RaggedMatMulGrad", 1, *given, transW=transW)
    own = tuple([(start // each, stop // each) for start, stop in p.places(x, rows)])
    return [p.of_places(made, 0, own, count)]


def _each_of(experts: tuple[tuple[int, int], ...], count: int) -> tuple[tuple[int, int], ...]:
    """The rows of experts, of which each has so many."""
    return tuple([(start * count, stop * count) for start, stop in experts])


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
