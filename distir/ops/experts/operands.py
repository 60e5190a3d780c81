"""Checks of the operands of expert ops, and the layout of their groups of tokens."""

from __future__ import annotations

from distir.diagnostics.codes import types as codes
from distir.ir import Dim, TensorType
from distir.ops.host import Operand, known_dims
from distir.ops.numeric import Array
from distir.ops.unify import Reject

RAGGED_PRODUCTS = ("RaggedMatMul", "ScaledRaggedMatMul")
RAGGED_GRADIENTS = ("RaggedMatMulGrad", "ScaledRaggedMatMulGrad")
"""The products of rows that are sorted by expert, in all precisions, and the gradients of their matrices."""


def check_experts(name: str, experts: Array, count: int) -> None:
    """Raise Reject if an index is no expert."""
    if experts.size and not (experts.min() >= 0 and experts.max() < count):
        message = f"`{name}` expected experts from 0 to {count - 1}, found {experts.min()} to {experts.max()}"
        raise Reject(codes.BAD_VALUE, message, "experts")


def stated_rows(name: str, rows: Operand) -> Dim:
    """The number of rows in a host operand; None if unknown."""
    (count,) = known_dims(rows) or (None,)
    if isinstance(count, int) and count < 0:
        raise Reject(codes.BAD_VALUE, f"`{name}` expected a number of rows from 0, found {count}", "rows")
    return count


def letters_of(operand: TensorType, last: int) -> tuple[str, ...]:
    """A letter for each dimension but the last ones."""
    return tuple(f"g{axis}" for axis in range(len(operand.shape or ()) - last))


def touched(rows: float, e: int, top_k: int) -> float:
    """The expected number of experts that have rows, if each token chooses `top_k` of them evenly."""
    return e * (1 - (1 - min(top_k / e, 1)) ** (rows / top_k)) if e else 0
