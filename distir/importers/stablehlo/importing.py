"""From a file of StableHLO to a module: its entry function as `@main`, its arguments as parameters."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from distir.analysis import check
from distir.files.reading import MLIR, UnreadError, read_bytes, why_not
from distir.importers.core import Imported, ImportRefused
from distir.importers.names import value_name
from distir.importers.outlining import repeats_outlined
from distir.importers.settling import with_result_names
from distir.importers.stablehlo import (
    complexes,
    control,
    elementwise,
    indexing,
    layers,
    manual,
    shapes,
    sorting,
    windows,
)
from distir.importers.stablehlo.complexes import real_type
from distir.importers.stablehlo.dialects import other_than_stablehlo
from distir.importers.stablehlo.distribution import SHOWN, distributed
from distir.importers.stablehlo.elementwise import into_sizes
from distir.importers.stablehlo.manual import layouts_of
from distir.importers.stablehlo.shardings import Sharding, of_parameter
from distir.importers.stablehlo.shardings import stated as stated_sharding
from distir.importers.stablehlo.tensors import tensor_type
from distir.importers.stablehlo.text import (
    BYTECODE,
    MALFORMED,
    FunctionText,
    MlirParameter,
    ModuleText,
    TextPlace,
    read_module,
    refuse,
)
from distir.importers.stablehlo.translating import DEVICE, StableHlo
from distir.ir import DTYPES, Dense, Function, Module, Site, TensorType
from distir.ir import results as results_of
from distir.ir.collection import paused_collection
from distir.ops import type_of
from distir.transform.outline import outline as outline_repeats

RULES = (complexes, control, elementwise, indexing, layers, manual, shapes, sorting, windows)
"""Where operations have their rules: importing these registers them."""

PARAMS = ("params", "params.*", "weights.*", "*.params.*", "model.*", "variables.params.*")
"""What jax calls the weights of a function, where the file has its names."""


def import_stablehlo(
    path: str | os.PathLike[str],
    *,
    params: Sequence[str] = (),
    batch: Mapping[str, int] | None = None,
    outline: bool = True,
    distribute: bool = True,
) -> Imported:
    """The program of a file of StableHLO, as jax writes it with `as_text()`, and torch-xla.

    The entry function's arguments are parameters of `@main`, called as in Python where the file has their names
    (`as_text(debug_info=True)`). Without `@main`, each public function is imported. `{param}` are those of floats that
    `params` names, by patterns as of files; by default those that jax calls `params`. `batch` names the arguments that
    carry the batch, with the axis. Calls, and loops of known length, are written out; attention, normalisations and
    activations become ops, and repeated blocks functions unless `outline` is false.

    With annotations of Shardy or GSPMD the program is that of all devices of the mesh, numbered as there, with
    collectives where these shardings need them; unless `distribute` is false. With regions for one device
    (`jax.shard_map`) it is that of one that represents all. `notes` of the result say what is not as in the file.

    Raises ImportRefused, with file, line and column, for what cannot be imported, OSError for a file that cannot be
    read.
    """
    file = os.fspath(path)
    with paused_collection():
        return _imported(_text(file), file, params, batch or {}, outline, distribute)


def _imported(
    text: str, file: str, params: Sequence[str], batch: Mapping[str, int], outline: bool, distribute: bool
) -> Imported:
    module = read_module(text, file)
    entries = _entries(module, file)
    named = {name for entry in entries for name in _names(entry.params)}
    unknown = next((name for name in batch if name not in named), None)
    if unknown is not None:
        message = f"there is no argument `{unknown}` for the batch"
        refuse(message, entries[0].place, f"the arguments are {', '.join(sorted(named)) or 'none'}")

    def program(entry: FunctionText) -> Imported:
        try:
            return _program(module, entry, params, batch, outline and len(entries) == 1, distribute)
        except MALFORMED as error:
            if isinstance(error, ImportRefused):
                raise
            message = f"types and annotations of `@{entry.name}`, and what it calls, do not fit"
            refuse(message, entry.place, "check the file with `stablehlo-opt`")

    return program(entries[0]) if len(entries) == 1 else _each(entries, program)


def _each(entries: Sequence[FunctionText], program: Callable[[FunctionText], Imported]) -> Imported:
    """The programs of several functions, called as these are. Raises ImportRefused where there is none."""
    found: dict[str, Imported] = {}
    notes: list[str] = []
    left: list[ImportRefused] = []
    for entry in entries:
        try:
            found[entry.name] = program(entry)
        except ImportRefused as refused:
            left.append(refused)
            notes.append(f"`@{entry.name}` is left out: {refused.message}")
    if not found:
        raise left[0]
    functions = [replace(f, name=f.name.replace("main", name, 1)) for name, one in found.items() for f in one]
    shared = [note for note in next(iter(found.values())).notes if all(note in one.notes for one in found.values())]
    notes += [f"`@{name}`: {note}" for name, one in found.items() for note in one.notes if note not in shared]
    said = "no function is called `@main`: each public one is imported, and `--function` says which is meant"
    return Imported(Module(tuple(functions)), {}, (said, *notes, *shared))


def _program(
    module: ModuleText,
    entry: FunctionText,
    params: Sequence[str],
    batch: Mapping[str, int],
    outline: bool,
    distribute: bool,
) -> Imported:
    """The program that begins with a function; what is malformed raises one of `MALFORMED`."""
    into = StableHlo(module, entry, distribute)
    parts = layouts_of(entry, into.mesh) if distribute else {}
    names = _names(entry.params)
    arguments = [
        _argument(into, p, name, _roles_of(p, name, params, batch), parts.get(p.name))
        for p, name in zip(entry.params, names, strict=True)
    ]
    stated = {part: p for p, name in zip(entry.params, arguments, strict=True) for part in into.parts([name])}
    outcome = [into.parts([into.stacked(name)]) for name in into.run(entry, arguments, entry.place)]
    results = [p for p, parts in zip(entry.results, outcome, strict=True) for _ in parts]
    returned = [into.stacked(name) for parts in outcome for name in parts]
    declared = [(stated.get(param.name), param.name) for param in into.builder.params]
    given, wanted = list[Sharding | None](), list[Sharding | None]()
    if not into.regions:
        given = [None if p is None else of_parameter(p, into.mesh, into.shape(name)) for p, name in declared]
        wanted = [of_parameter(p, into.mesh, into.shape(name)) for p, name in zip(results, returned, strict=True)]
    called = [_result_name(result, i) for i, result in enumerate(results)]
    main, renamed = with_result_names(into.finish(returned), called)
    into.values.update((new, into.values[old]) for old, new in renamed.items())
    constraints = {renamed.get(name, name): sharding for name, sharding in into.constraints.items()}
    whole = Module((main,))
    found = _outlined(into, main) if outline else whole
    _check(found, into, entry)
    if not distribute or into.mesh is None or into.regions:
        return Imported(found, into.weights, _remarks(into, entry, params))
    if not constraints.keys() <= _values(found):  # of values inside layers
        found = whole
    made, notes = distributed(found, into.mesh, given, wanted, constraints)
    if outline and found is whole:
        made = outline_repeats(made)
    if into.weights:
        notes.append("what weights are is in the file, and left out of the program for several devices")
    return Imported(made, {}, (*notes, *_remarks(into, entry, params)))


def _argument(into: StableHlo, param: MlirParameter, name: str, roles: dict[str, Any], part: Any) -> str:
    """A parameter of `@main` for an argument; two for a complex one. `part`: the sharding by which a device has it."""
    if param.attributes.get("jax.global_constant") == "_platform_index":
        return into.known_value(Dense(DTYPES["Int32"], (), (0,)))
    of = tensor_type(real_type(param.type), DEVICE, param.place)
    if real_type(param.type) != param.type:
        made = [into.parameter(f"{name}.{side}", of, roles) for side in ("real", "imag")]
        pair = into.builder.fresh(name)
        into.pairs[pair] = made[0], made[1]
        return pair
    if part is None:
        return into.parameter(name, of, roles)
    layout = stated_sharding(part, into.mesh, into_sizes(of.shape), param.place)
    counts = [math.prod(size for size, _ in into.levels(axes)) for axes in layout.dims]
    shape = tuple(size // count for size, count in zip(into_sizes(of.shape), counts, strict=True))
    given = into.parameter(name, TensorType(of.dtype, shape, DEVICE), roles)
    into.layouts[given] = layout
    return given


def _outlined(into: StableHlo, main: Function) -> Module:
    stated = {name: type_of(value) for name, value in into.values.items() if name}
    made, main = repeats_outlined(main, {}, stated)
    return Module((*made, main))


def _values(module: Module) -> set[str]:
    """The values that the entry function makes."""
    entry = module.entry()
    return set() if entry is None else {name for statement in entry.body for name in results_of(statement)}


def _roles_of(param: MlirParameter, name: str, params: Sequence[str], batch: Mapping[str, int]) -> dict[str, Any]:
    of = tensor_type(real_type(param.type), DEVICE, param.place)
    roles: dict[str, Any] = {}
    if of.dtype is not None and of.dtype.kind == "float" and _is_weight(name, params, bool(param.location)):
        roles["param"] = True
    if name in batch:
        if not -len(of.shape or ()) <= batch[name] < len(of.shape or ()):
            refuse(f"`{name}` has no dimension {batch[name]}: it is `{of}`", param.place)
        roles["batch"] = batch[name]
    if "tf.aliasing_output" in param.attributes or param.attributes.get("jax.buffer_donor"):
        roles["donated"] = True
    return roles


def _remarks(into: StableHlo, entry: FunctionText, params: Sequence[str]) -> tuple[str, ...]:
    """What is to be said of what was imported."""
    left = ", ".join(f"`%{name}`" for name in into.missing[:SHOWN]) + ", …" * (len(into.missing) > SHOWN)
    missing = (f"the file leaves out what weights are: {left} are parameters without data",) if left else ()
    drawn = ("what dropout keeps is drawn anew: not as jax does from its keys",) if into.drawn else ()
    return (*_of_regions(into), *_others(into.module, entry), *missing, *drawn, *_unnamed(entry, params))


def _of_regions(into: StableHlo) -> tuple[str, ...]:
    """What is to be said of regions for one device of the mesh."""
    if not into.regions or into.mesh is None:
        return ()
    axes = " · ".join(f"{name}={size}" for name, size in into.mesh.axes.items())
    said = [
        f"the program is that of one of {into.mesh.size} devices ({axes}), and the others run the same: its "
        "collectives state their groups"
    ]
    if into.shared_axes:
        listed = ", ".join(f"`{axis}`" for axis in sorted(into.shared_axes))
        said.append(f"along {listed} all devices do the same: the file leaves these axes to the compiler")
    if into.gathered:
        names = ", ".join(f"`%{name}`" for name in list(into.gathered)[:SHOWN])
        said.append(
            f"each device gathers {names} for operations outside of `shard_map`; a compiler may do it otherwise"
        )
    return tuple(said)


def _unnamed(entry: FunctionText, params: Sequence[str]) -> tuple[str, ...]:
    if params or any(param.location for param in entry.params):
        return ()
    return (
        "the file does not say what its arguments are called, and none is marked as `{param}`: write it with "
        "`as_text(debug_info=True)`, or name the weights with `--params`",
    )


def _text(path: str) -> str:
    """The text of a file. Raises ImportRefused, and OSError."""
    try:
        data = read_bytes(path, MLIR)
    except UnreadError as error:
        raise ImportRefused(f"cannot read `{path}`: {why_not(error)}", error.help) from None
    if data.startswith(BYTECODE):
        advice = (
            "write it as text: `jax.jit(f).lower(...).as_text(debug_info=True)`, or `stablehlo-translate --deserialize`"
        )
        raise ImportRefused(f"`{path}` is MLIR bytecode", advice)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ImportRefused(f"`{path}` is no MLIR text: it is not UTF-8", "write it with `as_text()` of jax") from None
    if other := other_than_stablehlo(text):
        raise ImportRefused(f"`{path}` is {other[0]}, not StableHLO", other[1])
    return text


def _entries(module: ModuleText, file: str) -> list[FunctionText]:
    """`@main`, or else the functions that no other calls."""
    known = [function for function in module.functions.values() if not function.declared]
    if not known:
        advice = "write it with `jax.jit(f).lower(...).as_text()`"
        refuse("the file has no function `func.func` with a body", TextPlace(file, 1, 1), advice)
    public = [function for function in known if not function.private] or known
    main = [function for function in known if function.name == "main"]
    if main or len(public) == 1:
        return main or public
    return public


def _others(module: ModuleText, entry: FunctionText) -> tuple[str, ...]:
    """A remark on functions beside `@main` that a program could begin with, too."""
    others = [f"`@{f.name}`" for f in module.functions.values() if not f.private and f is not entry]
    if not others or entry.name != "main":
        return ()
    return (f"imported is `@{entry.name}` with what it calls; the file also has {', '.join(others)}",)


def _names(params: Sequence[MlirParameter]) -> list[str]:
    """What arguments are called: as in Python, where the file says so (`params['w'][0]` is `params.w.0`)."""
    found: list[str] = []
    for param in params:
        name = path_name(param.location) if param.location else param.name.lstrip("%")
        found.append(name if name not in found else f"{name}.{param.name.lstrip('%')}")
    return found


def path_name(path: str) -> str:
    """A path into a tree of jax as a name: `params['layers'][0].kernel` is `params.layers.0.kernel`."""
    return value_name(re.sub(r"\[['\"]?([^\]]*?)['\"]?\]", r".\1", path).replace("..", "."))


def _is_weight(name: str, params: Sequence[str], named: bool) -> bool:
    if params:
        return any(fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*") for pattern in params)
    return named and any(fnmatchcase(name, pattern) for pattern in PARAMS)


def _result_name(result: MlirParameter, number: int) -> str:
    said = result.attributes.get("jax.result_info")
    return path_name(said) if isinstance(said, str) and said else f"result.{number}"


def _check(found: Module, into: StableHlo, entry: FunctionText) -> None:
    """Raises ImportRefused for a program that does not check, with the place of the operation in the file."""
    error = next(iter(check(found).errors), None)
    if error is None:
        return
    site, place = error.site, entry.place
    if isinstance(site, Site) and site.index is not None:
        made = results_of(found.functions[site.function].body[site.index])
        place = next((into.places[name] for name in made if name in into.places), place)
    refuse(f"what the file says does not check: {error.message}", place)
