import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_samples import FLOATS, NUMBERS, apply, close, filled_shapes, random_array, rejects, seeds, shapes
from thorough import most_examples

import distir.ops.reduce  # noqa: F401 - registers the ops
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, HOST, UNKNOWN, Attributes, Literal, TensorType
from distir.ir.dims import named
from distir.ops import OPS, infer_types

REDUCTIONS = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceSumSquare": lambda x, axis, keepdims: (x**2).sum(axis=axis, keepdims=keepdims),
    "ReduceL2": lambda x, axis, keepdims: np.sqrt((x**2).sum(axis=axis, keepdims=keepdims)),
    "ReduceLogSumExp": lambda x, axis, keepdims: np.log(np.exp(x).sum(axis=axis, keepdims=keepdims)),
}


@st.composite
def reductions(draw):
    """An array, axes (counted from either end), and whether to keep them."""
    shape = draw(filled_shapes)
    axes = draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    spelled = [axis - len(shape) * draw(st.booleans()) for axis in axes]
    x = random_array(draw(st.sampled_from(FLOATS)), shape, draw(seeds), -2, 2)
    return x, spelled, draw(st.booleans())


@pytest.mark.parametrize("name", REDUCTIONS)
@settings(max_examples=most_examples(40))
@given(reductions())
def test_reductions(name, case):
    x, axes, keepdims = case
    found = apply(name, x, axes, keepdims=keepdims)
    along = tuple(axes) or tuple(range(x.ndim))
    close(found, REDUCTIONS[name](x.astype(np.float64), axis=along, keepdims=keepdims))


@pytest.mark.parametrize("name", REDUCTIONS)
@settings(max_examples=most_examples(40))
@given(reductions())
def test_without_axes(name, case):
    x, _, keepdims = case
    everything = tuple(range(x.ndim))
    close(apply(name, x, keepdims=keepdims), REDUCTIONS[name](x.astype(np.float64), axis=everything, keepdims=keepdims))
    kept = apply(name, x, noop_with_empty_axes=True)
    close(kept, REDUCTIONS[name](x.astype(np.float64)[None], axis=0, keepdims=False))
    assert (kept == apply(name, x, [], noop_with_empty_axes=True)).all()


@given(filled_shapes, seeds, st.sampled_from(("Int8", "Int64", "UInt8")))
def test_integers(shape, seed, dtype):
    x = random_array(dtype, shape, seed)
    close(apply("ReduceMean", x, [0]), np.trunc(x.astype(np.float64).mean(0, keepdims=True)))
    for name in ("ReduceMax", "ReduceMin"):
        close(apply(name, x, [0]), REDUCTIONS[name](x, axis=0, keepdims=True))
    close(apply("ReduceSumSquare", x, [-1]), (x.astype(int) ** 2).sum(-1, keepdims=True).astype(x.dtype))


def test_reductions_of_nothing():
    nothing = np.zeros((2, 0), np.float32)
    neutral = {"ReduceSum": 0, "ReduceProd": 1, "ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceLogSumExp": -np.inf}
    for name, value in neutral.items():
        assert apply(name, nothing, [1]).tolist() == [[value], [value]]
    assert apply("ReduceMax", nothing.astype(np.int8)) == -128
    assert apply("ReduceMean", nothing.astype(np.int8)) == 0


def test_long_sums_of_short_floats_keep_their_precision():
    assert apply("ReduceSum", np.full(4096, 0.1, np.float16)) == np.float16(409.5)
    assert apply("ReduceMean", np.full(2**17, 1.0, np.float16)) == 1  # the sum alone is out of range


