"""YAML of what is built on Megatron Core: overrides of Megatron-Bridge's recipes, and NeMo's GPT configurations.

Their options are those of Megatron-LM under other sections and, for some, other names: they are read as such. Facts:
Megatron-Bridge 0.3.1, megatron/bridge/training/config.py (`ConfigContainer`); NVIDIA/NeMo 2.0, up to which
examples/nlp/language_modeling/conf/megatron_gpt_config.yaml is there (later ones are recipes in Python).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from distir.configurations import megatron, texts
from distir.configurations.formats import Format, configuration_format
from distir.configurations.jobs import ALWAYS, Job, JobText, ReadJob, Supplied, optimizer_of, unsaid
from distir.configurations.known import listed, words
from distir.configurations.models import of_name
from distir.configurations.options import ConfigurationError, Known, Options, Setting, as_table

Change = Callable[[Any], tuple[str, Any]]
"""From the value of an option to Megatron's argument and its value."""


def _called(name: str) -> Change:
    return lambda value: (name, value)


def _unless(name: str) -> Change:
    return lambda value: (name, not value)


def _activation(value: Any) -> tuple[str, Any]:
    word = str(value).lower()
    if "glu" in word or "silu" in word:
        return ("swiglu" if "swi" in word or "silu" in word else "quick_geglu"), True
    known = "squared" in word or "gelu" in word
    return ("squared_relu", "squared" in word) if known else ("activation_func", value)


def _normalization(value: Any) -> tuple[str, Any]:
    word = str(value).lower()
    return "normalization", "RMSNorm" if word == "rmsnorm" else "LayerNorm" if "layernorm" in word else value


def _synchronised(value: Any) -> tuple[str, Any]:
    """Of the type of gradients that a distributed optimizer sums."""
    word = str(value)
    return "grad_reduce_in_bf16", "bf16" in word if re.search("bf16|32", word) else value


def _vocabulary(value: Any) -> tuple[str, Any]:
    """The vocabulary of a tokenizer that is one of a published model."""
    published = of_name(str(value))
    return "vocab_size", published[1].vocabulary if published else None


def _sharding(value: Any) -> tuple[str, Any]:
    """Of FSDP: `grad` keeps weights between the passes; others, such as `hybrid`, are left to be reported."""
    if value in ("grad", "full", None):
        return "torch_fsdp2_no_reshard_after_forward", value == "grad"
    return "fsdp_sharding_strategy", value


def _precision(value: Any) -> tuple[str, Any]:
    """Of Lightning: `bf16-mixed`, `16`."""
    return ("bf16", True) if "bf16" in str(value) else ("fp16", str(value).startswith("16"))


def _recipe(value: Any) -> tuple[str, Any]:
    """Of a name of a recipe of Megatron-Bridge's mixed precision."""
    word = str(value)
    if "nvfp4" in word:
        return "fp4", "e2m1"
    if "mxfp8" in word:
        return "fp8_format", "mxfp8"
    if "fp8" in word:
        return "fp8_format", "hybrid"
    return ("fp16", True) if word.startswith("fp16") else ("bf16", True)


OF_FIELDS: Final[dict[str, Change]] = {
    "model.layernorm_epsilon": _called("norm_epsilon"),
    "model.layernorm_zero_centered_gamma": _called("apply_layernorm_1p"),
    "model.rope_scaling": _called("use_rope_scaling"),
}
"""Fields that Megatron-LM's arguments call otherwise."""

BRIDGE_NAMES: Final[dict[str, Change]] = {
    "model.share_embeddings_and_output_weights": _unless("untie_embeddings_and_output_weights"),
    "model.add_bias_linear": _unless("disable_bias_linear"),
    "model.num_moe_experts": _called("num_experts"),
    "model.gated_linear_unit": _called("swiglu"),
    **OF_FIELDS,
    "model.num_layers_in_first_pipeline_stage": _called("decoder_first_pipeline_num_layers"),
    "model.num_layers_in_last_pipeline_stage": _called("decoder_last_pipeline_num_layers"),
    "tokenizer.tokenizer_model": _vocabulary,
    "model.hf_model_id": _vocabulary,
    "dataset.sequence_length": _called("seq_length"),
    "dataset.seq_length": _called("seq_length"),
    "mixed_precision": _recipe,
    "mixed_precision.dtype": _recipe,
    "mixed_precision.fp8": _called("fp8_format"),
    "mixed_precision.grad_reduce_in_fp32": _unless("grad_reduce_in_bf16"),
    "ddp.grad_reduce_in_fp32": _unless("grad_reduce_in_bf16"),
}
"""Options of Megatron-Bridge that Megatron-LM calls otherwise; others go by their last name."""

