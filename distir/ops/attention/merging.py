"""The op `MergeAttention`: two parts of attention over different keys, joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import (
    Shape,
)
from distir.ops.attention.of_pieces import merged_pieces
from distir.ops.core import op
from distir.ops.heads import by_head, joined
from distir.ops.host import Operand
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Unpacked, Write


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

    %z, %total = MergeAttention(%y: Tensor[Float32, (2, 4, 3, 8), 1], %lse: Tensor[Float32, (2, 4, 3), 1], %p: Tensor[Float32, (2, 4, 3, 8), 1], %q: Tensor[Float32, (2, 4, 3), 1])
    %z, %total = MergeAttention(%y: Tensor[Float32, (2, 3, 32), 1], %lse: Tensor[Float32, (2, 4, 3), 1], %p: Tensor[BFloat16, (2, 3, 32), 1], %q: Tensor[Float32, (2, 4, 3), 1])
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


@MergeAttention.checks
def _(y: Operand, lse: Operand, *_: Any) -> None:
    if y.shape is None or lse.shape is None or len(y.shape) == 4:
        return
    width, heads = y.shape[2], lse.shape[1]
    if isinstance(width, int) and isinstance(heads, int) and width % max(1, heads):
        raise Reject(codes.INDIVISIBLE, f"expected {heads} heads side by side, found a width of {width}", "y")


@MergeAttention.pieces
def _(p: Pieces, y: Piece, lse: Piece, part: Piece, part_lse: Piece, **_: Any) -> Any:
    return merged_pieces(p, y, lse, part, part_lse)


@MergeAttention.shapes
def _(y: Operand, lse: Operand, part: Operand, part_lse: Operand, **_: Any) -> list[Shape | None]:
    return [part.shape if y.shape is None else y.shape, part_lse.shape if lse.shape is None else lse.shape]


@MergeAttention.sharding
def _(
    y: Operand, lse: Operand, part: Operand, part_lse: Operand, *, results: Sequence[Shape | None], **_: Any
) -> Layout:
    mixed: Letters = ("b", "h", "q", None) if len(y.shape or ()) == 4 else ("b", "q", "h")
    rows: Letters = ("b", "h", "q")
    return Layout((mixed, rows, mixed, rows), (mixed, rows))


@MergeAttention.torch(fresh=True)
def _(write: Write, y: Expr, lse: Expr, part: Expr, part_lse: Expr) -> Unpacked:
    heads = None if y.rank == 4 else lse.shape[1]
    return write.unpacked(f"{write.kernel('merge_attention')}({y}, {lse}, {part}, {part_lse}, {heads})")