@given(filled_shapes, seeds, st.sampled_from(NUMBERS), st.data())
def test_places_of_extremes(shape, seed, dtype, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = random_array(dtype, shape, seed, -1, 1)
    for name, extreme in (("ArgMax", np.max), ("ArgMin", np.min)):
        first = apply(name, x, axis=axis)
        last = apply(name, x, axis=axis, select_last_index=True)
        value = extreme(x.astype(np.float64), axis=axis, keepdims=True)
        is_extreme = x.astype(np.float64) == value
        places = np.arange(shape[axis]).reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
        assert (first == np.where(is_extreme, places, 99).min(axis, keepdims=True)).all()
        assert (last == np.where(is_extreme, places, -1).max(axis, keepdims=True)).all()
        assert (apply(name, x, axis=axis, keepdims=False) == first.squeeze(axis)).all()


@given(filled_shapes, seeds, st.sampled_from(("Int32", "Float16", "Float64")), st.data(), st.booleans(), st.booleans())
def test_cumulative_sums(shape, seed, dtype, data, exclusive, reverse):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = random_array(dtype, shape, seed)
    size = shape[axis]
    taken = np.tril(np.ones((size, size)), -1 if exclusive else 0)
    expected = np.moveaxis(np.tensordot(taken.T if reverse else taken, x.astype(np.float64), (1, axis)), 0, axis)
    close(apply("CumSum", x, axis, exclusive=exclusive, reverse=reverse), expected)


@given(filled_shapes, seeds, st.sampled_from(NUMBERS), st.data(), st.booleans())
def test_top_k(shape, seed, dtype, data, largest):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    k = data.draw(st.integers(0, shape[axis]))
    x = random_array(dtype, shape, seed, -2, 2)
    values, indices = apply("TopK", x, [k], count=2, axis=axis, largest=largest)
    rows, found, places = (np.moveaxis(a, axis, -1).astype(np.float64) for a in (x, values, indices))
    for index in np.ndindex(rows.shape[:-1]):
        row = rows[index].tolist()
        order = sorted(range(len(row)), key=lambda i: (-row[i] if largest else row[i], i))[:k]
        assert places[index].tolist() == order
        assert found[index].tolist() == [row[i] for i in order]


@given(shapes, seeds)
def test_any_shape_is_summed(shape, seed):
    x = random_array("Float64", shape, seed)
    close(apply("ReduceSum", x, keepdims=False), x.sum())


def test_what_is_known_of_the_shape_where_the_axes_are_not():
    x = TensorType(DTYPES["Float32"], (named("B"), 1, 3), 1)
    one = TensorType(DTYPES["Int64"], (1,), HOST)

    def shape_of(data, *axes, **attrs):
        (found,) = infer_types(OPS["ReduceSum"], [data, *axes], Attributes(attrs), 1)
        return found.shape

    assert shape_of(x, one) == (None, 1, None)
    assert shape_of(x, one, keepdims=False) == (None, None)
    assert shape_of(x, Literal((1, 2)), keepdims=False) == (named("B"),)
    assert shape_of(x, TensorType(DTYPES["Int64"], (None,), HOST), keepdims=False) is None
    assert shape_of(UNKNOWN, keepdims=False) == ()
    assert shape_of(UNKNOWN, one) is None


def test_wrong_operands():
    x = random_array("Float32", (2, 3))
    assert rejects("ReduceSum", x, [2])[0] is codes.BAD_VALUE
    assert rejects("ReduceSum", x, [0, -2])[0] is codes.BAD_VALUE
    assert rejects("ReduceSum", x, TensorType(DTYPES["Int64"], (3,), HOST))[0] is codes.BAD_VALUE
    assert rejects("ReduceSum", x, TensorType(DTYPES["Int64"], (1,), 1))[0] is codes.NOT_HOST
    assert rejects("ReduceL2", random_array("Int32", (2,)))[0] is codes.DTYPE_MISMATCH
    assert rejects("ArgMax", x, axis=-3)[0] is codes.BAD_VALUE
    assert rejects("ArgMax", np.zeros((2, 0), np.float32), axis=1)[0] is codes.SHAPE_MISMATCH
    assert rejects("CumSum", x, 2)[0] is codes.BAD_VALUE
    assert rejects("TopK", x, [4], count=2)[0] is codes.BAD_VALUE
