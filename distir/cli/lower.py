"""`distir lower`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distir.cli import options, output
from distir.cli.files import shown
from distir.cli.programs import sized_program


def lower(
    file: options.File,
    out: Annotated[str, typer.Option("--output", "-o", metavar="DIR", help="The folder to write.")],
    function: options.FunctionName = None,
    bind: options.Bindings = None,
) -> int:
    """Lower a program to torch programs.

    Writes one function per rank and per function; they depend only on torch. The folder has program.py, straight-line
    torch code with the source statement on each line; run.py, which torchrun starts on one or more machines, with gloo
    on CPUs or nccl on GPUs; and a README.md. It can be moved. Ops without a torch form are refused, all at once.

    For a training step, whose parameters are donated to its results, the folder also has training.py, with state, steps
    and checkpoints, and train.py, a training loop.

    For example:

        distir lower program.dir -o lowered --bind B=64

        torchrun --standalone --nproc-per-node=2 lowered/run.py --repeat 10
    """
    from distir.cli import lowering

    program, bind = sized_program(file, bind)
    entry, bound = lowering.bound_entry(program, file, function, bind)
    with output.progress(f"lowering {shown(file)}"):
        found = lowering.lowered(program, entry, bound, training=True)
        lowering.write(found, Path(out), file)
    devices = ", ".join(map(str, found.ranks))
    count = len(found.ranks)
    output.tell_terminal(f"wrote {out}: {count} rank{'s' if count > 1 else ''} (of device {devices})")
    return 0
