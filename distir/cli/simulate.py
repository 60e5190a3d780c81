"""`distir simulate`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from distir.cli import options, output, simulating, spreading
from distir.cli.endings import WRONG, judged
from distir.cli.files import shown, write_with
from distir.cli.programs import fold_on_one_core, settings, sized_program
from distir.diagnostics import Report, terminal

if TYPE_CHECKING:
    from distir.analysis.program import Program
    from distir.simulate import Simulation


def simulate(
    file: options.File,
    hardware: options.HardwareName = None,
    nodes: options.Nodes = None,
    function: options.FunctionName = None,
    bind: options.Bindings = None,
    as_json: options.AsJson = False,
    trace: Annotated[
        str | None, typer.Option(metavar="OUT.json", help="Write a trace for chrome://tracing or ui.perfetto.dev.")
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="OUT.html", help="Write the timeline and the memory as a web page.")
    ] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How many ops and waits to list.")] = 10,
    spread: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT=HOW",
            help="Draw steps where devices, nodes or links are late by chance, as devices=lognormal:0.05.",
        ),
    ] = None,
    draws: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="--spread: how many steps. [default: 10000]")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="--spread: of chance. [default: 0]")] = None,
    sustained: Annotated[
        bool, typer.Option("--sustained", help="Devices as after minutes of work, at the limit of their power.")
    ] = False,
    max_latency: options.MaxLatency = None,
    max_memory: options.MaxMemory = None,
) -> int:
    """Simulate a program on a machine.

    Prints latency, bubble and exposed communication, utilization and peak memory of each device, the costliest ops, the
    critical path and the longest waits; with --spread, quantiles of steps on devices and links that are late by chance
    (lognormal:SIGMA, exponential:MEAN or slow:PROBABILITY:FACTOR), and whose lateness costs what.

    Of a program on a mesh, one device of each stage is simulated where the machine treats all of its devices alike, and
    represents all; else, and with --spread, each device.

    A program that does not fit into the devices' memory is simulated with a
    warning; exceeding a budget, from flags or from [budget] in distir.toml, is an error (exit code 1).

    For example:

        distir simulate program.dir --hardware dgx-a100 --bind B=64

        distir simulate program.dir --html timeline.html --trace trace.json

        distir simulate program.dir --spread devices=lognormal:0.05 --spread links=slow:0.01:2

        distir simulate program.dir --json
    """
    from distir.cli.report import as_document, as_text
    from distir.syntax import print_literal

    fold_on_one_core()
    program, bind = sized_program(file, bind, "kept")
    config = settings(file)
    machine = simulating.machine(hardware, config, nodes)
    if sustained:
        machine = simulating.ChosenHardware(machine.hardware.sustained(), f"{machine.named}, sustained")
    limits = simulating.limits(max_latency, max_memory, config)
    program = simulating.of_devices(program, machine, every=bool(spread))
    entry = simulating.entry(program, function, config)
    bound = simulating.binding(bind or (), config, entry)
    with output.progress(f"simulating {shown(file)}"):
        simulation = simulating.simulation(program, machine, entry, bound)
        _export(program, simulation, trace, html)
        found = simulating.findings(program, simulation, limits)
        late = spreading.drawn(program, simulation, spread, draws, seed)
        document = as_document(program, simulation, top) if as_json else None
        parts = [] if as_json else as_text(program, simulation, machine, top)
        if document is not None and late is not None:
            document["spread"] = spreading.as_document(late, top)
        elif late is not None:
            parts += spreading.as_text(late, top)
    if document is not None:
        output.write_json({**document, "bind": {name: print_literal(value) for name, value in bound.items()}})
    else:
        output.lay_out(*parts)
    for path in filter(None, (trace, html)):
        output.tell_terminal(f"wrote {path}")
    if limits.given and found:
        terminal.write([Report(program.source, found)], sys.stderr)
        return WRONG
    for diagnostic in simulating.notices(program, simulation):
        output.complain("warning", f"{diagnostic.message} ({diagnostic.code.number})")
    return 0


def _export(program: Program, simulation: Simulation, trace: str | None, html: str | None) -> None:
    if trace is not None:
        with judged(program):
            write_with(trace, lambda path: simulation.to_chrome_trace(path, program.place))
    if html is not None:
        from distir.cli.files import replace_file
        from distir.simulate.page import timeline_page

        replace_file(html, timeline_page(simulation, program.source, program.syntax.source_map).encode())
