"""Muon: the updates of PyTorch's, which weights it updates, and the same results however matrices are split."""

import numpy as np
import pytest
from training_samples import WEIGHTS, batches, first_values, model, torch_trained, trained

import distir
from distir.analysis import check
from distir.models import gpt2, mlp
from distir.models.catalogue import program
from distir.models.published import PUBLISHED, resized
from distir.transform import StepError, transform, verify
from distir.transform.in_float64 import in_float64

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

STEPS = 6
REST = ("b1", "w2", "b2")
"""Of the perceptron: biases, and the output layer."""

CASES = {
    "lr=0.1": ({"lr": 0.1, "weight_decay": 0.0}, {"lr": 0.1, "weight_decay": 0.0}),
    "lr=0.1 lr_others=0.02 weight_decay=0.2 epsilon=0.001": (
        {"lr": 0.1, "weight_decay": 0.2},
        {"lr": 0.02, "weight_decay": 0.2, "eps": 0.001},
    ),
    "lr=0.1 momentum=0.8 nesterov=false ns_steps=3 adjust_lr=match_rms_adamw beta2=0.9": (
        {"lr": 0.1, "weight_decay": 0.0, "momentum": 0.8, "nesterov": False, "ns_steps": 3}
        | {"adjust_lr_fn": "match_rms_adamw"},
        {"lr": 0.1, "weight_decay": 0.0, "betas": (0.9, 0.9)},
    ),
}


class Both:
    """Muon of the hidden matrix, AdamW of the other weights."""

    def __init__(self, weights, muon, adamw):
        self.parts = (
            torch.optim.Muon([weights["w1"]], **muon),
            torch.optim.AdamW([weights[name] for name in REST], **adamw),
        )

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()

    def step(self):
        for part in self.parts:
            part.step()


def trained_by_both(values, options, before_step=None):
    return torch_trained(torch, values, batches(STEPS), lambda w: Both(w, *CASES[options]), before_step=before_step)


@pytest.mark.parametrize("options", CASES)
def test_updates_are_those_of_pytorch(options):
    """In bfloat16, whose last digit may depend on the order in which products are summed."""
    step = transform(model(), "grad", "optimizer=muon", *options.split())
    values = first_values(step)
    _, theirs = trained_by_both(values, options)
    _, ours = trained(step, batches(STEPS))
    for name in WEIGHTS:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize("options", CASES)
def test_without_rounding_they_are_the_same(options, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self.clone())
    step = in_float64(transform(model(), "grad", "optimizer=muon", *options.split()))
    values = first_values(step)
    losses, theirs = trained_by_both(values, options)
    found, ours = trained(step, batches(STEPS))
    np.testing.assert_allclose(found, losses, rtol=1e-12)
    for name in WEIGHTS:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-9, atol=1e-12)


def test_stacked_matrices_are_orthogonalised_each_by_itself():
    rng = np.random.default_rng(0)
    text = "func @main({}) {{ %y = Orthogonalize(%x)\n return %y }}"
    stack = rng.normal(size=(3, 4, 6)).astype(np.float32)
    whole = distir.run(distir.parse(text.format("%x: Tensor[Float32, (3, 4, 6), 1]")), {"x": stack})["y"]
    one = distir.parse(text.format("%x: Tensor[Float32, (4, 6), 1]"))
    for matrix, found in zip(stack, whole, strict=True):
        np.testing.assert_array_equal(distir.run(one, {"x": matrix})["y"], found)
        assert np.linalg.svd(found)[1] == pytest.approx(1, abs=0.35)


def updated(step):
    """The weights that Muon updates, and those that Adam does."""
    by = {op: {s.args[0] for s in step.entry().body if getattr(s, "op", "") == op} for op in ("Muon", "Adam")}
    return by["Muon"], by["Adam"]


def test_embeddings_the_output_layer_and_vectors_are_left_to_adamw():
    sizes = {"layers": 2, "width": 32, "heads": 4, "kv_heads": 2, "vocabulary": 64, "expert_ffn": 32, "experts": 4}
    mixtral = program(resized("mixtral-8x7b", PUBLISHED["mixtral-8x7b"], sizes), 8, 4, "Float32")
    muon, adam = updated(transform(mixtral, "grad", "optimizer=muon"))
    layer = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate"}
    experts = {"mlp.experts.gate_proj", "mlp.experts.up_proj", "mlp.experts.down_proj"}
    assert {name.split(".", 3)[3].removesuffix(".weight") for name in muon} == layer | experts
    assert {name for name in adam if "norm" not in name} == {"model.embed_tokens.weight", "lm_head.weight"}


