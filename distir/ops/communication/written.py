"""Text shared by torch forms of communication ops: ranks, members of a group, shapes to receive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from distir.ir import HOST, TensorType

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, Write


def received(write: Write, type: TensorType) -> str:
    """The shape and element type of a received tensor, as arguments."""
    return f"{write.items(type.shape or ())}, {write.dtype(type.dtype)}"


def members(write: Write, xs: Sequence[Expr]) -> tuple[str, int | None]:
    """The ranks of the operands, and the index of this rank's operand."""
    devices = [member(write, x) for x in xs]
    mine = devices.index(write.device) if write.device in devices else None
    return write.items([write.rank(d) for d in devices]), mine


def member(write: Write, x: Expr) -> int:
    """The device of an operand."""
    if x.type.device is None or x.type.device == HOST:
        raise write.refuse("an operand is a host value", help="place it on a device with `Send` first")
    return x.type.device


def own_results(write: Write, devices: Sequence[int | None]) -> tuple[int, ...]:
    """The indices of the results that this rank gets, of one on each of the devices."""
    return tuple(i for i, d in enumerate(devices) if d == write.device)


def shapes_of(xs: Sequence[Expr], axis: int) -> tuple[bool, list[tuple[int, ...]]]:
    """Whether all operands have the same shape, and the shape of each."""
    shapes = [x.shape for x in xs]
    return len(set(shapes)) == 1, shapes
