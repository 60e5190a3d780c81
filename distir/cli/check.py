"""`distir check`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from distir.cli import options, output, simulating
from distir.cli.endings import REFUSED, WRONG, Refused, Wrong, of_hardware
from distir.cli.files import expand, shown
from distir.cli.programs import read_program, settings
from distir.cost.errors import HardwareError
from distir.diagnostics import Report, Severity, suggestion, terminal

if TYPE_CHECKING:
    from distir.analysis.program import Program
    from distir.diagnostics import Diagnostic

FORMAT_NAMES = ("text", "json", "sarif", "github")
"""Those of `diagnostics.formats`, which need not be loaded to print text."""


@dataclass(frozen=True, slots=True)
class Demands:
    """The requirements on a program from flags."""

    hardware: str | None
    nodes: str | None
    max_latency: str | None
    max_memory: str | None

    def check(self) -> None:
        """Raises Refused and HardwareError for flags that are wrong whatever the program."""
        from distir.config import Config

        if self.max_latency is not None or self.max_memory is not None:
            simulating.limits(self.max_latency, self.max_memory, Config())
        if self.hardware is not None:
            simulating.machine(self.hardware, Config(), self.nodes)


def check(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Files, folders, or `-` for standard input.")],
    format: Annotated[
        str, typer.Option(metavar="|".join(FORMAT_NAMES), help="The output format; all but text go to stdout.")
    ] = "text",
    hardware: options.HardwareName = None,
    nodes: options.Nodes = None,
    max_latency: options.MaxLatency = None,
    max_memory: options.MaxMemory = None,
) -> int:
    """Parse and check programs.

    Diagnostics go to standard error, with --format to standard output. With --hardware, --max-latency or --max-memory,
    or with a [budget] in distir.toml, each program is also simulated, and must fit into memory and budget. The exit
    code is 0 if there are only warnings.

    For example:

        distir check program.dir

        distir check models/ --format github

        distir check program.dir --hardware dgx-a100 --max-latency 5ms --max-memory 32GB
    """
    if format not in FORMAT_NAMES:
        raise Refused(f"unknown format `{format}`", suggestion(format, FORMAT_NAMES))
    demands = Demands(hardware, nodes, max_latency, max_memory)
    demands.check()
    reports: list[Report] = []
    unread: dict[tuple[str, str | None], None] = {}  # settings may be wrong for many programs: once is enough
    for path in expand(paths):
        try:
            with output.progress(f"checking {shown(path)}"):
                reports += _reports(path, demands, reports)
        except Refused as refused:
            unread[refused.message, refused.help] = None
        except HardwareError as error:
            unread |= dict.fromkeys(of_hardware(error))
    _write(reports, format)
    for message, hint in unread:
        output.complain("error", message, hint)
    if unread:
        return REFUSED
    if any(d.severity is Severity.ERROR for report in reports for d in report.diagnostics):
        return WRONG
    if not any(report.diagnostics for report in reports):
        output.tell_terminal(f"{len(reports)} file{'' if len(reports) == 1 else 's'}, nothing wrong")
    return 0


def _reports(path: str, demands: Demands, earlier: list[Report]) -> list[Report]:
    """The findings in a program, and those in its settings if not yet reported."""
    from distir.config import ConfigError

    try:
        program = read_program(path)
    except Wrong as wrong:
        return list(wrong.reports)
    try:
        simulated = () if program.errors or not program.module.functions else _simulated(program, path, demands)
    except ConfigError as error:
        known = any(report.source.path == error.report.source.path for report in earlier)
        return [Report(program.source, program.diagnostics), *(() if known else (error.report,))]
    return [Report(program.source, program.diagnostics + simulated)]


def _simulated(program: Program, path: str, demands: Demands) -> tuple[Diagnostic, ...]:
    """The findings of a simulation, if one is requested."""
    config = settings(path)
    limits = simulating.limits(demands.max_latency, demands.max_memory, config)
    if not limits.given and demands.hardware is None and demands.nodes is None:
        return ()
    machine = simulating.machine(demands.hardware, config, demands.nodes)
    function = simulating.entry(program, None, config)
    try:
        simulation = simulating.simulation(program, machine, function, simulating.binding((), config, function))
    except Wrong as wrong:
        return wrong.reports[0].diagnostics
    return simulating.findings(program, simulation, limits) + simulating.notices(program, simulation)


def _write(reports: list[Report], format: str) -> None:
    if format == "text":
        terminal.write(reports, sys.stderr)
        return
    from distir.diagnostics.formats import FORMATS

    output.write(FORMATS[format](reports))
