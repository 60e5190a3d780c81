"""Words of a shell script: quotes, variables and arithmetic. What is not known stays as it is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import Final

from distir.files import limits
from distir.ir.errors import DistirError

NAME = r"[A-Za-z_]\w*"

Value = list[tuple[str, int]]
"""Of a variable or an array: words, each with its line."""

_DOLLAR = re.compile(rf"\\.|\$(?:(?P<sum>\(\()|(?P<brace>\{{)|(?P<plain>{NAME}|\d|#))", re.DOTALL)
_PARAMETER = re.compile(
    rf"(?P<count>#(?=\w))?(?P<indirect>!)?(?P<name>{NAME}|\d+|[@*#])(?:\[(?P<index>[@*]|\d+)\])?"
    r"(?P<how>:?[-=+?]|##?|%%?|//?|,,|\^\^|:)?(?P<rest>.*)",
    re.DOTALL,
)
UNRESOLVED = re.compile(rf"\$(?:\{{#?!?(?P<braced>{NAME}|\d+)|(?P<plain>{NAME}|\d))")
"""A variable in a text that has been expanded: one of which nothing says the value."""
COMPUTED = re.compile(r"\$\(|`")
"""What only running a command tells."""

MOST_TRIMMED: Final = 1024
"""Characters of a value of which a pattern is taken away."""


class TooLongError(DistirError, ValueError):
    """Variables whose values are more than is read; the text says what."""


def bounded(words: Iterator[tuple[str, int]]) -> Value:
    """Words, of which there may be so many. Raises TooLongError."""
    found = list(islice(words, limits.WORDS + 1))
    if len(found) > limits.WORDS:
        raise TooLongError(f"with variables written out there are more than {limits.WORDS:,} words")
    return found


def expanded(word: str, line: int, variables: Mapping[str, Value], *, split: bool) -> Iterator[tuple[str, int]]:
    """The words that a raw word is, variables replaced. Words of a quoted option and its value are two."""
    whole = re.fullmatch(rf"\"?\$\{{?({NAME}|[@*])(?:\[[@*]\])?\}}?\"?", word)
    if whole and whole[1] in variables:
        quoted = word.startswith('"') and "[" not in word
        for value, at in variables[whole[1]]:
            yield from ((part, at) for part in (value.split() if value.startswith("-") or not quoted else [value]))
        return
    plain = unquoted(replaced(word, variables))
    if split and word[:1] == '"' and plain.startswith("-") and " " in plain:
        yield from ((part, line) for part in plain.split())
    elif not split and word[:1] in "\"'":
        offset = 0
        for part in plain.split():
            offset = word.find(part, offset)
            yield part, line + word.count("\n", 0, max(offset, 0))
    else:
        yield plain, line


def replaced(word: str, variables: Mapping[str, Value], depth: int = 0) -> str:
    """A word with its variables and sums replaced by their values. Raises TooLongError."""
    if depth > limits.NESTED or word.startswith("'"):
        return word
    parts, at, length = list[str](), 0, 0
    while (found := _DOLLAR.search(word, at)) is not None:
        end, value = found.end(), None
        if found["plain"]:
            value = _value(found["plain"], variables)
        elif found["sum"] or found["brace"]:
            close = closing(word, found.start() + 1)
            if close < 0:
                break
            end, inner = close + 1, word[found.end() : close]
            if found["brace"]:
                value = _parameter(inner, variables, depth)
            elif inner.endswith(")"):
                value = total(inner[:-1], variables)
        parts += [word[at : found.start()], word[found.start() : end] if value is None else value]
        at, length = end, length + len(parts[-1])
        if length > limits.CHARACTERS:
            raise TooLongError(f"with variables written out a word has more than {limits.CHARACTERS:,} characters")
    return "".join([*parts, word[at:]])


def closing(text: str, at: int) -> int:
    """Where the bracket at `at` is closed, others of its kind within it; -1 where it is not."""
    opens = text[at]
    closes, depth = {"(": ")", "{": "}"}[opens], 0
    for found in re.compile(re.escape(opens) + "|" + re.escape(closes)).finditer(text, at):
        depth += 1 if found[0] == opens else -1
        if depth == 0:
            return found.start()
    return -1


def _value(name: str, variables: Mapping[str, Value], index: str | None = None) -> str | None:
    """The value of a variable, or a word of an array; None where nothing says it."""
    if name not in variables:
        return None
    words = [word for word, _ in variables[name]]
    if index is not None and index.isdecimal():
        return words[int(index)] if len(index) < 7 and int(index) < len(words) else ""
    return " ".join(words)


def _parameter(text: str, variables: Mapping[str, Value], depth: int) -> str | None:
    """What `${…}` is; None where that is not known."""
    found = _PARAMETER.fullmatch(text)
    if found is None:
        return None
    name, how, rest = found["name"], found["how"] or "", found["rest"]
    if found["indirect"]:
        name = _value(name, variables) or ""
    value = _value(name, variables, found["index"])
    if found["count"]:
        size = len(variables.get(name, ())) if found["index"] else len(value or "")
        return None if value is None else str(size)
    if how and how[-1] in "-=+?":
        is_empty = value is None or (how[0] == ":" and not value)
        if (how[-1] == "+") == is_empty:
            return "" if how[-1] == "+" else value
        return value if how[-1] == "?" else unquoted(replaced(rest, variables, depth + 1))
    if value is None or (not how and rest):
        return None
    pattern = unquoted(replaced(rest, variables, depth + 1))
    return _EDITS[how](value, pattern) if how else value


def _trimmed(value: str, pattern: str, *, front: bool, longest: bool) -> str:
    """A value without what a pattern matches at its front, or at its end."""
    if len(value) > MOST_TRIMMED:
        return value
    cuts = range(len(value) + 1) if front != longest else range(len(value), -1, -1)
    for cut in cuts:
        if fnmatchcase(value[:cut] if front else value[cut:], pattern):
            return value[cut:] if front else value[:cut]
    return value


def _sliced(value: str, text: str) -> str | None:
    """The part of a value from an offset, of a length."""
    found = re.fullmatch(r"\s*(\d{1,6})(?::(\d{1,6}))?\s*", text)
    if found is None:
        return None
    start = int(found[1])
    return value[start : start + int(found[2])] if found[2] else value[start:]


def _substituted(value: str, text: str, *, all_of_them: bool) -> str:
    pattern, _, other = text.partition("/")
    return value.replace(pattern, other, -1 if all_of_them else 1) if pattern else value


_EDITS: Final[Mapping[str, Callable[[str, str], str | None]]] = {
    "#": lambda value, pattern: _trimmed(value, pattern, front=True, longest=False),
    "##": lambda value, pattern: _trimmed(value, pattern, front=True, longest=True),
    "%": lambda value, pattern: _trimmed(value, pattern, front=False, longest=False),
    "%%": lambda value, pattern: _trimmed(value, pattern, front=False, longest=True),
    "/": lambda value, text: _substituted(value, text, all_of_them=False),
    "//": lambda value, text: _substituted(value, text, all_of_them=True),
    ",,": lambda value, _: value.lower(),
    "^^": lambda value, _: value.upper(),
    ":": _sliced,
}
"""What changes a value, by its mark."""

_QUOTED = re.compile(r"\"(?P<double>(?:[^\"\\]|\\.)*)\"|'(?P<single>[^']*)'|\\(?P<escaped>.)|[\"']", re.DOTALL)


def unquoted(word: str) -> str:
    """A word without its quotes: those within others are letters."""

    def plain(found: re.Match[str]) -> str:
        if found["double"] is not None:
            return re.sub(r"\\([\"\\$`\n])", r"\1", found["double"])
        return found["single"] or found["escaped"] or ""

    return _QUOTED.sub(plain, word)


_TERM = re.compile(r"\s*(\d+|\*\*|<<|>>|[<>=!]=|&&|\|\||[-+*/%()<>!?:])")
_LEVELS: Final = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))
"""Operators from the loosest to the tightest."""

LARGEST: Final = 1 << 63


def total(text: str, variables: Mapping[str, Value]) -> str:
    """Arithmetic of whole numbers and variables; as it is written where one of those is not known."""
    found = result(text, variables)
    return f"$(({text}))" if found is None else str(found)


def result(text: str, variables: Mapping[str, Value]) -> int | None:
    """The number that an expression is; None where that is not known."""
    for _ in range(4):  # variables may hold expressions
        text, before = _named(text, variables), text
        if text == before:
            break
    terms, at = list[str](), 0
    while (term := _TERM.match(text, at)) is not None and len(terms) < 200:
        terms.append(term[1])
        at = term.end()
    if text[at:].strip() or not terms:
        return None
    try:
        found = _Sum(terms[::-1]).choice()
    except (ValueError, ArithmeticError, IndexError):
        return None
    return found if abs(found) < LARGEST else None


def _named(text: str, variables: Mapping[str, Value]) -> str:
    def value(found: re.Match[str]) -> str:
        said = _value(found[1], variables)
        return found[0] if said is None or len(said) > 80 else f"{said or 0}"

    return re.sub(rf"\$?\{{?({NAME}|(?<=[${{])\d+|\$#)\}}?", value, text[:2000])


class _Sum:
    """An expression being read; `terms`: those that are left, the next one last."""

    def __init__(self, terms: list[str]) -> None:
        self.terms = terms

    def _takes(self, *marks: str) -> str | None:
        return self.terms.pop() if self.terms and self.terms[-1] in marks else None

    def choice(self) -> int:
        """All of it, or what a bracket holds. Raises ValueError for what is no expression."""
        chosen = self._level(0)
        if self._takes("?"):
            one = self.choice()
            if not self._takes(":"):
                raise ValueError
            other = self.choice()
            return one if chosen else other
        if self.terms and self.terms[-1] not in "):":
            raise ValueError
        return chosen

    def _level(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._power()
        left = self._level(level + 1)
        while (mark := self._takes(*_LEVELS[level])) is not None:
            left = _combined(mark, left, self._level(level + 1))
        return left

    def _power(self) -> int:
        if mark := self._takes("-", "+", "!"):
            inner = self._power()
            return {"-": -inner, "+": inner, "!": int(not inner)}[mark]
        if self._takes("("):
            base = self.choice()
            if not self._takes(")"):
                raise ValueError
        else:
            base = int(self.terms.pop())
        if self._takes("**"):
            power = self._power()
            if not 0 <= power < 64:
                raise ValueError
            return base**power if abs(base) < LARGEST else LARGEST
        return base


def _combined(mark: str, left: int, right: int) -> int:
    match mark:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right if abs(left) < LARGEST and abs(right) < LARGEST else LARGEST
        case "/":
            return _quotient(left, right)
        case "%":
            return left - right * _quotient(left, right)
        case "<<" | ">>":
            return left << right if mark == "<<" and 0 <= right < 64 and abs(left) < LARGEST else left >> right
        case "&&":
            return int(bool(left and right))
        case "||":
            return int(bool(left or right))
        case _:
            compared = {"==": left == right, "!=": left != right, "<": left < right, ">": left > right}
            return int(compared.get(mark, left <= right if mark == "<=" else left >= right))


def _quotient(left: int, right: int) -> int:
    """Rounded towards 0, as shells do."""
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
