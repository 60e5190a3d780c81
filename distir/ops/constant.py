"""Constants, and tensors computed from shapes and numbers: `Constant`, `Shape`, `Range`, `OneHot` and similar ops.

Most results are host values: they live on no device and are known before the program runs. `Shape` and `Size` give
host values of operands that live on devices: the concrete half of mixed interpretation (paper, section 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as type_codes
from distir.ir import (
    DTYPES,
    Constant,
    Dense,
    Dim,
    DType,
    External,
    Literal,
    Shape,
    SymbolicDim,
    TensorType,
    Type,
    types,
)
from distir.ir.dtypes import INTEGER_RANGES
from distir.ops.core import op
from distir.ops.host import Operand, known_dims, known_ints, length
from distir.ops.infer import ADDRESSABLE
from distir.ops.layout import Layout, elementwise
from distir.ops.numeric import Array, dense, np, numpy_dtype, to_array
from distir.ops.specs import HOST_RESULTS
from distir.ops.unify import Reject, normal_axis

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write


@op(
    "-> Tensor[_, _, host]",
    name="Constant",
    view=True,
    foldable=False,  # the partial rule gives the value without running the body
    aliases=dict.fromkeys(("value_int", "value_ints", "value_float", "value_floats"), "value"),
    non_differentiable=HOST_RESULTS,
)
def ConstantOp(*, value: Constant) -> Array:
    """The tensor `value`: a number, a list of numbers nested to any depth, or a dense or external tensor.

    Integers are Int64, numbers with a point Float32, as in ONNX `Constant`.

    %c = Constant[value = 2]()
    %c = Constant[value = [[1.0, 2.0], [3.0, 4.0]]]()
    """
    if isinstance(value, External):
        raise LookupError(f"the data of `{value.reference}` is not loaded")  # noqa: TRY004
    return value if isinstance(value, np.ndarray) else to_array(dense(value))  # an array: an external's data


@ConstantOp.types
def _(*, value: Constant) -> list[Type]:
    return [_tensor("Constant", value).type]


@ConstantOp.partial
def _(*, value: Constant) -> Dense | External:
    return _tensor("Constant", value)


@ConstantOp.torch
def _(write: Write, *, value: Constant) -> str:
    raise write.refuse("the constant's elements are not known")  # other constants are no statements


@op("Tensor[Int64, (r,), host] -> Tensor[_, _, host]", flops=0, non_differentiable=HOST_RESULTS)
def ConstantOfShape(input: Array, *, value: Constant = 0.0) -> Array:
    """A tensor of the shape `input` whose elements are all `value`, a tensor of one element. ONNX `ConstantOfShape`.

    %y = ConstantOfShape([2, 3])
    %y = ConstantOfShape[value = 1]([4])
    """
    return np.full(tuple(input.tolist()), to_array(dense(value)).reshape(()))


@ConstantOfShape.shapes
def _(input: Operand, *, value: Constant) -> TensorType:
    filling = _tensor("ConstantOfShape", value)
    if math.prod(filling.shape) != 1:
        message = f"`ConstantOfShape` expected a tensor of one element, found shape {types.show_shape(filling.shape)}"
        raise Reject(type_codes.BAD_VALUE, message, "value")
    if isinstance(filling, External):
        raise Reject(
            name_codes.ATTRIBUTE_TYPE, "`ConstantOfShape` expected a number, found an external tensor", "value"
        )
    sizes = known_dims(input)
    if sizes is None:
        rank = length(input)
        return TensorType(filling.dtype, (None,) * rank if isinstance(rank, int) else None)
    if any(isinstance(size, int) and size < 0 for size in sizes):
        message = f"`ConstantOfShape` expected sizes from 0, found {list(sizes)}"
        raise Reject(type_codes.BAD_VALUE, message, "input")
    return TensorType(filling.dtype, sizes)


@ConstantOfShape.torch(fresh=True)
def _(write: Write, input: Expr, *, value: Constant) -> str:
    (result,) = write.results
    filling = write.number(dense(value).values[0])
    return f"torch.full({write.items(result.shape or ())}, {filling}, dtype={write.dtype(result.dtype)}, device=DEVICE)"


@op(
    "Tensor[t:number, (), host], Tensor[t:number, (), host], Tensor[t:number, (), host] -> Tensor[t, (_,), host]",
    flops=0,
    non_differentiable=HOST_RESULTS,
)
def Range(start: Array, limit: Array, delta: Array) -> Array:
    """`start`, `start + delta`, … up to but without `limit`. ONNX `Range`.

    %y = Range(0, 10, 3)
    %y = Range(1.0, 0.0, -0.25)
    """
    first, last, step = start.item(), limit.item(), delta.item()
    steps = np.arange(_range_length(first, last, step))
    if start.dtype.kind in "iu":
        return start + steps.astype(start.dtype) * delta
    return (first + steps * step).astype(start.dtype)


@Range.shapes
def _(start: Operand, limit: Operand, delta: Operand) -> Shape | None:
    if isinstance(limit, Dense) and limit.symbolic and known_ints(start) == (0,) and known_ints(delta) == (1,):
        return known_dims(limit)
    known: list[float] = []
    for name, operand in (("start", start), ("limit", limit), ("delta", delta)):
        if isinstance(operand, Dense) and not operand.symbolic:
            known.append(to_array(operand).item())  # rounded as the element type rounds
            if not math.isfinite(known[-1]) or (name == "delta" and known[-1] == 0):
                expected = "a finite step that is not 0" if name == "delta" else "a finite number"
                raise Reject(type_codes.BAD_VALUE, f"`Range` expected {expected}, found {known[-1]}", name)
    return (_range_length(*known) if len(known) == 3 else None,)


@Range.torch(fresh=True)
def _(write: Write, start: Expr, limit: Expr, delta: Expr) -> str:
    (result,) = write.results
    count = (result.shape or (None,))[0]
    steps = f"torch.arange({count}, device=DEVICE)"
    return f"({start} + {steps} * {delta}).to({write.dtype(result.dtype)})"


@op("Tensor[t, s, d] -> Tensor[Int64, (_,), host]", name="Shape", flops=0, bytes=0, non_differentiable=HOST_RESULTS)
def ShapeOp(data: Array, *, start: int = 0, end: int | None = None) -> Array:
    """The dimensions of `data`, or those from `start` to before `end`: a host value. ONNX `Shape`.

    Negative positions count from the end; positions out of range are clamped.

    %s = Shape(%x: Tensor[Float32, (2, 3), 1])
    %s = Shape[start = -1](%x: Tensor[Float32, (2, 3), 1])
    """
    return np.array(data.shape[start:end], dtype=np.int64)


@ShapeOp.shapes
def _(data: Operand, *, start: int, end: int | None = None) -> Shape:
    return (None if data.shape is None else len(data.shape[start:end]),)


@ShapeOp.partial
def _(data: Operand, *, start: int, end: int | None = None) -> Dense:
    if data.shape is None:
        return NotImplemented
    sizes = [dim for dim in data.shape[start:end] if dim is not None]
    if len(sizes) < len(data.shape[start:end]):
        return NotImplemented
    return Dense(DTYPES["Int64"], (len(sizes),), tuple(sizes))


@ShapeOp.torch(fresh=True)
def _(write: Write, data: Expr, *, start: int, end: int | None = None) -> str:
    return f"torch.tensor({list(data.shape[start:end])}, dtype=torch.int64, device=DEVICE)"


@op("Tensor[t, s, d] -> Tensor[Int64, (), host]", flops=0, bytes=0, non_differentiable=HOST_RESULTS)
def Size(data: Array) -> Array:
    """The number of elements: a host value. ONNX `Size`.

    %n = Size(%x: Tensor[Float32, (2, 3), 1])
    """
    return np.array(data.size, dtype=np.int64)


@Size.partial
def _(data: Operand) -> Dense:
    elements: Dim = math.prod(data.shape) if isinstance(data, Dense) else data.elements
    return Dense(DTYPES["Int64"], (), (elements,)) if elements is not None else NotImplemented


@Size.torch(fresh=True)
def _(write: Write, data: Expr) -> str:
    return f"torch.tensor({data.elements}, dtype=torch.int64, device=DEVICE)"


def _written(*, elements: int, t: int, dtype: DType | None = None, **_: Any) -> int:
    return elements * (t if dtype is None else dtype.bytes)


@op("Tensor[t, (m, n), d] -> Tensor[dtype, (m, n), d]", flops=0, bytes=_written, whole=("m", "n"))
def EyeLike(input: Array, *, dtype: DType | None = None, k: int = 0) -> Array:
    """Ones on the diagonal `k` places above the main one, else zeros, in the shape of `input`. ONNX `EyeLike`.

    %y = EyeLike(%x: Tensor[Float32, (2, 3), 1])
    %y = EyeLike[dtype = Int64, k = 1](%x: Tensor[Float32, (3, 3), 1])
    """
    return (_above(input.shape) == k).astype(input.dtype if dtype is None else numpy_dtype(dtype))


@EyeLike.shapes
def _(input: Operand, *, dtype: DType | None = None, **_: Any) -> TensorType:
    return TensorType(dtype or input.dtype, (None, None) if input.shape is None else input.shape)


@EyeLike.grad
def _(g: Backward) -> Gradients:
    return [None]


@EyeLike.torch(fresh=True)
def _(write: Write, input: Expr, *, dtype: DType | None = None, k: int) -> str:
    rows, columns = input.shape
    above = f"torch.arange({columns}, device=DEVICE) - torch.arange({rows}, device=DEVICE)[:, None]"
    return f"({above} == {write.number(k)}).to({write.dtype(write.results[0].dtype)})"


@op("Tensor[i:number, s, d], Tensor[j:number, _, host], Tensor[t, (2,), d] -> Tensor[t, _, d]", flops=0)
def OneHot(indices: Array, depth: Array, values: Array, *, axis: int = -1) -> Array:
    """`values[1]` where the position along a new dimension of size `depth` is the index, else `values[0]`.

    The new dimension is dimension `axis` of the result. Negative indices count from `depth`; those out of range give
    `values[0]` everywhere. ONNX `OneHot`.

    %y = OneHot(%i: Tensor[Int64, (2, 3), 1], 5, [0.0, 1.0])
    %y = OneHot[axis = 0](%i: Tensor[Int64, (2, 3), 1], 5, [0.0, 1.0])
    """
    size = int(depth.reshape(()))
    wanted = indices.astype(np.int64)
    wanted = np.where((wanted >= -size) & (wanted < 0), wanted + size, wanted)
    position = axis % (indices.ndim + 1)
    places = np.arange(size).reshape((size,) + (1,) * (indices.ndim - position))
    on: Array = np.expand_dims(wanted, position) == places
    return values[on.astype(np.intp)]


@OneHot.pieces
def _(p: Pieces, indices: Piece, depth: Piece, values: Piece, *, axis: int) -> Any:
    """Of indices that count from the first class of a part: the columns of these classes."""
    own, rank = p.own(indices), len(p.shape(indices)) + 1
    if own is None or p.ints(depth) != (own.count,) or p.zero_first(values) is False:
        return NotImplemented
    whole = p("OneHot", own.positions, Literal(own.size), values, axis=axis)
    mine = p.of_places(whole, axis % rank, own.places, own.size)
    return [p.guarded(mine, own, [k for k in range(rank) if k != axis % rank], absorbed=True)]


@OneHot.shapes
def _(indices: Operand, depth: Operand, values: Operand, *, axis: int) -> Shape | None:
    size = _depth(depth)
    if indices.shape is None:
        return None
    position = normal_axis(axis, len(indices.shape) + 1, "OneHot", "axis")
    return (*indices.shape[:position], size, *indices.shape[position:])


@OneHot.sharding
def _(indices: Operand, depth: Operand, values: Operand, *, results: Sequence[Shape | None], axis: int) -> Layout:
    (letters,) = elementwise([indices.shape])
    place = axis % (len(letters) + 1)
    shapes = (depth.shape or (), values.shape or ())
    whole = tuple((None,) * len(shape) for shape in shapes)
    return Layout((letters, *whole), ((*letters[:place], None, *letters[place:]),))


@OneHot.grad
def _(g: Backward) -> Gradients:
    """The gradient of `values`: the gradients summed over the places of each."""
    indices, depth, _ = g.x
    on = g.same(indices, depth, Literal((0.0, 1.0)))
    taken = g("ReduceSum", g("Mul", g.dy, g("Cast", on, to=g.dtype(g.y[0]))), keepdims=False)
    left = g("Sub", g("ReduceSum", g.dy, keepdims=False), taken)
    return [None, None, g("Concat", g("Unsqueeze", left, (0,)), g("Unsqueeze", taken, (0,)), axis=0)]


@OneHot.torch(fresh=True)
def _(write: Write, indices: Expr, depth: Expr, values: Expr, *, axis: int) -> str:
    size = int(depth.scalar("the depth"))
    at = axis % (indices.rank + 1)
    return f"{write.kernel('one_hot')}({indices.tensor}, {size}, {values}, {at})"


@op(
    "Tensor[t, (*b, m, n), d], Optional[Tensor[Int64, (), host]] -> Tensor[t, (*b, m, n), d]", flops=0, whole=("m", "n")
)
def Trilu(input: Array, k: Array | None = None, *, upper: bool = True) -> Array:
    """The part of each matrix on and above the diagonal `k` places above the main one, zeros below it.

    With `upper = false` the part on and below that diagonal. ONNX `Trilu`.

    %y = Trilu(%x: Tensor[Float32, (3, 3), 1])
    %y = Trilu[upper = false](%x: Tensor[Float32, (2, 3, 3), 1], -1)
    """
    offset = 0 if k is None else k.item()
    above = _above(input.shape)
    kept = above >= offset if upper else above <= offset
    return np.where(kept, input, np.zeros((), input.dtype))


@Trilu.grad
def _(g: Backward) -> Gradients:
    return [g.same(g.dy, g.x[1]), None]


@Trilu.torch(fresh=True)
def _(write: Write, input: Expr, k: Expr | None = None, *, upper: bool) -> str:
    diagonal = 0 if k is None else int(k.scalar("the diagonal"))
    return f"torch.{'triu' if upper else 'tril'}({input}, {diagonal})"


def _above(shape: tuple[int, ...]) -> Array:
    """The diagonal of each element of a matrix of the last two dimensions of `shape`, counted up from the main one."""
    return np.arange(shape[-1]) - np.arange(shape[-2])[:, None]


def _depth(depth: Operand) -> int | None:
    """The number in the operand `depth` of `OneHot`. Raises Reject if it is not one size."""
    shape = () if depth.shape is None else depth.shape
    if len(shape) > 1 or (len(shape) == 1 and isinstance(shape[0], int) and shape[0] != 1):
        message = f"`OneHot` expected one number, found shape {types.show_shape(shape)}"
        raise Reject(type_codes.RANK_MISMATCH, message, "depth")
    if not isinstance(depth, Dense):
        return None
    size = depth.values[0]
    if isinstance(size, SymbolicDim):
        return None
    if not (math.isfinite(size) and size >= 0):
        raise Reject(type_codes.BAD_VALUE, f"`OneHot` expected a size from 0, found {size}", "depth")
    return int(size)


def _range_length(start: float, limit: float, delta: float) -> int:
    """The number of elements of a `Range`; exact for integers."""
    if all(isinstance(number, int) for number in (start, limit, delta)):
        return max(0, int(-((start - limit) // delta)))
    steps = (limit - start) / delta
    return max(0, math.ceil(steps)) if math.isfinite(steps) else ADDRESSABLE


def _tensor(name: str, value: Constant) -> Dense | External:
    """The attribute `value` as a tensor. Raises Reject if it is not one."""
    if isinstance(value, External):
        return value
    try:
        tensor = dense(value)
    except ValueError as error:
        raise Reject(name_codes.ATTRIBUTE_TYPE, f"`{name}` expected a tensor: {error}", "value") from None
    allowed = INTEGER_RANGES.get(tensor.dtype)
    wrong = None if allowed is None else next((v for v in tensor.values if v not in allowed), None)
    if wrong is not None:
        raise Reject(type_codes.BAD_VALUE, f"`{name}` expected {tensor.dtype} elements, found {wrong}", "value")
    return tensor
