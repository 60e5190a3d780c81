"""Accelerate's configuration: YAML, of FSDP, DeepSpeed, Megatron-LM, or replicas alone.

It says how a training loop is distributed, and in which precision; the model and the batches are given beside it.
Facts of accelerate 1.15: commands/config/config_args.py (the file), utils/dataclasses.py (what its tables mean:
`FullyShardedDataParallelPlugin`, `DeepSpeedPlugin`, `MegatronLMPlugin`, `ParallelismConfig`), utils/fsdp_utils.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Final

from distir.configurations import deepspeed, megatron, texts
from distir.configurations.deepspeed import Loop
from distir.configurations.formats import Format, configuration_format
from distir.configurations.jobs import (
    GLOBAL_BATCH,
    BesideFile,
    Job,
    ReadJob,
    Supplied,
    checked,
    float32,
    of_given,
    overlapping,
    replicas,
    state_on_host,
)
from distir.configurations.known import known
from distir.configurations.options import ConfigurationError, Options, Remark, Setting, as_table, renamed
from distir.files.reading import FileKind, read_bytes
from distir.transform.strategy.partial import LOSS, of_precision, of_recomputation, partial

VERSION: Final = "1.15"

KNOWN: Final = known(
    "accelerate",
    f"accelerate {VERSION}",
    "accelerate",
    (
        *("compute_environment", "debug", "machine_rank", "main_process_*", "main_training_function", "rdzv_*"),
        *("same_network", "enable_cpu_affinity", "gpu_ids", "monitor_interval", "tee", "log_*", "role", "module"),
        *("fsdp_config.fsdp_state_dict_type", "fsdp_config.fsdp_cpu_ram_efficient_loading"),
        *("fsdp_config.fsdp_sync_module_states", "fsdp_config.fsdp_transformer_layer_cls_to_wrap"),
        *("fsdp_config.fsdp_use_orig_params", "deepspeed_config.gradient_clipping", "deepspeed_config.zero3_*"),
        *("deepspeed_config.deepspeed_multinode_launcher", "deepspeed_config.deepspeed_hostfile"),
        *("deepspeed_config.deepspeed_inclusion_filter", "deepspeed_config.deepspeed_exclusion_filter"),
        *("deepspeed_config.deepspeed_moe_layer_cls_names", "deepspeed_config.*_nvme_path"),
        *("parallelism_config.*_is_variable", "parallelism_config.*_attn_implementation"),
        *("parallelism_config.parallelism_config_sp_seq_length", "megatron_lm_config.megatron_lm_gradient_clipping"),
        *("megatron_lm_config.megatron_lm_no_*", "megatron_lm_config.megatron_lm_eod_mask_loss", "downcast_bf16"),
        "dynamo_config.dynamo_use_regional_compilation",
    ),
    (
        *("tpu_*", "command_file", "commands", "mpirun_config.*", "base_job_name", "image_uri", "py_version", "region"),
        *("profile", "iam_role_name", "pytorch_version", "transformers_version", "sagemaker_*", "ec2_instance_type"),
    ),
    ("fp8_config",),
)

RENAMED: Final = {
    "fsdp_config.fsdp_backward_prefetch_policy": "fsdp_config.fsdp_backward_prefetch",
    "dynamo_backend": "dynamo_config.dynamo_backend",
    **{f"fsdp_config.{name}": f"fsdp_config.fsdp_{name}" for name in ("sharding_strategy", "offload_params")},
    **{f"parallelism_config.{name}_": f"parallelism_config.parallelism_config_{name}_" for name in ("dp", "tp", "cp")},
}
"""What earlier versions, and constructors in Python, call otherwise."""

STRATEGIES: Final = {
    "FULL_SHARD": (3, False),
    "SHARD_GRAD_OP": (2, False),
    "NO_SHARD": (0, False),
    "HYBRID_SHARD": (3, True),
    "HYBRID_SHARD_ZERO2": (2, True),
}
"""Of FSDP, in the order of their numbers: the stage of ZeRO, and whether each node holds all of the state."""

REPLICATED: Final = ("NO", "MULTI_GPU", "MULTI_XPU", "MULTI_NPU", "MULTI_MLU", "MULTI_HPU", "MULTI_MUSA", "TP")
DISTRIBUTED: Final = ("FSDP", "DEEPSPEED", "MEGATRON_LM", *REPLICATED)

PRECISIONS: Final = {"no": "fp32", "fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}

BESIDE: Final = FileKind("a configuration", 4 << 20, "take out what configures no training")
"""A file that another one names."""


def read(text: str, path: str, given: Supplied) -> ReadJob:
    """What a configuration says. Raises ConfigurationError."""
    found = job_of(texts.of_yaml(text, path), path, given)
    if found.job.recompute != "none":
        return found
    note = Remark("nothing is recomputed, as it does not say; a training loop's gradient checkpointing is not known")
    return replace(found, notes=[note, *found.notes])


def job_of(settings: Mapping[str, Setting], path: str, given: Supplied, loop: Loop | None = None) -> ReadJob:
    """What settings of accelerate say, with a training loop's. Raises ConfigurationError."""
    named = {renamed(RENAMED, name): s for name, s in settings.items() if as_table(s.value) != {}}
    options = Options(path, named, KNOWN)
    kind = str(options.get("distributed_type")).upper()
    kind = "NO" if kind == "FALSE" else kind  # as YAML reads `NO`
    if kind not in DISTRIBUTED:
        where = options.line("distributed_type")
        raise options.wrong(where, f"`distributed_type` is `{kind}`", f"read are {', '.join(DISTRIBUTED)}")
    if options.flag("use_cpu"):
        raise options.wrong(options.line("use_cpu"), "`use_cpu`: it trains on processors, which no profile describes")
    if kind.startswith("MULTI_") and kind != "MULTI_GPU":
        options.note(f"`{kind}`: its devices are those of `--hardware` here", "distributed_type")
    loop = _completed(options, loop or Loop())
    if kind == "DEEPSPEED":
        return _of_deepspeed(options, given, loop)
    if kind == "MEGATRON_LM":
        return _of_megatron(options, given, loop)
    job = _job(options, given, loop, sharded=kind == "FSDP")
    return ReadJob(checked(path, job), "fsdp2", options.rest())


