"""Repairs of what is not proved: the collective that is missing, or the value that is there already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from distir.diagnostics import Span
from distir.diagnostics.codes import proofs as codes
from distir.ide.actions.core import QUICK_FIX, Action, LocatedFinding, lines_of, lines_touch, renamed_in
from distir.ide.document import Document
from distir.ide.edits import before_statement
from distir.ide.proofs import Proved
from distir.ir import Apply, Attributes, Call, Function, Return, Site, operands, results
from distir.ir.builder import namer
from distir.prove.pieces import TermPiece
from distir.prove.placements import Placements


def collectives(document: Document, proved: Proved, span: Span) -> Iterator[Action]:
    """Inserts collectives that sum partial sums, or join parts, for unproved statements of some lines."""
    placements = proved.placements
    if placements is None or proved.document.program is not document.program:
        return
    lines = lines_of(document.text, span)
    for diagnostic in proved.unlocated:
        site = diagnostic.site
        if diagnostic.code is not codes.NOT_PROVED or not isinstance(site, Site) or site.index is None:
            continue
        if lines_touch(document, site, lines):
            found = LocatedFinding(site, diagnostic, diagnostic.located(document.program.locate))
            yield from _repairs(document, placements, found, site.index)


def _repairs(document: Document, placements: Placements, found: LocatedFinding, index: int) -> Iterator[Action]:
    """The repairs of a statement; first the use of an existing value, or a sum."""
    function = document.program.module.functions[found.site.function]
    statement = function.body[index]
    names = list(_names(statement))
    if found.site.part is not None and isinstance(statement, Return):
        names = names[int(found.site.part.key) :][:1]
    before = _before(function, index)
    actions: list[Action] = []
    for name in dict.fromkeys(names):
        piece = placements.piece(function.name, name)
        if isinstance(piece, TermPiece):
            for axis in (None, *range(len(piece.whole))):
                group = placements.group(function.name, name, axis, before)
                if len(group) > 1:
                    actions += _of_group(document, placements, found, index, name, group, axis)
    yield from (replace(action, preferred=number == 0) for number, action in enumerate(actions))


def _of_group(
    document: Document,
    placements: Placements,
    found: LocatedFinding,
    index: int,
    name: str,
    group: Sequence[str],
    axis: int | None,
) -> Iterator[Action]:
    """Use the value that is there already; insert the collective. `axis`: that of parts, else the group is added up."""
    syntax = document.program.syntax
    written = syntax.by_name[found.site.function]
    function = written.function
    made, statement = placements.together(function.name, name, group, axis), function.body[index]
    if isinstance(statement, (Apply, Call)) and not placements.mends(function.name, statement, name, made):
        return
    known = placements.equal(function.name, name, made, _before(function, index))
    if known is not None:
        edits = tuple(renamed_in(document, written, index, name, known))
        what = "the sum" if axis is None else "which has all parts"
        yield Action(f"use `%{known}`, {what}", QUICK_FIX, edits, (found.located,))
    builder = namer(function)
    fresh = {other: builder.fresh(f"{other}_{'sum' if axis is None else 'all'}") for other in group}
    op, attrs = ("MPIAllreduce", {}) if axis is None else ("MPIAllgather", {"axis": axis})
    inserted = Apply(tuple(fresh.values()), op, tuple(group), Attributes(attrs))
    changed = [
        edit
        for later, other in _alike(function, index, name, group)
        for edit in renamed_in(document, written, later, other, fresh[other])
    ]
    changed += before_statement(syntax, written, index, [inserted])
    way, listed = "all-reduce" if axis is None else "all-gather", ", ".join(f"`%{other}`" for other in group)
    yield Action(f"{way} {listed}", QUICK_FIX, tuple(changed), (found.located,))


def _alike(function: Function, index: int, name: str, group: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The statement, and those after it that use the others of a group as it uses its own, with what they use."""
    statement = function.body[index]
    yield index, name
    if isinstance(statement, Return):
        return
    places = [place for place, arg in enumerate(_arguments(statement)) if arg == name]
    for later in range(index + 1, len(function.body)):
        other = function.body[later]
        if type(other) is not type(statement) or _callee(other) != _callee(statement):
            continue
        given = _arguments(other)
        for used in dict.fromkeys(given[place] for place in places if place < len(given)):
            if isinstance(used, str) and used in group and used != name:
                yield later, used


def _arguments(statement: object) -> Sequence[object]:
    return statement.args if isinstance(statement, (Apply, Call)) else ()


def _callee(statement: object) -> str | None:
    return statement.op if isinstance(statement, Apply) else statement.function if isinstance(statement, Call) else None


def _names(statement: object) -> Iterator[str]:
    if isinstance(statement, (Apply, Call, Return)):
        yield from (arg for arg in operands(statement) if isinstance(arg, str))


def _before(function: Function, index: int) -> list[str]:
    """The values that are there before a statement, the nearest first."""
    made = [name for statement in function.body[:index] for name in results(statement) if name]
    return [*reversed(made), *(param.name for param in function.params)]
