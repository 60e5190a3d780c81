"""Codecs of configurations: what is written is read as the same job, and what is not read is said."""

from dataclasses import replace
from pathlib import Path

import pytest
from drawn_jobs import as_run, job_of
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import most_examples

from distir.configurations import FORMATS, ConfigurationError, Supplied, program_of, read
from distir.configurations.megatron import layout_of, layout_stages
from distir.models import PUBLISHED
from distir.transform.strategy.partial import LOSS
from distir.validate import plan_of, read_runs

ROOT = Path(__file__).parents[2]
READ = [name for name in FORMATS if FORMATS[name].write]
MODELS = ["llama2-7b", "llama3-8b", "llama3-70b", "qwen3-32b", "qwen3-30b-a3b", "mixtral-8x7b", "gpt3-13b"]
DEGREES = st.sampled_from([1, 2, 4, 8])


@st.composite
def jobs(draw):
    name = draw(st.sampled_from(MODELS))
    model = PUBLISHED[name]
    dp, tp = draw(DEGREES), draw(DEGREES)
    pp = draw(st.sampled_from([n for n in (1, 2, 4) if model.layers % n == 0]))
    schedule = draw(st.sampled_from(["1f1b", "interleaved", "gpipe", "zb-v"])) if pp > 1 else "1f1b"
    virtual = 2 if schedule in ("interleaved", "zb-v") else 1
    stages = ()
    if pp > 1 and (draw(st.booleans()) or model.layers % (pp * virtual)):
        each = model.layers // (pp * virtual)
        stages = (each - 1, *[each] * (pp * virtual - 2), model.layers - each * (pp * virtual - 1) + 1)
    zero = draw(st.integers(0, 3)) if dp > 1 else 0
    micro = draw(st.integers(1, 4))
    return job_of(
        name=name,
        model=model,
        seq=draw(st.sampled_from([1024, 2048, 8192])),
        data=dp,
        tensor=tp,
        pipeline=pp,
        context=draw(st.sampled_from([1, 1, 2])),
        expert_parallel=draw(st.sampled_from([n for n in (1, 2, 4) if dp % n == 0])) if model.experts else 1,
        virtual=virtual,
        schedule=schedule,
        stages=stages,
        sequence=tp > 1 and draw(st.booleans()),
        zero=zero,
        shard=draw(st.sampled_from([0, 2])) if zero and dp > 2 else 0,
        micro_batch=micro,
        global_batch=micro * dp * draw(st.sampled_from([pp, 1])) * draw(st.integers(1, 4)),
        precision=draw(st.sampled_from(["bf16", "fp16", "fp8"])),
        gradients=draw(st.sampled_from(["auto", "auto", "bf16"])),
        recompute=draw(st.sampled_from(["none", "full", "selective", "modules:layernorm,core_attn"])),
        fuse=draw(st.booleans()),
        overlap=zero > 0,
        whole=LOSS if tp > 1 and draw(st.booleans()) else (),
    )


def beside(job):
    """What some formats leave to be said beside them."""
    return Supplied(gpus=job.gpus, name=job.name, model=job.model, seq=job.seq)


@pytest.mark.parametrize("name", READ)
@given(jobs())
@settings(max_examples=most_examples(60))
def test_what_is_written_is_read_as_the_same_job(name, job):
    written = FORMATS[name].write(job)
    gpus = FORMATS["fsdp2"].write(job).lost and name == "fsdp2"
    if name == "deepspeed" and job.strategy.pipeline * job.strategy.context > 1:
        gpus = True  # the ranks of pipelines are not in the file
    found = read(name, written.text, "f", replace(beside(job), gpus=None) if gpus else beside(job))
    if not written.lost:
        assert as_run(found.job, found.framework) == as_run(job, found.framework)
    again = FORMATS[name].write(found.job)
    assert read(name, again.text, "f", replace(beside(job), gpus=found.job.gpus)).job == found.job


