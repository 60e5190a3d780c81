"""Random operands, and the law that every op obeys: the inferred type describes the value."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from distir.ir import DTYPES, HOST, Attributes, Dense, Literal, SymbolicDim, TensorType, TupleType, types
from distir.ir.dims import named
from distir.ops import OPS, Reject, dtype_of, infer_types, numpy_dtype, run, strengthen, to_array, type_of, work
from distir.ops.attributes import bind

settings.register_profile("ops", deadline=None)  # how long an example takes is no matter of correctness
settings.load_profile("ops")

FLOATS = ("Float16", "BFloat16", "Float32", "Float64")
NUMBERS = ("Int8", "Int32", "Int64", "UInt8", *FLOATS)

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
"""Shapes of any rank up to 4, empty ones among them."""
filled_shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
seeds = st.integers(0, 2**32 - 1)


def random_array(dtype, shape, seed=0, low=-3, high=3):
    """Elements between `low` and `high`: whole numbers for integers (from 0 if unsigned), both values for Bool."""
    rng = np.random.default_rng(seed)
    dtype = DTYPES[dtype] if isinstance(dtype, str) else dtype
    if dtype.kind == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.kind == "float":
        return np.asarray(rng.uniform(low, high, shape)).astype(numpy_dtype(dtype))
    return np.asarray(rng.integers(0 if dtype.kind == "uint" else low, high, shape, endpoint=True)).astype(
        numpy_dtype(dtype)
    )


def random_value(type, seed=0, *, low=-3, high=3):
    """A value of a type: an array, or a tuple of those."""
    if isinstance(type, TupleType):
        return tuple(random_value(item, seed + i + 1, low=low, high=high) for i, item in enumerate(type.items))
    return random_array(type.dtype, type.shape, seed + zlib.crc32(str(type).encode()), low, high)


def is_instance(value, type):
    """Whether a type, as far as it says anything, describes an array or a tuple."""
    if isinstance(type, TupleType):
        pairs = zip(value, type.items, strict=True)
        return isinstance(value, tuple) and all(is_instance(v, t) for v, t in pairs)
    if not isinstance(type, TensorType):
        return True
    if type.shape is not None and len(type.shape) != value.ndim:
        return False
    sizes = zip(type.shape or (), value.shape, strict=False)
    return all(n is None or n == size for n, size in sizes) and type.dtype in (None, dtype_of(value))


def apply(name, *operands, count=1, device=1, **attrs):
    """Run an op. Arrays live on `device`, Python's numbers and lists are literals.

    On the way: the result is an instance of what is inferred from the types alone, also where dimensions, shapes or
    host values are unknown or named, and operands are left as they were.
    """
    op, attributes = OPS[name], Attributes(attrs)
    args = [_abstract(v, device) for v in operands]
    kept = [v.copy() if isinstance(v, np.ndarray) else v for v in operands]
    inferred = infer_types(op, args, attributes, count)
    strong = strengthen(op, args, attributes)
    values = [to_array(s) if isinstance(a, Literal) else v for v, a, s in zip(operands, args, strong, strict=True)]
    results = run(op, values, bind(op, attributes), count)
    assert len(results) == count
    for result, described in zip(results, inferred, strict=True):
        assert is_instance(result, described), f"{name}: {described} does not describe {result.dtype}{result.shape}"
        assert types.device_of(described) in (device, HOST)
    for before, after in zip(kept, operands, strict=True):
        if isinstance(before, np.ndarray):
            assert before.tobytes() == after.tobytes()
    _check_unknowns(op, args, attributes, results)
    done = work(op, args, inferred, attributes)
    assert min(done.flops, done.bytes, done.temporary) >= 0
    return results[0] if count == 1 else results


def rejects(name, *operands, count=1, device=1, **attrs):
    """The rejection of these operands, as (number of the code, message)."""
    with pytest.raises(Reject) as caught:
        infer_types(OPS[name], [_abstract(v, device) for v in operands], Attributes(attrs), count)
    message = caught.value.message
    assert message[0] in "`" or message[0].islower()
    return caught.value.code, message


def _abstract(v, device):
    if isinstance(v, tuple) and all(isinstance(item, np.ndarray) for item in v):
        return TupleType(tuple(_abstract(item, device) for item in v))
    if isinstance(v, np.ndarray):
        return TensorType(dtype_of(v), v.shape, device)
    if isinstance(v, list):
        return Literal(tuple(v))
    return v if v is None or isinstance(v, (TensorType, TupleType, Dense)) else Literal(v)


def _check_unknowns(op, args, attrs, results):
    for weaken in (_unknown_dims, _unknown_shape, _unknown_numbers, _named_dims):
        try:
            inferred = infer_types(op, [_weaken(arg, weaken) for arg in args], attrs, len(results))
        except Reject:
            assert weaken is _named_dims  # where a number stands against a name, the number wins
            continue
        sizes = {f"n{i}": i for i in range(2, 1000)}
        for result, described in zip(results, inferred, strict=True):
            known = types.substitute(described, sizes)
            assert is_instance(result, known), f"{op.name} with {weaken.__name__}: {described}"


def _weaken(arg, weaken):
    if isinstance(arg, TupleType):
        return TupleType(tuple(_weaken(item, weaken) for item in arg.items))
    return weaken(arg)


def _unknown_dims(arg):
    return replace(arg, shape=(None,) * len(arg.shape)) if isinstance(arg, TensorType) else arg


def _unknown_shape(arg):
    return replace(arg, shape=None) if isinstance(arg, TensorType) else arg


def _unknown_numbers(arg):
    """Host vectors of which nothing but the length is known."""
    if isinstance(arg, Literal) and isinstance(arg.value, tuple):
        return TensorType(DTYPES["Int64"], type_of(arg).shape, HOST)
    return arg


def _named_dims(arg):
    if not isinstance(arg, TensorType):
        return arg
    shape = tuple(named(f"n{n}") if n > 1 else n for n in arg.shape)
    assert all(isinstance(n, (int, SymbolicDim)) for n in shape)
    return replace(arg, shape=shape)


def broadcastable(draw, shape):
    """A shape that broadcasts to `shape`."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    return tuple(draw(st.sampled_from((n, 1))) for n in kept)


def close(actual, expected, tolerance=None):
    """Assert that an array holds the expected numbers, as exactly as its element type can."""
    exact = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3, "bfloat16": 4e-2}
    tolerance = exact.get(actual.dtype.name, 0) if tolerance is None else tolerance
    left, right = np.asarray(actual).astype(np.float64), np.asarray(expected).astype(np.float64)
    np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


def numerical_gradient(function, x, dy, step=1e-5):
    """The gradient of `sum(dy * function(x))` by central differences, in Float64."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        there, back = x.copy(), x.copy()
        there[index] += step
        back[index] -= step
        gradient[index] = np.sum(dy * (function(there) - function(back))) / (2 * step)
    return gradient
