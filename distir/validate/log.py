"""Predictions in a CSV file, written as they come, so that an interrupted validation loses none.

Each is with what it is of (`distir.validate.origin`): where rows, frameworks, profiles or the code have changed since,
a run is predicted anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace

from distir.cost.hardware import FITS, Fit
from distir.files.table import GrowingTable, TableError, rows_of
from distir.ir.errors import DistirError
from distir.validate.machines import memory_errors_of
from distir.validate.origin import code_digest, inputs_digest
from distir.validate.predictions import Prediction, judged
from distir.validate.runs import MeasuredRun

FIGURES = tuple(f.name for f in fields(Prediction))
DIGESTS = ("inputs", "code")
COLUMNS = (*FIGURES, *DIGESTS)

WITHOUT_FIT = tuple(name for name in COLUMNS if name != "fit")
"""The columns of files that earlier versions wrote."""

_WORDS: dict[str, Fit | None] = {"": None, **{word: word for word in FITS}}

EARLIER = ("id", "step_time_s", "peak_memory_bytes", "fits", "note")
"""The figures of files of versions before these: their peak is `reported_memory_bytes` of today."""


class PredictionsError(DistirError, ValueError):
    """A file that does not hold predictions; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Logged:
    """A prediction, and the digests of what it is of: empty in files of versions that wrote none."""

    prediction: Prediction
    inputs: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The predictions that hold for runs of today, by id, and the ids of those that are of other inputs or code."""

    known: Mapping[str, Prediction]
    outdated: Sequence[str]


class PredictionsLog:
    """A CSV file that grows by a prediction at a time, locked against other processes. Used as a context.

    Raises OSError; InUseError if another process has the file.
    """

    def __init__(self, path: str, runs: Iterable[MeasuredRun]) -> None:
        self.path = path
        self._runs = {run.id: run for run in runs}
        self._table = GrowingTable(path, COLUMNS, "\n")

    def __enter__(self) -> PredictionsLog:
        return self

    def __exit__(self, *error: object) -> None:
        self._table.__exit__(*error)

    def resume(self) -> Resumed:
        """What the file holds of the runs; predictions that do not hold for them any more are taken out of it.

        Predictions of other runs stay. A truncated last line is skipped. Raises PredictionsError, OSError.
        """
        data = self._table.held()
        found = parse(data, self.path)
        outdated = [each.prediction.id for each in found if self._is_outdated(each)]
        holding = [self._judged(each) for each in found if not self._is_outdated(each)]
        if holding != found or _columns(data) != COLUMNS:
            self._write(holding)
        else:
            self._table.begin(append=True)
        return Resumed({e.prediction.id: e.prediction for e in holding if e.prediction.id in self._runs}, outdated)

    def write(self, predictions: Iterable[Prediction]) -> None:
        """Begin the file anew with these. Raises OSError."""
        self._write(map(self._logged, predictions))

    def add(self, prediction: Prediction) -> None:
        """Write one. Raises OSError, which names the file."""
        self._put(self._logged(prediction))

    def _is_outdated(self, logged: Logged) -> bool:
        run = self._runs.get(logged.prediction.id)
        return run is not None and (logged.code != code_digest() or logged.inputs != inputs_digest(run))

    def _judged(self, logged: Logged) -> Logged:
        """As the profile of the machine says today how far memory is off, which is no input of a prediction."""
        run = self._runs.get(logged.prediction.id)
        if run is None:
            return logged
        return replace(logged, prediction=judged(logged.prediction, memory_errors_of(run.gpu, run.hardware)))

    def _logged(self, prediction: Prediction) -> Logged:
        return Logged(prediction, inputs_digest(self._runs[prediction.id]), code_digest())

    def _write(self, logged: Iterable[Logged]) -> None:
        self._table.begin()
        for each in logged:
            self._put(each)

    def _put(self, logged: Logged) -> None:
        self._table.write((*astuple(logged.prediction), logged.inputs, logged.code))


def parse(data: bytes, path: str) -> list[Logged]:
    """What a file's bytes hold; `path` names it. Raises PredictionsError."""
    columns = _columns(data)
    try:
        rows = rows_of(data, columns)
    except TableError as why:
        raise PredictionsError(f"`{path}` holds no predictions: {why}") from None
    return [_logged(cells, columns, f"{path}:{number}") for number, cells in enumerate(rows, start=2)]


def _columns(data: bytes) -> tuple[str, ...]:
    """The columns that a file should have: those of today, unless it begins with those of an earlier version."""
    earlier = (columns for columns in (WITHOUT_FIT, (*EARLIER, *DIGESTS), EARLIER) if data.startswith(_head(columns)))
    return next(earlier, COLUMNS)


def _head(columns: Sequence[str]) -> bytes:
    return (",".join(columns) + "\n").encode()


def _logged(cells: list[str], columns: tuple[str, ...], at: str) -> Logged:
    if len(cells) != len(columns):
        raise PredictionsError(f"{at}: expected {len(columns)} cells, found {len(cells)}")
    found = dict(zip(columns, cells, strict=True))
    if columns not in (COLUMNS, WITHOUT_FIT):
        found["reported_memory_bytes"] = found.pop("peak_memory_bytes")
    sizes = ("peak_memory_bytes", "capacity_bytes", "reported_memory_bytes")
    try:
        prediction = Prediction(
            found["id"],
            float(found["step_time_s"]) if found["step_time_s"] else None,
            fits={"": None, "true": True, "false": False}[found["fits"]],
            fit=_WORDS[found.get("fit", "")],
            note=found["note"],
            **{name: int(found[name]) for name in sizes if found.get(name)},
        )
    except (ValueError, KeyError):
        raise PredictionsError(f"{at}: expected a time, sizes in bytes, true or false, and whether it fits") from None
    return Logged(prediction, found.get("inputs", ""), found.get("code", ""))
