"""Jobs as people launch them: headers of batch systems, launchers, commands in strings, lists over several lines."""

import contextlib

import pytest

from distir.configurations import FORMATS, ConfigurationError, Supplied

SIZES = (
    "--num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --vocab-size 32000 --swiglu "
    "--position-embedding-type rope --normalization RMSNorm --disable-bias-linear --hidden-dropout 0 "
    "--attention-dropout 0 --micro-batch-size 1 --global-batch-size 64 --bf16"
)
JOB = f"pretrain_gpt.py {SIZES} --tensor-model-parallel-size 2"


def read(text, **given):
    return FORMATS["megatron"].read(text, "run.sh", Supplied(**given))


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        (f"torchrun --nproc_per_node 8 --nnodes 4 {JOB}", 32),
        (f"torchrun --nproc-per-node=8 --nnodes=1:4 {JOB}", 8),
        (f"torchrun --nproc_per_node 4 {JOB}", 4),
        (f"python -m torch.distributed.launch --nproc_per_node 8 --nnodes 2 {JOB}", 16),
        (f"deepspeed --num_nodes 2 --num_gpus 8 {JOB}", 16),
        (f"mpirun -np 16 -npernode 8 --allow-run-as-root -x PATH python {JOB}", 16),
        (f"mpirun -n 32 python3 {JOB}", 32),
        (f"srun -N 4 --ntasks-per-node=8 --cpus-per-task 16 --mpi=pmix python -u {JOB}", 32),
        (f"srun -N4 --gres=gpu:a100:4 --cpu-bind=none bash -c 'python {JOB}'", 16),
        (f"#SBATCH --nodes 4\n#SBATCH --gpus-per-node=8\nsrun python {JOB}", 32),
        (f"#SBATCH -N 2 # two\n#SBATCH --gres=gpu:8\ntorchrun --nproc_per_node 8 --nnodes $SLURM_NNODES {JOB}", 16),
        (f"#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=4\nsrun torchrun --nproc_per_node 4 --nnodes $N {JOB}", 16),
        (f"#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nN=$SLURM_NTASKS\nmpirun -np $N python {JOB}", 16),
        (f"#PBS -l select=4:ncpus=32:ngpus=8\nmpiexec python {JOB}", 32),
    ],
)
def test_launchers_and_headers_say_how_many_gpus_there_are(text, gpus):
    job = read(text).job
    assert (job.gpus, job.strategy.tensor, job.strategy.data) == (gpus, 2, gpus // 2)


@pytest.mark.parametrize(
    "text",
    [
        f'CMD="torchrun --nproc_per_node 8 {JOB}"\nCMD="$CMD |& tee log.txt"\neval $CMD\n',
        f'CMD="{JOB}"\ntorchrun --nproc_per_node 8 $CMD 2>&1 | tee -a logs/run.log\n',
        f"OMP_NUM_THREADS=1 CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nproc_per_node 8 {JOB} > out.log 2> err.log &",
        f'export A=1 B=2\ncd megatron && torchrun --nproc_per_node 8 {JOB} --save "$(pwd)/x y" || exit 1',
        f'srun --label bash -c "torchrun --nproc_per_node 8 {JOB}; echo done"',
        f"sbatch <<EOF\n#!/bin/bash\ntorchrun --nproc_per_node 8 \\\n  {JOB}\nEOF\n",
        f"cat <<EOF > job.sh\ntorchrun --nproc_per_node 8 {JOB}\nEOF\nbash job.sh\n",
        f"cat > ds.json <<'EOF'\n{{\"it's\": 1}}\nEOF\ntorchrun --nproc_per_node 8 {JOB}\n",
        f"for TP in 2; do\n  torchrun --nproc_per_node 8 {JOB.replace('size 2', 'size $TP')}\ndone\n",
        f"run() {{\n  torchrun --nproc_per_node 8 {JOB}\n}}\nrun\n",
        f"set -ex\nmodule load cuda\ntorchrun --nproc_per_node 8 {JOB}; exit 0\n",
        f'ARGS=(\n  {SIZES} # sizes\n)\nPAR="--tensor-model-parallel-size ${{TP:-2}}"\n'
        'torchrun --nproc_per_node 8 pretrain_gpt.py "${ARGS[@]}" $PAR $@\n',
    ],
)
def test_commands_are_read_as_shells_run_them(text):
    found = read(text)
    assert (found.job.gpus, found.job.strategy.data, found.job.strategy.tensor, found.job.global_batch) == (8, 4, 2, 64)
    assert not found.notes


def test_a_list_of_arguments_may_have_several_lines():
    job = read(f"{SIZES}\n--tensor-model-parallel-size 4\n--sequence-parallel\n", gpus=8).job
    assert (job.strategy.data, job.strategy.tensor, job.strategy.sequence) == (2, 4, True)


def test_lines_that_belong_to_no_command_are_named():
    found = read(f"torchrun --nproc_per_node 8 {JOB}\n    --sequence-parallel\n")
    assert not found.job.strategy.sequence
    assert [note.line for note in found.notes if "of no command" in note.text] == [2]


def test_of_a_loop_the_first_turn_is_read_and_named():
    text = f"for TP in 4 8; do\ntorchrun --nproc_per_node 8 {JOB.replace('size 2', 'size ${TP}')}\ndone\n"
    found = read(text)
    assert found.job.strategy.tensor == 4
    assert [note.line for note in found.notes if "loop over `TP`" in note.text] == [1]


def test_variables_that_grow_without_end_are_refused():
    with pytest.raises(ConfigurationError, match="more than"):
        read("A='--x y'\n" + 'A="$A $A"\n' * 64 + f"torchrun {JOB} $A\n")


EARLY = """#!/bin/bash
DIR=`pwd`
SEQ_LEN=2048
MP_SIZE=4
NUM_GPUS=64
EP_SIZE=1
if [[ $EP_SIZE -gt $NUM_GPUS ]]; then
    EP=$NUM_GPUS
else
    EP=$EP_SIZE
fi
ACTIVATION_CHECKPOINT="true"
NOW=$(date "+%Y.%m.%d-%H.%M.%S")
NAME="gpt-${MP_SIZE}-$(( ${SEQ_LEN} * 3 / 2 ))"
mkdir -p "${DIR}/log/"
options=" \\
        --tensor-model-parallel-size ${MP_SIZE} \\
        --moe-expert-parallel-size ${EP} \\
        --num-experts ${EP_SIZE} \\
        --micro-batch-size 2 \\
        --rampup-batch-size 32 32 1953125 \\
        --global-batch-size 512 \\
        --num-layers 24 \\
        --hidden-size 2048 \\
        --num-attention-heads 16 \\
        --seq-length ${SEQ_LEN} \\
        --max-position-embeddings ${SEQ_LEN} \\
        --data-impl mmap \\
        --train-tokens 300000000000 \\
        --fp16"
if [ "${ACTIVATION_CHECKPOINT}" = "true" ]; then
options="${options} \\
        --checkpoint-activations"
fi
sed "s/CONFIG_BATCH_SIZE/512/" template.json \\
    | sed "s/ZERO_STAGE/1/" \\
      > config.json
more=" \\
    --deepspeed \\
    --deepspeed_config config.json \\
    --zero-stage 1 \\
    --pipeline-model-parallel-size 1"
run_cmd="deepspeed ${DIR}/../../pretrain_gpt.py ${options} ${more} &> ${DIR}/log/${NAME}_${NOW}.log"
echo ${run_cmd}
eval ${run_cmd}
"""


def test_a_script_of_megatron_deepspeed_is_read():
    """In the forms of examples/MoE/ds_pretrain_gpt_1.3B_dense.sh, commit 50b32515."""
    found = read(EARLY, gpus=64)
    job = found.job
    assert (
        job.strategy.data,
        job.strategy.tensor,
        job.strategy.pipeline,
        job.strategy.expert_parallel,
        job.strategy.zero,
    ) == (16, 4, 1, 0, 1)
    assert (job.micro_batch, job.global_batch, job.recompute, job.precision) == (2, 512, "full", "fp16")
    assert (job.model.layers, job.model.width, job.model.experts) == (24, 2048, None)
    assert [note.text for note in found.notes if "no such option" in note.text] == []


OF_BIGSCIENCE = r"""#!/bin/bash
#SBATCH --nodes=48
#SBATCH --gres=gpu:8                 # number of gpus
#SBATCH --ntasks-per-node=1          # one task launches those of its node
source $WORK/start
MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
GPUS_PER_NODE=8
NNODES=$SLURM_NNODES
TRAIN_SAMPLES=220_000_000  # 450B tokens
OPTIMIZER_ARGS=" \
    --optimizer adam \
    --lr-decay-samples $TRAIN_SAMPLES \
    "
GPT_ARGS=" \
    --pp-partition-method 'type:transformer|embedding' \
    --num-layers 70 --hidden-size 14336 --num-attention-heads 112 --seq-length 2048 \
    --micro-batch-size 2 \
    --rampup-batch-size 192 16 9_765_625 \
    --global-batch-size 2048 \
    --tokenizer-type PretrainedFromHF \
    --embed-layernorm \
    --bf16 \
    --position-embedding-type alibi \
    --checkpoint-activations \
    --kill-switch-path $KILL \
    --pad-vocab-size-to 250880 \
    $OPTIMIZER_ARGS \
    "
ZERO_STAGE=0 # with its own equivalent
cat <<EOT > $config_json
{"zero_optimization": {"stage": $ZERO_STAGE}}
EOT
DEEPSPEED_ARGS=" --deepspeed --deepspeed_config x.json --zero-stage ${ZERO_STAGE} --deepspeed-activation-checkpointing "
export LAUNCHER="python -u -m torch.distributed.run \
    --nproc_per_node $GPUS_PER_NODE \
    --nnodes $NNODES \
    --rdzv_endpoint $MASTER_ADDR:$MASTER_PORT \
    --tee 3 \
    "
export CMD=" \
    `pwd`/pretrain_gpt.py \
    --tensor-model-parallel-size 4 \
    --pipeline-model-parallel-size 12 \
    $GPT_ARGS \
     $DEEPSPEED_ARGS \
    "
echo $CMD
SRUN_ARGS=" --wait=60 --kill-on-bad-exit=1 "
clear; srun $SRUN_ARGS --jobid $SLURM_JOB_ID bash -c "$LAUNCHER --node_rank \$SLURM_PROCID $CMD" 2>&1 | tee -a log.txt
echo "END TIME: $(date)"
""".replace("\\\\", "\\")


def test_a_batch_job_with_its_command_in_strings_is_read():
    """In the forms of bigscience-workshop/bigscience, train/tr11-176B-ml/tr11-176B-ml.slurm, commit 003b2505."""
    found = read(OF_BIGSCIENCE)
    job = found.job
    assert (job.gpus, job.strategy.data, job.strategy.tensor, job.strategy.pipeline, job.strategy.zero) == (
        384,
        8,
        4,
        12,
        0,
    )
    assert (job.micro_batch, job.global_batch, job.recompute, job.precision) == (2, 2048, "full", "bf16")
    assert job.strategy.stages == (5, *[6] * 10, 5)
    assert (job.model.position, job.model.vocabulary, job.model.width) == ("alibi", 250880, 14336)
    named = [note.text.partition("`")[2].partition("`")[0] for note in found.notes if "no such option" in note.text]
    assert named == ["embed_layernorm"]


OF_PAI = """#!/bin/bash
ENV=$1
if [ $ENV = dsw ]; then
NNODES=1
GPUS_PER_NODE=8
elif [ $ENV = dlc ]; then
NNODES=${WORLD_SIZE}
GPUS_PER_NODE=${KUBERNETES_CONTAINER_RESOURCE_GPU}
fi
DISTRIBUTED_ARGS="--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --node_rank $NODE_RANK"
MODEL_SIZE=$2
BATCH_SIZE=$3
TP=${10}
AC=$4
if [ $MODEL_SIZE = 8B ]; then
NUM_LAYERS=32
gqa_options=" \\
    --group-query-attention \\
    --num-query-groups 8"
fi
if [ $AC = full ]; then
    activation_checkpoint_options=" \\
        --recompute-method uniform \\
        --recompute-granularity full"
elif [ $AC = none ]; then
    activation_checkpoint_options=" \\
    "
fi
megatron_options="  \\
        --micro-batch-size ${BATCH_SIZE} \\
        --global-batch-size 64 \\
        --num-layers ${NUM_LAYERS} \\
        --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 \\
        --tensor-model-parallel-size ${TP} \\
        --extra-vocab-size 256 \\
        --bf16"
run_cmd="torchrun $DISTRIBUTED_ARGS pretrain_llama.py
 ${megatron_options} ${activation_checkpoint_options} ${gqa_options}"
echo ${run_cmd}
eval ${run_cmd}
set +x
"""


def test_arguments_of_a_script_are_given_beside_it():
    """In the forms of alibaba/Pai-Megatron-Patch, examples/llama3/run_pretrain_mcore_llama.sh, commit 274e850b."""
    with pytest.raises(ConfigurationError) as refused:
        read(OF_PAI)
    assert "--set" in refused.value.help
    job = read(OF_PAI, variables={"1": "dsw", "2": "8B", "3": "2", "4": "full", "10": "4"}).job
    assert (job.gpus, job.strategy.data, job.strategy.tensor, job.micro_batch, job.recompute) == (8, 2, 4, 2, "full")
    assert (job.model.layers, job.model.shared_heads) == (32, 8)


def test_experts_that_do_not_divide_are_refused_with_what_would():
    text = f"{SIZES} --num-experts 8 --expert-model-parallel-size 8 --pipeline-model-parallel-size 4"
    with pytest.raises(ConfigurationError) as refused:
        read(text, gpus=8)
    assert refused.value.message.startswith("run.sh:1: degrees of 4 leave 2 replicas of 8 GPUs")
    assert "32 GPUs" in refused.value.help
    assert read(text, gpus=32).job.strategy.expert_parallel == 8


@pytest.mark.parametrize(
    "text",
    ["}--x\n" * 200, "$(" * 4000, 'a="$a' * 2000, "eval " * 2000, "cat <<A\n" * 900, "if [ a = a ]; then\n" * 400,
     "a=(" * 3000, "bash -c 'bash -c \"" * 500, "for a in b; do " * 600, "case a in " * 700],
)  # fmt: skip
def test_scripts_that_are_none_end_with_an_answer_or_a_message(text):
    for script in (f"{text}\ntorchrun {JOB}\n", f"torchrun {JOB}\n{text}\n"):
        with contextlib.suppress(ConfigurationError):
            read(script, gpus=8)
