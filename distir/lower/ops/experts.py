"""Products with the weights of experts, in torch."""

from __future__ import annotations

from distir.lower.forms import Operand, Write, torch_form


@torch_form("GroupedMatMul", fresh=True)
def _(write: Write, x: Operand, w: Operand, group: Operand, *, transW: bool) -> str:  # noqa: N803 - as `transB`
    matrices = f"{w}.transpose(1, 2)" if transW else str(w)
    return f"{write.kernel('grouped_product')}({x}, {matrices}, {group.tensor})"


@torch_form("GroupedMatMulGrad", fresh=True)
def _(write: Write, dy: Operand, x: Operand, group: Operand, shape: Operand, *, transW: bool) -> str:  # noqa: N803
    left, right = (dy, x) if transW else (x, dy)
    experts, *_ = write.results[0].shape or (0,)
    return f"{write.kernel('grouped_outer_product')}({left}, {right}, {group.tensor}, {experts})"
