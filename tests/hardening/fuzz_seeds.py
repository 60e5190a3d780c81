"""What fuzzing starts from: programs of every kind that the tests and examples hold, models, settings, files."""

import functools
import io
import json
import re

import numpy as np
from fuzz_targets import LONGEST, ROOT

from distir.ir import DISCARD, Function, Module, Return
from distir.ops import OPS, canonical
from distir.syntax import parse_example, print_module

CORPUS = ROOT / "tests" / "hardening" / "corpus"
"""By target, the inputs that once failed. They stay."""


def kept(target):
    """The inputs of the corpus, by name."""
    return {path.name: path.read_bytes() for path in sorted((CORPUS / target).glob("*")) if path.is_file()}


@functools.cache
def seeds(target):
    """Inputs that mean something, and those that once failed; none longer than a fuzzer's inputs may be."""
    found = [*_MAKERS[target](), *kept(target).values()]
    return [data for data in found if len(data) <= LONGEST]


def _programs():
    """Programs of examples and tests whole, and the examples of all ops."""
    paths = [*(ROOT / "examples").glob("*.dir"), *(ROOT / "tests" / "check").glob("*.dir")]
    found = [path.read_bytes() for path in sorted(paths)]
    for page in sorted((ROOT / "tests" / "golden").glob("*.md")):
        found += [program.encode() for program in re.findall(r"```dir\n(.*?)```", page.read_text(), re.DOTALL)]
    for name in sorted(OPS):
        found += [_around(example) for example in OPS[name].examples]
    return [data for data in found if data]


def _around(example):
    """A program that holds the example of an op."""
    params, statement = parse_example(example, canonical)
    values = [name for name in statement.results if name != DISCARD]
    return print_module(Module([Function("main", params, (statement, Return(tuple(values))))])).encode()


def _editor():
    """Programs of which something is typed at a place, as `fuzz_targets.editor` reads it."""
    heads = (
        b"\x10\0\0\x20\0\0\0",
        b"\x60\0\x20\x40\0\x03\x02%x",
        b"\xff\0\0\x80\0\0\x01,",
        b"\x33\x01\x80\x10\x01\x08\0",
    )
    return [heads[number % len(heads)] + data for number, data in enumerate(_programs())]


def _settings():
    profiles = sorted((ROOT / "distir" / "cost" / "profiles").glob("*.toml"))
    machine = (ROOT / "tests" / "golden" / "machine.toml").read_bytes()
    settings = b"""hardware = "dgx-a100"
entry = "main"

[bind]
B = 64
w = "x"

[budget]
max_latency = "5ms"
max_memory = "32GB"

[hints]
types = true
times = false
"""
    return [settings, machine, *(path.read_bytes() for path in profiles)]


def _onnx():
    """Small models: products, shapes as values, functions, control flow, an old operator set, data in other files."""
    from onnx import TensorProto, helper, numpy_helper

    node, info, floats = helper.make_node, helper.make_tensor_value_info, TensorProto.FLOAT

    def model(nodes, inputs, outputs, initializers=(), opset=18, functions=(), domains=()):
        graph = helper.make_graph(
            nodes,
            "g",
            [info(name, floats, dims) for name, dims in inputs.items()],
            [info(name, floats, dims) for name, dims in outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in dict(initializers).items()],
        )
        opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
        made = helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)
        return made.SerializeToString()

    w, b = np.ones((4, 4), np.float32), np.ones(4, np.float32)
    layers = [
        node("Gemm", ["x", "w", "b"], ["h0"], transB=1, name="/net/h.0/up"),
        node("Relu", ["h0"], ["r0"], name="/net/h.0/act"),
        node("Gemm", ["r0", "w", "b"], ["h1"], transB=1, name="/net/h.1/up"),
        node("Relu", ["h1"], ["y"], name="/net/h.1/act"),
    ]
    shapes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["rows"], axis=0),
        node("Concat", ["rows", "minus"], ["to"], axis=0),
        node("Reshape", ["x", "to"], ["y"]),
    ]
    branch = helper.make_graph([node("Neg", ["x"], ["out"])], "then", [], [info("out", floats, [2])])
    choice = [
        node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True))),
        node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    body = [helper.make_node("Relu", ["a"], ["b"])]
    called = helper.make_function("d", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 18)])
    outside = helper.make_model(
        helper.make_graph(
            [node("Add", ["x", "w"], ["y"])],
            "g",
            [info("x", floats, [4])],
            [info("y", floats, [4])],
            [numpy_helper.from_array(b, "w")],
        )
    )
    tensor = outside.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "weights.bin"
    zero = {"zero": np.array([0]), "minus": np.array([-1])}
    return [
        model(layers, {"x": ["batch", 4]}, {"y": ["batch", 4]}, {"w": w, "b": b}),
        model(shapes, {"x": ["n", 2, 2]}, {"y": ["n", 4]}, zero),
        model(choice, {"x": [2]}, {"y": [2]}),
        model([node("Twice", ["x"], ["y"], domain="d")], {"x": [2]}, {"y": [2]}, (), 18, [called], ["d"]),
        model([node("Unsqueeze", ["x"], ["y"], axes=[0])], {"x": [2]}, {"y": [1, 2]}, (), 11),
        model([node("Split", ["x"], ["a", "y"], axis=0, num_outputs=2)], {"x": [4]}, {"y": [2]}),
        model(
            [node("Conv", ["x", "k"], ["y"], pads=[1, 1, 1, 1])],
            {"x": [1, 1, 4, 4]},
            {"y": [1, 1, 4, 4]},
            {"k": np.ones((1, 1, 3, 3), np.float32)},
        ),
        outside.SerializeToString(),
    ]


def _tensors():
    header = json.dumps(
        {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "__metadata__": {"a": "b"}}
    ).encode()
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, np.arange(6, dtype=np.float32).reshape(2, 3))
    np.savez(npz, **{"x": np.arange(3), "y.bfloat16": np.arange(3, dtype=np.uint16)})
    objects = io.BytesIO()
    np.save(objects, np.array([{}], dtype=object), allow_pickle=True)
    return [len(header).to_bytes(8, "little") + header + bytes(8), npy.getvalue(), npz.getvalue(), objects.getvalue()]


_MAKERS = {"text": _programs, "editor": _editor, "settings": _settings, "onnx": _onnx, "tensors": _tensors}
