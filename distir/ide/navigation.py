"""Navigation: definitions, references, highlights, and the op that determined a value's shape."""

from __future__ import annotations

from dataclasses import dataclass

from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ide.instances import facts
from distir.ide.mentions import (
    Mention,
    Word,
    WordKind,
    functions_mentioned,
    ops_mentioned,
    streams_mentioned,
    values_mentioned,
    word_at,
)
from distir.ide.trail import Trail
from distir.ir import Apply, Call, Part, Shape, Site, TensorType, TupleType, Type
from distir.ops import OPS, Op, type_of
from distir.ops.signature import AnyPattern, Broadcast, Segment, TensorPattern
from distir.simulate.show import Occurrence


@dataclass(frozen=True, slots=True)
class Highlight:
    """A place where the word under the cursor stands; `writes` where it is defined."""

    span: Span
    writes: bool


def definition(document: Document, offset: int) -> list[Span]:
    """The definition of the value or function under the cursor; empty for other words."""
    return [m.span for m in _mentioned(document, offset) if m.defines]


def references(document: Document, offset: int, with_definition: bool = True) -> list[Span]:
    """Every place that names the value, function, op or stream under the cursor, in the order of the text."""
    return [m.span for m in _mentioned(document, offset) if with_definition or not m.defines]


def highlights(document: Document, offset: int) -> list[Highlight]:
    """The places to mark while the cursor is on a name."""
    return [Highlight(m.span, m.defines) for m in _mentioned(document, offset)]


LONGEST_TRAIL = 5_000
"""The search for what fixed a shape stops after this many ops and calls, with the best answer so far."""


def type_definition(document: Document, offset: int) -> list[Span]:
    """The origin of the shape of the value under the cursor: an op, a parameter's type, or an annotation.

    Ops that hand the shape of an operand on unchanged (`Relu`, `Send`, a broadcast that it survives) are passed, into
    the functions that are called and out of them again.
    """
    document = document.seen_from(offset)
    word = word_at(document.program.syntax, offset)
    if word is None or word.kind is not WordKind.VALUE:
        return []
    site = shape_origin(document, word.piece.function.function.name, word.name, word.before)
    span = None if site is None else document.program.syntax.source_map(site)
    return [] if span is None else [span]


def shape_origin(document: Document, function: str, value: str, before: int) -> Site | None:
    """The place that fixed the shape of a value of a function; None where the value has no tensor's type.

    `before`: the statement that uses the value.
    """
    own = document.program.analysis.domain.own.get(function)
    if own is None:
        return None
    shown = document.shown.get(function) if document.is_simulated else None
    trail = Trail(facts(document), shown or Occurrence(own, None, 0, None), value, before)
    while True:
        name = trail.function.name
        index = trail.definition
        if index is None:
            position = trail.parameter
            if position is None or not trail.entered:
                return None if position is None else Site(name, None, Part("param_type", position))
            caller, index = trail.entered.pop()
            call = caller.instance.function.body[index]
            assert isinstance(call, Call)
            argument = call.args[position]
            if not isinstance(argument, str):
                return Site(caller.instance.function.name, index, Part("operand", position))
            trail.leave(caller, index, argument)
            continue
        statement = trail.function.body[index]
        if trail.passed < LONGEST_TRAIL:
            if isinstance(statement, Call) and trail.enter(index):
                continue
            passed = _handed_on(statement, trail) if isinstance(statement, Apply) else None
            if passed is not None:
                trail.up(index, passed)
                continue
        return Site(name, index, Part("callee"))


def _mentioned(document: Document, offset: int) -> list[Mention]:
    syntax = document.program.syntax
    word = word_at(syntax, offset)
    return [] if word is None else mentions(document, word)


def mentions(document: Document, word: Word) -> list[Mention]:
    """Every place that names what a word names; none for words that name nothing of the program."""
    syntax = document.program.syntax
    match word.kind:
        case WordKind.VALUE:
            return values_mentioned(syntax, word.piece.function, word.name)
        case WordKind.FUNCTION:
            return functions_mentioned(syntax, word.name)
        case WordKind.OP:
            return ops_mentioned(syntax, word.name)
        case WordKind.STREAM:
            return streams_mentioned(syntax, word.name)
        case _:
            return []


def _handed_on(statement: Apply, trail: Trail) -> str | None:
    """The operand whose shape the op passes to a result, by its signature; None if it makes the shape."""
    state = trail.occurrence.instance.state
    shape = _shape(type_of(state[trail.name]))
    if statement.op not in OPS or shape is None:
        return None
    op, result = OPS[statement.op], statement.results.index(trail.name)
    for position, arg in enumerate(statement.args):
        is_like = isinstance(arg, str) and arg and _shape(type_of(state[arg])) == shape
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
