"""Configurations as frameworks' own examples write them: branches of scripts, references, comments, earlier names."""

import pytest
from drawn_jobs import changed, job_of

from distir.configurations import FORMATS, ConfigurationError, Supplied
from distir.models import PUBLISHED
from distir.models.catalogue import program

BRANCHES = """
SIZE=${SIZE:-70}
if [ $SIZE = 7 ]; then LAYERS=32; elif [ $SIZE = 70 ]; then LAYERS=80; else LAYERS=1; fi
case $SIZE in
  7|8) HIDDEN=4096 ;;
  70)
    HIDDEN=8192; HEADS=64
    ;;
  *) HIDDEN=5 ;;
esac
GROUPS=$(( ${HEADS} / (64 / 8) ))
torchrun --nproc_per_node `nvidia-smi -L | wc -l` pretrain_gpt.py --num-layers $LAYERS --hidden-size $HIDDEN \\
  --num-attention-heads $HEADS --group-query-attention --num-query-groups $GROUPS --seq-length 1024 \\
  --micro-batch-size 1 --global-batch-size 16 --tensor-model-parallel-size 8 --bf16
"""


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("megatron", "--num-layers 2 --fine-grained-activation-offloading"),
        ("megatron-bridge", "model:\n  cpu_offloading: true\n  cpu_offloading_weights: true\n"),
    ],
)
def test_offload_to_the_host_is_refused_not_dropped(form, text):
    with pytest.raises(ConfigurationError, match="offload of weights, or of parts of layers, is not read"):
        FORMATS[form].read(text, "job", Supplied(gpus=8, name="llama3-8b", model=PUBLISHED["llama3-8b"], seq=2048))


@pytest.mark.parametrize(
    ("form", "text", "keeps_weights"),
    [
        ("megatron", "--num-layers 2 --optimizer-cpu-offload", True),
        ("megatron-bridge", "optimizer:\n  optimizer_cpu_offload: true\n", True),
        ("torchtitan", '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nenable_cpu_offload = true\n', False),
        ("deepspeed", '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}', True),
        ("deepspeed", '{"zero_optimization": {"stage": 2, "cpu_offload": true}}', True),
        (
            "deepspeed",
            '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"},'
            ' "offload_param": {"device": "cpu"}}}',
            False,
        ),
    ],
)
def test_optimizer_state_on_the_host_is_read(form, text, keeps_weights):
    given = Supplied(gpus=8, name="llama3-8b", model=PUBLISHED["llama3-8b"], seq=2048, micro_batch=1)
    found = FORMATS[form].read(text, "job", given)
    notes = " ".join(note.text for note in found.notes)
    assert found.job.strategy.state_on_host
    assert "not by the host's processor" in notes
    assert ("weights on the host are not simulated" in notes) != keeps_weights
    assert ("faster" in notes) == ("nvme" in text)
    again = FORMATS[form].write(found.job)
    assert (
        "optimizer state on the host" in again.lost
        or FORMATS[form].read(again.text, "job", given).job.strategy.state_on_host
    )


def test_a_place_that_is_none_is_refused():
    with pytest.raises(ConfigurationError, match=r"offload_optimizer\.device` is `gpu`"):
        FORMATS["deepspeed"].read('{"zero_optimization": {"offload_optimizer": {"device": "gpu"}}}', "d", Supplied())


@pytest.mark.parametrize(
    ("form", "text", "layers"),
    [
        ("megatron", "--num-layers 4 --cpu-offloading-num-layers 2", 2),
        ("megatron-bridge", "model:\n  cpu_offloading: true\n  cpu_offloading_num_layers: 20\n", 20),
        ("megatron-bridge", "model:\n  cpu_offloading: false\n  cpu_offloading_num_layers: 20\n", 0),
    ],
)
def test_offloaded_activations_are_read(form, text, layers):
    supplied = Supplied(gpus=8, name="llama3-8b", model=PUBLISHED["llama3-8b"], seq=2048)
    assert FORMATS[form].read(text, "job", supplied).job.strategy.offloaded == layers


@pytest.mark.parametrize("form", ["megatron", "megatron-bridge", "nemo"])
def test_offloaded_activations_are_written(form):
    job = job_of(
        name="llama3-8b", model=PUBLISHED["llama3-8b"], seq=2048, data=8, zero=1, micro_batch=1, global_batch=8
    )
    job = changed(job, offloaded=5)
    supplied = Supplied(gpus=8, name="llama3-8b", model=PUBLISHED["llama3-8b"], seq=2048)
    assert FORMATS[form].read(FORMATS[form].write(job).text, "job", supplied).job.strategy.offloaded == 5


@pytest.mark.parametrize("form", ["torchtitan", "deepspeed", "fsdp2"])
def test_offloaded_activations_that_cannot_be_written_are_said(form):
    job = job_of(name="llama3-8b", model=PUBLISHED["llama3-8b"], seq=2048, data=8, zero=3, offloaded=5)
    assert "activations of 5 layers on the host" in FORMATS[form].write(job).lost


def test_a_script_of_one_node_is_simulated_on_as_many_gpus_as_are_given():
    text = BRANCHES.replace("`nvidia-smi -L | wc -l`", "8 --nnodes 1")
    assert FORMATS["megatron"].read(text, "train.sh", Supplied()).job.gpus == 8
    found = FORMATS["megatron"].read(text, "train.sh", Supplied(gpus=64))
    assert found.job.gpus == 64
    assert any("starts 8 processes; simulated on 64" in note.text for note in found.notes)


