"""The timeline as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

A process per device, with a thread for each of its streams and its host, and one for the passes: forward, backward,
weights, optimizer, each with its microbatch. Ops are slices, in slices of the calls that lead to them; transfers are
arrows, memory is a counter of the process. Slices say their phase and microbatch, as far as the program does
(`analysis.provenance`); a call says those that all of its ops on the device have in common. Owns the file format
(Google, "Trace Event Format", as Perfetto's importer src/trace_processor/importers/json reads it); knows nothing of
positions in texts but what `locate` tells.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from distir.analysis.provenance import Provenance
from distir.analysis.size import refuse_beyond
from distir.ir import DISCARD, Facts, Function, Site
from distir.ir.counted import titled
from distir.ir.facts import FACTS
from distir.simulate.algebra.clocks import Clock
from distir.simulate.effects import hosts_memory, to_seconds
from distir.simulate.memory import MemoryProfile
from distir.simulate.timeline import Event, Timeline, Wait
from distir.syntax import print_statement

INWARDS = ("gather", "reduce")
"""Patterns that end at their root; all others with a root begin there."""

MOST_TRACED = 2_000_000
"""The most ops in a trace: viewers cannot open files of several hundred MB."""

_RECENT = 4096
"""How many statements' texts are remembered: calls repeat them, flat programs need none twice."""

Record = dict[str, Any]
"""One trace event."""


Locate = Callable[[Site], str | None]
"""The location of a statement, for example `mlp.dir:12`."""


@dataclass(frozen=True, slots=True)
class Traced:
    """The contents of a trace. `memories`: by device, in order, its memory."""

    title: str
    timeline: Timeline
    provenance: Provenance
    memory: MemoryProfile
    memories: Mapping[int, int]


def write_chrome_trace(traced: Traced, path: str | os.PathLike[str], locate: Locate | None = None) -> None:
    """Write a timeline to a file, which appears only when it is whole.

    Times are rounded to nanoseconds and written in microseconds, as the format wants; `duration_us` among an op's
    arguments is exact. Raises OSError; ProgramError where there are more than two million ops.
    """
    body = traced.timeline.body
    refuse_beyond(body.ops, MOST_TRACED, body.instance.function.name, "a trace lists", "`--html` shows the beginning")
    target = Path(path)
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            file.write(f'{{"displayTimeUnit": "ns", "otherData": {json.dumps({"title": traced.title})}, ')
            file.write('"traceEvents": [\n')
            separator = ""
            for record in _records(traced, locate):
                file.write(separator)
                file.write(json.dumps(record, separators=(",", ":")))
                separator = ",\n"
            file.write("\n]}\n")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def process_of(device: int) -> int:
    """The number of a device's process, and of the thread of its compute stream: viewers take 0 for the idle one."""
    return device + 1


def named_process(device: int) -> list[Record]:
    """The events that name a device's process and order it."""
    head: Record = {"ph": "M", "pid": process_of(device), "tid": process_of(device)}
    return [
        head | {"name": "process_name", "args": {"name": f"device {device}"}},
        head | {"name": "process_sort_index", "args": {"sort_index": device}},
    ]


def named_thread(lane: Record, name: str, position: int) -> list[Record]:
    """The events that name a thread, with `pid` and `tid` of `lane`, and order it within its process."""
    return [
        {"ph": "M"} | lane | {"name": "thread_name", "args": {"name": name}},
        {"ph": "M"} | lane | {"name": "thread_sort_index", "args": {"sort_index": position}},
    ]


def microseconds(moment: int) -> float:
    """Whole nanoseconds in microseconds: the least float not below, for Perfetto drops what is beyond nanoseconds."""
    found = moment / 1000
    return found if int(found * 1000) == moment else math.nextafter(found, math.inf)


def _records(traced: Traced, locate: Locate | None) -> Iterator[Record]:
    lanes, passes = _Lanes(traced.timeline), _Passes()
    for device in traced.memories:
        yield from named_process(device)
        yield from lanes.named(device)
    yield from _slices(traced.timeline, traced.provenance, locate, lanes, passes)
    yield from passes.records(lanes)
    yield from _counters(traced)


