"""The formatter: the canonical text, with the comments kept.

A comment stays on its own line, or behind what it stood behind. One from the middle of a statement moves above it.
Blank lines are kept, one at a time, except at a body's ends; between functions stands exactly one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from distir.diagnostics import ProgramError, Severity
from distir.syntax import scan
from distir.syntax.core import Syntax
from distir.syntax.function import FunctionSyntax
from distir.syntax.grammar import Node, shape
from distir.syntax.locate import params_of, words_of
from distir.syntax.printing import BETWEEN, INDENT, head_parts, print_head, print_param, print_statement
from distir.syntax.reading import evaluate


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
            body.add(print_statement(function.function.body[number], syntax.counted), start, end)
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
    before, _, after = head_parts(function.function)
    written = _written_params(syntax, function)
    params = [f"{param.text}," for param in written[:-1]] + [param.text for param in written[-1:]]
    ends = [(param.start, param.end) for param in written]
    lines = _Lines(text, function.head.start, INDENT)
    done = 0
    for start, end in comments:
        while done < len(params) and ends[done][0] < start:
            lines.add(params[done], 0, ends[done][1])
            done += 1
        if lines.is_behind(start):
            lines.put_behind(comment_text(syntax, start, end), end)
        else:
            lines.add(comment_text(syntax, start, end), 0, end)
    return [before, *lines.lines, *(INDENT + param for param in params[done:]), after]


@dataclass(frozen=True, slots=True)
class _WrittenParam:
    """A parameter, a range or a group of them, as the text has it: canonical, and where it starts and ends."""

    text: str
    start: int
    end: int


def _written_params(syntax: Syntax, function: FunctionSyntax) -> list[_WrittenParam]:
    piece = words_of(syntax.source, function, function.head)
    node = shape("head", piece.kinds)
    assert isinstance(node, Node)
    params = node.children[1]
    assert isinstance(params, Node)
    found: list[_WrittenParam] = []
    for child in params.children:
        assert isinstance(child, Node)
        together = child.children if child.rule == "param_group" else (child,)
        shown = [print_param(evaluate(param, piece.tokens)) for param in together if isinstance(param, Node)]
        text = f"[{BETWEEN.join(shown)}]" if child.rule == "param_group" else shown[0]
        span = piece.span(child.first, child.last)
        found.append(_WrittenParam(text, function.head.start + span.start, function.head.start + span.end))
    return found


def param_ends(syntax: Syntax, function: FunctionSyntax) -> list[tuple[int, int]]:
    """Where each parameter starts and ends; those of a range, where that does."""
    piece = words_of(syntax.source, function, function.head)
    spans = [piece.span(param.first, param.last) for param in params_of(piece)]
    return [(function.head.start + span.start, function.head.start + span.end) for span in spans]


def comment_text(syntax: Syntax, start: int, end: int) -> str:
    r"""A comment's text; line ends within are `\\n`, spaces behind it are gone."""
    return syntax.source.text[start:end].replace("\r\n", "\n").replace("\r", "\n").rstrip()


def _line_end(text: str) -> str:
    """The line end that most lines of a text have."""
    both = text.count("\r\n")
    counts = {"\n": text.count("\n") - both, "\r\n": both, "\r": text.count("\r") - both}
    return max(counts, key=lambda end: counts[end])
