"""Programs written for one device of a mesh (`jax.shard_map`): what a device holds, and its collectives.

All devices run the same, so the program is that of one which represents them: its collectives state their groups
(`distir/ops/group.py`). A value is as a device holds it; how it lies over the mesh, `layouts` says. What stands outside
of such a region each device does on whole values, which are gathered for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, cast

from distir.importers.stablehlo import gspmd
from distir.importers.stablehlo.shapes import REDUCTIONS, plain_region
from distir.importers.stablehlo.shardings import DeviceMesh, Sharding, sharding
from distir.importers.stablehlo.tensors import tensor_type
from distir.importers.stablehlo.text import Braces, FunctionText, MlirOperation, first_list, lists, refuse
from distir.importers.stablehlo.translating import DEVICE, Level, StableHlo, rule
from distir.ir import DTYPES
from distir.ops import type_of

INTO, OUT_OF = "SPMDFullToShardShape", "SPMDShardToFullShape"
"""Custom calls of GSPMD around a region for one device."""


@rule("manual_computation")
def _manual_computation(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    mesh = manual_mesh(into, operation)
    wanted = _stated(into, operation, "in_shardings", [into.whole_shape(x) for x in operands])
    own = [local(into, x, one) for x, one in zip(operands, wanted, strict=True)]
    block = operation.regions[0]
    names = [name for name, _ in (operation.bound or block.params)]
    into.inside += 1
    made = into.block(block, names, own, operation.place, None)
    into.inside -= 1
    given = _stated(into, operation, "out_shardings", [_shape_of(into, operation, n, mesh) for n in range(len(made))])
    return [held(into, x, one) for x, one in zip(made, given, strict=True)]


def manual_mesh(into: StableHlo, operation: MlirOperation) -> DeviceMesh:
    """The mesh of a region for one device. Raises ImportRefused where only some of its axes are the program's own."""
    if into.mesh is None:
        refuse("a program for one device of a mesh that the file does not have", operation.place)
    mine = set(_axes(operation.attribute("manual_axes")))
    if mine and (rest := [axis for axis, size in into.mesh.axes.items() if size > 1 and axis not in mine]):
        into.shared_axes.update(rest)
    if not into.distribute:
        advice = "import it without `--one-device` and `--verify`"
        refuse("a program written for the devices of a mesh (`jax.shard_map`)", operation.place, advice)
    into.regions.append(operation.place)
    return into.mesh


def _axes(given: Any) -> list[str]:
    """The names in an attribute, at any depth."""
    inner: Sequence[Any] = given.listed if isinstance(given, Braces) else lists(given)
    return [name for item in inner for name in ([item] if isinstance(item, str) else _axes(item))]


def _stated(into: StableHlo, operation: MlirOperation, name: str, shapes: Sequence[Sequence[int]]) -> list[Sharding]:
    given = operation.attribute(name)
    listed = first_list(given.listed) if isinstance(given, Braces) else lists(given)
    if len(listed) != len(shapes):
        refuse(f"expected {len(shapes)} shardings in `{name}`", operation.place)
    return [sharding(one, into.mesh, shape, operation.place) for one, shape in zip(listed, shapes, strict=True)]


def _shape_of(into: StableHlo, operation: MlirOperation, number: int, mesh: DeviceMesh) -> list[int]:
    """The whole shape of a result."""
    of = tensor_type(operation.types[1][number], DEVICE, operation.place)
    return [size for size in of.shape or () if isinstance(size, int)]


def local(into: StableHlo, name: str, wanted: Sharding) -> str:
    """What a device holds of a value that is to lie so."""
    now = into.layouts.get(name)
    if now is not None and now.dims == wanted.dims:
        return name
    made = into.whole(name)
    for axis, over in enumerate(wanted.dims):
        for size, stride in into.levels(over):
            made = into.several("GroupPart", 1, made, size=size, stride=stride, axis=axis)[0]
    return made


def held(into: StableHlo, name: str, layout: Sharding) -> str:
    """A value that lies so; under another name where it lies otherwise, too."""
    if not any(layout.dims):
        return name
    if name in into.layouts or into.known(name) is not None or name not in into.makers:
        name = into.copied(name)
    into.layouts[name] = layout
    return name


