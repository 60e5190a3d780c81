"""The files: a trace for each rank, written as the program is gone through, and the communicators as JSON.

A file is messages one after the other, each after its length: `GlobalMetadata`, then a `Node` for each op of the rank.
An op waits for those of its rank that made its operands (`data_deps`), and for the one before it on its stream
(`ctrl_deps`). Owns where things are in a folder.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distir.analysis.size import refuse_beyond
from distir.ir import Facts
from distir.ir.errors import DistirError
from distir.simulate.algebra.clocks import Clock
from distir.simulate.body import Body, distinct
from distir.simulate.chakra.flow import data_flow
from distir.simulate.chakra.nodes import Attributes, NodeMaker, idle
from distir.simulate.chakra.schema import COMM_RECV_NODE, COMP_NODE, VERSION, messages
from distir.simulate.effects import Effect
from distir.simulate.timeline import Event
from distir.simulate.trace import placing_of

if TYPE_CHECKING:
    from distir.simulate.simulation import Simulation

STEM, GROUPS = "trace", "comm_groups.json"
"""Rank r is in `trace.r.et`; the communicators, by name, are in `comm_groups.json`."""

MOST_NODES = 2_000_000
"""No export has more nodes: some hundred MB, and minutes."""

MOST_HELD = 1 << 25
"""How many bytes are buffered before they are written to files, of which few are open at once."""

_TRACE = re.compile(rf"{STEM}\.(\d+)\.et")


class ChakraError(DistirError, ValueError):
    """Why there is no trace. `help` says what to do."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True, slots=True)
class WrittenTraces:
    """The files written. `devices`: by rank; `unsupported`: nodes by patterns that ASTRA-sim does not run."""

    devices: tuple[int, ...]
    nodes: int
    groups: int
    unsupported: Mapping[str, int]


def write(simulation: Simulation, folder: str | os.PathLike[str]) -> WrittenTraces:
    """Write the execution traces of a simulated program into a folder, which is made; files appear when all are whole.

    Raises ImportError without protobuf; ChakraError where devices represent others, and where the folder has traces of
    more ranks; ProgramError for too many nodes; OSError.
    """
    known = messages()
    if simulation.effects.represented:
        message = "a device of the program represents several, whose traces are not there"
        raise ChakraError(message, "export the whole program, as `dtp` writes it without `representative=true`")
    name = simulation.function.name
    refuse_beyond(
        _count(simulation.body), MOST_NODES, name, "execution traces have", "export fewer microbatches", "nodes"
    )
    devices, target = tuple(sorted(simulation.devices)), Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    stale = [path.name for path in target.iterdir() if _more_ranks(path.name, len(devices))]
    if stale:
        message = f"`{target}` has traces of more ranks, such as `{min(stale)}`: expected at most {len(devices)}"
        raise ChakraError(message, "name another folder, or remove them")
    with ExitStack() as drafts:
        files = _Files(target, len(devices))
        drafts.callback(files.discard)
        files.begin()
        for rank, device in enumerate(devices):
            about = {"program": f"@{name}", "hardware": simulation.hardware.name, "device": f"device {device}"}
            texts = _attributes({key: ("string", value) for key, value in about.items()})
            files.add(rank, known.metadata(version=VERSION, attr=texts))
        written = _nodes(simulation, devices, files)
        files.finish()
        return written


class _Files:
    """Traces under way, beside where they will be. What is added is held for a while: there may be many ranks."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self._paths = [folder / f"{STEM}.{rank}.et" for rank in range(ranks)]
        self._groups = folder / GROUPS
        self._held = [BytesIO() for _ in range(ranks)]
        self._size = 0
        self._frame = messages().frame

    @property
    def _drafts(self) -> Iterator[Path]:
        return (path.with_name(f".{path.name}.{os.getpid()}.part") for path in (*self._paths, self._groups))

    def begin(self) -> None:
        """Make them, empty: they are appended to."""
        for path in self._drafts:
            path.write_bytes(b"")

    def add(self, rank: int, message: Any) -> None:
        """The next message of a rank's trace."""
        held = self._held[rank]
        before = held.tell()
        self._frame(message, held)
        self._size += held.tell() - before
        if self._size > MOST_HELD:
            self._flush()

    def groups(self, members: Mapping[tuple[int, ...], int]) -> None:
        """The communicators: by name, their ranks."""
        *_, draft = self._drafts
        lines = ",\n".join(f'"{number}": {json.dumps(ranks)}' for ranks, number in members.items())
        draft.write_text(f"{{\n{lines}\n}}\n")

    def finish(self) -> None:
        """Put all files where they belong."""
        self._flush()
        for draft, path in zip(self._drafts, (*self._paths, self._groups), strict=True):
            draft.replace(path)

    def discard(self) -> None:
        """Delete all files written so far."""
        for draft in self._drafts:
            draft.unlink(missing_ok=True)

    def _flush(self) -> None:
        for draft, held in zip(self._drafts, self._held, strict=False):
            if held.tell():
                with draft.open("ab") as file:
                    file.write(held.getvalue())
                held.seek(0)
                held.truncate()
        self._size = 0


