"""`distir export`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from distir.cli import options, output, simulating
from distir.cli.endings import Refused, judged
from distir.cli.files import replace_file, shown
from distir.cli.programs import settings, sound_program
from distir.diagnostics.spelling import nearest

if TYPE_CHECKING:
    from distir.analysis.program import Program
    from distir.ir import Function


def export(
    kind: Annotated[str, typer.Argument(metavar="torch-csv", help="The format.", show_default=False)],
    file: options.File,
    comms: Annotated[
        bool, typer.Option("--comms", help="Write sends, receives and what FSDP does for stages too (compute_comms).")
    ] = False,
    function: options.FunctionName = None,
    out: Annotated[str | None, typer.Option("--output", "-o", metavar="OUT", help="Write the file here.")] = None,
) -> int:
    """Write what another program reads.

    torch-csv: the pipeline schedule of a program that `pp` or `dtp` made, a line for each rank, as
    `_PipelineScheduleRuntime._load_csv` of torch.distributed.pipelining loads it, in the format compute_only, or
    compute_comms with --comms. Replicas and shards run the same line. `pp schedule=FILE.csv` reads such a file.

    For example:

        distir export torch-csv pipeline.dir -o schedule.csv

        distir transform pp=4 schedule=schedule.csv model.dir -o pipeline.dir
    """
    if kind not in FORMATS:
        near = nearest(kind, FORMATS)
        known = ", ".join(f"`{name}`" for name in FORMATS)
        raise Refused(f"there is no export to `{kind}`", f"did you mean `{near}`?" if near else f"there is {known}")
    program = sound_program(file)
    entry = simulating.entry(program, function, settings(file))
    with output.progress(f"exporting {shown(file)}"), judged(program):
        text = FORMATS[kind](program, entry, comms)
    if out is None:
        output.write(text)
    else:
        replace_file(out, text.encode())
        output.tell_terminal(f"wrote {out}")
    return 0


def _torch_csv(program: Program, entry: Function, comms: bool) -> str:
    from distir.transform.pipeline import torch_csv
    from distir.transform.pipeline.played import played

    found = played(program.module, entry.name)
    if any(len(devices) > 1 for devices in found.devices):
        ranks = "; ".join(f"{rank}: {', '.join(map(str, devices))}" for rank, devices in enumerate(found.devices))
        output.tell(f"devices by rank of the pipeline: {ranks}")
    return torch_csv.write(found.order, torch_csv.FORMATS[comms])


FORMATS: Mapping[str, Callable[[Program, Function, bool], str]] = {"torch-csv": _torch_csv}
"""By name: from a program and its entry function to a text."""