@given(st.lists(st.integers(0, 90), min_size=2, max_size=40).map(tuple))
def test_a_layout_says_its_stages(stages):
    assert layout_stages(layout_of(stages)) == stages


def test_layouts_of_megatrons_documentation():
    assert layout_stages("Et*3|(tt|)*29,m|L".replace(",m", "")) == (3, *[2] * 29, 0, 0)
    assert layout_stages([["embedding", "decoder"], ["decoder", "decoder", "loss"]]) == (1, 2)
    with pytest.raises(ValueError, match="E at its begin"):
        layout_stages("tt|ttL")


TORCHTITAN = """\
[model]
name = "llama3"
flavor = "8B"
converters = ["quantize.linear.float8"]

[training]
local_batch_size = 2
seq_len = 8192

[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"

[compile]
enable = true
"""


def test_a_job_is_the_run_that_was_measured():
    """Row 3 of torchtitan's measurements, as the configuration that it was started with."""
    run = next(run for run in read_runs(str(ROOT / "examples/measured/torchtitan.csv")) if run.id == "torchtitan:3")
    reading = read("torchtitan", TORCHTITAN, "job.toml", Supplied(gpus=8))
    measured, own = plan_of(run), program_of(reading.job, reading.framework, run.gpu)
    assert own.step.overlapping(()).strategy == measured.step.overlapping(()).strategy
    assert own.batch == measured.batch


def test_degrees_that_are_left_open_take_the_ranks_there_are():
    text = TORCHTITAN + "[parallelism]\ntensor_parallel_degree = 4\npipeline_parallel_degree = 2\n"
    job = read("torchtitan", text, "job.toml", Supplied(gpus=64)).job
    assert (job.strategy.data, job.strategy.tensor, job.strategy.pipeline, job.gpus) == (8, 4, 2, 64)
    assert job.strategy.stages == ()  # 16 and 16: the embedding and the head count as a layer each
    assert job.global_batch == 16
    reading = read("torchtitan", text, "job.toml", Supplied())
    assert reading.job.gpus == 8
    assert any("8 GPUs" in note.text for note in reading.notes)


@pytest.mark.parametrize(
    ("degrees", "lost"),
    [
        ({"zero": 3}, ""),
        ({"zero": 3, "tensor": 2, "etp": 1}, ""),
        ({"zero": 1}, "experts over 4 replicas: torchtitan's are over those that share state, 1 here"),
        ({"zero": 3, "shard": 2}, "experts over 4 replicas: torchtitan's are over those that share state, 2 here"),
        (
            {"zero": 3, "tensor": 4, "etp": 2},
            "experts over 4 replicas: torchtitan shards each expert over 1 or 4, not 2",
        ),
        ({"zero": 3, "pipeline": 2}, "a pipeline: torchtitan 0.2.2 runs none of qwen3"),
    ],
)
def test_experts_of_torchtitan_are_where_it_has_meshes_for_them(degrees, lost):
    sizes = {"seq": 4096, "micro_batch": 1, "global_batch": 64, "sequence": "tensor" in degrees}
    sizes["overlap"] = degrees["zero"] == 3  # as torchtitan always does
    job = job_of(name="qwen3-30b-a3b", model=PUBLISHED["qwen3-30b-a3b"], data=8, expert_parallel=4, **sizes, **degrees)
    written = FORMATS["torchtitan"].write(job)
    assert ("expert_parallel_degree = 4" in written.text) == ("experts" not in lost)
    assert any(lost in line for line in written.lost) if lost else not written.lost


def test_positions_that_bridge_has_no_word_for_are_lost():
    job = job_of(name="gpt3-13b", model=PUBLISHED["gpt3-13b"], seq=1024, micro_batch=1, global_batch=8)
    assert any("learned positions for 2048" in line for line in FORMATS["megatron-bridge"].write(job).lost)
    assert not FORMATS["megatron"].write(job).lost


