"""Changes of shape: views (`Reshape`, `Squeeze`, …), transposition, broadcasting, repetition and padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Dense, Dim, DimensionError, Literal, Shape, dims, types
from distir.ops.attributes import check_word
from distir.ops.core import op
from distir.ops.host import Operand, distinct_axes, known_dims, known_ints, length
from distir.ops.layout import Layout, elementwise, regrouping
from distir.ops.numeric import Array, np
from distir.ops.unify import Reject, broadcast, normal_axis

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write


@op("Tensor[t, s, d], Tensor[Int64, (r,), host] -> Tensor[t, _, d]", view=True, linear="jointly")
def Reshape(data: Array, shape: Array, *, allowzero: bool = False) -> Array:
    """The elements of `data`, in the same order, in the shape `shape`. ONNX `Reshape`.

    One size may be -1: it is inferred from the number of elements. A size of 0 is copied from the same dimension of
    `data`, unless `allowzero`.

    %y = Reshape(%x: Tensor[Float32, (2, 3, 4), 1], [6, 4])
    %y = Reshape(%x: Tensor[Float32, (2, 3, 4), 1], [0, -1])
    """
    return data.reshape(cast("tuple[int, ...]", _reshaped(data.shape, shape.tolist(), allowzero)))


@Reshape.pieces
def _(p: Pieces, data: Piece, shape: Piece, *, allowzero: bool) -> Any:
    return [p.reshaped(data, p.shapes[0], () if allowzero else p.ints(shape))]


@Reshape.shapes
def _(data: Operand, shape: Operand, *, allowzero: bool) -> Shape | None:
    sizes = known_dims(shape)
    if sizes is None:
        rank = length(shape)
        return (None,) * rank if isinstance(rank, int) else None
    return _reshaped(data.shape, sizes, allowzero)


@Reshape.sharding
def _(data: Operand, shape: Operand, *, results: Sequence[Shape | None], **attrs: Any) -> Layout:
    def stated(found: Layout) -> Layout:
        return replace(found, stated=1, relative=(-1,) if attrs["allowzero"] else (-1, 0))

    found = _split_regrouping(data, shape, results=results)
    return replace(stated(found), others=tuple(map(stated, found.others)))


@op("Tensor[t, s, d] -> Tensor[t, (_, _), d]", view=True, linear="jointly")
def Flatten(input: Array, *, axis: int = 1) -> Array:
    """A matrix with the dimensions before `axis` as rows and the others as columns. ONNX `Flatten`.

    %y = Flatten(%x: Tensor[Float32, (2, 3, 4), 1])
    """
    rows, columns = _flattened(input.shape, axis)
    return input.reshape(cast(int, rows), cast(int, columns))


@Flatten.pieces
def _(p: Pieces, input: Piece, *, axis: int) -> Any:
    return [p.flattened(input, axis)]


@Flatten.shapes
def _(input: Operand, *, axis: int) -> Shape:
    return (None, None) if input.shape is None else _flattened(input.shape, axis)


@Reshape.grad
@Flatten.grad
def _(g: Backward) -> Gradients:
    return [g.reshape_like(g.dy, g.x[0]), *[None] * (len(g.x) - 1)]


@op("Tensor[t, s, d], Optional[Tensor[Int64, (r,), host]] -> Tensor[t, _, d]", view=True, linear="jointly")
def Squeeze(data: Array, axes: Array | None = None) -> Array:
    """`data` without the dimensions `axes`, which must be 1; if omitted, without all dimensions of 1.

    ONNX `Squeeze`.

    %y = Squeeze(%x: Tensor[Float32, (1, 3, 1), 1], [0])
    %y = Squeeze(%x: Tensor[Float32, (1, 3, 1), 1])
    """
    return np.squeeze(data, None if axes is None else tuple(axes.tolist()))


@Squeeze.pieces
def _(p: Pieces, data: Piece, axes: Piece | None = None) -> Any:
    return [p.squeezed(data, p.ints(axes))] if axes is not None else [p.reshaped(data, p.shapes[0])]


@Squeeze.shapes
def _(data: Operand, axes: Operand | None = None) -> Shape | None:
    shape = data.shape
    if shape is None:
        return None
    if axes is None:
        return tuple(dim for dim in shape if dim != 1) if all(isinstance(dim, int) for dim in shape) else None
    named = known_ints(axes)
    if named is None:
        count = length(axes)
        return _unknown_rank("Squeeze", shape, count) if isinstance(count, int) else None
    dropped = distinct_axes(named, len(shape), "Squeeze")
    for axis, spelled in zip(dropped, named, strict=True):
        if isinstance(shape[axis], int) and shape[axis] != 1:
            message = f"`Squeeze` expected dimension {spelled} to be 1, found {shape[axis]}"
            raise Reject(codes.SHAPE_MISMATCH, message, "axes")
    return tuple(dim for axis, dim in enumerate(shape) if axis not in dropped)


@Squeeze.sharding
def _(data: Operand, axes: Operand | None = None, *, results: Sequence[Shape | None]) -> Layout:
    if axes is None:  # a part of size 1 would be dropped
        return Layout(((None,) * len(data.shape or ()),), ((None,) * len(results[0] or ()),))
    return _split_regrouping(data, axes, results=results)


@Squeeze.grad
def _(g: Backward) -> Gradients:
    x, axes = g.x
    return [g.reshape_like(g.dy, x) if axes is None else g("Unsqueeze", g.dy, axes), None]


@op("Tensor[t, s, d], Tensor[Int64, (r,), host] -> Tensor[t, _, d]", view=True, linear="jointly")
def Unsqueeze(data: Array, axes: Array) -> Array:
    """`data` with new dimensions of 1 at `axes` of the result. ONNX `Unsqueeze`.

    %y = Unsqueeze(%x: Tensor[Float32, (3, 4), 1], [0, -1])
    """
    return np.expand_dims(data, tuple(axes.tolist()))


@Unsqueeze.pieces
def _(p: Pieces, data: Piece, axes: Piece) -> Any:
    return [p.unsqueezed(data, p.ints(axes))]


@Unsqueeze.shapes
def _(data: Operand, axes: Operand) -> Shape | None:
    count = length(axes)
    if data.shape is None or not isinstance(count, int):
        return None
    rank, named = len(data.shape) + count, known_ints(axes)
    if named is None:
        return (None,) * rank
    new = distinct_axes(named, rank, "Unsqueeze")
    old = iter(data.shape)
    return tuple(1 if axis in new else next(old) for axis in range(rank))


@Unsqueeze.grad
def _(g: Backward) -> Gradients:
    return [g("Squeeze", g.dy, g.x[1]), None]


@Reshape.torch
@Flatten.torch
@Squeeze.torch
@Unsqueeze.torch
def _(write: Write, data: Expr, *_: Expr | None, **attrs: object) -> str:
    return f"{data.tensor}.reshape({write.items(write.results[0].shape or ())})"


@op("Tensor[t, s, d] -> Tensor[t, _, d]", flops=0, linear="jointly")
def Transpose(data: Array, *, perm: tuple[int, ...] | None = None) -> Array:
    """`data` with its dimensions in the order `perm`; if omitted, reversed. ONNX `Transpose`.

    %y = Transpose(%x: Tensor[Float32, (2, 3), 1])
    %y = Transpose[perm = [0, 2, 1]](%x: Tensor[Float32, (2, 3, 4), 1])
    """
    return np.transpose(data, perm)


@Transpose.pieces
def _(p: Pieces, data: Piece, *, perm: tuple[int, ...] | None = None) -> Any:
    return [p.transposed(data, range(len(p.shape(data)))[::-1] if perm is None else perm)]


@Transpose.shapes
def _(data: Operand, *, perm: tuple[int, ...] | None = None) -> Shape | None:
    if perm is not None and sorted(perm) != list(range(len(perm))):
        expected = f"the numbers from 0 to {len(perm) - 1} in some order"
        raise Reject(codes.BAD_VALUE, f"`Transpose` expected {expected}, found {list(perm)}", "perm")
    if data.shape is None:
        return None if perm is None else (None,) * len(perm)
    if perm is None:
        return data.shape[::-1]
    if len(perm) != len(data.shape):
        message = f"`Transpose` expected a permutation of {len(data.shape)} dimensions, found one of {len(perm)}"
        raise Reject(codes.BAD_VALUE, message, "perm")
    return tuple(data.shape[axis] for axis in perm)


@Transpose.sharding
def _(data: Operand, *, results: Sequence[Shape | None], perm: tuple[int, ...] | None = None) -> Layout:
    (letters,) = elementwise([data.shape])
    order = range(len(letters))[::-1] if perm is None else perm
    return Layout((letters,), (tuple(letters[i] for i in order),))


@Transpose.grad
def _(g: Backward) -> Gradients:
    perm = cast("tuple[int, ...] | None", g.attrs.get("perm"))
    if perm is None:
        return [g("Transpose", g.dy)]
    return [g("Transpose", g.dy, perm=tuple(perm.index(i) for i in range(len(perm))))]


@Transpose.torch
def _(write: Write, data: Expr, *, perm: tuple[int, ...] | None = None) -> str:
    order = tuple(reversed(range(data.rank))) if perm is None else perm
    if order == (1, 0):
        return f"{data}.t()"
    return f"{data}.permute({write.items(order)})"


@op("Tensor[t, s, d], Tensor[Int64, (r,), host] -> Tensor[t, _, d]", flops=0, linear="jointly")
def Expand(input: Array, shape: Array) -> Array:
    """`input` broadcast with the shape `shape`. ONNX `Expand`.

    %y = Expand(%x: Tensor[Float32, (3, 1), 1], [2, 1, 4])
    """
    return np.array(np.broadcast_to(input, np.broadcast_shapes(input.shape, tuple(shape.tolist()))))


@Expand.pieces
def _(p: Pieces, input: Piece, shape: Piece) -> list[Piece]:
    return [p.spread(input, p.shapes[0])]


@Expand.shapes
def _(input: Operand, shape: Operand) -> Shape | None:
    sizes: Shape | None = known_dims(shape)
    if sizes is None:
        rank = length(shape)
        sizes = (None,) * rank if isinstance(rank, int) else None
    else:
        _check_sizes("Expand", known_ints(shape) or (), "shape")
    if input.shape is None or sizes is None:
        return None
    try:
        return broadcast(input.shape, sizes)
    except DimensionError as error:
        raise Reject(codes.SHAPE_MISMATCH, f"`Expand` cannot broadcast its operand: {error}", "shape") from None


@Expand.sharding
def _(input: Operand, shape: Operand, *, results: Sequence[Shape | None]) -> Layout:
    (letters,) = elementwise([results[0]])
    own = letters[len(letters) - len(input.shape or ()) :]
    operand = tuple(None if dim == 1 else letter for letter, dim in zip(own, input.shape or (), strict=True))
    return Layout((operand, ()), (letters,), stated=1, relative=(1,))


@Expand.grad
def _(g: Backward) -> Gradients:
    return [g.sum_to(g.dy, g.x[0]), None]


@Expand.torch
def _(write: Write, input: Expr, shape: Expr) -> str:
    return f"{input.tensor}.expand({write.items(write.results[0].shape or ())})"


@op("Tensor[t, s, d], Tensor[Int64, (r,), host] -> Tensor[t, _, d]", flops=0)
def Tile(input: Array, repeats: Array) -> Array:
    """`input` repeated `repeats[i]` times along each dimension i. ONNX `Tile`.

    %y = Tile(%x: Tensor[Float32, (2, 3), 1], [1, 2])
    """
    return np.tile(input, repeats.tolist())


@Tile.shapes
def _(input: Operand, repeats: Operand) -> Shape | None:
    counts: Shape | None = known_ints(repeats)
    _check_sizes("Tile", known_ints(repeats) or (), "repeats")
    rank = length(repeats) if input.shape is None else len(input.shape)
    if not isinstance(rank, int):
        return None
    if isinstance(length(repeats), int) and length(repeats) != rank:
        message = f"`Tile` expected {rank} numbers, one for each dimension, found {length(repeats)}"
        raise Reject(codes.BAD_VALUE, message, "repeats")
    shape = (None,) * rank if input.shape is None else input.shape
    return tuple(map(dims.multiply, shape, counts or (None,) * rank))


@Tile.sharding
def _(input: Operand, repeats: Operand, *, results: Sequence[Shape | None]) -> Layout:
    (letters,) = elementwise([input.shape])
    counts = known_ints(repeats) or (0,) * len(letters)
    kept = tuple(letter if count == 1 else None for letter, count in zip(letters, counts, strict=True))
    return Layout((kept, (None,)), (kept,))


@Tile.grad
def _(g: Backward) -> Gradients:
    """The gradient is reshaped to separate the copies, and summed over them."""
    shape, repeats = g.known_shape(g.x[0]), g.ints(g.x[1])
    if repeats is None or sum(not isinstance(dim, int) for dim in shape) > 1:
        raise g.refuse("`Tile` has a gradient only where its repeats and the shape of its operand are known")
    sizes = tuple(part for count, dim in zip(repeats, shape, strict=True) for part in (count, _size(dim)))
    copies = tuple(range(0, len(sizes), 2))
    if not sizes:
        return [g.dy, None]
    return [g("ReduceSum", g("Reshape", g.dy, sizes, allowzero=True), copies, keepdims=False), None]


def _size(dim: object) -> int:
    return dim if isinstance(dim, int) else -1


@Tile.torch(fresh=True)
def _(write: Write, input: Expr, repeats: Expr) -> str:
    counts = repeats.ints("how often the operand is repeated")
    return f"{input}.repeat({write.items(counts)})" if counts else f"{input.tensor}.clone()"


@op(
    "Tensor[t, s, d], Tensor[Int64, (p,), host], Optional[Tensor[t, (), d]], Optional[Tensor[i:int, (r,), host]]"
    " -> Tensor[t, _, d]",
    "Tensor[t, s, d], Tensor[Int64, (p,), host], Optional[Tensor[t, (1,), d]], Optional[Tensor[i:int, (r,), host]]"
    " -> Tensor[t, _, d]",
    flops=0,
    linear="jointly",
)
def Pad(
    data: Array,
    pads: Array,
    constant_value: Array | None = None,
    axes: Array | None = None,
    *,
    mode: str = "constant",
) -> Array:
    """`data` padded or cropped. `pads`: the number of new elements before each of `axes`, then after each.

    If `axes` is omitted, all dimensions are padded. Negative numbers crop. New elements are `constant_value` (default
    0), or with `mode` the nearest element (`edge`), those mirrored at the edge (`reflect`), or those of the other end
    (`wrap`). ONNX `Pad`.

    %y = Pad(%x: Tensor[Float32, (2, 3), 1], [0, 1, 0, 2])
    %y = Pad[mode = "reflect", axes = [1]](%x: Tensor[Float32, (2, 3), 1], [1, 2])
    """
    named = range(data.ndim) if axes is None else [axis % data.ndim for axis in axes.tolist()]
    around = dict(zip(named, _pairs(pads.tolist()), strict=True))
    widths = [around.get(axis, (0, 0)) for axis in range(data.ndim)]
    kept = data[tuple(slice(max(0, -b), n - max(0, -a)) for n, (b, a) in zip(data.shape, widths, strict=True))]
    new = [(max(0, b), max(0, a)) for b, a in widths]
    if mode != "constant" and data.ndim:
        return np.pad(kept, new, mode=cast(Any, mode))
    filling = np.zeros((), data.dtype) if constant_value is None else constant_value
    padded = np.full([n + b + a for n, (b, a) in zip(kept.shape, new, strict=True)], filling)
    padded[tuple(slice(b, b + n) for n, (b, _) in zip(kept.shape, new, strict=True))] = kept
    return padded


@Pad.shapes
def _(data: Operand, pads: Operand, constant_value: Any = None, axes: Operand | None = None, *, mode: str) -> Any:
    check_word("Pad", "mode", mode, ("constant", "reflect", "edge", "wrap"))
    if data.shape is None:
        return None
    rank = len(data.shape)
    count = rank if axes is None else length(axes)
    if isinstance(count, int) and isinstance(length(pads), int) and length(pads) != 2 * count:
        message = f"`Pad` expected {2 * count} numbers, two for each dimension, found {length(pads)}"
        raise Reject(codes.BAD_VALUE, message, "pads")
    named = tuple(range(rank)) if axes is None else known_ints(axes)
    if named is None:
        return (None,) * rank
    amounts = known_ints(pads)
    padded = list(data.shape)
    for i, axis in enumerate(distinct_axes(named, rank, "Pad")):
        before, after = (None, None) if amounts is None else _pairs(amounts)[i]
        padded[axis] = _padded(data.shape[axis], before, after, mode)
    return tuple(padded)


@Pad.sharding
def _(data: Operand, pads: Operand, *others: Operand | None, results: Sequence[Shape | None], **_: Any) -> Layout:
    (letters,) = elementwise([data.shape])
    fixed = [_unpadded(axis, pads, *others) for axis in range(len(letters))]
    kept = tuple(letter if fits else None for letter, fits in zip(letters, fixed, strict=True))
    return Layout((kept, *((None,) * len(o.shape or ()) if o else () for o in (pads, *others))), (kept,))


@Pad.grad
def _(g: Backward) -> Gradients:
    """The gradient cropped where elements were added, and padded with zeros where they were cropped."""
    _, pads, filling, axes = g.x
    if g.attrs["mode"] != "constant":
        raise g.refuse(f'`Pad` with `mode = "{g.attrs["mode"]}"` has no gradient', 'use `mode = "constant"`')
    known = g.ints(pads)
    back = g("Neg", pads) if known is None else Literal(tuple(-n for n in known))
    ddata = g("Pad", g.dy, back, None, axes)
    dfilling = None
    if filling is not None and g.wants(2):
        kept = g("ReduceSum", ddata, keepdims=False)
        dfilling = g("Sub", g("ReduceSum", g.dy, keepdims=False), kept)
    return [ddata, None, dfilling, None]


@Pad.torch
def _(
    write: Write,
    data: Expr,
    pads: Expr,
    constant_value: Expr | None = None,
    axes: Expr | None = None,
    *,
    mode: str,
) -> str:
    widths = _known_widths(data, pads, axes)
    if mode == "constant":
        flat = [n for pair in reversed(widths) for n in pair]
        filling = "0"
        if constant_value is not None:
            filling = write.number(constant_value.scalar("what is padded with"))
        return f"F.pad({data}, {write.items(flat)}, value={filling})"
    text = str(data)
    for axis, (before, after) in enumerate(widths):
        if before or after:
            places = _sources(data.shape[axis], before, after, mode)
            index = write.constant(Dense(DTYPES["Int64"], (len(places),), tuple(places)))
            text = f"{text}.index_select({axis}, {index})"
    return text


def _known_widths(data: Expr, pads: Expr, axes: Expr | None) -> list[tuple[int, int]]:
    """The numbers of elements added before and after each dimension; negative: cropped."""
    amounts = pads.ints("how much is padded")
    half = len(amounts) // 2
    named = range(data.rank) if axes is None else [a % data.rank for a in axes.ints("which axes are padded")]
    given = dict(zip(named, zip(amounts[:half], amounts[half:], strict=True), strict=True))
    return [given.get(axis, (0, 0)) for axis in range(data.rank)]


def _sources(size: int, before: int, after: int, mode: str) -> list[int]:
    """The source index of each element along a padded dimension."""
    kept = np.arange(max(0, -before), size - max(0, -after))
    width = (max(0, before), max(0, after))
    return [int(place) for place in np.pad(kept, width, mode=cast(Any, mode))]


def _reshaped(shape: Shape | None, sizes: Sequence[Dim], allowzero: bool) -> Shape:
    """The shape of a `Reshape`. Raises Reject for sizes that do not match the number of elements."""
    wrong = next((size for size in sizes if isinstance(size, int) and size < -1), None)
    if wrong is not None or sizes.count(-1) > 1 or (allowzero and -1 in sizes and 0 in sizes):
        expected = "sizes from 0 and at most one -1" + (", and no 0 beside it" if allowzero else "")
        raise _bad_shape(f"`Reshape` expected {expected}, found {list(sizes)}")
    copied = [] if allowzero else [i for i, size in enumerate(sizes) if size == 0]
    if shape is None:
        return tuple(None if size == -1 or i in copied else size for i, size in enumerate(sizes))
    if copied and copied[-1] >= len(shape):
        found = f"0 in place {copied[-1]} of `shape`"
        raise _bad_shape(f"`Reshape` expected {found} only where `data` has such a dimension, found rank {len(shape)}")
    left = dims.product(dim for i, dim in enumerate(shape) if i not in copied)
    stated = dims.product(size for i, size in enumerate(sizes) if size != -1 and i not in copied)
    if -1 not in sizes and isinstance(left, int) and isinstance(stated, int) and left != stated:
        raise _mismatch(shape, sizes)
    rest = _rest(shape, sizes, left, stated) if -1 in sizes else None
    return tuple(shape[i] if i in copied else rest if size == -1 else size for i, size in enumerate(sizes))


def _rest(shape: Shape, sizes: Sequence[Dim], left: Dim, stated: Dim) -> Dim:
    """The value of a size of -1: `left` elements over `stated`."""
    try:
        return dims.divide(left, stated)
    except DimensionError:
        raise _mismatch(shape, sizes) from None


def _mismatch(shape: Shape, sizes: Sequence[Dim]) -> Reject:
    elements = dims.show(dims.product(shape))
    message = f"`Reshape` expected sizes that hold the {elements} elements of {types.show_shape(shape)}"
    return _bad_shape(f"{message}, found {list(sizes)}")


def _bad_shape(message: str) -> Reject:
    return Reject(codes.BAD_VALUE, message, "shape")


def _flattened(shape: Shape, axis: int) -> Shape:
    cut = axis if axis == len(shape) else normal_axis(axis, len(shape), "Flatten", "axis")
    return dims.product(shape[:cut]), dims.product(shape[cut:])


def _unknown_rank(name: str, shape: Shape, dropped: int) -> Shape:
    if dropped > len(shape):
        message = f"`{name}` expected at most {len(shape)} axes, found {dropped}"
        raise Reject(codes.BAD_VALUE, message, "axes")
    return (None,) * (len(shape) - dropped)


def _check_sizes(name: str, sizes: Sequence[int], operand: str) -> None:
    if any(size < 0 for size in sizes):
        raise Reject(codes.BAD_VALUE, f"`{name}` expected numbers from 0, found {list(sizes)}", operand)


def _pairs(pads: Sequence[int]) -> list[tuple[int, int]]:
    """The paddings before and after each dimension, in pairs."""
    half = len(pads) // 2
    return list(zip(pads[:half], pads[half:], strict=True))


def _padded(dim: Dim, before: int | None, after: int | None, mode: str) -> Dim:
    """A dimension after padding. Raises Reject if it is cropped below 0, or has no element to repeat."""
    if before is None or after is None:
        return None
    kept = dims.add(dim, min(before, 0) + min(after, 0))
    if isinstance(kept, int) and kept < 0:
        message = f"`Pad` expected to cut off at most {dim} elements, found {-min(before, 0) - min(after, 0)}"
        raise Reject(codes.BAD_VALUE, message, "pads")
    if kept == 0 and mode != "constant" and max(before, after) > 0:
        raise Reject(codes.BAD_VALUE, f'`Pad[mode = "{mode}"]` expected elements to repeat, found none', "pads")
    return dims.add(kept, max(before, 0) + max(after, 0))


def _split_regrouping(
    data: Operand, shape: Operand | None = None, *, results: Sequence[Shape | None], **_: Any
) -> Layout:
    def with_shape(found: Layout) -> Layout:
        return found if shape is None else replace(found, operands=(*found.operands, ()))

    found = regrouping(data.shape, results[0])
    return replace(with_shape(found), others=tuple(map(with_shape, found.others)))


for _regrouping in (Flatten, Unsqueeze):
    _regrouping.sharding(_split_regrouping)


def _unpadded(axis: int, pads: Operand, constant_value: Operand | None = None, axes: Operand | None = None) -> bool:
    """Whether a dimension is neither padded nor cropped."""
    amounts = known_ints(pads)
    named = None if axes is None else known_ints(axes)
    if amounts is None or (axes is not None and named is None):
        return False
    pairs = _pairs(amounts)
    return pairs[axis] == (0, 0) if named is None else axis not in named
