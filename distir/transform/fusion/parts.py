"""What an op is to a fused kernel: the elements that it computes, and the rows over which it reduces.

Loops are fused that run over the same elements; a reduction has rows besides, of which each is one loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distir.ir import HOST, Apply, Dim, TensorType, Type, dims
from distir.ops import OPS, bind
from distir.ops.loops import LOSSES, Kind, kind_of, rows_of


@dataclass(frozen=True, slots=True)
class KernelPart:
    """What an op brings into a kernel. `rows`: how many there are; None without a reduction.

    `inner`: rows are contiguous, so that values of all of a row may follow from its sums.
    """

    kind: Kind
    elements: Dim
    rows: Dim | None = None
    inner: bool = True


def part_of(statement: Apply, operands: Sequence[Type | None], results: Sequence[Type]) -> KernelPart | None:
    """What a statement brings into a kernel for operands and results of these types; None if it is none."""
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
    trailing = op.family == "norm" or "Normalization" in op.name
    rows = dims.product(shape[:axis] if trailing else (*shape[:axis], *shape[axis + 1 :]))
    return None if rows is None else KernelPart(kind, whole, rows, inner=trailing or axis == len(shape) - 1)


def _is_inner(shape: Sequence[Dim | None], result: Sequence[Dim | None]) -> bool:
    """Whether the last dimensions are the ones that are summed over."""
    kept = list(result)
    while kept and kept[-1] == 1:
        kept.pop()
    return list(shape[: len(kept)]) == kept
