"""The formatter: the canonical text, with the comments kept.

A comment stays on its own line, or behind what it stood behind. One from the middle of a statement moves above it.
Blank lines are kept, one at a time, except at a body's ends; between functions stands exactly one.
"""

from __future__ import annotations

from collections.abc import Iterator

from distir.diagnostics import ProgramError, Severity
from distir.syntax import scan
from distir.syntax.core import Syntax
from distir.syntax.function import FunctionSyntax
from distir.syntax.grammar import Node, shape
from distir.syntax.locate import words_of
from distir.syntax.printing import INDENT, head_parts, print_head, print_statement
from distir.syntax.tokens import spans


def format(syntax: Syntax) -> str:  # noqa: A001 (as in the API)
    """The canonical text, with the line ends that the text mostly has. Raises ProgramError if it has syntax errors."""
    errors = [d for d in syntax.diagnostics if d.severity is Severity.ERROR]
    if errors:
        raise ProgramError(errors)
    text = scan.normalized(syntax.source.text)
    lines = _Lines(text)
    items: list[tuple[int, int, FunctionSyntax | None]] = [(start, end, None) for start, end in syntax.comments]
    items += [(f.span.start, f.span.end, f) for f in syntax.functions]
    follows_function = False
    for start, end, function in sorted(items, key=lambda item: item[0]):
        if function is None and lines.is_behind(start):
            lines.put_behind(comment_text(syntax, start, end), end)
        elif function is None:
            lines.add(comment_text(syntax, start, end), start, end, is_apart=follows_function)
            follows_function = False
        else:
            lines.add("\n".join(_function(syntax, function, text)), start, end, is_apart=follows_function)
            follows_function = True
    return "".join(line + "\n" for line in lines.lines).replace("\n", _line_end(syntax.source.text))


def format_function(syntax: Syntax, function: FunctionSyntax) -> str:
    r"""The canonical text of one function, with its comments, without a newline at its end; line ends are `\n`."""
    return "\n".join(_function(syntax, function, scan.normalized(syntax.source.text)))


class _Lines:
    """Lines being written, and up to which offset the original text is used up."""

    def __init__(self, text: str, end: int = 0, indent: str = "") -> None:
        self.text, self.end, self.indent = text, end, indent
        self.lines: list[str] = []

    def add(self, line: str, start: int, end: int, *, is_apart: bool = False) -> None:
        """Add the text from `start` to `end`, after a blank line if there was one or if it `is_apart`."""
        if self.lines and (is_apart or self._newlines(start) > 1):
            self.lines.append("")
        self.lines.append(self.indent + line)
        self.end = end

    def is_behind(self, start: int) -> bool:
        """Whether `start` is on the last item's line."""
        return bool(self.lines) and not self._newlines(start)

    def put_behind(self, comment: str, end: int) -> None:
        """Add a comment to the last line."""
        self.lines[-1] += f" {comment}"
        self.end = end

    def _newlines(self, start: int) -> int:
        return self.text.count("\n", self.end, start)


def _function(syntax: Syntax, function: FunctionSyntax, text: str) -> list[str]:
    opening = _Lines(text, function.head.start)
    opening.add("\n".join(_head(syntax, function, text)) + " {", function.head.start, function.head.end)
    body = _Lines(text, indent=INDENT)
    for place, start, end, number in items_of(function):
        if number is None and not body.lines and opening.is_behind(start):
            opening.put_behind(comment_text(syntax, start, end), end)
        elif number is None and place == start and body.is_behind(start):
            body.put_behind(comment_text(syntax, start, end), end)
        elif number is None:  # of one inside a statement only the statement's place counts
            body.add(comment_text(syntax, start, end), place, end if place == start else place)
        else:
            body.add(print_statement(function.function.body[number]), start, end)
    return [*opening.lines, *body.lines, "}"]


def items_of(function: FunctionSyntax) -> Iterator[tuple[int, int, int, int | None]]:
    """The statements of a body, by number, and its comments: where they belong, where they start and end."""
    items: list[tuple[int, int, int, int | None]] = []
    for start, end in function.comments:
        if start >= function.head.end:
            inside = function.statement_at(start)
            is_inside = inside is not None and start < function.ends[inside]
            items.append((function.starts[inside] if inside is not None and is_inside else start, start, end, None))
    items += [(s, s, e, i) for i, (s, e) in enumerate(zip(function.starts, function.ends, strict=True))]
    yield from sorted(items, key=lambda item: (item[0], item[3] is not None, item[1]))


def _head(syntax: Syntax, function: FunctionSyntax, text: str) -> list[str]:
    """The head without its `{`; comments among the parameters ask for a line per parameter."""
    comments = [comment for comment in function.comments if comment[0] < function.head.end]
    if not comments:
        return [print_head(function.function)]
    ends = param_ends(syntax, function)
    before, params, after = head_parts(function.function)
    params = [f"{param}," for param in params[:-1]] + params[-1:]
    lines = _Lines(text, function.head.start, INDENT)
    written = 0
    for start, end in comments:
        while written < len(params) and ends[written][0] < start:
            lines.add(params[written], 0, ends[written][1])
            written += 1
        if lines.is_behind(start):
            lines.put_behind(comment_text(syntax, start, end), end)
        else:
            lines.add(comment_text(syntax, start, end), 0, end)
    return [before, *lines.lines, *(INDENT + param for param in params[written:]), after]


def param_ends(syntax: Syntax, function: FunctionSyntax) -> list[tuple[int, int]]:
    """Where each parameter starts and ends."""
    piece = words_of(syntax.source, function, function.head)
    node = shape("head", piece.kinds)
    assert isinstance(node, Node)
    params = node.children[1]
    assert isinstance(params, Node)
    found = [(function.head.start + start, function.head.start + end) for start, end in spans(piece.text)]
    return [(found[p.first][0], found[p.last][1]) for p in params.children if isinstance(p, Node)]


def comment_text(syntax: Syntax, start: int, end: int) -> str:
    r"""A comment's text; line ends within are `\\n`, spaces behind it are gone."""
    return syntax.source.text[start:end].replace("\r\n", "\n").replace("\r", "\n").rstrip()


def _line_end(text: str) -> str:
    """The line end that most lines of a text have."""
    both = text.count("\r\n")
    counts = {"\n": text.count("\n") - both, "\r\n": both, "\r": text.count("\r") - both}
    return max(counts, key=lambda end: counts[end])
