"""NeMo's and Megatron-Bridge's YAML as their repositories have it: references, variables, tables, other kinds.

Options are those of NVIDIA/NeMo-Framework-Launcher, launcher_scripts/conf/training (gpt3/40b_32k at 3d35357c,
chatglm/chatglm3-6b at 3dd35614, gpt3/70b_32n_gbs256_fsdp_tp2_mbs2ga1 at 3d827fe0) and conf/peft/llama/sft at 0da9ad9c,
and of NVIDIA-NeMo/Megatron-Bridge (examples/llm/llama3_8b/conf at c7761623, scripts/moe_model_zoo at 7b637223,
scripts/performance/configs/llama3 at 0aa7db37).
"""

import pytest

from distir.configurations import ConfigurationError, Supplied, read
from distir.models import PUBLISHED

pytest.importorskip("yaml")
GPT = """
trainer: {num_nodes: 1, devices: 8, precision: bf16}
model:
  micro_batch_size: 1
  global_batch_size: 16
  encoder_seq_length: 2048
  num_layers: 4
  hidden_size: 1024
  num_attention_heads: 16
"""
NAMED = Supplied(gpus=8, name="llama3-8b", model=PUBLISHED["llama3-8b"])


def nemo(more="", text=GPT, **given):
    return read("nemo", text + more, "gpt.yaml", Supplied(**given))


def bridge(text, given=NAMED):
    return read("megatron-bridge", text, "job.yaml", given)


def test_references_are_to_tables_up_the_launchers_table_and_arithmetic():
    more = """
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  max_position_embeddings: ${.encoder_seq_length}
  kv_channels: ${int_div:${model.hidden_size}, ${training.model.num_attention_heads}}
  data: {seq_length: "${..encoder_seq_length}"}
"""
    job = nemo(more).job
    assert (job.model.ffn, job.model.context, job.model.size, job.seq) == (4096, 2048, 64, 2048)


def test_what_a_caller_sets_is_asked_for_and_given():
    text = GPT.replace("global_batch_size: 16", "global_batch_size: 16\n  tensor_model_parallel_size: ???")
    with pytest.raises(ConfigurationError, match=r"`model.tensor_model_parallel_size` \(`\?\?\?`\)") as refused:
        nemo(text=text)
    assert "--set model.tensor_model_parallel_size=" in refused.value.help
    assert nemo(text=text, variables={"model.tensor_model_parallel_size": "2"}).job.strategy.tensor == 2
    text = text.replace("???", "${oc.env:TP}")
    assert nemo(text=text, variables={"TP": "4"}).job.strategy.tensor == 4
    assert nemo(text=text.replace("TP}", "TP,8}")).job.strategy.tensor == 8


def test_variables_of_megatron_bridge_are_set():
    text = """
model: {tensor_model_parallel_size: "${TP}", virtual_pipeline_model_parallel_size: "${VPP}"}
train: {micro_batch_size: "${MBS}", global_batch_size: 64}
"""
    given = Supplied(**{**named(NAMED), "variables": {"TP": "2", "VPP": "null", "MBS": "1"}})
    job = bridge(text, given).job
    assert (job.strategy.tensor, job.strategy.stages_per_device, job.micro_batch) == (2, 1, 1)
    with pytest.raises(ConfigurationError, match="it takes from its caller") as refused:
        bridge(text)
    assert "VPP" in refused.value.message


def named(given):
    return {name: getattr(given, name) for name in given.__dataclass_fields__}


def test_tables_of_megatron_bridge_by_earlier_names_and_within_a_container():
    early = "model_config: {tensor_model_parallel_size: 2}\ntrain_config: {micro_batch_size: 1, global_batch_size: 8}\n"
    inside = """
ConfigContainer:
  model: {tensor_model_parallel_size: 2}
  train: {micro_batch_size: 1, global_batch_size: 8}
  mixed_precision: {grad_reduce_in_fp32: false}
perf_matrix: {h100: {num_gpus_8: {fp8_ds: {use_megatron_fsdp: true, tp: 1}}}}
"""
    assert bridge(early).job.strategy.tensor == bridge(inside).job.strategy.tensor == 2
    found = bridge(inside)
    assert (found.job.strategy.zero, found.job.strategy.gradients) == (1, "bf16")
    assert any("`perf_matrix` is not simulated" in note.text for note in found.notes)


