"""How the ops of `select` are split over devices: apart from them only because that file is long enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distir.ir import Arg, Literal, Shape
from distir.ops.host import Operand, known_ints
from distir.ops.layout import Layout, Letters, Parts, elementwise
from distir.ops.select import Concat, Gather, GatherElements, GatherND, ScatterElements, ScatterND, Slice, Split

Results = Sequence[Shape | None]


@Split.sharding
def _(input: Operand, split: Operand | None = None, *, results: Results, axis: int, **_: Any) -> Layout:
    letters, cut = _along_axis(input.shape, axis)
    blocks = tuple(None if shape is None else shape[cut] for shape in results)
    sizes = {} if split is None or not letters else {f"s{cut}": (1,)}
    operands = (letters,) if split is None else (letters, ())
    return Layout(operands, (letters,) * len(results), operand_blocks={(0, cut): blocks}, divided_operands=sizes)


@Concat.sharding
def _(*inputs: Operand, results: Results, axis: int) -> Layout:
    letters, joined = _along_axis(results[0], axis)
    blocks = tuple(None if x.shape is None else x.shape[joined] for x in inputs)
    return Layout((letters,) * len(inputs), (letters,), result_blocks={(0, joined): blocks})


@Gather.sharding
def _(data: Operand, indices: Operand, *, results: Results, axis: int) -> Layout:
    rank, depth = len(data.shape or ()), len(indices.shape or ())
    first = axis % max(rank, 1)
    before, behind = [f"a{k}" for k in range(first)], [f"b{k}" for k in range(rank - first - 1)]
    positions = tuple(f"s{k}" for k in range(depth))
    return Layout(((*before, "n", *behind), positions), ((*before, *positions, *behind),), parted="n")


@Gather.parted
def _(w: Parts, data: Arg, indices: Arg, *, axis: int) -> list[Arg]:
    """Of a table in parts, each device looks up what it has; the rows of the others count as zero."""
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


@Slice.sharding
def _(data: Operand, starts: Operand, ends: Operand, *others: Operand | None, results: Results) -> Layout:
    rank = len(data.shape or ())
    axes = others[0] if others else None
    named = range(len(known_ints(starts) or range(rank))) if axes is None else known_ints(axes)
    cut = range(rank) if named is None else [axis % rank for axis in named]
    letters = tuple(None if i in cut else f"s{i}" for i in range(rank))
    return Layout((letters, *((),) * (2 + len(others))), (letters,))


@GatherElements.sharding
def _(data: Operand, indices: Operand, *, results: Results, axis: int) -> Layout:
    here, there = _beside_axis(axis, data, indices)
    at = axis % max(len(there), 1)
    places = (*there[:at], "places", *there[at + 1 :])
    return Layout((here, places), (places,))


@ScatterElements.sharding
def _(data: Operand, indices: Operand, updates: Operand, *, results: Results, axis: int, reduction: str) -> Layout:
    here, there = _beside_axis(axis, data, indices)
    return Layout((here, there, there), (here,))


@GatherND.sharding
def _(data: Operand, indices: Operand, *, results: Results, batch_dims: int) -> Layout:
    rank, places = len(data.shape or ()), [f"i{k}" for k in range(len(indices.shape or ()) - 1)]
    depth = indices.shape[-1] if indices.shape else None
    if batch_dims or not isinstance(depth, int):
        return Layout(((None,) * rank, (None,) * (len(places) + 1)), ((None,) * len(results[0] or ()),))
    behind = [f"d{k}" for k in range(depth, rank)]
    return Layout(((*(None,) * depth, *behind), (*places, None)), ((*places, *behind),))


@ScatterND.sharding
def _(data: Operand, indices: Operand, updates: Operand, *, results: Results, reduction: str) -> Layout:
    operands = tuple((None,) * len(x.shape or ()) for x in (data, indices, updates))
    return Layout(operands, (operands[0],))


def _beside_axis(axis: int, data: Operand, indices: Operand) -> tuple[Letters, Letters]:
    """Letters for dimensions that are equally long in both, but the axis."""
    rank = len(data.shape or ())
    pairs = enumerate(zip(data.shape or (), indices.shape or (), strict=True))
    letters = tuple(f"s{i}" if m == n and m is not None and i != axis % rank else None for i, (m, n) in pairs)
    return letters, letters


def _along_axis(shape: Shape | None, axis: int) -> tuple[Letters, int]:
    (letters,) = elementwise([shape])
    return letters, axis % max(len(letters), 1)
