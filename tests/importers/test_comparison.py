"""Imports are compared with PyTorch: what is equal is said, what differs refused, and why nothing was compared."""

import re

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import torch
from torch import nn

import distir
from distir.importers import ImportRefused, comparison
from distir.importers.small_copies import CHOSEN, SEQUENCE, small


class OtherWhereExported(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        return y * 2 if torch.compiler.is_exporting() else y


class Of(nn.Module):
    """A layer, and then a function."""

    def __init__(self, function, width=4):
        super().__init__()
        self.layer, self.function = nn.Linear(width, width), function

    def forward(self, x):
        return self.function(self.layer(x))


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def equal_to(text):
    return float(re.fullmatch(r"equal to PyTorch to ([\d.e-]+|0)", text).group(1))


def test_what_is_equal_is_said():
    found = distir.import_torch(Of(torch.relu), (X,), weights=False, dynamic_batch=True)
    assert equal_to(found.comparison) < 1e-5
    assert found.notes == ()
    assert not found.weights


def test_what_differs_is_refused_with_the_figure():
    with pytest.raises(ImportRefused) as caught:
        distir.import_torch(OtherWhereExported(), (X,))
    assert "`OtherWhereExported` does not compute what PyTorch does" in caught.value.message
    assert "differs by 1 of its largest element" in caught.value.message
    assert "--no-compare" in caught.value.help
    assert distir.import_torch(OtherWhereExported(), (X,), compare=False).comparison == ""


def test_effects_that_initial_weights_hide_are_seen():
    class Forgets(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.bias = nn.Parameter(torch.zeros(4))

        def forward(self, x):
            return self.layer(x) + (0 if torch.compiler.is_exporting() else self.bias)

    with pytest.raises(ImportRefused, match="does not compute what PyTorch does"):
        distir.import_torch(Forgets(), (X,))


def test_tokens_that_are_all_the_same_are_drawn():
    class Second(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(16, 4)

        def forward(self, ids):
            rows = self.table(ids)
            return rows[:, 1 if torch.compiler.is_exporting() else 0]

    with pytest.raises(ImportRefused, match="does not compute what PyTorch does"):
        distir.import_torch(Second(), (torch.zeros(2, 5, dtype=torch.int64),))


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Of(lambda x: x + torch.rand(4)), "it draws random numbers"),
        (nn.ReLU(), "it has no weights"),
        (nn.Linear(4, 4, device="meta"), "on the meta device"),
        (Of(lambda x: x * torch.finfo(torch.float32).max * 10), "not finite"),
        (nn.Linear(4, 4, dtype=torch.bfloat16), "rounding in bfloat16"),
    ],
)
def test_the_reason_where_nothing_is_compared(module, reason):
    weight = next(module.parameters(), X)
    said = distir.import_torch(module, (X.to(weight),)).comparison
    assert said.startswith("not compared with PyTorch: ")
    assert reason in said


def test_a_program_that_does_not_run_is_a_fault_and_refused(monkeypatch):
    def fails(*_, **__):
        raise ValueError("operands do not broadcast")

    monkeypatch.setattr(comparison, "execute", fails)
    with pytest.raises(ImportRefused, match="does not run: operands do not broadcast") as caught:
        distir.import_torch(nn.Linear(4, 4), (X,))
    assert "this is a fault of the import" in caught.value.help


def test_an_op_that_is_not_known_is_why_nothing_is_compared(monkeypatch):
    def unknown(found, *_, **__):
        text = "func @main(%x: Tensor[Float32, (2,), 1]) {\n  %y = Nonesuch(%x)\n  return %y\n}"
        distir.run(distir.parse(text), {"x": np.zeros(2, np.float32)})

    monkeypatch.setattr(comparison, "execute", unknown)
    said = distir.import_torch(nn.Linear(4, 4), (X,)).comparison
    assert said == "not compared with PyTorch: there is no op `Nonesuch`"


def test_large_modules_are_not_compared(monkeypatch):
    monkeypatch.setattr(comparison, "MOST_WEIGHTS", 10)
    assert "its weights have 20 elements" in distir.import_torch(nn.Linear(4, 4), (X,)).comparison


def test_equal_values_of_which_topk_takes_some():
    found = distir.import_torch(Of(lambda x: torch.relu(x - 9).topk(2).indices), (X,))
    (note,) = found.notes
    assert "`topk` in `Of` met equal values: PyTorch leaves open which of them it takes" in note
    assert note.endswith("results differ where PyTorch takes others")
    assert equal_to(found.comparison) == 0


def test_a_traced_step_is_compared_too():
    step = distir.import_torch(Of(lambda x: (x**2).mean()), (X,), training=True)
    assert equal_to(step.comparison) < 1e-5


