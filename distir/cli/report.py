"""The output of `distir simulate`, as text and as JSON.

Times are in seconds, memory in bytes; bubble and exposed communication are shares from 0 to 1. Lines are those of the
program's text, from 1; null where there is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from distir.analysis.kinds import KINDS
from distir.cli.output import table
from distir.cli.simulating import ChosenHardware
from distir.cost import StepCost, show_bytes, show_seconds
from distir.cost.hardware import MAY_NOT, PUBLISHED_SHARE
from distir.cost.process import Overhead
from distir.ir import Site
from distir.ir.counted import written_in
from distir.simulate import Event, Simulation, Wait
from distir.simulate.body import runs
from distir.simulate.composition import compositions
from distir.simulate.effects import Effect
from distir.simulate.timeline import MOST_FOLLOWED

if TYPE_CHECKING:
    from collections.abc import Callable

    from distir.analysis.program import Program


MOST_DEVICES = 4
"""Of so many devices it is said one by one that they have too little memory."""

MOST_OF_LONG = 1_000
"""How many ops at the end of the critical path are listed for programs too long to follow all of it."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of one kind of op in one function, over all its runs. `occupied_s` counts each device it occupies."""

    op: str
    function: str
    bound: str
    count: int
    total_s: float
    occupied_s: float


def costliest(simulation: Simulation) -> list[Spent]:
    """All kinds of ops that take time, the one that occupies devices longest first."""
    total: dict[tuple[str, str, str], tuple[int, float, float]] = {}
    places = written_in(simulation.module)
    for body, times in runs(simulation.body):
        for step in body.timed:
            if isinstance(step, Effect):
                name, seconds = body.instance.function.name, times * step.cost.seconds
                key = step.op, places.get(name, name), step.cost.bound
                count, before, occupied = total.get(key, (0, 0.0, 0.0))
                total[key] = (count + times, before + seconds, occupied + seconds * len(step.devices))
    found = [Spent(*key, *amounts) for key, amounts in total.items()]
    return sorted(filter(lambda s: s.total_s, found), key=lambda s: (-s.occupied_s, s.op, s.function, s.bound))


def longest_waits(simulation: Simulation, count: int) -> list[Wait]:
    """The longest times that a device idles for another's op, the earliest first of equal ones; of long programs none.

    Long programs have more than `MOST_FOLLOWED` events.
    """
    if simulation.timeline().is_long:
        return []
    return sorted(simulation.timeline().idle_devices, key=lambda w: (-w.seconds, w.event, w.device))[:count]


def as_document(program: Program, simulation: Simulation, top: int) -> dict[str, Any]:
    """The simulation as one JSON document; the critical path whole, ops and waits the first `top`.

    Of long programs (`followed` is false) the critical path's last ops are there, `MOST_OF_LONG` of them, and no waits.
    """
    timeline, line_of, made_of = simulation.timeline(), lines(program), compositions(simulation)
    busy = sum(use.busy_s for use in simulation.devices.values())
    path = timeline.critical_end(MOST_OF_LONG) if timeline.is_long else timeline.critical_path()
    return {
        "hardware": simulation.hardware.name,
        "function": simulation.function.name,
        "latency_s": simulation.latency_s,
        "latency_band_s": None if simulation.band is None else list(simulation.band),
        "published_band_s": None if simulation.published_band is None else list(simulation.published_band),
        "ops": simulation.ops,
        "bubble": simulation.bubble,
        "exposed_communication": simulation.exposed_communication,
        "host_bound": simulation.host_bound,
        "out_of_memory": [finding.message for finding in simulation.findings()],
        "cost": as_cost(simulation.cost),
        "devices": {
            str(device): {
                "busy_s": use.busy_s,
                "idle_s": use.idle_s,
                "comm_s": use.comm_s,
                "peak_memory_bytes": use.peak_memory_bytes,
                "capacity_bytes": use.capacity_bytes,
                "overhead_bytes": use.overhead.total,
                "overhead_of": _overhead_of(use.overhead),
                "offloaded_bytes": use.offloaded_bytes,
                "host_capacity_bytes": use.host_capacity_bytes,
                "fits": use.fits,
                "fit": use.fit,
                "stands_for": simulation.copies,
                "peak_memory_of": made_of[simulation.memory_of(device)],
            }
            for device, use in simulation.devices.items()
        },
        "streams": {
            name: {"devices": stream.devices, "busy_s": stream.busy_s, "hidden_s": stream.hidden_s}
            for name, stream in timeline.named_streams.items()
        },
        "costliest": [
            {
                "op": s.op,
                "function": s.function,
                "bound": s.bound,
                "count": s.count,
                "total_s": s.total_s,
                "share": s.occupied_s / busy if busy else 0.0,
            }
            for s in costliest(simulation)[:top]
        ],
        "critical_path": [
            {
                "op": event.effect.op,
                "function": event.written_in.name,
                "line": line_of(event),
                "start_s": event.start,
                "duration_s": event.effect.cost.seconds,
                "devices": list(event.effect.devices),
            }
            for event in map(timeline.event, path)
        ],
        "followed": not timeline.is_long,
        "waits": [
            {
                "device": wait.device,
                "start_s": wait.start,
                "duration_s": wait.seconds,
                "for": _entry(timeline.event(wait.blocker), line_of) if wait.blocker is not None else None,
                "before": _entry(timeline.event(wait.event), line_of),
            }
            for wait in longest_waits(simulation, top)
        ],
    }


