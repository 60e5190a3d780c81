"""Parsing the next version of a text: reuses what the previous version has before and after an edit.

Between two statements the parser remembers nothing. So where it comes to a line that lies between statements in both
versions, and the texts are equal from there on, the rest of the function is the same as before, moved. A test compares
what this gives with what reading the text alone gives.
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from distir.diagnostics import Diagnostic, Span
from distir.ir import Broken, Statement
from distir.syntax import scan
from distir.syntax.core import Syntax
from distir.syntax.function import FunctionSyntax

_BLOCK = 1 << 16
_LINES = 16
"""So many statements between two edits at least are not read again."""
_NEAR = 1 << 12
"""By how many characters such statements may have moved, one edit after another."""
_TRIES = 20
"""How many lines are searched for one between two statements."""


class Tail:
    """The rest of a function from the offset `start` of the new text on: statements, comments and findings, moved."""

    def __init__(self, earlier: EarlierText, old: FunctionSyntax, boundary: int) -> None:
        moved = earlier.moved
        first = bisect.bisect_left(old.starts, boundary)
        self.start = boundary + moved
        self.end = old.span.end + moved
        self.statements: tuple[Statement, ...] = old.function.body[first:]
        self.starts, self.ends = _moved(old.starts[first:], moved), _moved(old.ends[first:], moved)
        self.comments = [(a + moved, b + moved) for a, b in old.comments if a >= boundary]
        self.diagnostics = list(earlier.diagnostics(boundary, old.span.end, moved))


class Prefix:
    """The beginning of a function's body up to the offset `end` of both texts."""

    def __init__(self, earlier: EarlierText, old: FunctionSyntax, boundary: int) -> None:
        count = bisect.bisect_left(old.starts, boundary)
        self.function = old
        self.end = boundary
        self.statements = old.function.body[:count]
        self.starts, self.ends = old.starts[:count], old.ends[:count]
        self.comments = [span for span in old.comments if span[0] < boundary]
        self.diagnostics = list(earlier.diagnostics(old.head.end + 1, boundary, 0))


class ReusedPiece:
    """Lines between edits, from the offset `start` of the new text to before `end`: what was read of them, moved."""

    def __init__(self, earlier: EarlierText, old: FunctionSyntax, start: int, end: int, moved: int) -> None:
        first, last = bisect.bisect_left(old.starts, start), bisect.bisect_left(old.starts, end)
        self.start, self.end = start + moved, end + moved
        self.statements: tuple[Statement, ...] = old.function.body[first:last]
        self.starts, self.ends = _moved(old.starts[first:last], moved), _moved(old.ends[first:last], moved)
        self.comments = [(a + moved, b + moved) for a, b in old.comments if start <= a < end]
        self.diagnostics = list(earlier.diagnostics(start, end, moved))


