"""Collectives of equals: each device gives an operand and gets the concatenation, the sum, or its part of the sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from distir.ops.communication.operands import all_dys, equal_parts, sum_of
from distir.ops.communication.written import member, members, shapes_of
from distir.ops.core import op
from distir.ops.numeric import Array, np

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Local, Write


@op(
    "*Tensor[t, (*a, n_i@axis, *b), d_i] -> *Tensor[t, (*a, sum(n_i), *b), d_i]",
    communication="allgather",
    leafwise=True,
    foldable=False,
    linear="jointly",
)
def MPIAllgather(*xs: Array, axis: int = 0) -> list[Array]:
    """The operands, one per device, concatenated along `axis` on every one of these devices.

    %y_1, %y_2 = MPIAllgather[axis = 0](%x_1: Tensor[Float32, (2, 3), 1], %x_2: Tensor[Float32, (2, 3), 2])
    """
    whole = np.concatenate(xs, axis=axis)
    return [whole for _ in xs]


@MPIAllgather.pieces
def _(p: Pieces, *xs: Piece, axis: int) -> list[Piece]:
    return [p.joined(xs, axis)] * len(xs)


@MPIAllgather.grad
def _(g: Backward) -> Gradients:
    equal_parts(g)
    return g.several("MPIReduceScatter", len(g.x), *all_dys(g), axis=g.attrs["axis"])


@MPIAllgather.torch(fresh=True)
def _(write: Write, *xs: Expr, axis: int) -> Local:
    ranks, mine = members(write, xs)
    results = () if mine is None else (mine,)
    if len(xs) == 1:
        return write.local(results, f"{xs[0]}.clone()")
    same, shapes = shapes_of(xs, axis)
    group = write.group([member(write, x) for x in xs])
    if same:
        return write.local(results, f"{write.kernel('all_gather')}({xs[mine or 0]}, {axis}, {ranks}, {group})")
    return write.local(
        results, f"{write.kernel('all_gather_uneven')}({xs[mine or 0]}, {shapes}, {axis}, {ranks}, {group})"
    )


@MPIAllgather.torch_together
def _(write: Write, leaves: Sequence[Sequence[Expr]], *, axis: int) -> Local:
    ranks, mine = members(write, leaves[0])
    assert mine is not None
    if len(leaves[0]) == 1:
        return write.local((mine,), write.items([f"{leaf[0]}.clone()" for leaf in leaves]))
    group = write.group([member(write, x) for x in leaves[0]])
    if all(shapes_of(leaf, axis)[0] for leaf in leaves):
        given = f"{write.items([leaf[mine] for leaf in leaves])}, {axis}, {ranks}, {group}"
        return write.local((mine,), f"{write.kernel('all_gather_together')}({given})")
    kernel = write.kernel("all_gather_uneven")
    each = [f"{kernel}({leaf[mine]}, {shapes_of(leaf, axis)[1]}, {axis}, {ranks}, {group})" for leaf in leaves]
    return write.local((mine,), write.items(each))


@op(
    "*Tensor[t:number, s, d_i] -> *Tensor[t, s, d_i]",
    communication="allreduce",
    inplace="each",
    leafwise=True,
    foldable=False,
    linear="jointly",
)
def MPIAllreduce(*xs: Array) -> list[Array]:
    """The sum of the operands, one per device, on every one of these devices.

    %y_1, %y_2 = MPIAllreduce(%x_1: Tensor[Float32, (2, 3), 1], %x_2: Tensor[Float32, (2, 3), 2])
    """
    total = sum_of(xs)
    return [total for _ in xs]


@MPIAllreduce.pieces
def _(p: Pieces, *xs: Piece) -> list[Piece]:
    return [p.sum(*((1.0, x) for x in xs))] * len(xs)


@MPIAllreduce.grad
def _(g: Backward) -> Gradients:
    """Each operand contributes to every result, so its gradient is the sum of theirs."""
    return g.several("MPIAllreduce", len(g.x), *all_dys(g))


@MPIAllreduce.torch(fresh=True)
def _(write: Write, *xs: Expr) -> Local:
    _, mine = members(write, xs)
    results = () if mine is None else (mine,)
    if len(xs) == 1:
        return write.local(results, f"{xs[0]}.clone()")
    into = ", overwrite=True" if write.may_overwrite(mine or 0) else ""
    group = write.group([member(write, x) for x in xs])
    return write.local(results, f"{write.kernel('all_reduce')}({xs[mine or 0]}, {group}{into})")


@MPIAllreduce.torch_together
def _(write: Write, leaves: Sequence[Sequence[Expr]]) -> Local:
    _, mine = members(write, leaves[0])
    assert mine is not None
    if len(leaves[0]) == 1:
        return write.local((mine,), write.items([f"{leaf[0]}.clone()" for leaf in leaves]))
    group = write.group([member(write, x) for x in leaves[0]])
    return write.local(
        (mine,), f"{write.kernel('all_reduce_together')}({write.items([leaf[mine] for leaf in leaves])}, {group})"
    )


@op(
    "*Tensor[t:number, (*a, n@axis, *b), d_i] -> *Tensor[t, (*a, n / N, *b), d_i]",
    communication="reducescatter",
    leafwise=True,
    foldable=False,
    linear="jointly",
)
def MPIReduceScatter(*xs: Array, axis: int = 0) -> list[Array]:
    """The sum of the operands, one per device, cut into equal parts along `axis`, one for each of these devices.

    %y_1, %y_2 = MPIReduceScatter[axis = 0](%x_1: Tensor[Float32, (4, 3), 1], %x_2: Tensor[Float32, (4, 3), 2])
    """
    return np.split(sum_of(xs), len(xs), axis=axis)


@MPIReduceScatter.pieces
def _(p: Pieces, *xs: Piece, axis: int) -> list[Piece]:
    return p.split(p.sum(*((1.0, x) for x in xs)), axis, len(xs))


@MPIReduceScatter.grad
def _(g: Backward) -> Gradients:
    return g.several("MPIAllgather", len(g.x), *all_dys(g), axis=g.attrs["axis"])


@MPIReduceScatter.torch(fresh=True)
def _(write: Write, *xs: Expr, axis: int) -> Local:
    ranks, mine = members(write, xs)
    results = () if mine is None else (mine,)
    if len(xs) == 1:
        return write.local(results, f"{xs[0]}.clone()")
    group = write.group([member(write, x) for x in xs])
    return write.local(results, f"{write.kernel('reduce_scatter')}({xs[mine or 0]}, {axis}, {ranks}, {group})")


@MPIReduceScatter.torch_together
def _(write: Write, leaves: Sequence[Sequence[Expr]], *, axis: int) -> Local:
    ranks, mine = members(write, leaves[0])
    assert mine is not None
    if len(leaves[0]) == 1:
        return write.local((mine,), write.items([f"{leaf[0]}.clone()" for leaf in leaves]))
    given = f"{write.items([leaf[mine] for leaf in leaves])}, {axis}, {ranks}"
    group = write.group([member(write, x) for x in leaves[0]])
    return write.local((mine,), f"{write.kernel('reduce_scatter_together')}({given}, {group})")
