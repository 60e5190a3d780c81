"""Gradient ops of ONNX's ops for images: convolutions, pooling, normalisation of channels. Not in ONNX.

As in `gradient`, the operands of `XGrad(dy, ...)` are those operands of `X` that are cheapest to keep as residuals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Arg, Dim, Literal, Shape, TensorType, types
from distir.ops.core import op
from distir.ops.layout import Layout, Letters, Parts
from distir.ops.numeric import Array, np
from distir.ops.precision import mean, wide
from distir.ops.resources import MatrixProduct
from distir.ops.specs import FIRST_ORDER_ONLY
from distir.ops.unify import Reject
from distir.ops.windows import check_window_count, dimensions, movement, padded, pooled_with_indices, rounded_up

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, Unpacked, Write


Shapes = list[tuple[int, ...]]


def _weight_products(shapes: Shapes, elements: int, **_: Any) -> int:
    """Every weight is multiplied at every position of every example."""
    return 2 * elements * shapes[0][0] * math.prod(shapes[0][2:])


def _weight_product(shapes: Shapes, elements: int, group: int = 1, **_: Any) -> MatrixProduct:
    """The implicit product: summed over the positions of all examples."""
    channels = shapes[0][1]
    return MatrixProduct(channels // group, elements // channels, shapes[0][0] * math.prod(shapes[0][2:]), group)


def _window_comparisons(shapes: Shapes, kernel_shape: tuple[int, ...], **_: Any) -> int:
    """The comparisons of each window again, and an addition of its gradient."""
    return math.prod(shapes[0]) * (math.prod(kernel_shape) + 1)


def _normalisation(shapes: Shapes, **_: Any) -> int:
    return 17 * math.prod(shapes[0])


@op(
    "Tensor[t:float, (b, m, *o), d], Tensor[t:float, (b, c, *s), d] -> Tensor[t, _, d]",
    flops=_weight_products,
    contraction=_weight_product,
    linear=("dy", "x"),
    non_differentiable=FIRST_ORDER_ONLY,
)
def ConvWeightGrad(
    dy: Array,
    x: Array,
    *,
    kernel_shape: tuple[int, ...],
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """The gradient of `Conv` with respect to its weights, which are (channels of `dy`, channels of `x` / group, kernel).

    %dw = ConvWeightGrad[kernel_shape = [3], pads = [1, 1]](%dy: Tensor[Float32, (2, 4, 6), 1], %x: Tensor[Float32, (2, 3, 6), 1])
    %dw = ConvWeightGrad[kernel_shape = [2], group = 3, strides = [2]](%dy: Tensor[Float32, (2, 6, 3), 1], %x: Tensor[Float32, (2, 3, 6), 1])
    """  # noqa: E501 - an example is one line
    count = len(kernel_shape)
    steps, gaps, around = strides or (1,) * count, dilations or (1,) * count, pads or (0,) * 2 * count
    batch, results = x.shape[0], dy.shape[2:]
    padded = np.pad(wide(x), [(0, 0), (0, 0), *zip(around[:count], around[count:], strict=True)])
    slopes = wide(dy).reshape(batch, group, dy.shape[1] // group, -1)
    found = np.zeros((dy.shape[1], x.shape[1] // group, *kernel_shape), padded.dtype)
    for offsets in itertools.product(*map(range, kernel_shape)):
        seen = [
            slice(k * gap, k * gap + (n - 1) * step + 1, step)
            for k, gap, n, step in zip(offsets, gaps, results, steps, strict=True)
        ]
        patch = padded[(slice(None), slice(None), *seen)].reshape(batch, group, x.shape[1] // group, -1)
        # A sum over the batch of products over all places: (group, m, places) and (group, places, c).
        product = np.sum(np.matmul(slopes, np.swapaxes(patch, 2, 3)), axis=0)
        found[(slice(None), slice(None), *offsets)] = product.reshape(found.shape[:2])
    return found.astype(x.dtype, copy=False)


@ConvWeightGrad.shapes
def _(
    dy: TensorType,
    x: TensorType,
    *,
    kernel_shape: tuple[int, ...],
    group: int,
    strides: tuple[int, ...] | None = None,
    dilations: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
) -> Shape:
    rank = len(kernel_shape)
    for described in (dy, x):
        if described.shape is not None and len(described.shape) != rank + 2:
            message = f"`ConvWeightGrad` expected {rank + 2} dimensions, found {types.show_shape(described.shape)}"
            raise Reject(codes.SHAPE_MISMATCH, message, "kernel_shape")
    for name, given, length in (("strides", strides, rank), ("dilations", dilations, rank), ("pads", pads, 2 * rank)):
        if given is not None and len(given) != length:
            message = f"`ConvWeightGrad` expected {length} numbers as `{name}`, found {len(given)}"
            raise Reject(codes.BAD_VALUE, message, name)
    channels: tuple[Dim, Dim] = (dy.shape[1] if dy.shape else None, x.shape[1] if x.shape else None)
    if group < 1 or any(isinstance(n, int) and n % group for n in channels):
        message = f"`ConvWeightGrad` expected a divisor of {channels[0]} and {channels[1]} channels, found {group}"
        raise Reject(codes.BAD_VALUE, message, "group")
    if dy.shape is not None and x.shape is not None:
        check_window_count("ConvWeightGrad", dy.shape, x.shape, kernel_shape, strides, dilations, pads)
    given = channels[1]
    return (channels[0], given // group if isinstance(given, int) else given if group == 1 else None, *kernel_shape)


@ConvWeightGrad.sharding
def _(dy: TensorType, x: TensorType, *, results: Sequence[Shape | None], group: int, **_: Any) -> Layout:
    """By the batch, which is summed over; by channels, all groups together where there are several."""
    rank = len(dy.shape or ())
    inner: Letters = (None,) * max(rank - 2, 0)
    if group == 1:
        return Layout((("b", "m", *inner), ("b", "c", *inner)), (("m", "c", *inner),))
    letters = ("b", "g", *inner)
    alone = all(t.shape is not None and t.shape[1] == group for t in (dy, x))
    contiguous = frozenset[str]() if alone else frozenset("g")
    return Layout((letters, letters), (("g", None, *inner),), divided={"g": ("group",)}, contiguous=contiguous)


@ConvWeightGrad.torch(fresh=True)
def _(write: Write, dy: Expr, x: Expr, *, kernel_shape: tuple[int, ...], group: int, **attrs: Any) -> str:
    dimensions(write, x, "ConvWeightGrad")
    strides, dilations, pads = movement(x, attrs, kernel_shape)
    shape = write.items((dy.shape[1], x.shape[1] // group, *kernel_shape))
    text, padding = padded(write, str(x), pads, 0.0)
    given = f"{write.items(strides)}, {write.items(padding)}, {write.items(dilations)}, {group}"
    return f"{write.kernel('conv_weight_gradient')}({dy}, {text}, {shape}, {given})"


@op(
    "Tensor[t:float, (b, c, *o), d], Tensor[t:float, (b, c, *s), d] -> Tensor[t, (b, c, *s), d]",
    flops=_window_comparisons,
    whole=("o", "s"),
    non_differentiable=FIRST_ORDER_ONLY,
)
def MaxPoolGrad(
    dy: Array,
    x: Array,
    *,
    kernel_shape: tuple[int, ...],
    auto_pad: str = "NOTSET",
    ceil_mode: bool = False,
    dilations: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """The gradient of `MaxPool`: each element of `dy` goes to the greatest element of its window, the first of equal ones.

    %dx = MaxPoolGrad[kernel_shape = [2, 2], strides = [2, 2]](%dy: Tensor[Float32, (2, 3, 2, 2), 1], %x: Tensor[Float32, (2, 3, 4, 4), 1])
    """  # noqa: E501 - an example is one line
    windows = {"kernel_shape": kernel_shape, "auto_pad": auto_pad, "ceil_mode": ceil_mode}
    windows |= {"dilations": dilations, "pads": pads, "strides": strides}
    _, places = pooled_with_indices(x, dy.shape, windows)
    wide_dy = wide(dy)
    dx = np.zeros(x.size, wide_dy.dtype)
    np.add.at(dx, places.reshape(-1), wide_dy.reshape(-1))
    return dx.reshape(x.shape).astype(x.dtype, copy=False)


@MaxPoolGrad.checks
def _(
    dy: TensorType,
    x: TensorType,
    *,
    kernel_shape: tuple[int, ...],
    auto_pad: str,
    ceil_mode: bool,
    strides: tuple[int, ...] | None = None,
    dilations: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
) -> None:
    if x.shape is not None and len(x.shape) != len(kernel_shape) + 2:
        message = f"`MaxPoolGrad` expected {len(kernel_shape) + 2} dimensions, found {types.show_shape(x.shape)}"
        raise Reject(codes.SHAPE_MISMATCH, message, "kernel_shape")
    if dy.shape is not None and x.shape is not None and auto_pad == "NOTSET":
        more = 1 if ceil_mode else 0
        check_window_count("MaxPoolGrad", dy.shape, x.shape, kernel_shape, strides, dilations, pads, more)


@MaxPoolGrad.torch(fresh=True)
def _(write: Write, dy: Expr, x: Expr, *, kernel_shape: tuple[int, ...], **attrs: Any) -> str:
    dimensions(write, x, "MaxPoolGrad")
    strides, dilations, pads = movement(x, attrs, kernel_shape)
    pads = rounded_up(x, dy.type, pads, strides, dilations, kernel_shape) if attrs.get("ceil_mode") else pads
    windows = f"{write.items(kernel_shape)}, {write.items(strides)}, {write.items(dilations)}, {write.items(pads)}"
    return f"{write.kernel('max_pool_gradient')}({dy}, {x}, {windows})"


_CHANNELS = "Tensor[t:float, (b, c, *s), d], Tensor[t:float, (b, c, *s), d], Tensor[t:float, (c,), d]"

_THREE = "Tensor[t, (b, c, *s), d], Tensor[t, (c,), d], Tensor[t, (c,), d]"


@op(f"{_CHANNELS} -> {_THREE}", flops=_normalisation, non_differentiable=FIRST_ORDER_ONLY)
def GroupNormalizationGrad(
    dy: Array, x: Array, scale: Array, *, num_groups: int, epsilon: float = 1e-5
) -> tuple[Array, Array, Array]:
    """The gradients of `GroupNormalization` with respect to `x`, its scale and its bias.

    With one group per channel, it is the gradient of `InstanceNormalization`.

    %dx, %dscale, %db = GroupNormalizationGrad[num_groups = 2](%dy: Tensor[Float32, (2, 4, 3), 1], %x: Tensor[Float32, (2, 4, 3), 1], %scale: Tensor[Float32, (4,), 1])
    """  # noqa: E501 - an example is one line
    shape = (x.shape[0], num_groups, -1)
    return _normalised_back(dy, x, scale, epsilon, lambda value: mean(value, (2,)), shape)


@GroupNormalizationGrad.checks
def _(dy: TensorType, x: TensorType, scale: TensorType, *, num_groups: int, epsilon: float) -> None:
    channels = x.shape[1] if x.shape is not None and len(x.shape) > 1 else None
    if num_groups < 1 or (isinstance(channels, int) and channels % num_groups):
        message = f"`GroupNormalizationGrad` expected a divisor of {channels} channels, found {num_groups}"
        raise Reject(codes.BAD_VALUE, message, "num_groups")


@GroupNormalizationGrad.sharding
def _(dy: TensorType, x: TensorType, scale: TensorType, *, results: Sequence[Shape | None], **_: Any) -> Layout:
    """By the batch, over which the gradients of the weights are sums; by channels, as whole groups."""
    letters: Letters = ("b", "c", *(None,) * max(len(x.shape or ()) - 2, 0))
    results_letters = (letters, ("c",), ("c",))
    groups = {"c": ("num_groups",)}
    return Layout((letters, letters, ("c",)), results_letters, divided=groups, contiguous=frozenset("c"))


@GroupNormalizationGrad.torch(fresh=True)
def _(write: Write, dy: Expr, x: Expr, scale: Expr, *, num_groups: int, epsilon: float) -> Unpacked:
    return write.unpacked(
        f"{write.kernel('group_norm_gradient')}({dy}, {x}, {scale}, {num_groups}, {write.number(epsilon)})"
    )


@op(f"{_CHANNELS} -> {_THREE}", flops=_normalisation, non_differentiable=FIRST_ORDER_ONLY)
def BatchNormalizationGrad(dy: Array, x: Array, scale: Array, *, epsilon: float = 1e-5) -> tuple[Array, Array, Array]:
    """The gradients of `BatchNormalization` in training with respect to `x`, its scale and its bias.

    %dx, %dscale, %db = BatchNormalizationGrad(%dy: Tensor[Float32, (2, 4, 3), 1], %x: Tensor[Float32, (2, 4, 3), 1], %scale: Tensor[Float32, (4,), 1])
    """  # noqa: E501 - an example is one line
    others = (0, *range(2, x.ndim))
    return _normalised_back(dy, x, scale, epsilon, lambda value: mean(value, others), x.shape)


@BatchNormalizationGrad.sharding
def _(dy: TensorType, x: TensorType, scale: TensorType, *, results: Sequence[Shape | None], **_: Any) -> Layout:
    """By channels; by the batch in other ops, as the statistics are over all of it."""
    letters: Letters = ("b", "c", *(None,) * max(len(x.shape or ()) - 2, 0))
    return Layout((letters, letters, ("c",)), (letters, ("c",), ("c",)), parted=frozenset({"b"}))


@BatchNormalizationGrad.parted
def _(w: Parts, dy: Arg, x: Arg, scale: Arg, *, epsilon: float) -> list[Arg]:
    """Each part by itself, with the statistics of all parts."""
    described = w.type(x)
    assert described.shape is not None
    rank = len(described.shape)
    others, behind = Literal((0, *range(2, rank))), Literal(tuple(range(1, rank - 1)))
    narrow = described.dtype is not None and described.dtype.bytes < DTYPES["Float32"].bytes

    def widened(value: Arg) -> Arg:
        return w("Cast", value, to=DTYPES["Float32"]) if narrow else value

    def narrowed(value: Arg) -> Arg:
        return w("Cast", value, to=described.dtype) if narrow and described.dtype is not None else value

    def averaged(value: Arg) -> Arg:
        return w("Mul", w.sum(w("ReduceMean", value, others)), Literal(1 / w.size))

    slope, values = widened(dy), widened(x)
    centred = w("Sub", values, averaged(values))
    deviation = w("Sqrt", w("Add", averaged(w("Mul", centred, centred)), Literal(epsilon)))
    unit = w("Div", centred, deviation)
    along, level = averaged(w("Mul", slope, unit)), averaged(slope)
    rest = w("Sub", w("Sub", slope, level), w("Mul", unit, along))
    factor = widened(scale) if rank < 3 else w("Unsqueeze", widened(scale), behind)
    dx = w("Mul", w("Div", rest, deviation), factor)
    dscale = w("ReduceSum", w("Mul", slope, unit), others, keepdims=False)
    return [narrowed(dx), narrowed(dscale), narrowed(w("ReduceSum", slope, others, keepdims=False))]


@BatchNormalizationGrad.torch(fresh=True)
def _(write: Write, dy: Expr, x: Expr, scale: Expr, *, epsilon: float) -> Unpacked:
    return write.unpacked(f"{write.kernel('batch_norm_gradient')}({dy}, {x}, {scale}, {write.number(epsilon)})")


def _normalised_back(
    dy: Array, x: Array, scale: Array, epsilon: float, average: Callable[[Array], Array], grouped: tuple[int, ...]
) -> tuple[Array, Array, Array]:
    """The gradients of a normalisation. `average`: the mean of a value of shape `grouped`, with dimensions of 1."""
    others = (0, *range(2, x.ndim))
    wide_dy, values = wide(dy), wide(x).reshape(grouped)
    centred = values - average(values)
    inverse = 1 / np.sqrt(average(centred**2) + epsilon)
    unit = centred * inverse
    dunit = (wide_dy * wide(scale).reshape(-1, *(1,) * (x.ndim - 2))).reshape(grouped)
    dx = (inverse * (dunit - average(dunit) - unit * average(dunit * unit))).reshape(x.shape)
    dscale, db = np.sum(wide_dy * unit.reshape(x.shape), axis=others), np.sum(wide_dy, axis=others)
    return dx.astype(x.dtype, copy=False), dscale.astype(x.dtype, copy=False), db.astype(x.dtype, copy=False)
