"""Jobs in the forms in which strangers publish them: of forks and eras, scripts with arguments, Python."""

import re

import pytest

from distir.configurations import FORMATS, ConfigurationError, Supplied, answer, program_of
from distir.configurations.carried import stated
from distir.configurations.jobs import BesideFile
from distir.configurations.models import of_flavor, of_name
from distir.models.catalogue import program

SIZES = (
    "--num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --swiglu --normalization RMSNorm "
    "--position-embedding-type rope --disable-bias-linear --hidden-dropout 0 --attention-dropout 0 "
    "--micro-batch-size 1 --global-batch-size 64 --bf16"
)
VOCABULARY = "--vocab-size 32000"
RUN = f"torchrun --nproc_per_node 8 pretrain_gpt.py {SIZES} {VOCABULARY}"


def read(text, form="megatron", **given):
    return FORMATS[form].read(text, "run.sh", Supplied(**given))


def texts(reading):
    return [note.text for note in reading.notes]


# In the forms of alibaba/Pai-Megatron-Patch, examples/llama2/run_pretrain_megatron_llama.sh, commit 16a5fa24.
OF_ARGUMENTS = """#!/bin/bash
#sh run.sh dsw /workspace 7B 2 16 bf16 2 sel true
ENV=$1
MODEL_SIZE=$3
BATCH_SIZE=$4
GLOBAL_BATCH_SIZE=$5
PR=$6
TP=$7
AC=$8
SP=$9
if [ $ENV = dsw ]; then
NNODES=1
GPUS_PER_NODE=8
elif [ $ENV = dlc ]; then
NNODES=${WORLD_SIZE}
GPUS_PER_NODE=${KUBERNETES_CONTAINER_RESOURCE_GPU}
fi
if [ $MODEL_SIZE = 7B ]; then
NUM_LAYERS=32
elif [ $MODEL_SIZE = 13B ]; then
NUM_LAYERS=40
fi
if [ $AC = full ]; then
    ac_options=" \\
        --recompute-method uniform --recompute-granularity full"
elif [ $AC = sel ]; then
    ac_options=" \\
        --recompute-activations"
fi
if [ $PR = bf16 ]; then
    pr_options=" \\
        --bf16"
elif [ $PR = fp16 ]; then
    pr_options=" --fp16"
fi
if [ $SP = true ] && [ $TP -gt 1 ]; then
    sp_options=" --sequence-parallel"
elif [ $SP = false ]; then
    sp_options=" "
fi
COMM_OVERLAP=$(( ($TP > 1) ? 1 : 0 ))
if [ $COMM_OVERLAP -eq 1 ]; then
    overlap=" --overlap-grad-reduce --overlap-param-gather"
fi
if [ -z ${MP_VP} ]; then
    vp_options=""
else
    vp_options=" --num-layers-per-virtual-pipeline-stage ${MP_VP}"
fi
options=" \\
    --num-layers ${NUM_LAYERS} --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 \\
    --seq-length 2048 --micro-batch-size ${BATCH_SIZE} --global-batch-size ${GLOBAL_BATCH_SIZE} \\
    --tensor-model-parallel-size ${TP} --use-distributed-optimizer --swiglu --normalization RMSNorm \\
    --use-llama2-rotary-position-embeddings --untie-embeddings-and-output-weights --disable-bias-linear \\
    --hidden-dropout 0 --attention-dropout 0 \\
    --extra-vocab-size 0 --patch-tokenizer-type LLamaTokenizer
    "
run_cmd="torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain.py
 ${options} ${pr_options} ${ac_options} ${sp_options} ${overlap} ${vp_options}"
echo ${run_cmd}
eval ${run_cmd}
"""


def test_arguments_are_those_of_the_example_in_a_comment():
    found = read(OF_ARGUMENTS)
    job = found.job
    assert (job.name, job.gpus, job.strategy.data, job.strategy.tensor, job.strategy.zero) == ("llama2-7b", 8, 4, 2, 1)
    assert (job.micro_batch, job.global_batch, job.recompute, job.precision) == (2, 16, "modules:core_attn", "bf16")
    assert job.strategy.sequence
    assert job.overlaps
    assert [note.line for note in found.notes if "those of this example" in note.text] == [2]


