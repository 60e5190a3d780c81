"""Elements and slices put at indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Arg, Dense, Literal, Shape, types
from distir.ops.attributes import check_word
from distir.ops.core import op
from distir.ops.host import Operand
from distir.ops.layout import Layout, Letters, Parts
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.select.indices import (
    Results,
    beside_axis,
    check_element_indices,
    coordinates,
    element_places,
    length_along,
)
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write

COMBINED = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
"""By reduction: the op that does the same with two elements."""

HIT = Dense(DTYPES["Bool"], (2,), (False, True))
"""Where nothing is written, and where something is."""


@op(
    "Tensor[t, (*a, n@axis, *b), d], Tensor[i:int, s, d], Tensor[t, s, d] -> Tensor[t, (*a, n, *b), d]",
    flops=lambda s, reduction, **_: 0 if reduction == "none" else s,
)
def ScatterElements(data: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: str = "none") -> Array:
    """`data` with each element of `updates` written at its position, except that `indices` gives the one along `axis`.

    With `reduction` (`add`, `mul`, `max`, `min`), the elements of `data` and `updates` are combined; without, positions
    must be distinct. ONNX `ScatterElements`.

    %y = ScatterElements(%x: Tensor[Float32, (3, 3), 1], %i: Tensor[Int64, (1, 3), 1], %u: Tensor[Float32, (1, 3), 1])
    %y = ScatterElements[axis = 1, reduction = "max"](%x: Tensor[Float32, (2, 4), 1], %i: Tensor[Int64, (2, 1), 1], %u: Tensor[Float32, (2, 1), 1])
    """  # noqa: E501 - an example is one line
    return _scattered(data, element_places(indices, data.shape, axis), updates, reduction)


@ScatterElements.checks
def _(data: Operand, indices: Operand, updates: Operand, *, axis: int, reduction: str) -> None:
    _check_reduction("ScatterElements", reduction)
    check_element_indices("ScatterElements", data, indices, axis)


@ScatterElements.sharding
def _(data: Operand, indices: Operand, updates: Operand, *, results: Results, axis: int, reduction: str) -> Layout:
    """By other dimensions, and along the axis where each line of it is written at one position, as at a label."""
    here, there = beside_axis(axis, data, indices)
    at = axis % max(len(here), 1)
    if not _once_a_line(data.shape or (), indices.shape or (), at):
        return Layout((here, there, there), (here,))
    along = (*here[:at], "n", *here[at + 1 :])
    return Layout((along, there, there), (along,), parted=frozenset({"n"}), positions=1)


@ScatterElements.parted
def _(w: Parts, data: Arg, indices: Arg, updates: Arg, *, axis: int, reduction: str) -> list[Arg]:
    """Each device writes what lies in its part."""
    table = w.type(data)
    at, length = axis % len(table.shape or ()), length_along(table, axis)
    own, here = w.own(w("Squeeze", indices, Literal((at,))), length)
    hit = w("OneHot", own, Literal(length // w.size), Literal(HIT), axis=at)
    hit = w("Where", w("Unsqueeze", here, Literal((at,))), hit, Literal(False))
    return [w("Where", hit, _written(w, data, updates, reduction), data)]


@ScatterElements.pieces
def _(p: Pieces, data: Piece, indices: Piece, updates: Piece, *, axis: int, reduction: str) -> Any:
    """What is written where each line has one position, and `data` elsewhere."""
    shape, at = p.shape(data), axis % max(len(p.shape(data)), 1)
    if not _once_a_line(shape, p.shape(indices), at):
        return NotImplemented
    hit = p("OneHot", p.squeezed(indices, (at,)), Literal(p.whole_size(data, at)), Literal(HIT), axis=at)
    return [p("Where", hit, _written(p, data, updates, reduction), data)]


def _once_a_line(data: Shape, indices: Shape, at: int) -> bool:
    """Whether indices of elements have one position along an axis, for each line of the data along it."""
    beside = len(data) == len(indices) and all(
        m == n and m is not None for k, (m, n) in enumerate(zip(data, indices, strict=True)) if k != at
    )
    return beside and indices[at : at + 1] == (1,)


def _written(write: Callable[..., Any], data: Any, updates: Any, reduction: str) -> Any:
    return updates if reduction == "none" else write(COMBINED[reduction], data, updates)


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
    depth = coordinates("ScatterND", data.shape, indices, 0)
    if depth is not None and updates.shape is not None:
        _check_updates(indices.shape[:-1] + data.shape[depth:], updates.shape)


@ScatterND.sharding
def _(data: Operand, indices: Operand, updates: Operand, *, results: Results, reduction: str) -> Layout:
    """By dimensions that no index counts in. Of the others, parts are cut from the result, as of `GatherGrad`."""
    rank, places = len(data.shape or ()), (None,) * (len(indices.shape or ()) - 1)
    depth = indices.shape[-1] if indices.shape else None
    behind = [f"d{k}" for k in range(depth, rank)] if isinstance(depth, int) else [None] * (rank - 1)
    ahead = range(rank - len(behind))
    whole: Letters = (*(None for _ in ahead), *behind)
    given: Letters = (*(f"d{k}" for k in ahead), *behind)
    return Layout((whole, (*places, None), (*places, *behind)), (given,))


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
    check_word(name, "reduction", reduction, ("none", "add", "mul", "max", "min"))


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