def as_cost(cost: StepCost | None) -> dict[str, Any] | None:
    """The cost of a step as JSON; null if the machine has no prices."""
    if cost is None:
        return None
    per_tokens = cost.per_million_tokens
    return {
        "currency": cost.step.currency,
        "per_step": cost.step.amount,
        "tokens": cost.tokens,
        "per_million_tokens": None if per_tokens is None else per_tokens.amount,
    }


def as_text(program: Program, simulation: Simulation, machine: ChosenHardware, top: int) -> list[Any]:
    """The simulation for people: what rich lays out."""
    from rich.text import Text

    line_of = lines(program)
    head = f"@{simulation.function.name} on {machine.hardware.name} ({machine.named}): {machine.hardware.title}"
    latency = f"{show_seconds(simulation.latency_s)}{_band(simulation)} latency, {simulation.ops} ops"
    if len(simulation.devices) > 1:
        shares = (simulation.bubble, "bubble"), (simulation.exposed_communication, "exposed communication")
        latency += "".join(f", {_percent(share, 1)} {name}" for share, name in shares)
    if simulation.host_bound:
        latency += f", {_percent(simulation.host_bound, 1)} of the step waits for the host"
    parts: list[Any] = [Text(head), Text(latency, style="bold"), *_out_of_memory(simulation), *_in_doubt(simulation)]
    if simulation.copies > 1:
        when = f"; some finish `{simulation.sooner}` sooner, and wait" if simulation.sooner else " at the same times"
        parts.append(Text(f"each device that is listed represents {simulation.copies:,}, which do the same{when}"))
    if simulation.published_band is not None and simulation.latency_s:
        low, high = map(show_seconds, simulation.published_band)
        parts.append(Text(f"{low} to {high} in {PUBLISHED_SHARE:.0%} of published runs"))
    parts += [] if simulation.cost is None else [Text(str(simulation.cost))]
    sections = (
        ("devices", _devices(simulation)),
        ("streams", _streams(simulation)),
        ("peak memory", _memory(simulation)),
        ("costliest ops", _costliest(simulation, top)),
        ("critical path", _critical_path(simulation, top, line_of)),
        ("longest waits", _waits(simulation, top, line_of)),
    )
    for title, section in sections:
        if section.row_count:
            parts += ["", Text(title, style="bold underline"), section]
    if simulation.timeline().is_long:
        said = f"for more than {MOST_FOLLOWED:,} ops, only the end of the critical path is listed, and no waits"
        parts += ["", Text(said)]
    return parts


