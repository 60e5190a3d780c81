"""What a model writes out comes in as the op that it is, with the same values; where it is something else it stays."""

import math
from collections import Counter

import numpy as np
import pytest
from thorough import also

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import distir  # noqa: E402
from distir.ir import Apply  # noqa: E402

nn, F = torch.nn, torch.nn.functional
HEADS, GROUPS, SIZE, LENGTH = 4, 2, 8, 6
WIDTH = HEADS * SIZE


def ops(module):
    return Counter(s.op for f in module for s in f.body if isinstance(s, Apply))


def attributes(module, op):
    (found,) = [dict(s.attrs) for f in module for s in f.body if isinstance(s, Apply) and s.op == op]
    return found


def imported(net, *inputs, tolerance=1e-5):
    """The program of a module, after it has given what the module gives."""
    net.eval()
    module = distir.import_torch(net, inputs, dynamic_batch=True)
    assert not [d for d in distir.check(module) if d.severity == "error"]
    names = [p.name for p in module.entry().params if p.name not in module.weights]
    found = distir.run(module, {**module.weights, **dict(zip(names, (x.numpy() for x in inputs), strict=True))})
    with torch.no_grad():
        expected = net(*inputs)
    for value, wanted in zip(found.values(), expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(value, wanted.numpy(), rtol=tolerance, atol=tolerance)
    return module


class Attending(nn.Module):
    """Projections around an attention that a function of queries, keys, values and the module writes out."""

    def __init__(self, attend, groups=HEADS):
        super().__init__()
        torch.manual_seed(0)
        self.attend = attend
        self.q, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.k, self.v = nn.Linear(WIDTH, groups * SIZE), nn.Linear(WIDTH, groups * SIZE)
        self.sinks = nn.Parameter(torch.randn(HEADS))
        self.biases = nn.Embedding(17, HEADS)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (f(x).view(b, n, -1, SIZE).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.o(self.attend(q, k, v, self).transpose(1, 2).reshape(b, n, WIDTH))


def scores(q, k):
    return q @ k.transpose(-1, -2) / math.sqrt(SIZE)


def hidden(value=float("-inf")):
    return torch.triu(torch.full((LENGTH, LENGTH), value), 1)


def seen():
    return torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool))


def with_sinks(a, v, module):
    sinks = module.sinks.view(1, -1, 1, 1).expand(a.shape[0], -1, a.shape[2], -1)
    a = torch.cat([a, sinks], -1)
    return torch.softmax(a - a.amax(-1, keepdim=True), -1)[..., :-1] @ v


def merged(q, k, v, module):
    b, h, n, d = q.shape
    q, k, v = (t.reshape(b * h, n, d) for t in (q, k, v))
    a = (torch.bmm(q * d**-0.5, k.transpose(1, 2)).view(b, h, n, n) + hidden()).view(b * h, n, n)
    return torch.bmm(module.dropout(a.softmax(-1)), v).view(b, h, n, d)


def by_labels(q, k, v, module):
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    a = torch.einsum("bqhd,bkhd->bhqk", q, k) * SIZE**-0.5
    return torch.einsum("bhqk,bkhd->bqhd", a.softmax(-1), v).transpose(1, 2)


def relative(q, k, v, module):
    places = torch.arange(LENGTH)
    bias = module.biases((places[:, None] - places).clamp(-8, 8) + 8)
    return torch.softmax(q @ k.mT + bias.permute(2, 0, 1)[None], -1) @ v


def of_distance(q, k, v, module):
    places = torch.arange(LENGTH)
    slopes = torch.tensor([2.0 ** -(i + 1) for i in range(HEADS)])[:, None, None]
    return torch.softmax(scores(q, k) - slopes * (places[:, None] - places).abs() + hidden(), -1) @ v


def windowed(q, k, v, module):
    ahead = torch.arange(LENGTH) - torch.arange(LENGTH)[:, None]
    return torch.where((ahead <= 0) & (ahead > -3), scores(q, k), -1e9).softmax(-1) @ v


