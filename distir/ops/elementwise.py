"""Arithmetic, comparison and logic, element by element.

Operands broadcast as in NumPy where there are several. Integers wrap around. An elementary function (a power, a sine)
counts as one operation per element.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

from distir.ir import Arg, Dim, DType, Literal, SymbolicDim, dims
from distir.ops.core import op
from distir.ops.numeric import Array, np, numpy_dtype
from distir.ops.precision import narrow, wide
from distir.ops.specs import BOOLEAN_RESULTS

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write


@op("Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=1, linear="jointly")
def Add(a: Array, b: Array) -> Array:
    """`a + b`. ONNX `Add`.

    %c = Add(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (3,), 1])
    """
    return a + b


@Add.pieces
def _(p: Pieces, a: Piece, b: Piece) -> Any:
    return [p.sum((1.0, a), (1.0, b))]


@Add.grad
def _(g: Backward) -> Gradients:
    return [g.sum_to(g.dy, x) for x in g.x]


Add.torch("{a} + {b}", fresh=True)


@op("Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=1, linear="jointly")
def Sub(a: Array, b: Array) -> Array:
    """`a - b`. ONNX `Sub`.

    %c = Sub(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
    """
    return a - b


@Sub.pieces
def _(p: Pieces, a: Piece, b: Piece) -> Any:
    return [p.sum((1.0, a), (-1.0, b))]


@Sub.grad
def _(g: Backward) -> Gradients:
    a, b = g.x
    return [g.sum_to(g.dy, a), g("Neg", g.sum_to(g.dy, b))]


Sub.torch("{a} - {b}", fresh=True)


@op("Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=1, linear=("a", "b"))
def Mul(a: Array, b: Array) -> Array:
    """`a * b`. ONNX `Mul`.

    %c = Mul(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 1), 1])
    %c = Mul(%a: Tensor[Float32, (2, 3), 1], 2.0)
    """
    return a * b


@Mul.pieces
def _(p: Pieces, a: Piece, b: Piece) -> Any:
    for x, y in ((a, b), (b, a)):
        if (number := p.number(y)) is not None:
            return [p.sum((number, x), (0.0, y))]
    return NotImplemented


@Mul.grad
def _(g: Backward) -> Gradients:
    a, b = g.x
    return [g.sum_to(g("Mul", g.dy, b), a), g.sum_to(g("Mul", g.dy, a), b)]


Mul.torch("{a} * {b}", fresh=True)


@op("Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=1, linear=("a",))
def Div(a: Array, b: Array) -> Array:
    """`a / b`; the quotient of integers is rounded towards zero. ONNX `Div`.

    %c = Div(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
    %c = Div(%a: Tensor[Int64, (2, 3), 1], 2)
    """
    if "O" in (a.dtype.kind, b.dtype.kind):  # sizes, some of them symbolic
        return np.asarray(np.frompyfunc(_quotient_of_sizes, 2, 1)(a, b))
    return truncated_quotient(a, b) if a.dtype.kind in "iu" else a / b


@Div.pieces
def _(p: Pieces, a: Piece, b: Piece) -> Any:
    if p.is_float(a) and (number := p.number(b)):
        return [p.sum((1 / number, a), (0.0, b))]
    return NotImplemented


@Div.grad
def _(g: Backward) -> Gradients:
    a, b = g.x
    da = g("Div", g.dy, b)
    return [g.sum_to(da, a), g("Neg", g.sum_to(g("Mul", da, g.y[0]), b))]


@Div.torch(fresh=True)
def _(write: Write, a: Expr, b: Expr) -> str:
    if a.floating:
        return f"{a} / {b}"
    return f'torch.div({a.tensor}, {b}, rounding_mode="trunc")'


def _quotient_of_sizes(a: int | SymbolicDim, b: int | SymbolicDim) -> Dim:
    """The quotient of sizes: of integers, rounded towards zero; of symbolic sizes, exact."""
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return dims.divide(a, b)


def truncated_quotient(a: Array, b: Array) -> Array:
    """The quotient of integers, rounded towards zero."""
    floor = a // b
    inexact = floor * b != a
    return floor + (inexact & ((a < 0) != (b < 0))).astype(a.dtype)


@op("Tensor[t:number, (...), d], Tensor[u:number, (...), d] -> Tensor[t, (...), d]", flops=1)
def Pow(x: Array, y: Array) -> Array:
    """`x` to the power of `y`, in the element type of `x`. ONNX `Pow`.

    %z = Pow(%x: Tensor[Float32, (2, 3), 1], 2.0)
    %z = Pow(%x: Tensor[Float32, (2, 3), 1], %y: Tensor[Int64, (3,), 1])
    """
    if x.dtype.kind in "iu" and y.dtype.kind in "iu":
        return _integer_power(x, y).astype(x.dtype)
    return np.power(wide(x), wide(y)).astype(x.dtype, copy=False)


@Pow.grad
def _(g: Backward) -> Gradients:
    x, y = g.x
    dx = g.sum_to(g("Mul", g.dy, _power_slope(g, x, y)), x) if g.wants(0) else None
    if not g.wants(1):
        return [dx, None]
    growth = g("Where", g("Equal", x, 0.0), 0.0, g("Mul", g.y[0], g("Log", x)))  # 0 to any power stays 0
    return [dx, g.sum_to(g("Mul", g.dy, growth), y)]


def _power_slope(g: Backward, x: Arg, y: Arg) -> str:
    if isinstance(y, Literal) and isinstance(y.value, (int, float)):
        power = float(y.value)
        return g("Mul", x, 2.0) if power == 2 else g("Mul", g("Pow", x, power - 1), power)
    exponent = y if g.dtype(y) is g.dtype(x) else g("Cast", y, to=g.dtype(x))
    return g("Mul", exponent, g("Pow", x, g("Sub", exponent, 1.0)))


@Pow.torch(fresh=True)
def _(write: Write, x: Expr, y: Expr) -> str:
    if not x.floating and not y.floating:
        if y.value is not None and min(y.ints("the exponent"), default=0) >= 0 and x.value is None:
            return f"torch.pow({x}, {y})"
        return f"{write.kernel('integer_power')}({x.tensor}, {y.tensor})"
    if x.floating and (y.value is not None or y.dtype is x.dtype or not y.floating):
        return f"torch.pow({x}, {y})"
    return f"torch.pow({x.tensor}.double(), {y}).to({write.dtype(x.dtype)})"


def _integer_power(x: Array, y: Array) -> Array:
    """A negative power is the reciprocal, rounded towards zero: zero for all bases but 1 and -1."""
    exponent = y.astype(np.uint64 if x.dtype.kind == "u" else np.int64)
    reciprocal = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (exponent % 2), 0))
    return np.where(y < 0, reciprocal, np.power(x, np.maximum(exponent, 0)))


@op("Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=1)
def Mod(a: Array, b: Array, *, fmod: bool = False) -> Array:
    """The remainder of `a` divided by `b`, with the sign of `b`, or with the sign of `a` if `fmod`. ONNX `Mod`.

    %c = Mod(%a: Tensor[Int64, (2, 3), 1], %b: Tensor[Int64, (2, 3), 1])
    %c = Mod[fmod = true](%a: Tensor[Float32, (2, 3), 1], 3.0)
    """
    return np.fmod(a, b) if fmod else np.remainder(a, b)


@Mod.grad
def _(g: Backward) -> Gradients:
    a, b = g.x
    quotient = g("Div", g("Sub", a, g.y[0]), b)  # the integer quotient
    return [g.sum_to(g.dy, a), g("Neg", g.sum_to(g("Mul", g.dy, quotient), b))]


@Mod.torch(fresh=True)
def _(write: Write, a: Expr, b: Expr, *, fmod: bool) -> str:
    return f"torch.{'fmod' if fmod else 'remainder'}({a.tensor}, {b})"


@op("*Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=lambda N, elements, **_: (N - 1) * elements)
def Min(*data: Array) -> Array:
    """The least of the operands; NaN where one of them is NaN. ONNX `Min`.

    %c = Min(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (3,), 1])
    """
    return reduce(np.minimum, data)


@Min.torch(fresh=True)
def _(write: Write, *data: Expr) -> str:
    return _chained("minimum", data)


@op("*Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=lambda N, elements, **_: (N - 1) * elements)
def Max(*data: Array) -> Array:
    """The greatest of the operands; NaN where one of them is NaN. ONNX `Max`.

    %c = Max(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (3,), 1])
    """
    return reduce(np.maximum, data)


@Min.grad
@Max.grad
def _(g: Backward) -> Gradients:
    """Operands that are equal to the result share its gradient."""
    taken = [g("Cast", g("Equal", x, g.y[0]), to=g.dtype(g.y[0])) for x in g.x]
    share = g("Div", g.dy, g("Sum", *taken)) if len(taken) > 1 else g.dy
    return [g.sum_to(g("Mul", share, mask), x) for mask, x in zip(taken, g.x, strict=True)]


@Max.torch(fresh=True)
def _(write: Write, *data: Expr) -> str:
    return _chained("maximum", data)


@op(
    "*Tensor[t:number, (...), d] -> Tensor[t, (...), d]",
    flops=lambda N, elements, **_: (N - 1) * elements,
    inplace={0: 0},
    leafwise=True,
    linear="jointly",
)
def Sum(*data: Array) -> Array:
    """The sum of the operands, left to right; of tuples, leaf by leaf. ONNX `Sum`.

    It accumulates in the memory of the first operand, where that is needed no more: so gradients are added up.

    %c = Sum(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
    %c = Sum(%a: Tuple[Tensor[Float32, (2, 3), 1], Float32[1]], %b: Tuple[Tensor[Float32, (2, 3), 1], Float32[1]])
    """
    return sum(data[1:], start=data[0])


@Sum.pieces
def _(p: Pieces, *data: Piece) -> Any:
    return [p.sum(*((1.0, x) for x in data))]


@Sum.grad
def _(g: Backward) -> Gradients:
    return [g.sum_to(g.dy, x) for x in g.x]


@Sum.torch(fresh=True)
def _(write: Write, *data: Expr) -> str:
    return " + ".join(map(str, data)) if len(data) > 1 else f"{data[0]}.clone()"  # pyright: ignore[reportGeneralTypeIssues]


@op("*Tensor[t:float, (...), d] -> Tensor[t, (...), d]", flops=lambda N, elements, **_: N * elements, linear="jointly")
def Mean(*data: Array) -> Array:
    """The mean of the operands. ONNX `Mean`.

    %c = Mean(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
    """
    total = sum(map(wide, data[1:]), start=wide(data[0]))
    return (total / len(data)).astype(data[0].dtype, copy=False)


@Mean.pieces
def _(p: Pieces, *data: Piece) -> Any:
    return [p.sum(*((1 / len(data), x) for x in data))]


@Mean.grad
def _(g: Backward) -> Gradients:
    share = g("Div", g.dy, float(len(g.x)))
    return [g.sum_to(share, x) for x in g.x]


@Mean.torch(fresh=True)
def _(write: Write, *data: Expr) -> str:
    total = " + ".join(x.wide for x in data)
    return write.narrowed(f"({total}) / {len(data)}", data[0].dtype)


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


@op("Tensor[t, (...), d], Tensor[t, (...), d] -> Tensor[Bool, (...), d]", flops=1, non_differentiable=BOOLEAN_RESULTS)
def Equal(a: Array, b: Array) -> Array:
    """Whether `a == b`. ONNX `Equal`.

    %c = Equal(%a: Tensor[Int64, (2, 3), 1], %b: Tensor[Int64, (2, 3), 1])
    """
    return a == b


Equal.torch("{a} == {b}", fresh=True)


@op(
    "Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[Bool, (...), d]",
    flops=1,
    non_differentiable=BOOLEAN_RESULTS,
)
def Less(a: Array, b: Array) -> Array:
    """Whether `a < b`. ONNX `Less`.

    %c = Less(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
    """
    return a < b


Less.torch("{a} < {b}", fresh=True)


@op(
    "Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[Bool, (...), d]",
    flops=1,
    non_differentiable=BOOLEAN_RESULTS,
)
def LessOrEqual(a: Array, b: Array) -> Array:
    """Whether `a <= b`. ONNX `LessOrEqual`.

    %c = LessOrEqual(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
    """
    return a <= b


LessOrEqual.torch("{a} <= {b}", fresh=True)


@op(
    "Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[Bool, (...), d]",
    flops=1,
    non_differentiable=BOOLEAN_RESULTS,
)
def Greater(a: Array, b: Array) -> Array:
    """Whether `a > b`. ONNX `Greater`.

    %c = Greater(%a: Tensor[Float32, (2, 3), 1], 0.0)
    """
    return a > b


Greater.torch("{a} > {b}", fresh=True)


@op(
    "Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[Bool, (...), d]",
    flops=1,
    non_differentiable=BOOLEAN_RESULTS,
)
def GreaterOrEqual(a: Array, b: Array) -> Array:
    """Whether `a >= b`. ONNX `GreaterOrEqual`.

    %c = GreaterOrEqual(%a: Tensor[Float32, (2, 3), 1], 0.0)
    """
    return a >= b


GreaterOrEqual.torch("{a} >= {b}", fresh=True)


@op(
    "Tensor[Bool, (...), d], Tensor[Bool, (...), d] -> Tensor[Bool, (...), d]",
    flops=1,
    non_differentiable=BOOLEAN_RESULTS,
)
def And(a: Array, b: Array) -> Array:
    """The logical conjunction of Booleans. ONNX `And`.

    %c = And(%a: Tensor[Bool, (2, 3), 1], %b: Tensor[Bool, (2, 3), 1])
    """
    return a & b


And.torch("{a} & {b}", fresh=True)


@op(
    "Tensor[Bool, (...), d], Tensor[Bool, (...), d] -> Tensor[Bool, (...), d]",
    flops=1,
    non_differentiable=BOOLEAN_RESULTS,
)
def Or(a: Array, b: Array) -> Array:
    """The logical disjunction of Booleans. ONNX `Or`.

    %c = Or(%a: Tensor[Bool, (2, 3), 1], %b: Tensor[Bool, (2, 3), 1])
    """
    return a | b


Or.torch("{a} | {b}", fresh=True)


@op("Tensor[Bool, s, d] -> Tensor[Bool, s, d]", flops=1, non_differentiable=BOOLEAN_RESULTS)
def Not(x: Array) -> Array:
    """The logical negation of Booleans. ONNX `Not`.

    %y = Not(%x: Tensor[Bool, (2, 3), 1])
    """
    return ~x


Not.torch("torch.logical_not({x})", fresh=True)


@op(
    "Tensor[Bool, (...), d], Tensor[t, (...), d], Tensor[t, (...), d] -> Tensor[t, (...), d]",
    flops=1,
    linear=("x", "y"),
    addends=("x", "y"),
)
def Where(condition: Array, x: Array, y: Array) -> Array:
    """`x` where the condition is true, else `y`. ONNX `Where`.

    %z = Where(%c: Tensor[Bool, (3, 3), 1], %x: Tensor[Float32, (2, 3, 3), 1], -inf)
    """
    return np.where(condition, x, y)


@Where.pieces
def _(p: Pieces, condition: Piece, x: Piece, y: Piece) -> Any:
    own = p.where_own(condition, x) if p.is_float(x) and p.number(y) == 0 else None
    return NotImplemented if own is None else [own]


@Where.grad
def _(g: Backward) -> Gradients:
    condition, x, y = g.x
    return [None, g.sum_to(g("Where", condition, g.dy, 0.0), x), g.sum_to(g("Where", condition, 0.0, g.dy), y)]


@Where.torch(fresh=True)
def _(write: Write, condition: Expr, x: Expr, y: Expr) -> str:
    numbers = x.value is not None and y.value is not None
    return f"torch.where({condition.tensor}, {x.tensor if numbers else x}, {y.tensor if numbers else y})"


@op(
    "Tensor[t:number, s, d], Optional[Tensor[t:number, (), d]], Optional[Tensor[t:number, (), d]] -> Tensor[t, s, d]",
    flops=2,
)
def Clip(input: Array, min: Array | None = None, max: Array | None = None) -> Array:
    """`input` clamped to the range from `min` to `max`; `max` where `min` is greater. ONNX `Clip`.

    %y = Clip(%x: Tensor[Float32, (2, 3), 1], 0.0, 6.0)
    """
    raised = input if min is None else np.maximum(input, min)
    return raised if max is None else np.minimum(raised, max)


@Clip.grad
def _(g: Backward) -> Gradients:
    """The gradient of a clipped element goes to the bound."""
    x, least, most = g.x
    raised = x if least is None else g("Max", x, least)
    free = [g("GreaterOrEqual", x, least)] if least is not None else []
    free += [g("LessOrEqual", raised, most)] if most is not None else []
    inside = free[0] if len(free) == 1 else g("And", *free) if free else None
    dx = g.dy if inside is None else g("Where", inside, g.dy, 0.0)
    dleast = dmost = None
    if g.wants(1):
        low = g("Less", x, least)
        taken = low if most is None else g("And", low, g("LessOrEqual", least, most))
        dleast = g.sum_to(g("Where", taken, g.dy, 0.0), g.x[1])
    if g.wants(2):
        dmost = g.sum_to(g("Where", g("Greater", raised, most), g.dy, 0.0), g.x[2])
    return [dx, dleast, dmost]


@Clip.torch(fresh=True)
def _(write: Write, input: Expr, min: Expr | None = None, max: Expr | None = None) -> str:
    given = {name: bound for name, bound in (("min", min), ("max", max)) if bound is not None}
    if not given:
        return f"{input}.clone()"
    numbers = all(bound.value is not None for bound in given.values())
    bounds = ", ".join(f"{name}={bound if numbers else bound.tensor}" for name, bound in given.items())
    return f"torch.clamp({input}, {bounds})"


@op("Tensor[t, s, d] -> Tensor[to, s, d]", flops=0)
def Cast(input: Array, *, to: DType, saturate: bool = True) -> Array:
    """The elements in another element type. ONNX `Cast`.

    From floating point to integers, the fraction is dropped. Numbers that are too large for an 8-bit float become its
    largest number if `saturate`, else infinity if the type has it, else NaN.

    %y = Cast[to = Float16](%x: Tensor[Float32, (2, 3), 1])
    """
    if saturate and to.kind == "float" and to.bytes == 1:
        return _saturated(input, to).astype(numpy_dtype(to))
    return input.astype(numpy_dtype(to))


@Cast.pieces
def _(p: Pieces, input: Piece, *, to: DType, **_: Any) -> Any:
    return [input] if p.dtype(input) == to else NotImplemented


@Cast.grad
def _(g: Backward) -> Gradients:
    return [g("Cast", g.dy, to=g.dtype(g.x[0]))] if g.dtype(g.y[0]).kind == "float" else [None]


@Cast.torch
def _(write: Write, input: Expr, *, to: DType, saturate: bool) -> str:
    if saturate and to.kind == "float" and to.bytes == 1:
        return f"{write.kernel('saturated')}({input}, {write.dtype(to)})"
    return f"{input.tensor}.to({write.dtype(to)})"


def _saturated(x: Array, dtype: DType) -> Array:
    """The elements clamped to the range of an 8-bit float type."""
    import ml_dtypes

    largest = float(cast(Any, ml_dtypes).finfo(numpy_dtype(dtype)).max)
    return np.clip(wide(x) if narrow(x) else x.astype(np.float64), -largest, largest)


@op("Tensor[t, s, d] -> Tensor[t, s, d]", view=True, leafwise=True, linear="jointly")
def Identity(input: Array) -> Array:
    """The operand itself. ONNX `Identity`.

    %y = Identity(%x: Tensor[Float32, (2, 3), 1])
    """
    return input


@Identity.pieces
def _(p: Pieces, input: Piece) -> Any:
    return [input]


@Identity.grad
def _(g: Backward) -> Gradients:
    return [g.dy]


Identity.torch("{input.tensor}")


def _chained(function: str, data: tuple[Expr, ...]) -> str:
    if len(data) == 1:
        return f"{data[0]}.clone()"
    return reduce(lambda text, x: f"torch.{function}({text}, {x})", [x.tensor for x in data])
