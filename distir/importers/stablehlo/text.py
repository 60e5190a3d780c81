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

MALFORMED = (ArithmeticError, AssertionError, AttributeError, LookupError, StopIteration, TypeError, ValueError)
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

_ROW = re.compile(r"tensor<(\d+)x(?:i64|i32|i1|index)>")
"""The type of a list of numbers, as operations had them before arrays."""

_MODULE = ("module", "builtin.module")

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
class FunctionType:
    """`(tensor<2xf32>) -> tensor<2xf32>`: the types on both sides."""

    params: list[Any]
    results: list[Any]


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
        """The attribute of the first of these names that is there; None where none is.

        `dense<[0, 1]> : tensor<2xi64>` is a list, as `array<i64: 0, 1>`.
        """
        found = next((self.attributes[name] for name in names if name in self.attributes), None)
        if not isinstance(found, Braces) or found.name != "dense":
            return found
        row = _ROW.fullmatch(str(found.named.get("type")))
        said: Any = found.listed[0] if found.listed else list[Any]()
        return found if row is None else lists(said) or [said] * int(row[1])

    @property
    def symbol(self) -> str:
        """The symbol that it names first, without `@`."""
        given = (*self.words, self.attribute("callee", "call_target_name", "sym_name"))
        found = next((word for word in given if isinstance(word, (SymbolReference, str))), "")
        return found.name if isinstance(found, SymbolReference) else found


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
    declared: bool = False
    """Whether it has no body here."""


@dataclass(slots=True)
class ModuleText:
    """The functions of a file by name, its other operations (`sdy.mesh`), and how many characters it has.

    `resources`: by name, the bytes behind the module that `dense_resource<name>` refers to.
    """

    functions: dict[str, FunctionText]
    others: list[MlirOperation]
    length: int
    resources: dict[str, bytes] = field(default_factory=dict[str, bytes])


def read_module(text: str, file: str) -> ModuleText:
    """The functions of a module. Raises ImportRefused with file, line and column for text that is none."""
    text, resources = _apart(text)
    reader = _Reader(text, file)
    try:
        return reader.file_of_modules(resources)
    except MALFORMED as error:
        if isinstance(error, ImportRefused):
            raise
        reader.refuse(f"`{reader.now.text[:40]}` does not belong here", reader.now, ADVICE)


_RESOURCES = "{-#"
_RESOURCE = re.compile(r'([\w$.-]+|"[^"]*")\s*:\s*"0x([0-9A-Fa-f]*)"')
_ALIGNMENT = 4
"""Bytes in front of a resource's own, which say how it is aligned."""


def _apart(text: str) -> tuple[str, dict[str, bytes]]:
    """The text of modules, and the resources behind it."""
    text, _, behind = text.partition(_RESOURCES)
    found = {name.strip('"'): bytes.fromhex(digits)[_ALIGNMENT:] for name, digits in _RESOURCE.findall(behind)}
    return text, found


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

    def file_of_modules(self, resources: dict[str, bytes]) -> ModuleText:
        """All functions of the file, of whichever module."""
        found = ModuleText({}, [], self.length, resources)
        self._contents(found)
        if self.now.kind != "end":
            self.refuse(f"expected the end of the file, found `{self.now.text[:40]}`", self.now)
        return found

    def _contents(self, found: ModuleText) -> None:
        """What a module consists of, up to its end."""
        while self.now.kind != "end" and self.now.text != "}":
            if self.now.text in _MODULE:
                self._module(found)
            elif self.now.text == "func.func":
                self._add(found, self.function())
            elif self.now.kind == "attribute":
                self._aliases()
            else:
                self._generic(found, self.operation())

    def _module(self, found: ModuleText) -> None:
        self._deeper()
        self.at += 1
        if self.now.kind == "symbol":
            self.at += 1
        if self.got("attributes"):
            self.value()
        self.take("{")
        self._contents(found)
        self.take("}")
        self.location()
        self.depth -= 1

    def _generic(self, found: ModuleText, operation: MlirOperation) -> None:
        """An operation of a module: in the generic form, this may be a module, or a function."""
        if operation.name == _MODULE[1]:
            for inner in (inner for region in operation.regions for inner in region.operations):
                self._generic(found, inner)
        elif operation.name == "func.func":
            self._add(found, _function(operation))
        else:
            found.others.append(operation)

    def _add(self, found: ModuleText, function: FunctionText) -> None:
        if function.name in found.functions:
            advice = "split the file, as at lines of `// -----`, so that each has one module"
            refuse(f"a second function `@{function.name}`", function.place, advice)
        found.functions[function.name] = function

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
        declared = not self.got("{")
        body = Region() if declared else self.block()
        if not declared:
            self.take("}")
        self.location()
        return FunctionText(name, params, results, body, place, visibility == "private", declared)

    def _signature(self, named: bool) -> list[MlirParameter]:
        found: list[MlirParameter] = []
        self.take("(")
        while not self.got(")"):
            if found:
                self.take(",")
            name = self.take(kind="value").text if named and self.now.kind == "value" else ""
            if name:
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
            parts = [first]
            while self.got("x") or (len(parts) > 1 and self.got("->")):
                parts.append(self.value())
            made.attributes[now.text] = first if len(parts) == 1 else tuple(parts)
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
        if token.text == "(":
            params = self._list(")")
            if not self.got("->"):
                return params
            results = self.value()
            return FunctionType(params, lists(results) or [results])
        if token.text == "[":
            return self._list("]")
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
            if self.got(",") or self.got("x") or self.got("->"):
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


def _function(operation: MlirOperation) -> FunctionText:
    """`"func.func"() <{sym_name = …, function_type = …}> ({…})`."""
    of: FunctionType = operation.attributes["function_type"]
    body = operation.regions[0] if operation.regions else Region()
    names = [name for name, _ in body.params] or [""] * len(of.params)

    def side(names: Iterable[str], types: list[Any], given: str) -> list[MlirParameter]:
        attributes = [one.named for one in lists(operation.attribute(given))] or [{} for _ in types]
        rows = zip(names, types, attributes, strict=True)
        return [MlirParameter(name, of.text, own, "", operation.place) for name, of, own in rows]

    params = side(names, of.params, "arg_attrs")
    results = side([""] * len(of.results), of.results, "res_attrs")
    private = operation.attribute("sym_visibility") == "private"
    name = str(operation.attribute("sym_name"))
    return FunctionText(name, params, results, body, operation.place, private, not body.operations)


def _number(text: str) -> int | float | Bits:
    if text.startswith("0x"):
        return Bits(int(text, 16))
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
