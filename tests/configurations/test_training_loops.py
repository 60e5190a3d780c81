"""Accelerate's configurations and the Trainer's arguments: what is sharded, batches, precision, what lies beside them.

Options are those of files in public repositories: huggingface/accelerate, examples/config_yaml_templates and
examples/torch_native_parallelism/configs (at 571ca020), huggingface/trl, examples/accelerate_configs (at 0b1bb590),
huggingface/alignment-handbook, recipes/zephyr-7b-beta (at 19f03455), and the examples of llamafactory 0.9.5.
"""

import json

import pytest

from distir.configurations import FORMATS, ConfigurationError, Supplied, program_of, read
from distir.configurations.jobs import BesideFile
from distir.configurations.models import of_name
from distir.models import PUBLISHED
from distir.transform.strategy.partial import LOSS
from distir.validate.memory import parts_by_device
from distir.validate.predictions import simulation_of

pytest.importorskip("yaml")
SMALL = Supplied(name="qwen3-0.6b", model=PUBLISHED["qwen3-0.6b"], seq=512, micro_batch=1)
TRAINED = Supplied(name="qwen3-0.6b", model=PUBLISHED["qwen3-0.6b"], seq=512, gpus=8)


def accelerate(settings, given=SMALL):
    return read("accelerate", json.dumps(settings), "accelerate.yaml", given)


def trainer(text, given=TRAINED, path="train.sh"):
    return read("trainer", text, path, given)


def said(found):
    return " ".join(note.text for note in found.notes)


@pytest.mark.parametrize(
    ("table", "zero", "shard"),
    [
        ({}, 3, 0),
        ({"fsdp_sharding_strategy": "FULL_SHARD"}, 3, 0),
        ({"fsdp_sharding_strategy": 1}, 3, 0),
        ({"fsdp_sharding_strategy": "SHARD_GRAD_OP"}, 2, 0),
        ({"fsdp_sharding_strategy": "NO_SHARD"}, 0, 0),
        ({"fsdp_sharding_strategy": "HYBRID_SHARD"}, 3, 8),
        ({"fsdp_sharding_strategy": 5}, 2, 8),
        ({"fsdp_reshard_after_forward": "HYBRID_SHARD", "fsdp_version": 1}, 3, 8),
        ({"fsdp_version": 2, "fsdp_reshard_after_forward": True}, 3, 0),
        ({"fsdp_version": 2, "fsdp_reshard_after_forward": False}, 2, 0),
    ],
)
def test_each_strategy_of_fsdp_shards_what_it_says(table, zero, shard):
    settings = {"distributed_type": "FSDP", "mixed_precision": "bf16", "num_machines": 2, "num_processes": 16}
    job = accelerate({**settings, "fsdp_config": table}).job
    assert (job.gpus, job.strategy.zero, job.strategy.shard, job.strategy.gradients, job.global_batch) == (
        16,
        zero,
        shard,
        "bf16",
        16,
    )


def test_a_strategy_that_is_none_is_refused_with_those_there_are():
    with pytest.raises(ConfigurationError, match="is `FULL_SHRD`") as refused:
        accelerate({"distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": "FULL_SHRD"}})
    assert "HYBRID_SHARD" in refused.value.help