class Updates(nn.Module):
    """The bias of a router without an auxiliary loss, a counter, and an average that is another tensor each time."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(4, 3, bias=False)
        self.register_buffer("bias", torch.zeros(3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("average", torch.zeros(4))

    def forward(self, x):
        scores = self.router(x).sigmoid()
        load = nn.functional.one_hot((scores + self.bias).topk(2, -1).indices, 3).sum((0, 1)).float()
        self.bias.add_(0.1 * torch.sign(load.mean() - load))
        self.calls += 1
        self.average = 0.9 * self.average + 0.1 * x.mean(0)
        return scores.mean()


@pytest.mark.parametrize("training", [False, True])
def test_buffers_that_a_module_changes_are_results(training):
    module = Updates()
    found = distir.import_torch(module, (X,), training=training)
    results = distir.run(found, {**found.weights, "x": X.numpy()})
    assert {"bias_new", "calls_new", "average_new"} <= results.keys()
    assert equal_to(found.comparison) < 1e-5
    assert float(module.bias.abs().max()) == 0  # the user's module stays as it was
    assert results["calls_new"] == 1


class Holding(nn.Module):
    """A module with a buffer, a queue with its place, and a tensor that is no buffer; `of` says what it changes."""

    def __init__(self, of):
        super().__init__()
        self.of, self.layer = of, nn.Linear(4, 4)
        for name, value in (("mean", torch.zeros(4)), ("at", torch.tensor(0)), ("queue", torch.zeros(6, 4))):
            self.register_buffer(name, value)
        self.plain = torch.zeros(4)

    def forward(self, x):
        y = self.layer(x)
        with torch.no_grad():
            self.of(self, y)
        return (y @ self.queue.T).sum() + y.sum()


def replaced(module, y):
    module.mean = module.mean * 0.5 + y.mean(0)


def queued(module, y):
    module.queue[3:5] = y[:2]
    module.at[...] = (module.at + 2) % 6


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("of", "changed"),
    [
        (replaced, ["mean_new"]),
        (queued, ["at_new", "queue_new"]),
        (lambda module, y: module.queue.view(-1)[:4].add_(y[0]), ["queue_new"]),
        (lambda module, y: module.layer.weight.clamp_(-0.1, 0.1), ["layer.weight_new"]),
        (lambda module, y: torch.add(module.mean, y.mean(0), out=module.mean), ["mean_new"]),
    ],
)
def test_whatever_a_module_changes_of_its_state_is_a_result(training, of, changed):
    """A buffer that is replaced was lost in a traced step, and so was a weight that is written to elsewhere."""
    found = distir.import_torch(Holding(of), (X,), training=training)
    assert [name for name in found.entry().returned if name.endswith("_new")] == changed
    assert equal_to(found.comparison) < 1e-5


def test_what_spectral_norms_iterate_is_a_result():
    layer = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
    found = distir.import_torch(nn.Sequential(layer, Of(torch.sum)), (X,), training=True)
    assert [name[-6:] for name in found.entry().returned if name.endswith("_new")] == ["_u_new", "_v_new"]
    assert equal_to(found.comparison) < 1e-5


@pytest.mark.parametrize("training", [False, True])
def test_what_an_export_does_not_see_a_module_change_is_refused(training):
    def exchanged(module, y):
        module.mean.data = module.mean.data + y.mean(0)

    with pytest.raises(ImportRefused, match="`Holding` exchanges the data of `mean`"):
        distir.import_torch(Holding(exchanged), (X,), training=training)
    with pytest.raises(ImportRefused, match="`Holding` writes to `plain`, a tensor that is no buffer"):
        distir.import_torch(Holding(lambda module, y: module.plain.add_(y.mean(0))), (X,), training=training)


def test_buffers_in_a_deep_stack_are_results_of_all_layers():
    class Counting(Of):
        def __init__(self):
            super().__init__(torch.relu)
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x):
            self.seen.add_(x.sum(0))
            return super().forward(x)

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Counting() for _ in range(6))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    found = distir.import_torch(Deep(), (X,))
    assert list(found.entry().returned)[1:] == [f"layers.{i}.seen_new" for i in range(6)]


IDS = torch.tensor([[1, 3, 3], [0, 2, 3]])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 3])
def test_bags_of_rows(mode, padding):
    class Bags(nn.Module):
        def __init__(self):
            super().__init__()
            self.bag = nn.EmbeddingBag(5, 4, mode=mode, padding_idx=padding)

        def forward(self, ids, flat, offsets):
            return self.bag(ids), self.bag(flat, offsets)

    inputs = (IDS, IDS.flatten(), torch.tensor([0, 4, 4]))
    assert equal_to(distir.import_torch(Bags(), inputs, batch={"ids": 0}).comparison) < 1e-5


def test_bags_with_weights_and_without_what_they_lack():
    class Weighted(nn.Module):
        def __init__(self, **options):
            super().__init__()
            self.bag = nn.EmbeddingBag(5, 4, mode="sum", **options)

        def forward(self, ids, shares):
            return self.bag(ids, per_sample_weights=shares)

    inputs = (IDS, torch.rand(2, 3))
    assert equal_to(distir.import_torch(Weighted(), inputs).comparison) < 1e-5
    with pytest.raises(ImportRefused, match="`max_norm`"):
        distir.import_torch(Weighted(max_norm=1.0), inputs)


def test_the_inverse_of_the_error_function():
    def of_all(x):
        quantile = torch.distributions.Normal(0.0, 1.0).icdf(torch.tensor(0.95))
        return torch.erfinv(torch.tanh(2 * x)) + quantile

    assert equal_to(distir.import_torch(Of(of_all), (X,)).comparison) < 1e-4


def test_distributions_do_not_look_at_values_that_an_export_lacks():
    class Quantile(Of):
        def forward(self, x):
            return x - torch.distributions.Normal(0, 1).icdf(x.new_tensor(0.95)) + self.layer(x)

    with torch.device("meta"):
        module, x = Quantile(None), torch.empty(3, 4)
    assert distir.import_torch(module, (x,), weights=False).entry().returned
    assert torch.distributions.Distribution._validate_args


def test_a_refusal_of_an_op_names_the_module_and_the_line():
    class Parts(nn.Module):
        def forward(self, x):
            return torch.stack(torch.split(x, torch.tensor([1, 2]).tolist()[0])).nonzero()

    with pytest.raises(ImportRefused) as caught:
        distir.import_torch(nn.Sequential(nn.Linear(4, 4), Parts()), (X,))
    assert "in `1`, a Parts; " in caught.value.message


@pytest.mark.parametrize(
    ("hidden", "heads", "kv", "head_dim"), [(4096, 32, 8, 128), (2880, 64, 8, 64), (8192, 64, 64, 128)]
)
def test_a_small_copy_keeps_how_sizes_depend_on_each_other(hidden, heads, kv, head_dim):
    stated = {
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": head_dim,
        "intermediate_size": 4 * hidden,
        "sliding_window": 4096,
        "index_topk": 2048,
        "vocab_size": 128256,
        "eos_token_id": 128009,
        "num_experts_per_tok": 4,
        "rope_theta": 10000,
        "id2label": {0: "LABEL_0"},
    }
    copy = small(stated)
    assert copy["hidden_size"] < hidden / 16
    assert copy["num_attention_heads"] * kv == copy["num_key_value_heads"] * heads
    of_heads = copy["num_attention_heads"] * copy["head_dim"]
    assert of_heads / copy["hidden_size"] == pytest.approx(heads * head_dim / hidden, rel=0.05)
    assert copy["sliding_window"] == copy["index_topk"] == CHOSEN
    assert copy["eos_token_id"] < copy["vocab_size"] < 100
    assert copy["num_experts_per_tok"] == 4
    assert copy["rope_theta"] == 10000
    assert copy["id2label"] == stated["id2label"]


def test_a_small_copy_of_what_each_layer_has_of_its_own():
    stated = {"hidden_size": 2048, "num_attention_heads": 8, "head_dim": 256, "intermediate_size": [16384] * 3}
    assert len(set(small(stated)["intermediate_size"])) == 1
    assert small(stated)["intermediate_size"][0] < 1024
    assert small({**stated, "moe_layers": [0, 1, 2]})["moe_layers"] == [0, 1, 2]


def test_a_small_copy_rotates_pairs_and_has_no_size_larger_than_the_model():
    vision = {"hidden_size": 1152, "num_attention_heads": 16, "head_dim": 72, "spatial_merge_size": 2, "in_channels": 3}
    copy = small(vision)
    assert copy["head_dim"] % 2 == 0
    assert copy["spatial_merge_size"] == 2
    assert all(copy[name] <= value for name, value in vision.items())


def test_a_small_copy_chooses_some_of_several_blocks():
    copy = small({"hidden_size": 6144, "index_block_size": 128, "index_topk_blocks": 16})
    assert copy["index_block_size"] * copy["index_topk_blocks"] < SEQUENCE


@pytest.mark.parametrize(("head", "heads"), [(8, 128), (64, 48)])
def test_a_small_copy_of_a_scan_that_says_its_width(head, heads):
    scan = {"mamba_d_ssm": head * heads, "mamba_d_head": head, "mamba_n_heads": heads, "mamba_d_state": 256}
    copy = small({"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, **scan})
    assert copy["mamba_d_head"] * copy["mamba_n_heads"] == copy["mamba_d_ssm"] <= 64
    assert copy["hidden_size"] <= 128
