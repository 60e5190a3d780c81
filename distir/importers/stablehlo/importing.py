"""From a file of StableHLO to a module: its entry function as `@main`, its arguments as parameters."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from distir.analysis import check
from distir.files.reading import MLIR, UnreadError, read_bytes, why_not
from distir.importers.core import Imported, ImportRefused
from distir.importers.names import value_name
from distir.importers.outlining import repeats_outlined
from distir.importers.settling import with_result_names
from distir.importers.stablehlo import control, elementwise, indexing, shapes
from distir.importers.stablehlo.distribution import distributed
from distir.importers.stablehlo.shardings import of_parameter
from distir.importers.stablehlo.tensors import tensor_type
from distir.importers.stablehlo.text import (
    BYTECODE,
    FunctionText,
    MlirParameter,
    ModuleText,
    TextPlace,
    read_module,
    refuse,
)
from distir.importers.stablehlo.translating import DEVICE, StableHlo
from distir.ir import Function, Module, Site, TensorType, results
from distir.ir.collection import paused_collection
from distir.ops import type_of
from distir.transform.outline import outline as outline_repeats

RULES = (control, elementwise, indexing, shapes)
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
    """The program of a file of StableHLO, as jax writes it with `as_text()`.

    The entry function's arguments are parameters of `@main`, called as in Python where the file has their names
    (`as_text(debug_info=True)`). `{param}` are those of floats that `params` names, by patterns as of files; by default
    those that jax calls `params`. `batch` names the arguments that carry the batch, with the axis. Calls, and loops of
    known length, are written out; attention, normalisations and activations become ops, and repeated blocks functions
    unless `outline` is false.

    With annotations of Shardy the program is that of all devices of the mesh, numbered as there, with collectives where
    these shardings need them; unless `distribute` is false. `notes` of the result say what is not as annotated.

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
    entry = _entry(module, file)
    into = StableHlo(module)
    names = _names(entry.params)
    unknown = next((name for name in batch if name not in names), None)
    if unknown is not None:
        message = f"there is no argument `{unknown}` for the batch"
        refuse(message, entry.place, f"the arguments are {', '.join(names) or 'none'}")
    arguments = [
        into.parameter(name, of := tensor_type(p.type, DEVICE, p.place), _roles(p, name, of, params, batch))
        for p, name in zip(entry.params, names, strict=True)
    ]
    given = [of_parameter(p, into.mesh, into.shape(name)) for p, name in zip(entry.params, arguments, strict=True)]
    returned = [into.stacked(name) for name in into.run(entry, arguments, entry.place)]
    wanted = [of_parameter(p, into.mesh, into.shape(name)) for p, name in zip(entry.results, returned, strict=True)]
    called = [_result_name(result, i) for i, result in enumerate(entry.results)]
    main, renamed = with_result_names(into.finish(returned), called)
    into.values.update((new, into.values[old]) for old, new in renamed.items())
    constraints = {renamed.get(name, name): sharding for name, sharding in into.constraints.items()}
    whole = Module((main,))
    found = _outlined(into, main) if outline else whole
    _check(found, into, entry)
    if not distribute or into.mesh is None:
        return Imported(found, {}, (*_others(module, entry), *_unnamed(entry, params)))
    if not constraints.keys() <= _values(found):  # of values inside layers
        found = whole
    made, notes = distributed(found, into.mesh, given, wanted, constraints)
    if outline and found is whole:
        made = outline_repeats(made)
    return Imported(made, {}, (*notes, *_others(module, entry), *_unnamed(entry, params)))


def _outlined(into: StableHlo, main: Function) -> Module:
    stated = {name: type_of(value) for name, value in into.values.items() if name}
    made, main = repeats_outlined(main, {}, stated)
    return Module((*made, main))


def _values(module: Module) -> set[str]:
    """The values that the entry function makes."""
    entry = module.entry()
    return set() if entry is None else {name for statement in entry.body for name in results(statement)}


def _roles(
    param: MlirParameter, name: str, of: TensorType, params: Sequence[str], batch: Mapping[str, int]
) -> dict[str, Any]:
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
        return data.decode()
    except UnicodeDecodeError:
        raise ImportRefused(f"`{path}` is no MLIR text: it is not UTF-8", "write it with `as_text()` of jax") from None


def _entry(module: ModuleText, file: str) -> FunctionText:
    if not module.functions:
        advice = "write it with `jax.jit(f).lower(...).as_text()`"
        refuse("the file has no function `func.func`", TextPlace(file, 1, 1), advice)
    known = list(module.functions.values())
    public = [function for function in known if not function.private] or known
    if "main" in module.functions or len(public) == 1:
        return module.functions.get("main") or public[0]
    listed = ", ".join(f"`@{function.name}`" for function in public)
    advice = "call one of them `@main`, or mark those that it calls as `private`"
    return refuse(f"the file has several functions, and none is called `@main`: {listed}", public[1].place, advice)


def _others(module: ModuleText, entry: FunctionText) -> tuple[str, ...]:
    """A remark on functions beside the entry that a program could begin with, too."""
    others = [f"`@{f.name}`" for f in module.functions.values() if not f.private and f is not entry]
    if not others:
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
        made = results(found.functions[site.function].body[site.index])
        place = next((into.places[name] for name in made if name in into.places), place)
    refuse(f"what the file says does not check: {error.message}", place)
