"""`distir erase` and `distir expand`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from distir.cli import options, output
from distir.cli.endings import judged
from distir.cli.files import put, shown
from distir.cli.programs import fold_on_one_core, sized_mesh
from distir.cli.transform import commented

if TYPE_CHECKING:
    from collections.abc import Callable

    from distir.ir import Module

Out = Annotated[str | None, typer.Option("--output", "-o", metavar="OUT.dir", help="Write the result here.")]


def erase(file: options.File, out: Out = None) -> int:
    """Write the sequential program that a program on a mesh means.

    Types lose where the parts of values are, and the collectives over axes of the mesh go; what is left computes the
    same values. A program without a mesh stays as it is.

    For example:

        distir erase mesh.dir -o sequential.dir
    """
    from distir.transform.mesh import erase

    return _written(file, out, erase, "erasing")


def expand(file: options.File, out: Out = None, bind: options.Bindings = None) -> int:
    """Write the program of every device of a mesh.

    A statement becomes one for each device, on its parts, and a collective over an axis those of the devices along it.
    `@main.scatter` makes the parts of whole parameters, `@main.gather` whole results of parts. `distir lower`,
    `launch` and `project` do this by themselves. --bind gives a number for a size of the mesh that is a name. A program
    without a mesh stays as it is.

    For example:

        distir expand mesh.dir -o devices.dir

        distir expand mesh.dir --bind D=4
    """
    from distir.transform.mesh import expand

    return _written(file, out, expand, "expanding", bind)


def _written(
    file: str, out: str | None, change: Callable[[Module], Module], doing: str, bind: list[str] | None = None
) -> int:
    from distir.ir.rolling import rolled

    fold_on_one_core()
    program = sized_mesh(file, bind, "kept")
    with output.progress(f"{doing} {shown(file)}"), judged(program):
        made = change(program.module)
    text = commented(rolled(made), program)
    put(text, out)
    return 0
