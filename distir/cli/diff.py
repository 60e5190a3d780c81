"""`distir diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from distir.cli import options, output, simulating
from distir.cli.endings import WRONG, Refused
from distir.cli.files import shown
from distir.cli.programs import settings, sized_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import RenderableType

    from distir.cli.conditions import Judged
    from distir.cli.differing import ProgramComparison
    from distir.cli.traces import TracedRun
    from distir.ir import Function


def diff(
    first: Annotated[
        str,
        typer.Argument(metavar="A", help="A .dir program; `-` is standard input; or a trace.", show_default=False),
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="The one to compare it with.", show_default=False)],
    hardware: options.HardwareName = None,
    nodes: options.Nodes = None,
    function: options.FunctionName = None,
    bind: options.Bindings = None,
    as_json: options.AsJson = False,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Traces: how many ops to list.")] = 20,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Write Markdown, for example for a pull request.")
    ] = False,
    picture: Annotated[
        str | None,
        typer.Option(metavar="OUT.svg", help="Write both timelines as a picture here.", show_default=False),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(metavar="'CONDITION'", help="Exit with code 1 if B meets this condition; repeatable."),
    ] = None,
) -> int:
    """Compare two programs by simulation.

    Compares latency, memory, communication, and where the critical paths diverge. Settings come from A's distir.toml.
    --bind may set sizes that only one of the programs has.

    A condition of --fail-if is a metric (latency, memory, communication, bubble, exposed-communication, ops, cost), >
    or <, and an amount: latency>+5% is more than 5 % above A, latency>+1ms more than 1 ms above A, latency>20ms is B's
    own latency. The bubble is itself a percentage: bubble>+2% is more than 2 points above A. Quote conditions, since
    the shell reads > as a redirection.

    If one file is a trace (.json) from launch --trace or simulate --trace, the other is a trace or the program, which
    is then simulated. This compares the time of each op and each device, simulated and measured. Profiling adds about a
    microsecond to each measured op.

    For example:

        distir diff sequential.dir pipeline.dir --hardware dgx-a100

        distir diff before.dir after.dir --picture timelines.svg

        distir diff before.dir after.dir --markdown --fail-if 'latency>+5%' --fail-if 'memory>40GB'

        distir diff program.dir measured.json --hardware here.toml
    """
    from distir.cli import conditions, differing, traces
    from distir.traces.events import is_trace

    asked = conditions.parsed(fail_if or ())
    if as_json and markdown:
        raise Refused("expected either `--json` or `--markdown`, found both")
    if any(map(is_trace, (first, second))):
        if picture is not None:
            raise Refused("`--picture` shows programs, not traces", "open a trace in ui.perfetto.dev")
        runs = [_run(file, hardware, nodes, function, bind or ()) for file in (first, second)]
        beside = traces.lay_beside(*runs)
        return _written(
            as_json,
            markdown,
            traces.judged(asked, beside),
            lambda: traces.as_document(beside),
            lambda: traces.as_markdown(beside, top),
            lambda: traces.as_text(beside, top),
        )
    config = settings(first)
    machine = simulating.machine(hardware, config, nodes)
    sized = [sized_program(file, bind) for file in (first, second)]
    programs, bind = [program for program, _ in sized], [flag for flag in sized[0][1] if flag in sized[1][1]]
    entries = [simulating.entry(program, function, config) for program in programs]
    flags = _flags(bind or (), entries)
    with output.progress(f"simulating {shown(first)} and {shown(second)}"):
        simulations = [
            simulating.simulation(program, machine, entry, simulating.binding(own, config, entry))
            for program, entry, own in zip(programs, entries, flags, strict=True)
        ]
        sides = [
            differing.SimulatedProgram(shown(file), program, simulation)
            for file, program, simulation in zip((first, second), programs, simulations, strict=True)
        ]
        found = differing.compare(*sides)
        if picture is not None:
            _draw(found, picture)
    return _written(
        as_json,
        markdown,
        conditions.judged(asked, found.difference.left, found.difference.right),
        lambda: differing.as_document(found),
        lambda: differing.as_markdown(found, machine),
        lambda: differing.as_text(found, machine),
    )


def _written(
    as_json: bool,
    markdown: bool,
    judged: Sequence[Judged],
    document: Callable[[], dict[str, object]],
    page: Callable[[], str],
    parts: Callable[[], Iterable[RenderableType]],
) -> int:
    """Write the comparison in the requested format, and return the exit code. Computes only that format."""
    from distir.cli import conditions

    if as_json:
        output.write_json({**document(), "conditions": conditions.as_document(judged)})
    elif markdown:
        output.write(page() + conditions.as_markdown(judged))
    else:
        output.lay_out(*parts())
    held = [one for one in judged if one.holds]
    for one in held:
        output.complain("error", f"{one.condition.metric} {one}, which `--fail-if '{one.condition.text}'` rules out")
    return WRONG if held else 0


def _draw(found: ProgramComparison, out: str) -> None:
    """Write the picture of both timelines, or warn that a program has too many ops for one."""
    from distir.cli import differing
    from distir.cli.files import replace_file
    from distir.simulate.picture import MOST_DRAWN, PARTS, as_svg

    first, second = (f"@{side.simulation.function.name} of {side.name}" for side in found.sides)
    timelines = differing.timelines(found, (f"A: {first}", f"B: {second}"), PARTS)
    if timelines is None:
        output.complain("warning", f"`{out}` is not written: a picture shows programs of at most {MOST_DRAWN:,} ops")
        return
    replace_file(out, as_svg(timelines).encode())
    output.tell_terminal(f"wrote {out}")


def _run(file: str, hardware: str | None, nodes: str | None, function: str | None, bind: Sequence[str]) -> TracedRun:
    """A trace as it is, a program as it is simulated. Raises Refused, and Wrong for a program with errors."""
    from distir.cli import traces
    from distir.traces.events import is_trace

    if is_trace(file):
        return traces.read_trace(file)
    config = settings(file)
    machine = simulating.machine(hardware, config, nodes)
    program, bind = sized_program(file, bind)
    entry = simulating.entry(program, function, config)
    with output.progress(f"simulating {shown(file)}"):
        simulation = simulating.simulation(program, machine, entry, simulating.binding(bind, config, entry))
        return traces.simulated_run(f"{shown(file)} on {machine}", program, simulation)


def _flags(flags: Sequence[str], entries: Sequence[Function]) -> list[list[str]]:
    """The bindings for each of the programs, without those of names that only the other one has."""
    known = [simulating.bindable(entry) for entry in entries]
    either = frozenset[str]().union(*known)

    def fits(flag: str, own: frozenset[str]) -> bool:
        name = flag.partition("=")[0].strip().removeprefix("%")
        return name in own or name not in either

    return [[flag for flag in flags if fits(flag, own)] for own in known]
