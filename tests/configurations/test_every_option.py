"""Each option of each format is carried, or named as not simulated, or declared to be without effect.

A law over all known options: one that is not declared idle, set to another value than its default, changes the job, is
reported, or is refused, in one of a few jobs.
"""

import json
from dataclasses import replace

import pytest

from distir.configurations import (
    FORMATS,
    ConfigurationError,
    Supplied,
    accelerate,
    deepspeed,
    megatron,
    nemo,
    torchtitan,
    trainer,
)
from distir.models import PUBLISHED

DENSE = Supplied(gpus=64, name="llama3-8b", model=PUBLISHED["llama3-8b"], seq=2048)
EXPERTS = Supplied(gpus=64, name="mixtral-8x7b", model=PUBLISHED["mixtral-8x7b"], seq=2048)
OWN = Supplied(gpus=64, seq=2048)

SIZES = {"num_layers": 8, "hidden_size": 1024, "num_attention_heads": 16, "vocab_size": 32000, "seq_length": 1024}
LATENT = {"multi_latent_attention": True, "q_lora_rank": 512, "kv_lora_rank": 256, "qk_head_dim": 64,
          "qk_pos_emb_head_dim": 32, "v_head_dim": 64, "normalization": "RMSNorm", "swiglu": True}  # fmt: skip
MEGATRON = {**SIZES, "micro_batch_size": 1, "global_batch_size": 64, "bf16": True}
JOBS = {
    "megatron": [
        (MEGATRON, OWN),
        (
            {
                **MEGATRON,
                "position_embedding_type": "rope",
                "recompute_granularity": "full",
                "recompute_method": "block",
                "recompute_num_layers": 1,
                "group_query_attention": True,
                "use_distributed_optimizer": True,
                "tensor_model_parallel_size": 2,
                "sequence_parallel": True,
            },
            OWN,
        ),
        (
            {
                **MEGATRON,
                "num_experts": 8,
                "expert_model_parallel_size": 2,
                "tensor_model_parallel_size": 2,
                "swiglu": True,
            },
            OWN,
        ),
        ({**MEGATRON, "pipeline_model_parallel_size": 2, "num_layers": 12, "disable_bias_linear": True}, OWN),
        ({**MEGATRON, "cpu_offloading": False, "cpu_offloading_num_layers": 2}, OWN),
        ({name: value for name, value in MEGATRON.items() if name != "micro_batch_size"}, OWN),
        ({**MEGATRON, **LATENT, "num_experts": 8}, OWN),
        (
            {
                **MEGATRON,
                "fp8_format": "hybrid",
                "attention_backend": "unfused",
                "cpu_offloading_num_layers": 2,
                "recompute_granularity": "selective",
                "use_megatron_fsdp": True,
            },
            OWN,
        ),
        (
            {
                **MEGATRON,
                "optimizer": "muon",
                "tensor_model_parallel_size": 2,
                "fp16": True,
                "bf16": False,
                "transformer_impl": "local",
            },
            OWN,
        ),
    ],
    "torchtitan": [
        ({"model.name": "llama3", "model.flavor": "8B"}, OWN),
        (
            {
                "model.name": "llama3",
                "model.flavor": "8B",
                "parallelism.pipeline_parallel_degree": 2,
                "parallelism.tensor_parallel_degree": 2,
                "compile.enable": True,
            },
            OWN,
        ),
        (
            {
                "model.name": "qwen3",
                "model.flavor": "30B-A3B",
                "parallelism.expert_parallel_degree": 4,
                "parallelism.tensor_parallel_degree": 2,
                "model.converters": ["quantize.linear.float8"],
            },
            OWN,
        ),
        ({"model.name": "llama3", "model.flavor": "8B", "activation_checkpoint.mode": "memory_budget"}, OWN),
    ],
    "deepspeed": [
        ({"train_micro_batch_size_per_gpu": 1, "bf16.enabled": True, "zero_optimization.stage": 3}, DENSE),
        ({"train_batch_size": 128, "zero_optimization.stage": 1}, DENSE),
        ({"train_micro_batch_size_per_gpu": 1, "torch_autocast.enabled": True}, DENSE),
        (
            {"train_micro_batch_size_per_gpu": 1, "expert_parallel.enabled": False, "expert_parallel.autoep_size": 2},
            EXPERTS,
        ),
    ],
    "megatron-bridge": [
        (
            {
                "train.micro_batch_size": 1,
                "train.global_batch_size": 64,
                **{f"model.{name}": value for name, value in (SIZES | LATENT).items() if name != "swiglu"},
            },
            OWN,
        ),
        ({"train.micro_batch_size": 1, "train.global_batch_size": 64}, DENSE),
        (
            {
                "train.micro_batch_size": 1,
                "train.global_batch_size": 64,
                "model.pipeline_model_parallel_size": 2,
                "model.tensor_model_parallel_size": 2,
                "model.recompute_granularity": "full",
                "model.sequence_parallel": True,
                "model.recompute_method": "block",
                "model.cpu_offloading_num_layers": 2,
            },
            DENSE,
        ),
        (
            {
                "train.micro_batch_size": 1,
                "train.global_batch_size": 64,
                "model.expert_model_parallel_size": 2,
                "model.tensor_model_parallel_size": 2,
                "optimizer.optimizer": "muon",
            },
            EXPERTS,
        ),
        (
            {
                "train.micro_batch_size": 1,
                "train.global_batch_size": 64,
                **{f"model.{k}": v for k, v in SIZES.items()},
                "mixed_precision": "bf16_with_fp8_delayed_scaling_mixed",
                "model.recompute_granularity": "selective",
                "model.attention_backend": "unfused",
                "ddp.use_megatron_fsdp": True,
                "model.cpu_offloading": True,
            },
            OWN,
        ),
        (
            {
                "train.micro_batch_size": 1,
                "train.global_batch_size": 64,
                **{f"model.{k}": v for k, v in SIZES.items()},
                "model.num_moe_experts": 8,
                "model.position_embedding_type": "rope",
                "mixed_precision": "fp16_mixed",
            },
            OWN,
        ),
    ],
}
NEMO = {"model.micro_batch_size": 1, "model.global_batch_size": 64, "trainer.precision": "bf16",
        "model.encoder_seq_length": 1024, "model.num_layers": 8, "model.hidden_size": 1024,
        "model.num_attention_heads": 16}  # fmt: skip
