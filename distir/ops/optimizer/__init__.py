"""Optimizer steps, which update weights and state in place, and moving averages. Not in ONNX.

Tuples are updated leaf by leaf. The weights may be narrower than the state (mixed precision): a step is computed in the
widest of the operands' element types, at least Float32, and rounded once.

Each step takes two optional scalars. `rate` replaces the attribute `lr`, for a learning rate that changes from step to
step. `factor` multiplies the gradient first, as clipping and loss scaling want it; with a factor of 0 the step is left
out, and weights and state stay as they are.

An op becomes an optimizer of `grad` by `optimizer("name", Op)`, below it.
"""

# isort: off
# `distir transform --list` shows optimizers in this order.
from distir.ops.optimizer.rules import OPTIMIZERS, UPDATE, OptimizerRule, is_optimizer, optimizer, unless_skipped
from distir.ops.optimizer.descent import SGD, Lion, Momentum, Optimizer
from distir.ops.optimizer.adam import Adam
from distir.ops.optimizer.adafactor import Adafactor
from distir.ops.optimizer.muon import RATES, Muon, Orthogonalize
from distir.ops.optimizer.weights import Assign, MovingAverage
from distir.ops.optimizer.rates import SCHEDULES, LearningRate
# isort: on

__all__ = [
    "OPTIMIZERS",
    "RATES",
    "SCHEDULES",
    "SGD",
    "UPDATE",
    "Adafactor",
    "Adam",
    "Assign",
    "LearningRate",
    "Lion",
    "Momentum",
    "MovingAverage",
    "Muon",
    "Optimizer",
    "OptimizerRule",
    "Orthogonalize",
    "is_optimizer",
    "optimizer",
    "unless_skipped",
]
