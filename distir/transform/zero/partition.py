"""How state is partitioned: whole parameters to owners, or a part of each parameter on every device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distir.ir import DTYPES, Apply, Function, TensorType, Type, types
from distir.ops import OPS
from distir.ops.signature import Segment, TensorPattern
from distir.ops.splitting import layout
from distir.transform.zero.groups import ReplicaGroup, WeightGroup, in_place, unequal

SCALAR = TensorType(DTYPES["Float32"], ())
"""What an update takes besides weights, gradients and state."""


@dataclass(frozen=True, slots=True)
class Owner:
    """One replica, counted from 0, holds all of it."""

    rank: int


@dataclass(frozen=True, slots=True)
class Along:
    """Every replica holds an equal part along an axis, in the order of the replicas."""

    axis: int
    gathered: bool = False
    """Whether the update of a part needs something of all parts, which it gathers."""


Partition = Owner | Along


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of one value, one per replica, and the partition that says what remains of them."""

    names: tuple[str, ...]
    replicas: ReplicaGroup
    partition: Partition


def partitions(entry: Function, groups: Sequence[WeightGroup], kind: str) -> list[Partition]:
    """The partition of each weight. `kind` is `owner`, or `split`, which assigns owners to indivisible weights.

    Raises ProgramError for owners where one device represents all replicas.
    """
    stated = {param.name: param.type for param in entry.params}
    found: list[Partition | None] = [_split(entry, stated, g) if kind == "split" else None for g in groups]
    loads: dict[int, tuple[int, int]] = {}
    sizes = [_bytes(group.type) for group in groups]
    for index in sorted(range(len(groups)), key=lambda i: -sizes[i]):  # the largest first, for balanced loads
        if found[index] is None:
            if groups[index].replicas.stride is not None:
                raise unequal(entry, groups[index].weights[0], groups[index].replicas)
            devices = groups[index].devices
            rank = min(range(len(devices)), key=lambda r: (*loads.get(devices[r], (0, 0)), r))
            held, count = loads.get(devices[rank], (0, 0))
            loads[devices[rank]] = held + sizes[index], count + 1
            found[index] = Owner(rank)
    return [partition for partition in found if partition is not None]


def parameter_of(group: WeightGroup, partition: Partition) -> str:
    """The parameter that remains of a weight, the first of several."""
    return group.weights[partition.rank if isinstance(partition, Owner) else 0]


def part_type(type: Type, partition: Along, parts: int) -> Type:
    """The type of a part of a value, which must divide."""
    assert isinstance(type, TensorType)
    shape = list(type.shape or ())
    dim = shape[partition.axis]
    assert isinstance(dim, int)
    shape[partition.axis] = dim // parts
    return TensorType(type.dtype, tuple(shape), type.device, type.offloaded)


def _split(entry: Function, stated: Mapping[str, Type], group: WeightGroup) -> Along | None:
    """The first dimension that divides in the weight and in all of its optimizer state."""
    update = entry.body[group.updates[0]]
    if not isinstance(update, Apply):
        return None
    shapes = {_shape(stated[name]) for name in (group.weights[0], *(kept.params[0] for kept in group.kept))}
    shape = shapes.pop()
    if shapes or shape is None:
        return None
    axes = [i for i, dim in enumerate(shape) if isinstance(dim, int) and dim and dim % group.replicas.size == 0]
    if _is_elementwise(update.op):
        return Along(axes[0]) if axes else None
    gathered = _gathered(update, stated)
    return next((Along(axis, gathered[axis]) for axis in axes if axis in gathered), None)


def _gathered(update: Apply, stated: Mapping[str, Type]) -> Mapping[int, bool]:
    """By dimension along which a part of the weight can be updated: whether that gathers something of all parts."""
    weight = stated.get(str(update.args[0]))
    operands = [None if arg == "" else stated.get(str(arg), SCALAR) for arg in update.args]
    if not isinstance(weight, TensorType):
        return {}
    operands[1] = weight  # the gradient
    results = [operands[i] or weight for _, i in sorted(in_place(update.op).items())]
    found = layout(OPS[update.op], operands, results, update.attrs)
    if found is None:
        return {}
    held = [found.operands[i] for i in (1, *in_place(update.op).values())]
    alone = {
        axis: letter in found.gathered
        for axis, letter in enumerate(found.operands[0])
        if letter is not None and (letter not in found.parted or letter in found.gathered)
    }
    return {axis: g for axis, g in alone.items() if all(own[axis] == found.operands[0][axis] for own in held)}


def _is_elementwise(op: str) -> bool:
    """Whether an update is elementwise, so that a part of a weight can be updated alone.

    By its signature: weight, gradient and state have one shape, and all other operands are scalars.
    """
    if len(OPS[op].signatures) > 1 or OPS[op].rule("sharding") is not None:
        return False
    (signature,) = OPS[op].signatures
    patterns = [place.pattern for place in (*signature.operands, *signature.results)]
    shapes = {pattern.shape for pattern in patterns if isinstance(pattern, TensorPattern)} - {()}
    return len(shapes) == 1 and all(len(shape) == 1 and isinstance(shape[0], Segment) for shape in shapes if shape)


def _shape(type: Type) -> types.Shape | None:
    return type.shape if isinstance(type, TensorType) else None


def _bytes(type: Type) -> int:
    size = types.nbytes(type)
    return size if isinstance(size, int) else 0
