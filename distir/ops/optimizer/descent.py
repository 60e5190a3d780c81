"""Steps along the gradient, or its running mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distir.ops.core import op
from distir.ops.numeric import Array, np
from distir.ops.optimizer.rules import (
    SCALARS,
    UPDATE,
    factor_argument,
    optimizer,
    overwrite_argument,
    rate_or,
    scaled,
    unless_skipped,
)
from distir.ops.precision import wide

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, Unpacked, Write


@op(
    "Tensor[t:float, s, d], Tensor[u:float, s, d] -> Tensor[t, s, d]",
    flops=2,
    inplace={0: 0},
    leafwise=True,
    non_differentiable=UPDATE,
)
def Optimizer(w: Array, dw: Array, *, lr: float = 0.01) -> Array:
    """The generic optimizer, a step of gradient descent: `w - lr * dw`.

    %w_new = Optimizer(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1])
    %w_new = Optimizer(%w: Tuple[Tensor[Float32, (2, 3), 1], Float32[1]], %dw: Tuple[Tensor[Float32, (2, 3), 1], Float32[1]])
    """  # noqa: E501 - an example is one line
    return (wide(w) - lr * wide(dw)).astype(w.dtype, copy=False)


@Optimizer.torch(fresh=True)
def _(write: Write, w: Expr, dw: Expr, *, lr: float) -> str:
    return _descent(write, w, dw, lr, 0.0)


@op(
    f"Tensor[t:float, s, d], Tensor[u:float, s, d], {SCALARS} -> Tensor[t, s, d]",
    flops=lambda elements, weight_decay, **_: (4 if weight_decay else 2) * elements,
    inplace={0: 0},
    leafwise=True,
    non_differentiable=UPDATE,
)
def SGD(
    w: Array,
    dw: Array,
    rate: Array | None = None,
    factor: Array | None = None,
    *,
    lr: float = 0.01,
    weight_decay: float = 0.0,
) -> Array:
    """A step of gradient descent with weight decay: `w - lr * (dw + weight_decay * w)`.

    %w_new = SGD[lr = 0.1](%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1])
    %w_new = SGD(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %r: Float32[1], %f: Float32[1])
    """
    wide_w = wide(w)
    new = wide_w - rate_or(lr, rate) * (scaled(dw, factor) + weight_decay * wide_w)
    return unless_skipped(factor, w, new)


@SGD.torch(fresh=True)
def _(
    write: Write,
    w: Expr,
    dw: Expr,
    rate: Expr | None = None,
    factor: Expr | None = None,
    *,
    lr: float,
    weight_decay: float,
) -> str:
    if rate is None and factor is None:
        return _descent(write, w, dw, lr, weight_decay)
    settings = f"{rate or write.number(lr)}, {write.number(weight_decay)}"
    return f"{write.kernel('sgd')}({w}, {dw}, {settings}{factor_argument(factor)}{overwrite_argument(write, 0)})"


optimizer("sgd", SGD)


@op(
    f"Tensor[t:float, s, d], Tensor[u:float, s, d], Tensor[v:float, s, d], {SCALARS}"
    " -> Tensor[t, s, d], Tensor[v, s, d]",
    flops=lambda s, nesterov=False, weight_decay=0.0, **_: (4 + 2 * bool(nesterov) + 2 * bool(weight_decay)) * s,
    inplace={0: 0, 1: 2},
    leafwise=True,
    non_differentiable=UPDATE,
)
def Momentum(
    w: Array,
    dw: Array,
    m: Array,
    rate: Array | None = None,
    factor: Array | None = None,
    *,
    lr: float = 0.01,
    momentum: float = 0.9,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> tuple[Array, Array]:
    """A step along `m' = momentum * m + g`, where `g = dw + weight_decay * w`: `w - lr * m'`, and `m'`.

    With `nesterov`, along `g + momentum * m'` instead (Sutskever et al., 2013).

    %w_new, %m_new = Momentum(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1])
    """  # noqa: E501 - an example is one line
    wide_w = wide(w)
    gradient = scaled(dw, factor) + weight_decay * wide_w
    velocity = momentum * wide(m) + gradient
    step = gradient + momentum * velocity if nesterov else velocity
    return unless_skipped(factor, w, wide_w - rate_or(lr, rate) * step), unless_skipped(factor, m, velocity)


@Momentum.torch(fresh=True)
def _(
    write: Write,
    w: Expr,
    dw: Expr,
    m: Expr,
    rate: Expr | None = None,
    factor: Expr | None = None,
    *,
    lr: float,
    momentum: float,
    nesterov: bool,
    weight_decay: float,
) -> Unpacked:
    settings = f"{rate or write.number(lr)}, {write.number(momentum)}, {nesterov}, {write.number(weight_decay)}"
    settings += factor_argument(factor) + overwrite_argument(write, 0, 2)
    return write.unpacked(f"{write.kernel('momentum')}({w}, {dw}, {m}, {settings})")


optimizer("momentum", Momentum)


@op(
    f"Tensor[t:float, s, d], Tensor[u:float, s, d], Tensor[v:float, s, d], {SCALARS}"
    " -> Tensor[t, s, d], Tensor[v, s, d]",
    flops=lambda s, weight_decay, **_: (10 if weight_decay else 8) * s,
    inplace={0: 0, 1: 2},
    leafwise=True,
    non_differentiable=UPDATE,
)
def Lion(
    w: Array,
    dw: Array,
    m: Array,
    rate: Array | None = None,
    factor: Array | None = None,
    *,
    lr: float = 0.0001,
    beta1: float = 0.9,
    beta2: float = 0.99,
    weight_decay: float = 0.0,
) -> tuple[Array, Array]:
    """A step of Lion, by the sign of an average (Chen et al., arXiv:2302.06675), and the new average `m`.

    `w' = w - lr * (sign(beta1 * m + (1 - beta1) * dw) + weight_decay * w)`, and `m' = beta2 * m + (1 - beta2) * dw`.

    %w_new, %m_new = Lion(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1])
    """  # noqa: E501 - an example is one line
    wide_w, average, gradient = wide(w), wide(m), scaled(dw, factor)
    direction = np.sign(beta1 * average + (1 - beta1) * gradient)
    updated = wide_w - rate_or(lr, rate) * (direction + weight_decay * wide_w)
    return unless_skipped(factor, w, updated), unless_skipped(factor, m, beta2 * average + (1 - beta2) * gradient)


@Lion.torch(fresh=True)
def _(
    write: Write,
    w: Expr,
    dw: Expr,
    m: Expr,
    rate: Expr | None = None,
    factor: Expr | None = None,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
) -> Unpacked:
    settings = ", ".join([str(rate or write.number(lr)), *map(write.number, (beta1, beta2, weight_decay))])
    settings += factor_argument(factor) + overwrite_argument(write, 0, 2)
    return write.unpacked(f"{write.kernel('lion')}({w}, {dw}, {m}, {settings})")


optimizer("lion", Lion)


def _descent(write: Write, w: Expr, dw: Expr, lr: float, weight_decay: float) -> str:
    if weight_decay:
        into = overwrite_argument(write, 0)
        return f"{write.kernel('sgd')}({w}, {dw}, {write.number(lr)}, {write.number(weight_decay)}{into})"
    if dw.value is not None:
        dw = Expr(dw.tensor, dw.type)
    if write.may_overwrite(0):
        return f"{w}.sub_({dw}, alpha={write.number(lr)})"
    cast = "" if w.dtype is dw.dtype else f".to({w}.dtype)"
    return f"torch.sub({w}, {dw}, alpha={write.number(lr)}){cast}"
