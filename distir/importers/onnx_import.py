"""From an ONNX model to a module: its inputs and initializers as parameters of `@main`, its graph as the body."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distir.analysis import check
from distir.diagnostics import Diagnostic
from distir.diagnostics.codes.names import UNKNOWN_OP
from distir.importers.core import Freed, Imported, ImportRefused, Weight
from distir.importers.declared import check_declared, check_elements
from distir.importers.functions import Functions
from distir.importers.host_values import host_values
from distir.importers.names import dimension_name, value_name
from distir.importers.onnx_file import check_model, read_model, weight
from distir.importers.onnx_graph import SMALL, GraphTranslation
from distir.importers.onnx_nodes import LARGEST_ATTRIBUTE, STANDARD, needs
from distir.importers.onnx_types import tensor_type
from distir.importers.opsets import at_our_opset
from distir.importers.outlining import layers_outlined, repeats_outlined
from distir.importers.settling import with_result_names
from distir.importers.translation import DEVICE, MAIN
from distir.importers.weight_roles import Roles, model_roles
from distir.ir import HOST, DimensionError, Function, Site, SymbolicDim, TensorType, dims, results, types
from distir.ir.collection import paused_collection
from distir.ops import to_dense, type_of
from distir.ops.infer import FOLD_LIMIT

if TYPE_CHECKING:
    import onnx

BATCH = "B"
"""What a batch dimension is called that the export had fixed."""


def import_onnx(
    path: str | os.PathLike[str],
    weights: bool = True,
    *,
    batch: Mapping[str, int] | None = None,
    bind: Mapping[str, int] | None = None,
    outline: bool = True,
) -> Imported:
    """The program of an ONNX file, on device 1.

    Initializers become `{param}` parameters of `@main`; their data is found in `weights` of the result, each read when
    it is looked up, and none without `weights`. Small integers, and whatever a shape depends on, become constants. A
    symbolic dimension keeps its name. Inputs that carry the batch are marked: those whose first dimension is symbolic,
    or by `batch`, the axis by input; a size that the export has fixed there is freed again and called `B`, wherever the
    model's ops hold it (see `importers.freeing`). `bind` gives
    sizes to named dimensions. Repeated blocks become functions unless `outline` is false.

    Raises ImportRefused for what cannot be imported, OSError for a file that cannot be read.
    """
    path = os.fspath(path)
    with paused_collection():
        return import_model(
            read_model(path),
            os.path.dirname(os.path.abspath(path)),
            weights,
            batch=batch,
            bind=bind,
            outline=outline,
            path=path,
        )


def import_model(
    model: onnx.ModelProto,
    folder: str,
    weights: bool = True,
    *,
    batch: Mapping[str, int] | None = None,
    bind: Mapping[str, int] | None = None,
    outline: bool = True,
    given: Mapping[str, Weight] | None = None,
    roles: Mapping[str, Roles] | None = None,
    path: str = "the model",
) -> Imported:
    """The program of a model in memory; data of external tensors is looked for in `folder`. See `import_onnx`.

    `given`: inputs of the graph that are weights, if it is known which are; `roles`: their roles.
    """
    check_model(model, path)
    scopes = {name: scope for n in model.graph.node if (scope := _scope(n)) for name in n.output if name}
    tensors = {**_initializers(model, folder), **(_weights_of_constants(model, folder) if given is None else given)}
    declared = model if given is None else None
    model, notes = at_our_opset(model, tensors)
    graph = model.graph
    tensors |= {t.name: weight(t, folder) for t in graph.initializer if t.name not in tensors}  # the converter's own
    host = host_values(graph)
    inputs, fixed = _inputs(graph, tensors, host, batch or {}, bind or {})
    known = {**model_roles(graph, tensors), **(roles or {})}
    read = _Read(
        model, folder, tensors, host, None if given is None else frozenset(given), inputs, scopes, known, declared
    )
    if fixed is None:
        return _translated(read, None, weights, outline, notes)
    first, second = Freed(BATCH, fixed), Freed(BATCH, fixed, guesses=True)
    if fixed == 1:  # where an export has counted one row, nothing else tells that it was the batch
        first, second = second, first
    try:
        return _translated(read, first, weights, outline, notes)
    except ImportRefused as refused:
        with suppress(ImportRefused):
            return _translated(read, second, weights, outline, notes)
        raise refused from None


@dataclass(frozen=True, slots=True)
class _Read:
    """What has been read of a model: its weights and its inputs by name, and the modules that values are in."""

    model: onnx.ModelProto
    folder: str
    tensors: Mapping[str, Weight]
    host: set[str]
    given: frozenset[str] | None
    inputs: Mapping[str, tuple[TensorType, dict[str, Any]]]
    scopes: Mapping[str, tuple[tuple[str, str], ...]]
    roles: Mapping[str, Roles]
    """Of weights, by name."""
    declared: onnx.ModelProto | None
    """What the file says of its values, where the model is a file."""


def _translated(read: _Read, freed: Freed | None, weights: bool, outline: bool, notes: list[str]) -> Imported:
    """The program. Raises ImportRefused."""
    graph = read.model.graph
    functions = Functions({(f.domain, f.name): f for f in read.model.functions}, length=read.model.ByteSize())
    main = GraphTranslation(MAIN, functions, read.folder, freed)
    main.used = frozenset(name for n in graph.node for name in needs(n)) | {value.name for value in graph.output}
    main.wanted = _wanted(graph)
    for name, found in read.tensors.items():
        if name in main.used:
            _add(main, name, found, name in read.host, read)
    for name, (stated_type, roles) in read.inputs.items():
        main.parameter(name, stated_type, roles)
    main.nodes(graph.node)
    if read.declared is not None:
        check_elements(graph.node, main.type_of)
        notes = [*notes, *check_declared(read.declared, read.tensors, main.type_of)]
    entry = _finished(main, [value.name for value in graph.output])
    described = {main.env[name]: scope for name, scope in read.scopes.items() if name in main.env}
    blocks: tuple[Function, ...] = ()
    if outline:
        stated = {name: type_of(value) for name, value in main.values.items() if name}
        taken = {f.name for f in functions.made.values()}
        layers, entry = layers_outlined(entry, described, stated, taken)
        repeats, entry = repeats_outlined(entry, described, stated, taken | {f.name for f in layers})
        blocks = (*layers, *repeats)
    said = [*notes, *(_unknown(op, domain) for op, domain in functions.opaque.items())]
    imported = Imported((*functions.made.values(), *blocks, entry), main.weights if weights else {}, said)
    if freed is None:
        wrong = () if read.declared is None else _wrong(imported)
        return Imported(imported, imported.weights.entries, (*said, *wrong)) if wrong else imported
    _check_freed(imported, freed)
    whole = next((n for n in entry.returned if not _of_batch(main, n, freed)), None)
    if whole is None or freed.size == 1:
        return imported
    note = (
        f"`%{whole}` is not made for each member of the batch, and numbers that were computed from the batch's size, "
    )
    note += f"as the divisor of a mean is, stay those of {freed.size}: export the model with a symbolic batch dimension"
    return Imported(imported, imported.weights.entries, (*said, note))


def _of_batch(main: GraphTranslation, name: Any, freed: Freed) -> bool:
    """Whether a result has the batch as one of its dimensions."""
    stated = type_of(main.values[name]) if isinstance(name, str) and name in main.values else None
    shape = stated.shape if isinstance(stated, TensorType) else None
    return shape is None or any(freed.within(dim) for dim in shape)


def _finished(main: GraphTranslation, outputs: list[str]) -> Function:
    """`@main`, its results called as the graph's outputs where these names are free. Raises ImportRefused."""
    if not all(outputs):
        raise ImportRefused("the graph has an output without a name")
    missing = next((name for name in outputs if name not in main.env), None)
    if missing is not None:
        raise ImportRefused(f"the graph gives `{missing}`, which nothing defines")
    entry, renamed = with_result_names(main.finish(outputs), list(map(value_name, outputs)))
    main.values.update((new, main.values[old]) for old, new in renamed.items() if old in main.values)
    return entry


