import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_samples import FLOATS, NUMBERS, apply, filled_shapes, random_array, rejects, seeds, shapes

import distir.ops.select  # noqa: F401 - registers the ops
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, HOST, NO_ATTRIBUTES, Attributes, Dense, Literal, TensorType, dims
from distir.ops import OPS, bind, canonical, infer_types, infer_values, run, work

B = dims.named("B")
FLOAT32, INT64 = DTYPES["Float32"], DTYPES["Int64"]


def tensor(*shape, dtype=FLOAT32, device=1):
    return TensorType(dtype, shape, device)


def inferred(name, *args, count=1, **attrs):
    """The shapes that the op gives."""
    operands = [Literal(a) if isinstance(a, tuple) else a for a in args]
    return [t.shape for t in infer_types(OPS[name], operands, Attributes(attrs), count)]


def host_ints(length):
    return TensorType(INT64, (length,), HOST)


def split(x, *args, count, **attrs):
    """The parts, whose shapes are those inferred."""
    given = [Literal(a) for a in args]
    types = infer_types(OPS["Split"], [TensorType(FLOAT32, x.shape, 1), *given], Attributes(attrs), count)
    parts = run(OPS["Split"], [x, *map(np.array, args)], bind(OPS["Split"], Attributes(attrs)), count)
    assert [t.shape for t in types] == [part.shape for part in parts]
    return parts