ALL_TRAINED: Final = "all weights are trained here, as without LoRA"

BRIDGE: Final = Known(
    "Megatron-Bridge",
    "megatron-bridge 0.3.1, megatron/bridge/training/config.py",
    {
        **dict.fromkeys(BRIDGE_NAMES),
        **listed("megatron_bridge"),
        "dist.use_torch_fsdp2": False,
        "dist.use_megatron_fsdp": False,
    },
    (
        *("logger.*", "checkpoint.*", "profiling.*", "rng.*", "scheduler.*", "tokenizer.*"),
        *("model.*init_method*", "model.hf_model_id", *(f"*.{pattern}" for pattern in megatron.IDLE)),
    ),
    (
        *("*._target_", "*._call_", "*._partial_", "*._args_", "dataset.*", "ft.*", "straggler.*", "nvrx_straggler.*"),
        *("tensor_inspect.*", "inprocess_restart.*", "rerun_state_machine.*", "model.generation_config*", "ENV_VARS.*"),
        *("_target_", "env_vars.*", "ft", "straggler", "nvrx_straggler", "tensor_inspect", "inprocess_restart"),
    ),
    {"peft": ALL_TRAINED, "model.teacher": "a step without distillation is", "perf_matrix": "its degrees are options"},
)

NEMO_NAMES: Final[dict[str, Change]] = {
    "model.encoder_seq_length": _called("seq_length"),
    "model.data.seq_length": _called("seq_length"),
    "model.activations_checkpoint_granularity": _called("recompute_granularity"),
    "model.activations_checkpoint_method": _called("recompute_method"),
    "model.activations_checkpoint_num_layers": _called("recompute_num_layers"),
    "model.share_embeddings_and_output_weights": _unless("untie_embeddings_and_output_weights"),
    "model.bias": _unless("disable_bias_linear"),
    "model.activation": _activation,
    "model.normalization": _normalization,
    "model.fp8": lambda value: ("fp8_format", "hybrid" if value else None),
    "model.ub_tp_comm_overlap": _called("tp_comm_overlap"),
    "model.optim.overlap_grad_sync": _called("overlap_grad_reduce"),
    "model.optim.overlap_param_sync": _called("overlap_param_gather"),
    "model.optim.grad_sync_dtype": _synchronised,
    "model.optim.name": lambda value: ("use_distributed_optimizer", "distributed" in str(value)),
    "model.rotary_percentage": _called("rotary_percent"),
    **OF_FIELDS,
    "model.num_moe_experts": _called("num_experts"),
    "model.qkv_bias": _called("add_qkv_bias"),
    "model.gradient_accumulation_fusion": _called("gradient_accumulation_fusion"),
    "model.fp8_params": _called("fp8_param_gather"),
    "model.tokenizer.vocab_size": _called("vocab_size"),
    "model.override_vocab_size": _called("vocab_size"),
    "model.tokenizer.type": _vocabulary,
    "model.fsdp": _called("use_torch_fsdp2"),
    "model.fsdp_sharding_strategy": _sharding,
    "model.fsdp_grad_reduce_dtype": _synchronised,
    "model.data.train_ds.max_seq_length": _called("seq_length"),
    "trainer.devices": _called("nproc_per_node"),
    "trainer.num_nodes": _called("nnodes"),
    "trainer.precision": _precision,
}
"""Options of NeMo that Megatron-LM calls otherwise; others of `model` go by their last name."""

OF_CORE: Final = (
    "mcore_gpt",
    "transformer_engine",
    "use_flash_attention",
    "megatron_amp_O2",
    "bias_dropout_add_fusion",
)
"""Options of NeMo that choose the kernels and the weights in 16 bits that are simulated."""

