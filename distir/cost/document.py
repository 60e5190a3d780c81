"""TOML files with good errors: the position of a key, what was expected there, all faults at once. Knows no hardware.

A `ProfileDocument` is one file, or several if a file extends another. A `DocumentTable` is one of its tables: it
returns values of the requested type, and notes a fault instead of raising if there is none, so that a reader reports
all faults at once. The placeholder that it returns for a faulty value is never used: `ProfileDocument.check` raises if
there was any fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from distir.cost.errors import HardwareError, Problem
from distir.cost.units import Quantity, UnitError, parse
from distir.diagnostics import Source
from distir.diagnostics.spelling import nearest
from distir.files import toml
from distir.files.reading import PROFILE, advice, read_bytes, why_not
from distir.files.toml import Key

PLACEHOLDER = math.nan
"""Stands for a faulty quantity: no comparison with it holds, so that it causes no second fault."""


@dataclass(frozen=True, slots=True)
class File:
    """One file, parsed: its tables, and the line and column of each key and table."""

    path: str
    table: Mapping[str, Any]
    places: Mapping[Key, tuple[int, int]]

    def problem(self, key: Key, message: str, help: str | None = None) -> Problem:
        """A fault at a key of this file."""
        line, column = self.places.get(key, (None, None))
        return Problem(message, self.path, line, help, column)


def parse_file(text: str, path: str) -> File:
    """Parse TOML. Raises HardwareError with the place where it is broken."""
    source = Source(path, text)
    try:
        parsed = toml.parse(text)
    except toml.TomlError as error:
        line, column = (None, None) if error.span is None else source.position(error.span.start)
        raise HardwareError([Problem(f"this is not TOML: {error.message}", path, line, _TOML_HELP, column)]) from None
    return File(path, parsed.table, {key: source.position(place.key.start) for key, place in parsed.places.items()})


def read_file(path: Path) -> File:
    """Read and parse a file. Raises HardwareError where it cannot be read or is not TOML."""
    try:
        return parse_file(read_bytes(path, PROFILE).decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        problem = Problem(f"byte {error.start} is not UTF-8", str(path), help="save the file with UTF-8 encoding")
        raise HardwareError([problem]) from None
    except OSError as error:
        problem = Problem(f"this file cannot be read: {why_not(error)}", str(path), help=advice(error))
        raise HardwareError([problem]) from None


class ProfileDocument:
    """Files that make one profile, first the one that extends the others.

    Tables are merged down to a depth of `atomic`, where they are replaced whole; those named in `deeper` are merged
    there too. From that depth on, and where it is named in `dropped`, an empty table drops the one that it replaces.
    """

    def __init__(
        self,
        files: Sequence[File],
        atomic: int = 3,
        deeper: frozenset[str] = frozenset(),
        dropped: frozenset[str] = frozenset(),
    ) -> None:
        self.files = tuple(files)
        self.problems: list[Problem] = []
        self.read: list[DocumentTable] = []
        """The tables of which all keys were asked for that they may have."""
        table: Mapping[str, Any] = {}
        for file in reversed(self.files):
            table = _merge(table, file.table, atomic, deeper, dropped)
        self.root = DocumentTable(self, (), table)

    def problem(self, key: Key, message: str, help: str | None = None) -> None:
        """Note a fault at a key, or at the nearest enclosing table that is in a file."""
        found = self._at(key, message, help)
        if found not in self.problems:
            self.problems.append(found)

    def check(self) -> None:
        """Raise HardwareError with all faults, if any. Unknown keys are faults, too."""
        for section in self.read:
            for name in section.table:
                if name not in section.asked:
                    unknown(section, name, section.asked, self.homes(name, section.key))
        if self.problems:
            raise HardwareError(sorted(self.problems, key=self._order))

    def homes(self, name: str, place: Key) -> list[str]:
        """The tables that may have a key of this name, as they are headed: first those in the table that has it."""

        def order(key: Key) -> tuple[bool, int]:
            return key[: len(place)] != place, len(key)

        having = [section.key for section in self.read if name in section.asked and section.key]
        return list(dict.fromkeys(_headed(key) for key in sorted(having, key=order)))

    def states(self, key: Key) -> bool:
        """Whether one of the files has this key, be it replaced or not."""
        return any(key in file.places for file in self.files)

    def empties(self, key: Key) -> bool:
        """Whether one of the files has an empty table here."""
        return any(_value(file.table, key) == {} for file in self.files)

    def beside(self, key: Key, other: str) -> bool:
        """Whether the file with this key has another one in the same table."""
        return any(key in file.places and (*key[:-1], other) in file.places for file in self.files)

    def _order(self, problem: Problem) -> tuple[int, int, int]:
        paths = [file.path for file in self.files]
        return paths.index(problem.path or ""), problem.line or 0, problem.column or 0

    def _at(self, key: Key, message: str, help: str | None) -> Problem:
        for length in range(len(key), 0, -1):
            for file in self.files:
                if key[:length] in file.places:
                    return file.problem(key[:length], message, help)
        return self.files[0].problem((), message, help)


class DocumentTable:
    """One table. Once all keys were asked for that it may have (`close`), any other is unknown."""

    def __init__(self, document: ProfileDocument, key: Key, table: Mapping[str, Any]) -> None:
        self.document = document
        self.key = key
        self.table = table
        self.asked: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.table

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def problem(self, name: str, message: str, help: str | None = None) -> None:
        """Note a fault of one of this table's keys; the message begins with the key's full name."""
        key = (*self.key, name) if name else self.key
        self.document.problem(key, f"`{'.'.join(key)}`: {message}" if key else message, help)

    def missing(self, name: str, expected: str) -> None:
        """Report that a key is missing; `expected` says what to add.

        Where a file that this one extends has the key, its table was replaced: that is one fault, whichever keys it is.
        """
        table = ".".join(self.key)
        if self.document.empties((*self.key, name)):
            self.problem(name, "an empty table drops what is inherited, and this must be there", "remove this line")
            return
        if self.document.states((*self.key, name)):
            advice = "state its other figures, too: such a table is replaced whole"
            self.document.problem(self.key, f"`{table}` lacks what the table has that it replaces", advice)
            return
        self.document.problem((*self.key, name), f"`{'.'.join((*self.key, name))}` is missing", f"add {expected}")

    def get(self, name: str) -> object:
        """A raw value, or None."""
        self.asked[name] = None
        return self.table.get(name)

    def section(self, name: str) -> DocumentTable | None:
        """A table; None where there is none."""
        value = self.get(name)
        if isinstance(value, Mapping):
            return DocumentTable(self.document, (*self.key, name), cast("Mapping[str, Any]", value))
        if value is not None:
            self.problem(name, f"expected a table, found {_kind(value)}")
        return None

    def sections(self, name: str) -> list[DocumentTable]:
        """A list of tables, `[[name]]`."""
        value = self.get(name)
        items = cast("list[Any]", value) if isinstance(value, list) else []
        if not items or not all(isinstance(item, Mapping) for item in items):
            self.problem(name, f"expected at least one table headed `[[{name}]]`, found {_kind(self.get(name))}")
            return []
        return [DocumentTable(self.document, (*self.key, name, str(i)), table) for i, table in enumerate(items)]

    def text(self, name: str, expected: str | None = None) -> str:
        """A non-empty text; required if `expected` is given."""
        value = self.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if value is not None:
            self.problem(name, f"expected {expected or 'a text'}, found {_kind(value)}")
        elif expected is not None:
            self.missing(name, expected)
        return ""

    def count(self, name: str, default: int | None = None, most: int = 1_000_000, least: int = 1) -> int:
        """A whole number from `least` to `most`; required without a `default`."""
        value = self.get(name)
        if value is None and default is not None:
            return default
        if value is None:
            self.missing(name, f"`{name}` followed by a whole number, such as `{name} = 8`")
        elif not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            advice = "write it without quotes" if isinstance(value, str) and value.isdecimal() else None
            self.problem(name, f"expected a whole number from {least} to {most}, found {_kind(value)}", advice)
        else:
            return value
        return 1

    def quantity(self, name: str, quantity: Quantity, zero: bool = False) -> float:
        """A quantity in SI units, above zero unless `zero` is allowed."""
        return self.quantity_of(name, self.get(name), quantity, zero)

    def quantity_of(self, name: str, value: object, quantity: Quantity, zero: bool = False) -> float:
        """The quantity in `value`, which is at or below the key `name`."""
        example = f"`{quantity.example}`"
        if value is None:
            self.missing(name, f"a {quantity.name} such as {example}")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            advice = f'write the number with its unit, in quotes, as in `"{quantity.example}"`'
            self.problem(name, f"expected a {quantity.name} such as {example}, found the bare number `{value}`", advice)
        elif not isinstance(value, str):
            self.problem(name, f"expected a {quantity.name} such as {example}, found {_kind(value)}")
        else:
            try:
                number = parse(value, quantity)
            except UnitError as error:
                self.problem(name, str(error), error.help)
                return PLACEHOLDER
            if number > 0 or zero:
                return number
            self.problem(name, f"expected a {quantity.name} above zero, found `{value}`")
        return PLACEHOLDER

    def close(self) -> None:
        """Note that every key was asked for that this table may have."""
        self.document.read.append(self)


def unknown(section: DocumentTable, name: str, known: Iterable[str], homes: Sequence[str] = ()) -> None:
    """Note that a key is unknown, with where it belongs, or else the name that may have been meant."""
    names = list(known)
    where = f" in `{'.'.join(section.key)}`" if section.key else ""
    likely = nearest(name, [other for other in names if not section.document.beside((*section.key, name), other)])
    if homes:
        more = f", or in one of {len(homes) - 1} other tables" if len(homes) > 2 else ""
        advice = f"it belongs in {' or '.join(f'`{home}`' for home in homes[: 1 if more else 2])}{more}"
    else:
        advice = f"did you mean `{likely}`?" if likely else f"known here: {', '.join(names)}"
    section.document.problem((*section.key, name), f"unknown key `{name}`{where}", advice)


def _headed(key: Key) -> str:
    """The line that a table begins with; `[[groups]]` for one of a list."""
    *outer, last = key
    return f"[[{'.'.join(outer)}]]" if last.isdigit() and outer else f"[{'.'.join(key)}]"


_TOML_HELP = "quantities are texts in quotes, as in `memory = \"80GB\"`"  # fmt: skip


def _merge(
    parent: Mapping[str, Any],
    child: Mapping[str, Any],
    atomic: int,
    deeper: frozenset[str],
    dropped: frozenset[str],
    depth: int = 1,
) -> dict[str, Any]:
    merged = dict(parent)
    for name, value in child.items():
        old = parent.get(name)
        if value == {} and isinstance(old, dict) and (depth >= atomic or name in dropped):
            del merged[name]
        elif isinstance(value, dict) and isinstance(old, dict) and (depth < atomic or name in deeper):
            tables = cast("dict[str, Any]", old), cast("dict[str, Any]", value)
            merged[name] = _merge(*tables, atomic, deeper, dropped, depth + 1)
        else:
            merged[name] = value
    return merged


def _value(table: object, key: Key) -> object:
    if not key or not isinstance(table, Mapping):
        return None if key else table
    return _value(cast("Mapping[str, Any]", table).get(key[0]), key[1:])


def _kind(value: object) -> str:
    """The kind of a TOML value, for messages."""
    match value:
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            return f"`{value}`" if value.strip() else "an empty text"
        case int() | float():
            return f"`{value}`" if math.isfinite(value) else f"the number `{value}`"
        case list():
            return "a list" if value else "an empty list"
        case dict():
            return "a table"
        case None:
            return "nothing"
        case _:
            return f"`{value}`"
