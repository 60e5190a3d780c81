"""What ops are for in a training step."""

from __future__ import annotations

from distir.ir import Statement
from distir.ir.core import Apply
from distir.ops.core import OPS, Op


def op_of(statement: Statement) -> Op | None:
    """The op that a statement applies; None for another statement, and for an unknown op."""
    return OPS.get(statement.op) if isinstance(statement, Apply) else None


def is_gradient(statement: Statement) -> bool:
    """Whether a statement applies an op that gradient rules alone write: these are called `…Grad`."""
    return isinstance(statement, Apply) and statement.op.endswith("Grad")


def is_update(statement: Statement) -> bool:
    """Whether a statement updates its first operand in place, and state with it, as optimizers do."""
    op = op_of(statement)
    return op is not None and op.family == "optimizer"
