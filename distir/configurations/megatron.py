"""Megatron-LM's arguments: a launch script, or a list of arguments. What is built on Megatron shares their reading.

Facts of Megatron-LM (core 0.16): megatron/training/arguments.py (what the arguments mean and their defaults),
megatron/core/transformer/pipeline_parallel_layer_layout.py (`--pipeline-model-parallel-layout`),
megatron/core/parallel_state.py (what degrees multiply to).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, Final

from distir.configurations import arguments
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
    optimizer_of,
    overlapping,
    replicas,
    state_on_host,
    unsaid,
)
from distir.configurations.known import listed, words
from distir.configurations.launchers import ProcessCounts, says_nodes
from distir.configurations.megatron_models import layers_with_experts, model_of, model_options
from distir.configurations.models import called, name_of
from distir.configurations.options import ConfigurationError, Known, Options, Remark, Setting, as_list
from distir.diagnostics.spelling import nearest
from distir.models.decoder import Decoder
from distir.transform.checkpoint.modules import MEGATRONS
from distir.transform.strategy.partial import of_precision, of_recomputation, partial
from distir.transform.strategy.record import virtual_of

VERSION: Final = "core 0.16"

IDLE: Final = words("megatron_idle")
"""Arguments that change nothing of what a step computes, sends or holds."""


def _known() -> Known:
    fields = {name.rpartition(".")[2]: default for name, default in listed("megatron_bridge").items()}
    source = f"Megatron-LM {VERSION}, megatron/training/arguments.py"
    return Known("Megatron-LM", source, fields | listed("megatron_arguments") | _DEFAULTS, IDLE, simulated=SIMULATED)


FIELDS: Final = frozenset(words("megatron_fields"))
"""Fields that arguments of other names set, such as `--num-experts`, `--swiglu` and `--no-rope-fusion`."""


SIMULATED: Final[dict[str, Any]] = {
    **dict.fromkeys(("bias_activation_fusion", "bias_dropout_fusion", "bias_dropout_add_fusion"), True),
    **dict.fromkeys(("persist_layer_norm", "moe_grouped_gemm", "moe_permute_fusion"), True),
}
"""Kernels of the framework's definition that are not the default of an argument."""

_DEFAULTS: Final[dict[str, Any]] = {
    **dict.fromkeys(("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size"), 1),
    **dict.fromkeys(("expert_model_parallel_size", "recompute_num_layers", "rampup_batch_size"), None),
    **dict.fromkeys(("num_layers", "hidden_size", "num_attention_heads", "seq_length", "vocab_size"), None),
    "hidden_dropout": 0.1,
    "attention_dropout": 0.1,
    "normalization": "LayerNorm",
    "moe_router_topk": 2,
    "attention_backend": "auto",
    "num_query_groups": 1,
    "rotary_base": 10000,
    "moe_layer_freq": 1,
    "overlap_grad_reduce": False,
    "overlap_param_gather": False,
    "use_distributed_optimizer": False,
    "bf16": False,
    "fp16": False,
    "sequence_parallel": False,
    "cross_entropy_loss_fusion": False,
    "gradient_accumulation_fusion": True,
    "apply_rope_fusion": True,
    "masked_softmax_fusion": True,
    "add_position_embedding": True,
    "make_vocab_size_divisible_by": 128,
    "distributed_backend": "nccl",
    "cpu_offloading": None,
    "zero_stage": None,
    "deepspeed_config": None,
    "ds_pipeline_enabled": True,
    "optimizer": "adam",
    "fp8_recipe": "delayed",
    "moe_token_dispatcher_type": "allgather",
    "cp_comm_type": None,
    "tp_comm_overlap": False,
    "expert_tensor_parallel_size": None,
    "expert_interval": None,
    **dict.fromkeys(("min_lr", "wgrad_deferral_limit"), 0),
}
"""Defaults of arguments, where they are others than those of the fields."""

KNOWN: Final = _known()
"""Fields and arguments: what YAML of what is built on Megatron Core says goes by either."""

ARGUMENTS: Final = replace(
    KNOWN, defaults={n: d for n, d in KNOWN.defaults.items() if n not in FIELDS}, other_names=FIELDS
)
"""What a command line says."""


def _counts_ends(method: Any) -> bool:
    """Whether a method to divide layers among stages, as `type:transformer|embedding`, counts the ends as layers."""
    return "embedding" in str(method)


