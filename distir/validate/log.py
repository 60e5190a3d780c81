"""Predictions in a CSV file, written as they come, so that an interrupted validation loses none."""

from __future__ import annotations

import csv
import io
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple, fields
from typing import Any, BinaryIO

from distir.files.locking import open_alone
from distir.files.reading import ROWS, bounded
from distir.validate.predictions import Prediction

COLUMNS = tuple(f.name for f in fields(Prediction))


class PredictionsError(ValueError):
    """A file that does not hold predictions; the text says what is wrong."""


class PredictionsLog:
    """A CSV file that grows by a prediction at a time, locked against other processes. Used as a context.

    Raises OSError; InUseError if another process has the file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.file: BinaryIO = open_alone(path)
        self.keeps = stat.S_ISREG(os.fstat(self.file.fileno()).st_mode)

    def __enter__(self) -> PredictionsLog:
        return self

    def __exit__(self, *error: object) -> None:
        if self.keeps and not os.fstat(self.file.fileno()).st_size:
            with suppress(OSError):
                os.unlink(self.path)
        self.file.close()

    def known(self) -> list[Prediction]:
        """The predictions that the file holds. A truncated last line is skipped. Raises PredictionsError, OSError."""
        if not self.keeps:
            return []
        self.file.seek(0)
        text = bounded(self.file, ROWS, self.path).decode("utf-8", "replace")
        return parse(text, self.path)

    def write(self, predictions: Iterable[Prediction]) -> None:
        """Begin the file anew with these. Raises OSError."""
        if self.keeps:
            self.file.truncate(0)
            self.file.seek(0)
        self._write(COLUMNS)
        for each in predictions:
            self.add(each)

    def add(self, prediction: Prediction) -> None:
        """Write one. Raises OSError, which names the file."""
        self._write([_cell(value) for value in astuple(prediction)])

    def _write(self, cells: Iterable[str]) -> None:
        line = io.StringIO(newline="")
        csv.writer(line, lineterminator="\n").writerow(cells)
        rest = memoryview(line.getvalue().encode())
        try:
            while rest:
                rest = rest[self.file.write(rest) :]
            self.file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from None


def parse(text: str, path: str) -> list[Prediction]:
    """The predictions of a text; `path` names it. Raises PredictionsError."""
    whole = text[: text.rfind("\n") + 1]
    if not whole:
        if text.strip():
            raise PredictionsError(f"`{path}` holds no predictions: its first line is no list of columns")
        return []
    try:
        lines = list(csv.reader(io.StringIO(whole, newline="")))
    except csv.Error as error:
        raise PredictionsError(f"`{path}` holds no predictions: {error}") from None
    if tuple(lines[0]) != COLUMNS:
        raise PredictionsError(f"`{path}` holds no predictions: expected the columns {','.join(COLUMNS)}")
    return [_prediction(cells, f"{path}:{number}") for number, cells in enumerate(lines[1:], start=2)]


def _prediction(cells: list[str], at: str) -> Prediction:
    if len(cells) != len(COLUMNS):
        raise PredictionsError(f"{at}: expected {len(COLUMNS)} cells, found {len(cells)}")
    name, seconds, memory, fits, note = cells
    try:
        return Prediction(
            name,
            float(seconds) if seconds else None,
            int(memory) if memory else None,
            {"": None, "true": True, "false": False}[fits],
            note,
        )
    except (ValueError, KeyError):
        raise PredictionsError(f"{at}: expected a time, a size in bytes, and true or false") from None


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