JOBS["nemo"] = [
    (NEMO, OWN),
    ({name: value for name, value in NEMO.items() if name != "trainer.precision"} | {"model.bias": False}, OWN),
    ({**NEMO, "model.pipeline_model_parallel_size": 2, "model.tensor_model_parallel_size": 2,
      "model.sequence_parallel": True,
      "model.activations_checkpoint_granularity": "full", "model.activations_checkpoint_method": "block",
      "model.cpu_offloading_num_layers": 2}, OWN),
    ({**NEMO, "model.num_moe_experts": 8, "model.position_embedding_type": "rope", "model.fp8": True,
      "model.expert_model_parallel_size": 2, "model.activations_checkpoint_granularity": "selective"}, OWN),
    ({**NEMO, "model.fsdp": True}, OWN),
    ({**NEMO, **{f"model.{name}": value for name, value in LATENT.items() if name != "swiglu"}}, OWN),
]  # fmt: skip
BATCH = replace(DENSE, micro_batch=1)
JOBS["accelerate"] = [
    ({"distributed_type": "FSDP", "mixed_precision": "bf16", "num_processes": 64, "num_machines": 8}, BATCH),
    ({"distributed_type": "FSDP", "mixed_precision": "bf16", "fsdp_config.fsdp_version": 2}, BATCH),
    ({"distributed_type": "DEEPSPEED", "mixed_precision": "bf16"}, BATCH),
    ({"distributed_type": "DEEPSPEED", "mixed_precision": "bf16", "deepspeed_config.zero_stage": 3}, BATCH),
    ({"distributed_type": "MEGATRON_LM", "mixed_precision": "bf16"}, BATCH),
    (
        {
            "distributed_type": "MEGATRON_LM",
            "mixed_precision": "bf16",
            "megatron_lm_config.megatron_lm_tp_degree": 2,
            "megatron_lm_config.megatron_lm_pp_degree": 2,
            "megatron_lm_config.megatron_lm_recompute_granularity": "full",
            "megatron_lm_config.megatron_lm_recompute_method": "block",
        },
        BATCH,
    ),
    ({"distributed_type": "MEGATRON_LM", "megatron_lm_config.megatron_lm_expert_model_parallel_size": 2,
      "megatron_lm_config.megatron_lm_tp_degree": 2}, replace(EXPERTS, micro_batch=1)),
    ({"dynamo_config.dynamo_backend": "inductor", "num_processes": 64, "distributed_type": "MULTI_GPU"}, BATCH),
]  # fmt: skip
JOBS["trainer"] = [
    ({"per_device_train_batch_size": 1, "bf16": True}, DENSE),
    ({"per_device_train_batch_size": 1}, replace(DENSE, seq=None)),
    ({"per_device_train_batch_size": 1, "cutoff_len": 512, "finetuning_type": "lora"}, DENSE),
    ({"per_device_train_batch_size": 1, "bf16": True, "fsdp": "full_shard auto_wrap"}, DENSE),
    ({"per_device_train_batch_size": 1, "deepspeed": True, "deepspeed_config": "zero3.json"}, DENSE),
    ({"per_device_train_batch_size": 1, "torch_compile": True}, replace(DENSE, name="", model=None)),
]
KNOWN = {
    "megatron": megatron.ARGUMENTS,
    "torchtitan": torchtitan.KNOWN,
    "deepspeed": deepspeed.KNOWN,
    "megatron-bridge": nemo.BRIDGE,
    "nemo": nemo.NEMO,
    "accelerate": accelerate.KNOWN,
    "trainer": trainer.KNOWN,
}