def _is_gated(activation: Any) -> bool | None:
    """Whether a word of `--glu-activation` names one; another is simulated as SwiGLU."""
    return bool(activation) or None


EARLIER: Final[dict[str, tuple[tuple[str, Any], ...]]] = {
    **dict.fromkeys(
        ("checkpoint_activations", "deepspeed_activation_checkpointing", "recompute"),
        (("recompute_granularity", "full"),),
    ),
    "activations_checkpoint_method": (("recompute_granularity", "full"), ("recompute_method", None)),
    "activations_checkpoint_granularity": (("recompute_granularity", None),),
    "activations_checkpoint_num_layers": (("recompute_num_layers", None),),
    "model_parallel_size": (("tensor_model_parallel_size", None),),
    "moe_expert_parallel_size": (("expert_model_parallel_size", None),),
    "ds_sequence_parallel_size": (("context_parallel_size", None), ("cp_comm_type", "a2a")),
    "batch_size": (("micro_batch_size", None),),
    "fp8_hybrid": (("fp8_format", "hybrid"),),
    "fp8_e4m3": (("fp8_format", "e4m3"),),
    "pad_vocab_size_to": (("vocab_size", None),),
    "pp_partition_method": tuple(
        (f"account_for_{end}_in_pipeline_split", _counts_ends) for end in ("embedding", "loss")
    ),
    **dict.fromkeys(
        ("num_key_value_heads", "num_attention_heads_kv"), (("num_query_groups", None), ("group_query_attention", True))
    ),
    **dict.fromkeys(
        ("use_flash_attn_v1", "use_flash_attn_v2", "use_flash_attn_triton", "use_flash_attn_builder"),
        (("use_flash_attn", True),),
    ),
    "use_llama2_rotary_position_embeddings": (("use_rotary_position_embeddings", True),),
    "use_alibi_mask": (("position_embedding_type", "alibi"),),
    "use_rms_norm": (("normalization", "RMSNorm"), ("disable_bias_linear", True)),
    "no_tie_embed_logits": (("untie_embeddings_and_output_weights", True),),
    "glu_activation": (("swiglu", _is_gated),),
    "qk_nope_head_dim": (("qk_head_dim", None),),
    "qk_rope_head_dim": (("qk_pos_emb_head_dim", None),),
    "shared_moe_ffn_hidden_size": (("moe_shared_expert_intermediate_size", None),),
    "topk": (("moe_router_topk", None),),
    "moe_train_capacity_factor": (("moe_expert_capacity_factor", None),),
    "num_mtp_predictor": (("mtp_num_layers", None),),
    "use_multi_token_prediction": (),
    **dict.fromkeys(("enable_shared_expert", "num_shared_experts"), ()),  # whose width others say
    **dict.fromkeys(("cpu_optimizer", "optimizer_offload_policy"), (("optimizer_cpu_offload", True),)),
}
"""What arguments of earlier versions and of forks set: names of today, with a value, or what makes one of theirs.

Of Megatron-DeepSpeed (bigscience-workshop, deepspeedai), Pai-Megatron-Patch (alibaba) and Megatron-LLM (epfLLM).
"""

TODAY: Final = {("position_embedding_type", "rotary"): "rope"}
"""Values by other names."""


def _today(found: dict[str, Setting]) -> dict[str, Setting]:
    """Settings by the names of today."""
    said: dict[str, Setting] = {}
    for name, setting in found.items():
        for to, value in EARLIER.get(name, ((name, None),)):
            of_value = value(setting.value) if callable(value) else value
            of_today = setting.value if value is None else of_value
            said.setdefault(to, Setting(TODAY.get((to, str(of_today)), of_today), setting.line))
    if "num_experts" in said and "moe_expert_parallel_size" in found:  # of Megatron-DeepSpeed, by its defaults
        said.setdefault("expert_interval", Setting(2, said["num_experts"].line))
        said.setdefault("moe_router_topk", Setting(1, said["num_experts"].line))
    return said


OTHERS: Final = re.compile(
    r"bert|t5|ict|biencoder|retro|mamba|hybrid|vision|vlm|vit|dino|multimodal|llava|clip|rwkv", re.I
)
"""Parts of the names of programs that train something else than a decoder of attention and perceptrons."""


