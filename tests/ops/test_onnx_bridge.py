"""The bridge to the ops of the standard ONNX domain that we do not define ourselves."""

import inspect
import subprocess
import sys
import textwrap

import numpy as np
import onnx.defs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_samples import apply, close, is_instance, random_array, random_value, rejects, seeds
from test_all_ops import OURS, parsed, values_of
from thorough import most_examples

import distir
from distir.diagnostics.codes import devices as device_codes
from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, HOST, NO_ATTRIBUTES, Attributes, Dense, Literal, TensorType, types
from distir.ir.dims import named
from distir.ops import (
    OPS,
    REQUIRED,
    Reject,
    bind,
    bridge,
    infer_partial,
    infer_types,
    infer_values,
    numpy_dtype,
    run,
    strengthen,
    type_of,
    work,
)
from distir.ops.attributes import KINDS
from distir.ops.bridge.inference import check_operands, infer_results
from distir.ops.bridge.reference import run_reference
from distir.ops.splitting import layout

STANDARD = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}
CURRENT = {name for name in STANDARD if not onnx.defs.get_schema(name, bridge.OPSET, "").deprecated}
FLOAT32 = DTYPES["Float32"]


def tensor(*shape, dtype="Float32", device=1):
    return TensorType(DTYPES[dtype], shape, device)


def inferred(name, *args, count=1, **attrs):
    return infer_types(OPS[name], args, Attributes(attrs), count)


def diagnosed(statement, params="%x: Tensor[Float32, (2, 3, 4, 4), 1]"):
    return distir.check_text(f"func @f({params}) {{\n  %y = {statement}\n  return %y\n}}\n")


# Coverage


def test_every_standard_op_is_ours_or_bridged_or_left_out_with_a_reason():
    assert set(bridge.NAMES) <= CURRENT
    assert not set(bridge.NAMES) & OURS.keys()
    assert not set(bridge.NAMES) & bridge.LEFT_OUT.keys()
    assert OURS.keys() | set(bridge.NAMES) | bridge.LEFT_OUT.keys() >= CURRENT


@pytest.mark.parametrize("name", bridge.NAMES)
def test_a_definition_is_complete(name):
    op = OPS[name]
    assert op.documentation
    assert op.flops is not None
    assert len(op.operands) == max(len(s.operands) for s in op.signatures)
    schema = onnx.defs.get_schema(name, bridge.OPSET, "")
    assert [o.name for o in op.operands] == [formal.name for formal in schema.inputs]
    assert op.attributes.keys() == schema.attributes.keys()
    for signature in op.signatures:
        assert [p.optional for p in signature.operands] == [o.optional for o in op.operands]
    for attribute in op.attributes.values():
        assert attribute.kind.removesuffix(" | None") in KINDS
    if all(attribute.default is not REQUIRED for attribute in op.attributes.values()):
        assert bind(op, bind(op, NO_ATTRIBUTES)) == bind(op, NO_ATTRIBUTES)


def test_bridged_ops_are_found_by_name_and_not_listed():
    assert "Conv" in OPS
    assert OPS["Conv"] is OPS["Conv"]
    assert "Conv" not in list(OPS)
    assert "If" not in OPS
    assert inspect.signature(OPS["Conv"].body).parameters["group"].default == 1


# Our own ops agree

BEYOND = (
    *("= Constant", "Tuple[", "Split(%x: Tensor[Float32, (3, 2), 1])", "= Dropout("),
    *("window = ", "dropout = ", "v_head_size = ", "%lse", "_, _, 4)", "4), 1], 3)", "4), 1], 5)"),
)
"""Examples that ONNX has no words for, or says in another way.

Tensors as attributes, tuples, parts by names alone, keys of random numbers; of attention sliding windows, dropout,
values in keys, sinks, lengths and the log-sum-exp; of caches places that are one number for all sequences.
"""

SHARED = [
    (op, text)
    for name, op in OURS.items()
    if name in CURRENT
    for text in op.examples
    if not any(words in text for words in BEYOND)
]


