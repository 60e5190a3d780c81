import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_samples import FLOATS, NUMBERS, apply, broadcastable, random_array, rejects, seeds, shapes

import distir.ops.shape  # noqa: F401 - registers the ops
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, HOST, Attributes, Literal, TensorType, dims
from distir.ops import OPS, canonical, infer_types, work

B = dims.named("B")
FLOAT32 = DTYPES["Float32"]


def inferred(name, shape, *args, **attrs):
    """The shape that the op gives for an operand of this shape."""
    operands = [TensorType(FLOAT32, shape, 1), *(Literal(a) if isinstance(a, tuple) else a for a in args)]
    return infer_types(OPS[name], operands, Attributes(attrs), 1)[0].shape


def host_ints(length):
    return TensorType(DTYPES["Int64"], (length,), HOST)


@st.composite
def reshapes(draw):
    """A shape and another one with the same number of elements."""
    factors = draw(st.lists(st.integers(1, 3), max_size=5))

    def grouped():
        cuts = sorted(draw(st.lists(st.integers(0, len(factors)), max_size=3)))
        groups = [factors[a:b] for a, b in zip([0, *cuts], [*cuts, len(factors)], strict=True)]
        return tuple(math.prod(group) for group in groups)

    return grouped(), grouped()


@given(reshapes(), seeds, st.sampled_from(NUMBERS), st.data())
def test_reshape_keeps_the_elements_in_order(pair, seed, dtype, data):
    before, after = pair
    x = random_array(dtype, before, seed)
    sizes = list(after)
    if data.draw(st.booleans()):
        sizes[data.draw(st.integers(0, len(sizes) - 1))] = -1
    result = apply("Reshape", x, sizes)
    assert result.shape == after
    assert result.reshape(-1).tolist() == x.reshape(-1).tolist()


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple))
def test_reshape_with_zeros_copies_sizes(shape):
    x = np.zeros(shape, np.float32)
    assert apply("Reshape", x, [0] * len(shape)).shape == shape
    assert apply("Reshape", x, [*[0] * (len(shape) - 1), -1]).shape == shape
    if 0 in shape:
        assert apply("Reshape", x, [3, 0], allowzero=True).shape == (3, 0)


@pytest.mark.parametrize(
    ("shape", "sizes", "result"),
    [
        ((B, 8, 768), (-1, 768), (dims.multiply(8, B), 768)),
        ((B, 8, 768), (0, 0, 12, -1), (B, 8, 12, 64)),
        ((B, 8, 768), (0, -1), (B, 6144)),
        ((None, 4, 6), (0, -1), (None, 24)),
        ((None, 4, 6), (-1, 6), (None, 6)),
        ((dims.divide(B, 2), 4), (-1,), (dims.multiply(2, B),)),
        (None, (0, -1, 5), (None, None, 5)),
    ],
)
def test_reshape_of_unknown_and_named_sizes(shape, sizes, result):
    assert inferred("Reshape", shape, sizes) == result


def test_reshape_to_sizes_that_are_not_known():
    assert inferred("Reshape", (2, 3), host_ints(3)) == (None, None, None)
    assert inferred("Reshape", (2, 3), host_ints(None)) is None


@pytest.mark.parametrize(
    ("sizes", "attrs", "words"),
    [
        ([5, 4], {}, "sizes that hold the 24 elements of (2, 3, 4), found [5, 4]"),
        ([5, -1], {}, "24 elements"),
        ([-1, -1], {}, "at most one -1"),
        ([-2, 12], {}, "at most one -1"),
        ([0, -1], {"allowzero": True}, "no 0 beside it"),
        ([1, 1, 1, 0], {}, "found rank 3"),
    ],
)
def test_reshape_rejections(sizes, attrs, words):
    code, message = rejects("Reshape", random_array("Float32", (2, 3, 4)), sizes, **attrs)
    assert code is codes.BAD_VALUE
    assert words in message