@pytest.mark.parametrize(
    ("kind", "weights", "gradients", "state"),
    [
        ({"distributed_type": "MULTI_GPU"}, 4, 4, 8),
        ({"distributed_type": "FSDP"}, 4 / 8, 4 / 8, 8 / 8),
        ({"distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": 2}}, 2, 4 / 8, 12 / 8),
        ({"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2}}, 2, 2 / 8, 12 / 8),
        ({"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3}}, 2 / 8, 2 / 8, 12 / 8),
        (
            {
                "distributed_type": "DEEPSPEED",
                "deepspeed_config": {"zero_stage": 3, "offload_optimizer_device": "cpu"},
            },
            2 / 8,
            2 / 8,
            0,
        ),
    ],
)
def test_what_is_sharded_is_what_a_device_holds(kind, weights, gradients, state):
    found = accelerate({"mixed_precision": "bf16", "num_processes": 8, **kind})
    program = program_of(found.job, found.framework, "h100_80gb")
    parts = parts_by_device(program, simulation_of(program))
    held = max(parts.values(), key=lambda each: each.needed)
    count = 596e6
    assert held.weights / count == pytest.approx(weights, rel=0.03)
    assert held.gradients / count == pytest.approx(gradients, rel=0.03)
    assert held.optimizer / count == pytest.approx(state, rel=0.03, abs=0.01)


def test_degrees_beside_fsdp_are_read():
    table = {"dp_replicate_size": 2, "dp_shard_size": 2, "tp_size": 2, "cp_size": 1}
    named = {f"parallelism_config_{name}": size for name, size in table.items()}
    settings = {"distributed_type": "FSDP", "mixed_precision": "bf16", "num_processes": 8}
    job = accelerate({**settings, "parallelism_config": named}).job
    assert (job.strategy.data, job.strategy.tensor, job.strategy.shard, job.strategy.whole) == (4, 2, 2, LOSS)
    parts = {"parallelism_config_cp_size": 4, "parallelism_config_dp_shard_size": 2}
    job = accelerate({**settings, "parallelism_config": parts}).job
    assert (job.strategy.data, job.strategy.context, job.strategy.zero) == (2, 4, 3)


def test_parts_of_sequences_of_deepspeed_are_exchanged_for_heads():
    settings = {"distributed_type": "DEEPSPEED", "mixed_precision": "bf16", "num_processes": 4}
    found = accelerate({**settings, "parallelism_config": {"parallelism_config_sp_size": 2}})
    assert (found.job.strategy.data, found.job.strategy.context, found.framework) == (2, 2, "deepspeed")
    assert "cp_kind=a2a" in program_of(found.job, found.framework, "h100_80gb").step.words


def test_what_other_files_say_is_read_beside_a_configuration(tmp_path):
    beside = tmp_path / "deepspeed" / "ds.json"
    beside.parent.mkdir()
    beside.write_text('{"zero_optimization": {"stage": 1}, "gradient_accumulation_steps": 4, "amp": {"enabled": true}}')
    place = tmp_path / "configs" / "accelerate.yaml"
    text = (
        "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: deepspeed/ds.json\n"
    )
    found = read("accelerate", text, str(place), SMALL)
    assert (found.job.strategy.zero, found.job.global_batch) == (1, 32)
    assert f"{beside}:1: `amp` is not simulated" in said(found)
    given = Supplied(**{**fields(SMALL), "beside": BesideFile("other.json", '{"zero_optimization": {"stage": 3}}')})
    assert read("accelerate", text, str(place), given).job.strategy.zero == 3


def fields(given):
    return {name: getattr(given, name) for name in given.__dataclass_fields__}


def test_what_a_missing_file_is_called_is_assumed_and_said():
    found = trainer("per_device_train_batch_size: 1\nbf16: true\ndeepspeed: configs/ds_z3_offload_config.json\n")
    assert (found.job.strategy.zero, found.job.strategy.state_on_host) == (3, True)
    assert "`configs/ds_z3_offload_config.json` is not there: ZeRO-3 is assumed" in said(found)
    with pytest.raises(ConfigurationError, match=r"names `ds_config\.json`, which is not there") as refused:
        trainer("per_device_train_batch_size: 1\ndeepspeed: ds_config.json\n")
    assert "--with FILE" in refused.value.help


SCRIPT = """
MODEL=meta-llama/Llama-2-7b-hf
torchrun --nproc_per_node=4 --master_port=20003 train.py --model_name_or_path $MODEL --bf16 True \\
    --per_device_train_batch_size 2 --gradient_accumulation_steps 32 --fsdp "full_shard auto_wrap offload" \\
    --fsdp_transformer_layer_cls_to_wrap 'LlamaDecoderLayer' --model_max_length 1024 \\
    --gradient_checkpointing True --learning_rate 2e-5 --my_own_flag 3
"""


def test_arguments_of_a_script_say_model_batches_and_sharding():
    found = trainer(SCRIPT, Supplied())
    job = found.job
    assert (job.name, job.gpus, job.strategy.zero, job.seq, job.recompute) == ("llama2-7b", 4, 3, 1024, "full")
    assert (job.micro_batch, job.global_batch, job.strategy.state_on_host) == (2, 2 * 32 * 4, True)
    assert "arguments of the script itself are not read: my_own_flag" in said(found)
    assert trainer(SCRIPT.replace("full_shard", "hybrid_shard_zero2"), Supplied(gpus=16)).job.strategy.zero == 2


def test_a_launcher_names_the_configuration_and_its_options_override_it(tmp_path):
    (tmp_path / "zero2.yaml").write_text(
        "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 2\n"
    )
    command = "accelerate launch --config_file zero2.yaml --num_processes 4 run.py --per_device_train_batch_size 1"
    found = trainer(command, SMALL, str(tmp_path / "run.sh"))
    assert (found.job.strategy.zero, found.job.gpus, found.framework) == (2, 4, "deepspeed")
    flags = "accelerate launch --use_fsdp --fsdp_sharding_strategy 2 --mixed_precision bf16 --num_processes 4 run.py"
    found = trainer(f"{flags} --per_device_train_batch_size 1", SMALL)
    assert (found.job.strategy.zero, found.job.gpus, found.framework) == (2, 4, "fsdp2")


def test_a_recipe_is_distributed_by_the_file_that_is_given():
    recipe = "bf16: true\ngradient_checkpointing: true\nmax_seq_length: 256\nper_device_train_batch_size: 16\n"
    alone = trainer(recipe, path="sft.yaml").job
    assert (alone.strategy.zero, alone.micro_batch, alone.global_batch, alone.seq) == (0, 16, 128, 512)
    text = "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\n"
    given = Supplied(**{**fields(TRAINED), "beside": BesideFile("fsdp.yaml", text)})
    assert trainer(recipe, given, "sft.yaml").job.strategy.zero == 3
    given = Supplied(**{**fields(TRAINED), "beside": BesideFile("z.json", '{"zero_optimization": {"stage": 1}}')})
    found = trainer(recipe, given, "sft.yaml")
    assert (found.job.strategy.zero, found.framework, found.job.micro_batch) == (1, "deepspeed", 16)


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("finetuning_type: lora", "all weights are trained here"),
        ("lora_r: 16", "all weights are trained here"),
        ("load_in_4bit: true", "not quantised"),
        ("stage: dpo", "`dpo` is simulated as a step of a language model"),
        ("optim: paged_adamw_8bit", "the state of `paged_adamw_8bit` is simulated as AdamW's"),
        ("pure_bf16: true", "bfloat16 alone"),
        ("torch_dtype: bfloat16", "in 16 bits alone"),
        ("use_liger_kernel: true", "`use_liger_kernel` is not simulated"),
        ("tf32: true", "TF32"),
    ],
)
def test_what_of_a_training_loop_is_not_simulated_is_said(line, note):
    assert note in said(trainer(f"per_device_train_batch_size: 1\n{line}\n", path="sft.yaml"))


def test_weights_in_16_bits_compute_in_16_bits():
    assert trainer("per_device_train_batch_size: 1\ntorch_dtype: bfloat16\n").job.precision == "bf16"
    assert trainer("per_device_train_batch_size: 1\ntorch_dtype: float32\n").job.precision == "fp32"


def test_layers_are_recomputed_as_the_library_does():
    factory = trainer("cutoff_len: 512\nfinetuning_type: full\nper_device_train_batch_size: 1\nbf16: true\n")
    assert factory.job.recompute == "full"
    assert "as LLaMA-Factory does" in said(factory)
    plain = trainer("per_device_train_batch_size: 1\nbf16: true\n")
    assert plain.job.recompute == "none"
    assert "`gradient_checkpointing` is not set" in said(plain)
    wrapped = '{"fsdp": "full_shard", "bf16": true, "fsdp_config": {"activation_checkpointing": true}}'
    assert "`gradient_checkpointing` is not set" not in said(trainer(wrapped))


def test_megatrons_arguments_among_the_trainers_are_refused():
    with pytest.raises(ConfigurationError, match="`tensor_model_parallel_size`: Megatron's arguments"):
        trainer("per_device_train_batch_size: 1\ntensor_model_parallel_size: 2\n")


def test_a_misspelt_argument_is_refused_and_one_of_a_script_is_not():
    with pytest.raises(ConfigurationError) as refused:
        trainer("--gradient_acumulation_steps 4 --per_device_train_batch_size 1")
    assert "gradient_accumulation_steps" in refused.value.help
    with pytest.raises(ConfigurationError, match="`--micro-batch` says 4"):
        trainer("--per_device_train_batch_size 1", Supplied(**{**fields(TRAINED), "micro_batch": 4}))


@pytest.mark.parametrize(
    ("repository", "name"),
    [
        ("meta-llama/Llama-2-7b-hf", "llama2-7b"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama3-8b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3.1-70b"),
        ("mistralai/Mistral-7B-v0.1", "mistral-7b"),
        ("Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"),
        ("/models/Mixtral-8x7B-v0.1/", "mixtral-8x7b"),
        ("mistralai/Mistral-7B-v0.3", None),
        ("Qwen/Qwen3-VL-8B-Instruct", None),
        ("meta-llama/Llama-3.2-1B", "llama3.2-1b"),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "qwen2.5-7b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", None),
    ],
)
def test_a_repository_is_a_published_model_where_its_sizes_are_the_same(repository, name):
    found = of_name(repository)
    assert (found and found[0]) == name


def test_formats_that_are_only_read_say_so():
    assert FORMATS["accelerate"].write is None
    assert FORMATS["trainer"].write is None
