import gc
import math
import weakref
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_samples import shapes

import distir.ops.attention  # noqa: F401 - registers its ops
from distir.diagnostics.codes import devices as device_codes
from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import (
    DTYPES,
    HOST,
    NO_ATTRIBUTES,
    UNKNOWN,
    AnyType,
    Attributes,
    Dense,
    DimensionError,
    Literal,
    Part,
    TensorType,
    TupleType,
    dims,
    types,
)
from distir.ops import OPS, Reject, canonical, infer_types, infer_values, strengthen, type_of, work
from distir.ops.unify import broadcast, normal_axis
from distir.syntax import parse_example

B, C = dims.named("B"), dims.named("C")
FLOAT16, FLOAT32, INT64 = DTYPES["Float16"], DTYPES["Float32"], DTYPES["Int64"]


def statements(names):
    """The examples of ops: op, operands as types and literals, attributes, number of results."""
    for name in names:
        for example in OPS[name].examples:
            params, statement = parse_example(example, canonical)
            given = {p.name: p.type for p in params}
            args = [given.get(a) if isinstance(a, str) else a for a in statement.args]
            yield OPS[name], args, statement.attrs, len(statement.results)


EXAMPLES = list(statements(OPS))
SIGNATURES_ALONE = [e for e in EXAMPLES if e[0].rules.keys().isdisjoint(("shapes", "checks", "types", "partial"))]
"""Examples of ops whose signature says all of their types."""


def tensor(*shape, dtype=FLOAT32, device=1):
    return TensorType(dtype, shape, device)


def infer(name, *args, count=1, **attrs):
    return infer_types(OPS[name], args, Attributes(attrs), count)


def rejection(name, *args, count=1, **attrs):
    with pytest.raises(Reject) as caught:
        infer(name, *args, count=count, **attrs)
    return caught.value


@st.composite
def weaker(draw, value, typed=True):
    """A type that says less of the same value, or just as much.

    A literal has the element type of the operands beside it, and Float32 where there is none. So its type is no less
    than the literal itself once theirs is unknown: without `typed` it remains a literal.
    """
    if isinstance(value, Literal):
        return draw(st.sampled_from([value, value, type_of(value)])) if typed else value
    if value is None or isinstance(value, AnyType):
        return value
    if draw(st.integers(0, 7)) == 0:
        return draw(st.sampled_from([UNKNOWN, AnyType(types.device_of(value))]))
    if isinstance(value, TupleType):
        return TupleType(tuple(draw(weaker(item)) for item in value.items))
    shape = value.shape
    if shape is not None:
        some = tuple(draw(st.sampled_from([n, n, None])) for n in shape)
        shape = draw(st.sampled_from([shape, some, None]))
    dtype = draw(st.sampled_from([value.dtype, value.dtype, None]))
    return replace(value, dtype=dtype, shape=shape, device=draw(st.sampled_from([value.device, value.device, None])))


def says_no_more(general, specific):
    return types.meet(general, specific) == specific


@given(st.data())
def test_knowing_less_of_operands_is_never_an_error_and_tells_no_more_of_results(data):
    definition, args, attrs, count = data.draw(st.sampled_from(EXAMPLES))
    results = infer_types(definition, args, attrs, count)
    less = [data.draw(weaker(arg)) for arg in args]
    fewer = infer_types(definition, less, attrs, count)
    assert len(fewer) == len(results)
    assert all(map(says_no_more, fewer, results)), f"{definition.name}: {[*map(str, less)]} gives {[*map(str, fewer)]}"


@given(st.data())
def test_signatures_are_monotone(data):
    definition, args, attrs, count = data.draw(st.sampled_from(SIGNATURES_ALONE))
    less = [data.draw(weaker(arg)) for arg in args]
    least = [data.draw(weaker(arg, typed=False)) for arg in less]
    assert all(
        map(says_no_more, infer_types(definition, least, attrs, count), infer_types(definition, less, attrs, count))
    )


