"""The greatest or least elements, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import Shape, TensorType
from distir.ops.core import op
from distir.ops.host import Operand, known_ints
from distir.ops.layout import Layout
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.reduce.axes import split_except
from distir.ops.unify import Reject, normal_axis

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.torch_form import Expr, Unpacked, Write


@op(
    "Tensor[t:number, (*a, n@axis, *b), d], Tensor[Int64, (1,), host] -> Tensor[t, _, d], Tensor[Int64, _, d]",
    flops=lambda a=1, n=1, b=1, **_: a * n * b * n.bit_length(),
)
def TopK(x: Array, k: Array, *, axis: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    """The `k` greatest elements along `axis`, or the least, in order, and their indices. ONNX `TopK`.

    Of equal elements, the first are taken. The results are sorted even if `sorted` is false.

    %values, %indices = TopK(%x: Tensor[Float32, (2, 3), 1], [2])
    """
    ordered = np.flip(x, axis) if largest else x
    order = np.argsort(wide(ordered), axis=axis, kind="stable")
    if largest:
        order = x.shape[axis] - 1 - np.flip(order, axis)
    taken = np.take(order, np.arange(int(k[0])), axis=axis)
    return np.take_along_axis(x, taken, axis=axis), taken


@TopK.shapes
def _(x: TensorType, k: Operand, *, axis: int, **attrs: Any) -> list[Shape | None]:
    if x.shape is None:
        return [None, None]
    first, known = normal_axis(axis, len(x.shape), "TopK", "axis"), known_ints(k)
    size = known[0] if known is not None else None
    present = x.shape[first]
    if size is not None and (size < 0 or (isinstance(present, int) and size > present)):
        message = f"`TopK` expected `k` from 0 to {'?' if present is None else present}, found {size}"
        raise Reject(codes.BAD_VALUE, message, "k")
    return [(*x.shape[:first], size, *x.shape[first + 1 :])] * 2


@TopK.sharding
def _(x: TensorType, k: Operand, *, results: Sequence[Shape | None], axis: int, **_: Any) -> Layout:
    return split_except(axis, x, True, len(results), others=1)


@TopK.grad
def _(g: Backward) -> Gradients:
    if g.dys[0] is None:
        return [None, None]
    return [g("ScatterElements", g.zeros(g.x[0]), g.y[1], g.dy, axis=g.attrs["axis"]), None]


@TopK.torch(fresh=True)
def _(write: Write, x: Expr, k: Expr, *, axis: int, largest: bool, sorted: bool) -> Unpacked:
    count = k.ints("how many elements are taken")[0]
    return write.unpacked(f"{write.kernel('top_k')}({x}, {count}, {axis}, {largest})")
