"""Gradients of arithmetic and logic, element by element. Where operands broadcast, gradients are summed back."""

from __future__ import annotations

import math

from distir.ir import Arg, Literal
from distir.ops import elementwise as ops
from distir.ops.differentiation.backward import Backward, Gradients

SMALL_STEPS = (ops.Sign, ops.Floor, ops.Ceil, ops.Round)
"""Constant wherever they are differentiable."""


def _constant(g: Backward) -> Gradients:
    return [None] * len(g.x)


for _op in SMALL_STEPS:
    _op.grad(_constant)


@ops.Add.grad
def _(g: Backward) -> Gradients:
    return [g.sum_to(g.dy, x) for x in g.x]


@ops.Sub.grad
def _(g: Backward) -> Gradients:
    a, b = g.x
    return [g.sum_to(g.dy, a), g("Neg", g.sum_to(g.dy, b))]


@ops.Mul.grad
def _(g: Backward) -> Gradients:
    a, b = g.x
    return [g.sum_to(g("Mul", g.dy, b), a), g.sum_to(g("Mul", g.dy, a), b)]


@ops.Div.grad
def _(g: Backward) -> Gradients:
    a, b = g.x
    da = g("Div", g.dy, b)
    return [g.sum_to(da, a), g("Neg", g.sum_to(g("Mul", da, g.y[0]), b))]


@ops.Pow.grad
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


@ops.Mod.grad
def _(g: Backward) -> Gradients:
    a, b = g.x
    quotient = g("Div", g("Sub", a, g.y[0]), b)  # the whole number of times that `b` was taken away
    return [g.sum_to(g.dy, a), g("Neg", g.sum_to(g("Mul", g.dy, quotient), b))]


@ops.Min.grad
@ops.Max.grad
def _(g: Backward) -> Gradients:
    """Operands that are equally extreme share the gradient."""
    taken = [g("Cast", g("Equal", x, g.y[0]), to=g.dtype(g.y[0])) for x in g.x]
    share = g("Div", g.dy, g("Sum", *taken)) if len(taken) > 1 else g.dy
    return [g.sum_to(g("Mul", share, mask), x) for mask, x in zip(taken, g.x, strict=True)]


@ops.Sum.grad
def _(g: Backward) -> Gradients:
    return [g.sum_to(g.dy, x) for x in g.x]


@ops.Mean.grad
def _(g: Backward) -> Gradients:
    share = g("Div", g.dy, float(len(g.x)))
    return [g.sum_to(share, x) for x in g.x]


@ops.Neg.grad
def _(g: Backward) -> Gradients:
    return [g("Neg", g.dy)]


@ops.Abs.grad
def _(g: Backward) -> Gradients:
    return [g("Mul", g.dy, g("Sign", g.x[0]))]


@ops.Exp.grad
def _(g: Backward) -> Gradients:
    return [g("Mul", g.dy, g.y[0])]


@ops.Log.grad
def _(g: Backward) -> Gradients:
    return [g("Div", g.dy, g.x[0])]


@ops.Sqrt.grad
def _(g: Backward) -> Gradients:
    return [g("Div", g("Mul", g.dy, 0.5), g.y[0])]


@ops.Reciprocal.grad
def _(g: Backward) -> Gradients:
    return [g("Neg", g("Mul", g.dy, g("Mul", g.y[0], g.y[0])))]


@ops.Erf.grad
def _(g: Backward) -> Gradients:
    bell = g("Exp", g("Neg", g("Mul", g.x[0], g.x[0])))
    return [g("Mul", g.dy, g("Mul", bell, 2 / math.sqrt(math.pi)))]


@ops.Sin.grad
def _(g: Backward) -> Gradients:
    return [g("Mul", g.dy, g("Cos", g.x[0]))]


@ops.Cos.grad
def _(g: Backward) -> Gradients:
    return [g("Neg", g("Mul", g.dy, g("Sin", g.x[0])))]


@ops.Where.grad
def _(g: Backward) -> Gradients:
    condition, x, y = g.x
    return [None, g.sum_to(g("Where", condition, g.dy, 0.0), x), g.sum_to(g("Where", condition, 0.0, g.dy), y)]


@ops.Clip.grad
def _(g: Backward) -> Gradients:
    """What was cut off belongs to the bound."""
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


@ops.Cast.grad
def _(g: Backward) -> Gradients:
    return [g("Cast", g.dy, to=g.dtype(g.x[0]))] if g.dtype(g.y[0]).kind == "float" else [None]


@ops.Identity.grad
def _(g: Backward) -> Gradients:
    return [g.dy]
