"""`distir export`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from distir.cli import configurations, options, output, simulating
from distir.cli.endings import Refused, judged
from distir.cli.files import put, shown
from distir.cli.programs import fold_on_one_core, settings, sized_program
from distir.diagnostics.spelling import nearest

if TYPE_CHECKING:
    from distir.analysis.program import Program
    from distir.ir import Function


@dataclass(frozen=True, slots=True)
class Request:
    """The options of an export, of which each format takes some."""

    file: str
    program: Program
    entry: Function
    out: str | None
    comms: bool
    hardware: str | None
    nodes: str | None
    bind: list[str] | None


def export(
    kind: Annotated[
        str,
        typer.Argument(metavar="FORMAT", help="torch-csv, chakra, or a framework's configuration.", show_default=False),
    ],
    file: Annotated[str, typer.Argument(metavar="FILE", help="A .dir program; the CSV of a search; a configuration.")],
    comms: Annotated[
        bool,
        typer.Option("--comms", help="torch-csv: sends, receives and what FSDP does for stages too (compute_comms)."),
    ] = False,
    hardware: options.HardwareName = None,
    nodes: options.Nodes = None,
    function: options.FunctionName = None,
    bind: options.Bindings = None,
    out: Annotated[
        str | None, typer.Option("--output", "-o", metavar="OUT", help="Write here: a file, or chakra's folder.")
    ] = None,
    row: Annotated[int, typer.Option(metavar="N", min=1, help="Of a search: which of the rows that fit.")] = 1,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The model, where the file does not say.")] = None,
    gpus: Annotated[int | None, typer.Option(metavar="N", min=1, help="The GPUs, where it does not say.")] = None,
    sequence: Annotated[
        int | None, typer.Option("--seq", metavar="TOKENS", min=1, help="The sequence length, where it does not say.")
    ] = None,
) -> int:
    """Write what another program reads.

    torch-csv: the pipeline schedule of a program that `pp` or `dtp` made, a line for each rank, as
    `_PipelineScheduleRuntime._load_csv` of torch.distributed.pipelining loads it, in the format compute_only, or
    compute_comms with --comms. Replicas and shards run the same line. `pp schedule=FILE.csv` reads such a file.

    chakra: execution traces in the schema of MLCommons Chakra, trace.R.et for each rank R in the folder OUT, with
    communicators in comm_groups.json, as ASTRA-sim runs them; with times as simulated on the hardware.

    torchtitan, torchtitan-python, megatron, megatron-bridge, nemo, deepspeed, fsdp2: the configuration of that
    framework, from a row of a search's CSV or from a configuration of another framework. What is written is read back
    and simulated as that framework runs it: the head says its time and memory, and what is not carried over. Exit code
    1 says that it does not fit.

    For example:

        distir export megatron rows.csv --row 1

        distir export torch-csv pipeline.dir -o schedule.csv

        distir transform pp=4 schedule=schedule.csv model.dir -o pipeline.dir

        distir export chakra pipeline.dir -o traces --hardware dgx-a100
    """
    if kind not in (*FORMATS, *configurations.WRITTEN):
        every = (*FORMATS, *configurations.WRITTEN)
        near = nearest(kind, every)
        known = ", ".join(f"`{name}`" for name in every)
        raise Refused(f"there is no export to `{kind}`", f"did you mean `{near}`?" if near else f"there is {known}")
    given = {"--comms": comms, "--hardware": hardware, "--nodes": nodes, "--bind": bind}
    given |= {"--row": row > 1, "--model": model, "--gpus": gpus, "--seq": sequence, "--function": function}
    for flag, value in given.items():
        if value and flag not in TAKEN.get(kind, ()):
            raise Refused(f"`{flag}`: an export to `{kind}` takes none")
    if kind in configurations.WRITTEN:
        written, fits = configurations.export_job(kind, file, row, gpus, model, sequence, hardware)
        return configurations.put_job(written, fits, out)
    fold_on_one_core()
    program, bind = sized_program(file, bind)
    entry = simulating.entry(program, function, settings(file))
    FORMATS[kind](Request(file, program, entry, out, comms, hardware, nodes, bind))
    return 0


def _torch_csv(asked: Request) -> None:
    from distir.ir.rolling import unrolled
    from distir.transform.pipeline import torch_csv
    from distir.transform.pipeline.recovered import recovered_order

    with output.progress(f"exporting {shown(asked.file)}"), judged(asked.program):
        found = recovered_order(unrolled(asked.program.module), asked.entry.name)
        if any(len(devices) > 1 for devices in found.devices):
            ranks = "; ".join(f"{rank}: {', '.join(map(str, devices))}" for rank, devices in enumerate(found.devices))
            output.tell(f"devices by rank of the pipeline: {ranks}")
        text = torch_csv.write(found.order, torch_csv.FORMATS[asked.comms])
    put(text, asked.out)


def _chakra(asked: Request) -> None:
    from distir.simulate.chakra import ChakraError, write

    if asked.out is None:
        raise Refused("an export to `chakra` is a folder of files", "name it: `-o traces`")
    config = settings(asked.file)
    machine = simulating.machine(asked.hardware, config, asked.nodes)
    bound = simulating.binding(asked.bind or (), config, asked.entry)
    with output.progress(f"exporting {shown(asked.file)}"):
        simulation = simulating.simulation(asked.program, machine, asked.entry, bound)
        try:
            with judged(asked.program):
                written = write(simulation, asked.out)
        except ImportError as error:
            raise Refused(str(error)) from None
        except ChakraError as error:
            raise Refused(str(error), error.help) from None
        except OSError as error:
            raise Refused(f"cannot write `{asked.out}`: {error.strerror or error}") from None
    for pattern, count in written.unsupported.items():
        output.complain("warning", f"ASTRA-sim does not run a {pattern}, of which there are {count} nodes")
    ranks, first = len(written.devices), written.devices[0] if written.devices else 0
    numbered = "" if written.devices == tuple(range(ranks)) else f" (rank 0 is device {first})"
    said = f"{ranks} ranks{numbered}, {written.nodes:,} nodes, {written.groups} communicators"
    output.tell_terminal(f"wrote {asked.out}: {said}; times are those of {machine}")


FORMATS: Final[Mapping[str, Callable[[Request], None]]] = {"torch-csv": _torch_csv, "chakra": _chakra}
"""By name: what writes a program in it."""

TAKEN: Final[Mapping[str, tuple[str, ...]]] = {
    "torch-csv": ("--comms", "--function"),
    "chakra": ("--hardware", "--nodes", "--bind", "--function"),
    **dict.fromkeys(configurations.WRITTEN, ("--row", "--model", "--gpus", "--seq", "--hardware")),
}
"""By format: the options that not all have, and it has."""
