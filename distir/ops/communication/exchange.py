"""Collectives in which parts change their devices and nothing is summed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from distir.diagnostics.codes import types as type_codes
from distir.ir import DimensionError, Shape, TensorType, dims
from distir.ops.communication.operands import all_dys, equal_parts
from distir.ops.communication.written import member, members, shapes_of
from distir.ops.core import op
from distir.ops.layout import Layout, equal_blocks
from distir.ops.numeric import Array, np
from distir.ops.unify import Reject, normal_axis

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Local, Write


@op(
    "*Tensor[t, (*a, n@split_axis, *b), d_i] -> *Tensor[t, _, d_i]",
    communication="alltoall",
    foldable=False,
    linear="jointly",
)
def MPIAlltoall(
    *xs: Array, split_axis: int = 0, concat_axis: int = 0, top_k: int = 1, n_group: int = 1, topk_group: int = 1
) -> list[Array]:
    """Device i cuts its operand along `split_axis` and sends part j to device j, which joins them along `concat_axis`.

    What was split along `concat_axis` over the devices is then split along `split_axis` over them.

    With `top_k` > 1 it brings tokens to their experts, or results back: of each token there are `top_k` rows, for
    experts in at most `topk_group` of `n_group` equal runs of the devices. So a library may send a token once to
    a node, and forward it there (DeepEP). Values are the same.

    %y_1, %y_2 = MPIAlltoall[split_axis = 1](%x_1: Tensor[Float32, (4, 6), 1], %x_2: Tensor[Float32, (4, 6), 2])
    """
    parts = [np.split(x, len(xs), axis=split_axis) for x in xs]
    return [np.concatenate([row[j] for row in parts], axis=concat_axis) for j in range(len(xs))]


@MPIAlltoall.pieces
def _(p: Pieces, *xs: Piece, split_axis: int, concat_axis: int, **_: object) -> list[Piece]:
    parts = [p.split(x, split_axis, len(xs)) for x in xs]
    return [p.joined([row[j] for row in parts], concat_axis) for j in range(len(xs))]


@MPIAlltoall.shapes
def _(*xs: TensorType, split_axis: int, concat_axis: int, **routed: int) -> list[Shape | None]:
    check_routed("MPIAlltoall", **routed)
    if any(x.shape is None for x in xs):
        return [None] * len(xs)
    shapes = [list(x.shape or ()) for x in xs]
    rank = len(shapes[0])
    split = normal_axis(split_axis, rank, "MPIAlltoall", "split_axis")
    joined = normal_axis(concat_axis, rank, "MPIAlltoall", "concat_axis")
    for shape in shapes:
        try:
            shape[split] = dims.divide(shape[split], len(xs))
        except DimensionError as error:
            raise Reject(
                type_codes.INDIVISIBLE, f"`MPIAlltoall` cannot cut its operand: {error}", "split_axis"
            ) from None
    shapes[0][joined] = dims.total(shape[joined] for shape in shapes)
    return [tuple(shapes[0])] * len(xs)


@MPIAlltoall.sharding
def exchanged_layout(
    *xs: TensorType,
    results: Sequence[Shape | None],
    split_axis: int,
    concat_axis: int,
    size: int | None = None,
    **_: int,
) -> Layout:
    """Every dimension. The one that is cut, and the one that is concatenated, are in a block for each device.

    `size`: of how many devices, where one operand represents all.
    """
    rank, count = len(xs[0].shape or ()), size or len(xs)
    letters = tuple(f"s{axis}" for axis in range(rank))
    cut, joined = (axis % max(rank, 1) for axis in (split_axis, concat_axis))
    if not rank or cut == joined or None in (before := xs[0].shape, after := results[0] if results else None):
        letters = tuple(None if axis in (cut, joined) else letter for axis, letter in enumerate(letters))
        return Layout((letters,) * len(xs), (letters,) * len(xs))
    assert before is not None
    assert after is not None
    return Layout(
        (letters,) * len(xs),
        (letters,) * len(xs),
        operand_blocks={(i, cut): equal_blocks(after[cut], count) for i in range(len(xs))},
        result_blocks={(i, joined): equal_blocks(before[joined], count) for i in range(len(xs))},
    )


@MPIAlltoall.grad
def _(g: Backward) -> Gradients:
    axes = {"split_axis": g.attrs["concat_axis"], "concat_axis": g.attrs["split_axis"]}
    equal_parts(g)
    return g.several("MPIAlltoall", len(g.x), *all_dys(g), **{**g.attrs, **axes})


@MPIAlltoall.torch(fresh=True)
def _(write: Write, *xs: Expr, split_axis: int, concat_axis: int, **_: int) -> Local:
    ranks, mine = members(write, xs)
    results = () if mine is None else (mine,)
    if len(xs) == 1:
        return write.local(results, f"{xs[0]}.clone()")
    shapes = shapes_of(xs, split_axis)[1]
    group = write.group([member(write, x) for x in xs])
    given = f"{xs[mine or 0]}, {shapes}, {split_axis}, {concat_axis}, {ranks}"
    return write.local(results, f"{write.kernel('all_to_all')}({given}, {group})")


def check_routed(name: str, top_k: int, n_group: int, topk_group: int) -> None:
    """Raises Reject for figures of a router that are none."""
    for attribute, value in (("top_k", top_k), ("n_group", n_group), ("topk_group", topk_group)):
        if value < 1:
            message = f"`{name}` expected 1 or more for `{attribute}`, found {value}"
            raise Reject(type_codes.BAD_VALUE, message, attribute)
    if topk_group > n_group:
        message = f"`{name}` expected at most `n_group` for `topk_group`, found {topk_group} of {n_group}"
        raise Reject(type_codes.BAD_VALUE, message, "topk_group")


@op(
    "*Tensor[t, s, d_i] -> *Tensor[t, s, d_i]",
    communication="shift",
    foldable=False,
    linear="jointly",
)
def MPIShift(*xs: Array, by: int = 1) -> list[Array]:
    """Device i of n gets the operand of device i - `by`, around a ring. XLA's CollectivePermute, JAX's `ppermute`.

    %y_1, %y_2 = MPIShift(%x_1: Tensor[Float32, (4, 6), 1], %x_2: Tensor[Float32, (4, 6), 2])
    %y_1, %y_2, %y_3 = MPIShift[by = -1](%x_1: Tensor[Float32, (2,), 1], %x_2: Tensor[Float32, (2,), 2], %x_3: Tensor[Float32, (2,), 3])
    """  # noqa: E501
    return [xs[(i - by) % len(xs)] for i in range(len(xs))]


@MPIShift.pieces
def _(p: Pieces, *xs: Piece, by: int) -> list[Piece]:
    return [xs[(i - by) % len(xs)] for i in range(len(xs))]


@MPIShift.grad
def _(g: Backward) -> Gradients:
    return g.several("MPIShift", len(g.x), *all_dys(g), by=-cast(int, g.attrs["by"]))


@MPIShift.torch(fresh=True)
def _(write: Write, *xs: Expr, by: int) -> Local:
    ranks, mine = members(write, xs)
    results = () if mine is None else (mine,)
    if by % len(xs) == 0:
        return write.local(results, f"{xs[mine or 0]}.clone()")
    group = write.group([member(write, x) for x in xs])
    return write.local(results, f"{write.kernel('shift')}({xs[mine or 0]}, {by}, {ranks}, {group})")