def _nodes(simulation: Simulation, devices: tuple[int, ...], files: _Files) -> WrittenTraces:
    parts = NodeMaker({device: rank for rank, device in enumerate(devices)})
    timeline, placed = simulation.timeline(), placing_of(simulation)
    node, count = messages().node, 0
    before: dict[tuple[int, Clock], list[int]] = {}
    several: dict[tuple[int, int], list[int]] = {}
    """By event and device, where it is several nodes: those that receive."""
    each = max(len(devices), 2)
    """How many numbers there are for the nodes of an event."""
    for event, flow in zip(timeline.events(), data_flow(timeline.body, max(devices, default=0)), strict=True):
        streams = dict(zip(event.effect.devices, event.place.streams, strict=True))
        start, end = round(event.start * 1e6), round(event.end * 1e6)
        shared = _attributes(_shared(event, placed(event), next(iter(streams.values()))))
        own: dict[int, list[int]] = {device: [] for device in streams}
        received: dict[int, list[int]] = {}
        for part in parts.of(event):
            device, number = devices[part.rank], each * event.index + part.order
            own[device].append(number)
            if part.type == COMM_RECV_NODE:
                received.setdefault(device, []).append(number)
            awaited = [made for made, there in flow if there == device]
            message = node(
                id=number,
                name=f"{event.op} {event.label}",
                type=part.type,
                ctrl_deps=before.get((device, streams[device]), ()),
                data_deps=sorted(n for made in awaited for n in several.get((made, device), (each * made,))),
                start_time_micros=start,
                duration_micros=end - start,
                attr=[*_attributes(part.attributes), *shared],
            )
            files.add(part.rank, message)
            count += 1
        for device, ids in ((device, ids) for device, ids in own.items() if ids):
            before[device, streams[device]] = ids
            if len(ids) > 1:
                several[event.index, device] = received[device]
    busy = {device for device, _ in before}
    for rank, device in enumerate(devices):
        if device not in busy:
            files.add(rank, node(id=0, name="idle", type=COMP_NODE, attr=_attributes(idle())))
            count += 1
    files.groups(parts.groups)
    return WrittenTraces(devices, count, len(parts.groups), dict(parts.unsupported))


def _shared(event: Event, facts: Facts, stream: Clock) -> Attributes:
    """Attributes of an op for human readers; no simulator reads them."""
    found: Attributes = {"function": ("string", f"@{event.function.name}")}
    for name, value in facts.stated.items():
        found[name] = ("string", value) if isinstance(value, str) else ("uint32", value)
    if not isinstance(stream, int):
        found["stream"] = ("string", stream.stream)
    return found


def _attributes(values: Attributes) -> list[Any]:
    return _made(tuple(values.items()))


@lru_cache(maxsize=1 << 10)
def _made(values: tuple[tuple[str, tuple[str, Any]], ...]) -> list[Any]:
    attribute = messages().attribute
    return [attribute(name=name, **{f"{kind}_val": value}) for name, (kind, value) in values]


def _count(entry: Body) -> int:
    """At least how many nodes there are: one of an op on each of its devices, two where it shifts around a ring."""
    found: dict[int, int] = {}
    for body in distinct(entry):
        found[id(body)] = sum(
            found[id(step)] if isinstance(step, Body) else 0 if step is None else _width(step) for step in body.steps
        )
    return found[id(entry)]


def _width(effect: Effect) -> int:
    communication = effect.work.communication
    return len(effect.devices) * (2 if communication is not None and communication.pattern == "shift" else 1)


def _more_ranks(name: str, ranks: int) -> bool:
    """Whether a file is the trace of a rank that the program does not have."""
    found = _TRACE.fullmatch(name)
    return found is not None and int(found[1]) >= ranks
