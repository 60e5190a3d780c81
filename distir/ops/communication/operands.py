"""Checks of operands and devices, and gradients, shared by several communication ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from distir.diagnostics.codes import devices as device_codes
from distir.ir import HOST, Arg, TensorType
from distir.ops.numeric import Array
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward


def check_root(name: str, root: int, xs: tuple[TensorType, ...]) -> None:
    """Raises Reject for a root that has no operand."""
    devices = [x.device for x in xs]
    if root not in devices and None not in devices:
        message = f"`{name}` expected one of its devices {_listed(devices)} as `root`, found {root}"
        raise Reject(device_codes.ROOT_DEVICE, message, "root")


def check_group(name: str, devices: tuple[int, ...], x: TensorType) -> None:
    """Raises Reject unless the devices are distinct, and that of `x` is among them."""
    check_devices(name, devices, "devices")
    if not devices or len(set(devices)) != len(devices):
        message = f"`{name}` expected distinct devices, found {list(devices)}"
        raise Reject(device_codes.REPEATED_DEVICE, message, "devices")
    if x.device is not None and x.device != HOST and x.device not in devices:
        message = f"`{name}` expected the value's own device {x.device} among `devices`, found {_listed(devices)}"
        raise Reject(device_codes.ROOT_DEVICE, message, "devices")


def check_devices(name: str, devices: Sequence[int], attribute: str) -> None:
    """Raises Reject for what is no device."""
    for device in devices:
        if device < 0:
            message = f"`{name}` expected a device number from 0, found {device}"
            raise Reject(device_codes.BAD_DEVICE, message, attribute)


def _listed(devices: Sequence[int | None]) -> str:
    return ", ".join(map(str, devices))


def sum_of(xs: tuple[Array, ...]) -> Array:
    """The sum of the operands, in their order."""
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total


def all_dys(g: Backward) -> list[Arg]:
    """The gradients of all results, zeros where the loss does not depend on one: a collective needs every device."""
    return [g.dy_or_zeros(i) for i in range(len(g.dys))]


def devices_of(g: Backward, xs: Sequence[Arg]) -> tuple[int, ...]:
    """The device of each."""
    return tuple(g.device(x) for x in xs)


def equal_parts(g: Backward) -> None:
    """Refuses the gradient of parts of different sizes."""
    shapes = [g.known_shape(x) for x in g.x]
    if any(shape != shapes[0] for shape in shapes):
        raise g.refuse(f"`{g.op.name}` of parts of different sizes has no gradient", "cut into equal parts")
