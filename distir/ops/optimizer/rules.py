"""Registers an op as an optimizer of `grad`, and has the common parts of optimizers' bodies and torch forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from distir.ir import Constant, Shape
from distir.ir.registry import Registry
from distir.ops.core import Op
from distir.ops.numeric import Array, np
from distir.ops.precision import wide

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, Write


UPDATE = "it updates weights or statistics, after the loss"
"""Why the ops of this family have no gradient."""


@dataclass(frozen=True)
class OptimizerRule:
    """An optimizer of `grad`: its op, and the attributes that its name fixes.

    All else follows from the op. Operands whose memory its results take are the state, one tensor per weight, as large
    as the weight unless `shapes` says otherwise; an operand `step` is the number of the step, from 1; the remaining
    attributes are options of `grad`.
    """

    op: Op
    fixed: Mapping[str, Constant] = field(default_factory=dict[str, Constant])
    shapes: Callable[[Shape], Mapping[str, Shape]] | None = None
    """By name, the shapes of the state of a weight of this shape, where they are not its own."""
    others: str | None = None
    """The optimizer of embeddings, output layers, and weights that are no matrices; None: it is of all weights."""

    @property
    def state(self) -> tuple[str, ...]:
        """The names of what is kept of each weight between steps, in the order of the op's operands."""
        taken = self.op.inplace
        assert not isinstance(taken, str)
        return tuple(self.op.operand_name(taken[i]) for i in sorted(taken) if taken[i] != 0)

    @property
    def counts(self) -> bool:
        """Whether the op takes the number of the step."""
        return any(operand.name == "step" for operand in self.op.operands)

    @property
    def options(self) -> tuple[str, ...]:
        """The attributes that a user may give."""
        return tuple(name for name in self.op.attributes if name not in self.fixed)


OPTIMIZERS: Final[Registry[OptimizerRule]] = Registry()
"""The optimizers by the names that `grad optimizer=` takes: built-in ones, and those of plugins."""


def optimizer(
    name: str,
    op: Op,
    shapes: Callable[[Shape], Mapping[str, Shape]] | None = None,
    others: str | None = None,
    **fixed: Constant,
) -> Op:
    """Register an op as an optimizer of `grad`: of all weights, or with `others` of hidden matrices alone.

    `others` names the optimizer of the other weights; `fixed`: attributes that the name implies. Returns the op.
    """
    OPTIMIZERS.register(name, OptimizerRule(op, fixed, shapes, others), op.body.__module__)
    return op


def is_optimizer(op: Op) -> bool:
    """Whether an op is of this family, or one that a package has registered as an optimizer."""
    return op.family == "optimizer" or (bool(op.inplace) and any(rule.op is op for rule in OPTIMIZERS.values()))


SCALARS = "Optional[Tensor[r:float, (), d]], Optional[Tensor[f:float, (), d]]"
"""In signatures: `rate` and `factor`."""


def rate_or(lr: float, rate: Array | None) -> float | Array:
    """The learning rate: the operand where it is given, else the attribute."""
    return lr if rate is None else rate


def scaled(dw: Array, factor: Array | None) -> Array:
    """The gradient times the factor, at least in Float32."""
    return wide(dw) if factor is None else wide(dw) * factor


def unless_skipped(factor: Array | None, old: Array, new: Array) -> Array:
    """The new value in the element type of the old one, which stays with a factor of 0: for bodies of optimizers."""
    new = new.astype(old.dtype, copy=False)
    return new if factor is None else np.where(factor != 0, new, old)


def factor_argument(factor: Expr | None) -> str:
    """The argument `factor` of a kernel."""
    return "" if factor is None else f", factor={factor.tensor}"


def overwrite_argument(write: Write, *operands: int) -> str:
    """The argument `overwrite` of a kernel, if it may overwrite the operands."""
    return ", overwrite=True" if all(map(write.may_overwrite, operands)) else ""
