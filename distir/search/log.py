"""Rows in a CSV file, written as they come, so that an interrupted search loses none."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import IO, Any

from distir.files.reading import ROWS, read_bytes
from distir.files.table import GrowingTable, TableError, as_text, rows_of
from distir.ir.errors import DistirError
from distir.search.rows import COLUMNS, KINDS, Row


class LogError(DistirError, ValueError):
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
        self._table = GrowingTable(path, COLUMNS)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *error: object) -> None:
        self._table.__exit__(*error)

    def rows(self, search: str) -> list[Row]:
        """The rows to resume from, none without `resume`. A truncated last line is skipped.

        Raises LogError for a file that is not the CSV of a search, or of another search; OSError.
        """
        return _rows(self._table.held(), self.path, search) if self.resume else []

    def add(self, row: Row) -> None:
        """Write a row. Raises OSError, which names the file."""
        if not self.is_begun:
            self.is_begun = True
            self._table.begin(append=self.resume)
        self._table.write(_values(row))


def read_rows(path: str, search: str) -> list[Row]:
    """The rows of a search that was interrupted, or is running; none if there is no file. See `Log.rows`.

    Raises LogError for a file that is not the CSV of a search, or of another search; OSError.
    """
    try:
        return _rows(read_bytes(path, ROWS), path, search)
    except FileNotFoundError:
        return []


def rows_in(path: str) -> list[Row]:
    """The rows of a file, of whatever search. Raises LogError for a file that is not the CSV of a search; OSError."""
    return _rows(read_bytes(path, ROWS), path, None)


def _rows(data: bytes, path: str, search: str | None) -> list[Row]:
    try:
        table = rows_of(data, COLUMNS)
    except TableError as why:
        if lacking := _columns_lacking(data):
            raise LogError(
                f"`{path}` was written by another version of DistIR, without the columns {', '.join(lacking)}; "
                "search anew without `--resume`, or name another file"
            ) from None
        raise LogError(f"`{path}` is not the CSV of a search: {why}") from None
    rows = [_row(cells, path, number) for number, cells in enumerate(table, start=2)]
    for number, row in enumerate(rows, start=2):
        if search is not None and row.search != search:
            raise LogError(
                f"line {number} of `{path}` is of another search: of another program, machine or version of DistIR "
                f"(`{row.model}` on `{row.hardware}`)"
            )
    return rows


def _columns_lacking(data: bytes) -> list[str]:
    """The columns that the CSV of a search has not, which has all others; none if it is no such file."""
    there = data.partition(b"\n")[0].decode("utf-8", "replace").strip().split(",")
    own = "search" in there and set(there) < set(COLUMNS)
    return [name for name in COLUMNS if name not in there] if own else []


def write_rows(file: IO[str], rows: Iterable[Row]) -> None:
    """A whole table as CSV."""
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    writer.writerows(map(as_text, _values(row)) for row in rows)


def _values(row: Row) -> list[Any]:
    return [*row.columns.values()]


def _row(cells: list[str], path: str, number: int) -> Row:
    if len(cells) != len(COLUMNS):
        raise LogError(f"line {number} of `{path}` has {len(cells)} cells, expected {len(COLUMNS)}")
    values: dict[str, Any] = {}
    for name, cell in zip(COLUMNS, cells, strict=True):
        try:
            values[name] = _value(KINDS[name], cell)
        except ValueError:
            raise LogError(f"line {number} of `{path}`: `{name}` cannot be `{cell}`") from None
    return Row.of_columns(values)


def _value(kind: str, cell: str) -> Any:
    if "None" in kind and not cell:
        return None
    match kind.removesuffix(" | None"):
        case "int":
            return int(cell)
        case "float":
            return float(cell)
        case "tuple[int, ...]":
            return tuple(map(int, filter(None, cell.split(","))))
        case "bool":
            return {"true": True, "false": False}[cell] if cell in ("true", "false") else int("")
        case _:
            return cell
