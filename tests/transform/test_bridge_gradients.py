# ruff: noqa: E501 - an example is one line
"""Gradients of the ops that ONNX gives, beside central differences; and a step of a small convolutional network."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from gradient_samples import numerical_gradients, prepared, rule_gradients

import distir
from distir.ir import SymbolicDim, TensorType, dims
from distir.ops.bridge.definition import DIFFERENTIABLE
from distir.ops.bridge.gradients import RULES
from distir.ops.differentiation import NotDifferentiable

EXAMPLES = """
%y = Conv(%x: Tensor[Float64, (2, 3, 5), 1], %w: Tensor[Float64, (4, 3, 2), 1])
%y = Conv[strides = [2], pads = [1, 0]](%x: Tensor[Float64, (2, 3, 6), 1], %w: Tensor[Float64, (4, 3, 3), 1], %b: Tensor[Float64, (4,), 1])
%y = Conv[strides = [2, 3], dilations = [2, 1], pads = [1, 2, 0, 1]](%x: Tensor[Float64, (2, 2, 7, 8), 1], %w: Tensor[Float64, (3, 2, 2, 3), 1])
%y = Conv[group = 2, strides = [2]](%x: Tensor[Float64, (2, 4, 6), 1], %w: Tensor[Float64, (6, 2, 3), 1], %b: Tensor[Float64, (6,), 1])
%y = Conv[group = 4](%x: Tensor[Float64, (1, 4, 5), 1], %w: Tensor[Float64, (4, 1, 3), 1])
%y = MaxPool[kernel_shape = [2]](%x: Tensor[Float64, (2, 3, 6), 1])
%y = MaxPool[kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]](%x: Tensor[Float64, (2, 2, 5, 4), 1])
%y = AveragePool[kernel_shape = [2], strides = [2]](%x: Tensor[Float64, (2, 3, 5), 1])
%y = AveragePool[kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1], count_include_pad = true](%x: Tensor[Float64, (2, 2, 5, 4), 1])
%y = GlobalAveragePool(%x: Tensor[Float64, (2, 3, 4, 2), 1])
%y = BatchNormalization(%x: Tensor[Float64, (2, 3, 4), 1], %s: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (3,), 1], %m: Tensor[Float64, (3,), 1], %v: Tensor[Float64, (3,), 1])
%y = BatchNormalization(%x: Tensor[Float64, (4, 3), 1], %s: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (3,), 1], %m: Tensor[Float64, (3,), 1], %v: Tensor[Float64, (3,), 1])
""".strip().splitlines()


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
    told = (lambda t: t) if statement.op == "Conv" and weaken is any_batch else weaken
    found = rule_gradients(params, statement, values, dys, told)
    for name, slopes in numerical_gradients(params, statement, values, dys).items():
        assert found[name].shape == slopes.shape
        np.testing.assert_allclose(found[name], slopes, rtol=1e-6, atol=1e-7)


def test_every_rule_is_offered():
    assert set(DIFFERENTIABLE) == set(RULES)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '%y = Conv[auto_pad = "SAME_UPPER"](%x: Tensor[Float64, (1, 2, 5), 1], %w: Tensor[Float64, (2, 2, 2), 1])',
            "auto_pad",
        ),
        ("%y = AveragePool[kernel_shape = [2], pads = [1, 1]](%x: Tensor[Float64, (2, 3, 5), 1])", "equal numbers"),
    ],
)
def test_what_has_no_rule_is_refused_with_the_reason(text, said):
    params, statement, values, dys = prepared(text)
    with pytest.raises(NotDifferentiable, match=said):
        rule_gradients(params, statement, values, dys)


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
