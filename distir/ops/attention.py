"""Attention as a single op, as the flash kernels compute it, forward and backward.

The kernels go over queries and keys in tiles and keep a running maximum and sum of the softmax (Dao et al. 2022,
arXiv:2205.14135; Dao 2023, arXiv:2307.08691). So the scores, of which there are as many as pairs of a query and a key,
are in no memory: not as a result, not as workspace. Of the softmax a row's log-sum-exp is kept, from which the backward
pass computes the scores again.

Each score takes a product over the size of a key's head and one over the size of a value's: 4·b·h·q·k·e FLOPs where the
sizes are equal. Of a causal triangle half is computed, and with a sliding window what is inside; the backward pass
takes 2.5 times as many FLOPs, five products for two. With dropout each pass draws the random numbers, which takes for
each score what it takes in `Dropout`. Traffic is that of operands and results; of a cache, of the part that is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import (
    DISCARD,
    DTYPES,
    Arg,
    Dim,
    DimensionError,
    DType,
    Literal,
    Part,
    Shape,
    TensorType,
    dims,
    types,
)
from distir.ops.core import op
from distir.ops.dropout import FLOPS as DROPOUT_FLOPS
from distir.ops.dropout import kept, kept_scale, least_kept, places_of, rounded
from distir.ops.heads import by_head, heads_apart, heads_joined, joined, split_heads
from distir.ops.host import Operand, known_ints
from distir.ops.host import length as known_length
from distir.ops.layout import Exchange, Layout, Letters, Parts
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.resources import Scores
from distir.ops.specs import FIRST_ORDER_ONLY
from distir.ops.unify import Reject, broadcast

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients, Rewrite
    from distir.ops.torch_form import Expr, Unpacked, Write


# The work.


def _extent(q: int, n: int, offset: int, causal: bool, window: int | None) -> tuple[int, int]:
    """How many scores `q` queries have, and how many of `n` keys are read. `offset`: the place of the first query.

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
    """1 + 2 + 3 + …, so many terms, none above `most`."""
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
    """The scores of runs of queries and of keys, and how many keys lie between the first and the last that is seen."""
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


def _forward_flops(**letters: Any) -> int:
    heads, size = _sizes(**letters)
    return heads * _extents(**letters)[0] * (2 * size + _dropout_flops(**letters))


def _backward_flops(**letters: Any) -> int:
    heads, size = _sizes(**letters)
    return heads * _extents(**letters)[0] * (5 * size + _dropout_flops(**letters))


def _dropout_flops(*, dropout: float = 0.0, **_: Any) -> int:
    """Of one score: what is kept is found anew in the backward pass, for no mask is in memory."""
    return DROPOUT_FLOPS if dropout else 0


def _forward_scores(**letters: Any) -> Scores:
    return _contraction(1.0, **letters)


def _backward_scores(**letters: Any) -> Scores:
    return replace(_contraction(2.5, **letters), backward=True)


