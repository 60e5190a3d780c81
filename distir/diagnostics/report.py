"""What was found in one text, and where in it: what every output format starts from.

Knows nothing of any format. The order of diagnostics, the clamping of spans and the count of errors are decided here,
so that all formats agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distir.diagnostics.core import Diagnostic, Note, Severity, Source, Span
from distir.ir import Site


@dataclass(frozen=True, slots=True)
class Report:
    """The located diagnostics of one text; none if all is well."""

    source: Source
    diagnostics: tuple[Diagnostic, ...] = ()

    def in_order(self) -> list[Diagnostic]:
        """From the top of the text to its end, those without a place first."""
        return sorted(self.diagnostics, key=lambda d: d.site.start if isinstance(d.site, Span) else -1)


@dataclass(frozen=True, slots=True)
class LinePlace:
    """A span as people and tools count: lines and columns from 1, columns in characters, the end excluded."""

    line: int
    column: int
    end_line: int
    end_column: int


def span_within(source: Source, site: Site | Span | None) -> Span | None:
    """The part of a span that lies within the text; None for what has no span."""
    if not isinstance(site, Span):
        return None
    start = max(0, min(site.start, len(source.text)))
    return Span(start, max(start, min(site.end, len(source.text))))


def place(source: Source, site: Site | Span | None) -> LinePlace | None:
    """Where a span begins and ends; None for what has no span."""
    span = span_within(source, site)
    return span and LinePlace(*source.position(span.start), *source.position(span.end))


def line_extent(source: Source, number: int) -> Span:
    """A line without its end. Takes constant time, however long the line."""
    start = source.line_starts[number - 1]
    end = source.line_starts[number] if number < len(source.line_starts) else len(source.text)
    while end > start and source.text[end - 1] in "\r\n":
        end -= 1
    return Span(start, end)


def remarks(diagnostic: Diagnostic) -> list[str]:
    """What explains a diagnostic but stands nowhere in the text: `note: …` and `help: …`, in that order."""
    notes = [f"note: {note.message}" for note in diagnostic.notes if not isinstance(note.site, Span)]
    return notes + ([f"help: {diagnostic.help}"] if diagnostic.help else [])


def placed_notes(diagnostic: Diagnostic) -> list[Note]:
    """The notes with a place of their own."""
    return [note for note in diagnostic.notes if isinstance(note.site, Span)]


def summary(reports: Sequence[Report]) -> str:
    """How much was found, in how many files: `2 errors, 1 warning in 3 files`; empty if nothing was.

    Files in which nothing was found are not counted.
    """
    found = [d.severity for report in reports for d in report.diagnostics]
    counts = [(severity, found.count(severity)) for severity in Severity]
    files = len({report.source.path for report in reports if report.diagnostics})
    tally = ", ".join(_counted(count, severity) for severity, count in counts if count)
    return f"{tally} in {_counted(files, 'file')}" if tally else ""


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