OF_BUFFERS: Final = ("model.optim.contiguous_grad_buffer", "model.optim.contiguous_param_buffer")
"""Options of NeMo's optimizer that make one buffer of gradients, as here."""

CUSTOMIZED: Final = ("parallel_attention", "new_decoder_architecture")
"""Of Falcon: attention beside the perceptron."""

NEMO: Final = Known(
    "NeMo",
    "NVIDIA/NeMo 2.0, examples/nlp/language_modeling/conf/megatron_gpt_config.yaml",
    {
        **{name: default for name, default in listed("megatron_bridge").items() if name.startswith("model.")},
        **listed("nemo"),
        **{name: listed("nemo").get(name) for name in NEMO_NAMES},
        **dict.fromkeys(("name", "restore_from_path", "defaults")),
        **dict.fromkeys((f"model.mcore_customization_config.{name}" for name in CUSTOMIZED), False),
    },
    (*words("nemo_idle"), *(f"model.{pattern}" for pattern in megatron.IDLE)),
    (
        *("exp_manager.*", "hydra.*", "run.*", "cluster.*", "s3_checkpointing.*", "model.tokenizer.*", "env_vars.*"),
        *("model.data.*_ds.*", "inference.*", "model.inference.*", "model.target", "model.nemo_version", "model.name"),
        *("model.nsys_profile.*", "model.megatron_timer_kwargs.*", "model.optim.sched.*", "model.data.data_prefix.*"),
    ),
    {"model.peft": ALL_TRAINED},
    simulated=dict.fromkeys((*(f"model.{name}" for name in OF_CORE), *OF_BUFFERS), True),
)


def _read(known: Known, names: Mapping[str, Change], framework: str, text: str, path: str, given: Supplied) -> ReadJob:
    """What a YAML says, by Megatron's names; what these do not have is reported, or refused, under its own."""
    found = _overridden(_normal(texts.of_yaml(text, path)), path, given)
    if (kind := _other_kind(found)) is not None:
        raise ConfigurationError(f"{path}: it is of {kind}, and decoders alone are read", "give one of a GPT")
    own = Options(path, found, known)
    renamed: dict[str, Setting] = {}
    open_ones: dict[str, str] = {}
    for name, setting in found.items():
        last = name.rpartition(".")[2]
        of_no_model = known.is_idle(name) or known.section(name) or last not in megatron.KNOWN.defaults
        if name not in names and of_no_model:
            continue
        own.get(name)
        if name.startswith("model.fsdp_") and not _is_on(found, "model.fsdp"):
            continue  # of no training with FSDP
        said = _resolved(setting.value, name, found)
        if isinstance(said, str) and (said == MISSING or said.startswith("${")):
            open_ones[name] = said
            continue
        to, value = names[name](said) if name in names else (last, said)
        if value is not None and not (to in renamed and not value):
            renamed[to] = Setting(value, setting.line)
    _ask(own, {n: said for n, said in open_ones.items() if n not in FROM_OPTIONS})
    defaults = {**megatron.KNOWN.defaults, **_own_defaults(known)}
    if known is BRIDGE and not {"bf16", "fp16"} & renamed.keys():
        renamed["bf16"] = Setting(True, 0)
    options = Options(path, renamed, replace(megatron.KNOWN, defaults=defaults, simulated=SIMULATED))
    if "num_query_groups" in options and "group_query_attention" not in options:
        options.settings = {**options.settings, "group_query_attention": Setting(True, 0)}
    if "model.optim.name" in known.defaults and str(own.get("model.optim.name")) not in ADAMS:
        optimizer_of(own, "model.optim.name")
    for name in own.settings:
        if name.startswith("model.fp8_") and "fp8_format" not in renamed:
            own.get(name)  # of no product
    job = megatron.job_of(options, given)
    reduced = renamed.get("grad_reduce_in_bf16")
    if reduced is not None and not reduced.value and job.precision not in ("fp32", "fp16"):
        job = job.saying(gradients="fp32")  # whatever is the default
    return ReadJob(job, framework, sorted([*own.rest(), *options.rest()], key=lambda note: note.line))


