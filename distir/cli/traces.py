"""`distir diff` with traces: compares a simulated and a measured run, op by op.

`distir simulate --trace` and `distir launch --trace` write traces. Both list the ops of a device in program order; a
measured trace omits host values and names of other ranks' results. So the ops of a measured run are matched, in order,
with those of the simulated one. Times are in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from distir.cli.conditions import TIMED, Condition, Judged
from distir.cli.endings import Refused
from distir.cli.files import shown
from distir.cli.output import table
from distir.cost import show_seconds
from distir.files.reading import advice, why_not
from distir.traces.events import TraceError, read_events

if TYPE_CHECKING:
    from distir.analysis.program import Program
    from distir.simulate import Simulation

DISCARDED = "_"

_DEVICE = re.compile(r"device (\d+)")
_RESULTS = re.compile(r"(?:%[\w.-]+|_)(?:\s*:[^=]*)?")


@dataclass(frozen=True, slots=True)
class TracedOp:
    """One op on one device. `results`: the names of those that the device's rank knows; `line`: where there is one."""

    device: int
    function: str
    op: str
    results: frozenset[str]
    line: int | None
    start: float
    seconds: float

    def same(self, other: TracedOp) -> bool:
        """Whether both are the same statement."""
        ours = (self.function, self.op) == (other.function, other.op)
        return ours and (self.results == other.results or bool(self.results & other.results))


@dataclass(frozen=True, slots=True)
class TracedRun:
    """The ops of one run, by device in the order of the program."""

    name: str
    measured: bool
    pieces: Mapping[int, Sequence[TracedOp]]

    @property
    def latency(self) -> float:
        """Seconds until the last op has ended."""
        return max((p.start + p.seconds for own in self.pieces.values() for p in own), default=0.0)


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A statement on one device, over all times that it ran. Seconds are those of both runs."""

    op: str
    name: str
    function: str
    line: int | None
    device: int
    count: int
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Beside:
    """Two runs of one program.

    `rows`: the largest difference first; `alone`: ops that only the first run has; `views`: those that only the second
    has, since they take no time in a simulation.
    """

    first: TracedRun
    second: TracedRun
    rows: tuple[TraceRow, ...]
    alone: int
    views: int

    @property
    def titles(self) -> tuple[str, str]:
        """The names of the runs."""
        if self.first.measured == self.second.measured:
            return "A", "B"
        return "simulated", "measured"

    def busy(self, device: int) -> tuple[float, float]:
        """Seconds of a device's ops, of those that both have."""
        own = [row for row in self.rows if row.device == device]
        return sum(row.first for row in own), sum(row.second for row in own)