def test_a_caller_gives_all_arguments_or_one_variable():
    given = read(OF_ARGUMENTS, variables={"@": "dsw /w 13B 1 8 fp16 1 full false"}).job
    assert (given.model.layers, given.strategy.tensor, given.precision, given.recompute) == (40, 1, "fp16", "full")
    assert read(OF_ARGUMENTS, variables={"TP": "4"}).job.strategy.tensor == 4


def test_all_that_a_script_takes_from_its_caller_is_asked_at_once():
    with pytest.raises(ConfigurationError) as refused:
        read("\n".join(line for line in OF_ARGUMENTS.splitlines() if not line.startswith("#sh")))
    for words in ("`MODEL_SIZE` (`$3`: 7B or 13B)", "`BATCH_SIZE` (`$4`)", "`TP` (`$7`)", "`AC` (`$8`: full or sel)"):
        assert words in refused.value.message
    assert "--set MODEL_SIZE=7B" in refused.value.help
    assert "--set '@=…'" in refused.value.help


def test_a_variable_that_holds_the_options_is_asked_for():
    with pytest.raises(ConfigurationError, match="`PARAMS`"):
        read('CMD="python -u pretrain_gpt.py ${PARAMS}"\nsrun -l sh -c "${CMD}"\n')


@pytest.mark.parametrize(
    ("before", "tp"),
    [
        ("TP=$(( (3 > 2) ? 2 : 8 ))", 2),
        ("N=4\nTP=$((N/2 + (N%4==0)))", 3),
        ("TP=${TP:-${DEFAULT:-2}}", 2),
        ("SIZE=70B\nTP=${SIZE%0B}", 7),
        ("PATHS=a/b/4\nTP=${PATHS##*/}", 4),
        ("ALL=(1 2 4)\nTP=${ALL[1]}", 2),
        ("ALL=(1 2 4)\nTP=${#ALL[@]}", 3),
        ("choose() {\n  TP=$1\n}\nchoose 4 x", 4),
        ("function choose {\n  local T=$2\n  TP=$T\n}\nchoose 1 2", 2),
        ("TP=1\nif [[ $# = 0 || $1 = x ]] && ! [ -n \"$NEVER\" ]; then TP=2; fi", 2),
        ("TP=2\nwhile [[ $# -gt 0 ]]; do\n case $1 in\n  --tp) TP=$2; shift;;\n esac\n shift\ndone", 2),
        ("TP=1\nif (( TP < 2 )); then TP=2; else TP=4; fi", 2),
        ("TP=1\nfor A in \"$@\"; do TP=8; done", 1),
    ],
)  # fmt: skip
def test_what_a_shell_computes_is_known(before, tp):
    assert read(f"{before}\n{RUN} --tensor-model-parallel-size $TP\n", gpus=tp * 8).job.strategy.tensor == tp


def test_arguments_are_taken_one_after_the_other():
    cases = "--tp) TP=$2; shift;;\n  --sp) SP=--sequence-parallel;;\n"
    loop = f"while [[ $# -gt 0 ]]; do\n case $1 in\n  {cases} esac\n shift\ndone\n"
    job = read(f"{loop}{RUN} --tensor-model-parallel-size $TP $SP\n", variables={"@": "--tp 4 --sp"}).job
    assert (job.strategy.tensor, job.strategy.sequence) == (4, True)


def test_a_function_that_nothing_calls_is_read_last():
    found = read(
        f"launch() {{\n {RUN} --tensor-model-parallel-size $TP\n}}\nTP=4\nexport -f launch\nsrun bash -c launch\n"
    )
    assert found.job.strategy.tensor == 4


def test_places_to_fill_in_are_words():
    job = read(
        f'OPTIONS=" {SIZES} {VOCABULARY} --save <YOUR PATH> --fp8-format hybrid"\nsh -c "python a.py $OPTIONS"\n',
        gpus=8,
    ).job
    assert job.precision == "fp8"


def test_what_nothing_of_a_step_depends_on_is_not_named():
    guarded = (
        'if [ -f log.txt ]; then\n LOG=" --log-interval 2"\nfi\nif [ -f x ]; then\n TP=" --overlap-grad-reduce"\nfi\n'
    )
    notes = [note.line for note in read(f"{guarded}{RUN} $LOG\n").notes]
    assert notes == [5]


