"""A simulation in a notebook: what is shown of it, its ops as a pandas table, its timeline as a matplotlib figure.

pandas and matplotlib are imported when they are asked for (`pip install 'distir[notebook]'`).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from io import BytesIO
from itertools import groupby
from typing import Any

from distir.cost import show_bytes, show_seconds
from distir.cost.hardware import Fit, MemoryErrors
from distir.ir import notebook
from distir.ir.facts import FACTS
from distir.simulate.picture import COMPUTE, IDLE, KINDS, Drawable, DrawnTimeline, as_svg, drawn
from distir.simulate.trace import placing_of

MOST_NAMED = 8
"""So many devices with too little memory are named."""


def summary(simulation: Drawable) -> str:
    """One line: what ran where, how long, and which devices have too little memory."""
    lacking = [str(device) for device, use in simulation.devices.items() if not use.fits]
    short = f"; out of memory: device{'s' * (len(lacking) > 1)} {', '.join(lacking[:MOST_NAMED])}" if lacking else ""
    if len(lacking) > MOST_NAMED:
        short += f" and {len(lacking) - MOST_NAMED} more"
    return (
        f"@{simulation.function.name} on {simulation.hardware.name}: {show_seconds(simulation.latency_s)}, "
        f"{simulation.ops:,} ops, {simulation.bubble:.1%} bubble, "
        f"{simulation.exposed_communication:.1%} exposed communication{short}"
    )


def as_html(simulation: Drawable) -> str:
    """A simulation: its figures, its timeline as a picture that scales, and its devices."""
    rows = [
        (
            device,
            show_seconds(use.busy_s),
            show_seconds(use.idle_s),
            show_seconds(use.comm_s),
            show_bytes(use.peak_memory_bytes),
            _doubt(use.fit, use.errors) if use.fits else f"more than {show_bytes(use.room_bytes)}",
        )
        for device, use in simulation.devices.items()
    ]
    columns = ("device", "busy", "idle", "communication", "peak memory", "")
    return notebook.lines(summary(simulation)) + pictures([simulation], [""]) + notebook.table(columns, rows)


def _doubt(fit: Fit, errors: MemoryErrors) -> str:
    return "" if fit == "fits" else f"{fit}: {errors}"


def pictures(simulations: Sequence[Drawable], names: Sequence[str]) -> str:
    """Timelines on one scale; where one is too long to draw, nothing."""
    until = max(s.latency_s for s in simulations)
    found = [
        drawn(s, f"{name} @{s.function.name}".strip(), until_s=until)
        for s, name in zip(simulations, names, strict=True)
    ]
    return "" if None in found else as_svg([timeline for timeline in found if timeline is not None])


def to_pandas(simulation: Drawable) -> Any:
    """The ops in program order: one row for each device of an op. Times in seconds."""
    pandas = needed("pandas")
    placing = placing_of(simulation)
    rows: list[dict[str, Any]] = []
    for event in simulation.timeline().events():
        facts, work = placing(event).stated, event.effect.work
        rows += [
            {
                "op": event.op,
                "result": event.label,
                "function": event.function.name,
                "device": device,
                "start_s": event.start,
                "end_s": event.end,
                **{name: facts.get(name) for name in FACTS},
                "communication": None if work.communication is None else work.communication.pattern,
            }
            for device in event.effect.devices
        ]
    names = ["op", "result", "function", "device", "start_s", "end_s", *FACTS, "communication"]
    return pandas.DataFrame(rows, columns=names)


def plot(simulation: Drawable) -> Any:
    """The timeline as a figure: a lane for each device. Raises ValueError for a program of too many ops."""
    return plots([simulation], [summary(simulation)])


def plots(simulations: Sequence[Drawable], titles: Sequence[str]) -> Any:
    """Timelines below one another, on one scale. Raises ValueError for a program of too many ops."""
    until = max(s.latency_s for s in simulations)
    found: list[DrawnTimeline] = []
    for simulation, title in zip(simulations, titles, strict=True):
        timeline = drawn(simulation, title, until_s=until)
        if timeline is None:
            raise ValueError(f"`@{simulation.function.name}` has {simulation.ops:,} ops, too many to draw")
        found.append(timeline)
    rows = [max(1, len(timeline.lanes)) for timeline in found]
    figure = new_figure(figsize=(8, 0.8 * len(rows) + 0.3 * sum(rows)), layout="constrained")
    grid = figure.subplots(len(rows), sharex=True, squeeze=False, gridspec_kw={"height_ratios": rows})
    seen: set[str] = set()
    for axes, timeline in zip(grid[:, 0], found, strict=True):
        _lanes(axes, timeline, until, seen)
    grid[-1, 0].set_xlabel("seconds")
    if seen - {COMPUTE}:
        figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    return figure


def _lanes(axes: Any, timeline: DrawnTimeline, until: float, seen: set[str]) -> None:
    """A timeline as bars. `seen`: kinds that the legend has, to which those that are new are added."""
    for row, lane in enumerate(timeline.lanes):
        at, width = 0, until / max(len(lane.parts), 1)
        for kind, run in groupby(lane.parts):
            count = len(list(run))
            if kind != IDLE:
                label = None if kind in seen else kind
                axes.broken_barh([(at * width, count * width)], (row - 0.4, 0.8), color=KINDS[kind][1], label=label)
                seen.add(kind)
            at += count
    axes.set_yticks(range(len(timeline.lanes)), [f"device {lane.device}" for lane in timeline.lanes])
    axes.invert_yaxis()
    axes.set_title(timeline.title, fontsize=9, parse_math=False)


def new_figure(**options: Any) -> Any:
    """An empty `matplotlib.figure.Figure` that notebooks show, without the state of pyplot. Raises ImportError."""
    figures = needed("matplotlib.figure")
    return type("ShownFigure", (figures.Figure,), {"_repr_png_": _as_png})(**options)


def _as_png(figure: Any) -> bytes:
    data = BytesIO()
    figure.savefig(data, format="png", dpi=120)
    return data.getvalue()


def needed(package: str) -> Any:
    """A package that only notebooks need. Raises ImportError, which says how to install it."""
    try:
        return import_module(package)
    except ImportError:
        name = package.partition(".")[0]
        raise ImportError(f"this needs `{name}`, which is not installed: pip install 'distir[notebook]'") from None
