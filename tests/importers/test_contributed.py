"""Ops that ONNX Runtime adds to files: the same results as ONNX's own ops give, written by hand."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import helper
from onnx_models import FLOAT, imported, model, node, weight

import distir

X = weight(2, 3, 4, seed=1)
EIGHT_BITS = np.random.default_rng(0).integers(-100, 100, (4, 5)).astype(np.int8)
ZERO, SCALE = np.array([0], np.int8), np.array([0.02], np.float32)


def result(tmp_path, op, initializers, **attributes):
    names = ["x", *("" if held is None else f"w{i}" for i, held in enumerate(initializers))]
    given = {name: held for name, held in zip(names[1:], initializers, strict=True) if name}
    extra = [helper.make_opsetid("com.microsoft", 1)]
    made = node(op, names, "y", domain="com.microsoft", **attributes)
    proto = model([made], {"x": (FLOAT, [2, 3, 4])}, {"y": (FLOAT, None)}, given, extra_opsets=extra)
    module = imported(tmp_path, proto)
    (y,) = distir.run(module, {**module.weights, "x": X}).values()
    return module, y


def normal(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(
    ("op", "held", "attributes", "expected"),
    [
        ("FusedMatMul", [weight(5, 4)], {"transB": 1, "alpha": 0.5}, lambda w: 0.5 * X @ w.T),
        ("FusedMatMul", [weight(2, 3, 5)], {"transA": 1}, lambda w: X.swapaxes(1, 2) @ w),
        ("FastGelu", [weight(4)], {}, lambda w: gelu_tanh(X + w)),
        ("QuickGelu", [], {"alpha": 1.5}, lambda: X / (1 + np.exp(-1.5 * X))),
        ("SkipLayerNormalization", [X[::-1], weight(4), weight(4, seed=3)], {}, lambda s, w, b: normal(X + s) * w + b),
        (
            "SkipSimplifiedLayerNormalization",
            [X[::-1], weight(4)],
            {},
            lambda s, w: (X + s) / np.sqrt(((X + s) ** 2).mean(-1, keepdims=True)) * w,
        ),
        (
            "SimplifiedLayerNormalization",
            [weight(4)],
            {"epsilon": 0.5},
            lambda w: X / np.sqrt((X**2).mean(-1, keepdims=True) + 0.5) * w,
        ),
    ],
)
def test_what_onnx_runtime_fuses(tmp_path, op, held, attributes, expected):
    module, y = result(tmp_path, op, held, **attributes)
    np.testing.assert_allclose(y, expected(*held), rtol=1e-4, atol=1e-5)
    assert module.notes == ()


def test_products_of_8_bits_with_their_scale(tmp_path):
    _, y = result(tmp_path, "DynamicQuantizeMatMul", [EIGHT_BITS, SCALE, ZERO, weight(5)])
    exact = X @ (EIGHT_BITS * SCALE) + weight(5)
    assert np.abs(y - exact).max() < 0.02 * np.abs(exact).max()


def test_a_network_with_weights_in_8_bits_is_the_one_that_they_stand_for(tmp_path):
    """`LSTM` with the numbers that the weights represent, but for what rounding its operands changes."""
    numbers = np.random.default_rng(1)
    given = {name: numbers.integers(-60, 60, (2, size, 20)).astype(np.int8) for name, size in (("w", 4), ("r", 5))}
    scales = {name: (numbers.random((2, 20)) * 0.01).astype(np.float32) for name in given}
    zeros = {name: numbers.integers(-9, 9, (2, 20)).astype(np.int8) for name in given}
    bias = weight(2, 40)
    held = [given["w"], given["r"], bias, None, None, None, None, scales["w"], zeros["w"], scales["r"], zeros["r"]]
    module, y = result(tmp_path, "DynamicQuantizeLSTM", held, hidden_size=5, direction="bidirectional")
    assert "= DynamicQuantizeLSTM" in distir.format(module)
    w, r = ((given[n] - zeros[n][:, None].astype(np.float32)) * scales[n][:, None] for n in given)
    text = distir.parse("""
func @main(%x: Tensor[Float32, (2, 3, 4), 1], %w: Tensor[Float32, (2, 20, 4), 1], %r: Tensor[Float32, (2, 20, 5), 1], %b: Tensor[Float32, (2, 40), 1]) {
  %y = LSTM[direction = "bidirectional", hidden_size = 5](%x, %w, %r, %b)
  return %y
}
""")  # noqa: E501
    plain = distir.run(text, {"x": X, "w": w.swapaxes(1, 2), "r": r.swapaxes(1, 2), "b": bias})["y"]
    assert 0 < np.abs(y - plain).max() < 0.01 * np.abs(plain).max()


def test_a_network_with_weights_in_8_bits_and_other_activations_is_not_taken_for_one(tmp_path):
    held = [
        EIGHT_BITS[None].repeat(4, -1),
        EIGHT_BITS[:1].repeat(5, 0)[None].repeat(4, -1),
        None,
        None,
        None,
        None,
        None,
    ]
    held += [SCALE, ZERO, SCALE, ZERO]
    with pytest.raises(distir.ProgramError, match="DynamicQuantizeLSTM"):
        result(tmp_path, "DynamicQuantizeLSTM", held, hidden_size=5, activations=["Relu", "Tanh", "Tanh"])