class _Lanes:
    """The threads of devices, no two of which have the same number, of whichever process."""

    PASSES, COMPUTE, STREAMS, HOST = 0, 1, 2, 1000
    """Where threads stand within a process."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        first = max(timeline.streams, default=0) + 2
        others = [s for own in timeline.streams.values() for s in own if not isinstance(s, int)]
        self._others = {stream: first + number for number, stream in enumerate(others)}
        self._hosts = first + len(others)
        self._passes = self._hosts + first

    def of(self, device: int, stream: Clock) -> Record:
        """The process and the thread of a stream."""
        return {
            "pid": process_of(device),
            "tid": process_of(stream) if isinstance(stream, int) else self._others[stream],
        }

    def of_host(self, device: int) -> Record:
        """Those of a device's host."""
        return {"pid": process_of(device), "tid": self._hosts + device}

    def of_passes(self, device: int) -> Record:
        """Those of a device's passes."""
        return {"pid": process_of(device), "tid": self._passes + device}

    def named(self, device: int) -> Iterator[Record]:
        """The events that name the threads of a device's streams and of its host."""
        yield from named_thread(self.of(device, device), "compute", self.COMPUTE)
        others = [stream for stream in self._timeline.streams.get(device, ()) if not isinstance(stream, int)]
        for position, stream in enumerate(others, self.STREAMS):
            yield from named_thread(self.of(device, stream), f"stream {stream.stream}", position)
        if self._timeline.has_hosts:
            yield from named_thread(self.of_host(device), "host", self.HOST)


LETTERS = {"forward": "F", "backward": "B", "weight": "W"}
"""How passes of microbatches are written, as in drawings of schedules."""


@dataclass(slots=True)
class _Pass:
    """Ops in a row on a device's compute stream, of one phase and microbatch."""

    phase: str
    microbatch: int
    start: int
    end: int

    @property
    def name(self) -> str:
        """As in drawings of schedules: F 1, B 1, W 1, optimizer."""
        if not self.phase:
            return f"microbatch {self.microbatch}"
        return f"{LETTERS.get(self.phase, self.phase)} {self.microbatch}" if self.microbatch else self.phase


class _Passes:
    """The passes of each device, as far as the ops' phases are known."""

    def __init__(self) -> None:
        self._found: dict[int, list[_Pass]] = {}

    def add(self, device: int, facts: Facts, computes: bool, start: int, end: int) -> None:
        """The next op on a device's compute stream: of the current pass, or the first of another one if it computes."""
        phase, microbatch = facts.phase, facts.microbatch
        own = self._found.get(device)
        # what adds to sums is of several microbatches, and of the pass that it is in
        if own and own[-1].phase == phase and microbatch in (own[-1].microbatch, 0):
            own[-1].end = end
        elif computes and (phase or microbatch):
            self._found.setdefault(device, []).append(_Pass(phase, microbatch, start, end))

    def records(self, lanes: _Lanes) -> Iterator[Record]:
        """All passes as slices, on a thread of each device that has some."""
        for device, own in self._found.items():
            lane = lanes.of_passes(device)
            yield from named_thread(lane, "passes", lanes.PASSES)
            for piece in own:
                yield _slice(lane, piece.start, piece.end) | {
                    "name": piece.name,
                    "cat": f"pass,{piece.phase or 'microbatch'}",
                    "args": Facts(piece.phase, microbatch=piece.microbatch).stated,
                }


def _slice(lane: Record, start: int, end: int) -> Record:
    return {"ph": "X"} | lane | {"ts": microseconds(start), "dur": microseconds(end - start)}


@dataclass(slots=True)
class _Open:
    """A call with an open slice on a device: the common properties of its ops there, and the end of the last one."""

    name: str
    calls: tuple[int, ...]
    """The statements that lead into it: which call it is."""
    end: int
    common: dict[str, Any]

    def closed(self, lane: Record) -> Record:
        """The end of the slice."""
        common = {name: value for name, value in self.common.items() if value is not None}
        end: Record = {"ph": "E"} | lane | {"ts": microseconds(self.end)}
        return end | {"name": self.name, "cat": "call", "args": common}


