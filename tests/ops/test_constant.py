import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_samples import apply, random_array, rejects, seeds, shapes

import distir.ops.constant
import distir.ops.select
import distir.ops.shape  # noqa: F401 - the three register the ops of figure 4
from distir.analysis import Mixed, Types
from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import (
    DTYPES,
    HOST,
    NO_ATTRIBUTES,
    Apply,
    Attributes,
    Dense,
    External,
    Function,
    Literal,
    Module,
    Param,
    Return,
    TensorType,
    dims,
)
from distir.ops import OPS, Reject, canonical, infer_partial, infer_types, infer_values, to_array, type_of, work

INT64, FLOAT32 = DTYPES["Int64"], DTYPES["Float32"]


def ints(*values):
    return Dense(INT64, (len(values),), values)


def known(name, *args, **attrs):
    """What the checker knows of the one result."""
    for rule in (infer_values, infer_partial, infer_types):
        found = rule(OPS[name], args, Attributes(attrs), 1)
        if found is not None:
            return found[0]
    raise AssertionError


def statement(results, name, *args, **attrs):
    args, attrs = canonical(name, args, Attributes(attrs))
    return Apply((results,), name, args, attrs)


def test_figure_4_of_the_paper():
    x = TensorType(FLOAT32, (256, 8, 768), 0)
    body = (
        statement("218", "Shape", "211"),
        statement("219", "Constant", value=2),
        statement("220", "Gather", "218", "219", axis=0),
        statement("223", "Unsqueeze", "220", axes=(0,)),
        statement("224", "Concat", ("3114", "223"), axis=0),
        statement("225", "Reshape", "211", "224"),
        Return(("225",)),
    )
    function = Function("f", (Param("3114", TensorType(INT64, (1,))), Param("211", TensorType(FLOAT32, None))), body)
    module = Module([function])

    mixed = Mixed(module).instance("f", (ints(-1), x)).state
    scalar = Dense(INT64, (), (2,))
    assert [mixed[n] for n in ("3114", "211", "218", "219", "220", "223", "224", "225")] == [
        ints(-1), x, ints(256, 8, 768), scalar, Dense(INT64, (), (768,)), ints(768), ints(-1, 768),
        TensorType(FLOAT32, (2048, 768), 0),
    ]  # fmt: skip

    abstract = Types(module).instance("f", (TensorType(INT64, (1,)), x)).state
    assert abstract["218"] == TensorType(INT64, (3,), HOST)
    assert abstract["223"] == TensorType(INT64, (1,), HOST)


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [(2, "Int64", ()), (2.5, "Float32", ()), (True, "Bool", ()), ((1, 2), "Int64", (2,)), ((1, 2.5), "Float32", (2,)),
     (((1.0,), (2.0,)), "Float32", (2, 1)), ((), "Int64", (0,))],
)  # fmt: skip
def test_a_constant_is_known_and_lives_on_no_device(value, dtype, shape):
    constant = known("Constant", value=value)
    assert isinstance(constant, Dense)
    assert constant.type == TensorType(DTYPES[dtype], shape, HOST)
    np.testing.assert_array_equal(to_array(constant), np.array(value))
    np.testing.assert_array_equal(OPS["Constant"].body(value=value), np.array(value))


def test_onnx_spellings_of_a_constant():
    for name, value in (("value_int", 3), ("value_ints", (1, 2)), ("value_float", 1.5), ("value_floats", (1.5, 2.0))):
        assert statement("c", "Constant", **{name: value}).attrs == Attributes({"value": value})


def test_data_beside_the_program_is_typed_but_not_loaded():
    external = External(FLOAT32, (2, 3), "weights.safetensors#w")
    assert known("Constant", value=external) == external
    assert infer_types(OPS["Constant"], (), Attributes({"value": external}), 1) == (external.type,)
    data = np.ones((2, 3), np.float32)
    assert OPS["Constant"].body(value=data) is data


@pytest.mark.parametrize("value", [((1, 2), (3,)), 2**63, (1, -(2**63) - 1)])
def test_a_constant_must_be_a_tensor(value):
    message = rejects("Constant", value=value)[1]
    assert "expected" in message
    assert "found" in message or "no tensor" in message


@given(st.lists(st.integers(0, 4), max_size=3), st.sampled_from([0, 1.5, True, (2,), ((7,),)]))
def test_constant_of_shape(sizes, value):
    result = apply("ConstantOfShape", sizes, value=value)
    assert result.shape == tuple(sizes)
    assert (result == np.array(value).item()).all()


def test_constant_of_shape_is_zero_in_float32():
    assert apply("ConstantOfShape", [2]).dtype == np.float32


def test_a_huge_constant_is_typed_but_never_made():
    shape = ints(10**8, 10**7)
    assert known("ConstantOfShape", shape) == TensorType(FLOAT32, (10**8, 10**7), HOST)
    assert known("Range", *(Dense(INT64, (), (v,)) for v in (0, 10**15, 1))).shape == (10**15,)
    assert known("ConstantOfShape", TensorType(INT64, (2,), HOST)) == TensorType(FLOAT32, (None, None), HOST)


def test_constant_of_shape_rejections():
    assert rejects("ConstantOfShape", [2, -1])[0] is codes.BAD_VALUE
    assert rejects("ConstantOfShape", [2], value=(1, 2))[0] is codes.BAD_VALUE
    assert rejects("ConstantOfShape", [2], value=External(FLOAT32, (1,), "a#b"))[0] is name_codes.ATTRIBUTE_TYPE
    assert rejects("ConstantOfShape", random_array("Int64", (2,)))[0] is codes.NOT_HOST