def by_hand(q, k, v, module):
    a = scores(q, k)
    e = torch.exp(a - a.amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True)) @ v


SPELLINGS = {
    "plain": (lambda q, k, v, m: torch.softmax(scores(q, k), -1) @ v, {}),
    "scaled queries": (lambda q, k, v, m: ((q * 0.3) @ k.mT).softmax(-1) @ v, {"scale": 0.3}),
    "scaled twice": (lambda q, k, v, m: ((q * 0.5) @ (0.5 * k).mT).softmax(-1) @ v, {"scale": 0.25}),
    "not scaled": (lambda q, k, v, m: (q @ k.mT).softmax(dim=3) @ v, {"scale": 1.0}),
    "dropout": (lambda q, k, v, m: m.dropout(F.softmax(scores(q, k), -1, dtype=torch.float32).to(q)) @ v, {}),
    "causal, added": (lambda q, k, v, m: (scores(q, k) + hidden()).softmax(-1) @ v, {"is_causal": True}),
    "causal, least": (lambda q, k, v, m: (scores(q, k) + hidden(-3.4e38)).softmax(-1) @ v, {"is_causal": True}),
    "causal, filled": (
        lambda q, k, v, m: scores(q, k).masked_fill(~seen(), float("-inf")).softmax(-1) @ v,
        {"is_causal": True},
    ),
    "causal, chosen": (lambda q, k, v, m: torch.where(seen(), scores(q, k), -1e9).softmax(-1) @ v, {"is_causal": True}),
    "window": (windowed, {"is_causal": True, "window": 3}),
    "cap": (lambda q, k, v, m: (torch.tanh(scores(q, k) / 5) * 5).softmax(-1) @ v, {"softcap": 5.0}),
    "cap and mask": (
        lambda q, k, v, m: (5 * torch.tanh(scores(q, k) / 5) + hidden()).softmax(-1) @ v,
        {"softcap": 5.0, "is_causal": True},
    ),
    "sinks": (lambda q, k, v, m: with_sinks(scores(q, k), v, m), {}),
    "sinks and mask": (lambda q, k, v, m: with_sinks(scores(q, k) + hidden(), v, m), {"is_causal": True}),
    "labels": (by_labels, {}),
    "merged": (merged, {"is_causal": True}),
    "relative": (relative, {"scale": 1.0}),
    "distance": (of_distance, {}),
    "softmax by hand": (by_hand, {}),
}


COMBINED = (
    "scaled twice",
    "not scaled",
    "causal, least",
    "causal, chosen",
    "cap and mask",
    "sinks and mask",
    "relative",
)
"""Spellings whose parts others have, too."""


@pytest.mark.parametrize("name", [*(name for name in SPELLINGS if name not in COMBINED), *also(*COMBINED)])
def test_an_attention_is_one_op(name):
    attend, said = SPELLINGS[name]
    module = imported(Attending(attend), torch.randn(3, LENGTH, WIDTH))
    found = ops(module)
    assert found["Attention"] == 1
    assert not found.keys() & {"Softmax", "Exp", "Tanh", "Where", "Einsum"}
    assert attributes(module, "Attention").items() >= said.items()


