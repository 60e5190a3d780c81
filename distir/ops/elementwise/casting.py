"""Values in another element type, and values as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from distir.ir import DType
from distir.ops.core import op
from distir.ops.numeric import Array, np, numpy_dtype
from distir.ops.precision import narrow, wide

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write


@op("Tensor[t, s, d] -> Tensor[to, s, d]", flops=0)
def Cast(input: Array, *, to: DType, saturate: bool = True) -> Array:
    """The elements in another element type. ONNX `Cast`.

    From floating point to integers, the fraction is dropped. Numbers that are too large for an 8-bit float become its
    largest number if `saturate`, else infinity if the type has it, else NaN.

    %y = Cast[to = Float16](%x: Tensor[Float32, (2, 3), 1])
    """
    if saturate and to.kind == "float" and to.bytes == 1:
        return _saturated(input, to).astype(numpy_dtype(to))
    return input.astype(numpy_dtype(to))


@Cast.pieces
def _(p: Pieces, input: Piece, *, to: DType, **_: Any) -> Any:
    narrow = p.before_cast(input)
    if narrow is not None and p.dtype(narrow) == to:
        return [narrow]
    return [input] if p.dtype(input) == to else NotImplemented


@Cast.grad
def _(g: Backward) -> Gradients:
    return [g("Cast", g.dy, to=g.dtype(g.x[0]))] if g.dtype(g.y[0]).kind == "float" else [None]


@Cast.torch
def _(write: Write, input: Expr, *, to: DType, saturate: bool) -> str:
    if saturate and to.kind == "float" and to.bytes == 1:
        return f"{write.kernel('saturated')}({input}, {write.dtype(to)})"
    return f"{input.tensor}.to({write.dtype(to)})"


def _saturated(x: Array, dtype: DType) -> Array:
    """The elements clamped to the range of an 8-bit float type."""
    import ml_dtypes

    largest = float(cast(Any, ml_dtypes).finfo(numpy_dtype(dtype)).max)
    return np.clip(wide(x) if narrow(x) else x.astype(np.float64), -largest, largest)


@op("Tensor[t, s, d] -> Tensor[t, s, d]", view=True, leafwise=True, linear="jointly")
def Identity(input: Array) -> Array:
    """The operand itself. ONNX `Identity`.

    %y = Identity(%x: Tensor[Float32, (2, 3), 1])
    """
    return input


@Identity.pieces
def _(p: Pieces, input: Piece) -> Any:
    return [input]


@Identity.grad
def _(g: Backward) -> Gradients:
    return [g.dy]


Identity.torch("{input.tensor}")
