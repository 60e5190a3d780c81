"""Gradients of what moves elements without changing them: the same move back."""

from __future__ import annotations

from typing import cast

from distir.ir import Literal
from distir.ops import constant, tuples
from distir.ops import shape as ops
from distir.ops.differentiation.backward import Backward, Gradients


@ops.Reshape.grad
@ops.Flatten.grad
def _(g: Backward) -> Gradients:
    return [g.reshape_like(g.dy, g.x[0]), *[None] * (len(g.x) - 1)]


@ops.Squeeze.grad
def _(g: Backward) -> Gradients:
    x, axes = g.x
    return [g.reshape_like(g.dy, x) if axes is None else g("Unsqueeze", g.dy, axes), None]


@ops.Unsqueeze.grad
def _(g: Backward) -> Gradients:
    return [g("Squeeze", g.dy, g.x[1]), None]


@ops.Transpose.grad
def _(g: Backward) -> Gradients:
    perm = cast("tuple[int, ...] | None", g.attrs.get("perm"))
    if perm is None:
        return [g("Transpose", g.dy)]
    return [g("Transpose", g.dy, perm=tuple(perm.index(i) for i in range(len(perm))))]


@ops.Expand.grad
def _(g: Backward) -> Gradients:
    return [g.sum_to(g.dy, g.x[0]), None]


@ops.Tile.grad
def _(g: Backward) -> Gradients:
    """Each dimension taken apart into the copies and what was copied, and the copies summed."""
    shape, repeats = g.known_shape(g.x[0]), g.ints(g.x[1])
    if repeats is None or sum(not isinstance(dim, int) for dim in shape) > 1:
        raise g.refuse("`Tile` has a gradient only where its repeats and the shape of its operand are known")
    sizes = tuple(part for count, dim in zip(repeats, shape, strict=True) for part in (count, _size(dim)))
    copies = tuple(range(0, len(sizes), 2))
    if not sizes:
        return [g.dy, None]
    return [g("ReduceSum", g("Reshape", g.dy, sizes, allowzero=True), copies, keepdims=False), None]


def _size(dim: object) -> int:
    return dim if isinstance(dim, int) else -1


@ops.Pad.grad
def _(g: Backward) -> Gradients:
    """What was added is cut off, and what was cut off is zero."""
    _, pads, filling, axes = g.x
    if g.attrs["mode"] != "constant":
        raise g.refuse(f'`Pad` with `mode = "{g.attrs["mode"]}"` has no gradient', 'use `mode = "constant"`')
    known = g.ints(pads)
    back = g("Neg", pads) if known is None else Literal(tuple(-n for n in known))
    ddata = g("Pad", g.dy, back, None, axes)
    dfilling = None
    if filling is not None and g.wants(2):
        kept = g("ReduceSum", ddata, keepdims=False)
        dfilling = g("Sub", g("ReduceSum", g.dy, keepdims=False), kept)
    return [ddata, None, dfilling, None]


@constant.Trilu.grad
def _(g: Backward) -> Gradients:
    return [g.same(g.dy, g.x[1]), None]


@constant.EyeLike.grad
def _(g: Backward) -> Gradients:
    return [None]


@constant.OneHot.grad
def _(g: Backward) -> Gradients:
    """The gradient of `values`: the sums of the gradients where either one was taken."""
    indices, depth, _ = g.x
    on = g.same(indices, depth, Literal((0.0, 1.0)))
    taken = g("ReduceSum", g("Mul", g.dy, g("Cast", on, to=g.dtype(g.y[0]))), keepdims=False)
    left = g("Sub", g("ReduceSum", g.dy, keepdims=False), taken)
    return [None, None, g("Concat", g("Unsqueeze", left, (0,)), g("Unsqueeze", taken, (0,)), axis=0)]


@tuples.UnpackTuple.grad
def _(g: Backward) -> Gradients:
    return [g("MakeTuple", *(g.dy_or_zeros(i) for i in range(len(g.dys))))]


@tuples.MakeTuple.grad
def _(g: Backward) -> Gradients:
    return g.several("UnpackTuple", len(g.x), g.dy)
