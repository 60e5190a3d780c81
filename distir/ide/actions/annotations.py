"""Stating types: what is inferred, written where it is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distir.diagnostics import Span
from distir.ide.actions.core import REWRITE, Action, statement_at
from distir.ide.document import Document
from distir.ide.edits import Edit
from distir.ir import DISCARD, UNKNOWN, Apply, Call, Part, Site, TensorType, Type, types
from distir.ops import Value, type_of
from distir.syntax import FunctionSyntax


def state_types(document: Document, span: Span, longest: int | None = None) -> Iterator[Action]:
    """State the types of the statement at a place, and those of its whole function unless that is longer.

    Stated is what holds wherever the function is called, and leaves nothing open but perhaps the device.
    """
    syntax = document.program.syntax
    chosen = statement_at(document, span)
    written = chosen[0] if chosen is not None else syntax.function_at(span.start)
    if written is None or syntax.by_name.get(written.function.name) is not written:
        return
    if chosen is not None:
        edits = tuple(_of_statement(document, written, chosen[1]))
        if edits:
            yield Action("state the type" if len(edits) == 1 else "state the types", REWRITE, edits)
    if longest is None or len(written.function.body) <= longest:
        edits = tuple(all_types(document, written.function.name))
        if edits:
            yield Action(all_types_title(written.function.name), REWRITE, edits)


def all_types(document: Document, name: str) -> Iterator[Edit]:
    """The edits that annotate all statements of a function with types; none if its name is not unique."""
    written = document.program.syntax.by_name.get(name)
    if written is not None:
        for index in range(len(written.function.body)):
            yield from _of_statement(document, written, index)


def all_types_title(name: str) -> str:
    """The title of the action."""
    return f"state all types in `@{name}`"


def _of_statement(document: Document, written: FunctionSyntax, index: int) -> Iterator[Edit]:
    statement = written.function.body[index]
    if not isinstance(statement, (Apply, Call)):
        return
    state = document.program.analysis.states[written.function.name]
    stated: Sequence[Type | None] = statement.claims or (None,) * len(statement.results)
    for number, (name, claim) in enumerate(zip(statement.results, stated, strict=True)):
        found = known_type(state[name]) if name != DISCARD else None
        if found is None or found == claim:
            continue
        kind = "result" if claim is None else "claim"
        place = document.program.syntax.source_map(Site(written.function.name, index, Part(kind, number)))
        if place is not None and claim is None:
            yield Edit(Span(place.end, place.end), f": {found}")
        elif place is not None:
            yield Edit(place, str(found))


def known_type(value: Value) -> Type | None:
    """The type of a value, where nothing of it is open but perhaps the device."""
    found = type_of(value)
    return found if found != UNKNOWN and all(map(_is_closed, types.leaves(found))) else None


def _is_closed(leaf: Type) -> bool:
    return isinstance(leaf, TensorType) and None not in (leaf.dtype, leaf.shape) and None not in (leaf.shape or ())