def _enter(open_calls: list[_Open], event: Event, lane: Record, start: int) -> Iterator[Record]:
    """End the slices of calls that the event is not in, and begin those that it is the first of."""
    calls = tuple(index for _, index in event.path[:-1])
    while open_calls and calls[: len(open_calls[-1].calls)] != open_calls[-1].calls:
        yield open_calls.pop().closed(lane)
    for depth in range(len(open_calls), len(calls)):
        name = titled(event.path[depth + 1][0])
        open_calls.append(_Open(name, calls[: depth + 1], start, {}))
        yield (
            {"ph": "B"}
            | lane
            | {
                "ts": microseconds(start),
                "name": name,
                "cat": "call",
                "args": {"calls": call_path(event.path[: depth + 2])},
            }
        )


def _slices(
    timeline: Timeline, provenance: Provenance, locate: Locate | None, lanes: _Lanes, passes: _Passes
) -> Iterator[Record]:
    inside: dict[int, tuple[Record, list[_Open]]] = {}
    placed, flows = Placing(provenance), count(1)

    @lru_cache(_RECENT)
    def described(function: str, index: int, statement: Any) -> Record:
        place = locate(Site(function, index)) if locate is not None else None
        text = {"statement": print_statement(statement), "function": f"@{function}"}
        return text if place is None else text | {"place": place}

    critical = set(timeline.critical_path())
    waits = iter(timeline.waits)
    wait = next(waits, None)
    for event in timeline.events():
        waited: list[Wait] = []
        while wait is not None and wait.event == event.index:
            waited.append(wait)
            wait = next(waits, None)
        function, index = event.function, event.place.statement
        is_critical = event.index in critical
        arguments = described(function.name, index, event.statement) | {
            "duration_us": event.effect.cost.seconds * 1e6,
            "bound": event.effect.cost.bound,
            "slack_us": timeline.slack[event.index] * 1e6,
            "critical": is_critical,
        }
        if event.place.run.caller is not None:
            arguments["calls"] = calls_to(event)
        if waited:
            arguments["waits"] = [_waited(timeline, wait) for wait in waited]
        start, end = nanoseconds(event.start), nanoseconds(event.end)
        category = "communication" if event.effect.communicates else "compute"
        facts = placed(event)
        arguments |= facts.stated
        category += f",{facts.phase}" if facts.phase else ""
        own_lanes = {device: lanes.of(device, stream) for device, stream in _streams(event)}
        for lane in own_lanes.values():
            _, own = inside.setdefault(lane["tid"], (lane, []))
            yield from _enter(own, event, lane, start)
            for call in own:
                call.end = end
                for name in FACTS:
                    value = getattr(facts, name) or None
                    if value is not None or name != "microbatch":  # a pass may add to sums, which are of several
                        call.common[name] = value if call.common.get(name, value) == value else None
            yield _slice(lane, start, end) | {
                "name": event.op,
                "cat": f"{category},critical" if is_critical else category,
                "args": arguments,
            }
        for device, begins, ends in event.place.issued if timeline.has_hosts else ():
            begun = nanoseconds(to_seconds(begins))
            yield _slice(lanes.of_host(device), begun, nanoseconds(to_seconds(ends))) | {
                "name": event.op,
                "cat": "issue",
                "args": {"issues": event.label},
            }
        for device, stream in _streams(event):
            if isinstance(stream, int):
                passes.add(device, facts, not event.effect.communicates, start, end)
        if end > start:
            yield from _arrows(event, own_lanes, start, end, flows)
    for lane, own in inside.values():
        for call in reversed(own):
            yield call.closed(lane)


def _streams(event: Event) -> Iterator[tuple[int, Clock]]:
    """By device, the stream of it that an event occupies."""
    return zip(event.effect.devices, event.place.streams, strict=True)


class Placing:
    """The facts of events, asked for in program order: the contexts of the last one are kept."""

    def __init__(self, provenance: Provenance) -> None:
        self._provenance = provenance
        self._calls: tuple[int, ...] = ()
        self._contexts = [provenance.entry]

    def __call__(self, event: Event) -> Facts:
        """The facts of an event."""
        *calls, last = (index for _, index in event.path)
        same = next((i for i, (a, b) in enumerate(zip(calls, self._calls, strict=False)) if a != b), None)
        same = min(len(calls), len(self._calls)) if same is None else same
        del self._contexts[same + 1 :]
        for call in calls[same:]:
            self._contexts.append(self._provenance.called(self._contexts[-1], call))
        self._calls = tuple(calls)
        return self._provenance.facts(self._contexts[-1], last)


