"""DeepSpeed's configuration: JSON. It says neither the model nor how many ranks there are: these are given beside it.

Facts of DeepSpeed 0.19.8: deepspeed/runtime/config.py (`train_batch_size` is the micro batch times the accumulation
steps times the replicas), runtime/zero/config.py (stages, MiCS and hpZ groups), runtime/pipe/module.py (pipelines).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from distir.configurations import texts
from distir.configurations.formats import Format, configuration_format
from distir.configurations.jobs import (
    ALWAYS,
    GLOBAL_BATCH,
    MICRO_BATCH,
    Job,
    JobText,
    ReadJob,
    Supplied,
    checked,
    float32,
    of_given,
    optimizer_of,
    overlapping,
    replicas,
    state_on_host,
    unsaid,
)
from distir.configurations.known import known
from distir.configurations.options import Options, Remark, Setting, renamed
from distir.transform.strategy.partial import of_precision, of_recomputation, partial

VERSION: Final = "0.19.8"

KNOWN: Final = known(
    "DeepSpeed",
    f"deepspeed {VERSION}",
    "deepspeed",
    (
        *("steps_per_print", "gradient_clipping", "dump_state", "memory_breakdown", "log_level", "distributed_backend"),
        *("dataloader_drop_last", "tag_validation"),
        *("zero_allow_untested*", "zero_force_ds_cpu_optimizer", "prescale_gradients", "gradient_predivide_factor"),
        *("fp16.loss_scale*", "fp16.initial*", "fp16.hyst*", "fp16.min*", "fp16.cons*", "fp16.opt_level"),
        *("bf16.check_grad_overflow", "bf16.loss_scale*", "bf16.initial*", "expert_parallel.preset_model"),
        *("zero_optimization.stage3_gather*", "zero_optimization.gather_16bit*", "zero_optimization.load_from*"),
        *("zero_optimization.ignore_unused_parameters", "zero_optimization.elastic_checkpoint"),
        *("zero_optimization.log_*", "zero_optimization.offload_*.pin_memory", "zero_optimization.offload_*.buffer_*"),
        *("zero_optimization.cpu_offload_use_pin_memory", "optimizer.legacy_fusion", "disable_python_gc"),
    ),
    (
        *("distir.*", "scheduler.*", "optimizer.params.*", "tensorboard.*", "wandb.*", "csv_monitor.*", "comet.*"),
        *("flops_profiler.*", "comms_logger.*", "monitor_config.*", "checkpoint.*", "aio.*", "nebula.*"),
    ),
    (
        *("amp", "sparse_attention", "elasticity", "data_efficiency", "curriculum_learning", "compression_training"),
        *("progressive_layer_drop", "eigenvalue", "hybrid_engine", "weight_quantization", "quantize_training"),
        *("autotuning", "data_types"),
    ),
    **dict.fromkeys(("optimizer.type", "pipeline.stages", "pipeline.partition", "communication_data_type")),
    **dict.fromkeys(("data_types.grad_accum_dtype", "data_types.param_dtype", "torch_autocast.dtype")),
    **{"torch_autocast.enabled": False, "torch_autocast.lower_precision_safe_modules": None},
    **{"wall_clock_breakdown": False, "zero_optimization.reduce_scatter": True, "compile.enabled": False},
)

AUTO: Final = "auto"
"""What Hugging Face's trainer replaces: a setting that the configuration leaves open."""

RENAMED: Final = {
    "bfloat16.": "bf16.",
    "zero_optimization.cpu_offload_params": "zero_optimization.cpu_offload_param",
    "tensor_parallel.tp_size": "tensor_parallel.autotp_size",
}
"""What earlier versions call otherwise."""

