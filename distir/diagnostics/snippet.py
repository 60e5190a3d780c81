"""Excerpts of a text with the places that a diagnostic speaks of underlined: what goes in which cell.

Knows nothing of colours and frames. The work for one mark does not depend on the length of the text or of its lines, so
that thousands of diagnostics in one line of a million characters are no trouble.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from distir.diagnostics.core import Source, Span
from distir.diagnostics.report import line_extent, span_within
from distir.diagnostics.visible import cells, visible_character

ELLIPSIS = "…"
"""Stands for what is left out of a long line."""

_BLANK = re.compile(r"[ \t]*")
_MARKS_PER_ROW = 8


@dataclass(frozen=True, slots=True)
class Mark:
    """A place to underline, and what to say below it."""

    span: Span
    label: str | None = None
    primary: bool = False


@dataclass(frozen=True, slots=True)
class Underline:
    """A piece of a mark in one row: `column` and `width` in cells, from the left edge of the row's text.

    The label is at the last piece of its mark.
    """

    column: int
    width: int
    label: str | None
    primary: bool


@dataclass(frozen=True, slots=True)
class SnippetRow:
    """One line of the text, or what of it fits; the underlines from left to right."""

    line: int
    text: str
    underlines: tuple[Underline, ...]


def rows(source: Source, marks: Sequence[Mark], limit: int) -> list[SnippetRow]:
    """The lines that the marks are in, in order, none wider than `limit` cells (at least 40).

    Of a mark over several lines the first and the last line are shown. A line that is too wide is shown around its
    marks; marks in it that are far apart get rows of their own.
    """
    pieces = sorted(
        (piece for mark in marks for piece in _pieces(source, mark)), key=lambda p: (p.line, p.start, p.end)
    )
    return [_row(source, group, limit) for group in _grouped(source, pieces, limit)]


@dataclass(frozen=True, slots=True)
class _Piece:
    """What a mark covers of one line: offsets in the text."""

    line: int
    start: int
    end: int
    label: str | None
    primary: bool


def _pieces(source: Source, mark: Mark) -> Iterator[_Piece]:
    span = span_within(source, mark.span) or mark.span
    first, _ = source.position(span.start)
    last, column = source.position(span.end)
    if column == 1 and last > first:
        last -= 1  # a span that takes in the end of a line does not reach into the next line
    head, tail = line_extent(source, first), line_extent(source, last)
    if first == last:
        yield _Piece(first, min(span.start, head.end), min(span.end, head.end), mark.label, mark.primary)
        return
    yield _Piece(first, min(span.start, head.end), head.end, None, mark.primary)
    end = min(span.end, tail.end)
    indented = _BLANK.match(source.text, tail.start, end)
    yield _Piece(last, indented.end() if indented else tail.start, end, mark.label, mark.primary)


def _grouped(source: Source, pieces: Sequence[_Piece], limit: int) -> list[list[_Piece]]:
    """Pieces that share a row: those of one line, as long as they fit side by side."""
    groups: list[list[_Piece]] = []
    for piece in pieces:
        group = groups[-1] if groups else None
        if group and group[0].line == piece.line and len(group) < _MARKS_PER_ROW:
            line = line_extent(source, piece.line)
            if _fits(source.text, line.start, line.end, limit) or _fits(
                source.text, group[0].start, max(p.end for p in [*group, piece]), limit // 2
            ):
                group.append(piece)
                continue
        groups.append([piece])
    return groups


def _row(source: Source, group: Sequence[_Piece], limit: int) -> SnippetRow:
    line = line_extent(source, group[0].line)
    whole = _fits(source.text, line.start, line.end, limit)
    start = line.start if whole else _window_start(source.text, line.start, group[0].start, limit // 4)
    text = [ELLIPSIS] if start > line.start else []
    columns = [len(text)]  # of each character shown, and of the one after the last
    room = limit - 2 * len(ELLIPSIS)
    for character in source.text[start : line.end if whole else min(line.end, start + limit)]:
        shown = visible_character(character)
        width = cells(shown)
        if not whole and max(1, width) > room:
            break
        room -= max(1, width)
        text.append(shown)
        columns.append(columns[-1] + width)
    end = start + len(columns) - 1
    if end < line.end:
        text.append(ELLIPSIS)

    def column(offset: int) -> int:
        return columns[max(start, min(offset, end)) - start]

    underlines = [
        Underline(column(p.start), max(1, column(p.end) - column(p.start)), p.label, p.primary) for p in group
    ]
    return SnippetRow(group[0].line, "".join(text), tuple(underlines))


def _window_start(text: str, line_start: int, mark_start: int, room: int) -> int:
    """Where to begin so that there are about `room` cells to the left of the mark."""
    start = mark_start
    while start > line_start:
        room -= _cost(text[start - 1])
        if room < 0:
            break
        start -= 1
    return start


def _fits(text: str, start: int, end: int, limit: int) -> bool:
    if end - start > limit:
        return False
    part = text[start:end]
    return (part.isascii() and part.isprintable()) or sum(map(_cost, part)) <= limit


def _cost(character: str) -> int:
    """Cells, but at least 1: a thousand combining characters in a row are too long a line as well."""
    return max(1, cells(visible_character(character)))
