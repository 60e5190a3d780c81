"""Repairs: the missing `Send`, the missing `Cast`, the misspelt name, and what is unused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from distir.analysis.repairs import Mistake, castings, mistake_of, sendings
from distir.cost.larger import named_in
from distir.diagnostics import Diagnostic, Span
from distir.diagnostics.codes import lints, placements
from distir.ide.actions.core import FIX_ALL, QUICK_FIX, Action, LocatedFinding, found_at, lines_of, renamed_in
from distir.ide.collective_costs import cost_in_words
from distir.ide.document import Document
from distir.ide.edits import Edit, before_statement, rewritten, whole_line
from distir.ide.sends import name_there, send, sent_before
from distir.ir import (
    DISCARD,
    Apply,
    Attributes,
    Call,
    Return,
    Statement,
    names,
    operands,
)
from distir.ir.builder import namer
from distir.ops import canonical
from distir.syntax import parse_example
from distir.syntax.tokens import NAME
from distir.transform.dead_code import live

_MEANT = re.compile(r"did you mean `([^`]+)`\?")
_QUOTED = re.compile(r"`([^`]+)`")
_NO_GO_ON = r"(?![A-Za-z0-9_.\-])"

MOST_REPAIRED = 50
"""At most this many findings of a range get repairs: a longer list is not read."""


def quick_fixes(document: Document, span: Span) -> list[Action]:
    """The repairs of what is wrong on the lines of a piece of the text; of very much, of what comes first."""
    actions: list[Action] = []
    lines = lines_of(document.text, span)
    for found in islice(found_at(document, lines), MOST_REPAIRED):
        if (mistake := mistake_of(document.program.analysis.domain, found.diagnostic)) is not None:
            actions += _sends(document, found, mistake)
            actions += _casts(document, found, mistake)
        actions += _collectives(document, found)
        if found.diagnostic.code is lints.UNUSED_VALUE:
            actions += _unused(document, found)
        if found.diagnostic.code is lints.IDLE_STREAM:
            actions.append(_without_stream(document, found))
    for diagnostic in islice(_in_lines(document, lines), MOST_REPAIRED):
        actions += _meant(document, diagnostic)
    return list({(a.title, a.edits): a for a in actions}.values())


def larger_machines(simulated: Document, span: Span) -> Iterator[Action]:
    """The machine that the help of a finding says is large enough, on the lines of a piece of the text."""
    lines = lines_of(simulated.text, span)
    for diagnostic in simulated.findings:
        place, enough = diagnostic.site, named_in(diagnostic.help)
        if enough is not None and isinstance(place, Span) and place.start <= lines.end and lines.start <= place.end:
            yield Action(f"simulate on `{enough}`", QUICK_FIX, (), (diagnostic,), preferred=True, hardware=enough)


def remove_unused(document: Document) -> Action | None:
    """Remove every statement that no result of its function needs, and write `_` for results that nothing uses."""
    syntax = document.program.syntax
    unused = [d for d in document.program.diagnostics if d.code is lints.UNUSED_VALUE]
    edits: list[Edit] = []
    for written in syntax.by_name.values():
        function = written.function
        if function.body and isinstance(function.body[-1], Return):
            kept = live(function.body[:-1], names(function.returned))
            edits += rewritten(syntax, written, (*kept, function.body[-1]))
    if not unused or not edits:
        return None
    return Action("remove everything unused", FIX_ALL, tuple(edits), tuple(unused))


def _in_lines(document: Document, lines: Span) -> Iterator[Diagnostic]:
    """The findings in a range of the text, located at a statement or not."""
    for diagnostic in document.program.diagnostics:
        place = diagnostic.site
        if isinstance(place, Span) and place.start <= lines.end and lines.start <= place.end:
            yield diagnostic


# ---- Send and Cast


def _sends(document: Document, found: LocatedFinding, mistake: Mistake) -> Iterator[Action]:
    """Bring all operands to one device; the first choice is the one that the finding's help suggests."""
    written = document.program.syntax.by_name[found.site.function]
    assert found.site.index is not None
    for number, way in enumerate(sendings(mistake)):
        edits: list[Edit] = []
        made: list[Statement] = []
        builder = namer(written.function)
        for name in way.names:
            known = sent_before(written.function, found.site.index, name, way.device)
            if known is None:
                known = builder.fresh(name_there(name, way.device))
                made.append(send(name, way.device, known))
            edits += renamed_in(document, written, found.site.index, name, known)
        edits += before_statement(document.program.syntax, written, found.site.index, made) if made else ()
        listed = ", ".join(f"`%{n}`" for n in way.names)
        title = f"send {listed} to device {way.device}" if made else f"use what device {way.device} has of {listed}"
        yield Action(title, QUICK_FIX, tuple(edits), (found.located,), preferred=number == 0)


