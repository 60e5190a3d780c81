"""The op `AttentionGrad`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import (
    DISCARD,
    Arg,
    Part,
    Shape,
    dims,
)
from distir.ops.attention.context import (
    context_of,
    drawn,
    goes_by_places,
    gradient_around_ring,
    trimmed,
    without_context,
)
from distir.ops.attention.layout import AttentionLetters, drawing, lettered, random_letters
from distir.ops.attention.of_pieces import backward_of_pieces
from distir.ops.attention.operands import (
    GRADIENT_START,
    RANDOM,
    RUNS,
    check_context,
    check_like,
    check_random,
    check_runs,
    checked_sizes,
    draws_at,
    rank_of,
    statistics_dtype,
)
from distir.ops.attention.torch_words import random_torch, runs_torch
from distir.ops.attention.values import kept_scores, masked_scores, of_group, scores_of
from distir.ops.attention.work import backward_flops, backward_scores, backward_workspace
from distir.ops.core import op
from distir.ops.heads import by_head, joined
from distir.ops.host import Operand
from distir.ops.layout import Layout, Letters, Parts
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.specs import FIRST_ORDER_ONLY
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Unpacked, Write


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
    flops=backward_flops,
    contraction=backward_scores,
    temporary=backward_workspace,
    linear=("dy",),
    manner=("context",),
    draws=draws_at(GRADIENT_START),
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
    scores, slope = scores_of(queries, keys, scale, softcap)
    scores = masked_scores(scores, attn_mask, None, is_causal, window, (query_runs, key_runs))
    total = lse[..., None]  # -inf: all keys are masked, and no weight is left
    weights = np.where(total == -np.inf, 0, np.exp(scores - np.where(total == -np.inf, 0, total)))
    spread_keys, spread_values = (np.repeat(wide(x), group, axis=1) for x in (keys, values))
    along = np.sum(dys * ys, axis=-1, keepdims=True)
    dweights = np.matmul(dys, spread_values.swapaxes(-1, -2))
    mixed = weights
    if dropout:
        share = kept_scores(weights, dy, dropout, key, rows, start, (query_runs, key_runs))
        dweights, mixed = dweights * share, weights * share
    dscores = weights * (dweights - along)
    if slope is not None:
        dscores = dscores * slope
    dq = np.matmul(dscores, spread_keys) * factor
    dk = of_group(np.matmul(dscores.swapaxes(-1, -2), wide(queries)) * factor, group)
    dv = of_group(np.matmul(mixed.swapaxes(-1, -2), dys), group)
    found = [x if q.ndim == 4 else joined(x) for x in (dq, dk, dv)]
    if sinks is not None:
        share = np.exp(wide(sinks).reshape(-1, 1, 1) - total)
        found.append(-np.sum(share * along, axis=(0, 2, 3)))
    return [x.astype(q.dtype) for x in found][:count]


@AttentionGrad.pieces
def _(
    p: Pieces, dy: Piece, q: Piece, k: Piece, v: Piece, y: Piece, lse: Piece, *others: Piece | None, **attrs: Any
) -> Any:
    return backward_of_pieces(p, (dy, q, k, v, y, lse), others, attrs)


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
    check_random("AttentionGrad", dy, random, attrs["dropout"])
    check_context("AttentionGrad", attrs["context"])
    number = 3 if sinks is None else 4
    if count > number:
        without = "" if sinks is not None else " without sinks"
        message = f"`AttentionGrad` gives {number} results{without}, found {count} names"
        raise Reject(name_codes.RESULT_COUNT, message, Part("result", number))
    stated = statistics_dtype(q)
    if None not in (stated, lse.dtype) and lse.dtype is not stated:
        message = f"`AttentionGrad` of {q.dtype} expected a log-sum-exp of {stated} elements, found {lse.dtype}"
        raise Reject(codes.DTYPE_MISMATCH, message, "lse", help="it is the second result of `Attention`")
    found = checked_sizes("AttentionGrad", q, k, v, attn_mask, sinks, attrs)
    if found is not None:
        (_, heads, rows, _), (_, _, columns, width) = found[0], found[2]
        check_runs("AttentionGrad", random, rows, columns, None)
        given = (heads, rows, width) if rank_of(q, k, v) == 4 else (rows, dims.multiply(heads, width))
        check_like("dy", dy.shape, given)
        check_like("lse", lse.shape, (heads, rows))
    return [q.shape, k.shape, v.shape, (found[0][1],) if found is not None else None][:number]


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
    parts = AttentionLetters(q, k, attrs, columns="v")
    operands: list[Letters] = [parts.y, parts.q, parts.k, parts.v, parts.y, parts.rows]
    operands += lettered((attn_mask, parts.mask(attn_mask)), (sinks, ("h",)), *random_letters(random))
    given: tuple[Letters, ...] = (parts.q, parts.k, parts.v, ("h",))
    found = parts.layout(operands, given[: len(results)])
    return drawing(found, random, GRADIENT_START) if attrs["dropout"] else found


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
    *random: Arg,
    count: int,
    context: str,
    **attrs: Any,
) -> Sequence[Arg]:
    """Keys and values are gathered again; their gradients are summed over the devices, of which each keeps its part."""
    axis, keys = context_of(w, q, mask)
    if context == "ring" and mask == DISCARD:
        return gradient_around_ring(w, (dy, q, y, lse), k, v, sinks, random, keys.length, attrs, count)
    found = [w.gathered(x, axis, keys.in_order) for x in (k, v)]
    rest = keys.runs(w) if goes_by_places(attrs) else ()
    operands = trimmed(dy, q, *found, y, lse, mask, sinks, *drawn(random), *rest)
    dq, dk, dv, *dsinks = w.several("AttentionGrad", count, *operands, **without_context(attrs))
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
    numbers = random_torch(write, dy, q_num_heads, key, rows, start, dropout)
    settings = f"{heads}, {is_causal}, {window}, {factor}, {write.number(softcap)}, {numbers}"
    settings += runs_torch(query_runs, key_runs)
    given = f"{dy}, {q}, {k}, {v}, {y}, {lse}, {mask}, {sink}"
    return write.unpacked(f"{write.kernel('attention_gradient')}({given}, {settings})")
