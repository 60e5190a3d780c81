# ruff: noqa: E501 - an example is one line
"""Every op's gradient is the one that PyTorch's automatic differentiation finds, where torch is installed."""

import numpy as np
import pytest
from gradient_samples import prepared, rule_gradients

from distir.ops import OPS

torch = pytest.importorskip("torch")
F = torch.nn.functional


def rotated(x, c, s):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * c - b * s, a * s + b * c], dim=-1)


def attended(q, k, v):
    heads = (2, 5, 2, 4)
    q, k, v = (t.reshape(heads).transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 5, 8)


def grouped(q, k, v):
    k, v = (t.repeat_interleave(2, dim=1) for t in (k, v))
    return F.scaled_dot_product_attention(q, k, v)


def sliding(q, k, v, sinks):
    """Two keys in sight, and a score for each head that is in the softmax alone."""
    scores = q @ k.repeat_interleave(2, dim=1).transpose(2, 3) / 8**0.5
    seen = torch.ones(3, 3, dtype=torch.bool).tril() & torch.ones(3, 3, dtype=torch.bool).triu(-1)
    scores = scores.masked_fill(~seen, -torch.inf)
    weights = torch.cat([scores, sinks.reshape(1, 4, 1, 1).expand(2, 4, 3, 1)], -1).softmax(-1)
    return weights[..., :-1] @ v.repeat_interleave(2, dim=1)


EXPERTS = torch.tensor([[0, 1], [1, 3], [0, 1]])


