"""Tables of measured ops: reading, what is held out, errors; and the machine that they are of."""

from __future__ import annotations

import argparse
import csv
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from distir.cost import Hardware, HardwareError, load

HELD_OUT = 5
"""One row of so many is not fitted."""

Array = Any


def read_rows(path: str, where: Mapping[str, str]) -> list[dict[str, str]]:
    """The rows of a CSV file, without lines that begin with `#`, whose columns have these values."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = csv.DictReader(line for line in file if not line.startswith("#"))
            return [row for row in rows if all(row.get(name) == value for name, value in where.items())]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SystemExit(f"`{path}` cannot be read as a table: {error}") from None


def add_conditions(parser: argparse.ArgumentParser, name: str, help: str) -> None:
    """An option that takes COLUMN=VALUE, several times or several at once; it may not be before a file's name."""
    parser.add_argument(
        name, action="extend", nargs="+", type=_condition, default=[], metavar="COLUMN=VALUE", help=help
    )


def _condition(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SystemExit(f"expected a column and a value, as in `device=h100`, found `{text}`")
    return name, value


def loaded(profile: str, nodes: int | None = None) -> Hardware:
    """The machine of a profile. Raises SystemExit where it is unknown or faulty."""
    try:
        return load(profile, nodes)
    except HardwareError as error:
        raise SystemExit(str(error)) from None


def column(rows: Sequence[Mapping[str, str]], name: str, default: float | None = None) -> Array:
    """A column of numbers. Raises SystemExit where it is missing, or a value is no positive number."""
    found: list[float] = []
    for number, row in enumerate(rows, 1):
        text = row.get(name) or ("" if default is None else str(default))
        try:
            value = float(text)
        except ValueError:
            raise SystemExit(f"row {number} has no number in the column `{name}`, but `{text}`") from None
        if not 0 < value < math.inf:
            raise SystemExit(f"row {number}: `{name}` is `{text}`, expected a number above zero")
        found.append(value)
    return np.array(found)


def seconds_of(rows: Sequence[Mapping[str, str]]) -> Array:
    """The measured times: a column `seconds`, `latency_ms` or `latency_us`."""
    for name, unit in (("seconds", 1.0), ("latency_ms", 1e-3), ("latency_us", 1e-6)):
        if rows and name in rows[0]:
            return column(rows, name) * unit
    raise SystemExit("the table has no column `seconds`, `latency_ms` or `latency_us`")


def held_out(*shape: Array) -> Array:
    """Which rows are not fitted: by a hash of the shape, so that the same shape is never on both sides."""

    def one(numbers: Iterable[float]) -> bool:
        text = ",".join(str(int(number)) for number in numbers)
        return int(hashlib.sha256(text.encode()).hexdigest(), 16) % HELD_OUT == 0

    return np.array([one(numbers) for numbers in zip(*shape, strict=True)])


def quantiles(measured: Array, estimated: Array) -> tuple[float, float]:
    """The median and the ninth decile of the relative errors."""
    errors = np.abs(estimated / measured - 1)
    return float(np.median(errors)), float(np.quantile(errors, 0.9))
