"""`distir compare`: a simulated program beside what ran. Times are in seconds."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import options, output, simulating
from distir.cli.endings import Refused, judged
from distir.cli.files import replace_file, shown
from distir.cli.programs import settings, sized_program

if TYPE_CHECKING:
    from distir.cli.simulating import ChosenHardware
    from distir.simulate import Simulation
    from distir.traces.alignment import KindRow
    from distir.traces.comparison import TraceComparison
    from distir.traces.learning import Learned


def compare(
    file: options.File,
    measured: Annotated[
        list[str] | None,
        typer.Option(metavar="TRACES", help="A folder of traces, one for each rank, or a trace; repeatable."),
    ] = None,
    hardware: options.HardwareName = None,
    nodes: options.Nodes = None,
    function: options.FunctionName = None,
    bind: options.Bindings = None,
    rank: Annotated[
        list[str] | None,
        typer.Option(metavar="RANK=DEVICE", help="The device that a rank is. [default: in order]"),
    ] = None,
    profile_out: Annotated[
        str | None,
        typer.Option(metavar="OUT.toml", help="Write a profile with what was measured here.", show_default=False),
    ] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How many rows of each table to list.")] = 20,
    as_json: options.AsJson = False,
) -> int:
    """Compare a simulated program with profiles of a run.

    Traces are what torch.profiler writes (export_chrome_trace, tensorboard_trace_handler), of any training program:
    DDP, FSDP, Megatron-LM, torchtitan. Their ops are lined up with the statements of each device, by what torch calls
    them, by shapes, and in order; what only one side has is listed, too. Lists how far kinds of ops, statements and
    devices are apart, and each one's share of all differences. Profile with record_shapes=True.

    --profile-out writes a profile that extends the hardware's and states what was measured: what ops take, what
    collectives take by size, and what issuing an op to a GPU takes.

    For example:

        distir compare plan.dir --measured traces/ --hardware dgx-h100@eager

        distir compare plan.dir --measured traces/ --hardware dgx-h100@eager --profile-out ours.toml

        distir compare plan.dir --measured rank0.json.gz --json
    """
    from distir.cli.tracing import read_traces
    from distir.traces.comparison import compare as compared
    from distir.traces.events import TraceError

    if not measured:
        raise Refused("expected the traces of a run", "name their folder, as `--measured traces/`")
    if profile_out is not None and not profile_out.endswith(".toml"):
        raise Refused(f"`--profile-out {profile_out}`: expected a file that ends in `.toml`")
    config = settings(file)
    machine = simulating.machine(hardware, config, nodes)
    program, bind = sized_program(file, bind)
    entry = simulating.entry(program, function, config)
    bound = simulating.binding(bind or (), config, entry)
    chosen = _devices(rank or ())
    traces = read_traces(measured)
    with output.progress(f"simulating {shown(file)}"), judged(program):
        simulation = simulating.simulation(program, machine, entry, bound)
        try:
            found = compared(simulation, traces, chosen)
        except TraceError as error:
            raise Refused(str(error), error.help) from None
    learned: Learned | None = None
    again: Simulation | None = None
    if profile_out is not None:
        learned = found.learned()
        _write(found, learned, machine, hardware or config.hardware, profile_out)
        framework = re.search(r"@\w+$", hardware or config.hardware)
        under = framework[0] if framework and learned.issue is None else ""
        again = simulating.simulation(program, _with(profile_out + under, nodes), entry, bound)
    if as_json:
        output.write_json(_document(found, learned, again))
    else:
        _print(shown(file), found, machine, top, learned, again, profile_out)
    for note in found.notes if not as_json else ():
        output.complain("warning", note)
    return 0


def _devices(given: Sequence[str]) -> dict[int, int]:
    found: dict[int, int] = {}
    for text in given:
        match = re.fullmatch(r"(\d+)=(\d+)", text.strip())
        if match is None:
            raise Refused(f"`--rank {text}`: expected a rank and a device", "write for example `--rank 0=1`")
        found[int(match[1])] = int(match[2])
    return found


# The profile.


def _write(found: TraceComparison, learned: Learned, machine: ChosenHardware, named: str, out: str) -> None:
    """Write the profile, once it has been read back. Raises Refused where nothing was learned."""
    import datetime

    if learned.empty:
        raise Refused("nothing of these traces says what the profile should", "no op and no collective is lined up")
    base = re.sub(r"@\w+$", "", named)
    if base.endswith(".toml") or "/" in base:
        base = os.path.relpath(base, os.path.dirname(os.path.abspath(out)))
        base = base if "/" in base else f"./{base}"
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    steps = sum(len(own) for own in found.steps.values())
    source = f"torch.profiler's traces of {_count(len(found.traces), 'rank')}, {_count(steps, 'step')}, on {today}"
    text = learned.as_toml(f"{machine.hardware.title}, as measured", base, source)
    replace_file(out, text.encode())


def _with(path: str, nodes: str | None) -> ChosenHardware:
    """The machine by the profile that was written; under a framework, unless it states itself what issuing takes."""
    from distir.cli.simulating import ChosenHardware as Chosen
    from distir.cost import load

    named = path if "/" in path else f"./{path}"
    return Chosen(load(named, simulating.number_of_nodes(nodes)), "written here")


# Output.


def _document(found: TraceComparison, learned: Learned | None, again: Simulation | None) -> dict[str, Any]:
    return {
        "step": {"simulated_s": found.simulated, "measured_s": found.measured},
        "matched": dict(zip(("simulated", "measured"), found.matched, strict=True)),
        "kinds": [
            {
                "kind": row.kind,
                "side": row.side,
                "n_simulated": row.simulated_n,
                "n_measured": row.measured_n,
                "simulated_s": row.simulated,
                "measured_s": row.measured,
                "ratio": row.ratio,
                "difference_s": row.difference,
                "share": found.share(row),
                "steps": row.steps,
            }
            for row in found.kinds
        ],
        "statements": [
            {
                "op": row.op,
                "result": row.label,
                "function": row.function,
                "torch": row.torch,
                "modules": list(row.modules),
                "runs": row.runs,
                "simulated_s": row.simulated,
                "measured_s": row.measured,
                "ratio": row.ratio,
            }
            for row in found.statements
        ],
        "ranks": [
            {
                "rank": rank,
                "device": device,
                "steps": len(found.steps[rank]),
                "measured_s": _step(found, rank),
                "busy_s": {"simulated": found.programs[device].busy, "measured": _busy(found, rank)},
            }
            for rank, device in found.devices.items()
        ],
        "profile": None if learned is None else _learned(learned),
        "with_profile_s": None if again is None else again.latency_s,
        "advice": found.advice,
        "notes": found.notes,
    }


def _learned(learned: Learned) -> dict[str, Any]:
    return {
        "kind": learned.kind,
        "issue_s": learned.issue,
        "ops": [
            {"op": f.op, "dtype": f.dtype, "launch_s": f.launch, "measured": learned.counts[f.op], "sizes": f.points}
            | {"median_error": f.error}
            for f in learned.ops
        ],
        "messages": [
            {"level": level, "pattern": m.pattern, "devices": m.devices, "times": [list(point) for point in m.times]}
            | {"measured": learned.counts[m.pattern]}
            for level, own in learned.messages.items()
            for m in own
        ],
    }


def _step(found: TraceComparison, rank: int) -> float:
    own = found.steps[rank]
    return sum(step.seconds for step in own) / len(own)


def _busy(found: TraceComparison, rank: int) -> float:
    own = found.steps[rank]
    return sum(step.busy for step in own) / len(own)


def _print(
    name: str,
    found: TraceComparison,
    machine: ChosenHardware,
    top: int,
    learned: Learned | None,
    again: Simulation | None,
    out: str | None,
) -> None:
    from rich.text import Text

    from distir.cost import show_seconds

    steps = sum(len(own) for own in found.steps.values())
    times = f"{show_seconds(found.simulated)} simulated, {show_seconds(found.measured)} measured"
    one, other = (f"{100 * share:.0f}%" for share in found.matched)
    parts: list[Any] = [
        Text(
            f"{name} on {machine}, beside {_count(steps, 'step')} of {_count(len(found.traces), 'rank')}", style="bold"
        ),
        Text(f"a step takes {times}; of the time of ops, {one} of the simulated and {other} of the measured line up"),
    ]
    parts += ["", _title("what differs, per step and device", len(found.kinds) - top), _kinds(found, top)]
    parts += ["", _title("ranks", len(found.devices) - top), _ranks(found, top)]
    title = "statements, one run of each, the largest difference of all first"
    parts += ["", _title(title, len(found.statements) - top), _statements(found, top)]
    if found.advice:
        parts += ["", _title("what to check", 0), *map(Text, found.advice)]
    if learned is not None and again is not None:
        parts += ["", *_learned_parts(learned, again, found, out)]
    output.lay_out(*parts)


def _kinds(found: TraceComparison, top: int) -> Any:
    """The first kinds of ops, simulated and measured, as a table."""
    from rich.text import Text

    made = output.table(
        "op", "where", "n", "n measured", "simulated", "measured", "ratio", "difference", "share", right="2345678"
    )
    for row in found.kinds[:top]:
        where = {"both": "", "simulated": "only simulated", "measured": "only measured"}[row.side]
        counts = ("", "") if not row.is_op else (f"{row.simulated_n:g}", f"{row.measured_n:g}")
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        share = f"{100 * found.share(row):.1f}%"
        made.add_row(Text(row.kind), where, *counts, *_both(row), ratio, _signed(row.difference), share)
    return made


def _ranks(found: TraceComparison, top: int) -> Any:
    """The first ranks, with their devices, as a table."""
    from distir.cost import show_seconds

    made = output.table("rank", "device", "steps", "step", "busy simulated", "busy measured", right="012345")
    for rank, device in list(found.devices.items())[:top]:
        busy = show_seconds(found.programs[device].busy), show_seconds(_busy(found, rank))
        made.add_row(str(rank), str(device), str(len(found.steps[rank])), show_seconds(_step(found, rank)), *busy)
    return made


def _statements(found: TraceComparison, top: int) -> Any:
    """The first statements, one run of each, as a table."""
    from rich.text import Text

    from distir.cost import show_seconds

    made = output.table("statement", "in", "runs as", "module", "n", "simulated", "measured", "ratio", right="4567")
    for row in found.statements[:top]:
        label = row.op if row.label == row.op else f"{row.op} {row.label}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        more = f" and {len(row.modules) - 1} more" if len(row.modules) > 1 else ""
        where = Text(f"@{row.function}"), Text(row.torch), Text(f"{row.modules[0]}{more}" if row.modules else "")
        times = show_seconds(row.simulated), show_seconds(row.measured)
        made.add_row(Text(label), *where, str(row.runs), *times, ratio)
    return made


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _title(text: str, more: int) -> Any:
    from rich.text import Text

    return Text(text + (f" ({more} more: --top)" if more > 0 else ""), style="bold underline")


def _both(row: KindRow) -> tuple[str, str]:
    from distir.cost import show_seconds

    missing = {"simulated": ("", "-"), "measured": ("-", "")}
    shown_as = (_signed(row.simulated).lstrip("+"), _signed(row.measured).lstrip("+"))
    if row.side == "simulated":
        return show_seconds(row.simulated), missing["simulated"][1]
    return shown_as if row.side == "both" else (missing["measured"][0], show_seconds(row.measured))


def _signed(seconds: float) -> str:
    from distir.cost import show_seconds

    return f"{'-' if seconds < 0 else '+'}{show_seconds(abs(seconds))}"


def _learned_parts(learned: Learned, again: Simulation, found: TraceComparison, out: str | None) -> list[Any]:
    from rich.text import Text

    from distir.cost import show_seconds

    rows = output.table("figure", "measured", "sizes", "says", "error", right="12")
    for f in learned.ops:
        says = f"{show_seconds(f.launch)} and {'by size' if f.form == 'table' else 'a rate'}"
        rows.add_row(f"{f.op} {f.dtype}", str(learned.counts[f.op]), str(f.points), says, f"{100 * f.error:.0f}%")
    for level, own in learned.messages.items():
        for m in own:
            says = f"{show_seconds(m.times[0][1])} to {show_seconds(m.times[-1][1])}"
            rows.add_row(
                f"{m.pattern} of {m.devices}, {level}",
                str(learned.counts[m.pattern]),
                str(learned.sizes[m.pattern]),
                says,
            )
    if learned.issue is not None:
        rows.add_row("issue", str(learned.issued), "", show_seconds(learned.issue))
    times = f"{show_seconds(again.latency_s)} simulated, {show_seconds(found.measured)} measured"
    wrote = f"wrote {out}: with it, a step takes {times}"
    return [_title("learned", 0), rows, "", Text(wrote)]