# In the forms of NVIDIA/Megatron-LM, examples/deepseek2_lite/train_deepseek2_lite_h100_fp8.sh, commit 00c3f963.
LATENT = (
    "--num-layers 27 --hidden-size 2048 --ffn-hidden-size 10944 --num-attention-heads 16 --kv-channels 16 "
    "--normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights --qk-layernorm "
    "--multi-latent-attention --kv-lora-rank 512 --v-head-dim 128 --qk-head-dim 128 --qk-pos-emb-head-dim 64 "
    "--position-embedding-type rope --num-experts 64 --moe-layer-freq '([0]+[1]*26)' --moe-ffn-hidden-size 1408 "
    "--moe-router-topk 6 --moe-shared-expert-intermediate-size 2816 --seq-length 4096 --vocab-size 102400 "
    "--hidden-dropout 0 --attention-dropout 0 --micro-batch-size 1 --global-batch-size 64 --bf16"
)


def weights(model):
    entry = program(model, 128, 1).entry()
    return sum(param.type.elements for param in entry.params if "param" in param.roles)


def test_latent_attention_is_read_with_all_its_weights():
    """By hand, as of DeepSeek-V2-Lite: 15.7 billion."""
    model = read(LATENT, gpus=8).job.model
    attention = 2048 * 16 * 192 + 2048 * (512 + 64) + 512 + 512 * 16 * 256 + 16 * 128 * 2048 + 2 * 2048
    routed = 64 * 2048 + 3 * 2048 * 1408 * (64 + 2)
    by_hand = 27 * attention + 3 * 2048 * 10944 + 26 * routed + 2 * 102400 * 2048 + 2048
    assert weights(model) == by_hand == 15_706_484_224
    assert weights(of_flavor("deepseek_v3", "16B")[1]) == by_hand


@pytest.mark.parametrize(
    ("words", "dense", "every"),
    [
        ("--moe-layer-freq [0]*1+[1]*3", 1, 1),
        ("--moe-layer-freq ([0]*1+[1]*3)", 1, 1),  # as in a list of arguments, where nothing is quoted
        ("--moe-layer-freq '[0,1]*2'", None, 2),
        ("--moe-layer-freq 2", None, 2),
        ("--moe-layer-freq 1", None, 1),
        ("--expert-interval 4", None, 4),
    ],
)
def test_experts_are_in_the_layers_that_have_them(words, dense, every):
    model = read(f"{RUN} --num-experts 8 {words}").job.model
    assert (model.dense_layers, model.experts_every) == (dense, every)
    routed = sum(model.is_routed(layer) for layer in range(4))
    each, plain = weights(model), weights(read(RUN).job.model)
    assert each - plain == routed * (7 * 3 * 1024 * model.ffn + 8 * 1024)


def test_experts_of_megatron_deepspeed_are_in_every_second_layer():
    """By its defaults; examples/MoE/ds_pretrain_gpt_1.3B_MoE128.sh of deepspeedai/Megatron-DeepSpeed."""
    model = read(f"{RUN} --num-experts 8 --moe-expert-parallel-size 8").job.model
    assert (model.experts_every, model.top_k) == (2, 1)
    with pytest.raises(ConfigurationError, match="different numbers of experts"):
        read(f"{RUN} --num-experts 8 16")


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        ("--tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Llama-3.1-8B", 128256),
        ("--tokenizer-type HuggingFaceTokenizer --tokenizer-model /models/Qwen2.5-7B", 151936),
        ("--tokenizer-type GPT2BPETokenizer --vocab-file a.json", 50257),
        ("--merge-file a.txt --vocab-file a.json", 50257),
        ("--patch-tokenizer-type LLama3Tokenizer --extra-vocab-size 256", 128256),
        ("--patch-tokenizer-type Qwen2Tokenizer --extra-vocab-size 421", 152064),
        ("--pad-vocab-size-to 250880", 250880),
    ],
)
def test_a_tokenizer_says_the_vocabulary(words, tokens):
    found = read(f"torchrun --nproc_per_node 8 pretrain_gpt.py {SIZES} {words}")
    assert found.job.model.vocabulary == tokens
    assert not [text for text in texts(found) if "vocabulary" in text]


def test_positions_are_as_many_as_the_arguments_say():
    """By hand, of examples/pretrain_gpt_distributed_with_mp.sh of NVIDIA/Megatron-LM, commit 090e141c."""
    words = (
        "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024"
    )
    model = read(f"torchrun --nproc_per_node 8 a.py {words} --micro-batch-size 4 --merge-file a.txt --fp16").job.model
    layer = 12 * 1024**2 + 13 * 1024
    assert weights(model) == 24 * layer + (50257 + 1024) * 1024 + 2 * 1024 == 354_823_168


