"""Arithmetic, comparison and logic, element by element.

Operands broadcast as in NumPy where there are several. Integers wrap around. An elementary function (a power, a sine)
counts as one operation per element.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any, cast

from distir.ir import Dim, DType, SymbolicDim, dims
from distir.ops.core import op
from distir.ops.numeric import Array, np, numpy_dtype
from distir.ops.precision import narrow, wide


@op("Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=1, linear="jointly")
def Add(a: Array, b: Array) -> Array:
    """`a + b`. ONNX `Add`.

    %c = Add(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (3,), 1])
    """
    return a + b


@op("Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=1, linear="jointly")
def Sub(a: Array, b: Array) -> Array:
    """`a - b`. ONNX `Sub`.

    %c = Sub(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
    """
    return a - b


@op("Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=1, linear=("a", "b"))
def Mul(a: Array, b: Array) -> Array:
    """`a * b`. ONNX `Mul`.

    %c = Mul(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 1), 1])
    %c = Mul(%a: Tensor[Float32, (2, 3), 1], 2.0)
    """
    return a * b


@op("Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=1, linear=("a",))
def Div(a: Array, b: Array) -> Array:
    """`a / b`; the quotient of integers is rounded towards zero. ONNX `Div`.

    %c = Div(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
    %c = Div(%a: Tensor[Int64, (2, 3), 1], 2)
    """
    if "O" in (a.dtype.kind, b.dtype.kind):  # sizes, of which some are symbolic
        return np.asarray(np.frompyfunc(_quotient_of_sizes, 2, 1)(a, b))
    return truncated_quotient(a, b) if a.dtype.kind in "iu" else a / b


def _quotient_of_sizes(a: int | SymbolicDim, b: int | SymbolicDim) -> Dim:
    """That of integers, rounded towards zero, or the exact one of symbolic sizes, as in all types."""
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


def _integer_power(x: Array, y: Array) -> Array:
    """A negative power is the reciprocal rounded towards zero: of 1 and -1 alone it is not zero."""
    exponent = y.astype(np.uint64 if x.dtype.kind == "u" else np.int64)
    reciprocal = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (exponent % 2), 0))
    return np.where(y < 0, reciprocal, np.power(x, np.maximum(exponent, 0)))


@op("Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=1)
def Mod(a: Array, b: Array, *, fmod: bool = False) -> Array:
    """What is left of `a` divided by `b`, with the sign of `b`, or with that of `a` if `fmod`. ONNX `Mod`.

    %c = Mod(%a: Tensor[Int64, (2, 3), 1], %b: Tensor[Int64, (2, 3), 1])
    %c = Mod[fmod = true](%a: Tensor[Float32, (2, 3), 1], 3.0)
    """
    return np.fmod(a, b) if fmod else np.remainder(a, b)


@op("*Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=lambda N, elements, **_: (N - 1) * elements)
def Min(*data: Array) -> Array:
    """The least of the operands; not a number where one of them is not. ONNX `Min`.

    %c = Min(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (3,), 1])
    """
    return reduce(np.minimum, data)


@op("*Tensor[t:number, (...), d] -> Tensor[t, (...), d]", flops=lambda N, elements, **_: (N - 1) * elements)
def Max(*data: Array) -> Array:
    """The greatest of the operands; not a number where one of them is not. ONNX `Max`.

    %c = Max(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (3,), 1])
    """
    return reduce(np.maximum, data)


@op(
    "*Tensor[t:number, (...), d] -> Tensor[t, (...), d]",
    flops=lambda N, elements, **_: (N - 1) * elements,
    leafwise=True,
    linear="jointly",
)
def Sum(*data: Array) -> Array:
    """The sum of the operands, left to right; of tuples, leaf by leaf. ONNX `Sum`.

    %c = Sum(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
    %c = Sum(%a: Tuple[Tensor[Float32, (2, 3), 1], Float32[1]], %b: Tuple[Tensor[Float32, (2, 3), 1], Float32[1]])
    """
    return sum(data[1:], start=data[0])


@op("*Tensor[t:float, (...), d] -> Tensor[t, (...), d]", flops=lambda N, elements, **_: N * elements, linear="jointly")
def Mean(*data: Array) -> Array:
    """The mean of the operands. ONNX `Mean`.

    %c = Mean(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
    """
    total = sum(map(wide, data[1:]), start=wide(data[0]))
    return (total / len(data)).astype(data[0].dtype, copy=False)


@op("Tensor[t:number, s, d] -> Tensor[t, s, d]", flops=1, linear="jointly")
def Neg(x: Array) -> Array:
    """`-x`. ONNX `Neg`.

    %y = Neg(%x: Tensor[Float32, (2, 3), 1])
    """
    return -x


@op("Tensor[t:number, s, d] -> Tensor[t, s, d]", flops=1)
def Abs(x: Array) -> Array:
    """The absolute value. ONNX `Abs`.

    %y = Abs(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.abs(x)


@op("Tensor[t:number, s, d] -> Tensor[t, s, d]", flops=1)
def Sign(input: Array) -> Array:
    """-1, 0 or 1 as the element is below, at or above zero. ONNX `Sign`.

    %y = Sign(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.sign(input)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Exp(input: Array) -> Array:
    """The exponential function. ONNX `Exp`.

    %y = Exp(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.exp(input)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Log(input: Array) -> Array:
    """The natural logarithm; not a number below zero. ONNX `Log`.

    %y = Log(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.log(input)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Sqrt(x: Array) -> Array:
    """The square root; not a number below zero. ONNX `Sqrt`.

    %y = Sqrt(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.sqrt(x)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Reciprocal(x: Array) -> Array:
    """`1 / x`. ONNX `Reciprocal`.

    %y = Reciprocal(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.reciprocal(x)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Floor(x: Array) -> Array:
    """The greatest integer that is not above `x`. ONNX `Floor`.

    %y = Floor(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.floor(x)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Ceil(x: Array) -> Array:
    """The least integer that is not below `x`. ONNX `Ceil`.

    %y = Ceil(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.ceil(x)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Round(x: Array) -> Array:
    """The nearest integer, the even one of two. ONNX `Round`.

    %y = Round(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.rint(x)


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Erf(input: Array) -> Array:
    """The error function, `2 / sqrt(pi)` times the integral of `exp(-t * t)` from 0 to the element. ONNX `Erf`.

    %y = Erf(%x: Tensor[Float32, (2, 3), 1])
    """
    return error_function(input)


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


@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=1)
def Cos(input: Array) -> Array:
    """The cosine. ONNX `Cos`.

    %y = Cos(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.cos(input)


@op("Tensor[t, (...), d], Tensor[t, (...), d] -> Tensor[Bool, (...), d]", flops=1)
def Equal(a: Array, b: Array) -> Array:
    """Whether `a == b`. ONNX `Equal`.

    %c = Equal(%a: Tensor[Int64, (2, 3), 1], %b: Tensor[Int64, (2, 3), 1])
    """
    return a == b


@op("Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[Bool, (...), d]", flops=1)
def Less(a: Array, b: Array) -> Array:
    """Whether `a < b`. ONNX `Less`.

    %c = Less(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
    """
    return a < b


@op("Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[Bool, (...), d]", flops=1)
def LessOrEqual(a: Array, b: Array) -> Array:
    """Whether `a <= b`. ONNX `LessOrEqual`.

    %c = LessOrEqual(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
    """
    return a <= b


@op("Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[Bool, (...), d]", flops=1)
def Greater(a: Array, b: Array) -> Array:
    """Whether `a > b`. ONNX `Greater`.

    %c = Greater(%a: Tensor[Float32, (2, 3), 1], 0.0)
    """
    return a > b


@op("Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[Bool, (...), d]", flops=1)
def GreaterOrEqual(a: Array, b: Array) -> Array:
    """Whether `a >= b`. ONNX `GreaterOrEqual`.

    %c = GreaterOrEqual(%a: Tensor[Float32, (2, 3), 1], 0.0)
    """
    return a >= b


@op("Tensor[Bool, (...), d], Tensor[Bool, (...), d] -> Tensor[Bool, (...), d]", flops=1)
def And(a: Array, b: Array) -> Array:
    """Whether `a` and `b` hold. ONNX `And`.

    %c = And(%a: Tensor[Bool, (2, 3), 1], %b: Tensor[Bool, (2, 3), 1])
    """
    return a & b


@op("Tensor[Bool, (...), d], Tensor[Bool, (...), d] -> Tensor[Bool, (...), d]", flops=1)
def Or(a: Array, b: Array) -> Array:
    """Whether `a` or `b` or both hold. ONNX `Or`.

    %c = Or(%a: Tensor[Bool, (2, 3), 1], %b: Tensor[Bool, (2, 3), 1])
    """
    return a | b


@op("Tensor[Bool, s, d] -> Tensor[Bool, s, d]", flops=1)
def Not(x: Array) -> Array:
    """Whether `x` does not hold. ONNX `Not`.

    %y = Not(%x: Tensor[Bool, (2, 3), 1])
    """
    return ~x


@op("Tensor[Bool, (...), d], Tensor[t, (...), d], Tensor[t, (...), d] -> Tensor[t, (...), d]", flops=1)
def Where(condition: Array, x: Array, y: Array) -> Array:
    """`x` where the condition holds, else `y`. ONNX `Where`.

    %z = Where(%c: Tensor[Bool, (3, 3), 1], %x: Tensor[Float32, (2, 3, 3), 1], -inf)
    """
    return np.where(condition, x, y)


@op(
    "Tensor[t:number, s, d], Optional[Tensor[t:number, (), d]], Optional[Tensor[t:number, (), d]] -> Tensor[t, s, d]",
    flops=2,
)
def Clip(input: Array, min: Array | None = None, max: Array | None = None) -> Array:
    """The nearest number that is not below `min` and not above `max`; `max` where they cross. ONNX `Clip`.

    %y = Clip(%x: Tensor[Float32, (2, 3), 1], 0.0, 6.0)
    """
    raised = input if min is None else np.maximum(input, min)
    return raised if max is None else np.minimum(raised, max)


@op("Tensor[t, s, d] -> Tensor[to, s, d]", flops=0)
def Cast(input: Array, *, to: DType, saturate: bool = True) -> Array:
    """The elements in another element type. ONNX `Cast`.

    From floating point to integers, the fraction is dropped. What is too large for an 8-bit float becomes its largest
    number if `saturate`, else infinity where the type has one, else not a number.

    %y = Cast[to = Float16](%x: Tensor[Float32, (2, 3), 1])
    """
    if saturate and to.kind == "float" and to.bytes == 1:
        return _saturated(input, to).astype(numpy_dtype(to))
    return input.astype(numpy_dtype(to))


def _saturated(x: Array, dtype: DType) -> Array:
    """What lies beyond the largest number of an 8-bit float type, pulled back to it."""
    import ml_dtypes

    largest = float(cast(Any, ml_dtypes).finfo(numpy_dtype(dtype)).max)
    return np.clip(wide(x) if narrow(x) else x.astype(np.float64), -largest, largest)


@op("Tensor[t, s, d] -> Tensor[t, s, d]", view=True, leafwise=True, linear="jointly")
def Identity(input: Array) -> Array:
    """The operand itself. ONNX `Identity`.

    %y = Identity(%x: Tensor[Float32, (2, 3), 1])
    """
    return input