def _is_on(found: Mapping[str, Setting], name: str) -> bool:
    return name in found and bool(found[name].value)


ADAMS: Final = ("mcore_distributed_optim", "distributed_fused_adam", "fused_adam", "adamw", "adam", "None")

MISSING: Final = "???"
"""What OmegaConf calls a value that must be given."""

FROM_OPTIONS: Final = frozenset(
    f"{table}.{name}"
    for table in ("model", "train", "trainer", "dataset")
    for name in (
        *("micro_batch_size", "global_batch_size", "num_nodes", "devices", "encoder_seq_length", "seq_length"),
        *("sequence_length", "vocab_size", "max_position_embeddings"),
    )
)
"""What options of the command say, too."""


def _ask(options: Options, left_open: Mapping[str, str]) -> None:
    """Raise ConfigurationError for options that a caller sets, all at once."""
    if not left_open:
        return
    first, said = next(iter(left_open.items()))
    listed = ", ".join(f"`{name}` (`{value}`)" for name, value in left_open.items())
    name = first if said == MISSING else said.strip("${}").partition(":")[2].partition(",")[0] or said.strip("${}")
    hint = f"give each with `--set`, such as `--set {name}=1`"
    raise options.wrong(options.line(first), f"it takes from its caller: {listed}", hint)


def _normal(found: Mapping[str, Setting]) -> dict[str, Setting]:
    """Settings by the names of today: of Megatron-Bridge's tables that have another name, or are within another one."""
    normal: dict[str, Setting] = {}
    for name, setting in found.items():
        plain = name.removeprefix("ConfigContainer.")
        table, dot, rest = plain.partition(".")
        normal[f"{table.removesuffix('_config')}{dot}{rest}"] = setting
    if "mixed_precision.grad_reduce_in_fp32" in normal:
        normal.pop("ddp.grad_reduce_in_fp32", None)  # which it overwrites
    return normal


def _overridden(found: Mapping[str, Setting], path: str, given: Supplied) -> dict[str, Setting]:
    """Settings with those that are given by name; other names are variables of the environment."""
    said = {name: value for name, value in given.variables.items() if name in found or "." in name}
    settings = dict(found)
    read = {name: texts.of_yaml(f"value: {value}", path)["value"].value for name, value in given.variables.items()}
    settings |= {name: Setting(read[name], 0) for name in said}
    variables = {name: value for name, value in read.items() if name not in said}
    return {name: _filled(setting, variables) for name, setting in settings.items()}


def _filled(setting: Setting, variables: Mapping[str, Any]) -> Setting:
    """A setting that is a variable, with the value of that."""
    text = setting.value.strip() if isinstance(setting.value, str) else ""
    variable = re.fullmatch(r"\$\{(?:oc\.env:)?(\w+)(?:,(.*))?\}", text)
    if variable and variable[1] in variables:
        return Setting(variables[variable[1]], setting.line)
    if variable and variable[2] is not None:
        return Setting(variable[2].strip("'\" "), setting.line)
    return setting


OTHER_KINDS: Final = {
    "an encoder and a decoder (T5, BART)": ("model.encoder.", "model.decoder."),
    "an encoder (BERT)": ("model.bert_binary_head", "model.bert_type"),
    "state spaces (Mamba)": ("model.hybrid_override_pattern", "model.hybrid_mlp_ratio", "model.mamba_ssm_ngroups"),
    "images and text": ("model.mm_cfg.", "model.vision.", "model.freeze_vision_model"),
    "images": ("model.unet_config.", "model.unet.", "model.first_stage_config.", "model.noise_scheduler."),
    "retrieval (RETRO)": ("model.retro.", "model.chunk_size", "model.enc_num_layers"),
    "speech": ("model.perception.", "model.preprocessor."),
    "recurrent blocks (Griffin)": ("model.block_types", "model.logits_soft_cap"),
}
"""Models that are no decoders of attention, by options that they have; a decoder has none of them."""