def test_without_a_tokenizer_the_vocabulary_is_that_of_the_model_of_these_sizes():
    small, large = (
        "--num-layers 4 --hidden-size 1024 --num-attention-heads 16",
        (
            "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 14336 "
            "--group-query-attention --num-query-groups 8 --untie-embeddings-and-output-weights --rotary-base 500000"
        ),
    )
    sizes = SIZES.replace(small, large)
    found = read(f"torchrun --nproc_per_node 8 pretrain_gpt.py {sizes}")
    assert (found.job.name, found.job.model.vocabulary) == ("llama3-8b", 128256)
    assert any("as of llama3-8b" in text for text in texts(found))


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("--ds-sequence-parallel-size 2", "context", 2),
        ("--use_rms_norm --glu_activation swiglu --no_tie_embed_logits", "precision", "bf16"),
        ("--position_embedding_type rotary", "precision", "bf16"),
    ],
)
def test_arguments_of_forks_are_those_of_today(words, field, value):
    found = read(f"{RUN} {words}")
    assert stated(found.job)[field] == value
    assert not [text for text in texts(found) if "no such option" in text]


@pytest.mark.parametrize("words", ["--cpu-optimizer", "--optimizer hybridadam --optimizer-offload-policy static"])
def test_an_optimizer_on_the_host_is_read_by_the_names_of_forks(words):
    assert read(f"{RUN} {words}").job.strategy.state_on_host


def test_nodes_that_only_the_machine_knows_are_no_one_node():
    degrees = "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 2"
    found = read(f"torchrun --nproc_per_node 8 --nnodes $WORLD a.py {SIZES} {VOCABULARY} {degrees}")
    assert found.job.gpus == 16
    assert len([text for text in texts(found) if "only the machine" in text]) == 1


TOML = '[model]\nname = "{}"\nflavor = "{}"\n[training]\nlocal_batch_size = 2\nseq_len = 2048\n'


@pytest.mark.parametrize(
    ("name", "flavor", "called"),
    [
        ("llama2", "1B", "llama2-1b"),
        ("llama", "7B", "llama2-7b"),
        ("llama3", "3B", "llama3.2-3b"),
        ("llama3_simple_fsdp", "8B", "llama3-8b"),
        ("autopartition.llama3", "70B", "llama3-70b"),
        ("llama3.2", "1b", "llama3.2-1b"),
        ("llama4", "17bx16e_irope", "llama4-scout"),
        ("deepseek_v2", "deepseek-ai/DeepSeek-V2-Lite", "deepseek-v2-lite"),
        ("deepseek_v3", "kimi_k2", "kimi-k2"),
        ("qwen2", "7B", "qwen2.5-7b"),
        ("blendcorpus", "Llama-2-7b", "llama2-7b"),
    ],
)
def test_models_of_forks_and_eras_of_torchtitan(name, flavor, called):
    assert read(TOML.format(name, flavor), "torchtitan", gpus=8).job.name == called


@pytest.mark.parametrize("name", ["llama3_multimodal", "llama3-siglip2", "qwen3_next", "qwen3_vl", "MoEllama3", "opt"])
def test_a_model_that_is_another_is_not_taken_for_one(name):
    with pytest.raises(ConfigurationError) as refused:
        read(TOML.format(name, "8B"), "torchtitan", gpus=8)
    assert "--model" in refused.value.help
    given = {"name": "llama3-8b", "model": of_name("llama3-8b")[1]}
    assert read(TOML.format(name, "8B"), "torchtitan", gpus=8, **given).job.name == "llama3-8b"


def test_a_model_of_a_hub_is_read():
    text = (
        TOML.format("transformers_modeling_backend", "full")
        + '[hf_transformers]\nmodel = "Qwen/Qwen3-4B-Instruct-2507"\n'
    )
    assert read(text, "torchtitan", gpus=8).job.name == "qwen3-4b"
    names = (
        "meta-llama/Meta-Llama-3-8B",
        "meta-llama/Llama-3.1-70B-Instruct",
        "mistralai/Mixtral-8x7B-v0.1",
        "org/Qwen3-0.6B-Base",
    )
    assert [of_name(name)[0] for name in names] == ["llama3-8b", "llama3.1-70b", "mixtral-8x7b", "qwen3-0.6b"]
    assert [of_name(name) for name in ("Qwen/Qwen3-4.5B", "x/Llama-3-80B", "deepseek-ai/DeepSeek-V3.2")] == [None] * 3


