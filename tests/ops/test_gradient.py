import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_samples import apply, broadcastable, close, filled_shapes, numerical_gradient, random_array, rejects, seeds
from thorough import most_examples

import distir.ops.gradient
import distir.ops.norm  # noqa: F401 - both register ops
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, HOST, Attributes, Literal, TensorType
from distir.ir.dims import named
from distir.ops import OPS, Reject, infer_types, run
from distir.ops.attributes import bind

few = settings(max_examples=most_examples(20), deadline=None)  # central differences run an op twice per element


def forward(name, *operands, **attrs):
    op = OPS[name]
    return run(op, operands, bind(op, Attributes(attrs)), 1)[0]


def sample(shape, seed):
    """Numbers far enough from 0, where some functions have a kink."""
    x = random_array("Float64", shape, seed)
    return np.where(np.abs(x) < 0.05, 0.5, x)


FROM_OPERAND = [
    ("Relu", {}),
    ("LeakyRelu", {"alpha": 0.3}),
    ("Elu", {"alpha": 1.3}),
    ("Gelu", {}),
    ("Gelu", {"approximate": "tanh"}),
    ("Swish", {"alpha": 1.4}),
]


@pytest.mark.parametrize(("name", "attrs"), FROM_OPERAND)
@few
@given(shape=filled_shapes, seed=seeds)
def test_gradients_that_take_the_operand(name, attrs, shape, seed):
    x, dy = sample(shape, seed), random_array("Float64", shape, seed + 1)
    found = apply(f"{name}Grad", dy, x, **attrs)
    close(found, numerical_gradient(lambda v: forward(name, v, **attrs), x, dy), 1e-6)