def layouts_of(entry: FunctionText, mesh: DeviceMesh | None) -> dict[str, Any]:
    """By argument: the sharding with which a region for one device takes it first, as the file states it."""
    found: dict[str, Any] = {}
    stated: dict[str, tuple[str, Any]] = {}
    for operation in entry.body.operations:
        if operation.name.endswith("manual_computation"):
            given = operation.attribute("in_shardings")
            listed = first_list(given.listed) if isinstance(given, Braces) else lists(given)
            for name, one in zip(operation.operands, listed, strict=False):
                found.setdefault(name, one)
        elif operation.symbol == "Sharding" and operation.operands:
            stated[operation.results[0]] = operation.operands[0], operation.attribute(gspmd.SHARDING)
        elif operation.symbol == INTO and operation.operands[0] in stated:
            name, text = stated[operation.operands[0]]
            found.setdefault(name, text)
    return found if mesh is not None else {}


# Collectives.


def _levels(into: StableHlo, operation: MlirOperation) -> list[Level]:
    """The group of each device, as levels from the innermost: all groups are alike."""
    given = operation.attributes.get("replica_groups")
    if isinstance(given, Braces) and given.name != "dense":
        axes = [str(item) for item in first_list(given.named.values()) or first_list(given.listed)]
        return into.levels(axes)[::-1]
    said: Any = given.listed[0] if isinstance(given, Braces) and given.listed else given
    groups = [lists(group) for group in lists(said)] or [[said]]
    offsets = [[int(device) - int(group[0]) for device in group] for group in groups]
    if any(own != offsets[0] for own in offsets):
        refuse(f"`{operation.name}` in groups of different devices has no op here", operation.place)
    return _factors(offsets[0], operation)


def _factors(offsets: Sequence[int], operation: MlirOperation) -> list[Level]:
    """Distances of devices from the first one, as counts at strides."""
    found: list[Level] = []
    rest = list(offsets)
    while len(rest) > 1:
        stride = rest[1] - rest[0]
        count = next((n for n, (a, b) in enumerate(pairwise(rest), 1) if b - a != stride), len(rest))
        if len(rest) % count or stride < 1:
            refuse(f"`{operation.name}` in groups of devices that are not at equal distances", operation.place)
        starts = rest[::count]
        if rest != [start + n * stride for start in starts for n in range(count)]:
            refuse(f"`{operation.name}` in groups of devices that are not at equal distances", operation.place)
        found.append((count, stride))
        rest = starts
    return found


