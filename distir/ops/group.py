"""Ops of a representative device. The other devices of its group execute the same statements and take equal times.

In data and tensor parallelism all devices of a group execute the same ops on tensors of the same shapes (SPMD). A
program of one representative is short, whatever the size of the group, and takes the same time and memory on that
device. A collective states the size of its group: `size` devices, `stride` apart, the first of which is the
representative. To simulation their operands are equal. To proofs a device's place in its groups is unknown: it may be
any, and `Split[stride = …]`, `GroupPart`, `GroupParts` and `GroupConstant` say what depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as type_codes
from distir.ir import Attributes, Constant, Dense, DimensionError, External, Part, Shape, TensorType, Type, dims
from distir.ops.communication import (
    MPIAllgather,
    MPIAllreduce,
    MPIAlltoall,
    MPIReduceScatter,
    MPIShift,
    exchanged_layout,
)
from distir.ops.constant import ConstantOp
from distir.ops.core import Op, op
from distir.ops.layout import Layout
from distir.ops.numeric import Array, np
from distir.ops.specs import HOST_RESULTS
from distir.ops.unify import Reject, normal_axis

if TYPE_CHECKING:
    from distir.ops.pieces import Piece, Pieces

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


@op(
    "Tensor[t, (*a, n@axis, *b), d] -> Tensor[t, (*a, n / size, *b), d]",
    flops=0,
    bytes=lambda t, elements, **_: 2 * t * elements,
    leafwise=True,
    foldable=False,
    linear="jointly",
    non_differentiable=REPRESENTATIVE,
)
def GroupPart(x: Array, *, size: int, stride: int = 1, axis: int = 0) -> Array:
    """Each device's own part of `size` equal ones along `axis`, in the order of the devices, `stride` apart.

    %y = GroupPart[size = 2, axis = 0](%x: Tensor[Float32, (4, 3), 1])
    """
    return np.split(x, size, axis=axis)[0]


@GroupPart.pieces
def _(p: Pieces, x: Piece, *, size: int, stride: int, axis: int) -> list[Piece]:
    parts = [p.split(member, axis, size)[rank] for rank, member in enumerate(p.members(x, size, stride))]
    return [p.of_members(parts, stride)]


@GroupPart.checks
def _(x: TensorType, *, size: int, stride: int, axis: int) -> None:
    _check("GroupPart", size, stride)


def _parts_of_others(*, t: int, inputs: int, parts: Constant, **_: object) -> int:
    """The bytes of the parts that a device drops, which `Split` writes, too."""
    return t * (inputs - inputs // len(_parts(parts)))


@op(
    "Tensor[t, (*a, n@axis, *b), d] -> *Tensor[t, (*a, _, *b), d]",
    flops=0,
    bytes=lambda t, inputs, **_: 2 * t * inputs,  # as `Split`, which writes all parts
    temporary=_parts_of_others,
    foldable=False,
    linear="jointly",
    non_differentiable=REPRESENTATIVE,
)
def GroupParts(x: Array, *, parts: Constant, stride: int = 1, axis: int = 0) -> list[Array]:
    """Each device's own parts along `axis`, as in zig-zag: `parts` has their numbers, by device of a group.

    The devices are `stride` apart. There are as many parts in all, of one size, as numbers.

    %a, %b = GroupParts[parts = [[0, 3], [1, 2]], axis = 1](%x: Tensor[Float32, (2, 8), 1])
    """
    held = _parts(parts)
    cut = np.split(x, sum(map(len, held)), axis=axis)
    return [cut[k] for k in held[0]]


@GroupParts.pieces
def _(p: Pieces, x: Piece, *, parts: Constant, stride: int, axis: int) -> list[Piece]:
    held = _parts(parts)
    cut = [p.split(member, axis, sum(map(len, held))) for member in p.members(x, len(held), stride)]
    own = [[every[k] for k in numbers] for numbers, every in zip(held, cut, strict=True)]
    return [p.of_members(column, stride) for column in zip(*own, strict=True)]


@GroupParts.shapes
def _(x: TensorType, *, parts: Constant, stride: int, axis: int, count: int) -> list[Shape | None]:
    held = _parts(parts)
    _check("GroupParts", len(held), stride)
    if count != len(held[0]):
        message = f"`GroupParts` gives a result for each part of a device, of which there are {len(held[0])}"
        raise Reject(name_codes.RESULT_COUNT, f"{message}, found {count}", Part("callee"))
    if x.shape is None:
        return [None] * count
    at, shape = normal_axis(axis, len(x.shape), "GroupParts", "axis"), list(x.shape)
    try:
        shape[at] = dims.divide(shape[at], count * len(held))
    except DimensionError as error:
        raise Reject(type_codes.INDIVISIBLE, f"`GroupParts` cannot cut its operand: {error}", "x") from None
    return [tuple(shape)] * count


def _parts(parts: Constant) -> list[tuple[int, ...]]:
    """The numbers of each device's parts. Raises Reject for what are not as many for each, and each number once."""
    held = [own for own in parts if isinstance(own, tuple)] if isinstance(parts, tuple) else []
    numbers = [number for own in held for number in own if isinstance(number, int)]
    if not held or len(set(map(len, held))) > 1 or sorted(numbers) != list(range(len(held) * len(held[0]))):
        message = "`GroupParts` expected for each device the numbers of as many parts, from 0, and each once"
        raise Reject(type_codes.BAD_VALUE, f"{message}, found {parts}", "parts")
    return [tuple(number for number in own if isinstance(number, int)) for own in held]


