"""Elements and slices at indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Arg, Dense, Literal, Part, Shape
from distir.ops.core import op
from distir.ops.host import Operand
from distir.ops.layout import Layout, Parts
from distir.ops.numeric import Array, np
from distir.ops.select.indices import (
    Results,
    beside_axis,
    bracketed,
    check_element_indices,
    check_range,
    coordinates,
    element_places,
    length_along,
    zero_of,
)
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write


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


@Gather.pieces
def _(p: Pieces, data: Piece, indices: Piece, *, axis: int) -> Any:
    """Of some rows of a table, for indices that count from the first of them."""
    own, first = p.own(indices), axis % len(p.shape(data))
    if own is None or not p.has_rows(data, first, own):
        return NotImplemented
    found = p("Gather", p.whole(data, axis), own.positions, axis=axis)
    return [p.guarded(found, own, range(first, first + len(p.shape(indices))))]


@Gather.checks
def _(data: Operand, indices: Operand, *, axis: int) -> None:
    check_range("Gather", data, indices, axis)


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
    own, here = w.own(indices, length_along(table, axis))
    rows = w("Gather", data, own, axis=axis)
    rank = len(table.shape or ())
    behind = rank - axis % rank - 1
    mask = w("Unsqueeze", here, Literal(tuple(range(-behind, 0)))) if behind else here
    return [w("Where", mask, rows, zero_of(table))]


@Gather.grad
def _(g: Backward) -> Gradients:
    data, indices = g.x
    return [g("GatherGrad", g.dy, indices, g.shape_of(data), axis=g.attrs["axis"]), None]


@Gather.torch
def _(write: Write, data: Expr, indices: Expr, *, axis: int) -> str:
    at = axis % data.rank
    if indices.value is None:
        return f"{data}[{bracketed(data.rank, at, _index(indices))}]"
    places = [int(i) % data.shape[at] for i in indices.ints("which slices are taken")]
    if indices.rank == 0:
        return f"{data}.select({at}, {places[0]})"
    known = write.constant(Dense(DTYPES["Int64"], indices.shape, tuple(places)))
    return f"{data}[{bracketed(data.rank, at, known)}]"


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
    return data[element_places(indices, data.shape, axis)]


@GatherElements.pieces
def _(p: Pieces, data: Piece, indices: Piece, *, axis: int) -> Any:
    own = p.own(indices)
    if own is None or not p.has_rows(data, axis % len(p.shape(data)), own):
        return NotImplemented
    found = p("GatherElements", p.whole(data, axis), own.positions, axis=axis)
    return [p.guarded(found, own, range(len(p.shape(indices))))]


@GatherElements.checks
def _(data: Operand, indices: Operand, *, axis: int) -> None:
    check_element_indices("GatherElements", data, indices, axis)


@GatherElements.sharding
def _(data: Operand, indices: Operand, *, results: Results, axis: int) -> Layout:
    here, there = beside_axis(axis, data, indices)
    at = axis % max(len(there), 1)
    places = (*there[:at], "places", *there[at + 1 :])
    return Layout(((*here[:at], "n", *here[at + 1 :]), places), (places,), parted=frozenset({"n"}), positions=1)


@GatherElements.parted
def _(w: Parts, data: Arg, indices: Arg, *, axis: int) -> list[Arg]:
    """Each device takes the elements that it has, and zeros for the others."""
    table = w.type(data)
    own, here = w.own(indices, length_along(table, axis))
    return [w("Where", here, w("GatherElements", data, own, axis=axis), zero_of(table))]


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
    depth = coordinates("GatherND", data.shape, indices, batch_dims)
    return None if depth is None else indices.shape[:-1] + data.shape[batch_dims + depth :]


@GatherND.sharding
def _(data: Operand, indices: Operand, *, results: Results, batch_dims: int) -> Layout:
    rank, places = len(data.shape or ()), [f"i{k}" for k in range(len(indices.shape or ()) - 1)]
    depth = indices.shape[-1] if indices.shape else None
    if not isinstance(depth, int):
        return Layout(((None,) * rank, (None,) * (len(places) + 1)), ((None,) * len(results[0] or ()),))
    behind = [f"d{k}" for k in range(batch_dims + depth, rank)]
    return Layout(((*places[:batch_dims], *(None,) * depth, *behind), (*places, None)), ((*places, *behind),))


@GatherND.grad
def _(g: Backward) -> Gradients:
    data, indices = g.x
    if g.attrs["batch_dims"]:
        raise g.refuse("`GatherND` with `batch_dims` has no gradient", "use `GatherElements`, or put the batch in it")
    return [g("ScatterND", g.zeros(data), indices, g.dy, reduction="add"), None]


@GatherND.torch(fresh=True)
def _(write: Write, data: Expr, indices: Expr, *, batch_dims: int) -> str:
    return f"{write.kernel('gather_nd')}({data}, {indices}, {batch_dims})"


def _check_batch_dims(data: Shape, indices: Shape, batch_dims: int) -> None:
    least = min(len(data), len(indices))
    if not 0 <= batch_dims < max(least, 1):
        message = f"`GatherND` expected a number from 0 to {least - 1}, found {batch_dims}"
        raise Reject(codes.BAD_VALUE, message, "batch_dims")
    for i, (size, found) in enumerate(zip(data[:batch_dims], indices[:batch_dims], strict=True)):
        if None not in (size, found) and size != found:
            message = f"`GatherND` operands disagree on dimension {i}: expected {size}, found {found}"
            raise Reject(codes.SHAPE_MISMATCH, message, "indices", ((Part("operand", 0), f"it is {size} here"),))
