"""Reductions along axes: sums, means, extremes, norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import Arg, Literal, Shape, TensorType, dims
from distir.ops.core import Op, op
from distir.ops.elementwise import truncated_quotient
from distir.ops.host import Operand, distinct_axes, known_ints, length
from distir.ops.layout import Layout
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write


Along = tuple[int, ...]


def _axes(data: Expr, axes: Expr | None, noop: bool) -> Along:
    """The axes that are reduced, all non-negative."""
    named = () if axes is None else axes.ints("which axes are reduced")
    if not named:
        return () if noop else tuple(range(data.rank))
    return tuple(axis % data.rank for axis in named)


def _dims(write: Write, along: Along, keepdims: bool) -> str:
    return f"{write.items(along)}, keepdim={keepdims}"


def _along_axes(nothing: str) -> Callable[[Callable[[Write, Expr, Along, bool], str]], Callable[..., str]]:
    """A torch form from one for a non-empty list of axes. `nothing`: the expression for an empty list."""

    def decorate(reduced: Callable[[Write, Expr, Along, bool], str]) -> Callable[..., str]:
        def form(
            write: Write, data: Expr, axes: Expr | None = None, *, keepdims: bool, noop_with_empty_axes: bool
        ) -> str:
            along = _axes(data, axes, noop_with_empty_axes)
            return reduced(write, data, along, keepdims) if along else nothing.format(data=data)

        return form

    return decorate


def _extreme_form(function: str) -> Callable[[Write, Expr, Along, bool], str]:
    def form(write: Write, data: Expr, along: Along, keepdims: bool) -> str:
        if not data.elements:
            return f"{write.kernel('extreme_of_none')}({data}, {write.items(along)}, {keepdims}, {function!r})"
        return f"torch.{function}({data}, {_dims(write, along, keepdims)})"

    return form


@op(
    "Tensor[t:number, s, d], Optional[Tensor[Int64, (r,), host]] -> Tensor[t, _, d]",
    flops=lambda s, **_: s,
    linear=("data",),
)
def ReduceSum(
    data: Array, axes: Array | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Array:
    """The sum along `axes`; if omitted, along all axes, or along none if `noop_with_empty_axes`. ONNX `ReduceSum`.

    %y = ReduceSum(%x: Tensor[Float32, (2, 3), 1], [1])
    %y = ReduceSum[keepdims = false](%x: Tensor[Float32, (2, 3), 1])
    """
    return _sum(data, _along(data, axes, noop_with_empty_axes), keepdims).astype(data.dtype, copy=False)


@ReduceSum.grad
def _(g: Backward) -> Gradients:
    return [_spread(g, _with_ones(g, g.dy)), None]


@ReduceSum.torch(fresh=True)
@_along_axes("{data}.clone()")
def _(write: Write, data: Expr, along: Along, keepdims: bool) -> str:
    cast = "" if data.floating else f", dtype={write.dtype(data.dtype)}"
    return f"torch.sum({data}, {_dims(write, along, keepdims)}{cast})"


@op(
    "Tensor[t:number, s, d], Optional[Tensor[Int64, (r,), host]] -> Tensor[t, _, d]",
    flops=lambda s, **_: s,
    linear=("data",),
)
def ReduceMean(
    data: Array, axes: Array | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Array:
    """The mean along `axes`, of integers rounded towards zero. ONNX `ReduceMean`.

    %y = ReduceMean(%x: Tensor[Float32, (2, 3), 1], [-1])
    """
    along = _along(data, axes, noop_with_empty_axes)
    summed = np.asarray(_sum(data if data.dtype.kind not in "iu" else _widest(data), along, keepdims))
    count = np.asarray(_count(data, along), summed.dtype)
    mean = truncated_quotient(summed, count) if data.dtype.kind in "iu" else summed / count
    return mean.astype(data.dtype, copy=False)


@ReduceMean.grad
def _(g: Backward) -> Gradients:
    count = _share_count(g)
    if isinstance(count, int):
        share: Any = 1 / count if count else 0.0
        return [_spread(g, _with_ones(g, g("Mul", g.dy, share))), None]
    count = g("Cast", g("Div", g("Size", g.x[0]), g("Size", g.y[0])), to=g.dtype(g.x[0]))
    return [_spread(g, _with_ones(g, g("Div", g.dy, count))), None]


def _share_count(g: Backward) -> object:
    """The number of elements per element of the result, from the sizes of the reduced axes alone."""
    everything = _everything(g)
    described = g.type(g.x[0])
    shape = described.shape if isinstance(described, TensorType) else None
    axes: Sequence[int] | None = () if everything is None else range(len(shape or ()))
    if everything is False:
        axes = g.ints(g.x[1])
    return None if shape is None or axes is None else dims.product(tuple(shape[axis] for axis in axes))


@ReduceMean.torch(fresh=True)
@_along_axes("{data}.clone()")
def _(write: Write, data: Expr, along: Along, keepdims: bool) -> str:
    if data.floating:
        return f"torch.mean({data}, {_dims(write, along, keepdims)})"
    count = 1
    for axis in along:
        count *= data.shape[axis]
    total = f"torch.sum({data}, {_dims(write, along, keepdims)})"
    return f'torch.div({total}, {count}, rounding_mode="trunc").to({write.dtype(data.dtype)})'


@op("Tensor[t, s, d], Optional[Tensor[Int64, (r,), host]] -> Tensor[t, _, d]", flops=lambda s, **_: s)
def ReduceMax(
    data: Array, axes: Array | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Array:
    """The greatest element along `axes`; of no elements, the least of the element type. ONNX `ReduceMax`.

    Of Booleans, true is the greater.

    %y = ReduceMax(%x: Tensor[Float32, (2, 3), 1], [1])
    """
    least = _bounds(data)[0]
    along = _along(data, axes, noop_with_empty_axes)
    return np.max(wide(data), axis=along, keepdims=keepdims, initial=least).astype(data.dtype, copy=False)


@ReduceMax.pieces
def _(p: Pieces, data: Piece, axes: Piece | None = None, *, keepdims: bool, **_: Any) -> Any:
    along = () if axes is None else p.ints(axes)
    found = p.greatest(data, along[0]) if len(along) == 1 else None
    return NotImplemented if found is None else [found if keepdims else p.squeezed(found, along)]


ReduceMax.torch(_along_axes("{data}.clone()")(_extreme_form("amax")), fresh=True)


@op("Tensor[t, s, d], Optional[Tensor[Int64, (r,), host]] -> Tensor[t, _, d]", flops=lambda s, **_: s)
def ReduceMin(
    data: Array, axes: Array | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Array:
    """The least element along `axes`; of no elements, the greatest of the element type. ONNX `ReduceMin`.

    Of Booleans, false is the lesser.

    %y = ReduceMin(%x: Tensor[Float32, (2, 3), 1], [1])
    """
    greatest = _bounds(data)[1]
    along = _along(data, axes, noop_with_empty_axes)
    return np.min(wide(data), axis=along, keepdims=keepdims, initial=greatest).astype(data.dtype, copy=False)


@ReduceMax.grad
@ReduceMin.grad
def _(g: Backward) -> Gradients:
    """Elements that are equal to the result share its gradient."""
    mask = g("Cast", g("Equal", g.x[0], _with_ones(g, g.y[0])), to=g.dtype(g.x[0]))
    share = g("Div", _with_ones(g, g.dy), _again(g, "ReduceSum", mask))
    return [g("Mul", share, mask), None]


ReduceMin.torch(_along_axes("{data}.clone()")(_extreme_form("amin")), fresh=True)


@op(
    "Tensor[t:number, s, d], Optional[Tensor[Int64, (r,), host]] -> Tensor[t, _, d]",
    flops=lambda s, **_: s,
)
def ReduceProd(
    data: Array, axes: Array | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Array:
    """The product along `axes`. ONNX `ReduceProd`.

    %y = ReduceProd(%x: Tensor[Float32, (2, 3), 1], [1])
    """
    factors = wide(data)
    along = _along(data, axes, noop_with_empty_axes)
    return np.prod(factors, axis=along, keepdims=keepdims, dtype=factors.dtype).astype(data.dtype, copy=False)


@ReduceProd.grad
def _(g: Backward) -> Gradients:
    """The product of the other elements, without a division by zero where exactly one element is zero."""
    x = g.x[0]
    is_zero = g("Equal", x, 0.0)
    others = g("Where", is_zero, 1.0, x)
    product = _again(g, "ReduceProd", others)
    zeros = _again(g, "ReduceSum", g("Cast", is_zero, to=g.dtype(x)))
    at_zero = g("Where", g("Equal", zeros, 1.0), product, 0.0)
    regular = g("Where", g("Equal", zeros, 0.0), g("Div", product, others), 0.0)
    return [g("Mul", _with_ones(g, g.dy), g("Where", is_zero, at_zero, regular)), None]


@ReduceProd.torch(fresh=True)
@_along_axes("{data}.clone()")
def _(write: Write, data: Expr, along: Along, keepdims: bool) -> str:
    text = data.wide
    for axis in sorted(along, reverse=True):
        cast = "" if data.floating else f", dtype={write.dtype(data.dtype)}"
        text = f"torch.prod({text}, {axis}, keepdim={keepdims}{cast})"
    return write.narrowed(text, data.dtype)


@op(
    "Tensor[t:number, s, d], Optional[Tensor[Int64, (r,), host]] -> Tensor[t, _, d]",
    flops=lambda s, **_: 2 * s,
)
def ReduceSumSquare(
    data: Array, axes: Array | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Array:
    """The sum of the squares along `axes`. ONNX `ReduceSumSquare`.

    %y = ReduceSumSquare(%x: Tensor[Float32, (2, 3), 1], [1])
    """
    squares = np.square(wide(data))
    return _sum(squares, _along(data, axes, noop_with_empty_axes), keepdims).astype(data.dtype, copy=False)


@ReduceSumSquare.grad
def _(g: Backward) -> Gradients:
    return [g("Mul", g("Mul", _with_ones(g, g.dy), 2.0), g.x[0]), None]


@ReduceSumSquare.torch(fresh=True)
@_along_axes("torch.square({data})")
def _(write: Write, data: Expr, along: Along, keepdims: bool) -> str:
    cast = "" if data.floating else f", dtype={write.dtype(data.dtype)}"
    return write.narrowed(f"torch.sum(torch.square({data.wide}), {_dims(write, along, keepdims)}{cast})", data.dtype)


@op(
    "Tensor[t:float, s, d], Optional[Tensor[Int64, (r,), host]] -> Tensor[t, _, d]",
    flops=lambda s, elements, **_: 2 * s + elements,
)
def ReduceL2(
    data: Array, axes: Array | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Array:
    """The square root of the sum of the squares along `axes`. ONNX `ReduceL2`.

    %y = ReduceL2(%x: Tensor[Float32, (2, 3), 1], [1])
    """
    squares = np.square(wide(data))
    along = _along(data, axes, noop_with_empty_axes)
    return np.sqrt(_sum(squares, along, keepdims)).astype(data.dtype, copy=False)


@ReduceL2.grad
def _(g: Backward) -> Gradients:
    """The gradient is 0 at the origin, where the norm is not differentiable."""
    length = _with_ones(g, g.y[0])
    share = g("Where", g("Equal", length, 0.0), 0.0, g("Div", _with_ones(g, g.dy), length))
    return [g("Mul", share, g.x[0]), None]


@ReduceL2.torch(fresh=True)
@_along_axes("torch.abs({data})")
def _(write: Write, data: Expr, along: Along, keepdims: bool) -> str:
    return write.narrowed(f"torch.linalg.vector_norm({data.wide}, dim={_dims(write, along, keepdims)})", data.dtype)


@op(
    "Tensor[t:float, s, d], Optional[Tensor[Int64, (r,), host]] -> Tensor[t, _, d]",
    flops=lambda s, elements, **_: 4 * s + 2 * elements,
)
def ReduceLogSumExp(
    data: Array, axes: Array | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Array:
    """The logarithm of the sum of the exponentials along `axes`. ONNX `ReduceLogSumExp`.

    %y = ReduceLogSumExp(%x: Tensor[Float32, (2, 3), 1], [1])
    """
    wide_data, along = wide(data), _along(data, axes, noop_with_empty_axes)
    largest = np.max(wide_data, axis=along, keepdims=True, initial=-np.inf)
    largest = np.where(np.isfinite(largest), largest, 0)  # infinity minus infinity is NaN
    total = np.log(_sum(np.exp(wide_data - largest), along, keepdims))
    return (total + largest.reshape(total.shape)).astype(data.dtype, copy=False)


@ReduceLogSumExp.grad
def _(g: Backward) -> Gradients:
    return [g("Mul", _with_ones(g, g.dy), g("Exp", g("Sub", g.x[0], _with_ones(g, g.y[0])))), None]


@ReduceLogSumExp.torch(fresh=True)
@_along_axes("{data}.clone()")
def _(write: Write, data: Expr, along: Along, keepdims: bool) -> str:
    return write.narrowed(f"torch.logsumexp({data.wide}, {_dims(write, along, keepdims)})", data.dtype)


def _along(data: Array, axes: Array | None, noop: bool) -> tuple[int, ...]:
    if axes is None or not axes.size:
        return () if noop else tuple(range(data.ndim))
    return tuple(axes.tolist())


def _bounds(data: Array) -> tuple[float, float]:
    """The least and the greatest number of the element type."""
    if data.dtype.kind == "b":
        return False, True
    return (np.iinfo(data.dtype).min, np.iinfo(data.dtype).max) if data.dtype.kind in "iu" else (-np.inf, np.inf)


def _sum(data: Array, along: tuple[int, ...], keepdims: bool) -> Array:
    terms = wide(data)
    return np.sum(terms, axis=along, keepdims=keepdims, dtype=terms.dtype)


def _widest(data: Array) -> Array:
    return data.astype(np.uint64 if data.dtype.kind == "u" else np.int64)


def _count(data: Array, along: tuple[int, ...]) -> int:
    """The number of elements per element of the result."""
    count = 1
    for axis in along:
        count *= data.shape[axis]
    return count


def _reduced(name: str) -> Callable[..., Shape | None]:
    """The `shapes` rule of the reduction `name`."""

    def rule(
        data: TensorType, axes: Operand | None = None, *, keepdims: bool, noop_with_empty_axes: bool
    ) -> Shape | None:
        along = () if axes is None else known_ints(axes)
        everything = along == () and not noop_with_empty_axes
        if data.shape is None:
            return () if everything and not keepdims else None
        if along is None:
            assert axes is not None
            return _reduced_along_unknown(name, data.shape, length(axes), keepdims)
        rank = len(data.shape)
        normal = range(rank) if everything else distinct_axes(along, rank, name)
        if keepdims:
            return tuple(1 if i in normal else n for i, n in enumerate(data.shape))
        return tuple(n for i, n in enumerate(data.shape) if i not in normal)

    return rule


def _reduced_along_unknown(name: str, shape: Shape, axes: object, keepdims: bool) -> Shape | None:
    """The shape for unknown axes, of which at most the number is known."""
    if isinstance(axes, int) and axes > len(shape):
        message = f"`{name}` expected at most {len(shape)} axes, found {axes}"
        raise Reject(codes.BAD_VALUE, message, "axes")
    if keepdims:
        return tuple(1 if n == 1 else None for n in shape)
    return (None,) * (len(shape) - axes) if isinstance(axes, int) and axes > 0 else None


for _reduction in (
    *(ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd),
    *(ReduceSumSquare, ReduceL2, ReduceLogSumExp),
):
    _reduction.shapes(_reduced(_reduction.name))


def _split_reduction(reduction: Op) -> Callable[..., Layout]:
    """The `sharding` rule of a reduction. Reduced dimensions of sums, means and maxima may be split."""
    splits = reduction in (ReduceSum, ReduceSumSquare, ReduceMean, ReduceMax)

    def rule(data: TensorType, axes: Operand | None = None, *, results: Sequence[Shape | None], **attrs: Any) -> Layout:
        rank, along = len(data.shape or ()), () if axes is None else known_ints(axes)
        if along is None:
            return Layout(((None,) * rank, ()), ((None,) * len(results[0] or ()),))
        everything = not along and not attrs["noop_with_empty_axes"]
        gone = range(rank) if everything else [axis % rank for axis in along]
        operand = tuple(None if i in gone and not splits else f"s{i}" for i in range(rank))
        remaining = [None if i in gone else f"s{i}" for i in range(rank) if attrs["keepdims"] or i not in gone]
        averaged = frozenset(f"s{i}" for i in gone) if reduction is ReduceMean else frozenset[str]()
        greatest = frozenset({0}) if reduction is ReduceMax else frozenset[int]()
        return Layout((operand, ())[: 1 + (axes is not None)], (tuple(remaining),), averaged, greatest=greatest)

    return rule


for _reduction in (ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceSumSquare, ReduceL2, ReduceLogSumExp):
    _reduction.sharding(_split_reduction(_reduction))


def _everything(g: Backward) -> bool | None:
    """Whether all axes are reduced; None for none."""
    axes = None if g.x[1] is None else g.ints(g.x[1])
    if g.x[1] is not None and axes != ():
        return False
    return None if g.attrs["noop_with_empty_axes"] else True


def _with_ones(g: Backward, value: Arg) -> Arg:
    """A result, or its gradient, with the reduced dimensions as 1, so that it broadcasts to the operand."""
    everything = _everything(g)
    if g.attrs["keepdims"] or everything is None:
        return value
    if everything:
        return value if g.shape(value) == () else g("Reshape", value, Literal(()))
    return g("Unsqueeze", value, g.x[1])


def _again(g: Backward, op: str, data: Arg) -> Arg:
    """Another reduction along the same axes, with the reduced dimensions as 1."""
    attrs = {**g.statement.attrs, "keepdims": True}
    return g(op, data, g.x[1], **attrs)


def _spread(g: Backward, dy: Arg) -> Arg:
    return dy if _everything(g) is None else g("Expand", dy, g.shape_of(g.x[0]))