@given(shapes, st.data())
def test_flatten(shape, data):
    axis = data.draw(st.integers(-len(shape), len(shape)))
    x = random_array("Float16", shape)
    result = apply("Flatten", x, axis=axis)
    cut = axis if axis >= 0 else axis + len(shape)
    assert result.shape == (math.prod(shape[:cut]), math.prod(shape[cut:]))
    assert result.reshape(-1).tolist() == x.reshape(-1).tolist()


def test_flatten_of_named_sizes():
    assert inferred("Flatten", (B, 8, 4), axis=2) == (dims.multiply(8, B), 4)
    assert inferred("Flatten", None) == (None, None)
    assert rejects("Flatten", random_array("Float32", (2, 3)), axis=3)[0] is codes.BAD_VALUE


@given(shapes, st.data())
def test_unsqueeze_adds_what_squeeze_takes_away(shape, data):
    count = data.draw(st.integers(0, 2))
    rank = len(shape) + count
    axes = data.draw(st.lists(st.integers(0, max(rank - 1, 0)), unique=True, min_size=count, max_size=count))
    spelled = [data.draw(st.sampled_from([axis, axis - rank])) for axis in axes]
    x = random_array("BFloat16", shape)
    wide = apply("Unsqueeze", x, spelled)
    assert wide.ndim == rank
    assert all(wide.shape[axis] == 1 for axis in axes)
    assert apply("Squeeze", wide, spelled).shape == shape
    assert apply("Squeeze", wide).shape == tuple(n for n in shape if n != 1)


def test_squeeze_of_what_is_not_known():
    assert inferred("Squeeze", (B, 1, 3)) is None  # B may be 1
    assert inferred("Squeeze", (B, 1, 3), (1,)) == (B, 3)
    assert inferred("Squeeze", (None, 1, 3), (0, -2)) == (3,)
    assert inferred("Squeeze", (1, 1, 3), host_ints(2)) == (None,)
    assert inferred("Unsqueeze", (B, 3), (0, -1)) == (1, B, 3, 1)
    assert inferred("Unsqueeze", (B, 3), host_ints(1)) == (None, None, None)
    assert inferred("Unsqueeze", None, (0,)) is None


def test_squeeze_and_unsqueeze_rejections():
    x = random_array("Float32", (1, 3))
    assert rejects("Squeeze", x, [1]) == (codes.SHAPE_MISMATCH, "`Squeeze` expected dimension 1 to be 1, found 3")
    assert rejects("Squeeze", x, [0, -2])[0] is codes.BAD_VALUE
    assert rejects("Squeeze", x, [2])[0] is codes.BAD_VALUE
    assert rejects("Unsqueeze", x, [0, 0])[0] is codes.BAD_VALUE
    assert rejects("Unsqueeze", x, [3]) == (codes.BAD_VALUE, "`Unsqueeze` expected an axis from -3 to 2, found 3")
    assert rejects("Unsqueeze", x, random_array("Int64", (1,)))[0] is codes.NOT_HOST


def test_the_old_spelling_of_axes():
    assert canonical("Unsqueeze", ("220",), Attributes({"axes": (0,)})) == (("220", Literal((0,))), Attributes())


@given(shapes, st.randoms(), st.sampled_from(NUMBERS))
def test_transpose_moves_each_element(shape, random, dtype):
    x = random_array(dtype, shape, 3)
    perm = random.sample(range(len(shape)), len(shape))
    result = apply("Transpose", x, perm=tuple(perm))
    for place in np.ndindex(result.shape):
        assert result[place] == x[tuple(place[perm.index(axis)] for axis in range(len(shape)))]
    assert apply("Transpose", apply("Transpose", x)).tolist() == x.tolist()


def test_transpose_of_named_sizes_and_rejections():
    assert inferred("Transpose", (B, 2, 3)) == (3, 2, B)
    assert inferred("Transpose", None, perm=(1, 0)) == (None, None)
    x = random_array("Float32", (2, 3))
    for perm in ((0, 0), (1, 2), (0,), (-1, 0)):
        assert rejects("Transpose", x, perm=perm)[0] is codes.BAD_VALUE


@given(shapes, st.data())
def test_expand_broadcasts(shape, data):
    x = random_array("Float32", broadcastable(data.draw, shape))
    np.testing.assert_array_equal(apply("Expand", x, list(shape)), np.broadcast_to(x, shape))
    y = random_array("Float32", shape)
    np.testing.assert_array_equal(apply("Expand", y, list(x.shape)), y)


