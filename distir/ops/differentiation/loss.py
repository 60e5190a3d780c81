"""Gradients of losses, by the ops that are made for them."""

from __future__ import annotations

from distir.ops import loss as ops
from distir.ops.differentiation.backward import Backward, Gradients


@ops.SoftmaxCrossEntropyLoss.grad
def _(g: Backward) -> Gradients:
    _no_gradient_of_weights(g)
    parts: list[str] = []
    if g.dys[0] is not None:
        parts.append(g("SoftmaxCrossEntropyLossGrad", g.dy, *g.x, **g.statement.attrs))
    if len(g.dys) > 1 and g.dys[1] is not None:
        parts.append(g("LogSoftmaxGrad", g.dys[1], g.y[1], axis=1))
    return [g.total(parts), None, None]


@ops.NegativeLogLikelihoodLoss.grad
def _(g: Backward) -> Gradients:
    _no_gradient_of_weights(g)
    return [g("NegativeLogLikelihoodLossGrad", g.dy, *g.x, **g.statement.attrs), None, None]


@ops.MSELoss.grad
def _(g: Backward) -> Gradients:
    dprediction = g("MSELossGrad", g.dy, *g.x, **g.statement.attrs)
    return [dprediction, g("Neg", dprediction)]


def _no_gradient_of_weights(g: Backward) -> None:
    if g.wants(2):
        raise g.refuse(f"`{g.op.name}` has no gradient for the weights of its classes")