DTYPES: Final = {
    **dict.fromkeys(("fp32", "float32", "torch.float32"), "fp32"),
    **dict.fromkeys(("bf16", "bfloat16", "torch.bfloat16"), "bf16"),
    **dict.fromkeys(("fp16", "float16", "half", "torch.float16"), "fp16"),
}
"""Precisions by what DeepSpeed calls them (deepspeed/utils/types.py, `DtypeEnum`)."""


MICRO, STEPS, TOTAL = "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size"
BATCHES: Final = (MICRO, STEPS, TOTAL)
"""Its batches: of a device, the micro batches that it adds up, and of all."""


@dataclass(frozen=True, slots=True)
class Loop:
    """What a training loop says beside the configuration of what distributes it; empty where it does not.

    `recompute`: `full` or `none`. `fills`: what it puts where DeepSpeed's configuration says `auto`, by option.
    """

    micro_batch: int | None = None
    steps: int | None = None
    precision: str = ""
    recompute: str = ""
    compile: bool = False
    optimizer: str = ""
    attention: str = ""

    @property
    def fills(self) -> dict[str, Any]:
        """By option of DeepSpeed: what is filled in where it says `auto`."""
        found = {MICRO: self.micro_batch, STEPS: self.steps}
        if self.precision:
            found |= {"bf16.enabled": self.precision in ("bf16", "fp8"), "fp16.enabled": self.precision == "fp16"}
        return {name: value for name, value in found.items() if value is not None}


def read(text: str, path: str, given: Supplied) -> ReadJob:
    """What a configuration says. Raises ConfigurationError."""
    return job_of(texts.of_json(text, path), path, given)


def job_of(settings: Mapping[str, Setting], path: str, given: Supplied, loop: Loop | None = None) -> ReadJob:
    """What settings of DeepSpeed say. Raises ConfigurationError."""
    loop = loop or Loop()
    found = {renamed(RENAMED, name): s for name, s in settings.items() if not name.rpartition(".")[2].startswith("_")}
    fills = {name: Setting(value, found[name].line if name in found else 0) for name, value in loop.fills.items()}
    found |= {name: s for name, s in fills.items() if name not in found or found[name].value == AUTO}
    options = Options(path, {name: s for name, s in found.items() if s.value != AUTO}, KNOWN)
    left_open = {name: s for name, s in found.items() if s.value == AUTO and not KNOWN.is_idle(name)}
    tp = options.optional("tensor_parallel.autotp_size", 0) or 1
    ep = options.whole("expert_parallel.autoep_size") if not options.is_off("expert_parallel.enabled") else 1
    cp = options.optional("sequence_parallel_size") or 1
    stage = options.whole("zero_optimization.stage", 0)
    if stage > 3:
        line = options.line("zero_optimization.stage")
        raise options.wrong(line, f"there is no ZeRO stage {stage}", "there are 0, 1, 2, 3")
    dp, micro, total = _batches(options, given, tp * cp)
    group = options.optional("zero_optimization.mics_shard_size", -1) or 0 if stage == 3 else 0
    if group > 0 and dp * cp % group:
        line = options.line("zero_optimization.mics_shard_size")
        raise options.wrong(line, f"groups of {group} replicas (MiCS) do not divide {dp * cp}")
    zero = "zero_optimization"
    weights = [f"{zero}.offload_param.device", f"{zero}.cpu_offload_param"]
    on_host = state_on_host(options, weights, [f"{zero}.offload_optimizer.device", f"{zero}.cpu_offload"])
    overlap = options.get("zero_optimization.overlap_comm")
    parts = options.get("zero_optimization.zero_hpz_partition_size")
    if parts and parts != 1:
        name = "zero_optimization.zero_hpz_partition_size"
        options.note("a second copy of weights in each node (hpZ) is not simulated", name)
    precision, recompute = _precision(options, left_open), _recomputation(options)
    if rest := [name for name in left_open if name not in BATCHES]:
        text = f"left open (auto), so that defaults are taken: {', '.join(f'`{name}`' for name in rest)}"
        options.notes.append(Remark(text, left_open[rest[0]].line))
    job = replace(
        of_given(given),
        said=partial(
            data=dp,
            tensor=tp,
            context=cp,
            shard=group if 0 < group < dp * cp else 0,
            expert_parallel=ep if given.model and given.model.experts else 1,
            zero=stage,
            optimizer=optimizer_of(options, "optimizer.type") or loop.optimizer or None,
            gradients=DTYPES[stated] if (stated := options.word("data_types.grad_accum_dtype", DTYPES)) else None,
            state_on_host=on_host,
            fuse=loop.compile or options.flag("compile.enabled"),
            whole=(),
            **of_precision(precision),
            **of_recomputation(loop.recompute or recompute),
            **overlapping(stage == 3 if overlap is None else bool(overlap)),
        ),
        micro_batch=micro,
        global_batch=total,
        attention=loop.attention,
    )
    return ReadJob(checked(path, job), "deepspeed", options.rest())


