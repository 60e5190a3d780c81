"""PyTorch models imported with dropout: with our masks in its own dropout, PyTorch gives the same."""

import numpy as np
import pytest
from _pytest.monkeypatch import MonkeyPatch

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


def imported(model, **options):
    return distir.import_torch(model, (torch.zeros(4, 6, 8),), dynamic_batch=True, **options)


def with_masks(module):
    """The program, calls written out, that gives all masks too, in order."""
    inlined = transform(module, "inline")
    main = inlined.functions["main"]
    masks = tuple(s.results[1] for s in main.body if getattr(s, "op", None) == "Dropout")
    body = (*main.body[:-1], Return((*main.returned, *masks)))
    return Module([Function("main", main.params, body)])


def test_masks_are_all_that_differs_from_pytorch(model):
    program = imported(model, dropout=True)
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
    assert "Dropout" not in distir.format(imported(model))
    assert "seed" not in distir.format(imported(model))


@pytest.mark.parametrize("steps", ["dp=2", "tp=2", "accumulate=2", "dtp=2,2,2 microbatches=2"])
def test_the_training_step_verifies(model, steps):
    step = transform(imported(model, dropout=True), "grad", "loss=mse")
    assert verify(step, transform(step, *steps.split()), bind={"B": 8}).equal


def test_attention_of_pytorch_is_written_out_with_its_dropout():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
    assert distir.format(imported(layer, dropout=True)).count("= Dropout(") == 4
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
