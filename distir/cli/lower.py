"""`distir lower`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distir.cli import options, output
from distir.cli.files import shown
from distir.cli.programs import sound_program


def lower(
    file: options.File,
    out: Annotated[str, typer.Option("--output", "-o", metavar="DIR", help="The folder to write.")],
    function: options.FunctionName = None,
    bind: options.Bindings = None,
) -> int:
    """Write the program as torch programs.

    One function per rank and per function; they need nothing but torch. The folder holds program.py, straight-line
    torch with the statement behind each line, run.py, which torchrun starts on one machine or several, with gloo on
    CPUs or nccl on GPUs, and a README.md. It may be moved elsewhere. Ops that torch has no form for are refused, all at
    once.

    A training step, whose results take over its parameters, comes with training.py, which holds state, steps and
    checkpoints, and with train.py, a loop around it.

    For instance:

        distir lower program.dir -o lowered --bind B=64

        torchrun --standalone --nproc-per-node=2 lowered/run.py --repeat 10
    """
    from distir.cli import lowering

    program = sound_program(file)
    entry, bound = lowering.bound_entry(program, file, function, bind)
    with output.progress(f"lowering {shown(file)}"):
        found = lowering.lowered(program, entry, bound, training=True)
        lowering.write(found, Path(out), file)
    devices = ", ".join(map(str, found.ranks))
    count = len(found.ranks)
    output.tell_terminal(f"wrote {out}: {count} rank{'s' if count > 1 else ''} (of device {devices})")
    return 0
