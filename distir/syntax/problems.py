"""What to say of text that does not fit the grammar. One finding per statement: the first token that does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distir.diagnostics import Code
from distir.diagnostics.codes import syntax as codes
from distir.syntax.grammar import Unexpected
from distir.syntax.tokens import BAD, ELLIPSIS, END, FUNCTION, IDENT, ON, STREAM_WORD, TIMES_WORD, VALUE, called, wanted

_FUNCTION, _EQUAL = frozenset({FUNCTION}), frozenset({"="})


@dataclass(frozen=True, slots=True)
class TokenProblem:
    """A finding about the tokens `first` to `last`; one past the last token is the end."""

    code: Code
    message: str
    help: str | None
    first: int
    last: int


def problem(unexpected: Unexpected, tokens: Sequence[str], kinds: Sequence[str]) -> TokenProblem:
    """What to say of the first token that does not fit."""
    index, expected = unexpected.index, unexpected.expected
    kind = kinds[index] if index < len(kinds) else END
    token = tokens[index] if index < len(tokens) else ""
    if kind == ELLIPSIS:
        return TokenProblem(codes.ELIDED, "`...` marks a part that was left out", "write it out", index, index)
    if kind == BAD:
        return _bad(token, index, expected)
    message = f"expected {wanted(expected)}, found {called(token, kind)}"
    return TokenProblem(codes.UNEXPECTED, message, _help(index, kind, expected, tokens, kinds), index, index)


def _bad(token: str, index: int, expected: frozenset[str]) -> TokenProblem:
    if token[0] == '"':
        return TokenProblem(codes.BAD_STRING, "the string is not closed", 'add a `"` on the same line', index, index)
    message = f"expected {wanted(expected)}, found {called(token, BAD)}"
    if token in "%@":
        hint = f"a name follows `{token}` directly, of letters, digits, `_`, `.` and `-`"
        return TokenProblem(codes.UNEXPECTED, message, hint, index, index)
    hint = "statements end with their line" if token == ";" else "comments begin with `//`" if token == "#" else None
    return TokenProblem(codes.BAD_CHARACTER, message, hint, index, index)


def _help(index: int, kind: str, expected: frozenset[str], tokens: Sequence[str], kinds: Sequence[str]) -> str | None:
    """What to do about the common mistakes."""
    before = kinds[index - 1] if index else ""
    if before == ")" and tokens[index + 1 : index + 2] == [TIMES_WORD]:
        return f"how often a function is called is a number: `4 {TIMES_WORD}`"
    if END in expected and tuple(kinds[index - 1 :]) == (")", IDENT, IDENT):
        return f"a stream's name follows `{STREAM_WORD}`: `{STREAM_WORD} {tokens[-1]}`"
    if before == ON:
        return f"the name of a stream follows `{STREAM_WORD}`, such as `{STREAM_WORD} reduce`"
    if END in expected and kind in (VALUE, IDENT, FUNCTION, "_", "return", "func"):
        return "each statement is on its own line"
    if kind == "->":
        return "result types follow the `)` of the parameters: `func @f(%x) -> D1 {`"
    if kind == "=" and before == IDENT and "(" in expected and index == 1:
        return f"a value's name begins with `%`: `%{tokens[0]}`"
    if kind == ":" and before == IDENT and "=" in expected:
        return f"attributes are written `{tokens[index - 1]} = value`"
    if kind == ":" and expected & {",", ")"}:
        return "types are stated where a value is defined, not where it is used"
    if kind == IDENT and (expected == _FUNCTION or VALUE in expected):
        return f"did you mean `{'@' if expected == _FUNCTION else '%'}{tokens[index]}`?"
    if "=" in expected and ":" in expected and kind in (IDENT, FUNCTION, "Tensor", "Tuple", "host"):
        return "a `=` stands between the results and the op, a `:` before a type"
    if expected == _EQUAL and before == IDENT:
        return "attributes are written `name = value`"
    if kind == VALUE and "dense" in expected and VALUE not in expected:
        return "attributes are constants; values are operands, in round brackets"
    return _bracket_help(index, kind, expected, kinds)


def _bracket_help(index: int, kind: str, expected: frozenset[str], kinds: Sequence[str]) -> str | None:
    before = kinds[max(0, index - 3) : index]
    if before[:2] == ("Tensor", "[") and kind == "]":
        return "a tensor's type is `Tensor[Float32, (2, 3), 1]`: element type, shape, device"
    if kind == "[" and before[-1:] == (FUNCTION,):
        return "a call has no attributes"
    if kind == "(" and before[-1:] == ("return",):
        return "what a function returns is written without brackets: `return %x, %y`"
    closing = [bracket for bracket in ")]}>" if bracket in expected]
    if kind in tuple(")]}>") and closing:
        return f"the bracket that is open is closed by `{closing[0]}`"
    if "(" in expected and kind == END:
        return "operands are in round brackets, `()` if there are none"
    return None