def test_stages_of_torchtitan_count_the_embedding_and_the_head():
    text = TORCHTITAN + "[parallelism]\npipeline_parallel_degree = 4\n"
    assert read("torchtitan", text, "job.toml", Supplied()).job.strategy.stages == (8, 9, 8, 7)


def test_options_of_earlier_versions_are_read():
    text = TORCHTITAN.replace("local_batch_size", "batch_size").replace("[compile]\nenable = true", "")
    text = text.replace("[training]", "[training]\ncompile = true")
    assert read("torchtitan", text, "f", Supplied()).job == read("torchtitan", TORCHTITAN, "f", Supplied()).job


def test_what_is_not_simulated_is_said_with_its_line():
    text = TORCHTITAN + '[optimizer]\nname = "AdamW"\nearly_step_in_backward = true\nlr = 1.0\n'
    notes = read("torchtitan", text, "job.toml", Supplied(gpus=8)).notes
    assert [note.shown("job.toml") for note in notes] == [
        "job.toml:18: `optimizer.early_step_in_backward` is not simulated",
    ]


PARTS = """
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 16 --swiglu
  --normalization RMSNorm --position-embedding-type rope --vocab-size 32000 --seq-length 2048 --hidden-dropout 0
  --attention-dropout 0 --micro-batch-size 1 --global-batch-size 8 --bf16 --disable-bias-linear
  --recompute-granularity selective
""".replace("\n", " ")


def test_modules_of_megatron_are_recomputed_as_they_are_named():
    found = read("megatron", PARTS + " --recompute-modules layernorm mlp moe_act", "train.sh", Supplied())
    assert found.job.recompute == "modules:layernorm,mlp"
    assert any("no `moe_act`" in note.text for note in found.notes)
    assert "modules=layernorm,mlp" in program_of(found.job, "megatron", "h100_80gb").step.words
    assert "--recompute-modules layernorm mlp" in FORMATS["megatron"].write(found.job).text
    assert read("megatron", PARTS, "train.sh", Supplied()).job.recompute == "modules:core_attn"
    with pytest.raises(ConfigurationError, match="no module `layer_norm`"):
        read("megatron", PARTS + " --recompute-modules layer_norm", "train.sh", Supplied())


def test_squared_relu_is_read_and_written():
    squared = PARTS.replace("--swiglu", "--squared-relu")
    found = read("megatron", squared, "train.sh", Supplied())
    assert found.job.model.activation == "relu_squared"
    assert "--squared-relu" in FORMATS["megatron"].write(found.job).text
    with pytest.raises(ConfigurationError, match="`squared_relu` and `swiglu` contradict each other"):
        read("megatron", PARTS + " --squared-relu", "train.sh", Supplied())


SCRIPT = """\
#!/bin/bash
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-4}
TP=4; PP=2
SEQ=4096
MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096   # of Llama 2
    --ffn-hidden-size 11008
    --num-attention-heads 32
    --seq-length $SEQ
    --position-embedding-type rope
    --normalization RMSNorm
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --vocab-size 32000
    --hidden-dropout 0.0 --attention-dropout 0.0
)
TRAINING="--micro-batch-size 1 --global-batch-size $((4*GPUS_PER_NODE)) --bf16 \\
    --use-distributed-optimizer"
if [ "$TP" -gt 1 ]; then
    TRAINING+=" --sequence-parallel"
fi
if grep -q flash requirements.txt; then
    TRAINING+=" --use-flash-attn"
fi
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py \\
    "${MODEL_ARGS[@]}" ${TRAINING} \\
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP} \\
    --save $1
"""


def test_a_launch_script_is_read():
    reading = read("megatron", SCRIPT, "train.sh", Supplied())
    job = reading.job
    assert (job.name, job.gpus, job.strategy.data, job.strategy.tensor, job.strategy.pipeline) == (
        "llama2-7b",
        32,
        4,
        4,
        2,
    )
    assert (job.seq, job.global_batch, job.strategy.zero, job.strategy.sequence) == (4096, 32, 1, True)
    assert [note.shown("train.sh") for note in reading.notes] == [
        "train.sh:26: not read: it depends on the condition of line 25"
    ]