@pytest.mark.parametrize("flavor", ["9.7B", "671B_debug", "20B", "mini"])
def test_a_flavor_that_says_a_size_is_not_the_published_model_of_the_family(flavor):
    """torchtitan-npu's `671B_debug` has 4 layers; PiyushDatta/torchtitan_moe has a `9.7B`."""
    with pytest.raises(ConfigurationError, match=f"the model `deepseek_v3` of flavor `{flavor}` is not known here"):
        read(TOML.format("deepseek_v3", flavor), "torchtitan", gpus=8)


def test_the_parameters_of_llama_4_are_those_of_its_layers():
    """By hand: 48 layers, of Maverick every second with 128 experts."""
    for flavor, experts, routed in (("17bx16e", 16, 48), ("17bx128e", 128, 24)):
        attention = 5120 * 5120 * 2 + 2 * 5120 * 1024 + 2 * 5120
        experts_of_layer = 5120 * experts + 3 * 5120 * 8192 * (experts + 1)
        by_hand = 48 * attention + routed * experts_of_layer + (48 - routed) * 3 * 5120 * 16384
        assert weights(of_flavor("llama4", flavor)[1]) == by_hand + 2 * 202048 * 5120 + 5120


def test_tables_of_a_fork_are_named_once():
    text = TOML.format("llama3", "8B") + "[grpo]\nkl = 0.1\nclip = 2\n[job]\nnew_field = 2\n"
    named = [text for text in texts(read(text, "torchtitan", gpus=8)) if "no such" in text]
    assert named == ["`grpo` is not simulated: torchtitan has no such table here"]


def test_a_batch_that_does_not_divide_names_the_gpus_that_would_do():
    text = TOML.format("llama3", "8B").replace("seq_len", "global_batch_size = 64\nseq_len")
    with pytest.raises(ConfigurationError) as refused:
        read(text, "torchtitan", gpus=256)
    assert "fewer GPUs: 32" in refused.value.help


PYTHON = """
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.trainer import Trainer
from . import model_registry
from .others import elsewhere

SEQUENCE = 4 * 1024


def llama3_8b() -> Trainer.Config:
    model_spec = model_registry("8B", attn_backend="flex")
    return Trainer.Config(
        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(global_vocab_size=vocabulary(model_spec))),
        hf_assets_path="./assets",
        model_spec=model_spec,
        optimizer=default_adamw(lr=3e-4),
        training=TrainingConfig(local_batch_size=2, seq_len=SEQUENCE, steps=1000),
        parallelism=ParallelismConfig(tensor_parallel_degree=2),
        metrics=MetricsProcessor.Config(log_freq=1),
        activation_checkpoint=FullAC.Config(),
        compile=CompileConfig(enable=True, components=["model", "loss"]),
    )


def llama3_8b_float8() -> Trainer.Config:
    config = llama3_8b()
    config.model_spec = model_registry("8B", converters=[Float8LinearConverter.Config(filter_fqns=["lm_head"])])
    config.parallelism.data_parallel_replicate_degree = 2
    config.activation_checkpoint = None
    assert config.training.seq_len > 0
    return config


def llama3_traced() -> Trainer.Config:
    return elsewhere(llama3_8b())
"""


def test_a_configuration_in_python_is_read():
    """In the forms of torchtitan 0.3.0, torchtitan/models/llama3/config_registry.py."""
    found = read(PYTHON, "torchtitan-python", gpus=16, variables={"config": "llama3_8b"})
    job = found.job
    assert (job.name, job.strategy.data, job.strategy.tensor, job.strategy.zero, job.seq, job.micro_batch) == (
        "llama3-8b",
        8,
        2,
        3,
        4096,
        2,
    )
    assert (job.recompute, job.strategy.fuse, job.precision, job.strategy.sequence) == ("full", True, "bf16", True)
    assert not found.notes
    changed = read(PYTHON, "torchtitan-python", gpus=16, variables={"config": "llama3_8b_float8"}).job
    assert (changed.precision, changed.recompute, changed.strategy.shard, changed.seq) == ("fp8", "none", 4, 4096)


