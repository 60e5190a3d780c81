"""Collectives of a representative device. The other devices of its group hold equal values and take equal times.

In data and tensor parallelism all devices of a group execute the same ops on tensors of the same shapes (SPMD). A
program of one representative is short, whatever the size of the group, and takes the same time and memory on that
device. A collective states the size of its group: `size` devices, `stride` apart, the first of which is the
representative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distir.diagnostics.codes import types as type_codes
from distir.ir import Shape, TensorType
from distir.ops.communication import (
    MPIAllgather,
    MPIAllreduce,
    MPIAlltoall,
    MPIReduceScatter,
    MPIShift,
    exchanged_layout,
)
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
    """All-reduce over `size` devices, `stride` apart, which all have the operand of this one.

    %y = GroupAllreduce[size = 2](%x: Tensor[Float32, (2, 3), 1])
    """
    return MPIAllreduce.body(*[x] * size)[0]


@op(
    "Tensor[t, (*a, n@axis, *b), d] -> Tensor[t, (*a, n * size, *b), d]",
    communication="allgather",
    leafwise=True,
    foldable=False,
    linear="jointly",
    non_differentiable=REPRESENTATIVE,
)
def GroupAllgather(x: Array, *, size: int, stride: int = 1, axis: int = 0) -> Array:
    """All-gather along `axis` over `size` devices, `stride` apart, which all have the operand of this one.

    %y = GroupAllgather[size = 2, axis = 0](%x: Tensor[Float32, (2, 3), 1])
    """
    return MPIAllgather.body(*[x] * size, axis=axis)[0]


@op(
    "Tensor[t:number, (*a, n@axis, *b), d] -> Tensor[t, (*a, n / size, *b), d]",
    communication="reducescatter",
    leafwise=True,
    foldable=False,
    linear="jointly",
    non_differentiable=REPRESENTATIVE,
)
def GroupReduceScatter(x: Array, *, size: int, stride: int = 1, axis: int = 0) -> Array:
    """Reduce-scatter along `axis` over `size` devices, `stride` apart, which all have the operand of this one.

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
def GroupAlltoall(
    x: Array,
    *,
    size: int,
    stride: int = 1,
    split_axis: int = 0,
    concat_axis: int = 0,
    top_k: int = 1,
    n_group: int = 1,
    topk_group: int = 1,
) -> Array:
    """All-to-all over `size` devices, `stride` apart, which all have the operand of this one.

    The result is the first of `size` parts along `split_axis` of each, concatenated along `concat_axis`. `top_k`,
    `n_group` and `topk_group` as in `MPIAlltoall`.

    %y = GroupAlltoall[size = 2, split_axis = 1](%x: Tensor[Float32, (4, 6), 1])
    """
    return MPIAlltoall.body(*[x] * size, split_axis=split_axis, concat_axis=concat_axis)[0]


@op(
    "Tensor[t, s, d] -> Tensor[t, s, d]",
    communication="shift",
    foldable=False,
    linear="jointly",
    non_differentiable=REPRESENTATIVE,
)
def GroupShift(x: Array, *, size: int, stride: int = 1, by: int = 1) -> Array:
    """A step around a ring of `size` devices, `stride` apart, which all have the operand of this one.

    %y = GroupShift[size = 2](%x: Tensor[Float32, (2, 3), 1])
    """
    return MPIShift.body(*[x] * size, by=by)[0]


@GroupShift.checks
def _(x: TensorType, *, size: int, stride: int, by: int) -> None:
    _check("GroupShift", size, stride)


@GroupAlltoall.shapes
def _(x: TensorType, *, size: int, stride: int, **attrs: int) -> object:
    _check("GroupAlltoall", size, stride)
    return MPIAlltoall.rules["shapes"](*[x] * size, **attrs)[0]


@GroupAlltoall.sharding
def _(
    x: TensorType, *, results: Sequence[Shape | None], size: int, split_axis: int, concat_axis: int, **_: object
) -> Layout:
    return exchanged_layout(x, results=results, split_axis=split_axis, concat_axis=concat_axis, size=size)


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
    "MPIShift": GroupShift,
}
"""Collective -> its op on a representative device."""

REPRESENTATIVE_OPS: Final = frozenset(op.name for op in GROUPED.values())
"""The names of the ops on representative devices."""
