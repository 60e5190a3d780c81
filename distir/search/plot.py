"""The paper's figures of its search space: peak memory against throughput, a point for each configuration.

Still (PNG, SVG, PDF) through matplotlib, interactive (HTML) through plotly, both imported when they are needed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from distir.cost import show_seconds
from distir.diagnostics.visible import visible
from distir.ir.errors import DistirError
from distir.search.rows import Row, pareto, show_rate
from distir.simulate.notebook import new_figure
from distir.transform.strategy import DEGREES, FIELDS

KINDS = ("D", "T", "P", "D/T", "D/P", "T/P", "D/T/P")
"""Which degrees exceed 1: one entry of the legend, and one colour, each."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Distinguishable with any colour vision (Okabe and Ito, "Color Universal Design", 2008)."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STILL = (".png", ".svg", ".pdf")
INTERACTIVE = ".html"
GB = 1e9


NOTHING = "there is nothing to plot: no configuration could be simulated"


class PlotError(DistirError, ValueError):
    """A picture that cannot be made; the text says why."""


def kind(row: Row) -> str:
    """Which of D, T and P a configuration uses, as in `D/P`."""
    used = [FIELDS[name].column for name in DEGREES[:3] if getattr(row.plan, name) > 1]
    return "/".join(used) or "D"


