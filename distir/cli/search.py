"""`distir search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import options, output, simulating
from distir.cli.endings import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from distir.config import Config
    from distir.ir import Constant, Module
    from distir.search import Plan, Row, Search, Space, Table

METHODS = ("grid", "bounded", "anneal")
NUMBERS = "numbers with commas between them, as in 128,256"


def search(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A sequential .dir program, or a model by name, as mlp-1b.")
    ],
    devices: Annotated[int, typer.Option(min=1, help="D·T·P.")] = 16,
    hardware: options.HardwareName = None,
    batch_size: Annotated[
        str | None, typer.Option(metavar="N,N,…", help="Batch sizes to try; they bind the program's batch dimension.")
    ] = None,
    microbatches: Annotated[str | None, typer.Option(metavar="N,N,…", help="K to try. [default: 2,4,…,128]")] = None,
    schedule: Annotated[str, typer.Option(metavar="S,S,…", help="Pipeline schedules to try.")] = "1f1b",
    zero: Annotated[str, typer.Option(metavar="N,N,…", help="ZeRO stages to try, 0 to 3.")] = "0",
    checkpoint: Annotated[str, typer.Option(metavar="off|on|both", help="Whether to recompute activations.")] = "off",
    fix: Annotated[list[str] | None, typer.Option(metavar="D=2", help="Hold D, T, P or K.")] = None,
    all_divisors: Annotated[bool, typer.Option("--all-divisors", help="Not powers of two alone.")] = False,
    method: Annotated[str, typer.Option(metavar="|".join(METHODS), help="How to search.")] = "grid",
    steps: Annotated[int, typer.Option(min=1, help="anneal: steps.")] = 200,
    seed: Annotated[int, typer.Option(help="anneal: where the dice start.")] = 0,
    bind: options.Bindings = None,
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0 for as many as there are cores.")] = 0,
    backend: Annotated[
        str, typer.Option(metavar="B", help="processes, dask://HOST:PORT, ray://HOST:PORT")
    ] = "processes",
    csv: Annotated[str | None, typer.Option(metavar="OUT.csv", help="Write rows here as they are found.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the rows that the CSV file has.")] = False,
    plot: Annotated[
        list[str] | None, typer.Option(metavar="OUT", help="Memory against throughput: .png, .svg, .pdf or .html.")
    ] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How many rows are listed.")] = 10,
    pareto: Annotated[bool, typer.Option("--pareto", help="List the front of memory against throughput.")] = False,
    measure: Annotated[
        int, typer.Option(metavar="N", min=0, help="Run the best N here, one process per device, and time them.")
    ] = 0,
    measure_backend: Annotated[str, typer.Option(metavar="gloo|nccl", help="--measure: CPUs or GPUs.")] = "gloo",
    export: Annotated[
        str | None, typer.Option(metavar="megatron|deepspeed|torchtitan", help="Write a row as a framework's options.")
    ] = None,
    row: Annotated[int, typer.Option(metavar="N", min=1, help="Which of the listed rows --export takes.")] = 1,
    as_json: options.AsJson = False,
) -> int:
    """Try every way to distribute a program: data, tensor and pipeline parallelism, microbatches, batch sizes.

    A configuration that does not fit into the devices' memory is kept, and not ranked; one that cannot be is a row
    with its reason. `bounded` passes over what cannot be the best and finds the grid's best; `anneal` goes on from
    there, to stages of unequal size. With --csv, a search that was interrupted goes on with --resume.

    For instance:

        distir search mlp-1b --batch-size 8192 --hardware dgx2-v100

        distir search model.dir --devices 8 --batch-size 128,256 --csv rows.csv --plot rows.png

        distir search mlp-17b --batch-size 65536 --method bounded --export megatron
    """
    from distir.search import SpaceError, Table
    from distir.search.export import ExportError
    from distir.search.log import LogError
    from distir.search.plot import PlotError, check_suffix

    asked = {"K": microbatches, "batch": batch_size, "zero": zero}
    try:
        for path in plot or ():
            check_suffix(path)
        if export is not None:
            _check_export(export)
        sizes = {name: _integers(text, name) for name, text in asked.items() if text is not None}
        space = _space(devices, sizes, schedule, checkpoint, fix or (), all_divisors)
        chosen = _search(model, hardware, bind or (), space, method, jobs, backend, steps, seed)
        known = _known(chosen, csv, resume)
        table = Table((*known, *_found(chosen, known, csv, resume, model)))
        if measure:
            table = _measured(table, chosen, model, measure, measure_backend, csv)
        if export is not None:
            return _exported(table, export, row, top)
        _pictures(table, chosen, plot or ())
    except (SpaceError, LogError, PlotError, ExportError) as error:
        message, _, hint = str(error).partition("; ")
        raise Refused(message, hint or None) from None
    if as_json:
        output.write_json(_document(table, chosen, pareto))
    else:
        _show(table, chosen, top, pareto)
    return 0


def _space(
    devices: int, sizes: dict[str, tuple[int, ...]], schedule: str, checkpoint: str, fix: Any, all_divisors: bool
) -> Space:
    from distir.diagnostics.nearest import nearest
    from distir.search import MICROBATCHES, Space
    from distir.transform.pipeline import SCHEDULES

    schedules = tuple(part.strip() for part in schedule.split(","))
    for name in schedules:
        if name not in SCHEDULES:
            near = nearest(name, SCHEDULES)
            raise Refused(f"there is no schedule `{name}`", f"did you mean `{near}`?" if near else None)
    recompute = {"off": (False,), "on": (True,), "both": (False, True)}.get(checkpoint)
    if recompute is None:
        raise Refused(f"`--checkpoint` expected off, on or both, found `{checkpoint}`")
    if bad := [stage for stage in sizes["zero"] if stage not in (0, 1, 2, 3)]:
        raise Refused(f"`--zero` expected stages from 0 to 3, found {bad[0]}")
    held = dict(_held(text) for text in fix)
    counts = held.pop("K", sizes.get("K", MICROBATCHES))
    if min(counts) < 1:
        raise Refused(f"`--microbatches` expected 1 or more, found {min(counts)}")
    return Space(devices, sizes.get("batch", ()), counts, schedules, sizes["zero"], recompute, all_divisors, held)


def _held(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, values = text.partition("=")
    if not equals or name not in ("D", "T", "P", "K"):
        raise Refused(f"`--fix` expected D, T, P or K with numbers, as in D=2,4, found `{text}`")
    return name, _integers(values, f"fix {name}=")


def _integers(text: str, name: str) -> tuple[int, ...]:
    flag = {"K": "microbatches", "batch": "batch-size"}.get(name, name)
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise Refused(f"`--{flag}` expected {NUMBERS}, found `{text}`") from None


def _search(
    model: str,
    hardware: str | None,
    bind: Any,
    space: Space,
    method: str,
    jobs: int,
    backend: str,
    steps: int,
    seed: int,
) -> Search:
    from distir.search import Annealing, Search, Subject, Workers

    if method not in METHODS:
        raise Refused(f"`--method` expected one of {', '.join(METHODS)}, found `{method}`")
    module, config, bound = _subject(model, bind, bool(space.batch_sizes))
    machine = simulating.machine(hardware, config)
    subject = Subject(" ".join(model.split()), module, machine.hardware, tuple(sorted(bound.items())))
    return Search(subject, space, method, Workers(jobs, backend), Annealing(steps, seed))  # type: ignore[arg-type]


def _subject(model: str, bind: Any, batch_given: bool) -> tuple[Module, Config, dict[str, Constant]]:
    """The program, its settings, and the sizes of all its dimensions but the batch."""
    from distir.cli.programs import settings, sound_program
    from distir.config import find
    from distir.models import NAMED, named

    if model in NAMED:
        from pathlib import Path

        return named(model), find(Path()), {}
    if not model.endswith(".dir") and model != "-":
        from distir.diagnostics.nearest import nearest

        near = nearest(model, NAMED)
        known = f"expected a .dir program, or one of {', '.join(NAMED)}"
        raise Refused(f"there is no model `{model}`", f"did you mean `{near}`?" if near else known)
    program, config = sound_program(model), settings(model)
    entry = simulating.entry(program, None, config)
    bound = simulating.binding(bind, config, entry)
    module = program.module
    if batch_given:
        from distir.search.evaluate import batch_dimension

        bound.pop(batch_dimension(entry) or "", None)
    if module.entry() is not entry:
        raise Refused(f"`@{entry.name}` is not the last function nor `@main`", "name the function to search `@main`")
    return module, config, bound


def _check_export(name: str) -> None:
    from distir.search.export import EXPORTERS, export
    from distir.search.rows import Row

    if name not in EXPORTERS:
        export(Row("", None, 1, 1, 1, 1, None, None, None, fits=False), name)


def _known(chosen: Search, csv: str | None, resume: bool) -> list[Row]:
    from distir.search import read_rows

    if resume and csv is None:
        raise Refused("`--resume` needs `--csv`, the file with the rows that are there")
    return read_rows(csv, chosen.digest) if resume and csv is not None else []


def _found(chosen: Search, known: list[Row], csv: str | None, resume: bool, model: str) -> list[Row]:
    """The rows that are not known yet, written to the CSV file as they come."""
    from contextlib import nullcontext
    from dataclasses import replace

    from distir.search import Log

    searching = replace(chosen, known=tuple(known))
    total = searching.configurations  # refuses before a file is touched
    found: list[Row] = []
    with Log(csv, resume=resume) if csv is not None else nullcontext() as log, _Bar(model, total, known) as tick:
        rows = searching.rows()
        try:
            for row in rows:
                found.append(row)
                if log is not None:
                    log.add(row)
                tick(row)
        finally:
            rows.close()
    return found


class _Bar:
    """A progress bar with the best so far, for a person at a terminal; else nothing."""

    def __init__(self, model: str, total: int, known: list[Row]) -> None:
        self.model, self.total, self.known = model, total, known
        self.best = max((r for r in known if r.fits), key=lambda r: r.throughput or 0.0, default=None)
        self.progress: Any = None

    def __enter__(self) -> Callable[[Row], None]:
        import sys

        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            console = Console(stderr=True, no_color=not output.in_colour(sys.stderr))
            self.progress = Progress(*columns, console=console, transient=True)
            self.task = self.progress.add_task(self._described(), total=self.total, completed=len(self.known))
            self.progress.start()
        return self._tick

    def __exit__(self, *error: object) -> None:
        if self.progress is not None:
            self.progress.stop()

    def _tick(self, row: Row) -> None:
        if row.fits and (self.best is None or (row.throughput or 0.0) > (self.best.throughput or 0.0)):
            self.best = row
        if self.progress is not None:
            self.progress.update(self.task, advance=1, description=self._described())

    def _described(self) -> str:
        best = f", best {self.best.plan}: {self.best.throughput:,.4g}/s" if self.best else ""
        return f"searching {self.model}{best}"


def _measured(table: Table, chosen: Search, model: str, count: int, backend: str, csv: str | None) -> Table:
    """The table with the times of its best rows as they ran here; the CSV file says them, too."""
    from importlib.util import find_spec

    from distir.cli.files import write_with
    from distir.cli.programs import folder_of
    from distir.cli.tensors import loader
    from distir.search import Table, write_rows
    from distir.search.measuring import Measuring, measured

    if backend not in ("gloo", "nccl"):
        raise Refused(f"`--measure-backend` expected gloo or nccl, found `{backend}`")
    if find_spec("torch") is None:
        raise Refused("`--measure` needs torch, which is not installed", "install `distir[torch]`")
    found: dict[Any, Row] = {}
    for row in measured(chosen.subject, table.ranked[:count], Measuring(backend, load=loader(folder_of(model)))):
        found[row.key] = row
        shown = row.reason or f"{(row.measured_latency_s or 0.0) * 1e3:.4g} ms measured"
        output.tell(f"{row.plan}: {shown}")
    whole = Table(tuple(found.get(row.key, row) for row in table))
    if csv is not None:

        def write(path: str) -> None:
            with open(path, "w", newline="", encoding="utf-8") as file:
                write_rows(file, whole)

        write_with(csv, write)
    return whole


def _exported(table: Table, framework: str, row: int, top: int) -> int:
    from distir.search.export import export

    ranked = table.ranked
    if len(ranked) < row:
        raise Refused(f"there is no row {row}: {len(ranked)} configurations fit in memory")
    output.write(export(ranked[row - 1], framework))
    return 0


def _pictures(table: Table, chosen: Search, paths: Any) -> None:
    import os

    from distir.cli.files import write_with
    from distir.search.plot import plot

    machine = chosen.subject.hardware
    title = f"{chosen.subject.model} on {machine.name}, {chosen.space.devices} devices"
    for path in paths:
        suffix = os.path.splitext(path)[1]
        write_with(path, lambda name, suffix=suffix: plot(table, name, title, machine.capacity(0), suffix))
        output.tell_terminal(f"wrote {path}")


def _document(table: Table, chosen: Search, front: bool) -> dict[str, Any]:
    from distir.search import COLUMNS

    def row(one: Row) -> dict[str, Any]:
        return {name: getattr(one, name) for name in COLUMNS} | {"steps": one.plan.steps()}

    rows = table.pareto() if front else table.ranked
    best = table.best
    return {
        "model": chosen.subject.model,
        "hardware": chosen.subject.hardware.name,
        "devices": chosen.space.devices,
        "configurations": len(table),
        "best": None if best is None else row(best),
        "rows": [row(one) for one in rows],
        "left_out": [row(one) for one in table if not one.fits],
    }


def _show(table: Table, chosen: Search, top: int, front: bool) -> None:
    from rich.text import Text

    from distir.cost import show_bytes, show_seconds

    rows = table.pareto() if front else table.ranked
    timed = any(row.measured_latency_s is not None for row in rows)
    columns = ["batch", "D/T/P/K", "latency", "throughput", "memory", *(["measured"] if timed else [])]
    made = output.table(*columns, right="02345")
    for row in rows[:top]:
        memory, latency = show_bytes(row.peak_memory_bytes or 0), show_seconds(row.latency_s or 0.0)
        batch = "" if row.batch_size is None else str(row.batch_size)
        cells = [batch, str(row.plan), latency, f"{row.throughput or 0.0:,.4g}/s", memory]
        made.add_row(*cells, *([show_seconds(row.measured_latency_s)] if row.measured_latency_s is not None else []))
    failed, over = len(table.failed), sum(not row.fits for row in table) - len(table.failed)
    machine = chosen.subject.hardware.name
    text = f"{chosen.subject.model} on {machine}, {chosen.space.devices} devices: {len(table)} configurations"
    text += f", {over} need more memory than there is" if over else ""
    text += f", {failed} cannot be" if failed else ""
    parts: list[Any] = [Text(text + "\n"), made if rows else Text("none fits")]
    reasons: dict[str, list[Plan]] = {}
    for row in table.failed:
        reasons.setdefault(row.reason, []).append(row.plan)
    parts += [Text(f"\n{len(plans)} of them, as {plans[0]}: {reason}") for reason, plans in list(reasons.items())[:3]]
    output.lay_out(*parts)
