"""The work of attention: scores, FLOPs, traffic, workspace, of the part of a mask that is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from distir.ops.dropout import FLOPS as DROPOUT_FLOPS
from distir.ops.host import known_ints
from distir.ops.resources import Scores

if TYPE_CHECKING:
    pass


def _extent(q: int, n: int, offset: int, causal: bool, window: int | None) -> tuple[int, int]:
    """The number of scores of `q` queries, and of keys read, of `n`. `offset`: the position of the first query.

    Of the triangle before the diagonal, half of the square is counted, as kernels and papers do.
    """
    if not causal:
        return q * n, n
    end, most = offset + q, window or offset + q
    before = _staircase(end, n) - _staircase(offset, n)
    left_behind = _staircase(end - most, n) - _staircase(offset - most, n)
    growing = max(0, min(n, most, end) - offset)
    return before - left_behind - growing // 2, max(0, min(n, end) - max(0, offset + 1 - most))


def _staircase(steps: int, most: int) -> int:
    """The sum of the first `steps` terms of 1, 2, 3, …, each capped at `most`."""
    rising = max(0, min(steps, most))
    return rising * (rising + 1) // 2 + max(0, steps - most) * most


def _extents(
    *, b: int, q: int, k: int, is_causal: bool, given: Any, window: int | None = None, **_: Any
) -> tuple[int, int]:
    """Scores of one head, and keys that are read for it, of all sequences. A length that is not known is the whole."""
    queries, keys = (known_ints(given.get(name)) for name in ("query_runs", "key_runs"))
    if is_causal and (queries or keys):
        scores, read = _extent_of_runs(q, k, queries or (0,), keys or (0,), window)
        return b * scores, b * read
    if "length" not in given:
        return b * _extent(q, k, 0, is_causal, window)[0], b * k
    lengths = known_ints(given["length"]) or (k,)
    found = [_extent(q, n, max(0, n - q), is_causal, window) for n in lengths]
    scores, read = (sum(column) * b // len(found) for column in zip(*found, strict=True))
    return scores, read


def _extent_of_runs(q: int, k: int, queries: Sequence[int], keys: Sequence[int], window: int | None) -> tuple[int, int]:
    """The scores of runs of queries and keys, and the number of keys between the first and the last attended."""
    rows, columns = q // len(queries), k // len(keys)
    scores = sum(
        _extent(rows, last, first, True, window)[0] - _extent(rows, begin, first, True, window)[0]
        for first in queries
        for begin, last in ((begin, begin + columns) for begin in keys)
    )
    end, start = max(queries) + rows, max(0, min(queries) + 1 - window) if window else 0
    return scores, sum(max(0, min(begin + columns, end) - max(begin, start)) for begin in keys)


def _sizes(**letters: Any) -> tuple[int, int]:
    """The heads of queries, and the sizes of a key's and of a value's head together."""
    own = letters.get("v_head_size")
    if "h" in letters:
        return letters["h"], letters["e"] + (own or letters["v"])
    heads, shared = letters["q_num_heads"], letters["kv_num_heads"]
    return heads, letters["x"] // max(1, heads) + (own or letters["z"] // max(1, shared))


def forward_flops(**letters: Any) -> int:
    """Two products, and the random numbers of dropout."""
    heads, size = _sizes(**letters)
    return heads * _extents(**letters)[0] * (2 * size + _dropout_flops(**letters))


def backward_flops(**letters: Any) -> int:
    """Five products, and the random numbers of dropout."""
    heads, size = _sizes(**letters)
    return heads * _extents(**letters)[0] * (5 * size + _dropout_flops(**letters))


def _dropout_flops(*, dropout: float = 0.0, **_: Any) -> int:
    """Of one score: what is kept is found anew in the backward pass, for no mask is in memory."""
    return DROPOUT_FLOPS if dropout else 0


def forward_scores(**letters: Any) -> Scores:
    """The scores, for costs by shape."""
    return _contraction(1.0, **letters)


def backward_scores(**letters: Any) -> Scores:
    """The scores, for costs by shape: five products for two."""
    return replace(_contraction(2.5, **letters), backward=True)


def _contraction(passes: float, *, b: int, q: int, k: int, **letters: Any) -> Scores:
    """Keys beyond the filled length of a cache are not read and do not count."""
    heads, size = _sizes(**letters)
    scores, read = _extents(b=b, q=q, k=k, **letters)
    keys = max(1, -(-read // b) if "length" in letters["given"] else k)
    random = _dropout_flops(**letters) / (2 * max(1, size))
    shared = letters["g"] if "g" in letters else letters["kv_num_heads"]
    share = min(1.0, scores / (b * q * keys))
    return Scores(b * heads, q, keys, -(-size // 2), share, passes, max(1, heads // max(1, shared)), random=random)


def forward_bytes(*, moved: int, t: int, **letters: Any) -> int:
    """All operands and results, but for the keys and values that are not read."""
    unread = letters["b"] * letters["k"] - _extents(**letters)[1]
    if "v" not in letters["given"]:  # values are a part of keys, which are read once
        row = letters["g"] * letters["e"] if "g" in letters else letters["y"]
    else:
        row = letters["g"] * (letters["e"] + letters["v"]) if "g" in letters else letters["y"] + letters["z"]
    return moved - t * unread * row


def backward_workspace(*, b: int, q: int, t: int, **letters: Any) -> int:
    """The gradient of the queries while it is added up, in Float32, and a Float32 number per row."""
    heads = letters["h"] if "h" in letters else letters["q_num_heads"]
    columns = heads * letters["e"] if "e" in letters else letters["x"]
    return 4 * b * q * (heads + (columns if t < 4 else 0))
