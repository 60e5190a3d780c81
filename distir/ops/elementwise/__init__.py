"""Arithmetic, comparison and logic, element by element.

Operands broadcast as in NumPy where there are several. Integers wrap around. An elementary function (a power, a sine)
counts as one operation per element.
"""

from distir.ops.elementwise.arithmetic import (
    Add,
    Clip,
    Div,
    Max,
    Mean,
    Min,
    Mod,
    Mul,
    Pow,
    Sub,
    Sum,
    truncated_quotient,
)
from distir.ops.elementwise.casting import Cast, Identity
from distir.ops.elementwise.functions import (
    Abs,
    Ceil,
    Cos,
    Erf,
    Exp,
    Floor,
    Log,
    Neg,
    Reciprocal,
    Round,
    Sign,
    Sin,
    Sqrt,
    error_function,
)
from distir.ops.elementwise.logic import And, Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Not, Or, Where

__all__ = [
    "Abs",
    "Add",
    "And",
    "Cast",
    "Ceil",
    "Clip",
    "Cos",
    "Div",
    "Equal",
    "Erf",
    "Exp",
    "Floor",
    "Greater",
    "GreaterOrEqual",
    "Identity",
    "Less",
    "LessOrEqual",
    "Log",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "Pow",
    "Reciprocal",
    "Round",
    "Sign",
    "Sin",
    "Sqrt",
    "Sub",
    "Sum",
    "Where",
    "error_function",
    "truncated_quotient",
]
