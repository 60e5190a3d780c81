"""Communication between devices: `Send` and the MPI collectives.

Each op is synchronous: it starts when all of its devices are ready and occupies them until it ends. A tuple is sent as
one message. The reference implementation computes the values; the signatures determine their devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from distir.diagnostics.codes import devices as device_codes
from distir.diagnostics.codes import types as type_codes
from distir.ir import HOST, Arg, DimensionError, Shape, TensorType, dims
from distir.ops.core import op
from distir.ops.layout import Layout, equal_blocks
from distir.ops.numeric import Array, np
from distir.ops.unify import Reject, normal_axis

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Local, Write


@op(
    "Tensor[t, s, d] -> Tensor[t, s, device]",
    communication="send",
    leafwise=True,
    foldable=False,
    linear="jointly",
)
def Send(x: Array, *, device: int) -> Array:
    """A copy of `x` on `device`. Blocks the sender and the receiver until the message has arrived.

    %y = Send[device = 2](%x: Tensor[Float32, (2, 3), 1])
    """
    return x


@Send.pieces
def _(p: Pieces, x: Piece, **_: object) -> list[Piece]:
    return [x]


@Send.checks
def _(x: TensorType, *, device: int) -> None:
    _check_devices("Send", (device,), "device")
    if x.device == device:
        message = f"`Send` expected another device than the value's own, found device {device} for both"
        raise Reject(device_codes.BAD_DEVICE, message, "device", help="use the value as it is")


@Send.grad
def _(g: Backward) -> Gradients:
    return [g("Send", g.dy, device=g.device(g.x[0]))]


@Send.torch(fresh=True)
def _(write: Write, x: Expr, *, device: int) -> Local:
    if x.type.device == HOST:  # every rank has its value
        return write.local((0,), f"{x.tensor}.clone()")
    if write.device == device:
        return write.local(
            (0,), f"{write.kernel('receive')}({_result(write, write.results[0])}, {write.rank(_member(write, x))})"
        )
    return write.local((), f"{write.kernel('send')}({x}, {write.rank(device)})")


@Send.torch_together
def _(write: Write, leaves: Sequence[Sequence[Expr]], *, device: int) -> Local:
    xs = [leaf[0] for leaf in leaves]
    if write.device == device:
        shapes = write.items([write.items([write.items(x.shape), write.dtype(x.dtype)]) for x in xs])
        return write.local((0,), f"{write.kernel('receive_together')}({shapes}, {write.rank(_member(write, xs[0]))})")
    return write.local((), f"{write.kernel('send_together')}({write.items(xs)}, {write.rank(device)})")


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
    _check_group("MPIBroadcast", devices, x)


@MPIBroadcast.grad
def _(g: Backward) -> Gradients:
    return [g("MPIReduce", *_all_dys(g), root=g.device(g.x[0]))]


@MPIBroadcast.torch(fresh=True)
def _(write: Write, x: Expr, *, devices: tuple[int, ...]) -> Local:
    results = _mine(write, devices)
    if x.type.device == HOST or len(devices) == 1:
        return write.local(results, f"{x.tensor}.clone()")
    group, root = write.group(devices), write.rank(_member(write, x))
    if write.device == x.type.device:
        return write.local(results, f"{write.kernel('broadcast')}({x}, {root}, {group})")
    return write.local(results, f"{write.kernel('broadcast_to')}({_result(write, write.results[0])}, {root}, {group})")


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
    _check_group("MPIScatter", devices, x)


@MPIScatter.grad
def _(g: Backward) -> Gradients:
    return [g("MPIGather", *_all_dys(g), root=g.device(g.x[0]), axis=g.attrs["axis"])]


@MPIScatter.torch(fresh=True)
def _(write: Write, x: Expr, *, devices: tuple[int, ...], axis: int) -> Local:
    results, ranks = _mine(write, devices), write.items([write.rank(d) for d in devices])
    if x.type.device == HOST or len(devices) == 1:
        return write.local(results, f"torch.tensor_split({x.tensor}, {len(devices)}, {axis})[{results[0]}].clone()")
    group, root = write.group(devices), write.rank(_member(write, x))
    mine = f"{x}" if write.device == x.type.device else "None"
    shape = _result(write, write.results[0])
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
    _check_root("MPIGather", root, xs)


@MPIGather.grad
def _(g: Backward) -> Gradients:
    _equal_parts(g)
    return g.several("MPIScatter", len(g.x), g.dy, devices=_devices(g, g.x), axis=g.attrs["axis"])


@MPIGather.torch(fresh=True)
def _(write: Write, *xs: Expr, root: int, axis: int) -> Local:
    ranks, mine = _members(write, xs)
    results = _mine(write, [root])
    if len(xs) == 1:
        return write.local(results, f"{xs[0]}.clone()")
    _, shapes = _shapes(xs, axis)
    given = f"{xs[mine or 0]}, {shapes}, {axis}, {write.rank(root)}, {ranks}"
    return write.local(results, f"{write.kernel('gather')}({given}, {write.group([_member(write, x) for x in xs])})")


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
    _equal_parts(g)
    return g.several("MPIReduceScatter", len(g.x), *_all_dys(g), axis=g.attrs["axis"])


@MPIAllgather.torch(fresh=True)
def _(write: Write, *xs: Expr, axis: int) -> Local:
    ranks, mine = _members(write, xs)
    results = () if mine is None else (mine,)
    if len(xs) == 1:
        return write.local(results, f"{xs[0]}.clone()")
    same, shapes = _shapes(xs, axis)
    group = write.group([_member(write, x) for x in xs])
    if same:
        return write.local(results, f"{write.kernel('all_gather')}({xs[mine or 0]}, {axis}, {ranks}, {group})")
    return write.local(
        results, f"{write.kernel('all_gather_uneven')}({xs[mine or 0]}, {shapes}, {axis}, {ranks}, {group})"
    )


@MPIAllgather.torch_together
def _(write: Write, leaves: Sequence[Sequence[Expr]], *, axis: int) -> Local:
    ranks, mine = _members(write, leaves[0])
    assert mine is not None
    if len(leaves[0]) == 1:
        return write.local((mine,), write.items([f"{leaf[0]}.clone()" for leaf in leaves]))
    group = write.group([_member(write, x) for x in leaves[0]])
    if all(_shapes(leaf, axis)[0] for leaf in leaves):
        given = f"{write.items([leaf[mine] for leaf in leaves])}, {axis}, {ranks}, {group}"
        return write.local((mine,), f"{write.kernel('all_gather_together')}({given})")
    kernel = write.kernel("all_gather_uneven")
    each = [f"{kernel}({leaf[mine]}, {_shapes(leaf, axis)[1]}, {axis}, {ranks}, {group})" for leaf in leaves]
    return write.local((mine,), write.items(each))


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
    return _total(xs)


@MPIReduce.pieces
def _(p: Pieces, *xs: Piece, **_: object) -> list[Piece]:
    return [p.sum(*((1.0, x) for x in xs))]


@MPIReduce.checks
def _(*xs: TensorType, root: int) -> None:
    _check_root("MPIReduce", root, xs)


@MPIReduce.grad
def _(g: Backward) -> Gradients:
    return g.several("MPIBroadcast", len(g.x), g.dy, devices=_devices(g, g.x))


@MPIReduce.torch(fresh=True)
def _(write: Write, *xs: Expr, root: int) -> Local:
    _, mine = _members(write, xs)
    results = _mine(write, [root])
    if len(xs) == 1:
        return write.local(results, f"{xs[0]}.clone()")
    into = ", overwrite=True" if write.may_overwrite(mine or 0) else ""
    group = write.group([_member(write, x) for x in xs])
    return write.local(results, f"{write.kernel('reduce')}({xs[mine or 0]}, {write.rank(root)}, {group}{into})")


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
    total = _total(xs)
    return [total for _ in xs]


@MPIAllreduce.pieces
def _(p: Pieces, *xs: Piece) -> list[Piece]:
    return [p.sum(*((1.0, x) for x in xs))] * len(xs)


@MPIAllreduce.grad
def _(g: Backward) -> Gradients:
    """Each operand contributes to every result, so its gradient is the sum of theirs."""
    return g.several("MPIAllreduce", len(g.x), *_all_dys(g))


@MPIAllreduce.torch(fresh=True)
def _(write: Write, *xs: Expr) -> Local:
    _, mine = _members(write, xs)
    results = () if mine is None else (mine,)
    if len(xs) == 1:
        return write.local(results, f"{xs[0]}.clone()")
    into = ", overwrite=True" if write.may_overwrite(mine or 0) else ""
    group = write.group([_member(write, x) for x in xs])
    return write.local(results, f"{write.kernel('all_reduce')}({xs[mine or 0]}, {group}{into})")


@MPIAllreduce.torch_together
def _(write: Write, leaves: Sequence[Sequence[Expr]]) -> Local:
    _, mine = _members(write, leaves[0])
    assert mine is not None
    if len(leaves[0]) == 1:
        return write.local((mine,), write.items([f"{leaf[0]}.clone()" for leaf in leaves]))
    group = write.group([_member(write, x) for x in leaves[0]])
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
    return np.split(_total(xs), len(xs), axis=axis)


@MPIReduceScatter.pieces
def _(p: Pieces, *xs: Piece, axis: int) -> list[Piece]:
    return p.split(p.sum(*((1.0, x) for x in xs)), axis, len(xs))


@MPIReduceScatter.grad
def _(g: Backward) -> Gradients:
    return g.several("MPIAllgather", len(g.x), *_all_dys(g), axis=g.attrs["axis"])


@MPIReduceScatter.torch(fresh=True)
def _(write: Write, *xs: Expr, axis: int) -> Local:
    ranks, mine = _members(write, xs)
    results = () if mine is None else (mine,)
    if len(xs) == 1:
        return write.local(results, f"{xs[0]}.clone()")
    group = write.group([_member(write, x) for x in xs])
    return write.local(results, f"{write.kernel('reduce_scatter')}({xs[mine or 0]}, {axis}, {ranks}, {group})")


@MPIReduceScatter.torch_together
def _(write: Write, leaves: Sequence[Sequence[Expr]], *, axis: int) -> Local:
    ranks, mine = _members(write, leaves[0])
    assert mine is not None
    if len(leaves[0]) == 1:
        return write.local((mine,), write.items([f"{leaf[0]}.clone()" for leaf in leaves]))
    given = f"{write.items([leaf[mine] for leaf in leaves])}, {axis}, {ranks}"
    group = write.group([_member(write, x) for x in leaves[0]])
    return write.local((mine,), f"{write.kernel('reduce_scatter_together')}({given}, {group})")


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
    _equal_parts(g)
    return g.several("MPIAlltoall", len(g.x), *_all_dys(g), **{**g.attrs, **axes})


@MPIAlltoall.torch(fresh=True)
def _(write: Write, *xs: Expr, split_axis: int, concat_axis: int, **_: int) -> Local:
    ranks, mine = _members(write, xs)
    results = () if mine is None else (mine,)
    if len(xs) == 1:
        return write.local(results, f"{xs[0]}.clone()")
    shapes = _shapes(xs, split_axis)[1]
    group = write.group([_member(write, x) for x in xs])
    given = f"{xs[mine or 0]}, {shapes}, {split_axis}, {concat_axis}, {ranks}"
    return write.local(results, f"{write.kernel('all_to_all')}({given}, {group})")


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
    return g.several("MPIShift", len(g.x), *_all_dys(g), by=-cast(int, g.attrs["by"]))


@MPIShift.torch(fresh=True)
def _(write: Write, *xs: Expr, by: int) -> Local:
    ranks, mine = _members(write, xs)
    results = () if mine is None else (mine,)
    if by % len(xs) == 0:
        return write.local(results, f"{xs[mine or 0]}.clone()")
    group = write.group([_member(write, x) for x in xs])
    return write.local(results, f"{write.kernel('shift')}({xs[mine or 0]}, {by}, {ranks}, {group})")


def check_routed(name: str, top_k: int, n_group: int, topk_group: int) -> None:
    """Raises Reject for figures of a router that are none."""
    for attribute, value in (("top_k", top_k), ("n_group", n_group), ("topk_group", topk_group)):
        if value < 1:
            message = f"`{name}` expected 1 or more for `{attribute}`, found {value}"
            raise Reject(type_codes.BAD_VALUE, message, attribute)
    if topk_group > n_group:
        message = f"`{name}` expected at most `n_group` for `topk_group`, found {topk_group} of {n_group}"
        raise Reject(type_codes.BAD_VALUE, message, "topk_group")


def _total(xs: tuple[Array, ...]) -> Array:
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total


def _check_root(name: str, root: int, xs: tuple[TensorType, ...]) -> None:
    devices = [x.device for x in xs]
    if root not in devices and None not in devices:
        message = f"`{name}` expected one of its devices {_listed(devices)} as `root`, found {root}"
        raise Reject(device_codes.ROOT_DEVICE, message, "root")


def _check_group(name: str, devices: tuple[int, ...], x: TensorType) -> None:
    _check_devices(name, devices, "devices")
    if not devices or len(set(devices)) != len(devices):
        message = f"`{name}` expected distinct devices, found {list(devices)}"
        raise Reject(device_codes.REPEATED_DEVICE, message, "devices")
    if x.device is not None and x.device != HOST and x.device not in devices:
        message = f"`{name}` expected the value's own device {x.device} among `devices`, found {_listed(devices)}"
        raise Reject(device_codes.ROOT_DEVICE, message, "devices")


def _check_devices(name: str, devices: Sequence[int], attribute: str) -> None:
    for device in devices:
        if device < 0:
            message = f"`{name}` expected a device number from 0, found {device}"
            raise Reject(device_codes.BAD_DEVICE, message, attribute)


def _listed(devices: Sequence[int | None]) -> str:
    return ", ".join(map(str, devices))


def _all_dys(g: Backward) -> list[Arg]:
    """The gradients of all results, zeros where the loss does not depend on one: a collective needs every device."""
    return [g.dy_or_zeros(i) for i in range(len(g.dys))]


def _devices(g: Backward, xs: Sequence[Arg]) -> tuple[int, ...]:
    return tuple(g.device(x) for x in xs)


def _equal_parts(g: Backward) -> None:
    shapes = [g.known_shape(x) for x in g.x]
    if any(shape != shapes[0] for shape in shapes):
        raise g.refuse(f"`{g.op.name}` of parts of different sizes has no gradient", "cut into equal parts")


def _result(write: Write, type: TensorType) -> str:
    """The shape and element type of a received tensor, as arguments."""
    return f"{write.items(type.shape or ())}, {write.dtype(type.dtype)}"


def _members(write: Write, xs: Sequence[Expr]) -> tuple[str, int | None]:
    """The ranks of the operands, and the index of this rank's operand."""
    devices = [_member(write, x) for x in xs]
    mine = devices.index(write.device) if write.device in devices else None
    return write.items([write.rank(d) for d in devices]), mine


def _member(write: Write, x: Expr) -> int:
    if x.type.device is None or x.type.device == HOST:
        raise write.refuse("an operand is a host value", help="place it on a device with `Send` first")
    return x.type.device


def _mine(write: Write, devices: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(i for i, d in enumerate(devices) if d == write.device)


def _shapes(xs: Sequence[Expr], axis: int) -> tuple[bool, list[tuple[int, ...]]]:
    """Whether all operands have the same shape, and the shape of each."""
    shapes = [x.shape for x in xs]
    return len(set(shapes)) == 1, shapes
