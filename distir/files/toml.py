"""TOML texts: `tomllib` reads them; this module adds the positions of keys and values, which it does not report.

Both take time that grows with the length of the text alone: names and values that are nested deeper than in any real
file, on which `tomllib` takes the square of their depth or more, are refused beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distir.diagnostics import Span
from distir.files import limits
from distir.ir.errors import DistirError

Key = tuple[str, ...]
"""The names that lead to a value: `("budget", "max_latency")`; elements of `[[tables]]` and lists by their number."""


@dataclass(frozen=True, slots=True)
class TomlPlace:
    """The positions of a key and its value; of a value over several lines, the first line. A table's are its header."""

    key: Span
    value: Span


@dataclass(frozen=True, slots=True)
class Toml:
    """A text that was read: its tables, and the place that first sets each key."""

    table: Mapping[str, Any]
    places: Mapping[Key, TomlPlace]


class TomlError(DistirError, ValueError):
    """A text that is not TOML, or nested too deep; `span` is where."""

    def __init__(self, message: str, span: Span | None) -> None:
        super().__init__(message)
        self.message, self.span = message, span


def parse(text: str) -> Toml:
    """Read a text. Raises TomlError."""
    import tomllib

    places = _Scanner(text).places()
    try:
        return Toml(tomllib.loads(text), places)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _PLACE.search(message)
        message = _PLACE.sub("", message)
        raise TomlError(message[:1].lower() + message[1:], _span(text, place) if place else None) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits
        raise TomlError("a value is too long or nested too deep", None) from error


def places(text: str) -> Mapping[Key, TomlPlace]:
    """The place that first sets each key, as far as the text is TOML."""
    try:
        return _Scanner(text).places()
    except TomlError:
        return {}


_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_TOKEN = re.compile(
    r'''(?P<text>"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}|\'\'\'(?:[^']|'(?!''))*+'{3,5})'''
    r"""|(?P<open>\"\"\"|''')"""
    r"""|(?P<name>"(?:[^"\\\n]|\\[^\n])*+"|'[^'\n]*+'|[^\s"'#\[\]{}=.,]++)"""
    r"""|(?P<mark>[\[\]{}=.,\n])"""
    r"""|(?P<skipped>[^\S\n]++|\#[^\n]*+)""",
    re.DOTALL,
)
"""`open`: quotes that are never closed."""


class _Scanner:
    """Goes over the statements of a text by its tokens; what is no statement is passed over up to the end of its line.

    A token is (kind, start, end); a mark's kind is the mark.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, int, int]] = []
        self.next = 0
        self.found: dict[Key, TomlPlace] = {}
        self.elements: dict[Key, int] = {}
        end = 0
        while match := _TOKEN.match(text, end):
            kind, end = str(match.lastgroup), match.end()
            if kind == "open":
                break
            if kind != "skipped":
                self.tokens.append((match[0] if kind == "mark" else kind, match.start(), end))

    def places(self) -> dict[Key, TomlPlace]:
        """All of the text. Raises TomlError for what is nested too deep."""
        table: Key = ()
        while self.next < len(self.tokens):
            if self.kind == "[":
                table = self.header()
            else:
                self.assignment(table)
            while self.kind not in ("\n", ""):
                self.next += 1
            self.next += 1
        return self.found

    @property
    def kind(self) -> str:
        """The next token's; empty at the end."""
        return self.tokens[self.next][0] if self.next < len(self.tokens) else ""

    def take(self, kind: str) -> bool:
        """Go on behind the next token if it is of this kind."""
        is_next = self.kind == kind
        self.next += is_next
        return is_next

    def header(self) -> Key:
        """`[table]` or `[[table]]`: the key of what follows."""
        start = self.tokens[self.next][1]
        self.next += 1
        is_element = self.take("[")
        names, span = self.names()
        closing = self.next + is_element
        end = self.tokens[closing][2] if closing < len(self.tokens) else span.end
        place = TomlPlace(span, Span(start, end))
        table: Key = ()
        for number, name in enumerate(names, start=1):
            table = (*table, name)
            self.found.setdefault(table, place)
            if is_element and number == len(names):
                self.elements[table] = self.elements.get(table, -1) + 1
            if table in self.elements:
                table = (*table, str(self.elements[table]))
                self.found.setdefault(table, place)
        return table

    def assignment(self, table: Key) -> None:
        """`names = value`, in a table."""
        names, span = self.names()
        if not names or not self.take("="):
            return
        first = self.next
        key = (*table, *names)
        if len(key) > limits.NESTED:
            raise _too_deep(span)
        self.value(key)
        place = TomlPlace(span, self.first_line(first, span.end))
        for length in range(len(table) + 1, len(key) + 1):
            self.found.setdefault(key[:length], place)

    def first_line(self, first: int, otherwise: int) -> Span:
        """One line of the tokens, from number `first` on."""
        start = end = otherwise
        for number in range(first, min(self.next, len(self.tokens))):
            kind, begins, ends = self.tokens[number]
            if kind == "\n":
                break
            start = begins if number == first else start
            line_end = self.text.find("\n", begins, ends)
            end = ends if line_end < 0 else line_end
        return Span(start, end)

    def value(self, key: Key) -> None:
        """A value; keys inside it begin with its own."""
        opening = self.kind
        if len(key) > limits.NESTED and opening:
            raise _too_deep(Span(*self.tokens[self.next][1:]))
        if opening not in ("[", "{"):
            while self.kind not in ("\n", ",", "]", "}", ""):
                self.next += 1
            return
        self.next += 1
        element = 0
        while self.kind not in ("]", "}", ""):
            if self.kind in (",", "\n"):
                element += self.kind == ","
                self.next += 1
            elif opening == "[":
                self.value((*key, str(element)))
            else:
                before = self.next
                self.assignment(key)
                self.next += self.next == before  # what is no name
        self.next += 1

    def names(self) -> tuple[Key, Span]:
        """A dotted key such as `a.b."c d"`, and its position; no names if none follow."""
        start = end = self.tokens[self.next][1] if self.kind else len(self.text)
        found: list[str] = []
        while self.kind == "name":
            _, begins, end = self.tokens[self.next]
            found.append(_plain(self.text[begins:end]))
            if len(found) > limits.NESTED:
                raise _too_deep(Span(start, end))
            self.next += 1
            if not self.take("."):
                break
        return tuple(found), Span(start, end)


def _plain(name: str) -> str:
    r"""A name without its quotes; tomllib knows what `\u00e4` is."""
    if name[:1] == '"' and "\\" in name:
        import tomllib

        try:
            return next(iter(tomllib.loads(f"{name} = 0")))
        except ValueError:
            return name
    return name[1:-1] if name[:1] in ('"', "'") else name


def _too_deep(span: Span) -> TomlError:
    return TomlError(f"nested too deep: more than {limits.NESTED} levels", span)


def _span(text: str, place: re.Match[str]) -> Span:
    r"""The character that TOML's parser stopped at. It counts `\n` alone as the end of a line."""
    if place[1] is None:
        return Span(len(text), len(text))
    before = text.replace("\r\n", " \n").split("\n")[: int(place[1]) - 1]
    offset = sum(len(line) + 1 for line in before) + int(place[2]) - 1
    return Span(min(offset, len(text)), min(offset + 1, len(text)))
