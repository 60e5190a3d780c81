"""Adam, and AdamW."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distir.diagnostics.codes import types as codes
from distir.ir import TensorType
from distir.ops.core import op
from distir.ops.host import Operand, known_ints
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
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, Unpacked, Write


@op(
    "Tensor[t:float, s, d], Tensor[u:float, s, d], Tensor[v:float, s, d], Tensor[v:float, s, d], Tensor[Int64, (), d],"
    f" {SCALARS} -> Tensor[t, s, d], Tensor[v, s, d], Tensor[v, s, d]",
    flops=lambda s, weight_decay, **_: (16 if weight_decay else 14) * s,
    inplace={0: 0, 1: 2, 2: 3},
    leafwise=True,
    non_differentiable=UPDATE,
)
def Adam(
    w: Array,
    dw: Array,
    m: Array,
    v: Array,
    step: Array,
    rate: Array | None = None,
    factor: Array | None = None,
    *,
    lr: float = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled: bool = True,
) -> tuple[Array, Array, Array]:
    """A step of Adam, and the new moments `m` and `v`. `step` counts from 1.

    `m' = beta1 * m + (1 - beta1) * dw`, `v' = beta2 * v + (1 - beta2) * dw * dw`, and
    `w' = w - lr * (m' / (1 - beta1 ** step) / (sqrt(v' / (1 - beta2 ** step)) + epsilon) + weight_decay * w)`
    (Kingma and Ba, arXiv:1412.6980; Loshchilov and Hutter, arXiv:1711.05101: AdamW). If not `decoupled`,
    `weight_decay * w` is added to `dw` instead, as the gradient of an L2 penalty (PyTorch's `Adam`).

    %w_new, %m_new, %v_new = Adam(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1], %v: Tensor[Float32, (2, 3), 1], 1)
    """  # noqa: E501 - an example is one line
    wide_w, gradient = wide(w), scaled(dw, factor)
    if not decoupled:
        gradient = gradient + weight_decay * wide_w
    first = beta1 * wide(m) + (1 - beta1) * gradient
    second = beta2 * wide(v) + (1 - beta2) * np.square(gradient)
    number = float(step)
    direction = first / (1 - beta1**number) / (np.sqrt(second / (1 - beta2**number)) + epsilon)
    updated = wide_w - rate_or(lr, rate) * (direction + (weight_decay * wide_w if decoupled else 0))
    return unless_skipped(factor, w, updated), unless_skipped(factor, m, first), unless_skipped(factor, v, second)


@Adam.checks
def _(
    w: TensorType, dw: TensorType, m: TensorType, v: TensorType, step: Operand, *scalars: Operand, **attrs: object
) -> None:
    known = known_ints(step)
    if known is not None and known[0] < 1:
        raise Reject(codes.BAD_VALUE, f"`Adam` expected a step from 1, found {known[0]}", "step")


@Adam.torch(fresh=True)
def _(
    write: Write,
    w: Expr,
    dw: Expr,
    m: Expr,
    v: Expr,
    step: Expr,
    rate: Expr | None = None,
    factor: Expr | None = None,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    decoupled: bool,
) -> Unpacked:
    settings = ", ".join([str(rate or write.number(lr)), *map(write.number, (beta1, beta2, epsilon, weight_decay))])
    settings += (
        ("" if decoupled else ", decoupled=False") + factor_argument(factor) + overwrite_argument(write, 0, 2, 3)
    )
    return write.unpacked(f"{write.kernel('adam')}({w}, {dw}, {m}, {v}, {step}, {settings})")


optimizer("adam", Adam, decoupled=False)
optimizer("adamw", Adam)
