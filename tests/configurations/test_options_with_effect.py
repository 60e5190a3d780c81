"""Options that change memory or time: what is simulated changes with them, or they are named."""

import pytest

from distir.configurations import FORMATS, ConfigurationError, Supplied, answer, program_of
from distir.configurations.answers import peak_flops
from distir.cost import load
from distir.models import PUBLISHED
from distir.transform.strategy.partial import LOSS

MEGATRON = (
    "--num-layers 2 --hidden-size 256 --num-attention-heads 4 --seq-length 512 --vocab-size 1024 --swiglu "
    "--position-embedding-type rope --normalization RMSNorm --disable-bias-linear --hidden-dropout 0 "
    "--attention-dropout 0 --micro-batch-size 1 --global-batch-size 8 "
)
NAMED = Supplied(gpus=8, name="qwen3-0.6b", model=PUBLISHED["qwen3-0.6b"], seq=2048)


def megatron(more, **given):
    return FORMATS["megatron"].read(MEGATRON + more, "run.sh", Supplied(**{"gpus": 4, **given}))


def simulated(found, gpu="h100_80gb"):
    program = program_of(found.job, found.framework, gpu)
    return program, answer(found.job, program)


def deepspeed(text, **given):
    return FORMATS["deepspeed"].read(text, "ds.json", Supplied(**{"gpus": 8, **given}))


def torchtitan(text, **given):
    return FORMATS["torchtitan"].read(text, "job.toml", Supplied(**{"gpus": 8, **given}))


@pytest.mark.parametrize(
    "more", ["", "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"]
)
def test_gradients_in_bf16_take_half_the_buffers(more):
    _, wide = simulated(megatron(f"--bf16 {more}"))
    program, narrow = simulated(megatron(f"--bf16 --grad-reduce-in-bf16 {more}"))
    weights = sum(p.type.elements for p in program.step.on_one_device.entry().params if "param" in p.roles)
    assert wide.memory.needed - narrow.memory.needed >= 1.9 * weights


def test_gradients_of_fp16_are_fp16_unless_asked_otherwise():
    assert megatron("--fp16").job.strategy.gradients == "fp16"
    assert megatron("--fp16 --accumulate-allreduce-grads-in-fp32").job.strategy.gradients == "auto"


def test_a_float32_job_computes_in_float32():
    found = megatron("")
    assert found.job.precision == "fp32"
    assert any("float32" in note.text for note in found.notes)
    program, said = simulated(found, "a100_80gb")
    params = program.step.on_one_device.entry().params
    assert {p.type.dtype.name for p in params if "param" in p.roles} == {"Float32"}
    assert peak_flops(load("dgx-a100"), "fp32") == 19.5e12
    half, faster = simulated(megatron("--bf16"), "a100_80gb")
    assert said.step_time_s > faster.step_time_s
    assert {p.type.dtype.name for p in half.step.on_one_device.entry().params if "param" in p.roles} == {"BFloat16"}


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("torchtitan", '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nmixed_precision_param = "float32"\n'),
        ("deepspeed", '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1}}'),
        ("nemo", "trainer:\n  precision: 32\nmodel:\n  num_layers: 2\n  hidden_size: 64\n  num_attention_heads: 4\n"),
        ("fsdp2", "PLAN = {'model': 'llama3-8b', 'param_dtype': 'float32'}\n"),
    ],
)
def test_float32_is_read_in_each_format(form, text):
    found = FORMATS[form].read(text, "job", NAMED)
    assert found.job.precision == "fp32"
    again = FORMATS[form].write(found.job)
    assert not any("precision" in line for line in again.lost)


def test_unfused_attention_keeps_its_scores():
    _, fused = simulated(megatron("--bf16"))
    _, unfused = simulated(megatron("--bf16 --attention-backend unfused"))
    scores = 2 * 4 * 512 * 512 * 2  # layers, heads, pairs of tokens, bytes
    assert unfused.memory.needed - fused.memory.needed >= 0.99 * scores  # less what the fused kernel saves of each row
    assert megatron("--bf16 --transformer-impl local").job.attention == "fused"
    assert megatron("--bf16 --transformer-impl local --use-flash-attn").job.attention == ""


@pytest.mark.parametrize(
    "option",
    ["--no-gradient-accumulation-fusion", "--no-rope-fusion", "--no-bias-swiglu-fusion", "--deterministic-mode",
     "--cross-entropy-loss-fusion", "--use-checkpoint-args", "--spec some.module layer", "--untie-everything 3"],
)  # fmt: skip
def test_what_has_no_effect_here_is_named(option):
    name = option.partition(" ")[0][2:].replace("-", "_")
    assert [note.line for note in megatron(f"--bf16 {option}").notes if f"`{name}` is not simulated" in note.text] == [
        1
    ]


def test_gradients_of_deepspeed_are_added_up_as_it_says():
    text = '{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2, "bf16": {"enabled": true},'
    text += '"zero_optimization": {"stage": 1}, "data_types": {"grad_accum_dtype": "%s"}}'
    given = {"name": "qwen3-0.6b", "model": PUBLISHED["qwen3-0.6b"], "seq": 512}
    wide, narrow = (
        program_of(deepspeed(text % word, **given).job, "deepspeed", "h100_80gb") for word in ("fp32", "bf16")
    )
    assert (wide.memory.gradients, narrow.memory.gradients) == (4, 2)
    assert "gradients=fp32" in wide.step.words
    assert "gradients=bf16" in narrow.step.words


