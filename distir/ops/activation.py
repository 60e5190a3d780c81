"""Activation functions. Element types narrower than Float32 are computed in Float32."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from distir.ir import DTYPES, Arg, Literal, Shape, TensorType
from distir.ops.attributes import check_word
from distir.ops.core import op
from distir.ops.elementwise import error_function
from distir.ops.layout import Layout, Parts, elementwise
from distir.ops.numeric import Array, np
from distir.ops.precision import wide

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write


def _grad_from_result(g: Backward) -> Gradients:
    """`XGrad(dy, y)`, with the attributes of `X`."""
    return [g(f"{g.op.name}Grad", g.dy, g.y[0], **g.statement.attrs)]


def _grad_from_operand(g: Backward) -> Gradients:
    """`XGrad(dy, x)`, with the attributes of `X`."""
    return [g(f"{g.op.name}Grad", g.dy, g.x[0], **g.statement.attrs)]


@op("Tensor[t:number, s, d] -> Tensor[t, s, d]", flops=1)
def Relu(x: Array) -> Array:
    """`max(x, 0)`. ONNX `Relu`.

    %y = Relu(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.maximum(x, x.dtype.type(0))


Relu.grad(_grad_from_result)
Relu.torch("torch.relu({x})", fresh=True)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=2)
def LeakyRelu(x: Array, *, alpha: float = 0.01) -> Array:
    """`x` where it is at least 0, else `alpha * x`. ONNX `LeakyRelu`.

    %y = LeakyRelu[alpha = 0.1](%x: Tensor[Float32, (2, 3), 1])
    """
    wide_x = wide(x)
    return np.where(wide_x < 0, alpha * wide_x, wide_x).astype(x.dtype)


LeakyRelu.grad(_grad_from_operand)
LeakyRelu.torch("F.leaky_relu({x}, {alpha})", fresh=True)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=3)
def Elu(x: Array, *, alpha: float = 1.0) -> Array:
    """`x` where it is at least 0, else `alpha * (exp(x) - 1)`. ONNX `Elu`.

    %y = Elu(%x: Tensor[Float32, (2, 3), 1])
    """
    wide_x = wide(x)
    return np.where(wide_x < 0, alpha * np.expm1(np.minimum(wide_x, 0)), wide_x).astype(x.dtype)


Elu.grad(_grad_from_operand)
Elu.torch("F.elu({x}, {alpha})", fresh=True)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=4)
def Sigmoid(x: Array) -> Array:
    """The logistic function, `1 / (1 + exp(-x))`. ONNX `Sigmoid`.

    %y = Sigmoid(%x: Tensor[Float32, (2, 3), 1])
    """
    return logistic(wide(x)).astype(x.dtype, copy=False)


Sigmoid.grad(_grad_from_result)
Sigmoid.torch("torch.sigmoid({x})", fresh=True)


def logistic(x: Array) -> Array:
    """The logistic function. Only exponentials of negative numbers are taken, which cannot overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=4)
def HardSigmoid(x: Array, *, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """`alpha * x + beta`, clipped to 0 and 1. ONNX `HardSigmoid`.

    %y = HardSigmoid(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.clip(alpha * wide(x) + beta, 0, 1).astype(x.dtype, copy=False)


@HardSigmoid.grad
def _(g: Backward) -> Gradients:
    rising = g("And", g("Greater", g.y[0], 0.0), g("Less", g.y[0], 1.0))
    return [g("Where", rising, g("Mul", g.dy, g.attrs["alpha"]), 0.0)]


@HardSigmoid.torch(fresh=True)
def _(write: Write, x: Expr, *, alpha: float, beta: float) -> str:
    return write.narrowed(f"torch.clamp({write.number(alpha)} * {x.wide} + {write.number(beta)}, 0.0, 1.0)", x.dtype)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=5)