def check_suffix(path: str) -> None:
    """Raises PlotError for a kind of picture that cannot be made."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in (*STILL, INTERACTIVE):
        raise PlotError(f"expected a picture ending in {', '.join(STILL)} or {INTERACTIVE}, found `{path}`")


def plot(
    table: Sequence[Row], path: str, title: str, capacity_bytes: int | None = None, suffix: str | None = None
) -> None:
    """Write the picture of a table, of the kind that the path's suffix (or `suffix`) says.

    `capacity_bytes` is drawn as a limit. Raises PlotError for another suffix, a table without points or where the
    package is missing, OSError.
    """
    chosen = (suffix or os.path.splitext(path)[1]).lower()
    check_suffix(f"x{chosen}")
    rows = [row for row in table if row.latency_s is not None and row.throughput is not None]
    if not rows:
        raise PlotError(NOTHING)
    try:
        if chosen == INTERACTIVE:
            _write_interactive(rows, pareto(table), path, title, capacity_bytes)
        else:
            _write_still(rows, pareto(table), path, title, capacity_bytes, chosen[1:])
    except ImportError as error:
        raise PlotError(f"plotting needs the package `{error.name}`; install `distir[plot]`") from None


def figure(table: Sequence[Row], title: str, capacity_bytes: int | None = None) -> Any:
    """The picture of a table as a figure of matplotlib. Raises PlotError for a table without points, ImportError."""
    rows = [row for row in table if row.latency_s is not None and row.throughput is not None]
    if not rows:
        raise PlotError(NOTHING)
    return _still(rows, pareto(table), title, capacity_bytes)


def _still(rows: Sequence[Row], front: Sequence[Row], title: str, capacity: int | None) -> Any:
    figure = new_figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for name, colour, marker in zip(KINDS, COLOURS, MARKERS, strict=True):
        mine = [row for row in rows if kind(row) == name]
        if mine:
            axes.scatter(*_points(mine), s=22, c=colour, marker=marker, label=name, alpha=0.75, linewidths=0)
    axes.plot(*_points(front), color="0.4", linewidth=0.9, zorder=0, label="Pareto front")
    if capacity is not None:
        axes.axvline(capacity / GB, color="#b00020", linestyle="--", linewidth=1, label="memory of a device")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xmargin(0.12)  # room for names
    axes.autoscale_view()
    for row in _named(front):
        (x,), (y,) = _points([row])
        place = {"xytext": (-4, 4), "textcoords": "offset points", "ha": "right", "fontsize": 6}
        axes.annotate(visible(str(row.plan)), (x, y), **place)
    for axis in (axes.xaxis, axes.yaxis):
        _mark(axis)
    axes.set_xlabel("peak memory of a device (GB)")
    axes.set_ylabel("throughput (examples/s)")
    axes.set_title(visible(title), parse_math=False)
    axes.grid(visible=True, which="major", color="0.9")
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    return figure


def _write_still(
    rows: Sequence[Row], front: Sequence[Row], path: str, title: str, capacity: int | None, format: str
) -> None:
    metadata = {"Date": None} if format == "svg" else {"CreationDate": None} if format == "pdf" else {}
    library: Any = import_module("matplotlib")
    with library.rc_context({"svg.hashsalt": "distir", "svg.fonttype": "none"}):
        _still(rows, front, title, capacity).savefig(path, format=format, dpi=160, metadata=metadata)


def _mark(axis: Any) -> None:
    """Numbers as people write them along a logarithmic axis: 1, 2, 5, 10 where there is room, else powers of ten."""
    ticker: Any = import_module("matplotlib.ticker")
    low, high = axis.get_view_interval()
    steps = (1, 2, 5) if high < 1000 * low else (1,)
    axis.set_major_locator(ticker.LogLocator(subs=steps, numticks=20))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def _write_interactive(rows: Sequence[Row], front: Sequence[Row], path: str, title: str, capacity: int | None) -> None:
    graphs: Any = import_module("plotly.graph_objects")
    figure = graphs.Figure()
    for name, colour in zip(KINDS, COLOURS, strict=True):
        mine = [row for row in rows if kind(row) == name]
        if mine:
            x, y = _points(mine)
            texts = [_described(row) for row in mine]
            marker = {"color": colour, "size": 8, "opacity": 0.75}
            figure.add_scatter(x=x, y=y, mode="markers", name=name, marker=marker, text=texts, hoverinfo="text")
    x, y = _points(front)
    figure.add_scatter(
        x=x, y=y, mode="lines", name="Pareto front", line={"color": "#666", "width": 1}, hoverinfo="skip"
    )
    named = _named(front)
    x, y = _points(named)
    texts = [_escaped(str(row.plan)) for row in named]
    figure.add_scatter(x=x, y=y, mode="text", text=texts, textposition="top left", showlegend=False, hoverinfo="skip")
    if capacity is not None:
        figure.add_vline(x=capacity / GB, line_dash="dash", line_color="#b00020", annotation_text="memory of a device")
    figure.update_xaxes(type="log", title="peak memory of a device (GB)")
    figure.update_yaxes(type="log", title="throughput (examples/s)")
    figure.update_layout(title=_escaped(title), template="simple_white", legend_title_text="uses")
    figure.write_html(path, include_plotlyjs=True, full_html=True)


def _points(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    return [(row.peak_memory_bytes or 0) / GB for row in rows], [row.throughput or 0.0 for row in rows]


APART = 0.05
"""Names of points are at least this far apart, as a part of the range of their throughputs."""


def _named(front: Sequence[Row]) -> list[Row]:
    """The rows of the front whose plans the picture names: from the highest throughput on, as names have room."""
    falling = sorted(front, key=lambda row: -(row.throughput or 0.0))
    heights = [math.log(max(row.throughput or 0.0, 1e-12)) for row in falling]
    apart = APART * max((heights[0] - heights[-1], 1e-9)) if heights else 0.0
    found: list[Row] = []
    last = math.inf
    for row, height in zip(falling, heights, strict=True):
        if last - height >= apart:
            found.append(row)
            last = height
    return found


def _described(row: Row) -> str:
    memory = f"{(row.peak_memory_bytes or 0) / GB:.2f} GB{'' if row.fit == 'fits' else f', {row.fit}'}"
    batch = f"batch {row.batch_size}, " if row.batch_size is not None else ""
    latency = f"{show_seconds(row.latency_s or 0.0)}, {show_rate(row.throughput)}"
    return f"{_escaped(str(row.plan))}<br>{batch}{latency}<br>{memory}"


def _escaped(text: str) -> str:
    return visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
