"""Shardy's annotations: meshes, and how values lie over their axes (`sdy.mesh`, `sdy.sharding`; openxla.org/shardy)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from distir.files import limits
from distir.importers.stablehlo import gspmd
from distir.importers.stablehlo.text import (
    Braces,
    FunctionText,
    MlirOperation,
    MlirParameter,
    MlirWord,
    ModuleText,
    Region,
    SymbolReference,
    TextPlace,
    first_list,
    refuse,
)

SHARDING = "sdy.sharding"


@dataclass(frozen=True, slots=True)
class DeviceMesh:
    """The axes of a mesh with their sizes, from the outermost: devices are numbered in this order."""

    name: str
    axes: Mapping[str, int]

    @property
    def size(self) -> int:
        """How many devices it has."""
        return math.prod(self.axes.values())


@dataclass(frozen=True, slots=True)
class Sharding:
    """By dimension of a value: the axes that it is split over, from the outermost. Where it is stated."""

    dims: tuple[tuple[str, ...], ...]
    place: TextPlace

    def along(self, axis: str) -> int | None:
        """The dimension that is split over an axis; None where each of its devices has all."""
        return next((number for number, axes in enumerate(self.dims) if axis in axes), None)


def mesh_of(module: ModuleText, entry: FunctionText) -> DeviceMesh | None:
    """The mesh that a function is over; None where it is over none of more than one device.

    Raises ImportRefused for several.
    """
    used = _symbols(module, entry)
    found: list[tuple[DeviceMesh, MlirOperation]] = []
    for operation in module.others:
        if operation.name != "sdy.mesh" or operation.symbol not in used:
            continue
        listed = (*operation.words, operation.attribute("mesh"))
        body = next((word for word in listed if isinstance(word, Braces)), Braces({}, ()))
        axes: list[Any] = first_list(body.listed)
        if "device_ids" in body.named and axes:
            refuse("a mesh that numbers its devices otherwise", operation.place, "number the devices in order")
        made = DeviceMesh(operation.symbol, {str(name): int(size) for name, size in axes})
        if made.size > limits.MESH:
            refuse(
                f"a mesh of more than {limits.MESH:,} devices", operation.place, "export the function for fewer devices"
            )
        if made.size > 1:
            found.append((made, operation))
    if not found and (axes_of_gspmd := gspmd.axes_of(module)):
        return DeviceMesh("mesh", axes_of_gspmd)
    if any(mesh.axes != found[0][0].axes for mesh, _ in found):
        refuse("a second mesh, of other axes", found[-1][1].place, "use one mesh")
    return found[0][0] if found else None


def of_parameter(param: MlirParameter, mesh: DeviceMesh | None, shape: Sequence[int]) -> Sharding | None:
    """How an argument or a result is annotated; None where it is not. Raises ImportRefused for what is not honoured."""
    plain, given = param.attributes.get(gspmd.SHARDING), param.attributes.get(SHARDING)
    given = given if given is not None or mesh is None else plain
    return None if given is None else stated(given, mesh, shape, param.place)


def _symbols(module: ModuleText, entry: FunctionText) -> set[str]:
    """All symbols that a function names, and those that it calls."""
    found: set[str] = set()
    pending: list[Any] = [entry]
    while pending:
        item = pending.pop()
        if isinstance(item, SymbolReference) and item.name not in found:
            found.add(item.name)
            pending.append(module.functions.get(item.name))
        elif isinstance(item, FunctionText):
            pending += [p.attributes for p in (*item.params, *item.results)] + [item.body]
        elif isinstance(item, Region):
            pending += item.operations
        elif isinstance(item, MlirOperation):
            pending += [item.attributes, *item.words, *item.regions]
        elif isinstance(item, Braces):
            pending += [*item.named.values(), *item.listed]
        elif isinstance(item, (dict, list, tuple)):
            pending += (
                list(cast("dict[str, Any]", item).values()) if isinstance(item, dict) else list(cast("list[Any]", item))
            )
    return found


def stated(given: Any, mesh: DeviceMesh | None, shape: Sequence[int], place: TextPlace) -> Sharding:
    """What an attribute says, of Shardy or, as text, of GSPMD."""
    if not isinstance(given, str) or mesh is None:
        return sharding(given, mesh, shape, place)
    return Sharding(tuple(gspmd.dims_of(given, dict(mesh.axes), len(shape), place)), place)


def of_constraint(operation: MlirOperation, mesh: DeviceMesh | None, shape: Sequence[int]) -> Sharding:
    """How `sdy.sharding_constraint` says that a value lies."""
    given = operation.attribute("out_sharding", "sharding") or next(
        (w for w in operation.words if isinstance(w, Braces)), None
    )
    if given is None:
        refuse("expected a sharding", operation.place)
    return sharding(given, mesh, shape, operation.place)


def sharding(given: Any, mesh: DeviceMesh | None, shape: Sequence[int], place: TextPlace) -> Sharding:
    """`#sdy.sharding<@mesh, [{"data"}, {}]>`. Raises ImportRefused for one that is not honoured, with its place."""
    listed: tuple[Any, ...] = given.listed if isinstance(given, Braces) else ()
    stated = first_list(listed)
    dims = [dim for dim in stated if isinstance(dim, Braces)]  # priorities are between them
    if len(dims) != len(shape):
        refuse(f"expected a sharding of {len(shape)} dimensions", place)
    if given.named.get("unreduced"):
        refuse("a sharding that leaves sums open (`unreduced`)", place, "let it be summed")
    axes: Mapping[str, int] = {} if mesh is None else mesh.axes
    found: list[tuple[str, ...]] = []
    for number, dim in enumerate(dims):
        names = [item for item in dim.listed if isinstance(item, str)]
        if any(isinstance(item, MlirWord) and item.text == ":" for item in dim.listed):
            refuse("a sharding over a part of an axis", place, "make the mesh of axes of these sizes")
        unknown = next((name for name in names if mesh is not None and name not in axes), None)
        if unknown is not None:
            refuse(f"the mesh has no axis `{unknown}`", place)
        names = [name for name in names if axes.get(name, 1) > 1]
        if names != [name for name in axes if name in names]:
            order = ", ".join(axes)
            refuse(f"dimension {number} is split over axes in another order than the mesh has them ({order})", place)
        parts = math.prod(axes[name] for name in names)
        if shape[number] % parts:
            refuse(f"dimension {number} of {shape[number]} does not split over {parts} devices", place)
        found.append(tuple(names))
    return Sharding(tuple(found), place)
