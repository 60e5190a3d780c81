import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_samples import FLOATS, NUMBERS, apply, broadcastable, close, random_array, rejects, seeds, shapes

import distir.ops.elementwise  # noqa: F401 - registers the ops
from distir.diagnostics.codes import devices as device_codes
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, HOST, NO_ATTRIBUTES, Attributes, Dense, Literal, TensorType
from distir.ops import OPS, infer_values, numpy_dtype


@st.composite
def pairs(draw, dtypes=NUMBERS):
    """Two arrays of one element type that broadcast."""
    dtype, shape, seed = draw(st.sampled_from(dtypes)), draw(shapes), draw(seeds)
    a = random_array(dtype, shape, seed)
    b = random_array(dtype, broadcastable(draw, shape), seed + 1)
    return (a, b) if draw(st.booleans()) else (b, a)


def by_element(function, dtype, *arrays):
    """A function of Python numbers on each element."""
    wide = np.broadcast_arrays(*(a.astype(np.float64) for a in arrays))
    values = [function(*numbers) for numbers in zip(*(a.reshape(-1).tolist() for a in wide), strict=True)]
    return np.array(values, dtype).reshape(wide[0].shape)


@given(pairs())
def test_arithmetic(operands):
    a, b = operands
    for name, function in (("Add", operator.add), ("Mul", operator.mul)):
        close(apply(name, a, b), by_element(function, np.float64, a, b).astype(a.dtype))
    close(apply("Add", apply("Sub", a, b), b), np.broadcast_arrays(a, b)[0], 0.02 if a.dtype.itemsize < 4 else None)
    close(apply("Min", a, b), by_element(min, np.float64, a, b))
    close(apply("Max", a, b), by_element(max, np.float64, a, b))
    close(apply("Sum", a, b, a), apply("Add", apply("Add", a, b), a))


@given(pairs(("Int8", "Int32", "Int64", "UInt8")))
def test_integers_divide_towards_zero_and_leave_a_remainder(operands):
    a, b = operands
    b = np.where(b == 0, b.dtype.type(1), b)
    quotient = apply("Div", a, b)
    close(quotient, by_element(lambda x, y: math.trunc(x / y), np.int64, a, b))
    remainder = apply("Mod", a, b, fmod=True)
    close(apply("Add", apply("Mul", quotient, b), remainder), np.broadcast_arrays(a, b)[0])
    close(apply("Mod", a, b), by_element(operator.mod, np.int64, a, b))


@given(pairs(FLOATS))
def test_floating_point_division(operands):
    a, b = operands
    b = np.where(np.abs(b) < 0.1, b.dtype.type(1), b)
    close(apply("Div", a, b), by_element(operator.truediv, np.float64, a, b), 0.05 if a.dtype.itemsize < 4 else None)
    close(apply("Mod", a, b, fmod=True).astype(np.float64), by_element(math.fmod, np.float64, a, b))


def test_mod_has_the_sign_of_the_divisor():
    x = random_array("Float32", (9,), 1)
    close(apply("Mod", x, 2.0), x - 2 * np.floor(x / 2))
    close(apply("Mod", x, -2.0), x + 2 * np.floor(x / -2))


@given(shapes, seeds, st.sampled_from(FLOATS))
def test_powers(shape, seed, dtype):
    x = random_array(dtype, shape, seed, 0.5, 2)
    close(apply("Pow", x, 2), apply("Mul", x, x))
    close(apply("Pow", x, 0.5), apply("Sqrt", x))
    close(apply("Pow", x, -1), apply("Reciprocal", x))


@given(st.integers(-5, 5), st.integers(-5, 5), st.sampled_from(("Int8", "Int64")))
def test_integer_powers_round_towards_zero(x, y, dtype):
    expected = int(x**y) if y >= 0 or x else 0
    x = np.array(x, numpy_dtype(DTYPES[dtype]))
    assert apply("Pow", x, y) == np.array(expected).astype(x.dtype)


@given(shapes, seeds, st.sampled_from(FLOATS), st.integers(1, 4))
def test_mean(shape, seed, dtype, number):
    data = [random_array(dtype, shape, seed + i) for i in range(number)]
    close(apply("Mean", *data), np.stack([x.astype(np.float64) for x in data]).mean(0))


def test_sums_of_tuples_are_leafwise():
    a, b = ((random_array("Float32", (2, 3), s), random_array("Float32", (3,), s)) for s in (1, 2))
    total = apply("Sum", a, b)
    for found, x, y in zip(total, a, b, strict=True):
        close(found, x + y)


UNARY = {
    "Exp": math.exp,
    "Log": math.log,
    "Sqrt": math.sqrt,
    "Reciprocal": lambda x: 1 / x,
    "Floor": math.floor,
    "Ceil": math.ceil,
    "Round": round,
    "Erf": math.erf,
    "Sin": math.sin,
    "Cos": math.cos,
    "Neg": operator.neg,
    "Abs": abs,
    "Sign": lambda x: math.copysign(1, x),
}