@given(st.data())
def test_names_of_dimensions_do_not_matter(data):
    """Sizes replaced by names, the same name for the same size; what results say then holds of the sizes."""
    definition, args, attrs, count = data.draw(st.sampled_from(SIGNATURES_ALONE))
    sizes = {f"n{n}": n for n in range(2, 100)}

    def name(type):
        if isinstance(type, TupleType):
            return TupleType(tuple(map(name, type.items)))
        if not isinstance(type, TensorType):
            return type
        shape = tuple(dims.named(f"n{n}") if 1 < n < 100 else n for n in type.shape)
        return replace(type, shape=shape)

    if any(isinstance(arg, Literal) and type_of(arg).shape != () for arg in args):
        return  # its sizes are numbers, which agree with no name
    found = infer_types(definition, [name(arg) for arg in args], attrs, count)
    expected = infer_types(definition, args, attrs, count)
    assert all(says_no_more(types.substitute(f, sizes), e) for f, e in zip(found, expected, strict=True))


def renamed(value, names):
    if isinstance(value, TensorType):
        return replace(value, device=names.get(value.device, value.device))
    if isinstance(value, TupleType):
        return TupleType(tuple(renamed(item, names) for item in value.items))
    return value


@given(st.sampled_from(EXAMPLES), st.permutations(range(1, 9)))
def test_renaming_devices_renames_those_of_results(example, order):
    definition, args, attrs, count = example
    names = dict(zip(range(1, 9), order, strict=True))
    elsewhere = {
        name: names[value] if name in ("device", "root")
        else tuple(names[d] for d in value) if name == "devices" else value
        for name, value in attrs.items()
    }  # fmt: skip
    found = infer_types(definition, [renamed(arg, names) for arg in args], Attributes(elsewhere), count)
    assert found == tuple(renamed(t, names) for t in infer_types(definition, args, attrs, count))


@given(st.sampled_from(EXAMPLES))
def test_host_operands_alone_give_host_results(example):
    definition, args, attrs, count = example
    if not definition.foldable:
        return
    found = infer_types(definition, [_on_host(arg) for arg in args], attrs, count)
    assert all(types.device_of(t) == HOST for t in found if t != TupleType(()))


def _on_host(value):
    if isinstance(value, TupleType):
        return TupleType(tuple(map(_on_host, value.items)))
    return replace(value, device=HOST) if isinstance(value, TensorType) else value


@given(st.data())
def test_an_operand_on_another_device_is_rejected_there(data):
    definition, args, attrs, count = data.draw(st.sampled_from(EXAMPLES))
    placed = [i for i, arg in enumerate(args) if isinstance(arg, TensorType) and arg.device == 1]
    if definition.communication is not None or definition.family == "tuples" or len(placed) < 2:
        return
    moved = data.draw(st.sampled_from(placed))
    args = [renamed(arg, {1: 7}) if i == moved else arg for i, arg in enumerate(args)]
    with pytest.raises(Reject) as caught:
        infer_types(definition, args, attrs, count)
    blamed = caught.value
    assert blamed.code is device_codes.DEVICE_MISMATCH
    (note,) = blamed.notes
    assert {blamed.part.key, note[0].key} <= set(placed)
    assert moved in (blamed.part.key, note[0].key) or moved == placed[0]
    assert blamed.help == f"insert `Send[device = {1 if moved != placed[0] else 7}]`"


@given(shapes, shapes)
def test_broadcasting_is_that_of_numpy(a, b):
    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(DimensionError):
            broadcast(a, b)
        blamed = rejection("Add", tensor(*a), tensor(*b))
        assert (blamed.code, blamed.part) == (codes.SHAPE_MISMATCH, Part("operand", 1))
    else:
        assert broadcast(a, b) == expected
        assert infer("Add", tensor(*a), tensor(*b)) == (tensor(*expected),)


def test_broadcasting_of_unknown_and_named_sizes():
    assert broadcast((B, 1), (1, C)) == (B, C)
    assert broadcast((None, 1, 3), (5, None, None)) == (5, None, 3)
    with pytest.raises(DimensionError):
        broadcast((B,), (C,))
    assert infer("Add", tensor(B, 3), TensorType(FLOAT32, None, 1))[0].shape is None


