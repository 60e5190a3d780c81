"""PyTorch modules as programs: the same results, gradients as PyTorch's own. Skipped without torch and its exporter."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import distir  # noqa: E402
from distir.importers import ImportRefused, import_torch_function  # noqa: E402
from distir.transform import verify  # noqa: E402

nn = torch.nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, layers=3, width=16):
        super().__init__()
        self.layers = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.head = nn.Linear(width, 20)

    def forward(self, x):
        return self.head(self.layers(x))


class Loss(nn.Module):
    """Cross-entropy, whose gradient the exporter gets wrong unless it is decomposed first."""

    def __init__(self):
        super().__init__()
        self.net = Net(2)

    def forward(self, x, labels):
        return nn.functional.cross_entropy(self.net(x), labels)


def example():
    torch.manual_seed(0)
    return Net(), (torch.randn(4, 16),)


def test_the_program_gives_what_the_module_gives():
    net, (x,) = example()
    module = distir.import_torch(net, (x,))
    assert not [d for d in distir.check(module) if d.severity == "error"]
    (y,) = distir.run(module, {**module.weights, "x": x.numpy()}).values()
    np.testing.assert_allclose(y, net(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_weights_have_their_own_names_and_layers_are_one_function():
    net, inputs = example()
    module = distir.import_torch(net, inputs)
    assert set(module.weights) <= set(net.state_dict())
    assert list(module.functions) == ["Block", "main"]
    for name, array in module.weights.items():
        np.testing.assert_array_equal(array, net.state_dict()[name].numpy())


def test_a_dynamic_batch_fits_any_batch():
    net, inputs = example()
    module = distir.import_torch(net, inputs, dynamic_batch=True)
    x = next(p for p in module.entry().params if p.name == "x")
    assert (str(x.type), dict(x.roles)) == ("Tensor[Float32, (B, 16), 1]", {"batch": 0})
    other = torch.randn(7, 16)
    (y,) = distir.run(module, {**module.weights, "x": other.numpy()}).values()
    np.testing.assert_allclose(y, net(other).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_by_types_alone_no_tensor_is_made():
    with torch.device("meta"):
        net, x = Net(2, 1 << 16), torch.empty(4, 1 << 16)
    module = distir.import_torch(net, (x,), weights=False)
    assert dict(module.weights) == {}
    assert not [d for d in distir.check(module) if d.severity == "error"]


def test_the_training_step_gives_pytorchs_gradients():
    torch.manual_seed(0)
    loss, x, labels = Loss(), torch.randn(6, 16), torch.tensor([3, 1, 19, 0, 5, 5])
    module = distir.import_torch(loss, (x, labels), training=True)
    found = distir.run(module, {**module.weights, "x": x.numpy(), "labels": labels.numpy()})
    value = loss(x, labels)
    value.backward()
    np.testing.assert_allclose(found["loss"], value.item(), rtol=1e-5)
    gradients = {f"grad.{name}": p.grad.numpy() for name, p in loss.named_parameters()}
    assert list(found) == ["loss", *gradients]
    for name, gradient in gradients.items():
        np.testing.assert_allclose(found[name], gradient, rtol=1e-4, atol=1e-6)


class Attending(nn.Module):
    """A loss with attention, a mask made on the way, and a mean over everything."""

    def __init__(self, width=16):
        super().__init__()
        self.tokens, self.places = nn.Embedding(20, width), nn.Parameter(torch.rand(5, width))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.head = nn.Linear(width, 20)

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.places
        mask = torch.triu(torch.full((5, 5), float("-inf")), 1)
        y, _ = self.attention(x, x, x, attn_mask=mask, need_weights=False)
        loss = nn.functional.cross_entropy(self.head(torch.tanh(y)).flatten(0, 1), labels.flatten())
        return loss + (y**2).mean() * torch.tensor([0.5])[0]


def test_a_training_step_fits_any_batch():
    torch.manual_seed(0)
    loss = Attending()
    module = distir.import_torch(loss, tokens(4), training=True, batch={"ids": 0, "labels": 0})
    assert [dict(p.roles) for p in module.entry().params[-2:]] == [{"batch": 0}, {"batch": 0}]
    for size in (2, 4, 7):
        ids, labels = tokens(size)
        loss.zero_grad()
        value = loss(ids, labels)
        value.backward()
        found = distir.run(module, {**module.weights, "ids": ids.numpy(), "labels": labels.numpy()})
        np.testing.assert_allclose(found["loss"], value.item(), rtol=1e-5)
        for name, p in loss.named_parameters():
            np.testing.assert_allclose(found[f"grad.{name}"], p.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_a_training_step_by_types_alone_has_the_modules_parameters_and_no_others():
    with torch.device("meta"):
        loss, inputs = Loss(), (torch.empty(4, 16), torch.empty(4, dtype=torch.long))
    module = distir.import_torch(loss, inputs, weights=False, training=True)
    assert not [d for d in distir.check(module) if d.severity == "error"]
    assert {p.name for p in module.entry().params if "param" in p.roles} == {n for n, _ in loss.named_parameters()}


def tokens(batch):
    return torch.randint(0, 20, (batch, 5)), torch.randint(0, 20, (batch, 5))


def test_an_export_with_a_fixed_batch_fits_any_batch(tmp_path):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    for size in (1, 3):
        path = tmp_path / f"net{size}.onnx"
        torch.onnx.export(net, (torch.rand(size, 7, 16),), path, dynamo=True, input_names=["x"], verbose=False)
        module = distir.import_onnx(path, batch={"x": 0})
        for other in (1, 2, 5):
            x = torch.rand(other, 7, 16)
            (y,) = distir.run(module, {**module.weights, "x": x.numpy()}).values()
            np.testing.assert_allclose(y, net(x).detach().numpy(), rtol=1e-5, atol=1e-5)


def test_the_module_is_left_as_it_was():
    net, inputs = example()
    net.train()
    net.head.eval()
    distir.import_torch(net, inputs)
    assert net.training
    assert not net.head.training


class Undecided(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def test_a_module_that_cannot_be_exported_is_refused():
    with pytest.raises(ImportRefused, match="cannot export") as caught:
        distir.import_torch(Undecided(), (torch.randn(3),))
    assert "\n" not in str(caught.value)
    with pytest.raises(ImportRefused, match=r"expected an `nn\.Module`"):
        distir.import_torch(3, ())


def test_a_function_of_a_module(tmp_path):
    (tmp_path / "my_small_models.py").write_text(
        "import torch\n\n"
        "def mlp():\n    return torch.nn.Linear(9, 9), (torch.ones(2, 9),)\n\n"
        "def three():\n    return 3\n"
    )
    module = import_torch_function("my_small_models:mlp", weights=False, folder=str(tmp_path))
    assert [p.name for p in module.entry().params if "param" in p.roles]
    for wrong in ("my_small_models", "my_small_models:none", "no_such_module_here:f", "my_small_models:three"):
        with pytest.raises(ImportRefused):
            import_torch_function(wrong, folder=str(tmp_path))


class Twice(torch.nn.Module):
    def forward(self, x, y):
        return x - 2 * y


def test_inputs_that_are_one_tensor_stay_two_inputs():
    one = torch.ones(3)
    module = distir.import_torch(Twice(), (one, one))
    assert [p.name for p in module.entry().params] == ["x", "y"]
    (found,) = distir.run(module, {"x": np.full(3, 5, np.float32), "y": np.ones(3, np.float32)}).values()
    assert found.tolist() == [3, 3, 3]


class Pooled(torch.nn.Module):
    """One place of a sequence, of which PyTorch makes a strided view."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(6, 6), torch.nn.Linear(6, 2)

    def forward(self, x):
        pooled = torch.nn.functional.adaptive_avg_pool1d(self.inner(x).transpose(1, 2), 1)
        return self.outer(pooled.flatten(1))


def test_pooling_to_one_place_leaves_the_batch_whole():
    x = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(1))
    net = Pooled()
    module = distir.import_torch(net, (x,), dynamic_batch=True)
    (found,) = distir.run(module, {**module.weights, "x": x.numpy()}).values()
    np.testing.assert_allclose(found, net(x).detach().numpy(), atol=1e-6)
    step = distir.transform(module, "grad")
    both = distir.transform(step, "pp=2", "microbatches=2")
    assert verify(step, both, bind={"B": 4}).equal


class KeepsWhatItComputed(nn.Module):
    """As rotary embeddings of transformers do, whose frequencies depend on the length of a sequence."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("frequencies", torch.arange(4.0))

    def forward(self, x):
        self.kept = self.frequencies.to(x.device) + 1
        return x * self.kept * self.scale


def test_a_module_is_as_it_was_after_an_import():
    module, x = KeepsWhatItComputed(), torch.randn(2, 4)
    for _ in range(2):
        distir.import_torch(module, (x,), compare=False)
    assert not hasattr(module, "kept")
    assert type(module.frequencies) is torch.Tensor
