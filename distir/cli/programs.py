"""From a path to a program and its settings. Where text is wrong, the commands end with its diagnostics."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from distir.cli.endings import Refused, Wrong
from distir.cli.files import STDIN, read_bytes, shown
from distir.diagnostics import Report, Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distir.analysis.program import Program
    from distir.config import Config
    from distir.ir import Constant, Module


def read_text(path: str) -> str:
    """The text of a file or of standard input. Raises Refused, and Wrong for files that are not text."""
    from distir.syntax import decode

    data = read_bytes(path)
    text, problems = decode(data, shown(path))
    if text is None:
        raise Wrong([Report(Source(shown(path), data.decode("utf-8", errors="replace")), problems)])
    return text


def read_program(path: str) -> Program:
    """The program in a file or on standard input, whatever is wrong with it. Raises Refused and Wrong."""
    from distir.analysis.program import read

    return read(read_text(path), shown(path))


OnMesh = Literal["expanded", "erased", "kept"]
"""What a command takes of a program on a mesh: that of every device, the sequential one, or the program as it is."""


def sound_program(path: str, on_mesh: OnMesh = "expanded") -> Program:
    """A program without errors. Raises Refused, and Wrong for one with errors."""
    return sized_program(path, (), on_mesh)[0]


def sized_program(path: str, bind: Sequence[str] | None, on_mesh: OnMesh = "expanded") -> tuple[Program, list[str]]:
    """A program without errors, with sizes of its mesh as they are bound, and the bindings that are of other names.

    Flags override settings. Raises Refused, and Wrong for a program with errors.
    """
    program, flags = read_program(path), list(bind or ())
    if program.errors:
        raise Wrong([Report(program.source, program.diagnostics)])
    if not program.module.mesh:
        return program, flags
    from distir.transform.mesh import names_in, names_of_sizes

    names = {*names_in(program.module)}
    given = {**settings(path).bind, **{name: value for name, _, value in (flag.partition("=") for flag in flags)}}
    sizes = {name: int(size) if str(size).isdecimal() else size for name, size in given.items() if name in names}
    own = names_of_sizes(program.module)
    return _on_mesh(program, sizes, on_mesh), [flag for flag in flags if flag.partition("=")[0] not in own]


def sized_mesh(path: str, bind: Sequence[str] | None, on_mesh: OnMesh = "expanded") -> Program:
    """A program without errors, of which only sizes of its mesh are bound. Raises Refused, and Wrong as above."""
    program, left = sized_program(path, bind, on_mesh)
    for flag in left:
        raise Refused(f"`--bind {flag}`: no size of its mesh has this name")
    return program


def _on_mesh(program: Program, sizes: Mapping[str, Constant], on_mesh: OnMesh) -> Program:
    """The program on a mesh of these sizes, or without it. Raises Wrong where that cannot be written."""
    from distir.cli.endings import judged
    from distir.transform.checking import checked
    from distir.transform.mesh import erase, expand, sized

    if on_mesh == "kept" and not sizes:
        return program
    with judged(program):
        module = sized(program.module, sizes)
        checked(module)
        made = expand(module) if on_mesh == "expanded" else erase(module) if on_mesh == "erased" else module
    return of_mesh(program, made, "" if on_mesh == "kept" else on_mesh)


def of_mesh(program: Program, made: Module, how: str) -> Program:
    """What a program on a mesh was made, as a program with a text of its own. `how`: a word of that behind its name."""
    from distir.analysis.program import read
    from distir.syntax import print_rolled

    return read(print_rolled(made), f"{program.source.path} {how}".rstrip())


def fold_on_one_core() -> None:
    """Of a command that runs no program: numpy, which folds constants, is not to start a BLAS thread on each core.

    While they wait for work they take more time than all the folding. Where the user has said how many, so be it.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def folder_of(path: str) -> Path:
    """The folder of a program; the current one for standard input."""
    return Path() if path == STDIN else Path(os.path.abspath(path)).parent


def settings(path: str) -> Config:
    """The settings that hold for a program. Raises config.ConfigError."""
    from distir import config

    return config.find(folder_of(path))
