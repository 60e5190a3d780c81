# ruff: noqa: E501 - an example is one line
"""Gradients of the ops that ONNX gives, beside central differences; and a step of a small convolutional network."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnx")

from gradient_samples import numerical_gradients, prepared, rule_gradients

import distir
from distir.ir import DTYPES, SymbolicDim, TensorType, dims
from distir.ops import OPS
from distir.ops.backward import NotDifferentiable
from distir.ops.bridge.gradients import RULES
from distir.transform.verification import verify

EXAMPLES = """
%y = Acos(%x: Tensor[Float64, (2, 3), 1])
%y = Acosh(%x: Tensor[Float64, (2, 3), 1])
%y = Asin(%x: Tensor[Float64, (2, 3), 1])
%y = Asinh(%x: Tensor[Float64, (2, 3), 1])
%y = Atan(%x: Tensor[Float64, (2, 3), 1])
%y = Atanh(%x: Tensor[Float64, (2, 3), 1])
%y = CastLike(%x: Tensor[Float64, (2, 3), 1], %z: Tensor[Float64, (2,), 1])
%y = Celu[alpha = 0.7](%x: Tensor[Float64, (2, 3), 1])
%y = Cosh(%x: Tensor[Float64, (2, 3), 1])
%y = DepthToSpace[blocksize = 2](%x: Tensor[Float64, (2, 8, 2, 3), 1])
%y = DepthToSpace[blocksize = 2, mode = "CRD"](%x: Tensor[Float64, (2, 8, 2, 3), 1])
%y = Mish(%x: Tensor[Float64, (2, 3), 1])
%y = PRelu(%x: Tensor[Float64, (2, 3, 4), 1], %s: Tensor[Float64, (3, 1), 1])
%y = Selu(%x: Tensor[Float64, (2, 3), 1])
%y = Sinh(%x: Tensor[Float64, (2, 3), 1])
%y = Softsign(%x: Tensor[Float64, (2, 3), 1])
%y = SpaceToDepth[blocksize = 2](%x: Tensor[Float64, (2, 3, 4, 2), 1])
%y = Tan(%x: Tensor[Float64, (2, 3), 1])
%y = ThresholdedRelu[alpha = 0.5](%x: Tensor[Float64, (2, 3), 1])
%y = Conv(%x: Tensor[Float64, (2, 3, 5), 1], %w: Tensor[Float64, (4, 3, 2), 1])
%y = Conv[strides = [2], pads = [1, 0]](%x: Tensor[Float64, (2, 3, 6), 1], %w: Tensor[Float64, (4, 3, 3), 1], %b: Tensor[Float64, (4,), 1])
%y = Conv[strides = [2, 3], dilations = [2, 1], pads = [1, 2, 0, 1]](%x: Tensor[Float64, (2, 2, 7, 8), 1], %w: Tensor[Float64, (3, 2, 2, 3), 1])
%y = Conv[group = 2, strides = [2]](%x: Tensor[Float64, (2, 4, 6), 1], %w: Tensor[Float64, (6, 2, 3), 1], %b: Tensor[Float64, (6,), 1])
%y = Conv[group = 4](%x: Tensor[Float64, (1, 4, 5), 1], %w: Tensor[Float64, (4, 1, 3), 1])
%y = MaxPool[kernel_shape = [2]](%x: Tensor[Float64, (2, 3, 6), 1])
%y = MaxPool[kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]](%x: Tensor[Float64, (2, 2, 5, 4), 1])
%y = AveragePool[kernel_shape = [2], strides = [2]](%x: Tensor[Float64, (2, 3, 5), 1])
%y = AveragePool[kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1], count_include_pad = true](%x: Tensor[Float64, (2, 2, 5, 4), 1])
%y = MaxPool[kernel_shape = [3], strides = [2], ceil_mode = true](%x: Tensor[Float64, (2, 3, 6), 1])
%y = MaxPool[kernel_shape = [2], auto_pad = "SAME_UPPER", dilations = [2]](%x: Tensor[Float64, (2, 3, 6), 1])
%y = ConvTranspose(%x: Tensor[Float64, (2, 3, 4), 1], %w: Tensor[Float64, (3, 2, 3), 1])
%y = ConvTranspose[strides = [2, 3], dilations = [1, 2], pads = [1, 0, 1, 2], output_padding = [1, 2]](%x: Tensor[Float64, (2, 2, 3, 3), 1], %w: Tensor[Float64, (2, 3, 3, 2), 1], %b: Tensor[Float64, (3,), 1])
%y = ConvTranspose[group = 2, strides = [2]](%x: Tensor[Float64, (2, 4, 3), 1], %w: Tensor[Float64, (4, 3, 2), 1], %b: Tensor[Float64, (6,), 1])
%y = Resize(%x: Tensor[Float64, (2, 3, 2, 3), 1], _, [1.0, 1.0, 2.0, 2.0])
%y = Resize[mode = "linear"](%x: Tensor[Float64, (2, 2, 3, 4), 1], _, _, [2, 2, 5, 3])
%y = Resize[mode = "cubic", axes = [2], coordinate_transformation_mode = "align_corners"](%x: Tensor[Float64, (2, 2, 5), 1], _, [1.6])
%y = GlobalMaxPool(%x: Tensor[Float64, (2, 3, 4, 2), 1])
%y = GlobalMaxPool(%x: Tensor[Float64, (2, 3, 5), 1])
%y = GlobalAveragePool(%x: Tensor[Float64, (2, 3, 5), 1])
%y = AveragePool[kernel_shape = [2, 1, 2]](%x: Tensor[Float64, (1, 2, 3, 2, 3), 1])
%y = MaxPool[kernel_shape = [2, 1, 2], strides = [2, 1, 1]](%x: Tensor[Float64, (1, 2, 4, 2, 3), 1])
%y = Conv[strides = [1, 2, 1]](%x: Tensor[Float64, (1, 2, 3, 4, 3), 1], %w: Tensor[Float64, (2, 2, 2, 2, 2), 1])
%y = ConvTranspose[strides = [1, 2, 1]](%x: Tensor[Float64, (1, 2, 2, 2, 2), 1], %w: Tensor[Float64, (2, 2, 2, 2, 1), 1])
%y = InstanceNormalization(%x: Tensor[Float64, (2, 2, 3, 2, 2), 1], %s: Tensor[Float64, (2,), 1], %b: Tensor[Float64, (2,), 1])
%y = GlobalAveragePool(%x: Tensor[Float64, (2, 3, 4, 2), 1])
%y = BatchNormalization(%x: Tensor[Float64, (2, 3, 4), 1], %s: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (3,), 1], %m: Tensor[Float64, (3,), 1], %v: Tensor[Float64, (3,), 1])
%y = BatchNormalization(%x: Tensor[Float64, (4, 3), 1], %s: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (3,), 1], %m: Tensor[Float64, (3,), 1], %v: Tensor[Float64, (3,), 1])
%y = BatchNormalization[training_mode = true](%x: Tensor[Float64, (3, 2, 4), 1], %s: Tensor[Float64, (2,), 1], %b: Tensor[Float64, (2,), 1], %m: Tensor[Float64, (2,), 1], %v: Tensor[Float64, (2,), 1])
%y = BatchNormalization[training_mode = true](%x: Tensor[Float64, (5, 3), 1], %s: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (3,), 1], %m: Tensor[Float64, (3,), 1], %v: Tensor[Float64, (3,), 1])
%y = InstanceNormalization(%x: Tensor[Float64, (2, 3, 4), 1], %s: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (3,), 1])
%y = GroupNormalization[num_groups = 2](%x: Tensor[Float64, (2, 4, 3, 2), 1], %s: Tensor[Float64, (4,), 1], %b: Tensor[Float64, (4,), 1])
%y, %h, %c = LSTM[hidden_size = 2](%x: Tensor[Float64, (3, 2, 4), 1], %w: Tensor[Float64, (1, 8, 4), 1], %r: Tensor[Float64, (1, 8, 2), 1])
%y, %h, %c = LSTM[hidden_size = 2, direction = "bidirectional"](%x: Tensor[Float64, (3, 2, 4), 1], %w: Tensor[Float64, (2, 8, 4), 1], %r: Tensor[Float64, (2, 8, 2), 1], %b: Tensor[Float64, (2, 16), 1], _, %i: Tensor[Float64, (2, 2, 2), 1], %j: Tensor[Float64, (2, 2, 2), 1])
%y, %h, %c = LSTM[hidden_size = 2, direction = "reverse", layout = 1](%x: Tensor[Float64, (2, 3, 4), 1], %w: Tensor[Float64, (1, 8, 4), 1], %r: Tensor[Float64, (1, 8, 2), 1], %b: Tensor[Float64, (1, 16), 1], _, %i: Tensor[Float64, (2, 1, 2), 1], %j: Tensor[Float64, (2, 1, 2), 1])
_, %h = LSTM[hidden_size = 2](%x: Tensor[Float64, (3, 2, 4), 1], %w: Tensor[Float64, (1, 8, 4), 1], %r: Tensor[Float64, (1, 8, 2), 1])
%y, %h = GRU[hidden_size = 2, linear_before_reset = true](%x: Tensor[Float64, (3, 2, 4), 1], %w: Tensor[Float64, (1, 6, 4), 1], %r: Tensor[Float64, (1, 6, 2), 1])
%y, %h = GRU[hidden_size = 2, linear_before_reset = true, direction = "bidirectional", layout = 1](%x: Tensor[Float64, (2, 3, 4), 1], %w: Tensor[Float64, (2, 6, 4), 1], %r: Tensor[Float64, (2, 6, 2), 1], %b: Tensor[Float64, (2, 12), 1], _, %i: Tensor[Float64, (2, 2, 2), 1])
%y, %h = RNN[hidden_size = 2](%x: Tensor[Float64, (3, 2, 4), 1], %w: Tensor[Float64, (1, 2, 4), 1], %r: Tensor[Float64, (1, 2, 2), 1], %b: Tensor[Float64, (1, 4), 1], _, %i: Tensor[Float64, (1, 2, 2), 1])
""".strip().splitlines()


RANGES = {
    **dict.fromkeys(("Acos", "Asin", "Atanh"), lambda x: x / 3),
    "Acosh": lambda x: 1 + np.abs(x),
}
"""Where functions are defined that are not so everywhere."""


def any_batch(known):
    """The batch by name only."""
    if not isinstance(known, TensorType) or not known.shape or len(known.shape) < 3:
        return known
    return TensorType(known.dtype, (dims.named("B"), *known.shape[1:]), known.device)


@pytest.mark.parametrize("weaken", [lambda known: known, any_batch], ids=["known", "named"])
@pytest.mark.parametrize("text", EXAMPLES)
def test_a_rule_agrees_with_central_differences(text, weaken):
    params, statement, values, dys = prepared(text)
    if "v" in values:
        values["v"] = np.abs(values["v"])
    if statement.op in RANGES:
        values = {name: RANGES[statement.op](value) for name, value in values.items()}
    found = rule_gradients(params, statement, values, dys, weaken)
    for name, slopes in numerical_gradients(params, statement, values, dys).items():
        if found[name] is None:  # the statistics that are given in training
            np.testing.assert_allclose(slopes, 0, atol=1e-7)
            continue
        assert found[name].shape == slopes.shape
        np.testing.assert_allclose(found[name], slopes, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("attributes", ["", "[training_mode = true]"])
@pytest.mark.parametrize("wide", ["sb", "mv", "sbmv"])
def test_what_a_batch_normalisation_has_of_each_channel_may_be_wider_than_its_activations(attributes, wide):
    params, statement, values, dys = prepared(
        f"%y = BatchNormalization{attributes}(%x: Tensor[Float64, (3, 2, 4), 1], %s: Tensor[Float64, (2,), 1],"
        " %b: Tensor[Float64, (2,), 1], %m: Tensor[Float64, (2,), 1], %v: Tensor[Float64, (2,), 1])"
    )
    values["v"] = np.abs(values["v"])
    expected = rule_gradients(params, statement, values, dys)
    given = {name: value if name in wide else value.astype(np.float32) for name, value in values.items()}
    typed = [replace(p, type=replace(p.type, dtype=DTYPES[given[p.name].dtype.name.capitalize()])) for p in params]
    found = rule_gradients(typed, statement, given, {name: dy.astype(np.float32) for name, dy in dys.items()})
    for name, gradient in found.items():
        assert (gradient is None) == (expected[name] is None)
        if gradient is not None:
            assert gradient.dtype == given[name].dtype
            np.testing.assert_allclose(gradient, expected[name], rtol=1e-4, atol=1e-5)


def test_every_rule_hangs_on_its_op():
    assert all(OPS[name].rules["grad"] is rule for name, rule in RULES.items())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '%y = Conv[auto_pad = "SAME_UPPER"](%x: Tensor[Float64, (1, 2, 5), 1], %w: Tensor[Float64, (2, 2, 2), 1])',
            "auto_pad",
        ),
        ("%y = AveragePool[kernel_shape = [2], pads = [1, 1]](%x: Tensor[Float64, (2, 3, 5), 1])", "equal numbers"),
        (
            "%y = ConvTranspose[output_shape = [5]](%x: Tensor[Float64, (1, 2, 4), 1], %w: Tensor[Float64, (2, 2, 2), 1])",
            "output_shape",
        ),
        (
            '%y = Resize[keep_aspect_ratio_policy = "not_larger"](%x: Tensor[Float64, (2, 3), 1], _, _, [4, 9])',
            "stretched",
        ),
        (
            "%y = GRU[hidden_size = 2](%x: Tensor[Float64, (3, 2, 4), 1], %w: Tensor[Float64, (1, 6, 4), 1], %r: Tensor[Float64, (1, 6, 2), 1])",
            "linear_before_reset",
        ),
        (
            "%y = LSTM[hidden_size = 2](%x: Tensor[Float64, (3, 2, 4), 1], %w: Tensor[Float64, (1, 8, 4), 1], %r: Tensor[Float64, (1, 8, 2), 1], _, [3, 3])",
            "sequence_lens",
        ),
    ],
)
def test_what_has_no_rule_is_refused_with_the_reason(text, said):
    params, statement, values, dys = prepared(text)
    with pytest.raises(NotDifferentiable, match=said):
        rule_gradients(params, statement, values, dys)


@pytest.mark.parametrize(
    ("params", "body"),
    [
        (
            "%w: Tensor[Float32, (4, 3, 3, 3), 1] {param}, %s: Tensor[Float32, (4,), 1] {param}, %v: Tensor[Float32, (4, 2, 2, 2), 1] {param}, %x: Tensor[Float32, (B, 3, 8, 8), 1] {batch = 0}",
            """
  %c = Conv[pads = [1, 1, 1, 1]](%x, %w)
  %n, _, _ = BatchNormalization[training_mode = true](%c, %s, %s, %s, %s)
  %p = MaxPool[kernel_shape = [2, 2], strides = [2, 2]](%n)
  %g = GroupNormalization[num_groups = 2](%p, %s, %s)
  %i = InstanceNormalization(%g, %s, %s)
  %r = Resize(%i, _, [1.0, 1.0, 2.0, 2.0])
  %t = Slice(%r, [0, 7], [9223372036854775807, -9], [0, 3], [1, -2])
  %y = ConvTranspose[strides = [2, 2]](%t, %v)""",
        ),
        (
            "%w: Tensor[Float32, (2, 20, 3), 1] {param}, %r: Tensor[Float32, (2, 20, 5), 1] {param}, %v: Tensor[Float32, (1, 12, 5), 1] {param}, %u: Tensor[Float32, (1, 12, 4), 1] {param}, %h: Tensor[Float32, (2, B, 5), 1] {batch = 1}, %x: Tensor[Float32, (6, B, 3), 1] {batch = 1}",
            """
  %a, _, %c = LSTM[hidden_size = 5, direction = "bidirectional"](%x, %w, %r, _, _, %h, %h)
  %m = ReduceMean[keepdims = false](%a, [1])
  %b = GRU[hidden_size = 4, linear_before_reset = true](%m, %v, %u)
  %q = Transpose[perm = [2, 0, 1, 3]](%b)
  %k = Transpose[perm = [1, 0, 2]](%c)
  %f = Flatten(%q)
  %l = Flatten(%k)
  %y = Concat[axis = 1](%f, %l)""",
        ),
    ],
    ids=["images", "recurrent"],
)
def test_two_devices_with_half_a_batch_each_train_as_one_does(params, body):
    module = distir.parse(f"func @main({params}) {{{body}\n  return %y\n}}\n")
    step = distir.transform(module, "grad", loss="mse", optimizer="none")
    split = distir.transform(step, "dp=2")
    assert not [d for d in distir.check(split) if d.severity == "error"]
    assert verify(step, split, bind={"B": 4}).equal


def test_a_convolutional_network_is_trained_at_any_batch_size():
    module = distir.parse("""\
func @main(%w: Tensor[Float32, (4, 1, 3, 3), 1] {param}, %s: Tensor[Float32, (4,), 1] {param}, %o: Tensor[Float32, (4, 2), 1] {param}, %x: Tensor[Float32, (B, 1, 8, 8), 1] {batch = 0}, %t: Tensor[Float32, (B, 2), 1] {batch = 0}) {
  %c = Conv[pads = [1, 1, 1, 1]](%x, %w)
  %n = BatchNormalization(%c, %s, %s, %s, %s)
  %r = Relu(%n)
  %p = MaxPool[kernel_shape = [2, 2], strides = [2, 2]](%r)
  %g = GlobalAveragePool(%p)
  %f = Flatten(%g)
  %y = MatMul(%f, %o)
  %l = MSELoss(%y, %t)
  return %l
}
""")
    trained = distir.transform(module, "grad")
    assert not [d for d in distir.check(trained) if d.severity == "error"]
    assert any(isinstance(d, SymbolicDim) for p in trained.entry().params for d in p.type.shape)
    assert distir.simulate(trained, bind={"B": 4}).latency_s > distir.simulate(module, bind={"B": 4}).latency_s
