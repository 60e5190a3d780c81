"""Document symbols: functions, in them stages and microbatches, in these ops; and functions by name.

Stages and microbatches are read off the program: a statement belongs to the microbatch whose part of a `{batch}`
parameter it works on, and to the stage of the devices that it runs on. Statements in a row that share both are a group.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from distir.analysis.revision_names import mentioned
from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ide.instances import facts
from distir.ir import Apply, Call, Function, Return, Statement, names, operands, results, types
from distir.ops import type_of
from distir.syntax import FunctionSyntax, Syntax

OPS_SHOWN = 20_000
"""Texts with more statements show functions and sections alone."""

GROUPED = 20_000
"""In functions of more statements no stages and microbatches are looked for."""

SMALLEST_GROUP = 2
"""How many statements in a row make a group."""


class SymbolKind(Enum):
    """The kind of a symbol."""

    FUNCTION = "function"
    SECTION = "section"
    GROUP = "group"
    OP = "op"
    CALL = "call"
    PARAM = "param"


class Symbol(NamedTuple):
    """A part of a text. `selection` is what the cursor goes to, within `span`. A tuple, for there are many."""

    name: str
    detail: str
    kind: SymbolKind
    span: Span
    selection: Span
    children: Sequence[Symbol] = ()


@dataclass(frozen=True, slots=True)
class StatementGroup:
    """Statements in a row, from `first` to `last`, and what they have in common."""

    name: str
    first: int
    last: int


def document_symbols(document: Document, most: int = OPS_SHOWN) -> list[Symbol]:
    """The functions of a text with their parts. Of more than `most` statements, the ops are left out."""
    syntax = document.program.syntax
    with_ops = sum(len(f.starts) for f in syntax.functions) <= most
    return [_function(document, written, with_ops) for written in syntax.functions]


def workspace_symbols(syntax: Syntax, query: str) -> Iterator[Symbol]:
    """The functions of a text, and its parameters with roles, whose names hold a query's letters in their order."""
    for written in syntax.functions:
        function = written.function
        if function.name and _matches(query, function.name):
            detail = f"({', '.join(f'%{p.name}' for p in function.params)})"
            yield Symbol(f"@{function.name}", detail, SymbolKind.FUNCTION, written.span, _name(written))
        for param in function.params:
            if param.roles and _matches(query, param.name):
                at = _param(syntax, written, param.name)
                yield Symbol(f"%{param.name}", f"@{function.name}: {param.type}", SymbolKind.PARAM, at, at)


class _Known(dict[str, list[StatementGroup]]):
    """By function: its groups. The outline, folding and selections of one version ask for the same."""


def groups(document: Document, written: FunctionSyntax) -> list[StatementGroup]:
    """The stages and microbatches of a function: statements in a row on the same devices, for the same microbatch.

    Of a second function of a name there are none, but in the document as it is seen from there.
    """
    known = facts(document).remembered(_Known)
    name = written.function.name
    if document.program.syntax.by_name.get(name) is not written:
        return []
    if name not in known:
        known[name] = _groups(document, written.function)
    return known[name]


def _groups(document: Document, function: Function) -> list[StatementGroup]:
    state = document.program.analysis.states.get(function.name)
    if state is None or len(function.body) > GROUPED:
        return []
    batches = _microbatches(function)
    distinct = {id(value): value for value in state.values() if value is not None}  # most are shared
    known = {key: types.devices(type_of(value)) for key, value in distinct.items()}
    if not batches and len(frozenset[int]().union(*known.values())) < 2:
        return []
    nowhere = frozenset[int]()
    devices = {name: known.get(id(value), nowhere) for name, value in state.items()}
    keys: list[tuple[frozenset[int], int | None]] = []
    for index, statement in enumerate(function.body):
        found = {devices.get(name, nowhere) for name in (*results(statement), *mentioned(statement))}
        keys.append((found.pop() if len(found) == 1 else nowhere.union(*found), batches.get(index)))
    found_groups: list[StatementGroup] = []
    start = 0
    for index in range(1, len(keys) + 1):
        if index == len(keys) or keys[index] != keys[start] or isinstance(function.body[index], Return):
            name = _group_name(*keys[start]) if index - start >= SMALLEST_GROUP else ""
            if name:
                found_groups.append(StatementGroup(name, start, index - 1))
            start = index
    return found_groups


def sections(syntax: Syntax, written: FunctionSyntax) -> list[StatementGroup]:
    """The parts of a body that comments on lines of their own head, named as the comments begin."""
    text = syntax.source.text
    heads: dict[int, str] = {}
    for start, end in written.comments:
        line = text.rfind("\n", 0, start) + 1
        if start <= written.head.end or text[line:start].strip():
            continue
        index = next_statement(written, start)
        if index is not None and index < len(written.starts) - 1 and index not in heads:
            heads[index] = (
                text[start:end].removeprefix("//").removeprefix("/*").removesuffix("*/").strip().split("\n")[0]
            )
    last = len(written.starts) - 1
    if last >= 0 and isinstance(written.function.body[last], Return):
        last -= 1
    firsts = sorted(heads)
    ends = [*(first - 1 for first in firsts[1:]), last]
    return [StatementGroup(heads[a], a, b) for a, b in zip(firsts, ends, strict=False) if b >= a and heads[a]]


