"""Answers of jobs against closed forms: parameters, the share of the peak, and what ZeRO divides of memory."""

import pytest

from distir.configurations import FORMATS, Supplied, answer, program_of
from distir.configurations.jobs import BesideFile

LAYERS, WIDTH, HEADS, FFN, VOCABULARY, SEQUENCE = 4, 1024, 16, 2816, 32000, 1024
PARAMETERS = LAYERS * (4 * WIDTH**2 + 3 * WIDTH * FFN + 2 * WIDTH) + WIDTH + 2 * VOCABULARY * WIDTH
"""Four projections of attention, three of a gated MLP, two scales of a layer; the last scale, and both ends."""

FLOPS_PER_TOKEN = 6 * (PARAMETERS - VOCABULARY * WIDTH) + 12 * LAYERS * WIDTH * SEQUENCE
"""Without the embedding, which multiplies nothing; PaLM's appendix B (Chowdhery et al., arXiv:2204.02311)."""

H100_PEAK = 989.4e12
"""Of products in BFloat16, dense, of NVIDIA's H100 SXM. FLOP/s."""

MEGATRON = f"""torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers {LAYERS} --hidden-size {WIDTH} --swiglu
--ffn-hidden-size {FFN} --num-attention-heads {HEADS} --seq-length {SEQUENCE} --max-position-embeddings {SEQUENCE}
--vocab-size {VOCABULARY} --make-vocab-size-divisible-by 1 --untie-embeddings-and-output-weights --disable-bias-linear
--normalization RMSNorm --position-embedding-type rope --attention-dropout 0 --hidden-dropout 0 --bf16
--micro-batch-size 2 --global-batch-size 32""".replace("\n", " ")

FLAVORS = (
    f"""{{"small": TransformerModelArgs(dim={WIDTH}, n_layers={LAYERS}, n_heads={HEADS}, vocab_size={VOCABULARY})}}"""
)

TORCHTITAN = f"""[model]
name = "llama3"
flavor = "small"
[training]
seq_len = {SEQUENCE}
local_batch_size = 2
[activation_checkpoint]
mode = "none"
"""


def answered(text, form="megatron", **given):
    found = FORMATS[form].read(text, "job", Supplied(**given))
    return found.job, answer(found.job, program_of(found.job, found.framework, "h100_80gb"))


NEMO = f"""trainer: {{num_nodes: 1, devices: 8, precision: bf16}}
model:
  micro_batch_size: 2
  global_batch_size: 32
  num_layers: {LAYERS}
  hidden_size: {WIDTH}
  ffn_hidden_size: {FFN}
  num_attention_heads: {HEADS}
  encoder_seq_length: {SEQUENCE}
  override_vocab_size: {VOCABULARY}
  make_vocab_size_divisible_by: 1
  share_embeddings_and_output_weights: false
  bias: false
  normalization: rmsnorm
  activation: fast-swiglu
  position_embedding_type: rope
  hidden_dropout: 0
  attention_dropout: 0
"""


@pytest.mark.parametrize(
    ("text", "form", "given", "batch"),
    [
        (MEGATRON, "megatron", {}, 32),
        (TORCHTITAN, "torchtitan", {"gpus": 8, "beside": BesideFile("flavors.py", FLAVORS)}, 16),
        (NEMO, "nemo", {}, 32),
    ],
    ids=["megatron", "torchtitan", "nemo"],
)
def test_the_share_of_the_peak_follows_from_parameters_tokens_and_seconds(text, form, given, batch):
    job, found = answered(text, form, **given)
    assert (job.gpus, job.strategy.data, job.micro_batch, job.global_batch, job.microbatches) == (
        8,
        8,
        2,
        batch,
        batch // 16,
    )
    tokens = batch * SEQUENCE
    assert found.tokens_per_s == pytest.approx(tokens / found.step_time_s)
    assert found.mfu == pytest.approx(FLOPS_PER_TOKEN * tokens / found.step_time_s / (8 * H100_PEAK), rel=1e-3)


def test_a_distributed_optimizer_holds_a_part_of_twelve_bytes_for_each_parameter():
    """Of Megatron-LM in bf16: the Float32 weight and two moments."""
    _, whole = answered(MEGATRON)
    _, shared = answered(f"{MEGATRON} --use-distributed-optimizer")
    assert whole.memory.reported - shared.memory.reported == pytest.approx(12 * PARAMETERS * 7 / 8, rel=0.03)
