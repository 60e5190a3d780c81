"""Gradient rules, in files by family like the ops they belong to. Loaded only where something is differentiated.

Each rule hangs on its op (`@Relu.grad`) and writes ops. Ops on which no rule hangs are refused on the way from a
parameter to the loss; ops that are constant wherever they are differentiable say so with a rule that gives nothing.
"""

from distir.ops.differentiation import (
    activation,
    attention,
    communication,
    elementwise,
    experts,
    linalg,
    loss,
    reduce,
    select,
    shape,
)
from distir.ops.differentiation.backward import Backward, Gradients, NotDifferentiable, Tape, operand_gradients

RULES = (activation, attention, communication, elementwise, experts, linalg, loss, reduce, select, shape)
"""The modules whose import hangs the rules on our ops."""

__all__ = ["RULES", "Backward", "Gradients", "NotDifferentiable", "Tape", "operand_gradients"]