def parted(q, k, v, module):
    b, h, n, d = q.shape
    a = q.view(b, GROUPS, h // GROUPS, n, d) @ k[:, :, None].mT / math.sqrt(d)
    return (a.softmax(-1) @ v[:, :, None]).reshape(b, h, n, d)


def parted_by_labels(q, k, v, module):
    b, h, n, d = q.shape
    a = torch.einsum("bghqd,bgkd->bghqk", q.reshape(b, GROUPS, -1, n, d), k) / math.sqrt(d)
    return torch.einsum("bghqk,bgkd->bghqd", a.softmax(-1), v).reshape(b, h, n, d)


def interleaved(t):
    return t.repeat_interleave(HEADS // GROUPS, 1)


def expanded(t):
    b, g, n, d = t.shape
    return t[:, :, None].expand(b, g, HEADS // GROUPS, n, d).reshape(b, HEADS, n, d)


def plain(q, k, v):
    return torch.softmax(scores(q, k), -1) @ v


SHARED = {
    "interleaved": lambda q, k, v, m: plain(q, interleaved(k), interleaved(v)),
    "expanded": lambda q, k, v, m: plain(q, expanded(k), expanded(v)),
    "fused": lambda q, k, v, m: F.scaled_dot_product_attention(q, expanded(k), interleaved(v), is_causal=True),
    "told": lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    "parted": parted,
    "parted by labels": parted_by_labels,
}


@pytest.mark.parametrize("name", SHARED)
def test_heads_of_keys_and_values_are_not_repeated(name):
    module = imported(Attending(SHARED[name], GROUPS), torch.randn(3, LENGTH, WIDTH))
    assert ops(module)["Attention"] == 1
    assert not ops(module).keys() & {"Expand", "Softmax", "Einsum"}


def test_one_head_of_keys_and_values_for_all():
    module = imported(Attending(lambda q, k, v, m: plain(q, k, v), 1), torch.randn(3, LENGTH, WIDTH))
    assert ops(module)["Attention"] == 1


def without_heads(q, k, v, module):
    b, h, n, d = q.shape
    q, k, v = (t.reshape(b * h, n, d) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=hidden()).view(b, h, n, d)


FUSED = {
    "one head": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, is_causal=True), 1),
    "as many heads": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), HEADS),
    "without heads": (without_heads, HEADS),
}


@pytest.mark.parametrize("name", FUSED)
def test_fused_attention_of_any_heads(name):
    attend, groups = FUSED[name]
    module = imported(Attending(attend, groups), torch.randn(3, LENGTH, WIDTH))
    assert ops(module)["Attention"] == 1
    assert "Softmax" not in ops(module)


def of_other_axis(q, k, v, module):
    return torch.softmax(scores(q, k), -2) @ v


def halved(q, k, v, module):
    return (torch.softmax(scores(q, k), -1) * 0.5) @ v


def lightly_masked(q, k, v, module):
    return scores(q, k).masked_fill(~seen(), -3.0).softmax(-1) @ v


def without_the_first(q, k, v, module):
    sinks = module.sinks.view(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[2], -1)
    return torch.cat([scores(q, k), sinks], -1).softmax(-1)[..., 1:] @ v


@pytest.mark.parametrize("attend", [of_other_axis, halved, lightly_masked, without_the_first])
def test_what_is_no_attention_stays(attend):
    module = imported(Attending(attend), torch.randn(3, LENGTH, WIDTH))
    assert ops(module)["Softmax"] == 1
    assert "Attention" not in ops(module)


def test_weights_that_are_wanted_stay():
    class Shown(Attending):
        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (f(x).view(b, n, -1, SIZE).transpose(1, 2) for f in (self.q, self.k, self.v))
            weights = torch.softmax(scores(q, k), -1)
            return weights @ v, weights

    assert "Attention" not in ops(imported(Shown(None), torch.randn(3, LENGTH, WIDTH)))


@pytest.mark.each_once
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_attention_of_pytorch(weights, masked):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

        def forward(self, x, padding):
            mask = hidden() if masked else None
            return self.attention(x, x, x, need_weights=weights, attn_mask=mask, key_padding_mask=padding)[0]

    padding = torch.zeros(3, LENGTH)
    padding[0, 4:] = float("-inf")
    assert ops(imported(Net(), torch.randn(3, LENGTH, WIDTH), padding))["Attention"] == 1


def test_layers_of_pytorch():
    layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 64, batch_first=True)
    found = ops(imported(layer, torch.randn(3, LENGTH, WIDTH), torch.randn(3, 5, WIDTH)))
    assert (found["Attention"], found["LayerNormalization"], found["Softmax"]) == (2, 3, 0)


