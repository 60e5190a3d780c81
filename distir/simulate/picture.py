"""The timeline as a picture: a lane for each device, as SVG that scales, or as characters where none can be shown.

Time is cut into equal parts, and a part shows what takes most of it: a phase of training, communication, idleness. So a
picture is small however long the program is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any

from distir.cost import show_seconds
from distir.simulate.trace import placing_of

MOST_DRAWN = 200_000
"""No picture is drawn of more ops."""

PARTS = 480
"""The number of parts into which a picture cuts the time."""

CHARACTERS = 60
"""The same in text."""

MOST_LANES = 16
"""The most devices with lanes: the first ones."""

IDLE, COMPUTE, COMMUNICATION = "idle", "compute", "communication"

KINDS: Mapping[str, tuple[str, str]] = {
    "forward": ("F", "#4c78a8"),
    "backward": ("B", "#f58518"),
    "weight": ("W", "#e4b04a"),
    "optimizer": ("O", "#54a24b"),
    COMPUTE: ("#", "#4c78a8"),
    COMMUNICATION: ("~", "#b279a2"),
    IDLE: (".", "none"),
}
"""The activities shown in a timeline: a character and a colour for each."""


Drawable = Any
"""A `Simulation`, which imports this module and so cannot be named in it; no protocol has its cached properties."""


@dataclass(frozen=True, slots=True)
class DrawnLane:
    """The activity of a device in each column; beside computation, concurrent communication."""

    device: int
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DrawnTimeline:
    """One simulation in a picture. `more`: how many devices have no lane. Times in seconds."""

    title: str
    latency_s: float
    lanes: tuple[DrawnLane, ...]
    more: int


def drawn(simulation: Drawable, title: str, parts: int = PARTS, until_s: float | None = None) -> DrawnTimeline | None:
    """A simulation's lanes up to `until_s` seconds, its latency by default; None where it has too many ops."""
    body = simulation.body
    latency = simulation.latency_s
    if body.ops > MOST_DRAWN:
        return None
    devices = sorted(simulation.devices)
    shown = devices[:MOST_LANES]
    width = (until_s or latency or 1.0) / parts
    sums: dict[int, list[dict[str, float]]] = {device: [{} for _ in range(parts)] for device in shown}
    placing = placing_of(simulation)
    for event in simulation.timeline().events():
        kind = placing(event).phase or COMPUTE
        if event.effect.communicates:
            kind = COMMUNICATION
        for device in event.effect.devices:
            row = sums.get(device)
            if row is None or event.end <= event.start:
                continue
            first, last = int(event.start / width), min(int(event.end / width), parts - 1)
            for part in range(min(first, parts - 1), last + 1):
                took = min(event.end, (part + 1) * width) - max(event.start, part * width)
                row[part][kind] = row[part].get(kind, 0.0) + took
    lanes = tuple(DrawnLane(device, tuple(_most(part, width) for part in row)) for device, row in sums.items())
    return DrawnTimeline(title, latency, lanes, len(devices) - len(shown))


def _most(part: Mapping[str, float], width: float) -> str:
    """The dominant activity in a column. Communication beside computation counts only if computation takes less."""
    idle = width - sum(part.values())
    return max({**part, IDLE: idle}.items(), key=lambda found: found[1])[0]


def as_text(timelines: Sequence[DrawnTimeline]) -> str:
    """Timelines as characters, one line for each device, below one another on one scale."""
    lines: list[str] = []
    kinds: dict[str, None] = {}
    for timeline in timelines:
        lines.append(f"{timeline.title}, {show_seconds(timeline.latency_s)}")
        label = max((len(str(lane.device)) for lane in timeline.lanes), default=1)
        for lane in timeline.lanes:
            kinds.update(dict.fromkeys(lane.parts))
            lines.append(f"{lane.device:>{label}} " + "".join(KINDS[kind][0] for kind in lane.parts).rstrip("."))
        if timeline.more:
            lines.append(f"… and {timeline.more} more devices")
    legend = ", ".join(f"{KINDS[kind][0]} {kind}" for kind in KINDS if kind in kinds and kind != IDLE)
    return "\n".join([*lines, f"({legend})"]) + "\n"


def as_svg(timelines: Sequence[DrawnTimeline]) -> str:
    """Timelines as one SVG picture as wide as the page, on one scale."""
    left, height, gap = 64, 16, 4
    shapes: list[str] = []
    kinds: dict[str, None] = {}
    y = 0
    parts = max((len(lane.parts) for timeline in timelines for lane in timeline.lanes), default=1)
    scale = 900 / parts
    for timeline in timelines:
        y += 18
        more = f" (and {timeline.more} more devices)" if timeline.more else ""
        said = escape(f"{timeline.title}, {show_seconds(timeline.latency_s)}{more}")
        shapes.append(f'<text x="0" y="{y}" font-weight="bold">{said}</text>')
        y += 6
        for lane in timeline.lanes:
            shapes.append(f'<text x="0" y="{y + height - 4}">device {lane.device}</text>')
            shapes.append(f'<rect x="{left}" y="{y}" width="900" height="{height}" fill="currentColor" opacity=".06"/>')
            at = 0
            for kind, run in groupby(lane.parts):
                count = len(list(run))
                if kind != IDLE:
                    kinds[kind] = None
                    box = f'x="{left + at * scale:.4g}" y="{y}" width="{count * scale:.4g}" height="{height}"'
                    shapes.append(f'<rect {box} fill="{KINDS[kind][1]}"><title>{kind}</title></rect>')
                at += count
            y += height + gap
    y += 14
    x = left
    for kind in (kind for kind in KINDS if kind in kinds):
        shapes.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{KINDS[kind][1]}"/>')
        shapes.append(f'<text x="{x + 14}" y="{y}">{kind}</text>')
        x += 130
    style = 'font-family="system-ui, sans-serif" font-size="11" fill="currentColor"'
    size = f'viewBox="0 0 {left + 900} {y + 8}" width="100%"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join(shapes) + "\n</svg>\n"
