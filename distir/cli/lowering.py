"""Lowering by flags, for `distir lower` and `distir launch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from distir.cli import simulating
from distir.cli.endings import Refused, judged
from distir.cli.programs import folder_of, settings

if TYPE_CHECKING:
    from pathlib import Path

    from distir.analysis.program import Program
    from distir.ir import Constant, Function
    from distir.lower import Lowered


def bound_entry(
    program: Program, file: str, function: str | None, bind: Sequence[str] | None
) -> tuple[Function, dict[str, Constant]]:
    """The entry function, and the values of its named dimensions and host parameters. Raises Refused."""
    config = settings(file)
    entry = simulating.entry(program, function, config)
    return entry, simulating.binding(bind or (), config, entry)


def lowered(program: Program, entry: Function, bound: Mapping[str, Constant], training: bool = False) -> Lowered:
    """The program in torch. Raises Wrong where it cannot be lowered, Refused for what is bound badly.

    With `training`, a training step comes with what a loop around it needs.
    """
    from distir.lower import EntryPoint, lower, lower_training
    from distir.simulate import BindError, arguments

    with judged(program):
        try:
            args = arguments(entry, dict(bound))
        except BindError as error:
            raise Refused(str(error)) from None
        start = EntryPoint(entry.name, program.module, entry, args)
        step = lower_training(start, dict(bound), program.source.path) if training else None
        return step or lower([start], program.source.path)


def write(lowering: Lowered, folder: Path, file: str) -> None:
    """Write the folder, with the program's constants. Raises Refused."""
    from distir.cli.tensors import loader

    try:
        lowering.write(folder, loader(folder_of(file)))
    except OSError as error:
        raise Refused(f"cannot write `{folder}`: {error.strerror or error}") from None


def array_files(values: Mapping[str, Any], entry: Function) -> dict[str, Any]:
    """Arrays by the names that run.py knows: the parts of a tuple are `w.0`, `w.1`, and so on."""
    from distir.analysis.outputs import flattened

    types = {param.name: param.type for param in entry.params}
    return {name: array for param, value in values.items() for name, _, array in flattened(param, types[param], value)}