def HardSwish(x: Array) -> Array:
    """`x * HardSigmoid[alpha = 1 / 6, beta = 0.5](x)`. ONNX `HardSwish`.

    %y = HardSwish(%x: Tensor[Float32, (2, 3), 1])
    """
    wide_x = wide(x)
    return (wide_x * np.clip(wide_x / 6 + 0.5, 0, 1)).astype(x.dtype, copy=False)


@HardSwish.grad
def _(g: Backward) -> Gradients:
    gate = g("HardSigmoid", g.x[0], alpha=1 / 6, beta=0.5)
    return g.through({g("Mul", g.x[0], gate): g.dy}, g.x)


HardSwish.torch("F.hardswish({x})", fresh=True)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Tanh(input: Array) -> Array:
    """The hyperbolic tangent. ONNX `Tanh`.

    %y = Tanh(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.tanh(wide(input)).astype(input.dtype, copy=False)


Tanh.grad(_grad_from_result)
Tanh.torch("torch.tanh({input})", fresh=True)


@op(
    "Tensor[t:float, s, d] -> Tensor[t, s, d]",
    flops=lambda elements, approximate, **_: (9 if approximate == "tanh" else 5) * elements,
)
def Gelu(x: Array, *, approximate: str = "none") -> Array:
    """`x` times the probability that a standard normal variable is below `x`. ONNX `Gelu`.

    With `approximate = "tanh"`: `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))`
    (Hendrycks and Gimpel, arXiv:1606.08415).

    %y = Gelu(%x: Tensor[Float32, (2, 3), 1])
    %y = Gelu[approximate = "tanh"](%x: Tensor[Float32, (2, 3), 1])
    """
    wide_x = wide(x)
    if approximate == "tanh":
        doubled = 1 + np.tanh(math.sqrt(2 / math.pi) * (wide_x + 0.044715 * wide_x**3))
    else:
        doubled = 1 + error_function(wide_x / math.sqrt(2))
    return (wide_x / 2 * doubled).astype(x.dtype, copy=False)


@Gelu.checks
def _(x: TensorType, *, approximate: str) -> None:
    check_approximation("Gelu", approximate)


Gelu.grad(_grad_from_operand)
Gelu.torch("F.gelu({x}, approximate={approximate})", fresh=True)


def check_approximation(name: str, approximate: str) -> None:
    """Raises Reject for an unknown approximation of Gelu."""
    check_word(name, "approximate", approximate, ("none", "tanh"))


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=6)
def Swish(x: Array, *, alpha: float = 1.0) -> Array:
    """`x * Sigmoid(alpha * x)`; with `alpha = 1` also called SiLU. ONNX `Swish`.

    %y = Swish(%x: Tensor[Float32, (2, 3), 1])
    """
    wide_x = wide(x)
    return (wide_x * logistic(alpha * wide_x)).astype(x.dtype, copy=False)


Swish.grad(_grad_from_operand)


@Swish.torch(fresh=True)
def _(write: Write, x: Expr, *, alpha: float) -> str:
    if alpha == 1:
        return f"F.silu({x})"
    return write.narrowed(f"{x.wide} * torch.sigmoid({write.number(alpha)} * {x.wide})", x.dtype)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=3)
def Softplus(x: Array) -> Array:
    """`log(1 + exp(x))`. ONNX `Softplus`.

    %y = Softplus(%x: Tensor[Float32, (2, 3), 1])
    """
    wide_x = wide(x)
    return np.logaddexp(wide_x, wide_x.dtype.type(0)).astype(x.dtype, copy=False)


@Softplus.grad
def _(g: Backward) -> Gradients:
    return [g("Mul", g.dy, g("Sigmoid", g.x[0]))]


Softplus.torch("F.softplus({x}, threshold=40.0)", fresh=True)


@op("Tensor[t:float, (*a, n@axis, *b), d] -> Tensor[t, (*a, n, *b), d]", flops=5)
def Softmax(input: Array, *, axis: int = -1) -> Array:
    """`exp(x)`, scaled so that it sums to 1 along `axis`. ONNX `Softmax`.

    %y = Softmax(%x: Tensor[Float32, (2, 3), 1])
    %y = Softmax[axis = 0](%x: Tensor[Float32, (2, 3), 1])
    """
    return np.exp(log_softmax(wide(input), axis)).astype(input.dtype, copy=False)


Softmax.grad(_grad_from_result)


@Softmax.torch(fresh=True)
def _(write: Write, input: Expr, *, axis: int) -> str:
    return f"torch.softmax({input}, {axis})"


@op("Tensor[t:float, (*a, n@axis, *b), d] -> Tensor[t, (*a, n, *b), d]", flops=5)
def LogSoftmax(input: Array, *, axis: int = -1) -> Array:
    """The logarithm of `Softmax`, exact also where that is close to 0. ONNX `LogSoftmax`.

    %y = LogSoftmax(%x: Tensor[Float32, (2, 3), 1])
    """
    return log_softmax(wide(input), axis).astype(input.dtype, copy=False)


LogSoftmax.grad(_grad_from_result)


@LogSoftmax.sharding
def _(input: TensorType, *, results: Sequence[Shape | None], axis: int) -> Layout:
    (letters,) = elementwise([input.shape])
    classes = letters[axis % max(len(letters), 1) :][:1]
    return Layout((letters,), (letters,), parted=frozenset(letter for letter in classes if letter))


@LogSoftmax.parted
def _(w: Parts, input: Arg, *, axis: int) -> list[Arg]:
    """The maximum and the sum of exponentials are those of all parts."""
    shifted, logarithm = parted_softmax(w, input, axis % len(w.type(input).shape or ()))
    return [as_stored(w, w("Sub", shifted, logarithm), input)]


@LogSoftmax.pieces
def _(p: Pieces, input: Piece, *, axis: int) -> list[Piece]:
    shifted, logarithm = softmax_of_pieces(p, input, axis % max(len(p.shape(input)), 1))
    return [p.cast(p.sum((1.0, shifted), (-1.0, logarithm)), p.dtype(input))]


def softmax_of_pieces(p: Pieces, x: Piece, axis: int) -> tuple[Piece, Piece]:
    """A value less its maximum along an axis, and the logarithm of its exponentials' sum, at least in Float32."""
    dtype, along = p.dtype(x), Literal((axis,))
    narrow = dtype is not None and dtype.bytes < DTYPES["Float32"].bytes
    wide = p.cast(x, DTYPES["Float32"]) if narrow else x
    shifted = p("Sub", wide, p("ReduceMax", wide, along))
    return shifted, p("Log", p("ReduceSum", p("Exp", shifted), along))


