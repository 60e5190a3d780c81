"""Folding ranges: functions, heads and statements over several lines, comments, sections, stages, microbatches."""

from __future__ import annotations

from dataclasses import dataclass

from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ide.symbols import groups, sections


@dataclass(frozen=True, slots=True)
class Fold:
    """Lines that can be folded into the first one. `kind`: `comment` or `region`."""

    span: Span
    kind: str


def folds(document: Document) -> list[Fold]:
    """All that can be folded, in the order of the text; what is on one line cannot."""
    syntax = document.program.syntax
    found: list[Fold] = list(_comments(document, syntax.comments))
    for written in syntax.functions:
        found.append(Fold(written.span, "region"))
        found.append(Fold(written.head, "region"))
        found += _comments(document, written.comments)
        text = syntax.source.text
        several = (
            (start, end)
            for start, end in zip(written.starts, written.ends, strict=True)
            if text.find("\n", start, end) >= 0
        )
        found += [Fold(Span(start, end), "region") for start, end in several]
        parts = [*sections(syntax, written), *groups(document, written)]
        found += [Fold(Span(written.starts[p.first], written.ends[p.last]), "region") for p in parts]
    position = syntax.source.position
    long = (f for f in found if position(f.span.start)[0] < position(f.span.end)[0])
    return sorted(long, key=lambda fold: (fold.span.start, -fold.span.end))


def _comments(document: Document, comments: tuple[tuple[int, int], ...]) -> list[Fold]:
    """Comments in a row, with nothing but white space between them."""
    text = document.text
    found: list[Fold] = []
    for start, end in comments:
        last = found[-1].span if found else None
        if last is not None and not text[last.end : start].strip() and text.count("\n", last.end, start) == 1:
            found[-1] = Fold(Span(last.start, end), "comment")
        else:
            found.append(Fold(Span(start, end), "comment"))
    return found
