"""Folding ranges: functions, heads and statements over several lines, comments, sections, stages, microbatches.

Lines that follow each other and are equal but for the numbers of devices are *copies*: each run of them folds into its
first one, so that a program for n devices reads as one for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ide.symbols import groups, sections
from distir.syntax import FunctionSyntax


@dataclass(frozen=True, slots=True)
class Fold:
    """Lines that can be folded into the first one. `kind`: `comment`, `region` or `copies`."""

    span: Span
    kind: str
    times: int = 1
    """Of copies: how many there are."""


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
        found += _copies(text, written)
        parts = [*sections(syntax, written), *groups(document, written)]
        found += [Fold(Span(written.starts[p.first], written.ends[p.last]), "region") for p in parts]
    position = syntax.source.position
    long = (f for f in found if position(f.span.start)[0] < position(f.span.end)[0])
    return sorted(long, key=lambda fold: (fold.span.start, -fold.span.end))


_NUMBERS = re.compile(
    r"(?<=_)\d+(?![\d.])|(?<=\bD)\d+\b|(?<=\bdevice = )\d+|(?<=\bdevices = )\[[^\]]*\]|(?<=\), )\d+(?:\.\.\d+)?(?=\])"
)
"""The numbers in which copies for several devices differ: those of devices, and in names those behind an underscore."""

LONGEST_COPIED = 1_000
"""Longer lines are not compared: they list what all devices hold."""

MOST_IN_A_COPY = 4
"""So many lines together may be what is copied, such as a collective and the updates of what it gives."""


def _copies(text: str, written: FunctionSyntax) -> Iterator[Fold]:
    """Parameters or statements in lines of their own, and the copies that follow them."""
    start, end = text.rfind("\n", 0, written.span.start) + 1, text.find("\n", written.span.end)
    lines: list[tuple[str, Span]] = []
    for line in text[start : end if end >= 0 else len(text)].split("\n"):
        plain = _NUMBERS.sub("#", line.strip()).strip("[],") if len(line) <= LONGEST_COPIED else ""
        lines.append((plain if plain.startswith("%") and "#" in plain else "", Span(start, start + len(line))))
        start += len(line) + 1
    runs = [(key, [span for _, span in run]) for key, run in groupby(lines, key=itemgetter(0))]
    place = 0
    while place < len(runs):
        keys = [key for key, _ in runs[place : place + MOST_IN_A_COPY]]
        found = [(length, _times(runs, place, length)) for length in range(1, len(keys) + 1)]
        length, times = max(found, key=lambda each: each[0] * each[1] if each[1] > 1 else 0)
        inner = runs[place + length - 1][1]
        if times > 1:
            yield Fold(Span(inner[0].start, runs[place + length * times - 1][1][-1].end), "copies", times)
        elif len(inner) > 1 and keys[0]:
            yield Fold(Span(inner[0].start, inner[-1].end), "copies", len(inner))
        place += length * times


def _times(runs: Sequence[tuple[str, Sequence[Span]]], place: int, length: int) -> int:
    """How often so many runs of lines come one after the other, which are copies of each other."""
    first = [(key, len(spans)) for key, spans in runs[place : place + length]]
    if not all(key for key, _ in first):
        return 1
    times = 1
    while [(key, len(spans)) for key, spans in runs[place + length * times : place + length * (times + 1)]] == first:
        times += 1
    return times


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