def nested(settings):
    """Tables within tables, of names with dots."""
    table = {}
    for name, value in settings.items():
        *tables, last = name.split(".")
        at = table
        for each in tables:
            at = at.setdefault(each, {})
            if not isinstance(at, dict):
                return {}
        at[last] = value
    return table


def toml(settings):
    lines = []
    for name, value in settings.items():
        lines.append(f"{name} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def text(form, settings):
    if form == "megatron":
        words = {f"--{name.replace('_', '-')}": value for name, value in settings.items()}
        return " ".join(word if value is True else f"{word} {value}" for word, value in words.items())
    return toml(settings) if form == "torchtitan" else json.dumps(nested(settings))


def outcome(form, settings, given):
    """The job, and what was said of it, or why it was refused."""
    try:
        found = FORMATS[form].read(text(form, settings), "job", given)
    except ConfigurationError as error:
        return error.message
    return found.job, frozenset(note.text for note in found.notes)


def others(default):
    """Values that are not the default."""
    if isinstance(default, bool):
        return [True, False]
    if isinstance(default, (int, float)):
        return [2 * default + 2, 3]
    return [True, False, 2, "x", ["x"]]


@pytest.mark.parametrize("form", KNOWN)
def test_each_option_is_carried_or_named_or_declared_idle(form):
    pytest.importorskip("yaml")
    known, silent = KNOWN[form], []
    plain = [(settings, given, outcome(form, settings, given)) for settings, given in JOBS[form]]
    assert not [found for _, _, found in plain if isinstance(found, str)]
    for name, default in known.defaults.items():
        if known.is_idle(name):
            continue
        said = (
            outcome(form, {**settings, name: value}, given) != before
            for settings, given, before in plain
            for value in others(default)
            if settings.get(name) != value
        )
        if not any(said):
            silent.append(name)
    assert not silent