@rule("all_reduce")
def _all_reduce(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    applied = plain_region(operation.regions[0])[:1]
    name = applied[0].rpartition(".")[2] if applied else ""
    if name not in REDUCTIONS:
        refuse("an all-reduce by another function than a sum, a product or an extreme", operation.place)
    return [_all_reduced(into, x, _levels(into, operation), name) for x in operands]


GATHERED: Final = 1 << 18
"""As few elements are gathered and reduced by each device: two collectives would wait longer than they save."""


def _all_reduced(into: StableHlo, x: str, levels: Sequence[Level], name: str) -> str:
    """A sum; of another function, what each device reduces of the others' operands, gathered.

    That is as much traffic as a sum takes. Operands that are few, or do not divide, are gathered and reduced whole.
    """
    for size, stride in levels:
        shape = into.shape(x)
        count = math.prod(shape)
        if name == "add":
            x = into.several("GroupAllreduce", 1, x, size=size, stride=stride)[0]
        elif count % size or count * size <= GATHERED:
            rows = into.reshaped(x, [1, *shape])
            rows = into.several("GroupAllgather", 1, rows, size=size, stride=stride, axis=0)[0]
            x = into.reshaped(into.apply(REDUCTIONS[name][0], rows, into.ints([0])), shape)
        else:
            parts = into.reshaped(x, [size, count // size])
            parts = into.several("GroupAlltoall", 1, parts, size=size, stride=stride)[0]
            part = into.reshaped(into.apply(REDUCTIONS[name][0], parts, into.ints([0])), [1, count // size])
            x = into.reshaped(into.several("GroupAllgather", 1, part, size=size, stride=stride, axis=0)[0], shape)
    return x


@rule("all_gather")
def _all_gather(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    axis = int(operation.attribute("all_gather_dim"))
    return [_each(into, "GroupAllgather", x, _levels(into, operation), axis=axis) for x in operands]


@rule("reduce_scatter")
def _reduce_scatter(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    if [name.rpartition(".")[2] for name in plain_region(operation.regions[0])] != ["add"]:
        refuse("a reduce-scatter by another function than a sum", operation.place)
    axis = int(operation.attribute("scatter_dimension"))
    return _each(into, "GroupReduceScatter", operands[0], _levels(into, operation)[::-1], axis=axis)


@rule("all_to_all")
def _all_to_all(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    levels = _levels(into, operation)
    if len(levels) > 1:
        refuse("an all-to-all over several axes of the mesh has no op here", operation.place)
    axes = {
        key: int(operation.attribute(given))
        for key, given in (("split_axis", "split_dimension"), ("concat_axis", "concat_dimension"))
    }
    return [_each(into, "GroupAlltoall", x, levels, **axes) for x in operands]


def _each(into: StableHlo, op: str, x: str, levels: Sequence[Level], **attrs: int) -> str:
    for size, stride in levels:
        x = into.several(op, 1, x, size=size, stride=stride, **attrs)[0]
    return x


@rule("collective_permute")
def _collective_permute(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    """A step around the devices of an axis; what no device sends to gets zeros."""
    given = operation.attributes.get("source_target_pairs")
    said = lists(given.listed[0]) if isinstance(given, Braces) and given.listed else lists(given)
    pairs = {int(source): int(target) for source, target in cast("list[list[Any]]", said)}
    assert into.mesh is not None
    found = next(
        (
            (size, stride, by)
            for size, stride in into.levels(list(into.mesh.axes))
            for by in (1, -1, *range(2, size))
            if all(target == source + _step(source, size, stride, by) for source, target in pairs.items())
        ),
        None,
    )
    if found is None or not pairs:
        refuse("a permutation of devices that is no step along an axis of the mesh has no op here", operation.place)
    size, stride, by = found
    made = into.several("GroupShift", 1, operands[0], size=size, stride=stride, by=by)[0]
    if len(pairs) == into.mesh.size:
        return made
    got = [float(device in pairs.values()) for device in range(into.mesh.size)]
    mask = by_device(into, got)
    return into.apply("Mul", made, into.apply("Cast", mask, to=into.dtype(made)))


def _step(device: int, size: int, stride: int, by: int) -> int:
    """How far a device is from the one `by` behind it around its ring."""
    place = device // stride % size
    return ((place + by) % size - place) * stride


@rule("partition_id", "replica_id")
def _partition_id(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    assert into.mesh is not None
    number = by_device(into, list(range(into.mesh.size)))
    of = tensor_type(operation.types[1][0], DEVICE, operation.place).dtype
    return into.several("Cast", 1, number, to=of or DTYPES["UInt32"])[0]


def by_device(into: StableHlo, values: Sequence[float]) -> str:
    """A number that each device has its own of."""
    (made,) = into.several("GroupConstant", 1, values=tuple(values), stride=1)
    into.values[made] = type_of(into.values[made])  # that of this device is none of the others'
    return made


# What GSPMD calls the same.


@rule(INTO)
def _into_region(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    manual_mesh(into, operation)
    (x,) = operands
    stated = into.constraints.pop(x, None) or into.layouts.get(x)
    return x if stated is None else into.copied(local(into, x, stated))


@rule(OUT_OF)
def _out_of_region(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    mesh = manual_mesh(into, operation)
    text = str(operation.attribute(gspmd.SHARDING))
    shape = _shape_of(into, operation, 0, mesh)
    dims = gspmd.dims_of(text, dict(mesh.axes), len(shape), operation.place)
    return held(into, operands[0], Sharding(tuple(dims), operation.place))
