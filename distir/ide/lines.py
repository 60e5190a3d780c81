"""Lines of statements, and statements in a few words with a link to their line."""

from __future__ import annotations

import re

from distir.diagnostics import Source
from distir.ide.instances import View
from distir.ide.markdown import code, line_link
from distir.ir import Apply, Broken, Call, Function, Statement
from distir.ir.counted import called


def line_of(view: View, function: str, index: int | None, parameter: str = "") -> int:
    """The line, from 1, that a statement (None: a parameter, or the head) of the latest version is in."""
    program = view.document.program
    if function in program.syntax.counted and (found := program.syntax.counted_call(function)) is not None:
        written, index = found
    else:
        written = program.syntax.by_name[function]
    start = written.span.start if index is None else written.starts[index]
    if index is None and parameter:
        word = re.compile(rf"%{re.escape(parameter)}(?![A-Za-z0-9_.\-])")
        place = word.search(program.source.text, written.head.start, written.head.end)
        start = place.start() if place is not None else start
    return view.facts.remembered(LineNumbers).of(program.source, start)


class LineNumbers:
    """Line numbers of offsets. A hover needs few, so no table of all lines is made."""

    COUNTED = 1 << 14
    """Characters between two places of which the line is kept."""

    def __init__(self) -> None:
        self._lines = [1]

    def of(self, source: Source, offset: int) -> int:
        """The line, from 1, that an offset is in."""
        text, counted, lines = source.text, self.COUNTED, self._lines
        if "\r" in text:  # mixed line ends: let the source count them
            return source.position(offset)[0]
        while len(lines) <= offset // counted:
            start = (len(lines) - 1) * counted
            lines.append(lines[-1] + text.count("\n", start, start + counted))
        place = offset // counted
        return lines[place] + text.count("\n", place * counted, offset)


def statement_in_words(view: View, function: Function, index: int) -> str:
    """What a statement is, and its line."""
    return f"{in_words(view, function.body[index])}, {line_link(line_of(view, function.name, index))}"


def in_words(view: View, statement: Statement) -> str:
    """What a statement is."""
    match statement:
        case Apply(op=op):
            return code(op)
        case Call(function=callee):
            counted_one = view.document.program.syntax.counted.get(callee)
            return code(f"@{callee}") if counted_one is None else called(counted_one)
        case Broken():
            return "a statement that cannot be read"
        case _:
            return code("return")