def test_of_several_configurations_in_python_one_is_named():
    with pytest.raises(ConfigurationError) as refused:
        read(PYTHON, "torchtitan-python", gpus=16)
    assert "llama3_8b, llama3_8b_float8" in refused.value.help
    with pytest.raises(ConfigurationError, match="made by what this file does not have"):
        read(PYTHON, "torchtitan-python", gpus=16, variables={"config": "llama3_traced"})
    with pytest.raises(ConfigurationError) as refused:
        read(PYTHON, "torchtitan-python", gpus=16, variables={"config": "llama3_9b"})
    assert "`llama3_8b`" in refused.value.help


def test_a_share_of_the_peak_is_of_the_precision_that_is_computed_in():
    wide = read(RUN.replace("--bf16", "--bf16 --fp8-format hybrid")).job
    half = read(RUN).job
    one, other = (answer(job, program_of(job, "megatron", "h100_80gb")) for job in (wide, half))
    assert one.mfu / other.mfu == pytest.approx(other.step_time_s / one.step_time_s / 2, rel=1e-3)
    assert one.band[0] < one.step_time_s < one.band[1]


MXFP8 = TOML.format("llama3", "debugmodel").replace("[training]", 'converters = ["quantize.linear.mx"]\n[training]')


def test_mxfp8_is_simulated_on_gpus_that_have_it_and_shares_the_peak_of_8_bits():
    job = read(MXFP8, "torchtitan", gpus=8).job
    assert job.precision == "mxfp8"
    plain = read(MXFP8.replace("linear.mx", "linear.float8"), "torchtitan", gpus=8).job
    one, other = (answer(each, program_of(each, "torchtitan", "b200")) for each in (job, plain))
    assert one.mfu * one.step_time_s == pytest.approx(other.mfu * other.step_time_s)
    with pytest.raises(ConfigurationError, match="MXFP8, which `h100_80gb` does not have: GPUs since Blackwell do"):
        program_of(job, "torchtitan", "h100_80gb")
    with pytest.raises(ConfigurationError, match="8-bit floats, which `a100_80gb` does not have"):
        program_of(plain, "torchtitan", "a100_80gb")


def test_what_a_converter_of_layers_or_of_experts_alone_leaves_is_said():
    of_experts = TOML.format("qwen3", "debugmodel_moe").replace(
        "[training]", 'converters = ["quantize.linear.mx"]\n[training]'
    )
    assert "experts' products are in mxfp8 here, too" in texts(read(of_experts, "torchtitan", gpus=8))
    alone = read(of_experts.replace("linear.mx", "grouped_mm.mx"), "torchtitan", gpus=8)
    assert alone.job.precision == "bf16"
    assert "the converter `quantize.grouped_mm.mx` is not simulated" in texts(alone)


def test_small_llamas_that_are_of_another_release_are_said():
    assert "`llama3` of flavor `1B` is taken as llama3.2-1b" in texts(
        read(TOML.format("llama3", "1B"), "torchtitan", gpus=8)
    )


def test_a_model_of_a_fork_is_likened_to_published_ones_of_its_size():
    with pytest.raises(ConfigurationError) as refused:
        read(TOML.format("llama3", "32B"), "torchtitan", gpus=8)
    assert refused.value.help.endswith("name one that is like it with `--model`, such as `qwen3-32b`")