def test_expand_of_unknown_sizes_and_rejections():
    assert inferred("Expand", (B, 1), (3, 1, 4)) == (3, B, 4)
    assert inferred("Expand", (2, 1), host_ints(3)) == (None, 2, None)
    assert inferred("Expand", (2, 1), host_ints(None)) is None
    x = random_array("Float32", (2, 3))
    assert rejects("Expand", x, [4, 1])[0] is codes.SHAPE_MISMATCH
    assert rejects("Expand", x, [-1, 3])[0] is codes.BAD_VALUE


@given(shapes, st.data())
def test_tile_repeats(shape, data):
    x = random_array("Float16", shape)
    repeats = data.draw(st.lists(st.integers(0, 3), min_size=len(shape), max_size=len(shape)))
    result = apply("Tile", x, repeats)
    assert result.shape == tuple(n * r for n, r in zip(shape, repeats, strict=True))
    for place in np.ndindex(result.shape):
        assert result[place] == x[tuple(i % n for i, n in zip(place, shape, strict=True))]


def test_tile_of_named_sizes_and_rejections():
    assert inferred("Tile", (B, 3), (2, 1)) == (dims.multiply(2, B), 3)
    assert inferred("Tile", None, (2, 1)) == (None, None)
    x = random_array("Float32", (2, 3))
    assert rejects("Tile", x, [2])[0] is codes.BAD_VALUE
    assert rejects("Tile", x, [2, -1])[0] is codes.BAD_VALUE


@given(st.lists(st.integers(1, 4), max_size=3).map(tuple), st.sampled_from(FLOATS), st.data())
def test_pad(shape, dtype, data):
    widths = [tuple(data.draw(st.integers(0, 3)) for _ in "ba") for _ in shape]
    pads = [b for b, _ in widths] + [a for _, a in widths]
    x = random_array(dtype, shape)
    padded = apply("Pad", x, pads, 1.5)
    np.testing.assert_array_equal(padded.astype(float), np.pad(x.astype(float), widths or 0, constant_values=1.5))
    for mode in ("edge", "reflect", "wrap"):
        result = apply("Pad", x, pads, mode=mode).astype(float)
        np.testing.assert_array_equal(result, np.pad(x.astype(float), widths, mode) if shape else x)
    np.testing.assert_array_equal(apply("Pad", padded, [-n for n in pads]), x)


def test_pad_along_some_axes():
    x = random_array("Int8", (2, 3))
    result = apply("Pad", x, [1, 0], None, [-1])
    np.testing.assert_array_equal(result, np.pad(x, [(0, 0), (1, 0)]))


def test_pad_of_named_sizes_and_rejections():
    assert inferred("Pad", (B, 3), (1, 0, 1, -1)) == (dims.add(B, 2), 2)
    assert inferred("Pad", (B, 3), host_ints(4)) == (None, None)
    x = random_array("Float32", (2, 3))
    assert rejects("Pad", x, [1, 1, 1])[0] is codes.BAD_VALUE
    assert rejects("Pad", x, [0, -4, 0, 0])[0] is codes.BAD_VALUE
    assert rejects("Pad", x, [0, 0, 0, 0], mode="mirror")[0] is codes.BAD_VALUE
    assert rejects("Pad", random_array("Float32", (0,)), [1, 0], mode="edge")[0] is codes.BAD_VALUE
    assert rejects("Pad", x, [0, 0, 0, 0], random_array("Float64", ()))[0] is codes.DTYPE_MISMATCH


def test_views_cost_nothing():
    x = TensorType(FLOAT32, (2, 3), 1)
    for name, args in (("Reshape", (Literal((6,)),)), ("Flatten", ()), ("Unsqueeze", (Literal((0,)),))):
        op = OPS[name]
        result = infer_types(op, [x, *args], Attributes(), 1)
        done = work(op, [x, *args], result, Attributes())
        assert op.view
        assert (done.flops, done.bytes) == (0, 0)
