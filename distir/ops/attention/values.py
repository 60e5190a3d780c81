"""The values of attention for the reference executor: scores, masks, what dropout keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from distir.ir import (
    Shape,
)
from distir.ops.dropout import kept, kept_scale, places_of, rounded
from distir.ops.numeric import Array, np
from distir.ops.precision import wide

if TYPE_CHECKING:
    pass


def kept_scores(
    scores: Array,
    whole: Array,
    ratio: float,
    key: Array | None,
    rows: Array | None,
    start: Array | None,
    runs: tuple[Array | None, Array | None],
) -> Array:
    """The factor of each weight, 0 for a dropped one. `whole`: the operand to which `start` refers.

    `runs`: the positions of queries and keys in the sequence, if not contiguous.
    """
    if key is None:
        raise ValueError("attention with dropout needs a key of random numbers; the step `seeded` gives it one")
    begin = (0, 0, 0) if start is None else first_score(start.tolist(), whole.shape, scores.shape[1])
    sizes = zip((*begin, 0), scores.shape, strict=True)
    places: list[Array] = [np.arange(first, first + size) for first, size in sizes]
    for axis, own in zip((2, 3), runs, strict=True):
        if own is not None:
            places[axis] = _places(own, scores.shape[axis])
    if rows is not None:
        places[0] = places_of(rows, len(scores))
    share = rounded(ratio)
    return kept(share, key, places) * scores.dtype.type(kept_scale(share))


def first_score(start: Sequence[int], shape: Shape, heads: int) -> tuple[int, int, int]:
    """The sequence, the head and the query at which a part begins; `start` is of queries, or of what is their gradient.

    Where heads are side by side, a device has whole heads.
    """
    if len(start) == 4:
        return start[0], start[1], start[2]
    columns = shape[2]
    assert isinstance(columns, int)
    return start[0], start[2] // max(1, columns // max(1, heads)), start[1]


def scores_of(queries: Array, keys: Array, scale: float | None, softcap: float) -> tuple[Array, Array | None]:
    """The scores before masks; and for a softcap their slope, which is 1 otherwise."""
    factor = 1 / math.sqrt(max(1, queries.shape[-1])) if scale is None else scale
    spread = np.repeat(keys, queries.shape[1] // max(1, keys.shape[1]), axis=1)
    scores = np.matmul(wide(queries), wide(spread).swapaxes(-1, -2)) * factor
    if softcap <= 0:
        return scores, None
    capped = np.tanh(scores / softcap)
    return softcap * capped, 1 - capped * capped


def masked_scores(
    scores: Array,
    mask: Array | None,
    length: Array | None,
    is_causal: bool,
    window: int | None,
    runs: tuple[Array | None, Array | None],
) -> Array:
    """The scores, minus infinity where a mask, the length of a cache or the order of places hides them."""
    rows, columns = cast("tuple[int, int]", scores.shape[-2:])
    place, last = _places(runs[1], columns), _places(runs[0], rows)[:, None]
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + wide(mask)
    if length is not None:
        filled: Array = length.astype(np.int64).reshape(-1, 1, 1, 1)
        if filled.size and not (filled.min() >= 1 and filled.max() <= columns):
            raise ValueError(f"the cache holds {columns} keys, and its filled part is {filled.ravel().tolist()}")
        if is_causal and filled.size and filled.min() < rows:
            raise ValueError(f"{rows} queries are the last of {filled.min()} filled places of a cache")
        scores = np.where(place >= filled, -np.inf, scores)
        last = last + filled - rows
    if is_causal:
        hidden: Array = place > last if window is None else (place > last) | (place <= last - window)
        scores = np.where(hidden, -np.inf, scores)
    return scores


def _places(runs: Array | None, count: int) -> Array:
    """The positions of queries or keys in the sequence."""
    if runs is None:
        return np.arange(count)
    return (runs.astype(np.int64)[:, None] + np.arange(count // max(1, len(runs)))).reshape(-1)


def of_group(x: Array, group: int) -> Array:
    """The sum over the heads of queries that share a head of keys and values."""
    batch, heads, length, size = x.shape
    return x.reshape(batch, heads // max(1, group), max(1, group), length, size).sum(axis=2)
