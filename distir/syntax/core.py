"""What parsing gives: `Syntax`, and what callers may hand in. Data only."""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from distir.diagnostics import Code, Diagnostic, ProgramError, Source, Span
from distir.diagnostics.codes import syntax as codes
from distir.ir import Arg, Attributes, Function, Module, Site

Spelling = Callable[[str, tuple[Arg, ...], Attributes], tuple[tuple[Arg, ...], Attributes]]
"""From an op's name, arguments and attributes as written to the canonical ones.

`Send(%x, 2)` becomes `Send[device = 2](%x)`.

It is called once for all statements that differ only in the names of values, with names that are not the real ones;
it may move, group and drop them, not look at them. It never raises: what fits no op stays as it is.
"""


class SyntaxProblem(ProgramError):  # noqa: N818 (it holds findings)
    """A type, constant or example that does not parse; `message` says why, `span` where in the given text."""

    def __init__(self, message: str, span: Span, help: str | None = None, code: Code = codes.UNEXPECTED) -> None:
        super().__init__([Diagnostic(code, span, message, help=help)])
        self.message, self.span, self.help = message, span, help


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSyntax:
    """A function and where it stands. Offsets are those of the whole text.

    `span` is from `func` to after the body's `}`, `head` up to before its `{`, `name` that of `@name` (empty where it
    is missing). `comments` are those from `func` to `}`.
    """

    function: Function
    span: Span
    head: Span
    name: Span
    starts: array[int]
    ends: array[int]
    comments: tuple[tuple[int, int], ...]

    def statement(self, index: int) -> Span:
        """The span of statement `index` of the body."""
        return Span(self.starts[index], self.ends[index])

    def statement_at(self, offset: int) -> int | None:
        """The number of the statement at an offset; at an end it still counts."""
        index = bisect.bisect_right(self.starts, offset) - 1
        return index if index >= 0 and offset <= self.ends[index] else None


@dataclass(frozen=True, eq=False)
class Syntax:
    """A text and all that reading it gave, whatever the text.

    `module` has the first of functions with equal names (or the one of `preferring`), `functions` has all in order;
    `duplicates` are the names with the places of the first and of another function. The sites of `diagnostics` are
    spans. `comments` are those outside of functions.
    """

    source: Source
    module: Module
    functions: tuple[FunctionSyntax, ...]
    diagnostics: tuple[Diagnostic, ...]
    duplicates: tuple[tuple[str, Span, Span], ...]
    comments: tuple[tuple[int, int], ...]
    spelling: Spelling | None
    preferred: FunctionSyntax | None = None
    """The one that `module` has of functions with its name, where that is not the first."""

    @cached_property
    def by_name(self) -> dict[str, FunctionSyntax]:
        """The functions of `module`."""
        found = {f.function.name: f for f in reversed(self.functions)}
        return found if self.preferred is None else {**found, self.preferred.function.name: self.preferred}

    def preferring(self, written: FunctionSyntax) -> Syntax:
        """The same text with a function in the place of the first one of its name."""
        name = written.function.name
        functions = (written.function if f.name == name else f for f in self.module)
        return replace(self, module=Module(functions), preferred=written)

    def function_at(self, offset: int) -> FunctionSyntax | None:
        """The function whose text, from `func` to `}`, contains an offset."""
        index = bisect.bisect_right(self.functions, offset, key=lambda f: f.span.start) - 1
        found = self.functions[index] if index >= 0 else None
        return found if found and offset <= found.span.end else None

    def source_map(self, site: Site) -> Span | None:
        """The span of a site; of all of it for a part that is not written; `None` for what is not in the text."""
        from distir.syntax.locate import locate

        return locate(self, site)