def _batches(options: Options, given: Supplied, each: int) -> tuple[int, int | None, int | None]:
    """The replicas, and the sequences of a micro batch and of a step: what is not said follows from the others."""
    micro = options.supplied(MICRO, given.micro_batch, MICRO_BATCH)
    total = options.supplied(TOTAL, given.global_batch, GLOBAL_BATCH)
    steps = options.optional(STEPS)
    stated = None
    if micro and steps and total and given.global_batch is None:
        if total % (micro * steps):
            message = f"`{TOTAL}` {total} is not {micro} · {steps} times a number of replicas"
            hint = "it is the micro batch times the accumulation steps times the replicas"
            raise options.wrong(options.line(TOTAL), message, hint)
        stated = total // (micro * steps) * each
    dp, assumed = replicas(options.path, given, stated, each)
    if assumed:
        options.note(assumed)
    steps = steps or (1 if total is None else max(1, total // ((micro or 1) * dp)) if micro else 1)
    if micro is None and total is not None:
        micro, left = divmod(total, steps * dp)
        if left or not micro:
            message = f"a batch of {total} is not a multiple of {steps} steps on {dp} replicas"
            raise options.wrong(options.line(TOTAL), message)
    if total is None and micro is not None:
        total = micro * steps * dp
    return dp, micro, total


def _precision(options: Options, left_open: dict[str, Setting]) -> str:
    half, brain = options.flag("fp16.enabled"), options.flag("bf16.enabled")
    if half and brain:
        raise options.wrong(options.line("fp16.enabled"), "`fp16` and `bf16` contradict each other", "use one of them")
    if half or brain:
        return "fp16" if half else "bf16"
    for name, word in (("bf16.enabled", "bf16"), ("fp16.enabled", "fp16")):
        if name in left_open:
            options.notes.append(Remark(f"`{name}` is left open (auto): {word} is assumed", left_open.pop(name).line))
            left_open.pop("fp16.enabled", None)
            return word
    dtype = options.word("torch_autocast.dtype", DTYPES) or "bfloat16"
    if options.flag("torch_autocast.enabled"):
        text = "autocast of float32 weights is simulated as 16-bit weights with float32 copies"
        options.note(text, "torch_autocast.enabled")
        return DTYPES[dtype]
    return float32(options, "neither `bf16` nor `fp16` is on")


def _recomputation(options: Options) -> str:
    """The configuration only says how; that the model recomputes is in its code."""
    names = [name for name in options.settings if name.startswith("activation_checkpointing.")]
    for name in names:
        options.get(name)
    if options.flag("activation_checkpointing.cpu_checkpointing"):
        text = "inputs of layers on the host are not simulated: they are on the device here"
        options.note(text, "activation_checkpointing.cpu_checkpointing")
    if names:
        options.note("recomputation of whole layers is assumed, which the model's code decides", names[0])
    return "full" if names else "none"


def write(job: Job) -> JobText:
    """The JSON of a job."""
    own = job.strategy
    topology = f"PipeModelDataParallelTopology(num_pp={own.pipeline}, num_mp={own.tensor}, num_dp={own.data})"
    of_stages = "activation_checkpoint_interval=1 of PipelineModule"
    of_layers = of_stages if own.pipeline > 1 else "deepspeed.checkpointing.checkpoint"
    parts = own.expert_parallel
    why = unsaid(job) | {
        "pipeline": f"pipeline stages: build the model as a deepspeed.pipe.PipelineModule of {own.pipeline} stages",
        "zero": f"ZeRO stage {own.zero}: DeepSpeed's pipelines take stages 0 and 1",
        "stages": f"stages of {','.join(map(str, own.stages))} layers: see partition_method of PipelineModule",
        "expert_parallel": f"experts over {parts} replicas: give deepspeed.moe.layer.MoE ep_size={parts}",
        "sequence": "sequence parallelism: DeepSpeed's AutoTP splits weights alone",
        "whole": "logits that are gathered: see tensor_parallel.vocab_parallel_lm_head",
        "shard": f"state within groups of {own.shard} replicas: see deepspeed.zero.MiCS_Init",
        "recompute": f"recomputation `{job.recompute}`: the model does it, through {of_layers}, for whole layers",
        "fuse": "torch.compile: call engine.compile()",
    }
    if own.pipeline > 1 and own.tensor > 1:
        why["tensor"] = f"tensor parallelism inside stages: give the PipelineModule layers that do it, and {topology}"
    if job.recompute != "none":
        why[f"{ALWAYS}recompute"] = why["recompute"]
    document: dict[str, object] = {
        "train_batch_size": job.global_batch,
        "train_micro_batch_size_per_gpu": job.micro_batch,
        "gradient_accumulation_steps": job.microbatches or 1,
        "sequence_parallel_size": own.context if own.context > 1 else None,
        "tensor_parallel": {"autotp_size": own.tensor} if own.tensor > 1 and own.pipeline == 1 else None,
        "zero_optimization": {
            "stage": own.zero if own.pipeline == 1 else min(own.zero, 1),
            **({"mics_shard_size": own.shard} if own.shard and own.zero == 3 and own.pipeline == 1 else {}),
            **({"overlap_comm": job.overlaps} if own.zero else {}),
            **({"offload_optimizer": {"device": "cpu"}} if own.state_on_host else {}),
        },
        "optimizer": {"type": "Muon"} if own.optimizer == "muon" else None,
        "fp16" if job.precision == "fp16" else "bf16": {"enabled": True} if job.precision not in ("", "fp32") else None,
        "data_types": {"grad_accum_dtype": own.gradients} if own.gradients != "auto" else None,
        "activation_checkpointing": {"partition_activations": False} if job.recompute == "full" else None,
        "distir": {
            "start": f"deepspeed --num_nodes {job.nodes} --num_gpus {job.gpus_per_node}",
        },
    }
    kept = {key: value for key, value in document.items() if value is not None}
    return JobText(json.dumps(kept, indent=2) + "\n", why)


DEEPSPEED = configuration_format(
    Format(
        name="deepspeed",
        title="DeepSpeed's configuration (JSON); the model is given beside it",
        version=VERSION,
        suffixes=(".json",),
        read=read,
        framework="deepspeed",
        beside=("model", "seq"),
        runs={
            "pipeline": (1,),
            "expert_parallel": (0,),
            "schedule": ("1f1b",),
            "zero": (0, 1, 2, 3),
            "sequence": (False,),
            "precision": ("bf16", "fp16", "fp32"),
            "gradients": ("auto", *dict.fromkeys(DTYPES.values())),
            "attention": ("",),
            "recompute": ("none",),
            "fuse": (False,),
            "async_tp": (False,),
            "whole": ((),),
            "optimizer": ("", "muon"),
            "offloaded": (0,),
        },
    ),
    write,
)