def test_what_the_trainer_fills_in_is_given_beside_the_file():
    text = '{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}}'
    found = deepspeed(text, micro_batch=2, global_batch=64)
    assert (found.job.micro_batch, found.job.global_batch, found.job.strategy.data, found.job.precision) == (
        2,
        64,
        8,
        "bf16",
    )
    assert deepspeed(text, micro_batch=2).job.global_batch == 16
    assert any("`bf16.enabled` is left open (auto)" in note.text for note in found.notes)
    with pytest.raises(ConfigurationError, match="is 4, and `--micro-batch` says 2"):
        deepspeed('{"train_micro_batch_size_per_gpu": 4}', micro_batch=2)


def test_autocast_and_sections_of_deepspeed_are_named():
    text = """{"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
"torch_autocast": {"enabled": true, "dtype": "bfloat16"},
"curriculum_learning": {"enabled": true, "params": {"min_difficulty": 8, "max_difficulty": 64}},
"elasticity": {"enabled": false, "max_train_batch_size": 2000}}"""
    said = {note.text: note.line for note in deepspeed(text).notes}
    assert said["`torch_autocast.enabled` is not simulated"] == 2
    assert said["`curriculum_learning` is not simulated"] == 3
    assert not any("elasticity" in text for text in said)


def test_all_misspelt_options_are_refused_at_once():
    text = '[model]\nname = "llama3"\nflavour = "8B"\n[training]\nseq_lenn = 8\n[checkpoint]\nintervall = 5\n'
    with pytest.raises(ConfigurationError) as refused:
        torchtitan(text)
    assert refused.value.message == (
        "job.toml:3: torchtitan has no option `model.flavour`, nor `training.seq_lenn` (line 5), "
        "`checkpoint.intervall` (line 7)"
    )
    assert "`training.seq_len` for `training.seq_lenn`" in refused.value.help


def test_a_file_of_another_kind_is_refused():
    with pytest.raises(ConfigurationError, match="DeepSpeed has no option `hidden_size`, nor `num_hidden_layers`"):
        deepspeed('{"hidden_size": 4096, "num_hidden_layers": 32}')


EARLY = """
[model]
name = "llama3"
flavor = "8B"
norm_type = "rmsnorm"
[optimizer]
fused = true
[training]
batch_size = 4
seq_len = 2048
warmup_steps = 200
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
enable_float8_linear = true
disable_loss_parallel = true
[experimental]
pipeline_parallel_degree = 2
pipeline_parallel_microbatches = 2
pipeline_parallel_split_points = "layers.15"
pipeline_parallel_schedule = "1f1b"
enable_async_tensor_parallel = false
context_parallel_degree = 1
[lr_scheduler]
lr_min = 0.1
"""


def test_a_job_before_0_1_is_read():
    found = torchtitan(EARLY)
    job = found.job
    assert (job.strategy.data, job.strategy.tensor, job.strategy.pipeline, job.micro_batch, job.global_batch) == (
        2,
        2,
        2,
        2,
        8,
    )
    assert (job.strategy.stages, job.precision, job.strategy.whole) == ((15, 17), "fp8", LOSS)
    assert not [note for note in found.notes if "no such option" in note.text]


@pytest.mark.parametrize(
    ("name", "flavor", "layers", "width"),
    [("gpt_oss", "debugmodel", 4, 256), ("deepseek_v3", "debugmodel", 6, 256), ("qwen3", "debugmodel_moe", 8, 256),
     ("llama3", "debugmodel_flex_attn", 6, 256), ("simple_fsdp.llama3", "70B", 80, 8192), ("llama2", "13B", 40, 5120),
     ("llama", "7B", 32, 4096),
     ("deepseek_v3", "236B", 60, 5120)],
)  # fmt: skip
def test_flavors_of_torchtitan(name, flavor, layers, width):
    model = torchtitan(f'[model]\nname = "{name}"\nflavor = "{flavor}"\n').job.model
    assert (model.layers, model.width) == (layers, width)


NEMO = {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "encoder_seq_length": 64, "micro_batch_size": 1}


def nemo(**more):
    lines = "".join(f"  {name}: {value}\n" for name, value in {**NEMO, **more}.items())
    return FORMATS["nemo"].read(f"trainer:\n  precision: bf16\nmodel:\n{lines}", "gpt.yaml", Supplied(gpus=8))


def test_layers_to_recompute_may_be_none():
    found = nemo(activations_checkpoint_granularity="null", activations_checkpoint_num_layers=0)
    assert found.job.recompute == "none"


def test_biases_of_queries_are_read_by_their_name_in_nemo():
    found = nemo(bias="false", qkv_bias="true")
    assert (found.job.model.attention_bias, found.job.model.mlp_bias) == (True, False)


def test_adapters_are_named():
    text = "peft:\n  dim: 8\n  alpha: 16\ntrain:\n  micro_batch_size: 1\n  global_batch_size: 8\n"
    notes = FORMATS["megatron-bridge"].read(text, "job.yaml", NAMED).notes
    assert [note.text for note in notes if "peft" in note.text] == [
        "`peft` is not simulated: all weights are trained here, as without LoRA"
    ]
