"""From an ONNX model to a module: its inputs and initializers as parameters of `@main`, its graph as the body."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from distir.analysis import check
from distir.importers.core import Imported, ImportRefused, Weight
from distir.importers.names import dimension_name, value_name
from distir.importers.onnx_file import check_model, read_model, weight
from distir.importers.onnx_graph import SMALL, Functions, Translation
from distir.importers.onnx_nodes import STANDARD, needs
from distir.importers.onnx_types import tensor_type
from distir.importers.outline import outlined
from distir.importers.settling import with_result_names
from distir.ir import HOST, DimensionError, Function, Site, SymbolicDim, TensorType, dims, results, types
from distir.ir.collection import paused_collection
from distir.ops import OPS, to_dense, type_of
from distir.ops.bridge.schema import OPSET
from distir.ops.infer import FOLD_LIMIT
from distir.ops.signature import TensorPattern

if TYPE_CHECKING:
    import onnx

DEVICE = 1
"""Where an imported model lives."""

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
    or by `batch`, the axis by input; a size that the export has fixed there is freed again and called `B`. `bind` gives
    sizes to named dimensions. Repeated blocks become functions unless `outline` is false.

    Raises ImportRefused for what cannot come in, OSError for a file that cannot be read.
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
    path: str = "the model",
) -> Imported:
    """The program of a model in memory; data of external tensors is looked for in `folder`. See `import_onnx`.

    `given`: inputs of the graph that are weights.
    """
    check_model(model, path)
    scopes = {name: scope for n in model.graph.node if (scope := _scope(n)) for name in n.output if name}
    tensors = {**_initializers(model, folder), **(given or {})}
    model, notes = _at_our_opset(model, tensors)
    graph = model.graph
    functions = Functions({(f.domain, f.name): f for f in model.functions})
    host = _host_values(graph)
    inputs, freed = _inputs(graph, tensors, host, batch or {}, bind or {})
    main = Translation("main", functions, folder, freed)
    main.used = frozenset(name for n in graph.node for name in needs(n)) | {value.name for value in graph.output}
    main.wanted = _wanted(graph)
    for name, found in tensors.items():
        if name in main.used:
            _add(main, name, found, name in host, name in (given or {}))
    for name, (stated_type, roles) in inputs.items():
        main.parameter(name, stated_type, roles)
    main.nodes(graph.node)
    entry = _finished(main, [value.name for value in graph.output])
    described = {main.env[name]: scope for name, scope in scopes.items() if name in main.env}
    blocks: tuple[Function, ...] = ()
    if outline:
        stated = {name: type_of(value) for name, value in main.values.items() if name}
        blocks, entry = outlined(entry, described, stated, {f.name for f in functions.made.values()})
    notes += [_unknown(op, domain) for op, domain in functions.opaque.items()]
    imported = Imported((*functions.made.values(), *blocks, entry), main.weights if weights else {}, notes)
    if freed is not None:
        _check_freed(imported, freed)
    return imported


def _finished(main: Translation, outputs: list[str]) -> Function:
    """`@main`, its results called as the graph's outputs where these names are free. Raises ImportRefused."""
    if not all(outputs):
        raise ImportRefused("the graph has an output without a name")
    missing = next((name for name in outputs if name not in main.env), None)
    if missing is not None:
        raise ImportRefused(f"the graph gives `{missing}`, which nothing defines")
    entry, renamed = with_result_names(main.finish(outputs), list(map(value_name, outputs)))
    main.values.update((new, main.values[old]) for old, new in renamed.items())
    return entry


def _unknown(op: str, domain: str) -> str:
    return (
        f"`{op}` of the domain `{domain}` is no op that is known here: it stands in the program as it is; "
        "define it with `@distir.op`, in a package that registers under the entry-point group `distir.ops`"
    )


def _check_freed(imported: Imported, freed: tuple[str, int]) -> None:
    """Raises ImportRefused where the model holds for the one batch size that it was exported with."""
    errors = check(imported).errors
    if errors:
        site, where = errors[0].site, ""
        if isinstance(site, Site) and site.index is not None:
            made = next(filter(None, results(imported.functions[site.function].body[site.index])), "")
            where = f" at `%{made}`"
        raise ImportRefused(
            f"the batch size {freed[1]} is fixed inside the model{where}: {errors[0].message}",
            "export the model with a symbolic batch dimension",
        )


def _add(main: Translation, name: str, found: Weight, host: bool, trained: bool) -> None:
    """Add an initializer: a constant if it is small or known before the program runs, else a parameter."""
    size = math.prod(found.shape)
    number = found.dtype.kind != "float" and size <= SMALL
    if (not trained and (number or found.shape == ())) or (host and size <= FOLD_LIMIT):
        main.constant(name, to_dense(found.load()))
    else:
        main.weight(name, found, DEVICE)


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