def _out_of_memory(simulation: Simulation) -> list[Any]:
    """A line for each device that has too little memory, the first ones, and how many more there are."""
    from rich.text import Text

    found = simulation.findings()
    said = [f"out of memory: {finding.message}" for finding in found[:MOST_DEVICES]]
    if len(found) > MOST_DEVICES:
        said.append(f"out of memory: {len(found) - MOST_DEVICES} more devices")
    return [Text(line, style="bold red") for line in said]


def _in_doubt(simulation: Simulation) -> list[Any]:
    """A line for the fullest of the devices of which it is open whether they have enough memory."""
    from rich.text import Text

    open_ = [(use.peak_memory_bytes - use.room_bytes, d) for d, use in simulation.devices.items() if use.fit == MAY_NOT]
    if not open_:
        return []
    _, fullest = max(open_)
    use = simulation.devices[fullest]
    where = f"device {fullest}" + (f", and {len(open_) - 1} more" if len(open_) > 1 else "")
    verdict = MAY_NOT if use.fits else "may fit all the same"
    need = f"{show_bytes(use.peak_memory_bytes)} of {show_bytes(use.room_bytes)}"
    return [Text(f"{verdict}: {where}: {need}; {use.errors}", style="yellow")]


def _band(simulation: Simulation) -> str:
    """` ± 8% (1.2ms to 1.4ms)`, where the profile says how far times may be off."""
    if simulation.band is None or not simulation.latency_s:
        return ""
    low, high = simulation.band
    share = 100 * (high - low) / 2 / simulation.latency_s
    return f" ± {share:.0f}% ({show_seconds(low)} to {show_seconds(high)})"


def _devices(simulation: Simulation) -> Any:
    listed = table("device", "busy", "idle", "idle %", "communication", "peak memory", "capacity", right="0123456")
    for device, use in simulation.devices.items():
        listed.add_row(
            _standing(simulation, device),
            show_seconds(use.busy_s),
            show_seconds(use.idle_s),
            _percent(use.idle_s, simulation.latency_s),
            show_seconds(use.comm_s),
            show_bytes(use.peak_memory_bytes),
            f"{show_bytes(use.capacity_bytes)} ({_percent(use.peak_memory_bytes, use.capacity_bytes)})",
        )
    return listed


def _streams(simulation: Simulation) -> Any:
    """How much of the named streams overlaps with computation of their devices."""
    from rich.text import Text

    listed = table("stream", "devices", "busy", "hidden", "hidden %", right="1234")
    for name, stream in simulation.timeline().named_streams.items():
        share = _percent(stream.hidden_s, stream.busy_s)
        times = show_seconds(stream.busy_s), show_seconds(stream.hidden_s)
        listed.add_row(Text(name), str(stream.devices), *times, share)
    return listed


def _memory(simulation: Simulation) -> Any:
    """The composition of each device's peak."""
    made_of = compositions(simulation)
    kinds = [kind for kind in KINDS if any(kind in own for own in made_of.values())]
    beside = any(use.overhead.total for use in simulation.devices.values())
    offloads = any(use.offloaded_bytes for use in simulation.devices.values())
    columns = [*kinds, *(["overhead"] if beside else []), *(["offloaded", "host's share"] if offloads else [])]
    listed = table("device", *columns, right="0123456789"[: 1 + len(columns)])
    for device, use in simulation.devices.items():
        own = made_of.get(simulation.memory_of(device), {})
        cells = [show_bytes(own[kind]) if kind in own else "" for kind in kinds]
        cells += [show_bytes(use.overhead.total)] if beside else []
        cells += [show_bytes(n) for n in (use.offloaded_bytes, use.host_capacity_bytes)] if offloads else []
        listed.add_row(_standing(simulation, device), *cells)
    return listed


def _standing(simulation: Simulation, device: int) -> str:
    """A device, and the last of those that it represents: `1 to 8`."""
    return str(device) if simulation.copies == 1 else f"{device} to {device + simulation.copies - 1}"


def _overhead_of(overhead: Overhead) -> dict[str, int]:
    """The memory of a process beside tensors, by purpose, without zeros."""
    found = {
        "context": overhead.context,
        "workspace": overhead.workspace,
        "communicators": overhead.communicators,
        "fragmentation": overhead.fragmentation,
    }
    return {name: nbytes for name, nbytes in found.items() if nbytes}