CASES = {
    "%y = Abs(%x: Tensor[Float64, (2, 3), 1])": torch.abs,
    "%c = Add(%a: Tensor[Float64, (2, 1, 3), 1], %b: Tensor[Float64, (4, 1), 1])": torch.add,
    "%y = Attention(%q: Tensor[Float64, (2, 4, 3, 8), 1], %k: Tensor[Float64, (2, 2, 5, 8), 1], %v: Tensor[Float64, (2, 2, 5, 6), 1])": grouped,
    "%y = Attention[is_causal = true, q_num_heads = 2, kv_num_heads = 2](%q: Tensor[Float64, (2, 5, 8), 1], %k: Tensor[Float64, (2, 5, 8), 1], %v: Tensor[Float64, (2, 5, 8), 1])": attended,
    "%y = Attention[is_causal = true, window = 2](%q: Tensor[Float64, (2, 4, 3, 8), 1], %k: Tensor[Float64, (2, 2, 3, 8), 1], %v: Tensor[Float64, (2, 2, 3, 8), 1], _, %s: Tensor[Float64, (4,), 1])": sliding,
    "%y = GroupedMatMul(%x: Tensor[Float64, (3, 5), 1], %w: Tensor[Float64, (4, 5, 6), 1], [[0, 1], [1, 3], [0, 1]])": lambda x, w: (
        torch.einsum("nk,nckm->ncm", x, w[EXPERTS])
    ),
    "%y = GroupedMatMul[transW = true](%x: Tensor[Float64, (3, 2, 5), 1], %w: Tensor[Float64, (4, 6, 5), 1], [[0, 1], [1, 3], [0, 1]])": lambda x, w: (
        torch.einsum("nck,ncmk->ncm", x, w[EXPERTS])
    ),
    "%y = Cast[to = Float64](%x: Tensor[Float64, (2, 3), 1])": lambda x: x.to(torch.float64),
    "%y = Clip(%x: Tensor[Float64, (2, 3), 1], -0.3, 0.4)": lambda x: x.clamp(-0.3, 0.4),
    "%y = Concat[axis = 0](%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (4, 3), 1])": lambda a, b: torch.cat(
        [a, b]
    ),
    "%y = Cos(%x: Tensor[Float64, (2, 3), 1])": torch.cos,
    "%y = CumSum[exclusive = true](%x: Tensor[Float64, (2, 3), 1], 1)": lambda x: x.cumsum(1) - x,
    "%c = Div(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1])": torch.div,
    '%c = Einsum[equation = "bij,bjk->bik"](%a: Tensor[Float64, (5, 2, 3), 1], %b: Tensor[Float64, (5, 3, 4), 1])': lambda a, b: (
        torch.einsum("bij,bjk->bik", a, b)
    ),
    "%y = Elu[alpha = 0.7](%x: Tensor[Float64, (2, 3), 1])": lambda x: F.elu(x, 0.7),
    "%y = Erf(%x: Tensor[Float64, (2, 3), 1])": torch.erf,
    "%y = Exp(%x: Tensor[Float64, (2, 3), 1])": torch.exp,
    "%y = Expand(%x: Tensor[Float64, (3, 1), 1], [2, 1, 4])": lambda x: x.expand(2, 3, 4),
    "%y = Flatten(%x: Tensor[Float64, (2, 3, 4), 1])": lambda x: x.flatten(1),
    "%y = Gather[axis = 1](%x: Tensor[Float64, (3, 5), 1], [0, 2, 0])": lambda x: x[:, [0, 2, 0]],
    "%y = GatherElements[axis = 1](%x: Tensor[Float64, (2, 4), 1], [[0, 1, 0], [3, 3, 2]])": lambda x: x.gather(
        1, torch.tensor([[0, 1, 0], [3, 3, 2]])
    ),
    "%y = GatherND(%x: Tensor[Float64, (4, 5), 1], [[0, 1], [3, 2], [0, 1]])": lambda x: x[[0, 3, 0], [1, 2, 1]],
    "%y = Gelu(%x: Tensor[Float64, (2, 3), 1])": F.gelu,
    '%y = Gelu[approximate = "tanh"](%x: Tensor[Float64, (2, 3), 1])': lambda x: F.gelu(x, approximate="tanh"),
    "%y = Gemm[transB = true, alpha = 0.5, beta = 2.0](%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (4, 3), 1], %c: Tensor[Float64, (4,), 1])": lambda a, b, c: (
        0.5 * a @ b.T + 2 * c
    ),
    "%y = HardSigmoid(%x: Tensor[Float64, (2, 3), 1])": lambda x: (0.2 * x + 0.5).clamp(0, 1),
    "%y = HardSwish(%x: Tensor[Float64, (2, 3), 1])": F.hardswish,
    "%y = Identity(%x: Tensor[Float64, (2, 3), 1])": lambda x: x.clone(),
    "%y = LayerNormalization(%x: Tensor[Float64, (2, 3), 1], %scale: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (3,), 1])": lambda x, s, b: (
        F.layer_norm(x, (3,), s, b)
    ),
    "%y = LeakyRelu[alpha = 0.1](%x: Tensor[Float64, (2, 3), 1])": lambda x: F.leaky_relu(x, 0.1),
    "%y = Log(%x: Tensor[Float64, (2, 3), 1])": torch.log,
    "%y = LogSoftmax[axis = 0](%x: Tensor[Float64, (2, 3), 1])": lambda x: F.log_softmax(x, 0),
    "%loss = MSELoss(%prediction: Tensor[Float64, (2, 3), 1], %target: Tensor[Float64, (2, 3), 1])": F.mse_loss,
    "%c = MatMul(%a: Tensor[Float64, (5, 2, 3), 1], %b: Tensor[Float64, (3, 4), 1])": torch.matmul,
    "%c = Max(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1])": torch.maximum,
    "%c = Mean(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1])": lambda a, b: (a + b) / 2,
    "%c = Min(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1])": torch.minimum,
    "%c = Mod[fmod = true](%a: Tensor[Float64, (2, 3), 1], 0.3)": lambda a: torch.fmod(a, 0.3),
    "%c = Mul(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (2, 1), 1])": torch.mul,
    "%y = Neg(%x: Tensor[Float64, (2, 3), 1])": torch.neg,
    "%loss = NegativeLogLikelihoodLoss(%p: Tensor[Float64, (2, 5), 1], [1, 4])": lambda p: F.nll_loss(
        p, torch.tensor([1, 4])
    ),
    "%y = Pad(%x: Tensor[Float64, (2, 3), 1], [0, 1, 0, 2])": lambda x: F.pad(x, (1, 2)),
    "%z = Pow(%x: Tensor[Float64, (2, 3), 1], %y: Tensor[Float64, (3,), 1])": torch.pow,
    "%y = RMSNormalization(%x: Tensor[Float64, (2, 3), 1], %scale: Tensor[Float64, (3,), 1])": lambda x, s: F.rms_norm(
        x, (3,), s, 1e-5
    ),
    "%y = Reciprocal(%x: Tensor[Float64, (2, 3), 1])": torch.reciprocal,
    "%y = ReduceL2(%x: Tensor[Float64, (2, 3), 1], [1])": lambda x: torch.linalg.vector_norm(x, dim=1, keepdim=True),
    "%y = ReduceLogSumExp(%x: Tensor[Float64, (2, 3), 1], [1])": lambda x: x.logsumexp(1, keepdim=True),
    "%y = ReduceMax(%x: Tensor[Float64, (2, 3), 1], [1])": lambda x: x.amax(1, keepdim=True),
    "%y = ReduceMean(%x: Tensor[Float64, (2, 3), 1], [-1])": lambda x: x.mean(-1, keepdim=True),
    "%y = ReduceMin(%x: Tensor[Float64, (2, 3), 1], [1])": lambda x: x.amin(1, keepdim=True),
    "%y = ReduceProd(%x: Tensor[Float64, (2, 3), 1], [1])": lambda x: x.prod(1, keepdim=True),
    "%y = ReduceSum(%x: Tensor[Float64, (2, 3), 1], [1])": lambda x: x.sum(1, keepdim=True),
    "%y = ReduceSumSquare(%x: Tensor[Float64, (2, 3), 1], [1])": lambda x: x.square().sum(1, keepdim=True),
    "%y = Relu(%x: Tensor[Float64, (2, 3), 1])": torch.relu,
    "%y = Reshape(%x: Tensor[Float64, (2, 3, 4), 1], [6, 4])": lambda x: x.reshape(6, 4),
    "%y = RotaryEmbedding(%x: Tensor[Float64, (1, 2, 3, 4), 1], [[[0.6, 0.8], [0.1, 0.2], [0.0, 1.0]]], [[[0.8, 0.6], [0.3, 0.4], [1.0, 0.0]]])": lambda x: (
        rotated(
            x,
            torch.tensor([[0.6, 0.8], [0.1, 0.2], [0.0, 1.0]], dtype=torch.float64),
            torch.tensor([[0.8, 0.6], [0.3, 0.4], [1.0, 0.0]], dtype=torch.float64),
        )
    ),
    "%y = ScatterElements(%x: Tensor[Float64, (3, 3), 1], [[0, 2, 1]], %u: Tensor[Float64, (1, 3), 1])": lambda x, u: (
        x.scatter(0, torch.tensor([[0, 2, 1]]), u)
    ),
    '%y = ScatterND[reduction = "add"](%x: Tensor[Float64, (4, 5), 1], [[0], [2]], %u: Tensor[Float64, (2, 5), 1])': lambda x, u: (
        x.index_add(0, torch.tensor([0, 2]), u)
    ),
    "%y = Sigmoid(%x: Tensor[Float64, (2, 3), 1])": torch.sigmoid,
    "%y = Sin(%x: Tensor[Float64, (2, 3), 1])": torch.sin,
    "%y = Slice(%x: Tensor[Float64, (4, 6), 1], [1, 0], [3, 6], [0, 1], [1, 2])": lambda x: x[1:3, 0:6:2],
    "%y = Softmax(%x: Tensor[Float64, (2, 3), 1])": lambda x: x.softmax(-1),
    "%loss = SoftmaxCrossEntropyLoss(%scores: Tensor[Float64, (2, 5), 1], [1, 4])": lambda s: F.cross_entropy(
        s, torch.tensor([1, 4])
    ),
    "%y = Softplus(%x: Tensor[Float64, (2, 3), 1])": F.softplus,
    "%y, %z = Split[axis = 0, num_outputs = 2](%x: Tensor[Float64, (4, 3), 1])": lambda x: x.chunk(2),
    "%y = Sqrt(%x: Tensor[Float64, (2, 3), 1])": torch.sqrt,
    "%y = Squeeze(%x: Tensor[Float64, (1, 3, 1), 1], [0])": lambda x: x.squeeze(0),
    "%c = Sub(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1])": torch.sub,
    "%c = Sum(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1])": torch.add,
    "%y = Swish(%x: Tensor[Float64, (2, 3), 1])": F.silu,
    "%y = Tanh(%x: Tensor[Float64, (2, 3), 1])": torch.tanh,
    "%y = Tile(%x: Tensor[Float64, (2, 3), 1], [1, 2])": lambda x: x.repeat(1, 2),
    "%v, _ = TopK(%x: Tensor[Float64, (2, 3), 1], [2])": lambda x: x.topk(2).values,
    "%y = Transpose[perm = [0, 2, 1]](%x: Tensor[Float64, (2, 3, 4), 1])": lambda x: x.permute(0, 2, 1),
    "%y = Trilu[upper = false](%x: Tensor[Float64, (2, 3, 3), 1], -1)": lambda x: x.tril(-1),
    "%y = Unsqueeze(%x: Tensor[Float64, (3, 4), 1], [0, -1])": lambda x: x[None, ..., None],
    "%z = Where([[true, false, true]], %x: Tensor[Float64, (2, 3), 1], %y: Tensor[Float64, (3,), 1])": lambda x, y: (
        torch.where(torch.tensor([[True, False, True]]), x, y)
    ),
}
"""What an op is in torch: of the operands that are no literals, in their order."""

