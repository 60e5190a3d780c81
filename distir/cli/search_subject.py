"""The subject of `distir search`: a program or a named model, steps applied first, and the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from distir.cli import named, simulating
from distir.cli.endings import Refused

if TYPE_CHECKING:
    from distir.config import Config
    from distir.ir import Constant, Module
    from distir.search import Subject

TRAINING = "grad optimizer=adamw precision=mixed"
"""The steps that make a forward pass the training step that `--global-batch` means."""


class SearchedModel(NamedTuple):
    """The program or model, with its options, and the steps applied first."""

    name: str
    options: named.ModelOptions
    steps: str | None

    @property
    def title(self) -> str:
        """The name of the subject."""
        of = self.options.given
        given = [f"{name}={value}" for name, value in of.items() if name != "dtype"]
        given += [self.options.dtype] if self.options.dtype else []
        said = f"{self.name} ({', '.join(given)})" if given else self.name
        return " ".join([*said.split(), *((self.steps or "").split())])


class SearchedOn(NamedTuple):
    """The machine: hardware, number of nodes, memory limit, and whether it runs at sustained power."""

    hardware: str | None
    nodes: str | None
    max_memory: str | None
    sustained: bool


def is_forward(model: str) -> bool:
    """Whether a model is one that DistIR has by name, as a forward pass."""
    return not model.endswith(".dir") and model != "-" and not model.startswith("mlp")


def in_fp8(scaling: str, on: SearchedOn) -> str:
    """The step that has products in 8-bit floats. Raises Refused where the hardware has none.

    With `tensor`, each example has scales of its own, so that the step is the same for microbatches of any size.
    """
    from pathlib import Path

    from distir.config import find
    from distir.ir import DTYPES
    from distir.transform.float8 import SCALINGS

    if scaling not in SCALINGS:
        raise Refused(f"`--fp8` expected {' or '.join(SCALINGS)}, found `{scaling}`")
    machine = simulating.machine(on.hardware, find(Path()), on.nodes).hardware
    if any(kind.rates[DTYPES["Float8E4M3FN"]].instead for kind in machine.kinds.distinct):
        raise Refused(f"`--fp8`: `{machine.name}` has no arithmetic of 8-bit floats", "`dgx-h100` has, and later ones")
    return "fp8=tensor micro_batch=1" if scaling == "tensor" else f"fp8={scaling}"


def subject_on(model: SearchedModel, on: SearchedOn, bind: Any, batch_given: bool) -> Subject:
    """The program on the machine."""
    from distir.search import Subject

    module, config, bound = _subject(model, bind, batch_given)
    machine = simulating.machine(on.hardware, config, on.nodes).hardware
    if on.sustained:
        machine = machine.sustained()
    if on.max_memory is not None:
        machine = machine.with_memory(_bytes(on.max_memory))
    return Subject(model.title, module, machine, tuple(sorted(bound.items())))


def _bytes(text: str) -> int:
    from distir.cost.units import UnitError, parse_bytes

    try:
        found = parse_bytes(text)
    except UnitError as error:
        raise Refused(f"`--max-memory`: {error}", "such as 70GB") from None
    if not found:
        raise Refused(f"`--max-memory` expected more than nothing, found `{text}`", "such as 70GB")
    return found


def _subject(model: SearchedModel, bind: Any, batch_given: bool) -> tuple[Module, Config, dict[str, Constant]]:
    """The program, its settings, and the sizes of all its dimensions but the batch."""
    from distir.cli.programs import settings, sound_program
    from distir.config import find

    if not model.name.endswith(".dir") and model.name != "-":
        from pathlib import Path

        if bind:
            sizes = "`--seq`, `--batch-size` and the like say sizes of a model"
            raise Refused(f"`--bind` is for a program, and `{model.name}` is a model by its name", sizes)
        module = named.made(model.name, model.options, None)
        return _applied(module, model.steps), find(Path()), {}
    given = model.options.given
    if given:
        option = f"--{next(iter(given)).replace('_', '-')}"
        raise Refused(f"`{option}` is for a model by its name, and `{model.name}` is a program", "write it into it")
    program, config = sound_program(model.name, "erased"), settings(model.name)
    entry = simulating.entry(program, None, config)
    bound = simulating.binding(bind, config, entry)
    module = program.module
    if batch_given:
        from distir.search.subject import batch_dimension

        bound.pop(batch_dimension(entry) or "", None)
    if module.entry() is not entry:
        raise Refused(
            f"`@{entry.name}` is neither the last function nor `@main`", "name the function to search `@main`"
        )
    return _applied(module, model.steps), config, bound


def _applied(module: Module, steps: str | None) -> Module:
    """The program after the steps that come before the search. Raises Refused."""
    if steps is None:
        return module
    from distir.diagnostics import ProgramError
    from distir.transform import StepError, transform

    words = steps.split()
    if stated := next((word for word in words if word.partition("=")[0] == "accumulate"), None):
        # The search would not know how large the microbatches are.
        raise Refused(f"`--apply`: `{stated}` is what a search tries itself", "give it `--accumulate N,N`")
    try:
        return transform(module, *words)
    except StepError as error:
        raise Refused(f"`--apply`: {error}", "`distir transform --list` names the steps") from None
    except ProgramError as error:
        first = error.diagnostics[0]
        raise Refused(f"`--apply`: {first.message} ({first.code.number})", first.help) from None
