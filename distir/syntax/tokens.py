"""Tokens: how a text is cut into words, what kind each is, and what people call it.

The same tokens as in `dir.lark` (a test compares them), found by one regular expression, because the speed of the
parser is the speed of this. Knows nothing of what the words mean.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

NAME = r"[A-Za-z0-9_.\-]+"

TOKEN = re.compile(
    rf"""%(?:{NAME})?\{{[0-9]+\.\.[0-9]+(?:\.\.[0-9]+)?\}}(?:{NAME})? | [%@]{NAME}
    | [A-Za-z_][A-Za-z0-9_]*
    | [0-9]+\.\.[0-9]+(?:\.\.[0-9]+)?
    | [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+(?:[eE][+-]?[0-9]+)?
    | "[^"\\\n]*(?:\\.[^"\\\n]*)*" | "[^\n]*
    | \[[0-9eE+\-.,\sinfa]{{256,}}\]
    | -> | \?\? | \.\.\.
    | [^ \t\f\n]""",
    re.VERBOSE,
)
"""One token; white space is what lies between. Unknown characters and unclosed strings are tokens of kind `BAD`."""

TUPLE = "Tuple"
KEYWORDS = frozenset(
    ["func", "return", "Tensor", TUPLE, "host", "inf", "nan", "true", "false", "dense", "external", "_"]
)
KERNEL = "kernel"
"""What marks a function as one kernel, behind its head. Not reserved: elsewhere it is a name."""
STREAM_WORD = "on"
"""What a stream's name follows, behind a statement's operands. Not reserved either."""
TIMES_WORD = "times"
"""What follows the number of calls of a counted call. Not reserved either."""
REPEAT_WORD = "repeat"
"""What begins statements that are done several times. Not reserved either."""
THEN_WORD = "then"
"""What stands between an operand for the first call and the result that later ones are given. Not reserved either."""
PUNCTUATION = frozenset(["->", "??", *"{}()[],:=?+-*/<>@"])

VALUE, FUNCTION, AXIS, IDENT = "VALUE", "FUNCTION", "AXIS", "IDENT"
ON, TIMES, THEN, REPEAT = "ON", "TIMES", "THEN", "REPEAT"
INT, FLOAT, RANGE, STRING, LARGE_LIST = "INT", "FLOAT", "RANGE", "STRING", "LARGE_LIST"
ELLIPSIS, BAD, END = "...", "BAD", "END"

_KINDS_KEPT = 10_000


class _Kinds(dict[str, str]):
    """Token -> kind: one of the names above, or for keywords and punctuation the token itself. A bounded cache."""

    def __missing__(self, token: str) -> str:
        if token[0] == "%" and len(token) > 1:
            return VALUE  # too many to cache
        kind = _kind(token)
        if kind == IDENT and len(token) < 64:
            if len(self) >= _KINDS_KEPT:
                self.clear()
                self.update(_FIXED)
            self[token] = kind
        return kind


_FIXED = {token: token for token in (*KEYWORDS, *PUNCTUATION, ELLIPSIS)}
_kinds = _Kinds(_FIXED)


def kinds(tokens: Collection[str]) -> tuple[str, ...]:
    """The kind of every token."""
    found = tuple(map(_kinds.__getitem__, tokens))
    if found[1:2] in ((INT,), ("-",)) and next(iter(tokens)) == REPEAT_WORD:
        found = (REPEAT, *found[1:])
    if FUNCTION in found:
        pairs = zip(found, (END, *found), strict=False)
        found = tuple(AXIS if kind == FUNCTION and before in _DIMENSION_ENDS else kind for kind, before in pairs)
    for word, (kind, behind) in _WORDS_BEHIND.items():
        if word in tokens:
            before = (END, *found)
            found = tuple(
                kind if token == word and b in behind else k for token, k, b in zip(tokens, found, before, strict=False)
            )
    return found


_DIMENSION_ENDS = frozenset({INT, IDENT, "?", ")"})
"""What an axis of a mesh follows; behind anything else `@name` is a function."""

_WORDS_BEHIND = {
    TIMES_WORD: (TIMES, frozenset({INT})),
    STREAM_WORD: (ON, frozenset({")", TIMES})),
    THEN_WORD: (THEN, frozenset({VALUE, INT, FLOAT, "inf", "nan", "true", "false"})),
}
"""Words that mean something behind certain tokens, in the order in which they are looked for; elsewhere names."""


def spans(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """The spans of a text's tokens."""
    for match in TOKEN.finditer(text, start, len(text) if end is None else end):
        yield match.span()


def _kind(token: str) -> str:
    first = token[0]
    if "0" <= first <= "9" or (first == "." and len(token) > 1):
        return INT if token.isdigit() else RANGE if ".." in token else FLOAT
    if first == "@" and len(token) > 1:
        return FUNCTION
    if first == '"':
        return STRING if _STRING.fullmatch(token) else BAD
    if first == "[":
        return LARGE_LIST
    return IDENT if first.isascii() and (first.isalpha() or first == "_") else BAD


_STRING = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"')


def called(token: str, kind: str) -> str:
    """What a message calls a token that it found."""
    if kind == END:
        return "the end of the statement"
    shown = token if len(token) <= 40 else token[:37] + "..."
    if kind == LARGE_LIST:
        return "a list"
    if kind == BAD and not token.isprintable():
        return f"the character U+{ord(token[0]):04X}"
    return f"`{shown}`"


_TYPE = frozenset({"Tensor", "Tuple", IDENT, "host", "?"})
_CONSTANT = frozenset(
    {"dense", "external", INT, FLOAT, STRING, LARGE_LIST, "inf", "nan", "true", "false", "[", "-", IDENT}
)

_GROUPS: tuple[tuple[frozenset[str], frozenset[str], tuple[str, ...]], ...] = (
    (_TYPE, _TYPE, ("a type",)),
    (frozenset({VALUE, STRING}), _CONSTANT | {VALUE}, ("a value", "a constant")),
    (frozenset({STRING, "dense"}), _CONSTANT, ("a constant",)),
    (frozenset({IDENT, FUNCTION, VALUE}), frozenset({IDENT, FUNCTION, VALUE, "_", "[", "return"}), ("a statement",)),
    (frozenset({IDENT, FUNCTION}), frozenset({IDENT, FUNCTION}), ("an op or a function",)),
    (frozenset({VALUE, "_"}), frozenset({VALUE, "_", "["}), ("a value's name such as `%x`",)),
    (frozenset({INT, IDENT, "?"}), frozenset({INT, IDENT, "?", "-", "("}), ("a dimension",)),
    (frozenset({INT, "host", "?"}), frozenset({INT, "host", "?"}), ("a device",)),
    (frozenset({IDENT, "?"}), frozenset({IDENT, "?"}), ("an element type",)),
    (frozenset({"(", "??"}), frozenset({"(", "??"}), ("a shape such as `(2, 3)`",)),
    (frozenset({INT, FLOAT}), frozenset({INT, FLOAT, "inf", "nan"}), ("a number",)),
    (frozenset({"{", END}), frozenset({ON, INT, "-", "{", END}), ("the end of the statement",)),
    (frozenset({THEN}), frozenset({THEN}), ()),
    (frozenset({REPEAT}), frozenset({REPEAT}), ()),
    (frozenset({RANGE}), frozenset({RANGE}), ()),
    (frozenset({"+", ","}), frozenset({"+", "-", "*", "/", AXIS, "@"}), ()),
)
"""Groups of token kinds: if all of the first are expected, they and the second are reported under the third, a name."""

_SINGLE = {
    VALUE: "a value's name such as `%x`",
    FUNCTION: "a function's name such as `@main`",
    AXIS: "an axis such as `@tp`",
    IDENT: "a name",
    INT: "an integer",
    FLOAT: "a number",
    STRING: "a string",
    END: "the end of the statement",
    "_": "`_`",
    ON: f"`{STREAM_WORD}`",
    TIMES: f"`{TIMES_WORD}`",
    THEN: f"`{THEN_WORD}`",
    REPEAT: f"`{REPEAT_WORD}`",
    RANGE: "a range of numbers",
}


def wanted(expected: Collection[str]) -> str:
    """The expected tokens as a message lists them: "`,` or `)`"."""
    left = set(expected)
    words: list[str] = []
    for typical, kinds_meant, called_together in _GROUPS:
        if typical <= left:
            words += called_together
            left -= kinds_meant
    words += sorted(_SINGLE.get(kind, f"`{kind}`") for kind in left)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}" if words else "nothing more"
