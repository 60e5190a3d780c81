"""Hover on a value: type, device, bytes, producer and users, known value, and the origin of its shape."""

from __future__ import annotations

from distir.cost import show_bytes
from distir.ide.compact import in_full
from distir.ide.hover_dims import DimensionOrigin, origin
from distir.ide.hover_placements import about_placement
from distir.ide.instances import View
from distir.ide.lines import line_of, statement_in_words
from distir.ide.markdown import block, code, counted, items, line_link, listed, paragraphs
from distir.ide.mentions import last_mentioned, mentions_in
from distir.ide.trail import defining_statement
from distir.ir import (
    HOST,
    Apply,
    Dense,
    Function,
    Param,
    SymbolicDim,
    TensorType,
    TupleType,
    dims,
    types,
)
from distir.ir.roles import described
from distir.ops import Value, type_of
from distir.simulate.show import Occurrence, show_value
from distir.syntax import print_literal

WORTH_TELLING = 8
"""At most this many dimensions of a tensor are traced back."""


def about_value(view: View, function: Function, name: str, before: int) -> str | None:
    """Information about a value of a function. `before`: the statement that uses it, after its definition.

    If there is no earlier definition, a later one is meant.
    """
    value = view.value(function.name, name)
    made = defining_statement(view.facts, function, name, before)
    parameter = next((p for p in function.params if p.name == name), None) if made is None else None
    if parameter is None and made is None:
        made = defining_statement(view.facts, function, name, len(function.body))
        if made is None:
            return None
    parts = [
        block(f"%{name}: {in_full(type_of(value))}"),
        " · ".join(filter(None, (_place(view, value), _role(parameter), _made(view, function, made)))),
        about_placement(view, function, name, made),
        _used(view, function, name, made),
        _placement(view, function, name),
        _known(value),
        items(_shape(view, function, name, value, made)),
        shown_for(view, function),
    ]
    return paragraphs(parts)


def about_dimension(view: View, function: Function, name: str) -> str | None:
    """The size of a named dimension of a function; None for a word that is not one."""
    names = frozenset[str]().union(*(types.dim_names(p.type) for p in function.params))
    if name not in names:
        return None
    users = [p.name for p in function.params if name in types.dim_names(p.type)]
    said = f"named dimension {code(name)} of {listed(code(f'%{user}') for user in users)}"
    occurrence = view.shown(function.name)
    bound = occurrence.instance.dims.get(name) if occurrence is not None else None
    size = f"{code(name)} is {code(dims.show(bound))}" if bound is not None else ""
    return paragraphs([said, size, shown_for(view, function)])


def shown_for(view: View, function: Function) -> str:
    """Which call is shown, where a function has several; empty for others."""
    sites = view.facts.call_sites.get(function.name, ())
    occurrence = view.shown(function.name)
    if occurrence is None or occurrence.caller is None or len(sites) < 2:
        return ""
    caller, index = occurrence.caller
    if view.is_current:
        number = next((i for i, s in enumerate(sites) if (s.caller, s.index) == (caller.name, index)), None)
        if number is not None:
            line = line_link(line_of(view, caller.name, index))
            return f"*for call {number + 1} of {len(sites)}, by {code('@' + caller.name)}, {line}*"
    return f"*for one of {counted(len(sites), 'call')}, by {code('@' + caller.name)}*"


def _placement(view: View, function: Function, name: str) -> str:
    """Its relation to the sequential program."""
    said = view.placement(function.name, name)
    return f"of the sequential program: {said}" if said else ""


def _place(view: View, value: Value) -> str:
    found = type_of(value)
    where = sorted(types.devices(found))
    if types.device_of(found) == HOST:
        return "known before the program runs" if isinstance(value, Dense) else "host value"
    size = types.nbytes(found)
    bytes_ = show_bytes(size) if isinstance(size, int) else f"{size} bytes" if size is not None else "size unknown"
    if not where:
        return f"{bytes_} · device open"
    if view.facts.meshes:
        return f"{bytes_} in all"
    return f"{bytes_} on {'device' if len(where) == 1 else 'devices'} {listed(where)}"


def _role(parameter: Param | None) -> str:
    if parameter is None:
        return ""
    roles = [key if value is True else f"{key} = {print_literal(value)}" for key, value in parameter.roles.items()]
    if not roles:
        return "parameter"
    written = f"parameter {code('{' + ', '.join(roles) + '}')}"
    return f"{written}, {described(parameter)}" if described(parameter) else written


def _made(view: View, function: Function, index: int | None) -> str:
    if index is None:
        return ""
    return f"made by {statement_in_words(view, function, index)}"


def _used(view: View, function: Function, name: str, made: int | None) -> str:
    syntax = view.document.program.syntax
    last = last_mentioned(syntax, syntax.by_name[function.name], name)
    if last is None or (last == made and mentions_in(syntax, syntax.by_name[function.name], name, last) == 1):
        return "never used"
    return f"last used by {statement_in_words(view, function, last)}"


def _known(value: Value) -> str:
    if not isinstance(value, Dense):
        return ""
    shown = show_value(value)
    return f"value {code(shown)}" if shown is not None else f"value known, {counted(len(value.values), 'element')}"


def _shape(view: View, function: Function, name: str, value: Value, made: int | None) -> list[str]:
    """A line for each dimension: where it was fixed. `made`: the statement that defines the value."""
    found = type_of(value)
    occurrence = view.shown(function.name) if view.is_current else None
    facts = view.timed if occurrence is not None else view.facts
    if occurrence is None or facts is None or name not in occurrence.instance.state:
        own = view.document.program.analysis.domain.own.get(function.name)
        if own is None:
            return []
        occurrence, facts = Occurrence(own, None, 0, None), view.facts
    if isinstance(found, TupleType) or not isinstance(found, TensorType) or not found.shape:
        return []
    lines: list[str] = []
    for axis, dim in enumerate(found.shape[:WORTH_TELLING]):
        come = origin(facts, occurrence, name, axis, 0 if made is None else made + 1)
        if dim is None or (come.function is function and come.name == name and come.index is None):
            continue  # a parameter's own
        lines.append(f"{code(dims.show(dim))} {_from(view, function, name, come)}")
    return lines


def _from(view: View, function: Function, name: str, come: DimensionOrigin) -> str:
    where = f" of {code('@' + come.function.name)}" if come.function is not function else ""
    line = line_link(line_of(view, come.function.name, come.index, come.name))
    if not come.is_end:
        return f"is carried from dimension {come.axis} of {code('%' + come.name)}{where}, {line}, and further back"
    if come.index is None:
        is_named = isinstance(come.size, SymbolicDim)
        item = "".join(f"item {i} of " for i in come.items)
        named = ", named there" if is_named else ""
        return f"is dimension {come.axis} of {item}{code('%' + come.name)}{where}, {line}{named}"
    statement = come.function.body[come.index]
    op = statement.op if isinstance(statement, Apply) else "a call"
    made = f"is made by {code(op)}{where}, {line}"
    is_here = come.function is function and come.name == name
    return made if is_here else f"{made}, as dimension {come.axis} of {code('%' + come.name)}"