@given(filled_shapes, st.integers(1, 4), st.data())
def test_concat_puts_together_what_split_cut(shape, count, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = random_array("Float32", shape)
    cuts = sorted(data.draw(st.lists(st.integers(0, shape[axis]), min_size=count - 1, max_size=count - 1)))
    sizes = tuple(b - a for a, b in zip([0, *cuts], [*cuts, shape[axis]], strict=True))
    parts = split(x, sizes, count=count, axis=axis)
    assert tuple(part.shape[axis] for part in parts) == sizes
    np.testing.assert_array_equal(apply("Concat", *parts, axis=axis), x)


@given(st.integers(0, 20), st.integers(1, 5))
def test_split_gives_equal_parts_but_for_the_last(size, count):
    x = np.arange(size, dtype=np.float32)
    full = math.ceil(size / count)
    if full * (count - 1) > size:
        code, message = rejects("Split", x, num_outputs=count)
        assert code is codes.INDIVISIBLE
        assert f"{size} into {count} parts" in message
        return
    parts = split(x, count=count, num_outputs=count)
    assert all(len(part) == full for part in parts[:-1])
    np.testing.assert_array_equal(np.concatenate(parts), x)
    named = split(x, count=count)
    assert [part.tolist() for part in named] == [part.tolist() for part in parts]


@given(st.integers(1, 3), st.integers(1, 3), st.sampled_from(NUMBERS))
def test_split_of_even_parts(size, count, dtype):
    parts = apply("Split", random_array(dtype, (2, size * count)), axis=1, num_outputs=count, count=count)
    assert all(p.shape == (2, size) for p in (parts if count > 1 else [parts]))


def test_how_many_parts_split_gives():
    x = tensor(B, 6)
    assert inferred("Split", x, num_outputs=2, count=2) == [(dims.divide(B, 2), 6)] * 2
    assert inferred("Split", x, num_outputs=2, count=3) == [(dims.divide(B, 2), 6)] * 2
    assert inferred("Split", x, (1, 5), axis=1, count=4) == [(B, 1), (B, 5)]
    assert inferred("Split", x, host_ints(3), axis=1, count=2) == [(B, None)] * 3
    assert inferred("Split", x, host_ints(None), axis=1, count=2) == [(B, None)] * 2
    assert inferred("Split", TensorType(FLOAT32, None, 1), count=2) == [None, None]


def test_the_papers_spelling_of_split():
    written = Attributes({"dim": 0, "num_splits": 2})
    assert canonical("Split", ("x",), written) == (("x",), Attributes({"axis": 0, "num_outputs": 2}))


def test_split_rejections():
    x = random_array("Float32", (4, 3))
    assert rejects("Split", x, [1, 2]) == (
        codes.BAD_VALUE,
        "`Split` expected sizes that add up to 4, found [1, 2], which add up to 3",
    )
    assert rejects("Split", x, [5, -1])[0] is codes.BAD_VALUE
    assert rejects("Split", x, [])[0] is codes.BAD_VALUE
    assert rejects("Split", x, [2, 2], num_outputs=2)[0] is codes.BAD_VALUE
    assert rejects("Split", x, num_outputs=0)[0] is codes.BAD_VALUE
    assert rejects("Split", x, axis=2)[0] is codes.BAD_VALUE
    assert rejects("Split", random_array("Float32", ()))[0] in (codes.BAD_VALUE, codes.RANK_MISMATCH)


def test_concat_of_named_sizes_and_rejections():
    assert inferred("Concat", tensor(B, 3), tensor(2, 3), axis=0) == [(dims.add(B, 2), 3)]
    assert inferred("Concat", tensor(B, 3), tensor(B, None), axis=-1) == [(B, None)]
    assert inferred("Concat", tensor(2, 3), TensorType(FLOAT32, None, 1), axis=0)[0] in (None, (None, 3))
    x = random_array("Float32", (4, 3))
    assert rejects("Concat", x, random_array("Float32", (4, 2)), axis=0)[0] is codes.SHAPE_MISMATCH
    assert rejects("Concat", x, random_array("Float32", (4,)), axis=0)[0] is codes.RANK_MISMATCH
    assert rejects("Concat", x, random_array("Float16", (4, 3)), axis=0)[0] is codes.DTYPE_MISMATCH


@given(filled_shapes, shapes, seeds, st.sampled_from(["Int32", "Int64"]), st.sampled_from(NUMBERS), st.data())
def test_gather(shape, index_shape, seed, index_dtype, dtype, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = random_array(dtype, shape, seed)
    n = shape[axis]
    indices = random_array(index_dtype, index_shape, seed, low=-n, high=n - 1)
    first = axis % x.ndim
    places = range(first, first + indices.ndim)
    result = np.moveaxis(apply("Gather", x, indices, axis=axis), places, range(indices.ndim))
    for place in np.ndindex(indices.shape):
        assert result[place].tolist() == np.moveaxis(x, axis, 0)[indices[place]].tolist()


def test_gather_reads_what_it_takes():
    w, i = tensor(50000, 768), tensor(2, 3, dtype=INT64)
    result = infer_types(OPS["Gather"], [w, i], NO_ATTRIBUTES, 1)
    done = work(OPS["Gather"], [w, i], result, NO_ATTRIBUTES)
    assert (done.flops, done.bytes) == (0, 2 * 6 * 768 * 4 + 6 * 8)


def test_gather_of_named_sizes_and_rejections():
    assert inferred("Gather", tensor(50000, 768), tensor(B, 8, dtype=INT64)) == [(B, 8, 768)]
    assert inferred("Gather", tensor(B, 8), Literal(0), axis=1) == [(B,)]
    x = random_array("Float32", (4, 3))
    assert rejects("Gather", x, 4) == (codes.BAD_VALUE, "`Gather` expected indices from -4 to 3, found 4")
    assert rejects("Gather", x, 1.5)[0] is codes.DTYPE_MISMATCH
    assert rejects("Gather", x, 0, axis=2)[0] is codes.BAD_VALUE
    assert rejects("Gather", np.array(1.0), 0)[0] in (codes.BAD_VALUE, codes.RANK_MISMATCH)


def test_ops_on_host_values_are_computed_ahead():
    shape = Dense(INT64, (3,), (256, 8, 768))
    assert infer_values(OPS["Gather"], (shape, Literal(2)), NO_ATTRIBUTES, 1) == (Dense(INT64, (), (768,)),)
    ends = [Literal((v,)) for v in (1, 3)]
    assert infer_values(OPS["Slice"], (shape, *ends), NO_ATTRIBUTES, 1) == (Dense(INT64, (2,), (8, 768)),)


@st.composite
def element_indices(draw):
    """Data, indices of its rank, the axis that they are along."""
    shape = draw(filled_shapes)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    at = axis % len(shape)
    sizes = tuple(draw(st.integers(0, 5 if i == at else n)) for i, n in enumerate(shape))
    seed = draw(seeds)
    x = random_array(draw(st.sampled_from(NUMBERS)), shape, seed)
    return x, random_array("Int64", sizes, seed, low=-shape[at], high=shape[at] - 1), axis


@given(element_indices())
def test_gather_elements(operands):
    x, indices, axis = operands
    result = apply("GatherElements", x, indices, axis=axis)
    for place in np.ndindex(indices.shape):
        source = list(place)
        source[axis] = indices[place]
        assert result[place] == x[tuple(source)]


REDUCTIONS = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": max,
    "min": min,
}


@given(element_indices(), st.sampled_from(list(REDUCTIONS)), st.sampled_from(["Float64", "Int64"]))
def test_scatter_elements(operands, reduction, dtype):
    x, indices, axis = operands
    x, updates = x.astype(dtype.lower()), random_array(dtype, indices.shape, 7)
    result = apply("ScatterElements", x, indices, updates, axis=axis, reduction=reduction)
    expected = x.copy()
    for place in np.ndindex(indices.shape):
        target = list(place)
        target[axis] = indices[place]
        expected[tuple(target)] = REDUCTIONS[reduction](expected[tuple(target)], updates[place])
    np.testing.assert_allclose(result, expected)


@given(st.sampled_from(["Float16", "BFloat16"]))
def test_scattered_sums_do_not_lose_small_summands(dtype):
    updates = np.full((4096,), 1, random_array(dtype, ()).dtype)
    result = apply("ScatterElements", updates[:1], np.zeros(4096, np.int64), updates, reduction="add")
    assert float(result[0]) == pytest.approx(4097, rel=0.01)


@st.composite
def coordinates(draw, batched=True):
    """Data, and indices whose last dimension holds coordinates; how many dimensions belong together."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple))
    batch_dims = draw(st.integers(0, len(shape) - 1)) if batched else 0
    depth = draw(st.integers(1, len(shape) - batch_dims))
    between = draw(st.lists(st.integers(0, 3), max_size=2).map(tuple))
    seed = draw(seeds)
    columns = [
        random_array("Int64", shape[:batch_dims] + between, seed + i, low=-n, high=n - 1)
        for i, n in enumerate(shape[batch_dims : batch_dims + depth])
    ]
    return random_array("Float64", shape, seed), np.stack(columns, axis=-1), batch_dims


@given(coordinates())
def test_gather_nd(operands):
    x, indices, batch_dims = operands
    result = apply("GatherND", x, indices, batch_dims=batch_dims)
    for place in np.ndindex(indices.shape[:-1]):
        np.testing.assert_array_equal(result[place], x[place[:batch_dims]][tuple(indices[place])])


@given(coordinates(batched=False), st.sampled_from(list(REDUCTIONS)))
def test_scatter_nd(operands, reduction):
    x, indices, _ = operands
    depth = indices.shape[-1]
    updates = random_array("Float64", indices.shape[:-1] + x.shape[depth:], 5)
    result = apply("ScatterND", x, indices, updates, reduction=reduction)
    expected = x.copy()
    for place in np.ndindex(indices.shape[:-1]):
        combine = np.frompyfunc(REDUCTIONS[reduction], 2, 1)
        expected[tuple(indices[place])] = combine(expected[tuple(indices[place])], updates[place])
    np.testing.assert_allclose(result, expected)


def test_unknown_and_named_sizes_of_coordinates():
    assert inferred("GatherND", tensor(B, 5, 6), tensor(B, 3, 1, dtype=INT64), batch_dims=1) == [(B, 3, 6)]
    assert inferred("GatherND", tensor(B, 5, 6), tensor(3, None, dtype=INT64)) == [None]
    assert inferred("ScatterND", tensor(B, 5), tensor(3, None, dtype=INT64), tensor(9)) == [(B, 5)]
    assert inferred("ScatterElements", tensor(B, 5), tensor(2, 5, dtype=INT64), tensor(2, 5)) == [(B, 5)]


def test_indices_that_do_not_fit():
    x, i = random_array("Float32", (4, 3)), random_array("Int64", (2, 3))
    row, deep = random_array("Int64", (2,)), random_array("Int64", (2, 3, 3))
    updates = random_array("Float32", (2, 3))
    assert rejects("GatherElements", x, row)[0] is codes.RANK_MISMATCH
    assert rejects("GatherElements", x, random_array("Int64", (2, 4)))[0] is codes.SHAPE_MISMATCH
    assert rejects("GatherElements", random_array("Float32", (3,)), [3])[0] is codes.BAD_VALUE
    assert rejects("ScatterElements", x, i, random_array("Float32", (2, 2)))[0] is codes.SHAPE_MISMATCH
    assert rejects("ScatterElements", x, i, updates, reduction="sum")[0] is codes.BAD_VALUE
    assert rejects("GatherND", x, deep)[0] is codes.SHAPE_MISMATCH
    assert rejects("GatherND", x, random_array("Int64", ()))[0] is codes.RANK_MISMATCH
    assert rejects("GatherND", x, random_array("Int64", (2, 0)))[0] is codes.SHAPE_MISMATCH
    assert rejects("GatherND", x, i, batch_dims=2)[0] is codes.BAD_VALUE
    assert rejects("GatherND", x, random_array("Int64", (5, 1)), batch_dims=1)[0] is codes.SHAPE_MISMATCH
    assert rejects("GatherND", x, [5])[0] is codes.BAD_VALUE
    assert rejects("ScatterND", x, i, random_array("Float32", (3,)))[0] is codes.SHAPE_MISMATCH
    assert rejects("ScatterND", x, i[:, :1], random_array("Float32", (2, 4)))[0] is codes.SHAPE_MISMATCH
    assert rejects("ScatterND", x, i, updates, reduction="sum")[0] is codes.BAD_VALUE


positions = st.integers(-7, 7) | st.sampled_from([-(2**63), -(2**31), 2**31 - 1, 2**63 - 1])


def python_slice(size, start, end, step):
    """Backwards from before the first element is from the first element in ONNX, nothing in Python."""
    return slice(max(start, -size) if step < 0 else start, end, step)


@given(filled_shapes, st.sampled_from([*FLOATS, "Bool"]), st.data())
def test_slice_is_that_of_python(shape, dtype, data):
    """Host operands as arrays: what is inferred of named sizes takes a part to be there, which here it need not be."""
    x = random_array(dtype, shape)
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    starts, ends = ([data.draw(positions) for _ in axes] for _ in "se")
    steps = [data.draw(st.integers(-3, 3).filter(bool)) for _ in axes]
    window = [slice(None)] * len(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        window[axis] = python_slice(shape[axis], start, end, step)
    expected = x[tuple(window)]

    given = [starts, ends, [a - len(shape) for a in axes], steps]
    result, *_ = run(OPS["Slice"], [x, *(np.array(g, np.int64) for g in given)], NO_ATTRIBUTES, 1)
    np.testing.assert_array_equal(result.astype(float), expected.astype(float))
    assert inferred("Slice", tensor(*shape), *map(tuple, given)) == [expected.shape]
    assert inferred("Slice", tensor(*shape), *(host_ints(len(g)) for g in given)) == [(None,) * len(shape)]


@given(st.integers(0, 9), positions, positions, st.integers(-2, 2).filter(bool))
def test_slices_of_named_sizes(size, start, end, step):
    """What is said of a named size holds wherever it is large enough for the slice to leave something."""
    (found,) = inferred("Slice", tensor(B), (start,), (end,), (0,), (step,))
    expected = len(range(*python_slice(size, start, end, step).indices(size)))
    if found == (None,):
        return
    try:
        assert dims.substitute(found[0], {"B": size}) == expected
    except ValueError:  # a negative size: the program is told when `B` is bound
        assert expected == 0


@pytest.mark.parametrize(
    ("start", "end", "step", "result"),
    [
        (0, 2**63 - 1, 1, B),
        (1, 2**63 - 1, 1, dims.subtract(B, 1)),
        (0, -1, 1, dims.subtract(B, 1)),
        (1, -1, 1, dims.subtract(B, 2)),
        (-1, -(2**63), -1, B),
        (3, 3, 1, 0),
        (0, 5, 1, None),
        (-3, 2**63 - 1, 1, None),
        (0, 2**63 - 1, 2, None),
    ],
)
def test_common_slices_of_named_sizes(start, end, step, result):
    assert inferred("Slice", tensor(B), (start,), (end,), (0,), (step,)) == [(result,)]


def test_slice_takes_the_first_axes():
    assert inferred("Slice", tensor(4, 6), (1,), (3,)) == [(2, 6)]
    assert inferred("Slice", TensorType(FLOAT32, None, 1), (1,), (3,)) == [None]


def test_slice_rejections():
    x = random_array("Float32", (4, 6))
    assert rejects("Slice", x, [0], [1], [0], [0])[0] is codes.BAD_VALUE
    assert rejects("Slice", x, [0, 0, 0], [1, 1, 1])[0] is codes.BAD_VALUE
    assert rejects("Slice", x, [0, 0], [1, 1], [1, -1])[0] is codes.BAD_VALUE
    assert rejects("Slice", x, [0], [1], [2])[0] is codes.BAD_VALUE
    assert rejects("Slice", x, [0, 0], [1])[0] is codes.SHAPE_MISMATCH
    assert rejects("Slice", x, [0], random_array("Int64", (1,)))[0] is codes.NOT_HOST
