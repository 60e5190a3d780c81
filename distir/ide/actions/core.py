"""Code actions, and what they share: which statements are selected, which names are free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from distir.diagnostics import Diagnostic, Severity, Span
from distir.ide.document import Document
from distir.ide.edits import Edit
from distir.ide.mentions import values_mentioned
from distir.ir import Site
from distir.syntax import FunctionSyntax

QUICK_FIX, INLINE, EXTRACT, REWRITE = "quickfix", "refactor.inline", "refactor.extract", "refactor.rewrite"
FIX_ALL = "source.fixAll"


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can be done to a text. `kind` is one of the words above.

    `fixes`: what is wrong no more, located; `preferred`: what a person would most likely choose. `hardware`: the
    machine to simulate the text for, where it is that which changes, not the text.
    """

    title: str
    kind: str
    edits: tuple[Edit, ...]
    fixes: tuple[Diagnostic, ...] = ()
    preferred: bool = False
    hardware: str | None = None


@dataclass(frozen=True, slots=True)
class LocatedFinding:
    """Something wrong with a statement: with its site, and located."""

    site: Site
    diagnostic: Diagnostic
    located: Diagnostic


def found_at(document: Document, span: Span) -> Iterator[LocatedFinding]:
    """The checker's findings in a piece of the text."""
    for diagnostic in document.program.analysis.diagnostics:
        site = diagnostic.site
        if not isinstance(site, Site) or site.index is None or site.function in document.program.syntax.counted:
            continue
        if lines_touch(document, site, span):
            yield LocatedFinding(site, diagnostic, diagnostic.located(document.program.syntax.source_map))


def statement_at(document: Document, span: Span) -> tuple[FunctionSyntax, int] | None:
    """The statement that a selection begins in, of a function that has its name for itself."""
    syntax = document.program.syntax
    written = syntax.function_at(span.start)
    if written is None or syntax.by_name.get(written.function.name) is not written:
        return None
    index = written.statement_at(span.start)
    if index is None:  # in the indentation before one, perhaps
        at = span.start
        while at < len(syntax.source.text) and syntax.source.text[at] in " \t":
            at += 1
        index = written.statement_at(at)
    return None if index is None else (written, index)


def has_errors(document: Document) -> bool:
    """Whether the program has errors, so that it can be neither run nor simulated."""
    return any(d.severity is Severity.ERROR for d in document.program.diagnostics)


def renamed_in(document: Document, written: FunctionSyntax, index: int, name: str, new: str) -> list[Edit]:
    """The edits that let one statement use another value."""
    found = values_mentioned(document.program.syntax, written, name)
    return [Edit(m.span, f"%{new}") for m in found if m.index == index and not m.defines]


def lines_of(text: str, span: Span) -> Span:
    """The whole lines of a piece of the text."""
    end = text.find("\n", span.end)
    return Span(text.rfind("\n", 0, span.start) + 1, len(text) if end < 0 else end)


def lines_touch(document: Document, site: Site, span: Span) -> bool:
    """Whether the statement of a site is, in part, in a piece of the text."""
    written = document.program.syntax.by_name.get(site.function)
    if written is None or site.index is None or site.index >= len(written.starts):
        return False
    whole = written.statement(site.index)
    return whole.start <= span.end and span.start <= whole.end
