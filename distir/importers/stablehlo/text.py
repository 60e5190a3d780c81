"""MLIR text as operations: what StableHLO's printer writes, its pretty form and the generic one alike.

The syntax of a single op is not known here. An operation is its operands, its attributes by name, its regions and its
types, in whatever order its dialect writes them (StableHLO's specification, "Programs"; MLIR's language reference).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from distir.files import limits
from distir.importers.core import ImportRefused

ADVICE = "give MLIR text, as `as_text()` of jax"

MALFORMED = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What goes wrong where a text is MLIR, but its attributes or types are not those of StableHLO."""

BYTECODE = b"ML\xefR"
"""What MLIR's bytecode begins with."""

_TOKEN = re.compile(
    r"""(?P<space>(?:\s++|//[^\n]*+)++)
      | (?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")
      | (?P<value>%[\w$.-]+(?:\#\d+)?)
      | (?P<symbol>@(?:"[^"]*"|[\w$.-]+))
      | (?P<block>\^\w+)
      | (?P<attribute>\#[A-Za-z_][\w$.]*)
      | (?P<type>(?:tensor|tuple|complex|memref|vector)<(?:[^<>]++|<(?:[^<>]++|<[^<>]*+>)*+>)*+>|![\w.]+(?:<[^<>]*>)?)
      | (?P<number>0x[0-9A-Fa-f]+|-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)
      | (?P<word>[A-Za-z_][\w$.]*)
      | (?P<mark>->|[()\[\]{}<>,=:?*+|-])""",
    re.VERBOSE,
)

_PLAIN = frozenset(("return", "call", "module"))
"""Names of operations that no dialect stands before."""


@dataclass(frozen=True, slots=True)
class MlirToken:
    """A piece of the text; `first`: whether it begins a line. `line` and `column` are counted from 1."""

    kind: str
    text: str
    line: int
    column: int
    first: bool


@dataclass(frozen=True, slots=True)
class TextPlace:
    """A line and a column of a file, counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"`{self.file}`, line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class Braces:
    """`{a, b = c}`, or the same in `<>`: entries by name, and those without one. `name`: of `#name<…>`."""

    named: dict[str, Any]
    listed: tuple[Any, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class MlirWord:
    """A keyword, as `LT` or `across`."""

    text: str


@dataclass(frozen=True, slots=True)
class SymbolReference:
    """`@main`."""

    name: str


@dataclass(frozen=True, slots=True)
class Bits:
    """A number by its bits: `0xFF800000`. What it is, its element type says."""

    bits: int


@dataclass(slots=True)
class Region:
    """The operations of a region, and what it takes: names, types and attributes."""

    params: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    operations: list[MlirOperation] = field(default_factory=list["MlirOperation"])


@dataclass(slots=True)
class MlirOperation:
    """`%r = name %a, key = value {…} ({regions}) : types`, in any order of these.

    `operands` are names; `words` are keywords and whatever else stands by itself, in order. `types` are those behind
    the colon: of operands before `->`, if that is there, and of results behind it.
    """

    name: str
    place: TextPlace
    results: tuple[str, ...] = ()
    operands: list[str] = field(default_factory=list[str])
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    words: list[Any] = field(default_factory=list[Any])
    regions: list[Region] = field(default_factory=list[Region])
    bound: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """`(%a = %b)`, as a loop binds its values."""
    types: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    location: str = ""

    def attribute(self, *names: str) -> Any:
        """The attribute of the first of these names that is there; None where none is."""
        return next((self.attributes[name] for name in names if name in self.attributes), None)

    @property
    def symbol(self) -> str:
        """The symbol that it names first, without `@`."""
        return next((word.name for word in self.words if isinstance(word, SymbolReference)), "")


@dataclass(slots=True)
class MlirParameter:
    """A parameter of a function, or a result, which has no name: its type, attributes, and how it was called."""

    name: str
    type: str
    attributes: dict[str, Any]
    location: str
    place: TextPlace


@dataclass(slots=True)
class FunctionText:
    """`func.func`."""

    name: str
    params: list[MlirParameter]
    results: list[MlirParameter]
    body: Region
    place: TextPlace
    private: bool = False


@dataclass(slots=True)
class ModuleText:
    """The functions of a file by name, its other operations (`sdy.mesh`), and how many characters it has."""

    functions: dict[str, FunctionText]
    others: list[MlirOperation]
    length: int


def read_module(text: str, file: str) -> ModuleText:
    """The functions of a module. Raises ImportRefused with file, line and column for text that is none."""
    reader = _Reader(text, file)
    try:
        return reader.module()
    except MALFORMED as error:
        if isinstance(error, ImportRefused):
            raise
        reader.refuse(f"`{reader.now.text[:40]}` does not belong here", reader.now, ADVICE)


def lists(value: Any) -> list[Any]:
    """A list of attributes; an empty one for what is none."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def first_list(values: Iterable[Any]) -> list[Any]:
    """The first list among attributes that is not empty; an empty one where there is none."""
    for value in values:
        if found := lists(value):
            return found
    return []


