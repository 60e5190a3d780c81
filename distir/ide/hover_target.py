"""Finds the target at an offset: a value, an op, a function, an attribute, a named dimension. Lexical only."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from distir.diagnostics import Span
from distir.ide.mentions import callee_number
from distir.ide.repeated import EachTime, repeated_at
from distir.ir import Apply, Call, Statement, results
from distir.ir.facts import FACTS, PHASES
from distir.syntax import FunctionSyntax, Syntax
from distir.syntax.locate import words_of
from distir.syntax.ranges import first_name
from distir.syntax.statements import Words
from distir.syntax.tokens import AXIS, FUNCTION, IDENT, INT, KERNEL, ON, VALUE, spans

TargetKind = Literal["value", "function", "op", "attribute", "stream", "mark", "fact", "device", "axis", "word"]


@dataclass(frozen=True, slots=True)
class Target:
    """A word and its meaning there.

    `name`: without `%` and `@`, of a device its number; `index`: the statement, None in a function's head. `before`: of
    a value, the statement that uses it, or for a result the one after that which makes it.
    """

    kind: TargetKind
    name: str
    span: Span
    written: FunctionSyntax
    index: int | None
    before: int = 0
    repeated: EachTime | None = None
    """Of an op or an attribute in a counted statement: what is done each time."""


def target_at(syntax: Syntax, offset: int) -> Target | None:
    """The target at an offset, or ending there; None between words and in comments."""
    written = syntax.function_at(offset)
    if written is None or _in_comment(written, offset):
        return None
    index = written.statement_at(offset)
    whole = written.statement(index) if index is not None else _line(syntax, written.head, offset)
    if not whole.start <= offset <= whole.end:
        return None
    piece = words_of(syntax.source, written, whole)
    number, span = _word(piece, offset - whole.start)
    if number is None:
        return None
    statement = written.function.body[index] if index is not None and index < len(written.function.body) else None
    inner = repeated_at(syntax, written, index, offset) if index is not None and isinstance(statement, Call) else None
    kind = _kind(piece, number, statement if inner is None else inner.statement, index is None)
    token = piece.tokens[number]
    place = Span(whole.start + span[0], whole.start + span[1])
    if kind not in ("value", "function", "device"):
        return Target(kind, token, place, written, index, repeated=inner)
    if kind == "device":
        return Target(kind, token.lstrip("D"), place, written, index)
    name = first_name(token.lstrip("%@"))
    return Target(kind, name, place, written, index, _before(piece, number, name, written, index))


def _before(piece: Words, number: int, name: str, written: FunctionSyntax, index: int | None) -> int:
    if index is None:
        return 0
    is_result = name in results(written.function.body[index])
    return index + (is_result and number < callee_number(zip(piece.tokens, piece.kinds, strict=True)))


def _line(syntax: Syntax, head: Span, offset: int) -> Span:
    """The line of a head that an offset is in: heads may be long, and no word of one goes over lines."""
    text = syntax.source.text
    end = text.find("\n", offset, head.end)
    return Span(max(head.start, text.rfind("\n", 0, offset) + 1), head.end if end < 0 else end)


def _in_comment(written: FunctionSyntax, offset: int) -> bool:
    found = bisect_right(written.comments, offset, key=lambda comment: comment[0]) - 1
    return found >= 0 and offset < written.comments[found][1]


def _word(piece: Words, offset: int) -> tuple[int | None, tuple[int, int]]:
    """The word that an offset is in, or else the one that ends there, if it is no punctuation."""
    ended: tuple[int | None, tuple[int, int]] = (None, (0, 0))
    for number, span in enumerate(spans(piece.text)):
        if span[0] > offset:
            break
        if offset <= span[1] and piece.kinds[number] in (VALUE, FUNCTION, AXIS, IDENT, INT):
            if offset < span[1]:
                return number, span
            ended = number, span
    return ended


def _kind(piece: Words, number: int, statement: Statement | None, is_head: bool) -> TargetKind:
    match piece.kinds[number]:
        case "VALUE":
            return "value"
        case "FUNCTION":
            return "function"
        case "AXIS":
            return "axis"
        case _:
            pass
    if _is_device(piece, number):
        return "device"
    if number and piece.kinds[number - 1] == ON:
        return "stream"
    if _is_fact(piece, number, is_head):
        return "mark" if piece.tokens[number] == KERNEL else "fact"
    following = piece.kinds[number + 1] if number + 1 < len(piece.kinds) else ""
    is_argument = "(" in piece.kinds[:number] or "[" in piece.kinds[:number]
    if isinstance(statement, Apply):
        if piece.tokens[number] == statement.op and following in ("(", "[") and _after_equals(piece, number):
            return "op"
        if following == "=" and is_argument:
            return "attribute"
    return "word"


def _is_device(piece: Words, number: int) -> bool:
    """Whether a word names a device: `2` in `Tensor[t, s, 2]`, `Float32[2]` and `device = 2`, or `D2` as a type."""
    tokens, before = piece.tokens, piece.tokens[number - 1] if number else ""
    if piece.kinds[number] == IDENT:
        return before == ":" and _DEVICE.fullmatch(tokens[number]) is not None
    if piece.kinds[number] != INT or number + 1 >= len(tokens):
        return False
    if before == "=":
        return number > 1 and tokens[number - 2] == "device"
    opening, commas = _bracket(tokens, number)
    if tokens[number + 1] != "]" or opening < 2 or tokens[opening] != "[":
        return False
    is_type = tokens[opening - 2] in (":", "->", "[", "(", ",") and tokens[opening - 1] != tokens[opening - 2]
    return is_type and commas == (2 if tokens[opening - 1] == "Tensor" else 0)


_DEVICE = re.compile(r"D\d+")


def _bracket(tokens: Sequence[str], number: int) -> tuple[int, int]:
    """The bracket that a word is in directly, and how many of its commas stand before the word."""
    depth = commas = 0
    for place in range(number - 1, -1, -1):
        if tokens[place] in (")", "]", "}"):
            depth += 1
        elif tokens[place] in ("(", "[", "{"):
            if not depth:
                return place, commas
            depth -= 1
        elif tokens[place] == "," and not depth:
            commas += 1
    return -1, commas


def _is_fact(piece: Words, number: int, is_head: bool) -> bool:
    """Whether a word says what a statement is for, in braces behind it, or a function, behind the rest of its head."""
    if piece.tokens[number] not in (KERNEL, *PHASES, *FACTS):
        return False
    opening, _ = _bracket(piece.tokens, number)
    if not is_head:
        return opening > 0 and piece.tokens[opening] == "{"
    before = piece.tokens[number - 1] if number else ""
    return opening < 0 and ")" in piece.tokens[:number] and before in (")", "]", ",")


def _after_equals(piece: Words, number: int) -> bool:
    """Whether a word is the first of its statement or follows the `=` that ends the results."""
    return number == 0 or piece.kinds[number - 1] == "="
