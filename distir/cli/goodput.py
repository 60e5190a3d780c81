"""`distir goodput`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import options, output, simulating
from distir.cli.endings import Refused
from distir.cli.programs import fold_on_one_core, settings, sized_program

if TYPE_CHECKING:
    from distir.cost import Goodput


def goodput(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A training step, a .dir program.", show_default=False)
    ] = None,
    mtbf: Annotated[
        str, typer.Option(metavar="TIME", help="The mean time between failures of one device, such as 5y.")
    ] = "",
    checkpoint_bandwidth: Annotated[
        str, typer.Option(metavar="RATE", help="How fast all devices together save, such as 100GB/s.")
    ] = "",
    restart: Annotated[
        str, typer.Option(metavar="TIME", help="From a failure until what was saved is read again.")
    ] = "5min",
    checkpoint_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="How much is saved. [default: the weights and the optimizer state of all devices, copies too]",
        ),
    ] = None,
    step: Annotated[str | None, typer.Option(metavar="TIME", help="Instead of FILE: what a step takes.")] = None,
    devices: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many devices. [default: the program's]")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Tokens of a step. [default: where the types tell them]")
    ] = None,
    hardware: options.HardwareName = None,
    nodes: options.Nodes = None,
    function: options.FunctionName = None,
    bind: options.Bindings = None,
    as_json: options.AsJson = False,
) -> int:
    """Say how often to save a training run whose devices fail.

    Prints the interval between checkpoints that loses least, what saving and failures cost, and the goodput: the share
    of the time that goes into steps which need not be done again. A step takes as long as `distir simulate` says, or as
    `--step` does. Failures are exponential (Daly 2006).

    For example:

        distir goodput train.dir --hardware dgx-h100 --nodes 4 --mtbf 5y --checkpoint-bandwidth 100GB/s

        distir goodput --step 8s --devices 16384 --checkpoint-size 5.7TB --mtbf 5y --checkpoint-bandwidth 1TB/s
    """
    from distir.cost import best_goodput, parse_seconds
    from distir.cost.units import BANDWIDTH, parse
    from distir.simulate.setup import SetupError, quantity

    try:
        lasts = quantity(parse_seconds, mtbf or None, "`--mtbf`", "mtbf")
        rate = quantity(
            lambda text: parse(text, BANDWIDTH), checkpoint_bandwidth or None, "`--checkpoint-bandwidth`", ""
        )
        again = quantity(parse_seconds, restart, "`--restart`", "restart") or 0.0
        run = _stated(step, checkpoint_size, devices, tokens)
    except SetupError as error:
        raise Refused(error.message, error.help) from None
    if not lasts:
        what = "expected the mean time between failures of a device"
        raise Refused(f"`--mtbf`: {what}{_instead(mtbf)}", "write for example `--mtbf 5y`")
    if not rate:
        found = _instead(checkpoint_bandwidth)
        raise Refused(f"`--checkpoint-bandwidth`: expected how fast is saved{found}", "write for example 100GB/s")
    if file is not None:
        run = _simulated(run, file, (hardware, nodes), function, bind or [])
    elif run.step_s is None or run.devices is None or run.nbytes is None:
        raise Refused("expected a program, or all of `--step`, `--devices` and `--checkpoint-size`")
    assert run.step_s is not None
    assert run.devices is not None
    assert run.nbytes is not None
    if not run.step_s:
        raise Refused("a step takes no time", "goodput is of a step that does")
    save = run.nbytes / rate
    found = best_goodput(run.step_s, save, again + save, lasts / run.devices)
    if as_json:
        output.write_json(_document(found, run))
    else:
        output.lay_out(*_text(found, run))
    return 0


@dataclass(frozen=True, slots=True)
class _Training:
    """A training run: seconds of a step, bytes of a checkpoint, devices, tokens of a step."""

    step_s: float | None
    nbytes: int | None
    devices: int | None
    tokens: int | None
    copies: bool = False
    """Whether copies of the same value count in the bytes, as far as is known."""


def _stated(step: str | None, size: str | None, devices: int | None, tokens: int | None) -> _Training:
    from distir.cost import parse_bytes, parse_seconds
    from distir.simulate.setup import quantity

    seconds = quantity(parse_seconds, step, "`--step`", "step")
    return _Training(seconds, quantity(parse_bytes, size, "`--checkpoint-size`", "size"), devices, tokens)


def _simulated(
    stated: _Training, file: str, machine: tuple[str | None, str | None], function: str | None, bind: list[str]
) -> _Training:
    """Figures not given by options, from the program's simulation. Raises Refused for a program of representatives."""
    from distir.ops import type_of
    from distir.simulate.saved import saved_bytes
    from distir.simulate.tokens import tokens

    fold_on_one_core()
    (program, bind), config = sized_program(file, bind), settings(file)
    entry = simulating.entry(program, function, config)
    bound = simulating.binding(bind, config, entry)
    found = simulating.simulation(program, simulating.machine(machine[0], config, machine[1]), entry, bound)
    if found.effects.represented and (stated.devices is None or stated.nbytes is None):
        raise Refused(
            "a device of the program represents several: it does not say how many devices there are",
            "state `--devices` and `--checkpoint-size`",
        )
    nbytes = saved_bytes(found) if stated.nbytes is None else stated.nbytes
    if not nbytes:
        raise Refused(
            "the program has no weights and no optimizer state to save",
            "mark them `{param}` and `{state}`, or state `--checkpoint-size`",
        )
    return _Training(
        found.latency_s if stated.step_s is None else stated.step_s,
        nbytes,
        len(found.devices) if stated.devices is None else stated.devices,
        tokens(entry, map(type_of, found.instance.args)) if stated.tokens is None else stated.tokens,
        copies=stated.nbytes is None,
    )


