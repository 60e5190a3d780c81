"""From a path to a program and its settings. Where text is wrong, the commands end with its diagnostics."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from distir.cli.endings import Wrong
from distir.cli.files import STDIN, read_bytes, shown
from distir.diagnostics import Report, Source

if TYPE_CHECKING:
    from distir.analysis.program import Program
    from distir.config import Config
    from distir.ir import Module


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
    program = read_program(path)
    if program.errors:
        raise Wrong([Report(program.source, program.diagnostics)])
    if not program.module.mesh or on_mesh == "kept":
        return program
    return _off_mesh(program, on_mesh == "expanded")


def _off_mesh(program: Program, expanding: bool) -> Program:
    """The program without its mesh. Raises Wrong where that cannot be written."""
    from distir.cli.endings import judged
    from distir.transform.mesh import erase, expand

    with judged(program):
        made = (expand if expanding else erase)(program.module)
    return expanded(program, made, "expanded" if expanding else "erased")


def expanded(program: Program, made: Module, how: str = "expanded") -> Program:
    """What a program on a mesh was made, as a program with a text of its own."""
    from distir.analysis.program import read
    from distir.syntax import print_rolled

    return read(print_rolled(made), f"{program.source.path} {how}")


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
