"""What can be set, and where it is looked for. How the file is read is in `reader`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from distir.diagnostics import Report

FILE_NAME = "distir.toml"

DEFAULT_HARDWARE = "dgx-a100"


@dataclass(frozen=True, slots=True)
class Budget:
    """What a program may cost at most: a number and a unit, as `5ms` and `32GB`; the unit is not yet checked."""

    max_latency: str | None = None
    max_memory: str | None = None


@dataclass(frozen=True, slots=True)
class Hints:
    """Which inlay hints the editor shows, and how many characters of them.

    `length`: of a line; what is longer ends in `…`. `columns`: how much of a line is sure to be seen; times that would
    stand further to the right stand behind the first result instead. 0 is no limit.
    """

    types: bool = True
    values: bool = True
    times: bool = True
    waits: bool = True
    length: int = 80
    columns: int = 120


@dataclass(frozen=True, slots=True)
class Config:
    """The settings that hold for a program. `path` is the file they come from; without one all are defaults.

    `hardware`: the name of a profile, or the absolute path of one. `entry`: a function, without `@`. `bind`: sizes of
    named dimensions, and literals of the language, as text, for host parameters.
    """

    path: Path | None = None
    hardware: str = DEFAULT_HARDWARE
    names_hardware: bool = False
    """Whether the file names the hardware; else it is the default."""
    entry: str | None = None
    bind: Mapping[str, int | str] = field(default_factory=dict[str, int | str], hash=False)
    budget: Budget = Budget()
    hints: Hints = Hints()

    @property
    def shown(self) -> str:
        """The file as messages name it."""
        return FILE_NAME if self.path is None else display(self.path)


class ConfigError(Exception):
    """A settings file cannot be used; `report` says why, all at once."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__("\n".join(f"{report.source.path}: {diagnostic}" for diagnostic in report.diagnostics))


def find(start: Path) -> Config:
    """The settings for a file or folder: the nearest `distir.toml` beside it or above it; defaults if there is none.

    A file that has not changed is not read again. Raises ConfigError.
    """
    absolute = Path(os.path.abspath(start))
    folder = absolute if os.path.isdir(absolute) else absolute.parent
    for candidate in (folder, *folder.parents):
        path = candidate / FILE_NAME
        if os.path.lexists(path):
            return load(path)
    return Config()


def load(path: Path) -> Config:
    """The settings in one file; if it has not changed, it is not read again. Raises ConfigError."""
    path = Path(os.path.abspath(path))
    try:
        status = path.stat()
    except OSError:
        return _read(path)  # raises the reason
    return _remembered(path, (status.st_mtime_ns, status.st_size, status.st_ino))


def display(path: Path) -> str:
    """A path as people name it: relative to the current folder where it is below it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


@lru_cache(maxsize=64)
def _remembered(path: Path, version: tuple[int, ...]) -> Config:
    del version  # a key of the cache: changes with the file
    return _read(path)


def _read(path: Path) -> Config:
    from distir.config.reader import read

    return read(path)
