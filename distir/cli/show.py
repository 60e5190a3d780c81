"""`distir show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from distir.cli import options, output, simulating
from distir.cli.endings import Wrong
from distir.cli.files import shown
from distir.cli.programs import settings, sized_program

if TYPE_CHECKING:
    from distir.analysis import Instance
    from distir.analysis.program import Program
    from distir.diagnostics import Diagnostic
    from distir.ir import Constant, Function


def show(
    file: options.File,
    hardware: options.HardwareName = None,
    nodes: options.Nodes = None,
    function: options.FunctionName = None,
    bind: options.Bindings = None,
    facts: Annotated[
        bool, typer.Option("--facts", help="With the facts of statements: phase, stage, microbatch, layer, parameter.")
    ] = False,
) -> int:
    """Annotate a program with its types, known values and times.

    Every inferred type and device is annotated; types of more than 8 tensors, and of more than 8 results, are summed up
    in comments. Facts about a single call are in comments, for the first call of each function: types, known host
    values, and each op's duration, start and devices. The result is again a .dir program. If it cannot be simulated, it
    is shown without times, with the reason on standard error.

    For example:

        distir show program.dir

        distir show program.dir --hardware dgx2-v100 --bind B=64

        distir show program.dir --facts
    """
    from distir.simulate.show import annotated

    program, bind = sized_program(file, bind, "kept")
    if not program.module.functions:
        output.write_program(program.source.text)
        return 0
    config = settings(file)
    machine = simulating.machine(hardware, config, nodes)
    entry = simulating.entry(program, function, config)
    bound = simulating.binding(bind or (), config, entry)
    with output.progress(f"simulating {shown(file)}"):
        simulation, reasons = None, ()
        try:
            simulation = simulating.simulation(program, machine, entry, bound)
            instance = _instance(program, entry, bound) if program.module.mesh else simulation.instance
        except Wrong as wrong:
            reasons = wrong.reports[0].diagnostics
            instance = _instance(program, entry, bound)
        text = annotated(program, instance, simulation, facts)
    output.write_program(text)
    if simulation is None:
        for diagnostic in reasons:
            message = f"shown without times: {diagnostic.message}{_place(program, diagnostic)}"
            output.complain("warning", message, diagnostic.help)
    else:
        output.tell_terminal(f"times are for {machine}")
    return 0


def _place(program: Program, diagnostic: Diagnostic) -> str:
    from distir.diagnostics import Span

    site = diagnostic.site
    return f" ({program.source.path}:{program.source.position(site.start)[0]})" if isinstance(site, Span) else ""


def _instance(program: Program, entry: Function, bound: dict[str, Constant]) -> Instance:
    """The entry function for the arguments that are bound; for its own parameters' types where some are not."""
    from distir.diagnostics import ProgramError
    from distir.simulate import arguments

    try:
        return program.analysis.instance(entry, arguments(entry, bound))
    except ProgramError:
        return program.analysis.instance(entry, tuple(p.type for p in entry.params))