def _contraction(passes: float, *, b: int, q: int, k: int, **letters: Any) -> Scores:
    """Keys that are not read, for they lie beyond the filled length of a cache, are none."""
    heads, size = _sizes(**letters)
    scores, read = _extents(b=b, q=q, k=k, **letters)
    keys = max(1, -(-read // b) if "length" in letters["given"] else k)
    passes += _dropout_flops(**letters) / (2 * max(1, size))
    shared = letters["g"] if "g" in letters else letters["kv_num_heads"]
    share = min(1.0, scores / (b * q * keys))
    return Scores(b * heads, q, keys, -(-size // 2), share, passes, max(1, heads // max(1, shared)))


def _forward_bytes(*, moved: int, t: int, **letters: Any) -> int:
    """All operands and results, but for the keys and values that are not read."""
    unread = letters["b"] * letters["k"] - _extents(**letters)[1]
    if "v" not in letters["given"]:  # values are a part of keys, which are read once
        row = letters["g"] * letters["e"] if "g" in letters else letters["y"]
    else:
        row = letters["g"] * (letters["e"] + letters["v"]) if "g" in letters else letters["y"] + letters["z"]
    return moved - t * unread * row


def _backward_workspace(*, b: int, q: int, t: int, **letters: Any) -> int:
    """The gradient of the queries while it is added up, in Float32, and a Float32 number per row."""
    heads = letters["h"] if "h" in letters else letters["q_num_heads"]
    columns = heads * letters["e"] if "e" in letters else letters["x"]
    return 4 * b * q * (heads + (columns if t < 4 else 0))


# Forward.

RANDOM = "Optional[Tensor[Int64, (), host]], Optional[Tensor[Int64, (_,), d]], Optional[Tensor[Int64, (_,), host]]"
"""In signatures: `key`, `rows` and `start`, of `Dropout`."""

RUNS = "Optional[Tensor[Int64, (_,), host]], Optional[Tensor[Int64, (_,), host]]"
"""In signatures: `query_runs` and `key_runs`, where parts of a sequence begin."""

START, GRADIENT_START = 8, 10
"""The place of the operand `start`, forward and backward."""


@op(
    "Tensor[t:float, (b, h, q, e), d], Tensor[t:float, (b, g, k, e), d], Optional[Tensor[t:float, (b, g, k, v), d]],"
    " Optional[Tensor[_, _, d]], Optional[Tensor[t, (h,), d]], Optional[Tensor[i:int, _, d]],"
    f" {RANDOM}, {RUNS} -> Tensor[t, (b, h, q, _), d], *Tensor[Float32, (b, h, q), d]",
    "Tensor[t:float, (b, q, x), d], Tensor[t:float, (b, k, y), d], Optional[Tensor[t:float, (b, k, z), d]],"
    " Optional[Tensor[_, _, d]], Optional[Tensor[t, (n,), d]], Optional[Tensor[i:int, _, d]],"
    f" {RANDOM}, {RUNS} -> Tensor[t, (b, q, _), d], *Tensor[Float32, _, d]",
    flops=_forward_flops,
    contraction=_forward_scores,
    bytes=_forward_bytes,
    saved=2,
)
def Attention(
    q: Array,
    k: Array,
    v: Array | None = None,
    attn_mask: Array | None = None,
    sinks: Array | None = None,
    length: Array | None = None,
    key: Array | None = None,
    rows: Array | None = None,
    start: Array | None = None,
    query_runs: Array | None = None,
    key_runs: Array | None = None,
    *,
    is_causal: bool = False,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    window: int | None = None,
    v_head_size: int | None = None,
    dropout: float = 0.0,
    context: str = "",
    count: int = 1,
) -> list[Array]:
    """Softmax of the masked, scaled products of queries and keys, times the values. ONNX `Attention`.

    Costs what flash kernels cost: the scores are in no memory. Operands are (batch, heads, sequence, size), or (batch,
    sequence, heads * size) with `q_num_heads` and `kv_num_heads`. With fewer heads of keys and values, groups of query
    heads share them (GQA). In a Bool mask, true means attend; another mask is added to the scores. `is_causal` masks
    keys after the query. A query whose keys are all masked gives zeros. `scale` is by default one over the root of the
    head size; `softcap` > 0 bounds the scores by `softcap * tanh(score / softcap)`. With `window` a causal query
    attends to the last `window` keys only, including its own (sliding window). `sinks` holds a score for each query
    head, which is added to its softmax like a key without a value.

    With `length` keys and values are a cache of which that many places are filled, a number for all sequences or one
    for each: those behind are not read, and the queries are the last of the filled places. A length on a device is not
    known before the program runs: the time is that of a cache that is full.

    Without `v` the values are the first `v_head_size` columns of each head of keys, which are read once: multi-head
    latent attention to a cache of latents (DeepSeek-V2, arXiv:2405.04434, section 2.1; FlashMLA).

    With `dropout` that share of the softmax's weights is dropped, and others are divided by `1 - dropout`, as `Dropout`
    does it to a tensor (batch, heads, queries, keys): `key` is of the random numbers, `rows` are the positions of the
    sequences in the whole batch, and `start` is where `q` begins in the whole along each dimension, written by
    transforms. The step `seeded` gives the key. No mask is in memory: the backward pass draws the same numbers.

    With `query_runs` the queries are parts of a longer sequence: as many runs of one length as there are numbers, which
    say where each begins; and with `key_runs` the keys and values. A causal mask, and a window, are those of the places
    in the sequence. The step `cp` writes them. `context` is its mark: how the op is split along the sequence.

    The optional second result is the log-sum-exp of each query's scores, (batch, heads, sequence), in Float32, for
    operands in Float64 in that. The backward pass, `AttentionGrad`, takes it.

    %y = Attention(%q: Tensor[Float32, (2, 4, 3, 8), 1], %k: Tensor[Float32, (2, 2, 5, 8), 1], %v: Tensor[Float32, (2, 2, 5, 6), 1])
    %y = Attention[is_causal = true, q_num_heads = 2, kv_num_heads = 2](%x: Tensor[Float32, (2, 5, 8), 1], %x, %x)
    %y = Attention[is_causal = true, window = 2](%q: Tensor[Float32, (2, 4, 3, 8), 1], %k: Tensor[Float32, (2, 2, 3, 8), 1], %k, _, %s: Tensor[Float32, (4,), 1])
    %y = Attention[is_causal = true](%q: Tensor[Float32, (2, 4, 1, 8), 1], %k: Tensor[Float32, (2, 2, 6, 8), 1], %v: Tensor[Float32, (2, 2, 6, 8), 1], _, _, 4)
    %y = Attention[q_num_heads = 4, kv_num_heads = 1, v_head_size = 6](%q: Tensor[Float32, (2, 1, 32), 1], %latents: Tensor[Float32, (2, 5, 8), 1])
    %y, %lse = Attention[is_causal = true](%q: Tensor[Float32, (2, 4, 3, 8), 1], %k: Tensor[Float32, (2, 2, 3, 8), 1], %v: Tensor[Float32, (2, 2, 3, 6), 1])
    %y = Attention[dropout = 0.5](%q: Tensor[Float32, (2, 4, 3, 8), 1], %k: Tensor[Float32, (2, 2, 5, 8), 1], %v: Tensor[Float32, (2, 2, 5, 6), 1], _, _, _, 7)
    """  # noqa: E501
    queries, keys = by_head(q, q_num_heads), by_head(k, kv_num_heads)
    values = keys[..., :v_head_size] if v is None else by_head(v, kv_num_heads)
    group = queries.shape[1] // max(1, keys.shape[1])
    scores = _scores(queries, keys, scale, softcap)[0]
    scores = _masked(scores, attn_mask, length, is_causal, window, (query_runs, key_runs))
    sink = np.full((1, 1, 1), -np.inf, scores.dtype) if sinks is None else wide(sinks).reshape(-1, 1, 1)
    largest = np.maximum(scores.max(axis=-1, keepdims=True, initial=-np.inf), sink)
    shift = np.where(largest == -np.inf, 0, largest)
    weights = np.exp(scores - shift)
    total = weights.sum(axis=-1, keepdims=True) + np.exp(sink - shift)
    spread = np.repeat(values, group, axis=1)
    weights = weights / np.where(total == 0, 1, total)
    if dropout:
        weights = weights * _kept(weights, q, dropout, key, rows, start)
    mixed = np.matmul(weights, wide(spread)).astype(q.dtype)
    lse = (shift + np.log(total))[..., 0]
    return [mixed if q.ndim == 4 else joined(mixed), lse.astype(np.float64 if q.dtype == np.float64 else np.float32)][
        :count
    ]


def _kept(
    scores: Array, whole: Array, ratio: float, key: Array | None, rows: Array | None, start: Array | None
) -> Array:
    """What each weight is multiplied with, 0 for one that is dropped. `whole`: the operand that `start` is of."""
    if key is None:
        raise ValueError("attention with dropout needs a key of random numbers; the step `seeded` gives it one")
    begin = (0, 0, 0) if start is None else _first_score(start.tolist(), whole.shape, scores.shape[1])
    sizes = zip((*begin, 0), scores.shape, strict=True)
    places: list[Array] = [np.arange(first, first + size) for first, size in sizes]
    if rows is not None:
        places[0] = places_of(rows, len(scores))
    share = rounded(ratio)
    return kept(share, key, places) * scores.dtype.type(kept_scale(share))


def _first_score(start: Sequence[int], shape: Shape, heads: int) -> tuple[int, int, int]:
    """The sequence, the head and the query at which a part begins; `start` is of queries, or of what is their gradient.

    Where heads are side by side, a device has whole heads.
    """
    if len(start) == 4:
        return start[0], start[1], start[2]
    columns = shape[2]
    assert isinstance(columns, int)
    return start[0], start[2] // max(1, columns // max(1, heads)), start[1]


def _scores(queries: Array, keys: Array, scale: float | None, softcap: float) -> tuple[Array, Array | None]:
    """The scores before masks; and for a softcap their slope, which is 1 otherwise."""
    factor = 1 / math.sqrt(max(1, queries.shape[-1])) if scale is None else scale
    spread = np.repeat(keys, queries.shape[1] // max(1, keys.shape[1]), axis=1)
    scores = np.matmul(wide(queries), wide(spread).swapaxes(-1, -2)) * factor
    if softcap <= 0:
        return scores, None
    capped = np.tanh(scores / softcap)
    return softcap * capped, 1 - capped * capped


def _masked(
    scores: Array,
    mask: Array | None,
    length: Array | None,
    is_causal: bool,
    window: int | None,
    runs: tuple[Array | None, Array | None],
) -> Array:
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
    """Where each of so many queries or keys is in the sequence."""
    if runs is None:
        return np.arange(count)
    return (runs.astype(np.int64)[:, None] + np.arange(count // max(1, len(runs)))).reshape(-1)


@Attention.checks
def _(q: Operand, k: Operand, v: Operand | None = None, *others: Operand | None, count: int, **attrs: Any) -> None:
    _check_random("Attention", q, others[3:], attrs["dropout"])
    _check_context("Attention", attrs["context"])
    if (v is None) == (attrs.get("v_head_size") is None):
        message = "`Attention` expected either values or a `v_head_size`, how much of the keys they are, found "
        raise Reject(codes.BAD_VALUE, message + ("neither" if v is None else "both"), Part("callee"))
    if count > 2:
        message = f"`Attention` gives 2 results at most, found {count} names"
        raise Reject(name_codes.RESULT_COUNT, message, Part("result", 2))


@Attention.shapes
def _(
    q: Operand,
    k: Operand,
    v: Operand | None = None,
    attn_mask: Operand | None = None,
    sinks: Operand | None = None,
    length: Operand | None = None,
    *random: Operand | None,
    count: int,
    **attrs: Any,
) -> Sequence[Shape | TensorType | None]:
    found = _checked_sizes("Attention", q, k, v, attn_mask, sinks, attrs)
    if found is None:
        return [None, TensorType(_statistics_dtype(q), None)][:count]
    (batch, heads, rows, _), (_, _, columns, _), (_, _, _, width) = found
    if length is not None:
        _check_length(length, batch, rows, columns, attrs["is_causal"])
    _check_runs("Attention", random, rows, columns, length)
    y = (batch, heads, rows, width) if _rank(q, k, v) == 4 else (batch, rows, dims.multiply(heads, width))
    return [y, TensorType(_statistics_dtype(q), (batch, heads, rows))][:count]


def _statistics_dtype(q: Operand) -> DType | None:
    """The element type of the log-sum-exp."""
    if q.dtype is None:
        return None
    return DTYPES["Float64" if q.dtype is DTYPES["Float64"] else "Float32"]


def _rank(q: Operand, k: Operand, v: Operand | None) -> int | None:
    return next((len(o.shape) for o in (q, k, v) if o is not None and o.shape is not None), None)


def _checked_sizes(
    op: str, q: Operand, k: Operand, v: Operand | None, mask: Operand | None, sinks: Operand | None, attrs: Any
) -> tuple[tuple[Dim, Dim, Dim, Dim], ...] | None:
    """Batch, heads, sequence and size of queries, keys and values. Raises Reject where they do not fit together."""
    window = attrs.get("window")
    if window is not None and (window < 1 or not attrs["is_causal"]):
        message = f"`{op}` expected a `window` of at least 1 key, and `is_causal`, found {window}"
        raise Reject(codes.BAD_VALUE, message, "window")
    rank = _rank(q, k, v)
    if rank is None:
        return None
    q_heads, kv_heads = attrs.get("q_num_heads"), attrs.get("kv_num_heads")
    for name, heads in (("q_num_heads", q_heads), ("kv_num_heads", kv_heads)):
        if heads is None and rank == 3:
            raise Reject(name_codes.MISSING_ATTRIBUTE, f"`{op}` of tensors of rank 3 needs `{name}`", Part("callee"))
    queries = split_heads("q", q, q_heads, rank, op, "q_num_heads")
    keys = split_heads("k", k, kv_heads, rank, op, "kv_num_heads")
    if v is None:
        size = attrs["v_head_size"]
        if size < 1 or (isinstance(keys[3], int) and size > keys[3]):
            most = dims.show(keys[3])
            message = f"`{op}` expected a `v_head_size` from 1 to the {most} columns of a head of keys, found {size}"
            raise Reject(codes.BAD_VALUE, message, "v_head_size")
        values = (*keys[:3], size)
    else:
        values = split_heads("v", v, kv_heads, rank, op, "kv_num_heads")
    if isinstance(queries[1], int) and isinstance(keys[1], int) and keys[1] and queries[1] % keys[1]:
        message = f"`{op}` expected a multiple of the {keys[1]} heads of keys and values, found {queries[1]}"
        raise Reject(codes.INDIVISIBLE, message, "q")
    if None not in (queries[3], keys[3]) and queries[3] != keys[3]:
        message = f"`{op}` expected keys with heads of size {queries[3]}, found {keys[3]}"
        raise Reject(codes.SHAPE_MISMATCH, message, "k", ((Part("operand", 0), f"it is {queries[3]} here"),))
    batch = next((s[0] for s in (queries, keys, values) if s[0] is not None), None)
    length = keys[2] if values[2] is None else values[2]
    if mask is not None:
        _check_mask(op, mask, q, (batch, queries[1], queries[2], length))
    stated = None if sinks is None or not sinks.shape else sinks.shape[0]
    if None not in (queries[1], stated) and stated != queries[1]:
        message = f"`{op}` expected a sink for each of {dims.show(queries[1])} query heads"
        raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {dims.show(stated)}", "sinks")
    return (batch, *queries[1:]), (batch, *keys[1:2], length, keys[3]), values


def _check_mask(op: str, mask: Operand, q: Operand, scores: Shape) -> None:
    if None not in (mask.dtype, q.dtype) and mask.dtype not in (q.dtype, DTYPES["Bool"]):
        message = f"`{op}` expected a mask of Bool or {q.dtype} elements, found {mask.dtype}"
        raise Reject(codes.DTYPE_MISMATCH, message, "attn_mask")
    if mask.shape is None:
        return
    try:
        fits = broadcast(mask.shape, scores) == scores or None in (*scores, *mask.shape)
    except DimensionError:
        fits = False
    if not fits:
        message = f"`{op}` expected a mask that broadcasts to the scores {types.show_shape(scores)}"
        raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {types.show_shape(mask.shape)}", "attn_mask")


def _check_random(op: str, first: Operand, given: Sequence[Operand | None], ratio: float) -> None:
    """`given`: the key, rows and start, as far as they are stated; `first`: the operand that the start is of."""
    if not 0 <= ratio <= 1:
        raise Reject(codes.BAD_VALUE, f"`{op}` expected `dropout` to be from 0 to 1, found {ratio:g}", "dropout")
    _, rows, start = (*given, None, None, None)[:3]
    rank, size = len(first.shape or ()), first.shape[0] if first.shape else None
    if start is not None and first.shape is not None and known_length(start) not in (None, rank):
        message = f"`{op}` expected a start for each of {rank} dimensions, found {known_length(start)}"
        raise Reject(codes.BAD_VALUE, message, "start")
    if rows is not None and rows.shape:
        stated = rows.shape[0]
        if isinstance(size, int) and isinstance(stated, int) and (size % stated if stated else size):
            message = f"`{op}` expected a number of rows that divides the batch of {size}, found {stated}"
            raise Reject(codes.BAD_VALUE, message, "rows")


CONTEXTS = ("allgather", "a2a", "ring")
"""How attention is split along the sequence.

Each device has the keys of all; or the whole sequence of some heads; or keys travel from device to device.
"""


def _check_context(op: str, context: str) -> None:
    if context and context not in CONTEXTS:
        expected = ", ".join(f'"{name}"' for name in CONTEXTS)
        raise Reject(codes.BAD_VALUE, f'`{op}` expected one of {expected}, found "{context}"', "context")


def _check_runs(op: str, others: Sequence[Operand | None], rows: Dim, columns: Dim, length: Operand | None) -> None:
    """`others`: the operands behind the length, runs of queries and of keys the last of them."""
    for name, runs, size in zip(("query_runs", "key_runs"), (*others, *(None,) * 5)[3:5], (rows, columns), strict=True):
        count = None if runs is None else known_length(runs)
        if runs is not None and length is not None:
            raise Reject(codes.BAD_VALUE, f"`{op}` expected either runs or the `length` of a cache, found both", name)
        if isinstance(count, int) and (count == 0 or (isinstance(size, int) and size % count)):
            message = f"`{op}` expected a number of runs that divides the length {dims.show(size)}, found {count}"
            raise Reject(codes.BAD_VALUE, message, name)
        if min(known_ints(runs) or (0,)) < 0:
            raise Reject(codes.BAD_VALUE, f"`{op}` expected runs to begin at 0 or later", name)


def _check_length(length: Operand, batch: Dim, rows: Dim, columns: Dim, is_causal: bool) -> None:
    """A number, or one for each sequence; as far as they are known, places that the cache has."""
    if length.shape is not None and length.shape != ():
        sequences = length.shape[0] if len(length.shape) == 1 else None
        if len(length.shape) > 1 or (None not in (sequences, batch) and sequences != batch):
            message = f"`Attention` expected a length, or one for each of {dims.show(batch)} sequences"
            raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {types.show_shape(length.shape)}", "length")
    for filled in known_ints(length) or ():
        if filled < 1 or (isinstance(columns, int) and filled > columns):
            message = f"`Attention` expected a length from 1 to the {dims.show(columns)} places of the cache"
            raise Reject(codes.BAD_VALUE, f"{message}, found {filled}", "length")
        if is_causal and isinstance(rows, int) and filled < rows:
            message = f"`Attention` expected {rows} queries to be the last of the filled places, found {filled} of them"
            raise Reject(codes.BAD_VALUE, message, "length")


@Attention.sharding
def _(
    q: Operand,
    k: Operand,
    v: Operand | None = None,
    attn_mask: Operand | None = None,
    sinks: Operand | None = None,
    length: Operand | None = None,
    *random: Operand | None,
    results: Sequence[Shape | None],
    **attrs: Any,
) -> Layout:
    """The batch and the heads may be split, and the queries unless the mask is causal.

    A single head of keys and values, which all queries share, is replicated. With a `context` queries and keys of one
    sequence are split together.
    """
    # The columns of values may be split, but where a log-sum-exp is given: that is no sum over them.
    parts = _Letters(q, k, attrs, columns="v" if len(results) == 1 and v is not None else None)
    operands: list[Letters] = [parts.q, parts.k]
    others = ((v, parts.v), (attn_mask, parts.mask(attn_mask)), (sinks, ("h",)), (length, _by_sequence(length)))
    operands += _given(*others, *_random_letters(random))
    found = parts.layout(operands, (parts.y, parts.rows)[: len(results)], kept=frozenset({1}))
    return _drawing(found, random, START) if attrs["dropout"] else found


def _given(*operands: tuple[Operand | None, Letters]) -> list[Letters]:
    """The letters of operands up to the last that is stated."""
    stated = max((n for n, (operand, _) in enumerate(operands, 1) if operand is not None), default=0)
    return [() if operand is None else letters for operand, letters in operands[:stated]]


def _random_letters(random: Sequence[Operand | None]) -> list[tuple[Operand | None, Letters]]:
    return list(zip(random, ((), ("b",), (None,), (None,), (None,)), strict=False))


def _drawing(found: Layout, random: Sequence[Operand | None], start: int) -> Layout:
    """The layout with dropout: where a part begins in the whole must be known. Without a key nothing can be split."""
    key, rows, _ = (*random, None, None, None)[:3]
    if key is None:
        return Layout(
            tuple((None,) * len(own) for own in found.operands), tuple((None,) * len(own) for own in found.results)
        )
    located = frozenset("hq" if rows is not None else "bhq")
    return replace(found, start=start, located=located, contiguous=located)


def _by_sequence(length: Operand | None) -> Letters:
    return ("b",) if length is not None and length.shape and len(length.shape) == 1 else ()


SEQUENCE = "s"
"""The letter of places in a sequence, of queries and of keys."""


def _length(x: Operand) -> Dim:
    """How many queries or keys there are."""
    return None if x.shape is None else x.shape[2 if len(x.shape) == 4 else 1]


class _Letters:
    """The letters of operands and results: the batch, the heads, the queries unless causal, the values' columns.

    With a `context`, queries and keys of one length have one letter.
    """

    def __init__(self, q: Operand, k: Operand, attrs: Any, columns: str | None) -> None:
        self._query = None if attrs["is_causal"] else "q"
        self._key: str | None = None
        self._context: str = attrs["context"] if _length(q) is not None and _length(q) == _length(k) else ""
        if self._context:
            self._query = self._key = SEQUENCE
        self.rows: Letters = ("b", "h", self._query)
        if len(q.shape or ()) == 4:
            shared = None if k.shape is not None and k.shape[1] == 1 else "h"
            self.q: Letters = ("b", "h", self._query, None)
            self.k: Letters = ("b", shared, self._key, None)
            self.v: Letters = ("b", shared, self._key, columns)
            self.y: Letters = ("b", "h", self._query, columns)
            self.divided: dict[str, tuple[str, ...]] = {}
        else:
            shared = None if attrs["kv_num_heads"] == 1 else "h"
            self.q = self.y = ("b", self._query, "h")
            self.k = self.v = ("b", self._key, shared)
            self.divided = {"h": ("q_num_heads", "kv_num_heads") if shared else ("q_num_heads",)}

    def layout(
        self, operands: Sequence[Letters], results: tuple[Letters, ...], kept: frozenset[int] = frozenset()
    ) -> Layout:
        """The layout of an op with these operands and results, and those of them that only its gradient takes."""
        found = Layout(tuple(operands), results, divided=self.divided)
        if not self._context:
            return found
        if self._context == "a2a":
            return replace(found, sequence=SEQUENCE, exchanged=Exchange(SEQUENCE, "h", "context", kept))
        return replace(found, parted=frozenset({SEQUENCE}), sequence=SEQUENCE)

    def mask(self, mask: Operand | None) -> Letters:
        """Those of a mask, which broadcasts to the scores."""
        shape = () if mask is None else mask.shape or ()
        letters = ("b", "h", self._query, None)[4 - len(shape) :]
        return tuple(None if dim == 1 else letter for letter, dim in zip(letters, shape, strict=True))


@Attention.parted
def _(
    w: Parts,
    q: Arg,
    k: Arg,
    v: Arg,
    mask: Arg = DISCARD,
    sinks: Arg = DISCARD,
    *_others: Arg,
    count: int,
    context: str,
    **attrs: Any,
) -> Sequence[Arg]:
    """Each device attends with its queries to the keys of all, which it gathers (Llama 3, arXiv:2407.21783, 3.3.2).

    Or to a part of them at a time, while they travel around a ring (Liu et al., arXiv:2310.01889); but not with a mask,
    which has all of them.
    """
    axis, keys = _context_of(w, q, mask)
    if context == "ring" and mask == DISCARD:
        return _around_ring(w, q, k, k if v == DISCARD else v, sinks, keys.length, attrs)[:count]
    found = [DISCARD if x == DISCARD else w.gathered(x, axis, keys.in_order) for x in (k, v)]
    rest = keys.runs(w, attrs) if attrs["is_causal"] else ()
    operands = _trimmed(q, *found, mask, sinks, *(DISCARD,) * 4, *rest)
    return w.several("Attention", count, *operands, **_stated(attrs))


def _around_ring(w: Parts, q: Arg, k: Arg, v: Arg, sinks: Arg, length: int, attrs: Any) -> list[Arg]:
    """The part of the result, and its log-sum-exp, over all keys, merged from those over the keys of each device.

    The next keys are sent before these are used, so that they can travel meanwhile. Sinks are keys of the first device.
    """
    found: list[Arg] = []
    stated = _stated(attrs)
    dtype = w.type(q).dtype
    narrow = None if dtype is None or dtype.bytes >= 4 else dtype
    for behind in range(w.size):
        here = k, v
        if behind + 1 < w.size:
            k, v = w.shifted(k), w.shifted(v)
        runs = _own_runs(w, length, behind, attrs)
        operands = _trimmed(q, *here, DISCARD, DISCARD if behind else sinks, *(DISCARD,) * 4, *runs)
        part = w.several("Attention", 2, *operands, **stated)
        if not found:
            found = [w("Cast", part[0], to=DTYPES["Float32"]) if narrow else part[0], part[1]]
        else:
            found = [*w.several("MergeAttention", 2, *found, *part)]
    return [w("Cast", found[0], to=narrow) if narrow else found[0], found[1]]


def _gradient_around_ring(
    w: Parts, given: Sequence[Arg], k: Arg, v: Arg, sinks: Arg, length: int, attrs: Any, count: int
) -> list[Arg]:
    """The gradients by keys that travel, and their own gradients with them, which come home in the end.

    `given`: the gradient of the result, the queries, the result and its log-sum-exp.
    """
    dy, q, y, lse = given
    stated = _stated(attrs)
    dq: list[Arg] = []
    dkeys: list[Arg] = []
    rest: list[Arg] = []
    for behind in range(w.size):
        here = k, v
        if behind + 1 < w.size:
            k, v = w.shifted(k), w.shifted(v)
        before = [w.shifted(x) for x in dkeys]
        runs = _own_runs(w, length, behind, attrs)
        operands = _trimmed(dy, q, *here, y, lse, DISCARD, DISCARD if behind else sinks, *(DISCARD,) * 3, *runs)
        own, *parts = w.several("AttentionGrad", 3 if behind else count, *operands, **stated)
        dq.append(own)
        rest += parts[2:]
        dkeys = [w("Add", x, part) for x, part in zip(before, parts, strict=False)] if before else parts[:2]
        if len(dq) > 1:
            dq = [w("Add", *dq)]
    return [*dq, *(w.shifted(x) for x in dkeys), *rest]


def _own_runs(w: Parts, length: int, behind: int, attrs: Any) -> tuple[Arg, ...]:
    return (w.own_places(length), w.own_places(length, behind)) if attrs["is_causal"] else ()


@dataclass(frozen=True, slots=True)
class _Keys:
    """Keys of a whole sequence. `in_order`: of the sequence, as a mask needs them; else of the devices."""

    length: int
    in_order: bool

    def runs(self, w: Parts, attrs: Any) -> tuple[Arg, Arg]:
        """The runs of this device's queries, and of the keys."""
        whole = w.places(self.length)
        return w.own_places(self.length), DISCARD if self.in_order or whole == (0,) else Literal(whole)


def _context_of(w: Parts, q: Arg, mask: Arg) -> tuple[int, _Keys]:
    """The axis of the sequence in operands, and its keys."""
    shape = w.type(q).shape or ()
    axis = 2 if len(shape) == 4 else 1
    length = shape[axis]
    assert isinstance(length, int), "or it is not decided so"
    return axis, _Keys(length, mask != DISCARD)


def _trimmed(*operands: Arg) -> list[Arg]:
    """Operands up to the last that is stated."""
    stated = max(n for n, operand in enumerate(operands, 1) if operand != DISCARD)
    return [*operands[:stated]]


def _stated(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes that are not what they are by default."""
    defaults = {"is_causal": False, "softcap": 0.0, "dropout": 0.0}
    return {name: value for name, value in attrs.items() if value is not None and defaults.get(name) != value}


@Attention.grad
def _(g: Backward) -> Gradients:
    """By the kernel of the backward pass; where it lacks the gradient, by that of the op written out.

    That is the gradient of a mask that is added, which is as large as the scores, that of the log-sum-exp itself, and
    that of attention to a cache or to keys that are the values, too.
    """
    q, k, v, mask, sinks, length, *random = g.x
    none = [None] * (1 + len(random))
    if g.wants(3) or v is None or length is not None or g.dys[1] is not None:
        y, lse = _written(g, 2)
        return g.through({y: g.dys[0], lse: g.dys[1]}, [q, k, v, mask, sinks, *none])
    count = 3 if sinks is None else 4
    results = g.several("AttentionGrad", count, g.dy, q, k, v, *g.y, mask, sinks, *random, **g.statement.attrs)
    dq, dk, dv, dsinks = (*results, None)[:4]
    return [dq, dk, dv, None, dsinks, *none]


# Written out.


@Attention.decomposition
def _(g: Rewrite) -> list[str]:
    """Products, masks and a softmax, with the scores as values."""
    return _written(g, len(g.y))


def _written(g: Rewrite, count: int) -> list[str]:
    """The ops for `count` results."""
    q, k, v, mask, sinks, length, key, rows, start, *runs = g.x
    flat = g.rank(q) == 3
    queries = heads_apart(g, q, g.attrs["q_num_heads"]) if flat else q
    keys: Any = heads_apart(g, k, g.attrs["kv_num_heads"]) if flat else k
    if v is None:
        values: Any = g("Slice", keys, (0,), (cast(int, g.attrs["v_head_size"]),), (3,))
    else:
        values = heads_apart(g, v, g.attrs["kv_num_heads"]) if flat else v
    query_heads, key_heads = g.known_shape(queries)[1], g.known_shape(keys)[1]
    size = g.known_shape(queries)[3]
    if not (isinstance(query_heads, int) and isinstance(key_heads, int) and isinstance(size, int)):
        raise g.refuse("`Attention` is written out only where the number and the size of its heads are known")
    group = query_heads // max(1, key_heads)
    scores = _written_scores(g, queries, keys, (key_heads, group, size))
    chosen = mask is not None and g.dtype(mask).kind == "bool"
    if mask is not None and not chosen:
        scores = g("Add", scores, mask)
    for seen in _attended_keys(g, queries, keys, length, runs):
        scores = g("Where", seen, scores, -math.inf)
    # Of a query whose keys are all masked the softmax is to be of numbers; what is masked has no weight afterwards.
    finite = g("Where", mask, scores, _LOWEST.get(g.dtype(q).name, -1e30)) if chosen else scores
    weights = g("Softmax", finite if sinks is None else _with_sinks(g, finite, sinks), axis=-1)
    if sinks is not None:
        weights = g("Slice", weights, (0,), (-1,), (3,))
    if chosen:
        weights = g("Where", mask, weights, 0.0)
    if ratio := cast(float, g.attrs["dropout"]):
        if start is not None:
            raise g.refuse("`Attention` with dropout is written out before it is split")
        weights = g("Dropout", weights, ratio, True, *(() if key is None else (key, rows)))
    mixed = _grouped(g, weights, values, key_heads, group)
    results = [heads_joined(g, mixed) if flat else mixed]
    if count > 1:
        masked = g("Where", mask, scores, -math.inf) if chosen else scores
        whole = masked if sinks is None else _with_sinks(g, masked, sinks)
        dtype = g.dtype(q)
        exact = whole if dtype.bytes >= 4 else g("Cast", whole, to=DTYPES["Float32"])
        results.append(g("ReduceLogSumExp", exact, (3,), keepdims=False))
    return results


_LOWEST = {"Float16": -65504.0}


def _written_scores(g: Rewrite, queries: Arg, keys: Arg, sizes: tuple[int, int, int]) -> str:
    key_heads, group, size = sizes
    scale = g.attrs.get("scale")
    factor = 1 / math.sqrt(max(1, size)) if scale is None else scale
    flipped = g("Transpose", keys, perm=(0, 1, 3, 2))
    scores = g("Mul", _grouped(g, queries, flipped, key_heads, group), factor)
    softcap = cast(float, g.attrs["softcap"])
    return g("Mul", g("Tanh", g("Div", scores, softcap)), softcap) if softcap > 0 else scores


def _grouped(g: Rewrite, a: Arg, b: Arg, heads: int, group: int) -> str:
    """The product of (batch, heads * group, m, k) and (batch, heads, k, n)."""
    if group == 1:
        return g("MatMul", a, b)
    rows, columns = g.size_along(a, 2), g.size_along(a, 3)
    inner = _shape_operand(g, [0, heads, group, rows, columns])
    product = g("MatMul", g("Reshape", a, inner), g("Unsqueeze", b, (2,)))
    return g("Reshape", product, _shape_operand(g, [0, heads * group, rows, g.size_along(b, 3)]))


def _shape_operand(g: Rewrite, sizes: list[Any]) -> Any:
    """A shape operand, from numbers and scalars."""
    plain = [size.value if hasattr(size, "value") else size for size in sizes]
    if not any(isinstance(size, str) for size in plain):
        return tuple(plain)
    return g("Concat", *(g("Unsqueeze", size, (0,)) for size in sizes), axis=0)


def _with_sinks(g: Rewrite, scores: Arg, sinks: Arg) -> str:
    """The scores, and behind them the sink of each head."""
    shape = _shape_operand(g, [*(g.size_along(scores, axis) for axis in range(3)), 1])
    return g("Concat", scores, g("Expand", g("Unsqueeze", sinks, (1, 2)), shape), axis=3)


def _attended_keys(g: Rewrite, queries: Arg, keys: Arg, length: Arg | None, runs: Sequence[Arg | None]) -> list[str]:
    """Masks of the keys that a query attends to: host values, but for a length on a device."""
    found: list[str] = []
    query_runs, key_runs = runs
    position: Arg = g("Unsqueeze", _written_places(g, queries, query_runs), (1,))
    key = _written_places(g, keys, key_runs)
    if length is not None:
        filled: Arg = g("Cast", length, to=DTYPES["Int64"])
        if g.known_shape(length) != ():
            filled = g("Unsqueeze", filled, (1, 2, 3))
        found.append(g("Less", key, filled))
        position = g("Add", position, g("Sub", filled, g.size_along(queries, 2)))
    if g.attrs["is_causal"]:
        seen = g("LessOrEqual", key, position)
        if window := g.attrs.get("window"):
            seen = g("And", seen, g("Greater", key, g("Sub", position, window)))
        found.append(seen)
    return found


def _written_places(g: Rewrite, x: Arg, runs: Arg | None) -> str:
    """Where each query or key is in the sequence."""
    size = g.size_along(x, 2)
    if runs is None:
        return g("Range", 0, size, 1)
    (count,) = g.known_shape(runs)
    assert isinstance(count, int)
    return g("Reshape", g("Add", g("Unsqueeze", runs, (1,)), g("Range", 0, g("Div", size, count), 1)), (-1,))


# In torch.


@Attention.torch(fresh=True)
def _(
    write: Write,
    q: Expr,
    k: Expr,
    v: Expr | None = None,
    attn_mask: Expr | None = None,
    sinks: Expr | None = None,
    length: Expr | None = None,
    key: Expr | None = None,
    rows: Expr | None = None,
    start: Expr | None = None,
    query_runs: Expr | None = None,
    key_runs: Expr | None = None,
    *,
    is_causal: bool,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    scale: float | None = None,
    softcap: float,
    window: int | None = None,
    v_head_size: int | None = None,
    dropout: float,
    context: str,
) -> str | Unpacked:
    """`scaled_dot_product_attention` where it can say it; by blocks of queries with a softcap, sinks or statistics.

    And with dropout: which weights PyTorch's own drops depends on the kernel, and on how a program is distributed.
    """
    heads = f"{q_num_heads if q.rank == 3 else None}, {kv_num_heads if q.rank == 3 else None}"
    mask = None if attn_mask is None else attn_mask.tensor
    filled = (
        None if length is None else length.value and length.scalar("a length") if length.rank == 0 else length.tensor
    )
    factor = None if scale is None else write.number(scale)
    values = (
        f"{write.kernel('head_columns')}({k}, {kv_num_heads if k.rank == 3 else 1}, {v_head_size})" if v is None else v
    )
    given, seen = f"{q}, {k}, {values}, {mask}", f"{filled}, {heads}, {is_causal}, {window}, {factor}"
    several = len(write.results) > 1
    runs = _runs_torch(query_runs, key_runs)
    if softcap == 0 and sinks is None and not several and not dropout and not runs:
        return f"{write.kernel('attention')}({given}, {seen})"
    sink = None if sinks is None else sinks.tensor
    drawn = _random_torch(write, q, q_num_heads, key, rows, start, dropout)
    text = f"{write.kernel('attention_in_blocks')}({given}, {sink}, {seen}, {write.number(softcap)}, {drawn}{runs})"
    return write.unpacked(text) if several else f"{text}[0]"


def _runs_torch(query_runs: Expr | None, key_runs: Expr | None) -> str:
    """Runs, as further arguments of kernels; nothing where there are none."""
    found = [None if runs is None else tuple(runs.ints("where runs begin")) for runs in (query_runs, key_runs)]
    return "" if found == [None, None] else f", {found[0]}, {found[1]}"


def _random_torch(
    write: Write, whole: Expr, heads: int | None, key: Expr | None, rows: Expr | None, start: Expr | None, ratio: float
) -> str | None:
    """What is kept, for kernels: the least random word, the scale, the key, rows, and the first score of this part."""
    if not ratio:
        return None
    if key is None:
        reason = "attention with dropout needs a key of random numbers"
        raise write.refuse(reason, "the step `seeded` gives it one")
    share, begin = rounded(ratio), (0, 0, 0)
    if start is not None:
        begin = _first_score(start.ints("where a part begins"), whole.shape, heads or 1)
    return f"({least_kept(share)}, {write.number(kept_scale(share))}, {key}, {rows}, {begin})"


# Backward.


@op(
    "Tensor[t:float, (b, h, q, v), d], Tensor[t:float, (b, h, q, e), d], Tensor[t:float, (b, g, k, e), d],"
    " Tensor[t:float, (b, g, k, v), d], Tensor[t:float, (b, h, q, v), d], Tensor[_, (b, h, q), d],"
    " Optional[Tensor[_, _, d]], Optional[Tensor[t, (h,), d]],"
    f" {RANDOM}, {RUNS}"
    " -> Tensor[t, (b, h, q, e), d], Tensor[t, (b, g, k, e), d], Tensor[t, (b, g, k, v), d], *Tensor[t, (h,), d]",
    "Tensor[t:float, (b, q, w), d], Tensor[t:float, (b, q, x), d], Tensor[t:float, (b, k, y), d],"
    " Tensor[t:float, (b, k, z), d], Tensor[t:float, (b, q, w), d], Tensor[_, (b, n, q), d],"
    " Optional[Tensor[_, _, d]], Optional[Tensor[t, (n,), d]],"
    f" {RANDOM}, {RUNS}"
    " -> Tensor[t, (b, q, x), d], Tensor[t, (b, k, y), d], Tensor[t, (b, k, z), d], *Tensor[t, (n,), d]",
    flops=_backward_flops,
    contraction=_backward_scores,
    temporary=_backward_workspace,
    linear=("dy",),
    non_differentiable=FIRST_ORDER_ONLY,
)
def AttentionGrad(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    y: Array,
    lse: Array,
    attn_mask: Array | None = None,
    sinks: Array | None = None,
    key: Array | None = None,
    rows: Array | None = None,
    start: Array | None = None,
    query_runs: Array | None = None,
    key_runs: Array | None = None,
    *,
    is_causal: bool = False,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    window: int | None = None,
    dropout: float = 0.0,
    context: str = "",
    count: int = 3,
) -> list[Array]:
    """The gradients of `Attention` with respect to `q`, `k` and `v`, and with `sinks` to those.

    `y` and `lse` are the results of the forward pass: the weights of the softmax are computed again from the
    log-sum-exp, as flash kernels do, and what is dropped is drawn again. The other operands and the attributes are those
    of `Attention`, but that `start` is where `dy` begins. A mask has no
    gradient here: where that of a mask is wanted, `Attention` is differentiated as it is written out.

    %dq, %dk, %dv = AttentionGrad[is_causal = true](%dy: Tensor[Float32, (2, 4, 3, 6), 1], %q: Tensor[Float32, (2, 4, 3, 8), 1], %k: Tensor[Float32, (2, 2, 3, 8), 1], %v: Tensor[Float32, (2, 2, 3, 6), 1], %y: Tensor[Float32, (2, 4, 3, 6), 1], %lse: Tensor[Float32, (2, 4, 3), 1])
    %dq, %dk, %dv = AttentionGrad[q_num_heads = 2, kv_num_heads = 1](%dy: Tensor[Float32, (2, 3, 8), 1], %q: Tensor[Float32, (2, 3, 8), 1], %k: Tensor[Float32, (2, 5, 4), 1], %v: Tensor[Float32, (2, 5, 4), 1], %y: Tensor[Float32, (2, 3, 8), 1], %lse: Tensor[Float32, (2, 2, 3), 1])
    %dq, %dk, %dv, %ds = AttentionGrad(%dy: Tensor[Float32, (2, 4, 3, 8), 1], %q: Tensor[Float32, (2, 4, 3, 8), 1], %k: Tensor[Float32, (2, 4, 3, 8), 1], %v: Tensor[Float32, (2, 4, 3, 8), 1], %y: Tensor[Float32, (2, 4, 3, 8), 1], %lse: Tensor[Float32, (2, 4, 3), 1], %m: Tensor[Bool, (3, 3), 1], %s: Tensor[Float32, (4,), 1])
    """  # noqa: E501
    queries, keys, values = by_head(q, q_num_heads), by_head(k, kv_num_heads), by_head(v, kv_num_heads)
    dys, ys = wide(by_head(dy, q_num_heads)), wide(by_head(y, q_num_heads))
    factor = 1 / math.sqrt(max(1, queries.shape[-1])) if scale is None else scale
    group = queries.shape[1] // max(1, keys.shape[1])
    scores, slope = _scores(queries, keys, scale, softcap)
    scores = _masked(scores, attn_mask, None, is_causal, window, (query_runs, key_runs))
    total = lse[..., None]  # -inf: all keys are masked, and no weight is left
    weights = np.where(total == -np.inf, 0, np.exp(scores - np.where(total == -np.inf, 0, total)))
    spread_keys, spread_values = (np.repeat(wide(x), group, axis=1) for x in (keys, values))
    along = np.sum(dys * ys, axis=-1, keepdims=True)
    dweights = np.matmul(dys, spread_values.swapaxes(-1, -2))
    mixed = weights
    if dropout:
        share = _kept(weights, dy, dropout, key, rows, start)
        dweights, mixed = dweights * share, weights * share
    dscores = weights * (dweights - along)
    if slope is not None:
        dscores = dscores * slope
    dq = np.matmul(dscores, spread_keys) * factor
    dk = _of_group(np.matmul(dscores.swapaxes(-1, -2), wide(queries)) * factor, group)
    dv = _of_group(np.matmul(mixed.swapaxes(-1, -2), dys), group)
    found = [x if q.ndim == 4 else joined(x) for x in (dq, dk, dv)]
    if sinks is not None:
        share = np.exp(wide(sinks).reshape(-1, 1, 1) - total)
        found.append(-np.sum(share * along, axis=(0, 2, 3)))
    return [x.astype(q.dtype) for x in found][:count]


def _of_group(x: Array, group: int) -> Array:
    """The sum over the heads of queries that share a head of keys and values."""
    batch, heads, length, size = x.shape
    return x.reshape(batch, heads // max(1, group), max(1, group), length, size).sum(axis=2)


@AttentionGrad.shapes
def _(
    dy: Operand,
    q: Operand,
    k: Operand,
    v: Operand,
    y: Operand,
    lse: Operand,
    attn_mask: Operand | None = None,
    sinks: Operand | None = None,
    *random: Operand | None,
    count: int,
    **attrs: Any,
) -> list[Shape | None]:
    _check_random("AttentionGrad", dy, random, attrs["dropout"])
    _check_context("AttentionGrad", attrs["context"])
    number = 3 if sinks is None else 4
    if count > number:
        without = "" if sinks is not None else " without sinks"
        message = f"`AttentionGrad` gives {number} results{without}, found {count} names"
        raise Reject(name_codes.RESULT_COUNT, message, Part("result", number))
    stated = _statistics_dtype(q)
    if None not in (stated, lse.dtype) and lse.dtype is not stated:
        message = f"`AttentionGrad` of {q.dtype} expected a log-sum-exp of {stated} elements, found {lse.dtype}"
        raise Reject(codes.DTYPE_MISMATCH, message, "lse", help="it is the second result of `Attention`")
    found = _checked_sizes("AttentionGrad", q, k, v, attn_mask, sinks, attrs)
    if found is not None:
        (_, heads, rows, _), (_, _, columns, width) = found[0], found[2]
        _check_runs("AttentionGrad", random, rows, columns, None)
        given = (heads, rows, width) if _rank(q, k, v) == 4 else (rows, dims.multiply(heads, width))
        _check_like("dy", dy.shape, given)
        _check_like("lse", lse.shape, (heads, rows))
    return [q.shape, k.shape, v.shape, (found[0][1],) if found is not None else None][:number]


def _check_like(name: str, shape: Shape | None, expected: Shape) -> None:
    """The dimensions behind the batch."""
    if shape is not None and any(None not in (a, b) and a != b for a, b in zip(shape[1:], expected, strict=False)):
        message = f"`AttentionGrad` expected {types.show_shape(expected)} behind the batch"
        raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {types.show_shape(shape[1:])}", name)


@AttentionGrad.sharding
def _(
    dy: Operand,
    q: Operand,
    k: Operand,
    v: Operand,
    y: Operand,
    lse: Operand,
    attn_mask: Operand | None = None,
    sinks: Operand | None = None,
    *random: Operand | None,
    results: Sequence[Shape | None],
    **attrs: Any,
) -> Layout:
    """As of `Attention`. What has no letter of the batch, the heads or the columns is summed over them."""
    parts = _Letters(q, k, attrs, columns="v")
    operands: list[Letters] = [parts.y, parts.q, parts.k, parts.v, parts.y, parts.rows]
    operands += _given((attn_mask, parts.mask(attn_mask)), (sinks, ("h",)), *_random_letters(random))
    given: tuple[Letters, ...] = (parts.q, parts.k, parts.v, ("h",))
    found = parts.layout(operands, given[: len(results)])
    return _drawing(found, random, GRADIENT_START) if attrs["dropout"] else found


@AttentionGrad.parted
def _(
    w: Parts,
    dy: Arg,
    q: Arg,
    k: Arg,
    v: Arg,
    y: Arg,
    lse: Arg,
    mask: Arg = DISCARD,
    sinks: Arg = DISCARD,
    *_others: Arg,
    count: int,
    context: str,
    **attrs: Any,
) -> Sequence[Arg]:
    """Keys and values are gathered again; their gradients are summed over the devices, of which each keeps its part."""
    axis, keys = _context_of(w, q, mask)
    if context == "ring" and mask == DISCARD:
        return _gradient_around_ring(w, (dy, q, y, lse), k, v, sinks, keys.length, attrs, count)
    found = [w.gathered(x, axis, keys.in_order) for x in (k, v)]
    rest = keys.runs(w, attrs) if attrs["is_causal"] else ()
    operands = _trimmed(dy, q, *found, y, lse, mask, sinks, *(DISCARD,) * 3, *rest)
    dq, dk, dv, *dsinks = w.several("AttentionGrad", count, *operands, **_stated(attrs))
    return [dq, *(w.scattered(x, axis, keys.in_order) for x in (dk, dv)), *dsinks]


@AttentionGrad.torch(fresh=True)
def _(
    write: Write,
    dy: Expr,
    q: Expr,
    k: Expr,
    v: Expr,
    y: Expr,
    lse: Expr,
    attn_mask: Expr | None = None,
    sinks: Expr | None = None,
    key: Expr | None = None,
    rows: Expr | None = None,
    start: Expr | None = None,
    query_runs: Expr | None = None,
    key_runs: Expr | None = None,
    *,
    is_causal: bool,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    scale: float | None = None,
    softcap: float,
    window: int | None = None,
    dropout: float,
    context: str,
) -> Unpacked:
    heads = f"{q_num_heads if q.rank == 3 else None}, {kv_num_heads if q.rank == 3 else None}"
    mask, sink = (None if x is None else x.tensor for x in (attn_mask, sinks))
    factor = None if scale is None else write.number(scale)
    drawn = _random_torch(write, dy, q_num_heads, key, rows, start, dropout)
    settings = f"{heads}, {is_causal}, {window}, {factor}, {write.number(softcap)}, {drawn}"
    settings += _runs_torch(query_runs, key_runs)
    given = f"{dy}, {q}, {k}, {v}, {y}, {lse}, {mask}, {sink}"
    return write.unpacked(f"{write.kernel('attention_gradient')}({given}, {settings})")


# Parts of attention.


@op(
    "Tensor[a:float, (b, h, q, v), d], Tensor[f:float, (b, h, q), d],"
    " Tensor[t:float, (b, h, q, v), d], Tensor[f, (b, h, q), d]"
    " -> Tensor[a, _, d], Tensor[f, (b, h, q), d]",
    "Tensor[a:float, (b, q, z), d], Tensor[f:float, (b, h, q), d],"
    " Tensor[t:float, (b, q, z), d], Tensor[f, (b, h, q), d]"
    " -> Tensor[a, _, d], Tensor[f, (b, h, q), d]",
    flops=lambda elements, **_: 3 * elements,
    inplace={0: 0, 1: 1},
    non_differentiable="it is written by the step `cp`, which comes after `grad`",
)
def MergeAttention(y: Array, lse: Array, part: Array, part_lse: Array) -> list[Array]:
    """Attention to two sets of keys together, from the results of `Attention` to each of them, log-sum-exps included.

    The terms of a softmax over all keys, without overflow: each result is weighted with its share of the sum. `y` may
    be wider than `part`, for less rounding where many are merged (Ring Attention, arXiv:2310.01889, appendix A).

    %y, %lse = MergeAttention(%y: Tensor[Float32, (2, 4, 3, 8), 1], %lse: Tensor[Float32, (2, 4, 3), 1], %p: Tensor[Float32, (2, 4, 3, 8), 1], %q: Tensor[Float32, (2, 4, 3), 1])
    %y, %lse = MergeAttention(%y: Tensor[Float32, (2, 3, 32), 1], %lse: Tensor[Float32, (2, 4, 3), 1], %p: Tensor[BFloat16, (2, 3, 32), 1], %q: Tensor[Float32, (2, 4, 3), 1])
    """  # noqa: E501
    heads = lse.shape[1]
    one, other = (wide(by_head(x, heads if x.ndim == 3 else None)) for x in (y, part))
    largest = np.maximum(lse, part_lse)
    shift = np.where(largest == -np.inf, 0, largest)
    shares = np.exp(lse - shift), np.exp(part_lse - shift)
    total = shares[0] + shares[1]
    weights = [(share / np.where(total == 0, 1, total))[..., None] for share in shares]
    mixed = (one * weights[0] + other * weights[1]).astype(y.dtype)
    with np.errstate(divide="ignore"):
        return [mixed if y.ndim == 4 else joined(mixed), (shift + np.log(total)).astype(lse.dtype)]


@MergeAttention.shapes
def _(y: Operand, lse: Operand, part: Operand, part_lse: Operand, **_: Any) -> list[Shape | None]:
    return [part.shape if y.shape is None else y.shape, part_lse.shape if lse.shape is None else lse.shape]


@MergeAttention.sharding
def _(
    y: Operand, lse: Operand, part: Operand, part_lse: Operand, *, results: Sequence[Shape | None], **_: Any
) -> Layout:
    mixed: Letters = ("b", "h", "q", "v") if len(y.shape or ()) == 4 else ("b", "q", "h")
    rows: Letters = ("b", "h", "q")
    return Layout((mixed, rows, mixed, rows), (mixed, rows))


@MergeAttention.torch(fresh=True)
def _(write: Write, y: Expr, lse: Expr, part: Expr, part_lse: Expr) -> Unpacked:
    heads = None if y.rank == 4 else lse.shape[1]
    return write.unpacked(f"{write.kernel('merge_attention')}({y}, {lse}, {part}, {part_lse}, {heads})")