def test_the_precision_of_gradients_is_that_of_the_mixed_precision():
    text = "ddp: {grad_reduce_in_fp32: false}\nmixed_precision: {grad_reduce_in_fp32: true, bf16: true}\n"
    assert bridge(text).job.strategy.gradients == "fp32"
    assert bridge("ddp: {grad_reduce_in_fp32: false}\n").job.strategy.gradients == "bf16"


def test_a_vocabulary_is_the_files_or_that_of_its_tokenizer():
    assert nemo("  override_vocab_size: 65024\n").job.model.vocabulary == 65024
    tokenizer = "  tokenizer: {library: huggingface, type: meta-llama/Meta-Llama-3.1-8B}\n"
    found = nemo(tokenizer)
    assert found.job.model.vocabulary == 128256
    assert not any("vocabulary" in note.text for note in found.notes)


def test_fsdp_of_nemo_shards_as_it_says():
    on = nemo("  fsdp: true\n  fsdp_sharding_strategy: full\n  fsdp_grad_reduce_dtype: bf16\n").job
    assert (on.strategy.zero, on.strategy.gradients, on.overlaps) == (3, "bf16", True)
    assert nemo("  fsdp: true\n  fsdp_sharding_strategy: grad\n").job.strategy.zero == 2
    hybrid = nemo("  fsdp: true\n  fsdp_sharding_strategy: hybrid\n")
    assert any("`fsdp_sharding_strategy` is not simulated" in note.text for note in hybrid.notes)
    off = nemo("  fsdp: false\n  fsdp_sharding_strategy: hybrid\n  fsdp_grad_reduce_dtype: bf16\n")
    assert (off.job.strategy.zero, off.job.strategy.gradients) == (0, "auto")
    assert not any("fsdp" in note.text for note in off.notes)


def test_fine_tuning_takes_the_sequences_of_its_data():
    text = """
trainer: {devices: 8, num_nodes: 1, precision: bf16}
model:
  restore_from_path: ???
  micro_batch_size: 1
  global_batch_size: 16
  peft: {peft_scheme: lora, lora_tuning: {adapter_dim: 32, weight_tying: false}, p_tuning: {virtual_tokens: 10}}
  data: {train_ds: {file_names: "???", max_seq_length: 1024, label_key: output}, validation_ds: {file_names: "???"}}
"""
    found = read("nemo", text, "sft.yaml", NAMED)
    assert found.job.seq == 1024
    adapters = [note.text for note in found.notes if "peft" in note.text]
    assert adapters == ["`model.peft` is not simulated: all weights are trained here, as without LoRA"]


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ("  encoder: {num_layers: 12}\n  decoder: {num_layers: 12}\n", "an encoder and a decoder"),
        ("  bert_binary_head: true\n", "an encoder"),
        ("  hybrid_override_pattern: M-M*-\n", "state spaces"),
        ("  mm_cfg: {llm: {freeze: true}}\n", "images and text"),
    ],
)
def test_other_models_are_refused_by_what_they_are(more, kind):
    with pytest.raises(ConfigurationError, match=f"it is of {kind}"):
        nemo(more)


def test_latent_attention_is_read():
    more = """
  multi_latent_attention: true
  q_lora_rank: 1536
  kv_lora_rank: 512
  qk_head_dim: 128
  qk_pos_emb_head_dim: 64
  v_head_dim: 128
"""
    latent = nemo(more).job.model.latent
    assert (latent.q_rank, latent.kv_rank, latent.plain, latent.rotated, latent.values) == (1536, 512, 128, 64, 128)


def test_multi_token_prediction_in_a_layout_is_said_and_left_out():
    found = bridge(
        "model: {pipeline_model_parallel_size: 2, pipeline_model_parallel_layout: 'Et*16|t*16mL'}\n"
        "train: {micro_batch_size: 1, global_batch_size: 16}\n"
    )
    assert found.job.strategy.pipeline == 2
    assert any("multi-token prediction" in note.text for note in found.notes)