def _at_our_opset(model: onnx.ModelProto, tensors: Mapping[str, Weight]) -> tuple[onnx.ModelProto, list[str]]:
    """The model, converted where one of its ops has changed since the operator set that the model is for.

    The data of large initializers does not take part: it would be copied. Raises ImportRefused for a version that is
    newer than what is known here, or is none.
    """
    from onnx import shape_inference, version_converter

    stated = [entry.version for entry in model.opset_import if entry.domain in STANDARD]
    version = stated[0] if stated else 1 if model.ir_version < 3 else OPSET
    if not 1 <= version <= OPSET:
        known = f"versions 1 to {OPSET} of ONNX's operator set are known"
        raise ImportRefused(f"the model is for version {version}; {known}", "export it for one of these")
    if all(_unchanged(node, version) for node in _every_node(model.graph)):
        return model, []
    light = _without_data(model, tensors)
    try:
        _check_nodes(model, version)  # the converter ends the process on attributes of a wrong kind
    except Exception as error:
        return model, [_unconverted(version, error)]
    with suppress(Exception):  # what is wrong there will be said of the program
        light = shape_inference.infer_shapes(light, data_prop=True)  # with ranks known, less is written around ops
    try:
        return version_converter.convert_version(light, OPSET), []
    except Exception as error:  # the converter knows no way: most ops are written the same all along
        return model, [_unconverted(version, error)]


def _check_nodes(model: onnx.ModelProto, version: int) -> None:
    """Raises onnx's ValidationError for a node of the standard domain that does not fit its schema."""
    from onnx import checker

    context: Any = type(checker.DEFAULT_CONTEXT)()
    context.ir_version = model.ir_version
    context.opset_imports = {entry.domain: entry.version for entry in model.opset_import} | {"": version}
    for node in _every_node(model.graph):
        if node.domain in STANDARD and not any(a.HasField("g") for a in node.attribute):
            checker.check_node(node, context)


def _unconverted(version: int, error: Exception) -> str:
    said = str(error).strip().split("\n")[0]
    return f"not converted from version {version} of ONNX's operator set to {OPSET}: {said}"


def _without_data(model: onnx.ModelProto, tensors: Mapping[str, Weight]) -> onnx.ModelProto:
    """A copy in which tensors that hold more than a few elements are inputs."""
    import onnx
    from onnx import helper

    light = onnx.ModelProto()
    light.ir_version = model.ir_version
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    light.graph.name = model.graph.name
    light.graph.node.extend(model.graph.node)
    light.graph.input.extend(model.graph.input)
    light.graph.output.extend(model.graph.output)
    present = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if math.prod(tensors[tensor.name].shape) <= SMALL and not tensor.external_data:
            light.graph.initializer.append(tensor)
        elif tensor.name not in present:
            light.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    return light


def _unchanged(node: onnx.NodeProto, version: int) -> bool:
    import onnx.defs

    if node.domain not in STANDARD:
        return True
    try:
        then = onnx.defs.get_schema(node.op_type, version, "")
        return then.since_version == onnx.defs.get_schema(node.op_type, OPSET, "").since_version
    except onnx.defs.SchemaError:
        return True


def _every_node(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    inner = [n for node in graph.node for a in node.attribute if a.HasField("g") for n in _every_node(a.g)]
    return [*graph.node, *inner]


def _inputs(
    graph: onnx.GraphProto,
    tensors: Mapping[str, Weight],
    host: set[str],
    batch: Mapping[str, int],
    bind: Mapping[str, int],
) -> tuple[dict[str, tuple[TensorType, dict[str, Any]]], tuple[str, int] | None]:
    """The inputs' types and roles, and the batch dimension that was freed: its name and what it was fixed to."""
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
    return typed, (BATCH, fixed.pop()) if fixed else None


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


def _host_values(graph: onnx.GraphProto) -> set[str]:
    """The values that some op wants before the program runs, and what these are computed from."""
    wanted: set[str] = set()
    for node in reversed(graph.node):
        op = OPS.get(node.op_type) if node.domain in STANDARD else None
        computed = node.op_type not in ("Shape", "Size") and any(name in wanted for name in node.output)
        for i, name in enumerate(node.input):
            if name and (computed or (op is not None and _on_host(op.signatures[0].operands, i))):
                wanted.add(name)
    return wanted


def _on_host(places: Any, index: int) -> bool:
    if not places:
        return False
    pattern = places[min(index, len(places) - 1)].pattern
    return isinstance(pattern, TensorPattern) and pattern.device == "host"


def _scope(node: onnx.NodeProto) -> tuple[tuple[str, str], ...]:
    """The modules that a node stands in, from the outermost: names and classes, where the exporter left them."""
    entries = {entry.key: entry.value for entry in node.metadata_props}
    names = re.findall(r"'([^']*)'", entries.get("pkg.torch.onnx.name_scopes", ""))
    classes = re.findall(r"'([^']*)'", entries.get("pkg.torch.onnx.class_hierarchy", ""))
    if len(names) == len(classes) > 0:
        pairs = zip(names[:-1], classes[:-1], strict=True)
        return tuple((name, cls.rpartition(".")[2]) for name, cls in pairs)
    parts = node.name.strip("/").split("/")[:-1] if node.name.startswith("/") else []
    return tuple((part, "") for part in parts)
