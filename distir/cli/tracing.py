"""`distir import trace`: what a torch profile has, by ranks. Times are in seconds."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.cli import output
from distir.cli.endings import Refused
from distir.cli.files import replace_file
from distir.cost import show_seconds
from distir.files.reading import advice, why_not

if TYPE_CHECKING:
    from distir.traces.activity import Piece, StepActivity
    from distir.traces.records import RankTrace

LONGEST = 20
"""Ops that are listed."""


def read_traces(sources: Sequence[str]) -> dict[int, RankTrace]:
    """By rank: its trace. Raises Refused."""
    from distir.traces.events import TraceError
    from distir.traces.ranks import read_ranks

    try:
        with output.progress(f"reading {', '.join(sources)}"):
            return read_ranks(sources)
    except TraceError as error:
        raise Refused(str(error), error.help) from None
    except OSError as error:
        raise Refused(f"cannot read `{error.filename}`: {why_not(error)}", advice(error)) from None


def show_trace(source: str, out: str | None, as_json: bool) -> int:
    """Show the traces that a path names, or write their ops to a file. Returns the exit code; raises Refused."""
    from distir.traces.activity import activities, without_waiting
    from distir.traces.ranks import notes_on

    if out is not None and not out.endswith(".csv"):
        raise Refused(f"`{out}`: ops of a trace are written as CSV", "name a file that ends in `.csv`")
    traces = read_traces([source])
    steps = list(without_waiting({rank: activities(trace, rank) for rank, trace in traces.items()}).values())
    notes = notes_on(list(traces.values()))
    if out is not None:
        replace_file(out, _rows(steps).encode())
        output.tell_terminal(f"wrote {out}")
    elif as_json:
        output.write_json(_document(list(traces.values()), steps, notes))
    else:
        _print(list(traces.values()), steps)
    for note in notes if not as_json else ():
        output.complain("warning", note)
    return 0


_OF_DEVICE = ("busy_s", "idle_s", "communication_s", "exposed_communication_s", "waiting_s")


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _figures(trace: RankTrace, steps: Sequence[StepActivity]) -> dict[str, float | None]:
    """Of a rank: means over its steps; None for those of a device of which nothing was recorded."""
    found: dict[str, float | None] = {**_means(steps)}
    return found | dict.fromkeys(_OF_DEVICE) if trace.unrecorded else found


def _means(steps: Sequence[StepActivity]) -> dict[str, float]:
    communicating = [[p for p in step.pieces if p.collective] for step in steps]
    return {
        "step_s": _mean([step.seconds for step in steps]),
        "busy_s": _mean([step.busy for step in steps]),
        "idle_s": _mean([step.idle for step in steps]),
        "communication_s": _mean([step.communication for step in steps]),
        "exposed_communication_s": _mean([step.exposed for step in steps]),
        "waiting_s": _mean([sum(p.waited for p in own) for own in communicating]),
    }


def _streams(trace: RankTrace) -> dict[str, float]:
    """By stream of a GPU: for which share of the profile's steps it is busy."""
    from distir.traces.records import covered

    spans: dict[str, list[tuple[float, float]]] = {}
    for kernel in trace.kernels:
        if trace.step_of(kernel.start) is not None:
            spans.setdefault(f"GPU {kernel.device} stream {kernel.stream}", []).append((kernel.start, kernel.end))
    total = sum(step.seconds for step in trace.steps)
    return {name: covered(own) / total for name, own in sorted(spans.items())}


def _totals(steps: Sequence[Sequence[StepActivity]]) -> list[dict[str, Any]]:
    """By op, or pattern of communication, and shapes: how often and how long per step and rank, the longest first."""
    every = [step for own in steps for step in own]
    found: dict[tuple[str, str], list[float]] = {}
    for piece in (piece for step in every for piece in step.pieces):
        own = found.setdefault((piece.kind if piece.collective else piece.label, _shapes(piece)), [0.0, 0.0])
        own[0] += 1
        own[1] += piece.seconds
    count = max(1, len(every))
    rows = [{"op": op, "of": of, "n": n / count, "seconds": s / count} for (op, of), (n, s) in found.items()]
    return sorted(rows, key=lambda row: (-row["seconds"], row["op"], row["of"]))


def _shapes(piece: Piece) -> str:
    """The shapes of its tensors; of a communication, its bytes and ranks."""
    found = piece.collective
    if found is None:
        return " ".join("×".join(map(str, shape)) or "scalar" for shape in piece.shapes)
    size = f"{found.nbytes} bytes" if found.nbytes is not None else ""
    return ", ".join(part for part in (size, f"{found.size} ranks" if found.size else "") if part)


def _document(
    traces: Sequence[RankTrace], steps: Sequence[Sequence[StepActivity]], notes: Sequence[str]
) -> dict[str, Any]:
    return {
        "ranks": [
            {"rank": own[0].rank, "file": trace.path, "events": trace.events, "steps": len(trace.steps)}
            | {"device": {"kind": trace.device.kind, "names": list(trace.device.names)}}
            | _figures(trace, own)
            | {"streams": _streams(trace)}
            for trace, own in zip(traces, steps, strict=True)
        ],
        "ops": _totals(steps),
        "notes": list(notes),
    }


def _print(traces: Sequence[RankTrace], steps: Sequence[Sequence[StepActivity]]) -> None:
    from rich.text import Text

    titles = ("rank", "device", "steps", "step", "busy", "idle", "communication", "exposed", "waiting for ranks")
    ranks = output.table(*titles, right="02345678")
    for trace, own in zip(traces, steps, strict=True):
        figures = ["-" if seconds is None else show_seconds(seconds) for seconds in _figures(trace, own).values()]
        counted = f"{len(own)} of {len(trace.steps)}"
        ranks.add_row(str(own[0].rank), Text(str(trace.device)), counted, *figures)
    parts: list[Any] = [Text("ranks, means per step", style="bold underline"), ranks]
    if any(trace.on_gpu for trace in traces):
        streams = output.table("rank", "stream", "busy", right="02")
        for trace, own in zip(traces, steps, strict=True):
            for name, share in _streams(trace).items():
                streams.add_row(str(own[0].rank), name, f"{100 * share:.1f}%")
        parts += ["", Text("streams", style="bold underline"), streams]
    rows = _totals(steps)
    total = sum(row["seconds"] for row in rows) or 1.0
    more = f" ({len(rows) - LONGEST} more: --json)" if len(rows) > LONGEST else ""
    ops = output.table("op", "of", "n", "time", "of all ops", right="234")
    for row in rows[:LONGEST]:
        share = f"{100 * row['seconds'] / total:.1f}%"
        ops.add_row(Text(row["op"]), Text(row["of"]), f"{row['n']:g}", show_seconds(row["seconds"]), share)
    parts += ["", Text(f"the longest ops, per step and rank{more}", style="bold underline"), ops]
    output.lay_out(*parts)


def _rows(steps: Sequence[Sequence[StepActivity]]) -> str:
    """All ops as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["rank", "step", "op", "of", "phase", "modules", "start_s", "seconds", "waited_s"])
    for step in (step for own in steps for step in own):
        first = min((piece.start for piece in step.pieces), default=0.0)
        for p in step.pieces:
            number = "" if step.number is None else step.number
            times = (f"{p.start - first:.9f}", f"{p.seconds:.9f}", f"{p.waited:.9f}")
            writer.writerow([step.rank, number, p.label, _shapes(p), p.phase, "/".join(p.modules), *times])
    return text.getvalue()