def known_to_onnx(op, statement):
    """The attributes, without defaults of such as are ours alone."""
    known = onnx.defs.get_schema(op.name, bridge.OPSET, "").attributes
    stated = bind(op, statement.attrs)
    return Attributes({name: value for name, value in stated.items() if name in known or name in statement.attrs})


@pytest.mark.parametrize(("op", "text"), SHARED, ids=[f"{op.name}-{i}" for i, (op, _) in enumerate(SHARED)])
def test_our_ops_have_the_types_that_onnx_infers(op, text):
    args, statement = parsed(text)
    count = len(statement.results)
    ours = infer_types(op, args, statement.attrs, count)
    operands = strengthen(op, args, statement.attrs)
    theirs = infer_results(op.name, operands, known_to_onnx(op, statement), count)
    for own, other in zip(ours, theirs, strict=True):
        if isinstance(other, TensorType):
            met = types.meet(own, TensorType(other.dtype, other.shape))
            assert met == own, f"{text}: ONNX infers {other}"


ROUNDING = {"Float64": 1e-6, "Float16": 4e-3}
"""ONNX rounds some constants to 32 bits, and intermediate results to 16."""


@pytest.mark.parametrize("dtype", ["Float32", "Float64", "Float16", "Int32"])
@pytest.mark.parametrize(("op", "text"), SHARED, ids=[f"{op.name}-{i}" for i, (op, _) in enumerate(SHARED)])
def test_our_ops_have_the_values_that_onnx_computes(op, text, dtype):
    args, statement = parsed(text.replace("Float32", dtype))
    count = len(statement.results)
    attrs = bind(op, statement.attrs)
    try:
        infer_types(op, args, statement.attrs, count)
        check_operands(op.name, strengthen(op, args, statement.attrs), count)
    except Reject:
        pytest.skip(f"{op.name} takes no {dtype}")
    values = values_of(op, args, statement)
    with np.errstate(all="ignore"):
        theirs = run_reference(op.name, values, known_to_onnx(op, statement), count)
    for own, other in zip(run(op, values, attrs, count), theirs, strict=True):
        assert own.shape == other.shape
        close(own, other, ROUNDING.get(dtype))


# Types


def test_named_dimensions_go_through():
    batch = named("B")
    image, weights = tensor(batch, 3, 8, 8), tensor(4, 3, 3, 3)
    (found,) = inferred("Conv", image, weights, pads=(1, 1, 1, 1))
    assert found == tensor(batch, 4, 8, 8)
    doubled = TensorType(FLOAT32, (named("B"), 3), 1)
    assert inferred("Tan", doubled) == (doubled,)
    assert inferred("MaxPool", image, kernel_shape=(2, 2), strides=(2, 2)) == (tensor(batch, 3, 4, 4),)


def test_known_operands_decide_shapes():
    (found,) = inferred("Resize", tensor(1, 3, 4, 4), None, None, Literal((1, 3, 8, 8)))
    assert found == tensor(1, 3, 8, 8)
    sizes = TensorType(DTYPES["Int64"], (4,), HOST)
    (vague,) = inferred("Resize", tensor(1, 3, 4, 4), None, None, sizes)
    assert types.meet(vague, found) == found


def test_named_sizes_decide_shapes_too():
    x, batch = tensor(named("B"), 3, 4, 4), named("B")
    sizes = Dense(DTYPES["Int64"], (4,), (batch, 3, 8, 8))
    assert inferred("Resize", x, None, None, sizes) == (tensor(batch, 3, 8, 8),)
    theta = tensor(named("B"), 2, 3)
    assert inferred("AffineGrid", theta, sizes) == (tensor(batch, 8, 8, 2),)
    program = """
func @f(%x: Tensor[Float32, (B, 3, 4, 4), 1]) {
  %n = Shape[end = 2](%x)
  %odd = BitwiseAnd(%n, 1)
  %s = Concat[axis = 0](%n, [8, 8])
  %y = Resize(%x, _, _, %s)
  return %y, %odd
}
"""
    assert distir.check_text(program) == []
    x = random_array("Float32", (5, 3, 4, 4))
    assert distir.run(distir.parse(program), {"x": x})["y"].shape == (5, 3, 8, 8)