def read(text: str, path: str, given: Supplied) -> ReadJob:
    """What a script or a list of arguments says. Raises ConfigurationError."""
    found = arguments.arguments(text, path, given.variables)
    settings = _today(arguments.settings(found.words))
    if not settings:
        _ask(path, found, [word for word, _ in found.words], ())
    if not any(ARGUMENTS.has(name) for name in settings) and not ARGUMENTS.meant(settings):
        message = f"{path}: no command with options of Megatron-LM, such as --tensor-model-parallel-size"
        raise ConfigurationError(message, _of_other_script(text))
    if (kind := OTHERS.search(found.program.rpartition("/")[2])) is not None:
        program = found.program.rpartition("/")[2]
        hint = "scripts of decoders alone are read, such as those that run pretrain_gpt.py"
        raise ConfigurationError(f"{path}: `{program}` trains another model than a decoder: {kind[0]}", hint)
    effective = {name for name in ARGUMENTS.defaults if not ARGUMENTS.is_idle(name)}
    effective |= {name for name, to in EARLIER.items() if any(today in effective for today, _ in to)}
    flags = {name for name, default in ARGUMENTS.defaults.items() if isinstance(default, bool)}
    for name in flags & settings.keys():  # the variable behind it is no value
        value = re.fullmatch(r"\$\{?(\w+)\}?", str(settings[name].value))
        if value and arguments.is_reported(value[1], found.script):
            settings[name] = replace(settings[name], value=True)
    valued = effective - flags - {"deepspeed_config"}
    _ask(path, found, [str(setting.value) for name, setting in settings.items() if name in valued], effective)
    options = Options(path, settings | _started(found.launch, given), ARGUMENTS)
    for name, value, line in found.launch.unclear:
        if "nnodes" not in options or not says_nodes(name):
            options.notes.append(Remark(f"`{name}` is `{value}`, which only the machine says; `--gpus N` does", line))
    for skipped in found.skipped:
        if not skipped.options or not skipped.options.isdisjoint(effective):
            options.notes.append(Remark(skipped.text, skipped.line))
    return ReadJob(job_of(options, given), "megatron", options.rest())


_OTHER_SCRIPT: Final = re.compile(r"""\b(?:(?:ba|z)?sh|sbatch|source)\s+["']?(?P<file>[^\s"';|&]+\.(?:sh|slurm))""")


def _of_other_script(text: str) -> str | None:
    """What to do about a script that runs another one, which has the command; None where it runs none."""
    files = [found["file"] for found in _OTHER_SCRIPT.finditer(text)]
    if not files:
        return None
    return f"it runs `{files[-1]}`: import that, with the variables that this one sets as `--set NAME=VALUE`"


def _ask(path: str, found: arguments.CommandLine, values: Iterable[str], effective: Collection[str]) -> None:
    """Raises ConfigurationError where a script takes values, or whether options are set, from its caller."""
    if (asked := arguments.asked(found, values, effective)) is not None:
        raise ConfigurationError(f"{path}: {asked[0]}", asked[1])


