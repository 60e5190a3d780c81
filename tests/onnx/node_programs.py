"""ONNX's own backend node cases as programs: a graph of tensor ops, statement by statement.

An importer for tests: no outlining, no folding, no weights beside the program. What it cannot express it says by
raising `Inexpressible` with the reason.
"""

from __future__ import annotations

import re
import warnings
from functools import cache

import numpy as np
import onnx
import onnx.defs
from onnx import helper, numpy_helper, version_converter
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from distir.ir import DISCARD, HOST, Module, TensorType
from distir.ir.builder import FunctionBuilder
from distir.ops import OPS, bridge, to_dense
from distir.ops.attributes import attribute_named
from distir.ops.bridge.schema import OPSET, dtype_numbered
from distir.ops.signature import TensorPattern

DEVICE = 1


class Inexpressible(Exception):  # noqa: N818 - a verdict on a case
    """A case that no program can express; the text is the reason."""


@cache
def node_cases():
    """Every case, by name. Making them runs ONNX's own generators, once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def inputs_and_outputs(case):
    """The arrays of the case's one data set; lists and None where a value is no tensor."""
    ((inputs, outputs),) = case.data_sets
    return [list(map(array, inputs)), list(map(array, outputs))]


def array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def program(model) -> Module:
    """The model's graph as `@main`. Raises Inexpressible."""
    refuse(model.graph)
    graph = expanded(at_our_opset(model)).graph
    refuse(graph, converted=True)
    host = host_values(graph)
    builder = FunctionBuilder("main")
    names = {"": DISCARD}
    for tensor in graph.initializer:
        if dtype_numbered(tensor.data_type) is None:
            raise element_type_reason(tensor.data_type)
        (names[tensor.name],) = builder.apply("Constant", value=to_dense(numpy_helper.to_array(tensor)))
    for value in graph.input:
        if value.name not in names:
            names[value.name] = builder.param(identifier(value.name), tensor_type(value, value.name in host))
    for node in graph.node:
        append(builder, node, names)
    return Module([builder.returns(*(names[value.name] for value in graph.output))])


def expanded(model):
    """The model with those nodes that our op of the name does not cover replaced by what ONNX defines them by."""
    if any(node.op_type not in OPS for node in model.graph.node) or all(map(covered, model.graph.node)):
        return model
    typed = onnx.shape_inference.infer_shapes(model).graph
    types = {value.name: value.type for value in (*typed.input, *typed.value_info)}
    types |= {t.name: helper.make_tensor_type_proto(t.data_type, t.dims) for t in typed.initializer}
    nodes = []
    for number, node in enumerate(model.graph.node):
        function = None
        if not covered(node):
            function = bridge.expansion(node, [types.get(name, onnx.TypeProto()) for name in node.input])
        nodes += [node] if function is None else inlined(function, node, f"{node.op_type}{number}")
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    return result


def covered(node):
    op = OPS[node.op_type]
    unknown = [a for a in node.attribute if attribute_named(op, a.name) is None and not is_default(node.op_type, a)]
    places = len(node.input) if op.variadic is not None else len(op.operands)
    single = op.single_result and any(node.output[1:])
    return not unknown and not any(node.input[places:]) and not single


def inlined(function, node, prefix):
    """The function's nodes with the node's own names for what goes in and out."""
    names = dict(zip(function.input, node.input, strict=False)) | dict(zip(function.output, node.output, strict=False))
    names |= dict.fromkeys(function.input[len(node.input) :], "") | {"": ""}
    for inner in function.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        copy.input[:] = [names.setdefault(name, f"{prefix}.{name}") for name in inner.input]
        copy.output[:] = [names.setdefault(name, f"{prefix}.{name}") for name in inner.output]
        yield copy


