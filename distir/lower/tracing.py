"""The timeline of a measured run, in the format of a simulated one (`simulate/trace.py`), for the same viewers.

Every rank reports when each of its statements started and ended, on the clock that the ranks of one machine share. A
communication starts when its last member arrives; earlier members are idle until then, as in a simulation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distir.simulate.trace import microseconds, named_process, named_thread, process_of


@dataclass(frozen=True, slots=True)
class Slice:
    """A statement on one device. Times in seconds; `ready`: when all members had arrived."""

    device: int
    statement: Mapping[str, Any]
    calls: tuple[Mapping[str, Any], ...]
    arrived: float
    ready: float
    end: float

    @property
    def seconds(self) -> float:
        """The time from `ready` to `end`, in seconds."""
        return self.end - self.ready


def slices(
    manifest: Mapping[str, Any], observed: Mapping[int, Mapping[str, Any]], numbers: Mapping[int, Sequence[int]]
) -> list[Slice]:
    """The slices of all devices, by device and time; time 0 is the first arrival.

    By device, `observed` is the report of run.py, and `numbers` are its communications as `check_order` numbers them.
    """
    statements: dict[int, Any] = {int(line): found for line, found in manifest["statements"].items()}
    arrivals: dict[int, float] = {}
    placed: list[tuple[int, int | None, Any]] = []
    for device, seen in observed.items():
        own = iter(numbers[device])
        for event in seen["events"]:
            number = next(own) if statements[event[0]]["communication"] else None
            placed.append((device, number, event))
            if number is not None:
                arrivals[number] = max(arrivals.get(number, event[2]), event[2])
    first = min((event[2] for _, _, event in placed), default=0.0)
    found: list[Slice] = []
    for device, number, (line, calls, start, end) in placed:
        ready = start if number is None else min(arrivals[number], end)
        path = tuple(statements[at] for at in calls if at in statements)
        found.append(Slice(device, statements[line], path, start - first, ready - first, end - first))
    return found


def busy(found: Sequence[Slice]) -> dict[int, dict[str, float]]:
    """By device: the seconds of all its statements, and those of its communications."""
    total: dict[int, dict[str, float]] = {}
    for piece in found:
        own = total.setdefault(piece.device, {"busy_s": 0.0, "comm_s": 0.0})
        own["busy_s"] += piece.seconds
        own["comm_s"] += piece.seconds if piece.statement["communication"] else 0.0
    return total


def chrome_trace(found: Sequence[Slice], title: str) -> str:
    """The timeline as a Chrome trace: a process per device, with one thread; times in microseconds."""
    records: list[dict[str, Any]] = []
    for device in sorted({piece.device for piece in found}):
        records += named_process(device)
        records += named_thread(_lane(device), "compute", 0)
    records += map(_record, found)
    lines = ",\n".join(json.dumps(record, separators=(",", ":")) for record in records)
    head = f'"displayTimeUnit": "ns", "otherData": {json.dumps({"title": title})}'
    return f'{{{head}, "traceEvents": [\n{lines}\n]}}\n'


def _lane(device: int) -> dict[str, Any]:
    return {"pid": process_of(device), "tid": process_of(device)}


def _record(piece: Slice) -> dict[str, Any]:
    statement = piece.statement
    arguments: dict[str, Any] = {
        "statement": statement["text"],
        "function": f"@{statement['function']}",
        "duration_us": piece.seconds * 1e6,
        "measured": True,
    }
    if piece.calls:
        steps = [f"@{piece.calls[0]['function']}"]
        steps += [f"{call['label']} = @{call['call']}" if call["label"] else f"@{call['call']}" for call in piece.calls]
        arguments["calls"] = " › ".join(steps)
    if piece.ready > piece.arrived:
        arguments["waited_us"] = (piece.ready - piece.arrived) * 1e6
    start, end = round(piece.ready * 1e9), round(piece.end * 1e9)
    return {
        "ph": "X",
        **_lane(piece.device),
        "ts": microseconds(start),
        "dur": microseconds(end - start),
        "name": statement["op"],
        "cat": "communication" if statement["communication"] else "compute",
        "args": arguments,
    }