@given(st.integers(-9, 9), st.integers(0, 4))
def test_axes_count_from_either_end(axis, rank):
    if -rank <= axis < rank:
        assert normal_axis(axis, rank, "Op", "axis") == range(rank)[axis]
    else:
        with pytest.raises(Reject) as caught:
            normal_axis(axis, rank, "Op", "axis")
        assert (caught.value.code, caught.value.part) == (codes.BAD_VALUE, "axis")


def test_a_letter_that_means_two_sizes_is_shown_in_both_places():
    blamed = rejection("MatMul", tensor(2, 3), tensor(4, 5))
    assert blamed.message == "`MatMul` operands disagree on dimension `k`: expected 3, found 4"
    assert blamed.part == Part("operand", 1)
    assert blamed.notes == ((Part("operand", 0), "`k` is 3 here"),)
    blamed = rejection("Concat", tensor(2, 3), tensor(2, 3), tensor(2, 4), axis=0)
    assert blamed.part == Part("operand", 2)
    assert blamed.notes[0][0] == Part("operand", 0)


def test_other_mismatches_name_the_operand_and_where_the_other_one_is():
    other = rejection("Add", tensor(2), tensor(2, dtype=FLOAT16))
    assert (other.code, other.part) == (codes.DTYPE_MISMATCH, Part("operand", 1))
    assert other.notes == ((Part("operand", 0), "`t` is Float32 here"),)
    assert other.help == "insert `Cast[to = Float32]`"
    rank = rejection("Gemm", tensor(2, 3, 4), tensor(4, 5))
    assert (rank.code, rank.part) == (codes.RANK_MISMATCH, Part("operand", 0))
    kind = rejection("Transpose", TupleType((tensor(2),)))
    assert (kind.code, kind.part) == (codes.KIND_MISMATCH, Part("operand", 0))
    host = rejection("Reshape", tensor(2), tensor(1, dtype=INT64))
    assert (host.code, host.part) == (codes.NOT_HOST, Part("operand", 1))


def test_collectives_need_distinct_devices():
    blamed = rejection("MPIAllreduce", tensor(2), tensor(2, device=2), tensor(2), count=3)
    assert (blamed.code, blamed.part) == (device_codes.REPEATED_DEVICE, Part("operand", 2))
    assert blamed.notes == ((Part("operand", 0), "device 1 takes part here"),)
    assert rejection("MPIAllreduce", tensor(2), tensor(2, device=HOST), count=2).part == Part("operand", 1)


def test_sizes_must_divide():
    blamed = rejection("MPIScatter", tensor(5), devices=(1, 2), count=2)
    assert (blamed.code, blamed.part) == (codes.INDIVISIBLE, Part("operand", 0))
    assert "5" in blamed.message


@pytest.mark.parametrize(
    ("name", "args", "found"),
    [("MatMul", 1, "found 1"), ("MatMul", 3, "found 3"), ("Concat", 0, "found 0"), ("Split", 3, "1 to 2")],
)
def test_the_number_of_operands(name, args, found):
    attrs = {"axis": 0} if name == "Concat" else {}
    blamed = rejection(name, *[tensor(2, 2)] * args, **attrs)
    assert blamed.code is name_codes.OPERAND_COUNT
    assert found in blamed.message


def test_the_alternative_that_is_nearest_says_what_is_wrong():
    """Vectors and matrices are alternatives of `MatMul`; the size is wrong here, not the rank."""
    assert rejection("MatMul", tensor(3), tensor(4, 5)).code is codes.SHAPE_MISMATCH


def test_an_operand_too_many_for_an_alternative_is_not_taken_for_its_last_one():
    cache, ids = tensor(2, 3, 4), tensor(2, 3, dtype=INT64)
    assert rejection("RotaryEmbedding", tensor(2, 4, 3, 8), cache, cache, ids).code is codes.RANK_MISMATCH


@pytest.mark.parametrize("dtype", ["Float16", "BFloat16", "Float64"])
@pytest.mark.parametrize("literal", [2, 2.5, (1.0, 2.0)])
def test_literals_take_the_element_type_of_their_neighbours(dtype, literal):
    x = tensor(2, dtype=DTYPES[dtype])
    for args in ([x, Literal(literal)], [Literal(literal), x]):
        assert infer("Mul", *args) == (x,)
        strong = strengthen(OPS["Mul"], args, NO_ATTRIBUTES)
        assert {type_of(v).dtype for v in strong} == {DTYPES[dtype]}


