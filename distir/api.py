"""The functions of the Python API: thin wrappers of the packages below, in terms of texts, modules and files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from distir import syntax
from distir.analysis import Inputs, execute
from distir.analysis import check as check_module
from distir.analysis.program import read
from distir.diagnostics import Diagnostic, ProgramError, Severity
from distir.files.reading import PROGRAM, SUFFIX, read_text
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
    from distir.simulate.spread.steps import Spread


Program = Module | str | os.PathLike[str]
"""A module, or the path of a file that holds one."""


def program(given: Program) -> Module:
    """The module, or that of a file. Raises ProgramError for syntax errors, OSError for a file that cannot be read."""
    if isinstance(given, Module):
        return given
    if isinstance(given, str) and "\n" in given:
        raise TypeError("expected a module or a path, found a text: `distir.parse` reads it")
    return parse(read_text(os.fspath(given), PROGRAM), os.fspath(given))


def parse(text: str, path: str = "<text>") -> Module:
    """Parse a text to a module. Raises ProgramError for syntax errors; does not check further."""
    found = syntax.parse(text, path, canonical)
    broken = [d for d in found.diagnostics if d.severity is Severity.ERROR]
    if broken or found.duplicates:
        raise ProgramError(broken or read(text, path).errors)
    return found.module


def check(module: Program) -> list[Diagnostic]:
    """The diagnostics of a module; their sites refer to the module."""
    return list(check_module(program(module)).diagnostics)


def check_text(text: str, path: str | None = None) -> list[Diagnostic]:
    """The diagnostics of a text, as `distir check` prints them; their sites are spans of the text."""
    return list(read(text, path or "<text>").diagnostics)


def format(module: Module) -> str:  # noqa: A001 - the verb users know
    """The canonical text of a module; `parse` returns the same module."""
    return print_module(module)


def simulate(
    module: Program,
    hardware: Hardware | str | os.PathLike[str] = "dgx-a100",
    function: str | None = None,
    bind: Bind | None = None,
) -> Simulation:
    """Simulate a module's entry function (or `function`) on a machine: a profile's name or file.

    `bind` sets named dimensions and host parameters. `result.latency_s` is in seconds,
    `result.devices[1].peak_memory_bytes` in bytes. Raises ProgramError if the program has errors or an op's cost is
    unknown, cost.HardwareError for an unknown or invalid profile, simulate.BindError (a ValueError) for a bad `bind`,
    LookupError if there is no such function. Of a program on a mesh, one device of each stage is simulated where the
    machine has equal devices with equal links, and represents `result.copies` devices; else every device.
    """
    from distir.simulate.simulation import simulate

    module = program(module)
    if not module.mesh:
        return simulate(module, hardware, function, bind)
    from distir.transform.mesh.on_machine import simulated

    return simulated(module, hardware, function, bind or {})


def spread(simulation: Simulation, lateness: Sequence[str], *, draws: int = 10_000, seed: int = 0) -> Spread:
    """Draw steps of a simulated program on a machine whose devices, nodes or links are late by chance.

    `lateness`: what is late, and by how much, as `"devices=lognormal:0.05"`, `"nodes=slow:0.01:1.5"` or
    `"links=exponential:0.1"`; links of one level by its name. `result.quantile(0.99)` is in seconds; `result.costs`
    says whose lateness costs what. The same seed gives the same draws. Raises simulate.spread.lateness.SpreadError (a
    ValueError) for what cannot be late, ProgramError where devices of the program represent others.
    """
    from distir.simulate.spread.steps import spread

    return spread(simulation, lateness, draws, seed)


def run(module: Program, inputs: Inputs, function: str | None = None) -> dict[str, Any]:
    """Run the entry function (or `function`) with the reference executor.

    `inputs`: numpy arrays by parameter, or in the order of the parameters; tuples of arrays for tuples. Returns the
    results by name, in the order of `return`. Raises ProgramError if the program has errors for these inputs,
    InputError (a ValueError) if they do not match the parameters, LookupError if there is no such function. Of a
    program on a mesh, the sequential program that it means is run.
    """
    return {output.name: output.value for output in execute(erase(module), inputs, function)}


def erase(module: Program) -> Module:
    """The sequential program that a program on a mesh means. Raises ProgramError for one with errors."""
    module = program(module)
    if not module.mesh:
        return module
    from distir.transform.mesh import erase

    return erase(module)


def expand(module: Program, bind: Bind | None = None) -> Module:
    """The program of every device of a mesh; `bind` has its sizes that are names. Raises ProgramError for errors."""
    module = program(module)
    if not module.mesh:
        return module
    from distir.transform.mesh import expand

    return expand(module, bind or {})


def transform(module: Program, *steps: str, **options: Any) -> Module:
    """Apply steps in order, as on the command line: `transform(module, "grad", "dp=2", microbatches=4)`.

    A step is `name` or `name=value`; other words are options of the step before them, and keywords apply to every step
    that has them. `with distir.transform.listening() as notes` collects the messages of steps (for example the shares
    of tensor parallelism). Raises transform.StepError (a ValueError) for an unknown step or option, ProgramError if a
    step cannot be applied.
    """
    from distir.transform.all_steps import transform

    return transform(program(module), *steps, **options)


def search(
    model: Program,
    devices: int | None = None,
    hardware: Hardware | str | os.PathLike[str] = "dgx-a100",
    batch_sizes: int | Sequence[int] = (),
    *,
    space: Space | None = None,
    method: Method = "grid",
    fuse: bool = False,
    bind: Mapping[str, Constant] | None = None,
    workers: Workers | None = None,
) -> Table:
    """Try every D/T/P/K for a sequential program, or for a model by name, on `devices` devices.

    The default for `devices` is all devices of the machine. `batch_sizes`, one or several, bind the batch dimension of
    the program's `{batch}` parameters; `space` sets the other dimensions of the search. With `fuse` the ops of each
    distributed program are fused into kernels, as by the step `fuse`. Returns rows with the columns of
    `distir search --csv`:
    seconds, examples per second, bytes; `table.best` is the fastest that fits in memory. An infeasible configuration
    is a row with its reason. Raises search.SpaceError (a ValueError) for an empty space,
    models.ModelError for an unknown name, ProgramError for a program with errors, cost.HardwareError for an unknown or
    invalid profile.
    """
    from dataclasses import replace

    from distir import cost
    from distir.models import named
    from distir.search.searching import search
    from distir.search.space import Space
    from distir.search.work import Workers

    name = model if isinstance(model, str) and not model.endswith(SUFFIX) else ""
    module = named(name) if name else program(model)
    machine = cost.load(hardware) if isinstance(hardware, (str, os.PathLike)) else hardware
    sizes = (batch_sizes,) if isinstance(batch_sizes, int) else tuple(batch_sizes)
    chosen = space or Space(machine.devices if devices is None else devices, sizes)
    chosen = replace(chosen, fuse=True) if fuse else chosen
    return search(module, chosen, machine, model=name, method=method, bind=bind, workers=workers or Workers())


def import_onnx(
    path: str | os.PathLike[str],
    weights: bool = True,
    *,
    batch: Mapping[str, int] | None = None,
    bind: Mapping[str, int] | None = None,
    outline: bool = True,
) -> Imported:
    """Import an ONNX file. Initializers become `{param}` parameters; `module.weights` has their data by name.

    So `run(module, {**module.weights, "x": x})` runs it; each array is read on access, and `weights=False` omits them.
    `batch`: the batch axis of each input, if it is not a symbolic dimension. `bind` sets named dimensions. Repeated
    blocks become functions unless `outline` is false. Raises importers.ImportRefused (a ValueError) for an unsupported
    model, OSError for an unreadable file.
    """
    from distir.importers import import_onnx

    return import_onnx(path, weights, batch=batch, bind=bind, outline=outline)


def import_stablehlo(
    path: str | os.PathLike[str],
    *,
    params: Sequence[str] = (),
    batch: Mapping[str, int] | None = None,
    outline: bool = True,
    distribute: bool = True,
) -> Imported:
    """Import StableHLO as MLIR text, as `jax.jit(f).lower(...).as_text(debug_info=True)` of JAX gives it.

    Arguments are parameters; `params` names those that are `{param}`, by patterns as of files (by default those that
    jax calls `params`), `batch` those that carry the batch, with the axis. With Shardy's annotations the program is
    that of all devices of the mesh, unless `distribute` is false. `module.notes` says what is not as annotated. Raises
    importers.ImportRefused (a ValueError), with line and column, OSError for an unreadable file.
    """
    from distir.importers import import_stablehlo

    return import_stablehlo(path, params=params, batch=batch, outline=outline, distribute=distribute)


def import_torch(
    nn_module: Any,
    example_inputs: Sequence[Any] = (),
    weights: bool = True,
    *,
    kwargs: Mapping[str, Any] | None = None,
    cache: bool = False,
    training: bool = False,
    dynamic_batch: bool = False,
    batch: Mapping[str, int] | None = None,
    outline: bool = True,
    dropout: bool = False,
    compare: bool = True,
) -> Imported:
    """Import a PyTorch module, exported with the example inputs, positional or by name (`kwargs`).

    `module.weights` has the data of its parameters and buffers by name. With `cache` the keys and values of a model of
    `transformers` are results. With `training` the module's result is a loss, and the program returns it and the
    gradients of all parameters. With `dynamic_batch` the first dimension of the inputs is `B`; `batch` names the inputs
    with a batch dimension, and the axis. With `dropout` the module drops as in training, from the parameter `%seed`.
    With `compare` a module that is not too large is run beside its program, with random weights and inputs;
    `module.comparison` says how close they are, or why they were not compared.
    Raises importers.ImportRefused (a ValueError).
    """
    from distir.importers import import_torch

    return import_torch(
        nn_module,
        example_inputs,
        weights,
        kwargs=kwargs,
        cache=cache,
        training=training,
        dynamic_batch=dynamic_batch,
        batch=batch,
        outline=outline,
        dropout=dropout,
        compare=compare,
    )