def test_a_launcher_that_states_no_nodes_starts_one():
    found = read("megatron", PARTS.replace("nproc_per_node 8", "nproc_per_node 4"), "train.sh", Supplied())
    assert (found.job.gpus, found.job.gpus_per_node) == (4, 4)
    assert not any("as it does not say" in note.text for note in found.notes)
    wider = read("megatron", PARTS.replace("batch-size 8", "batch-size 16"), "train.sh", Supplied(gpus=16))
    assert wider.job.gpus == 16
    assert "it starts 8 processes; simulated on 16 GPUs" in "".join(note.text for note in wider.notes)


BRIDGE = """\
model:
  seq_length: 8192
  tensor_model_parallel_size: 2
  sequence_parallel: true
train:
  global_batch_size: 16
  micro_batch_size: 1
optimizer:
  lr: 0.00025
mixed_precision: bf16_mixed
"""


def test_overrides_of_a_recipe_take_its_model_from_beside():
    beside = Supplied(gpus=8, name="llama3-8b", model=PUBLISHED["llama3-8b"])
    job = read("megatron-bridge", BRIDGE, "x.yaml", beside).job
    assert (job.strategy.data, job.strategy.tensor, job.seq, job.strategy.zero, job.overlaps) == (4, 2, 8192, 1, True)
    assert job.model == PUBLISHED["llama3-8b"]


NEMO = """\
trainer:
  devices: 8
  num_nodes: 2
  precision: bf16
model:
  micro_batch_size: 1
  global_batch_size: 64
  tensor_model_parallel_size: 4
  encoder_seq_length: 4096
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 11008
  num_attention_heads: 32
  hidden_dropout: 0.0
  attention_dropout: 0.0
  normalization: rmsnorm
  bias: false
  activation: fast-swiglu
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  activations_checkpoint_granularity: full
  activations_checkpoint_method: uniform
  activations_checkpoint_num_layers: 1
  tokenizer:
    vocab_size: 32000
  optim:
    name: distributed_fused_adam
"""


def test_a_configuration_of_nemo_is_read():
    job = read("nemo", NEMO, "x.yaml", Supplied()).job
    assert (job.name, job.gpus, job.strategy.data, job.strategy.tensor, job.strategy.zero) == ("llama2-7b", 16, 4, 4, 1)
    assert (job.recompute, job.precision, job.global_batch) == ("full", "bf16", 64)


DEEPSPEED = """\
{
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 4,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 3, "contiguous_gradients": true, "zero_quantized_weights": true}
}
"""


def test_batches_of_deepspeed_say_its_ranks():
    beside = Supplied(name="llama3-8b", model=PUBLISHED["llama3-8b"], seq=4096)
    reading = read("deepspeed", DEEPSPEED, "ds.json", beside)
    assert (reading.job.strategy.data, reading.job.strategy.zero, reading.job.overlaps) == (8, 3, True)
    assert [note.shown("ds.json") for note in reading.notes] == [
        "ds.json:6: `zero_optimization.zero_quantized_weights` is not simulated"
    ]


@pytest.mark.parametrize("name", ["train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"])
@pytest.mark.parametrize("size", ["1e18", "2147483648"])
def test_sizes_are_bounded(name, size):
    beside = Supplied(name="llama3-8b", model=PUBLISHED["llama3-8b"])
    with pytest.raises(ConfigurationError, match=f"`{name}` expected a whole number from 1 to 2147483647"):
        read("deepspeed", f'{{"{name}": {size}}}', "ds.json", beside)


