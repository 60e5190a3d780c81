"""What rules know of host operands (shapes, axes, sizes): the numbers themselves, or at least how many there are.

Knows no numpy: rules run when a program is checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from distir.diagnostics.codes import types as codes
from distir.ir import Dense, Dim, SymbolicDim, TensorType
from distir.ops.unify import Reject, normal_axis

Operand = TensorType | Dense
"""An operand as rules see it: `Dense` where its value is known. Both have a `dtype` and a `shape`."""


FAR = 2**31 - 1
"""The end of a `Slice` that programs write for "to the end": no dimension is larger."""

MOST_ENTRIES = 1 << 16
"""Entries of a shape, of axes, of sizes: lists of so many are made here, so there is an end."""


def known_ints(operand: Operand | None) -> tuple[int, ...] | None:
    """The integers that the operand holds, or None if they are not known, or the operand is left out."""
    if not isinstance(operand, Dense) or operand.symbolic:
        return None
    return cast("tuple[int, ...]", operand.values)


def known_dims(operand: Operand | None) -> tuple[int | SymbolicDim, ...] | None:
    """The sizes that the operand holds, symbolic ones too, or None if they are not known."""
    return cast("tuple[int | SymbolicDim, ...]", operand.values) if isinstance(operand, Dense) else None


def length(operand: Operand) -> Dim:
    """How many entries a vector has; None if that is unknown. Raises Reject where nobody could mean so many."""
    stated = operand.shape[0] if operand.shape else None
    if isinstance(stated, int) and stated > MOST_ENTRIES:
        message = f"expected at most {MOST_ENTRIES} shapes, axes or sizes, found a vector of {stated}"
        raise Reject(codes.BAD_VALUE, message)
    return stated


def distinct_axes(axes: Iterable[int], rank: int, op: str) -> list[int]:
    """Axes counted from 0, in the order given. Raises Reject where one is out of range or given twice."""
    normal: list[int] = []
    for axis in axes:
        normal.append(normal_axis(axis, rank, op, "axes"))
        if normal[-1] in normal[:-1]:
            raise Reject(codes.BAD_VALUE, f"`{op}` expected distinct axes, found {axis} twice", "axes")
    return normal
