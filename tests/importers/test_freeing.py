"""A batch size that an export has fixed is made symbolic again: what comes out is the model of every other size."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_models import FLOAT, assert_agrees, imported, model, node, weight
from thorough import most_examples

import distir

SIZES = (1, 3, 5)


def positions(batch):
    """Embeddings of positions that were computed for each row."""
    rows = np.tile(np.arange(4), (batch, 1))
    return model(
        [node("Gather", "table rows", "e"), node("Add", "x e", "y")],
        {"x": (FLOAT, [batch, 4, 6])},
        {"y": (FLOAT, None)},
        {"table": weight(9, 6), "rows": rows},
    )


def flattened_lookup(batch):
    """A row of the batch looked up by counting through all of its elements."""
    places = (np.arange(batch)[:, None] * 4 + np.array([2, 0, 3])).reshape(batch, 1, 3)
    return model(
        [node("Reshape", "x flat", "f"), node("Gather", "f places", "y", axis=0)],
        {"x": (FLOAT, [batch, 4, 6])},
        {"y": (FLOAT, None)},
        {"flat": np.array([batch * 4, 6]), "places": places},
    )


def indexed_grid(batch):
    """A row of the batch looked up by its own number."""
    b, j = np.meshgrid(np.arange(batch), np.array([3, 1]), indexing="ij")
    return model(
        [node("GatherND", "x grid", "y")],
        {"x": (FLOAT, [batch, 4, 6])},
        {"y": (FLOAT, None)},
        {"grid": np.stack([b, j], -1)},
    )


def class_token(batch):
    return model(
        [node("Expand", "token sizes", "t"), node("Concat", "t x", "y", axis=1)],
        {"x": (FLOAT, [batch, 4, 6])},
        {"y": (FLOAT, None)},
        {"token": weight(1, 1, 6), "sizes": np.array([batch, 1, 6])},
    )


def copied_token(batch):
    """The same, already computed by the exporter."""
    return model(
        [node("Concat", "t x", "y", axis=1)],
        {"x": (FLOAT, [batch, 4, 6])},
        {"y": (FLOAT, None)},
        {"t": np.repeat(weight(1, 1, 6), batch, 0)},
    )


def filled(batch):
    return model(
        [node("ConstantOfShape", "sizes", "zeros"), node("Concat", "x zeros", "y", axis=1)],
        {"x": (FLOAT, [batch, 4])},
        {"y": (FLOAT, None)},
        {"sizes": np.array([batch, 2])},
    )


def counted(batch):
    """The numbers of the rows, as features."""
    return model(
        [
            node("Range", "zero size one", "r"),
            node("Cast", "r", "f", to=FLOAT),
            node("Unsqueeze", "f last", "c"),
            node("Concat", "x c", "y", axis=1),
        ],
        {"x": (FLOAT, [batch, 4])},
        {"y": (FLOAT, None)},
        {"zero": np.array(0), "size": np.array(batch), "one": np.array(1), "last": np.array([1])},
    )


def recurrent(batch):
    """Initial states, one for each row, whose place is the second."""
    return model(
        [node("LSTM", ["x", "w", "r", "", "", "h", "h"], "y", hidden_size=5)],
        {"x": (FLOAT, [7, batch, 6])},
        {"y": (FLOAT, None)},
        {"w": weight(1, 20, 6), "r": weight(1, 20, 5), "h": np.zeros((1, batch, 5), np.float32)},
    )


def mask(batch):
    return model(
        [node("Where", "seen x low", "y")],
        {"x": (FLOAT, [batch, 4, 4])},
        {"y": (FLOAT, None)},
        {"seen": np.repeat(np.tril(np.ones((1, 4, 4), bool)), batch, 0), "low": np.float32(-1e9)},
    )


MODELS = [positions, flattened_lookup, indexed_grid, class_token, copied_token, filled, counted, recurrent, mask]


@pytest.mark.parametrize("fixed", [1, 2, 4])
@pytest.mark.parametrize("make", MODELS)
def test_what_an_export_has_fixed_fits_any_batch(tmp_path, make, fixed):
    axis = 1 if make is recurrent else 0
    module = imported(tmp_path, make(fixed), batch={"x": axis})
    x = next(param for param in module.entry().params if param.name == "x")
    assert dict(x.roles) == {"batch": axis}
    assert str(x.type.shape[axis]) == "B"
    for size in SIZES:
        proto = make(size)
        shape = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
        assert_agrees(module, proto, {"x": weight(*shape, seed=size)})


@settings(max_examples=most_examples(30), deadline=None)
@given(fixed=st.integers(1, 4), places=st.lists(st.integers(0, 3), min_size=1, max_size=3), other=st.integers(1, 6))
def test_rows_are_looked_up_in_any_batch(tmp_path_factory, fixed, places, other):
    def make(batch):
        counted = np.arange(batch)[:, None] * 4 + np.array(places)
        return model(
            [node("Reshape", "x flat", "f"), node("Gather", "f places", "y", axis=0)],
            {"x": (FLOAT, [batch, 4, 2])},
            {"y": (FLOAT, None)},
            {"flat": np.array([batch * 4, 2]), "places": counted},
        )

    module = imported(tmp_path_factory.mktemp("rows"), make(fixed), batch={"x": 0})
    assert_agrees(module, make(other), {"x": weight(other, 4, 2)})


def test_rows_that_differ_are_the_models_own(tmp_path):
    """Nothing is made of a constant that is not the same for each member of the batch."""
    proto = model(
        [node("Concat", "table x", "y", axis=1)],
        {"x": (FLOAT, [3, 4])},
        {"y": (FLOAT, None)},
        {"table": weight(3, 2)},
    )
    with pytest.raises(ValueError, match="the batch size 3 is fixed inside the model at `%y`"):
        imported(tmp_path, proto, batch={"x": 0})


def test_sizes_that_are_not_the_batch_stay(tmp_path):
    """The 3 of a width is no batch of 3, where the model fits without."""
    proto = model(
        [node("Expand", "bias sizes", "b"), node("MatMul", "x b", "y")],
        {"x": (FLOAT, [3, 3])},
        {"y": (FLOAT, None)},
        {"bias": weight(1, 2), "sizes": np.array([3, 2])},
    )
    module = imported(tmp_path, proto, batch={"x": 0})
    assert_agrees(module, proto, {"x": weight(3, 3)})
    assert "Tensor[Float32, (B, 3), 1]" in distir.format(module)


def test_results_of_the_whole_batch_are_reported(tmp_path):
    """A mean that was written as a division by 3 stays one."""
    proto = model(
        [node("ReduceSum", "x", "s", keepdims=0), node("Div", "s count", "y")],
        {"x": (FLOAT, [3, 4])},
        {"y": (FLOAT, [])},
        {"count": np.float32(12)},
    )
    (note,) = imported(tmp_path, proto, batch={"x": 0}).notes
    assert "`%y` is not made for each member of the batch" in note
    assert imported(tmp_path, proto).notes == ()