def append(builder, node, names):
    op = OPS[node.op_type]
    operands = [names[name] for name in node.input]
    while operands and operands[-1] == DISCARD:
        operands.pop()
    attrs = {}
    for proto in node.attribute:
        spec = attribute_named(op, proto.name)
        value = attribute(proto, spec)
        if spec is None:
            if not is_default(node.op_type, proto):
                raise Inexpressible(f"`{node.op_type}` here has no attribute `{proto.name}`")
            continue
        attrs[spec.name] = value
    outputs = list(node.output)
    while len(outputs) > 1 and not outputs[-1]:
        outputs.pop()
    results = builder.apply(
        node.op_type, *operands, results=tuple(identifier(name) if name else DISCARD for name in outputs), **attrs
    )
    names.update((name, result) for name, result in zip(outputs, results, strict=True) if name)


def attribute(proto, spec):
    """An attribute's value as the op's definition wants it."""
    value = helper.get_attribute_value(proto)
    if isinstance(value, onnx.TensorProto):
        if dtype_numbered(value.data_type) is None:
            raise element_type_reason(value.data_type)
        return to_dense(numpy_helper.to_array(value))
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)):
        return tuple(item.decode() if isinstance(item, bytes) else item for item in value)
    if spec is not None and spec.kind.startswith("DType"):
        dtype = dtype_numbered(value)
        if dtype is None:
            raise element_type_reason(value)
        return dtype
    return bool(value) if spec is not None and spec.kind == "bool" else value


def is_default(op, proto):
    declared = onnx.defs.get_schema(op, OPSET, "").attributes[proto.name].default_value
    return helper.get_attribute_value(declared) == helper.get_attribute_value(proto)


def refuse(graph, converted=False):
    """Raise Inexpressible for what a program cannot hold."""
    for node in graph.node:
        if node.domain not in ("", "ai.onnx"):
            raise Inexpressible(f"ops of the domain `{node.domain}`")
        if node.op_type in bridge.LEFT_OUT and (converted or not bridge.LEFT_OUT[node.op_type].startswith("gone")):
            raise Inexpressible(f"`{node.op_type}`, which is left out")
    for value in (*graph.input, *graph.output):
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            raise Inexpressible("values that are sequences or optionals")
        if dtype_numbered(value.type.tensor_type.elem_type) is None:
            raise element_type_reason(value.type.tensor_type.elem_type)


def element_type_reason(number):
    name = onnx.TensorProto.DataType.Name(number)
    return Inexpressible("strings" if name == "STRING" else f"elements of {name}, which the language lacks")


def tensor_type(value, host):
    tensor = value.type.tensor_type
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
    return TensorType(dtype_numbered(tensor.elem_type), shape, HOST if host else DEVICE)


def host_values(graph):
    """The values that some op wants on the host, and what these are computed from."""
    wanted: set[str] = set()
    for node in reversed(graph.node):
        op = OPS[node.op_type]
        computed = node.op_type not in ("Shape", "Size") and any(name in wanted for name in node.output)
        for i, name in enumerate(node.input):
            if computed or place_device(op, i) == "host":
                wanted.add(name)
    return wanted


def place_device(op, index):
    places = op.signatures[0].operands
    if not places:
        return None
    pattern = places[min(index, len(places) - 1)].pattern
    return pattern.device if isinstance(pattern, TensorPattern) else None


def at_our_opset(model):
    """The model, converted where one of its ops has changed since the version that the model is for."""
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), OPSET)
    if all(unchanged(node, version) for node in model.graph.node):
        return model
    try:
        return version_converter.convert_version(model, OPSET)
    except Exception:  # the converter knows no way: perhaps the op is written the same all along
        return model


def unchanged(node, version):
    then = onnx.defs.get_schema(node.op_type, version, "")
    return then.since_version == onnx.defs.get_schema(node.op_type, OPSET, "").since_version


def identifier(name):
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def assert_similar(case, expected, found):
    """Compared as ONNX's own runner compares."""
    Runner.assert_similar_outputs(expected, list(found), rtol=case.rtol, atol=case.atol)


def passes_reference(case):
    """Whether ONNX's own reference evaluator passes the case."""
    from onnx.reference import ReferenceEvaluator

    inputs, outputs = inputs_and_outputs(case)
    try:
        given = dict(zip((value.name for value in case.model.graph.input), inputs, strict=True))
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(case.model).run(None, given)
        assert_similar(case, outputs, found)
    except Exception:
        return False
    return True
