"""The op `Attention`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import (
    DISCARD,
    Arg,
    Part,
    Shape,
    TensorType,
    dims,
)
from distir.ops.attention.context import around_ring, context_of, drawn, goes_by_places, trimmed, without_context
from distir.ops.attention.layout import AttentionLetters, by_sequence, drawing, lettered, random_letters
from distir.ops.attention.of_pieces import forward_of_pieces
from distir.ops.attention.operands import (
    RANDOM,
    RUNS,
    START,
    check_context,
    check_length,
    check_random,
    check_runs,
    checked_sizes,
    draws_at,
    rank_of,
    statistics_dtype,
)
from distir.ops.attention.torch_words import random_torch, runs_torch
from distir.ops.attention.values import kept_scores, masked_scores, scores_of
from distir.ops.attention.work import forward_bytes, forward_flops, forward_scores
from distir.ops.attention.written import written_out
from distir.ops.core import op
from distir.ops.heads import by_head, joined
from distir.ops.host import Operand
from distir.ops.layout import Layout, Letters, Parts
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients, Rewrite
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Unpacked, Write


@op(
    "Tensor[t:float, (b, h, q, e), d], Tensor[t:float, (b, g, k, e), d], Optional[Tensor[t:float, (b, g, k, v), d]],"
    " Optional[Tensor[_, _, d]], Optional[Tensor[t, (h,), d]], Optional[Tensor[i:int, _, d]],"
    f" {RANDOM}, {RUNS} -> Tensor[t, (b, h, q, _), d], *Tensor[Float32, (b, h, q), d]",
    "Tensor[t:float, (b, q, x), d], Tensor[t:float, (b, k, y), d], Optional[Tensor[t:float, (b, k, z), d]],"
    " Optional[Tensor[_, _, d]], Optional[Tensor[t, (n,), d]], Optional[Tensor[i:int, _, d]],"
    f" {RANDOM}, {RUNS} -> Tensor[t, (b, q, _), d], *Tensor[Float32, _, d]",
    flops=forward_flops,
    contraction=forward_scores,
    bytes=forward_bytes,
    saved=2,
    manner=("context",),
    draws=draws_at(START),
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
    say where each begins; and with `key_runs` the keys and values. A causal mask, a window, and what is dropped, are
    those of the places in the sequence. The step `cp` writes them. `context` is its mark: how the op is split along the sequence.

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
    scores = scores_of(queries, keys, scale, softcap)[0]
    scores = masked_scores(scores, attn_mask, length, is_causal, window, (query_runs, key_runs))
    sink = np.full((1, 1, 1), -np.inf, scores.dtype) if sinks is None else wide(sinks).reshape(-1, 1, 1)
    largest = np.maximum(scores.max(axis=-1, keepdims=True, initial=-np.inf), sink)
    shift = np.where(largest == -np.inf, 0, largest)
    weights = np.exp(scores - shift)
    total = weights.sum(axis=-1, keepdims=True) + np.exp(sink - shift)
    spread = np.repeat(values, group, axis=1)
    weights = weights / np.where(total == 0, 1, total)
    if dropout:
        weights = weights * kept_scores(weights, q, dropout, key, rows, start, (query_runs, key_runs))
    mixed = np.matmul(weights, wide(spread)).astype(q.dtype)
    lse = (shift + np.log(total))[..., 0]
    return [mixed if q.ndim == 4 else joined(mixed), lse.astype(np.float64 if q.dtype == np.float64 else np.float32)][
        :count
    ]


@Attention.pieces
def _(p: Pieces, q: Piece, k: Piece, v: Piece | None = None, *others: Piece | None, **attrs: Any) -> Any:
    return forward_of_pieces(p, q, k, v, others, attrs)


@Attention.checks
def _(q: Operand, k: Operand, v: Operand | None = None, *others: Operand | None, count: int, **attrs: Any) -> None:
    check_random("Attention", q, others[3:], attrs["dropout"])
    check_context("Attention", attrs["context"])
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
    found = checked_sizes("Attention", q, k, v, attn_mask, sinks, attrs)
    if found is None:
        return [None, TensorType(statistics_dtype(q), None)][:count]
    (batch, heads, rows, _), (_, _, columns, _), (_, _, _, width) = found
    if length is not None:
        check_length(length, batch, rows, columns, attrs["is_causal"])
    check_runs("Attention", random, rows, columns, length)
    y = (batch, heads, rows, width) if rank_of(q, k, v) == 4 else (batch, rows, dims.multiply(heads, width))
    return [y, TensorType(statistics_dtype(q), (batch, heads, rows))][:count]


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
    parts = AttentionLetters(q, k, attrs, columns="v" if len(results) == 1 and v is not None else None)
    operands: list[Letters] = [parts.q, parts.k]
    others = ((v, parts.v), (attn_mask, parts.mask(attn_mask)), (sinks, ("h",)), (length, by_sequence(length)))
    operands += lettered(*others, *random_letters(random))
    found = parts.layout(operands, (parts.y, parts.rows)[: len(results)], kept=frozenset({1}))
    return drawing(found, random, START) if attrs["dropout"] else found


@Attention.parted
def _(
    w: Parts,
    q: Arg,
    k: Arg,
    v: Arg,
    mask: Arg = DISCARD,
    sinks: Arg = DISCARD,
    _length: Arg = DISCARD,
    *random: Arg,
    count: int,
    context: str,
    **attrs: Any,
) -> Sequence[Arg]:
    """Each device attends with its queries to the keys of all, which it gathers (Llama 3, arXiv:2407.21783, 3.3.2).

    Or to a part of them at a time, while they travel around a ring (Liu et al., arXiv:2310.01889); but not with a mask,
    which has all of them.
    """
    axis, keys = context_of(w, q, mask)
    if context == "ring" and mask == DISCARD:
        return around_ring(w, q, k, k if v == DISCARD else v, sinks, random, keys.length, attrs)[:count]
    found = [DISCARD if x == DISCARD else w.gathered(x, axis, keys.in_order) for x in (k, v)]
    rest = keys.runs(w) if goes_by_places(attrs) else ()
    operands = trimmed(q, *found, mask, sinks, DISCARD, *drawn(random), *rest)
    return w.several("Attention", count, *operands, **without_context(attrs))


@Attention.grad
def _(g: Backward) -> Gradients:
    """By the kernel of the backward pass; where it lacks the gradient, by that of the op written out.

    That is the gradient of a mask that is added, which is as large as the scores, that of the log-sum-exp itself, and
    that of attention to a cache or to keys that are the values, too.
    """
    q, k, v, mask, sinks, length, *random = g.x
    none = [None] * (1 + len(random))
    if g.wants(3) or v is None or length is not None or g.dys[1] is not None:
        y, lse = written_out(g, 2)
        return g.through({y: g.dys[0], lse: g.dys[1]}, [q, k, v, mask, sinks, *none])
    count = 3 if sinks is None else 4
    results = g.several("AttentionGrad", count, g.dy, q, k, v, *g.y, mask, sinks, *random, **g.statement.attrs)
    dq, dk, dv, dsinks = (*results, None)[:4]
    return [dq, dk, dv, None, dsinks, *none]


@Attention.decomposition
def _(g: Rewrite) -> list[str]:
    """Products, masks and a softmax, with the scores as values."""
    return written_out(g, len(g.y))


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
    runs = runs_torch(query_runs, key_runs)
    if softcap == 0 and sinks is None and not several and not dropout and not runs:
        return f"{write.kernel('attention')}({given}, {seen})"
    sink = None if sinks is None else sinks.tensor
    numbers = random_torch(write, q, q_num_heads, key, rows, start, dropout)
    text = f"{write.kernel('attention_in_blocks')}({given}, {sink}, {seen}, {write.number(softcap)}, {numbers}{runs})"
    return write.unpacked(text) if several else f"{text}[0]"
