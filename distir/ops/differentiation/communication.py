"""Gradients of communication: what was sent comes back, what was copied is summed, what was summed is copied."""

from __future__ import annotations

from collections.abc import Sequence

from distir.ir import Arg
from distir.ops import communication as ops
from distir.ops.differentiation.backward import Backward, Gradients


def _all_dys(g: Backward) -> list[Arg]:
    """A collective needs every device: zeros stand for gradients that do not matter."""
    return [g.dy_or_zeros(i) for i in range(len(g.dys))]


def _devices(g: Backward, xs: Sequence[Arg]) -> tuple[int, ...]:
    return tuple(g.device(x) for x in xs)


@ops.Send.grad
def _(g: Backward) -> Gradients:
    return [g("Send", g.dy, device=g.device(g.x[0]))]


@ops.MPIBroadcast.grad
def _(g: Backward) -> Gradients:
    return [g("MPIReduce", *_all_dys(g), root=g.device(g.x[0]))]


@ops.MPIReduce.grad
def _(g: Backward) -> Gradients:
    return g.several("MPIBroadcast", len(g.x), g.dy, devices=_devices(g, g.x))


@ops.MPIScatter.grad
def _(g: Backward) -> Gradients:
    return [g("MPIGather", *_all_dys(g), root=g.device(g.x[0]), axis=g.attrs["axis"])]


@ops.MPIGather.grad
def _(g: Backward) -> Gradients:
    _equal_parts(g)
    return g.several("MPIScatter", len(g.x), g.dy, devices=_devices(g, g.x), axis=g.attrs["axis"])


@ops.MPIAllgather.grad
def _(g: Backward) -> Gradients:
    _equal_parts(g)
    return g.several("MPIReduceScatter", len(g.x), *_all_dys(g), axis=g.attrs["axis"])


@ops.MPIReduceScatter.grad
def _(g: Backward) -> Gradients:
    return g.several("MPIAllgather", len(g.x), *_all_dys(g), axis=g.attrs["axis"])


@ops.MPIAllreduce.grad
def _(g: Backward) -> Gradients:
    """Each operand is part of every result, so its gradient is the sum of theirs."""
    return g.several("MPIAllreduce", len(g.x), *_all_dys(g))


@ops.MPIAlltoall.grad
def _(g: Backward) -> Gradients:
    there, back = g.attrs["split_axis"], g.attrs["concat_axis"]
    _equal_parts(g)
    return g.several("MPIAlltoall", len(g.x), *_all_dys(g), split_axis=back, concat_axis=there)


def _equal_parts(g: Backward) -> None:
    shapes = [g.known_shape(x) for x in g.x]
    if any(shape != shapes[0] for shape in shapes):
        raise g.refuse(f"`{g.op.name}` of parts of different sizes has no gradient", "cut into equal parts")
