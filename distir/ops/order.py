"""Ordering without data flow: waiting for a value without using it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from distir.ir import Shape
from distir.ops.core import op
from distir.ops.host import Operand
from distir.ops.layout import Layout, Letters, elementwise
from distir.ops.numeric import Array

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write


@op("Tensor[t, s, d, m], *T[d] -> Tensor[t, s, d, m]", view="first", awaits=True, linear=("value",))
def After(value: Array, *events: Array, blocking: bool = False) -> Array:
    """`value`, once `events` are there: a view of `value`, for which the stream of the statement waits for all of them.

    What comes later on that stream comes later than `events`: so a transfer on a stream of its own, which needs nothing
    but a weight, does not begin as soon as the program does. It takes no time, as waiting for an event on a CUDA
    stream. With `blocking`, a host that waits for such things issues what follows once `events` are there: as where it
    reads a value, or copies one to the device. `value` and `events` may be offloaded.

    %y = After(%x: Tensor[Float32, (2, 3), 1], %z: Tensor[Float32, (4,), 1])
    %y = After[blocking = true](%x: Tensor[Float32, (2, 3), 1], %x: Tensor[Float32, (2, 3), 1])
    %y = After(%x: Tensor[Float32, (2, 3), 1], %a: Tensor[Float32, (4,), 1], %b: Tensor[Int64, (5, 6), 1])
    """
    return value


@After.pieces
def _(p: Pieces, value: Piece, *events: Piece, blocking: bool) -> list[Piece]:
    return [value]


@After.sharding
def _(value: Operand, *events: Operand, results: Sequence[Shape | None], blocking: bool) -> Layout:
    (letters,) = elementwise([value.shape])
    return Layout((letters, *(_like(value, letters, event) for event in events)), (letters,))


def _like(value: Operand, letters: Letters, event: Operand) -> Letters:
    """The letters of an event: of the same shape as `value`, or of the same examples, it is split as that is."""
    shape, whole = event.shape or (), value.shape or ()
    if shape == whole:
        return letters
    same = shape[:1] == whole[:1]
    return (*(letters[:1] if same else (None,) * len(shape[:1])), *(None,) * len(shape[1:]))


@After.grad
def _(g: Backward) -> Gradients:
    return [g.dy, *[None] * (len(g.x) - 1)]


@After.torch
def _(write: Write, value: Expr, *events: Expr, blocking: bool = False) -> str:
    return f"{write.kernel('read_by_host')}({value.tensor})" if blocking else value.tensor