@pytest.mark.parametrize("name", UNARY)
@given(shapes, seeds, st.sampled_from(FLOATS))
def test_functions_of_one_operand(name, shape, seed, dtype):
    positive = name in ("Log", "Sqrt", "Reciprocal")
    x = random_array(dtype, shape, seed, 0.25 if positive else -3, 3)
    close(apply(name, x), by_element(UNARY[name], np.float64, x))


@pytest.mark.parametrize("dtype", ["Float8E4M3FN", "Float8E4M3FNUZ", "Float8E5M2", "Float8E5M2FNUZ"])
def test_eight_bit_floats_keep_their_type(dtype):
    x = random_array(dtype, (3, 2), 1, 0.5, 2)
    for name in UNARY:
        apply(name, x)
    for name in ("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Sum", "Mean"):
        apply(name, x, x)


def test_rounding_takes_the_even_neighbour():
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    assert apply("Round", x).tolist() == [-2, -2, 0, 0, 2, 2]


@given(pairs())
def test_comparisons_agree_with_each_other(operands):
    a, b = operands
    less, equal, greater = (apply(name, a, b) for name in ("Less", "Equal", "Greater"))
    assert (less.astype(int) + equal + greater == 1).all()
    assert (less == by_element(operator.lt, bool, a, b)).all()
    assert (apply("LessOrEqual", a, b) == apply("Or", less, equal)).all()
    assert (apply("GreaterOrEqual", a, b) == apply("Not", less)).all()
    assert not apply("And", less, greater).any()


@given(pairs(), seeds)
def test_where_takes_from_either_side(operands, seed):
    a, b = operands
    wide_a, wide_b = np.broadcast_arrays(a, b)
    condition = random_array("Bool", wide_a.shape, seed)
    chosen = apply("Where", condition, a, b)
    assert chosen[condition].tolist() == wide_a[condition].tolist()
    assert chosen[~condition].tolist() == wide_b[~condition].tolist()


@given(shapes, seeds, st.sampled_from(NUMBERS), st.integers(0, 2), st.integers(0, 2))
def test_clip(shape, seed, dtype, low, high):
    x = random_array(dtype, shape, seed)
    close(apply("Clip", x, low, high), by_element(lambda v: min(max(v, low), high), np.float64, x))
    close(apply("Clip", x), x)
    close(apply("Clip", x, None, high), by_element(lambda v: min(v, high), np.float64, x))


@given(shapes, seeds, st.sampled_from((*NUMBERS, "Bool")), st.sampled_from((*NUMBERS, "Bool")))
def test_cast_drops_fractions(shape, seed, source, target):
    x = random_array(source, shape, seed, 0, 3)
    found = apply("Cast", x, to=DTYPES[target])
    numbers = x.astype(np.float64)
    expected = numbers != 0 if target == "Bool" else np.trunc(numbers) if "Int" in target else numbers
    close(found, expected)


@pytest.mark.parametrize("dtype", ["Float8E4M3FN", "Float8E4M3FNUZ", "Float8E5M2", "Float8E5M2FNUZ"])
def test_casts_to_eight_bit_floats_saturate(dtype):
    x = np.array([1.0, 1e6, -1e6, np.inf, np.nan], np.float32)
    saturated = apply("Cast", x, to=DTYPES[dtype]).astype(np.float32)
    assert np.isfinite(saturated[:4]).all()
    assert saturated[1] == -saturated[2] == saturated[3]
    assert np.isnan(saturated[4])
    assert not np.isfinite(apply("Cast", x, to=DTYPES[dtype], saturate=False).astype(np.float32)[1:]).any()


def test_host_values_are_computed_before_the_program_runs():
    numbers = Dense(DTYPES["Int64"], (2,), (2, 3))
    (found,) = infer_values(OPS["Mul"], [numbers, Literal(2)], NO_ATTRIBUTES, 1)
    assert found == Dense(DTYPES["Int64"], (2,), (4, 6))
    (found,) = infer_values(OPS["Cast"], [numbers], Attributes({"to": DTYPES["Float32"]}), 1)
    assert found == Dense(DTYPES["Float32"], (2,), (2.0, 3.0))
    assert found.type.device == HOST


def test_identity_costs_nothing():
    assert OPS["Identity"].view
    x = random_array("Float32", (2, 3))
    assert apply("Identity", x) is x


def test_wrong_operands():
    elsewhere = TensorType(DTYPES["Float32"], (2, 3), 2)
    f, i, b = (random_array(t, (2, 3)) for t in ("Float32", "Int64", "Bool"))
    assert rejects("Add", f, random_array("Float32", (2, 2)))[0] is codes.SHAPE_MISMATCH
    assert rejects("Add", f, i)[0] is codes.DTYPE_MISMATCH
    assert rejects("Add", b, b)[0] is codes.DTYPE_MISMATCH
    assert rejects("And", f, f)[0] is codes.DTYPE_MISMATCH
    assert rejects("Exp", i)[0] is codes.DTYPE_MISMATCH
    assert rejects("Where", f, f, f)[0] is codes.DTYPE_MISMATCH
    assert rejects("Clip", f, f)[0] is codes.RANK_MISMATCH
    assert rejects("Sum", f, elsewhere)[0] is device_codes.DEVICE_MISMATCH
