"""Loops whose steps are known are written out, and mean what ONNX says; others are refused with their names."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper
from onnx_models import BOOL, FLOAT, INT64, assert_agrees, imported, model, node, weight

import distir
from distir.importers import ImportRefused


def value(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def running_sum(**attributes):
    """The sums of the rows of `x` up to each row, and the last of them; scaled by `outer`, a value of the graph."""
    body = helper.make_graph(
        [node("Mul", "row outer", "scaled"), node("Add", "sum scaled", "next"), node("Identity", "next", "each")],
        "body",
        [value("sum"), value("row")],
        [value("next"), value("each")],
    )
    return model(
        [node("Scan", "start x", "last all", body=body, num_scan_inputs=1, **attributes)],
        {"x": (FLOAT, [5, 3]), "outer": (FLOAT, [])},
        {"last": (FLOAT, None), "all": (FLOAT, None)},
        {"start": weight(3)},
    )


def test_a_scan_is_written_out(tmp_path):
    proto = running_sum()
    assert_agrees(imported(tmp_path, proto), proto, {"x": weight(5, 3, seed=1), "outer": np.float32(0.5)})


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("outputs", [0, 1])
@pytest.mark.parametrize("inputs", [0, 1])
def test_directions_and_axes_of_a_scan(tmp_path, inputs, outputs, axis):
    """As the standard says; ONNX's evaluator knows none of these."""
    proto = running_sum(scan_input_directions=[inputs], scan_output_directions=[outputs], scan_output_axes=[axis])
    module, x = imported(tmp_path, proto), weight(5, 3, seed=1)
    found = distir.run(module, {"x": x, "outer": np.float32(2), **module.weights})
    sums = weight(3) + np.cumsum(2 * (x[::-1] if inputs else x), axis=0)
    np.testing.assert_allclose(found["last"], sums[-1], rtol=1e-5)
    np.testing.assert_allclose(found["all"], np.stack(sums[::-1] if outputs else sums, axis=axis), rtol=1e-5)


def test_a_scan_of_unknown_length_is_refused(tmp_path):
    proto = running_sum()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    with pytest.raises(ImportRefused, match="the `Scan` node `last, all` is control flow"):
        imported(tmp_path, proto)
    imported(tmp_path, proto, bind={"n": 4})


def doubling(limit, stop):
    """Doubles `x` in each step, at most `limit` times; goes on while the number of the step is below `stop`."""
    body = helper.make_graph(
        [node("Add", "x_in x_in", "x_out"), node("Less", "i stop", "more")],
        "body",
        [value("i", INT64, []), value("going", BOOL, []), value("x_in")],
        [value("more", BOOL, []), value("x_out")],
    )
    initializers = {"limit": np.array(limit), "stop": np.array(stop), "yes": np.array(True)}
    nodes = [node("Loop", ["limit" if limit is not None else "", "yes", "x"], "y", body=body)]
    if limit is None:
        del initializers["limit"]
    return model(nodes, {"x": (FLOAT, [3])}, {"y": (FLOAT, None)}, initializers)


@pytest.mark.parametrize(("limit", "stop"), [(3, 100), (10, 2), (0, 5), (None, 4)])
def test_a_loop_is_written_out(tmp_path, limit, stop):
    proto = doubling(limit, stop)
    module = imported(tmp_path, proto, outline=False)
    steps = min(100 if limit is None else limit, stop + 1)
    assert sum(s.op == "Add" for s in module.entry().body[:-1]) == steps
    assert_agrees(module, proto, {"x": weight(3)})


def test_a_loop_without_end_is_refused(tmp_path):
    with pytest.raises(ImportRefused, match="more than 1024 steps"):
        imported(tmp_path, doubling(None, 10**9))


def test_a_loop_that_depends_on_data_is_refused(tmp_path):
    proto = doubling(3, 5)
    proto.graph.initializer.remove(next(t for t in proto.graph.initializer if t.name == "stop"))
    proto.graph.input.append(value("stop", TensorProto.INT64, [1]))
    with pytest.raises(ImportRefused, match="the `Loop` node `y` is control flow"):
        imported(tmp_path, proto)
