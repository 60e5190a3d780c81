"""The part of a profile that calibration writes: figures of single ops, times of single patterns, uncertainties.

`[kinds.NAME.ops.OP.DTYPE]`   `launch`; optionally `rate` (arithmetic) and `bandwidth` (traffic), each one figure or a
                              table by the size of the op, as `achieved` is; `DTYPE` may be `other`
`… .OP.DTYPE.warm`            the same, while caches hold the operands and the code; it counts where `[kinds.NAME]`
                              states `cache = "2MiB"`, their size
`[levels.NAME.times.PATTERN]` tables `"2" = { "4kB" = "60us", … }`: by the number of devices, by the payload
`uncertainty = 0.05`          there, in `[kinds.NAME]` (for all other ops) and in `[levels.NAME.send]` and so on: how
                              far a time may be off, as a share of it
`[published]`                 what 8 of 10 published training runs lie within: `low` and `high`, measured over simulated
                              times; `apart`: by what share the ratio of two layouts' times is off; optionally
                              `memory_low` and `memory_high`: measured over simulated peaks of memory
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Protocol, get_args

from distir.cost.compute import OpFigures, Rate
from distir.cost.document import PLACEHOLDER, DocumentTable, unknown
from distir.cost.hardware import MemoryErrors, PublishedErrors
from distir.cost.topology import Times
from distir.cost.units import BANDWIDTH, DURATION, FLOP_RATE, FLOPS, MEMORY, Quantity
from distir.files import limits
from distir.ir import DTYPES
from distir.ops.resources import Pattern

PATTERNS: tuple[Pattern, ...] = get_args(Pattern)


class FigureNotes(Protocol):
    """Where figures are noted as they are read."""

    def figure(self, section: DocumentTable, name: str, quantity: Quantity, zero: bool = False) -> float:
        """A figure of a table."""
        ...

    def record(self, section: DocumentTable, name: str, value: object, cited: DocumentTable) -> None:
        """Note a figure that has been read; `cited` is the table that states its source."""
        ...


def op_figures(kind: DocumentTable, profile: FigureNotes) -> dict[tuple[str, str], OpFigures]:
    """The figures of single ops, by op and element type."""
    section = kind.section("ops")
    found: dict[tuple[str, str], OpFigures] = {}
    for op in section or ():
        assert section is not None
        by_dtype = section.section(op)
        for dtype in by_dtype or ():
            assert by_dtype is not None
            entry = by_dtype.section(dtype)
            if dtype not in DTYPES and dtype != "other":
                unknown(by_dtype, dtype, (*DTYPES, "other"))
            elif entry is not None:
                found[op, dtype] = _op(entry, profile)
    return found


def times(level: DocumentTable, profile: FigureNotes) -> dict[Pattern, Times]:
    """The times of single patterns."""
    section = level.section("times")
    found: dict[Pattern, Times] = {}
    for name in section or ():
        assert section is not None
        entry = section.section(name)
        if name not in PATTERNS:
            unknown(section, name, PATTERNS)
        elif entry is not None:
            found[name] = _times(entry, profile)
    return found


MEASURED = replace(DURATION, least=1e-18)
"""Times between which a line in logarithms is drawn."""

LARGEST_SHARE = 100
"""Figures with a larger relative uncertainty are rejected."""


def uncertainty(section: DocumentTable) -> float:
    """The relative uncertainty of times; 0 if none is stated."""
    return share_of(section, "uncertainty")


MEMORY_BAND = ("memory_low", "memory_high")


def published(root: DocumentTable, profile: FigureNotes) -> PublishedErrors | None:
    """How far simulated times and memory of published runs are off; None where the profile does not say."""
    section = root.section("published")
    if section is None:
        return None
    low, high, apart = (share_of(section, name) for name in ("low", "high", "apart"))
    for name in ("low", "high"):
        if section.get(name) is None:
            section.missing(name, "a share such as `0.9`")
    if not 0 < low <= high:
        section.problem("low", "expected a number above 0, and not above `high`")
    least, most = (share_of(section, name) or 1.0 for name in MEMORY_BAND)
    if not 0 < least <= most:
        section.problem(MEMORY_BAND[0], f"expected a number above 0, and not above `{MEMORY_BAND[1]}`")
    for name in ("low", "high", "apart", *(name for name in MEMORY_BAND if section.get(name) is not None)):
        profile.record(section, f"published {name}", section.get(name), section)
    section.close()
    return PublishedErrors(low, high, apart, MemoryErrors(least, most))


def share_of(section: DocumentTable, name: str, most: float = LARGEST_SHARE) -> float:
    """A share, stated as a number; 0 if none is stated."""
    value = section.get(name)
    if value is None:
        return 0.0
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most:
        return float(value)
    section.problem(name, f"expected a share such as `0.05`, found `{value}`", f"{most:g} at most")
    return 0.0


def _op(section: DocumentTable, profile: FigureNotes) -> OpFigures:
    found = _figures(section, profile)
    warm = section.section("warm")
    if warm is not None:
        found = replace(found, warm=_figures(warm, profile))
        warm.close()
    section.close()
    return found


def _figures(section: DocumentTable, profile: FigureNotes) -> OpFigures:
    launch = profile.figure(section, "launch", DURATION, zero=True)
    arithmetic = _rate(section, "rate", FLOP_RATE, FLOPS, profile)
    traffic = _rate(section, "bandwidth", BANDWIDTH, MEMORY, profile)
    return OpFigures(launch, arithmetic, traffic, uncertainty(section))


def _rate(section: DocumentTable, name: str, quantity: Quantity, size: Quantity, profile: FigureNotes) -> Rate | None:
    value = section.get(name)
    if value is None:
        return None
    if not isinstance(value, dict):
        achieved = profile.figure(section, name, quantity)
        return Rate(achieved, ((1.0, achieved),))
    table = section.section(name)
    assert table is not None
    points = _points(table, quantity, size, profile, section)
    for (smaller, rate), (larger, next_rate) in pairwise(points):
        if larger / next_rate < smaller / rate * (1 - 1e-5):
            section.problem(name, f"the size {larger:.4g} would take less time than {smaller:.4g}")
    return Rate(max((rate for _, rate in points), default=PLACEHOLDER), points) if points else None


def _times(section: DocumentTable, profile: FigureNotes) -> Times:
    by_devices: dict[int, tuple[tuple[float, float], ...]] = {}
    share = uncertainty(section)
    for name in section:
        if name in ("uncertainty", "source", "basis", "note"):
            continue
        if not name.isdecimal() or not 2 <= int(name) <= limits.DEVICES:
            section.get(name)
            section.problem(name, f"expected a number of devices from 2, found `{name}`")
            continue
        table = section.section(name)
        if table is None:
            continue
        points = _points(table, MEASURED, MEMORY, profile, section)
        for (smaller, seconds), (larger, next_seconds) in pairwise(points):
            if next_seconds < seconds:
                section.problem(name, f"{larger:.4g} bytes would take less time than {smaller:.4g} bytes")
        if points:
            by_devices[int(name)] = points
    if not by_devices:
        section.problem("", 'expected a table such as `"2" = { "4kB" = "60us", "4MB" = "3ms" }`')
    for name in ("source", "basis", "note"):
        section.get(name)
    section.close()
    return Times(by_devices, share)


def _points(
    table: DocumentTable, quantity: Quantity, size: Quantity, profile: FigureNotes, cited: DocumentTable
) -> tuple[tuple[float, float], ...]:
    """A table from sizes to figures, sizes ascending."""
    points: dict[float, float] = {}
    for name in table:
        points[table.quantity_of(name, name, size)] = table.quantity(name, quantity)
        profile.record(table, name, table.get(name), cited)
    if not points:
        table.problem("", "expected at least one size, found an empty table")
    return tuple(sorted(points.items()))
