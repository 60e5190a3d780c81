"""What a counted statement does each time: the statements in it, and where they are written."""

from __future__ import annotations

from dataclasses import dataclass

from distir.diagnostics import Span
from distir.ir import Call, Function, Statement
from distir.ir.counted import times_in
from distir.syntax import FunctionSyntax, Syntax
from distir.syntax.locate import statements_in


@dataclass(frozen=True, slots=True)
class EachTime:
    """A statement that is done several times: the first time's in the counted function, and where it is written."""

    function: Function
    index: int
    times: int
    span: Span

    @property
    def statement(self) -> Statement:
        """The first time's."""
        return self.function.body[self.index]

    @property
    def indices(self) -> range:
        """The numbers of each time's."""
        last = len(self.function.body) - 1
        return range(self.index, last, last // self.times)


def repeated(syntax: Syntax, written: FunctionSyntax, index: int) -> list[EachTime]:
    """What a statement does each time; nothing for one that is not counted."""
    statement = written.function.body[index]
    function = syntax.counted.get(statement.function) if isinstance(statement, Call) else None
    if function is None:
        return []
    spans = statements_in(syntax.source, written, index)
    return [EachTime(function, number, times_in(function), span) for number, span in enumerate(spans)]


def repeated_at(syntax: Syntax, written: FunctionSyntax, index: int, offset: int) -> EachTime | None:
    """That at an offset of the text."""
    found = repeated(syntax, written, index)
    return next((one for one in found if one.span.start <= offset <= one.span.end), None)
