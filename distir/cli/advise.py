"""`distir advise`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import options, output, simulating
from distir.cli.endings import Refused
from distir.cli.files import replace_file, shown
from distir.cli.programs import fold_on_one_core, settings, sized_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from distir.analysis.program import Program
    from distir.cli.simulating import ChosenHardware
    from distir.ide.advice.core import Advice, AdviceFigures, Advised

VERIFIED_BYTES = 1 << 30
"""`--verify`: programs whose results take more at once are not run."""


def advise(
    file: options.File,
    hardware: options.HardwareName = None,
    nodes: options.Nodes = None,
    function: options.FunctionName = None,
    bind: options.Bindings = None,
    as_json: options.AsJson = False,
    within: Annotated[str, typer.Option(metavar="TIME", help="How long to search, about.")] = "20s",
    verify: Annotated[
        bool, typer.Option("--verify", help="What is not proved: run both programs on random inputs, up to 1 GiB.")
    ] = False,
    apply: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Write the program with the Nth advice applied.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--output", "-o", metavar="OUT.dir", help="--apply: write the result here.")
    ] = None,
) -> int:
    """List what would make a program faster or smaller.

    Tries moves of statements, recomputation of what is held at the peak, fusion, overlap, and strategies on more
    devices of the same machine. Each is simulated, and its results are compared with the program's: by data flow for
    moves, else by proof. The best come first: what makes the program fit, what makes it faster, what saves memory. What
    there was no time for is named.

    For example:

        distir advise program.dir --hardware dgx-a100

        distir advise program.dir --apply 1 -o faster.dir

        distir advise program.dir --within 2min --verify --json
    """
    from distir.cost import UnitError, parse_seconds
    from distir.ide.advice.search import NoAdvice
    from distir.ide.advice.search import advise as find
    from distir.ide.document import Setup
    from distir.ide.edits import applied

    fold_on_one_core()
    if out is not None and apply is None:
        raise Refused("`--output` is where `--apply` writes", "say which advice, as in `--apply 1`")
    try:
        seconds = parse_seconds(within)
    except UnitError as error:
        raise Refused(f"`--within {within}`: {error}") from None
    (program, bind), config = sized_program(file, bind), settings(file)
    machine = simulating.machine(hardware, config, nodes)
    entry = simulating.entry(program, function, config)
    bound = simulating.binding(bind or (), config, entry)
    setup = Setup(machine.hardware, entry.name, bound)
    with output.progress(f"trying what makes {shown(file)} faster"):
        try:
            text = program.source.text
            found = find(text, program.source.path, setup, seconds, verify_bytes=VERIFIED_BYTES if verify else None)
        except NoAdvice as error:
            raise Refused(f"cannot simulate `{shown(file)}`: {error}") from None
    if apply is not None:
        if apply > len(found.advice):
            raise Refused(f"`--apply {apply}`: there are {len(found.advice)} pieces of advice")
        _write(applied(text, found.advice[apply - 1].edits), found.advice[apply - 1], out)
    elif as_json:
        output.write_json(_as_document(program, machine, found))
    else:
        output.lay_out(*_as_text(program, machine, found))
    return 0


def _write(text: str, advice: Advice, out: str | None) -> None:
    from distir.cost import show_speedup

    if out is None:
        output.write(text)
    else:
        replace_file(out, text.encode())
    output.tell(f"{advice.title}: {show_speedup(advice.speedup)}; {advice.assurance.in_words}")
    if out is not None:
        output.tell_terminal(f"wrote {out}")


def _as_document(program: Program, machine: ChosenHardware, found: Advised) -> dict[str, Any]:
    return {
        "hardware": machine.hardware.name,
        "program": _figures(found.before),
        "advice": [
            {
                "title": advice.title,
                "kind": advice.kind.value,
                "steps": list(advice.steps),
                "line": program.source.position(advice.span.start)[0],
                "speedup": advice.speedup,
                **_figures(advice.after),
                "saved_bytes": advice.saved_bytes,
                "assurance": advice.assurance.value,
                "why": advice.why,
            }
            for advice in found.advice
        ],
        "untried": list(found.untried),
        "refused": found.refused,
        "seconds": found.seconds,
    }


def _figures(figures: AdviceFigures) -> dict[str, Any]:
    return {
        "latency_s": figures.latency_s,
        "peak_memory_bytes": figures.peak_memory_bytes,
        "devices": figures.devices,
        "fits": figures.fits,
        "fit": figures.fit,
    }


def _as_text(program: Program, machine: ChosenHardware, found: Advised) -> Sequence[RenderableType]:
    from rich.text import Text

    from distir.cost import show_bytes, show_seconds, show_speedup
    from distir.ide.markdown import counted

    before = found.before
    memory = f"{show_bytes(before.peak_memory_bytes)}{'' if before.fit == 'fits' else f', which {before.fit}'}"
    devices = counted(before.devices, "device")
    parts: list[RenderableType] = [
        Text(f"{show_seconds(before.latency_s)}, peak memory {memory}, on {devices} of {machine}")
    ]
    if found.advice:
        listed = output.table("", "advice", "gain", "latency", "peak memory", "devices", "results", right="02345")
        for number, advice in enumerate(found.advice, 1):
            after = advice.after
            line = program.source.position(advice.span.start)[0]
            listed.add_row(
                str(number),
                Text(advice.title.replace("`", "") + ("" if advice.steps else f" (line {line})")),
                show_speedup(advice.speedup),
                show_seconds(after.latency_s),
                show_bytes(after.peak_memory_bytes) + ("" if after.fit == "fits" else f", {after.fit}"),
                str(after.devices),
                Text(advice.assurance.in_words),
            )
        parts += ["", listed]
    else:
        parts += ["", Text("nothing that was tried makes it faster or smaller")]
    if found.untried:
        named = ", ".join(found.untried[:8]) + (", …" if len(found.untried) > 8 else "")
        parts += ["", Text(f"no time for {named}; `--within 1min` searches longer".replace("`", ""))]
    return parts
