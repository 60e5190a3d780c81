"""Models that cannot come in, and files that mean harm: told in one line, with the place."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("onnx")

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_models import FLOAT, INT64, imported, model, node, saved, stack, weight

import distir
from distir.importers import ImportRefused, onnx_file


def refused(tmp_path, proto, **options):
    with pytest.raises(ImportRefused) as caught:
        imported(tmp_path, proto, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


RELU = [node("Relu", "x", "y")]
X, Y = {"x": (FLOAT, [3])}, {"y": (FLOAT, [3])}


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("m") / "a.onnx"
    path.write_bytes(data)
    with pytest.raises(ImportRefused, match=r"a\.onnx"):
        distir.import_onnx(path)


@settings(deadline=None)
@given(st.data())
def test_any_cut_or_flipped_byte(tmp_path_factory, data):
    whole = bytearray(stack(2).SerializeToString())
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        whole = whole[:place]
    else:
        whole[place] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("m") / "a.onnx"
    path.write_bytes(bytes(whole))
    try:
        module = distir.import_onnx(path)
        assert distir.parse(distir.format(module)) == module
        distir.check(module)
    except ImportRefused:
        pass


def test_a_file_larger_than_protobuf_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_file, "MODEL", replace(onnx_file.MODEL, most=100))
    assert "external data" in refused(tmp_path, stack(2))


def test_operator_sets_of_the_future(tmp_path):
    assert "version 999" in refused(tmp_path, model(RELU, X, Y, opset=999))


def test_no_operator_set(tmp_path):
    proto = model(RELU, X, Y)
    del proto.opset_import[:]
    assert "operator set" in refused(tmp_path, proto)


def test_ops_of_other_domains_stay_and_are_reported(tmp_path):
    custom = helper.make_node("FusedThing", ["x"], ["y"], domain="com.example", alpha=2.0)
    proto = model([custom], X, Y, extra_opsets=[helper.make_opsetid("com.example", 1)])
    module = imported(tmp_path, proto)
    assert "FusedThing[alpha = 2.0](%x)" in distir.format(module)
    (note,) = module.notes
    assert "com.example" in note
    assert "distir.op" in note
    (error,) = distir.check(module)
    assert str(error.code) == "DIR205"


def test_names_of_ops_and_attributes_cannot_write_statements(tmp_path):
    custom = helper.make_node("Evil(%x)\n  %z = Relu", ["x"], ["y"], domain="d", **{"a] = 1": 2})
    module = imported(tmp_path, model([custom], X, Y, extra_opsets=[helper.make_opsetid("d", 1)]))
    assert distir.parse(distir.format(module)) == module


def test_an_op_of_another_domain_is_not_taken_for_ours(tmp_path):
    theirs = helper.make_node("Gelu", ["x"], ["y"], domain="com.example")
    module = imported(tmp_path, model([theirs], X, Y, extra_opsets=[helper.make_opsetid("com.example", 1)]))
    assert "com_example_Gelu(%x)" in distir.format(module)
    assert [str(d.code) for d in distir.check(module)] == ["DIR205"]


def test_a_registered_op_of_another_domain_is_known(tmp_path):
    from distir.ops import OPS

    @distir.op("Tensor[t, s, d] -> Tensor[t, s, d]")
    def FusedThing(x, *, alpha: float = 1.0):
        """Multiplied."""
        return x * np.float32(alpha)

    try:
        custom = helper.make_node("FusedThing", ["x"], ["y"], domain="com.example", alpha=2.0)
        proto = model([custom], X, Y, extra_opsets=[helper.make_opsetid("com.example", 1)])
        module = imported(tmp_path, proto)
        (y,) = distir.run(module, {"x": np.ones(3, np.float32)}).values()
        assert y.tolist() == [2, 2, 2]
    finally:
        del OPS["FusedThing"]


def external(location, offset=0, length=None):
    proto = model([node("Add", "x w", "y")], {"x": (FLOAT, [100])}, {"y": (FLOAT, [100])}, {"w": weight(100)})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    described = {"location": location, "offset": str(offset), "length": str(400 if length is None else length)}
    for key, value in described.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return proto


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../b", "", "x\0y"])
def test_data_outside_of_the_folder(tmp_path, location):
    assert "outside of the model's folder" in refused(tmp_path, external(location), weights=False)


def test_a_link_out_of_the_folder(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(400))
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "data").symlink_to(tmp_path / "secret")
    assert "outside of the model's folder" in refused(inside, external("data"))


def test_missing_and_short_data(tmp_path):
    module = imported(tmp_path, external("w.data"))
    with pytest.raises(ImportRefused, match=r"there is no file `w\.data`"):
        module.weights["w"]
    (tmp_path / "w.data").write_bytes(bytes(399))
    with pytest.raises(ImportRefused, match="cut off"):
        module.weights["w"]
    assert "expected 400 bytes" in refused(tmp_path, external("w.data", length=8))
    assert "400 bytes" in refused(tmp_path, external("w.data", offset=-1))


def test_data_that_does_not_fit_its_shape(tmp_path):
    proto = model([node("Add", "x w", "y")], X, Y, {"w": weight(3)})
    proto.graph.initializer[0].dims[0] = 10**15
    assert "bytes of data" in refused(tmp_path, proto)


def test_an_attribute_of_a_wrong_kind_in_an_old_model(tmp_path):
    """ONNX's converter would end the process."""
    wrong = node("Unsqueeze", "x", "y", axes=0)
    module = imported(tmp_path, model([wrong], X, {"y": (FLOAT, None)}, opset=11, ir_version=6))
    (note,) = module.notes
    assert note.startswith("not converted from version 11")