class EarlierText:
    """A version of a text that was read, against the next one."""

    def __init__(self, syntax: Syntax, text: str) -> None:
        self.syntax, self.new = syntax, text
        self.old = scan.normalized(syntax.source.text)
        self.moved = len(text) - len(self.old)
        shorter = min(len(text), len(self.old))
        self.same_before = _common_start(self.old, text, shorter)
        self.same_after = _common_end(self.old, text, shorter - self.same_before)
        self._findings = sorted(syntax.diagnostics, key=_start)
        self._by_start = {function.span.start: function for function in syntax.functions}

    def function(self, start: int) -> tuple[FunctionSyntax, list[Diagnostic]] | None:
        """The function that begins at `start` of the new text, if nothing in it has changed, and its findings."""
        moved = self.moved if start >= len(self.new) - self.same_after else 0
        old = self._by_start.get(start - moved)
        if old is None or not (moved or start >= len(self.new) - self.same_after or old.span.end <= self.same_before):
            return None
        if not self._is_closed(old):
            return None
        return _moved_function(old, moved), list(self.diagnostics(old.span.start, old.span.end, moved))

    def prefix(self, start: int) -> Prefix | None:
        """What the body of the function that begins at `start` has before the edit."""
        old = self._changed(start)
        if old is None or not old.starts:
            return None
        boundary = min(self.same_before, old.span.end)
        for _ in range(_TRIES):
            boundary = self.old.rfind("\n", old.starts[0], boundary - 1) + 1
            if not boundary:
                return None
            if _is_between(old, boundary):
                return Prefix(self, old, boundary)
        return None

    def tail(self, start: int) -> Tail | None:
        """What the body of the function that begins at `start` has after the edit."""
        old = self._changed(start)
        if old is None or not old.starts or not self._is_closed(old):
            return None
        boundary = max(len(self.old) - self.same_after, old.starts[0])
        for _ in range(_TRIES):
            boundary = self.old.find("\n", boundary, old.span.end) + 1
            if not boundary:
                return None
            if _is_between(old, boundary):
                return Tail(self, old, boundary)
        return None

    def pieces(self, prefix: Prefix, tail: Tail) -> Iterator[ReusedPiece]:
        """What the body of a function has between its beginning and its end that edits left alone, in order."""
        old, new, function = self.old, self.new, prefix.function
        last = tail.start - self.moved
        first = bisect.bisect_left(function.starts, prefix.end) + _LINES
        lines = (old.rfind("\n", 0, start) + 1 for start in function.starts[first::_LINES] if start < last)
        places = [
            prefix.end,
            *(line for line in lines if prefix.end < line < last and _is_between(function, line)),
            last,
        ]
        moved = 0
        begun: int | None = None
        for start, end in pairwise(places):
            text = old[start:end]
            if not new.startswith(text, start + moved):
                if begun is not None:
                    yield ReusedPiece(self, function, begun, start, moved)
                    begun = None
                near = max(prefix.end, start + moved - _NEAR)
                at = new.find(text, near, end + moved + _NEAR)
                if at < 0:
                    continue
                moved = at - start
            if begun is None:
                begun = start
        if begun is not None:
            yield ReusedPiece(self, function, begun, last, moved)

    def diagnostics(self, start: int, end: int, moved: int) -> Iterator[Diagnostic]:
        """The findings of syntax in a piece of the old text, moved."""
        first = bisect.bisect_left(self._findings, start, key=_start)
        for found in self._findings[first:]:
            if _start(found) >= end:
                break
            assert isinstance(found.site, Span)
            yield replace(found, site=_moved_span(found.site, moved)) if moved else found

    def _is_closed(self, old: FunctionSyntax) -> bool:
        """Whether a `}` ends the function; otherwise what follows it counts, too."""
        last = max(old.head.end, *old.ends[-1:], *(end for _, end in old.comments[-1:]), 0)
        return last < old.span.end and self.old[old.span.end - 1] == "}"

    def _changed(self, start: int) -> FunctionSyntax | None:
        return self._by_start.get(start) if start <= self.same_before else None


def _start(found: Diagnostic) -> int:
    return found.site.start if isinstance(found.site, Span) else 0


def _is_between(function: FunctionSyntax, boundary: int) -> bool:
    """Whether the line that begins at `boundary` begins outside of statements and comments.

    It must not follow a broken statement, whose end may depend on this line.
    """
    before = bisect.bisect_left(function.starts, boundary) - 1
    if before >= 0 and (function.ends[before] >= boundary or isinstance(function.function.body[before], Broken)):
        return False
    comment = bisect.bisect_left(function.comments, (boundary,)) - 1
    return comment < 0 or function.comments[comment][1] <= boundary


def _moved_function(old: FunctionSyntax, moved: int) -> FunctionSyntax:
    if not moved:
        return old
    return FunctionSyntax(
        old.function,
        _moved_span(old.span, moved),
        _moved_span(old.head, moved),
        _moved_span(old.name, moved),
        _moved(old.starts, moved),
        _moved(old.ends, moved),
        tuple((a + moved, b + moved) for a, b in old.comments),
    )


def _moved_span(span: Span, moved: int) -> Span:
    return Span(span.start + moved, span.end + moved)


def _moved(offsets: array[int], moved: int) -> array[int]:
    return array("q", [offset + moved for offset in offsets]) if moved else offsets


def _common_start(a: str, b: str, most: int) -> int:
    """How many characters two texts have in common at their beginnings, at most `most`."""
    same = 0
    block = _BLOCK
    while block:
        while same + block <= most and a[same : same + block] == b[same : same + block]:
            same += block
        block //= 2
    return same


def _common_end(a: str, b: str, most: int) -> int:
    """The same at their ends."""
    same = 0
    block = _BLOCK
    while block:
        while same + block <= most and _from_end(a, same, block) == _from_end(b, same, block):
            same += block
        block //= 2
    return same


def _from_end(text: str, skipped: int, count: int) -> str:
    end = len(text) - skipped
    return text[end - count : end]