def test_a_tied_embedding_and_positions_are_left_to_adamw():
    step = transform(gpt2(1, 16, 4, 8, batch=2, vocabulary=32, positions=8, dtype="Float32"), "grad", "optimizer=muon")
    muon, adam = updated(step)
    assert {name.split(".", 2)[2] for name in muon} == {
        *("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
    }
    assert {"wte.weight", "wpe.weight"} <= adam


def test_the_sum_of_several_products_is_no_output_layer():
    text = """func @main(%a: Tensor[Float32, (4, 4), 1] {param}, %b: Tensor[Float32, (4, 4), 1] {param},
      %x: Tensor[Float32, (2, 4), 1] {batch = 0}) {
      %y = MatMul(%x, %a)
      %z = MatMul(%x, %b)
      %sum = Add(%y, %z)
      return %sum
    }"""
    assert updated(transform(distir.parse(text), "grad", "optimizer=muon")) == ({"a", "b"}, set())


CHAINS = [
    "dp=2",
    "accumulate=2",
    "tp=2",
    "pp=2 microbatches=2",
    "dp=2 zero=1",
    "dp=2 zero=1 partition=split",
    "dp=2 zero=2 partition=split overlap",
    "dp=2 zero=3 partition=split",
    "dp=4 zero=3 partition=split shard=2",
    "tp=2 dp=2 zero=1 partition=split",
    "dtp=2,2,2 microbatches=2",
]
OPTIONS = ["clip=0.01 lr=0.5", "weight_decay=0.1 lr=input", "loss_scale=8 precision=mixed", "precision=bf16"]


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("words", CHAINS)
@pytest.mark.parametrize("options", OPTIONS)
def test_results_stay_however_matrices_are_split(options, words):
    decoder = gpt2(2, 16, 4, 8, batch=4, vocabulary=32, positions=8, dtype="Float32")
    step = transform(decoder, *f"grad optimizer=muon {options}".split())
    assert verify(step, transform(step, *words.split())).equal


@pytest.mark.parametrize("words", ["ep=2", "ep=2 dp=2 zero=1 partition=split", "dtp=2,2,1 experts=2 etp=1"])
def test_experts_stay_the_same_however_they_are_split(words):
    sizes = {"layers": 1, "width": 16, "heads": 4, "kv_heads": 2, "vocabulary": 32, "expert_ffn": 16, "experts": 4}
    mixtral = program(resized("mixtral-8x7b", PUBLISHED["mixtral-8x7b"], sizes), 4, 4, "Float32")
    step = transform(mixtral, "grad", "optimizer=muon")
    assert verify(step, transform(step, *words.split())).equal


def test_parts_of_the_state_are_held_and_the_momentum_is_gathered_in_16_bits():
    step = transform(mlp(2, 8, 8, "Float32"), "grad", "optimizer=muon")
    split = transform(step, "dp=2", "zero=1", "partition=split")
    shapes = {p.type.shape for p in split.entry().params if p.name.startswith("w1.m")}
    assert shapes == {(4, 8)}
    state = check(split).states["main"]
    gathered = [s for s in split.entry().body if getattr(s, "op", "") == "MPIAllgather" and "every" in s.results[0]]
    assert [str(state[s.args[0]].dtype) for s in gathered] == ["BFloat16"]


def test_a_skipped_step_changes_nothing():
    step = transform(model(), "grad", "optimizer=muon", "loss_scale=dynamic")
    values = first_values(step) | batches(1, scale=np.inf)[0]
    found = distir.run(step, values)
    for name in ("w1", "w1.m"):
        np.testing.assert_array_equal(found[f"{name}_new"], values[name])


def test_its_products_and_its_state_are_simulated():
    step = transform(mlp(4, 4096, 64, "Float32"), "grad", "optimizer=muon", "precision=mixed")
    adamw = transform(mlp(4, 4096, 64, "Float32"), "grad", "optimizer=adamw", "precision=mixed")
    muons, adamws = (distir.simulate(one, hardware="dgx-h100") for one in (step, adamw))
    products = 3 * 5 * 3 * 2 * 4096**3  # of three matrices, in five iterations
    assert 0.8 < (muons.latency_s - adamws.latency_s) / (products / 700e12) < 1.5
    held = {one: sum(p.type.nbytes for p in one.entry().params if "state" in p.roles) for one in (step, adamw)}
    assert held[adamw] - held[step] == 3 * 4 * 4096**2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("optimizer=muon adjust_lr=rms", "expected one of original, match_rms_adamw, found `rms`"),
        ("optimizer=muon ns_steps=100", "`ns_steps` expected a number from 0 to below 100, found 100"),
        ("optimizer=adamw lr_others=0.1", "`lr_others` is of weights that `adamw` leaves to another optimizer"),
        ("optimizer=adamw ns_steps=3", "has no option `ns_steps`"),
        ("optimizer=muon lr=input lr_others=0.1", "leave out `lr_others`"),
    ],
)
def test_options_that_do_not_fit_are_refused(words, said):
    with pytest.raises(StepError, match=said):
        transform(model(), "grad", *words.split())


def test_a_tuple_of_weights_is_refused():
    text = """func @main(%w: Tuple[Tensor[Float32, (4, 4), 1], Tensor[Float32, (4,), 1]] {param},
      %x: Tensor[Float32, (2, 4), 1] {batch = 0}) {
      %a, %b = UnpackTuple(%w)
      %y = Gemm(%x, %a, %b)
      return %y
    }"""
    with pytest.raises(StepError, match="needs each weight as a tensor of known dimensions, but `%w` is a tuple"):
        transform(distir.parse(text), "grad", "optimizer=muon")
