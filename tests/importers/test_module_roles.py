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


@pytest.mark.each_once
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


class Scored(nn.Module):
    """A loss of its own, over a batch normalisation; one bias is not trained."""

    def __init__(self):
        super().__init__()
        self.inner, self.norm, self.head = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)
        self.head.bias.requires_grad_(False)

    def forward(self, x, target):
        return nn.functional.mse_loss(self.head(torch.relu(self.norm(self.inner(x)))), target)


def test_a_traced_step_takes_the_statistics_of_the_batch():
    torch.manual_seed(0)
    model, x, y = Scored(), torch.randn(5, 4), torch.randn(5, 2)
    program = import_torch(model, (x, y), training=True)
    found = roles(program)
    assert found["head.bias"] == {"param", "frozen"}
    assert found["norm.running_var"] == {"buffer"}
    given = {name: value.detach().numpy().copy() for name, value in model.state_dict().items()}
    inputs = given | {"x": x.numpy(), "target": y.numpy()}
    results = distir.run(program, {p.name: inputs[p.name] for p in program.entry().params})
    model.train()
    loss = model(x, y)
    loss.backward()
    expected = {"loss": loss, **{f"grad.{name}": p.grad for name, p in model.named_parameters() if p.requires_grad}}
    expected |= {f"{name}_new": getattr(model.norm, name.partition(".")[2]) for name in found if "running" in name}
    assert set(results) == set(expected)
    for name, value in results.items():
        np.testing.assert_allclose(value, expected[name].detach().numpy(), rtol=1e-4, atol=1e-6, err_msg=name)


def test_statistics_that_are_used_twice_are_updated_twice_through_functions():
    """As PyTorch does for a layer that is applied twice; the op in training mode needs no `mode`."""
    program = distir.parse("""
func @block(%x, %s, %b, %m, %v) {
  %y, _, _ = BatchNormalization[training_mode = 1, momentum = 0.75](%x, %s, %b, %m, %v)
  return %y
}

func @main(
  %w: Tensor[Float64, (3, 3), 1] {param}, %s: Tensor[Float64, (3,), 1] {param}, %b: Tensor[Float64, (3,), 1] {param},
  %m: Tensor[Float64, (3,), 1] {buffer}, %v: Tensor[Float64, (3,), 1] {buffer},
  %x: Tensor[Float64, (8, 3), 1] {batch = 0}
) {
  %h = @block(%x, %s, %b, %m, %v)
  %a = MatMul(%h, %w)
  %y = @block(%a, %s, %b, %m, %v)
  return %y
}
""")
    made = transform(program, "grad", loss="mse")
    generator = np.random.default_rng(0)
    values = [generator.normal(size=p.type.shape) for p in made.entry().params]
    results = list(distir.run(made, values).values())
    w, s, b, m, v, x, _ = (torch.from_numpy(value) for value in values)
    mean, variance = m.clone(), v.clone()
    h = nn.functional.batch_norm(x, mean, variance, s, b, True, 0.25)
    nn.functional.batch_norm(h @ w, mean, variance, s, b, True, 0.25)
    np.testing.assert_allclose(results[-2], mean.numpy(), rtol=1e-10)
    np.testing.assert_allclose(results[-1], variance.numpy(), rtol=1e-10)


def test_an_onnx_model_tells_statistics_and_integers_from_weights():
    onnx = pytest.importorskip("onnx")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    tensors = {
        "w": np.zeros((40, 3), np.float32),
        "n.scale": np.ones(40, np.float32),
        "n.bias": np.zeros(40, np.float32),
        "n.m": np.zeros(40, np.float32),
        "n.v": np.ones(40, np.float32),
        "rotary.inv_freq": np.ones((40,), np.float32),
        "ids": np.zeros((40, 1), np.int64),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["h"], transB=1),
        helper.make_node("BatchNormalization", ["h", "n.scale", "n.bias", "n.m", "n.v"], ["y"]),
        helper.make_node("Mul", ["y", "rotary.inv_freq"], ["r"]),
        helper.make_node("Gather", ["r", "ids"], ["z"], axis=1),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, ["N", 3])], [value("z", 1, None)],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    from distir.importers import import_model

    found = roles(import_model(model, "."))
    assert {name for name, own in found.items() if own == {"param"}} == {"w", "n.scale", "n.bias"}
    assert {name for name, own in found.items() if own == {"buffer"}} == {"n.m", "n.v", "rotary.inv_freq"}
    assert found.get("ids", {"param", "frozen"}) == {"param", "frozen"}
