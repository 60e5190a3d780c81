import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from op_samples import FLOATS, apply, close, filled_shapes, random_array, rejects, seeds

import distir.ops.norm  # noqa: F401 - registers the ops
from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, UNKNOWN, Attributes, TensorType
from distir.ops import OPS, infer_types


@st.composite
def normalised(draw):
    """An operand, a scale, an addend, and the axis from which on they are normalised."""
    shape, dtype, seed = draw(filled_shapes), draw(st.sampled_from(FLOATS)), draw(seeds)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    inner = shape[axis % len(shape) :]
    return (
        random_array(dtype, shape, seed),
        random_array(dtype, inner, seed + 1, 0.5, 2),
        random_array(dtype, inner, seed + 2),
        axis,
    )


@given(normalised())
def test_layer_normalization(case):
    x, scale, b, axis = case
    y, mean, inverse = apply("LayerNormalization", x, scale, b, count=3, axis=axis, epsilon=0.1)
    rows = x.astype(np.float64).reshape(int(np.prod(x.shape[: axis % x.ndim])), -1)
    unit = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 0.1)
    close(y, unit.reshape(x.shape) * scale.astype(np.float64) + b.astype(np.float64), 0.1 if x.itemsize < 4 else None)
    close(mean.reshape(-1), rows.mean(1))
    close(inverse.reshape(-1), 1 / np.sqrt(rows.var(1) + 0.1))
    assert mean.dtype == inverse.dtype == np.float32
    close(apply("LayerNormalization", x, scale, b, axis=axis, epsilon=0.1), y)


@given(normalised())
def test_without_an_addend(case):
    x, scale, b, axis = case
    without = apply("LayerNormalization", x, scale, axis=axis)
    close(without, apply("LayerNormalization", x, scale, np.zeros_like(b), axis=axis))


@given(normalised())
def test_rms_normalization(case):
    x, scale, _, axis = case
    rows = x.astype(np.float64).reshape(int(np.prod(x.shape[: axis % x.ndim])), -1)
    unit = rows / np.sqrt((rows**2).mean(1, keepdims=True) + 1e-5)
    found = apply("RMSNormalization", x, scale, axis=axis)
    close(found, unit.reshape(x.shape) * scale.astype(np.float64), 0.05 if x.itemsize < 4 else None)


def test_large_numbers_of_short_floats():
    x = np.array([[30000.0, -30000.0]], np.float16)  # whose squares are out of range
    scale = np.ones(2, np.float16)
    close(apply("LayerNormalization", x, scale), [[1, -1]])
    close(apply("RMSNormalization", x, scale), [[1, -1]])


def test_the_scale_tells_what_the_operand_does_not():
    scale = TensorType(DTYPES["Float32"], (3,), 1)
    x = TensorType(DTYPES["Float32"], (2, None), 1)
    y, mean = infer_types(OPS["LayerNormalization"], [x, scale], Attributes(), 2)
    assert y.shape == (2, 3)
    assert mean.shape == (2, 1)
    (y,) = infer_types(OPS["LayerNormalization"], [UNKNOWN, scale], Attributes(), 1)
    assert y == TensorType(DTYPES["Float32"], None, 1)


def test_wrong_operands():
    x, scale = random_array("Float32", (2, 3)), random_array("Float32", (3,))
    assert rejects("LayerNormalization", x, random_array("Float32", (2,)))[0] is codes.SHAPE_MISMATCH
    assert rejects("LayerNormalization", x, scale, axis=0)[0] is codes.SHAPE_MISMATCH
    assert rejects("LayerNormalization", x, scale, axis=2)[0] is codes.BAD_VALUE
    assert rejects("LayerNormalization", x, scale, count=4)[0] is name_codes.RESULT_COUNT
    assert rejects("LayerNormalization", x, scale, stash_type=10)[0] is codes.BAD_VALUE
    assert rejects("RMSNormalization", x, random_array("Float16", (3,)))[0] is codes.DTYPE_MISMATCH
