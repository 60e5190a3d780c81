"""Gradients of taking apart, putting together, and reading or writing some elements."""

from __future__ import annotations

from typing import cast

from distir.ir import Arg, Literal
from distir.ops import select as ops
from distir.ops.differentiation.backward import Backward, Gradients
from distir.ops.unify import normal_axis


@ops.Split.grad
def _(g: Backward) -> Gradients:
    parts = [g.dy_or_zeros(i) for i in range(len(g.dys))]
    return [g("Concat", *parts, axis=g.attrs["axis"]), None]


@ops.Concat.grad
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


@ops.Gather.grad
def _(g: Backward) -> Gradients:
    data, indices = g.x
    return [g("GatherGrad", g.dy, indices, g.shape_of(data), axis=g.attrs["axis"]), None]


@ops.GatherElements.grad
def _(g: Backward) -> Gradients:
    data, indices = g.x
    axis = g.attrs["axis"]
    return [g("ScatterElements", g.zeros(data), indices, g.dy, axis=axis, reduction="add"), None]


@ops.GatherND.grad
def _(g: Backward) -> Gradients:
    data, indices = g.x
    if g.attrs["batch_dims"]:
        raise g.refuse("`GatherND` with `batch_dims` has no gradient", "use `GatherElements`, or put the batch in it")
    return [g("ScatterND", g.zeros(data), indices, g.dy, reduction="add"), None]


@ops.ScatterElements.grad
def _(g: Backward) -> Gradients:
    _, indices, updates = g.x
    axis = g.attrs["axis"]
    dupdates = g("GatherElements", g.dy, indices, axis=axis)
    if not _overwritten(g):
        return [g.dy, None, dupdates]
    return [g("ScatterElements", g.dy, indices, g.zeros(updates), axis=axis), None, dupdates]


@ops.ScatterND.grad
def _(g: Backward) -> Gradients:
    _, indices, updates = g.x
    dupdates = g("GatherND", g.dy, indices)
    if not _overwritten(g):
        return [g.dy, None, dupdates]
    return [g("ScatterND", g.dy, indices, g.zeros(updates)), None, dupdates]


def _overwritten(g: Backward) -> bool:
    """Whether updates take the place of what was there; else they were added to it."""
    reduction = g.attrs["reduction"]
    if reduction not in ("none", "add"):
        raise g.refuse(f'`{g.op.name}` with `reduction = "{reduction}"` has no gradient')
    return reduction == "none"


@ops.Slice.grad
def _(g: Backward) -> Gradients:
    """Zeros around what was taken, or between it where steps were taken."""
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
        elif isinstance(dim, int):
            places = Literal(tuple(range(dim)[start:end:step]))
            dx = g("GatherGrad", dx, places, resized_shape(g, dx, axis, dim), axis=axis)
        else:
            raise g.refuse("`Slice` with steps has a gradient only where the size of its dimension is known")
    return [dx, *none]


def resized_shape(g: Backward, value: Arg, axis: int, dim: int) -> Arg:
    """The shape of a value with another size along an axis, as an operand."""
    shape = g.known_shape(value)
    sizes = (*shape[:axis], dim, *shape[axis + 1 :])
    if all(isinstance(size, int) for size in sizes):
        return Literal(cast("tuple[int, ...]", sizes))
    parts: list[Arg] = [Literal((dim,))]
    if axis > 0:
        parts.insert(0, g("Shape", value, start=0, end=axis))
    if axis + 1 < len(shape):
        parts.append(g("Shape", value, start=axis + 1))
    return g("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]


def _cut(dim: object, start: int, end: int, step: int) -> tuple[int, int] | None:
    """How much a slice leaves off before and after; None where it takes steps, or that is unknown."""
    if step != 1:
        return None
    if isinstance(dim, int):
        taken = range(dim)[start:end]
        return (taken.start, dim - taken.stop) if taken else (dim, 0)
    if start >= 0 and (end >= ops.FAR or end < 0):
        return start, 0 if end >= ops.FAR else -end
    return None