# In the forms of torchtitan/models/*/__init__.py of torchtitan 0.2.2; of PiyushDatta/torchtitan_moe, commit a168680a
# (9.7B); LambdaLabsML/torchtitan, 27287b46 (opt-30B-A3B); muchanem/weightshared_torchtitan, 0cb0534c (40M).
FLAVORS_OF_FORKS = """
EXPERTS = MoEArgs(num_experts=64, num_shared_experts=2, top_k=6, score_func="softmax", route_norm=False)

llama3_configs = {
    "debugmodel": TransformerModelArgs(dim=256, n_layers=6, n_heads=16, vocab_size=2048, rope_theta=500000),
    "8B": TransformerModelArgs(
        dim=4096, n_layers=32, n_heads=32, n_kv_heads=8, ffn_dim_multiplier=1.3, multiple_of=1024, rope_theta=500000
    ),
    "40M": TransformerModelArgs(
        dim=512, n_layers=12, n_heads=16, n_kv_heads=8, ffn_dim_multiplier=1.5, vocab_size=151936, tying=True
    ),
}
moe_llama3_configs = {"1B-7B": MoEModelArgs(dim=2048, n_layers=16, n_heads=16, n_routed_experts=64, qk_norm=True)}
llama2_configs = {"debugmodel": ModelArgs(dim=256, n_layers=8, n_heads=16, vocab_size=-1)}
llama2_configs["20B"] = ModelArgs(dim=6144, n_layers=44, n_heads=48)
qwen3_args = {
    "8B": Qwen3ModelArgs(dim=4096, n_layers=36, n_heads=32, hidden_dim=12288, rope_theta=1000000),
    "opt-30B-A3B": Qwen3ModelArgs(
        dim=4096, n_layers=24, n_heads=8, n_kv_heads=4, qk_norm=False, hidden_dim=6144, moe_enabled=True,
        moe_args=MoEArgs(num_experts=128, num_shared_experts=0, top_k=8, score_func="softmax", route_norm=True),
    ),
}
deepseekv3_args = {
    "9.7B": DeepSeekV3ModelArgs(dim=1264, inter_dim=6870, moe_inter_dim=1408, moe_args=EXPERTS, attn_type="flex"),
}
llama4_args = {
    "17bx16e": TransformerModelArgs(
        dim=5120, n_layers=48, n_heads=40, n_kv_heads=8, ffn_dim_multiplier=1.2, multiple_of=2048, rope_theta=500000,
        moe_args=MoEArgs(num_experts=16), interleave_moe_layer_step=1,
    ),
}
"""


FLAVORS_MADE = """
base = dict(dim=512, n_layers=3, n_heads=8)
llama3_configs = {
    "shared": TransformerModelArgs(**base, vocab_size=1000),
    "table": TransformerModelArgs(**{"dim": 512, "n_layers": 3, "n_heads": 8, "vocab_size": 1000}),
    "elsewhere": TransformerModelArgs(**SIZES["8B"]),
    "helper": make_args(dim=512),
    "preset": TransformerModelArgs.small(),
    "changed": dataclasses.replace(big, dim=512),
}
"""


@pytest.mark.parametrize("flavor", ["shared", "table"])
def test_sizes_that_flavors_share_are_read(flavor):
    job = TOML.format("llama3", flavor)
    model = read(job, "torchtitan", gpus=8, beside=BesideFile("flavors.py", FLAVORS_MADE)).job.model
    assert (model.width, model.layers, model.heads, model.vocabulary) == (512, 3, 8, 1000)


@pytest.mark.parametrize(
    ("flavor", "message"),
    [
        ("elsewhere", "flavors.py:6: the family `llama3` has no option `**SIZES['8B']`"),
        ("helper", "flavors.py:7: `make_args` makes the flavor `helper`, and nothing is run"),
        ("preset", "`TransformerModelArgs.small` makes the flavor `preset`"),
        ("changed", "`dataclasses.replace` makes the flavor `changed`"),
    ],
)
def test_a_flavor_whose_sizes_are_elsewhere_is_refused(flavor, message):
    """It was taken to have all sizes that the family has by default."""
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        read(TOML.format("llama3", flavor), "torchtitan", gpus=8, beside=BesideFile("flavors.py", FLAVORS_MADE))


def of_fork(name, flavor):
    job = f'[model]\nname = "{name}"\nflavor = "{flavor}"\n[training]\nseq_len = 4096\n'
    return read(job, "torchtitan", gpus=8, beside=BesideFile("flavors.py", FLAVORS_OF_FORKS))


@pytest.mark.parametrize("flavor", [("llama3", "8B"), ("qwen3", "8B"), ("llama4", "17bx16e")])
def test_a_flavor_as_torchtitan_defines_it_is_the_model_of_that_name(flavor):
    assert of_fork(*flavor).job.model == of_flavor(*flavor)[1]


