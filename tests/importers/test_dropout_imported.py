"""PyTorch models imported with dropout: with our masks in its own dropout, PyTorch gives the same."""

from dataclasses import replace

import numpy as np
import pytest
from _pytest.monkeypatch import MonkeyPatch
from thorough import also_together

import distir
from distir.analysis import execute
from distir.importers import ImportRefused
from distir.ir import Function, Module, Return
from distir.transform import transform, verify

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
nn, F = torch.nn, torch.nn.functional


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)
        self.shares, self.rest = nn.Dropout(0.25), nn.Dropout(0.5)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(self.norm(x)).split(8, -1))
        shares = self.shares(F.softmax(q @ k.transpose(-1, -2) / 2, -1))
        return x + self.rest(self.out((shares @ v).transpose(1, 2).flatten(2)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.blocks = nn.Dropout(0.1), nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return F.dropout(x, 0.5, self.training)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Model()


@pytest.fixture(scope="module")
def program(model):
    return imported(model, dropout=True)


def imported(model, **options):
    return distir.import_torch(model, (torch.zeros(4, 6, 8),), dynamic_batch=True, **options)


def with_masks(module):
    """The program, calls and attention written out, that gives all masks too, in order."""
    inlined = transform(module, "inline", "attention=written")
    main = inlined.functions["main"]
    written = [
        replace(s, results=(s.results[0], f"{s.results[0]}.mask")) if getattr(s, "op", None) == "Dropout" else s
        for s in main.body[:-1]
    ]
    masks = tuple(s.results[1] for s in written if getattr(s, "op", None) == "Dropout")
    body = (*written, Return((*main.returned, *masks)))
    return Module([Function("main", main.params, body)])


def test_masks_are_all_that_differs_from_pytorch(model, program):
    x = np.random.default_rng(0).normal(size=(4, 6, 8)).astype(np.float32)
    inputs = {**program.weights, "x": x, "seed": np.int64(5)}
    (ours, *masks) = (out.value for out in execute(with_masks(program), inputs))
    assert len(masks) == 1 + 3 * 2 + 1
    left = iter(masks)

    def dropout(value, p=0.5, training=True, inplace=False):
        assert training
        return torch.where(torch.from_numpy(next(left)), value / (1 - p), 0.0)

    model.train()
    with MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(F, "dropout", dropout)
        theirs = model(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_without_it_nothing_is_dropped(model):
    text = distir.format(imported(model))
    assert "Dropout" not in text
    assert "seed" not in text


@pytest.mark.parametrize("steps", ["dp=2", "tp=2", "accumulate=2", "dtp=2,2,2 microbatches=2"])
def test_the_training_step_verifies(program, steps):
    step = transform(program, "grad", "loss=mse")
    assert verify(step, transform(step, *steps.split()), bind={"B": 8}).equal


def test_attention_written_out_with_dropout_of_its_shares_is_one_op(program):
    (attention,) = {s.attrs for f in program for s in f.body if getattr(s, "op", "") == "Attention"}
    assert attention["dropout"] == 0.25
    assert not [s for f in program for s in f.body if getattr(s, "op", "") == "Softmax"]


class Attending(nn.Module):
    """PyTorch's own attention, with dropout in training; `heads` are those of keys and values, of 4."""

    def __init__(self, heads=4, **options):
        super().__init__()
        self.q, self.kv, self.heads, self.options = nn.Linear(16, 16), nn.Linear(16, 8 * heads), heads, options

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (-1, 4)).transpose(1, 2) for t in (self.q(x), *self.kv(x).split(4 * self.heads, -1)))
        p = 0.25 if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=p, **self.options).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(
    ("options", "stated"),
    [
        ({"is_causal": True, "scale": 0.3}, {"is_causal": True, "scale": 0.3}),
        ({"heads": 2, "enable_gqa": True, "is_causal": True}, {"is_causal": True}),
        *also_together(({}, {}), ({"is_causal": True}, {"is_causal": True}), ({"heads": 1}, {})),
        ({"attn_mask": torch.ones(6, 6).tril().bool()}, {"is_causal": True}),
        ({"attn_mask": torch.linspace(-1, 1, 36).view(6, 6)}, {}),
    ],
)
def test_attention_of_pytorch_with_dropout_is_one_op(options, stated):
    """Of the numbers that it would give: with the mask that the op draws, PyTorch's written-out attention agrees."""
    torch.manual_seed(0)
    model = Attending(**options)
    program = imported_of(model)
    (attention,) = (s for f in program for s in f.body if getattr(s, "op", "") == "Attention")
    assert dict(attention.attrs) == {**stated, "dropout": 0.25}
    assert not [s for f in program for s in f.body if getattr(s, "op", "") in ("Softmax", "Dropout")]
    x = np.random.default_rng(0).normal(size=(4, 6, 16)).astype(np.float32)
    ours, mask = (out.value for out in execute(with_masks(program), {**program.weights, "x": x, "seed": np.int64(5)}))
    q, k, v = (
        t.unflatten(-1, (-1, 4)).transpose(1, 2)
        for t in (model.q(torch.from_numpy(x)), *model.kv(torch.from_numpy(x)).split(4 * model.heads, -1))
    )
    k, v = (t.repeat_interleave(4 // model.heads, 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * model.options.get("scale", 0.5)
    bias = model.options.get("attn_mask", torch.ones(6, 6).tril().bool() if stated.get("is_causal") else 0.0)
    scores = scores.masked_fill(~bias, -torch.inf) if getattr(bias, "dtype", None) == torch.bool else scores + bias
    shares = torch.where(torch.from_numpy(mask).view(4, 4, 6, 6), scores.softmax(-1) / 0.75, 0.0)
    theirs = (shares @ v).transpose(1, 2).flatten(2)
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=1e-5)


def imported_of(model):
    return distir.import_torch(model, (torch.zeros(4, 6, 16),), dynamic_batch=True, dropout=True)


def test_dropout_in_attention_of_pytorch_is_that_of_the_sequential_program():
    step = transform(imported_of(Attending(heads=2, enable_gqa=True)), "grad", "loss=mse")
    for words in (["dp=2"], ["accumulate=2"]):
        assert verify(step, transform(step, *words), bind={"B": 4}).equal


def test_layers_of_pytorch_drop_as_one_op():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
    text = distir.format(imported(layer, dropout=True))
    assert text.count("= Dropout(") == 3
    assert "dropout = 0.5" in text
    assert "Softmax(" not in text
    assert "Attention(" in distir.format(imported(layer.eval()))


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (nn.Linear(8, 8), {}, "`Linear` has no dropout"),
        (nn.Sequential(nn.Dropout1d(0.1)), {}, "`0` is `Dropout1d`, which has no op"),
        (nn.Dropout(0.1), {"training": True}, "the traced training step has no dropout"),
    ],
)
def test_what_cannot_drop_is_refused(model, options, message):
    with pytest.raises(ImportRefused, match=message):
        imported(model, dropout=True, **options)


def test_attention_of_transformers_drops_as_one_op():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    others = {"vocab_size": 32, "intermediate_size": 24, "attention_dropout": 0.25}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **others))
    ids = {"input_ids": torch.zeros(4, 8, dtype=torch.long)}
    program = distir.import_torch(model, kwargs=ids, dynamic_batch=True, dropout=True)
    text = distir.format(program)
    assert "dropout = 0.25" in text
    assert "Softmax(" not in text
    step = transform(program, "grad", "loss=cross_entropy")
    for words in (["dp=2"], ["tp=2"]):
        assert verify(step, transform(step, *words), bind={"B": 4}).equal
