"""Formatting as edits: the whole text, a part of it, or what was just typed; nothing changes that is canonical already.

Of a text with syntax errors, the functions without any are formatted.
"""

from __future__ import annotations

from collections.abc import Sequence

from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ide.edits import Edit
from distir.ide.mentions import in_comment
from distir.ir import Broken
from distir.ops import canonical
from distir.syntax import FunctionSyntax, Syntax, parse, print_statement
from distir.syntax import format as canonical_text
from distir.syntax.printing import INDENT

ON_TYPE = ("\n", "}")
"""The characters that trigger formatting when typed: of the line or function that they end."""

LOOKED_AHEAD = 60
"""How many lines are looked through for the next one that stays."""


def format_document(document: Document) -> list[Edit]:
    """The edits that make a text canonical."""
    syntax = document.program.syntax
    text = syntax.source.text
    if not syntax.diagnostics:
        return _line_edits(text, canonical_text(syntax), 0)
    return [edit for written in syntax.functions for edit in _function(syntax, written)]


def format_range(document: Document, span: Span) -> list[Edit]:
    """The edits that make the lines of a part canonical: statements and comments in a body, else whole functions."""
    syntax = document.program.syntax
    text = syntax.source.text
    end = text.find("\n", span.end)
    span = Span(text.rfind("\n", 0, span.start) + 1, len(text) if end < 0 else end)
    if span.start == 0 and span.end >= len(text.rstrip()):
        return format_document(document)
    edits: list[Edit] = []
    for written in syntax.functions:
        if written.span.end < span.start or span.end < written.span.start:
            continue
        if written.head.end < span.start and span.end < written.span.end:
            chosen = (
                i for i, (a, b) in enumerate(zip(written.starts, written.ends, strict=True)) if _touch(a, b, span)
            )
            edits += (edit for index in chosen for edit in _statement(syntax, written, index))
            edits += (e for a, b in written.comments if _touch(a, b, span) for e in _comment(text, written, a))
        else:
            edits += _function(syntax, written)
    return edits


def _touch(start: int, end: int, span: Span) -> bool:
    return start <= span.end and span.start <= end


def _comment(text: str, written: FunctionSyntax, start: int) -> list[Edit]:
    """The edit for the indentation of a comment that is on a line of its own, in a body."""
    line = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    inside = written.statement_at(start) is not None
    return [] if inside or text[line:start].strip() else _changed(text, Span(line, start), INDENT)


def format_on_type(document: Document, offset: int, typed: str) -> list[Edit]:
    """The edits for what was just typed before an offset: a line end formats the statement that it ends."""
    syntax = document.program.syntax
    if typed == "}":
        written = syntax.function_at(offset)
        return _function(syntax, written) if written is not None and written.span.end == offset else []
    text = syntax.source.text
    here = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    if text[here:offset].strip():
        return []
    written = syntax.function_at(offset)
    if written is None or offset <= written.head.end:
        return []
    index = written.statement_at(len(text[:here].rstrip()))
    edits = _statement(syntax, written, index) if index is not None else []
    return edits + _indented(text, written, here)


def _statement(syntax: Syntax, written: FunctionSyntax, index: int) -> list[Edit]:
    """The edit for one statement and its indentation; none for one that is broken or holds comments."""
    statement, span = written.function.body[index], written.statement(index)
    inside = any(span.start < start < span.end for start, _ in written.comments)
    text = syntax.source.text
    line = max(text.rfind("\n", 0, span.start), text.rfind("\r", 0, span.start)) + 1
    if isinstance(statement, Broken) or inside or text[line : span.start].strip():
        return []
    return _changed(text, Span(line, span.end), INDENT + print_statement(statement))


def _indented(text: str, written: FunctionSyntax, here: int) -> list[Edit]:
    """The indentation of the line that was just begun in a body."""
    end = here
    while end < len(text) and text[end] in " \t":
        end += 1
    index = written.statement_at(end)
    is_inside = index is not None and written.starts[index] < end < written.ends[index]
    if is_inside or in_comment(written.comments, end) or text.startswith("}", end):
        return []
    return _changed(text, Span(here, end), INDENT)


def _changed(text: str, span: Span, new: str) -> list[Edit]:
    return [] if text[span.start : span.end] == new else [Edit(span, new)]


def _function(syntax: Syntax, written: FunctionSyntax) -> list[Edit]:
    """The edits for one function; none if it has a syntax error."""
    span = written.span
    text = syntax.source.text[span.start : span.end]
    alone = parse(text, spelling=canonical)
    if alone.diagnostics or len(alone.functions) != 1:
        return []
    return _line_edits(text, canonical_text(alone).rstrip("\r\n"), span.start)


def _line_edits(old: str, new: str, at: int) -> list[Edit]:
    """The edits from one text to another by lines; `at`: where the old one begins."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    edits: list[Edit] = []
    i = j = 0
    offset = at
    while i < len(before) or j < len(after):
        if i < len(before) and j < len(after) and before[i] == after[j]:
            offset += len(before[i])
            i, j = i + 1, j + 1
            continue
        skipped, added = _next_equal(before, after, i, j)
        gone = "".join(before[i : i + skipped])
        edits.append(_trimmed(offset, gone, "".join(after[j : j + added])))
        offset += len(gone)
        i, j = i + skipped, j + added
    return edits


def _next_equal(before: Sequence[str], after: Sequence[str], i: int, j: int) -> tuple[int, int]:
    """How many lines of each go by before the next line that is the same in both; all that is left if none is near."""
    for distance in range(1, LOOKED_AHEAD):
        for skipped in range(distance + 1):
            added = distance - skipped
            at, there = i + skipped, j + added
            if at < len(before) and there < len(after) and before[at] == after[there] and before[at].strip():
                return skipped, added
    if len(before) - i > LOOKED_AHEAD and len(after) - j > LOOKED_AHEAD:
        return LOOKED_AHEAD // 2, LOOKED_AHEAD // 2
    return len(before) - i, len(after) - j


def _trimmed(start: int, old: str, new: str) -> Edit:
    """The edit without what both texts begin and end with."""
    most = min(len(old), len(new))
    front = next((i for i in range(most) if old[i] != new[i]), most)
    most -= front
    back = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    return Edit(Span(start + front, start + len(old) - back), new[front : len(new) - back])
