"""What ops are for in a training step."""

from __future__ import annotations

from distir.ir import Statement
from distir.ir.core import Apply
from distir.ops.core import OPS, Op
from distir.ops.optimizer import is_optimizer
from distir.ops.resources import Pattern

LAYER_PATTERNS: frozenset[Pattern] = frozenset({"allgather", "allreduce", "reducescatter", "alltoall"})
"""How devices that share a layer exchange its values."""


def op_of(statement: Statement) -> Op | None:
    """The op that a statement applies; None for another statement, and for an unknown op."""
    return OPS.get(statement.op) if isinstance(statement, Apply) else None


def is_gradient(statement: Statement) -> bool:
    """Whether a statement applies an op that gradient rules alone write: these are called `…Grad`."""
    return isinstance(statement, Apply) and statement.op.endswith("Grad")


def is_update(statement: Statement) -> bool:
    """Whether a statement updates its first operand in place, and state with it, as optimizers do."""
    op = op_of(statement)
    return op is not None and is_optimizer(op)


def pattern_of(statement: Statement) -> Pattern | None:
    """How a statement communicates between devices; None where it does not.

    In a program of devices it names them, in one of representatives their number, on a mesh an axis.
    """
    op = op_of(statement)
    return None if op is None else op.communication


def sums_over_devices(statement: Statement) -> bool:
    """Whether a statement adds up what devices have: on each, on one of them, or a part on each."""
    is_sum = pattern_of(statement) in ("allreduce", "reducescatter", "reduce")
    return is_sum and isinstance(statement, Apply) and statement.attrs.get("op", "sum") == "sum"
