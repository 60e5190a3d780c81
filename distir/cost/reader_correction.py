"""A correction (`correction`) in a profile: a list of sizes for each axis, and the numbers.

`NAME = [64, 512, 4096]`   for each axis, ascending
`percent = [[3, -2, 0]]`   numbers: by how much longer things take: lists in lists, the first axis outermost
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

from distir.cost.correction import Correction
from distir.cost.document import DocumentTable, unknown
from distir.cost.reader_measured import PATTERNS, FigureNotes
from distir.ops.resources import Pattern

LOWEST, HIGHEST = 95, 10_000
"""Percent by which a correction may change what the form says."""


def correction(
    table: DocumentTable, names: Sequence[str], profile: FigureNotes, cited: DocumentTable
) -> Correction | None:
    """The correction in a table whose axes have these names; None where there is a fault."""
    axes = tuple(_axis(table, name) for name in names)
    shares = _shares(table, names, axes)
    table.close()
    if shares is None:
        return None
    found = Correction(axes, shares)
    profile.record(table, "percent", f"{found.count} numbers", cited)
    return found


def corrections(level: DocumentTable, profile: FigureNotes) -> dict[Pattern, Correction]:
    """Those of a level's patterns: `[levels.NAME.correction.allreduce]`, whose axes are `devices` and `bytes`."""
    section = level.section("correction")
    found: dict[Pattern, Correction] = {}
    for name in section or ():
        assert section is not None
        entry = section.section(name)
        if name not in PATTERNS:
            unknown(section, name, PATTERNS)
        elif entry is not None and (made := correction(entry, ("devices", "bytes"), profile, entry)) is not None:
            found[name] = made
    return found


def _axis(table: DocumentTable, name: str) -> tuple[int, ...]:
    """Whole numbers in ascending order; none where there is a fault."""
    value = table.get(name)
    if value is None:
        table.missing(name, f"`{name}` followed by a list of sizes, such as `{name} = [64, 512, 4096]`")
        return ()
    items = cast("list[object]", value) if isinstance(value, list) else []
    found = tuple(item for item in items if isinstance(item, int) and not isinstance(item, bool))
    if not items or len(found) < len(items) or found[0] < 1 or any(b <= a for a, b in pairwise(found)):
        table.problem(name, "expected a list of whole numbers above zero in ascending order")
        return ()
    return found


def _shares(table: DocumentTable, names: Sequence[str], axes: Sequence[tuple[int, ...]]) -> tuple[Any, ...] | None:
    value = table.get("percent")
    listed = ", ".join(f"`{name}`" for name in names)
    if value is None:
        table.missing("percent", f"`percent` followed by lists of numbers, one for each of {listed}")
        return None
    if not all(axes):
        return None
    found = _nested(value, [len(axis) for axis in axes])
    if found is None:
        sizes = " of ".join(str(len(axis)) for axis in axes)
        table.problem(
            "percent", f"expected lists of numbers above -{LOWEST} and up to {HIGHEST}, {sizes}, as {listed} have"
        )
    return found


def _nested(value: object, sizes: Sequence[int]) -> Any:
    """Nested lists of these lengths as tuples of shares; None where they are not."""
    if not sizes:
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and -LOWEST < value <= HIGHEST
        return cast("float", value) / 100 if number else None
    if not isinstance(value, list) or len(cast("list[object]", value)) != sizes[0]:
        return None
    found = tuple(_nested(item, sizes[1:]) for item in cast("list[object]", value))
    return None if any(item is None for item in found) else found
