"""Gradient ops, which reverse mode writes in addition to ops of other families. Not in ONNX.

`XGrad(dy, ...)` is the gradient of a loss with respect to the operands of `y = X(...)`, given `dy`, its gradient with
respect to `y`; its other operands are those operands and results of `X` that are cheapest to keep as residuals. Element
types narrower than Float32 are computed in Float32. Gradients of matrix products, sums and similar ops need no op here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from distir.diagnostics.codes import types as codes
from distir.ir import Dense, Dim, Shape, TensorType, types
from distir.ops.activation import check_approximation, logistic
from distir.ops.core import op
from distir.ops.elementwise import error_function
from distir.ops.host import Operand, known_dims, length
from distir.ops.layout import Layout, elementwise
from distir.ops.numeric import Array, np
from distir.ops.precision import mean, wide
from distir.ops.specs import FIRST_ORDER_ONLY
from distir.ops.unify import Reject, normal_axis

if TYPE_CHECKING:
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Unpacked, Write


@op("Tensor[t:number, s, d], Tensor[t:number, s, d] -> Tensor[t, s, d]", flops=1, non_differentiable=FIRST_ORDER_ONLY)
def ReluGrad(dy: Array, x: Array) -> Array:
    """`dy` where `x` is above 0, else 0. The result of `Relu` can be used as `x`.

    %dx = ReluGrad(%dy: Tensor[Float32, (2, 3), 1], %x: Tensor[Float32, (2, 3), 1])
    """
    return np.where(x > 0, dy, dy.dtype.type(0))


@ReluGrad.torch(fresh=True)
def _(write: Write, dy: Expr, x: Expr) -> str:
    if not dy.floating or dy.value is not None:
        return f"torch.where({x} > 0, {dy.tensor}, 0)"
    return f"aten.threshold_backward({dy}, {x}, 0)"


@op("Tensor[t:float, s, d], Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=2, non_differentiable=FIRST_ORDER_ONLY)
def LeakyReluGrad(dy: Array, x: Array, *, alpha: float = 0.01) -> Array:
    """`dy` where `x` is at least 0, else `alpha * dy`.

    %dx = LeakyReluGrad(%dy: Tensor[Float32, (2, 3), 1], %x: Tensor[Float32, (2, 3), 1])
    """
    return np.where(x < 0, alpha * wide(dy), wide(dy)).astype(dy.dtype)


@LeakyReluGrad.torch(fresh=True)
def _(write: Write, dy: Expr, x: Expr, *, alpha: float) -> str:
    return write.narrowed(f"torch.where({x} < 0, {write.number(alpha)} * {dy.wide}, {dy.wide})", dy.dtype)


@op("Tensor[t:float, s, d], Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=4, non_differentiable=FIRST_ORDER_ONLY)
def EluGrad(dy: Array, x: Array, *, alpha: float = 1.0) -> Array:
    """`dy` where `x` is at least 0, else `alpha * exp(x) * dy`.

    %dx = EluGrad(%dy: Tensor[Float32, (2, 3), 1], %x: Tensor[Float32, (2, 3), 1])
    """
    slope = np.where(x < 0, alpha * np.exp(np.minimum(wide(x), 0)), 1)
    return (wide(dy) * slope).astype(dy.dtype, copy=False)


@EluGrad.torch(fresh=True)
def _(write: Write, dy: Expr, x: Expr, *, alpha: float) -> str:
    slope = f"torch.where({x} < 0, {write.number(alpha)} * torch.exp(torch.clamp({x.wide}, max=0)), 1.0)"
    return write.narrowed(f"{dy.wide} * {slope}", dy.dtype)


@op("Tensor[t:float, s, d], Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=3, non_differentiable=FIRST_ORDER_ONLY)
def SigmoidGrad(dy: Array, y: Array) -> Array:
    """`dy * y * (1 - y)`, from the result `y` of `Sigmoid`.

    %dx = SigmoidGrad(%dy: Tensor[Float32, (2, 3), 1], %y: Tensor[Float32, (2, 3), 1])
    """
    return (wide(dy) * wide(y) * (1 - wide(y))).astype(dy.dtype, copy=False)


SigmoidGrad.torch("aten.sigmoid_backward({dy.tensor}, {y})", fresh=True)


@op("Tensor[t:float, s, d], Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=3, non_differentiable=FIRST_ORDER_ONLY)
def TanhGrad(dy: Array, y: Array) -> Array:
    """`dy * (1 - y * y)`, from the result `y` of `Tanh`.

    %dx = TanhGrad(%dy: Tensor[Float32, (2, 3), 1], %y: Tensor[Float32, (2, 3), 1])
    """
    return (wide(dy) * (1 - wide(y) ** 2)).astype(dy.dtype, copy=False)


TanhGrad.torch("aten.tanh_backward({dy.tensor}, {y})", fresh=True)


@op(
    "Tensor[t:float, s, d], Tensor[t:float, s, d] -> Tensor[t, s, d]",
    flops=lambda elements, approximate, **_: (17 if approximate == "tanh" else 10) * elements,
    non_differentiable=FIRST_ORDER_ONLY,
)
def GeluGrad(dy: Array, x: Array, *, approximate: str = "none") -> Array:
    """`dy` times the derivative of `Gelu` at `x`.

    %dx = GeluGrad(%dy: Tensor[Float32, (2, 3), 1], %x: Tensor[Float32, (2, 3), 1])
    %dx = GeluGrad[approximate = "tanh"](%dy: Tensor[Float32, (2, 3), 1], %x: Tensor[Float32, (2, 3), 1])
    """
    wide_x = wide(x)
    if approximate == "tanh":
        scale = math.sqrt(2 / math.pi)
        tanh = np.tanh(scale * (wide_x + 0.044715 * wide_x**3))
        inner = scale * (1 + 3 * 0.044715 * wide_x**2)
        slope = 0.5 * (1 + tanh) + 0.5 * wide_x * (1 - tanh**2) * inner
    else:
        below = 0.5 * (1 + error_function(wide_x / math.sqrt(2)))
        slope = below + wide_x * np.exp(-0.5 * wide_x**2) / math.sqrt(2 * math.pi)
    return (wide(dy) * slope).astype(dy.dtype, copy=False)


@GeluGrad.checks
def _(dy: TensorType, x: TensorType, *, approximate: str) -> None:
    check_approximation("GeluGrad", approximate)


GeluGrad.torch("aten.gelu_backward({dy.tensor}, {x}, approximate={approximate})", fresh=True)


@op("Tensor[t:float, s, d], Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=10, non_differentiable=FIRST_ORDER_ONLY)
def SwishGrad(dy: Array, x: Array, *, alpha: float = 1.0) -> Array:
    """`dy` times the derivative of `Swish` at `x`, `s + alpha * x * s * (1 - s)` where `s = Sigmoid(alpha * x)`.

    %dx = SwishGrad(%dy: Tensor[Float32, (2, 3), 1], %x: Tensor[Float32, (2, 3), 1])
    """
    scaled = alpha * wide(x)
    sigmoid = logistic(scaled)
    return (wide(dy) * sigmoid * (1 + scaled * (1 - sigmoid))).astype(dy.dtype, copy=False)


@SwishGrad.torch(fresh=True)
def _(write: Write, dy: Expr, x: Expr, *, alpha: float) -> str:
    if alpha == 1:
        return f"aten.silu_backward({dy.tensor}, {x})"
    return f"{write.kernel('swish_gradient')}({dy}, {x}, {write.number(alpha)})"


@op(
    "Tensor[t:float, (*a, n@axis, *b), d], Tensor[t:float, (*a, n@axis, *b), d] -> Tensor[t, (*a, n, *b), d]",
    flops=4,
    non_differentiable=FIRST_ORDER_ONLY,
)
def SoftmaxGrad(dy: Array, y: Array, *, axis: int = -1) -> Array:
    """`y * (dy - sum(y * dy))`, from the result `y` of `Softmax`; the sum is along `axis`.

    %dx = SoftmaxGrad(%dy: Tensor[Float32, (2, 3), 1], %y: Tensor[Float32, (2, 3), 1])
    """
    wide_dy, wide_y = wide(dy), wide(y)
    expected = np.sum(wide_y * wide_dy, axis=axis, keepdims=True)
    return (wide_y * (wide_dy - expected)).astype(dy.dtype, copy=False)


@SoftmaxGrad.torch(fresh=True)
def _(write: Write, dy: Expr, y: Expr, *, axis: int) -> str:
    if dy.narrow or not y.rank:
        return f"{write.kernel('softmax_gradient')}({dy}, {y}, {axis})"
    return f"aten._softmax_backward_data({dy}, {y}, {axis}, {write.dtype(y.dtype)})"


@op(
    "Tensor[t:float, (*a, n@axis, *b), d], Tensor[t:float, (*a, n@axis, *b), d] -> Tensor[t, (*a, n, *b), d]",
    flops=4,
    non_differentiable=FIRST_ORDER_ONLY,
)
def LogSoftmaxGrad(dy: Array, y: Array, *, axis: int = -1) -> Array:
    """`dy - exp(y) * sum(dy)`, from the result `y` of `LogSoftmax`; the sum is along `axis`.

    %dx = LogSoftmaxGrad(%dy: Tensor[Float32, (2, 3), 1], %y: Tensor[Float32, (2, 3), 1])
    """
    wide_dy = wide(dy)
    total = np.sum(wide_dy, axis=axis, keepdims=True)
    return (wide_dy - np.exp(wide(y)) * total).astype(dy.dtype, copy=False)


@LogSoftmaxGrad.torch(fresh=True)
def _(write: Write, dy: Expr, y: Expr, *, axis: int) -> str:
    if dy.narrow or not y.rank:
        return f"{write.kernel('log_softmax_gradient')}({dy}, {y}, {axis})"
    return f"aten._log_softmax_backward_data({dy}, {y}, {axis}, {write.dtype(y.dtype)})"


@op(
    "Tensor[t:float, (*a, n@axis, *b), d], Tensor[t:float, (*a, n@axis, *b), d], Tensor[t:float, (n, *b), d]"
    " -> Tensor[t, (*a, n, *b), d], Tensor[t, (n, *b), d], Tensor[t, (n, *b), d]",
    flops=lambda a=1, n=1, b=1, **_: 17 * a * n * b,
    whole=("b",),
    non_differentiable=FIRST_ORDER_ONLY,
)
def LayerNormalizationGrad(
    dy: Array, x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5
) -> tuple[Array, Array, Array]:
    """The gradients of `LayerNormalization` with respect to `x`, its scale and its bias.

    %dx, %dscale, %db = LayerNormalizationGrad(%dy: Tensor[Float32, (2, 3), 1], %x: Tensor[Float32, (2, 3), 1], %scale: Tensor[Float32, (3,), 1])
    """  # noqa: E501 - an example is one line
    first = axis % x.ndim
    normalised, leading = tuple(range(first, x.ndim)), tuple(range(first))
    wide_dy, wide_x = wide(dy), wide(x)
    centred = wide_x - mean(wide_x, normalised)
    inverse = 1 / np.sqrt(mean(centred**2, normalised) + epsilon)
    unit = centred * inverse
    dunit = wide_dy * wide(scale)
    along = mean(dunit * unit, normalised)
    dx = inverse * (dunit - mean(dunit, normalised) - unit * along)
    dscale, db = np.sum(wide_dy * unit, axis=leading), np.sum(wide_dy, axis=leading)
    return (
        dx.astype(x.dtype, copy=False),
        dscale.astype(x.dtype, copy=False),
        db.astype(x.dtype, copy=False),
    )


@LayerNormalizationGrad.torch(fresh=True)
def _(write: Write, dy: Expr, x: Expr, scale: Expr, *, axis: int, epsilon: float) -> Unpacked:
    shape = write.items(x.shape[axis % x.rank :])
    return write.unpacked(
        f"{write.kernel('layer_norm_gradient')}({dy}, {x}, {scale}, {shape}, {write.number(epsilon)})"
    )


@op(
    "Tensor[t:float, (*a, n@axis, *b), d], Tensor[t:float, (*a, n@axis, *b), d], Tensor[t:float, (n, *b), d]"
    " -> Tensor[t, (*a, n, *b), d], Tensor[t, (n, *b), d]",
    flops=lambda a=1, n=1, b=1, **_: 12 * a * n * b,
    whole=("b",),
    non_differentiable=FIRST_ORDER_ONLY,
)
def RMSNormalizationGrad(
    dy: Array, x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5
) -> tuple[Array, Array]:
    """The gradients of `RMSNormalization` with respect to `x` and its scale.

    %dx, %dscale = RMSNormalizationGrad(%dy: Tensor[Float32, (2, 3), 1], %x: Tensor[Float32, (2, 3), 1], %scale: Tensor[Float32, (3,), 1])
    """  # noqa: E501 - an example is one line
    first = axis % x.ndim
    normalised, leading = tuple(range(first, x.ndim)), tuple(range(first))
    wide_dy, wide_x = wide(dy), wide(x)
    inverse = 1 / np.sqrt(mean(wide_x**2, normalised) + epsilon)
    unit = wide_x * inverse
    dunit = wide_dy * wide(scale)
    along = mean(dunit * unit, normalised)
    dx, dscale = inverse * (dunit - unit * along), np.sum(wide_dy * unit, axis=leading)
    return dx.astype(x.dtype, copy=False), dscale.astype(x.dtype, copy=False)


@RMSNormalizationGrad.torch(fresh=True)
def _(write: Write, dy: Expr, x: Expr, scale: Expr, *, axis: int, epsilon: float) -> Unpacked:
    return write.unpacked(
        f"{write.kernel('rms_norm_gradient')}({dy}, {x}, {scale}, {axis % x.rank}, {write.number(epsilon)})"
    )


@op(
    "Tensor[t:number, _, d], Tensor[i:int, s, d], Tensor[Int64, (r,), host] -> Tensor[t, _, d]",
    flops=lambda inputs, s=1, r=0, **_: inputs - s - r,
    non_differentiable=FIRST_ORDER_ONLY,
)
def GatherGrad(dy: Array, indices: Array, shape: Array, *, axis: int = 0) -> Array:
    """A tensor of `shape`: at each index along `axis`, the sum of the slices of `dy` that were gathered from it.

    `shape` is that of the first operand of `Gather`.

    %dx = GatherGrad[axis = 0](%dy: Tensor[Float32, (2, 3), 1], %indices: Tensor[Int64, (2,), 1], [5, 3])
    """
    first = axis % len(shape)
    wide_dy = wide(dy)
    total = np.zeros(shape.tolist(), wide_dy.dtype)
    size = total.shape[first]
    if np.any((indices < -size) | (indices >= size)):
        message = f"`GatherGrad` expected indices from {-size} to {size - 1}"
        raise Reject(codes.BAD_VALUE, f"{message}, found {indices.min()} to {indices.max()}", "indices")
    gathered = tuple(range(first, first + indices.ndim))
    np.add.at(np.moveaxis(total, first, 0), indices, np.moveaxis(wide_dy, gathered, tuple(range(indices.ndim))))
    return total.astype(dy.dtype, copy=False)


@GatherGrad.shapes
def _(dy: TensorType, indices: TensorType, shape: Operand, *, axis: int) -> Shape | None:
    given = _as_shape("GatherGrad", shape)
    rank = len(given) if given is not None else _rank(dy, indices)
    if rank is None:
        return None
    first = normal_axis(axis, rank, "GatherGrad", "axis")
    if dy.shape is None or indices.shape is None:
        return given
    behind = first + len(indices.shape)
    around: Shape = (*dy.shape[:first], None, *dy.shape[behind:])
    known = given or (None,) * rank
    gathered = dy.shape[first:behind]
    if len(around) != rank or not (_agree(around, known) and _agree(gathered, indices.shape)):
        expected = types.show_shape((*known[:first], *indices.shape, *known[first + 1 :]))
        message = f"`GatherGrad` expected a gradient of shape {expected}, found {types.show_shape(dy.shape)}"
        raise Reject(codes.SHAPE_MISMATCH, message, "dy")
    return tuple(n if m is None else m for m, n in zip(known, around, strict=True))


@GatherGrad.sharding
def _(dy: TensorType, indices: Operand, shape: Operand, *, results: Sequence[Shape | None], axis: int) -> Layout:
    rank, depth = len(results[0] or ()), len(indices.shape or ())
    first = axis % max(rank, 1)
    before, behind = [f"a{k}" for k in range(first)], [f"b{k}" for k in range(rank - first - 1)]
    length = None if isinstance(indices, Dense) else "n"  # an operand indexed by constants must be replicated
    positions = tuple(f"s{k}" for k in range(depth))
    return Layout(((*before, *positions, *behind), positions, ()), ((*before, length, *behind),), stated=2)


@GatherGrad.pieces
def _(p: Pieces, dy: Piece, indices: Piece, shape: Piece, *, axis: int) -> list[Piece]:
    # Partitioning adds up `dy`, of which there are as a rule fewer rows than of the table.
    return p.linear(0, "GatherGrad", dy, indices, shape, axis=axis)


@GatherGrad.torch(fresh=True)
def _(write: Write, dy: Expr, indices: Expr, shape: Expr, *, axis: int) -> str:
    sizes = write.results[0].shape or ()
    return f"{write.kernel('gather_gradient')}({dy}, {indices.tensor}, {write.items(sizes)}, {axis % len(sizes)})"


def _rank(dy: TensorType, indices: TensorType) -> int | None:
    """The rank of the tensor that was gathered from."""
    if dy.shape is None or indices.shape is None:
        return None
    return max(len(dy.shape) - len(indices.shape) + 1, 0)


@op(
    "Tensor[t:number, _, d], Tensor[Int64, (r,), host] -> Tensor[t, _, d]",
    flops=lambda inputs=0, elements=0, r=0, **_: max(inputs - r - elements, 0),
    linear=("x",),
    non_differentiable=FIRST_ORDER_ONLY,
)
def ReduceTo(x: Array, shape: Array) -> Array:
    """`x` summed to `shape`, which broadcasts to the shape of `x`: the gradient of broadcasting.

    %y = ReduceTo(%x: Tensor[Float32, (4, 2, 3), 1], [2, 1])
    """
    extra = x.ndim - len(shape)
    broadcast = [extra + i for i, n in enumerate(shape.tolist()) if n == 1 and x.shape[extra + i] != 1]
    if not extra and not broadcast:
        return x
    total = np.sum(wide(x), axis=(*range(extra), *broadcast), keepdims=True)
    return total.reshape(shape.tolist()).astype(x.dtype, copy=False)


@ReduceTo.shapes
def _(x: TensorType, shape: Operand) -> Shape | None:
    given = _as_shape("ReduceTo", shape)
    if given is None or x.shape is None:
        return given
    extra = len(x.shape) - len(given)
    if extra < 0 or not all(m == 1 or _may_be(m, n) for m, n in zip(given, x.shape[extra:], strict=True)):
        expected = f"a shape that broadcasts to {types.show_shape(x.shape)}"
        message = f"`ReduceTo` expected {expected}, found {types.show_shape(given)}"
        raise Reject(codes.SHAPE_MISMATCH, message, "shape")
    return tuple(1 if n == 1 else m for m, n in zip(given, x.shape[extra:], strict=True))


@ReduceTo.sharding
def _(x: TensorType, shape: Operand, *, results: Sequence[Shape | None]) -> Layout:
    (letters,) = elementwise([x.shape])
    given = results[0] or ()
    own = zip(letters[len(letters) - len(given) :], given, (x.shape or ())[len(letters) - len(given) :], strict=True)
    return Layout((letters, ()), (tuple(None if n == 1 != m else letter for letter, n, m in own),), stated=1)


@ReduceTo.torch
def _(write: Write, x: Expr, shape: Expr) -> str:
    sizes = write.results[0].shape or ()
    cast = "" if x.floating else f".to({write.dtype(x.dtype)})"
    return f"{x.tensor}.sum_to_size({write.items(sizes)}){cast}"


def _as_shape(name: str, shape: Operand) -> Shape | None:
    """The shape in a host operand; None or unknown dimensions where it is not known."""
    sizes = known_dims(shape)
    if sizes is None:
        rank = length(shape)
        return (None,) * rank if isinstance(rank, int) else None
    for size in sizes:
        if isinstance(size, int) and size < 0:
            raise Reject(codes.BAD_DIMENSION, f"`{name}` expected dimensions from 0, found {size}", "shape")
    return sizes


def _agree(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(map(_may_be, a, b))


def _may_be(m: Dim, n: Dim) -> bool:
    """Whether two sizes may be equal; named ones always may."""
    return m == n or not (isinstance(m, int) and isinstance(n, int))
