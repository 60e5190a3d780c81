"""Positions in the protocol's terms: lines from 0, columns in the units that the client chose.

Own tables of lines, so that neither an edit nor a request walks the whole text. Knows no programs.
"""

from __future__ import annotations

import bisect
import re
from array import array
from functools import cached_property

from lsprotocol import types

from distir.diagnostics import Span

_LINE_END = re.compile(r"\r\n|\n|\r")

UTF8, UTF16, UTF32 = "utf-8", "utf-16", "utf-32"


class Positions:
    """The lines of one version of a text, in one encoding of columns. Immutable."""

    __slots__ = ("__dict__", "encoding", "starts", "text")

    def __init__(self, text: str, encoding: str = UTF16, starts: array[int] | None = None) -> None:
        self.text = text
        self.encoding = encoding
        self.starts: array[int] = _line_starts(text) if starts is None else starts

    @cached_property
    def _plain(self) -> bool:
        """Whether a column counts characters in any encoding."""
        return self.encoding == UTF32 or self.text.isascii()

    def position(self, offset: int) -> types.Position:
        """The line and column of an offset in characters; one beyond the text is its end."""
        line, column = self.place(offset)
        return types.Position(line, column)

    def place(self, offset: int) -> tuple[int, int]:
        """The same as numbers, for answers that are written without objects."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect.bisect_right(self.starts, offset) - 1
        start = self.starts[line]
        if self._plain:
            return line, offset - start
        return line, self._units(self.text[start:offset])

    def places(self, start: int, end: int) -> tuple[int, int, int, int]:
        """Line and column of two offsets within the text; quick where they are on one line, as most do."""
        starts = self.starts
        line = bisect.bisect_right(starts, start) - 1
        if self._plain and (line + 1 == len(starts) or end < starts[line + 1]):
            begin = starts[line]
            return line, start - begin, line, end - begin
        return *self.place(start), *self.place(end)

    def offset(self, position: types.Position) -> int:
        """The offset of a position; beyond a line's end it is the line's end, beyond the last line the text's."""
        if position.line >= len(self.starts):
            return len(self.text)
        line = max(0, position.line)
        start, end = self.starts[line], self.line_end(line)
        column = max(0, position.character)
        if self._plain:
            return min(start + column, end)
        return start + self._characters(self.text[start:end], column)

    def range(self, span: Span) -> types.Range:
        """The range of a span."""
        return types.Range(self.position(span.start), self.position(span.end))

    def span(self, range: types.Range) -> Span:
        """The piece of text that a range means; ends given in the wrong order are put right."""
        start, end = self.offset(range.start), self.offset(range.end)
        return Span(min(start, end), max(start, end))

    def line_end(self, line: int) -> int:
        """The offset after a line's last character, before its line end."""
        if line + 1 >= len(self.starts):
            return len(self.text)
        end = self.starts[line + 1]
        if self.text.endswith("\r\n", 0, end):
            return end - 2
        return end - 1

    def edited(self, span: Span, new: str) -> Positions:
        """After putting `new` in the place of a piece of the text."""
        text = self.text[: span.start] + new + self.text[span.end :]
        # a `\r` and a `\n` may have met or parted at the edges of the edit: recount the lines around it
        first = max(bisect.bisect_right(self.starts, span.start) - 2, 0)
        last = bisect.bisect_right(self.starts, span.end) + 1
        moved = len(text) - len(self.text)
        start = self.starts[first]
        end = self.starts[last] + moved if last < len(self.starts) else len(text)
        between = [m.end() for m in _LINE_END.finditer(text, start, end)]
        after = self.starts[last:]
        if after and between and between[-1] == end:
            between.pop()
        if moved:
            after = array("q", [offset + moved for offset in after])
        return Positions(text, self.encoding, self.starts[: first + 1] + array("q", between) + after)

    def _units(self, piece: str) -> int:
        if piece.isascii():
            return len(piece)
        if self.encoding == UTF8:
            return len(piece.encode("utf-8", "surrogatepass"))
        return len(piece) + sum(character > "\uffff" for character in piece)

    def _characters(self, line: str, units: int) -> int:
        """The character at a column in client units; a unit inside a character belongs to it."""
        if line.isascii():
            return min(units, len(line))
        for count, character in enumerate(line):
            units -= self._units(character)
            if units < 0:
                return count
        return len(line)


def _line_starts(text: str) -> array[int]:
    return array("q", [0, *(match.end() for match in _LINE_END.finditer(text))])