@pytest.mark.parametrize(
    ("name", "flavor", "sizes"),
    [
        ("llama2", "20B", {"layers": 44, "width": 6144, "heads": 48, "ffn": 16384, "vocabulary": 32000}),
        ("llama2", "debugmodel", {"layers": 8, "ffn": 768, "vocabulary": 32000}),
        ("bit_byte_llama3", "40M", {"layers": 12, "width": 512, "kv_heads": 8, "ffn": 2048, "vocabulary": 151936}),
        ("qwen3", "opt-30B-A3B", {"layers": 24, "width": 4096, "heads": 8, "experts": 128, "head_norm": False}),
        ("deepseek_v3", "9.7B", {"width": 1264, "ffn": 6870, "experts": 64, "shared_experts": 2, "dense_layers": 1}),
    ],
)
def test_sizes_of_a_fork_are_those_of_the_file_that_defines_its_flavors(name, flavor, sizes):
    found = of_fork(name, flavor).job
    assert found.name == f"{name}-{flavor}"
    assert {field: getattr(found.model, field) for field in sizes} == sizes


def test_a_field_of_a_fork_that_is_not_simulated_is_named_with_its_line():
    said = "flavors.py:10: `tying` is not simulated: the family `llama3` has no such option here"
    assert said in texts(of_fork("llama3", "40M"))


@pytest.mark.parametrize(
    ("name", "flavor", "message", "help"),
    [
        ("llama3", "debugmodl", "no flavor `debugmodl`", "did you mean `debugmodel`?"),
        ("qwen3_next", "8B", "`qwen3_next` is no model of a family whose sizes are read", "`--model`"),
        ("llama3", "32B", "no flavor `32B`", "it defines debugmodel, 8B, 40M"),
        ("MoEllama3", "1B-7B", "flavors.py:13: `n_routed_experts`: experts of a model of `llama3`", "`--model`"),
    ],
)
def test_what_a_file_of_flavors_does_not_define_is_refused(name, flavor, message, help):
    with pytest.raises(ConfigurationError) as refused:
        of_fork(name, flavor)
    assert message in refused.value.message
    assert help in refused.value.help


def test_a_flavor_of_a_fork_is_asked_for_by_the_options_that_say_it():
    with pytest.raises(ConfigurationError) as refused:
        read('[model]\nname = "llama3"\nflavor = "32B"\n', "torchtitan", gpus=8)
    assert "`--with`" in refused.value.help
    assert "`--model`" in refused.value.help


# stark-sim/megatron-deepspeed-lock-clock, experiments/…/command.sh, commit b872e984; llm-jp/Megatron-DeepSpeed, commit
# 4e727f8b; HYGON-AI/Megatron-LM-das, examples/qwen, commit 36650cc1.
def test_words_of_forks_in_other_letters_and_their_launchers_options_are_read():
    others = "--normalization rmsnorm --use-mpi --train-tokens 80 --lr-decay-tokens 8 --rank 0 --world-size 8"
    found = read(f"python pretrain_gpt.py {SIZES} {VOCABULARY} {others}", gpus=8)
    assert found.job.model == read(f"python pretrain_gpt.py {SIZES} {VOCABULARY}", gpus=8).job.model
    assert found.notes == []


# argonne-lcf/Megatron-DeepSpeed, train_aGPT_2B_sophiag_stage2.sh, commit 83fd5809; NVIDIA/Megatron-LM,
# examples/deepseek_v3/train_deepseek_v3_slurm.sh, commit 56fc936f.
@pytest.mark.parametrize(
    "text",
    [
        'train() {\n  MICRO_BATCH=1 \\\n  bash "${PBS_O_WORKDIR}/train_alcf.sh" "$@"\n}\ntrain "$@"\n',
        "srun bash -c 'docker run --rm --env A=$A \\\n $IMAGE /bin/bash -c \\\n \"TP=2 bash ./train_alcf.sh 2>&1\"'\n",
    ],
)
def test_a_script_that_runs_another_one_names_it(text):
    with pytest.raises(ConfigurationError, match="no command with options of Megatron-LM") as refused:
        read(text)
    assert "/train_alcf.sh`: import that, with the variables that this one sets as `--set" in refused.value.help


def test_an_optimizer_that_compresses_gradients_is_named():
    """As in deepspeedai/DeepSpeedExamples, model_configs/llama/llama_70b_multi_node.json, commit d6b8036e."""
    text = '{"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "OneBitAdam"}, "bf16": {"enabled": true}}'
    found = read(text, "deepspeed", gpus=8, name="llama2-7b", model=of_name("llama2-7b")[1], seq=4096)
    assert "the gradients of `OneBitAdam` are exchanged whole here, as AdamW's" in texts(found)