def test_nothing_is_wrong_where_nothing_is_known():
    assert inferred("Conv", types.UNKNOWN, types.UNKNOWN) == (TensorType(None, None, None),)
    (found,) = inferred("Conv", TensorType(FLOAT32, None, 1), types.UNKNOWN)
    assert found == TensorType(FLOAT32, None, 1)


def test_devices():
    x, w = tensor(1, 3, 4, 4), tensor(2, 3, 1, 1)
    assert inferred("Conv", x, TensorType(w.dtype, w.shape, HOST))[0].device == 1
    host = [TensorType(t.dtype, t.shape, HOST) for t in (x, w)]
    assert inferred("Conv", *host)[0].device == HOST
    code, _ = rejects("Conv", x, tensor(2, 3, 1, 1, device=2))
    assert code is device_codes.DEVICE_MISMATCH


def test_what_does_not_fit_is_reported_with_the_op_and_the_types():
    x = tensor(1, 3, 4, 4)
    code, message = rejects("Conv", x, tensor(2, 5, 3, 3))
    assert (code, message) == (
        codes.SHAPE_MISMATCH,
        "`Conv` operands disagree on dimension `c`: expected 3, found 5",
    )
    code, message = rejects("Conv", x, tensor(2, 3, 3))
    assert code is codes.SHAPE_MISMATCH
    assert "`Conv`" in message
    assert "`Tensor[Float32, (1, 3, 4, 4)]`" in message
    assert rejects("BitShift", tensor(2), tensor(2), direction="LEFT")[0] is codes.DTYPE_MISMATCH
    assert rejects("Conv", x, tensor(2, 3, 3, 3), gruop=1)[0] is name_codes.UNKNOWN_ATTRIBUTE
    assert rejects("MaxPool", x)[0] is name_codes.MISSING_ATTRIBUTE
    assert rejects("MaxPool", x, count=3, kernel_shape=(2, 2))[0] is name_codes.RESULT_COUNT
    assert rejects("PRelu", tensor(4, 1), tensor(4, 3))[0] is codes.SHAPE_MISMATCH
    assert rejects("RNN", tensor(5, 2, 3), tensor(1, 4, 2), tensor(1, 4, 4))[0] is codes.SHAPE_MISMATCH
    assert rejects("GroupNormalization", x, tensor(3), tensor(3), num_groups=2)[0] is codes.BAD_VALUE


def test_operands_that_the_reference_refuses_are_reported_too():
    with pytest.raises(Reject, match="`BitShift` cannot be computed"):
        run(OPS["BitShift"], [np.ones(2, np.uint8)] * 2, bind(OPS["BitShift"], Attributes({"direction": "UP"})), 1)


@pytest.mark.parametrize("name", bridge.LEFT_OUT)
def test_an_op_that_is_left_out_is_refused_with_the_reason(name):
    (found,) = diagnosed(f"{name}(%x)")
    assert found.code is name_codes.UNKNOWN_OP
    assert found.help == f"ONNX's `{name}` is {bridge.LEFT_OUT[name]}"


def test_the_nearest_name_is_offered():
    (found,) = diagnosed("MaxPoool(%x)")
    assert found.help == "did you mean `MaxPool`?"


# Values


def test_host_values_are_computed_ahead():
    known = Dense(DTYPES["UInt8"], (2,), (12, 10))
    (found,) = infer_values(OPS["BitwiseAnd"], [known, known], NO_ATTRIBUTES, 1)
    assert found == known
    too_long = Dense(DTYPES["Int64"], (), (10**15,))
    assert infer_values(OPS["HannWindow"], [too_long], NO_ATTRIBUTES, 1) is None
    assert type_of(inferred("HannWindow", too_long)[0]).shape == (10**15,)


def test_a_known_operand_tells_how_many_elements_are_found():
    known = Dense(DTYPES["Int64"], (4,), (0, 3, 0, 5))
    assert infer_partial(OPS["NonZero"], [known], NO_ATTRIBUTES, 1) == (Dense(DTYPES["Int64"], (1, 2), (1, 3)),)


