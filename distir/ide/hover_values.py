"""Hover on a value: type, device, bytes, producer and users, known value, and the origin of its shape."""

from __future__ import annotations

import re

from distir.analysis.placement_states import held
from distir.analysis.stated_places import complaint
from distir.cost import show_bytes
from distir.diagnostics import Source
from distir.ide.compact import in_full
from distir.ide.hover_dims import DimensionOrigin, origin
from distir.ide.instances import View
from distir.ide.markdown import block, code, counted, items, line_link, listed, paragraphs
from distir.ide.mentions import last_mentioned, mentions_in
from distir.ide.trail import defining_statement
from distir.ir import (
    HOST,
    UNKNOWN,
    Apply,
    Broken,
    Call,
    Dense,
    Function,
    Param,
    PendingAlong,
    SymbolicDim,
    TensorType,
    TupleType,
    dims,
    names,
    operands,
    results,
    types,
)
from distir.ir.counted import called
from distir.ir.places import NOUNS, count
from distir.ir.roles import described
from distir.ops import Value, type_of
from distir.ops.mesh import COLLECTIVES
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
        " · ".join(filter(None, (_place(value), _role(parameter), _made(view, function, made)))),
        _held(view, value),
        _pending(view, function, name, made),
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


def line_of(view: View, function: str, index: int | None, parameter: str = "") -> int:
    """The line, from 1, that a statement (None: a parameter, or the head) of the latest version is in."""
    program = view.document.program
    if function in program.syntax.counted and (found := program.syntax.counted_call(function)) is not None:
        written, index = found
    else:
        written = program.syntax.by_name[function]
    start = written.span.start if index is None else written.starts[index]
    if index is None and parameter:
        word = re.compile(rf"%{re.escape(parameter)}(?![A-Za-z0-9_.\-])")
        place = word.search(program.source.text, written.head.start, written.head.end)
        start = place.start() if place is not None else start
    return view.facts.remembered(LineNumbers).of(program.source, start)


class LineNumbers:
    """Line numbers of offsets. A hover needs few, so no table of all lines is made."""

    COUNTED = 1 << 14
    """Characters between two places of which the line is kept."""

    def __init__(self) -> None:
        self._lines = [1]

    def of(self, source: Source, offset: int) -> int:
        """The line, from 1, that an offset is in."""
        text, counted, lines = source.text, self.COUNTED, self._lines
        if "\r" in text:  # mixed line ends: let the source count them
            return source.position(offset)[0]
        while len(lines) <= offset // counted:
            start = (len(lines) - 1) * counted
            lines.append(lines[-1] + text.count("\n", start, start + counted))
        place = offset // counted
        return lines[place] + text.count("\n", place * counted, offset)


def _placement(view: View, function: Function, name: str) -> str:
    """Its relation to the sequential program."""
    said = view.placement(function.name, name)
    return f"of the sequential program: {said}" if said else ""


def _place(value: Value) -> str:
    found = type_of(value)
    where = sorted(types.devices(found))
    if types.device_of(found) == HOST:
        return "known before the program runs" if isinstance(value, Dense) else "host value"
    size = types.nbytes(found)
    bytes_ = show_bytes(size) if isinstance(size, int) else f"{size} bytes" if size is not None else "size unknown"
    if not where:
        return f"{bytes_} · device open"
    return f"{bytes_} on {'device' if len(where) == 1 else 'devices'} {listed(where)}"


def _held(view: View, value: Value) -> str:
    """What each device of the mesh holds of a value; empty without a mesh."""
    meshes, found = view.document.program.module.meshes, type_of(value)
    if not meshes or types.device_of(found) == HOST or found == UNKNOWN or complaint(found, meshes):
        return ""
    part, mesh = held(found, meshes), meshes.of(types.device_of(found))
    size = types.nbytes(part)
    bytes_ = f", {show_bytes(size)}" if isinstance(size, int) else ""
    return f"each of {dims.show(count(n for _, n in mesh))} devices holds {code(in_full(part))}{bytes_}"


def _pending(view: View, function: Function, name: str, made: int | None) -> str:
    """Where the sums began that are pending in a value: the first statement whose operands are none."""
    found = type_of(view.value(function.name, name))
    said: list[str] = []
    for place in found.places if isinstance(found, TensorType) else ():
        at = made
        while isinstance(place, PendingAlong) and at is not None:
            before = next((n for n in names(operands(function.body[at])) if _has(view, function, n, place)), None)
            earlier = None if before is None else defining_statement(view.facts, function, before, at)
            if earlier is None:
                break
            at = earlier
        if isinstance(place, PendingAlong) and at is not None:
            since = _statement(view, function, at)
            ends = _ends(view, function, name, made, place)
            ended = "" if ends is None else f", ended by {_statement(view, function, ends)}"
            said.append(f"a pending {NOUNS[place.how]} over {code(place.axis)} since {since}{ended}")
    return " · ".join(said)


def _ends(view: View, function: Function, name: str, made: int | None, place: PendingAlong) -> int | None:
    """The first collective that ends what is pending in a value, or in what is computed of it."""
    pending = {name}
    for index in range(0 if made is None else made + 1, len(function.body)):
        statement = function.body[index]
        if pending.isdisjoint(names(operands(statement))):
            continue
        if isinstance(statement, Apply) and statement.op in COLLECTIVES and _is_along(statement, place.axis):
            return index
        pending.update(result for result in results(statement) if result and _has(view, function, result, place))
    return None


def _is_along(collective: Apply, axis: str) -> bool:
    stated = collective.attrs.get("axis")
    return axis in stated if isinstance(stated, tuple) else stated == axis


def _has(view: View, function: Function, name: str, place: PendingAlong) -> bool:
    found = type_of(view.value(function.name, name))
    return isinstance(found, TensorType) and place in found.places


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
    return f"made by {_statement(view, function, index)}"


def _used(view: View, function: Function, name: str, made: int | None) -> str:
    syntax = view.document.program.syntax
    last = last_mentioned(syntax, syntax.by_name[function.name], name)
    if last is None or (last == made and mentions_in(syntax, syntax.by_name[function.name], name, last) == 1):
        return "never used"
    return f"last used by {_statement(view, function, last)}"


def _statement(view: View, function: Function, index: int) -> str:
    match function.body[index]:
        case Apply(op=op):
            said = code(op)
        case Call(function=callee):
            counted_one = view.document.program.syntax.counted.get(callee)
            said = code(f"@{callee}") if counted_one is None else called(counted_one)
        case Broken():
            said = "a statement that cannot be read"
        case _:
            said = code("return")
    return f"{said}, {line_link(line_of(view, function.name, index))}"


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