def _casts(document: Document, found: LocatedFinding, mistake: Mistake) -> Iterator[Action]:
    """Cast one operand to the element type of another; the first choice is the one that the finding's help suggests."""
    written = document.program.syntax.by_name[found.site.function]
    assert found.site.index is not None
    for number, way in enumerate(castings(mistake)):
        fresh = namer(written.function).fresh(f"{way.name}_{way.dtype.compact}")
        made = Apply((fresh,), "Cast", (way.name,), Attributes({"to": way.dtype}))
        edits = renamed_in(document, written, found.site.index, way.name, fresh)
        edits += before_statement(document.program.syntax, written, found.site.index, [made])
        title = f"cast `%{way.name}` to {way.dtype}"
        yield Action(title, QUICK_FIX, tuple(edits), (found.located,), preferred=number == 0)


# ---- collectives over axes of a mesh


_INSERT = re.compile(rf"insert `([^`]+)` for `%({NAME})`")
_SUFFIXES = {"AllReduce": "sum", "AllGather": "whole", "Share": "share"}


def _collectives(document: Document, found: LocatedFinding) -> Iterator[Action]:
    """Insert the collective that a finding's help names, before the statement that needs it."""
    meant = _INSERT.fullmatch(found.diagnostic.help or "")
    if found.diagnostic.code not in (placements.NOT_PARTS, placements.PENDING_END) or meant is None:
        return
    syntax = document.program.syntax
    written, index = syntax.by_name.get(found.site.function), found.site.index
    if written is None or index is None:
        return
    said, name = meant.groups()
    _, made = parse_example(f"%made = {said}(%{name})", canonical)
    fresh = namer(written.function).fresh(f"{name}_{_SUFFIXES.get(made.op, 'part')}")
    edits = renamed_in(document, written, index, name, fresh)
    edits += before_statement(syntax, written, index, [replace(made, results=(fresh,))])
    cost = cost_in_words(document, written.function.name, made)
    yield Action(f"insert `{said}` for `%{name}`{cost}", QUICK_FIX, tuple(edits), (found.located,), preferred=True)


# ---- names


def _meant(document: Document, diagnostic: Diagnostic) -> Iterator[Action]:
    """Replace an unknown name by the one that the finding's help suggests."""
    meant = _MEANT.search(diagnostic.help or "")
    place = diagnostic.site
    if meant is None or not isinstance(place, Span):
        return
    text = document.text
    for quoted in _QUOTED.findall(diagnostic.message):
        at = re.compile(rf"(?<![A-Za-z0-9_.%@\-]){re.escape(quoted)}{_NO_GO_ON}").search(text, place.start, place.end)
        if at is None and (word := re.compile(NAME).fullmatch(text, place.start, place.end)) and word[0] == quoted:
            at = word
        if at is not None and quoted != meant[1]:
            edit = Edit(Span(*at.span()), meant[1])
            yield Action(f"write `{meant[1]}`", QUICK_FIX, (edit,), (diagnostic,), preferred=True)
            return


# ---- unused values, streams and functions


def _without_stream(document: Document, found: LocatedFinding) -> Action:
    """Remove the name of a stream on which a statement does nothing."""
    syntax = document.program.syntax
    written = syntax.by_name[found.site.function]
    body, index = [*written.function.body], found.site.index
    assert index is not None
    statement = body[index]
    assert isinstance(statement, Apply)
    body[index] = replace(statement, stream="")
    edits = rewritten(syntax, written, body)
    return Action(f"remove `on {statement.stream}`", QUICK_FIX, edits, (found.located,), preferred=True)


def _unused(document: Document, found: LocatedFinding) -> Iterator[Action]:
    """Remove a statement that nothing uses; of one of several results, write `_` for it."""
    syntax = document.program.syntax
    written = syntax.by_name[found.site.function]
    assert found.site.index is not None
    statement = written.function.body[found.site.index]
    if not isinstance(statement, (Apply, Call)) or found.site.part is None:
        return
    name = statement.results[int(found.site.part.key)]
    used = {n for s in written.function.body for n in names(operands(s))}
    if all(n == DISCARD or n not in used for n in statement.results):
        edit = Edit(whole_line(syntax, written, found.site.index), "")
        yield Action(f"remove `%{name}`", QUICK_FIX, (edit,), (found.located,), preferred=True)
        return
    claim = syntax.source_map(found.site)
    if claim is not None and syntax.source.text[claim.start : claim.end] == f"%{name}":
        yield Action(f"write `_` for `%{name}`", QUICK_FIX, (Edit(claim, "_"),), (found.located,), preferred=True)
