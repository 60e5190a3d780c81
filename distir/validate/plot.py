"""Pictures of a validation: predicted over measured times, and errors by layout. Through matplotlib, when needed."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from distir.diagnostics.visible import visible
from distir.ir.errors import DistirError
from distir.validate.figures import GROUP_COLUMNS, GroupFigures, Outcome, group_cells

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Distinguishable with any colour vision (Okabe and Ito, "Color Universal Design", 2008)."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FEW_DECADES = 100
"""Axes of times below this ratio have labels between powers of ten, which matplotlib lets overlap."""

SUFFIXES = (".png", ".svg", ".pdf")


class PictureError(DistirError, ValueError):
    """A picture that cannot be made; the text says why."""


def check_pictures(paths: Sequence[str]) -> None:
    """Raises PictureError for a suffix that is none of a picture's, or a missing package."""
    for path in paths:
        _suffix(path)
    _library()


def _suffix(path: str) -> str:
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in SUFFIXES:
        raise PictureError(f"expected a picture ending in {', '.join(SUFFIXES)}, found `{path}`")
    return suffix


def _library() -> tuple[Any, Any]:
    try:
        return import_module("matplotlib.figure"), import_module("matplotlib")
    except ImportError as error:
        raise PictureError(f"plotting needs the package `{error.name}`; install `distir[plot]`") from None


def plot(outcomes: Sequence[Outcome], path: str | IO[bytes], suffix: str | None = None) -> None:
    """Write the picture: on the left predicted over measured times, on the right the errors by layout.

    Raises PictureError for another suffix, no points or a missing package; OSError.
    """
    if isinstance(path, str):
        suffix = _suffix(path)
    points = [o for o in outcomes if o.time_error is not None]
    if not points:
        raise PictureError("there is nothing to plot: no run has both a measured and a predicted time")
    figures, library = _library()
    figure = figures.Figure(figsize=(9.6, 4.2), layout="constrained")
    times, errors = figure.subplots(1, 2)
    names = list(dict.fromkeys(o.run.group for o in points))
    for number, name in enumerate(names):
        mine = [o for o in points if o.run.group == name]
        style = {"c": COLOURS[number % 7], "marker": MARKERS[number // 7 % 7], "s": 16, "alpha": 0.7, "linewidths": 0}
        measured, predicted = [o.run.step_time_s for o in mine], [o.predicted.step_time_s for o in mine]
        times.scatter(measured, predicted, label=visible(name), **style)
        errors.scatter([dominant(o) for o in mine], [100 * (o.time_error or 0.0) for o in mine], **style)
    ends = [f(v for o in points for v in (o.run.step_time_s, o.predicted.step_time_s) if v) for f in (min, max)]
    times.plot(ends, ends, color="0.4", linewidth=0.9, zorder=0)
    times.set_xscale("log")
    times.set_yscale("log")
    if ends[1] < FEW_DECADES * ends[0]:
        ticks: Any = import_module("matplotlib.ticker")
        for axis in (times.xaxis, times.yaxis):
            axis.set_major_locator(ticks.LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(ticks.FormatStrFormatter("%g"))
            axis.set_minor_formatter(ticks.NullFormatter())
    times.set_xlabel("measured step (s)")
    times.set_ylabel("predicted step (s)")
    errors.axhline(0, color="0.4", linewidth=0.9, zorder=0)
    errors.set_ylabel("error (%)")
    errors.tick_params(axis="x", rotation=30)
    legend = figure.legend(loc="outside upper center", ncols=5, fontsize=8, frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)  # names of files may have `$`
    form = (suffix or ".svg")[1:]
    metadata = {"Date": None} if form == "svg" else {"CreationDate": None} if form == "pdf" else {}
    with library.rc_context({"svg.hashsalt": "distir", "svg.fonttype": "none"}):
        figure.savefig(path, format=form, dpi=160, metadata=metadata)


def dominant(outcome: Outcome) -> str:
    """The dominant kind of communication of a layout."""
    run = outcome.run
    own = run.strategy
    if own.pipeline > 1:
        return "pipeline"
    if own.tensor > 1:
        return "tensor"
    if own.zero == 3 and not own.shard:
        return "sharded"
    return "replicas" if own.data > 1 else "one device"


def page(outcomes: Sequence[Outcome], groups: Sequence[GroupFigures], path: str) -> None:
    """Write a page with the picture, and tables of groups and of runs. Raises PictureError, OSError."""
    picture = io.BytesIO()
    plot(outcomes, picture, ".png")
    image = base64.b64encode(picture.getvalue()).decode()
    rows = "".join(_row(outcome) for outcome in outcomes)
    heads = "".join(f"<th>{name}</th>" for name in GROUP_COLUMNS)
    summaries = "".join(_group(group) for group in groups)
    text = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Predicted and measured</title>
<style>body{{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}}
table{{border-collapse:collapse;width:100%}}th,td{{text-align:right;padding:.15rem .6rem;border-bottom:1px solid #ddd}}
td:first-child,th:first-child,.note{{text-align:left}}img{{max-width:100%}}</style>
<h1>Predicted and measured</h1><img alt="predicted over measured step times" src="data:image/png;base64,{image}">
<h2>Groups</h2><table><tr>{heads}</tr>{summaries}</table>
<h2>Runs</h2><table>
<tr><th>run</th><th>measured</th><th>predicted</th><th>error</th><th>memory</th><th class="note">note</th></tr>
{rows}</table></html>
"""
    Path(path).write_text(text, encoding="utf-8")


def _group(group: GroupFigures) -> str:
    return "<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in group_cells(group)) + "</tr>"


def _row(outcome: Outcome) -> str:
    run, found = outcome.run, outcome.predicted
    error, memory = outcome.time_error, found.peak_memory_bytes
    cells = [
        _cell(run.id),
        f"{run.step_time_s:.4g} s" if run.step_time_s else run.status,
        f"{found.step_time_s:.4g} s" if found.step_time_s is not None else "",
        f"{100 * error:+.1f} %" if error is not None else "",
        f"{memory / 1e9:.1f} GB{'' if outcome.fit == 'fits' else f', {outcome.fit}'}" if memory is not None else "",
    ]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + f'<td class="note">{_cell(found.note)}</td></tr>'


def _cell(text: str) -> str:
    return escape(visible(text))
