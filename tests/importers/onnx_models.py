"""ONNX models made here, small, and what ONNX's own evaluator says of them."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import distir

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def model(nodes, inputs, outputs, initializers=(), opset=18, functions=(), ir_version=10, extra_opsets=()):
    """A model; inputs are `name: (element type, dimensions)`, initializers arrays by name."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, *described) for name, described in inputs.items()],
        [helper.make_tensor_value_info(name, *described) for name, described in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in dict(initializers).items()],
    )
    opsets = [helper.make_opsetid("", opset), *extra_opsets]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=ir_version)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split() if isinstance(inputs, str) else inputs, outputs.split(), **attributes)


def weight(*shape, seed=0):
    return np.random.default_rng(seed).normal(scale=0.3, size=shape).astype(np.float32)


def stack(layers, width=8, rows="batch"):
    """`layers` equal layers, each a normalisation, two products with a Relu between them, and a sum."""
    nodes, initializers, x = [], {}, "x"
    for i in range(layers):
        at = f"/net/h.{i}"
        for j, name in enumerate(("scale", "shift", "up", "down")):
            shape = (width,) if j < 2 else (width, 2 * width) if j == 2 else (2 * width, width)
            initializers[f"net.h.{i}.{name}"] = weight(*shape, seed=4 * i + j)
        nodes += [
            node("LayerNormalization", [x, f"net.h.{i}.scale", f"net.h.{i}.shift"], f"{at}/ln", name=f"{at}/ln"),
            node("MatMul", [f"{at}/ln", f"net.h.{i}.up"], f"{at}/up", name=f"{at}/up"),
            node("Relu", [f"{at}/up"], f"{at}/act", name=f"{at}/act"),
            node("MatMul", [f"{at}/act", f"net.h.{i}.down"], f"{at}/down", name=f"{at}/down"),
            node("Add", [x, f"{at}/down"], f"{at}/y", name=f"{at}/y"),
        ]
        x = f"{at}/y"
    nodes.append(node("Identity", [x], "y"))
    return model(nodes, {"x": (FLOAT, [rows, width])}, {"y": (FLOAT, [rows, width])}, initializers)


def saved(tmp_path, proto, name="model.onnx"):
    path = tmp_path / name
    path.write_bytes(proto.SerializeToString())
    return path


def imported(tmp_path, proto, **options):
    return distir.import_onnx(saved(tmp_path, proto), **options)


def assert_agrees(module, proto, inputs, tolerance=1e-6):
    """The program checks, prints and parses back, and gives what ONNX's evaluator gives."""
    text = distir.format(module)
    assert [str(d) for d in distir.check_text(text) if d.severity == "error"] == []
    assert distir.parse(text) == module
    expected = ReferenceEvaluator(proto).run(None, inputs)
    found = distir.run(module, {**module.weights, **inputs})
    assert len(found) == len(expected)
    for e, f in zip(expected, found.values(), strict=True):
        assert f.dtype == e.dtype
        assert f.shape == e.shape
        np.testing.assert_allclose(f, e, rtol=tolerance, atol=tolerance)


def dims_of(module):
    return {p.name: str(p.type) for p in module.entry().params}


__all__ = ["BOOL", "FLOAT", "INT64", "onnx"]
