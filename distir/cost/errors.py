"""Errors about hardware: an unknown name, a faulty profile, a program too large for the machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from distir.ir.errors import DistirError


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. `path`, `line` and `column` (from 1) where it has a place in a file; `help` says what to do."""

    message: str
    path: str | None = None
    line: int | None = None
    help: str | None = None
    column: int | None = None

    @property
    def text(self) -> str:
        """The message, with its place before it."""
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)
        return f"{place}: {self.message}" if place else self.message

    def __str__(self) -> str:
        return f"{self.text}\n  help: {self.help}" if self.help else self.text


class HardwareError(DistirError):
    """Hardware that cannot be used; `problems` are all the faults found, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))
