import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_samples import FLOATS, NUMBERS, apply, close, filled_shapes, random_array, rejects, seeds, shapes

import distir.ops.activation  # noqa: F401 - registers the ops
from distir.diagnostics.codes import types as codes


def gelu_tanh(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


FORMULAS = {
    "Relu": (lambda x: max(x, 0), {}),
    "LeakyRelu": (lambda x: x if x >= 0 else 0.2 * x, {"alpha": 0.2}),
    "Elu": (lambda x: x if x >= 0 else 1.5 * (math.exp(x) - 1), {"alpha": 1.5}),
    "Sigmoid": (lambda x: 1 / (1 + math.exp(-x)), {}),
    "HardSigmoid": (lambda x: min(max(0.2 * x + 0.5, 0), 1), {}),
    "HardSwish": (lambda x: x * min(max(x / 6 + 0.5, 0), 1), {}),
    "Tanh": (math.tanh, {}),
    "Gelu": (lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))), {}),
    "Gelu tanh": (gelu_tanh, {"approximate": "tanh"}),
    "Swish": (lambda x: x / (1 + math.exp(-1.7 * x)), {"alpha": 1.7}),
    "Softplus": (lambda x: math.log(1 + math.exp(x)), {}),
}


@pytest.mark.parametrize("case", FORMULAS)
@given(shapes, seeds, st.sampled_from(FLOATS))
def test_published_formulas(case, shape, seed, dtype):
    formula, attrs = FORMULAS[case]
    x = random_array(dtype, shape, seed, -5, 5)
    expected = [formula(v) for v in x.astype(np.float64).reshape(-1).tolist()]
    close(apply(case.split()[0], x, **attrs), np.reshape(expected, shape))


@pytest.mark.parametrize("name", ["Sigmoid", "Swish", "Softplus", "Gelu", "Elu", "Tanh", "Softmax", "LogSoftmax"])
def test_large_numbers_do_not_overflow(name):
    found = apply(name, np.array([-1e4, 0, 1e4], np.float64))
    assert np.isfinite(found).all()


@given(shapes, seeds, st.sampled_from(NUMBERS))
def test_relu_of_any_number(shape, seed, dtype):
    x = random_array(dtype, shape, seed)
    close(apply("Relu", x), np.clip(x.astype(np.float64), 0, None))


@given(filled_shapes, seeds, st.sampled_from(FLOATS), st.data())
def test_softmax_is_a_distribution_that_ignores_shifts(shape, seed, dtype, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = random_array(dtype, shape, seed)
    y = apply("Softmax", x, axis=axis)
    expected = np.exp(x.astype(np.float64))
    close(y, expected / expected.sum(axis, keepdims=True))
    close(apply("LogSoftmax", x, axis=axis), np.log(expected / expected.sum(axis, keepdims=True)))
    close(apply("Softmax", x + x.dtype.type(1), axis=axis), y, 0.05 if x.dtype.itemsize < 4 else None)


def test_softmax_of_nothing():
    assert apply("Softmax", np.zeros((2, 0), np.float32)).shape == (2, 0)
    assert apply("Softmax", np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_wrong_operands():
    x = random_array("Float32", (2, 3))
    assert rejects("Softmax", x, axis=2)[0] is codes.BAD_VALUE
    assert rejects("Softmax", random_array("Float32", ()))[0] is codes.RANK_MISMATCH
    assert rejects("Gelu", x, approximate="erf")[0] is codes.BAD_VALUE
    assert rejects("Sigmoid", random_array("Int32", (2,)))[0] is codes.DTYPE_MISMATCH
