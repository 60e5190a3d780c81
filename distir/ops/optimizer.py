"""Optimizer steps, which update weights and state in place, and moving averages. Not in ONNX.

Tuples are updated leaf by leaf. The weights may be narrower than the state (mixed precision): a step is computed in the
widest of the operands' element types, at least Float32, and rounded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distir.diagnostics.codes import types as codes
from distir.ir import TensorType
from distir.ops.core import op
from distir.ops.host import Operand, known_ints
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, Unpacked, Write


UPDATE = "it updates weights or statistics, after the loss"
"""Why the ops of this family have no gradient."""


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
    "Tensor[t:float, s, d], Tensor[u:float, s, d] -> Tensor[t, s, d]",
    flops=lambda elements, weight_decay, **_: (4 if weight_decay else 2) * elements,
    inplace={0: 0},
    leafwise=True,
    non_differentiable=UPDATE,
)
def SGD(w: Array, dw: Array, *, lr: float = 0.01, weight_decay: float = 0.0) -> Array:
    """A step of gradient descent with weight decay: `w - lr * (dw + weight_decay * w)`.

    %w_new = SGD[lr = 0.1](%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1])
    """
    wide_w = wide(w)
    return (wide_w - lr * (wide(dw) + weight_decay * wide_w)).astype(w.dtype, copy=False)


@SGD.torch(fresh=True)
def _(write: Write, w: Expr, dw: Expr, *, lr: float, weight_decay: float) -> str:
    return _descent(write, w, dw, lr, weight_decay)


@op(
    "Tensor[t:float, s, d], Tensor[u:float, s, d], Tensor[v:float, s, d] -> Tensor[t, s, d], Tensor[v, s, d]",
    flops=lambda s, nesterov=False, weight_decay=0.0, **_: (4 + 2 * bool(nesterov) + 2 * bool(weight_decay)) * s,
    inplace={0: 0, 1: 2},
    leafwise=True,
    non_differentiable=UPDATE,
)
def Momentum(
    w: Array,
    dw: Array,
    m: Array,
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
    gradient = wide(dw) + weight_decay * wide_w
    velocity = momentum * wide(m) + gradient
    step = gradient + momentum * velocity if nesterov else velocity
    return (wide_w - lr * step).astype(w.dtype, copy=False), velocity.astype(m.dtype, copy=False)


@Momentum.torch(fresh=True)
def _(
    write: Write,
    w: Expr,
    dw: Expr,
    m: Expr,
    *,
    lr: float,
    momentum: float,
    nesterov: bool,
    weight_decay: float,
) -> Unpacked:
    settings = f"{write.number(lr)}, {write.number(momentum)}, {nesterov}, {write.number(weight_decay)}"
    return write.unpacked(f"{write.kernel('momentum')}({w}, {dw}, {m}, {settings}{_overwritten(write, 0, 2)})")


@op(
    "Tensor[t:float, s, d], Tensor[u:float, s, d], Tensor[v:float, s, d], Tensor[v:float, s, d], Tensor[Int64, (), d]"
    " -> Tensor[t, s, d], Tensor[v, s, d], Tensor[v, s, d]",
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
    *,
    lr: float = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
) -> tuple[Array, Array, Array]:
    """A step of Adam with decoupled weight decay (AdamW), and the new moments `m` and `v`. `step` counts from 1.

    `m' = beta1 * m + (1 - beta1) * dw`, `v' = beta2 * v + (1 - beta2) * dw * dw`, and
    `w' = w - lr * (m' / (1 - beta1 ** step) / (sqrt(v' / (1 - beta2 ** step)) + epsilon) + weight_decay * w)`
    (Kingma and Ba, arXiv:1412.6980; Loshchilov and Hutter, arXiv:1711.05101).

    %w_new, %m_new, %v_new = Adam(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1], %v: Tensor[Float32, (2, 3), 1], 1)
    """  # noqa: E501 - an example is one line
    wide_w, gradient = wide(w), wide(dw)
    first = beta1 * wide(m) + (1 - beta1) * gradient
    second = beta2 * wide(v) + (1 - beta2) * np.square(gradient)
    number = float(step)
    direction = first / (1 - beta1**number) / (np.sqrt(second / (1 - beta2**number)) + epsilon)
    updated = wide_w - lr * (direction + weight_decay * wide_w)
    return updated.astype(w.dtype, copy=False), first.astype(m.dtype, copy=False), second.astype(v.dtype, copy=False)


@Adam.checks
def _(w: TensorType, dw: TensorType, m: TensorType, v: TensorType, step: Operand, **attrs: object) -> None:
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
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
) -> Unpacked:
    settings = ", ".join(map(write.number, (lr, beta1, beta2, epsilon, weight_decay)))
    return write.unpacked(
        f"{write.kernel('adam')}({w}, {dw}, {m}, {v}, {step}, {settings}{_overwritten(write, 0, 2, 3)})"
    )


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


def _descent(write: Write, w: Expr, dw: Expr, lr: float, weight_decay: float) -> str:
    if weight_decay:
        into = _overwritten(write, 0)
        return f"{write.kernel('sgd')}({w}, {dw}, {write.number(lr)}, {write.number(weight_decay)}{into})"
    if dw.value is not None:
        dw = Expr(dw.tensor, dw.type)
    if write.may_overwrite(0):
        return f"{w}.sub_({dw}, alpha={write.number(lr)})"
    cast = "" if w.dtype is dw.dtype else f".to({w}.dtype)"
    return f"torch.sub({w}, {dw}, alpha={write.number(lr)}){cast}"


def _overwritten(write: Write, *operands: int) -> str:
    """The argument `overwrite` of a kernel, if it may overwrite the operands."""
    return ", overwrite=True" if all(map(write.may_overwrite, operands)) else ""