def refuse(message: str, place: TextPlace, help: str | None = None) -> NoReturn:
    """Raise ImportRefused for a place of the file."""
    raise ImportRefused(f"{message} ({place})", help)


def _tokens(text: str, file: str) -> list[MlirToken]:
    found: list[MlirToken] = []
    at, line, start, first = 0, 1, 0, True
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            refuse(f"expected a token of MLIR, found `{text[at]}`", TextPlace(file, line, at - start + 1), ADVICE)
        kind, piece = str(match.lastgroup), match.group()
        if kind == "space":
            if "\n" in piece:
                line, start, first = line + piece.count("\n"), at + piece.rindex("\n") + 1, True
        else:
            found.append(MlirToken(kind, piece, line, at - start + 1, first))
            first = False
        at = match.end()
    found.append(MlirToken("end", "the end of the file", line, at - start + 1, True))
    return found


class _Reader:
    """One pass over the tokens."""

    def __init__(self, text: str, file: str) -> None:
        self.file, self.length = file, len(text)
        self.tokens, self.at, self.depth = _tokens(text, file), 0, 0
        self.locations: dict[str, str] = {}

    # tokens

    @property
    def now(self) -> MlirToken:
        return self.tokens[self.at]

    def ahead(self, count: int = 1) -> MlirToken:
        return self.tokens[min(self.at + count, len(self.tokens) - 1)]

    def take(self, text: str | None = None, kind: str | None = None) -> MlirToken:
        token = self.now
        if (text is not None and token.text != text) or (kind is not None and token.kind != kind):
            self.refuse(f"expected `{text or kind}`, found `{token.text[:40]}`", token)
        if token.kind != "end":
            self.at += 1
        return token

    def got(self, text: str) -> bool:
        if self.now.text == text and self.now.kind != "string":
            self.at += 1
            return True
        return False

    # modules and functions

    def module(self) -> ModuleText:
        self._aliases()
        found = ModuleText({}, [], self.length)
        wrapped = self.now.text in ("module", "builtin.module")
        if wrapped:
            self.at += 1
            if self.now.kind == "symbol":
                self.at += 1
            if self.got("attributes"):
                self.value()
            self.take("{")
        while self.now.kind != "end" and not (wrapped and self.now.text == "}"):
            if self.now.text == "func.func":
                function = self.function()
                found.functions[function.name] = function
            elif self.now.kind == "attribute":
                self._aliases()
            else:
                found.others.append(self.operation())
        if wrapped:
            self.take("}")
            self.location()
            self._aliases()
        if self.now.kind != "end":
            self.refuse(f"expected the end of the file, found `{self.now.text[:40]}`", self.now)
        return found

    def _aliases(self) -> None:
        """`#loc3 = loc("w")`; what an alias means is known where that is a name."""
        while self.now.kind == "attribute":
            name = self.take().text
            self.take("=")
            if self.now.text == "loc":
                self.locations[name] = self.location()
            else:
                self.value()

    def function(self) -> FunctionText:
        place = self._place(self.take("func.func"))
        visibility = self.now.text
        if visibility in ("public", "private", "nested"):
            self.at += 1
        name = self.take(kind="symbol").text[1:].strip('"')
        params = self._signature(True)
        results: list[MlirParameter] = []
        if self.got("->"):
            results = self._signature(False) if self.now.text == "(" else [self._unnamed()]
        if self.got("attributes"):
            self.value()
        self.take("{")
        body = self.block()
        self.take("}")
        self.location()
        return FunctionText(name, params, results, body, place, visibility == "private")

    def _signature(self, named: bool) -> list[MlirParameter]:
        found: list[MlirParameter] = []
        self.take("(")
        while not self.got(")"):
            if found:
                self.take(",")
            name = self.take(kind="value").text if named else ""
            if named:
                self.take(":")
            found.append(self._unnamed(name))
        return found

    def _unnamed(self, name: str = "") -> MlirParameter:
        token = self.now
        of = self.type()
        given = self.value() if self.now.text == "{" and self._is_dictionary() else Braces({}, ())
        return MlirParameter(name, of, given.named, self.location(), self._place(token))

    # operations

    def block(self) -> Region:
        """Operations up to the bracket that closes the region."""
        self._deeper()
        found = Region()
        if self.now.kind == "block":
            self.at += 1
            if self.now.text == "(":
                found.params = [(p.name, p.type) for p in self._signature(True)]
            self.take(":")
        while self.now.text != "}":
            if self.now.kind == "block":
                self.refuse(
                    "a region of several blocks", self.now, "export the function without unstructured control flow"
                )
            if self.now.kind == "end":
                self.refuse("the region is not closed", self.now)
            found.operations.append(self.operation())
        self.depth -= 1
        return found

    def operation(self) -> MlirOperation:
        token = self.now
        results: list[str] = []
        if token.kind == "value":
            while True:
                name = self.take(kind="value").text
                if self.got(":"):
                    count = int((number := self.take(kind="number")).text)
                    if count > limits.RESULTS:
                        self.refuse(f"an operation of more than {limits.RESULTS} results", number)
                    results += [f"{name}#{i}" for i in range(count)]
                else:
                    results.append(name)
                if not self.got(","):
                    break
            self.take("=")
        named = self.take()
        if named.kind not in ("word", "string"):
            self.refuse(f"expected an operation, found `{named.text[:40]}`", named)
        made = MlirOperation(named.text.strip('"'), self._place(named), tuple(results))
        while not self._ends():
            self._part(made)
        return made

    def _ends(self) -> bool:
        """Whether what follows belongs to another operation: it begins a line, and could begin an operation."""
        now = self.now
        if now.kind == "end" or now.text in ("}", ")"):
            return True
        if not now.first:
            return False
        dotted = now.kind == "word" and ("." in now.text or now.text in _PLAIN)
        return dotted or now.kind in ("value", "string", "block", "attribute")

    def _part(self, made: MlirOperation) -> None:
        now = self.now
        if now.text in (",", "=") and now.kind == "mark":
            self.at += 1
        elif now.text == ":" and now.kind == "mark":
            self.at += 1
            self._types(made)
        elif now.kind == "value":
            made.operands.append(self.take().text)
        elif now.text == "loc" and self.ahead().text == "(":
            made.location = self.location()
        elif now.text == "(":
            self._parenthesis(made)
        elif now.text == "{" and not self._is_dictionary():
            self.at += 1
            made.regions.append(self.block())
            self.take("}")
        elif now.text == "<" and self.ahead().text == "{":
            self.at += 1
            made.attributes |= self.value().named
            self.take(">")
        elif now.text == "{":
            made.attributes |= self.value().named
        elif now.kind == "word" and self.ahead().text == "=":
            self.at += 2
            first = self.value()
            made.attributes[now.text] = first
            if self.got("x"):
                made.attributes[now.text] = (first, self.value())
        else:
            made.words.append(self.value())

    def _parenthesis(self, made: MlirOperation) -> None:
        """Operands, regions, or what a loop binds."""
        self._deeper()
        self.take("(")
        while not self.got(")"):
            if self.now.kind == "value" and self.ahead().text == "=":
                name = self.take().text
                self.at += 1
                made.bound.append((name, self.take(kind="value").text))
            elif self.now.text == "init":
                self.at += 1
                self.take(":")
            elif self.now.kind == "value" and self.ahead().text == ":":
                name = self.take().text
                self.at += 1
                made.bound.append((name, self.type()))
                self.location()
            elif self.now.kind == "end":
                self.refuse("the bracket is not closed", self.now)
            else:
                self._part(made)
        self.depth -= 1

    def _types(self, made: MlirOperation) -> None:
        before, behind = self._type_list(), list[str]()
        if self.got("->"):
            behind = self._type_list()
        else:
            before, behind = [], before
        made.types = (before, behind)

    def _type_list(self) -> list[str]:
        found: list[str] = []
        if self.got("("):
            while not self.got(")"):
                found.append(self.type())
                self.got(",")
            return found
        found.append(self.type())
        while self.now.text == "," and self.ahead().kind in ("type", "word"):
            self.at += 1
            found.append(self.type())
        return found

    def type(self) -> str:
        """A type, as it is written."""
        if self.now.kind not in ("type", "word"):
            self.refuse(f"expected a type, found `{self.now.text[:40]}`", self.now)
        return self.take().text

    # attributes

    def value(self) -> Any:
        """An attribute: a number, a text, a list, or what the classes above are for."""
        self._deeper()
        found = self._value()
        self.depth -= 1
        return found

    def _value(self) -> Any:
        token = self.take()
        if token.kind == "number":
            if self.now.text == ":" and self.ahead().kind == "word":
                self.at += 2
            return _number(token.text)
        if token.kind == "string":
            return token.text[1:-1]
        if token.kind == "symbol":
            return SymbolReference(token.text[1:].strip('"'))
        if token.text in ("[", "("):
            return self._list("]" if token.text == "[" else ")")
        if token.text in ("{", "<"):
            return self._entries("}" if token.text == "{" else ">")
        if token.text in ("true", "false"):
            return token.text == "true"
        if token.kind == "attribute":
            return self._angled(token.text[1:])
        if token.kind == "word":
            if token.text == "array":
                return self._array()
            return self._angled(token.text)
        if token.kind in ("type", "value") or token.text in ("?", "-", "*", "+", "|"):
            return MlirWord(token.text)
        return self.refuse(f"expected an attribute, found `{token.text[:40]}`", token)

    def _angled(self, name: str) -> Any:
        if self.now.text != "<":
            return MlirWord(name)
        self.at += 1
        made = self._entries(">")
        if name.startswith("dense") and self.ahead().kind == "type" and self.got(":"):
            return Braces({"type": self.type()}, made.listed, name)
        return Braces(made.named, made.listed, name)

    def _array(self) -> list[Any]:
        """`array<i64: 1, 2>`."""
        self.take("<")
        self.take(kind="word")
        return self._list(">")

    def _list(self, closing: str) -> list[Any]:
        found: list[Any] = []
        while not self.got(closing):
            if self.now.kind == "end":
                self.refuse(f"expected `{closing}`", self.now)
            if self.got(",") or self.got("->"):
                continue
            if self.got(":"):  # `[0:4:2]`, as slices are written; `array<i64: 1, 2>`
                if not found:
                    continue
                found[-1] = (*found[-1], self.value()) if isinstance(found[-1], tuple) else (found[-1], self.value())
                continue
            if self.got("="):  # `["data"=2]`, as meshes are written
                found[-1] = (found[-1], self.value())
                continue
            found.append(self.value())
        return found

    def _entries(self, closing: str) -> Braces:
        named: dict[str, Any] = {}
        listed: list[Any] = []
        while not self.got(closing):
            if self.now.kind == "end":
                self.refuse(f"expected `{closing}`", self.now)
            if self.got(",") or self.got("x"):
                continue
            if self.now.kind in ("word", "string") and self.ahead().text == "=":
                name = self.take().text.strip('"')
                self.at += 1
                named[name] = self.value()
                if self.now.text == ":":
                    self.at += 1
                    self.type()
            elif self.got(":"):
                listed.append(MlirWord(":"))
            else:
                listed.append(self.value())
        return Braces(named, tuple(listed))

    def location(self) -> str:
        """What `loc("name")` or its alias says, if it is here; else nothing."""
        if self.now.text != "loc" or self.ahead().text != "(":
            return ""
        self.at += 2
        depth, said = 1, ""
        while depth:
            token = self.take()
            if token.kind == "end":
                self.refuse("the location is not closed", token)
            depth += (token.text == "(") - (token.text == ")") if token.kind == "mark" else 0
            if token.kind == "string" and not said:
                said = token.text[1:-1]
            elif token.kind == "attribute" and not said:
                said = self.locations.get(token.text, "")
        return said

    # helpers

    def _is_dictionary(self) -> bool:
        """Whether the brace that stands here opens attributes, and no region."""
        first, second = self.ahead(), self.ahead(2)
        if first.text == "}":
            return True
        return first.kind in ("word", "string") and second.text in ("=", ",", "}") and first.text not in _PLAIN

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > limits.NESTED:
            self.refuse(f"brackets are nested deeper than {limits.NESTED}", self.now)

    def refuse(self, message: str, token: MlirToken, help: str | None = None) -> NoReturn:
        """Raise ImportRefused for the place of a token."""
        refuse(message, self._place(token), help)

    def _place(self, token: MlirToken) -> TextPlace:
        return TextPlace(self.file, token.line, token.column)


def _number(text: str) -> int | float | Bits:
    if text.startswith("0x"):
        return Bits(int(text, 16))
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