@pytest.mark.parametrize("name", ["RandomNormal", "RandomUniform"])
def test_random_values_are_the_same_every_time(name):
    op, attrs = OPS[name], bind(OPS[name], Attributes({"shape": (3, 4)}))
    first, second = run(op, [], attrs, 1), run(op, [], attrs, 1)
    np.testing.assert_array_equal(first[0], second[0])
    assert infer_values(op, [], attrs, 1) is None


def test_multinomial_draws_by_the_probabilities():
    x = np.log(np.array([[0.2, 0.8], [1.0, 1e-9]], np.float32))
    drawn = apply("Multinomial", x, sample_size=10_000, seed=1.0)
    assert drawn.dtype == np.int32
    assert 0.77 < drawn[0].mean() < 0.83
    assert drawn[1].sum() == 0


def test_global_lp_pool_is_a_pool_of_the_whole():
    x = random_array("Float32", (2, 3, 4, 5))
    close(apply("GlobalLpPool", x, p=3), apply("LpPool", x, p=3, kernel_shape=(4, 5)))


OF_ANY_RANK = {
    "Conv": ([(4, 2, 3), (4,)], {"group": 2, "strides": 2, "pads": 1, "dilations": 2}),
    "ConvTranspose": ([(4, 2, 3), (4,)], {"group": 2, "strides": 2, "pads": 1, "dilations": 3, "output_padding": 2}),
    "MaxPool": ([], {"kernel_shape": 2, "strides": 2, "dilations": 2}),
    "AveragePool": ([], {"kernel_shape": 3, "strides": 2}),
    "LpPool": ([], {"kernel_shape": 3, "p": 2}),
    "GlobalAveragePool": ([], {}),
    "GlobalLpPool": ([], {"p": 3}),
    "GlobalMaxPool": ([], {}),
    "BatchNormalization": ([(4,)] * 4, {}),
    "InstanceNormalization": ([(4,)] * 2, {}),
    "GroupNormalization": ([(4,)] * 2, {"num_groups": 2}),
    "LRN": ([], {"size": 3, "alpha": 0.5}),
    "MeanVarianceNormalization": ([], {"axes": (0, 2)}),
}
"""Ops on values with one spatial dimension: the shapes of the other operands, and attributes, of each dimension."""


@pytest.mark.parametrize("more", [1, 2])
@pytest.mark.parametrize("dtype", ["Float32", "Float64"])
@pytest.mark.parametrize("name", OF_ANY_RANK)
def test_more_spatial_dimensions_of_one_element_change_nothing(name, dtype, more):
    shapes, attrs = OF_ANY_RANK[name]
    x, *others = (np.abs(random_array(dtype, shape)) for shape in [(2, 4, 7), *shapes])
    one = {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}

    def spatial(key, value, count):
        if key == "axes":
            return (*value, *range(3, 2 + count))
        if key not in one:
            return value
        if key == "pads":
            return (value, *(0,) * (count - 1)) * 2
        return (value, *(one[key],) * (count - 1))

    def applied(count):
        wide = [v.reshape(*v.shape, *(1,) * (count - 1)) if v.ndim > 2 else v for v in (x, *others)]
        return apply(name, *wide, **{key: spatial(key, value, count) for key, value in attrs.items()})

    y = applied(1)
    assert y.dtype == x.dtype
    np.testing.assert_allclose(applied(1 + more).reshape(y.shape), y, rtol=1e-6)


def test_the_greatest_of_a_channel_is_over_all_spatial_dimensions():
    x = random_array("Float32", (2, 4, 8))
    np.testing.assert_array_equal(apply("GlobalMaxPool", x), x.max(2, keepdims=True))


def test_local_response_norm_is_over_the_channels_near():
    x = random_array("Float64", (2, 5, 3))
    squares = np.pad(x**2, ((0, 0), (1, 2), (0, 0)))
    near = sum(squares[:, i : i + 5] for i in range(4))
    close(apply("LRN", x, size=4, alpha=0.5), x / (1 + 0.125 * near) ** 0.75)


