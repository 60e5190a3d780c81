"""What attention makes of parts of a sequence, for proofs: of gathered keys, and of those that travel around a ring.

A query's result depends on the other queries in nothing, so rows of queries give rows of the result. Over some keys it
is a *share* of the result over all, with that of the log-sum-exp: shares over different keys merge. The gradients are
sums over keys, or over queries, where the log-sum-exp is that over all. Of causal attention, only the
keys up to a query count, and a query's part in the gradient of later keys is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distir.ops.pieces import Piece, Pieces


def forward_of_pieces(
    p: Pieces, q: Piece, k: Piece, v: Piece | None, others: Sequence[Piece | None], attrs: Any
) -> Any:
    """`others`: the operands behind the values."""
    mask, sinks, *rest = (*others, *(None,) * 8)[:8]
    stated = rest[4], rest[5]
    if not _splits(p, q, k, v, mask, rest[:4], stated, attrs):
        return NotImplemented
    axis = _axis(p, q)
    keys, size = _seen(p, q, k, axis, attrs)
    whole = [None if x is None else p.whole(x, axis) for x in (q, k, v)]
    over_all = p.several("Attention", p.count, *whole, _all_rows(p, mask), sinks, **attrs)
    found = [p.placed(x, own, q, axis) for x, own in zip(over_all, (axis, 2), strict=False)]
    if p.is_all(k, axis) or keys == ((0, size),):
        return found
    if p.count < 2:
        return NotImplemented
    without = found
    if sinks is not None:
        made = p.several("Attention", 2, *whole, **attrs)
        without = [p.placed(x, own, q, axis) for x, own in zip(made, (axis, 2), strict=True)]
    return [p.share(x, keys, size, None if sinks is None else y) for x, y in zip(without, found, strict=True)]


def backward_of_pieces(p: Pieces, given: Sequence[Piece], others: Sequence[Piece | None], attrs: Any) -> Any:
    """`given`: the gradient of the result, queries, keys, values, the result, its log-sum-exp."""
    dy, q, k, v, y, lse = given
    mask, sinks, *rest = (*others, *(None,) * 7)[:7]
    if not _splits(p, q, k, v, mask, rest[:3], (rest[3], rest[4]), attrs):
        return NotImplemented if sinks is None else _with_sinks(p, given, others, attrs)
    axis = _axis(p, q)
    queries = p.places(q, axis)
    if any(p.places(x, own) != queries for x, own in ((dy, axis), (y, axis), (lse, 2))):
        return NotImplemented
    whole = [p.whole(x, own) for x, own in zip(given, (axis,) * 5 + (2,), strict=True)]
    found = p.several("AttentionGrad", p.count, *whole, _all_rows(p, mask), sinks, **attrs)
    dq, dk, dv, *dsinks = found
    keys, size = _seen(p, q, k, axis, attrs)
    dq = p.placed(p.some(dq, f"keys up to {size}", keys, size), axis, q, axis)
    rows = queries, p.whole_size(q, axis)
    behind = axis if attrs["is_causal"] else None
    made = [p.placed(p.some(x, "queries", *rows, behind), axis, k, axis) for x in (dk, dv)]
    return [dq, *made, *(p.some(x, "queries", *rows) for x in dsinks)]


def _seen(p: Pieces, q: Piece, k: Piece, axis: int, attrs: Any) -> tuple[tuple[tuple[int, int], ...], int]:
    """Which keys there are, of how many that the queries see: if attention is causal, none behind the last query."""
    return p.up_to(k, axis, q, axis) if attrs["is_causal"] else (p.places(k, axis), p.whole_size(k, axis))


def _with_sinks(p: Pieces, given: Sequence[Piece], others: Sequence[Piece | None], attrs: Any) -> Any:
    """The gradients by queries, keys and values do not read the sinks, which are in the log-sum-exp."""
    mask, _, *rest = others
    found = p.several("AttentionGrad", 3, *given, mask, None, *rest, **attrs)
    return [*found, *p.by_layout("AttentionGrad", p.count, *given, *others, **attrs)[3:]]


def merged_pieces(p: Pieces, y: Piece, lse: Piece, part: Piece, part_lse: Piece) -> Any:
    """Shares of one result over different keys, wider than they were before if need be."""
    dtype = p.dtype(y)
    narrow = p.before_cast(y)
    found = p.merged((y if narrow is None else narrow, lse), (part, part_lse))
    if found is None:
        return NotImplemented
    return [p.cast(found[0], dtype), found[1]]


def _axis(p: Pieces, q: Piece) -> int:
    """Of the sequence."""
    return 2 if len(p.shape(q)) == 4 else 1


def _splits(
    p: Pieces,
    q: Piece,
    k: Piece,
    v: Piece | None,
    mask: Piece | None,
    none: Sequence[Piece | None],
    stated: tuple[Piece | None, Piece | None],
    attrs: Any,
) -> bool:
    """Whether the sequence is in parts, of which the operands say the places; `none`: operands that must be none."""
    axis = _axis(p, q)
    if any(x is not None for x in none) or attrs["dropout"] or len(p.shape(k)) != len(p.shape(q)):
        return False
    if mask is not None and not (p.has_all(k, axis) and _of_queries(p, mask, q, axis)):
        return False
    if v is not None and p.places(v, axis) != p.places(k, axis):
        return False
    if p.has_all(q, axis) and p.has_all(k, axis) and stated == (None, None):
        return False
    return not attrs["is_causal"] or all(
        p.begins(x, axis, None if runs is None else p.starts(runs)) for x, runs in zip((q, k), stated, strict=True)
    )


def _of_queries(p: Pieces, mask: Piece, q: Piece, axis: int) -> bool:
    """Whether a mask is one for all queries, or has the rows of these."""
    rows = len(p.shape(mask)) - 2
    if rows < 0 or p.whole_size(mask, rows) == 1:
        return True
    return (p.places(mask, rows), p.whole_size(mask, rows)) == (p.places(q, axis), p.whole_size(q, axis))


def _all_rows(p: Pieces, mask: Piece | None) -> Piece | None:
    """The mask for all queries."""
    rows = -1 if mask is None else len(p.shape(mask)) - 2
    return mask if rows < 0 else p.whole(mask, rows)
