"""The syntactic context of a cursor in an unfinished statement or head: what may follow, and what is there already.

Derived from the tokens before the cursor, so that it works in text that does not parse.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from distir.diagnostics import Span
from distir.ide.mentions import in_comment
from distir.ir import Apply, Arg, Constant, Literal
from distir.ir.literals import Attributes
from distir.ir.places import ZIGZAG
from distir.ops import OPS, canonical
from distir.syntax import FunctionSyntax, Syntax, SyntaxProblem, parse_literal, scan
from distir.syntax.grammar import Unexpected, shape
from distir.syntax.statements import words
from distir.syntax.tokens import AXIS, BAD, FUNCTION, IDENT, ON, VALUE, spans


class CursorRole(Enum):
    """The syntactic role of the cursor."""

    FUNCTION = "a function, outside of all functions"
    STATEMENT = "the beginning of a statement"
    CALLEE = "an op or a function"
    OPERAND = "an operand"
    ATTRIBUTE = "an attribute's name"
    ATTRIBUTE_VALUE = "an attribute's value"
    TYPE = "a type"
    DTYPE = "an element type"
    DEVICE = "a device"
    AXIS = "an axis of the mesh, along which a dimension is split"
    AXIS_IN_ZIGZAG = "an axis of the mesh, along which parts are in zig-zag"
    QUALITY = "what is pending in a tensor, or where it is"
    PARAM_ROLE = "a parameter's role"
    MARK = "what a function is, behind its head"
    RETURNED = "a value that is returned"
    BEHIND = "what may follow an op's or a call's operands"
    STREAM = "a stream"
    FACT = "a fact of a statement, in braces behind it"
    FACT_OF = "the parameter that a statement belongs to"
    NOTHING = "a new name, or nothing that can be known"


@dataclass(frozen=True, slots=True)
class PartialOperation:
    """A partially written op or call: operands and attributes before the cursor, and the operand at the cursor.

    In the attributes' brackets, the operands are those that follow these already.
    """

    callee: str
    is_call: bool
    args: tuple[Arg, ...]
    attrs: Attributes
    index: int


@dataclass(frozen=True, slots=True)
class CursorContext:
    """The context of a cursor. `word`: the start of the name or number at the cursor, `typed` its text.

    `index`: the statement that is being written, or the one that would follow; `start`: where it begins.
    """

    role: CursorRole
    word: Span
    typed: str
    function: FunctionSyntax | None = None
    index: int = 0
    operation: PartialOperation | None = None
    attribute: str | None = None
    start: int = 0


@dataclass(frozen=True, slots=True)
class _Open:
    """A bracket that is open at the cursor: its token's number, the token before it, where its last item begins."""

    number: int
    before: str
    item: int
    commas: int


def context_at(syntax: Syntax, offset: int) -> CursorContext:
    """The context at an offset. Never fails, for any text."""
    text = syntax.source.text
    nothing = CursorContext(CursorRole.NOTHING, Span(offset, offset), "")
    function = syntax.function_at(offset)
    comments = syntax.comments if function is None else function.comments
    if _is_commented(text, comments, offset):
        return nothing
    if function is None or (offset >= function.span.end and text[offset - 1] == "}"):
        start = offset
        while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
            start -= 1
        return CursorContext(CursorRole.FUNCTION, Span(start, offset), text[start:offset])
    start, index = _start(text, function, offset)
    inside = [c for c in comments if start <= c[0] < offset]
    piece = words(scan.blanked(scan.normalized(text)[:offset], start, offset, inside))
    tokens, kinds = piece.tokens, piece.kinds
    word = Span(offset, offset)
    is_quoted = bool(tokens) and tokens[-1].startswith('"') and start + len(piece.text) == offset
    if is_quoted and len(tokens[-1]) > 1 and tokens[-1].endswith('"'):
        return nothing  # behind a whole string
    if is_quoted or (tokens and start + len(piece.text) == offset and _is_word(tokens[-1], kinds[-1])):
        *_, (first, _) = spans(piece.text)
        word = Span(start + first, offset + (is_quoted and text[offset : offset + 1] == '"'))
        tokens, kinds = tokens[:-1], kinds[:-1]
    typed = text[word.start : word.end]
    found = CursorContext(CursorRole.NOTHING, word, typed, function, index, start=start)
    if index < 0:
        return _in_head(found, tokens, kinds)
    placed = _in_statement(found, tokens, kinds)
    if is_quoted and placed.role is not CursorRole.ATTRIBUTE_VALUE:
        return nothing
    operation = placed.operation
    if operation is None or operation.args or placed.role not in (CursorRole.ATTRIBUTE, CursorRole.ATTRIBUTE_VALUE):
        return placed
    behind = _behind(text, function, index, offset)
    return replace(placed, operation=replace(operation, args=behind)) if behind else placed


