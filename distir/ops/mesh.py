"""Collectives over axes of the mesh: ops of programs whose types say where the parts of values are.

Each changes the placement of a value and not the value: as part of the sequential program each is its operand. What
placement it takes and gives along each of its axes is `AxisCollective`, which the checker reads; `distir expand` writes
the collectives of devices that they are. Over several axes, `axis = ["dp", "cp"]`, it is one collective of all devices
along them, of which the first axis is outermost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from distir.ir.places import PENDING, Blocks, Shared, SplitAlong
from distir.ops.core import Op, op
from distir.ops.host import Operand
from distir.ops.numeric import Array
from distir.ops.unify import Reject, normal_axis

if TYPE_CHECKING:
    from distir.ops.pieces import Piece, Pieces

BEFORE_PLACEMENT = "it changes where a value is: differentiate the sequential program, which `distir erase` gives"
"""Why the ops of this family have no gradient."""


@op(
    "Tensor[t:number, s, d] -> Tensor[t, s, d]",
    communication="allreduce",
    inplace="each",
    leafwise=True,
    foldable=False,
    linear="jointly",
    non_differentiable=BEFORE_PLACEMENT,
)
def AllReduce(x: Array, *, axis: str | tuple[str, ...], op: str = "sum", wide: bool = False) -> Array:
    """A value that is a pending sum along an axis of the mesh, added up: the same on every device.

    With `op = "max"` one that is a pending maximum; with `axis = ["dp", "cp"]` along both axes at once. With `wide`
    terms of fewer bits are sent, and added up, in Float32; the sum has their type again.

    %y = AllReduce[axis = "tp"](%x: Tensor[Float32, (2, 3), 1, sum tp])
    """
    return x


@op(
    "Tensor[t, (*a, n@dim, *b), d] -> Tensor[t, (*a, n, *b), d]",
    communication="allgather",
    leafwise=True,
    foldable=False,
    linear="jointly",
    non_differentiable=BEFORE_PLACEMENT,
)
def AllGather(x: Array, *, axis: str | tuple[str, ...], dim: int = 0) -> Array:
    """A value whose dimension `dim` is split along an axis of the mesh, whole along it on every device.

    Of several axes that split the dimension, the innermost is gathered first; with `axis = ["dp", "cp"]` both at once.

    %y = AllGather[axis = "tp", dim = 0](%x: Tensor[Float32, (4@tp, 3), 1])
    """
    return x


@op(
    "Tensor[t:number, (*a, n@dim, *b), d] -> Tensor[t, (*a, n, *b), d]",
    communication="reducescatter",
    leafwise=True,
    foldable=False,
    linear="jointly",
    non_differentiable=BEFORE_PLACEMENT,
)
def ReduceScatter(x: Array, *, axis: str | tuple[str, ...], dim: int = 0, zigzag: bool = False) -> Array:
    """A value that is a pending sum along an axis of the mesh, added up and split along it in dimension `dim`.

    With `zigzag`, device i of n is given the parts i and 2n - 1 - i of 2n.

    %y = ReduceScatter[axis = "tp", dim = 0](%x: Tensor[Float32, (4, 3), 1, sum tp])
    """
    return x


@op(
    "Tensor[t, s, d] -> Tensor[t, s, d]",
    communication="alltoall",
    foldable=False,
    linear="jointly",
    non_differentiable=BEFORE_PLACEMENT,
)
def AllToAll(
    x: Array,
    *,
    axis: str | tuple[str, ...],
    split: int,
    join: int,
    zigzag: bool = False,
    top_k: int = 1,
    n_group: int = 1,
    topk_group: int = 1,
) -> Array:
    """A value whose dimension `join` is split along an axis of the mesh, split in dimension `split` instead.

    With `zigzag`, device i of n is given the parts i and 2n - 1 - i of 2n. What is joined is in order, however it was
    split. With `top_k` > 1 it brings tokens to their experts, or results back, as in `MPIAlltoall`.

    %y = AllToAll[axis = "tp", split = 1, join = 0](%x: Tensor[Float32, (4@tp, 6), 1])
    """
    return x


@op(
    "Tensor[t, (*a, n@dim, *b), d] -> Tensor[t, (*a, n, *b), d]",
    view=True,
    foldable=False,
    linear="jointly",
    non_differentiable=BEFORE_PLACEMENT,
)
def Shard(
    x: Array,
    *,
    axis: str | tuple[str, ...],
    dim: int = 0,
    blocks: tuple[int, ...] = (),
    whole: tuple[int, ...] = (),
    zigzag: bool = False,
) -> Array:
    """A value that is whole along an axis of the mesh, of which each device takes its part in dimension `dim`.

    With `blocks`, their sizes, it takes its part of each, as of fused weights, and all of those whose numbers, from 0,
    are in `whole`. With `zigzag`, device i of n takes the parts i and 2n - 1 - i of 2n. Nothing is communicated.

    %y = Shard[axis = "tp", dim = 0](%x: Tensor[Float32, (4, 3), 1])
    %y = Shard[axis = "cp", dim = 0, zigzag = true](%x: Tensor[Float32, (8, 3), 1])
    %y = Shard[axis = "tp", dim = 0, blocks = [4, 4, 1], whole = [2]](%x: Tensor[Float32, (9, 3), 1])
    """
    return x


@op(
    "Tensor[t:float, s, d] -> Tensor[t, s, d]",
    view=True,
    leafwise=True,
    foldable=False,
    linear="jointly",
    non_differentiable=BEFORE_PLACEMENT,
)
def Share(x: Array, *, axis: str | tuple[str, ...]) -> Array:
    """A value that is whole along an axis of the mesh, as a pending sum: each device takes an equal share of it.

    So it may be added to what is a pending sum already. Nothing is communicated.

    %y = Share[axis = "tp"](%x: Tensor[Float32, (2, 3), 1])
    """
    return x


@op(
    "Tensor[t:number, s, d] -> Tensor[t, s, d]",
    view=True,
    leafwise=True,
    foldable=False,
    linear="jointly",
    non_differentiable=BEFORE_PLACEMENT,
)
def Reduce(x: Array, *, axis: str | tuple[str, ...], to: int | tuple[int, ...]) -> Array:
    """A value that is a pending sum along an axis of the mesh, added up on one device, whose number along it `to` is.

    Devices count from 1. With `axis = ["dp", "cp"], to = [2, 1]` over both axes at once.

    %y = Reduce[axis = "tp", to = 2](%x: Tensor[Float32, (2, 3), 1, sum tp])
    """
    return x


@op(
    "Tensor[t, s, d] -> Tensor[t, s, d]",
    view=True,
    leafwise=True,
    foldable=False,
    linear="jointly",
    non_differentiable=BEFORE_PLACEMENT,
)
def Broadcast(x: Array, *, axis: str | tuple[str, ...]) -> Array:
    """A value that one device along an axis of the mesh has alone, on every device along it.

    %y = Broadcast[axis = "tp"](%x: Tensor[Float32, (2, 3), 1, on tp 2])
    """
    return x


@dataclass(frozen=True, slots=True)
class AxisCollective:
    """What a collective does to the placement of its operand along each of its axes: what that was, and becomes.

    A word of `PENDING`, `split`, `owned` or `whole`. A split is in the dimension that an attribute has: `taken` the one
    that is split before, `given` the one afterwards.
    """

    before: str
    after: str
    taken: str = ""
    given: str = ""


COLLECTIVES: Final[Mapping[str, AxisCollective]] = {
    AllReduce.name: AxisCollective("pending", "whole"),
    AllGather.name: AxisCollective("split", "whole", taken="dim"),
    ReduceScatter.name: AxisCollective("sum", "split", given="dim"),
    AllToAll.name: AxisCollective("split", "split", taken="join", given="split"),
    Shard.name: AxisCollective("whole", "split", given="dim"),
    f"{Shard.name}View": AxisCollective("whole", "split", given="dim"),
    Share.name: AxisCollective("whole", "sum"),
    Reduce.name: AxisCollective("sum", "owned"),
    Broadcast.name: AxisCollective("owned", "whole"),
}
"""By name, the ops of this family."""


@AllToAll.checks
def _(x: Operand, *, split: int, join: int, **_: object) -> None:
    dims = split, join
    if x.shape is not None:
        dims = (
            normal_axis(split, len(x.shape), "AllToAll", "split"),
            normal_axis(join, len(x.shape), "AllToAll", "join"),
        )
    if dims[0] == dims[1]:
        from distir.diagnostics.codes import types as codes

        message = f"`AllToAll` expected two dimensions, found {join} for `split` and `join`: rows would change places"
        raise Reject(codes.BAD_VALUE, message, "split", help="use the value as it is, which is split there")


@AllReduce.checks
def _(x: Operand, *, axis: str | tuple[str, ...], op: str, wide: bool) -> None:
    if op not in PENDING:
        from distir.diagnostics.codes import types as codes

        raise Reject(codes.BAD_VALUE, f"`AllReduce` expected one of {', '.join(PENDING)} for `op`, found `{op}`", "op")


@Shard.checks
def _(x: Operand, *, blocks: tuple[int, ...], whole: tuple[int, ...], **_: object) -> None:
    from distir.diagnostics.codes import types as codes

    wrong = next((k for k in whole if not 0 <= k < len(blocks)), None)
    if wrong is not None:
        message = f"`Shard` expected numbers of its {len(blocks)} blocks in `whole`, found {wrong}"
        raise Reject(codes.BAD_VALUE, message, "whole", help="blocks count from 0")
    if len({*whole}) == len(blocks) > 0:
        message = "`Shard` splits none of its blocks: all are in `whole`"
        raise Reject(codes.BAD_VALUE, message, "whole", help="use the value as it is, which is whole")


def cut_along(axis: str, dim: int, attrs: Mapping[str, Any]) -> SplitAlong:
    """How a collective with these attributes splits a dimension along an axis: in blocks, or in zig-zag."""
    whole = attrs.get("whole", ())
    blocks = tuple(Shared(size) if k in whole else size for k, size in enumerate(attrs.get("blocks", ())))
    return SplitAlong(dim, axis, blocks, attrs.get("zigzag", False))


def stating(blocks: Blocks, zigzag: bool) -> dict[str, tuple[int, ...] | bool]:
    """The attributes of a collective that state blocks of these sizes, which are numbers, and zig-zag."""
    sizes = (block.size if isinstance(block, Shared) else block for block in blocks)
    numbers = tuple(n for n in sizes if isinstance(n, int))
    whole = tuple(k for k, block in enumerate(blocks) if isinstance(block, Shared))
    stated = {"blocks": numbers, "whole": whole, "zigzag": zigzag}
    return {name: value for name, value in stated.items() if value}


def _same(family_op: Op) -> None:
    @family_op.pieces
    def _(p: Pieces, x: Piece, **_: object) -> list[Piece]:
        return [x]


for _each in (AllReduce, AllGather, ReduceScatter, AllToAll, Shard, Share, Reduce, Broadcast):
    _same(_each)