def _unknown(op: str, domain: str) -> str:
    return (
        f"`{op}` of the domain `{domain}` is no op that is known here: the program has it as it is; "
        "define it with `@distir.op`, in a package that registers under the entry-point group `distir.plugins`"
    )


def _wrong(imported: Imported) -> tuple[str, ...]:
    """What to say of a file with an op that does not fit its operands, or has an attribute that cannot be."""
    error = next((error for error in check(imported).errors if error.code is not UNKNOWN_OP), None)
    if error is None:
        return ()
    return (f"the model is wrong{_at(imported, error)}: {error.message}; `distir check` shows where, of the program",)


def _at(imported: Imported, error: Diagnostic) -> str:
    """What a statement that is wrong makes."""
    site = error.site
    if not isinstance(site, Site) or site.index is None:
        return ""
    made = next(filter(None, results(imported.functions[site.function].body[site.index])), "")
    return f" at `%{made}`"


def _check_freed(imported: Imported, freed: Freed) -> None:
    """Raises ImportRefused where the model holds for the one batch size that it was exported with."""
    errors = check(imported).errors
    if errors:
        raise ImportRefused(
            f"the batch size {freed.size} is fixed inside the model{_at(imported, errors[0])}: {errors[0].message}",
            "export the model with a symbolic batch dimension",
        )


def _add(main: GraphTranslation, name: str, found: Weight, host: bool, read: _Read) -> None:
    """Add an initializer: a constant if it is small or known before the program runs, else a parameter.

    Small floats may be weights, unless it is known which tensors are (`read.given`).
    """
    size, given = math.prod(found.shape), read.given
    number = found.shape == () or (size <= SMALL and (found.dtype.kind != "float" or given is not None))
    if (number and name not in (given or ())) or (host and size <= FOLD_LIMIT):
        main.constant(name, to_dense(found.load()))
    else:
        main.weight(name, found, DEVICE, read.roles[name])


