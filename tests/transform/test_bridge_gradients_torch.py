# ruff: noqa: E501 - an example is one line
"""The gradients of the ops that ONNX gives are those that PyTorch's automatic differentiation finds."""

import numpy as np
import pytest

pytest.importorskip("onnx")
torch = pytest.importorskip("torch")

from gradient_samples import prepared, rule_gradients  # noqa: E402
from test_bridge_gradients import RANGES  # noqa: E402

from distir.ops.bridge.gradients import RULES  # noqa: E402

F = torch.nn.functional


def trained(x, scale, b, mean, variance):
    return F.batch_norm(x, None, None, scale, b, training=True)


def recurrent(function, gates, directions=1):
    """A network of torch with ONNX's operands. `gates`: where each of torch's is in ONNX's order."""

    def network(x, w, r, b, *states):
        hidden = r.shape[2]
        weights = []
        for k in range(directions):
            for part in (w[k], r[k], *b[k].chunk(2)):
                weights.append(torch.cat([part.split(hidden)[gate] for gate in gates]))
        start = states if len(states) > 1 else states[0]
        y, *last = function(x, start, weights, True, 1, 0.0, False, directions == 2, False)
        return y.unflatten(2, (directions, hidden)).transpose(1, 2), *last

    return network


CASES = {
    "%y = Acos(%x: Tensor[Float64, (2, 3), 1])": torch.acos,
    "%y = Acosh(%x: Tensor[Float64, (2, 3), 1])": torch.acosh,
    "%y = Asin(%x: Tensor[Float64, (2, 3), 1])": torch.asin,
    "%y = Asinh(%x: Tensor[Float64, (2, 3), 1])": torch.asinh,
    "%y = Atan(%x: Tensor[Float64, (2, 3), 1])": torch.atan,
    "%y = Atanh(%x: Tensor[Float64, (2, 3), 1])": torch.atanh,
    "%y = Cosh(%x: Tensor[Float64, (2, 3), 1])": torch.cosh,
    "%y = Mish(%x: Tensor[Float64, (2, 3), 1])": F.mish,
    "%y = Selu[alpha = 1.5, gamma = 1.25](%x: Tensor[Float64, (2, 3), 1])": lambda x: 1.25 * F.elu(x, 1.5),
    "%y = Sinh(%x: Tensor[Float64, (2, 3), 1])": torch.sinh,
    "%y = Softsign(%x: Tensor[Float64, (2, 3), 1])": F.softsign,
    "%y = Tan(%x: Tensor[Float64, (2, 3), 1])": torch.tan,
    "%y = CastLike(%x: Tensor[Float64, (2, 3), 1], %z: Tensor[Float64, (2,), 1])": lambda x, z: x.to(z.dtype),
    "%y = Celu[alpha = 0.5](%x: Tensor[Float64, (2, 3), 1])": lambda x: F.celu(x, 0.5),
    '%y = DepthToSpace[blocksize = 2, mode = "CRD"](%x: Tensor[Float64, (2, 8, 2, 3), 1])': lambda x: F.pixel_shuffle(
        x, 2
    ),
    "%y = PRelu(%x: Tensor[Float64, (2, 3, 4), 1], %s: Tensor[Float64, (3, 1), 1])": lambda x, s: F.prelu(
        x, s.flatten()
    ),
    "%y = SpaceToDepth[blocksize = 2](%x: Tensor[Float64, (2, 1, 4, 6), 1])": lambda x: F.pixel_unshuffle(x, 2),
    "%y = ThresholdedRelu[alpha = 0.5](%x: Tensor[Float64, (2, 3), 1])": lambda x: F.threshold(x, 0.5, 0.0),
    "%y = AveragePool[kernel_shape = [2, 2], strides = [2, 1]](%x: Tensor[Float64, (2, 3, 4, 5), 1])": lambda x: (
        F.avg_pool2d(x, 2, (2, 1))
    ),
    "%y = BatchNormalization[training_mode = true](%x: Tensor[Float64, (4, 3, 5), 1], %s: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (3,), 1], %m: Tensor[Float64, (3,), 1], %v: Tensor[Float64, (3,), 1])": trained,
    "%y = Conv[strides = [2, 1], pads = [1, 0, 1, 0], group = 2](%x: Tensor[Float64, (2, 4, 5, 6), 1], %w: Tensor[Float64, (6, 2, 3, 2), 1], %b: Tensor[Float64, (6,), 1])": lambda x, w, b: (
        F.conv2d(x, w, b, (2, 1), (1, 0), groups=2)
    ),
    "%y = Conv[group = 4, pads = [3, 0]](%x: Tensor[Float64, (2, 4, 6), 1], %w: Tensor[Float64, (4, 1, 4), 1])": lambda x, w: (
        F.conv1d(F.pad(x, (3, 0)), w, groups=4)
    ),
    "%y = ConvTranspose[strides = [2, 2], output_padding = [1, 0]](%x: Tensor[Float64, (2, 4, 3, 2), 1], %w: Tensor[Float64, (4, 3, 3, 2), 1], %b: Tensor[Float64, (3,), 1])": lambda x, w, b: (
        F.conv_transpose2d(x, w, b, 2, output_padding=(1, 0))
    ),
    "%y = GlobalAveragePool(%x: Tensor[Float64, (2, 3, 4, 5), 1])": lambda x: x.mean((2, 3), keepdim=True),
    "%y = GlobalMaxPool(%x: Tensor[Float64, (2, 3, 4, 5), 1])": lambda x: x.amax((2, 3), keepdim=True),
    "%y = GroupNormalization[num_groups = 2](%x: Tensor[Float64, (2, 4, 3, 5), 1], %s: Tensor[Float64, (4,), 1], %b: Tensor[Float64, (4,), 1])": lambda x, s, b: (
        F.group_norm(x, 2, s, b)
    ),
    '%y, %h = GRU[hidden_size = 3, linear_before_reset = true, direction = "bidirectional"](%x: Tensor[Float64, (4, 2, 5), 1], %w: Tensor[Float64, (2, 9, 5), 1], %r: Tensor[Float64, (2, 9, 3), 1], %b: Tensor[Float64, (2, 18), 1], _, %i: Tensor[Float64, (2, 2, 3), 1])': recurrent(
        torch.gru, (1, 0, 2), 2
    ),
    "%y = InstanceNormalization(%x: Tensor[Float64, (2, 4, 3, 5), 1], %s: Tensor[Float64, (4,), 1], %b: Tensor[Float64, (4,), 1])": lambda x, s, b: (
        F.instance_norm(x, weight=s, bias=b)
    ),
    "%y, %h, %c = LSTM[hidden_size = 3](%x: Tensor[Float64, (4, 2, 5), 1], %w: Tensor[Float64, (1, 12, 5), 1], %r: Tensor[Float64, (1, 12, 3), 1], %b: Tensor[Float64, (1, 24), 1], _, %i: Tensor[Float64, (1, 2, 3), 1], %j: Tensor[Float64, (1, 2, 3), 1])": recurrent(
        torch.lstm, (0, 2, 3, 1)
    ),
    '%y, %h, %c = LSTM[hidden_size = 3, direction = "bidirectional"](%x: Tensor[Float64, (4, 2, 5), 1], %w: Tensor[Float64, (2, 12, 5), 1], %r: Tensor[Float64, (2, 12, 3), 1], %b: Tensor[Float64, (2, 24), 1], _, %i: Tensor[Float64, (2, 2, 3), 1], %j: Tensor[Float64, (2, 2, 3), 1])': recurrent(
        torch.lstm, (0, 2, 3, 1), 2
    ),
    "%y = MaxPool[kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 0]](%x: Tensor[Float64, (2, 3, 5, 4), 1])": lambda x: (
        F.max_pool2d(x, (3, 2), (2, 1), (1, 0))
    ),
    '%y = Resize[nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"](%x: Tensor[Float64, (2, 3, 4, 2), 1], _, [1.0, 1.0, 2.0, 2.0])': lambda x: (
        F.interpolate(x, scale_factor=2)
    ),
    '%y = Resize[mode = "linear"](%x: Tensor[Float64, (2, 3, 4, 2), 1], _, _, [2, 3, 7, 5])': lambda x: F.interpolate(
        x, (7, 5), mode="bilinear"
    ),
    "%y, %h = RNN[hidden_size = 3](%x: Tensor[Float64, (4, 2, 5), 1], %w: Tensor[Float64, (1, 3, 5), 1], %r: Tensor[Float64, (1, 3, 3), 1], %b: Tensor[Float64, (1, 6), 1], _, %i: Tensor[Float64, (1, 2, 3), 1])": recurrent(
        torch.rnn_tanh, (0,)
    ),
}
"""What an op is in torch, of its operands in their order."""


@pytest.mark.parametrize("text", CASES)
def test_torch_finds_the_same_gradient(text):
    params, statement, values, dys = prepared(text)
    if statement.op in RANGES:
        values = {name: RANGES[statement.op](value) for name, value in values.items()}
    inputs = {name: torch.tensor(value, requires_grad=True) for name, value in values.items()}
    y = CASES[text](*inputs.values())
    seeds = [torch.tensor(dys[name]) for name in statement.results]
    torch.autograd.backward(y if isinstance(y, tuple) else [y], seeds)
    found = rule_gradients(params, statement, values, dys)
    for name, tensor in inputs.items():
        if tensor.grad is None:  # the statistics that are given in training
            assert found[name] is None
        else:
            np.testing.assert_allclose(found[name], tensor.grad.numpy(), rtol=1e-9, atol=1e-10)


def test_every_op_with_a_gradient_is_compared():
    assert set(RULES) == {text.split("= ", 1)[1].split("[")[0].split("(")[0] for text in CASES}