def test_literals_that_lose_something_are_rejected():
    x = tensor(2, dtype=INT64)
    assert infer("Mul", x, Literal(2)) == (x,)
    for literal, part in ((Literal(2.5), 1), (Literal(True), 1)):
        blamed = rejection("Mul", x, literal)
        assert (blamed.code, blamed.part) == (codes.DTYPE_MISMATCH, Part("operand", part))
        assert "Int64" in blamed.message
    assert rejection("Mul", x, Literal("two")).code is codes.KIND_MISMATCH
    assert rejection("Mul", x, Literal(((1, 2), (3,)))).code is codes.KIND_MISMATCH


def test_literals_among_themselves():
    (product,) = infer_values(OPS["Mul"], (Literal(2), Literal(3)), NO_ATTRIBUTES, 1)
    assert product == Dense(INT64, (), (6,))
    (root,) = infer_values(OPS["Sqrt"], (Literal(4),), NO_ATTRIBUTES, 1)
    assert root == Dense(FLOAT32, (), (2.0,))


def test_ops_that_go_leaf_by_leaf():
    a, b = tensor(2, 3), tensor(4, dtype=FLOAT16)
    pair, other = TupleType((a, b)), TupleType((renamed(a, {1: 2}), renamed(b, {1: 2})))
    nested = TupleType((pair, a))
    assert infer("Send", pair, device=2) == (other,)
    assert infer("Send", nested, device=2) == (TupleType((other, renamed(a, {1: 2}))),)
    assert infer("MPIAllreduce", pair, other, count=2) == (pair, other)
    message = work(OPS["Send"], [pair], [other], Attributes({"device": 2})).communication
    assert message.nbytes == a.nbytes + b.nbytes
    assert infer("Send", AnyType(1), device=2) == (AnyType(2),)


def test_tuples_of_different_lengths_do_not_go_together():
    a = tensor(2)
    pair = TupleType((a, a))
    far = TupleType((renamed(a, {1: 2}),))
    for other in (far, renamed(a, {1: 2})):
        blamed = rejection("MPIAllreduce", pair, other, count=2)
        assert (blamed.code, blamed.part) == (codes.KIND_MISMATCH, Part("operand", 1))


def test_open_devices_stay_open():
    x = tensor(2, device=None)
    assert infer("Relu", x) == (x,)
    assert infer("Add", x, tensor(2)) == (tensor(2),)
    assert infer("Add", x, tensor(2, device=HOST)) == (x,)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(1, 4))
def test_what_concat_joins_scatter_cuts(sizes, count):
    """`sum(n_i)` and `n / N`: lengths add up, and divide or are rejected."""
    parts = [tensor(n, 2, device=i + 1) for i, n in enumerate(sizes)]
    (whole,) = infer("MPIGather", *parts, axis=0, root=1)
    assert whole == tensor(sum(sizes), 2)
    devices = tuple(range(1, count + 1))
    if sum(sizes) % count:
        assert rejection("MPIScatter", whole, devices=devices, count=count).code is codes.INDIVISIBLE
    else:
        found = infer("MPIScatter", whole, devices=devices, count=count)
        assert found == tuple(tensor(sum(sizes) // count, 2, device=d) for d in devices)
        assert math.prod(found[0].shape) * count == whole.elements


class Held:
    """A value that only the frame of a caller holds."""


@pytest.mark.parametrize("shape", [(2, 4, 32), (2, 4), (2, 2, 4, 16)])
def test_rejected_signatures_hold_no_caller(shape):
    """What callers hold is freed with them, whichever signature accepts the operands, or none: no collector is needed.

    An exception that is held in a frame of its own traceback would hold all that calls it.
    """
    operand = TensorType(FLOAT32, shape, 1)
    attrs = Attributes({"q_num_heads": 2, "kv_num_heads": 2} if len(shape) == 3 else {})

    def caller():
        held = Held()
        with suppress(Reject):
            infer_types(OPS["Attention"], [operand] * 3, attrs, 1)
        return weakref.ref(held)

    gc.disable()
    try:
        assert caller()() is None
    finally:
        gc.enable()
