"""Diagnostics for people: text with excerpts of the program, in colour where a terminal shows it.

Nothing that a program contains reaches the terminal unfiltered (see `visible`). rich is loaded only to write in colour.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TextIO

from distir.diagnostics.core import Diagnostic, Severity, Source
from distir.diagnostics.explain import explain
from distir.diagnostics.report import Report, place, placed_notes, remarks, span_within, summary
from distir.diagnostics.snippet import Mark, SnippetRow, rows
from distir.diagnostics.visible import visible

PLAIN_WIDTH = 160
"""The widest excerpt, in cells, of a text that is not written to a terminal."""

Piece = tuple[str, str]
"""A text and the name of its style."""

_STYLES = {
    "": "",
    "error": "bold red",
    "warning": "bold yellow",
    "message": "bold",
    "frame": "blue",
    "note": "cyan",
    "help": "green",
}

# One character for one, so that everything still lines up.
_ASCII_FRAME = str.maketrans("┌─│⋮…", "->|:~")


def text(reports: Sequence[Report]) -> str:
    """All diagnostics and a line that counts them, without colour; empty if there are none."""
    return "".join(shown for shown, _ in _pieces(reports, PLAIN_WIDTH))


def write(reports: Sequence[Report], stream: TextIO) -> None:
    """The same to a stream: in colour on a terminal unless `NO_COLOR` is set, excerpts no wider than the terminal."""
    terminal = stream.isatty()
    width = max(40, min(PLAIN_WIDTH, shutil.get_terminal_size().columns - 8)) if terminal else PLAIN_WIDTH
    pieces = list(_pieces(reports, width))
    if not pieces:
        return
    if not (terminal and _colour_wanted()):
        stream.write(_encodable("".join(shown for shown, _ in pieces), stream))
        return
    from rich.console import Console
    from rich.segment import Segment, Segments
    from rich.style import Style

    styles = {name: Style.parse(style) for name, style in _STYLES.items()}
    segments = [Segment(_encodable(shown, stream), styles[style]) for shown, style in pieces]
    Console(file=stream, force_terminal=True).print(Segments(segments), soft_wrap=True, end="")


def write_explanation(number: str, stream: TextIO) -> None:
    """The documentation of a code: laid out on a terminal, as markdown elsewhere. Raises LookupError (`explain`)."""
    markdown = explain(number)
    if not (stream.isatty() and _colour_wanted()):
        stream.write(_encodable(markdown, stream))
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=stream, force_terminal=True)
    console.print(Markdown(markdown, code_theme="ansi_dark"), width=min(console.width, 100))


def _pieces(reports: Sequence[Report], width: int) -> Iterator[Piece]:
    for report in reports:
        for diagnostic in sorted(report.in_order(), key=lambda d: d.severity is not Severity.ERROR):
            yield from _diagnostic(report.source, diagnostic, width)
            yield "\n", ""
    if counted := summary(reports):
        yield f"{counted}\n", "message"


def _diagnostic(source: Source, diagnostic: Diagnostic, width: int) -> Iterator[Piece]:
    severity = diagnostic.severity
    yield f"{severity}[{diagnostic.code}]", severity
    yield f": {_indented(diagnostic.message, '  ')}\n", "message"

    span = span_within(source, diagnostic.site)
    marks = [Mark(span, primary=True)] if span else []
    for note in placed_notes(diagnostic):
        if note_span := span_within(source, note.site):
            marks.append(Mark(note_span, note.message))
    excerpt = rows(source, marks, width)
    margin = " " * len(str(excerpt[-1].line)) if excerpt else ""

    where = place(source, diagnostic.site)
    name = visible(source.path) + (f":{where.line}:{where.column}" if where else "")
    if name:
        yield f"{margin} ┌─ ", "frame"
        yield f"{name}\n", ""
    for index, row in enumerate(excerpt):
        if index and row.line > excerpt[index - 1].line + 1:
            yield f"{margin} ⋮\n", "frame"
        yield from _excerpt(row, margin, severity)
    for remark in remarks(diagnostic):
        kind, _, message = remark.partition(": ")
        yield f"{margin} = ", "frame"
        yield kind, kind
        yield f": {_indented(message, margin + '   ')}\n", ""


def _excerpt(row: SnippetRow, margin: str, severity: str) -> Iterator[Piece]:
    """A line of the text, its underlines, and the labels, the rightmost first."""
    yield f"{row.line:>{len(margin)}} │", "frame"
    yield f" {row.text}".rstrip(" ") + "\n", ""

    width = max(u.column + u.width for u in row.underlines)
    below = [(" ", "")] * width
    for underline in sorted(row.underlines, key=lambda u: u.primary):  # the primary one on top
        drawn = ("^", severity) if underline.primary else ("-", "note")
        below[underline.column : underline.column + underline.width] = [drawn] * underline.width
    yield f"{margin} │ ", "frame"
    for style, drawn in groupby(below, key=lambda cell: cell[1]):
        yield "".join(character for character, _ in drawn), style
    yield "\n", ""

    labelled = [u for u in row.underlines if u.label is not None]
    for index in reversed(range(len(labelled))):
        underline = labelled[index]
        stems = {u.column for u in labelled[:index]}
        lead = "".join("│" if column in stems else " " for column in range(underline.column))
        yield f"{margin} │ ", "frame"
        yield f"{lead}{_indented(underline.label or '', f'{margin} │ {lead}')}\n", "note"


def _indented(message: str, margin: str) -> str:
    """A message whose further lines are set in, so that none passes for a line of our own."""
    return f"\n{margin}".join(map(visible, message.split("\n")))


def _colour_wanted() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _encodable(shown: str, stream: TextIO) -> str:
    """The text as the stream can take it: with a frame of ASCII, and other characters by number, where it must be."""
    encoding = stream.encoding or "utf-8"
    try:
        shown.encode(encoding)
    except UnicodeEncodeError:
        shown = shown.translate(_ASCII_FRAME).encode(encoding, "backslashreplace").decode(encoding)
    return shown
