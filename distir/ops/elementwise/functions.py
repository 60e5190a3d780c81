"""Functions of one operand. An elementary function (a sine, a logarithm) counts as one operation per element."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from distir.ops.core import op
from distir.ops.numeric import Array, np

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces


@op("Tensor[t:number, s, d] -> Tensor[t, s, d]", flops=1, linear="jointly")
def Neg(x: Array) -> Array:
    """`-x`. ONNX `Neg`.

    %y = Neg(%x: Tensor[Float32, (2, 3), 1])
    """
    return -x


@Neg.pieces
def _(p: Pieces, x: Piece) -> Any:
    return [p.sum((-1.0, x))]


@Neg.grad
def _(g: Backward) -> Gradients:
    return [g("Neg", g.dy)]


Neg.torch("torch.neg({x})", fresh=True)


@op("Tensor[t:number, s, d] -> Tensor[t, s, d]", flops=1)
def Abs(x: Array) -> Array:
    """The absolute value. ONNX `Abs`.

    %y = Abs(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.abs(x)


@Abs.grad
def _(g: Backward) -> Gradients:
    return [g("Mul", g.dy, g("Sign", g.x[0]))]


Abs.torch("torch.abs({x})", fresh=True)


@op("Tensor[t:number, s, d] -> Tensor[t, s, d]", flops=1)
def Sign(input: Array) -> Array:
    """-1, 0 or 1 as the element is below, at or above zero. ONNX `Sign`.

    %y = Sign(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.sign(input)


def _constant_almost_everywhere(g: Backward) -> Gradients:
    return [None] * len(g.x)


Sign.grad(_constant_almost_everywhere)
Sign.torch("torch.sign({input})", fresh=True)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Exp(input: Array) -> Array:
    """The exponential function. ONNX `Exp`.

    %y = Exp(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.exp(input)


@Exp.grad
def _(g: Backward) -> Gradients:
    return [g("Mul", g.dy, g.y[0])]


Exp.torch("torch.exp({input})", fresh=True)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Log(input: Array) -> Array:
    """The natural logarithm; NaN below zero. ONNX `Log`.

    %y = Log(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.log(input)


@Log.grad
def _(g: Backward) -> Gradients:
    return [g("Div", g.dy, g.x[0])]


Log.torch("torch.log({input})", fresh=True)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Sqrt(x: Array) -> Array:
    """The square root; NaN below zero. ONNX `Sqrt`.

    %y = Sqrt(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.sqrt(x)


@Sqrt.grad
def _(g: Backward) -> Gradients:
    return [g("Div", g("Mul", g.dy, 0.5), g.y[0])]


Sqrt.torch("torch.sqrt({x})", fresh=True)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Reciprocal(x: Array) -> Array:
    """`1 / x`. ONNX `Reciprocal`.

    %y = Reciprocal(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.reciprocal(x)


@Reciprocal.grad
def _(g: Backward) -> Gradients:
    return [g("Neg", g("Mul", g.dy, g("Mul", g.y[0], g.y[0])))]


Reciprocal.torch("torch.reciprocal({x})", fresh=True)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Floor(x: Array) -> Array:
    """`x` rounded down. ONNX `Floor`.

    %y = Floor(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.floor(x)


Floor.grad(_constant_almost_everywhere)
Floor.torch("torch.floor({x})", fresh=True)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Ceil(x: Array) -> Array:
    """`x` rounded up. ONNX `Ceil`.

    %y = Ceil(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.ceil(x)


Ceil.grad(_constant_almost_everywhere)
Ceil.torch("torch.ceil({x})", fresh=True)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Round(x: Array) -> Array:
    """The nearest integer, the even one of two. ONNX `Round`.

    %y = Round(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.rint(x)


Round.grad(_constant_almost_everywhere)
Round.torch("torch.round({x})", fresh=True)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Erf(input: Array) -> Array:
    """The error function, `2 / sqrt(pi)` times the integral of `exp(-t * t)` from 0 to the element. ONNX `Erf`.

    %y = Erf(%x: Tensor[Float32, (2, 3), 1])
    """
    return error_function(input)


@Erf.grad
def _(g: Backward) -> Gradients:
    bell = g("Exp", g("Neg", g("Mul", g.x[0], g.x[0])))
    return [g("Mul", g.dy, g("Mul", bell, 2 / math.sqrt(math.pi)))]


Erf.torch("torch.erf({input})", fresh=True)


def error_function(x: Array) -> Array:
    """The error function of each element, in the element type of `x`; numpy has none."""
    values = map(math.erf, x.astype(np.float64).reshape(-1).tolist())
    return np.fromiter(values, np.float64, x.size).reshape(x.shape).astype(x.dtype)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Sin(input: Array) -> Array:
    """The sine. ONNX `Sin`.

    %y = Sin(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.sin(input)


@Sin.grad
def _(g: Backward) -> Gradients:
    return [g("Mul", g.dy, g("Cos", g.x[0]))]


Sin.torch("torch.sin({input})", fresh=True)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Cos(input: Array) -> Array:
    """The cosine. ONNX `Cos`.

    %y = Cos(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.cos(input)


@Cos.grad
def _(g: Backward) -> Gradients:
    return [g("Neg", g("Mul", g.dy, g("Sin", g.x[0])))]


Cos.torch("torch.cos({input})", fresh=True)