def _behind(text: str, function: FunctionSyntax, index: int, offset: int) -> tuple[Arg, ...]:
    """The operands after the attributes in which an offset is."""
    if index >= len(function.ends) or not function.starts[index] <= offset < function.ends[index]:
        return ()
    inside = [c for c in function.comments if offset <= c[0] < function.ends[index]]
    tokens = words(scan.blanked(scan.normalized(text), offset, function.ends[index], inside)).tokens
    at = next((i for i in range(1, len(tokens)) if tokens[i - 1] == "]" and tokens[i] == "("), None)
    if at is None:
        return ()
    items, _, _ = _items(tokens, at)
    return tuple(_argument(item) for item in items if item and item[1:2] != ["="])


def expected(rule: str, kinds: Sequence[str]) -> frozenset[str] | None:
    """The kinds of tokens that may follow others; None where these do not fit the grammar themselves."""
    outcome = shape(rule, (*kinds, BAD))
    return outcome.expected if isinstance(outcome, Unexpected) and outcome.index == len(kinds) else None


def _start(text: str, function: FunctionSyntax, offset: int) -> tuple[int, int]:
    """The start of the piece around an offset, and its statement's number; -1 for the head."""
    opens_later = not function.starts or "{" in text[offset : function.starts[0]]
    if offset <= function.head.end or (opens_later and "{" not in text[function.head.end : offset]):
        return function.span.start, -1
    index = bisect.bisect_right(function.starts, offset) - 1
    if index >= 0:
        start, end = function.starts[index], function.ends[index]
        if offset <= end or ("\n" not in text[end:offset] and "\r" not in text[end:offset]):
            return start, index
        inside = [c for c in function.comments if start <= c[0] < offset]
        if _depth(words(scan.blanked(text, start, offset, inside)).tokens) > 0:
            return start, index
    line = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset), function.head.end) + 1
    return min(line, offset), index + 1


def _in_statement(found: CursorContext, tokens: list[str], kinds: tuple[str, ...]) -> CursorContext:
    if not tokens:
        return _as(found, CursorRole.STATEMENT if found.typed[:1] not in ("%", "@") else CursorRole.NOTHING)
    if tokens[0] == "return":
        return _as(found, CursorRole.RETURNED if _takes("line", kinds, VALUE) else CursorRole.NOTHING)
    stack = _stack(tokens)
    equals = _equals(tokens)
    callee = equals + 1 if equals is not None else 0 if kinds[0] in (IDENT, FUNCTION) else None
    if callee is None:
        return _in_type(found, tokens, kinds, stack)
    if callee == len(tokens):
        return _as(found, CursorRole.CALLEE)
    outer = next((o for o in stack if o.number > callee), None)
    if outer is None:
        return _as(found, CursorRole.STREAM if kinds[-1] == ON else _behind_operands(kinds))
    operation = _operation(tokens, kinds, callee)
    if tokens[outer.number] == "{":
        return _as(found, _in_facts(tokens))
    if tokens[outer.number] == "[":
        return _in_attributes(found, tokens, stack, outer, operation)
    item = tokens[outer.item :]
    if len(item) >= 2 and item[1] == "=":
        return _attribute_value(found, operation, item[0])
    role = CursorRole.OPERAND if _takes("line", kinds, VALUE) else CursorRole.NOTHING
    return replace(found, role=role, operation=operation)


