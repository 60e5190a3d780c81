"""`Offload` and `Fetch`: between the memory of a device and that of its host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distir.diagnostics.codes import devices as device_codes
from distir.ir import HOST
from distir.ops.core import op
from distir.ops.host import Operand
from distir.ops.numeric import Array
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write

WHY_NOT = "it moves what a training step has computed; `offload` writes it behind `grad`"


@op(
    "Tensor[t, s, d], Optional[Tensor[t, s, d, offloaded]] -> Tensor[t, s, d, offloaded]",
    copies=True,
    foldable=False,
    inplace={0: 1},
    linear="jointly",
    non_differentiable=WHY_NOT,
)
def Offload(x: Array, into: Array | None = None) -> Array:
    """A copy of `x` in the memory of its device's host. Nothing but `Fetch` computes with it.

    On a stream of its own it runs beside what is computed meanwhile. With `into` it is where that is, if that is needed
    no more.

    %y = Offload(%x: Tensor[Float32, (2, 3), 1])
    %y = Offload(%x: Tensor[Float32, (2, 3), 1], %old: Tensor[Float32, (2, 3), 1, offloaded])
    """
    return x


@op(
    "Tensor[t, s, d, offloaded] -> Tensor[t, s, d]",
    copies=True,
    foldable=False,
    linear="jointly",
    non_differentiable=WHY_NOT,
)
def Fetch(x: Array) -> Array:
    """A copy of an offloaded `x` in its device's memory.

    %y = Fetch(%x: Tensor[Float32, (2, 3), 1, offloaded])
    """
    return x


@Offload.checks
def _(x: Operand, into: Operand | None = None) -> None:
    if x.device == HOST:
        message = "`Offload` expected a value on a device, found a host value, which takes no memory there"
        raise Reject(device_codes.OFFLOADED_OPERAND, message, "x", help="use the value as it is")


@Offload.pieces
@Fetch.pieces
def _(p: Pieces, x: Piece, into: Piece | None = None) -> list[Piece]:
    return [x]


@Offload.torch(fresh=True)
def _(write: Write, x: Expr, into: Expr | None = None) -> str:
    there = f", {into.tensor}" if into is not None and write.may_overwrite(1) else ""
    return f"{write.kernel('offload')}({x.tensor}{there})"


@Fetch.torch(fresh=True)
def _(write: Write, x: Expr) -> str:
    return f"{write.kernel('fetch')}({x.tensor})"
