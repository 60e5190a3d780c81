"""Splitting, concatenating, slicing, gathering and scattering."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Arg, Dense, Dim, Literal, Part, Shape, SymbolicDim, dims, types
from distir.ops.core import op
from distir.ops.host import FAR, MOST_ENTRIES, Operand, distinct_axes, known_ints, length
from distir.ops.layout import Layout, Letters, Parts, elementwise
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.unify import Reject, normal_axis

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Unpacked, Write


Results = Sequence[Shape | None]


@op(
    "Tensor[t, (*a, n@axis, *b), d], Optional[Tensor[Int64, (r,), host]] -> *Tensor[t, (*a, _, *b), d]",
    flops=0,
    aliases={"dim": "axis", "num_splits": "num_outputs"},
    linear="jointly",
)
def Split(
    input: Array, split: Array | None = None, *, axis: int = 0, num_outputs: int | None = None, count: int
) -> list[Array]:
    """`input` cut along `axis` into parts of the sizes `split`, or into `num_outputs` parts of equal size.

    The last part is smaller if the size is not divisible. With neither, there is a part for each result. ONNX `Split`.

    %a, %b = Split[axis = 0, num_outputs = 2](%x: Tensor[Float32, (4, 3), 1])
    %a, %b = Split[axis = 1](%x: Tensor[Float32, (4, 3), 1], [1, 2])
    %a, %b = Split(%x: Tensor[Float32, (3, 2), 1])
    """
    sizes = cast("list[int]", _parts(input.shape[axis], num_outputs or count) if split is None else split.tolist())
    return np.split(input, np.cumsum(sizes[:-1], dtype=np.int64), axis=axis)


@Split.pieces
def _(p: Pieces, input: Piece, split: Piece | None = None, *, axis: int, **_: Any) -> list[Piece]:
    ends = list(accumulate(shape[axis] for shape in p.shapes))
    return [p.cut(input, axis, start, end) for start, end in pairwise([0, *ends])]


@Split.shapes
def _(
    input: Operand, split: Operand | None = None, *, axis: int, num_outputs: int | None = None, count: int
) -> list[Shape | None]:
    if split is not None and num_outputs is not None:
        message = "`Split` expected either the sizes `split` or `num_outputs`, found both"
        raise Reject(codes.BAD_VALUE, message, "num_outputs")
    if num_outputs is not None and num_outputs < 1:
        raise Reject(codes.BAD_VALUE, f"`Split` expected at least 1 part, found {num_outputs}", "num_outputs")
    shape = input.shape
    at = None if shape is None else normal_axis(axis, len(shape), "Split", "axis")
    dim = None if shape is None or at is None else shape[at]
    sizes = _parts(dim, num_outputs or count) if split is None else _stated_parts(dim, split, count)
    if shape is None or at is None:
        return [None] * len(sizes)
    return [(*shape[:at], size, *shape[at + 1 :]) for size in sizes]


@Split.sharding
def _(input: Operand, split: Operand | None = None, *, results: Results, axis: int, **_: Any) -> Layout:
    letters, cut = _along_axis(input.shape, axis)
    blocks = tuple(None if shape is None else shape[cut] for shape in results)
    sizes = {} if split is None or not letters else {f"s{cut}": (1,)}
    operands = (letters,) if split is None else (letters, ())
    found = Layout(operands, (letters,) * len(results), operand_blocks={(0, cut): blocks}, divided_operands=sizes)
    return replace(found, apart=letters[cut] if letters else None)


@Split.grad
def _(g: Backward) -> Gradients:
    parts = [g.dy_or_zeros(i) for i in range(len(g.dys))]
    return [g("Concat", *parts, axis=g.attrs["axis"]), None]


@Split.torch
def _(write: Write, input: Expr, split: Expr | None = None, *, axis: int, num_outputs: int | None = None) -> Unpacked:
    sizes = [(r.shape or ())[axis] for r in write.results]
    return write.unpacked(f"torch.split({input}, {list(sizes)}, {axis})")


@op(
    "*Tensor[t, (*a, n_i@axis, *b), d] -> Tensor[t, (*a, sum(n_i), *b), d]",
    flops=0,
    aliases={"dim": "axis"},
    linear="jointly",
)
def Concat(*inputs: Array, axis: int) -> Array:
    """The operands one after the other along `axis`. ONNX `Concat`.

    %y = Concat[axis = 0](%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (4, 3), 1])
    """
    return np.concatenate(inputs, axis=axis)


@Concat.pieces
def _(p: Pieces, *inputs: Piece, axis: int) -> Any:
    return [p.joined(inputs, axis)]


@Concat.sharding
def _(*inputs: Operand, results: Results, axis: int) -> Layout:
    letters, joined = _along_axis(results[0], axis)
    blocks = tuple(None if x.shape is None else x.shape[joined] for x in inputs)
    found = Layout((letters,) * len(inputs), (letters,), result_blocks={(0, joined): blocks})
    return replace(found, apart=letters[joined] if letters else None)


@Concat.grad
def _(g: Backward) -> Gradients:
    axis = cast(int, g.attrs["axis"])
    if len(g.x) == 1:
        return [g.dy]
    first = normal_axis(axis, g.rank(g.x[0]), "Concat", "axis")
    sizes = [g.known_shape(x)[first] for x in g.x]
    if None not in sizes and all(size == sizes[0] for size in sizes):
        return g.several("Split", len(g.x), g.dy, axis=axis, num_outputs=len(g.x))
    if all(isinstance(size, int) for size in sizes):
        return g.several("Split", len(g.x), g.dy, Literal(tuple(cast("list[int]", sizes))), axis=axis)
    lengths = [g("Shape", x, start=first, end=first + 1) for x in g.x]
    return g.several("Split", len(g.x), g.dy, g("Concat", *lengths, axis=0), axis=axis)


@Concat.torch(fresh=True)
def _(write: Write, *inputs: Expr, axis: int) -> str:
    return f"torch.cat({write.items([x.tensor for x in inputs])}, {axis})"


INDICES = ("Int64", "Int32")
"""The element types of indices in torch, which interprets a tensor of UInt8 as a mask."""


@op(
    "Tensor[t, (*a, n@axis, *b), d], Tensor[i:int, s, d] -> Tensor[t, (*a, *s, *b), d]",
    flops=0,
    bytes=lambda t, i, s, elements, **_: 2 * t * elements + i * s,
)
def Gather(data: Array, indices: Array, *, axis: int = 0) -> Array:
    """The slices of `data` at `indices` along `axis`; the dimensions of `indices` replace that one. ONNX `Gather`.

    An embedding is a `Gather` of rows. Negative indices count from the end.

    %y = Gather(%w: Tensor[Float32, (10, 4), 1], %i: Tensor[Int64, (2, 3), 1])
    %y = Gather[axis = 1](%x: Tensor[Float32, (3, 5), 1], 0)
    """
    return np.take(data, indices.astype(np.intp), axis=axis)


@Gather.checks
def _(data: Operand, indices: Operand, *, axis: int) -> None:
    _check_range("Gather", data, indices, axis)


@Gather.sharding
def _(data: Operand, indices: Operand, *, results: Results, axis: int) -> Layout:
    rank, depth = len(data.shape or ()), len(indices.shape or ())
    first = axis % max(rank, 1)
    before, behind = [f"a{k}" for k in range(first)], [f"b{k}" for k in range(rank - first - 1)]
    positions = tuple(f"s{k}" for k in range(depth))
    return Layout(
        ((*before, "n", *behind), positions), ((*before, *positions, *behind),), parted=frozenset({"n"}), positions=1
    )


@Gather.parted
def _(w: Parts, data: Arg, indices: Arg, *, axis: int) -> list[Arg]:
    """Vocabulary-parallel lookup: each device looks up the rows that it has, and takes zeros for the others."""
    table = w.type(data)
    shape = table.shape or ()
    first = axis % len(shape)
    length = shape[first]
    assert isinstance(length, int)
    own, here = w.own(indices, length)
    rows = w("Gather", data, own, axis=axis)
    behind = len(shape) - first - 1
    mask = w("Unsqueeze", here, Literal(tuple(range(-behind, 0)))) if behind else here
    zero = Literal(0.0 if table.dtype is not None and table.dtype.kind == "float" else 0)
    return [w("Where", mask, rows, zero)]


@Gather.grad
def _(g: Backward) -> Gradients:
    data, indices = g.x
    return [g("GatherGrad", g.dy, indices, g.shape_of(data), axis=g.attrs["axis"]), None]


@Gather.torch
def _(write: Write, data: Expr, indices: Expr, *, axis: int) -> str:
    at = axis % data.rank
    if indices.value is None:
        return f"{data}[{_bracketed(data.rank, at, _index(indices))}]"
    places = [int(i) % data.shape[at] for i in indices.ints("which slices are taken")]
    if indices.rank == 0:
        return f"{data}.select({at}, {places[0]})"
    known = write.constant(Dense(DTYPES["Int64"], indices.shape, tuple(places)))
    return f"{data}[{_bracketed(data.rank, at, known)}]"


def _index(indices: Expr) -> str:
    """An operand as an index in torch."""
    text = indices.tensor
    return text if indices.dtype.name in INDICES else f"{text}.long()"


@op(
    "Tensor[t, (*a, n@axis, *b), d], Tensor[i:int, s, d] -> Tensor[t, s, d]",
    flops=0,
    bytes=lambda t, i, elements, **_: (2 * t + i) * elements,
)
def GatherElements(data: Array, indices: Array, *, axis: int = 0) -> Array:
    """Each element is that of `data` at the same position, except that `indices` gives the one along `axis`.

    ONNX `GatherElements`.

    %y = GatherElements[axis = 1](%x: Tensor[Float32, (2, 4), 1], %i: Tensor[Int64, (2, 3), 1])
    """
    return data[_element_places(indices, data.shape, axis)]


@GatherElements.checks
def _(data: Operand, indices: Operand, *, axis: int) -> None:
    _check_element_indices("GatherElements", data, indices, axis)


@GatherElements.sharding
def _(data: Operand, indices: Operand, *, results: Results, axis: int) -> Layout:
    here, there = _beside_axis(axis, data, indices)
    at = axis % max(len(there), 1)
    places = (*there[:at], "places", *there[at + 1 :])
    return Layout((here, places), (places,))


@GatherElements.grad
def _(g: Backward) -> Gradients:
    data, indices = g.x
    axis = g.attrs["axis"]
    return [g("ScatterElements", g.zeros(data), indices, g.dy, axis=axis, reduction="add"), None]


@GatherElements.torch(fresh=True)
def _(write: Write, data: Expr, indices: Expr, *, axis: int) -> str:
    at = axis % data.rank
    return f"torch.gather({data}, {at}, {write.kernel('positions')}({indices}, {data.shape[at]}))"


@op(
    "Tensor[t, s, d], Tensor[i:int, r, d] -> Tensor[t, _, d]",
    flops=0,
    bytes=lambda t, i, r, elements, **_: 2 * t * elements + i * r,
)
def GatherND(data: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    """The slices of `data` at the coordinates along the last dimension of `indices`.

    The first `batch_dims` dimensions of both are batch dimensions. ONNX `GatherND`.

    %y = GatherND(%x: Tensor[Float32, (4, 5, 6), 1], %i: Tensor[Int64, (3, 2), 1])
    %y = GatherND[batch_dims = 1](%x: Tensor[Float32, (4, 5, 6), 1], %i: Tensor[Int64, (4, 1), 1])
    """
    whole = np.indices(data.shape[:batch_dims], sparse=True)
    between = (1,) * (indices.ndim - 1 - batch_dims)
    batches = [at.reshape(at.shape + between) for at in whole]
    coordinates = np.moveaxis(indices.astype(np.intp), -1, 0)
    return np.array(data[(*batches, *coordinates)])


@GatherND.shapes
def _(data: Operand, indices: Operand, *, batch_dims: int) -> Shape | None:
    if data.shape is None or indices.shape is None:
        return None
    _check_batch_dims(data.shape, indices.shape, batch_dims)
    depth = _coordinates("GatherND", data.shape, indices, batch_dims)
    return None if depth is None else indices.shape[:-1] + data.shape[batch_dims + depth :]


@GatherND.sharding
def _(data: Operand, indices: Operand, *, results: Results, batch_dims: int) -> Layout:
    rank, places = len(data.shape or ()), [f"i{k}" for k in range(len(indices.shape or ()) - 1)]
    depth = indices.shape[-1] if indices.shape else None
    if batch_dims or not isinstance(depth, int):
        return Layout(((None,) * rank, (None,) * (len(places) + 1)), ((None,) * len(results[0] or ()),))
    behind = [f"d{k}" for k in range(depth, rank)]
    return Layout(((*(None,) * depth, *behind), (*places, None)), ((*places, *behind),))


@GatherND.grad
def _(g: Backward) -> Gradients:
    data, indices = g.x
    if g.attrs["batch_dims"]:
        raise g.refuse("`GatherND` with `batch_dims` has no gradient", "use `GatherElements`, or put the batch in it")
    return [g("ScatterND", g.zeros(data), indices, g.dy, reduction="add"), None]


@GatherND.torch(fresh=True)
def _(write: Write, data: Expr, indices: Expr, *, batch_dims: int) -> str:
    return f"{write.kernel('gather_nd')}({data}, {indices}, {batch_dims})"


@op(
    "Tensor[t, (*a, n@axis, *b), d], Tensor[i:int, s, d], Tensor[t, s, d] -> Tensor[t, (*a, n, *b), d]",
    flops=lambda s, reduction, **_: 0 if reduction == "none" else s,
)
def ScatterElements(data: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: str = "none") -> Array:
    """`data` with each element of `updates` written at its position, except that `indices` gives the one along `axis`.

    With `reduction` (`add`, `mul`, `max`, `min`), the elements of `data` and `updates` are combined; without, positions
    must be distinct. ONNX `ScatterElements`.

    %y = ScatterElements(%x: Tensor[Float32, (3, 3), 1], %i: Tensor[Int64, (1, 3), 1], %u: Tensor[Float32, (1, 3), 1])
    """
    return _scattered(data, _element_places(indices, data.shape, axis), updates, reduction)


@ScatterElements.checks
def _(data: Operand, indices: Operand, updates: Operand, *, axis: int, reduction: str) -> None:
    _check_reduction("ScatterElements", reduction)
    _check_element_indices("ScatterElements", data, indices, axis)


@ScatterElements.sharding
def _(data: Operand, indices: Operand, updates: Operand, *, results: Results, axis: int, reduction: str) -> Layout:
    here, there = _beside_axis(axis, data, indices)
    return Layout((here, there, there), (here,))


@ScatterElements.grad
def _(g: Backward) -> Gradients:
    _, indices, updates = g.x
    axis = g.attrs["axis"]
    dupdates = g("GatherElements", g.dy, indices, axis=axis)
    if not _overwritten(g):
        return [g.dy, None, dupdates]
    return [g("ScatterElements", g.dy, indices, g.zeros(updates), axis=axis), None, dupdates]


@ScatterElements.torch(fresh=True)
def _(write: Write, data: Expr, indices: Expr, updates: Expr, *, axis: int, reduction: str) -> str:
    at = axis % data.rank
    places = f"{write.kernel('positions')}({indices}, {data.shape[at]})"
    return f"{write.kernel('scatter_elements')}({data.tensor}, {at}, {places}, {updates.tensor}, {reduction!r})"


@op(
    "Tensor[t, s, d], Tensor[i:int, r, d], Tensor[t, u, d] -> Tensor[t, s, d]",
    flops=lambda u, reduction, **_: 0 if reduction == "none" else u,
)
def ScatterND(data: Array, indices: Array, updates: Array, *, reduction: str = "none") -> Array:
    """`data` with the slices of `updates` written at the coordinates along the last dimension of `indices`.

    With `reduction` (`add`, `mul`, `max`, `min`), the slices of `data` and `updates` are combined. ONNX `ScatterND`.

    %y = ScatterND(%x: Tensor[Float32, (4, 5), 1], %i: Tensor[Int64, (2, 1), 1], %u: Tensor[Float32, (2, 5), 1])
    """
    return _scattered(data, tuple(np.moveaxis(indices.astype(np.intp), -1, 0)), updates, reduction)


@ScatterND.checks
def _(data: Operand, indices: Operand, updates: Operand, *, reduction: str) -> None:
    _check_reduction("ScatterND", reduction)
    if data.shape is None or indices.shape is None:
        return
    depth = _coordinates("ScatterND", data.shape, indices, 0)
    if depth is not None and updates.shape is not None:
        _check_updates(indices.shape[:-1] + data.shape[depth:], updates.shape)


@ScatterND.sharding
def _(data: Operand, indices: Operand, updates: Operand, *, results: Results, reduction: str) -> Layout:
    """By dimensions that no index counts in."""
    rank, places = len(data.shape or ()), (None,) * (len(indices.shape or ()) - 1)
    depth = indices.shape[-1] if indices.shape else None
    behind = [f"d{k}" for k in range(depth, rank)] if isinstance(depth, int) else [None] * (rank - 1)
    whole: Letters = (*(None,) * (rank - len(behind)), *behind)
    return Layout((whole, (*places, None), (*places, *behind)), (whole,))


@ScatterND.grad
def _(g: Backward) -> Gradients:
    _, indices, updates = g.x
    dupdates = g("GatherND", g.dy, indices)
    if not _overwritten(g):
        return [g.dy, None, dupdates]
    return [g("ScatterND", g.dy, indices, g.zeros(updates)), None, dupdates]


@ScatterND.torch(fresh=True)
def _(write: Write, data: Expr, indices: Expr, updates: Expr, *, reduction: str) -> str:
    return f"{write.kernel('scatter_nd')}({data.tensor}, {indices}, {updates.tensor}, {reduction!r})"


@op(
    "Tensor[t, s, d], Tensor[i:int, (r,), host], Tensor[i:int, (r,), host],"
    " Optional[Tensor[i:int, (r,), host]], Optional[Tensor[i:int, (r,), host]] -> Tensor[t, _, d]",
    flops=0,
    bytes=lambda t, elements, **_: 2 * t * elements,
    linear="jointly",
)
def Slice(data: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None) -> Array:
    """The elements from `starts` to before `ends` in `steps`, along `axes` (if omitted, the first dimensions).

    Negative positions count from the end; those out of range are clamped. A negative step goes backwards.
    Named dimensions are assumed to be large enough: `%x[1:]` of `(B,)` has the shape `(B-1,)`. ONNX `Slice`.

    %y = Slice(%x: Tensor[Float32, (4, 6), 1], [1, 0], [3, 6])
    %y = Slice(%x: Tensor[Float32, (4, 6), 1], [-1], [-100], [1], [-2])
    """
    window = [slice(None)] * data.ndim
    named = range(len(starts)) if axes is None else axes.tolist()
    strides = [1] * len(starts) if steps is None else steps.tolist()
    for axis, start, end, step in zip(named, starts.tolist(), ends.tolist(), strides, strict=True):
        taken = _positions(data.shape[axis], start, end, step)
        window[axis] = slice(taken.start, taken.stop if taken.stop >= 0 else None, step) if taken else slice(0)
    return np.array(data[tuple(window)])


@Slice.pieces
def _(p: Pieces, data: Piece, starts: Piece, ends: Piece, axes: Piece | None = None, steps: Piece | None = None) -> Any:
    named = range(len(p.ints(starts))) if axes is None else p.ints(axes)
    if steps is not None and set(p.ints(steps)) != {1}:
        return NotImplemented
    for axis, start, end in zip(named, p.ints(starts), p.ints(ends), strict=True):
        taken = _positions(p.shape(data)[axis], start, end, 1)
        data = p.cut(data, axis, taken.start, max(taken.start, taken.stop))
    return [data]


@Slice.shapes
def _(
    data: Operand, starts: Operand, ends: Operand, axes: Operand | None = None, steps: Operand | None = None
) -> Shape | None:
    if data.shape is None:
        return None
    rank = len(data.shape)
    count = next((n for o in (starts, ends, axes, steps) if o and isinstance(n := length(o), int)), None)
    named = known_ints(axes) if axes is not None else None if count is None else tuple(range(count))
    if named is None:
        return (None,) * rank
    if len(named) > rank:
        raise Reject(codes.BAD_VALUE, f"`Slice` expected at most {rank} axes, found {len(named)}", "axes")
    first, last = known_ints(starts), known_ints(ends)
    strides = (1,) * len(named) if steps is None else known_ints(steps)
    if strides is not None and 0 in strides:
        raise Reject(codes.BAD_VALUE, "`Slice` expected steps that are not 0, found 0", "steps")
    sliced = list(data.shape)
    for i, axis in enumerate(distinct_axes(named, rank, "Slice")):
        if first is None or last is None or strides is None:
            sliced[axis] = None
        else:
            sliced[axis] = _sliced(sliced[axis], first[i], last[i], strides[i])
    return tuple(sliced)


@Slice.sharding
def _(data: Operand, starts: Operand, ends: Operand, *others: Operand | None, results: Results) -> Layout:
    """By dimensions of which all is taken, or every k-th element: so it is of contiguous parts."""
    rank = len(data.shape or ())
    axes, steps = (*others, None, None)[:2]
    first, last = known_ints(starts), known_ints(ends)
    count = len(first or last or range(rank))
    named = range(count) if axes is None else known_ints(axes)
    strides = (1,) * count if steps is None else known_ints(steps)
    letters: list[str | None] = [f"s{i}" for i in range(rank)]
    contiguous: set[str] = set()
    if named is None or first is None or last is None or strides is None:
        cut = range(rank) if named is None else [axis % rank for axis in named]
        letters = [None if i in cut else letter for i, letter in enumerate(letters)]
    else:
        for axis, start, end, step in zip((axis % rank for axis in named), first, last, strides, strict=True):
            if not _takes_each(data.shape[axis] if data.shape else None, start, end, step):
                letters[axis] = None
            elif step > 1:
                contiguous.add(f"s{axis}")
    operand = tuple(letters)
    return Layout((operand, *((),) * (2 + len(others))), (operand,), contiguous=frozenset(contiguous))


def _takes_each(dim: Dim, start: int, end: int, step: int) -> bool:
    """Whether a slice takes one element of every `step` up to the end, also in each part of the dimension."""
    reaches = end >= (dim if isinstance(dim, int) else FAR)
    return 0 <= start < step and reaches and (step == 1 or (isinstance(dim, int) and dim % step == 0))


@Slice.grad
def _(g: Backward) -> Gradients:
    """The gradient padded with zeros around the slice, and between its elements for steps."""
    data, starts, ends, axes, steps = g.x
    shape = g.known_shape(data)
    first, last = g.ints(starts), g.ints(ends)
    strides = (1,) * len(first or ()) if steps is None else g.ints(steps)
    named = tuple(range(len(first or ()))) if axes is None else g.ints(axes)
    if first is None or last is None or strides is None or named is None:
        raise g.refuse("`Slice` has a gradient only where its starts, ends, axes and steps are known")
    normal = tuple(normal_axis(axis, len(shape), "Slice", "axes") for axis in named)
    none: list[None] = [None] * 4
    cuts = [_cut(shape[axis], *window) for axis, *window in zip(normal, first, last, strides, strict=True)]
    if all(cut is not None for cut in cuts):
        found = cast("list[tuple[int, int]]", cuts)
        pads = (*(before for before, _ in found), *(after for _, after in found))
        return [g("Pad", g.dy, pads, None, normal), *none]
    dx: Arg = g.dy
    for axis, start, end, step, cut in zip(normal, first, last, strides, cuts, strict=True):
        dim = shape[axis]
        if cut is not None:
            dx = g("Pad", dx, cut, None, (axis,)) if any(cut) else dx
        elif isinstance(dim, int) and dim % step == 0 and len(range(dim)[start:end:step]) == dim // step > 0:
            dx = _interleaved(g, dx, axis, range(dim)[start], step)
        elif isinstance(dim, int):
            places = Literal(tuple(range(dim)[start:end:step]))
            dx = g("GatherGrad", dx, places, g.resized_shape(dx, axis, dim), axis=axis)
        else:
            raise g.refuse("`Slice` with steps has a gradient only where the size of its dimension is known")
    return [dx, *none]


def _interleaved(g: Backward, dy: Arg, axis: int, start: int, step: int) -> Arg:
    """Zeros around each element along an axis, which becomes `step` of them."""
    rows = g("Pad", g("Unsqueeze", dy, (axis + 1,)), (start, step - 1 - start), None, (axis + 1,))
    dim = cast(int, g.known_shape(dy)[axis])
    return g("Reshape", rows, g.resized_shape(dy, axis, dim * step))


def _cut(dim: object, start: int, end: int, step: int) -> tuple[int, int] | None:
    """The numbers of elements before and after a slice; None if unknown, or for steps."""
    if step != 1:
        return None
    if isinstance(dim, int):
        taken = range(dim)[start:end]
        return (taken.start, dim - taken.stop) if taken else (dim, 0)
    if start >= 0 and (end >= FAR or end < 0):
        return start, 0 if end >= FAR else -end
    return None


@Slice.torch
def _(
    write: Write,
    data: Expr,
    starts: Expr,
    ends: Expr,
    axes: Expr | None = None,
    steps: Expr | None = None,
) -> str:
    first, last = starts.ints("where the slice starts"), ends.ints("where the slice ends")
    named = tuple(range(len(first))) if axes is None else axes.ints("which axes are sliced")
    strides = (1,) * len(first) if steps is None else steps.ints("the step of the slice")
    _bracketed = [":"] * data.rank
    backwards: list[tuple[int, range]] = []
    for axis, start, end, step in zip(named, first, last, strides, strict=True):
        taken = range(*slice(start, end, step).indices(data.shape[axis]))
        if step > 0:
            _bracketed[axis % data.rank] = f"{taken.start}:{max(taken.start, taken.stop)}" + (
                f":{step}" if step > 1 else ""
            )
        else:
            backwards.append((axis % data.rank, taken))
    text = f"{data.tensor}[{', '.join(_bracketed)}]" if any(part != ":" for part in _bracketed) else data.tensor
    for axis, taken in backwards:
        places = write.constant(Dense(DTYPES["Int64"], (len(taken),), tuple(taken)))
        text = f"{text}.index_select({axis}, {places})"
    return text


def _parts(dim: Dim, count: int) -> Sequence[Dim]:
    """The sizes of `count` equal parts; of an integer the last one may be smaller. Raises Reject were it negative."""
    if count < 1:
        raise Reject(codes.BAD_VALUE, f"`Split` expected at least 1 part, found {count}", "num_outputs")
    if count > MOST_ENTRIES:
        raise Reject(codes.BAD_VALUE, f"`Split` expected at most {MOST_ENTRIES} parts, found {count}", "num_outputs")
    if not isinstance(dim, int):
        return [dims.divide(dim, count)] * count
    size = -(-dim // count)
    last = dim - size * (count - 1)
    if last < 0:
        message = f"`Split` cannot cut a dimension of {dim} into {count} parts of {size}"
        raise Reject(codes.INDIVISIBLE, message, "input", help="give the sizes as `split`")
    return [size] * (count - 1) + [last]


def _stated_parts(dim: Dim, split: Operand, count: int) -> Sequence[Dim]:
    sizes = known_ints(split)
    if sizes is None:
        stated = length(split)
        return [None] * (stated if isinstance(stated, int) else count)
    if any(size < 0 for size in sizes):
        raise Reject(codes.BAD_VALUE, f"`Split` expected sizes from 0, found {list(sizes)}", "split")
    if not sizes:
        raise Reject(codes.BAD_VALUE, "`Split` expected 1 size at least, found none", "split")
    if isinstance(dim, int) and sum(sizes) != dim:
        message = f"`Split` expected sizes that add up to {dim}, found {list(sizes)}, which add up to {sum(sizes)}"
        raise Reject(codes.BAD_VALUE, message, "split")
    return sizes


def _positions(size: int, start: int, end: int, step: int) -> range:
    """The positions of a slice, clamped as in ONNX."""
    first, last = (position + size if position < 0 else position for position in (start, end))
    if step > 0:
        return range(min(max(first, 0), size), min(max(last, 0), size), step)
    return range(min(max(first, 0), size - 1), min(max(last, -1), size - 1), step)


def _sliced(dim: Dim, start: int, end: int, step: int) -> Dim:
    """The size of a slice of a dimension; None if it depends on the value of a named one."""
    if isinstance(dim, int):
        return len(_positions(dim, start, end, step))
    if step > 0 and end <= start and (start < 0) == (end < 0):
        return 0
    if step == -1 and end <= -FAR and (start == -1 or start >= FAR):
        return dim
    from_first, to_last = start >= 0 or start <= -FAR, end >= FAR or -FAR < end < 0
    if step != 1 or start >= FAR or not (from_first and to_last):
        return None
    return dims.subtract(dim, max(start, 0) - min(end, 0))


def _element_places(indices: Array, shape: tuple[int, ...], axis: int) -> tuple[Array, ...]:
    """For each dimension, the source or target positions of the elements."""
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    at = axis % len(shape)
    places[at] = indices.astype(np.intp)
    return tuple(places)


def _scattered(data: Array, places: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    written = data.copy()
    if reduction == "none":
        written[places] = updates
        return written
    combine = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
    written = wide(written)  # one position may have many summands
    combine.at(written, places, updates.astype(written.dtype))
    return written.astype(data.dtype, copy=False)


def _check_reduction(name: str, reduction: str) -> None:
    if reduction not in ("none", "add", "mul", "max", "min"):
        message = f'`{name}` expected "none", "add", "mul", "max" or "min", found "{reduction}"'
        raise Reject(codes.BAD_VALUE, message, "reduction")


def _check_element_indices(name: str, data: Operand, indices: Operand, axis: int) -> None:
    if data.shape is None or indices.shape is None:
        return
    if len(data.shape) != len(indices.shape):
        message = f"`{name}` expected indices of rank {len(data.shape)}, found rank {len(indices.shape)}"
        raise Reject(codes.RANK_MISMATCH, message, "indices", ((Part("operand", 0), "as of this operand"),))
    for i, (size, found) in enumerate(zip(data.shape, indices.shape, strict=True)):
        outside = isinstance(size, int) and isinstance(found, int) and found > size
        if outside and i != axis % len(data.shape):
            message = f"`{name}` expected indices of at most {size} along dimension {i}, found {found}"
            raise Reject(codes.SHAPE_MISMATCH, message, "indices")
    _check_range(name, data, indices, axis)


def _check_range(name: str, data: Operand, indices: Operand, axis: int) -> None:
    """Reject known indices along `axis` that are out of range."""
    if data.shape is not None and isinstance(indices, Dense):
        _check_positions(name, indices.values, data.shape[axis])


def _check_positions(name: str, found: Iterable[float | SymbolicDim], size: Dim) -> None:
    known = (v for v in found if not isinstance(v, SymbolicDim))
    wrong = next((v for v in known if isinstance(size, int) and not -size <= v < size), None)
    if wrong is not None:
        expected = f"indices from -{size} to {cast(int, size) - 1}" if size else "no indices into a dimension of 0"
        raise Reject(codes.BAD_VALUE, f"`{name}` expected {expected}, found {wrong}", "indices")


def _check_batch_dims(data: Shape, indices: Shape, batch_dims: int) -> None:
    least = min(len(data), len(indices))
    if not 0 <= batch_dims < max(least, 1):
        message = f"`GatherND` expected a number from 0 to {least - 1}, found {batch_dims}"
        raise Reject(codes.BAD_VALUE, message, "batch_dims")
    for i, (size, found) in enumerate(zip(data[:batch_dims], indices[:batch_dims], strict=True)):
        if None not in (size, found) and size != found:
            message = f"`GatherND` operands disagree on dimension {i}: expected {size}, found {found}"
            raise Reject(codes.SHAPE_MISMATCH, message, "indices", ((Part("operand", 0), f"it is {size} here"),))


def _coordinates(name: str, data: Shape, indices: Operand, batch_dims: int) -> int | None:
    """The number of coordinates in an entry of `indices`; None if unknown. Raises Reject if it does not fit `data`."""
    if not indices.shape:
        raise Reject(codes.RANK_MISMATCH, f"`{name}` expected indices of rank at least 1, found rank 0", "indices")
    depth = indices.shape[-1]
    if not isinstance(depth, int):
        return None
    if not 1 <= depth <= len(data) - batch_dims:
        message = f"`{name}` expected from 1 to {len(data) - batch_dims} coordinates, found {depth}"
        raise Reject(codes.SHAPE_MISMATCH, message, "indices")
    if isinstance(indices, Dense):
        for i in range(depth):
            _check_positions(name, indices.values[i::depth], data[batch_dims + i])
    return depth


def _check_updates(expected: Shape, found: Shape) -> None:
    fits = len(expected) == len(found) and all(None in p or p[0] == p[1] for p in zip(expected, found, strict=False))
    if not fits:
        message = f"`ScatterND` expected updates of shape {types.show_shape(expected)}"
        raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {types.show_shape(found)}", "updates")


def _overwritten(g: Backward) -> bool:
    """Whether updates replace elements; else they are added."""
    reduction = g.attrs["reduction"]
    if reduction not in ("none", "add"):
        raise g.refuse(f'`{g.op.name}` with `reduction = "{reduction}"` has no gradient')
    return reduction == "none"


def _bracketed(rank: int, axis: int, inside: str) -> str:
    """The index expression for `inside` along one axis."""
    return ", ".join([":"] * axis + [inside])


def _beside_axis(axis: int, data: Operand, indices: Operand) -> tuple[Letters, Letters]:
    """Letters for the dimensions, except `axis`, that have equal sizes in both."""
    rank = len(data.shape or ())
    pairs = enumerate(zip(data.shape or (), indices.shape or (), strict=True))
    letters = tuple(f"s{i}" if m == n and m is not None and i != axis % rank else None for i, (m, n) in pairs)
    return letters, letters


def _along_axis(shape: Shape | None, axis: int) -> tuple[Letters, int]:
    (letters,) = elementwise([shape])
    return letters, axis % max(len(letters), 1)
