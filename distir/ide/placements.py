"""Where the parts of values on a mesh are: which statement changes that, where a sum began, which collective ends it.

A placement is compared along each axis: split, pending, or whole. So an op that moves a split dimension to another
place, as `Reshape` and `Transpose` do, changes nothing. A collective does, and so does an op whose result is placed
otherwise than its first operand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, Literal, get_args

from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ide.instances import View, facts
from distir.ide.repeated import repeated
from distir.ide.trail import defining_statement
from distir.ir import (
    HOST,
    Apply,
    Call,
    Function,
    OwnedAlong,
    PendingAlong,
    Return,
    SplitAlong,
    Statement,
    TensorType,
    TupleType,
    Type,
    names,
    operands,
    results,
    types,
)
from distir.ir.places import Place
from distir.ops import type_of
from distir.ops.mesh import COLLECTIVES
from distir.syntax.ranges import first_name
from distir.syntax.tokens import NAME

Shown = Literal["changes", "all", "off"]
SHOWN: Final[tuple[Shown, ...]] = get_args(Shown)
"""Which placements hints show: what a statement changes, that of every value, or none."""

FREE: Final = frozenset({"Shard", "ShardView", "Share"})
"""Collectives that take a part of what is there: nothing is communicated."""

DEEPEST = 20
"""The search for a statement follows so many calls into each other."""


# ---- what hints show


def as_shown(view: View, before: Kinds, found: Type, shown: Shown) -> tuple[Type, str]:
    """The type of a result as a hint shows it: with its placement if the statement changes it, pending sums always.

    `before`: the placement that it changes. With the word for what the statement makes whole, else empty.
    """
    if not view.facts.meshes or types.device_of(found) == HOST:
        return found, ""
    now = _kinds(found) if shown == "changes" else before
    return _on_mesh(view, found, shown, now != before), " whole" if now != before and now == {_WHOLE} else ""


def as_given(view: View, found: Type, shown: Shown) -> Type:
    """That of a parameter, with its placement: nothing in its function says it before."""
    return _on_mesh(view, found, shown, is_new=True) if view.facts.meshes else found


def _on_mesh(view: View, found: Type, shown: Shown, is_new: bool) -> Type:
    """With the device only in programs that name several."""
    cuts = shown == "all" or (shown == "changes" and is_new)
    several = len(view.facts.remembered(NamedStages).of(view)) > 1
    return _reduced(found, cuts=cuts, pending=shown != "off", device=several)


def _reduced(found: Type, cuts: bool, pending: bool, device: bool) -> Type:
    """A type with some of what it says: the cuts of dimensions, what is pending, the device."""
    if isinstance(found, TupleType):
        return TupleType(tuple(_reduced(item, cuts, pending, device) for item in found.items))
    if not isinstance(found, TensorType) or found.device == HOST:
        return found
    places = tuple(p for p in found.places if (pending if isinstance(p, PendingAlong) else cuts))
    return replace(found, places=places, device=found.device if device else None)


class NamedStages:
    """The devices that a program on a mesh names; each represents a mesh."""

    def __init__(self) -> None:
        self._found: frozenset[int] | None = None

    def of(self, view: View) -> frozenset[int]:
        """All of them."""
        if self._found is None:
            module = view.document.program.module
            stated = (types.devices(param.type) for function in module for param in function.params)
            sent = (s.attrs.get("device") for f in module for s in f.body if isinstance(s, Apply) and s.op == "Send")
            self._found = frozenset(chain(chain.from_iterable(stated), (d for d in sent if isinstance(d, int))))
        return self._found


# ---- who changes a placement


Kinds = set[frozenset[tuple[str, str]]]
"""How the tensors of a value are placed, whichever dimension is split: by axis that, or what is pending."""

_WHOLE: frozenset[tuple[str, str]] = frozenset()


def placed_before(view: View, function: Function, statement: Statement) -> Kinds:
    """How the first operand of a statement on a mesh is placed; as what is whole where there is none."""
    first = _first(view, function, statement) if view.facts.meshes else None
    return _kinds(type_of(view.value(function.name, first))) if first else {_WHOLE}


def _kinds(found: Type) -> Kinds:
    tensors = (leaf for leaf in types.leaves(found) if isinstance(leaf, TensorType))
    return {frozenset((p.axis, _kind(p)) for p in t.places) for t in tensors}


def _kind(place: Place) -> str:
    """What a value is along an axis, whichever dimension is split."""
    match place:
        case PendingAlong():
            return place.how
        case OwnedAlong():
            return str(place)
        case SplitAlong():
            return "split"


def _first(view: View, function: Function, statement: Statement) -> str | None:
    """The first operand that is on the mesh."""
    given = (name for name in names(operands(statement)) if name)
    return next((n for n in given if types.device_of(type_of(view.value(function.name, n))) != HOST), None)


Found = tuple[Function, int]
"""A statement: the function, and its number there."""


def changed_by(view: View, function: Function, name: str, before: int) -> Found | None:
    """The statement that placed a value as it is; None where it is given so."""

    def had_by(there: Function, index: int, name: str) -> str | None:
        found = type_of(view.value(there.name, name))
        statement = there.body[index]
        is_changed = _kinds(found) != placed_before(view, there, statement)
        return None if is_changed else _first(view, there, statement)

    return _origin(view, function, name, before, had_by)


def pending_since(view: View, function: Function, name: str, before: int, place: PendingAlong) -> Found | None:
    """The statement with which a sum, or maximum, began; None where it is given."""

    def had_by(there: Function, index: int, _: str) -> str | None:
        given = names(operands(there.body[index]))
        return next((operand for operand in given if operand and _has(view, there, operand, place)), None)

    return _origin(view, function, name, before, had_by)


def _origin(
    view: View,
    function: Function,
    name: str,
    before: int,
    had_by: Callable[[Function, int, str], str | None],
    depth: int = 0,
) -> Found | None:
    """The earliest statement that a value has something from. `had_by`: the operand that has it already, if any."""
    while (index := defining_statement(view.facts, function, name, before)) is not None:
        statement = function.body[index]
        callee = _callee(view, statement)
        if isinstance(statement, Call) and callee is not None and depth < DEEPEST and name in statement.results:
            returned = callee.returned[statement.results.index(name)]
            if isinstance(returned, str):
                inner = _origin(view, callee, returned, len(callee.body), had_by, depth + 1)
                if inner is not None:
                    return inner
        earlier = had_by(function, index, name)
        if earlier is None:
            return function, index
        name, before = earlier, index
    return None


def _callee(view: View, statement: Statement) -> Function | None:
    functions = view.document.program.module.functions
    return functions.get(statement.function) if isinstance(statement, Call) else None


def _has(view: View, function: Function, name: str, place: Place) -> bool:
    found = type_of(view.value(function.name, name))
    return isinstance(found, TensorType) and place in found.places


# ---- which collective ends a sum


def ended_by(
    view: View, function: Function, name: str, made: int | None, place: PendingAlong, depth: int = 0
) -> Found | None:
    """The first collective that ends what is pending in a value, or in what is computed of it."""
    pending = {name}
    for index in range(0 if made is None else made + 1, len(function.body)):
        statement = function.body[index]
        if pending.isdisjoint(names(operands(statement))):
            continue
        if isinstance(statement, Apply) and statement.op in COLLECTIVES and _is_along(statement, place.axis):
            return function, index
        if depth < DEEPEST and (beyond := _beyond(view, function, statement, pending)) is not None:
            found = ended_by(view, *beyond, place, depth + 1)
            if found is not None:
                return found
        pending.update(result for result in results(statement) if result and _has(view, function, result, place))
    return None


def _beyond(
    view: View, function: Function, statement: Statement, pending: set[str]
) -> tuple[Function, str, int | None] | None:
    """Another function in which a value is used: that function, its name there, the statement that gives it."""
    callee = _callee(view, statement)
    if isinstance(statement, Call) and callee is not None:
        given = zip(statement.args, callee.params, strict=False)
        name = next((param.name for arg, param in given if isinstance(arg, str) and arg in pending), None)
        return None if name is None else (callee, name, None)
    occurrence = view.shown(function.name) if isinstance(statement, Return) else None
    if occurrence is None or occurrence.caller is None or not view.is_current:
        return None
    caller, index = occurrence.caller
    given = zip(function.returned, results(caller.body[index]), strict=False)
    name = next((result for value, result in given if isinstance(value, str) and value in pending), None)
    return None if not name else (caller, name, index)


def _is_along(collective: Apply, axis: str) -> bool:
    stated = collective.attrs.get("axis")
    return axis in stated if isinstance(stated, tuple) else stated == axis


# ---- marks in the text


@dataclass(frozen=True, slots=True)
class PlacementMarks:
    """What an editor marks in a program on a mesh: collectives that communicate, and names of what is pending."""

    resharding: tuple[Span, ...]
    pending: tuple[Span, ...]


def marks(view: View) -> PlacementMarks:
    """The marks of a text, in its order; none without a mesh."""
    if not view.facts.meshes:
        return PlacementMarks((), ())
    found = tuple(span for span, _, _ in reshardings(view.document))
    return PlacementMarks(found, tuple(_pending_names(view)))


def reshardings(document: Document) -> Iterator[tuple[Span, str, int]]:
    """The collectives that communicate, in the order of the text: where each is, its function and its number there."""
    program = document.program
    for written in program.syntax.functions if facts(document).meshes else ():
        for index, statement in enumerate(written.function.body):
            if reshards(statement):
                yield written.statement(index), written.function.name, index
            elif isinstance(statement, Call) and statement.function in program.syntax.counted:
                inner = repeated(program.syntax, written, index)
                yield from ((one.span, written.function.name, index) for one in inner if reshards(one.statement))


def reshards(statement: Statement) -> bool:
    """Whether a statement is a collective that communicates to change a placement."""
    return isinstance(statement, Apply) and statement.op in COLLECTIVES and statement.op not in FREE


_VALUE = re.compile(rf"%((?:{NAME})?(?:\{{[0-9.]+\}})?(?:{NAME})?)")


def _pending_names(view: View) -> Iterator[Span]:
    """Each place that names a pending value."""
    program = view.document.program
    for written in program.syntax.functions:
        if program.module.functions.get(written.function.name) is not written.function:
            continue  # a second function of that name
        is_pending: dict[str, bool] = {}
        for match in _VALUE.finditer(program.source.text, written.span.start, written.span.end):
            name = match[1]
            if any(start <= match.start() < end for start, end in written.comments):
                continue
            if name not in is_pending:
                is_pending[name] = _is_pending(type_of(view.value(written.function.name, first_name(name))))
            if is_pending[name]:
                yield Span(*match.span())


def _is_pending(found: Type) -> bool:
    tensors = (leaf for leaf in types.leaves(found) if isinstance(leaf, TensorType))
    return any(isinstance(place, PendingAlong) for tensor in tensors for place in tensor.places)