def test_a_cycle(tmp_path):
    proto = model([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Neg", "b", "y")], X, Y)
    assert "cycle" in refused(tmp_path, proto)


def test_a_value_that_nothing_defines(tmp_path):
    message = refused(tmp_path, model([node("Add", "x ghost", "y", name="sum")], X, Y))
    assert message == "the `Add` node `sum` uses `ghost`, which nothing defines"
    assert "`z`" in refused(tmp_path, model(RELU, X, {"z": (FLOAT, [3])}))


def test_functions_that_call_themselves(tmp_path):
    body = [helper.make_node("Loop", ["a"], ["b"], domain="d")]
    function = helper.make_function("d", "Loop", ["a"], ["b"], body, [helper.make_opsetid("d", 1)])
    proto = model(
        [helper.make_node("Loop", ["x"], ["y"], domain="d")],
        X,
        Y,
        functions=[function],
        extra_opsets=[helper.make_opsetid("d", 1)],
    )
    assert "calls itself" in refused(tmp_path, proto)


def test_a_tensor_too_large_to_make_is_not_made(tmp_path):
    proto = model(
        [node("ConstantOfShape", "size", "big"), node("Shape", "big", "y")],
        {},
        {"y": (INT64, [2])},
        {"size": np.array([10**9, 10**6])},
    )
    module = imported(tmp_path, proto)
    (y,) = distir.run(module, {}).values()
    assert y.tolist() == [10**9, 10**6]


def branch(output):
    return helper.make_graph(
        [node("Relu", "x", output)], output, [], [helper.make_tensor_value_info(output, FLOAT, [3])]
    )


def test_control_flow_is_refused_by_name(tmp_path):
    choice = node("If", "c", "y", then_branch=branch("t"), else_branch=branch("e"), name="choose")
    proto = model([choice], {**X, "c": (TensorProto.BOOL, [])}, Y)
    assert "`If` node `choose` is control flow" in refused(tmp_path, proto)


def test_sequences_are_refused_by_name(tmp_path):
    proto = model(
        [node("SequenceConstruct", "x x", "s", name="make"), node("SequenceAt", "s i", "y")], X, Y, {"i": np.array(0)}
    )
    assert "`SequenceConstruct` node `make` is an op on sequences" in refused(tmp_path, proto)
    value = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    proto = model(RELU, X, Y)
    proto.graph.input.append(value)
    assert "the input `s` is a sequence" in refused(tmp_path, proto)


def test_element_types_that_the_language_lacks(tmp_path):
    assert "STRING" in refused(tmp_path, model(RELU, {"x": (TensorProto.STRING, [3])}, Y))
    strings = numpy_helper.from_array(np.array(["a"], dtype=object), "w")
    proto = model(RELU, X, Y)
    proto.graph.initializer.append(strings)
    assert "STRING" in refused(tmp_path, proto)


def test_sparse_tensors(tmp_path):
    proto = model(RELU, X, Y)
    values = helper.make_tensor("sp", FLOAT, [1], [1.0])
    proto.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, helper.make_tensor("i", INT64, [1], [0]), [3])
    )
    assert "sparse" in refused(tmp_path, proto)


