"""`distir transform`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from distir.cli import memory, options, output, simulating
from distir.cli.endings import Refused, Wrong
from distir.cli.files import put, shown
from distir.cli.programs import fold_on_one_core, settings, sound_program
from distir.cli.prove import MOST
from distir.diagnostics import ProgramError, Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distir.analysis.program import Program
    from distir.ir import Module


def transform(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STEP... FILE", help="Steps and their options, then a .dir program.", show_default=False
        ),
    ] = None,
    out: Annotated[str | None, typer.Option("--output", "-o", metavar="OUT.dir", help="Write the result here.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Run both programs on random inputs and compare.")] = False,
    prove: Annotated[
        bool, typer.Option("--prove", help="Prove after each step that the program still computes the same.")
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="--verify: the random seed of the inputs.")] = 0,
    bind: options.Bindings = None,
    max_memory: options.RunMemory = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if tensor parallelism replicates something expensive.")
    ] = False,
    list_steps: Annotated[
        bool, typer.Option("--list", help="List the steps and their options, in the order of a chain.")
    ] = False,
) -> int:
    """Apply transforms to a program.

    Steps are gradients, data, tensor and pipeline parallelism, ZeRO, activation checkpointing, and smaller ones; --list
    lists them. Steps are applied in order; a step is a name or name=value, followed by its options. With --verify, the
    reference executor runs both programs on the same random inputs: results that differ on any device by more than
    rounding explains give exit code 1. Programs that cannot be compared, as where gradients overflow in one alone, give
    exit code 2. With --prove, nothing is run: each step's result is followed value by value, and exit code 1 says that
    one is not proved, with the first statement of which nothing is known (`distir prove`).

    For example:

        distir transform grad loss=mse optimizer=sgd model.dir -o training.dir

        distir transform dp=2 tp=2 training.dir --verify -o distributed.dir

        distir transform --list
    """
    if list_steps:
        output.write(_listed())
        return 0
    if not words:
        raise Refused("expected steps and a program", "`distir transform --list` names the steps")
    *steps, file = words
    if not steps:
        raise Refused(f"expected steps before `{file}`", "`distir transform --list` names the steps")
    if not verify:
        unused = "--max-memory" if max_memory is not None else "--seed" if seed else None
        if unused is not None:
            raise Refused(f"`{unused}` is for `--verify`", f"give `--verify`, or leave out `{unused}`")
        fold_on_one_core()
    most = memory.allowed(max_memory) if verify else 0
    from distir.ir.rolling import rolled

    program = sound_program(file, "kept")
    with output.progress(f"transforming {shown(file)}"):
        applied = _applied(program, steps, _defaults(program, bind or ()), {"strict": True} if strict else {})
        result = applied[-1][1]
    text = commented(rolled(result), program)
    put(text, out)
    original, behind, is_last = _original(program, applied)
    if (prove or verify) and is_last:
        output.complain(
            "warning", f"nothing is compared: `{behind}` changes what a program computes, and is the last step"
        )
        return 0
    if prove:
        _proved(program, applied, bind or ())
    if not verify:
        return 0
    from distir.cli.verifying import verified

    entry = simulating.entry(program, None, settings(file))
    sizes = simulating.binding(bind or (), settings(file), entry)
    numbers = {n: v for n, v in sizes.items() if isinstance(v, int)}
    memory.refuse_inputs(entry.params, numbers, most)
    with output.progress("running both programs"), memory.within(most):
        return verified(original, result, seed, numbers, most, behind)


def _original(program: Program, applied: Sequence[tuple[str, Module]]) -> tuple[Module, str, bool]:
    """What a result is compared with: the program, or what the last step gave that changes what it computes.

    And that step, and whether no other is behind it.
    """
    from distir.transform import STEPS

    found, behind = program.module, ""
    for step, module in applied:
        if STEPS[step].changes_results:
            found, behind = module, step
    return found, behind, STEPS[applied[-1][0]].changes_results


def _defaults(program: Program, bind: Sequence[str]) -> dict[str, object]:
    """Defaults for steps that use the simulator: the hardware, and sizes."""
    config = settings(program.source.path)
    sizes = simulating.binding(bind, config, simulating.entry(program, None, config))
    return {"hardware": config.machine, "bind": tuple(f"{n}={v}" for n, v in sizes.items() if isinstance(v, int))}


def _applied(
    program: Program, words: Sequence[str], defaults: dict[str, object], options: dict[str, object]
) -> list[tuple[str, Module]]:
    """The steps with their results, one at least of which takes each of the options.

    Raises Refused for steps that do not exist, Wrong where one cannot be applied.
    """
    from distir.analysis.program import read
    from distir.transform import StepError, listening, parse_steps

    try:
        applications = parse_steps(words, options, defaults)
    except StepError as error:
        raise Refused(str(error), "`distir transform --list` names the steps") from None
    module, before = program.module, ""
    made: list[tuple[str, Module]] = []
    for application in applications:
        try:
            with listening() as messages:
                module = application(module)
        except StepError as error:
            raise Refused(f"`{application.step.name}`: {error}") from None
        except ProgramError as error:  # shown in the text of what the step was given
            given = read(_text(module), f"{program.source.path} after `{before}`") if before else program
            raise Wrong([Report(given.source, given.located(error.diagnostics))]) from None
        for message in messages:
            output.tell(f"{application.step.name}: {message}")
        before = application.step.name
        made.append((before, module))
    return made


def _proved(program: Program, applied: Sequence[tuple[str, Module]], bind: Sequence[str]) -> None:
    """Proves the result of each step against that of the last one before that changed meaning. Raises Wrong.

    A program on a mesh is proved by its types and its erasure, as `distir prove` does.
    """
    from distir.analysis.program import read
    from distir.cli.prove import proof, tell
    from distir.transform import STEPS

    found, original, behind = None, program.module, ""
    for step, module in applied:
        if STEPS[step].changes_results:
            original, behind = module, step
            continue
        with output.progress(f"proving `{step}`"):
            entry = original.entry()
            sizes = {} if entry is None else simulating.binding(bind, settings(program.source.path), entry)
            found = proof(module, original, {n: v for n, v in sizes.items() if isinstance(v, int)})
        if not found.proved:
            shown = read(_text(module), f"{program.source.path} after `{step}`")
            raise Wrong([Report(shown.source, shown.located(found.diagnostics(module)[:MOST]))])
    if found is not None:
        tell(found, behind)


def _text(module: Module) -> str:
    from distir.syntax import print_module

    return print_module(module)


def commented(result: Module, program: Program) -> str:
    """The text of the result with the program's comments; reports how many are omitted."""
    from distir.syntax import carried

    found = carried(result, program.syntax)
    if count := len(found.left_out):
        output.tell(f"omitted {count} comment{'s' * (count > 1)} on statements that are not in the result")
    return found.text


def _listed() -> str:
    """Every step with its options, as text, in the order in which they are applied."""
    from distir.transform import STEPS
    from distir.transform.steps import in_order

    lines: list[str] = []
    for step in in_order(STEPS.values()):
        value = "" if step.value is None else f"={_PLACEHOLDERS[_plain(step.value.kind)]}"
        lines.append(step.name + (value if step.value is None or step.value.required else f"[{value}]"))
        lines += [f"  {line}".rstrip() for line in step.documentation.splitlines()]
        for option in step.options.values():
            default = "" if option.required or option.default in (None, ()) else f" (default {option.default})"
            lines.append(f"    {option.name}={_PLACEHOLDERS[_plain(option.kind)]}{default}")
        lines.append("")
    return "\n".join(lines)


_PLACEHOLDERS = {
    "int": "N",
    "Count": "N",
    "Bytes": "SIZE",
    "float": "X",
    "float | str": "X|WORD",
    "bool": "true|false",
    "str": "WORD",
    "tuple[int, ...]": "N,...",
    "tuple[str, ...]": "NAME,...",
}
"""How a value of each kind is shown."""


def _plain(kind: str) -> str:
    return kind.removesuffix(" | None")