def _other_kind(found: Mapping[str, Setting]) -> str | None:
    """What a configuration is of, if that is no decoder."""
    says = [name for name, setting in found.items() if setting.value not in (None, False, 0)]
    for kind, marks in OTHER_KINDS.items():
        if any(name.startswith(marks) for name in says):
            return kind
    return None


def _resolved(value: Any, name: str, found: Mapping[str, Setting], depth: int = 8) -> Any:
    """A value, where it refers to another setting, or to arithmetic on numbers, that; else as it is."""
    text = value.strip() if isinstance(value, str) else ""
    if depth and (called := re.fullmatch(r"\$\{(\w+):(.+),(.+)\}", text)) and called[1] in ARITHMETIC:
        parts = [str(_resolved(part.strip(), name, found, depth - 1)) for part in called.groups()[1:]]
        if all(re.fullmatch(r"\d+(\.\d+)?", part) for part in parts) and float(parts[1]):
            number = ARITHMETIC[called[1]](float(parts[0]), float(parts[1]))
            return int(number) if number.is_integer() else number
        return value
    if depth and (refers := re.fullmatch(r"\$\{(\.*)([\w.]+)\}", text)):
        to = _target(name, len(refers[1]), refers[2], found)
        return value if to is None else _resolved(found[to].value, to, found, depth - 1)
    return value


