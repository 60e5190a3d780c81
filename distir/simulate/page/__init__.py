"""The timeline as one web page: all in one file, nothing fetched, for any browser.

Owns what the page is told of a simulation; the page itself is `page.html` with its style and scripts, put together
here. Programs may come from anywhere: what they contain reaches the page as JSON in which no character can end it.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from distir.diagnostics import Source, Span
from distir.ir import Site
from distir.simulate.timeline import Event, Timeline
from distir.simulate.trace import INWARDS, call_path, memory_names, memory_steps, nanoseconds
from distir.syntax import print_statement

if TYPE_CHECKING:
    from distir.simulate.simulation import Simulation

SCRIPTS = ("data.js", "draw.js", "act.js")

# As escapes of JSON these mean the same, and no HTML parser sees a tag, a comment or an entity in them.
_UNSAFE = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def timeline_page(
    simulation: Simulation, source: Source | None = None, locate: Callable[[Site], Span | None] | None = None
) -> str:
    """A page that shows when each op runs, what devices wait for, and the memory in use.

    With the program's `source`, and `locate` from places in the program to those in its text, statements are shown as
    written there, with their lines; else as the printer writes them.
    """
    folder = resources.files(__name__)

    def part(name: str) -> str:
        return folder.joinpath(name).read_text("utf-8")

    data = json.dumps(_data(simulation, source, locate), separators=(",", ":")).translate(_UNSAFE)
    name = f"{source.path} @{simulation.function.name}" if source is not None else f"@{simulation.function.name}"
    parts = {
        "TITLE": html.escape(f"{name} on {simulation.hardware.name}".encode("utf-8", "replace").decode()),
        "STYLE": part("page.css"),
        "SCRIPT": "\n".join(map(part, SCRIPTS)),
        "DATA": data,
    }
    return _filled(part("page.html"), parts)


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with `@NAME@` replaced, in one pass: what is put in is not looked at again."""
    pieces = template.split("@")  # the template has no other `@`
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


class _Numbered:
    """Different things in the order of their appearance, and the number of each."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.entries: list[Any] = []

    def __call__(self, key: Any, entry: Callable[[], Any]) -> int:
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.entries)
            self.entries.append(entry())
        return number


def _data(
    simulation: Simulation, source: Source | None, locate: Callable[[Site], Span | None] | None
) -> dict[str, Any]:
    """What `data.js` reads. Times in nanoseconds, memory in bytes."""
    timeline = simulation.timeline()
    memories = _memories(simulation)
    positions = {memory: i for i, memory in enumerate(memories)}
    devices = [{"id": d, "memory": positions[simulation.memory_of(d)]} for d in simulation.devices]
    return {
        "hardware": simulation.hardware.name,
        "count": simulation.ops,
        "latency": nanoseconds(simulation.latency_s),
        "devices": devices,
        "memories": list(memories.values()),
        "critical": timeline.critical_path(),
        "waits": [_wait(wait.device, wait.start, wait.start + wait.seconds, wait.blocker) for wait in timeline.waits],
        **_events(timeline, source, locate),
    }


def _wait(device: int, start: float, end: float, blocker: int) -> dict[str, int]:
    first = nanoseconds(start)
    return {"device": device, "start": first, "duration": nanoseconds(end) - first, "blocker": blocker}


def _memories(simulation: Simulation) -> dict[int, dict[str, Any]]:
    capacities = {simulation.memory_of(device): use.capacity_bytes for device, use in simulation.devices.items()}
    found: dict[int, dict[str, Any]] = {
        memory: {
            "name": name,
            "capacity": capacities[memory],
            "peak": simulation.peaks.get(memory, 0),
            "times": [],
            "values": [],
        }
        for memory, name in memory_names(simulation).items()
    }
    for memory, moment, nbytes in memory_steps(simulation):
        found[memory]["times"].append(moment)
        found[memory]["values"].append(nbytes)
    return found


def _events(timeline: Timeline, source: Source | None, locate: Callable[[Site], Span | None] | None) -> dict[str, Any]:
    """All events, a list for each property, and the tables that the numbers in them point to."""
    ops, bounds, groups, statements, paths = (_Numbered() for _ in range(5))
    columns: dict[str, list[int]] = {
        name: [] for name in ("start", "duration", "slack", "op", "bound", "group", "statement", "path")
    }
    for event in timeline.events():
        effect, (function, index) = event.effect, event.path[-1]
        communication = effect.work.communication
        start = nanoseconds(event.start)
        group = (effect.devices, communication)
        row = {
            "start": start,
            "duration": nanoseconds(event.end) - start,
            "slack": nanoseconds(timeline.slack[event.index]),
            "op": ops(effect.op, lambda: {"name": effect.op, "communication": communication is not None}),  # noqa: B023
            "bound": bounds(effect.cost.bound, lambda: effect.cost.bound),  # noqa: B023
            "group": groups(group, lambda: _group(event)),  # noqa: B023
            "statement": statements((function.name, index), lambda: _statement(event, source, locate)),  # noqa: B023
            "path": paths(_calls(event), lambda: call_path(event.path) if len(event.path) > 1 else ""),  # noqa: B023
        }
        for name, number in row.items():
            columns[name].append(number)
    return {
        "ops": ops.entries,
        "bounds": bounds.entries,
        "groups": groups.entries,
        "statements": statements.entries,
        "paths": paths.entries,
        "events": columns,
    }


def _calls(event: Event) -> tuple[tuple[str, int], ...]:
    return tuple((function.name, index) for function, index in event.path[:-1])


def _group(event: Event) -> dict[str, Any]:
    """The devices of an op; at which of them what is sent begins, or ends."""
    communication = event.effect.work.communication
    root = communication.root if communication is not None else None
    inwards = communication is not None and communication.pattern in INWARDS
    return {"devices": event.effect.devices, "root": root, "inwards": inwards}


def _statement(event: Event, source: Source | None, locate: Callable[[Site], Span | None] | None) -> dict[str, Any]:
    function, index = event.path[-1]
    text, line = print_statement(event.statement), None
    span = locate(Site(function.name, index)) if locate is not None else None
    if span is not None and source is not None:
        text, line = source.text[span.start : span.end], source.position(span.start)[0]
    return {"text": text, "function": function.name, "line": line, "label": event.label}
