"""What parsing gives: `Syntax`, a text and all that reading it gave. Data only."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from distir.diagnostics import Diagnostic, Source, Span
from distir.ir import Call, Function, Module, Site
from distir.ir.counted import times_in
from distir.syntax.function import FunctionSyntax
from distir.syntax.locate import locate
from distir.syntax.statements import Spelling


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
    counted: Mapping[str, Function] = field(default_factory=dict[str, Function])
    """By name: the functions that counted calls call, which are not in the text."""
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

    def counted_call(self, function: str) -> tuple[FunctionSyntax, int] | None:
        """The first statement that calls the function of a counted call: the function that it is in, and its number."""
        for written in self.by_name.values():
            for index, statement in enumerate(written.function.body):
                if isinstance(statement, Call) and statement.function == function:
                    return written, index
        return None

    def _at_call(self, site: Site) -> Span | None:
        found = self.counted_call(site.function)
        if found is None:
            return None
        written, index = found
        period = len(self.counted[site.function].body) // max(1, times_in(self.counted[site.function]))
        within = None if site.index is None else site.index % period
        return locate(self.source, written, self.spelling, Site(written.function.name, index, site.part), within)

    def source_map(self, site: Site) -> Span | None:
        """The span of a site; of all of it for a part that is not written; `None` for what is not in the text.

        What is in the function of a counted call stands where that is called.
        """
        if site.function in self.counted:
            return self._at_call(site)
        found = self.by_name.get(site.function)
        return None if found is None else locate(self.source, found, self.spelling, site)