def _in_facts(tokens: list[str]) -> CursorRole:
    if tokens[-1] in ("{", ","):
        return CursorRole.FACT
    return CursorRole.FACT_OF if tokens[-2:] == ["of", "="] else CursorRole.NOTHING


def _behind_operands(kinds: tuple[str, ...]) -> CursorRole:
    may_follow = expected("line", kinds) or frozenset[str]()
    return CursorRole.BEHIND if ON in may_follow else CursorRole.NOTHING


def _in_attributes(
    found: CursorContext, tokens: list[str], stack: Sequence[_Open], outer: _Open, operation: PartialOperation
) -> CursorContext:
    item = tokens[outer.item :]
    if len(item) >= 2 and item[1] == "=":
        return _attribute_value(found, operation, item[0]) if len(item) == 2 or len(stack) > 1 else found
    return replace(found, role=CursorRole.ATTRIBUTE if not item else CursorRole.NOTHING, operation=operation)


def _attribute_value(found: CursorContext, operation: PartialOperation, name: str) -> CursorContext:
    return replace(found, role=CursorRole.ATTRIBUTE_VALUE, operation=operation, attribute=name)


def _in_head(found: CursorContext, tokens: list[str], kinds: tuple[str, ...]) -> CursorContext:
    stack = _stack(tokens)
    if stack and tokens[stack[-1].number] == "{":
        return _as(found, CursorRole.PARAM_ROLE if tokens[-1] in ("{", ",") else CursorRole.NOTHING)
    if not stack and IDENT in (expected("head", kinds) or ()):
        return _as(found, CursorRole.MARK)
    return _in_type(found, tokens, kinds, stack, "head")


def _in_type(
    found: CursorContext, tokens: list[str], kinds: tuple[str, ...], stack: Sequence[_Open], rule: str = "line"
) -> CursorContext:
    """In a type: after a `:` or `->`, or in the brackets of one."""
    may_follow = expected(rule, kinds)
    if may_follow is None:
        return found
    if "Tensor" in may_follow:
        return _as(found, CursorRole.TYPE)
    if AXIS in may_follow and found.typed.startswith("@"):
        return _as(found, CursorRole.AXIS)
    if stack and IDENT in may_follow and tokens[stack[-1].number] == "(" and stack[-1].before == "@":
        return _as(found, CursorRole.AXIS)
    if stack and IDENT in may_follow and stack[-1].before.removeprefix("@") == ZIGZAG:
        return _as(found, CursorRole.AXIS_IN_ZIGZAG)
    if stack and tokens[stack[-1].number] == "[":
        if stack[-1].before == "Tensor" and not stack[-1].commas and IDENT in may_follow:
            return _as(found, CursorRole.DTYPE)
        if "host" in may_follow:
            return _as(found, CursorRole.DEVICE)
        if stack[-1].before == "Tensor" and stack[-1].commas > 2 and IDENT in may_follow:
            return _as(found, CursorRole.QUALITY)
    return found


def _as(found: CursorContext, role: CursorRole) -> CursorContext:
    return replace(found, role=role)


def _takes(rule: str, kinds: Sequence[str], kind: str) -> bool:
    """Whether a kind of token may follow; True if the tokens so far do not parse."""
    may_follow = expected(rule, kinds)
    return may_follow is None or kind in may_follow


def _stack(tokens: Sequence[str]) -> list[_Open]:
    """The brackets that are open at the end, outermost first."""
    stack: list[_Open] = []
    for number, token in enumerate(tokens):
        if token in ("(", "[", "{"):
            stack.append(_Open(number, tokens[number - 1] if number else "", number + 1, 0))
        elif token in (")", "]", "}") and stack:
            stack.pop()
        elif token == "," and stack:
            last = stack[-1]
            stack[-1] = _Open(last.number, last.before, number + 1, last.commas + 1)
    return stack


