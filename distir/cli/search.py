"""`distir search`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import named, options, output, searching
from distir.cli.endings import WRONG, Refused
from distir.cli.forms import Label
from distir.cli.search_effort import METHODS, Effort, usual_batch
from distir.cli.search_framework import check_framework, check_scaling, run_by
from distir.cli.search_outputs import (
    check_figures,
    check_jobs,
    check_outputs,
    front,
    price_of,
    time_out,
    token_count,
)
from distir.cli.search_space import Tries, integers, refuse_unused, takes_tries
from distir.cli.search_subject import TRAINING, SearchedModel, SearchedOn, in_fp8, is_forward, subject_on
from distir.files.reading import why_not

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distir.search import Log, Row, Search, Table
    from distir.search.measuring import Measuring
    from distir.search.proving import ProofOfRow


@named.takes_model_options
@takes_tries
def search(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A sequential .dir program, or a model name, such as llama3-8b.")
    ],
    devices: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="The number of devices, D·T·P. [default: all of the hardware]"),
        Label("Devices"),
    ] = None,
    hardware: options.HardwareName = None,
    nodes: options.Nodes = None,
    batch_size: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="Batch sizes to try, for the program's batch dimension."),
        Label("Batch sizes"),
    ] = None,
    global_batch: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,…",
            help="The same of training: a model by its name becomes a training step, and all that it and the hardware "
            "admit is tried, but for what other options say.",
        ),
        Label("Batch sizes of training"),
    ] = None,
    *,
    tries: Tries,
    fp8: Annotated[
        str | None,
        typer.Option(metavar="tensor|block|delayed", help="Products in 8-bit floats, where the hardware has them."),
        Label("8-bit products"),
    ] = None,
    sustained: Annotated[
        bool | None,
        typer.Option(
            "--sustained/--no-sustained",
            help="Devices as after minutes of work, at the limit of their power. [default: of training]",
        ),
        Label("Sustained work"),
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="How much of a device's memory to use at most, such as 70GB."),
        Label("Memory to use"),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(metavar="|".join(METHODS), help="The search method. [default: grid; of training anneal]"),
        Label("Method"),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Simulate the N best by estimate at most. [default: all; of training 6 to 64]"
        ),
        Label("Configurations"),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="anneal: the number of steps. [default: 200; behind best-first fewer]"),
        Label("Steps of anneal"),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="anneal: the random seed."), Label("Seed of anneal")] = 0,
    bind: Annotated[options.Bindings, Label("Sizes of dimensions")] = None,
    jobs: Annotated[
        int, typer.Option(metavar="N", min=0, help="The number of processes; 0: one per core."), Label("Processes")
    ] = 0,
    backend: Annotated[
        str, typer.Option(metavar="B", help="processes, dask://HOST:PORT or ray://HOST:PORT."), Label("Where it runs")
    ] = "processes",
    csv: Annotated[
        str | None, typer.Option(metavar="OUT.csv", help="Write each row here as soon as it is found.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the rows in the CSV file.")] = False,
    plot: Annotated[
        list[str] | None, typer.Option(metavar="OUT", help="Plot throughput over memory: .png, .svg, .pdf or .html.")
    ] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How many rows to list.")] = 10,
    pareto: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="List the Pareto front of two of time, memory, throughput, cost, devices and batch."
        ),
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="N", help="Say how many days training on so many takes, such as 15T.")
    ] = None,
    price: Annotated[
        str | None, typer.Option(metavar="P", help="Of a device, such as 2.5USD/h. [default: the hardware's]")
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(metavar="WATT", min=0, help="Of a device, with its share of the node: says kWh."),
    ] = None,
    explain: Annotated[
        bool | None,
        typer.Option("--explain/--no-explain", help="Say what binds each row and what would change the best."),
    ] = None,
    measure: Annotated[
        int, typer.Option(metavar="N", min=0, help="Run the best N here, one process per device, and measure them.")
    ] = 0,
    measure_backend: Annotated[str, typer.Option(metavar="gloo|nccl", help="--measure: CPUs or GPUs.")] = "gloo",
    measure_timeout: Annotated[str, typer.Option(metavar="TIME", help="--measure: how long each may take.")] = "10min",
    prove: Annotated[
        bool, typer.Option("--prove", help="Prove of the rows that are listed that they compute what the model does.")
    ] = False,
    prove_timeout: Annotated[
        str, typer.Option(metavar="TIME", help="--prove: how long the proof of a row may take.")
    ] = "10min",
    framework: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Search what this training framework runs, with all that it costs there: torchtitan, …"
        ),
        Label("Framework"),
    ] = None,
    export: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="Write a row as the configuration of a framework: see `distir export`."),
    ] = None,
    row: Annotated[int, typer.Option(metavar="N", min=1, help="--export: which of the listed rows.")] = 1,
    apply: Annotated[
        str | None,
        typer.Option(metavar="STEPS", help="Steps to apply first, such as 'grad optimizer=adamw precision=mixed'."),
        Label("Steps to apply first"),
    ] = None,
    of: named.ModelOptions,
    as_json: options.AsJson = False,
    progress: Annotated[
        str, typer.Option(metavar="text|json", help="json: one line per configuration on standard error.")
    ] = "text",
) -> int:
    """Search for the best strategy to distribute a program.

    Tries data (D), tensor (T) and pipeline (P) parallelism, experts over devices (EP, a part of D, for models that have
    experts), microbatches (K) and batch sizes. Configurations that do not fit into the devices' memory are recorded but
    not ranked; infeasible ones are rows with a reason; exit code 1 says that there are no others. `bounded` skips
    configurations that lower bounds exclude and finds the grid's best; `anneal` starts from the best and changes one
    choice at a time, the layers of a stage among them. With --csv, --resume continues an interrupted search.

    `distir model --list` has the names of models, whose sizes can be overridden. They are forward passes, but for the
    paper's MLPs. Without --batch-size and --apply one becomes a training step (grad optimizer=adamw precision=mixed),
    of which all that it and the hardware admit is searched, best first; --global-batch says its batch.

    For example:

        distir search mlp-1b --batch-size 8192 --hardware dgx2-v100

        distir search llama3-8b --seq 4096 --batch-size 64 --hardware dgx-h100 --apply 'grad precision=mixed'

        distir search mixtral-8x7b --hardware dgx-h100 --nodes 2 --global-batch 256 --ep 1,4,8 --tp 1,2

        distir search model.dir --devices 8 --batch-size 128,256 --csv rows.csv --plot rows.png

        distir search mlp-17b --batch-size 65536 --method bounded --export megatron
    """
    from dataclasses import replace

    from distir.search import SpaceError, Table
    from distir.search.log import LogError
    from distir.search.plot import PlotError

    stated_steps = apply
    trained = global_batch is not None or (batch_size is None and apply is None and is_forward(model))
    if trained:
        if batch_size is not None:
            raise Refused("`--global-batch` excludes `--batch-size`", "both are the batch of a step")
        apply = TRAINING if apply is None and is_forward(model) else apply
    stated = {"batch-size": batch_size, "global-batch": global_batch}
    batches = next((integers(text, flag) for flag, text in stated.items() if text is not None), ())
    apply = apply if fp8 is None else f"{in_fp8(fp8, SearchedOn(hardware, nodes, None, False))} {apply or ''}".strip()
    chosen_model = SearchedModel(model, of, apply)
    try:
        check_outputs(plot or (), export, row, progress)
        check_jobs(jobs, backend)
        if framework is not None:
            given = {"--batch-size": batch_size, "--apply": stated_steps, "--no-sustained": sustained is False}
            given |= {"--explain": explain, "--prove": prove, "--measure": measure}
            check_framework(framework, model, given | {"--method bounded": method == "bounded"})
            if fp8 is not None:
                check_scaling(framework, fp8)
        wanted = searching.Wanted(top, front(pareto), token_count(tokens), price_of(price), power)
        hot = trained if sustained is None else sustained
        subject = subject_on(
            chosen_model, SearchedOn(hardware, nodes, max_memory, hot), bind or (), bool(batches) or trained
        )
        count = subject.hardware.devices if devices is None else devices
        check_figures(wanted, subject)
        if trained and not batches:
            batch, why = usual_batch(subject, count)
            batches = (batch,)
            output.tell(f"the batch of a step is not stated: {batch}, {why}; `--global-batch N` says another")
        space = tries.space(subject, count, batches, trained)
        by, lacks = None, list[str]()
        if framework is not None:
            by, space, lacks = run_by(framework, tries, space, subject, max_memory is not None)
        explained = trained and by is None if explain is None else explain
        how_long = Effort(method, budget, steps, seed, trained)
        chosen = replace(
            how_long.search(subject, space, jobs, backend), framework=by, lacking=tuple(lacks), explain=explained
        )
        chosen.check()
        refuse_unused(tries, space, subject)
        how_measured = _measuring(measure, measure_backend, measure_timeout, model, count)
        limit = time_out(prove_timeout, "--prove-timeout") if prove else 0.0
        with _log(csv, resume) as log:
            there = log.rows(chosen.digest) if log is not None else []
            _tell_lacking(chosen)
            known = chosen.asked_for(there)
            chosen = replace(chosen, known=tuple(known))
            table = Table((*known, *_found(chosen, log, progress)))
            if how_measured is not None:
                table = _measured(table, chosen, measure, how_measured)
                if csv is not None:
                    _rewritten(csv, [*(row for row in there if row not in known), *table])
        _pictures(table, chosen, plot or ())
        if export is not None:
            return _exported(table, export, row)
    except (SpaceError, LogError, PlotError) as error:
        message, _, hint = str(error).partition("; ")
        raise Refused(message, hint or None) from None
    wanted = wanted._replace(explain=explained, training=trained)
    if prove:
        wanted = wanted._replace(proofs=_proofs(wanted.rows(table)[:top], chosen, limit))
    if as_json:
        output.write_json(searching.document(table, chosen, wanted))
    else:
        searching.show(table, chosen, wanted)
    return WRONG if table.best is None else 0


@contextmanager
def _log(csv: str | None, resume: bool) -> Generator[Log | None]:
    """The CSV file, locked during the search. Raises Refused."""
    from distir.files.locking import InUseError
    from distir.search import Log

    if csv is None:
        if resume:
            raise Refused("`--resume` needs `--csv`, the file with the earlier rows")
        yield None
        return
    try:
        log = Log(csv, resume=resume)
    except InUseError as error:
        by = f" (process {error.process})" if error.process is not None else ""
        raise Refused(f"another search{by} writes `{csv}`", "wait until it ends, or choose another file") from None
    except OSError as error:
        raise Refused(f"cannot write `{csv}`: {why_not(error)}") from None
    with log:
        yield log


def _tell_lacking(chosen: Search) -> None:
    """Warn of element types that the machine lacks."""
    from distir.diagnostics import ProgramError
    from distir.diagnostics.codes.simulation import LACKING_PRECISION
    from distir.search.subject import batch_dimension
    from distir.simulate import BindError, simulate

    subject, sizes = chosen.subject, chosen.space.batch_sizes
    batch = batch_dimension(subject.entry)
    bind = dict(subject.bind) | ({batch: sizes[0]} if batch and sizes else {})
    try:
        notices = simulate(subject.module, subject.hardware, subject.entry.name, bind).lacking()
    except (ProgramError, BindError):
        return  # reported with the rows
    for notice in notices:
        output.complain("warning", f"{notice.message} ({LACKING_PRECISION.number})")


def _found(chosen: Search, log: Log | None, progress: str) -> list[Row]:
    """The rows that are not known yet, written to the CSV file as they come."""
    from contextlib import closing

    known = [*chosen.known]
    csv = None if log is None else log.path
    total = chosen.configurations if chosen.budget is None else min(chosen.budget, chosen.configurations)
    total += chosen.annealing.steps if chosen.budget is not None and chosen.method == "anneal" else 0
    found: list[Row] = []
    try:
        with (
            searching.PROGRESS[progress](chosen.subject.model, total, known) as tick,
            closing(chosen.rows()) as rows,
        ):
            for row in rows:
                if log is not None:
                    log.add(row)
                found.append(row)
                tick(row)
    except KeyboardInterrupt:
        output.tell(searching.interrupted([*known, *found], total, csv))
        raise
    except OSError as error:
        if csv is None or error.filename != csv:
            raise
        kept = f"its {len(known) + len(found)} rows are saved; free some space and continue with --resume"
        raise Refused(f"cannot write `{csv}`: {why_not(error)}", kept if found else None) from None
    return found


def _measuring(count: int, backend: str, timeout: str, model: str, devices: int) -> Measuring | None:
    """How `count` rows are run here; None if none are to be. Raises Refused where none can be."""
    from distir.cli import memory
    from distir.cli.launch import check_gpus, check_torch
    from distir.cli.programs import folder_of
    from distir.cli.tensors import loader
    from distir.search.measuring import Measuring

    if not count:
        if backend != "gloo":
            raise Refused(f"`--measure-backend {backend}` is for `--measure N`, the number of rows to run")
        return None
    check_torch(backend, "--measure-backend")
    check_gpus(backend, devices, "--measure-backend")
    limit = time_out(timeout, "--measure-timeout")
    most = memory.available_bytes() if backend == "gloo" else None  # all ranks share the memory of this machine
    return Measuring(backend, timeout_s=limit, load=loader(folder_of(model)), most_bytes=most)


def _measured(table: Table, chosen: Search, count: int, how: Measuring) -> Table:
    """The table with the times of its best rows as they ran here."""
    from distir.cost import show_bytes, show_seconds
    from distir.search import Table
    from distir.search.measuring import measured

    found: dict[Any, Row] = {}
    for row in measured(chosen.subject, table.ranked[:count], how):
        found[row.key] = row
        latency, nbytes = row.measured_latency_s or 0.0, row.measured_memory_bytes or 0
        shown = row.reason or f"{show_seconds(latency)} and {show_bytes(nbytes)} measured"
        output.tell(f"{row.plan}: {shown}")
    return Table(tuple(found.get(row.key, row) for row in table))


def _proofs(rows: Sequence[Row], chosen: Search, limit: float) -> tuple[ProofOfRow, ...]:
    """Whether the programs of rows compute what the model does, in `limit` seconds each."""
    from distir.search.proving import proofs

    with output.progress("proving the best"):
        return tuple(proofs(chosen.subject, rows, limit))


def _rewritten(csv: str, rows: list[Row]) -> None:
    """Put rows in the place of what the CSV file has, at once or not at all."""
    from distir.cli.files import write_with
    from distir.search import write_rows

    def write(path: str) -> None:
        with open(path, "w", newline="", encoding="utf-8") as file:
            write_rows(file, rows)

    write_with(csv, write)


def _exported(table: Table, framework: str, row: int) -> int:
    from distir.cli.configurations import export_row, put_job

    ranked = table.ranked
    if not ranked:
        output.complain("error", "there is no row to export: no configuration fits into memory")
        return WRONG
    if len(ranked) < row:
        raise Refused(f"there is no row {row}: {len(ranked)} configurations fit in memory")
    return put_job(*export_row(ranked[row - 1], framework), None)


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
