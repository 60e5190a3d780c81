"""Where names lead: definitions, references, highlights, and the op that fixed a value's shape."""

from __future__ import annotations

from dataclasses import dataclass

from distir.analysis import Instance
from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ide.hover_dims import Definitions
from distir.ide.instances import called, facts
from distir.ide.mentions import (
    Kind,
    Mention,
    Word,
    functions_mentioned,
    ops_mentioned,
    values_mentioned,
    word_at,
)
from distir.ir import Apply, Call, Part, Shape, Site, TensorType, TupleType, Type
from distir.ops import OPS, Op, type_of
from distir.ops.signature import AnyPattern, Broadcast, Segment, TensorPattern


@dataclass(frozen=True, slots=True)
class Highlight:
    """A place where the word under the cursor stands; `writes` where it is defined."""

    span: Span
    writes: bool


def definition(document: Document, offset: int) -> list[Span]:
    """Where the value or function under the cursor is defined; nowhere for other words."""
    return [m.span for m in _mentioned(document, offset) if m.defines]


def references(document: Document, offset: int, with_definition: bool = True) -> list[Span]:
    """Every place that names the value, function or op under the cursor, in the order of the text."""
    return [m.span for m in _mentioned(document, offset) if with_definition or not m.defines]


def highlights(document: Document, offset: int) -> list[Highlight]:
    """The places to mark while the cursor stands on a name."""
    return [Highlight(m.span, m.defines) for m in _mentioned(document, offset)]


def type_definition(document: Document, offset: int) -> list[Span]:
    """Where the shape of the value under the cursor was fixed: an op, a parameter's type, or an annotation.

    Ops that hand the shape of an operand on unchanged (`Relu`, `Send`, a broadcast that it survives) are passed, into
    the functions that are called and out of them again.
    """
    word = word_at(document.program.syntax, offset)
    if word is None or word.kind is not Kind.VALUE:
        return []
    site = shape_origin(document, word.piece.function.function.name, word.name, word.piece.index)
    span = None if site is None else document.program.syntax.source_map(site)
    return [] if span is None else [span]


def shape_origin(document: Document, function: str, value: str, used: int | None = None) -> Site | None:
    """The place that fixed the shape of a value of a function; None where the value has no tensor's type.

    `used`: a statement that names the value.
    """
    domain = document.program.analysis.domain
    shown = document.shown.get(function)
    instance = shown.instance if shown is not None else domain.own.get(function)
    if instance is None:
        return None
    callers: list[tuple[Instance, Call]] = []
    definitions = facts(document).remembered(Definitions)
    name = value
    while True:
        shape = _shape(type_of(instance.state[name]))
        index = definitions(instance.function, name, used)
        if index is None:
            if not callers:
                return _parameter(instance, name)
            params = instance.function.params
            instance, call = callers.pop()
            position = next((i for i, p in enumerate(params) if p.name == name), None)
            if position is None:  # a value that nothing defines
                return None
            argument = call.args[position]
            if not isinstance(argument, str):
                return Site(instance.function.name, instance.function.body.index(call), Part("operand", position))
            name, used = argument, None
            continue
        statement = instance.function.body[index]
        passed: str | None = None
        callee = called(domain, instance, statement) if isinstance(statement, Call) else None
        if isinstance(statement, Call) and callee is not None:
            place = statement.results.index(name)
            returned = callee.function.returned
            if place < len(returned) and isinstance(inside := returned[place], str):
                callers.append((instance, statement))
                instance, name, used = callee, inside, len(callee.function.body) - 1
                continue
        elif isinstance(statement, Apply) and shape is not None:
            passed = _handed_on(statement, statement.results.index(name), instance, shape)
        if passed is None:
            return Site(instance.function.name, index, Part("callee"))
        name, used = passed, index


def _mentioned(document: Document, offset: int) -> list[Mention]:
    syntax = document.program.syntax
    word = word_at(syntax, offset)
    return [] if word is None else mentions(document, word)


def mentions(document: Document, word: Word) -> list[Mention]:
    """Every place that names what a word names; none for words that name nothing of the program."""
    syntax = document.program.syntax
    match word.kind:
        case Kind.VALUE:
            return values_mentioned(syntax, word.piece.function, word.name)
        case Kind.FUNCTION:
            return functions_mentioned(syntax, word.name)
        case Kind.OP:
            return ops_mentioned(syntax, word.name)
        case _:
            return []


def _parameter(instance: Instance, name: str) -> Site | None:
    position = next((i for i, p in enumerate(instance.function.params) if p.name == name), None)
    return None if position is None else Site(instance.function.name, None, Part("param_type", position))


def _handed_on(statement: Apply, result: int, instance: Instance, shape: Shape) -> str | None:
    """The operand whose shape the op hands on to a result, by its signature; None if it makes the shape."""
    if statement.op not in OPS:
        return None
    op = OPS[statement.op]
    for position, arg in enumerate(statement.args):
        is_like = isinstance(arg, str) and arg and _shape(type_of(instance.state[arg])) == shape
        if is_like and _same_term(op, position, result):
            return str(arg)
    return None


def _same_term(op: Op, position: int, result: int) -> bool:
    """Whether the signature gives a result the dimensions of an operand, whatever these are."""
    for signature in op.signatures:
        operand = signature.operands[min(position, len(signature.operands) - 1)].pattern
        given = signature.results[min(result, len(signature.results) - 1)].pattern
        if isinstance(operand, AnyPattern) and operand == given:
            return True
        if isinstance(operand, TensorPattern) and isinstance(given, TensorPattern) and operand.shape == given.shape:
            return bool(operand.shape) and all(isinstance(t, (Segment, Broadcast)) for t in operand.shape or ())
    return False


def _shape(type: Type) -> Shape | None:
    if isinstance(type, TupleType):
        return None
    return type.shape if isinstance(type, TensorType) else None
