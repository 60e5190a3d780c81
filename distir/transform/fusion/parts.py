"""The loops of an op in a fused kernel: the elements that it computes, and the rows that it reduces.

Ops with loops over the same elements can be fused; a reduction also loops over each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distir.ir import HOST, Apply, Dim, TensorType, Type, dims
from distir.ops import OPS, bind
from distir.ops.loops import FROM_AXIS_ON, LOSSES, Kind, kind_of, rows_of


@dataclass(frozen=True, slots=True)
class KernelPart:
    """The loops of one op. `rows`: their number; None without a reduction.

    `inner`: rows are contiguous, so that a kernel can read a row again after reducing it.
    """

    kind: Kind
    elements: Dim
    rows: Dim | None = None
    inner: bool = True


def part_of(statement: Apply, operands: Sequence[Type | None], results: Sequence[Type]) -> KernelPart | None:
    """The loops of a statement with operands and results of these types; None if it cannot be fused."""
    op = OPS.get(statement.op)
    kind = kind_of(op) if op is not None else None
    made = [t for t in results if isinstance(t, TensorType)]
    if op is None or kind is None or not made or len(made) < len(results) or made[0].device == HOST:
        return None
    size = made[0].elements
    if size is None:
        return None
    if kind in ("pointwise", "move", "view", "product"):
        return KernelPart(kind, size)
    scores = operands[rows_of(op)]
    if not isinstance(scores, TensorType) or scores.shape is None or scores.elements is None:
        return None
    whole, shape = scores.elements, scores.shape
    if kind == "reduction" and statement.op not in LOSSES:
        return KernelPart(kind, whole, size, inner=_is_inner(shape, made[0].shape or ()))
    if statement.op == "MSELoss":
        return KernelPart(kind, whole, size)
    axis = 1
    if "axis" in op.attributes:
        stated = bind(op, statement.attrs).get("axis")
        axis = (stated if isinstance(stated, int) else -1) % len(shape)
    trailing = op.name in FROM_AXIS_ON
    rows = dims.product(shape[:axis] if trailing else (*shape[:axis], *shape[axis + 1 :]))
    return None if rows is None else KernelPart(kind, whole, rows, inner=trailing or axis == len(shape) - 1)


def _is_inner(shape: Sequence[Dim | None], result: Sequence[Dim | None]) -> bool:
    """Whether the reduction is over the last dimensions."""
    kept = list(result)
    while kept and kept[-1] == 1:
        kept.pop()
    return list(shape[: len(kept)]) == kept
