"""Activation functions in torch, whose own compute narrow types in Float32 as the reference does."""

from __future__ import annotations

from distir.lower.forms import Operand, Write, narrowed, number, torch_form


@torch_form("Relu", fresh=True)
def _(write: Write, x: Operand) -> str:
    return f"torch.relu({x})"


@torch_form("LeakyRelu", fresh=True)
def _(write: Write, x: Operand, *, alpha: float) -> str:
    return f"F.leaky_relu({x}, {number(alpha)})"


@torch_form("Elu", fresh=True)
def _(write: Write, x: Operand, *, alpha: float) -> str:
    return f"F.elu({x}, {number(alpha)})"


@torch_form("Sigmoid", fresh=True)
def _(write: Write, x: Operand) -> str:
    return f"torch.sigmoid({x})"


@torch_form("HardSigmoid", fresh=True)
def _(write: Write, x: Operand, *, alpha: float, beta: float) -> str:
    return narrowed(f"torch.clamp({number(alpha)} * {x.wide} + {number(beta)}, 0.0, 1.0)", x.dtype)


@torch_form("HardSwish", fresh=True)
def _(write: Write, x: Operand) -> str:
    return f"F.hardswish({x})"


@torch_form("Tanh", fresh=True)
def _(write: Write, input: Operand) -> str:
    return f"torch.tanh({input})"


@torch_form("Gelu", fresh=True)
def _(write: Write, x: Operand, *, approximate: str) -> str:
    return f"F.gelu({x}, approximate={approximate!r})"


@torch_form("Swish", fresh=True)
def _(write: Write, x: Operand, *, alpha: float) -> str:
    if alpha == 1:
        return f"F.silu({x})"
    return narrowed(f"{x.wide} * torch.sigmoid({number(alpha)} * {x.wide})", x.dtype)


@torch_form("Softplus", fresh=True)
def _(write: Write, x: Operand) -> str:
    return f"F.softplus({x}, threshold=40.0)"  # torch's own threshold of 20 is too low for Float64


@torch_form("Softmax", fresh=True)
def _(write: Write, input: Operand, *, axis: int) -> str:
    return f"torch.softmax({input}, {axis})"


@torch_form("LogSoftmax", fresh=True)
def _(write: Write, input: Operand, *, axis: int) -> str:
    return f"torch.log_softmax({input}, {axis})"
