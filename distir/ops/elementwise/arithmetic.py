"""Arithmetic of several operands, which broadcast as in NumPy. Integers wrap around."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from distir.ir import Arg, Dim, Literal, SymbolicDim, dims
from distir.ops.core import op
from distir.ops.numeric import Array, np
from distir.ops.precision import wide

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


@Max.pieces
def _(p: Pieces, *data: Piece) -> Any:
    """Of maxima over parts: the maximum over all of them."""
    found = p.greatest_of(data) if len(data) > 1 else None
    return NotImplemented if found is None else [found]


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


def _chained(function: str, data: tuple[Expr, ...]) -> str:
    if len(data) == 1:
        return f"{data[0]}.clone()"
    return reduce(lambda text, x: f"torch.{function}({text}, {x})", [x.tensor for x in data])
