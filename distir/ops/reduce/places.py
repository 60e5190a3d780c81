"""Indices of the greatest and the least elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import Shape, TensorType
from distir.ops.core import Op, op
from distir.ops.layout import Layout
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.reduce.axes import split_except
from distir.ops.unify import Reject, normal_axis

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.torch_form import Expr, Write


def _place_form(function: str) -> Callable[..., str]:
    def form(write: Write, data: Expr, *, axis: int, keepdims: bool, select_last_index: bool) -> str:
        if not select_last_index:
            return f"torch.{function}({data}, {axis}, keepdim={keepdims})"
        last = data.shape[axis] - 1
        return f"{last} - torch.{function}(torch.flip({data}, ({axis},)), {axis}, keepdim={keepdims})"

    return form


@op("Tensor[t:number, (*a, n@axis, *b), d] -> Tensor[Int64, _, d]", flops=lambda inputs, **_: inputs)
def ArgMax(data: Array, *, axis: int = 0, keepdims: bool = True, select_last_index: bool = False) -> Array:
    """The index along `axis` of the greatest element, the first or the last of equal ones. ONNX `ArgMax`.

    %y = ArgMax[axis = 1](%x: Tensor[Float32, (2, 3), 1])
    """
    return _place(np.argmax, data, axis, keepdims, select_last_index)


ArgMax.torch(_place_form("argmax"), fresh=True)


@op("Tensor[t:number, (*a, n@axis, *b), d] -> Tensor[Int64, _, d]", flops=lambda inputs, **_: inputs)
def ArgMin(data: Array, *, axis: int = 0, keepdims: bool = True, select_last_index: bool = False) -> Array:
    """The index along `axis` of the least element, the first or the last of equal ones. ONNX `ArgMin`.

    %y = ArgMin[axis = 1, keepdims = false](%x: Tensor[Float32, (2, 3), 1])
    """
    return _place(np.argmin, data, axis, keepdims, select_last_index)


@ArgMax.grad
@ArgMin.grad
def _(g: Backward) -> Gradients:
    return [None]


ArgMin.torch(_place_form("argmin"), fresh=True)


def _place(extreme: Callable[..., Any], data: Array, axis: int, keepdims: bool, last: bool) -> Array:
    if last:
        return data.shape[axis] - 1 - extreme(np.flip(wide(data), axis), axis=axis, keepdims=keepdims)
    return extreme(wide(data), axis=axis, keepdims=keepdims)


def _placed(reduction: Op) -> Callable[..., Shape | None]:
    def rule(data: TensorType, *, axis: int, keepdims: bool, select_last_index: bool) -> Shape | None:
        if data.shape is None:
            return None
        first = normal_axis(axis, len(data.shape), reduction.name, "axis")
        if data.shape[first] == 0:
            message = f"`{reduction.name}` expected at least one element along axis {axis}, found none"
            raise Reject(codes.SHAPE_MISMATCH, message, "data")
        return data.shape[:first] + ((1,) if keepdims else ()) + data.shape[first + 1 :]

    return rule


for _reduction in (ArgMax, ArgMin):
    _reduction.shapes(_placed(_reduction))


for _reduction in (ArgMax, ArgMin):

    @_reduction.sharding
    def _(data: TensorType, *, results: Sequence[Shape | None], axis: int, keepdims: bool, **_: Any) -> Layout:
        return split_except(axis, data, keepdims, len(results))
