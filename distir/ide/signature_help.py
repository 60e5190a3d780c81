"""Signature help for an op or function whose operands are being written, with the shapes known so far."""

from __future__ import annotations

from dataclasses import dataclass

from distir.analysis.parameters import parameters
from distir.diagnostics import Span
from distir.ide.context import CursorContext, CursorRole, PartialOperation, context_at, whole_operation
from distir.ide.document import Document
from distir.ide.instances import View
from distir.ide.operands import bindings_of, results_of, show_parameter, show_pattern, values_of
from distir.ir import UNKNOWN, Call, Constant, Dim, Function, Type
from distir.ops import OPS, REQUIRED, Op, Reject, Value, type_of
from distir.syntax import print_literal


@dataclass(frozen=True, slots=True)
class SignatureHelp:
    """A signature as it is shown. `parameters` are where attributes and operands are in `label`."""

    label: str
    parameters: tuple[Span, ...]
    active: int | None
    documentation: str


def signature_help(document: Document, offset: int, shown: View | None = None) -> SignatureHelp | None:
    """The signature of the op or function whose attributes or operands the cursor is in. `shown`: as it is shown."""
    view = (shown or View(document, None)).seen_from(offset)
    context = context_at(view.document.program.syntax, offset)
    if context.operation is None or context.function is None:
        return None
    operation = context.operation
    if operation.is_call:
        return _of_call(view, context, operation)
    return _of_op(view, context, operation, OPS[operation.callee]) if operation.callee in OPS else None


class _Label:
    """A label that grows, and where its parameters stand."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.parameters: list[Span] = []

    def add(self, parts: list[str], opening: str, closing: str) -> None:
        """Parameters with brackets around them."""
        self.text += opening
        for number, part in enumerate(parts):
            self.text += ", " if number else ""
            self.parameters.append(Span(len(self.text), len(self.text) + len(part)))
            self.text += part
        self.text += closing


def _of_op(view: View, context: CursorContext, operation: PartialOperation, op: Op) -> SignatureHelp:
    assert context.function is not None
    args, attrs = operation.args, operation.attrs
    whole = whole_operation(context.function, context.index)
    count = 1
    if whole is not None and whole.op == op.name:
        args, attrs, count = whole.args, whole.attrs, len(whole.results)
    known = values_of(view, context.function.function.name, args)
    signature, bindings = bindings_of(op, attrs, known)
    label = _Label(op.name)
    if op.attributes:
        label.add([f"{a.name}: {a.kind}{_default(a.default)}" for a in op.attributes.values()], "[", "]")
    operands: list[str] = []
    for number, operand in enumerate(op.operands):
        place = signature.operands[min(number, len(signature.operands) - 1)]
        found = known[number] if number < len(known) else UNKNOWN
        shown = show_pattern(place, bindings) if type_of(found) == UNKNOWN else str(type_of(found))
        star, optional = "*" if operand.variadic else "", "?" if operand.optional else ""
        operands.append(f"{star}{operand.name}{optional}: {shown}")
    label.add(operands, "(", ")")
    inferred = results_of(op, attrs, known, max(count, 1))
    results = [str(t) for t in inferred] if inferred is not None else []
    results = results or [f"{'*' if r.variadic else ''}{show_pattern(r, bindings)}" for r in signature.results]
    label.text += f" -> {', '.join(results)}"
    return SignatureHelp(label.text, tuple(label.parameters), _active(context, op), op.documentation)


def _active(context: CursorContext, op: Op) -> int | None:
    """The number of the parameter at the cursor: attributes are counted first."""
    operation = context.operation
    assert operation is not None
    if context.attribute is not None:
        name = op.aliases.get(context.attribute, context.attribute)
        return list(op.attributes).index(name) if name in op.attributes else None
    if context.role is CursorRole.ATTRIBUTE:
        return None
    index = len(operation.args) if op.variadic is None else min(len(operation.args), op.variadic)
    return len(op.attributes) + index if index < len(op.operands) else None


def _default(value: Constant | None) -> str:
    return "" if value is REQUIRED else " = none" if value is None else f" = {print_literal(value)}"


def _of_call(view: View, context: CursorContext, operation: PartialOperation) -> SignatureHelp | None:
    assert context.function is not None
    callee = view.document.program.module.functions.get(operation.callee)
    if callee is None:
        return None
    args = operation.args
    body = context.function.function.body
    whole = body[context.index] if 0 <= context.index < len(body) else None
    if isinstance(whole, Call) and whole.function == callee.name:
        args = whole.args
    known = values_of(view, context.function.function.name, args)
    sizes = _sizes(callee, known)
    label = _Label(f"@{callee.name}")
    label.add([f"%{p.name}: {_parameter(p.type, known, i, sizes)}" for i, p in enumerate(callee.params)], "(", ")")
    own = view.document.program.analysis.states.get(callee.name)
    returned = callee.result_types or (tuple(map(type_of, own.returned)) if own is not None else ())
    label.text += f" -> {', '.join(show_parameter(t, sizes) for t in returned)}" if returned else ""
    index = len(operation.args)
    return SignatureHelp(label.text, tuple(label.parameters), index if index < len(callee.params) else None, "")


def _parameter(stated: Type, known: list[Value], index: int, sizes: dict[str, Dim]) -> str:
    found = type_of(known[index]) if index < len(known) else UNKNOWN
    return show_parameter(stated, sizes) if found == UNKNOWN else str(found)


def _sizes(callee: Function, known: list[Value]) -> dict[str, Dim]:
    """The sizes of the callee's named dimensions, as far as its arguments determine them."""
    args: list[Value] = [*known, *(UNKNOWN for _ in callee.params[len(known) :])]
    try:
        _, found = parameters(callee, args[: len(callee.params)])
    except Reject:
        return {}
    return {name: dim for name, dim in found.items() if dim is not None}