def placing_of(simulation: Any) -> Placing:
    """The facts of a simulation's events."""
    return Placing(Provenance(simulation.module, simulation.function))


def calls_to(event: Event) -> str:
    """The calls that lead to an op, as `call_path` writes them; of very many, those in the middle by their number."""
    outermost, left_out, innermost = event.shown_path
    if not left_out:
        return call_path((*outermost, *innermost))
    return f"{call_path(outermost)} › … {left_out:,} more … › {call_path(innermost)}"


def call_path(path: Iterable[tuple[Function, int]]) -> str:
    """The calls that lead to an op: `@main › %h = @layer › %y = @dense`."""
    *calls, (function, _) = path
    steps = [f"@{calls[0][0].name}" if calls else f"@{function.name}"]
    for (caller, index), (callee, _) in zip(calls, [*calls[1:], (function, 0)], strict=True):
        names = [f"%{name}" for name in getattr(caller.body[index], "results", ()) if name != DISCARD]
        steps.append(f"{', '.join(names)} = @{callee.name}" if names else f"@{callee.name}")
    return " › ".join(steps)


def _waited(timeline: Timeline, wait: Wait) -> Record:
    said = "the host"
    if wait.blocker is not None:
        blocker = timeline.event(wait.blocker)
        said = f"{blocker.op} {blocker.label}"
    return {"device": wait.device, "us": wait.seconds * 1e6, "for": said}


def _arrows(event: Event, lanes: Mapping[int, Record], start: int, end: int, flows: Iterator[int]) -> Iterator[Record]:
    """What flows between the slices of one transfer: from or to its root, or once through all of its devices.

    `flows` numbers them: Perfetto shows only those whose `id` is a number.
    """
    communication, devices = event.effect.work.communication, event.effect.devices
    if communication is None or len(devices) < 2:
        return
    root = communication.root
    if root is None or root not in devices:
        routes = [devices]
    else:
        others = [device for device in devices if device != root]
        inwards = communication.pattern in INWARDS
        routes = [(other, root) if inwards else (root, other) for other in others]
    last = (start + end) // 2  # an arrow must end while the slice is there, and not before it began
    for route in routes:
        number = next(flows)
        for device in route:
            phase = "s" if device == route[0] else "f" if device == route[-1] else "t"
            arrow: Record = (
                {"ph": phase}
                | lanes[device]
                | {
                    "ts": microseconds(start if phase == "s" else last),
                    "id": number,
                    "name": communication.pattern,
                    "cat": "communication",
                }
            )
            yield arrow | {"bp": "e"} if phase == "f" else arrow


def _counters(traced: Traced) -> Iterator[Record]:
    devices = {memory: (device, "memory") for device, memory in traced.memories.items()}
    hosts = {hosts_memory(memory): (device, "offloaded") for device, memory in traced.memories.items()}
    devices.update(hosts)
    for memory, moment, nbytes in _memory_steps(traced.memory):
        device, name = devices[memory]
        yield {
            "ph": "C",
            "pid": process_of(device),
            "tid": process_of(device),
            "ts": microseconds(moment),
            "name": name,
            "args": {"bytes": nbytes},
        }


def _memory_steps(profile: MemoryProfile) -> Iterator[tuple[int, int, int]]:
    """Memory, nanoseconds and the bytes in use from then on. Of changes at one moment, the highest and the last."""
    pending: dict[int, tuple[int, int, int]] = {}
    for point in profile.points():
        moment = nanoseconds(point.time)
        before = pending.get(point.memory)
        highest = point.nbytes
        if before is not None and before[0] == moment:
            highest = max(highest, before[1])
        elif before is not None:
            yield from _steps(point.memory, *before)
        pending[point.memory] = moment, highest, point.nbytes
    for memory, left in sorted(pending.items()):
        yield from _steps(memory, *left)


def _steps(memory: int, moment: int, highest: int, last: int) -> Iterator[tuple[int, int, int]]:
    if highest != last:
        yield memory, moment, highest
    yield memory, moment, last


def nanoseconds(seconds: float) -> int:
    """Seconds in whole nanoseconds."""
    return round(seconds * 1e9)
