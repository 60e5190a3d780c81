"""Changes of a text: `Edit`, and the edits that bring a function's text to another body without touching the rest.

Knows no protocol and no feature: what changes a program changes it as a value, and here that becomes text again, with
comments kept and statements that stay left as they are written.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from distir.diagnostics import Span
from distir.ir import Call, Statement
from distir.ir.builder import namer
from distir.ir.counted import as_counted
from distir.ir.rolling import statements_of
from distir.syntax import FunctionSyntax, Syntax, print_statement
from distir.syntax.printing import INDENT


@dataclass(frozen=True, slots=True)
class Edit:
    """A piece of a text that gives way to another one; an empty span inserts."""

    span: Span
    text: str


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text after edits that do not overlap; insertions at one place keep their order."""
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.span.start, edit.span.end)):
        pieces += (text[at : edit.span.start], edit.text)
        at = edit.span.end
    return "".join((*pieces, text[at:]))


def rewritten(syntax: Syntax, written: FunctionSyntax, body: Sequence[Statement]) -> tuple[Edit, ...]:
    """The edits that give a function another body.

    Statements that are in both stay as they are written; one that moves takes its line along, with the comment behind
    it; one that gives way to others leaves them its comment.
    """
    old = written.function.body
    text, end = syntax.source.text, line_end(syntax.source.text)
    places = {statement: index for index, statement in enumerate(old)}
    found = [places.get(statement) for statement in body]
    staying = _longest_rising(found)
    edits: list[Edit] = []
    stayed = [(place, index) for place, index in zip(found, range(len(body)), strict=True) if index in staying]
    before_old, before_new = -1, -1
    for place, index in [*stayed, (len(old), len(body))]:
        assert place is not None
        gone = range(before_old + 1, place)
        made = range(before_new + 1, index)
        lines = [_as_written(syntax, written, found[i], body[i]) for i in made]
        edits += _exchanged(syntax, written, list(gone), lines, place, end)
        before_old, before_new = place, index
    return tuple(edit for edit in edits if text[edit.span.start : edit.span.end] != edit.text)


def statement_line(syntax: Syntax, written: FunctionSyntax, index: int) -> Span:
    """A statement with its indentation and trailing comment, without the line's end."""
    text = syntax.source.text
    whole = written.statement(index)
    start = whole.start
    while start > 0 and text[start - 1] in " \t\f":
        start -= 1
    return Span(start, _behind(text, written, whole.end))


def whole_line(syntax: Syntax, written: FunctionSyntax, index: int) -> Span:
    """The span to delete for removing a statement: its line with its end; the statement alone if it shares the line."""
    text, line = syntax.source.text, statement_line(syntax, written, index)
    at_start = line.start == 0 or text[line.start - 1] in "\r\n"
    if not at_start or (line.end < len(text) and text[line.end] not in "\r\n"):
        return written.statement(index)
    return Span(line.start, line.end + (2 if text.startswith("\r\n", line.end) else line.end < len(text)))


def line_end(text: str) -> str:
    """The line end that the text uses first."""
    at = text.find("\n")
    if at < 0:
        return "\r" if "\r" in text else "\n"
    return "\r\n" if text[at - 1 : at] == "\r" else "\n"


def before_statement(
    syntax: Syntax, written: FunctionSyntax, index: int, statements: Sequence[Statement]
) -> tuple[Edit, ...]:
    """The edit that writes statements above the one at `index`."""
    start = statement_line(syntax, written, index).start
    end = line_end(syntax.source.text)
    lines = "".join(f"{INDENT}{print_statement(statement)}{end}" for statement in statements)
    if start > 0 and syntax.source.text[start - 1] not in "\r\n":
        lines = end + lines  # it follows something else on its line
    return (Edit(Span(start, start), lines),)


def _behind(text: str, written: FunctionSyntax, end: int) -> int:
    """The end of trailing comments after `end` on its line."""
    while True:
        at = end
        while at < len(text) and text[at] in " \t\f":
            at += 1
        index = bisect.bisect_left(written.comments, (at, -1))
        if index >= len(written.comments) or written.comments[index][0] != at:
            return end
        start, stop = written.comments[index]
        if "\n" in text[start:stop] or "\r" in text[start:stop]:
            return end
        end = stop


def _as_written(syntax: Syntax, written: FunctionSyntax, place: int | None, statement: Statement) -> str:
    """A line for a statement: as it is in the text where it only moves."""
    if place is None:
        return INDENT + _printed(syntax, written, statement)
    line = statement_line(syntax, written, place)
    return syntax.source.text[line.start : line.end].rstrip(" \t\f")


def _printed(syntax: Syntax, written: FunctionSyntax, statement: Statement) -> str:
    """A statement; a counted call that cannot be one any more, as its calls."""
    callee = syntax.counted.get(statement.function) if isinstance(statement, Call) else None
    if callee is None or not isinstance(statement, Call) or as_counted(statement, callee) is not None:
        return print_statement(statement, syntax.counted)
    statements = statements_of(statement, callee, namer(written.function))
    return f"{line_end(syntax.source.text)}{INDENT}".join(map(print_statement, statements))


def _exchanged(
    syntax: Syntax, written: FunctionSyntax, gone: list[int], lines: list[str], following: int, end: str
) -> list[Edit]:
    """Edits that put lines in the place of statements `gone`, all before the statement `following`."""
    if not gone and not lines:
        return []
    edits: list[Edit] = []
    replaced = gone[0] if gone and lines else None
    for index in gone:
        if index == replaced:
            whole = written.statement(index)
            edits.append(Edit(whole, end.join(lines).removeprefix(INDENT)))
        else:
            edits.append(Edit(whole_line(syntax, written, index), ""))
    if replaced is None and lines:
        start = _insertion(syntax, written, following)
        edits.append(Edit(Span(start, start), "".join(line + end for line in lines)))
    return edits


def _insertion(syntax: Syntax, written: FunctionSyntax, following: int) -> int:
    """Where lines before a statement go: to the beginning of its line; at the end of the body before the `}`."""
    text = syntax.source.text
    if following < len(written.starts):
        return statement_line(syntax, written, following).start
    at = written.span.end - 1
    while at > 0 and text[at - 1] not in "\r\n":
        at -= 1
    return at


def _longest_rising(found: Sequence[int | None]) -> set[int]:
    """The indices of the longest rising sequence of places: what does not have to move."""
    tails: list[int] = []
    ends: list[int] = []
    before: dict[int, int] = {}
    for index, place in enumerate(found):
        if place is None:
            continue
        at = bisect.bisect_left(tails, place)
        if at:
            before[index] = ends[at - 1]
        tails[at:] = [place, *tails[at + 1 :]]
        ends[at:] = [index, *ends[at + 1 :]]
    kept: set[int] = set()
    last = ends[-1] if ends else None
    while last is not None:
        kept.add(last)
        last = before.get(last)
    return kept
