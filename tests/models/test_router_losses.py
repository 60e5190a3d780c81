"""Losses of routers, and experts of limited capacity, beside the same in PyTorch, and in distributed programs."""

import copy
import math

import numpy as np
import pytest

from distir.models import ModelError, named
from distir.transform import StepError, transform, verify

SIZES = {"layers": 2, "width": 16, "heads": 4, "kv_heads": 2, "vocabulary": 32, "experts": 4, "expert_ffn": 8}
BATCH, SEQUENCE, AUX, Z = 4, 8, 0.1, 0.01


def mixtral(**options):
    return named("mixtral-8x7b", BATCH, SEQUENCE, "Float32", **SIZES, **options)


@pytest.mark.parametrize("capacity_factor", [None, 0.75])
def test_loss_and_gradients_are_those_of_pytorch(capacity_factor):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from published_samples import state, theirs
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    import distir
    from distir.models.published import PUBLISHED, resized

    model = theirs("mixtral-8x7b", resized("mixtral-8x7b", PUBLISHED["mixtral-8x7b"], SIZES))
    room = None if capacity_factor is None else math.ceil(capacity_factor * SEQUENCE * 2 / 4)
    logits = []

    def routed(router, args, found):
        """Notes the logits; what comes too late for an expert, in a sequence, has no weight."""
        scores, weights, chosen = found
        logits.append(scores.reshape(BATCH, SEQUENCE, 4))
        if room is None:
            return found
        each = torch.nn.functional.one_hot(chosen.reshape(BATCH, SEQUENCE * 2), 4)
        place = (each.cumsum(1) * each).sum(-1).reshape(chosen.shape)
        assert (place > room).any()
        return scores, weights * (place <= room), chosen

    for layer in model.model.layers:
        layer.mlp.gate.register_forward_hook(routed)
    module = named("mixtral-8x7b", BATCH, SEQUENCE, "Float64", capacity_factor=capacity_factor, **SIZES)
    step = transform(module, "grad", "optimizer=none", f"aux_loss={AUX}", f"z_loss={Z}")
    generator = np.random.default_rng(0)
    ids, target = (generator.integers(0, 32, (BATCH, SEQUENCE)) for _ in range(2))
    given = model(input_ids=torch.from_numpy(ids)).logits
    loss = torch.nn.functional.cross_entropy(given.reshape(-1, 32), torch.from_numpy(target).reshape(-1))
    for of_layer in logits:
        balance = sum(load_balancing_loss_func((one,), 4, 2) for one in of_layer) / BATCH / 2
        loss = loss + AUX * balance + Z * torch.logsumexp(of_layer, -1).square().mean()
    loss.backward()
    slopes = copy.deepcopy(model)
    for mine, own in zip(slopes.parameters(), model.parameters(), strict=True):
        mine.data = own.grad
    found = distir.run(step, state(module, model) | {"input_ids": ids, "target": target})
    np.testing.assert_allclose(found["total_loss"], loss.item(), rtol=1e-7)  # their softmaxes are in Float32
    for (name, expected), slope in zip(state(module, slopes).items(), list(found.values())[1:], strict=True):
        np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max(), err_msg=name)


@pytest.fixture(scope="module")
def step():
    return transform(mixtral(capacity_factor=1.0), "grad", "aux_loss=0.1", "z_loss=0.01", "precision=mixed")


@pytest.mark.by_turns
@pytest.mark.parametrize(
    "chain",
    ["dp=2", "tp=2 ep=2", "dtp=2,2,2 microbatches=2 experts=2", "dp=2 zero=3", "accumulate=2", "checkpoint", "cp=2"],
)
def test_they_are_the_same_in_distributed_programs(step, chain):
    assert verify(step, transform(step, *chain.split())).equal


def test_a_loss_that_a_program_gives_itself_is_added_to():
    import distir

    text = """func @main(%x: Tensor[BFloat16, (4, 6, 8), 1] {batch = 0}, %w: Tensor[BFloat16, (8, 4), 1] {param}) {
      %logits = MatMul(%x, %w)
      %weights, %chosen = Route[top_k = 2](%logits)
      %loss = ReduceSum[keepdims = false](%weights)
      return %loss
    }"""
    step = transform(distir.parse(text), "grad", "aux_loss=0.1", "reduction=sum")
    assert not distir.check(step)
    assert verify(step, transform(step, "dp=2")).equal
    rows = transform(distir.parse(text.replace("(4, 6, 8)", "(24, 8)")), "grad", "aux_loss=0.1")
    assert verify(rows, transform(rows, "dp=2")).equal


FLATTENED = """func @main(%x: Tensor[Float32, (B, 6, 8), 1] {batch = 0}, %w: Tensor[Float32, (8, 4), 1] {param}) {
  %rows = Reshape(%x, [-1, 8])
  %logits = MatMul(%rows, %w)
  %weights, %chosen = Route[top_k = 2](%logits)
  %grouped = Reshape(%chosen, [-1, 6, 2])
  %places, %counts = Dispatch[num_experts = 4](%grouped)
  %weighted = Reshape(%weights, [-1, 6, 2])
  %copies = Permute(%x, %places)
  %y = Unpermute(%copies, %places, %weighted)
  return %y
}"""
"""As `transformers` writes layers of experts: the router sees the tokens of all sequences in one dimension."""

GROUPED = (
    FLATTENED.replace("%rows = Reshape(%x, [-1, 8])\n", "").replace("%rows", "%x").replace("[-1, 6, 2]", "[0, 6, 2]")
)


@pytest.mark.parametrize("size", ["B", "4"])
def test_routers_of_flattened_tokens_have_the_losses_of_each_sequence(size):
    import distir

    options = ("grad", "aux_loss=0.1", "z_loss=0.01")
    flattened, grouped = (transform(distir.parse(text.replace("B", size)), *options) for text in (FLATTENED, GROUPED))
    bound = {"B": 4} if size == "B" else {}
    assert verify(grouped, flattened, bind=bound).equal
    for chain in ("dp=2", "accumulate=2"):
        assert verify(flattened, transform(flattened, chain), bind=bound).equal


def test_tokens_of_a_symbolic_number_that_are_one_group_have_one_loss():
    import distir

    text = """func @main(%x: Tensor[Float32, (B, 8), 1] {batch = 0}, %w: Tensor[Float32, (8, 4), 1] {param}) {
      %logits = MatMul(%x, %w)
      %weights, %chosen = Route[top_k = 2](%logits)
      %loss = ReduceSum[keepdims = false](%weights)
      return %loss
    }"""
    step, bound = (transform(distir.parse(t), "grad", "aux_loss=0.1") for t in (text, text.replace("(B", "(8")))
    assert verify(bound, step, bind={"B": 8}).equal
    assert verify(step, transform(step, "dp=2"), bind={"B": 8}).equal


def test_what_does_not_fit_is_said():
    with pytest.raises(StepError, match="are losses of routers: the program has no op `Route`"):
        transform(named("llama3-8b", 2, 8, layers=1), "grad", "aux_loss=0.1")
    with pytest.raises(StepError, match="`aux_loss` expected a number of 0 or more, found -1"):
        transform(mixtral(), "grad", "aux_loss=-1.0")
    with pytest.raises(ModelError, match="`llama3-8b` has no `capacity_factor`: it has no experts"):
        named("llama3-8b", capacity_factor=1.25)
    with pytest.raises(ModelError, match="expected `capacity_factor` to be above 0, found 0"):
        mixtral(capacity_factor=0.0)


def test_many_places_drop_nothing():
    one, all_ = mixtral(capacity_factor=100.0), mixtral()
    assert verify(all_, one).equal
