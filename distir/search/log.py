"""Rows in a CSV file, written as they come, so that an interrupted search loses none."""

from __future__ import annotations

import csv
import io
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import IO, Any, BinaryIO

from distir.files.locking import open_alone
from distir.files.reading import ROWS, bounded, read_bytes
from distir.search.rows import COLUMNS, Row


class LogError(ValueError):
    """A file that does not hold rows of this search; the text says what is wrong."""


class Log:
    """A CSV file that grows by a row at a time, locked against other searches.

    Used as a context. Raises OSError; InUseError if another process has the file.
    """

    def __init__(self, path: str, *, resume: bool) -> None:
        """With `resume`, rows are appended; without, the first row truncates the file.

        Until then the file stays as it is; a new file that gets no row is removed again.
        """
        self.path, self.resume = path, resume
        self.is_begun = False
        self.file: BinaryIO = open_alone(path)
        self.keeps = stat.S_ISREG(os.fstat(self.file.fileno()).st_mode)  # not so `/dev/null`, or a pipe

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *error: object) -> None:
        if self.keeps and not os.fstat(self.file.fileno()).st_size:
            with suppress(OSError):
                os.unlink(self.path)
        self.file.close()

    def rows(self, search: str) -> list[Row]:
        """The rows to resume from, none without `resume`. A truncated last line is skipped.

        Raises LogError for a file that is not the CSV of a search, or of another search; OSError.
        """
        return _rows(self._held(), self.path, search) if self.resume else []

    def _begin(self) -> None:
        self.is_begun = True
        kept = self._held().rfind(b"\n") + 1 if self.resume else 0
        if self.keeps:
            self.file.truncate(kept)
            self.file.seek(kept)
        if not kept:
            self._write(COLUMNS)

    def add(self, row: Row) -> None:
        """Write a row. Raises OSError, which names the file."""
        if not self.is_begun:
            self._begin()
        self._write(_cells(row))

    def _write(self, cells: Sequence[str]) -> None:
        line = io.StringIO(newline="")
        csv.writer(line).writerow(cells)
        rest = memoryview(line.getvalue().encode())
        try:
            while rest:
                rest = rest[self.file.write(rest) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from None

    def _held(self) -> bytes:
        """What is in the file."""
        if not self.keeps:
            return b""
        self.file.seek(0)
        return bounded(self.file, ROWS, self.path)


def read_rows(path: str, search: str) -> list[Row]:
    """The rows of a search that was interrupted, or is running; none if there is no file. See `Log.rows`.

    Raises LogError for a file that is not the CSV of a search, or of another search; OSError.
    """
    try:
        return _rows(read_bytes(path, ROWS), path, search)
    except FileNotFoundError:
        return []


def _rows(data: bytes, path: str, search: str) -> list[Row]:
    text = data.decode("utf-8", "replace")
    whole = text[: text.rfind("\n") + 1]
    if not whole:
        if text:
            raise LogError(f"`{path}` is not the CSV of a search: its first line is no list of columns")
        return []
    try:
        lines = list(csv.reader(io.StringIO(whole, newline="")))
    except csv.Error as error:
        raise LogError(f"`{path}` is not the CSV of a search: {error}") from None
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
