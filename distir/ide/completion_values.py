"""The values that can be written at the cursor: all that are in scope, those that fit before those that do not.

A value that fits but for its device is offered with the `Send` that brings it to where the others are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from distir.analysis.repairs import moved_to
from distir.diagnostics import Span
from distir.ide.completion_items import Completion, CompletionKind, Completions
from distir.ide.context import CursorContext, PartialOperation
from distir.ide.document import Document
from distir.ide.edits import Edit, line_end
from distir.ide.instances import View
from distir.ide.operands import fits, fits_call, is_host, values_of
from distir.ide.sends import name_there, send, sent_before
from distir.ir import UNKNOWN, Function, names, operands, results, types
from distir.ir.builder import FunctionBuilder, namer
from distir.ops import OPS, Value, type_of
from distir.syntax import print_statement
from distir.syntax.printing import INDENT

MOST = 200
"""How many values are offered at once; more letters of the name find the others."""

MOST_LOOKED_AT = 20_000
"""At most this many values are tried for those whose type fits."""

LATELY = 2_000
"""In how many statements before a use of a value is looked for; values made before these count as used."""


class _Fit(IntEnum):
    """How well a value fits; the better ones come first."""

    AS_IT_IS = 0
    ONCE_SENT = 1
    NOT_AT_ALL = 2


@dataclass(frozen=True, slots=True)
class _Verdict:
    """How a value fits, and the device that it would have to be on."""

    fit: _Fit
    device: int | None = None


def values(view: View, context: CursorContext) -> Completions:
    """The values defined before the statement: by fit, then those not used yet, then those made last.

    Types are those of the call shown. The text alone decides what is sent: the `Send` is there in all calls.
    """
    assert context.function is not None
    function, operation = context.function.function, context.operation
    stated = View(view.document, None)
    in_call, in_text = view.values(function.name), stated.values(function.name)
    known = [values_of(each, function.name, operation.args if operation else ()) for each in (view, stated)]
    typed = context.typed.removeprefix("%").casefold()
    found: dict[_Fit, list[tuple[str, int, tuple[Value, Value]]]] = {fit: [] for fit in _Fit}
    verdicts: dict[tuple[Value, Value], _Verdict] = {}
    matching = ((name, at) for name, at in _defined(function, context.index) if typed in name.casefold())
    total = 0
    for name, at in matching:
        total += 1
        value = in_call(name), in_text(name)
        if value not in verdicts:
            verdicts[value] = _verdict(view.document, operation, known, value)
        alike = found[verdicts[value].fit]
        if len(alike) < MOST:
            alike.append((name, at, value))
        elif verdicts[value].fit is _Fit.AS_IT_IS or total > MOST_LOOKED_AT:
            break
    taken = set(names(operation.args)) if operation is not None else set[str]()
    lately = max(0, min(context.index, len(function.body)) - LATELY)
    used = _used(function, context.index, lately)
    ranked = [
        entry
        for fit in _Fit
        for entry in sorted(found[fit], key=lambda e: (e[0] in taken, e[0] in used or 0 <= e[1] < lately, -e[1]))
    ]
    writer = _Writer(view.document, context)
    items = tuple(writer.item(name, value[0], verdicts[value]) for name, _, value in ranked[:MOST])
    return Completions(context.word, items, complete=total <= MOST)


def _defined(function: Function, index: int) -> Iterator[tuple[str, int]]:
    """The values that a statement may use, and where they are made: the nearest first, parameters (-1) last."""
    seen: set[str] = set()
    for at in range(min(index, len(function.body)) - 1, -2, -1):
        made = results(function.body[at]) if at >= 0 else tuple(p.name for p in function.params)
        for name in reversed(made):
            if name and name not in seen:
                seen.add(name)
                yield name, at


def _used(function: Function, index: int, first: int) -> set[str]:
    """The values that statements use from number `first` on, the one at `index` apart."""
    statements = enumerate(function.body[first : index + LATELY], first)
    return {name for at, statement in statements if at != index for name in names(operands(statement))}


# ---- what fits


def _verdict(
    document: Document, operation: PartialOperation | None, known: Sequence[Sequence[Value]], value: tuple[Value, Value]
) -> _Verdict:
    """How a value fits. `known`: the operands; they and the value first in the call shown, then in the text alone."""
    if _fits(document, operation, known[0], value[0]):
        return _Verdict(_Fit.AS_IT_IS)
    here = types.devices(type_of(value[1]))
    for device in _wanted(document, operation, known[1]) if here else ():
        if here != frozenset((device,)) and _fits(document, operation, known[1], moved_to(value[1], device)):
            return _Verdict(_Fit.ONCE_SENT, device)
    return _Verdict(_Fit.NOT_AT_ALL)


def _fits(document: Document, operation: PartialOperation | None, known: Sequence[Value], value: Value) -> bool:
    if operation is None:
        return True
    index = len(known)
    if operation.is_call:
        callee = document.program.module.functions.get(operation.callee)
        if callee is None:
            return True
        return index < len(callee.params) and fits_call(callee, known, index, value) and _is_near(callee, known, value)
    if operation.callee not in OPS:
        return True
    op = OPS[operation.callee]
    if op.variadic is None and index >= len(op.operands):
        return False
    return fits(op, operation.attrs, known, index, value)


def _wanted(document: Document, operation: PartialOperation | None, known: Sequence[Value]) -> list[int]:
    """The devices where the operand at the cursor may be needed: where the parameter is, or the other operands are."""
    found: dict[int, None] = {}
    if operation is not None and operation.is_call:
        callee = document.program.module.functions.get(operation.callee)
        if callee is not None and len(known) < len(callee.params):
            found |= dict.fromkeys(sorted(types.devices(callee.params[len(known)].type)))
    for other in known:
        found |= dict.fromkeys(sorted(types.devices(type_of(other))))
    return list(found)


def _is_near(callee: Function, known: Sequence[Value], value: Value) -> bool:
    """Whether a value is on the device of the other arguments, where the function itself names no device."""
    if any(types.devices(p.type) for p in callee.params) or is_host(value):
        return True
    here = {device for other in known for device in types.devices(type_of(other))}
    there = types.devices(type_of(value))
    return not here or not there or bool(here & there)


# ---- how it is written


class _Writer:
    """Writes the completions of one place."""

    def __init__(self, document: Document, context: CursorContext) -> None:
        assert context.function is not None
        self.context = context
        self.text = document.text
        self.function = context.function.function
        self._names: FunctionBuilder | None = None

    def item(self, name: str, value: Value, verdict: _Verdict) -> Completion:
        """The completion of a value, with the edits that send it to this device."""
        label, found = f"%{name}", type_of(value)
        detail = "" if found == UNKNOWN else str(found)
        match verdict:
            case _Verdict(_Fit.ONCE_SENT, device) if device is not None:
                sent = sent_before(self.function, self.context.index, name, device)
                if sent is not None:
                    detail = f"{detail}, on device {device} as %{sent}"
                    return Completion(label, CompletionKind.VALUE, f"%{sent}", detail)
                there, edit = self._sent(name, device)
                detail = f"{detail}, sent to device {device}"
                return Completion(label, CompletionKind.VALUE, f"%{there}", detail, edits=(edit,))
            case _Verdict(_Fit.NOT_AT_ALL):
                assert self.context.operation is not None
                detail = f"{detail}, does not fit `{self.context.operation.callee}`"
            case _:
                pass
        return Completion(label, CompletionKind.VALUE, label, detail)

    def _sent(self, name: str, device: int) -> tuple[str, Edit]:
        """A fresh name for a value on another device, and the edit that writes its `Send` on the line before."""
        if self._names is None:
            self._names = namer(self.function)
        there = self._names.fresh(name_there(name, device))
        start = self.context.start
        while start < len(self.text) and self.text[start] in " \t\f":
            start += 1
        line = max(self.text.rfind("\n", 0, start), self.text.rfind("\r", 0, start)) + 1
        indentation, end = self.text[line:start], line_end(self.text)
        statement = print_statement(send(name, device, there))
        if indentation.strip(" \t\f"):  # the statement follows something else on its line
            return there, Edit(Span(start, start), f"{end}{INDENT}{statement}{end}{INDENT}")
        return there, Edit(Span(line, line), f"{indentation or INDENT}{statement}{end}")
