"""How many ops programs may have with all calls written out: what takes one after the other refuses beyond a limit."""

from __future__ import annotations

from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import simulation as codes
from distir.ir import Part, Site

MOST_OPS = 2**63 - 1
"""No program has more. What is found of calls at once, by their summaries, counts so far."""

MOST_WRITTEN = 1_000_000
"""So many ops are written out into one function: some hundred MB of text."""

MOST_RUN = 100_000_000
"""So many ops are run one after the other: a quarter of an hour, if each takes 10 microseconds."""


WRITTEN_OUT = "ops, calls written out"


def too_many(function: str, count: int, message: str, help: str | None = None, of: str = WRITTEN_OUT) -> Diagnostic:
    """That a function has too many ops; `message` says how many it may have."""
    found = f"{count:,}" if count <= MOST_OPS else f"more than {MOST_OPS:,}"
    said = f"`@{function}` has {found} {of}; {message}"
    return Diagnostic(codes.TOO_MANY_OPS, Site(function, None, Part("name")), said, help=help)


def refuse_beyond(
    count: int, most: int, function: str, message: str, help: str | None = None, of: str = WRITTEN_OUT
) -> None:
    """Raises ProgramError where a function has more than `most` ops, calls written out.

    `message` says who takes no more, and does what; `of`, what is counted, where it is not all ops.
    """
    if count > most:
        raise ProgramError([too_many(function, count, f"{message} at most {most:,}", help, of)])