def _started(launch: ProcessCounts, given: Supplied) -> dict[str, Setting]:
    """How many nodes and processes are started, as settings of torchrun's names."""
    nodes, each = launch.nodes, launch.each
    if launch.total and not (nodes and each):
        total, line = launch.total
        count = nodes[0] if nodes else max(1, -(-total // given.node))
        if total % count == 0:
            nodes, each = nodes or (count, line), (total // count, line)
    pairs = (("nnodes", nodes), ("nproc_per_node", each))
    said = {name: Setting(*number) for name, number in pairs if number is not None}
    for name, value, line in launch.unclear:
        if says_nodes(name):
            said.setdefault("nnodes", Setting(value, line))
    return said


def job_of(options: Options, given: Supplied) -> Job:
    """The job of options under the names of Megatron-LM's arguments, with underscores. Raises ConfigurationError."""
    if (file := options.get("deepspeed_config")) is not None:
        options.note(f"what `{file}` says is not read; `--zero-stage` says the stage of ZeRO", "deepspeed_config")
    options.stays_on_device("fine_grained_activation_offloading", "cpu_offloading_weights")
    offloads = not options.is_off("cpu_offloading")  # a command line has the number alone
    offloaded = options.optional("cpu_offloading_num_layers", least=0)
    own = given.model is None or "hidden_size" in options
    options.get("max_position_embeddings")  # of a model that is named, its own
    model = model_of(options) if own else _changed(given.model, options)
    found, model = called(model) if own and model is not None else ("", model)
    name = given.name or found or (name_of(model) if model else "")
    if options.get("pipeline_model_parallel_size") in (None, 1, "1"):
        for other in ("overlap_p2p_comm", "batch_p2p_comm", "batch_p2p_sync"):
            options.get(other)  # between no stages
    if model is not None and not model.experts:
        for other in options.settings:
            if other.startswith("moe_"):
                options.get(other)  # of no layer
    tp, pp, cp = (options.whole(f"{axis}_parallel_size") for axis in ("tensor_model", "pipeline_model", "context"))
    ep = options.optional("expert_model_parallel_size") or 1
    each = _launched(options, "nproc_per_node")
    nodes = _launched(options, "nnodes") if "nnodes" in options else 1  # as torchrun starts them
    if nodes and "nnodes" in options and "nproc_per_node" not in options:
        each = given.node
        options.note(f"nodes of {each} GPUs are assumed; `--gpus N` says how many there are", "nnodes")
    stated = nodes * each if nodes and each else None
    if stated and given.gpus and stated != given.gpus:  # launch scripts of one node are meant to be adapted
        options.note(
            f"it starts {stated} processes; simulated on {given.gpus} GPUs, as `--gpus` says", "nproc_per_node"
        )
        stated = None
    dp, assumed = replicas(options.path, given, stated, tp, pp, cp)
    if assumed:
        options.note(assumed)
    micro = options.supplied("micro_batch_size", given.micro_batch, MICRO_BATCH)
    if "rampup_batch_size" in options:
        options.note("the batch while it ramps up is not simulated, the full batch is", "rampup_batch_size")
        options.get("rampup_batch_size")
    total = options.supplied("global_batch_size", given.global_batch, GLOBAL_BATCH) or (micro * dp if micro else None)
    virtual, stages = _stages(options, model, pp)
    schedule = "interleaved" if virtual > 1 else "1f1b"
    if virtual > 1 and micro and total and total // (micro * dp) % pp:
        line = options.line("global_batch_size")
        raise options.wrong(
            line, f"{total // (micro * dp)} microbatches are not a multiple of {pp} stages, as interleaving wants"
        )
    zero, shard = _sharding(options, dp)
    reduces, gathers = options.flag("overlap_grad_reduce"), options.flag("overlap_param_gather")
    if zero and reduces != gathers:
        alone = "gradients" if reduces else "weights"
        text = f"gradients and weights are both communicated beside computation here, not {alone} alone"
        options.note(text, "overlap_grad_reduce" if reduces else "overlap_param_gather")
    precision = _precision(options)
    sequence = options.flag("sequence_parallel")
    return checked(
        options.path,
        Job(
            name=name,
            model=model,
            seq=given.seq or options.optional("seq_length"),
            said=partial(
                data=dp,
                tensor=tp,
                pipeline=pp,
                context=cp,
                expert_parallel=ep,
                etp=_expert_shards(options, ep, tp),
                virtual=virtual_of(schedule, virtual),
                schedule=schedule,
                stages=stages,
                sequence=sequence and tp > 1,
                zero=zero,
                shard=shard,
                optimizer=_optimizer(options, tp) or None,
                gradients=_gradients(options, precision),
                whole=(),
                offloaded=(offloaded or 0) if offloads else 0,
                state_on_host=state_on_host(options, (), ("optimizer_cpu_offload",)),
                **of_precision(precision),
                **of_recomputation(_recomputation(options, model)),
                **overlapping(
                    reduces or gathers or options.flag("use_torch_fsdp2") or (zero == 3 and pp == 1),
                    options.flag("tp_comm_overlap") and tp > 1 and sequence,
                ),
            ),
            micro_batch=micro,
            global_batch=total,
            attention=_attention(options),
            node=each if stated and each else given.node,
        ),
        options.line("expert_model_parallel_size"),
    )


def _changed(model: Decoder | None, options: Options) -> Decoder | None:
    """A model that is given, with what the options say of it."""
    if model is None:
        return None
    layers, experts = options.optional("num_layers") or model.layers, options.optional("num_experts") or model.experts
    if "num_layers" in options or "moe_layer_freq" in options:
        dense, every = model.dense_layers, model.experts_every
        if "moe_layer_freq" in options:
            dense, every = layers_with_experts(options, layers)
        model = replace(model, layers=layers, dense_layers=dense if experts else None, experts_every=every)
    if "hidden_dropout" in options or "attention_dropout" in options:
        rest, own = model.dropout, model.attention_dropout
        rest = (options.number("hidden_dropout") or 0.0) if "hidden_dropout" in options else rest
        own = options.number("attention_dropout") if "attention_dropout" in options else own
        model = replace(model, dropout=rest, attention_dropout=None if own == rest else own)
    return replace(model, experts=experts) if model.experts else model


def _launched(options: Options, name: str) -> int | None:
    """How many nodes, or processes of each, a launcher starts; None where only the machine says, which is reported."""
    found = options.get(name)
    if isinstance(found, str) and not found.isdecimal():
        options.note(f"`{name}` is `{found}`, which only the machine says; `--gpus N` does", name)
        return None
    return options.optional(name)


def _stages(options: Options, model: Decoder | None, pp: int) -> tuple[int, tuple[int, ...]]:
    """Stages of each rank, and the layers of each where they are stated."""
    layout = _layout(options)
    per_stage = options.optional("num_layers_per_virtual_pipeline_stage")
    virtual = options.optional("num_virtual_stages_per_pipeline_rank")
    virtual = virtual or options.optional("virtual_pipeline_model_parallel_size")
    first, last = (options.optional(f"decoder_{end}_pipeline_num_layers", 0) for end in ("first", "last"))
    layers = model.layers if model else None
    if pp == 1:
        return 1, ()
    if layout:
        line = options.line("pipeline_model_parallel_layout")
        if virtual or per_stage:
            raise options.wrong(
                line, "a layout and a number of virtual stages contradict each other", "use one of them"
            )
        try:
            stages = layout_stages(layout)
        except ValueError as error:
            raise options.wrong(line, f"the layout `{layout}`: {error}") from None
        if len(stages) % pp:
            raise options.wrong(line, f"a layout of {len(stages)} stages on {pp} ranks", f"use a multiple of {pp}")
        return len(stages) // pp, stages
    if per_stage and layers:
        virtual = layers // (pp * per_stage)
        if virtual * pp * per_stage != layers:
            line = options.line("num_layers_per_virtual_pipeline_stage")
            raise options.wrong(line, f"{layers} layers are not {pp} ranks of virtual stages of {per_stage}")
    count = pp * (virtual or 1)
    for name in ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"):
        counted = options.flag(name)
        if counted and layers:
            first = (layers + options.flag("account_for_embedding_in_pipeline_split")
                     + options.flag("account_for_loss_in_pipeline_split")) // count  # fmt: skip
            last = first - options.flag("account_for_loss_in_pipeline_split")
            first -= options.flag("account_for_embedding_in_pipeline_split")
    if (first is not None or last is not None) and layers:
        inner = count - (first is not None) - (last is not None)
        rest = layers - (first or 0) - (last or 0)
        if not inner or rest % inner:
            line = options.line("decoder_first_pipeline_num_layers") or options.line("decoder_last_pipeline_num_layers")
            raise options.wrong(line, f"{rest} layers do not divide among {inner} stages")
        middle = (rest // inner,) * inner
        return virtual or 1, (*([first] if first is not None else []), *middle, *([last] if last is not None else []))
    if layers and layers % count:
        line = options.line("pipeline_model_parallel_size")
        raise options.wrong(line, f"{layers} layers do not divide among {count} stages", "state a layout")
    return virtual or 1, ()


def _layout(options: Options) -> Any:
    """The layout of stages, without layers of multi-token prediction, which are reported."""
    found = options.get("pipeline_model_parallel_layout")
    if isinstance(found, str) and "m" in found:
        options.note("layers of multi-token prediction (m) are not simulated", "pipeline_model_parallel_layout")
        return found.replace("m", "")
    return found


def layout_stages(layout: Any) -> tuple[int, ...]:
    """The layers of each stage of a layout such as `Et*3|(tt|)*29L`: text, or lists of names. Raises ValueError."""
    if (rows := as_list(layout)) is not None:
        return tuple(str(row).lower().count("'decoder'") for row in rows)
    text = str(layout).strip("\"' ").replace(",", "").replace(" ", "")
    for _ in range(20):
        grown = re.sub(r"\(([^()]*)\)\*(\d{1,4})", lambda m: m[1] * int(m[2]), text)
        if grown == text:
            break
        if len(grown) > 1 << 16:
            raise ValueError("it is too long")
        text = grown
    text = re.sub(r"([EtmL])\*(\d{1,4})", lambda m: m[1] * int(m[2]), text)
    if not re.fullmatch(r"[EtmL|]+", text):
        raise ValueError("expected E, t, m, L, bars between stages, and `*` with a number")
    if text.count("E") != 1 or text.count("L") != 1 or not text.startswith("E") or not text.endswith("L"):
        raise ValueError("expected an E at its begin and an L at its end")
    if "m" in text:
        raise ValueError("layers of multi-token prediction (m) cannot be expressed")
    return tuple(stage.count("t") for stage in text.split("|"))


def layout_of(stages: tuple[int, ...]) -> str:
    """A layout: E embedding, t a layer, L loss, a bar between stages."""
    layers = [f"t*{count}" if count > 1 else "t" * count for count in stages]
    return f"E{'|'.join(layers)}L"


STRATEGIES: Final = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
"""Of Megatron-FSDP: what is sharded, as the stage of ZeRO."""


def _sharding(options: Options, dp: int) -> tuple[int, int]:
    """The stage of ZeRO, and the size of the groups that share state, 0 for all."""
    strategy = options.word("data_parallel_sharding_strategy", STRATEGIES)
    distributed = options.flag("use_distributed_optimizer") or options.get("optimizer") == LAYER_WISE
    instances = options.optional("num_distributed_optimizer_instances") or 1
    fsdp = options.flag("use_megatron_fsdp") | options.flag("use_custom_fsdp")
    if dp % instances:
        line = options.line("num_distributed_optimizer_instances")
        raise options.wrong(line, f"{instances} instances of the optimizer do not divide {dp} replicas")
    if (stage := options.optional("zero_stage", 0)) is not None:  # of Megatron-DeepSpeed
        return min(stage, 3), 0
    if options.flag("use_torch_fsdp2"):
        return (2 if options.flag("torch_fsdp2_no_reshard_after_forward") else 3), 0
    if fsdp:
        return STRATEGIES[strategy or "no_shard"], 0
    return int(distributed), (dp // instances if distributed and instances > 1 else 0)


LAYER_WISE: Final = "dist_muon"
"""Muon whose state is distributed over replicas, matrix by matrix."""


def _optimizer(options: Options, tp: int) -> str:
    found = optimizer_of(options, "optimizer")
    if found and tp > 1 and options.get("muon_tp_mode") in (None, "blockwise"):
        text = "the parts of a matrix on tensor-parallel devices are orthogonalised together, not each by itself"
        options.note(text, "muon_tp_mode" if "muon_tp_mode" in options else "optimizer")
    return found


def _expert_shards(options: Options, ep: int, tp: int) -> int:
    dispatcher = options.get("moe_token_dispatcher_type")
    if dispatcher not in (None, "alltoall") and ep > 1:
        text = f"tokens reach their experts by all-to-all here, not by `{dispatcher}`"
        options.note(text, "moe_token_dispatcher_type")
    found = options.optional("expert_tensor_parallel_size")
    return (found or tp) if ep > 1 and tp > 1 else 0


def _precision(options: Options) -> str:
    fp8 = options.get("fp8_format") or options.get("fp8")
    recipe, fp4 = options.get("fp8_recipe"), options.get("fp4_format") or options.get("fp4")
    half, brain = options.flag("fp16"), options.flag("bf16")
    if "fp8_param_gather" in options and options.flag("fp8_param_gather"):
        text = "weights that are held and gathered in 8-bit floats alone are not simulated: they are in bfloat16, with"
        options.note(f"{text} 8-bit copies beside them, so memory is overestimated", "fp8_param_gather")
    if half and brain:
        raise options.wrong(options.line("fp16"), "`fp16` and `bf16` contradict each other", "use one of them")
    if fp4:
        return "nvfp4"
    if fp8 and "mxfp8" in (fp8, recipe):
        return "mxfp8"
    if fp8:
        if recipe not in (None, "delayed"):
            options.note(f"the recipe `{recipe}` of 8-bit floats is simulated as `delayed`", "fp8_recipe")
        return "fp8"
    return "fp16" if half else "bf16" if brain else float32(options, "neither `bf16` nor `fp16` is set")


def _gradients(options: Options, precision: str) -> str | None:
    """The precision of buffers of gradients: of bf16 Float32 by default, which is not said, of fp16 that of weights."""
    in_float32 = options.flag("accumulate_allreduce_grads_in_fp32")
    if options.flag("grad_reduce_in_bf16"):
        return "bf16"
    return "fp16" if precision == "fp16" and not in_float32 else None


def _attention(options: Options) -> str:
    """Where attention is no single kernel: whether one is of scale, mask and softmax, or each has its own."""
    backend = options.word("attention_backend", ("auto", "flash", "fused", "unfused", "local"))
    local = options.word("transformer_impl", ("transformer_engine", "local", "inference_optimized")) == "local"
    flash = options.flag("use_flash_attn")
    one_kernel = not (options.is_off("masked_softmax_fusion") | options.flag("no_masked_softmax_fusion"))
    if local:
        options.note("with `transformer_impl` local, only attention differs here from Transformer Engine's kernels",
                     "transformer_impl")  # fmt: skip
    if backend in ("unfused", "local") or (local and not flash):
        return "fused" if one_kernel else "unfused"
    return ""


def _recomputation(options: Options, model: Decoder | None) -> str:
    what = options.word("recompute_granularity", ("full", "selective"))
    if options.flag("recompute_activations"):
        what = what or "selective"
    method = options.word("recompute_method", ("uniform", "block"))
    layers, modules = options.optional("recompute_num_layers", 0), options.get("recompute_modules")
    named = as_list(modules) or str(modules or "core_attn").replace(",", " ").split()
    for name in named:
        if name not in MEGATRONS:
            near = nearest(str(name), MEGATRONS)
            hint = f"did you mean `{near}`?" if near else f"there are {', '.join(MEGATRONS)}"
            raise options.wrong(options.line("recompute_modules"), f"there is no module `{name}` to recompute", hint)
    if what == "selective":
        missing = [name for name in named if model is not None and not _has_module(model, str(name))]
        for name in missing:
            options.note(f"the model has no `{name}` to recompute", "recompute_modules")
        left = ",".join(name for name in named if name not in missing)
        return f"modules:{left}" if left else "none"
    if what == "full" and method == "block" and layers:
        return f"full:{layers}"
    return what or "none"


def _has_module(model: Decoder, module: str) -> bool:
    """Whether layers of a model have a part that is recomputed by name."""
    if module in ("moe", "moe_act"):
        return bool(model.experts)
    if module == "shared_experts":
        return bool(model.experts and model.shared_experts)
    if module == "mlp":
        return not model.experts or bool(model.dense_layers)
    return module != "mla_up_proj" or model.latent is not None


SPECIAL: Final = re.compile(r"[|()\[\]*]")
"""What a shell would take for its own."""


def write(job: Job) -> JobText:
    """The arguments of a job, one in a line."""
    why = unsaid(job)
    flags = options_of(job, why)
    lines: list[str] = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        value = " ".join(several) if (several := as_list(value)) else value
        quoted = f'"{value}"' if SPECIAL.search(str(value)) else value
        lines.append(flag if value is True else f"{flag} {quoted}")
    return JobText(" \\\n".join(lines) + "\n", why)


def options_of(job: Job, why: dict[str, str]) -> dict[str, Any]:
    """The arguments of a job by name, dashes as underscores; why fields are lost is added to `why`."""
    own = job.strategy
    found: dict[str, Any] = model_options(job.model) if job.model else {}
    if job.seq:
        known = job.model.context if job.model else job.seq
        if job.model and job.model.position == "learned" and job.seq > known:
            why[f"{ALWAYS}seq"] = f"sequences of {job.seq} tokens: the model has learned positions for {known}"
        found |= {"seq_length": job.seq, "max_position_embeddings": max(job.seq, known)}
    found |= {
        "tensor_model_parallel_size": own.tensor,
        "pipeline_model_parallel_size": own.pipeline,
        "context_parallel_size": own.context if own.context > 1 else None,
        "sequence_parallel": (own.sequence and own.tensor > 1) or None,
        "micro_batch_size": job.micro_batch,
        "global_batch_size": job.global_batch,
    }
    if own.expert_parallel > 1:
        found["expert_model_parallel_size"] = own.expert_parallel
        if own.tensor > 1:
            found["expert_tensor_parallel_size"] = own.etp or own.tensor
        found["moe_token_dispatcher_type"] = "alltoall"
    if own.pipeline > 1:
        found |= _pipeline_options(job, why)
    found |= _sharding_options(job, why)
    what, _, layers = job.recompute.partition(":")
    if what == "full":
        method = "block" if layers else "uniform"
        found |= {"recompute_granularity": "full", "recompute_method": method, "recompute_num_layers": int(layers or 1)}
    elif what == "modules":
        known = [name for name in layers.split(",") if name in MEGATRONS]
        found |= {"recompute_granularity": "selective", "recompute_modules": known} if known else {}
    found |= {"fp16": True} if job.precision == "fp16" else {"bf16": True} if job.precision not in ("", "fp32") else {}
    if job.precision in ("fp8", "mxfp8"):
        found["fp8_format"] = "hybrid" if job.precision == "fp8" else "e4m3"
        found["fp8_recipe"] = "mxfp8" if job.precision == "mxfp8" else None
    found["grad_reduce_in_bf16"] = own.gradients == "bf16" or None
    found["accumulate_allreduce_grads_in_fp32"] = (job.precision == "fp16" and own.gradients == "auto") or None
    if job.attention in ("unfused", "fused"):
        found["attention_backend"] = "unfused"
        found["no_masked_softmax_fusion"] = job.attention == "unfused" or None
    found["tp_comm_overlap"] = job.async_tp or None
    found["cpu_offloading_num_layers"] = own.offloaded or None
    found["optimizer_cpu_offload"] = own.state_on_host or None
    why["fuse"] = "kernels of single ops: Megatron-LM has fused kernels of its own"
    return {name: value for name, value in found.items() if value is not None}


def _pipeline_options(job: Job, why: dict[str, str]) -> dict[str, Any]:
    own = job.strategy
    found: dict[str, Any] = {}
    uneven = job.microbatches is not None and job.microbatches % own.pipeline > 0
    interleaved = own.schedule == "interleaved" and not uneven
    if own.schedule == "interleaved" and uneven:
        wants = f"multiples of {own.pipeline} stages, not {job.microbatches}"
        why["schedule"] = f"interleaving: Megatron-LM wants microbatches in {wants}"
    if own.stages and len(own.stages) > own.pipeline and not interleaved:
        shown = ",".join(map(str, own.stages))
        why["stages"] = f"stages of {shown} layers: Megatron-LM deals several out to a device only for interleaving"
    elif own.stages:  # says how many pieces there are, too
        found["pipeline_model_parallel_layout"] = layout_of(own.stages)
    elif interleaved:
        found["num_virtual_stages_per_pipeline_rank"] = own.stages_per_device
    return found


def _sharding_options(job: Job, why: dict[str, str]) -> dict[str, Any]:
    own = job.strategy
    found: dict[str, Any] = {}
    if own.zero in (2, 3) and own.pipeline > 1:
        why["zero"] = f"ZeRO stage {own.zero}: Megatron-LM has it in Megatron-FSDP, in place of pipelines"
    layer_wise = own.optimizer == "muon" and own.zero == 1
    if own.optimizer == "muon":
        found |= {"optimizer": LAYER_WISE if layer_wise else "muon", "muon_tp_mode": "duplicated"}
    if own.zero and not layer_wise:
        found["use_distributed_optimizer"] = True
    if own.shard and own.zero == 1:
        found["num_distributed_optimizer_instances"] = own.data // own.shard
    elif own.shard:
        why["shard"] = f"state within groups of {own.shard} replicas: Megatron-FSDP is given to all"
    if job.overlaps and own.data * own.context > 1:
        found |= {
            "overlap_grad_reduce": True,
            **({"overlap_param_gather": True} if own.zero and not layer_wise else {}),
        }
    if own.zero in (2, 3) and own.pipeline == 1:
        found |= {
            "use_megatron_fsdp": True,
            "data_parallel_sharding_strategy": "optim_grads" if own.zero == 2 else "optim_grads_params",
            "no_gradient_accumulation_fusion": True,
            "ckpt_format": "fsdp_dtensor",
        }
    return found


RUNS: Final = {
    "schedule": ("1f1b", "interleaved"),
    "zero": (0, 1, 2, 3),
    "precision": ("bf16", "fp16", "fp8", "mxfp8", "fp32"),
    "gradients": ("auto", "bf16"),
    "attention": ("", "fused", "unfused"),
    "recompute": ("none", "full", *(f"modules:{name}" for name in MEGATRONS)),
    "fuse": (True,),
    "whole": ((),),
    "optimizer": ("", "muon"),
}
"""What Megatron-LM runs, by field of a job; with `full`, the first N layers, and several modules, too."""

MEGATRON = configuration_format(
    Format(
        name="megatron",
        title="Megatron-LM's arguments (a script, or a list)",
        version=VERSION,
        suffixes=(".sh", ".txt", ".args"),
        read=read,
        framework="megatron",
        beside=("gpus",),
        runs=RUNS,
    ),
    write,
)
