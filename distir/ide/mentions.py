"""The words of a text and their occurrences: values within their function, functions and ops in the whole text.

Searched in the text on request, one name at a time; works in text that does not parse. Words in comments and
strings do not count.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from distir.diagnostics import Span
from distir.ir import Apply, Call, results
from distir.syntax import FunctionSyntax, Syntax
from distir.syntax.locate import words_of
from distir.syntax.ranges import RANGE, first_name, means
from distir.syntax.statements import words
from distir.syntax.tokens import FUNCTION, IDENT, ON, VALUE, spans


class WordKind(Enum):
    """The kind of thing that a word names."""

    VALUE = "value"
    FUNCTION = "function"
    OP = "op"
    ATTRIBUTE = "attribute"
    STREAM = "stream"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a statement or head; `kind` as in `syntax.tokens`."""

    text: str
    kind: str
    span: Span


@dataclass(frozen=True, slots=True)
class TokenizedPiece:
    """A statement, or a function's head where `index` is None, in tokens."""

    function: FunctionSyntax
    index: int | None
    tokens: tuple[Token, ...]

    @property
    def callee(self) -> int:
        """The number of the token that names the op or function: the first after the results."""
        return callee_number((token.text, token.kind) for token in self.tokens)


@dataclass(frozen=True, slots=True)
class Word:
    """A token that names something; `name` is without `%` and `@`."""

    kind: WordKind
    name: str
    span: Span
    piece: TokenizedPiece

    @property
    def before(self) -> int:
        """Of a value: the statement that uses it; of a result, the one after that which makes it.

        What is defined from there on is another value, even if it has that name.
        """
        index = self.piece.index
        return 0 if index is None else index + _is_result(self.piece, self.name, self.span)


@dataclass(frozen=True, slots=True)
class Mention:
    """An occurrence of a name. `index`: the statement, None for a function's head."""

    span: Span
    defines: bool
    function: FunctionSyntax
    index: int | None


def callee_number(tokens: Iterable[tuple[str, str]]) -> int:
    """Of a statement's tokens, each with its kind: the number of the one that names the op or function."""
    depth = 0
    for number, (text, kind) in enumerate(tokens):
        depth += (text in ("[", "(")) - (text in ("]", ")"))
        if text == "=" and not depth:
            return number + 1
        if kind == IDENT and not depth and number == 0:
            break  # no results
    return 0


def piece_at(syntax: Syntax, offset: int) -> TokenizedPiece | None:
    """The statement or head at an offset; None between them and in comments."""
    function = syntax.function_at(offset)
    if function is None or in_comment(function.comments, offset):
        return None
    if offset <= function.head.end:
        return piece(syntax, function, None)
    index = function.statement_at(offset)
    return None if index is None else piece(syntax, function, index)


def piece(syntax: Syntax, function: FunctionSyntax, index: int | None) -> TokenizedPiece:
    """A statement of a function, or its head."""
    whole = function.head if index is None else function.statement(index)
    return TokenizedPiece(function, index, _tokens(words_of(syntax.source, function, whole).text, whole.start))


@lru_cache(maxsize=2)
def _tokens(text: str, start: int) -> tuple[Token, ...]:
    """Cached: a statement that mentions a value n times is asked for n times."""
    found = words(text)
    placed = zip(found.tokens, found.kinds, spans(text), strict=True)
    return tuple(Token(said, kind, Span(start + a, start + b)) for said, kind, (a, b) in placed)


def word_at(syntax: Syntax, offset: int) -> Word | None:
    """The word around, or directly before, an offset."""
    found = piece_at(syntax, offset)
    if found is None:
        return None
    touching = [i for i, t in enumerate(found.tokens) if t.span.start <= offset <= t.span.end]
    for number in reversed(touching):  # of two, the one that begins here
        token = found.tokens[number]
        if token.kind in (VALUE, FUNCTION, IDENT):
            return Word(_kind(found, number), first_name(token.text.lstrip("%@")), token.span, found)
    return None


def values_mentioned(syntax: Syntax, function: FunctionSyntax, name: str) -> list[Mention]:
    """The occurrences of a value in a function, in the order of the text."""
    return list(_mentions(syntax, "%", name, function.span, function))


def last_mentioned(syntax: Syntax, function: FunctionSyntax, name: str) -> int | None:
    """The last statement that mentions a value, including its definition; None if it does not occur."""
    found = _mentions(syntax, "%", name, function.span, function, backwards=True)
    return next((m.index for m in found), None)


def mentions_in(syntax: Syntax, function: FunctionSyntax, name: str, index: int) -> int:
    """How often a statement mentions a value, its definition included."""
    return sum(1 for _ in _mentions(syntax, "%", name, function.statement(index), function))


def functions_mentioned(syntax: Syntax, name: str) -> list[Mention]:
    """The occurrences of a function's name in the text: its heads and calls."""
    return list(_mentions(syntax, "@", name, Span(0, len(syntax.source.text)), None))


def ops_mentioned(syntax: Syntax, name: str) -> list[Mention]:
    """The statements that apply an op, where they name it."""
    found = _mentions(syntax, "", name, Span(0, len(syntax.source.text)), None)
    return [m for m in found if m.index is not None and _is_callee(syntax, m)]


def streams_mentioned(syntax: Syntax, name: str) -> list[Mention]:
    """The statements that run on a stream, where they name it: a stream is the same in all functions."""
    found: list[Mention] = []
    for written in syntax.functions:
        for index, statement in enumerate(written.function.body):
            if isinstance(statement, (Apply, Call)) and statement.stream == name != "":
                found += [Mention(t.span, False, written, index) for t in _stream(piece(syntax, written, index))]
    return found


