"""Moving values between devices: `Send` and the MPI collectives.

Each waits for all of its devices and occupies them until it is done. A tuple is sent as one message. The reference
implementation works on the global values: what lies where is the types' business.
"""

from __future__ import annotations

from collections.abc import Sequence

from distir.diagnostics.codes import devices as device_codes
from distir.diagnostics.codes import types as type_codes
from distir.ir import HOST, DimensionError, Shape, TensorType, dims
from distir.ops.core import op
from distir.ops.layout import Layout
from distir.ops.numeric import Array, np
from distir.ops.unify import Reject, normal_axis


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


@Send.checks
def _(x: TensorType, *, device: int) -> None:
    _check_devices("Send", (device,), "device")
    if x.device == device:
        message = f"`Send` expected another device than the value's own, found device {device} for both"
        raise Reject(device_codes.BAD_DEVICE, message, "device", help="use the value as it is")


@op(
    "Tensor[t, s, d] -> *Tensor[t, s, devices_i]",
    communication="broadcast",
    leafwise=True,
    foldable=False,
    linear="jointly",
)
def MPIBroadcast(x: Array, *, devices: tuple[int, ...]) -> list[Array]:
    """A copy of `x` on each of `devices`, the one where it is among them.

    %y_1, %y_2 = MPIBroadcast[devices = [1, 2]](%x: Tensor[Float32, (2, 3), 1])
    """
    return [x for _ in devices]


@MPIBroadcast.checks
def _(x: TensorType, *, devices: tuple[int, ...]) -> None:
    _check_group("MPIBroadcast", devices, x)


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


@MPIScatter.checks
def _(x: TensorType, *, devices: tuple[int, ...], axis: int) -> None:
    _check_group("MPIScatter", devices, x)


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


@MPIGather.checks
def _(*xs: TensorType, root: int, axis: int) -> None:
    _check_root("MPIGather", root, xs)


@op(
    "*Tensor[t, (*a, n_i@axis, *b), d_i] -> *Tensor[t, (*a, sum(n_i), *b), d_i]",
    communication="allgather",
    foldable=False,
    linear="jointly",
)
def MPIAllgather(*xs: Array, axis: int = 0) -> list[Array]:
    """The operands, one per device, concatenated along `axis` on every one of these devices.

    %y_1, %y_2 = MPIAllgather[axis = 0](%x_1: Tensor[Float32, (2, 3), 1], %x_2: Tensor[Float32, (2, 3), 2])
    """
    whole = np.concatenate(xs, axis=axis)
    return [whole for _ in xs]


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


@MPIReduce.checks
def _(*xs: TensorType, root: int) -> None:
    _check_root("MPIReduce", root, xs)


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


@op(
    "*Tensor[t:number, (*a, n@axis, *b), d_i] -> *Tensor[t, (*a, n / N, *b), d_i]",
    communication="reducescatter",
    foldable=False,
    linear="jointly",
)
def MPIReduceScatter(*xs: Array, axis: int = 0) -> list[Array]:
    """The sum of the operands, one per device, cut into equal parts along `axis`, one for each of these devices.

    %y_1, %y_2 = MPIReduceScatter[axis = 0](%x_1: Tensor[Float32, (4, 3), 1], %x_2: Tensor[Float32, (4, 3), 2])
    """
    return np.split(_total(xs), len(xs), axis=axis)


@op(
    "*Tensor[t, (*a, n@split_axis, *b), d_i] -> *Tensor[t, _, d_i]",
    communication="alltoall",
    foldable=False,
    linear="jointly",
)
def MPIAlltoall(*xs: Array, split_axis: int = 0, concat_axis: int = 0) -> list[Array]:
    """Device i cuts its operand along `split_axis` and sends part j to device j, which joins them along `concat_axis`.

    What was split along `concat_axis` over the devices is then split along `split_axis` over them.

    %y_1, %y_2 = MPIAlltoall[split_axis = 1](%x_1: Tensor[Float32, (4, 6), 1], %x_2: Tensor[Float32, (4, 6), 2])
    """
    parts = [np.split(x, len(xs), axis=split_axis) for x in xs]
    return [np.concatenate([row[j] for row in parts], axis=concat_axis) for j in range(len(xs))]


@MPIAlltoall.shapes
def _(*xs: TensorType, split_axis: int, concat_axis: int) -> list[Shape | None]:
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
def turned(*xs: TensorType, results: Sequence[Shape | None], split_axis: int, concat_axis: int) -> Layout:
    """Each dimension but the two that are cut and joined."""
    rank = len(xs[0].shape or ())
    changed = {axis % max(rank, 1) for axis in (split_axis, concat_axis)}
    letters = tuple(None if axis in changed else f"s{axis}" for axis in range(rank))
    return Layout((letters,) * len(xs), (letters,) * len(xs))


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