def _initializers(model: onnx.ModelProto, folder: str) -> dict[str, Weight]:
    found: dict[str, Weight] = {}
    if model.graph.sparse_initializer:
        name = model.graph.sparse_initializer[0].values.name
        raise ImportRefused(f"`{name}` is a sparse tensor, which the language lacks", "store it as a dense one")
    for tensor in model.graph.initializer:
        if tensor.name in found:
            raise ImportRefused(f"two initializers are called `{tensor.name}`")
        found[tensor.name] = weight(tensor, folder)
    return found


def _weights_of_constants(model: onnx.ModelProto, folder: str) -> dict[str, Weight]:
    """The tensors of `Constant` nodes that are weights: those that are too large for a text.

    Where a model has no initializers, as some exporters write it, all floats that are not single numbers.
    """
    nodes = [n for n in model.graph.node if n.domain in STANDARD and n.op_type == "Constant" and n.output[:1] != [""]]
    held = {n.output[0]: weight(a.t, folder) for n in nodes for a in n.attribute if a.HasField("t") and n.output}
    all_floats = not model.graph.initializer
    return {
        name: w
        for name, w in held.items()
        if (size := math.prod(w.shape)) > LARGEST_ATTRIBUTE or (all_floats and w.dtype.kind == "float" and size > 1)
    }


def _inputs(
    graph: onnx.GraphProto,
    tensors: Mapping[str, Weight],
    host: set[str],
    batch: Mapping[str, int],
    bind: Mapping[str, int],
) -> tuple[dict[str, tuple[TensorType, dict[str, Any]]], int | None]:
    """The inputs' types and roles, and the size that the batch was fixed to."""
    given = [value for value in graph.input if value.name not in tensors]
    unknown = next((name for name in batch if name not in {value.name for value in given}), None)
    if unknown is not None:
        known = ", ".join(f"`{value.name}`" for value in given)
        raise ImportRefused(f"there is no input `{unknown}` for the batch", f"the inputs are {known}")
    found = {value.name: tensor_type(value, DEVICE) for value in given}
    for name, t in found.items():
        if name in host and t.shape is not None and len(t.shape) < 2:
            found[name] = TensorType(t.dtype, t.shape, HOST)
    try:
        bound = {dimension_name(name): size for name, size in bind.items()}
        found = {name: _substituted(t, bound) for name, t in found.items()}
    except DimensionError as error:
        raise ImportRefused(str(error)) from None
    fixed: set[int] = set()
    for name, axis in batch.items():
        shape = found[name].shape or ()
        if not -len(shape) <= axis < len(shape):
            raise ImportRefused(f"`{name}` has no dimension {axis}: it is `{found[name]}`")
        size = shape[axis]
        if isinstance(size, int):
            fixed.add(size)
            sizes = list(shape)
            sizes[axis] = dims.named(BATCH)
            found[name] = TensorType(found[name].dtype, tuple(sizes), found[name].device)
    if len(fixed) > 1:
        raise ImportRefused(f"the inputs of the batch differ in size: {', '.join(map(str, sorted(fixed)))}")
    axes = {name: axis % len(found[name].shape or ()) for name, axis in batch.items()} or _leading_batch(found)
    typed = {name: (t, {"batch": axes[name]} if name in axes else {}) for name, t in found.items()}
    return typed, fixed.pop() if fixed else None


def _substituted(type: TensorType, bound: Mapping[str, int]) -> TensorType:
    result = types.substitute(type, bound)
    assert isinstance(result, TensorType)
    return result


def _leading_batch(found: Mapping[str, TensorType]) -> dict[str, int]:
    """The inputs whose first dimension is the batch: the symbol that is called so, else the first symbol there is."""
    leading = {n: t.shape[0] for n, t in found.items() if t.shape and isinstance(t.shape[0], SymbolicDim)}
    likely = [dim for dim in leading.values() if re.match(r"(?i)b$|n$|.*batch", str(dim))]
    chosen = next(iter(likely or leading.values()), None)
    return {name: 0 for name, dim in leading.items() if dim == chosen}


def _wanted(graph: onnx.GraphProto) -> dict[str, str]:
    """What values are called that reach the graph's outputs through `Identity` alone: as the outputs."""
    makers = {name: node for node in graph.node for name in node.output}
    found: dict[str, str] = {}
    for output in graph.output:
        name = output.name
        while name in makers and makers[name].op_type == "Identity":
            name = makers[name].input[0]
        found.setdefault(name, value_name(output.name))
    return found


def _scope(node: onnx.NodeProto) -> tuple[tuple[str, str], ...]:
    """The modules that a node is in, from the outermost: names and classes, where the exporter left them."""
    entries = {entry.key: entry.value for entry in node.metadata_props}
    names = re.findall(r"'([^']*)'", entries.get("pkg.torch.onnx.name_scopes", ""))
    classes = re.findall(r"'([^']*)'", entries.get("pkg.torch.onnx.class_hierarchy", ""))
    if len(names) == len(classes) > 0:
        pairs = zip(names[:-1], classes[:-1], strict=True)
        return tuple((name, cls.rpartition(".")[2]) for name, cls in pairs)
    parts = node.name.strip("/").split("/")[:-1] if node.name.startswith("/") else []
    return tuple((part, "") for part in parts)
