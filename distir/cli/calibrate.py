"""`distir calibrate`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import options, output
from distir.cli.endings import Refused
from distir.cli.files import refuse_unwritable, replace_file
from distir.files.scratch import scratch_folder

if TYPE_CHECKING:
    from distir.cost.calibrate import Benchmark, Calibration, MeasuredMachine
    from distir.lower import EntryPoint, Lowered
    from distir.validate.fitting import RunsFit
    from distir.validate.runs import MeasuredRun

QUICK_ELEMENTS, QUICK_ELEMENTS_GPU = 1 << 18, 1 << 22
"""The most elements of an operand with `--quick`: a GPU takes equally long for all that are smaller."""


def calibrate(
    out: Annotated[str | None, typer.Option("--output", "-o", metavar="OUT.toml", help="The profile to write.")] = None,
    backend: Annotated[str, typer.Option(metavar="gloo|nccl", help="gloo: CPUs; nccl: a GPU per rank.")] = "gloo",
    devices: Annotated[int, typer.Option(metavar="N", min=1, help="How many ranks run at the same time.")] = 1,
    ranks_per_node: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Take so many ranks for a node; what they share is measured."),
    ] = None,
    dtypes: Annotated[
        str, typer.Option(metavar="A,B", help="Element types; all ops are measured in the first.")
    ] = "Float32",
    rounds: Annotated[int, typer.Option(metavar="N", min=2, help="The number of measurement rounds.")] = 3,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="CPU threads per rank. [default: an equal share of cores]")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only small operands and messages, up to 1 MB (16 MB on GPUs).")
    ] = False,
    shapes: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Where products.csv and attention.csv are written, for a fit by shape."),
    ] = None,
    timeout: Annotated[str, typer.Option(metavar="TIME", help="The time limit.")] = "900s",
    runs: Annotated[
        str | None,
        typer.Option(metavar="RUNS.csv", help="Measured training runs, to fit figures to; measures nothing."),
    ] = None,
    fit: Annotated[
        str, typer.Option(metavar="issue,compute,links", help="--runs: which figures.")
    ] = "issue,compute,links",
    as_json: options.AsJson = False,
) -> int:
    """Measure this machine and write a hardware profile.

    Measures ops in lowered programs, on all ranks at the same time, and messages among 2, 4, 8 … ranks, in rounds. The
    profile records the date, the machine, and the uncertainty of each figure; simulations with it report a band. If
    rounds differ too much, a warning says that the machine is too noisy. Under torchrun, measures the ranks that it
    started, on several nodes also which of a node's ranks share a network card; `--ranks-per-node` takes the ranks of
    one machine for several nodes:

        torchrun --nnodes 2 --nproc-per-node 8 --master-addr HOST --no-python distir calibrate -o cluster.toml

    With --runs, figures are fitted to measured steps instead, of one framework on one kind of GPU: what issuing an op
    takes, and the rates of products and links over those of the profile. Thirty runs are enough; a warning says which
    figure they do not determine. The profile then has those that they do, and `simulate` and `validate` take it.

    For example:

        distir calibrate --runs examples/measured/vtrain_single.csv --fit issue,compute -o ours.toml

        distir calibrate --devices 2 -o here.toml

        distir simulate program.dir --hardware here.toml
    """
    from distir.cli.launch import check_gpus
    from distir.cost.calibrate import computing, samples, tables
    from distir.cost.calibrate import fit as fitted

    if out is not None:
        refuse_unwritable(out)
    if runs is not None:
        return _fit_runs(runs, fit, out, as_json)
    if out is None:
        raise Refused("expected the file to write the profile to", "`-o here.toml`")
    limit = _checked(backend, dtypes, timeout)
    world = int(os.environ.get("WORLD_SIZE", "1")) if _under_torchrun() else devices
    if not _under_torchrun():
        check_gpus(backend, world)
    most = {"most": QUICK_ELEMENTS_GPU if backend == "nccl" else QUICK_ELEMENTS} if quick else {}
    local = int(os.environ.get("LOCAL_WORLD_SIZE", world)) if _under_torchrun() else world
    local = local if ranks_per_node is None else _node(ranks_per_node, world)
    # A GPU starts an op while another runs: its ops are repeated, and timed together.
    ops = computing(tuple(dtypes.split(",")), **most, gpus=backend == "nccl")
    benchmarks = ops, _communicating(world, local, most, gpus=backend == "nccl")
    words = ["--rounds", str(rounds), *([] if threads is None else ["--threads", str(threads)])]
    with scratch_folder("calibration") as folder:
        _write(folder, *benchmarks)
        if _under_torchrun():
            report = _as_rank(folder, backend, limit, words)
            if report is None:
                return 0  # another rank writes the profile
        else:
            with output.progress(f"measuring on {world} rank{'s' * (world != 1)}"):
                report = _launched(folder, world, backend, limit, words)
    measured = samples([*benchmarks[0], *benchmarks[1]], report)
    calibration = fitted(measured)
    machine = _machine(backend, report, rounds, local)
    replace_file(out, _profile(calibration, machine).encode())
    if shapes is not None:
        Path(shapes).mkdir(parents=True, exist_ok=True)
        for name, text in tables(measured).items():
            replace_file(str(Path(shapes) / name), text.encode())
    if as_json:
        output.write_json(_document(calibration, machine))
    else:
        _print(calibration, machine, out)
    if calibration.too_noisy:
        message = f"this machine is too noisy: half of all figures differ by {_percent(calibration.noise)} or more"
        output.complain("warning", message + " between rounds", "stop other processes on this machine, and try again")
    return 0


def _fit_runs(path: str, words: str, out: str | None, as_json: bool) -> int:
    """Fit figures to measured runs. Raises Refused."""
    from dataclasses import asdict

    from distir.cli.validate import read_all
    from distir.diagnostics import suggestion
    from distir.validate.fitting import FIGURES, FitError, fit
    from distir.validate.runs import RunsError

    names = [word.strip() for word in words.split(",")]
    for name in names:
        if name not in FIGURES:
            raise Refused(f"`--fit` expected some of {', '.join(FIGURES)}, found `{name}`", suggestion(name, FIGURES))
    try:
        runs = read_all([path])
        found = fit(runs, list(dict.fromkeys(names)))
    except (RunsError, FitError) as error:
        message, _, hint = str(error).partition("; ")
        raise Refused(message, hint or None) from None
    loose = [each.name for each in found.figures if not each.determined]
    if out is not None and len(loose) < len(found.figures):
        _write_fitted(found, runs, path, out)
    if as_json:
        output.write_json(asdict(found))
    else:
        _print_fitted(found)
    if loose:
        hint = "add runs that depend on it more, or leave it out of `--fit`"
        output.complain("warning", f"these runs do not determine {' and '.join(f'`{name}`' for name in loose)}", hint)
    if out is not None and len(loose) == len(found.figures):
        raise Refused(f"nothing is written to `{out}`: these runs determine no figure")
    return 0


def _write_fitted(found: RunsFit, runs: Sequence[MeasuredRun], path: str, out: str) -> None:
    """The profile of what was fitted, once it has been read back. Raises HardwareError."""
    import datetime

    from distir.cost import parse
    from distir.validate.fitted_profile import as_profile

    text = as_profile(found, runs, path, datetime.datetime.now(tz=datetime.UTC).date().isoformat())
    parse(text, out)
    replace_file(out, text.encode())
    output.tell(f"wrote {out}")


def _print_fitted(found: RunsFit) -> None:
    from rich.text import Text

    made = output.table("figure", "before", "fitted", "95 %", "", right="123")
    for each in found.figures:
        unit = f" {each.unit}" if each.unit else ""
        between = f"{each.low:.3g} to {each.high:.3g}" if each.determined else "not determined"
        made.add_row(each.name, f"{each.before:.3g}{unit}", f"{each.value:.3g}{unit}", between, each.meaning)
    error = f"mean error {100 * found.error_before:.1f} % before, {100 * found.error_after:.1f} % after"
    output.lay_out(made, Text(f"\n{len(found.used)} runs: {error}"))
    if found.left_out:
        why = "out of memory, without a time, or impossible to express"
        output.tell(f"{len(found.left_out)} left out, as {why}: {', '.join(found.left_out)}")


def _checked(backend: str, dtypes: str, timeout: str) -> float:
    """Seconds of the time-out. Raises Refused for what cannot be asked."""
    from distir.cli.launch import check_torch, seconds_of
    from distir.cost.calibrate.benchmarks import MEASURED

    for dtype in dtypes.split(","):
        if dtype not in MEASURED:
            raise Refused(f"`--dtypes`: expected element types among {', '.join(MEASURED)}, found `{dtype}`")
    check_torch(backend)
    return seconds_of(timeout)


def _node(ranks: int, world: int) -> int:
    """The ranks of a node, as asked for. Raises Refused where there would be one node."""
    if ranks >= world:
        have = f"{world} rank{'s' * (world != 1)} would be one node, and nodes share network cards between them"
        raise Refused(f"`--ranks-per-node {ranks}`: {have}", f"start more, as `--devices {2 * ranks}`")
    if world % ranks:
        raise Refused(f"`--ranks-per-node {ranks}`: expected a number that divides {world} ranks")
    return ranks


def _under_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def _communicating(world: int, local: int, most: dict[str, int], gpus: bool) -> list[Benchmark]:
    from distir.cost.calibrate import communicating

    return communicating(world, local, **most, gpus=gpus)


# Running.


def _write(folder: Path, computing: Sequence[Benchmark], communicating: Sequence[Benchmark]) -> None:
    """The benchmarks, lowered, with what runs them."""
    from distir.cost.calibrate import plan, script
    from distir.cost.calibrate.measuring import COMMUNICATING, COMPUTING
    from distir.lower import lower

    # Every rank runs the ops that compute as the one rank that they are lowered for.
    alone = lower([_entry(b) for b in computing], "benchmarks", {"may_idle": True})
    alone.write(folder / COMPUTING)
    if communicating:
        lower([_entry(b) for b in communicating], "benchmarks").write(folder / COMMUNICATING)
    files = {**script(), "runtime.py": _runtime(alone), "plan.json": plan(computing, communicating)}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _runtime(lowered: Lowered) -> str:
    return lowered.files["runtime.py"]


def _entry(benchmark: Benchmark) -> EntryPoint:
    from distir.ir import Module
    from distir.lower import EntryPoint

    function = benchmark.function
    return EntryPoint(benchmark.name, Module([function]), function, tuple(param.type for param in function.params))


def _launched(folder: Path, world: int, backend: str, limit: float, words: Sequence[str]) -> list[dict[str, Any]]:
    from distir.cost.calibrate.measuring import SCRIPT
    from distir.lower import Launch, LaunchError, launch

    try:
        found: Any = launch(Launch(folder, tuple(range(1, world + 1)), backend, limit, words, script=SCRIPT))
    except LaunchError as error:
        raise Refused(str(error), error.help) from None
    return found


def _as_rank(folder: Path, backend: str, limit: float, words: Sequence[str]) -> list[dict[str, Any]] | None:
    """Measure as the rank that torchrun's environment says; None on all ranks but the first."""
    import json
    import subprocess
    import sys

    from distir.cost.calibrate.measuring import SCRIPT
    from distir.files.reading import REPORT, read_bytes

    report = folder / "report.json"
    command = [sys.executable, str(folder / SCRIPT), "--backend", backend, "--timeout", str(limit)]
    done = subprocess.run([*command, "--report", str(report), *words], check=False)
    if done.returncode:
        raise Refused(f"rank {os.environ.get('RANK', '0')} failed")
    return json.loads(read_bytes(report, REPORT)) if report.exists() else None


