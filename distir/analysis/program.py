"""A text read and checked: what `distir check`, the editor and the API all go by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from distir.analysis.check import Analysis, check
from distir.diagnostics import Diagnostic, Note, Severity, Source, Span
from distir.diagnostics.codes import names as codes
from distir.ir import Module
from distir.ops import canonical
from distir.syntax import Syntax, parse


@dataclass(frozen=True, eq=False)
class Program:
    """One version of one text. Everything below is found once, when first asked for."""

    syntax: Syntax

    @property
    def source(self) -> Source:
        return self.syntax.source

    @property
    def module(self) -> Module:
        return self.syntax.module

    @cached_property
    def analysis(self) -> Analysis:
        return check(self.module)

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that is wrong with the text, located, in the order of the text."""
        found = [*self.syntax.diagnostics, *self._duplicates(), *self.located(self.analysis.diagnostics)]
        if not self.syntax.functions and not found:
            found.append(Diagnostic(codes.NO_FUNCTION, Span(0, 0), "the text holds no function"))
        return tuple(sorted(found, key=_position))

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.diagnostics if d.severity is Severity.ERROR)

    def located(self, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
        """Diagnostics of the module with their places in the text."""
        return tuple(d.located(self.syntax.source_map) for d in diagnostics)

    def _duplicates(self) -> Iterable[Diagnostic]:
        for name, first, second in self.syntax.duplicates:
            note = Note("the first one is here", first)
            yield Diagnostic(codes.DUPLICATE_FUNCTION, second, f"two functions are called `@{name}`", (note,))


def read(text: str, path: str = "<text>") -> Program:
    """Read a text; never raises, whatever the text."""
    return Program(parse(text, path, canonical))


def _position(diagnostic: Diagnostic) -> int:
    return diagnostic.site.start if isinstance(diagnostic.site, Span) else -1
