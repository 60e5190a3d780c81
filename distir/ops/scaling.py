"""Gradients between the backward pass and the optimizer: accumulated in a wider type, clipped, unscaled. Not in ONNX.

The squared norms of all gradients add up to one scalar, whose sum over the devices is the only communication: it
decides how far gradients are clipped and, with loss scaling, whether they are finite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, DType
from distir.ops.core import op
from distir.ops.host import Operand
from distir.ops.numeric import Array, np, numpy_dtype
from distir.ops.optimizer import UPDATE
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Unpacked, Write


@op("Tensor[t:float, s, d] -> Tensor[to, s, d]", flops=0, linear="jointly", leafwise=True, non_differentiable=UPDATE)
def CastGradient(dw: Array, *, to: DType) -> Array:
    """A gradient in the element type in which microbatches and replicas add it up.

    As `Cast`, but of the terms of a sum, which is rounded once less so: `CastGradient` of a sum is the sum of what is
    cast, up to rounding.

    %g = CastGradient[to = Float32](%dw: Tensor[BFloat16, (2, 3), 1])
    """
    return dw.astype(numpy_dtype(to))


@CastGradient.torch
def _(write: Write, dw: Expr, *, to: DType) -> str:
    return f"{dw.tensor}.to({write.dtype(to)})"


@op("Tensor[t:float, s, d] -> Tensor[to, (), d]", flops=lambda inputs, **_: 2 * inputs, non_differentiable=UPDATE)
def SquaredNorm(x: Array, *, to: DType = DTYPES["Float32"]) -> Array:
    """The sum of the squares of all elements, computed and given in the element type `to`.

    %n = SquaredNorm(%dw: Tensor[BFloat16, (2, 3), 1])
    """
    return np.sum(np.square(x.astype(numpy_dtype(to))))


@SquaredNorm.pieces
def _(p: Pieces, x: Piece, *, to: DType) -> list[Piece]:
    return [p("ReduceSumSquare", p.cast(x, to), keepdims=False)]


@SquaredNorm.torch(fresh=True)
def _(write: Write, x: Expr, *, to: DType) -> str:
    return f"torch.sum(torch.square({x.tensor}.to({write.dtype(to)})))"


@op(
    "Tensor[t:float, (), d], Optional[Tensor[t:float, (), d]] -> Tensor[t, (), d]",
    flops=5,
    non_differentiable=UPDATE,
)
def GradientFactor(squares: Array, scale: Array | None = None, *, max_norm: float | None = None) -> Array:
    """What an optimizer multiplies gradients with, from the sum of their `squares`: clipping, and loss scaling undone.

    With the norm `n = sqrt(squares) / scale`, it is `min(1, max_norm / (n + 1e-6)) / scale`, as `clip_grad_norm_` of
    PyTorch clips; without `max_norm`, `1 / scale`. With a `scale`, it is 0 if the squares are not finite, and
    optimizers leave the step out; without one, it is not a number then, and so are the new weights.

    %f = GradientFactor[max_norm = 1.0](%squares: Float32[1])
    %f = GradientFactor(%squares: Float32[1], %scale: Float32[1])
    """
    inverse = squares.dtype.type(1) if scale is None else 1 / scale
    factor = inverse
    if max_norm is not None:
        factor = np.minimum(1, max_norm / (np.sqrt(squares) * inverse + 1e-6)) * inverse
    if np.isfinite(squares):
        return factor.astype(squares.dtype)
    return squares.dtype.type(np.nan if scale is None else 0)


@GradientFactor.checks
def _(squares: Operand, scale: Operand | None = None, *, max_norm: float | None = None) -> None:
    if max_norm is not None and not max_norm > 0:
        message = f"`GradientFactor` expected a norm above 0, found {max_norm}"
        raise Reject(codes.BAD_VALUE, message, "max_norm")


@GradientFactor.torch(fresh=True)
def _(write: Write, squares: Expr, scale: Expr | None = None, *, max_norm: float | None = None) -> str:
    return f"{write.kernel('gradient_factor')}({squares.tensor}, {scale and scale.tensor}, {max_norm})"


@op(
    "Tensor[t:float, (), d], Tensor[Int64, (), d], Tensor[f:float, (), d] -> Tensor[t, (), d], Tensor[Int64, (), d]",
    flops=5,
    inplace={0: 0, 1: 1},
    non_differentiable=UPDATE,
)
def LossScale(
    scale: Array, good: Array, factor: Array, *, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000
) -> tuple[Array, Array]:
    """The next loss scale, and for how many steps gradients have been finite: `torch.amp.GradScaler`.

    A `factor` of 0 says that they were not: `scale * backoff`, and 0. After `interval` finite ones `scale * growth`,
    and 0; else `scale`, and `good + 1`.

    %s, %n = LossScale(%scale: Float32[1], %good: Int64[1], %factor: Float32[1])
    """
    one, count = scale.dtype.type, good.dtype.type
    if factor == 0:
        return np.asarray(scale * one(backoff)), np.asarray(count(0))
    if good + 1 == interval:
        return np.asarray(scale * one(growth)), np.asarray(count(0))
    return np.array(scale), np.asarray(good + 1)


@LossScale.torch(fresh=True)
def _(write: Write, scale: Expr, good: Expr, factor: Expr, *, growth: float, backoff: float, interval: int) -> Unpacked:
    numbers = f"{write.number(growth)}, {write.number(backoff)}, {interval}"
    return write.unpacked(f"{write.kernel('loss_scale')}({scale.tensor}, {good.tensor}, {factor.tensor}, {numbers})")