def read_trace(path: str) -> TracedRun:
    """The run in a trace. Raises Refused."""
    wanted = f"`{shown(path)}`: expected a trace, as `distir launch --trace` and `distir simulate --trace` write it"
    try:
        slices, names = list[Mapping[str, Any]](), list[Mapping[str, Any]]()
        for record in read_events(path, {}):
            if record["ph"] == "M":
                names.append(record)
            elif record["ph"] == "X" and "statement" in record.get("args", ()):
                slices.append(record)
        devices = _devices(names)
        found = [_piece(record, devices[record["pid"]]) for record in slices]
        measured = {bool(record["args"].get("measured")) for record in slices}
    except TraceError as error:
        raise Refused(f"{wanted}: {error}", error.help) from None
    except OSError as error:
        raise Refused(f"cannot read `{shown(path)}`: {why_not(error)}", advice(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"{wanted}, found {_said(error)}") from None
    if len(measured) != 1:
        hint = None if measured else "`distir compare` takes traces of `torch.profiler`"
        raise Refused(f"{wanted}, found one without ops" if not measured else wanted, hint)
    return TracedRun(shown(path), measured.pop(), _by_device(found))


def simulated_run(name: str, program: Program, simulation: Simulation) -> TracedRun:
    """The run of a simulation."""
    from distir.analysis.size import refuse_beyond
    from distir.cli.endings import judged
    from distir.cli.report import lines
    from distir.ir import DISCARD
    from distir.simulate.trace import MOST_TRACED

    with judged(program):
        refuse_beyond(simulation.ops, MOST_TRACED, simulation.function.name, "a trace lists")
    line_of = lines(program)
    found: list[TracedOp] = []
    for event in simulation.timeline().events():
        names = frozenset(name for name in event.statement.results if name != DISCARD)
        own = (event.function.name, event.op, names, line_of(event))
        found += [TracedOp(d, *own, event.start, event.effect.cost.seconds) for d in event.effect.devices]
    return TracedRun(name, False, _by_device(found))


def lay_beside(one: TracedRun, other: TracedRun) -> Beside:
    """The two runs, the simulated one first. Raises Refused where they are of different programs."""
    first, second = (other, one) if one.measured and not other.measured else (one, other)
    if first.pieces.keys() != second.pieces.keys():
        here, there = (", ".join(map(str, sorted(run.pieces))) for run in (first, second))
        raise _different(first, second, f"one runs on the devices {here}, the other on {there}")
    pairs = [pair for device in sorted(first.pieces) for pair in _matched(first, second, device)]
    rows: dict[tuple[object, ...], TraceRow] = {}
    for a, b in pairs:
        name = f"%{min(a.results)}" if a.results else ""
        key = (a.device, a.function, a.op, a.results, a.line)
        old = rows.get(key) or TraceRow(a.op, name, a.function, a.line, a.device, 0, 0.0, 0.0)
        rows[key] = TraceRow(*key_of(old), old.count + 1, old.first + a.seconds, old.second + b.seconds)
    ordered = sorted(rows.values(), key=lambda r: (-abs(r.second - r.first), r.device, r.function, r.name))
    alone, views = (sum(map(len, run.pieces.values())) - len(pairs) for run in (first, second))
    return Beside(first, second, tuple(ordered), alone, views)


def judged(asked: Sequence[Condition], beside: Beside) -> list[Judged]:
    """Evaluates conditions: traces only have latencies. Raises Refused for other metrics."""
    for condition in asked:
        if condition.metric != TIMED:
            hint = f"traces have `{TIMED}`; give two programs for the others"
            raise Refused(f"`--fail-if '{condition.text}'`: a trace has no `{condition.metric}`", hint)
    return [condition.judged(beside.first.latency, beside.second.latency) for condition in asked]


def key_of(row: TraceRow) -> tuple[str, str, str, int | None, int]:
    """Which statement a row is about."""
    return row.op, row.name, row.function, row.line, row.device


def as_document(beside: Beside) -> dict[str, Any]:
    """Both runs as one JSON document, with all rows."""
    a, b = beside.titles
    first, second = f"{a.lower()}_s", f"{b.lower()}_s"

    def both(one: float, other: float) -> dict[str, Any]:
        return {first: one, second: other, "ratio": other / one if one else None}

    return {
        a.lower(): beside.first.name,
        b.lower(): beside.second.name,
        "latency": both(beside.first.latency, beside.second.latency),
        "devices": {str(device): both(*beside.busy(device)) for device in sorted(beside.first.pieces)},
        "ops": [
            {"op": r.op, "result": r.name or None, "function": r.function, "line": r.line, "device": r.device}
            | {"runs": r.count}
            | both(r.first, r.second)
            for r in beside.rows
        ],
        f"only_{a.lower()}": beside.alone,
        f"only_{b.lower()}": beside.views,
    }


def as_text(beside: Beside, top: int) -> list[Any]:
    """Both runs for people: what rich lays out; the first `top` rows."""
    from rich.text import Text

    parts: list[Any] = [Text(_head(beside))]
    for title, columns, rows in _sections(beside, top):
        listed = table(*columns, right=_numbers(columns))
        for row in rows:
            listed.add_row(*map(Text, row))
        parts += ["", Text(title, style="bold underline"), listed]
    return parts


def as_markdown(beside: Beside, top: int) -> str:
    """Both runs as Markdown."""
    from distir.cli.differing import escaped

    parts = [escaped(_head(beside))]
    for title, columns, rows in _sections(beside, top):
        aligned = tuple("---:" if str(i) in _numbers(columns) else "---" for i in range(len(columns)))
        lines = [columns, aligned, *(tuple(map(escaped, row)) for row in rows)]
        parts += [f"#### {title}", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    return "\n\n".join(parts) + "\n"


# Reading.


def _devices(records: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """By process: the device that its name says."""
    found: dict[int, int] = {}
    for record in records:
        if record["name"] == "process_name" and (named := _DEVICE.fullmatch(record["args"]["name"])):
            found[record["pid"]] = int(named[1])
    return found


def _piece(record: Mapping[str, Any], device: int) -> TracedOp:
    arguments = record["args"]
    head, _, _ = cast("str", arguments["statement"]).partition(" = ")
    names = (name.partition(":")[0].strip() for name in _RESULTS.findall(head))
    results = frozenset(name.removeprefix("%") for name in names if name != DISCARDED)
    function = str(arguments["function"]).removeprefix("@").partition(".rank")[0]
    place = str(arguments.get("place", "")).rpartition(":")[2]
    line = int(place) if place.isdecimal() else None
    seconds = float(arguments["duration_us"]) / 1e6
    return TracedOp(device, function, str(record["name"]), results, line, record["ts"] / 1e6, seconds)


def _by_device(found: Iterable[TracedOp]) -> dict[int, list[TracedOp]]:
    pieces: dict[int, list[TracedOp]] = {}
    for piece in found:
        pieces.setdefault(piece.device, []).append(piece)
    return pieces


def _said(error: Exception) -> str:
    if isinstance(error, KeyError):
        missing = error.args[0]
        return f"no device of the process {missing}" if isinstance(missing, int) else f"no {error}"
    return "something else"


# Matching.


def _matched(first: TracedRun, second: TracedRun, device: int) -> list[tuple[TracedOp, TracedOp]]:
    """The ops of the second run with theirs in the first. Raises Refused where one that takes time has none."""
    there = {other.op for other in first.pieces[device]}
    theirs = iter(first.pieces[device])
    pairs: list[tuple[TracedOp, TracedOp]] = []
    for piece in second.pieces[device]:
        if piece.op not in there and _is_view(piece.op):
            continue
        match = next((other for other in theirs if other.same(piece)), None)
        if match is None:
            label = "".join(f" `%{name}`" for name in sorted(piece.results)[:1])
            raise _different(first, second, f"`{piece.op}`{label} of `@{piece.function}` on device {device}")
        pairs.append((match, piece))
    return pairs


def _is_view(op: str) -> bool:
    from distir.ops import OPS

    return op in OPS and bool(OPS[op].view)


def _different(first: TracedRun, second: TracedRun, why: str) -> Refused:
    message = f"{second.name} is not a run of the program of {first.name}: {why}"
    if why.startswith("`"):
        message += " is not in it"
    return Refused(message, "give the program that was launched, with the same function")


# Telling.


def _head(beside: Beside) -> str:
    a, b = beside.titles
    first, second = beside.first, beside.second
    times = f"{show_seconds(first.latency)} {a}, {show_seconds(second.latency)} {b}"
    alone = f"; {beside.alone} ops are only {a}: known before the program runs, or unused" if beside.alone else ""
    views = f"; {beside.views} ops are only {b}: views, which are free in simulations" if beside.views else ""
    return f"{a} is {first.name}, {b} is {second.name}: {times}{alone}{views}."


def _sections(beside: Beside, top: int) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    a, b = beside.titles
    devices: list[tuple[str, ...]] = []
    for device in sorted(beside.first.pieces):
        one, other = beside.busy(device)
        devices.append((str(device), show_seconds(one), show_seconds(other), _ratio(one, other)))
    ops = [
        (
            f"{r.op} {r.name}".rstrip(),
            f"@{r.function}" if r.line is None else str(r.line),
            str(r.device),
            str(r.count),
            show_seconds(r.first),
            show_seconds(r.second),
            _ratio(r.first, r.second),
        )
        for r in beside.rows[:top]
    ]
    rest = len(beside.rows) - len(ops)
    title = "ops, the largest difference first" + (f" ({rest} more: --top)" if rest else "")
    return [
        ("devices, busy", ("device", a, b, "ratio"), devices),
        (title, ("op", "line", "device", "runs", a, b, "ratio"), ops),
    ]


def _numbers(columns: Sequence[str]) -> str:
    """The columns of numbers, by their place."""
    return "".join(str(i) for i, name in enumerate(columns) if name not in ("op",))


def _ratio(one: float, other: float) -> str:
    return f"{other / one:.2f}" if one else ""
