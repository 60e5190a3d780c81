"""`Send`: from one device to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from distir.diagnostics.codes import devices as device_codes
from distir.ir import HOST, TensorType
from distir.ops.communication.operands import check_devices
from distir.ops.communication.written import member, received
from distir.ops.core import op
from distir.ops.numeric import Array
from distir.ops.unify import Reject

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
    check_devices("Send", (device,), "device")
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
            (0,), f"{write.kernel('receive')}({received(write, write.results[0])}, {write.rank(member(write, x))})"
        )
    return write.local((), f"{write.kernel('send')}({x}, {write.rank(device)})")


@Send.torch_together
def _(write: Write, leaves: Sequence[Sequence[Expr]], *, device: int) -> Local:
    xs = [leaf[0] for leaf in leaves]
    if write.device == device:
        shapes = write.items([write.items([write.items(x.shape), write.dtype(x.dtype)]) for x in xs])
        return write.local((0,), f"{write.kernel('receive_together')}({shapes}, {write.rank(member(write, xs[0]))})")
    return write.local((), f"{write.kernel('send_together')}({write.items(xs)}, {write.rank(device)})")