class Formula(nn.Module):
    def __init__(self, formula):
        super().__init__()
        torch.manual_seed(0)
        self.formula = formula
        self.w, self.b = nn.Parameter(torch.rand(WIDTH) + 0.5), nn.Parameter(torch.rand(WIDTH))

    def forward(self, x):
        return self.formula(x, self.w, self.b)


def square(x):
    return x.pow(2).mean(-1, keepdim=True)


def centred(x):
    return x - x.mean(-1, keepdim=True)


FORMULAS = {
    "rsqrt": ("RMSNormalization", lambda x, w, b: w * (x * torch.rsqrt(square(x) + 1e-6))),
    "product": ("RMSNormalization", lambda x, w, b: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w),
    "root": ("RMSNormalization", lambda x, w, b: w * x / torch.sqrt(square(x) + 1e-6)),
    "power": ("RMSNormalization", lambda x, w, b: x * (square(x) + 1e-6) ** -0.5),
    "of torch": ("RMSNormalization", lambda x, w, b: F.rms_norm(x, (WIDTH,)) * w),
    "layer": (
        "LayerNormalization",
        lambda x, w, b: centred(x) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5) * w + b,
    ),
    "layer, squared": (
        "LayerNormalization",
        lambda x, w, b: w * (centred(x) * torch.rsqrt(square(centred(x)) + 1e-5)) + b,
    ),
    "erf": ("Gelu", lambda x, w, b: x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))),
    "erf, spread": ("Gelu", lambda x, w, b: x * (0.5 + torch.erf(x * math.sqrt(0.5)) / 2)),
    "tanh": ("Gelu", lambda x, w, b: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    "tanh, factored": ("Gelu", lambda x, w, b: 0.5 * x * (1 + torch.tanh(x * 0.7978845608 * (1 + 0.044715 * x * x)))),
    "sigmoid": ("Swish", lambda x, w, b: x * torch.sigmoid(x)),
    "quick": ("Swish", lambda x, w, b: torch.sigmoid(1.702 * x) * x),
    "exp": ("Swish", lambda x, w, b: x / (1 + torch.exp(-x))),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_is_one_op(name):
    op, formula = FORMULAS[name]
    assert ops(imported(Formula(formula), torch.randn(3, 5, WIDTH))) == {op: 1}


OTHERS = {
    "over all but the last": (
        "RMSNormalization",
        lambda x, w, b: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6),
    ),
    "of another": ("RMSNormalization", lambda x, w, b: (x + b) * torch.rsqrt(square(x) + 1e-6)),
    "deviation": ("LayerNormalization", lambda x, w, b: centred(x) / (x.std(-1, keepdim=True) + 1e-6)),
    "another slope": ("Gelu", lambda x, w, b: 0.5 * x * (1 + torch.erf(x / 1.5))),
    "another factor": ("Gelu", lambda x, w, b: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.045 * x**3)))),
    "gate of another": ("Swish", lambda x, w, b: x * torch.sigmoid(x + b)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_formula_stays(name):
    op, formula = OTHERS[name]
    assert op not in ops(imported(Formula(formula), torch.randn(3, 5, WIDTH)))


def test_a_norm_in_wider_elements_is_that_of_the_narrow_ones():
    def formula(x, w, b):
        wide = x.float()
        return w.bfloat16() * (wide * torch.rsqrt(square(wide) + 1e-6)).to(x.dtype)

    module = distir.import_torch(Formula(formula), (torch.randn(3, 5, WIDTH).bfloat16(),))
    assert ops(module)["RMSNormalization"] == 1
    assert ops(module)["Cast"] == 1  # the weight's


def half_turned(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def twice(f):
    return torch.cat((f, f), -1)


def by_parts(q, f):
    a, b = q[..., : SIZE // 2], q[..., SIZE // 2 :]
    return torch.cat((a * f.cos() - b * f.sin(), b * f.cos() + a * f.sin()), -1)


def neighbours(q, f):
    a, b = q[..., ::2], q[..., 1::2]
    return torch.stack((a * f.cos() - b * f.sin(), a * f.sin() + b * f.cos()), -1).flatten(-2)


def neighbours_turned(q, f):
    angles = f.repeat_interleave(2, -1)
    turned = torch.stack((-q[..., 1::2], q[..., ::2]), -1).flatten(-2)
    return q * angles.cos() + turned * angles.sin()


def complex_numbers(q, f):
    z = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    return torch.view_as_real(z * torch.polar(torch.ones_like(f), f)).flatten(3).type_as(q)


def tokens_first(q, f):
    angles = twice(f)[:, None]
    q = q.transpose(1, 2)
    return (q * angles.cos() + half_turned(q) * angles.sin()).transpose(1, 2)


def a_part(q, f):
    turning, rest = q[..., :4], q[..., 4:]
    angles = twice(f[..., :2])
    return torch.cat((turning * angles.cos() + half_turned(turning) * angles.sin(), rest), -1)


class Turning(nn.Module):
    def __init__(self, turn):
        super().__init__()
        self.turn = turn
        self.register_buffer("inverse", 1 / 10000 ** (torch.arange(0, SIZE, 2).float() / SIZE))

    def forward(self, x):
        q = x.view(x.shape[0], LENGTH, HEADS, SIZE).transpose(1, 2)
        return self.turn(q, torch.outer(torch.arange(LENGTH).float(), self.inverse))


TURNS = {
    "halves": (lambda q, f: q * twice(f).cos() + half_turned(q) * twice(f).sin(), {}),
    "scaled": (lambda q, f: q * (twice(f).cos() * 1.5) + half_turned(q) * (twice(f).sin() * 1.5), {}),
    "by parts": (by_parts, {}),
    "neighbours": (neighbours, {"interleaved": True}),
    "neighbours turned": (neighbours_turned, {"interleaved": True}),
    "complex": (complex_numbers, {"interleaved": True}),
    "tokens first": (tokens_first, {}),
    "a part": (a_part, {"rotary_embedding_dim": 4}),
}


@pytest.mark.parametrize("name", TURNS)
def test_a_rotary_embedding_is_one_op(name):
    turn, said = TURNS[name]
    module = imported(Turning(turn), torch.randn(3, LENGTH, WIDTH))
    assert ops(module)["RotaryEmbedding"] == 1
    assert not ops(module).keys() & {"Neg", "Sub", "Add"}
    assert attributes(module, "RotaryEmbedding").items() >= said.items()


def other_sign(q, f):
    return q * twice(f).cos() - half_turned(q) * twice(f).cos()


def other_angles(q, f):
    return q * torch.cat((f, f + 1), -1).cos() + half_turned(q) * twice(f).sin()


def heads_for_tokens(q, f):
    return q * twice(f).cos()[:HEADS, None] + half_turned(q) * twice(f).sin()


@pytest.mark.parametrize("turn", [other_sign, other_angles, heads_for_tokens])
def test_what_turns_nothing_stays(turn):
    assert "RotaryEmbedding" not in ops(imported(Turning(turn), torch.randn(3, LENGTH, WIDTH)))


def test_an_onnx_file_likewise(tmp_path):
    net = Attending(lambda q, k, v, m: (scores(q, k) + hidden()).softmax(-1) @ v).eval()
    x = torch.randn(3, LENGTH, WIDTH)
    torch.onnx.export(net, (x,), tmp_path / "a.onnx", dynamo=True, opset_version=18, input_names=["x"], verbose=False)
    module = distir.import_onnx(tmp_path / "a.onnx", batch={"x": 0})
    assert ops(module)["Attention"] == 1
    (y,) = distir.run(module, {**module.weights, "x": x.numpy()}).values()
    np.testing.assert_allclose(y, net(x).detach().numpy(), rtol=1e-5, atol=1e-5)