NOT_IN_TORCH = {
    **dict.fromkeys((name for name in OPS if name.startswith("MPI") or name == "Send"), "several devices"),
    **dict.fromkeys(("MakeTuple", "UnpackTuple"), "no numbers are computed"),
    **dict.fromkeys(("ArgMax", "ArgMin", "EyeLike", "OneHot"), "nothing flows through positions"),
    **dict.fromkeys(("Ceil", "Floor", "Round", "Sign"), "flat wherever there is a slope"),
}


@pytest.mark.parametrize("text", CASES)
def test_torch_finds_the_same_gradient(text):
    params, statement, values, dys = prepared(text)
    inputs = {name: torch.tensor(value, requires_grad=True) for name, value in values.items()}
    y = CASES[text](*inputs.values())
    seeds = [torch.tensor(np.asarray(dys[name])) for name in statement.results if name in dys]
    torch.autograd.backward(y if isinstance(y, tuple) else [y], seeds)
    found = rule_gradients(params, statement, values, dys)
    for name, tensor in inputs.items():
        np.testing.assert_allclose(found[name], tensor.grad.numpy(), rtol=1e-9, atol=1e-11)


def test_every_op_with_a_gradient_is_compared():
    ours = {name for name, op in OPS.items() if op.body.__module__.startswith("distir.") and "grad" in op.rules}
    compared = {text.split("= ", 1)[1].split("[")[0].split("(")[0] for text in CASES}
    assert ours == compared | (NOT_IN_TORCH.keys() & ours)
