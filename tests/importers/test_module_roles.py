"""What PyTorch does not train stays as it is: frozen parameters and buffers; running statistics follow the batch."""

import re

import numpy as np
import pytest

import distir
from distir.transform import transform, verify

torch = pytest.importorskip("torch")
import_torch = pytest.importorskip("distir.importers").import_torch

from torch import nn  # noqa: E402 - only where there is one

STEPS, RATE = 3, 0.1


class Rotated(nn.Module):
    """A frozen embedding, turned by rotary tables that are buffers, under batch normalisations of both kinds."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.embedding.weight.requires_grad_(False)
        angles = torch.outer(torch.arange(5.0), 10.0 ** -torch.arange(4.0))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin(), persistent=False)
        self.register_buffer("embed_scale", torch.tensor(8**0.5))
        self.inner = nn.Linear(8, 6)
        self.norm = nn.BatchNorm1d(6)
        self.convolution = nn.Conv1d(6, 4, 3)
        self.last_norm = nn.BatchNorm1d(4, momentum=0.3)
        self.head = nn.Linear(4, 3)

    def forward(self, tokens):
        x = self.embedding(tokens) * self.embed_scale
        a, b = x[..., :4], x[..., 4:]
        x = torch.cat((a * self.cos - b * self.sin, b * self.cos + a * self.sin), -1)
        x = self.norm(self.inner(x).transpose(1, 2))
        x = self.last_norm(torch.relu(self.convolution(x))).mean(-1)
        return self.head(x)


TRAINED = {"inner.weight", "inner.bias", "norm.weight", "norm.bias", "convolution.weight", "convolution.bias"}
TRAINED |= {"last_norm.weight", "last_norm.bias", "head.weight", "head.bias"}
STATISTICS = {f"{norm}.running_{kind}" for norm in ("norm", "last_norm") for kind in ("mean", "var")}


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Rotated()


def tokens(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 16, (4, 5), generator=generator), torch.randn(4, 3, generator=generator)


def trained_by_torch(model, mode):
    """The state dict after some steps, and the losses."""
    model.train(mode == "train")
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=RATE)
    losses = []
    for step in range(STEPS):
        x, y = tokens(step)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return dict(model.named_parameters()) | dict(model.named_buffers()), losses


def trained_here(program, step, update):
    """The same by a training step: its results are put in the place of the parameters that they are updates of."""
    held = {name: program.weights[name] for name in program.weights}
    losses = []
    for number in range(STEPS):
        x, y = (value.numpy() for value in tokens(number))
        results = list(step(held, x, y))
        losses.append(float(results[0]))
        held.update(zip(update, results[1:], strict=True))
    return held, losses


def roles(program):
    return {p.name: set(p.roles) for p in program.entry().params if "batch" not in p.roles}


def test_roles_say_what_is_trained(model):
    found = roles(import_torch(model, (tokens()[0],)))
    assert {name for name, own in found.items() if own == {"param"}} == TRAINED
    assert found["embedding.weight"] == {"param", "frozen"}
    buffers = {name for name, own in found.items() if own == {"buffer"}}
    assert buffers == {"cos", "sin", "embed_scale", *STATISTICS}


@pytest.mark.parametrize("steps", [[], ["dp=2"], ["dp=2", "zero=3"], ["checkpoint"]], ids=" ".join)
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "any batch"])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_training_is_that_of_torch(model, mode, dynamic, steps):
    """Under data parallelism, too: statistics are those of the whole batch there."""
    program = import_torch(model, (tokens()[0],), dynamic_batch=dynamic, batch=None if dynamic else {"tokens": 0})
    sequential = transform(program, "grad", loss="mse", lr=RATE, mode=mode)
    made = transform(sequential, *steps) if steps else sequential
    updated = [p.name for p in program.entry().params if p.name in TRAINED]
    if mode == "train":
        updated += [p.name for p in program.entry().params if p.name in STATISTICS]
    assert [name.removesuffix("_new") for name in sequential.entry().returned[1:]] == updated
    names = [p.name for p in sequential.entry().params]

    def step(held, x, y):
        values = [held.get(name, x if name == "tokens" else y) for name in names]
        for function in ("main.scatter", "main", "main.gather") if "main.scatter" in made.functions else ("main",):
            values = list(distir.run(made, values, function).values())
        return values

    found, losses = trained_here(program, step, updated)
    expected, wanted = trained_by_torch(model, mode)
    np.testing.assert_allclose(losses, wanted, rtol=1e-4)
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name].detach().numpy(), rtol=1e-3, atol=1e-5, err_msg=name)


def test_what_is_not_trained_is_split_or_copied_as_its_role_says(model):
    program = import_torch(model, (tokens()[0],), dynamic_batch=True)
    step = transform(program, "grad", loss="mse", optimizer="adam")
    assert not any("embedding" in p.name for p in step.entry().params if "state" in p.roles)
    for words in (["dp=2"], ["tp=2"], ["pp=2", "microbatches=2"], ["dtp=2,1,2", "microbatches=2"], ["dp=2", "zero=3"]):
        made = transform(step, *words)
        kept = {re.split(r"_\d|\.", name)[0] for name, own in roles(made).items() if "buffer" in own}
        assert {"cos", "sin", "norm", "last_norm"} <= kept, words
        assert verify(step, made, bind={"B": 4}).equal, words