@pytest.mark.parametrize(
    "moves",
    [
        {"strides": (2, 1), "pads": (1, 0, 0, 2)},
        {"dilations": (2, 3), "group": 2},
        {"strides": (3, 2), "auto_pad": "VALID"},
    ],
)
def test_a_transposed_convolution_is_the_adjoint_of_a_convolution(moves):
    x, w = random_array("Float64", (2, 4, 9, 8)), random_array("Float64", (6, 4 // moves.get("group", 1), 3, 2))
    y = apply("Conv", x, w, **moves)
    dy = random_array("Float64", y.shape)
    back = apply("ConvTranspose", dy, w, **moves)
    reached = x[(..., *map(slice, back.shape[2:]))]
    np.testing.assert_allclose((dy * apply("Conv", reached, w, **moves)).sum(), (reached * back).sum())


@pytest.mark.parametrize(("auto_pad", "before"), [("NOTSET", 1), ("SAME_UPPER", 0), ("SAME_LOWER", 1)])
def test_an_output_shape_states_the_pads_of_a_transposed_convolution(auto_pad, before):
    x, w = random_array("Float64", (2, 3, 4)), random_array("Float64", (3, 2, 3))
    stated = apply("ConvTranspose", x, w, output_shape=(8,), strides=(2,), auto_pad=auto_pad)
    close(stated, apply("ConvTranspose", x, w, pads=(before, 1 - before), strides=(2,)))


def test_max_roi_pool_takes_the_greatest_of_each_bin():
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    rois = np.array([[0, 0, 0, 3, 3]], np.float32)
    pooled = apply("MaxRoiPool", x, rois, pooled_shape=(2, 2))
    np.testing.assert_array_equal(pooled[0, 0], [[5, 7], [13, 15]])


NETWORKS = {"GRU": (3, 2), "LSTM": (4, 3), "RNN": (1, 2)}
"""Gates, and results."""


def network(name, steps=4, batch=3, directions=2, seed=0):
    """An input, weights and biases of a network with 2 elements in and 3 out."""
    gates, _ = NETWORKS[name]
    sizes = [(steps, batch, 2), (directions, gates * 3, 2), (directions, gates * 3, 3), (directions, 2 * gates * 3)]
    return [random_array("Float64", shape, seed + i) for i, shape in enumerate(sizes)]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_shorter_sequence_is_as_it_were_alone(name, direction):
    lengths = [4, 2, 1]
    x, *weights = network(name, directions=2 if direction == "bidirectional" else 1)
    attrs = {"hidden_size": 3, "direction": direction, "count": NETWORKS[name][1]}
    whole = apply(name, x, *weights, np.array(lengths, np.int32), **attrs)
    for i, n in enumerate(lengths):
        alone = apply(name, x[:n, i : i + 1], *weights, **attrs)
        close(whole[0][:n, :, i], alone[0][:, :, 0])
        assert not whole[0][n:, :, i].any()
        for states, own in zip(whole[1:], alone[1:], strict=True):
            close(states[:, i], own[:, 0])


@pytest.mark.parametrize("name", NETWORKS)
def test_activations_of_a_network_are_what_is_stated(name):
    given = network(name, directions=1)
    count = NETWORKS[name][1]
    usual = {"GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh"), "RNN": ("Tanh",)}[name]
    plain = apply(name, *given, hidden_size=3, count=count)
    for same in ({"activations": usual}, {"clip": 1e9}, {"activations": tuple(map(str.lower, usual))}):
        close(apply(name, *given, hidden_size=3, count=count, **same)[0], plain[0])
    scaled = {"activations": (*usual[:-1], "ScaledTanh"), "activation_alpha": (1.0,), "activation_beta": (1.0,)}
    close(apply(name, *given, hidden_size=3, count=count, **scaled)[0], plain[0])
    for other in ({"activations": ("Relu",) * len(usual)}, {"clip": 0.01}):
        assert np.abs(apply(name, *given, hidden_size=3, count=count, **other)[0] - plain[0]).max() > 1e-3


def test_a_network_of_linear_units_is_a_sum_over_its_past():
    x, w, r = np.ones((4, 1, 1)), np.ones((1, 1, 1)), np.full((1, 1, 1), 0.5)
    y = apply("RNN", x, w, r, hidden_size=1, activations=("Affine",), activation_alpha=(2.0,), activation_beta=(1.0,))
    close(y.ravel(), [3, 6, 9, 12])  # twice what is given and half of what was, and one more


# Work


def test_arithmetic_is_counted_from_shapes():
    x, w = tensor(2, 3, 8, 8), tensor(4, 3, 3, 3)
    y = inferred("Conv", x, w)
    done = work(OPS["Conv"], [x, w], y, NO_ATTRIBUTES)
    assert done.flops == 2 * (2 * 4 * 6 * 6) * (3 * 3 * 3)
    assert done.bytes == 4 * (2 * 3 * 64 + 4 * 27 + 2 * 4 * 36)
    pool = Attributes({"kernel_shape": (2, 2)})
    assert work(OPS["AveragePool"], [x], infer_types(OPS["AveragePool"], [x], pool, 1), pool).flops == 6 * 49 * 4


def test_a_recurrent_network_multiplies_with_both_weights_at_every_step():
    x, w, r = tensor(5, 2, 3), tensor(1, 16, 3), tensor(1, 16, 4)
    attrs = Attributes({"hidden_size": 4})
    done = work(OPS["LSTM"], [x, w, r], infer_types(OPS["LSTM"], [x, w, r], attrs, 3), attrs)
    assert done.flops == 5 * 2 * (2 * 16 * 3 + 2 * 16 * 4 + 18 * 4)


@settings(max_examples=most_examples(60), deadline=None)
@given(
    sizes=st.lists(st.integers(3, 5), min_size=1, max_size=3),
    window=st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.integers(0, 1)),
    columns_first=st.booleans(),
    seed=st.integers(0, 99),
)
def test_places_of_a_pool_are_where_its_results_stand(sizes, window, columns_first, seed):
    kernel, stride, dilation, pad = window
    n = len(sizes)
    pad = pad if kernel > 1 and (kernel - 1) * dilation + 1 <= 3 else 0
    kernel = kernel if (kernel - 1) * dilation + 1 <= 3 else 1
    attrs = {"kernel_shape": (kernel,) * n, "strides": (stride,) * n, "dilations": (dilation,) * n}
    attrs |= {"pads": (pad,) * 2 * n, "storage_order": int(columns_first)}
    x = np.random.default_rng(seed).normal(size=(2, 3, *sizes)).astype(np.float32)
    op = OPS["MaxPool"]
    (alone,) = run(op, [x], bind(op, Attributes({**attrs, "storage_order": 0})), 1)
    pooled, places = run(op, [x], bind(op, Attributes(attrs)), 2)
    close(pooled, alone)
    flat = np.concatenate([plane.ravel(order="F" if columns_first else "C") for plane in x.reshape(6, *sizes)])
    close(flat[places], pooled)


