"""How a command ends early.

Exit codes: 1 for a program with errors, or an answer of no; 2 for a command that could not run.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from distir.diagnostics import ProgramError, Report

if TYPE_CHECKING:
    from distir.analysis.program import Program
    from distir.cost import HardwareError

WRONG = 1
REFUSED = 2


class Refused(Exception):  # noqa: N818 - an answer to the user, not a failure of ours
    """A request that cannot be carried out: bad arguments, an unreadable file. `help` says what to do instead."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.help = message, help


class Wrong(Exception):  # noqa: N818
    """A program with errors, which are in `reports`."""

    def __init__(self, reports: Iterable[Report]) -> None:
        super().__init__()
        self.reports = tuple(reports)


class Closed(Exception):  # noqa: N818
    """The reader has closed standard output, for example after `| head`."""


@contextmanager
def judged(program: Program) -> Generator[None]:
    """Raises Wrong, with positions in the text, for errors of a program in the block."""
    try:
        yield
    except ProgramError as error:
        raise Wrong([Report(program.source, program.located(error.diagnostics))]) from None


def of_hardware(error: HardwareError) -> list[tuple[str, str | None]]:
    """Errors in hardware as messages with locations and help."""
    return [(problem.text, problem.help) for problem in error.problems]
