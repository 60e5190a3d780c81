"""The functions of the Python API. Small: each says in terms of texts and modules what a room below does."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from distir import syntax
from distir.analysis import Inputs, execute
from distir.analysis import check as check_module
from distir.analysis.program import read
from distir.diagnostics import Diagnostic, ProgramError, Severity
from distir.ir import Module
from distir.ops import canonical
from distir.syntax import print_module

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distir.cost import Hardware
    from distir.importers import Imported
    from distir.ir import Constant
    from distir.search import Space, Table, Workers
    from distir.search.searching import Method
    from distir.simulate import Bind, Simulation


def parse(text: str, path: str = "<text>") -> Module:
    """The module that a text holds. Raises ProgramError if the text is broken; it is not checked further."""
    found = syntax.parse(text, path, canonical)
    broken = [d for d in found.diagnostics if d.severity is Severity.ERROR]
    if broken or found.duplicates:
        raise ProgramError(broken or read(text, path).errors)
    return found.module


def check(module: Module) -> list[Diagnostic]:
    """What is wrong with a module; sites say where in the module."""
    return list(check_module(module).diagnostics)


def check_text(text: str, path: str | None = None) -> list[Diagnostic]:
    """What is wrong with a text; sites are spans of it. The same as `distir check` prints."""
    return list(read(text, path or "<text>").diagnostics)


def format(module: Module) -> str:  # noqa: A001 - the verb users know
    """The canonical text of a module; `parse` gives the module back."""
    return print_module(module)


def simulate(
    module: Module,
    hardware: Hardware | str | os.PathLike[str] = "dgx-a100",
    function: str | None = None,
    bind: Bind | None = None,
) -> Simulation:
    """Time and memory of a module's entry function (or `function`) on a machine: a profile's name or file.

    `bind` gives sizes to named dimensions and values to host parameters. `result.latency_s` is in seconds,
    `result.devices[1].peak_memory_bytes` in bytes. Raises ProgramError if the program does not check or an op's cost
    cannot be told, cost.HardwareError for an unknown or broken profile, simulate.BindError (a ValueError) for a bad
    `bind`, LookupError if there is no such function.
    """
    from distir.simulate.simulation import simulate

    return simulate(module, hardware, function, bind)


def run(module: Module, inputs: Inputs, function: str | None = None) -> dict[str, Any]:
    """Run the entry function (or `function`) with the reference executor.

    `inputs`: numpy arrays by parameter, or in the order of the parameters; tuples of arrays for tuples. Gives the
    results by name, in the order of `return`. Raises ProgramError if the program does not check for these inputs,
    InputError (a ValueError) if they do not fit the parameters, LookupError if there is no such function.
    """
    return {output.name: output.value for output in execute(module, inputs, function)}


def transform(module: Module, *steps: str, **options: Any) -> Module:
    """Apply steps in turn, as on the command line: `transform(module, "grad", "dp=2", microbatches=4)`.

    A step is `name` or `name=value`; words that are no steps are options of the step before them, and keywords go to
    every step that takes them. What steps have to say beside the result (the shares of tensor parallelism, say) is
    heard `with distir.transform.listening() as notes`. Raises transform.StepError (a ValueError) for a step or option
    that does not exist, ProgramError where a step cannot be applied.
    """
    from distir.transform.all_steps import transform

    return transform(module, *steps, **options)


def search(
    model: Module | str,
    devices: int | None = None,
    hardware: Hardware | str | os.PathLike[str] = "dgx-a100",
    batch_sizes: Sequence[int] = (),
    *,
    space: Space | None = None,
    method: Method = "grid",
    bind: Mapping[str, Constant] | None = None,
    workers: Workers | None = None,
) -> Table:
    """Try every D/T/P/K of a sequential program, or of a model of the paper by name, on `devices` devices.

    Without `devices`, as many as the machine has.
    `batch_sizes` bind the named dimension of the program's `{batch}` parameters; `space` says more of what is tried
    than `devices` and `batch_sizes` do. Gives rows with the columns of `distir search --csv`: seconds, examples per
    second, bytes; `table.best` is the fastest that fits in memory. An infeasible configuration is a row with its
    reason. Raises search.SpaceError (a ValueError) where there is nothing to search, models.ModelError for an unknown
    name, ProgramError for a program that does not check, cost.HardwareError for an unknown or broken profile.
    """
    from distir import cost
    from distir.models import named
    from distir.search.searching import search
    from distir.search.space import Space
    from distir.search.work import Workers

    module, name = (named(model), model) if isinstance(model, str) else (model, "")
    machine = cost.load(hardware) if isinstance(hardware, (str, os.PathLike)) else hardware
    chosen = space or Space(machine.devices if devices is None else devices, tuple(batch_sizes))
    return search(module, chosen, machine, model=name, method=method, bind=bind, workers=workers or Workers())


def import_onnx(
    path: str | os.PathLike[str],
    weights: bool = True,
    *,
    batch: Mapping[str, int] | None = None,
    bind: Mapping[str, int] | None = None,
    outline: bool = True,
) -> Imported:
    """The program of an ONNX file. Initializers are `{param}` parameters; `module.weights` has their data by name.

    So `run(module, {**module.weights, "x": x})` runs it; each array is read when it is looked up, and there is none
    without `weights`. `batch`: the axis that carries the batch, by input, where no symbolic dimension tells. `bind`
    gives sizes to named dimensions. Repeated blocks become functions unless `outline` is false. Raises
    importers.ImportRefused (a ValueError) for a model that cannot come in, OSError for a file that cannot be read.
    """
    from distir.importers import import_onnx

    return import_onnx(path, weights, batch=batch, bind=bind, outline=outline)


def import_torch(
    nn_module: Any,
    example_inputs: Sequence[Any],
    weights: bool = True,
    *,
    training: bool = False,
    dynamic_batch: bool = False,
    batch: Mapping[str, int] | None = None,
    outline: bool = True,
) -> Imported:
    """The program of a PyTorch module: what it computes of inputs like the examples.

    Its parameters and buffers are `{param}` parameters; `module.weights` has their data by name. With `training` the
    module's result is a loss, and the program gives it and the gradients of all parameters. With `dynamic_batch` the
    first dimension of the inputs is called `B`; `batch` names the inputs that carry it, and the axis. Raises
    importers.ImportRefused (a ValueError).
    """
    from distir.importers import import_torch

    return import_torch(
        nn_module,
        example_inputs,
        weights,
        training=training,
        dynamic_batch=dynamic_batch,
        batch=batch,
        outline=outline,
    )
