"""Communication in torch.distributed, as each member of the group writes it.

Members are the operands' and the results' devices, in the order of the statement; process groups order their ranks by
number. The functions of the template `communication` bring the one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from distir.ir import HOST, TensorType
from distir.lower.forms import Local, Operand, Unlowerable, Write, dtype_name, items, together, torch_form


def _result(type: TensorType) -> str:
    """The shape and element type of what is received."""
    return f"{items(type.shape or ())}, {dtype_name(type.dtype)}"


def _members(write: Write, xs: Sequence[Operand]) -> tuple[str, int | None]:
    """The ranks of the operands, and which operand is this rank's."""
    devices = [_device(x) for x in xs]
    mine = devices.index(write.device) if write.device in devices else None
    return items([write.rank(d) for d in devices]), mine


def _device(x: Operand) -> int:
    if x.type.device is None or x.type.device == HOST:
        raise Unlowerable("a member of the group brings a host value", help="give it a place with `Send` first")
    return x.type.device


def _mine(write: Write, devices: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(i for i, d in enumerate(devices) if d == write.device)


@torch_form("Send", fresh=True)
def _(write: Write, x: Operand, *, device: int) -> Local:
    if x.type.device == HOST:  # every rank knows it
        return Local((0,), f"{x.tensor}.clone()")
    if write.device == device:
        return Local((0,), f"{write.kernel('receive')}({_result(write.results[0])}, {write.rank(_device(x))})")
    return Local((), f"{write.kernel('send')}({x}, {write.rank(device)})")


@together("Send")
def _(write: Write, leaves: Sequence[Sequence[Operand]], *, device: int) -> Local:
    xs = [leaf[0] for leaf in leaves]
    if write.device == device:
        shapes = items([items([items(x.shape), dtype_name(x.dtype)]) for x in xs])
        return Local((0,), f"{write.kernel('receive_together')}({shapes}, {write.rank(_device(xs[0]))})")
    return Local((), f"{write.kernel('send_together')}({items(xs)}, {write.rank(device)})")


@torch_form("MPIBroadcast", fresh=True)
def _(write: Write, x: Operand, *, devices: tuple[int, ...]) -> Local:
    results = _mine(write, devices)
    if x.type.device == HOST or len(devices) == 1:
        return Local(results, f"{x.tensor}.clone()")
    group, root = write.group(devices), write.rank(_device(x))
    if write.device == x.type.device:
        return Local(results, f"{write.kernel('broadcast')}({x}, {root}, {group})")
    return Local(results, f"{write.kernel('broadcast_to')}({_result(write.results[0])}, {root}, {group})")


@torch_form("MPIScatter", fresh=True)
def _(write: Write, x: Operand, *, devices: tuple[int, ...], axis: int) -> Local:
    results, ranks = _mine(write, devices), items([write.rank(d) for d in devices])
    if x.type.device == HOST or len(devices) == 1:
        return Local(results, f"torch.tensor_split({x.tensor}, {len(devices)}, {axis})[{results[0]}].clone()")
    group, root = write.group(devices), write.rank(_device(x))
    mine = f"{x}" if write.device == x.type.device else "None"
    shape = _result(write.results[0])
    return Local(results, f"{write.kernel('scatter')}({mine}, {axis}, {shape}, {root}, {ranks}, {group})")


def _sizes(xs: Sequence[Operand], axis: int) -> tuple[bool, list[tuple[int, ...]]]:
    """Whether all operands have one shape, and the shape of each."""
    shapes = [x.shape for x in xs]
    return len(set(shapes)) == 1, shapes


@torch_form("MPIGather", fresh=True)
def _(write: Write, *xs: Operand, root: int, axis: int) -> Local:
    ranks, mine = _members(write, xs)
    results = _mine(write, [root])
    if len(xs) == 1:
        return Local(results, f"{xs[0]}.clone()")
    _, shapes = _sizes(xs, axis)
    given = f"{xs[mine or 0]}, {shapes}, {axis}, {write.rank(root)}, {ranks}"
    return Local(results, f"{write.kernel('gather')}({given}, {write.group([_device(x) for x in xs])})")


@torch_form("MPIAllgather", fresh=True)
def _(write: Write, *xs: Operand, axis: int) -> Local:
    ranks, mine = _members(write, xs)
    results = () if mine is None else (mine,)
    if len(xs) == 1:
        return Local(results, f"{xs[0]}.clone()")
    same, shapes = _sizes(xs, axis)
    group = write.group([_device(x) for x in xs])
    if same:
        return Local(results, f"{write.kernel('all_gather')}({xs[mine or 0]}, {axis}, {ranks}, {group})")
    return Local(results, f"{write.kernel('all_gather_uneven')}({xs[mine or 0]}, {shapes}, {axis}, {ranks}, {group})")


@torch_form("MPIReduce", fresh=True)
def _(write: Write, *xs: Operand, root: int) -> Local:
    _, mine = _members(write, xs)
    results = _mine(write, [root])
    if len(xs) == 1:
        return Local(results, f"{xs[0]}.clone()")
    into = ", overwrite=True" if write.may_overwrite(mine or 0) else ""
    group = write.group([_device(x) for x in xs])
    return Local(results, f"{write.kernel('reduce')}({xs[mine or 0]}, {write.rank(root)}, {group}{into})")


@torch_form("MPIAllreduce", fresh=True)
def _(write: Write, *xs: Operand) -> Local:
    _, mine = _members(write, xs)
    results = () if mine is None else (mine,)
    if len(xs) == 1:
        return Local(results, f"{xs[0]}.clone()")
    into = ", overwrite=True" if write.may_overwrite(mine or 0) else ""
    group = write.group([_device(x) for x in xs])
    return Local(results, f"{write.kernel('all_reduce')}({xs[mine or 0]}, {group}{into})")


@together("MPIAllreduce")
def _(write: Write, leaves: Sequence[Sequence[Operand]]) -> Local:
    _, mine = _members(write, leaves[0])
    assert mine is not None
    if len(leaves[0]) == 1:
        return Local((mine,), items([f"{leaf[0]}.clone()" for leaf in leaves]))
    group = write.group([_device(x) for x in leaves[0]])
    return Local((mine,), f"{write.kernel('all_reduce_together')}({items([leaf[mine] for leaf in leaves])}, {group})")


@torch_form("MPIReduceScatter", fresh=True)
def _(write: Write, *xs: Operand, axis: int) -> Local:
    ranks, mine = _members(write, xs)
    results = () if mine is None else (mine,)
    if len(xs) == 1:
        return Local(results, f"{xs[0]}.clone()")
    group = write.group([_device(x) for x in xs])
    return Local(results, f"{write.kernel('reduce_scatter')}({xs[mine or 0]}, {axis}, {ranks}, {group})")


@torch_form("MPIAlltoall", fresh=True)
def _(write: Write, *xs: Operand, split_axis: int, concat_axis: int) -> Local:
    ranks, mine = _members(write, xs)
    results = () if mine is None else (mine,)
    if len(xs) == 1:
        return Local(results, f"{xs[0]}.clone()")
    _, shapes = _sizes(xs, split_axis)
    group = write.group([_device(x) for x in xs])
    given = f"{xs[mine or 0]}, {shapes}, {split_axis}, {concat_axis}, {ranks}"
    return Local(results, f"{write.kernel('all_to_all')}({given}, {group})")
