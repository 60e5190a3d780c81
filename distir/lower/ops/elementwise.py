"""Arithmetic, comparison and logic in torch."""

from __future__ import annotations

from functools import reduce

from distir.ir import DType
from distir.lower.forms import Operand, Write, dtype_name, narrowed, torch_form


def _binary(name: str, operator: str) -> None:
    @torch_form(name, fresh=True)
    def _(write: Write, a: Operand, b: Operand) -> str:
        return f"{a} {operator} {b}"


for _name, _operator in {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Equal": "==",
    "Less": "<",
    "LessOrEqual": "<=",
    "Greater": ">",
    "GreaterOrEqual": ">=",
    "And": "&",
    "Or": "|",
}.items():
    _binary(_name, _operator)


def _unary(name: str, function: str) -> None:
    @torch_form(name, fresh=True)
    def _(write: Write, x: Operand) -> str:
        return f"torch.{function}({x})"


for _name in ("Neg", "Abs", "Sign", "Exp", "Log", "Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Erf", "Sin", "Cos"):
    _unary(_name, _name.lower())
_unary("Not", "logical_not")


@torch_form("Div", fresh=True)
def _(write: Write, a: Operand, b: Operand) -> str:
    if a.floating:
        return f"{a} / {b}"
    return f'torch.div({a.tensor}, {b}, rounding_mode="trunc")'


@torch_form("Pow", fresh=True)
def _(write: Write, x: Operand, y: Operand) -> str:
    if not x.floating and not y.floating:
        if y.value is not None and min(y.ints("the exponent"), default=0) >= 0 and x.value is None:
            return f"torch.pow({x}, {y})"
        return f"{write.kernel('integer_power')}({x.tensor}, {y.tensor})"
    if x.floating and (y.value is not None or y.dtype is x.dtype or not y.floating):
        return f"torch.pow({x}, {y})"
    return f"torch.pow({x.tensor}.double(), {y}).to({dtype_name(x.dtype)})"


@torch_form("Mod", fresh=True)
def _(write: Write, a: Operand, b: Operand, *, fmod: bool) -> str:
    return f"torch.{'fmod' if fmod else 'remainder'}({a.tensor}, {b})"


@torch_form("Min", fresh=True)
def _(write: Write, *data: Operand) -> str:
    return _folded("minimum", data)


@torch_form("Max", fresh=True)
def _(write: Write, *data: Operand) -> str:
    return _folded("maximum", data)


def _folded(function: str, data: tuple[Operand, ...]) -> str:
    if len(data) == 1:
        return f"{data[0]}.clone()"
    return reduce(lambda text, x: f"torch.{function}({text}, {x})", [x.tensor for x in data])


@torch_form("Sum", fresh=True)
def _(write: Write, *data: Operand) -> str:
    return " + ".join(map(str, data)) if len(data) > 1 else f"{data[0]}.clone()"  # pyright: ignore[reportGeneralTypeIssues]


@torch_form("Mean", fresh=True)
def _(write: Write, *data: Operand) -> str:
    total = " + ".join(x.wide for x in data)
    return narrowed(f"({total}) / {len(data)}", data[0].dtype)


@torch_form("Where", fresh=True)
def _(write: Write, condition: Operand, x: Operand, y: Operand) -> str:
    numbers = x.value is not None and y.value is not None
    return f"torch.where({condition.tensor}, {x.tensor if numbers else x}, {y.tensor if numbers else y})"


@torch_form("Clip", fresh=True)
def _(write: Write, input: Operand, min: Operand | None = None, max: Operand | None = None) -> str:
    given = {name: bound for name, bound in (("min", min), ("max", max)) if bound is not None}
    if not given:
        return f"{input}.clone()"
    numbers = all(bound.value is not None for bound in given.values())
    bounds = ", ".join(f"{name}={bound if numbers else bound.tensor}" for name, bound in given.items())
    return f"torch.clamp({input}, {bounds})"


@torch_form("Cast")
def _(write: Write, input: Operand, *, to: DType, saturate: bool) -> str:
    if saturate and to.kind == "float" and to.bytes == 1:
        return f"{write.kernel('saturated')}({input}, {dtype_name(to)})"
    return f"{input.tensor}.to({dtype_name(to)})"


@torch_form("Identity")
def _(write: Write, input: Operand) -> str:
    return input.tensor
