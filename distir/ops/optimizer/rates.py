"""Learning rates that change from step to step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from distir.diagnostics.codes import types as codes
from distir.ops.core import op
from distir.ops.host import Operand
from distir.ops.numeric import Array, np
from distir.ops.optimizer.rules import UPDATE
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, Write


SCHEDULES = ("constant", "linear", "cosine")
"""How a learning rate falls after its warm-up."""


@op("Tensor[Int64, (), d] -> Tensor[Float32, (), d]", flops=8, non_differentiable=UPDATE)
def LearningRate(
    step: Array, *, lr: float, schedule: str = "constant", warmup: int = 0, steps: int = 0, least: float = 0.0
) -> Array:
    """The learning rate at a step, counted from 1: a linear warm-up, then constant, or falling until `steps`.

    With `s = step - 1`, it is `lr * s / warmup` while `s < warmup`. Then, with `p = (s - warmup) / (steps - warmup)`,
    at most 1, it is `least + (lr - least) * (1 - p)` if `linear`, `least + (lr - least) * (1 + cos(pi * p)) / 2` if
    `cosine`, and `lr` if `constant`: the schedules of `transformers`, for `least = 0`.

    %lr = LearningRate[lr = 0.001, schedule = "cosine", warmup = 10, steps = 100](3)
    """
    done = float(step) - 1
    if done < warmup:
        return np.asarray(lr * done / warmup, np.float32)
    share = min(1.0, (done - warmup) / max(1, steps - warmup))
    left = {"constant": 1.0, "linear": 1 - share, "cosine": (1 + math.cos(math.pi * share)) / 2}[schedule]
    return np.asarray(least + (lr - least) * left, np.float32)


@LearningRate.checks
def _(step: Operand, *, lr: float, schedule: str, warmup: int, steps: int, least: float) -> None:
    if schedule not in SCHEDULES:
        message = f"`LearningRate` expected a schedule of {', '.join(SCHEDULES)}, found `{schedule}`"
        raise Reject(codes.BAD_VALUE, message, "schedule")
    if warmup < 0 or (schedule != "constant" and steps <= warmup):
        message = f"`LearningRate` expected more `steps` than `warmup`, found {steps} and {warmup}"
        raise Reject(codes.BAD_VALUE, message, "steps")


@LearningRate.torch(fresh=True)
def _(write: Write, step: Expr, *, lr: float, schedule: str, warmup: int, steps: int, least: float) -> str:
    numbers = f"{write.number(lr)}, {schedule!r}, {warmup}, {steps}, {write.number(least)}"
    return f"{write.kernel('learning_rate')}({step.tensor}, {numbers})"
