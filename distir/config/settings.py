"""What can be set. Where the file is looked for is in `finding`, how it is read in `reader`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from distir.diagnostics import Report
from distir.ir.errors import DistirError

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

    `sequential`: what values are of the sequential program's.

    `length`: of a line; what is longer ends in `…`. `columns`: how much of a line is sure to be seen; in a function
    whose times would be further to the right they follow the first results instead. 0 is no limit.
    """

    types: bool = True
    values: bool = True
    times: bool = True
    waits: bool = True
    sequential: bool = False
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
    nodes: int | None = None
    """How many nodes of the hardware; None where its name says it, or it is one."""
    names_hardware: bool = False
    """Whether the file names the hardware; else it is the default."""
    entry: str | None = None
    sequential: str | None = None
    """The absolute path of the program that distributed ones are proved against."""
    bind: Mapping[str, int | str] = field(default_factory=dict[str, int | str], hash=False)
    budget: Budget = Budget()
    hints: Hints = Hints()

    @property
    def machine(self) -> str:
        """The hardware with its number of nodes, as one name."""
        return self.hardware if self.nodes is None else f"{self.hardware}x{self.nodes}"

    @property
    def shown(self) -> str:
        """The file as messages name it."""
        return FILE_NAME if self.path is None else display(self.path)


class ConfigError(DistirError):
    """A settings file cannot be used; `report` says why, all at once."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__("\n".join(f"{report.source.path}: {diagnostic}" for diagnostic in report.diagnostics))


def display(path: Path) -> str:
    """A path as people name it: relative to the current folder where it is below it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
