"""Gradients of activation functions and normalisations, mostly by the ops that are made for them."""

from __future__ import annotations

from collections.abc import Callable

from distir.ops import activation as ops
from distir.ops import norm
from distir.ops.core import Op
from distir.ops.differentiation.backward import Backward, Gradients


def _by_result(op: Op) -> None:
    """`XGrad(dy, y)`, with the attributes of `X`."""

    def rule(g: Backward) -> Gradients:
        return [g(f"{op.name}Grad", g.dy, g.y[0], **g.statement.attrs)]

    op.grad(rule)


def _by_operand(op: Op) -> None:
    """`XGrad(dy, x)`, with the attributes of `X`."""

    def rule(g: Backward) -> Gradients:
        return [g(f"{op.name}Grad", g.dy, g.x[0], **g.statement.attrs)]

    op.grad(rule)


def _each(hang: Callable[[Op], None], *ops: Op) -> None:
    for op in ops:
        hang(op)


_each(_by_result, ops.Relu, ops.Sigmoid, ops.Tanh, ops.Softmax, ops.LogSoftmax)
_each(_by_operand, ops.LeakyRelu, ops.Elu, ops.Gelu, ops.Swish)


@ops.HardSigmoid.grad
def _(g: Backward) -> Gradients:
    rising = g("And", g("Greater", g.y[0], 0.0), g("Less", g.y[0], 1.0))
    return [g("Where", rising, g("Mul", g.dy, g.attrs["alpha"]), 0.0)]


@ops.HardSwish.grad
def _(g: Backward) -> Gradients:
    gate = g("HardSigmoid", g.x[0], alpha=1 / 6, beta=0.5)
    return g.through(g("Mul", g.x[0], gate), g.dy, g.x)


@ops.Softplus.grad
def _(g: Backward) -> Gradients:
    return [g("Mul", g.dy, g("Sigmoid", g.x[0]))]


@norm.LayerNormalization.grad
def _(g: Backward) -> Gradients:
    if any(dy is not None for dy in g.dys[1:]):
        raise g.refuse("`LayerNormalization` has a gradient for its first result alone", "compute the mean by itself")
    attrs = {name: value for name, value in g.statement.attrs.items() if name != "stash_type"}
    return g.several("LayerNormalizationGrad", 3, g.dy, *g.x[:2], **attrs)[: len(g.x)]


@norm.RMSNormalization.grad
def _(g: Backward) -> Gradients:
    attrs = {name: value for name, value in g.statement.attrs.items() if name != "stash_type"}
    return g.several("RMSNormalizationGrad", 2, g.dy, *g.x[:2], **attrs)