def _stream(found: TokenizedPiece) -> tuple[Token, ...]:
    """The token that names a statement's stream, if one does."""
    number = next((i for i, token in enumerate(found.tokens) if token.kind == ON), len(found.tokens))
    return found.tokens[number + 1 : number + 2]


def in_comment(comments: tuple[tuple[int, int], ...], offset: int) -> bool:
    """Whether an offset is in one of the comments, in their order; directly behind one it does not."""
    index = bisect.bisect_right(comments, offset, key=lambda comment: comment[0]) - 1
    return index >= 0 and offset < comments[index][1]


def _mentions(
    syntax: Syntax, sigil: str, name: str, within: Span, function: FunctionSyntax | None, backwards: bool = False
) -> Iterator[Mention]:
    text, word = syntax.source.text, f"{sigil}{name}"
    for at, behind in _places(text, word, within, backwards):
        home = function or syntax.function_at(at)
        if home is None or in_comment(home.comments, at) or (sigil == "@" and text[at - 1 : at] in _DIMENSION_ENDS):
            continue
        index = None if at < home.head.end else home.statement_at(at)
        if index is None and at >= home.head.end:
            continue
        span = Span(at, behind)
        whole = home.head if index is None else home.statement(index)
        if text.find('"', whole.start, whole.end) >= 0 and not _is_token(syntax, home, index, span):
            continue
        yield Mention(span, _defines(syntax, sigil, name, home, index, span), home, index)


_DIMENSION_ENDS = frozenset(")?")
"""Behind these `@name` is an axis of a mesh; behind letters and digits no word begins."""

_GOES_ON = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_LEADS_ON = _GOES_ON | {"%", "@"}


def _places(text: str, word: str, within: Span, backwards: bool) -> Iterator[tuple[int, int]]:
    """The occurrences of a whole word, and of ranges that mean it: where each starts and ends.

    Plain search is many times faster than a regular expression.
    """
    if word.startswith("%") and (ranged := _ranges(text, word[1:], within)):
        plain = ((at, at + len(word)) for at in _plain_places(text, word, within, backwards=False))
        yield from sorted([*ranged, *plain], reverse=backwards)
        return
    yield from ((at, at + len(word)) for at in _plain_places(text, word, within, backwards))


def _ranges(text: str, name: str, within: Span) -> list[tuple[int, int]]:
    """The ranges that mean a value, too, and where they are."""
    found = _all_ranges(text)
    first = bisect.bisect_left(found, (within.start,))
    last = bisect.bisect_left(found, (within.end,))
    return [(start, end) for start, end, written in found[first:last] if means(written, name)]


@lru_cache(maxsize=4)
def _all_ranges(text: str) -> tuple[tuple[int, int, str], ...]:
    """Where each range of a text starts and ends, and what is written behind its `%`. A text is asked about often."""
    if text.find("..") < 0:
        return ()
    found: list[tuple[int, int, str]] = []
    for match in RANGE.finditer(text):
        start, end = match.span()
        while start and text[start - 1] in _GOES_ON:
            start -= 1
        while end < len(text) and text[end] in _GOES_ON:
            end += 1
        if start and text[start - 1] == "%":
            found.append((start - 1, end, text[start:end]))
    return tuple(found)


def _plain_places(text: str, word: str, within: Span, backwards: bool) -> Iterator[int]:
    start, end = within.start, within.end
    while word:
        at = text.rfind(word, start, end) if backwards else text.find(word, start, end)
        if at < 0:
            return
        behind = at + len(word)
        if (at == 0 or text[at - 1] not in _LEADS_ON) and (behind >= len(text) or text[behind] not in _GOES_ON):
            yield at
        if backwards:
            end = behind - 1
        else:
            start = at + 1


def _is_token(syntax: Syntax, function: FunctionSyntax, index: int | None, span: Span) -> bool:
    return any(token.span == span for token in piece(syntax, function, index).tokens)


def _defines(syntax: Syntax, sigil: str, name: str, function: FunctionSyntax, index: int | None, span: Span) -> bool:
    if index is None:
        return sigil == "%" or span == function.name
    if sigil != "%" or name not in results(function.function.body[index]):
        return False
    return _is_result(piece(syntax, function, index), name, span)


def _is_result(found: TokenizedPiece, name: str, span: Span) -> bool:
    """Whether a value that is in a statement is one that the statement makes."""
    if found.index is None or name not in results(found.function.function.body[found.index]):
        return False
    callee = found.callee
    return callee >= len(found.tokens) or span.start < found.tokens[callee].span.start


def _is_callee(syntax: Syntax, mention: Mention) -> bool:
    found = piece(syntax, mention.function, mention.index)
    return found.callee < len(found.tokens) and found.tokens[found.callee].span == mention.span


def _kind(found: TokenizedPiece, number: int) -> WordKind:
    token = found.tokens[number]
    if token.kind == VALUE:
        return WordKind.VALUE
    if token.kind == FUNCTION:
        return WordKind.FUNCTION
    if found.index is not None and number == found.callee:
        return WordKind.OP
    if number and found.tokens[number - 1].kind == ON:
        return WordKind.STREAM
    following = found.tokens[number + 1].text if number + 1 < len(found.tokens) else ""
    if found.index is not None and number > found.callee and following == "=":
        return WordKind.ATTRIBUTE
    return WordKind.OTHER
