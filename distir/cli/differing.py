"""The output of `distir diff`: two simulations compared, as text, Markdown and JSON.

Times are in seconds, memory in bytes. Lines are those of the programs' texts, from 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distir.cli.conditions import percent, points
from distir.cli.output import table
from distir.cli.report import as_cost, lines, placed
from distir.cli.simulating import ChosenHardware
from distir.cost import Price, StepCost, show_bytes, show_seconds, show_speedup
from distir.diagnostics.visible import visible
from distir.simulate import Event, Simulation
from distir.simulate.picture import CHARACTERS, DrawnTimeline, drawn
from distir.simulate.picture import as_text as picture_as_text
from distir.simulate.timeline import MOST_FOLLOWED
from distir.transform import Difference, Side, difference

if TYPE_CHECKING:
    from distir.analysis.program import Program


@dataclass(frozen=True, slots=True)
class SimulatedProgram:
    """A program that was simulated, by the name of its file."""

    name: str
    program: Program
    simulation: Simulation


@dataclass(frozen=True, slots=True)
class ProgramComparison:
    """Two programs and their difference."""

    sides: tuple[SimulatedProgram, SimulatedProgram]
    difference: Difference


@dataclass(frozen=True, slots=True)
class FigureTable:
    """A table: the first column names things, the others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def compare(first: SimulatedProgram, second: SimulatedProgram) -> ProgramComparison:
    """Compare two simulations."""
    return ProgramComparison((first, second), difference(first.simulation, second.simulation))


def as_document(compared: ProgramComparison) -> dict[str, Any]:
    """The comparison as one JSON document. `a` and `b` are the programs in the order in which they were given."""
    found = compared.difference
    parting = [
        None if event is None else _event(event, side)
        for event, side in zip(found.parting, compared.sides, strict=True)
    ]
    first, second = compared.sides
    return {
        "hardware": first.simulation.hardware.name,
        "a": _side(first, found.left),
        "b": _side(second, found.right),
        "speedup": found.speedup if found.right.latency_s else None,
        "critical_paths": {"shared": found.shared, "a": parting[0], "b": parting[1]},
    }


def as_text(compared: ProgramComparison, machine: ChosenHardware) -> list[Any]:
    """The comparison for people: what rich lays out."""
    from rich.text import Text

    parts: list[Any] = [Text(_head(compared, machine))]
    for section in _sections(compared):
        listed = table(*section.columns, right="12345")
        for name, *numbers in section.rows:
            listed.add_row(Text(name), *numbers)
        parts += ["", Text(section.title, style="bold underline"), listed]
    return [*parts, "", Text("critical paths", style="bold underline"), *map(Text, _parting(compared))]


def as_markdown(compared: ProgramComparison, machine: ChosenHardware) -> str:
    """The comparison as Markdown."""
    parts = [escaped(_head(compared, machine))]
    for section in _sections(compared):
        rows = [section.columns, ("---", *("---:" for _ in section.columns[1:])), *section.rows]
        parts += [f"#### {section.title}", "\n".join(f"| {' | '.join(map(escaped, row))} |" for row in rows)]
    said, *where = map(escaped, _parting(compared))
    if (lanes := timelines(compared, "AB", CHARACTERS)) is not None:
        parts += ["#### timelines", f"```text\n{picture_as_text(lanes).rstrip()}\n```"]
    parts += ["#### critical paths", said, *(["\n".join(f"- {line}" for line in where)] if where else [])]
    return "\n\n".join(parts) + "\n"


def timelines(compared: ProgramComparison, titles: Sequence[str], parts: int) -> list[DrawnTimeline] | None:
    """Both timelines on one scale, in `parts` columns; None if a program has too many ops."""
    until = max(side.simulation.latency_s for side in compared.sides)
    found = [
        drawn(side.simulation, visible(title), parts, until) for title, side in zip(titles, compared.sides, strict=True)
    ]
    return None if None in found else [timeline for timeline in found if timeline is not None]


def escaped(text: str) -> str:
    """Text escaped for Markdown: no tags, no links, and `@main` is not a mention."""
    parts = _NAME.split(visible(text))
    return "".join(f"`{part}`" if number % 2 else _SPECIAL.sub(r"\\\1", part) for number, part in enumerate(parts))


_NAME = re.compile(r"([@%][\w.-]+)")
_SPECIAL = re.compile(r"([\\`*_\[\]<>&|~])")


def _head(compared: ProgramComparison, machine: ChosenHardware) -> str:
    first, second = (f"@{side.simulation.function.name} of {side.name}" for side in compared.sides)
    speedup = compared.difference.speedup
    said = f"is {show_speedup(speedup)} {'as' if speedup == 1 else 'than'} A"
    if not compared.difference.right.latency_s:
        said = "takes no time"
    return f"A is {first}, B is {second}. On {machine}, B {said}."


