"""Cumulative sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.ir import Shape, TensorType
from distir.ops.core import op
from distir.ops.host import Operand, known_ints
from distir.ops.layout import Layout
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.reduce.axes import split_except
from distir.ops.unify import normal_axis

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.torch_form import Expr, Write


@op("Tensor[t:number, s, d], Tensor[i:int, (), host] -> Tensor[t, s, d]", flops=1)
def CumSum(x: Array, axis: Array, *, exclusive: bool = False, reverse: bool = False) -> Array:
    """The sum of each element and those before it along `axis`; with `exclusive`, only those before it. ONNX `CumSum`.

    With `reverse`, those after it instead.

    %y = CumSum(%x: Tensor[Float32, (2, 3), 1], 1)
    """
    along = int(axis)
    terms = np.flip(wide(x), along) if reverse else wide(x)
    total = np.cumsum(terms, axis=along, dtype=terms.dtype)
    if exclusive:
        total = np.roll(total, 1, along)
        np.moveaxis(total, along, 0)[:1] = 0
    return (np.flip(total, along) if reverse else total).astype(x.dtype, copy=False)


@CumSum.checks
def _(x: TensorType, axis: Operand, **attrs: Any) -> None:
    known = known_ints(axis)
    if known is not None and x.shape is not None:
        normal_axis(known[0], len(x.shape), "CumSum", "axis")


@CumSum.sharding
def _(x: TensorType, axis: Operand, *, results: Sequence[Shape | None], **_: Any) -> Layout:
    known = known_ints(axis)
    return split_except(known[0] if known else None, x, True, len(results), others=1)


@CumSum.grad
def _(g: Backward) -> Gradients:
    return [g.same(g.dy, g.x[1], reverse=not g.attrs["reverse"]), None]


@CumSum.torch(fresh=True)
def _(write: Write, x: Expr, axis: Expr, *, exclusive: bool, reverse: bool) -> str:
    along = int(axis.scalar("the axis")) % max(x.rank, 1)
    if not exclusive and not reverse:
        cast = "" if x.floating else f", dtype={write.dtype(x.dtype)}"
        return write.narrowed(f"torch.cumsum({x.wide}, {along}{cast})", x.dtype)
    return f"{write.kernel('cumulative_sum')}({x}, {along}, exclusive={exclusive}, reverse={reverse})"
