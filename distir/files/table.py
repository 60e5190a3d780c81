"""CSV files that grow by a row at a time: who is interrupted loses no row, and a row that was cut off is skipped."""

from __future__ import annotations

import csv
import io
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from distir.files.locking import open_alone
from distir.files.reading import ROWS, bounded
from distir.ir.errors import DistirError


class TableError(DistirError, ValueError):
    """A text that is no table of the expected columns; the message says why."""


class GrowingTable:
    """A CSV file that is written as its rows come, locked against other processes. Used as a context.

    A new file that gets nothing is removed again. Raises OSError; InUseError if another process has the file.
    """

    def __init__(self, path: str, columns: Sequence[str], line_end: str = "\r\n") -> None:
        self.path = path
        self._columns, self._line_end = columns, line_end
        self._file: BinaryIO = open_alone(path)
        self._keeps = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)  # not so `/dev/null`, or a pipe

    def __enter__(self) -> GrowingTable:
        return self

    def __exit__(self, *error: object) -> None:
        if self._keeps and not os.fstat(self._file.fileno()).st_size:
            with suppress(OSError):
                os.unlink(self.path)
        self._file.close()

    def held(self) -> bytes:
        """What is in the file. Raises OSError."""
        if not self._keeps:
            return b""
        self._file.seek(0)
        return bounded(self._file, ROWS, self.path)

    def begin(self, *, append: bool = False) -> None:
        """Truncate the file, with `append` after its last whole line, and write the columns where there are none."""
        kept = self.held().rfind(b"\n") + 1 if append else 0
        if self._keeps:
            self._file.truncate(kept)
            self._file.seek(kept)
        if not kept:
            self.write(self._columns)

    def write(self, values: Iterable[Any]) -> None:
        """Write a row. Raises OSError, which names the file."""
        line = io.StringIO(newline="")
        csv.writer(line, lineterminator=self._line_end).writerow(map(as_text, values))
        rest = memoryview(line.getvalue().encode())
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from None


def rows_of(data: bytes, columns: Sequence[str]) -> list[list[str]]:
    """The cells of each row below the columns; a truncated last line is skipped. Raises TableError."""
    text = data.decode("utf-8", "replace")
    whole = text[: text.rfind("\n") + 1]
    if not whole:
        if text:
            raise TableError("its first line is no list of columns")
        return []
    try:
        lines = list(csv.reader(io.StringIO(whole, newline="")))
    except csv.Error as error:
        raise TableError(str(error)) from None
    if lines[0] != list(columns):
        raise TableError(f"expected the columns {','.join(columns)}")
    return lines[1:]


def as_text(value: Any) -> str:
    """A value as it is written in a table: nothing for None, `true` or `false`, a float with all its digits."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case _:
            return str(value)