def _document(found: Goodput, run: _Training) -> dict[str, Any]:
    return {
        "step_s": found.step_s,
        "devices": run.devices,
        "checkpoint_bytes": run.nbytes,
        "save_s": found.save_s,
        "restart_s": found.restart_s,
        "mtbf_s": found.mtbf_s,
        "interval_s": found.interval_s,
        "interval_steps": found.steps,
        "goodput": found.goodput,
        "saving": found.saving,
        "failing": found.failing,
        "tokens": run.tokens,
        "tokens_per_s": None if run.tokens is None else run.tokens / found.step_s * found.goodput,
    }


def _instead(given: str) -> str:
    return f", more than none, found `{given}`" if given else ""


def _text(found: Goodput, run: _Training) -> list[Any]:
    from rich.text import Text

    from distir.cost import show_bytes

    steps = f"{found.steps:,} step{'' if found.steps == 1 else 's'} of {_time(found.step_s)}"
    size = show_bytes(run.nbytes or 0)
    held = f"{size}, what {run.devices:,} devices hold, copies too" if run.copies else size
    head = f"{100 * found.goodput:.3g}% goodput: a checkpoint every {_time(found.interval_s)}, that is {steps}"
    table = output.table("", "share", "because", right="1")
    table.add_row("steps", f"{100 * found.goodput:.2f}%", "that need not be done again")
    table.add_row("saving", f"{100 * found.saving:.2f}%", f"{_time(found.save_s)} for {held}")
    again = f"one in {_time(found.mtbf_s)}, a restart in {_time(found.restart_s)}"
    table.add_row("failures", f"{100 * found.failing:.2f}%", again)
    parts: list[Any] = [Text(head, style="bold"), "", table]
    if run.tokens is not None:
        rate = run.tokens / found.step_s
        parts += ["", Text(f"{rate * found.goodput:,.0f} tokens/s of {rate:,.0f}")]
    return parts


def _time(seconds: float) -> str:
    """Three significant digits, in minutes, hours or days where it is long."""
    from distir.cost import show_seconds

    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g}{unit}"
    return show_seconds(seconds)