def _completed(options: Options, loop: Loop) -> Loop:
    """A training loop, with the precision and the compiler of the configuration."""
    word = str(options.get("mixed_precision") or "no").lower()
    word = "no" if word in ("false", "none") else word
    if word not in PRECISIONS:
        where = options.line("mixed_precision")
        raise options.wrong(where, f"`mixed_precision` is `{word}`", f"expected one of {', '.join(PRECISIONS)}")
    backend = str(options.get("dynamo_config.dynamo_backend") or "no").lower()
    precision = loop.precision or ("" if word == "no" else PRECISIONS[word])
    compiles = loop.compile or backend not in ("no", "false")
    return replace(loop, precision=precision, compile=compiles)


def _devices(options: Options, given: Supplied) -> int | None:
    """How many devices a launcher starts; those that are given count before them."""
    found = options.optional("num_processes", -1)
    if str(options.get("distributed_type")).upper() in ("NO", "FALSE"):
        found = 1  # whatever it says
    if found is None or found < 1:
        return None
    if given.gpus and given.gpus != found:
        text = f"it starts {found} processes; simulated on {given.gpus} GPUs, as `--gpus` says"
        options.note(text, "num_processes")
        return given.gpus
    return found


def started(options: Options, given: Supplied) -> Supplied:
    """What is given, with the devices that a launcher starts, and how many a node has."""
    devices = _devices(options, given)
    return given if devices is None else replace(given, gpus=devices, node=_node(options, given, devices))


def _node(options: Options, given: Supplied, devices: int) -> int:
    """The devices of a node: those that are started, over the machines."""
    machines = options.optional("num_machines") or 1
    return devices // machines if machines > 1 and devices % machines == 0 else given.node


def _degrees(options: Options) -> dict[str, int]:
    names = ("dp_replicate", "dp_shard", "tp", "cp", "sp")
    return {name: options.optional(f"parallelism_config.parallelism_config_{name}_size", -1) or 1 for name in names}


def _job(options: Options, given: Supplied, loop: Loop, *, sharded: bool) -> Job:
    """A job of FSDP, or of replicas that share nothing."""
    degrees = _degrees(options)
    tp, cp = degrees["tp"], max(degrees["cp"], degrees["sp"])
    dp, assumed = replicas(options.path, given, _devices(options, given), tp, cp)
    if assumed:
        options.note(assumed)
    zero, shard = _sharding(options, given, dp, cp, degrees["dp_replicate"]) if sharded else (0, 0)
    precision = loop.precision or float32(options, "`mixed_precision` is `no`", "mixed_precision")
    moved = ("fsdp_config.fsdp_offload_params",) if sharded else ()
    recomputes = sharded and options.flag("fsdp_config.fsdp_activation_checkpointing")
    micro, total = _batch(options, given, loop, dp)
    return replace(
        of_given(given),
        said=partial(
            data=dp,
            tensor=tp,
            context=cp,
            zero=zero,
            shard=shard,
            optimizer=loop.optimizer or None,
            gradients=None if not sharded or precision == "fp32" else "fp16" if precision == "fp16" else "bf16",
            state_on_host=state_on_host(options, moved, moved),
            fuse=loop.compile,
            whole=LOSS if tp > 1 else (),
            **of_precision(precision),
            **of_recomputation("full" if recomputes else loop.recompute or "none"),
            **overlapping(True),
        ),
        micro_batch=micro,
        global_batch=total,
        attention=loop.attention,
        node=_node(options, given, dp * tp * cp),
    )


