"""Rows in a CSV file, as they come: what was found stays found, however a search ends."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import fields
from types import TracebackType
from typing import IO, Any

from distir.search.rows import COLUMNS, Row


class LogError(ValueError):
    """A file that holds something else than rows of this search; the text says what."""


class Log:
    """A CSV file that grows by a row at a time. Raises OSError where the system refuses."""

    def __init__(self, path: str, *, resume: bool) -> None:
        """With `resume`, rows are added to those that the file has; else the file is begun anew."""
        grows = resume and os.path.exists(path) and os.path.getsize(path) > 0
        if grows:
            _mend(path)
        self.path = path
        self.file: IO[str] = open(path, "a" if grows else "w", newline="", encoding="utf-8")  # noqa: SIM115
        self.writer = csv.writer(self.file)
        if not grows:
            self.writer.writerow(COLUMNS)
            self._flush()

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.file.close()
        except OSError:  # what could not be written once is tried again, and says nothing new
            if error is None:
                raise

    def add(self, row: Row) -> None:
        """Write a row. Raises OSError, which names the file, where the system refuses."""
        self.writer.writerow(_cells(row))
        self._flush()

    def _flush(self) -> None:
        try:
            self.file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from None


def read_rows(path: str, search: str) -> list[Row]:
    """The rows of an interrupted search; none if there is no file. A last line that was cut off is left out.

    Raises LogError for a file that is no CSV of a search, or that of another one; OSError.
    """
    if not os.path.exists(path):
        return []
    with open(path, newline="", encoding="utf-8", errors="replace") as file:
        text = file.read()
    whole = text[: text.rfind("\n") + 1]
    if not whole:
        if text:
            raise LogError(f"`{path}` is not the CSV of a search: its first line is no list of columns")
        return []
    lines = list(csv.reader(io.StringIO(whole)))
    if tuple(lines[0]) != COLUMNS:
        raise LogError(f"`{path}` is not the CSV of a search: expected the columns {','.join(COLUMNS)}")
    rows = [_row(cells, path, number) for number, cells in enumerate(lines[1:], start=2)]
    for number, row in enumerate(rows, start=2):
        if row.search != search:
            raise LogError(
                f"line {number} of `{path}` is of another search: of another program, machine or version of DistIR "
                f"(`{row.model}` on `{row.hardware}`)"
            )
    return rows


def write_rows(file: IO[str], rows: Iterable[Row]) -> None:
    """A whole table as CSV."""
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    writer.writerows(map(_cells, rows))


def _mend(path: str) -> None:
    """Cut off a last line that was not written to its end."""
    with open(path, "rb+") as file:
        data = file.read()
        if data and not data.endswith(b"\n"):
            file.truncate(data.rfind(b"\n") + 1)


def _cells(row: Row) -> list[str]:
    return [_cell(getattr(row, name)) for name in COLUMNS]


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case _:
            return str(value)


def _row(cells: list[str], path: str, number: int) -> Row:
    if len(cells) != len(COLUMNS):
        raise LogError(f"line {number} of `{path}` has {len(cells)} cells, expected {len(COLUMNS)}")
    values: dict[str, Any] = {}
    for field, cell in zip(fields(Row), cells, strict=True):
        try:
            values[field.name] = _value(str(field.type), cell)
        except ValueError:
            raise LogError(f"line {number} of `{path}`: `{field.name}` cannot be `{cell}`") from None
    return Row(**values)


def _value(kind: str, cell: str) -> Any:
    if "None" in kind and not cell:
        return None
    match kind.removesuffix(" | None"):
        case "int":
            return int(cell)
        case "float":
            return float(cell)
        case "bool":
            return {"true": True, "false": False}[cell] if cell in ("true", "false") else int("")
        case _:
            return cell
