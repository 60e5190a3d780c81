"""Why the simulation shown is of an earlier version of a text, and of which one. Simulates nothing."""

from __future__ import annotations

from dataclasses import dataclass

from distir.diagnostics import Severity, Span
from distir.ide.document import Document

MARK = "~"
"""The mark before figures of an earlier version."""


@dataclass(frozen=True, slots=True)
class Stale:
    """`why`: in few words. `edits`: how many versions ago the text was simulated; 0 where only the setup has changed.

    `error`: the first one of the program and its line, where errors are why.
    """

    why: str
    edits: int
    error: str | None = None

    @property
    def in_short(self) -> str:
        """The reason in a few words that do not change while the user types."""
        return f"stale: {self.why}"

    def __str__(self) -> str:
        ago = f"{self.edits} edit{'' if self.edits == 1 else 's'} ago" if self.edits else "for another setup"
        return f"stale, simulated {ago}: {self.why}{f' ({self.error})' if self.error else ''}"


def stale(document: Document, simulated: Document | None, on_demand: bool = False) -> Stale | None:
    """Whether the last simulation is of another version or for another setup; None where it is what holds now.

    `on_demand`: the latest version is too long to be simulated unasked.
    """
    if simulated is None or (simulated.program is document.program and simulated.setup is document.setup):
        return None
    error = first_error(document)
    if error is not None:
        why = "the program has errors"
    elif on_demand:
        why = "a program of this length is simulated on demand"
    else:
        again = "again" if simulated.setup.hardware == document.setup.hardware else f"on {document.setup.hardware.name}"
        why = f"it is being simulated {again}"
    return Stale(why, max(0, document.version - simulated.version), error)


def first_error(document: Document) -> str | None:
    """The first error of a text and its line, in few words; None without one."""
    found = (d for d in document.program.diagnostics if d.severity is Severity.ERROR)
    first = min(found, key=lambda d: d.site.start if isinstance(d.site, Span) else 0, default=None)
    if first is None:
        return None
    if not isinstance(first.site, Span):
        return first.message
    return f"line {document.program.source.position(first.site.start)[0]}, {first.message}"
