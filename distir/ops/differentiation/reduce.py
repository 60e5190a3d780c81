"""Gradients of reductions and of what goes along one axis: what was summed is spread out again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distir.ir import Arg, Literal, TensorType, dims
from distir.ops import reduce as ops
from distir.ops.differentiation.backward import Backward, Gradients


def _everything(g: Backward) -> bool | None:
    """Whether all axes are meant, or none (then None)."""
    axes = None if g.x[1] is None else g.ints(g.x[1])
    if g.x[1] is not None and axes != ():
        return False
    return None if g.attrs["noop_with_empty_axes"] else True


def _kept(g: Backward, value: Arg) -> Arg:
    """A result, or its gradient, with the reduced dimensions as ones, so that it broadcasts to the operand."""
    everything = _everything(g)
    if g.attrs["keepdims"] or everything is None:
        return value
    if everything:
        return value if g.shape(value) == () else g("Reshape", value, Literal(()))
    return g("Unsqueeze", value, g.x[1])


def _again(g: Backward, op: str, data: Arg) -> Arg:
    """Another reduction along the same axes, with the reduced dimensions as ones."""
    attrs = {**g.statement.attrs, "keepdims": True}
    return g(op, data, g.x[1], **attrs)


@ops.ReduceSum.grad
def _(g: Backward) -> Gradients:
    return [_spread(g, _kept(g, g.dy)), None]


def _spread(g: Backward, dy: Arg) -> Arg:
    return dy if _everything(g) is None else g("Expand", dy, g.shape_of(g.x[0]))


@ops.ReduceMean.grad
def _(g: Backward) -> Gradients:
    count = _reduced(g)
    if isinstance(count, int):
        share: Any = 1 / count if count else 0.0
        return [_spread(g, _kept(g, g("Mul", g.dy, share))), None]
    count = g("Cast", g("Div", g("Size", g.x[0]), g("Size", g.y[0])), to=g.dtype(g.x[0]))
    return [_spread(g, _kept(g, g("Div", g.dy, count))), None]


def _reduced(g: Backward) -> object:
    """How many elements become one, where that is known: sizes of the axes that stay need not be."""
    everything = _everything(g)
    described = g.type(g.x[0])
    shape = described.shape if isinstance(described, TensorType) else None
    axes: Sequence[int] | None = () if everything is None else range(len(shape or ()))
    if everything is False:
        axes = g.ints(g.x[1])
    return None if shape is None or axes is None else dims.product(tuple(shape[axis] for axis in axes))


@ops.ReduceMax.grad
@ops.ReduceMin.grad
def _(g: Backward) -> Gradients:
    """Elements that are equally extreme share the gradient."""
    mask = g("Cast", g("Equal", g.x[0], _kept(g, g.y[0])), to=g.dtype(g.x[0]))
    share = g("Div", _kept(g, g.dy), _again(g, "ReduceSum", mask))
    return [g("Mul", share, mask), None]


@ops.ReduceProd.grad
def _(g: Backward) -> Gradients:
    """The product of the other elements: without division by zero where one element, and only one, is zero."""
    x = g.x[0]
    is_zero = g("Equal", x, 0.0)
    others = g("Where", is_zero, 1.0, x)
    product = _again(g, "ReduceProd", others)
    zeros = _again(g, "ReduceSum", g("Cast", is_zero, to=g.dtype(x)))
    at_zero = g("Where", g("Equal", zeros, 1.0), product, 0.0)
    elsewhere = g("Where", g("Equal", zeros, 0.0), g("Div", product, others), 0.0)
    return [g("Mul", _kept(g, g.dy), g("Where", is_zero, at_zero, elsewhere)), None]


@ops.ReduceSumSquare.grad
def _(g: Backward) -> Gradients:
    return [g("Mul", g("Mul", _kept(g, g.dy), 2.0), g.x[0]), None]


@ops.ReduceL2.grad
def _(g: Backward) -> Gradients:
    """At the origin, where there is none, the gradient is taken to be 0."""
    length = _kept(g, g.y[0])
    share = g("Where", g("Equal", length, 0.0), 0.0, g("Div", _kept(g, g.dy), length))
    return [g("Mul", share, g.x[0]), None]


@ops.ReduceLogSumExp.grad
def _(g: Backward) -> Gradients:
    return [g("Mul", _kept(g, g.dy), g("Exp", g("Sub", g.x[0], _kept(g, g.y[0])))), None]


@ops.ArgMax.grad
@ops.ArgMin.grad
def _(g: Backward) -> Gradients:
    return [None]


@ops.CumSum.grad
def _(g: Backward) -> Gradients:
    return [g.same(g.dy, g.x[1], reverse=not g.attrs["reverse"]), None]


@ops.TopK.grad
def _(g: Backward) -> Gradients:
    if g.dys[0] is None:
        return [None, None]
    return [g("ScatterElements", g.zeros(g.x[0]), g.y[1], g.dy, axis=g.attrs["axis"]), None]
