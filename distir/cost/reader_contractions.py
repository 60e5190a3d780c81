"""Figures of products and attention by shape (`contractions`) in a profile; `examples/profiles` fits them.

`[kinds.NAME.products.DTYPE]`   `processors`, `memory`, `cache`, `sums`, `overlap`, `throttle`, `heats_in`; the tables
                                `usual` and `thin` with `launch`, `step`, `split` and `load`; the table `tiles`:
                                `"128x256" = { rate = "900TFLOP/s", overhead = "1us", tail = 0.5 }`; optionally
                                `thin_to`, `steepness` and the table `correction`: lists `short`, `long`, `terms`, and
                                `percent`, a number for each of `terms`, in a list for each of `long`, for each of
                                `short`; and the tables `filling` with `result`, `terms` and `percent`, `streaming`
                                with `operand`, `short` and `percent`, and `splits_from` with `multiplications` and
                                `terms`; or `like = "DTYPE"`
`[kinds.NAME.experts.DTYPE]`    optional: the same for products of experts, which else are as `products`
`… .attention.DTYPE.SIZE]`      by the size of a head: `processors`, `launch`, `memory`, `rate`, `rows`, `columns`,
                                `overhead`, `overlap`, `throttle`, `heats_in`; optionally `backward`, a share of the
                                rate, and the table `correction` with `heads`, `queries`, `group` and `percent`; or
                                `like` for DTYPE
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from distir.cost.compute import Rate
from distir.cost.contractions import THIN_TO, AttentionFigures, Pace, ProductFigures, SplitsFrom, Tile
from distir.cost.document import PLACEHOLDER, DocumentTable, unknown
from distir.cost.reader_correction import correction
from distir.cost.reader_measured import FigureNotes
from distir.cost.units import BANDWIDTH, DURATION, FLOP_RATE, Quantity
from distir.diagnostics.spelling import nearest
from distir.files import limits
from distir.ir import DTYPES, DType

_Figures = TypeVar("_Figures", ProductFigures, tuple[AttentionFigures, ...])


def products(
    kind: DocumentTable, name: str, profile: FigureNotes, rates: Mapping[DType, Rate]
) -> dict[str, ProductFigures]:
    """The figures of products in the table `name`, by element type."""
    return _by_dtype(kind, name, lambda table, peak: _products(table, profile, peak), rates, profile)


def attention(
    kind: DocumentTable, profile: FigureNotes, rates: Mapping[DType, Rate]
) -> dict[str, tuple[AttentionFigures, ...]]:
    """The figures of attention, by element type."""
    return _by_dtype(kind, "attention", lambda table, peak: _attention(table, profile, peak), rates, profile)


def _by_dtype(
    kind: DocumentTable,
    name: str,
    read: Callable[[DocumentTable, float], _Figures],
    rates: Mapping[DType, Rate],
    profile: FigureNotes,
) -> dict[str, _Figures]:
    section = kind.section(name)
    found: dict[str, _Figures] = {}
    like: dict[str, str] = {}
    for dtype in section or ():
        assert section is not None
        entry = section.section(dtype)
        if dtype not in DTYPES:
            unknown(section, dtype, DTYPES)
        elif entry is not None and "like" in entry:
            like[dtype] = entry.text("like", "the name of an element type")
            profile.record(section, dtype, f"as {like[dtype]}", entry)
            entry.close()
        elif entry is not None:
            rate = rates.get(DTYPES[dtype])
            found[dtype] = read(entry, PLACEHOLDER if rate is None else rate.peak)
    for dtype, target in like.items():
        if target in found and target not in like:
            found[dtype] = found[target]
        elif section is not None and target:
            likely = nearest(target, found)
            advice = f"did you mean `{likely}`?" if likely else "state figures for it, and refer to these"
            section.problem(dtype, f"no figures are stated for `{target}`", advice)
    return found


def _products(section: DocumentTable, profile: FigureNotes, peak: float) -> ProductFigures:
    processors = _count(section, "processors", profile)
    memory, cache, sums = (profile.figure(section, name, BANDWIDTH) for name in ("memory", "cache", "sums"))
    overlap, throttle = (
        _number(section, "overlap", section, profile, 1.0),
        _number(section, "throttle", section, profile, 0.0),
    )
    heats_in = profile.figure(section, "heats_in", DURATION)
    usual, thin = (_pace(section, name, profile) for name in ("usual", "thin"))
    tiles, thin_to = _tiles(section, profile, peak), section.count("thin_to", default=THIN_TO, most=limits.ROWS)
    read = ((section.section(name), axes) for name, axes in PRODUCT_AXES.items())
    corrected = (None if table is None else correction(table, axes, profile, section) for table, axes in read)
    form = processors, memory, cache, sums, overlap, throttle, heats_in, usual, thin, tiles, thin_to
    steepness = _number(section, "steepness", section, profile, 1.0) if "steepness" in section else 1.0
    splits_from = _splits_from(section, profile)
    found = ProductFigures(*form, *corrected, splits_from=splits_from, steepness=steepness)
    section.close()
    return found


def _splits_from(section: DocumentTable, profile: FigureNotes) -> SplitsFrom | None:
    table = section.section("splits_from")
    if table is None:
        return None
    found = SplitsFrom(*(table.count(name, most=limits.ROWS * limits.ROWS) for name in ("multiplications", "terms")))
    for name in ("multiplications", "terms"):
        profile.record(table, name, table.get(name), section)
    table.close()
    return found


def _pace(section: DocumentTable, name: str, profile: FigureNotes) -> Pace:
    table = section.section(name)
    if table is None:
        if name not in section:
            section.missing(name, "a table with `launch`, `step`, `split` and `load`")
        return Pace(PLACEHOLDER, PLACEHOLDER, PLACEHOLDER, PLACEHOLDER)
    launch, step, split = (_figure(table, key, DURATION, section, profile) for key in ("launch", "step", "split"))
    load = _figure(table, "load", BANDWIDTH, section, profile)
    table.close()
    return Pace(launch, step, split, load)


def _tiles(section: DocumentTable, profile: FigureNotes, peak: float) -> tuple[Tile, ...]:
    table = section.section("tiles")
    if table is None and "tiles" not in section:
        section.missing("tiles", 'a table such as `{ "128x256" = { rate = "900TFLOP/s" } }`')
    found: list[Tile] = []
    for name in table or ():
        assert table is not None
        entry = table.section(name)
        sides = re.fullmatch(r"([1-9]\d{0,5})x([1-9]\d{0,5})", name)
        if sides is None:
            table.problem(name, f'expected the sides of a tile such as `"128x256"`, found `{name}`')
        if entry is None or sides is None:
            continue
        rate = _figure(entry, "rate", FLOP_RATE, section, profile)
        _not_above(entry, rate, peak)
        overhead = _figure(entry, "overhead", DURATION, section, profile) if "overhead" in entry else 0.0
        tail = _number(entry, "tail", section, profile, 0.0, 1.0) if "tail" in entry else 0.0
        found.append(Tile(int(sides[1]), int(sides[2]), rate, overhead, tail))
        entry.close()
    if table is not None and not found:
        section.problem("tiles", "expected at least one tile")
    return tuple(found)


PRODUCT_AXES = {
    "correction": ("short", "long", "terms"),
    "filling": ("result", "terms"),
    "streaming": ("operand", "short"),
}
"""Of the corrections of products."""

ATTENTION_AXES = ("heads", "queries", "group")
"""Of that of attention."""


def _attention(section: DocumentTable, profile: FigureNotes, peak: float) -> tuple[AttentionFigures, ...]:
    found: list[AttentionFigures] = []
    for name in section:
        entry = section.section(name)
        if not re.fullmatch(r"[1-9]\d{0,5}", name):
            section.problem(name, f"expected the size of a head such as `128`, found `{name}`")
        elif entry is not None:
            found.append(_of_head(int(name), entry, profile, peak))
    if not found:
        section.problem("", "expected at least one table by the size of a head, such as `128`")
    section.close()
    return tuple(found)


def _of_head(size: int, section: DocumentTable, profile: FigureNotes, peak: float) -> AttentionFigures:
    processors = _count(section, "processors", profile)
    launch = profile.figure(section, "launch", DURATION, zero=True)
    memory = profile.figure(section, "memory", BANDWIDTH)
    rate = profile.figure(section, "rate", FLOP_RATE)
    _not_above(section, rate, peak)
    rows, columns = _count(section, "rows", profile), _count(section, "columns", profile)
    overhead = profile.figure(section, "overhead", DURATION, zero=True)
    overlap, throttle = (
        _number(section, "overlap", section, profile, 1.0),
        _number(section, "throttle", section, profile, 0.0),
    )
    heats_in = profile.figure(section, "heats_in", DURATION)
    backward = _number(section, "backward", section, profile, 0.01, 1.0) if "backward" in section else 1.0
    causal = _number(section, "causal", section, profile, 0.01, 1.0) if "causal" in section else 1.0
    dropout = _dropout(section, profile)
    table = section.section("correction")
    corrected = None if table is None else correction(table, ATTENTION_AXES, profile, section)
    section.close()
    form = size, processors, launch, memory, rate, rows, columns, overhead, overlap, throttle, heats_in
    return AttentionFigures(*form, backward=backward, correction=corrected, dropout=dropout, causal=causal)


def _dropout(section: DocumentTable, profile: FigureNotes) -> tuple[float, float] | None:
    table = section.section("dropout")
    if table is None:
        return None
    forward, backward = (_number(table, name, section, profile, 1.0) for name in ("forward", "backward"))
    table.close()
    return forward, backward


def _not_above(table: DocumentTable, rate: float, peak: float) -> None:
    if rate > peak * (1 + 1e-9):
        table.problem("rate", f"`{table.get('rate')}` is above the `peak` of the element type")


def _count(section: DocumentTable, name: str, profile: FigureNotes) -> int:
    number = section.count(name, most=limits.ROWS)
    profile.record(section, name, section.get(name), section)
    return number


def _figure(table: DocumentTable, name: str, quantity: Quantity, cited: DocumentTable, profile: FigureNotes) -> float:
    """A figure of a table inside the one that states its source. Times may be zero."""
    number = table.quantity(name, quantity, zero=quantity is DURATION)
    profile.record(table, name, table.get(name), cited)
    return number


def _number(
    table: DocumentTable, name: str, cited: DocumentTable, profile: FigureNotes, least: float, most: float = 1000.0
) -> float:
    """A number without a unit."""
    value = table.get(name)
    if value is None:
        table.missing(name, f"`{name}` followed by a number, such as `{name} = {max(least, 0.5):g}`")
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most:
        profile.record(table, name, value, cited)
        return float(value)
    else:
        table.problem(name, f"expected a number from {least:g} to {most:g}, found `{value}`")
    return PLACEHOLDER
