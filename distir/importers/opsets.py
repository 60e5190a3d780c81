"""A model at the operator set that is known here: ONNX's own converter, and what it gets wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from distir.importers.core import ImportRefused, Weight
from distir.importers.onnx_nodes import STANDARD
from distir.ops.bridge.schema import OPSET

if TYPE_CHECKING:
    import onnx

MOST_ELEMENTS = 64
"""Tensors with more elements take no part: they would be copied, and no shape depends on them."""


def at_our_opset(model: onnx.ModelProto, tensors: Mapping[str, Weight]) -> tuple[onnx.ModelProto, list[str]]:
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
    light = without_data(model, tensors)
    try:
        _check_nodes(model, version)  # the converter ends the process on attributes of a wrong kind
    except Exception as error:
        return model, [_unconverted(version, error)]
    with suppress(Exception):  # what is wrong there will be said of the program
        light = shape_inference.infer_shapes(light, data_prop=True)  # with ranks known, less is written around ops
    if version < PRELU_BROADCASTS:
        _align_slopes(light)
    try:
        return version_converter.convert_version(light, OPSET), []
    except Exception as error:  # the converter knows no way: most ops are written the same all along
        return model, [_unconverted(version, error)]


PRELU_BROADCASTS = 7
"""The operator set from which on the slopes of `PRelu` are aligned with the last dimensions, not the channels."""


def _align_slopes(model: onnx.ModelProto) -> None:
    """Let a slope for each channel be one that broadcasts, which the converter forgets."""
    from onnx import helper

    ranks = {t.name: len(t.dims) for t in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.value_info):
        if value.type.tensor_type.HasField("shape"):
            ranks[value.name] = len(value.type.tensor_type.shape.dim)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.op_type == "PRelu" and ranks.get(node.input[1]) == 1 and (rank := ranks.get(node.input[0], 0)) > 2:
            aligned = f"{node.output[0]}.slope"
            nodes.append(helper.make_node("Unsqueeze", [node.input[1]], [aligned], axes=list(range(1, rank - 1))))
            node.input[1] = aligned
        nodes.append(node)
    changed = helper.make_graph(nodes, "", [], []).node  # a copy: these are parts of what is deleted next
    del model.graph.node[:]
    model.graph.node.extend(changed)


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


def without_data(model: onnx.ModelProto, tensors: Mapping[str, Weight]) -> onnx.ModelProto:
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
        if math.prod(tensors[tensor.name].shape) <= MOST_ELEMENTS and not tensor.external_data:
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
