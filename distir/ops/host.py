"""Host operands (shapes, axes, sizes) in rules: their values, or at least their lengths.

Does not load numpy: rules run when a program is checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from distir.diagnostics.codes import types as codes
from distir.ir import Dense, Dim, SymbolicDim, TensorType
from distir.ops.unify import Reject, normal_axis

Operand = TensorType | Dense
"""An operand as an argument of a rule: `Dense` if its value is known. Both have a `dtype` and a `shape`."""


FAR = 2**31 - 1
"""The end of a `Slice` that means "to the end": no dimension is larger."""

MOST_ENTRIES = 1 << 16
"""The greatest length of a list of sizes or axes: bounds the memory of rules."""


def known_ints(operand: Operand | None) -> tuple[int, ...] | None:
    """The integers in the operand; None if unknown, or for an omitted operand."""
    if not isinstance(operand, Dense) or operand.symbolic:
        return None
    return cast("tuple[int, ...]", operand.values)


def known_dims(operand: Operand | None) -> tuple[int | SymbolicDim, ...] | None:
    """The sizes in the operand, symbolic ones included; None if unknown."""
    return cast("tuple[int | SymbolicDim, ...]", operand.values) if isinstance(operand, Dense) else None


def length(operand: Operand) -> Dim:
    """The length of a vector; None if unknown. Raises Reject above `MOST_ENTRIES`."""
    stated = operand.shape[0] if operand.shape else None
    if isinstance(stated, int) and stated > MOST_ENTRIES:
        message = f"expected at most {MOST_ENTRIES} shapes, axes or sizes, found a vector of {stated}"
        raise Reject(codes.BAD_VALUE, message)
    return stated


def distinct_axes(axes: Iterable[int], rank: int, op: str) -> list[int]:
    """Non-negative axes, in the given order. Raises Reject for one that is out of range or repeated."""
    normal: list[int] = []
    for axis in axes:
        normal.append(normal_axis(axis, rank, op, "axes"))
        if normal[-1] in normal[:-1]:
            raise Reject(codes.BAD_VALUE, f"`{op}` expected distinct axes, found {axis} twice", "axes")
    return normal