def next_statement(written: FunctionSyntax, offset: int) -> int | None:
    """The first statement that begins at an offset or after it."""
    index = bisect.bisect_left(written.starts, offset)
    return index if index < len(written.starts) else None


def _function(document: Document, written: FunctionSyntax, with_ops: bool) -> Symbol:
    syntax = document.program.syntax
    headed = sections(syntax, written)
    grouped = groups(document, written)
    body = _nested(syntax, written, headed, grouped, with_ops)
    count = len(written.starts)
    detail = f"{count} statement{'' if count == 1 else 's'}"
    name = f"@{written.function.name}" if written.function.name else "func"
    return Symbol(name, detail, SymbolKind.FUNCTION, written.span, _name(written), body)


def _nested(
    syntax: Syntax, written: FunctionSyntax, headed: list[StatementGroup], grouped: list[StatementGroup], with_ops: bool
) -> list[Symbol]:
    """Sections, in them groups, in these ops. A group that a section ends in is cut there."""
    found: list[Symbol] = []
    at, size = 0, len(written.starts)
    for section in [*headed, StatementGroup("", size, size)]:
        found += _in_groups(syntax, written, grouped, at, section.first, with_ops)
        if section.name:
            inner = _in_groups(syntax, written, grouped, section.first, section.last + 1, with_ops)
            found.append(_part(syntax, written, section, SymbolKind.SECTION, inner))
            at = section.last + 1
    return found


def _in_groups(
    syntax: Syntax, written: FunctionSyntax, grouped: list[StatementGroup], start: int, stop: int, with_ops: bool
) -> list[Symbol]:
    found: list[Symbol] = []
    at = start
    for group in grouped:
        first, last = max(group.first, start), min(group.last, stop - 1)
        if last - first + 1 < SMALLEST_GROUP:
            continue
        found += _ops(syntax, written, at, first) if with_ops else []
        inner = _ops(syntax, written, first, last + 1) if with_ops else []
        found.append(_part(syntax, written, StatementGroup(group.name, first, last), SymbolKind.GROUP, inner))
        at = last + 1
    return found + (_ops(syntax, written, at, stop) if with_ops else [])


def _part(
    syntax: Syntax, written: FunctionSyntax, group: StatementGroup, kind: SymbolKind, inner: list[Symbol]
) -> Symbol:
    span = Span(written.starts[group.first], written.ends[group.last])
    count = group.last - group.first + 1
    return Symbol(group.name, f"{count} statement{'' if count == 1 else 's'}", kind, span, _first(syntax, span), inner)


def _ops(syntax: Syntax, written: FunctionSyntax, start: int, stop: int) -> list[Symbol]:
    found: list[Symbol] = []
    starts, ends = written.starts, written.ends
    op, call = SymbolKind.OP, SymbolKind.CALL
    for index in range(start, min(stop, len(starts))):
        statement = written.function.body[index]
        if isinstance(statement, (Apply, Call)):
            span = Span(starts[index], ends[index])
            made = statement.results
            name = f"%{made[0]}" if len(made) == 1 and made[0] else ", ".join([f"%{n}" for n in made if n])
            what, kind = (statement.op, op) if isinstance(statement, Apply) else (f"@{statement.function}", call)
            found.append(Symbol(name or what, what, kind, span, span))
    return found


def _first(syntax: Syntax, span: Span) -> Span:
    """The first word of a span: for the cursor."""
    text, at = syntax.source.text, span.start
    while at < span.end and text[at] not in " ,:=([\t\n\r":
        at += 1
    return Span(span.start, at)


def _name(written: FunctionSyntax) -> Span:
    return written.name if written.name.start < written.name.end else Span(written.span.start, written.span.start + 4)


def _param(syntax: Syntax, written: FunctionSyntax, name: str) -> Span:
    pattern = re.compile(rf"%{re.escape(name)}(?![A-Za-z0-9_.\-])")
    match = pattern.search(syntax.source.text, written.head.start, written.head.end)
    return written.head if match is None else Span(*match.span())


def _microbatches(function: Function) -> Mapping[int, int]:
    """By statement: which part of a `{batch}` parameter it works on, where that is a single one. Counted from 1."""
    batch = {p.name for p in function.params if "batch" in p.roles}
    part: dict[str, int | None] = {}
    found: dict[int, int] = {}
    if not batch:
        return found
    for index, statement in enumerate(function.body):
        used = list(names(operands(statement)))
        if _cuts(statement) and any(name in batch for name in used):
            part.update((name, number) for number, name in enumerate(results(statement), 1) if name)
            continue
        parts = {part[name] for name in used if name in part}
        if not parts:
            continue
        one = parts.pop() if len(parts) == 1 else None
        part.update((name, one) for name in results(statement) if name)
        if one is not None:
            found[index] = one
    return found


def _cuts(statement: Statement) -> bool:
    return isinstance(statement, Apply) and statement.op == "Split" and len(statement.results) > 1


def _group_name(devices: frozenset[int], batch: int | None) -> str:
    parts = [] if batch is None else [f"microbatch {batch}"]
    if devices:
        parts.append(f"device{'' if len(devices) == 1 else 's'} {', '.join(map(str, sorted(devices)))}")
    return " on ".join(parts)


def _matches(query: str, name: str) -> bool:
    rest = iter(name.casefold())
    return all(letter in rest for letter in query.casefold().lstrip("%@"))