def _costliest(simulation: Simulation, top: int) -> Any:
    from rich.text import Text

    busy = sum(use.busy_s for use in simulation.devices.values())
    listed = table("op", "in", "count", "total", "of busy time", "bound by", right="234")
    for s in costliest(simulation)[:top]:
        share = _percent(s.occupied_s, busy)
        listed.add_row(Text(s.op), Text(f"@{s.function}"), str(s.count), show_seconds(s.total_s), share, s.bound)
    return listed


def _critical_path(simulation: Simulation, top: int, line_of: Callable[[Event], int | None]) -> Any:
    timeline = simulation.timeline()
    listed = table("start", "takes", "device", "op", "in", "line", right="015")
    if timeline.is_long:
        tail = [event for event in map(timeline.event, timeline.critical_end(MOST_OF_LONG)) if event.effect.ticks]
        listed.add_row("…", "", "", f"of {simulation.ops:,} ops in all", "", "")
        for event in tail[-top:]:
            listed.add_row(*_path_row(event, line_of))
        return listed
    path = [index for index in timeline.critical_path() if timeline.effects[index].cost.seconds]
    head = path if len(path) <= top + 1 else path[: (top + 1) // 2]
    tail = path[len(path) - top // 2 :] if len(head) < len(path) else []
    for event in map(timeline.event, head):
        listed.add_row(*_path_row(event, line_of))
    if len(head) < len(path):
        left_out = path[len(head) : len(path) - len(tail)]
        seconds = sum(timeline.effects[index].cost.seconds for index in left_out)
        listed.add_row("…", show_seconds(seconds), "", f"{len(left_out)} more ops", "", "")
    for event in map(timeline.event, tail):
        listed.add_row(*_path_row(event, line_of))
    return listed


def _path_row(event: Event, line_of: Callable[[Event], int | None]) -> Iterable[Any]:
    from rich.text import Text

    yield show_seconds(event.start)
    yield show_seconds(event.effect.cost.seconds)
    yield _numbers(event.effect.devices)
    yield Text(_named(event))
    yield Text(f"@{event.written_in.name}")
    yield str(line_of(event) or "")


def _waits(simulation: Simulation, top: int, line_of: Callable[[Event], int | None]) -> Any:
    from rich.text import Text

    timeline = simulation.timeline()
    listed = table("device", "idles", "from", "before", "because of", "on", right="012")
    for wait in longest_waits(simulation, top):
        event = timeline.event(wait.event)
        blocker = timeline.event(wait.blocker) if wait.blocker is not None else None
        listed.add_row(
            str(wait.device),
            show_seconds(wait.seconds),
            show_seconds(wait.start),
            Text(placed(event, line_of)),
            Text(placed(blocker, line_of) if blocker is not None else "the host"),
            _numbers(blocker.effect.devices) if blocker is not None else "",
        )
    return listed


def _entry(event: Event, line_of: Callable[[Event], int | None]) -> dict[str, Any]:
    return {"op": event.effect.op, "function": event.written_in.name, "line": line_of(event)}


def lines(program: Program) -> Callable[[Event], int | None]:
    """Maps an event to the line of its op."""

    @cache
    def line(function: str, index: int) -> int | None:
        span = program.syntax.source_map(Site(function, index))
        return program.source.position(span.start)[0] if span is not None else None

    return lambda event: line(event.site.function, event.site.index)


def _named(event: Event) -> str:
    """`%x_1 = Split`, as in the program, with only the first result."""
    return event.op if event.label == event.op else f"{event.label} = {event.op}"


def placed(event: Event, line_of: Callable[[Event], int | None]) -> str:
    """An event in words, with its function, and its line if it has one."""
    line = line_of(event)
    return f"{_named(event)} in @{event.written_in.name}" + (f", line {line}" if line is not None else "")


def _numbers(devices: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, devices[:8]))
    return f"{shown}, … ({len(devices)})" if len(devices) > 8 else shown


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "0.0%"
