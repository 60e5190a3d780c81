"""A row of a search as the options of a training framework: the paper's quick way from a strategy to a run.

Each exporter is one function under `@exporter`; it says beside the options what does not carry over. The names are
those of the frameworks' own documentation, as of Megatron-LM `megatron/training/arguments.py` (core 0.15), DeepSpeed
0.19 "DeepSpeed Configuration JSON", and torchtitan 0.3 `torchtitan/config/configs.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from distir.cost import show_seconds
from distir.diagnostics.spelling import nearest
from distir.search.rows import Row
from distir.transform.pipeline import SCHEDULES

EXPORTERS: dict[str, Callable[[Row], str]] = {}
"""By the framework's name, in lower case."""


class ExportError(ValueError):
    """A framework that is not known; the text says which are."""


def exporter(write: Callable[[Row], str]) -> Callable[[Row], str]:
    """Register what writes a row for the framework of the function's name."""
    EXPORTERS[write.__name__] = write
    return write


def export(row: Row, framework: str) -> str:
    """The row for a framework, as text. Raises ExportError."""
    if framework not in EXPORTERS:
        near = nearest(framework, EXPORTERS)
        hint = f"did you mean `{near}`?" if near else f"there are {', '.join(EXPORTERS)}"
        raise ExportError(f"there is no exporter `{framework}`; {hint}")
    return EXPORTERS[framework](row)


@exporter
def megatron(row: Row) -> str:
    """Flags of Megatron-LM's training scripts."""
    lost = _lost_schedule(row, ("1f1b", "interleaved"), "Megatron-LM")
    flags: dict[str, object] = {
        "--tensor-model-parallel-size": row.T,
        "--pipeline-model-parallel-size": row.P,
        "--micro-batch-size": row.micro_batch,
        "--global-batch-size": row.batch_size,
    }
    if row.EP > 1:  # each expert is split over T, as all else is
        flags |= {"--expert-model-parallel-size": row.EP, "--expert-tensor-parallel-size": row.T}
        flags["--moe-token-dispatcher-type"] = "alltoall"
    stages = row.plan.stages
    if row.P > 1 and stages and row.schedule != "interleaved" and len(stages) > row.P:
        lost.append(f"stages of {row.stages} layers: Megatron-LM deals several out to a device only for interleaving")
    elif row.P > 1 and stages:  # says how many pieces there are, too
        flags["--pipeline-model-parallel-layout"] = json.dumps(_layout(stages))
    elif row.P > 1 and row.schedule == "interleaved":
        flags["--num-virtual-stages-per-pipeline-rank"] = row.plan.stages_per_device
    if row.P > 1 and row.schedule == "interleaved" and row.K % row.P:
        lost.append(f"interleaving: Megatron-LM wants microbatches in multiples of {row.P} stages, not {row.K}")
    if row.zero in (2, 3) and row.P > 1:
        lost.append(f"ZeRO stage {row.zero}: Megatron-LM has it in Megatron-FSDP, in place of pipelines")
    if row.zero:
        flags["--use-distributed-optimizer"] = ""
    if row.overlap and row.D > 1:
        flags |= {"--overlap-grad-reduce": "", **({"--overlap-param-gather": ""} if row.zero else {})}
    if row.zero in (2, 3) and row.P == 1:
        flags |= {
            "--use-megatron-fsdp": "",
            "--data-parallel-sharding-strategy": "optim_grads" if row.zero == 2 else "optim_grads_params",
            "--no-gradient-accumulation-fusion": "",
            "--ckpt-format": "fsdp_dtensor",
        }
    if row.checkpoint:
        flags |= {"--recompute-granularity": "full", "--recompute-method": "uniform", "--recompute-num-layers": 1}
    lines = [f"{flag} {value}".rstrip() for flag, value in flags.items() if value is not None]
    return "".join(
        [*_comments(row, lost, f"one process per GPU: torchrun {_processes(row)} …"), " \\\n".join(lines), "\n"]
    )