def _sections(compared: ProgramComparison) -> list[FigureTable]:
    a, b = compared.difference.left, compared.difference.right
    return [
        FigureTable("in all", ("", "A", "B", "change"), _totals(a, b)),
        FigureTable(
            "devices",
            ("device", "A busy", "B busy", "A peak memory", "B peak memory"),
            [
                (str(device), *_both(show_seconds, a.busy_s, b.busy_s, device), *_memory(a, b, device))
                for device in sorted({*a.busy_s, *b.busy_s})
            ],
        ),
        *filter(
            lambda section: section.rows,
            (
                FigureTable(
                    "communication",
                    ("pattern", "A messages", "B messages", "A bytes", "B bytes"),
                    [
                        (
                            pattern,
                            *_both(str, a.messages, b.messages, pattern),
                            *_both(show_bytes, a.communication_bytes, b.communication_bytes, pattern),
                        )
                        for pattern in sorted({*a.messages, *b.messages})
                    ],
                ),
                FigureTable(
                    "ops with different counts",
                    ("op", "A", "B"),
                    [
                        (op, *_both(str, a.op_counts, b.op_counts, op))
                        for op in sorted({*a.op_counts, *b.op_counts})
                        if a.op_counts.get(op) != b.op_counts.get(op)
                    ],
                ),
            ),
        ),
    ]


def _totals(a: Side, b: Side) -> list[tuple[str, ...]]:
    return [
        _total("latency", show_seconds, a.latency_s, b.latency_s),
        _total("peak memory of a device", show_bytes, a.most_memory_bytes, b.most_memory_bytes),
        _total("communication", show_bytes, a.total_communication_bytes, b.total_communication_bytes),
        _shares("bubble", a.bubble, b.bubble),
        _shares("exposed communication", a.exposed_communication, b.exposed_communication),
        _total("ops", str, a.ops, b.ops),
        _total("devices", str, len(a.busy_s), len(b.busy_s)),
        *_costs(a.cost, b.cost),
    ]


def _costs(a: StepCost | None, b: StepCost | None) -> list[tuple[str, ...]]:
    """The costs of both, on one machine, and so in one currency."""
    if a is None or b is None:
        return []
    rows = [("cost per step", a.step, b.step)]
    if a.per_million_tokens is not None and b.per_million_tokens is not None:
        rows.append(("cost per million tokens", a.per_million_tokens, b.per_million_tokens))
    return [(*_total(name, _shown(x), x.amount, y.amount),) for name, x, y in rows]


def _shown(price: Price) -> Callable[[float], str]:
    return lambda amount: str(Price(amount, price.currency))


def _total(name: str, show: Callable[[Any], str], a: float, b: float) -> tuple[str, ...]:
    return name, show(a), show(b), percent(a, b)


def _shares(name: str, a: float, b: float) -> tuple[str, ...]:
    return name, f"{100 * a:.1f}%", f"{100 * b:.1f}%", points(a, b)


def _both(show: Callable[[Any], str], a: Mapping[Any, Any], b: Mapping[Any, Any], key: Any) -> tuple[str, str]:
    """A number of both; nothing where one has none."""
    first, second = (show(side[key]) if key in side else "" for side in (a, b))
    return first, second


def _memory(a: Side, b: Side, device: int) -> tuple[str, str]:
    return _both(show_bytes, a.peak_memory_bytes, b.peak_memory_bytes, device)


def _parting(compared: ProgramComparison) -> Sequence[str]:
    """Describes where the critical paths diverge."""
    found = compared.difference
    if found.shared is None:
        return [f"not computed for programs of more than {MOST_FOLLOWED:,} ops"]
    if found.parting == (None, None):
        return ["they are the same"]
    said = [
        f"they share their first {found.shared} ops, and differ from here:"
        if found.shared
        else "they differ from the first op:"
    ]
    for letter, side, event in zip("AB", compared.sides, found.parting, strict=True):
        if event is None:
            said.append(f"{letter} ends")
        else:
            place = placed(event, lines(side.program))
            times = f"at {show_seconds(event.start)} for {show_seconds(event.effect.cost.seconds)}"
            said.append(f"{letter} continues with {place}, {times}")
    return said


def _side(named: SimulatedProgram, side: Side) -> dict[str, Any]:
    return {
        "file": named.name,
        "function": named.simulation.function.name,
        "latency_s": side.latency_s,
        "bubble": side.bubble,
        "exposed_communication": side.exposed_communication,
        "ops": side.ops,
        "cost": as_cost(side.cost),
        "op_counts": dict(sorted(side.op_counts.items())),
        "devices": {
            str(device): {"busy_s": side.busy_s[device], "peak_memory_bytes": side.peak_memory_bytes[device]}
            for device in sorted(side.busy_s)
        },
        "communication": {
            pattern: {"messages": side.messages[pattern], "bytes": side.communication_bytes[pattern]}
            for pattern in sorted(side.messages)
        },
    }


def _event(event: Event, side: SimulatedProgram) -> dict[str, Any]:
    return {
        "op": event.effect.op,
        "function": event.function.name,
        "line": lines(side.program)(event),
        "start_s": event.start,
        "duration_s": event.effect.cost.seconds,
        "devices": list(event.effect.devices),
    }