def test_a_job_of_a_mixture_of_experts_in_the_words_of_its_time():
    """As torchtitan/models/deepseek_v3/train_configs/deepseek_v3_16b.toml was written; 15.7e9 weights, as published."""
    text = """
[model]
name = "deepseek_v3"
flavor = "16B"
[training]
local_batch_size = 8
seq_len = 4096
[checkpoint]
initial_load_dequantize = true
[activation_checkpoint]
mode = "full"
[quantize.dense.float8]
filter_fqns = ["output", "router.gate"]
[quantize.moe.float8]
fqns = ["experts"]
"""
    found = FORMATS["torchtitan"].read(text, "job.toml", Supplied(gpus=64))
    assert found.job.recompute == "full"
    weights = [p.type.elements for p in program(found.job.model, 4096, 1).entry().params if "param" in p.roles]
    assert round(sum(weights) / 1e9, 1) == 15.7
    again = FORMATS["torchtitan"].read(FORMATS["torchtitan"].write(found.job).text, "job.toml", Supplied(gpus=64))
    assert again.job == found.job


def test_the_branches_of_a_script_that_hold_are_read():
    read_job = FORMATS["megatron"].read(BRANCHES, "train.sh", Supplied(gpus=16))
    model = read_job.job.model
    assert (model.layers, model.width, model.heads, model.shared_heads) == (80, 8192, 64, 8)
    assert any("nproc_per_node" in note.text and "--gpus" in note.text for note in read_job.notes)


@pytest.mark.parametrize(
    ("form", "text", "said"),
    [
        ("megatron", "--num-moe-experts 8 --num-layers 2", "no option `num_moe_experts`"),
        ("megatron", "--lr-wramup 8 --num-layers 2", "no option `lr_wramup`"),
        ("nemo", "model:\n  optim:\n    lrr: 1\n", "no option `model.optim.lrr`"),
        ("nemo", "trainer:\n  devises: 1\n", "no option `trainer.devises`"),
        ("torchtitan", '[checkpoint]\nintervall = 1\n[model]\nname = "llama3"\n', "no option `checkpoint.intervall`"),
        ("megatron-bridge", "logger:\n  log_intervall: 1\n", "no option `logger.log_intervall`"),
    ],
)
def test_a_misspelt_option_without_effect_is_refused(form, text, said):
    with pytest.raises(ConfigurationError, match=said):
        FORMATS[form].read(text, "job", Supplied(gpus=8))


def test_options_of_earlier_torchtitan_go_by_their_names_of_today():
    text = """
[job]
print_args = false
[model]
name = "llama3"
flavor = "8B"
[training]
batch_size = 1
[checkpoint]
enable_checkpoint = false
[validation]
enabled = false
[float8]
moe_fqns = ["experts"]
"""
    job = FORMATS["torchtitan"].read(text, "job.toml", Supplied(gpus=8)).job
    assert (job.strategy.data, job.micro_batch) == (8, 1)


def test_nemos_references_and_gated_activations():
    text = """
model:
  micro_batch_size: 1
  global_batch_size: 8
  encoder_seq_length: 2048
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 2
  hidden_size: 64
  ffn_hidden_size: ${multiply:3, ${.hidden_size}}
  num_attention_heads: 8
  activation: geglu
"""
    found = FORMATS["nemo"].read(text, "gpt.yaml", Supplied(gpus=8))
    assert (found.job.model.ffn, found.job.model.gated) == (192, True)
    assert not any("refers" in note.text for note in found.notes)


def test_deepspeeds_comments_and_experts():
    text = """{ // as Hjson
  "train_micro_batch_size_per_gpu": 1, # of each rank
  /* two
     lines */
  "expert_parallel": {"enabled": true, "autoep_size": 4, "preset_model": "http://x"},
  "zero_optimization": {"stage": 1, "zenflow": {"topk_ratio": 0.2}}
}"""
    found = FORMATS["deepspeed"].read(
        text, "ds.json", Supplied(gpus=8, name="mixtral-8x7b", model=PUBLISHED["mixtral-8x7b"], seq=512)
    )
    assert found.job.strategy.expert_parallel == 4
    assert [note.line for note in found.notes if "zenflow" in note.text] == [6]


def test_overrides_of_a_recipe_change_the_model_that_is_named():
    text = "model:\n  num_layers: 8\n  seq_length: 2048\ntrain:\n  micro_batch_size: 1\n  global_batch_size: 8\n"
    given = Supplied(gpus=8, name="llama3-8b", model=PUBLISHED["llama3-8b"])
    job = FORMATS["megatron-bridge"].read(text, "job.yaml", given).job
    assert (job.model.layers, job.model.width) == (8, 4096)


def test_torch_fsdp2_that_keeps_weights_is_stage_2():
    text = "--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward --micro-batch-size 1 --global-batch-size 8"
    given = Supplied(gpus=8, name="llama3-8b", model=PUBLISHED["llama3-8b"], seq=2048)
    assert FORMATS["megatron"].read(text, "args.txt", given).job.strategy.zero == 2


@pytest.mark.parametrize(("order", "stages"), [("0F0,0B0\n1F0,1B0\n", 1), ("0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n", 2)])
def test_the_stages_of_a_rank_follow_from_a_schedules_file(order, stages, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.csv").write_text(order)
    text = """
        [model]
        name = "llama3"
        flavor = "8B"
        [parallelism]
        pipeline_parallel_degree = 2
        pipeline_parallel_schedule = "PipelineScheduleMulti"
        pipeline_parallel_schedule_csv = "order.csv"
    """
    assert FORMATS["torchtitan"].read(text, "job.toml", Supplied(gpus=8)).job.strategy.stages_per_device == stages
    (tmp_path / "order.csv").write_text("0F0,0X0\n")
    with pytest.raises(ConfigurationError, match=r"order.csv`, line 1, column 5: expected an action"):
        FORMATS["torchtitan"].read(text, "job.toml", Supplied(gpus=8))