# Telling.


def _machine(backend: str, report: Sequence[dict[str, Any]], rounds: int, local: int) -> MeasuredMachine:
    import datetime

    from distir.cost.calibrate import MeasuredMachine

    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return MeasuredMachine(backend, len(report), local, today, report[0]["machine"], rounds)


def _profile(calibration: Calibration, machine: MeasuredMachine) -> str:
    """The profile's text, once it has been read back. Raises HardwareError, which would be our fault."""
    from distir.cost import parse
    from distir.cost.calibrate import as_toml

    text = as_toml(calibration, machine)
    parse(text, "calibration")
    return text


def _document(calibration: Calibration, machine: MeasuredMachine) -> dict[str, Any]:
    return {
        "title": machine.title,
        "date": machine.date,
        "noise": calibration.noise,
        "too_noisy": calibration.too_noisy,
        "issue_s": calibration.issue,
        "interference": calibration.interference,
        "begin_s": calibration.begin,
        "cards": None if calibration.cards is None else {"of": calibration.cards.of, "apart": calibration.cards.apart},
        "ops": [
            {
                "op": f.op,
                "dtype": f.dtype,
                "form": f.form,
                "launch_s": f.launch,
                "r2": f.r2,
                "median_error": f.error,
                "worst_error": f.worst,
                "uncertainty": f.uncertainty,
            }
            for f in calibration.ops
        ],
        "messages": [
            {
                "pattern": m.pattern,
                "devices": m.devices,
                "startup_s": m.startup,
                "bandwidth_bytes_per_s": m.bandwidth,
                "r2": m.r2,
                "median_error": m.error,
                "worst_error": m.worst,
                "uncertainty": m.uncertainty,
            }
            for m in calibration.messages
        ],
    }


