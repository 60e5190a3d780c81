"""Figures as the tables of a profile."""

from __future__ import annotations

import math
from collections.abc import Sequence

from distir.cost.contractions import THIN_TO, AttentionFigures, Pace, ProductFigures
from distir.cost.correction import Correction
from distir.cost.reader_contractions import ATTENTION_AXES, PRODUCT_AXES


def _text(value: float, unit: str) -> str:
    """A figure with three digits and a prefix."""
    scales = {"B/s": (("TB/s", 1e12), ("GB/s", 1e9)), "FLOP/s": (("TFLOP/s", 1e12), ("GFLOP/s", 1e9))}
    scales["s"] = (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
    name, size = next(((n, s) for n, s in scales[unit] if value >= s), scales[unit][-1])
    return f'"{_digits(value / size)}{name}"'


def _digits(value: float) -> str:
    """Four digits, cut off, so that no rate is above its peak."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.floor(value / unit + 1e-6) * unit:.4g}"


def product_toml(kind: str, dtype: str, figures: ProductFigures, cited: str, table: str = "products") -> str:
    """The tables of a profile."""

    def pace(pace: Pace) -> str:
        figures = (f"{name} = {_text(getattr(pace, name), 's')}" for name in ("launch", "step", "split"))
        return f"{{ {', '.join(figures)}, load = {_text(pace.load, 'B/s')} }}"

    lines = [f"[kinds.{kind}.{table}.{dtype}]", f"processors = {figures.processors}"]
    lines += [f"{name} = {_text(getattr(figures, name), 'B/s')}" for name in ("memory", "cache", "sums")]
    lines += [f"overlap = {_digits(figures.overlap)}", f"throttle = {_digits(figures.throttle)}"]
    lines.append(f"heats_in = {_text(figures.heats_in, 's')}")
    if figures.steepness > 1.05:
        lines.append(f"steepness = {_digits(figures.steepness)}")
    lines += [f"usual = {pace(figures.usual)}", f"thin = {pace(figures.thin)}"]
    if figures.thin_to != THIN_TO:
        lines.append(f"thin_to = {figures.thin_to}")
    if figures.splits_from is not None:
        multiplications, terms = figures.splits_from.multiplications, figures.splits_from.terms
        lines.append(f"splits_from = {{ multiplications = {multiplications}, terms = {terms} }}")
    lines += [cited.rstrip(), f"[kinds.{kind}.{table}.{dtype}.tiles]"]
    for tile in figures.tiles:
        stated = f"rate = {_text(tile.rate, 'FLOP/s')}, overhead = {_text(tile.overhead, 's')}"
        lines.append(f'"{tile.rows}x{tile.columns}" = {{ {stated}, tail = {_digits(tile.tail)} }}')
    for name, axes in PRODUCT_AXES.items():
        correction = getattr(figures, name)
        if correction is not None:
            lines += [f"[kinds.{kind}.{table}.{dtype}.{name}]", *_correction_lines(correction, axes)]
    return "\n".join(lines) + "\n"


def _correction_lines(correction: Correction, names: Sequence[str]) -> list[str]:
    lines = [f"{name} = {list(axis)}" for name, axis in zip(names, correction.axes, strict=True)]
    lists = [_nested(part) for part in correction.shares]
    return [*lines, "percent = [", *(f"  {one}," for one in lists), "]"]


def _nested(shares: object) -> str:
    if isinstance(shares, tuple):
        return f"[{', '.join(map(_nested, shares))}]"
    return f"{round(100 * shares)}"


def attention_toml(kind: str, dtype: str, figures: AttentionFigures, cited: str) -> str:
    """The table of a profile."""
    lines = [f"[kinds.{kind}.attention.{dtype}.{figures.size}]", f"processors = {figures.processors}"]
    lines += [f"rate = {_text(figures.rate, 'FLOP/s')}", f"rows = {figures.rows}", f"columns = {figures.columns}"]
    lines += [f"{name} = {_text(getattr(figures, name), 's')}" for name in ("launch", "overhead", "heats_in")]
    lines += [f"memory = {_text(figures.memory, 'B/s')}"]
    lines += [f"{name} = {_digits(getattr(figures, name))}" for name in ("overlap", "throttle")]
    lines += [] if figures.backward == 1 else [f"backward = {_digits(figures.backward)}"]
    lines.append(cited.rstrip())
    if figures.correction is not None:
        head = f"[kinds.{kind}.attention.{dtype}.{figures.size}.correction]"
        lines += [head, *_correction_lines(figures.correction, ATTENTION_AXES)]
    return "\n".join(lines) + "\n"
