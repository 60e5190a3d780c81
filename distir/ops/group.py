"""Collectives of which one device is written down, which stands for all: every other one has what this one has.

In data and tensor parallelism all devices of a group do the same at the same time. A program of one of them is short,
whatever the size of the group, takes as long, and needs as much memory on that device. It says of how many devices a
collective is: `size` of them, `stride` apart, the first of which is the one written down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distir.diagnostics.codes import types as type_codes
from distir.ir import Shape, TensorType
from distir.ops.communication import MPIAllgather, MPIAllreduce, MPIAlltoall, MPIReduceScatter, turned
from distir.ops.core import Op, op
from distir.ops.layout import Layout
from distir.ops.numeric import Array
from distir.ops.unify import Reject

REPRESENTATIVE = "it represents a whole group of devices, whose gradients may differ"
"""Why the ops of this family have no gradient."""


@op(
    "Tensor[t:number, s, d] -> Tensor[t, s, d]",
    communication="allreduce",
    inplace="each",
    leafwise=True,
    foldable=False,
    linear="jointly",
    non_differentiable=REPRESENTATIVE,
)
def GroupAllreduce(x: Array, *, size: int, stride: int = 1) -> Array:
    """The sum of what `size` devices have, `stride` apart, which all have what this one has.

    %y = GroupAllreduce[size = 2](%x: Tensor[Float32, (2, 3), 1])
    """
    return MPIAllreduce.body(*[x] * size)[0]


@op(
    "Tensor[t, (*a, n@axis, *b), d] -> Tensor[t, (*a, n * size, *b), d]",
    communication="allgather",
    foldable=False,
    linear="jointly",
    non_differentiable=REPRESENTATIVE,
)
def GroupAllgather(x: Array, *, size: int, stride: int = 1, axis: int = 0) -> Array:
    """What `size` devices have, `stride` apart, which all have what this one has, concatenated along `axis`.

    %y = GroupAllgather[size = 2, axis = 0](%x: Tensor[Float32, (2, 3), 1])
    """
    return MPIAllgather.body(*[x] * size, axis=axis)[0]


@op(
    "Tensor[t:number, (*a, n@axis, *b), d] -> Tensor[t, (*a, n / size, *b), d]",
    communication="reducescatter",
    foldable=False,
    linear="jointly",
    non_differentiable=REPRESENTATIVE,
)
def GroupReduceScatter(x: Array, *, size: int, stride: int = 1, axis: int = 0) -> Array:
    """The first part along `axis` of the sum of what `size` devices have, `stride` apart, all what this one has.

    %y = GroupReduceScatter[size = 2, axis = 0](%x: Tensor[Float32, (4, 3), 1])
    """
    return MPIReduceScatter.body(*[x] * size, axis=axis)[0]


@op(
    "Tensor[t, (*a, n@split_axis, *b), d] -> Tensor[t, _, d]",
    communication="alltoall",
    foldable=False,
    linear="jointly",
    non_differentiable=REPRESENTATIVE,
)
def GroupAlltoall(x: Array, *, size: int, stride: int = 1, split_axis: int = 0, concat_axis: int = 0) -> Array:
    """The first of `size` parts along `split_axis`, from each of `size` devices, `stride` apart, joined.

    They are joined along `concat_axis`, and all have what this one has.

    %y = GroupAlltoall[size = 2, split_axis = 1](%x: Tensor[Float32, (4, 6), 1])
    """
    return MPIAlltoall.body(*[x] * size, split_axis=split_axis, concat_axis=concat_axis)[0]


@GroupAlltoall.shapes
def _(x: TensorType, *, size: int, stride: int, split_axis: int, concat_axis: int) -> object:
    _check("GroupAlltoall", size, stride)
    return MPIAlltoall.rules["shapes"](*[x] * size, split_axis=split_axis, concat_axis=concat_axis)[0]


@GroupAlltoall.sharding
def _(x: TensorType, *, results: Sequence[Shape | None], split_axis: int, concat_axis: int, **_: object) -> Layout:
    return turned(x, results=results, split_axis=split_axis, concat_axis=concat_axis)


@GroupAllreduce.checks
def _(x: TensorType, *, size: int, stride: int) -> None:
    _check("GroupAllreduce", size, stride)


@GroupAllgather.checks
def _(x: TensorType, *, size: int, stride: int, axis: int) -> None:
    _check("GroupAllgather", size, stride)


@GroupReduceScatter.checks
def _(x: TensorType, *, size: int, stride: int, axis: int) -> None:
    _check("GroupReduceScatter", size, stride)


def _check(name: str, size: int, stride: int) -> None:
    for attribute, value in (("size", size), ("stride", stride)):
        if value < 1:
            message = f"`{name}` expected 1 or more for `{attribute}`, found {value}"
            raise Reject(type_codes.BAD_VALUE, message, attribute)


GROUPED: Final[dict[str, Op]] = {
    "MPIAllreduce": GroupAllreduce,
    "MPIAllgather": GroupAllgather,
    "MPIReduceScatter": GroupReduceScatter,
    "MPIAlltoall": GroupAlltoall,
}
"""By the name of a collective: what is written for the one device that stands for all of its devices."""

STANDING: Final = frozenset(op.name for op in GROUPED.values())
"""The names of the ops of devices that stand for others."""
