"""Numbers in place of the names in a mesh's sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import placements as codes
from distir.ir import Constant, Function, Meshes, Module, Part, Site, types
from distir.ir.dims import LARGEST
from distir.ir.places import unsized, with_sizes

NumberedMesh = tuple[tuple[str, int], ...]
"""The axes of a mesh with their sizes, outermost first."""


def names_of_sizes(module: Module) -> frozenset[str]:
    """The names in sizes of the mesh that are no dimension's, too: these are bound when the program is expanded."""
    dimensions = (types.dim_names(param.type) for function in module for param in function.params)
    return frozenset(names_in(module)).difference(*dimensions)


def names_in(module: Module) -> list[str]:
    """The names in sizes of its meshes."""
    return [name for mesh in module.meshes.each for name in unsized(mesh)]


def sized(module: Module, bind: Mapping[str, Constant]) -> Module:
    """The program on a mesh with the sizes that are bound to names; what is bound to others is passed over.

    Raises ProgramError for what is no number of devices.
    """
    names = [name for name in names_in(module) if name in bind]
    sizes = {name: size for name in names if isinstance(size := bind[name], int) and 0 < size <= LARGEST}
    for name in names:
        if name not in sizes:
            message = f"expected the number of devices along an axis for `{name}`, found `{bind[name]}`"
            raise _refused(module, message, f"bind it as in `{name}=4`")
    return Module(_with_sizes(function, sizes) for function in module) if sizes else module


def _with_sizes(function: Function, sizes: Mapping[str, int]) -> Function:
    stages = tuple((stage, with_sizes(mesh, sizes)) for stage, mesh in function.stages)
    return replace(function, mesh=with_sizes(function.mesh, sizes), stages=stages)


def refuse_names(module: Module) -> None:
    """Raises ProgramError where a size is a name."""
    for name in names_in(module):
        message = f"`{name}` in `{module.meshes}` has no number, which a program of every device needs"
        raise _refused(module, message, f"give one with `--bind {name}=2`")


def axes_of_device(meshes: Meshes, device: int | None) -> NumberedMesh:
    """The axes of the mesh of a device, whose sizes are numbers."""
    return tuple((axis, size) for axis, size in meshes.of(device) if isinstance(size, int))


def _refused(module: Module, message: str, hint: str) -> ProgramError:
    stating = next(function for function in module if function.mesh)
    return ProgramError([Diagnostic(codes.BAD_MESH, Site(stating.name, None, Part("name")), message, help=hint)])