def _equals(tokens: Sequence[str]) -> int | None:
    """The number of the `=` token after the results."""
    depth = 0
    for number, token in enumerate(tokens):
        depth += (token in ("[", "(")) - (token in ("]", ")"))
        if token == "=" and not depth:
            return number
    return None


def _depth(tokens: Sequence[str]) -> int:
    return len(_stack(tokens))


def _is_word(token: str, kind: str) -> bool:
    words = (VALUE, FUNCTION, AXIS, IDENT, "INT", "return", "func", "_")
    return kind in words or token in ("%", "@") or token.isalpha()


def _is_commented(text: str, comments: tuple[tuple[int, int], ...], offset: int) -> bool:
    """Whether what is typed at an offset becomes part of a comment."""
    if in_comment(comments, offset) and not any(start == offset for start, _ in comments):
        return True
    return any(end == offset and text.startswith("//", start) for start, end in comments)


# ---- what is written of an operation


def _operation(tokens: list[str], kinds: tuple[str, ...], callee: int) -> PartialOperation:
    """The op or call as far as it is written; the last item is the one at the cursor and does not count."""
    name = tokens[callee]
    is_call = kinds[callee] == FUNCTION
    args: list[Arg] = []
    attrs: dict[str, Constant] = {}
    at = callee + 1
    index = 0
    while at < len(tokens) and tokens[at] in ("[", "("):
        items, at, is_closed = _items(tokens, at)
        index = len(items) - 1
        for number, item in enumerate(items):
            if number == index and not is_closed:  # it is still being written
                args += _listed(name, item)
                break
            if len(item) > 2 and item[1] == "=":
                value = _constant(item[2:])
                attrs.update({} if value is None else {item[0]: value})
            elif item:
                args.append(_argument(item))
        index = len(args)
    given = Attributes(attrs)
    if not is_call:
        canonical_args, given = canonical(name, tuple(args), given)
        args = list(canonical_args)
    return PartialOperation(name.removeprefix("@"), is_call, tuple(args), given, index)


def _listed(name: str, item: list[str]) -> list[Arg]:
    """The finished operands of a list that is still being written, where the list is any number of them."""
    if item[:1] != ["["] or name not in OPS or OPS[name].variadic is None:
        return []
    inner, _, is_closed = _items(item, 0)
    return [] if is_closed else [_argument(part) for part in inner[:-1] if part]


def _items(tokens: list[str], opening: int) -> tuple[list[list[str]], int, bool]:
    """The items of a bracket, the number of the token after it, and whether it is closed."""
    items: list[list[str]] = [[]]
    depth = 0
    for number in range(opening + 1, len(tokens)):
        token = tokens[number]
        if token in (")", "]") and not depth:
            return (items if items != [[]] else []), number + 1, True
        if token == "," and not depth:
            items.append([])
            continue
        depth += (token in ("(", "[")) - (token in (")", "]"))
        items[-1].append(token)
    return items, len(tokens), False


def _argument(item: list[str]) -> Arg:
    if len(item) == 1 and item[0][0] == "%":
        return item[0][1:]
    if item[0] == "[" and any(token[0] == "%" for token in item):
        inner, _, _ = _items(item, 0)
        return tuple(_argument(part) for part in inner if part)
    value = _constant(item)
    return "" if value is None else Literal(value)


def _constant(item: list[str]) -> Constant | None:
    try:
        return parse_literal(" ".join(item))
    except SyntaxProblem:
        return None


def whole_operation(function: FunctionSyntax, index: int) -> Apply | None:
    """The op of a statement that can be read: what follows the cursor counts, too."""
    statement = function.function.body[index] if 0 <= index < len(function.function.body) else None
    return statement if isinstance(statement, Apply) else None
