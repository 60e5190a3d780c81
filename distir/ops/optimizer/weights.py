"""Weights and statistics that are no optimizer's: copies from master weights, moving averages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distir.ops.core import op
from distir.ops.numeric import Array
from distir.ops.optimizer.rules import UPDATE
from distir.ops.precision import wide

if TYPE_CHECKING:
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write


@op(
    "Tensor[t:float, s, d], Tensor[u:float, s, d] -> Tensor[t, s, d]",
    flops=0,
    inplace={0: 0},
    leafwise=True,
    non_differentiable=UPDATE,
)
def Assign(w: Array, source: Array) -> Array:
    """`source` in the element type of `w`, in its memory: the weights that a model computes with, from master weights.

    %w_new = Assign(%w: Tensor[BFloat16, (2, 3), 1], %master: Tensor[Float32, (2, 3), 1])
    """
    return source.astype(w.dtype)


@Assign.pieces
def _(p: Pieces, w: Piece, source: Piece) -> list[Piece]:
    return [p.cast(source, p.dtype(w))]


@Assign.torch(fresh=True)
def _(write: Write, w: Expr, source: Expr) -> str:
    return f"{w}.copy_({source})" if write.may_overwrite(0) else f"torch.empty_like({w}).copy_({source})"


@op(
    "Tensor[t:float, s, d], Tensor[u:float, s, d] -> Tensor[t, s, d]",
    flops=3,
    inplace={0: 0},
    leafwise=True,
    non_differentiable=UPDATE,
)
def MovingAverage(mean: Array, x: Array, *, momentum: float = 0.1) -> Array:
    """A step of an exponential moving average, as for running statistics: `(1 - momentum) * mean + momentum * x`.

    %mean_new = MovingAverage(%mean: Tensor[Float32, (3,), 1], %x: Tensor[Float32, (3,), 1])
    """
    return ((1 - momentum) * wide(mean) + momentum * wide(x)).astype(mean.dtype, copy=False)


@MovingAverage.torch(fresh=True)
def _(write: Write, mean: Expr, x: Expr, *, momentum: float) -> str:
    given = x if x.dtype is mean.dtype else f"{x}.to({mean}.dtype)"
    return f"{mean}.{'lerp_' if write.may_overwrite(0) else 'lerp'}({given}, {write.number(momentum)})"
