"""ONNX models as programs: the same results, the same names, and no more ops than are needed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("onnx")

from onnx import helper, numpy_helper
from onnx_models import BOOL, FLOAT, INT64, assert_agrees, dims_of, imported, model, node, saved, stack, weight

import distir


def ops(module):
    return [s.op for f in module for s in f.body if hasattr(s, "op")]


def test_weights_are_parameters_and_their_data_is_by_name(tmp_path):
    w = weight(8, 4)
    proto = model(
        [node("MatMul", "x fc.w", "h"), node("Add", "h fc.b", "y")],
        {"x": (FLOAT, ["batch", 8])},
        {"y": (FLOAT, ["batch", 4])},
        {"fc.w": w, "fc.b": weight(4)},
    )
    module = imported(tmp_path, proto)
    assert {p.name: dict(p.roles) for p in module.entry().params} == {
        "fc.w": {"param": True},
        "fc.b": {"param": True},
        "x": {"batch": 0},
    }
    assert dims_of(module)["x"] == "Tensor[Float32, (batch, 8), 1]"
    np.testing.assert_array_equal(module.weights["fc.w"], w)
    assert_agrees(module, proto, {"x": weight(3, 8, seed=9)})


def test_by_types_alone_no_weight_is_kept(tmp_path):
    module = imported(tmp_path, stack(2), weights=False)
    assert dict(module.weights) == {}
    assert [p.name for p in module.entry().params if "param" in p.roles]


@pytest.mark.parametrize("layers", [2, 3, 12])
def test_equal_layers_are_one_function_called_for_each(tmp_path, layers):
    proto = stack(layers)
    module = imported(tmp_path, proto)
    assert len(module.functions) == 2
    layer, main = module.functions.values()
    calls = [s for s in main.body if getattr(s, "function", None) == layer.name]
    assert [call.facts.layer for call in calls] == [*range(1, layers + 1)]
    assert layer.name == "h"
    assert [p.name for p in layer.params] == ["x", "scale", "shift", "up", "down"]
    assert_agrees(module, proto, {"x": weight(4, 8, seed=99)})


def test_an_outlined_program_is_the_plain_one(tmp_path):
    proto = stack(5)
    plain = imported(tmp_path, proto, outline=False)
    assert list(plain.functions) == ["main"]
    x = weight(4, 8, seed=99)
    (a,) = distir.run(plain, {**plain.weights, "x": x}).values()
    outlined = imported(tmp_path, proto)
    (b,) = distir.run(outlined, {**outlined.weights, "x": x}).values()
    np.testing.assert_array_equal(a, b)


def reshaped_by_chain(rows):
    """What exporters write for `x.view(x.size(0), -1, 4)`."""
    return model(
        [
            node("Shape", "x", "s"),
            node("Constant", "", "zero", value=numpy_helper.from_array(np.array(0, np.int64))),
            node("Gather", "s zero", "n"),
            node("Unsqueeze", "n axes", "n1"),
            node("Concat", "n1 rest", "shape", axis=0),
            node("Reshape", "x shape", "y"),
        ],
        {"x": (FLOAT, [rows, 8])},
        {"y": (FLOAT, None)},
        {"axes": np.array([0]), "rest": np.array([-1, 4])},
    )


@pytest.mark.parametrize("rows", [3, "n"])
def test_a_chain_of_shapes_is_folded(tmp_path, rows):
    proto = reshaped_by_chain(rows)
    module = imported(tmp_path, proto)
    assert ops(module) == ["Reshape"]
    assert_agrees(module, proto, {"x": weight(3, 8)})


def test_shapes_that_stay_symbolic_are_stated_once(tmp_path):
    nodes = []
    for i in range(3):  # (b, s, 8) -> rows -> (b, s, 8), with two symbols that no `Reshape` can leave open
        nodes += [
            node("Reshape", [f"x{i}", "flat"], f"r{i}"),
            node("MatMul", [f"r{i}", f"w{i}"], f"m{i}"),
            node("Tanh", [f"m{i}"], f"t{i}"),
            node("Shape", [f"x{i}"], f"s{i}"),
            node("Reshape", [f"t{i}", f"s{i}"], f"x{i + 1}"),
        ]
    weights = {f"w{i}": weight(8, 8, seed=i) for i in range(3)}
    shape = ["b", "s", 8]
    proto = model(nodes, {"x0": (FLOAT, shape)}, {"x3": (FLOAT, shape)}, {**weights, "flat": np.array([-1, 8])})
    module = imported(tmp_path, proto)
    assert ops(module).count("Shape") == 2
    assert len(module.functions) == 2
    assert_agrees(module, proto, {"x0": weight(2, 5, 8)})


def test_bound_dimensions_are_numbers(tmp_path):
    module = imported(tmp_path, stack(1, rows="batch"), bind={"batch": 4})
    assert dims_of(module)["x"] == "Tensor[Float32, (4, 8), 1]"


def attention_like(batch):
    """Reshapes that fix the batch size, as an export of a fixed size has them."""
    return model(
        [
            node("Reshape", "x rows", "r"),
            node("MatMul", "r w", "h"),
            node("Reshape", "h heads", "q"),
            node("Transpose", "q", "t", perm=[0, 2, 1, 3]),
            node("Reshape", "t back", "y"),
        ],
        {"x": (FLOAT, [batch, 4, 6])},
        {"y": (FLOAT, None)},
        {
            "rows": np.array([batch * 4, 6]),
            "heads": np.array([batch, 4, 2, 3]),
            "back": np.array([batch, 2, 12]),
            "w": weight(6, 6),
        },
    )


@pytest.mark.parametrize("fixed", [1, 2, 4])
def test_a_fixed_batch_can_be_freed(tmp_path, fixed):
    module = imported(tmp_path, attention_like(fixed), batch={"x": 0})
    x = next(p for p in module.entry().params if p.name == "x")
    assert (str(x.type), dict(x.roles)) == ("Tensor[Float32, (B, 4, 6), 1]", {"batch": 0})
    for size in (1, 3, 5):
        assert_agrees(module, attention_like(size), {"x": weight(size, 4, 6)})


def test_a_batch_that_is_fixed_inside_is_reported(tmp_path):
    proto = model([node("Add", "x table", "y")], {"x": (FLOAT, [3, 4])}, {"y": (FLOAT, None)}, {"table": weight(3, 4)})
    with pytest.raises(ValueError, match="batch size 3 is fixed inside the model at `%y`"):
        imported(tmp_path, proto, batch={"x": 0})


def test_a_batch_names_an_input_and_a_dimension(tmp_path):
    with pytest.raises(ValueError, match="no input `z`"):
        imported(tmp_path, stack(1), batch={"z": 0})
    with pytest.raises(ValueError, match="no dimension 2"):
        imported(tmp_path, stack(1), batch={"x": 2})


def test_operands_that_are_left_out(tmp_path):
    proto = model(
        [node("Clip", ["x", "", "high"], "y")], {"x": (FLOAT, [4])}, {"y": (FLOAT, [4])}, {"high": np.float32(0.1)}
    )
    module = imported(tmp_path, proto)
    assert "Clip(%x, _, 0.1)" in distir.format(module)
    assert_agrees(module, proto, {"x": weight(4)})


def test_results_that_nothing_uses_are_left_out(tmp_path):
    proto = model(
        [node("TopK", "x k", "values places"), node("Dropout", "values", "kept mask")],
        {"x": (FLOAT, [6])},
        {"kept": (FLOAT, [2])},
        {"k": np.array([2])},
    )
    module = imported(tmp_path, proto)
    assert ops(module) == ["TopK"]
    assert_agrees(module, proto, {"x": weight(6)})


def test_functions_of_the_model_are_functions_of_the_program(tmp_path):
    double = helper.make_function(
        "my.domain", "Scaled", ["a"], ["b"],
        [
            helper.make_node("Constant", [], ["c"]),
            helper.make_node("Mul", ["a", "c"], ["m"]),
            helper.make_node("Relu", ["m"], ["b"]),
        ],
        [helper.make_opsetid("", 18)],
        ["by"],
    )  # fmt: skip
    reference = double.node[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "value_float", "by", 1
    nodes = [
        helper.make_node("Scaled", ["x"], ["h"], domain="my.domain", by=2.0),
        helper.make_node("Scaled", ["h"], ["i"], domain="my.domain", by=2.0),
        helper.make_node("Scaled", ["i"], ["y"], domain="my.domain", by=-3.0),
    ]
    opsets = [helper.make_opsetid("my.domain", 1)]
    proto = model(nodes, {"x": (FLOAT, [3])}, {"y": (FLOAT, [3])}, functions=[double], extra_opsets=opsets)
    module = imported(tmp_path, proto)
    assert list(module.functions) == ["Scaled", "Scaled_1", "main"]
    assert_agrees(module, proto, {"x": weight(3)})


@pytest.mark.parametrize("flag", [True, False])
def test_a_condition_that_is_known_is_decided(tmp_path, flag):
    branches = {
        f"{name}_branch": helper.make_graph(
            [node(op, "x", "z")], name, [], [helper.make_tensor_value_info("z", FLOAT, [3])]
        )
        for name, op in (("then", "Relu"), ("else", "Neg"))
    }
    proto = model(
        [node("If", "flag", "y", **branches)], {"x": (FLOAT, [3])}, {"y": (FLOAT, [3])}, {"flag": np.array(flag)}
    )
    module = imported(tmp_path, proto)
    assert ops(module) == ["Relu" if flag else "Neg"]
    assert_agrees(module, proto, {"x": weight(3)})


def test_old_operator_sets_are_converted(tmp_path):
    proto = model(
        [
            node("Unsqueeze", "x", "u", axes=[0]),
            node("Softmax", "u", "s", axis=2),
            node("ReduceSum", "s", "y", axes=[1], keepdims=0),
        ],
        {"x": (FLOAT, ["n", 4])},
        {"y": (FLOAT, None)},
        opset=11,
        ir_version=6,
    )
    module = imported(tmp_path, proto)
    assert module.notes == ()
    assert ops(module) == ["Unsqueeze", "Softmax", "ReduceSum"]
    assert_agrees(module, proto, {"x": weight(3, 4)})


def test_ops_that_ours_do_not_cover_are_expanded(tmp_path):
    proto = model(
        [node("LayerNormalization", "x scale", "y mean")],
        {"x": (FLOAT, [2, 4])},
        {"y": (FLOAT, [2, 4]), "mean": (FLOAT, [2, 1])},
        {"scale": weight(4)},
    )
    assert_agrees(imported(tmp_path, proto), proto, {"x": weight(2, 4)}, tolerance=1e-5)


def test_names_become_names_of_the_language(tmp_path):
    proto = model(
        [helper.make_node("Relu", ["my input!"], ["/a b/c::r"]), node("Neg", ["/a b/c::r"], "ünï")],
        {"my input!": (FLOAT, ["batch size"])},
        {"ünï": (FLOAT, None)},
    )
    module = imported(tmp_path, proto)
    text = distir.format(module)
    assert distir.parse(text) == module
    assert "%my_input_: Tensor[Float32, (batch_size,), 1] {batch = 0}" in text


def test_results_have_the_names_of_the_models_outputs(tmp_path):
    proto = model(
        [node("Relu", "x", "h"), node("Identity", "h", "first"), node("Neg", "h", "second")],
        {"x": (FLOAT, [3])},
        {"first": (FLOAT, [3]), "second": (FLOAT, [3])},
    )
    module = imported(tmp_path, proto)
    assert list(distir.run(module, {"x": weight(3)})) == ["first", "second"]
    assert_agrees(module, proto, {"x": weight(3)})


def test_nodes_may_stand_in_any_order(tmp_path):
    proto = model([node("Neg", "h", "y"), node("Relu", "x", "h")], {"x": (FLOAT, [3])}, {"y": (FLOAT, [3])})
    assert ops(imported(tmp_path, proto)) == ["Relu", "Neg"]


def test_an_output_that_is_an_input_or_a_constant(tmp_path):
    proto = model(
        [node("Identity", "x", "y"), node("Identity", "c", "z")],
        {"x": (FLOAT, [3])},
        {"y": (FLOAT, [3]), "z": (INT64, [2])},
        {"c": np.array([4, 5])},
    )
    assert_agrees(imported(tmp_path, proto), proto, {"x": weight(3)})


def test_masks_and_indices_keep_their_element_types(tmp_path):
    proto = model(
        [node("Where", "m x low", "w"), node("Pow", "w two", "p"), node("Gather", "p i", "y", axis=1)],
        {"x": (FLOAT, [2, 3]), "m": (BOOL, [2, 3])},
        {"y": (FLOAT, None)},
        {"low": np.float32(-1e9), "two": np.float32(2), "i": np.array([2, 0], np.int32)},
    )
    assert_agrees(imported(tmp_path, proto), proto, {"x": weight(2, 3), "m": weight(2, 3, seed=1) > 0})


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["Relu", "Neg", "Tanh", "Abs"]), min_size=4, max_size=6),
    st.integers(2, 5),
    st.lists(st.sampled_from(["Sin", "Cos"]), max_size=3),
    st.lists(st.sampled_from(["Sin", "Cos", "Relu"]), max_size=3),
)
def test_outlining_never_changes_what_a_program_gives(tmp_path_factory, block, times, before, after):
    nodes, x = [], "x"
    for number, op in enumerate([*before, *(block * times), *after]):
        nodes.append(node(op, [x], f"v{number}"))
        x = f"v{number}"
    nodes.append(node("Add", [x, "x"], "y"))
    proto = model(nodes, {"x": (FLOAT, [3])}, {"y": (FLOAT, [3])})
    module = imported(tmp_path_factory.mktemp("m"), proto)
    assert_agrees(module, proto, {"x": weight(3)})
    assert len(ops(module)) <= len(nodes)


def test_external_data_is_read_when_it_is_asked_for(tmp_path):
    import onnx

    proto = stack(2)
    path = tmp_path / "big.onnx"
    onnx.save_model(proto, path, save_as_external_data=True, location="big.data", size_threshold=0)
    module = distir.import_onnx(path)
    np.testing.assert_array_equal(module.weights["net.h.1.up"], weight(8, 16, seed=6))
    (tmp_path / "big.data").unlink()
    assert distir.import_onnx(path, weights=False) == module


def test_the_file_is_not_touched(tmp_path):
    path = saved(tmp_path, stack(2))
    before = path.read_bytes()
    distir.import_onnx(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_positions_of_a_symbolic_length(tmp_path):
    proto = model(
        [
            node("Shape", "x", "s", start=1, end=2),
            node("Squeeze", "s", "n"),
            node("Range", "zero n one", "places"),
            node("Gather", "table places", "rows"),
            node("Add", "x rows", "y"),
        ],
        {"x": (FLOAT, ["batch", "length"])},
        {"y": (FLOAT, None)},
        {"zero": np.array(0), "one": np.array(1), "table": weight(9)},
    )
    module = imported(tmp_path, proto)
    assert_agrees(module, proto, {"x": weight(2, 5, seed=3)})
    assert distir.simulate(module, bind={"batch": 2, "length": 5}).latency_s > 0


@pytest.mark.parametrize("rows", [3, 300])
def test_weights_in_constant_nodes_are_weights(tmp_path, rows):
    held = weight(rows, 256)
    constant = node("Constant", [], "w", value=numpy_helper.from_array(held, "w"))
    proto = model([constant, node("MatMul", "x w", "y")], {"x": (FLOAT, [2, rows])}, {"y": (FLOAT, [2, 256])})
    module = imported(tmp_path, proto)
    assert [p.name for p in module.entry().params if "param" in p.roles] == ["w"]
    assert_agrees(module, proto, {"x": weight(2, rows, seed=1)}, 1e-5)


def test_sizes_stated_as_minus_one_are_not_known(tmp_path):
    proto = model([node("Relu", "x", "y")], {"x": (FLOAT, [-1, 3, -1])}, {"y": (FLOAT, [-1, 3, -1])})
    assert dims_of(imported(tmp_path, proto))["x"] == "Tensor[Float32, (x_0, 3, x_2), 1]"


def test_another_rank_than_declared_is_remarked_where_onnx_itself_cannot_tell(tmp_path):
    nodes = [
        node("Mul", "one two", "times"),
        node("Tile", "one times", "ones"),
        node("Concat", "rest ones", "sizes", axis=0),
        node("Reshape", "x sizes", "y"),
    ]
    numbers = {name: np.array([value]) for name, value in (("one", 1), ("two", 2), ("rest", -1))}
    proto = model(nodes, {"x": (FLOAT, ["n", 3])}, {"y": (FLOAT, ["n", 1])}, numbers)
    found = imported(tmp_path, proto)
    assert "declares `y` as (n, 1), its ops make it (3*n, 1, 1): the program has" in found.notes[0]


@pytest.mark.parametrize("held_by", ["an initializer", "a node"])
@pytest.mark.parametrize("rows", [3, 300])
def test_weights_inside_the_branch_that_is_taken(tmp_path, rows, held_by):
    held = numpy_helper.from_array(weight(rows, 256), "w")
    nodes = [node("MatMul", "x w", "z")]
    if held_by == "a node":
        nodes.insert(0, node("Constant", [], "w", value=held))
    result = [helper.make_tensor_value_info("z", FLOAT, [2, 256])]
    taken = helper.make_graph(nodes, "taken", [], result, [held] if held_by != "a node" else [])
    other = helper.make_graph([node("Constant", [], "z", value_float=0.0)], "other", [], result)
    choice = node("If", "c", "y", then_branch=taken, else_branch=other)
    proto = model([choice], {"x": (FLOAT, [2, rows])}, {"y": (FLOAT, [2, 256])}, {"c": np.array(True)})
    module = imported(tmp_path, proto)
    assert len(module.weights) == (rows == 300)
    assert_agrees(module, proto, {"x": weight(2, rows, seed=1)}, 1e-5)


@pytest.mark.parametrize("channel", [(), (1,)], ids=["as runtimes take it", "as ONNX asks for"])
def test_frames_of_a_signal_without_a_channel(tmp_path, channel):
    """As onnx-asr 0.12.0 has it: `STFT` of (batch, samples), which ONNX Runtime takes, too."""
    nodes = [node("STFT", "x step window", "y")]
    constants = {"step": np.array(2), "window": np.hanning(4).astype(np.float32)}
    proto = model(nodes, {"x": (FLOAT, ["b", 8, *channel])}, {"y": (FLOAT, ["b", 3, 3, 2])}, constants)
    x = weight(2, 8)
    frames = np.stack([x[:, at : at + 4] for at in (0, 2, 4)], 1) * constants["window"]
    expected = np.fft.rfft(frames)
    found = imported(tmp_path, proto)
    assert not distir.check(found)
    (y,) = distir.run(found, {"x": x.reshape(2, 8, *channel), **found.weights}).values()
    np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], expected, rtol=1e-5, atol=1e-6)