def _batch(options: Options, given: Supplied, loop: Loop, dp: int) -> tuple[int | None, int | None]:
    """The sequences of a micro batch, and of a step."""
    micro = loop.micro_batch or given.micro_batch
    if loop.micro_batch and loop.steps and given.global_batch:
        stated = loop.micro_batch * loop.steps * dp
        if given.global_batch != stated:
            message = f"{loop.micro_batch} sequences · {loop.steps} steps · {dp} replicas are {stated}"
            raise ConfigurationError(f"{options.path}: {message}, and `{GLOBAL_BATCH}` says {given.global_batch}")
    return micro, given.global_batch or (micro * (loop.steps or 1) * dp if micro else None)


def _sharding(options: Options, given: Supplied, dp: int, cp: int, copies: int) -> tuple[int, int]:
    """The stage of ZeRO, and the size of the groups that share state, 0 for all."""
    table = "fsdp_config.fsdp_"
    version = options.optional(f"{table}version") or 1
    name = f"{table}sharding_strategy" if f"{table}sharding_strategy" in options else f"{table}reshard_after_forward"
    said = options.get(name)
    options.get(f"{table}reshard_after_forward")
    stage, by_node = _strategy(options, name, said, version)
    policy = str(options.get(f"{table}auto_wrap_policy") or "TRANSFORMER_BASED_WRAP")
    if policy != "TRANSFORMER_BASED_WRAP":
        options.note(f"`{policy}`: each layer is gathered by itself here", f"{table}auto_wrap_policy")
    options.get(f"{table}min_num_params")
    prefetch = str(options.get(f"{table}backward_prefetch") or "BACKWARD_PRE").upper()
    if version == 1 and prefetch != "BACKWARD_PRE":
        options.note(f"`{prefetch}` is not simulated: weights are gathered a layer ahead", f"{table}backward_prefetch")
    options.flag(f"{table}forward_prefetch")  # or not: weights are gathered beside computation
    node = _node(options, given, dp * cp)
    group = dp // copies if copies > 1 and dp % copies == 0 else node // cp if by_node and node < dp * cp else 0
    if copies > 1 and dp % copies:
        line = options.line("parallelism_config.parallelism_config_dp_replicate_size")
        raise options.wrong(line, f"{copies} copies do not divide {dp} replicas")
    return stage, group if group and dp % group == 0 and group < dp else 0


def _strategy(options: Options, name: str, said: Any, version: int) -> tuple[int, bool]:
    """What FSDP shards: by its word, by its number, or, since its second version, whether it shards again."""
    word = str("FULL_SHARD" if said is None else said).upper().replace("SHARDINGSTRATEGY.", "")
    if word in ("TRUE", "FALSE"):
        return (3 if word == "TRUE" else 2), False
    if word.isdecimal() and 0 < int(word) <= len(STRATEGIES):
        return list(STRATEGIES.values())[int(word) - 1]
    if word not in STRATEGIES:
        where = options.line(name)
        raise options.wrong(where, f"`{name}` is `{said}`", f"expected true, false, or one of {', '.join(STRATEGIES)}")
    return STRATEGIES[word]


def _of_deepspeed(options: Options, given: Supplied, loop: Loop) -> ReadJob:
    """A job of DeepSpeed: of the file that is named, or of the settings that stand here."""
    table = "deepspeed_config."
    degrees = _degrees(options)
    parts = max(degrees["cp"], degrees["sp"])
    for axis in ("cp", "sp"):
        options.get(f"parallelism_config.parallelism_config_{axis}_backend")
    beside_it = started(options, given)
    file = options.get(f"{table}deepspeed_config_file") or (given.beside is not None and given.beside.is_json)
    loop = replace(loop, steps=loop.steps or _steps(options))
    own = {
        "zero_optimization.stage": f"{table}zero_stage",
        "zero_optimization.offload_optimizer.device": f"{table}offload_optimizer_device",
        "zero_optimization.offload_param.device": f"{table}offload_param_device",
        "seq_parallel_communication_data_type": f"{table}seq_parallel_communication_data_type",
    }
    settings = {to: options.settings[name] for to, name in own.items() if name in options}
    for name in own.values():
        options.get(name)
    for to, degree in (("sequence_parallel_size", parts), ("tensor_parallel.autotp_size", degrees["tp"])):
        settings |= {to: Setting(degree, 0)} if degree > 1 else {}
    if not file:
        settings.setdefault("zero_optimization.stage", Setting(2, 0))
        fills = {name: Setting(value, 0) for name, value in loop.fills.items()}
        found = deepspeed.job_of(settings | fills, options.path, beside_it, loop)
        return replace(found, notes=[*found.notes, *options.rest()])
    found = of_deepspeeds_file(options, f"{table}deepspeed_config_file", beside_it, loop)
    return replace(found, notes=[*found.notes, *options.rest()])