def _print(calibration: Calibration, machine: MeasuredMachine, out: str) -> None:
    from rich.text import Text

    from distir.cost import show_bytes, show_seconds

    parts: list[Any] = [Text(machine.title, style="bold")]
    listed = output.table("op", "type", "launch", "fit", "R²", "error", "worst", "uncertainty", right="24567")
    for f in calibration.ops:
        errors = (_percent(f.error), _percent(f.worst), f"±{_percent(f.uncertainty)}")
        listed.add_row(f.op, f.dtype, show_seconds(f.launch), f.form, f"{f.r2:.4f}", *errors)
    parts += ["", listed]
    if calibration.messages:
        sent = output.table("pattern", "ranks", "startup", "bandwidth", "R²", "error", "uncertainty", right="123456")
        for m in calibration.messages:
            line = (show_seconds(m.startup), f"{show_bytes(m.bandwidth)}/s", f"{m.r2:.4f}", _percent(m.error))
            sent.add_row(m.pattern, str(m.devices), *line, f"±{_percent(m.uncertainty)}")
        parts += ["", sent]
    if calibration.issue is not None:
        parts += ["", f"the host takes {show_seconds(calibration.issue)} to issue an op"]
    if calibration.interference is not None:
        share = _percent(calibration.interference)
        begin = f"{show_seconds(calibration.begin)} and " if calibration.begin else ""
        parts += ["", f"a collective delays what is computed beside it by {begin}{share} of its time"]
    if (cards := calibration.cards) is not None:
        count = max(cards.of) + 1
        lies = f"within {_percent(cards.apart)} of what that says"
        parts += ["", f"a node has {count} network card{'s' * (count != 1)}: two groups at once are {lies}"]
    output.lay_out(*parts)
    output.tell(f"wrote {out}: rounds differ by {_percent(calibration.noise)} in the median")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"