@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-7, 7).filter(bool))
def test_range_of_integers_is_pythons(start, limit, delta):
    result = apply("Range", start, limit, delta)
    assert result.tolist() == list(range(start, limit, delta))
    assert result.dtype == np.int64


@given(
    st.floats(-5, 5, width=32),
    st.floats(-5, 5, width=32),
    st.floats(0.25, 3, width=32),
    st.sampled_from(["Float16", "BFloat16", "Float32", "Float64"]),
)
def test_range_of_floats_stops_before_the_limit(start, limit, delta, dtype):
    numbers = [Dense(DTYPES[dtype], (), (v,)) for v in (start, limit, delta)]
    first, last, step = (to_array(number).item() for number in numbers)
    result = to_array(known("Range", *numbers))
    assert infer_types(OPS["Range"], numbers, NO_ATTRIBUTES, 1) == (type_of(known("Range", *numbers)),)
    assert len(result) == max(0, math.ceil((last - first) / step))
    expected = np.array([first + i * step for i in range(len(result))])
    np.testing.assert_array_equal(result, expected.astype(result.dtype))


def test_range_rejections():
    assert rejects("Range", 0, 5, 0) == (
        codes.BAD_VALUE, "`Range` expected a finite step that is not 0, found 0"
    )  # fmt: skip
    assert rejects("Range", 0.0, math.inf, 1.0)[0] is codes.BAD_VALUE
    assert rejects("Range", 0.0, 1e30, 1e-300)[0] is codes.BAD_VALUE  # the step rounds to 0
    assert rejects("Range", 0, 5, 0.5)[0] is codes.DTYPE_MISMATCH
    with pytest.raises(Reject, match="too large"):
        known("Range", *(Dense(DTYPES["Float64"], (), (v,)) for v in (0.0, 1e308, 1e-300)))


@given(shapes, st.integers(-5, 5), st.none() | st.integers(-5, 5))
def test_shape(shape, start, end):
    attrs = {"start": start} | ({} if end is None else {"end": end})
    x = TensorType(FLOAT32, shape, 1)
    expected = shape[start:end]
    assert known("Shape", x, **attrs) == ints(*expected)
    assert apply("Shape", np.zeros(shape, np.float32), **attrs).tolist() == list(expected)
    assert work(OPS["Shape"], [x], [TensorType(INT64, (len(expected),), HOST)], Attributes(attrs)).bytes == 0


def test_shape_of_what_is_not_all_known():
    x = TensorType(FLOAT32, (dims.named("B"), 8, None), 1)
    assert known("Shape", x) == TensorType(INT64, (3,), HOST)
    assert known("Shape", x, start=1, end=2) == ints(8)
    assert known("Shape", TensorType(FLOAT32, None, 1)) == TensorType(INT64, (None,), HOST)
    assert known("Size", x) == TensorType(INT64, (), HOST)


@given(shapes)
def test_size(shape):
    assert known("Size", TensorType(FLOAT32, shape, 1)) == Dense(INT64, (), (math.prod(shape),))
    assert apply("Size", np.zeros(shape, np.float32)) == math.prod(shape)


@given(st.integers(0, 4), st.integers(0, 4), st.integers(-5, 5), st.sampled_from(["Float16", "BFloat16", "Int64"]))
def test_eye_like(rows, columns, k, dtype):
    x = random_array(dtype, (rows, columns))
    np.testing.assert_array_equal(apply("EyeLike", x, k=k).astype(float), np.eye(rows, columns, k))
    assert apply("EyeLike", x, k=k).dtype == x.dtype
    assert apply("EyeLike", x, k=k, dtype=DTYPES["Bool"]).dtype == bool


@given(shapes, st.integers(0, 4), st.integers(-1, 0), seeds, st.sampled_from(["Int32", "Int64", "UInt8", "Float32"]))
def test_one_hot(shape, depth, axis, seed, dtype):
    indices = random_array(dtype, shape, seed, low=-5, high=5)
    result = np.moveaxis(apply("OneHot", indices, depth, np.array([-1, 3], np.int8), axis=axis), axis, -1)
    assert result.dtype == np.int8
    for place in np.ndindex(shape):
        index = int(indices[place])
        hot = range(depth)[index] if -depth <= index < depth else None
        assert result[place].tolist() == [3 if i == hot else -1 for i in range(depth)]


def test_one_hot_rejections():
    x = random_array("Int64", (2, 3))
    assert rejects("OneHot", x, -1, [0, 1])[0] is codes.BAD_VALUE
    assert rejects("OneHot", x, [1, 2], [0, 1])[0] is codes.RANK_MISMATCH
    assert rejects("OneHot", x, 3, [0, 1], axis=3)[0] is codes.BAD_VALUE
    assert rejects("OneHot", x, 3, [0, 1, 2])[0] is codes.SHAPE_MISMATCH


@given(st.lists(st.integers(0, 4), min_size=2, max_size=4), st.integers(-5, 5), st.booleans(), seeds)
def test_trilu(shape, k, upper, seed):
    x = random_array("BFloat16", tuple(shape), seed)
    result = apply("Trilu", x, k, upper=upper)
    mask = np.ones(shape[-2:])
    mask = np.triu(mask, k) if upper else np.tril(mask, k)
    np.testing.assert_array_equal(result.astype(float), x.astype(float) * mask)


def test_trilu_takes_the_main_diagonal_of_matrices():
    x = random_array("Float32", (3, 3))
    np.testing.assert_array_equal(apply("Trilu", x), np.triu(x))
    assert rejects("Trilu", random_array("Float32", (3,)))[0] is codes.RANK_MISMATCH


def test_literals_stand_for_attributes_and_operands():
    assert statement("y", "Trilu", "x", k=1).args == ("x", Literal(1))
    assert statement("c", "Constant", Literal(2)) == statement("c", "Constant", value=2)
