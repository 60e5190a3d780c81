"""Predictions in a CSV file, written as they come, so that an interrupted validation loses none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, fields

from distir.files.table import GrowingTable, TableError, rows_of
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
        self._table = GrowingTable(path, COLUMNS, "\n")

    def __enter__(self) -> PredictionsLog:
        return self

    def __exit__(self, *error: object) -> None:
        self._table.__exit__(*error)

    def known(self) -> list[Prediction]:
        """The predictions that the file holds. A truncated last line is skipped. Raises PredictionsError, OSError."""
        return parse(self._table.held(), self.path)

    def write(self, predictions: Iterable[Prediction]) -> None:
        """Begin the file anew with these. Raises OSError."""
        self._table.begin()
        for each in predictions:
            self.add(each)

    def add(self, prediction: Prediction) -> None:
        """Write one. Raises OSError, which names the file."""
        self._table.write(astuple(prediction))


def parse(data: bytes, path: str) -> list[Prediction]:
    """The predictions of a file's bytes; `path` names it. Raises PredictionsError."""
    try:
        rows = rows_of(data, COLUMNS)
    except TableError as why:
        raise PredictionsError(f"`{path}` holds no predictions: {why}") from None
    return [_prediction(cells, f"{path}:{number}") for number, cells in enumerate(rows, start=2)]


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