@pytest.mark.parametrize("name", ["Sigmoid", "Tanh", "Relu"])
@few
@given(shape=filled_shapes, seed=seeds)
def test_gradients_that_take_the_result(name, shape, seed):
    x, dy = sample(shape, seed), random_array("Float64", shape, seed + 1)
    found = apply(f"{name}Grad", dy, forward(name, x))
    close(found, numerical_gradient(lambda v: forward(name, v), x, dy), 1e-6)


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
@few
@given(shape=filled_shapes, seed=seeds, data=st.data())
def test_gradients_along_an_axis(name, shape, seed, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x, dy = sample(shape, seed), random_array("Float64", shape, seed + 1)
    found = apply(f"{name}Grad", dy, forward(name, x, axis=axis), axis=axis)
    close(found, numerical_gradient(lambda v: forward(name, v, axis=axis), x, dy), 1e-6)


@few
@given(shape=filled_shapes, seed=seeds, data=st.data())
def test_gradients_of_normalisations(shape, seed, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    inner = shape[axis % len(shape) :]
    x, dy = sample(shape, seed), random_array("Float64", shape, seed + 1)
    scale, b = random_array("Float64", inner, seed + 2), random_array("Float64", inner, seed + 3)
    attrs = {"axis": axis, "epsilon": 0.1}

    dx, dscale, db = apply("LayerNormalizationGrad", dy, x, scale, count=3, **attrs)
    layer = "LayerNormalization"
    close(dx, numerical_gradient(lambda v: forward(layer, v, scale, b, **attrs), x, dy), 1e-6)
    close(dscale, numerical_gradient(lambda v: forward(layer, x, v, b, **attrs), scale, dy), 1e-6)
    close(db, numerical_gradient(lambda v: forward(layer, x, scale, v, **attrs), b, dy), 1e-6)

    dx, dscale = apply("RMSNormalizationGrad", dy, x, scale, count=2, **attrs)
    root = "RMSNormalization"
    close(dx, numerical_gradient(lambda v: forward(root, v, scale, **attrs), x, dy), 1e-6)
    close(dscale, numerical_gradient(lambda v: forward(root, x, v, **attrs), scale, dy), 1e-6)


@st.composite
def gathers(draw):
    shape = draw(filled_shapes)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    size = shape[axis]
    indices = random_array("Int64", draw(st.lists(st.integers(0, 3), max_size=2)), draw(seeds), -size, size - 1)
    return random_array("Float64", shape, draw(seeds)), indices, axis


@given(gathers(), seeds)
def test_gather_grad_is_the_transpose_of_gather(case, seed):
    x, indices, axis = case
    y = np.take(x, indices, axis)
    dy = random_array("Float64", y.shape, seed)
    dx = apply("GatherGrad", dy, indices, list(x.shape), axis=axis)
    assert dx.shape == x.shape
    assert np.isclose(np.sum(dx * x), np.sum(dy * y))  # <A'dy, x> = <dy, Ax>
    close(apply("GatherGrad", dy.astype(np.float16), indices, list(x.shape), axis=axis), dx, 0.02)


def test_gather_grad_adds_what_occurs_twice_in_full_precision():
    dy = np.full(4096, 0.1, np.float16)
    assert apply("GatherGrad", dy, np.zeros(4096, np.int64), [2]).tolist() == [np.float16(409.5), 0]


def test_gather_grad_without_the_shape_knows_the_other_dimensions():
    dy = TensorType(DTYPES["Float32"], (named("B"), 4, 8), 1)
    indices = TensorType(DTYPES["Int64"], (named("B"), 4), 1)
    shape = TensorType(DTYPES["Int64"], (None,), HOST)
    (found,) = infer_types(OPS["GatherGrad"], [dy, indices, shape], Attributes(), 1)
    assert found.shape == (None, 8)
    (found,) = infer_types(OPS["GatherGrad"], [dy, indices, Literal((50, 8))], Attributes(), 1)
    assert found.shape == (50, 8)


@st.composite
def broadcasts(draw):
    shape = draw(st.lists(st.integers(0, 3), max_size=4).map(tuple))
    return shape, broadcastable(draw, shape)


@given(broadcasts(), seeds)
def test_reduce_to_is_the_transpose_of_broadcasting(case, seed):
    wide, narrow = case
    x, dy = random_array("Float64", narrow, seed), random_array("Float64", wide, seed + 1)
    dx = apply("ReduceTo", dy, list(narrow))
    assert dx.shape == narrow
    assert np.isclose(np.sum(dx * x), np.sum(dy * np.broadcast_to(x, wide)))


def test_reduce_to_where_little_is_known():
    def shape_of(x, shape):
        (found,) = infer_types(OPS["ReduceTo"], [TensorType(DTYPES["Float32"], x, 1), shape], Attributes(), 1)
        return found.shape

    b = named("B")
    assert shape_of((b, 768), Literal((768,))) == (768,)
    assert shape_of((b, 1), TensorType(DTYPES["Int64"], (2,), HOST)) == (None, 1)
    assert shape_of(None, Literal((2, 3))) == (2, 3)
    assert shape_of((b, 768), TensorType(DTYPES["Int64"], (None,), HOST)) is None


def test_wrong_operands():
    x = random_array("Float32", (2, 3))
    indices = random_array("Int64", (2,), 0, 0, 1)
    assert rejects("ReluGrad", x, random_array("Float32", (3, 2)))[0] is codes.SHAPE_MISMATCH
    assert rejects("GeluGrad", x, x, approximate="erf")[0] is codes.BAD_VALUE
    assert rejects("ReduceTo", x, [2])[0] is codes.SHAPE_MISMATCH
    assert rejects("ReduceTo", x, [1, 2, 3])[0] is codes.SHAPE_MISMATCH
    assert rejects("ReduceTo", x, [-1, 3])[0] is codes.BAD_DIMENSION
    assert rejects("GatherGrad", x, indices, [5, 4])[0] is codes.SHAPE_MISMATCH
    assert rejects("GatherGrad", x, indices, [5])[0] is codes.SHAPE_MISMATCH
    assert rejects("GatherGrad", x, indices, [5, 3], axis=2)[0] is codes.BAD_VALUE
    with pytest.raises(Reject, match="from -1 to 0"):
        apply("GatherGrad", x, np.array([0, 1]), [1, 3])
