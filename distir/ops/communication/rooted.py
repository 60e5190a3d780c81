"""Collectives in which one device has the whole: it sends to a group, or gets from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distir.ir import HOST, TensorType
from distir.ops.communication.operands import all_dys, check_group, check_root, devices_of, equal_parts, sum_of
from distir.ops.communication.written import member, members, own_results, received, shapes_of
from distir.ops.core import op
from distir.ops.numeric import Array, np

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Local, Write


@op(
    "Tensor[t, s, d] -> *Tensor[t, s, devices_i]",
    communication="broadcast",
    leafwise=True,
    foldable=False,
    linear="jointly",
)
def MPIBroadcast(x: Array, *, devices: tuple[int, ...]) -> list[Array]:
    """A copy of `x` on each of `devices`, one of which is its own device.

    %y_1, %y_2 = MPIBroadcast[devices = [1, 2]](%x: Tensor[Float32, (2, 3), 1])
    """
    return [x for _ in devices]


@MPIBroadcast.pieces
def _(p: Pieces, x: Piece, **_: object) -> list[Piece]:
    return [x] * p.count


@MPIBroadcast.checks
def _(x: TensorType, *, devices: tuple[int, ...]) -> None:
    check_group("MPIBroadcast", devices, x)


@MPIBroadcast.grad
def _(g: Backward) -> Gradients:
    return [g("MPIReduce", *all_dys(g), root=g.device(g.x[0]))]


@MPIBroadcast.torch(fresh=True)
def _(write: Write, x: Expr, *, devices: tuple[int, ...]) -> Local:
    results = own_results(write, devices)
    if x.type.device == HOST or len(devices) == 1:
        return write.local(results, f"{x.tensor}.clone()")
    group, root = write.group(devices), write.rank(member(write, x))
    if write.device == x.type.device:
        return write.local(results, f"{write.kernel('broadcast')}({x}, {root}, {group})")
    return write.local(results, f"{write.kernel('broadcast_to')}({received(write, write.results[0])}, {root}, {group})")


@op(
    "Tensor[t, (*a, n@axis, *b), d] -> *Tensor[t, (*a, n / N, *b), devices_i]",
    communication="scatter",
    foldable=False,
    linear="jointly",
)
def MPIScatter(x: Array, *, devices: tuple[int, ...], axis: int = 0) -> list[Array]:
    """`x` cut into equal parts along `axis`, one on each of `devices`, in that order.

    %y_1, %y_2 = MPIScatter[devices = [1, 2], axis = 0](%x: Tensor[Float32, (4, 3), 1])
    """
    return np.split(x, len(devices), axis=axis)


@MPIScatter.pieces
def _(p: Pieces, x: Piece, *, axis: int, **_: object) -> list[Piece]:
    return p.split(x, axis, p.count)


@MPIScatter.checks
def _(x: TensorType, *, devices: tuple[int, ...], axis: int) -> None:
    check_group("MPIScatter", devices, x)


@MPIScatter.grad
def _(g: Backward) -> Gradients:
    return [g("MPIGather", *all_dys(g), root=g.device(g.x[0]), axis=g.attrs["axis"])]


@MPIScatter.torch(fresh=True)
def _(write: Write, x: Expr, *, devices: tuple[int, ...], axis: int) -> Local:
    results, ranks = own_results(write, devices), write.items([write.rank(d) for d in devices])
    if x.type.device == HOST or len(devices) == 1:
        return write.local(results, f"torch.tensor_split({x.tensor}, {len(devices)}, {axis})[{results[0]}].clone()")
    group, root = write.group(devices), write.rank(member(write, x))
    mine = f"{x}" if write.device == x.type.device else "None"
    shape = received(write, write.results[0])
    return write.local(results, f"{write.kernel('scatter')}({mine}, {axis}, {shape}, {root}, {ranks}, {group})")


@op(
    "*Tensor[t, (*a, n_i@axis, *b), d_i] -> Tensor[t, (*a, sum(n_i), *b), root]",
    communication="gather",
    foldable=False,
    linear="jointly",
)
def MPIGather(*xs: Array, root: int, axis: int = 0) -> Array:
    """The operands, one per device, concatenated along `axis` on the device `root`.

    %y = MPIGather[root = 1, axis = 0](%x_1: Tensor[Float32, (2, 3), 1], %x_2: Tensor[Float32, (2, 3), 2])
    """
    return np.concatenate(xs, axis=axis)


@MPIGather.pieces
def _(p: Pieces, *xs: Piece, axis: int, **_: object) -> list[Piece]:
    return [p.joined(xs, axis)]


@MPIGather.checks
def _(*xs: TensorType, root: int, axis: int) -> None:
    check_root("MPIGather", root, xs)


@MPIGather.grad
def _(g: Backward) -> Gradients:
    equal_parts(g)
    return g.several("MPIScatter", len(g.x), g.dy, devices=devices_of(g, g.x), axis=g.attrs["axis"])


@MPIGather.torch(fresh=True)
def _(write: Write, *xs: Expr, root: int, axis: int) -> Local:
    ranks, mine = members(write, xs)
    results = own_results(write, [root])
    if len(xs) == 1:
        return write.local(results, f"{xs[0]}.clone()")
    _, shapes = shapes_of(xs, axis)
    given = f"{xs[mine or 0]}, {shapes}, {axis}, {write.rank(root)}, {ranks}"
    return write.local(results, f"{write.kernel('gather')}({given}, {write.group([member(write, x) for x in xs])})")


@op(
    "*Tensor[t:number, s, d_i] -> Tensor[t, s, root]",
    communication="reduce",
    leafwise=True,
    foldable=False,
    linear="jointly",
)
def MPIReduce(*xs: Array, root: int) -> Array:
    """The sum of the operands, one per device, on the device `root`.

    %y = MPIReduce[root = 1](%x_1: Tensor[Float32, (2, 3), 1], %x_2: Tensor[Float32, (2, 3), 2])
    """
    return sum_of(xs)


@MPIReduce.pieces
def _(p: Pieces, *xs: Piece, **_: object) -> list[Piece]:
    return [p.sum(*((1.0, x) for x in xs))]


@MPIReduce.checks
def _(*xs: TensorType, root: int) -> None:
    check_root("MPIReduce", root, xs)


@MPIReduce.grad
def _(g: Backward) -> Gradients:
    return g.several("MPIBroadcast", len(g.x), g.dy, devices=devices_of(g, g.x))


@MPIReduce.torch(fresh=True)
def _(write: Write, *xs: Expr, root: int) -> Local:
    _, mine = members(write, xs)
    results = own_results(write, [root])
    if len(xs) == 1:
        return write.local(results, f"{xs[0]}.clone()")
    into = ", overwrite=True" if write.may_overwrite(mine or 0) else ""
    group = write.group([member(write, x) for x in xs])
    return write.local(results, f"{write.kernel('reduce')}({xs[mine or 0]}, {write.rank(root)}, {group}{into})")