@op(
    "Tensor[t:number, s, d] -> Tensor[t, s, d]",
    view=True,
    leafwise=True,
    foldable=False,
    linear="jointly",
    non_differentiable=REPRESENTATIVE,
)
def GroupFirst(x: Array, *, size: int, stride: int = 1) -> Array:
    """The operand on the first of `size` devices, `stride` apart, and zeros on the others: so their sum has it once.

    %y = GroupFirst[size = 2](%x: Tensor[Float32, (2, 3), 1])
    """
    return x


@GroupFirst.pieces
def _(p: Pieces, x: Piece, *, size: int, stride: int) -> list[Piece]:
    return [p.addend_of_each(x, "GroupFirst", size, stride)]


@GroupFirst.checks
def _(x: TensorType, *, size: int, stride: int) -> None:
    _check("GroupFirst", size, stride)


@op("-> Tensor[_, _, host]", view=True, foldable=False, non_differentiable=HOST_RESULTS)
def GroupConstant(*, values: Constant, stride: int = 1) -> Array:
    """A constant of which each device of a group, `stride` apart, has its own value; the result is the first one's.

    %c = GroupConstant[values = [0, 8], stride = 2]()
    """
    return ConstantOp.body(value=_values(values)[0])


@GroupConstant.types
def _(*, values: Constant, stride: int) -> list[Type]:
    held = _values(values)
    _check("GroupConstant", len(held), stride)
    found = [ConstantOp.rules["types"](value=value)[0] for value in held]
    if len(set(found)) > 1:
        raise Reject(type_codes.BAD_VALUE, "`GroupConstant` expected values of one type and shape", "values")
    return found[:1]


@GroupConstant.partial
def _(*, values: Constant, stride: int) -> Dense | External:
    return ConstantOp.rules["partial"](value=_values(values)[0])


def _values(values: Constant) -> tuple[Constant, ...]:
    if not isinstance(values, tuple) or not values:
        raise Reject(type_codes.BAD_VALUE, "`GroupConstant` expected a list, of a value for each device", "values")
    return values


@GroupAllreduce.pieces
def _(p: Pieces, x: Piece, *, size: int, stride: int) -> list[Piece]:
    return [p.group_sum(x, size, stride)]


@GroupAllgather.pieces
def _(p: Pieces, x: Piece, *, size: int, stride: int, axis: int) -> list[Piece]:
    return [p.joined(p.members(x, size, stride), axis)]


@GroupReduceScatter.pieces
def _(p: Pieces, x: Piece, *, size: int, stride: int, axis: int) -> list[Piece]:
    return [p.of_members(p.split(p.group_sum(x, size, stride), axis, size), stride)]


@GroupAlltoall.pieces
def _(p: Pieces, x: Piece, *, size: int, stride: int, split_axis: int, concat_axis: int, **_: object) -> list[Piece]:
    members = p.members(x, size, stride)
    return [
        p.of_members(MPIAlltoall.rules["pieces"](p, *members, split_axis=split_axis, concat_axis=concat_axis), stride)
    ]


@GroupShift.pieces
def _(p: Pieces, x: Piece, *, size: int, stride: int, by: int) -> list[Piece]:
    return [p.of_members(MPIShift.rules["pieces"](p, *p.members(x, size, stride), by=by), stride)]


@GroupConstant.pieces
def _(p: Pieces, *, values: Constant, stride: int) -> list[Piece]:
    return [p.constant_of_members(_values(values), stride)]


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

REPRESENTATIVE_OPS: Final = frozenset(
    (*(op.name for op in GROUPED.values()), GroupConstant.name, GroupFirst.name)
    + (GroupPart.name, "GroupPartView", GroupParts.name, "GroupPartsView")
)
"""The names of the ops on representative devices."""


def represented(op: str, attrs: Attributes) -> tuple[int, int] | None:
    """The size and the stride of the group whose representative a statement is of; None for other statements."""
    if op not in STATES_GROUP:
        return None  # as most are
    stride = attrs.get("stride", 1 if op in REPRESENTATIVE_OPS else 0)
    if not isinstance(stride, int) or not stride:
        return None
    if op in BY_DEVICE:
        values = attrs.get(BY_DEVICE[op])
        return len(values) if isinstance(values, tuple) else 1, stride
    size = attrs.get("size") if op in REPRESENTATIVE_OPS else attrs.get("num_outputs") if op in CUTS else None
    return (size, stride) if isinstance(size, int) else None


BY_DEVICE: Final = {GroupConstant.name: "values", GroupParts.name: "parts", "GroupPartsView": "parts"}
"""Ops with an attribute that has something for each device of the group."""

CUTS: Final = frozenset(("Split", "SplitView"))
"""Ops of which a representative has its own part, with `stride`."""

STATES_GROUP: Final = REPRESENTATIVE_OPS | CUTS
"""Ops that may state a group."""
