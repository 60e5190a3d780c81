"""Dropout and 8-bit floats in PyTorch: processes give what the reference executor gives, masks to the bit."""

import pytest

import distir as api
from distir.models import gpt2, mlp, named

pytest.importorskip("torch")

MASKS = """\
func @main(
  %x: Tensor[Float32, (8, 6), 1] {batch = 0}, %w: Tensor[Float32, (6, 4, 10), 1] {param}, %seed: Int64
) {
  %rows = Positions(%x)
  %h = Einsum[equation = "bi,ihj->bhj"](%x, %w)
  %key = FoldIn(%seed, 3)
  %y, %mask = Dropout(%h, 0.4, true, %key, %rows)
  return %mask
}
"""


@pytest.mark.parametrize("steps", [[], ["tp=2", "shard=w:1", "dp=2"]], ids=["one process", "four processes"])
def test_masks_are_those_of_the_reference(ranks, tmp_path, steps):
    module = api.transform(api.parse(MASKS), *steps)
    assert ranks.largest_error(module, tmp_path) == 0


@pytest.mark.parametrize("steps", ["dtp=2,2,1 sequence=true", "pp=2 microbatches=4"])
def test_a_training_step_with_dropout_runs_on_several_processes(ranks, tmp_path, steps):
    module = gpt2(2, 16, 4, 8, batch=8, vocabulary=32, positions=8, dtype="Float32", dropout=0.25)
    error = ranks.largest_error(api.transform(module, "grad", *steps.split()), tmp_path)
    assert error < 1e-5


def test_a_training_step_in_8_bit_floats_runs_on_several_processes(ranks, tmp_path):
    module = gpt2(1, 16, 4, 8, batch=4, vocabulary=32, positions=8, dtype="Float32")
    error = ranks.largest_error(api.transform(module, "fp8", "block=4", "grad", "dp=2"), tmp_path)
    assert error < 1e-5


def test_microbatches_with_scales_of_their_own_run_on_several_processes(ranks, tmp_path):
    module = gpt2(1, 16, 4, 8, batch=8, vocabulary=32, positions=8, dtype="Float32")
    step = api.transform(module, "fp8=tensor", "micro_batch=2", "grad", "dtp=2,2,1", "microbatches=2")
    assert ranks.largest_error(step, tmp_path) < 1e-5


def test_a_training_step_with_delayed_scaling_runs_on_several_processes(ranks, tmp_path):
    module = gpt2(1, 16, 4, 8, batch=4, vocabulary=32, positions=8, dtype="Float32")
    step = api.transform(module, "fp8=delayed", "history=4", "grad", "tp=2", "dp=2")
    assert ranks.largest_error(step, tmp_path) < 1e-5


def test_adafactor_runs_on_the_parts_of_weights(ranks, tmp_path):
    step = api.transform(mlp(2, 8, 8, "Float32"), "grad", "optimizer=adafactor", "clip=1.0", "tp=2")
    assert ranks.largest_error(step, tmp_path) < 1e-5


@pytest.mark.parametrize("steps", ["tp=2", "dp=2 zero=1 partition=split", "dp=2 zero=1"])
def test_muon_runs_on_the_parts_of_matrices(ranks, tmp_path, steps):
    step = api.transform(mlp(3, 8, 8, "Float32"), "grad", "optimizer=muon", "lr=0.01", "clip=1.0")
    # The direction is in bfloat16: torch may sum in another order.
    assert ranks.largest_error(api.transform(step, *steps.split()), tmp_path) < 5e-4


def test_weights_in_float32_alone_are_gathered_in_16_bits(ranks, tmp_path):
    step = api.transform(mlp(2, 8, 8, "Float32"), "grad", "optimizer=adamw", "precision=mixed", "master=only", "clip=1")
    error = ranks.largest_error(api.transform(step, "dp=2", "zero=3", "partition=split"), tmp_path)
    assert error < 1e-2


@pytest.mark.parametrize(
    "steps", ["dtp=2,1,2 microbatches=4 overlap", "dp=2 zero=3 partition=split overlap=gradients,weights"]
)
def test_what_is_overlapped_runs_on_several_processes(ranks, tmp_path, steps):
    """Buckets, gathers ahead and sends are begun, and waited for where they are used."""
    step = api.transform(mlp(3, 16, 16, "Float32"), "grad", "optimizer=adam", "clip=1.0", *steps.split())
    assert ranks.largest_error(step, tmp_path) < 1e-5


def test_attention_drops_the_same_weights_on_several_processes(ranks, tmp_path):
    sizes = {"layers": 1, "width": 16, "heads": 4, "kv_heads": 2, "ffn": 16, "vocabulary": 32, "sequence": 8}
    model = api.format(named("llama3-8b", batch=4, dtype="Float32", **sizes))
    module = api.parse(model.replace("= Attention[", "= Attention[dropout = 0.25, "))
    error = ranks.largest_error(api.transform(module, "seeded", "grad", "loss=cross_entropy", "dtp=2,2,1"), tmp_path)
    assert error < 1e-5


TINY = {"layers": 1, "vocabulary": 32, "width": 16, "heads": 4, "kv_heads": 2}
MODELS = {
    "dense": ("llama3-8b", {**TINY, "ffn": 24}),
    "experts": ("qwen3-30b-a3b", {**TINY, "head_size": 8, "experts": 4, "expert_ffn": 16, "top_k": 2}),
}


@pytest.mark.by_turns
@pytest.mark.parametrize("stage", [2, 3])
@pytest.mark.parametrize("model", MODELS)
def test_master_weights_in_parts_with_microbatches_run_on_two_processes(ranks, tmp_path, model, stage):
    """FSDP2: Float32 parts, cast and gathered by layer, gradients of each microbatch reduced."""
    name, sizes = MODELS[model]
    options = ("optimizer=adamw", "precision=mixed", "master=only", "clip=1.0", "loss=cross_entropy")
    step = api.transform(named(name, 4, 8, **sizes), "grad", *options)
    ranks.largest_error(api.transform(step, "accumulate=2", "dp=2", f"zero={stage}"), tmp_path)
