"""Ranges along axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Arg, Dense, Dim, Literal, Shape, dims
from distir.ops.core import op
from distir.ops.host import FAR, Operand, distinct_axes, known_ints, length
from distir.ops.layout import Layout
from distir.ops.numeric import Array, np
from distir.ops.select.indices import Results
from distir.ops.unify import Reject, normal_axis

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write


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
    bracketed = [":"] * data.rank
    backwards: list[tuple[int, range]] = []
    for axis, start, end, step in zip(named, first, last, strides, strict=True):
        taken = range(*slice(start, end, step).indices(data.shape[axis]))
        if step > 0:
            bracketed[axis % data.rank] = f"{taken.start}:{max(taken.start, taken.stop)}" + (
                f":{step}" if step > 1 else ""
            )
        else:
            backwards.append((axis % data.rank, taken))
    text = f"{data.tensor}[{', '.join(bracketed)}]" if any(part != ":" for part in bracketed) else data.tensor
    for axis, taken in backwards:
        places = write.constant(Dense(DTYPES["Int64"], (len(taken),), tuple(taken)))
        text = f"{text}.index_select({axis}, {places})"
    return text


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