def parted_softmax(w: Parts, x: Arg, axis: int) -> tuple[Arg, Arg]:
    """A value of which devices have parts along an axis, less its maximum; the logarithm of its exponentials' sum."""
    along = Literal((axis,))
    wide = w("Cast", x, to=DTYPES["Float32"]) if is_narrow(w, x) else x
    shifted = w("Sub", wide, w.greatest(w("ReduceMax", wide, along), axis=axis))
    return shifted, w("Log", w.sum(w("ReduceSum", w("Exp", shifted), along)))


def as_stored(w: Parts, x: Arg, like: Arg) -> Arg:
    """A value in the element type of another one, where that is narrower than Float32."""
    dtype = w.type(like).dtype
    return w("Cast", x, to=dtype) if dtype is not None and is_narrow(w, like) else x


def is_narrow(w: Parts, x: Arg) -> bool:
    """Whether a value's element type is narrower than Float32."""
    dtype = w.type(x).dtype
    return dtype is not None and dtype.bytes < DTYPES["Float32"].bytes


@LogSoftmax.torch(fresh=True)
def _(write: Write, input: Expr, *, axis: int) -> str:
    return f"torch.log_softmax({input}, {axis})"


def log_softmax(x: Array, axis: int) -> Array:
    """The logarithm of softmax in the element type of `x`, Float32 or wider. An empty axis gives an empty result."""
    largest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    shifted = x - largest
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