def test_a_grouped_transposed_convolution_is_one_of_each_group():
    x, w, bias = (np.random.default_rng(i).normal(size=s) for i, s in enumerate([(3, 4, 5), (4, 2, 3), (4,)]))
    op = OPS["ConvTranspose"]
    (whole,) = run(op, [x, w, bias], bind(op, Attributes({"group": 2})), 1)
    parts = [run(op, [x[:, i : i + 2], w[i : i + 2], None], bind(op, NO_ATTRIBUTES), 1)[0] for i in (0, 2)]
    close(whole, np.concatenate(parts, 1) + bias[:, None])


# Splitting over devices

SPLIT = {
    "convolution": ("Conv", [(4, 2, 5), (6, 2, 3)], {}),
    "convolution, biased": ("Conv", [(4, 2, 5), (6, 2, 3), (6,)], {}),
    "convolution, grouped": ("Conv", [(2, 4, 5), (6, 2, 3), (6,)], {"group": 2}),
    "convolution, one channel in each group": ("Conv", [(2, 4, 5), (4, 1, 3), (4,)], {"group": 4}),
    "transposed convolution": ("ConvTranspose", [(2, 4, 5), (4, 6, 3)], {}),
    "transposed convolution, biased": ("ConvTranspose", [(2, 4, 5), (4, 6, 3), (6,)], {}),
    "transposed convolution, grouped": ("ConvTranspose", [(2, 4, 5), (4, 3, 3), (6,)], {"group": 2}),
    "convolution, deformed": ("DeformConv", [(2, 2, 4, 4), (2, 2, 2, 2), (2, 8, 3, 3)], {}),
    "convolution with a state": ("CausalConvWithState", [(2, 4, 5), (4, 1, 2), (4,), (2, 4, 1)], {"count": 2}),
    "pooling": ("MaxPool", [(2, 4, 6)], {"kernel_shape": (2,)}),
    "pooling with places": ("MaxPool", [(2, 4, 6)], {"kernel_shape": (2,), "count": 2}),
    "averages": ("AveragePool", [(2, 4, 6)], {"kernel_shape": (3,), "pads": (1, 1)}),
    "norms": ("LpPool", [(2, 4, 6)], {"kernel_shape": (2,)}),
    "global pooling": ("GlobalAveragePool", [(2, 4, 6)], {}),
    "batch normalisation": ("BatchNormalization", [(2, 4, 6), (4,), (4,), (4,), (4,)], {}),
    "batch normalisation in training": (
        "BatchNormalization",
        [(2, 4, 6), (4,), (4,), (4,), (4,)],
        {"training_mode": True, "count": 3},
    ),
    "instance normalisation": ("InstanceNormalization", [(2, 4, 6), (4,), (4,)], {}),
    "group normalisation": ("GroupNormalization", [(2, 4, 6), (4,), (4,)], {"num_groups": 2}),
    "response normalisation": ("LRN", [(2, 4, 6, 2)], {"size": 3}),
    "along an axis": ("LpNormalization", [(2, 4, 6)], {"axis": 1}),
    "recurrence": ("GRU", [(3, 2, 4), (1, 12, 4), (1, 12, 4)], {"hidden_size": 4, "count": 2}),
    "recurrence, batch first": (
        "GRU",
        [(2, 3, 4), (1, 12, 4), (1, 12, 4)],
        {"hidden_size": 4, "layout": 1, "count": 2},
    ),
    "regions": ("MaxRoiPool", [(1, 2, 4, 4), (2, 5)], {"pooled_shape": (2, 2)}),
    "element by element": ("PRelu", [(2, 4, 6), (4, 1)], {}),
    "reduction": ("ReduceL1", [(2, 4, 6), [1]], {"keepdims": False}),
    "resizing": ("Resize", [(2, 4, 6), None, [1.0, 1.0, 2.0]], {"mode": "linear"}),
    "sampling": ("GridSample", [(2, 4, 6, 6), (2, 3, 3, 2)], {}),
    "integer product": ("MatMulInteger", [(2, 4), (4, 6)], {"dtype": "UInt8"}),
    "integer product by rows": ("MatMulInteger", [(2, 4), (4, 6), (2, 1)], {"dtype": "UInt8"}),
    "linear attention": (
        "LinearAttention",
        [(2, 3, 4)] * 3,
        {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear", "count": 2},
    ),
    "gated": ("SwiGLU", [(2, 4), (2, 4)], {}),
    "columns": ("Col2Im", [(2, 4, 5), [5], [1]], {}),
    "determinants": ("Det", [(2, 4, 3, 3)], {}),
    "frames": ("STFT", [(2, 8, 1), 2, None, 4], {}),
    "depth to space": ("DepthToSpace", [(2, 4, 6, 6)], {"blocksize": 2}),
}


@pytest.mark.parametrize("case", SPLIT)
def test_what_may_be_split_can_be_computed_in_parts(case):
    name, shapes, attrs = SPLIT[case][0], SPLIT[case][1], dict(SPLIT[case][2])
    count = attrs.pop("count", 1)
    dtype = attrs.pop("dtype", "Float32")
    op, attributes = OPS[name], Attributes(attrs)
    args = [
        tensor(*s, dtype=dtype)
        if isinstance(s, tuple)
        else s
        if s is None
        else Literal(s if isinstance(s, int) else tuple(s))
        for s in shapes
    ]
    strong = strengthen(op, args, attributes)
    values = [
        distir.ops.to_array(s)
        if isinstance(s, Dense)
        else s
        if s is None
        else random_value(s, i, low=0, high=0.9 if dtype == "Float32" else 9)
        for i, s in enumerate(strong)
    ]
    bound = bind(op, attributes)
    whole = run(op, values, bound, count)
    found = layout(op, args, infer_types(op, args, attributes, count), attributes)
    for letter in {letter for letters in found.operands for letter in letters if letter}:
        halves = [[_half(v, ls, letter, i) for v, ls in zip(values, found.operands, strict=True)] for i in (0, 1)]
        if letter in found.averaged and found.scaled is not None:
            halves = [[v / 2 if i == found.scaled else v for i, v in enumerate(half)] for half in halves]
        own = {**bound, **{key: bound[key] // 2 for key in found.divided.get(letter, ())}}
        parts = [run(op, half, own, count) for half in halves]
        for result, letters, first, second in zip(whole, found.results, *parts, strict=True):
            both = np.concatenate((first, second), letters.index(letter)) if letter in letters else first + second
            close(both, result)
    splittable = any(letter for letters in found.operands for letter in letters)
    assert splittable == (case != "pooling with places")  # which count through the whole operand


def _half(value, letters, letter, which):
    return value if letter not in letters else np.split(value, 2, letters.index(letter))[which]


def test_batch_and_channels_of_a_convolution_may_be_split():
    args = [tensor(4, 2, 5), tensor(6, 2, 3)]
    plain = layout(OPS["Conv"], args, inferred("Conv", *args), NO_ATTRIBUTES)
    assert plain.operands == (("b", "c", None), ("m", "c", None))
    assert plain.results == (("b", "m", None),)
    args.append(tensor(6))
    biased = layout(OPS["Conv"], args, inferred("Conv", *args), NO_ATTRIBUTES)
    assert biased.operands == (("b", "c", None), ("m", "c", None), ("m",))
    assert (biased.averaged, biased.scaled) == ({"c"}, 2)  # each partial sum adds a part of the bias


# Laws


@given(st.sampled_from(["Sinh", "Atan", "Softsign", "Selu", "Celu", "Mish", "Shrink"]), seeds)
def test_elementwise_ops_keep_element_type_and_shape(name, seed):
    for dtype in ("Float16", "Float32"):
        x = random_array(dtype, (2, 3), seed)
        assert is_instance(apply(name, x), tensor(2, 3, dtype=dtype))
        assert numpy_dtype(DTYPES[dtype]) == x.dtype


# Starting


def in_a_fresh_interpreter(script):
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    return result.stdout.split()


def test_onnx_is_imported_only_when_a_program_names_one_of_its_ops():
    script = """
        import sys, distir
        program = "func @f(%x: Tensor[Float32, (2, 3), 1]) {\\n %y = OP(%x)\\n return %y\\n}"
        for op in ("Relu", "Rlue", "If", "Atan"):
            print(len(distir.check_text(program.replace("OP", op))), "onnx" in sys.modules)
        """
    assert in_a_fresh_interpreter(script) == ["0", "False", "1", "False", "1", "False", "0", "True"]


def test_without_onnx_its_ops_are_unknown_and_the_extra_is_named():
    script = """
        import sys, distir
        sys.modules["onnx"] = None
        (found,) = distir.check_text("func @f(%x: Tensor[Float32, (2, 3), 1]) {\\n %y = Atan(%x)\\n return %y\\n}")
        print(found.code.number, "distir[onnx]" in found.help)
        """
    assert in_a_fresh_interpreter(script) == ["DIR205", "True"]