def test_two_initializers_of_one_name(tmp_path):
    proto = model([node("Add", "x w", "y")], X, Y, {"w": weight(3)})
    proto.graph.initializer.append(proto.graph.initializer[0])
    assert "two initializers" in refused(tmp_path, proto)


def test_a_model_whose_types_are_wrong_says_where(tmp_path):
    proto = model([node("MatMul", "x w", "y")], {"x": (FLOAT, [2, 3])}, {"y": (FLOAT, None)}, {"w": weight(4, 5)})
    found = imported(tmp_path, proto)
    (error,) = distir.check(found)
    assert str(error.code) == "DIR301"
    (said,) = found.notes
    assert said.startswith(f"the model is wrong at `%y`: {error.message}")


def test_an_attribute_that_cannot_be_is_said(tmp_path):
    proto = model([node("Softmax", "x", "y", axis=99)], {"x": (FLOAT, [3, 4])}, {"y": (FLOAT, None)})
    (said,) = imported(tmp_path, proto).notes
    assert said.startswith("the model is wrong at `%y`: `Softmax` expected an axis from -2 to 1, found 99")


def test_nothing_of_a_model_is_kept_open(tmp_path):
    path = saved(tmp_path, stack(1))
    distir.import_onnx(path)
    path.unlink()
    assert onnx.__name__ == "onnx"


def declaring(shape=(4, 2), elements=FLOAT, inner=(4, 2)):
    """A product of (4, 3) and (3, 2), of whose result, and of a value on the way, this is declared."""
    proto = model(
        [node("MatMul", "x w", "m"), node("Relu", "m", "y")],
        {"x": (FLOAT, [4, 3])},
        {"y": (elements, shape)},
        {"w": weight(3, 2)},
    )
    proto.graph.value_info.append(helper.make_tensor_value_info("m", FLOAT, inner))
    return proto


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"shape": (5, 2)}, "declares `y` as (5, 2), its ops make it (4, 2)"),
        ({"shape": (4, 2, 1)}, "declares `y` as (4, 2, 1)"),
        ({"elements": INT64}, "declares `y` as Int64, its ops make it Float32"),
        ({"inner": ("n", 3)}, "declares `m` as (n, 3), its ops make it (4, 2)"),
    ],
)
def test_what_a_file_declares_and_its_ops_contradict(tmp_path, declared, said):
    assert said in refused(tmp_path, declaring(**declared))


def test_what_a_file_declares_without_contradiction(tmp_path):
    for declared in ({}, {"shape": ("n", "m")}, {"inner": ("n", 2)}):
        imported(tmp_path, declaring(**declared))


@pytest.mark.parametrize(
    ("nodes", "inputs", "said"),
    [
        ([node("Sin", "a", "y")], {"a": (INT64, [3])}, "given elements of Int64 (`a`), which `Sin` does not take"),
        ([node("Relu", "a", "b"), node("Not", "b", "y")], {"a": (FLOAT, [3])}, "the `Not` node `y` is given elements"),
        (
            [node("Add", "a b", "y")],
            {"a": (FLOAT, [3]), "b": (INT64, [3])},
            "elements of Float32 (`a`) and of Int64 (`b`), which should be the same",
        ),
    ],
)
def test_elements_that_an_op_does_not_take(tmp_path, nodes, inputs, said):
    assert said in refused(tmp_path, model(nodes, inputs, {"y": (FLOAT, [3])}))