def _steps(options: Options) -> int | None:
    name = "deepspeed_config.gradient_accumulation_steps"
    return None if options.get(name) == deepspeed.AUTO else options.optional(name)


def of_deepspeeds_file(options: Options, name: str, given: Supplied, loop: Loop) -> ReadJob:
    """A job of DeepSpeed's configuration in a file that an option names, or that is given beside it.

    Where there is no such file, what its name says is assumed. Raises ConfigurationError if that says no stage.
    """
    if given.beside is not None and given.beside.is_json:
        options.get(name)
        return _remarked(texts.of_json(given.beside.text, given.beside.path), given.beside.path, given, loop)
    file = str(options.get(name))
    found = beside_of(options, name, file)
    if found is not None:
        return _remarked(texts.of_json(found.text, found.path), found.path, given, loop)
    stage = re.search(r"(?:z|zero|stage|ds)[_-]?([0-3])(?!\d)", PurePath(file).name.lower())
    if stage is None:
        hint = "give it with `--with FILE`, or put it beside this one"
        raise options.wrong(options.line(name), f"`{name}` names `{file}`, which is not there", hint)
    on_host = "cpu" if "offload" in file else "none"
    options.note(f"`{file}` is not there: ZeRO-{stage[1]} is assumed, as its name says; `--with FILE` gives it", name)
    line = options.line(name)
    assumed = {
        "zero_optimization.stage": Setting(int(stage[1]), line),
        "zero_optimization.offload_optimizer.device": Setting(on_host, line),
    }
    assumed |= {option: Setting(deepspeed.AUTO, line) for option in loop.fills}
    return deepspeed.job_of(assumed, options.path, given, loop)


def _remarked(settings: Mapping[str, Setting], path: str, given: Supplied, loop: Loop) -> ReadJob:
    """A job of DeepSpeed whose notes name its file."""
    found = deepspeed.job_of(settings, path, given, loop)
    return replace(found, notes=[Remark(note.shown(path)) for note in found.notes])


def beside_of(options: Options, name: str, file: str) -> BesideFile | None:
    """A file that an option names: beside the configuration, or in a folder that this is in; None if there is none.

    Raises ConfigurationError for one that is no text.
    """
    for folder in (*PurePath(options.path).parents, PurePath()):
        place = str(folder / file)
        try:
            return BesideFile(place, read_bytes(place, BESIDE).decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise options.wrong(options.line(name), f"`{place}` is not UTF-8 text") from None
        except (OSError, ValueError):
            continue
    return None


MEGATRON_NAMES: Final = {
    "tp_degree": "tensor_model_parallel_size",
    "pp_degree": "pipeline_model_parallel_size",
    "sequence_parallelism": "sequence_parallel",
}
"""What accelerate calls otherwise; other options of its table are Megatron-LM's."""


def _of_megatron(options: Options, given: Supplied, loop: Loop) -> ReadJob:
    """A job of Megatron-LM, by its own options."""
    table = "megatron_lm_config.megatron_lm_"
    settings: dict[str, Setting] = {}
    for name, setting in options.settings.items():
        last = name.removeprefix(table)
        if name.startswith(table) and last != "num_micro_batches" and setting.value is not None:
            options.get(name)
            settings[MEGATRON_NAMES.get(last, last)] = setting
    if loop.precision in ("bf16", "fp8", "fp16"):
        settings["fp16" if loop.precision == "fp16" else "bf16"] = Setting(True, 0)
    if loop.precision == "fp8":
        settings["fp8_format"] = Setting("hybrid", 0)
    devices = _devices(options, given)
    rounds = loop.steps or options.optional(f"{table}num_micro_batches") or 1
    known_options = Options(options.path, settings, megatron.KNOWN)
    found = megatron.job_of(known_options, replace(given, gpus=devices or given.gpus, global_batch=None))
    micro = found.micro_batch or loop.micro_batch
    total = given.global_batch or (micro * rounds * found.strategy.data if micro else None)
    job = replace(found, micro_batch=micro, global_batch=total, attention=loop.attention)
    return ReadJob(checked(options.path, job), "megatron", [*known_options.rest(), *options.rest()])


ACCELERATE = configuration_format(
    Format(
        name="accelerate",
        title="accelerate's configuration of FSDP or DeepSpeed (YAML); the model and the batches are given beside it",
        version=VERSION,
        suffixes=(),
        read=read,
    )
)