def test_a_plan_whose_code_was_changed_says_so():
    job = job_of(
        name="llama3-8b", model=PUBLISHED["llama3-8b"], seq=8192, data=8, zero=3, micro_batch=1, global_batch=8
    )
    text = FORMATS["fsdp2"].write(job).text
    assert read("fsdp2", text, "plan.py", Supplied()).notes == []
    changed = text.replace("reshard_after_forward=False", "reshard_after_forward=True")
    assert "was changed" in read("fsdp2", changed, "plan.py", Supplied()).notes[0].text


def test_a_wrap_plan_runs():
    """Its code shards a model on a mesh of one rank."""
    torch = pytest.importorskip("torch")
    import torch.distributed as dist

    job = job_of(name="llama3-8b", seq=8, data=1, zero=3, recompute="full", micro_batch=1, global_batch=1)
    plan = {}
    exec(FORMATS["fsdp2"].write(job).text.replace('"model.layers"', '"layers"'), plan)
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        wrapped = plan["wrap"](model, "cpu")
    finally:
        dist.destroy_process_group()
    assert type(wrapped).__name__.startswith("FSDP")
    assert all("FSDP" in type(layer).__name__ for layer in wrapped.layers)


@pytest.mark.parametrize(
    ("name", "text", "message", "help"),
    [
        ("torchtitan", TORCHTITAN.replace("flavor", "flavour"), "f:3: torchtitan has no option", "model.flavor"),
        ("torchtitan", TORCHTITAN.replace('"8B"', '"9B"'), "f:3: the model `llama3` of flavor `9B`", "8B"),
        ("torchtitan", "[model\n", "f:1: ", None),
        ("torchtitan", TORCHTITAN.replace("2\n", '"two"\n', 1), "f:7: `training.local_batch_size` expected", None),
        (
            "torchtitan",
            TORCHTITAN + "[parallelism]\ntensor_parallel_degree = 3\n",
            "f: degrees of 3 = 3 do not divide 8 GPUs",
            "multiple of 3",
        ),
        ("megatron", "torchrun x.py --tensor-model-paralel-size 2", "f:1: Megatron-LM has no option", "tensor_model"),
        ("megatron", "torchrun x.py --fp16 --bf16", "contradict", "one of them"),
        ("megatron", 'ARGS="--bf16', "f:1: what begins here never ends", "quotes"),
        ("deepspeed", '{"zero_optimization": {"stage": 4}}', "f:1: there is no ZeRO stage 4", None),
        ("deepspeed", '{"zero_optimisation": {"stage": 1}}', "f:1: DeepSpeed has no option", "zero_optimization"),
        ("deepspeed", '{\n"a": }', "f:2: ", None),
        ("nemo", "model:\n  - 1\n b", "f:3: ", None),
        ("megatron-bridge", "model:\n  tensor_model_parallel_siz: 1", "f:2: Megatron-Bridge has no option", "size"),
        ("fsdp2", "fully_shard(model)", "f: no `PLAN", "distir export"),
        ("fsdp2", "PLAN = {'a': f()}", "f:1: expected a literal", None),
        ("torchtitan-python", "x = 1", "f: no function returns a configuration", None),
        ("torchtitan-python", "def (", "f:1: no Python", None),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(name, text, message, help):
    with pytest.raises(ConfigurationError) as error:
        read(name, text, "f", Supplied(gpus=8))
    assert message in error.value.message
    assert help is None or help in (error.value.help or "")


def test_gradients_in_bf16_go_with_recomputation():
    found = read("megatron", PARTS + " --grad-reduce-in-bf16", "train.sh", Supplied())
    program = program_of(found.job, "megatron", "h100_80gb")
    words = program.step.words
    recomputed = next(index for index, word in enumerate(words) if word.startswith("checkpoint"))
    assert words.index("grad") < words.index("gradients=bf16") < recomputed
    assert [word for word in words if word.startswith("gradients=")] == ["gradients=bf16"]
    assert program.step.on_one_device.entry() is not None