ARITHMETIC: Final[Mapping[str, Callable[[float, float], float]]] = {
    **dict.fromkeys(("multiply", "mul"), lambda a, b: a * b),
    **dict.fromkeys(("divide", "div"), lambda a, b: a / b),
    **dict.fromkeys(("int_div", "floor_div"), lambda a, b: a // b),
    **dict.fromkeys(("add", "sum"), lambda a, b: a + b),
    **dict.fromkeys(("subtract", "sub"), lambda a, b: a - b),
}
"""Resolvers that NeMo's configurations, and the launcher's, call."""


def _target(name: str, dots: int, to: str, found: Mapping[str, Setting]) -> str | None:
    """What a reference is to: of as many tables up as it has dots, or by its whole name, perhaps in the launcher's."""
    tables = name.split(".")
    candidates = [".".join([*tables[:-dots], to])] if dots else [to, to.partition(".")[2]]
    return next((candidate for candidate in candidates if candidate in found), None)


def _own_defaults(known: Known) -> dict[str, Any]:
    """Where recipes and configurations begin: what they do not say is not Megatron-LM's default."""
    names = ("use_distributed_optimizer", "overlap_grad_reduce", "overlap_param_gather")
    from_recipes: dict[str, Any] = dict.fromkeys(names, known is BRIDGE)
    from_recipes |= {"expert_tensor_parallel_size": 1} if known is BRIDGE else {}
    return {"bf16": False, "accumulate_allreduce_grads_in_fp32": True, "cpu_offloading": False, **from_recipes}


SIMULATED: Final = {
    **megatron.SIMULATED,
    **dict.fromkeys(("cross_entropy_loss_fusion", "overlap_p2p_comm", "apply_rope_fusion"), True),
    "batch_p2p_comm": False,
    "masked_softmax_fusion": True,
    "gradient_accumulation_fusion": True,
}
"""Kernels of the definition of NeMo and Megatron-Bridge."""


def read_bridge(text: str, path: str, given: Supplied) -> ReadJob:
    """What overrides of a recipe of Megatron-Bridge say. Raises ConfigurationError."""
    return _read(BRIDGE, BRIDGE_NAMES, "nemo", text, path, given)


def read_nemo(text: str, path: str, given: Supplied) -> ReadJob:
    """What a configuration of NeMo says. Raises ConfigurationError."""
    return _read(NEMO, NEMO_NAMES, "nemo", text, path, given)


STATED: Final[dict[str, Any]] = {
    **dict.fromkeys(("context_parallel_size", "expert_model_parallel_size"), 1),
    **dict.fromkeys(("sequence_parallel", "account_for_embedding_in_pipeline_split"), False),
    "account_for_loss_in_pipeline_split": False,
    **dict.fromkeys(("expert_tensor_parallel_size", "virtual_pipeline_model_parallel_size")),
    **dict.fromkeys(("pipeline_model_parallel_layout", "recompute_granularity", "recompute_method")),
    **dict.fromkeys(("recompute_num_layers", "recompute_modules", "num_layers_in_first_pipeline_stage")),
    "num_layers_in_last_pipeline_stage": None,
}
"""Options of a model that are written where they are at their defaults, too: a recipe may have other values."""


OPTIMIZERS_OWN: Final = ("optimizer", "muon_tp_mode", "optimizer_cpu_offload")
"""Arguments of Megatron-LM that say which optimizer it is, and where its state is."""


def write_bridge(job: Job) -> JobText:
    """Overrides of a recipe of Megatron-Bridge."""
    why = unsaid(job)
    flags = megatron.options_of(job, why)
    why["gradients"] = "gradients in bf16: set grad_reduce_in_fp32=False in the recipe's MixedPrecisionConfig"
    flags.pop("grad_reduce_in_bf16", None)  # `ddp.grad_reduce_in_fp32` is overwritten by that of the precision
    own = {name: flags.pop(name) for name in OPTIMIZERS_OWN if name in flags}
    recipe = {"fp8": "bf16_with_fp8_delayed_scaling", "mxfp8": "bf16_with_mxfp8"}.get(job.precision, job.precision)
    precision = f"{recipe}_mixed"
    tables: dict[str, dict[str, Any]] = {"model": dict(STATED), "train": {}, "ddp": {}, "dist": {}}
    if job.seq:
        tables["dataset"] = {"seq_length": job.seq}  # `ConfigContainer.validate` wants that of the model
        learned = flags["max_position_embeddings"]
        if job.model and job.model.position == "learned" and learned != job.seq:
            text = f"learned positions for {learned} tokens: Megatron-Bridge's models have those of a sequence"
            why[f"{ALWAYS}positions"] = text
    known = listed("megatron_bridge")
    if job.strategy.offloaded:
        tables["model"]["cpu_offloading"] = True
    for name, value in flags.items():
        if name in ("bf16", "fp16", "fp8_format", "ckpt_format", "group_query_attention", "max_position_embeddings"):
            continue
        to, value = _in_yaml(name, value)
        section = next((s for s in tables if f"{s}.{to}" in known), "model")
        tables[section][to] = value
    distributed = "use_distributed_optimizer" in flags
    tables["ddp"] = {
        "use_megatron_fsdp": False,
        "num_distributed_optimizer_instances": 1,
        **tables["ddp"],
        "use_distributed_optimizer": distributed,
        "overlap_grad_reduce": job.overlaps,
        "overlap_param_gather": job.overlaps and distributed,
    }
    tables["optimizer"] = {**own, "use_distributed_optimizer": distributed}  # where either is on, both are
    text = (f"mixed_precision: {precision}\n" if job.precision else "") + _yaml(tables)
    return JobText(text, why)


OF_YAML: Final = {
    "untie_embeddings_and_output_weights": "share_embeddings_and_output_weights",
    "disable_bias_linear": "add_bias_linear",
    "swiglu": "gated_linear_unit",
    "num_experts": "num_moe_experts",
    "no_gradient_accumulation_fusion": "gradient_accumulation_fusion",
    "num_virtual_stages_per_pipeline_rank": "virtual_pipeline_model_parallel_size",
    "norm_epsilon": "layernorm_epsilon",
    "apply_layernorm_1p": "layernorm_zero_centered_gamma",
    "use_rope_scaling": "rope_scaling",
}
"""Arguments of Megatron-LM that fields of its classes, and so YAML, call otherwise."""

OPPOSITES: Final = ("untie_embeddings_and_output_weights", "disable_bias_linear", "no_gradient_accumulation_fusion")
"""Those whose fields mean the opposite."""


def _in_yaml(name: str, value: Any) -> tuple[str, Any]:
    """An argument of Megatron-LM as a field."""
    return OF_YAML.get(name, name), (not value if name in OPPOSITES else value)


MISSING_IN_NEMO: Final = (
    *("pipeline_model_parallel_layout", "use_megatron_fsdp", "num_distributed_optimizer_instances"),
    *("recompute_modules", *OPTIMIZERS_OWN),
)
"""Arguments of Megatron-LM that NeMo's configuration of models does not pass on."""


def write_nemo(job: Job) -> JobText:
    """A configuration of NeMo."""
    own = job.strategy
    why = unsaid(job)
    flags = megatron.options_of(job, why)
    why["stages"] = f"stages of {','.join(map(str, own.stages))} layers: NeMo's configuration has no layout"
    back = {"seq_length": "encoder_seq_length", "recompute_granularity": "activations_checkpoint_granularity",
            "recompute_method": "activations_checkpoint_method", "disable_bias_linear": "bias",
            "recompute_num_layers": "activations_checkpoint_num_layers", "tp_comm_overlap": "ub_tp_comm_overlap",
            "rotary_percent": "rotary_percentage"}  # fmt: skip
    left = ("bf16", "fp16", "fp8_format", "ckpt_format", "group_query_attention", "vocab_size", "swiglu")
    gone = ("use_distributed_optimizer", "overlap_grad_reduce", "overlap_param_gather", "grad_reduce_in_bf16")
    model: dict[str, Any] = {}
    if own.offloaded:
        model["cpu_offloading"] = True
    if own.schedule == "interleaved" and "pipeline_model_parallel_layout" in flags:
        flags["num_virtual_stages_per_pipeline_rank"] = own.stages_per_device
    for name, value in flags.items():
        to, of_field = _in_yaml(name, value)
        to = back.get(name, to)
        if name in MISSING_IN_NEMO:
            continue
        if name not in (*left, *gone, "data_parallel_sharding_strategy", "no_gradient_accumulation_fusion"):
            model |= {to: of_field} if NEMO.has(f"model.{to}") else {}
    if flags.get("swiglu"):
        model["activation"] = "fast-swiglu"
    if flags.get("normalization"):
        model["normalization"] = "rmsnorm" if flags["normalization"] == "RMSNorm" else "layernorm"
    if job.precision == "fp8":
        model |= {"transformer_engine": True, "fp8": True, "fp8_hybrid": True}
    optim: dict[str, Any] = {"name": "distributed_fused_adam" if own.zero else "fused_adam"}
    if own.zero:
        optim |= {"overlap_grad_sync": job.overlaps, "overlap_param_sync": job.overlaps}
    if own.gradients == "bf16":
        optim["grad_sync_dtype"] = "bf16"
    tokenizer = {"vocab_size": job.model.vocabulary} if job.model else {}
    precision = {"fp16": 16, "fp32": 32}.get(job.precision, "bf16")
    trainer = {"devices": job.gpus_per_node, "num_nodes": job.nodes, "precision": precision}
    model |= {"tokenizer": tokenizer, "optim": optim}
    return JobText(_yaml({"trainer": trainer, "model": model}), why)


def _yaml(table: Mapping[str, Any], indent: str = "") -> str:
    lines: list[str] = []
    for name, value in table.items():
        if (inner := as_table(value)) is not None:
            lines += [f"{indent}{name}:\n{_yaml(inner, indent + '  ')}"] if inner else []
        else:
            lines.append(f"{indent}{name}: {json.dumps(value)}\n")
    return "".join(lines)


MEGATRON_BRIDGE = configuration_format(
    Format(
        name="megatron-bridge",
        title="overrides of Megatron-Bridge's recipes (YAML)",
        version="0.3.1",
        suffixes=(),
        read=read_bridge,
        framework="nemo",
        beside=("gpus",),
        runs={**megatron.RUNS, "precision": ("bf16", "fp16", "fp8", "mxfp8"), "gradients": ("auto",)},
    ),
    write_bridge,
)

NEMO_FORMAT = configuration_format(
    Format(
        name="nemo",
        title="NeMo's GPT configuration (YAML)",
        version="2.0",
        suffixes=(".yaml", ".yml"),
        read=read_nemo,
        framework="nemo",
        runs={
            **megatron.RUNS,
            "zero": (0, 1),
            "stages": ((),),
            "precision": ("bf16", "fp16", "fp8", "fp32"),
            "attention": ("", "fused"),
            "recompute": ("none", "full"),
            "optimizer": ("",),
            "state_on_host": (False,),
        },
    ),
    write_nemo,
)
