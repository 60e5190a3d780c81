"""Optimizers in torch, in the place of weights and state where nobody needs the old ones any more."""

from __future__ import annotations

from distir.lower.forms import Operand, Unpacked, Write, number, torch_form


@torch_form("Optimizer", fresh=True)
def _(write: Write, w: Operand, dw: Operand, *, lr: float) -> str:
    return _descent(write, w, dw, lr, 0.0)


@torch_form("SGD", fresh=True)
def _(write: Write, w: Operand, dw: Operand, *, lr: float, weight_decay: float) -> str:
    return _descent(write, w, dw, lr, weight_decay)


def _descent(write: Write, w: Operand, dw: Operand, lr: float, weight_decay: float) -> str:
    if weight_decay:
        into = _overwritten(write, 0)
        return f"{write.kernel('sgd')}({w}, {dw}, {number(lr)}, {number(weight_decay)}{into})"
    if dw.value is not None:
        dw = Operand(dw.tensor, dw.type)
    if write.may_overwrite(0):
        return f"{w}.sub_({dw}, alpha={number(lr)})"
    kept = "" if w.dtype is dw.dtype else f".to({w}.dtype)"
    return f"torch.sub({w}, {dw}, alpha={number(lr)}){kept}"


def _overwritten(write: Write, *operands: int) -> str:
    """Says to a kernel whether it may write into the operands."""
    return ", overwrite=True" if all(map(write.may_overwrite, operands)) else ""


@torch_form("Momentum", fresh=True)
def _(
    write: Write,
    w: Operand,
    dw: Operand,
    m: Operand,
    *,
    lr: float,
    momentum: float,
    nesterov: bool,
    weight_decay: float,
) -> Unpacked:
    settings = f"{number(lr)}, {number(momentum)}, {nesterov}, {number(weight_decay)}"
    return Unpacked(f"{write.kernel('momentum')}({w}, {dw}, {m}, {settings}{_overwritten(write, 0, 2)})")


@torch_form("Adam", fresh=True)
def _(
    write: Write,
    w: Operand,
    dw: Operand,
    m: Operand,
    v: Operand,
    step: Operand,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
) -> Unpacked:
    settings = ", ".join(map(number, (lr, beta1, beta2, epsilon, weight_decay)))
    return Unpacked(f"{write.kernel('adam')}({w}, {dw}, {m}, {v}, {step}, {settings}{_overwritten(write, 0, 2, 3)})")


@torch_form("MovingAverage", fresh=True)
def _(write: Write, mean: Operand, x: Operand, *, momentum: float) -> str:
    given = x if x.dtype is mean.dtype else f"{x}.to({mean}.dtype)"
    return f"{mean}.{'lerp_' if write.may_overwrite(0) else 'lerp'}({given}, {number(momentum)})"