@exporter
def deepspeed(row: Row) -> str:
    """DeepSpeed's configuration file. JSON has no comments: what is lost is under `distir`."""
    lost = _lost_schedule(row, ("1f1b",), "DeepSpeed")
    if row.P > 1:
        lost.append(f"pipeline stages: build the model as a deepspeed.pipe.PipelineModule of {row.P} stages")
    if row.P > 1 and row.T > 1:
        topology = f"PipeModelDataParallelTopology(num_pp={row.P}, num_mp={row.T}, num_dp={row.D})"
        lost.append(f"tensor parallelism inside stages: give the PipelineModule layers that do it, and {topology}")
    if row.P > 1 and row.zero > 1:
        lost.append(f"ZeRO stage {row.zero}: DeepSpeed's pipelines take stages 0 and 1")
    if row.stages:
        lost.append(f"stages of {row.stages} layers: see partition_method of PipelineModule")
    if row.EP > 1:
        lost.append(f"experts over {row.EP} replicas: give deepspeed.moe.layer.MoE ep_size={row.EP}")
    if row.checkpoint:
        how = (
            "activation_checkpoint_interval=1 of PipelineModule" if row.P > 1 else "deepspeed.checkpointing.checkpoint"
        )
        lost.append(f"recomputing activations: the model does it, through {how}")
    document: dict[str, object] = {
        "train_batch_size": row.batch_size,
        "train_micro_batch_size_per_gpu": row.micro_batch,
        "gradient_accumulation_steps": row.K,
        "tensor_parallel": {"autotp_size": row.T} if row.T > 1 and row.P == 1 else None,
        "zero_optimization": {
            "stage": row.zero if row.P == 1 else min(row.zero, 1),
            **({"overlap_comm": True} if row.overlap and row.zero else {}),
        },
        "distir": {
            "from": _title(row),
            "start": f"deepspeed --num_gpus {row.plan.devices}",
            "not_carried_over": lost,
        },
    }
    return json.dumps({key: value for key, value in document.items() if value is not None}, indent=2) + "\n"


@exporter
def torchtitan(row: Row) -> str:
    """A torchtitan configuration, which is a Python function since its version 0.3: one that distributes another."""
    lost = _lost_schedule(row, [name for name, known in SCHEDULES.items() if known.torch], "torchtitan")
    if row.P > 1 and row.schedule == "zb-h1":
        lost.append("zb-h1: torchtitan's nearest schedule is InterleavedZeroBubble, of two stages per rank")
    if row.zero == 1:
        lost.append("ZeRO stage 1: torchtitan shards gradients, too, or nothing")
    if row.stages:
        lost.append(f"stages of {row.stages} layers: name their modules in module_fqns_per_model_part")
    replicate, shard = (1, row.D) if row.zero >= 2 else (row.D, 1)
    settings: dict[str, object] = {
        "training.local_batch_size": None if row.batch_size is None else row.batch_size // row.D,
        "training.global_batch_size": row.batch_size,
        "parallelism.data_parallel_replicate_degree": replicate,
        "parallelism.data_parallel_shard_degree": shard,
        "parallelism.fsdp_reshard_after_forward": None if shard == 1 else "always" if row.zero == 3 else "never",
        "parallelism.tensor_parallel_degree": row.T,
        "parallelism.expert_parallel_degree": row.EP if row.EP > 1 else None,
        "parallelism.enable_sequence_parallel": False if row.T > 1 else None,
        "parallelism.pipeline_parallel_degree": row.P,
    }
    if row.P > 1:
        settings |= {
            "parallelism.pipeline_parallel_schedule": _torch_schedule(row.schedule),
            "parallelism.pipeline_parallel_microbatch_size": row.micro_batch,
            "parallelism.pipeline_parallel_first_stage_less_layers": 0,
            "parallelism.pipeline_parallel_last_stage_less_layers": 0,
        }
    lines = [f"    config.{name} = {value!r}" for name, value in settings.items() if value is not None]
    lines.append(f"    config.activation_checkpoint = {'FullAC.Config()' if row.checkpoint else None}")
    imports = "from torchtitan.distributed.activation_checkpoint import FullAC\n\n\n" if row.checkpoint else ""
    body = ["def distributed(config):", '    """A configuration of yours for one model, distributed."""', *lines]
    how = f"torchtitan 0.3 takes configurations from Python; start it with NGPU={row.plan.devices}"
    return "".join([*_comments(row, lost, how), "\n", imports, "\n".join([*body, "    return config"]), "\n"])


def _comments(row: Row, lost: Sequence[str], how: str) -> list[str]:
    return [f"# {_title(row)}\n", f"# {how}\n", *(f"# not carried over: {text}\n" for text in lost)]


def _title(row: Row) -> str:
    batch = f", batch {row.batch_size}" if row.batch_size is not None else ""
    model = json.dumps(row.model)[1:-1]  # one line, whatever the name
    latency = f", simulated {show_seconds(row.latency_s)} on {row.hardware}" if row.latency_s is not None else ""
    return f"{model}, D/T/P/K {row.plan}{batch}{latency}"


def _processes(row: Row) -> str:
    return f"--nproc-per-node {row.plan.devices}"


def _layout(stages: Sequence[int]) -> str:
    """Megatron-LM's words for unequal stages: E embedding, t a layer, L loss, a bar between stages."""
    layers = [f"t*{count}" if count > 1 else "t" * count for count in stages]
    return f"E{'|'.join(layers)}L"


def _torch_schedule(name: str) -> str:
    """A schedule's name in `torch.distributed.pipelining`; 1F1B's for one that it lacks."""
    known = SCHEDULES[name].torch if name in SCHEDULES else None
    return known or "1F1B"


def _lost_schedule(row: Row, schedules: Sequence[str], says: str) -> list[str]:
    known = row.P == 1 or row.schedule in schedules
    return [] if known else [f"the schedule {row.schedule}: {says} runs 1F1B"]
