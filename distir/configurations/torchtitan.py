"""torchtitan's job configuration: TOML, as up to its version 0.2.2; later versions take configurations from Python.

Facts of torchtitan 0.2.2: torchtitan/distributed/parallel_dims.py (what degrees multiply to),
torchtitan/distributed/pipeline_parallel.py (stages), torchtitan/models/llama3/infra/parallelize.py (FSDP, tensor
parallelism along the sequence), torchtitan/train.py (batches), torchtitan/distributed/activation_checkpoint.py.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from distir.configurations import flavors, texts
from distir.configurations.formats import Format, configuration_format
from distir.configurations.jobs import (
    ALWAYS,
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
from distir.configurations.known import known
from distir.configurations.models import FLAVORS, UNPUBLISHED, VARIANTS, flavor_of, of_flavor, of_name, plain_flavor
from distir.configurations.options import Options, Remark, Setting, as_list, renamed
from distir.models.decoder import Decoder
from distir.models.published import PUBLISHED
from distir.transform.pipeline import SCHEDULES
from distir.transform.pipeline.step import schedule_of
from distir.transform.steps import StepError
from distir.transform.strategy.partial import LOSS, of_precision, of_recomputation, partial
from distir.transform.strategy.record import virtual_of
from distir.validate.strategies import EIGHT_BITS

VERSION: Final = "0.2.2"

KNOWN: Final = known(
    "torchtitan",
    f"torchtitan {VERSION}, torchtitan/config/job_config.py",
    "torchtitan",
    (
        *("job.*", "profiling.*", "metrics.*", "checkpoint.*", "comm.*", "validation.*", "debug.*", "lr_scheduler.*"),
        *("memory_estimation.*", "training.dataset*", "training.dataloader.*", "training.gc_*"),
        *("training.steps", "training.max_norm", "optimizer.fused", "model.hf_assets_path", "model.tokenizer_path"),
        *("model.print_after_conversion", "optimizer.lr", "optimizer.beta?", "optimizer.eps"),
        *("optimizer.weight_decay", "optimizer.implementation", "activation_checkpoint.preserve_rng_state"),
        *("activation_checkpoint.d*", "activation_checkpoint.early_stop", "activation_checkpoint.visualize*"),
        *("parallelism.spmd_backend", "training.disable_cuda_graphs", "model.attn_backend"),
        *("quantize.linear.float8.emulate", "quantize.grouped_mm.float8.fqns", "quantize.grouped_mm.mx.fqns"),
    ),
    **dict.fromkeys(("training.skip_optimizer_step", "training.enable_fsdp2"), False),
    **dict.fromkeys(("job.use_for_integration_test", "experimental.custom_model_path", "optimizer.fused")),
    **dict.fromkeys(("parallelism.pipeline_parallel_microbatches", "parallelism.pipeline_parallel_split_points")),
    **dict.fromkeys(("hf_transformers.model", "hf_transformers.tie_word_embeddings")),
    **{"parallelism.enable_sequence_parallel": True, "parallelism.spmd_backend": None},
    **dict.fromkeys(("model.attn_backend", "model.moe_comm_backend", "model.num_mtp_layers")),
    **{"model.norm_type": "rmsnorm", "training.enable_loss_parallel": True, "training.fp8_linear": ""},
    **dict.fromkeys(("quantize.linear.float8.enable_float8_linear", "training.enable_fp8_linear"), False),
    **dict.fromkeys(("parallelism.enable_compiled_autograd", "parallelism.enable_async_tensor_parallel"), False),
)

UNPIPELINED: Final = ("qwen3", "gpt_oss")
"""Models without a `pipelining_fn` in torchtitan/models/*/__init__.py."""

BOTH: Final = "tensor parallelism without sequence parallelism: torchtitan has both together"
"""What is lost of tensor parallelism alone."""

EARLIER: Final = ("training.", "experimental.")
"""Tables in which degrees and the pipeline's options stood before 0.1."""

RENAMED: Final = {
    **{
        f"{table}{kind}_parallel_": f"parallelism.{kind}_parallel_"
        for table in EARLIER
        for kind in ("data", "tensor", "pipeline", "context", "expert")
    },
    **{
        f"{table}{name}": f"parallelism.{name}"
        for table in EARLIER
        for name in ("enable_async_tensor_parallel", "disable_loss_parallel", "enable_compiled_autograd")
    },
    "training.data_parallel_degree": "parallelism.data_parallel_shard_degree",
    "training.sequence_parallel_degree": "parallelism.tensor_parallel_degree",
    "training.enable_float8_linear": "quantize.linear.float8.enable_float8_linear",
    "training.warmup_steps": "lr_scheduler.warmup_steps",
    "training.enable_fsdp_fp8_all_gather": "quantize.linear.float8.enable_fsdp_float8_all_gather",
    "training.precompute_float8_dynamic_scale_for_fsdp": (
        "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp"
    ),
    "training.batch_size": "training.local_batch_size",
    "training.compile": "compile.enable",
    "training.seed": "debug.seed",
    "training.deterministic": "debug.deterministic",
    "job.print_args": "job.print_config",
    "checkpoint.enable_checkpoint": "checkpoint.enable",
    "checkpoint.model_weights_only": "checkpoint.last_save_model_only",
    "validation.enabled": "validation.enable",
    "checkpoint.initial_load_dequantize": "checkpoint.initial_load_in_hf_quantized",
    "debug.ac_": "activation_checkpoint.",
    "float8.moe_fqns": "quantize.grouped_mm.float8.fqns",
    "float8.": "quantize.linear.float8.",
    "mx.": "quantize.linear.mx.",
    "quantize.dense.": "quantize.linear.",
    "quantize.moe.": "quantize.grouped_mm.",
}
"""What options of earlier versions, or of tables, are called since."""

OF_FLOAT8: Final = ("quantize.linear.float8.enable_float8_linear", "training.enable_fp8_linear", "training.fp8_linear")
"""Options before 0.1 that turn 8-bit floats on, as a converter does since."""

_OURS = reversed(list(SCHEDULES.held.items()))  # of several with one name in torch, the first
TORCHS: Final = {known.torch: name for name, known in _OURS if known.torch and name != "zb-h1"}
"""By the name of a schedule of torch.distributed.pipelining: ours."""


def read(text: str, path: str, given: Supplied) -> ReadJob:
    """What a job configuration says. Raises ConfigurationError."""
    return job_of(texts.of_toml(text, path), path, given)


def job_of(found: Mapping[str, Setting], path: str, given: Supplied) -> ReadJob:
    """The job of settings by the options of any version. Raises ConfigurationError."""
    is_early = any(name.startswith(f"{table}pipeline_parallel_") for name in found for table in EARLIER)
    options = Options(path, {renamed(RENAMED, name): setting for name, setting in found.items()}, KNOWN)
    name, model = _model(options, given)
    tp = options.whole("parallelism.tensor_parallel_degree")
    pp = options.whole("parallelism.pipeline_parallel_degree")
    cp = options.whole("parallelism.context_parallel_degree")
    replicate = options.whole("parallelism.data_parallel_replicate_degree")
    shard = options.whole("parallelism.data_parallel_shard_degree", -1)
    if shard == 0:
        line = options.line("parallelism.data_parallel_shard_degree")
        raise options.wrong(line, "`parallelism.data_parallel_shard_degree` is 0", "-1 takes what other degrees leave")
    stated = replicate * shard * tp * pp * cp if shard > 0 else None
    more, assumed = replicas(path, given, stated, *(d for d in (replicate, max(shard, 1), cp, tp, pp)))
    if shard < 0:
        shard = more
    if assumed:
        options.note(assumed)
    dp = replicate * shard
    zero, groups = _sharding(options, replicate, shard, pp, cp)
    schedule, virtual, stages = _pipeline(options, model, pp)
    ep = options.whole("parallelism.expert_parallel_degree")
    local = options.supplied("training.local_batch_size", given.micro_batch, MICRO_BATCH) or 1
    total = options.whole("training.global_batch_size", -1)
    if total < 0 and given.global_batch:
        total = given.global_batch
    micro = _micro_batch(options, local, pp if is_early else None) if pp > 1 else local
    job = Job(
        name=name,
        model=model,
        seq=options.whole("training.seq_len"),
        said=partial(
            data=dp,
            tensor=tp,
            pipeline=pp,
            context=cp,
            expert_parallel=ep if model and model.experts else 1,
            etp=options.whole("parallelism.expert_tensor_parallel_degree") if ep > 1 and tp > 1 else 0,
            virtual=virtual_of(schedule, virtual),
            schedule=schedule,
            stages=stages,
            sequence=options.flag("parallelism.enable_sequence_parallel") and tp > 1,
            zero=zero,
            shard=groups,
            optimizer=optimizer_of(options, "optimizer.name") or None,
            fuse=options.flag("compile.enable") and "model" in str(options.get("compile.components")),
            whole=LOSS if options.flag("parallelism.disable_loss_parallel") and tp > 1 else (),
            **of_precision(_precision(options, bool(model and model.experts))),
            **of_recomputation(_recomputation(options, model)),
            **overlapping(zero > 0, options.flag("parallelism.enable_async_tensor_parallel") and tp > 1),
        ),
        micro_batch=micro,
        global_batch=total if total > 0 else local * dp,
        node=given.node,
    )
    if job.async_tp and not job.strategy.fuse:
        options.note("async tensor parallelism has no effect without `compile.enable`, and is not simulated")
        job = job.saying(**overlapping(zero > 0))
    moved = ("training.enable_cpu_offload",)
    job = job.saying(state_on_host=state_on_host(options, moved, moved))
    if ep > 1 and not (model and model.experts):
        options.note("the model has no experts, so this degree has no effect", "parallelism.expert_parallel_degree")
    line = options.line("parallelism.expert_parallel_degree")
    return ReadJob(checked(path, job, line), "torchtitan", options.rest())


def _micro_batch(options: Options, local: int, usual: int | None) -> int:
    """Of a pipeline: the sequences of a micro batch, or, before 0.1, of how many a replica's batch is."""
    count = options.optional("parallelism.pipeline_parallel_microbatches") or usual
    if count is None:
        return options.whole("parallelism.pipeline_parallel_microbatch_size")
    if local % count:
        name = "parallelism.pipeline_parallel_microbatches"
        raise options.wrong(options.line(name), f"{local} sequences of a replica are not {count} equal micro batches")
    return local // count


def _model(options: Options, given: Supplied) -> tuple[str, Decoder | None]:
    name, flavor = str(options.get("model.name")), str(options.get("model.flavor"))
    on_hub = options.get("hf_transformers.model") if name.startswith("transformers") else None
    if given.model is not None:
        return given.name, given.model
    if given.beside is not None:
        model, read = flavors.of_file(given.beside.text, given.beside.path, name, flavor)
        options.notes += [Remark(note.shown(given.beside.path)) for note in read.rest()]
        return f"{name}-{flavor}", model
    found = of_flavor(name, flavor)
    if found is None:
        named = (str(on_hub or ""), flavor, f"{name}-{flavor}", name if "/" in name else "")
        found = next((known for text in named if text and (known := of_name(text)) is not None), None)
        if found is not None:
            options.note(f"the model `{on_hub or f'{name} {flavor}'}` is taken as {found[0]}", "model.flavor")
            return found
        others = [f for n, f in (*FLAVORS, *UNPUBLISHED) if n == name]
        hint = f"flavors of {name} are {', '.join(others)}; " if others else ""
        line = options.line("model.flavor" if others else "model.name")
        message = f"the model `{name}` of flavor `{flavor}` is not known here"
        sized = [known for known in PUBLISHED if known.endswith(f"-{flavor.lower()}")]
        like = f", such as `{sized[-1]}`" if sized else ""
        of_file = "give the file that defines it (`torchtitan/models/…/__init__.py`) with `--with`"
        raise options.wrong(line, message, f"{hint}{of_file}, or name one that is like it with `--model`{like}")
    if found[0].startswith("llama3.2"):
        options.note(f"`{name}` of flavor `{flavor}` is taken as {found[0]}", "model.flavor")
    if (plain := plain_flavor(flavor)) != flavor:
        options.note(f"the flavor `{flavor}` is simulated as `{plain}`", "model.flavor")
    if (variant := VARIANTS.fullmatch(name)) and variant["name"] != name and name != "llama":
        options.note(f"`{name}` is simulated as `{variant['name']}`, parallelised as that is", "model.name")
    return found


def _sharding(options: Options, replicate: int, shard: int, pp: int, cp: int) -> tuple[int, int]:
    """The stage of ZeRO, and how many replicas share state, 0 for all."""
    policy = options.word("parallelism.fsdp_reshard_after_forward", ("default", "always", "never"))
    if shard * cp == 1:
        return 0, 0
    reshards = policy == "always" or (policy == "default" and pp == 1)
    return (3 if reshards else 2), (shard if replicate > 1 else 0)


def _pipeline(options: Options, model: Decoder | None, pp: int) -> tuple[str, int, tuple[int, ...]]:
    """The schedule, or the file of one, stages of each rank, and their layers."""
    named = options.get("parallelism.pipeline_parallel_schedule")
    file = options.get("parallelism.pipeline_parallel_schedule_csv") or ""
    first = options.whole("parallelism.pipeline_parallel_first_stage_less_layers", 0)
    last = options.whole("parallelism.pipeline_parallel_last_stage_less_layers", 0)
    each = options.optional("parallelism.pipeline_parallel_layers_per_stage")
    parts = as_list(options.get("parallelism.module_fqns_per_model_part"))
    split = options.get("parallelism.pipeline_parallel_split_points")
    points = as_list(split) or [point.strip() for point in str(split or "").split(",") if point.strip()]
    if pp == 1:
        return "1f1b", 1, ()
    lowered = {str(torch).lower(): name for torch, name in TORCHS.items()}
    if file:
        lowered |= {"pipelineschedulesingle": "1f1b", "pipelineschedulemulti": "interleaved"}
    schedule = lowered.get(str(named).lower().replace("_", ""))
    if schedule is None:
        line = options.line("parallelism.pipeline_parallel_schedule")
        raise options.wrong(line, f"the schedule `{named}` is not known here", f"known are {', '.join(TORCHS)}")
    single = SCHEDULES[schedule].stages == 1
    schedule = str(file) or schedule
    layers = model.layers if model else 0
    virtual = _stages_of_file(options, str(file)) or (1 if single else 2)
    if parts:
        counts = tuple(sum(str(module).startswith("layers.") for module in as_list(part) or ()) for part in parts)
        if len(counts) % pp:
            line = options.line("parallelism.module_fqns_per_model_part")
            raise options.wrong(line, f"{len(counts)} parts of the model on {pp} ranks", f"use a multiple of {pp}")
        return schedule, len(counts) // pp, counts
    if points:
        ends = [0, *(int(str(point).rpartition(".")[2]) for point in points if str(point)[-1:].isdecimal()), layers]
        counts = tuple(b - a for a, b in itertools.pairwise(ends))
        if len(ends) != len(points) + 2 or len(counts) % pp or min(counts) < 0:
            line = options.line("parallelism.pipeline_parallel_split_points")
            raise options.wrong(line, f"{len(points)} points do not split {layers} layers into stages of {pp} ranks")
        return schedule, len(counts) // pp, counts
    if each is not None:
        found = -(-(layers + first + last) // each)
        if found % pp or (found == pp) != single:
            line = options.line("parallelism.pipeline_parallel_layers_per_stage")
            message = f"{layers} layers, {each} in a stage, make {found} stages, which `{named}` does not run on {pp}"
            raise options.wrong(line, f"{message} ranks")
        virtual = found // pp
    return schedule, virtual, dealt(options, layers, pp * virtual, first, last)


def _stages_of_file(options: Options, file: str) -> int:
    """How many stages each rank has by a schedule's file; 0 without one that is there."""
    if not os.path.exists(file):
        return 0
    try:
        return schedule_of(file).stages_per_device()
    except StepError as error:
        raise options.wrong(options.line("parallelism.pipeline_parallel_schedule_csv"), str(error)) from None


def dealt(options: Options, layers: int, stages: int, first: int, last: int) -> tuple[int, ...]:
    """The layers of each stage: equally many, where the embedding and the head count as `first` and `last` layers."""
    each, more = divmod(layers + first + last, stages)
    if each < max(first, last, 1):
        raise options.wrong(
            options.line("parallelism.pipeline_parallel_degree"), f"{stages} stages are too many for {layers} layers"
        )
    counts = [each + (stage < more) for stage in range(stages)]
    counts[0] -= first
    counts[-1] -= last
    return tuple(counts)


CONVERTERS: Final = {"mx": "mxfp8", "quantize.linear.mx": "mxfp8", "quantize.linear.nvfp4": "nvfp4"}
"""Converters of a model that set the precision of its linear layers, beside that of `float8`."""

OF_EXPERTS: Final = "quantize.grouped_mm."
"""What converters of experts' products begin with."""


def _precision(options: Options, experts: bool) -> str:
    """The precision of products. `experts`: whether the model has products of experts, with converters of their own."""
    converters: Any = options.get("model.converters") or ()
    converters = [str(c) for c in as_list(converters) or str(converters or "").split(",") if c]
    precision = _of_layers(options, converters)
    of_experts = [c for c in converters if c.startswith(OF_EXPERTS)]
    if precision not in EIGHT_BITS:
        for other in of_experts:
            options.note(f"the converter `{other}` is not simulated", "model.converters")
    elif experts and not of_experts:
        options.note(f"experts' products are in {precision} here, too", "model.converters")
    return precision


def _of_layers(options: Options, converters: Sequence[str]) -> str:
    """The precision of linear layers' products."""
    recipe = options.get("quantize.linear.float8.recipe_name")
    options.get("quantize.linear.float8.enable_fsdp_float8_all_gather")
    skipped = options.get("quantize.linear.float8.filter_fqns")
    if options.word("training.dtype", ("bfloat16", "float32")) == "bfloat16":
        options.note("weights in bfloat16 are not simulated: they are in float32", "training.dtype")
    if options.get("training.mixed_precision_reduce") != "float32":
        options.note("gradients are reduced in float32 here", "training.mixed_precision_reduce")
    for other in converters:
        if other not in CONVERTERS and not other.startswith((OF_EXPERTS, "float8", "quantize.linear.float8")):
            options.note(f"the converter `{other}` is not simulated", "model.converters")
    if named := next((own for converter, own in CONVERTERS.items() if converter in converters), None):
        return named
    wide = options.word("training.mixed_precision_param", ("bfloat16", "float32")) == "float32"
    on = [name for name in OF_FLOAT8 if options.get(name) not in (None, False, "")]
    if not on and not {"float8", "quantize.linear.float8"} & set(converters):
        why = "`training.mixed_precision_param` is float32"
        return float32(options, why, "training.mixed_precision_param") if wide else "bf16"
    if recipe and recipe != "tensorwise":
        options.note(f"float8 `{recipe}` is simulated as `tensorwise`", "quantize.linear.float8.recipe_name")
    if options.settings.get("quantize.linear.float8.enable_fsdp_float8_all_gather", Setting(False, 0)).value:
        name = "quantize.linear.float8.enable_fsdp_float8_all_gather"
        options.note("gathers of weights in float8 are not simulated: they are in bfloat16", name)
    if any(name != "output" for name in as_list(skipped) or ()):
        options.note("layers that are left out of float8 are not", "quantize.linear.float8.filter_fqns")
    return "fp8"


def _recomputation(options: Options, model: Decoder | None) -> str:
    mode = options.word("activation_checkpoint.mode", ("selective", "full", "memory_budget", "none"))
    option = str(options.get("activation_checkpoint.selective_ac_option"))
    if mode == "memory_budget":
        budget = options.number("activation_checkpoint.memory_budget")
        options.note(f"a memory budget of {budget} is simulated as `selective`, by op", "activation_checkpoint.mode")
        return "selective"
    if mode != "selective" or option == "op":
        return mode or "none"
    if not option.isdecimal() or option == "0":
        line = options.line("activation_checkpoint.selective_ac_option")
        raise options.wrong(line, f"`selective_ac_option` is `{option}`", 'use "op" or a number, such as "2"')
    if option == "1":
        return "full"
    layers = model.layers // int(option) if model else 1
    options.note(f"recomputation of one layer in {option} is simulated as of the first {layers}")
    return f"full:{layers}"


def write(job: Job) -> JobText:
    """The TOML of a job."""
    why = unsaid(job)
    tables: dict[str, dict[str, Any]] = {"model": {}, "training": {}, "parallelism": {}}
    flavor = flavor_of(job.name)
    if flavor:
        tables["model"] |= {"name": flavor[0], "flavor": flavor[1]}
        if job.strategy.pipeline > 1 and flavor[0] in UNPIPELINED:
            why[f"{ALWAYS}pipeline"] = f"a pipeline: torchtitan {VERSION} runs none of {flavor[0]}"
    elif job.name:
        why["model"] = f"the model {job.name}: torchtitan has no flavor of it"
    if job.precision == "fp8":
        tables["model"]["converters"] = ["quantize.linear.float8"]
        tables["quantize.linear.float8"] = {"recipe_name": "tensorwise"}
    if job.precision == "mxfp8":
        tables["model"]["converters"] = ["quantize.linear.mx"]
    if job.precision == "fp32":
        tables["training"]["mixed_precision_param"] = "float32"
    tables["training"] |= _without_none({
        "seq_len": job.seq,
        "local_batch_size": local_batch(job),
        "global_batch_size": job.global_batch,
    })  # fmt: skip
    tables["parallelism"] |= parallelism(job, why)
    mode, option = recomputation(job)
    tables["activation_checkpoint"] = {"mode": mode} | ({"selective_ac_option": option} if option else {})
    tables["compile"] = {"enable": job.strategy.fuse or job.async_tp}
    lines = [f"\n[{name}]\n{_lines(table)}" for name, table in tables.items() if table]
    return JobText("".join(lines).lstrip(), why)


def local_batch(job: Job) -> int | None:
    """Of torchtitan: where a pipeline runs, all microbatches of a replica; else one, and gradients accumulate."""
    if job.strategy.pipeline > 1:
        return None if job.global_batch is None else job.global_batch // job.strategy.data
    return job.micro_batch


def parallelism(job: Job, why: dict[str, str]) -> dict[str, Any]:
    """The options of torchtitan's table `parallelism`; why fields are lost is added to `why`."""
    own = job.strategy
    why["overlap"] = "communication beside computation: torchtitan overlaps what replicas exchange, and has no option"
    shard = own.shard or own.data
    replicate, shard = (own.data // shard, shard) if own.zero >= 2 else (own.data, 1)
    if own.zero == 0 and own.context > 1:
        why["zero"] = "replicas with context parallelism: torchtitan shards state over that"
    ep, etp = _experts(job, shard * own.context, why)
    found: dict[str, Any] = {
        "data_parallel_replicate_degree": replicate,
        "data_parallel_shard_degree": shard,
        "fsdp_reshard_after_forward": None if shard * own.context == 1 else "always" if own.zero == 3 else "never",
        "tensor_parallel_degree": own.tensor,
        "disable_loss_parallel": True if own.whole else None,
        "enable_async_tensor_parallel": True if job.async_tp else None,
        "context_parallel_degree": own.context if own.context > 1 else None,
        "expert_parallel_degree": ep if ep > 1 else None,
        "expert_tensor_parallel_degree": etp if ep > 1 and own.tensor > 1 else None,
        "pipeline_parallel_degree": own.pipeline,
    }
    why["sequence"] = BOTH
    if own.pipeline > 1:
        found |= {
            "pipeline_parallel_schedule": _torchs_schedule(job),
            "pipeline_parallel_schedule_csv": None if own.schedule in SCHEDULES else own.schedule,
            "pipeline_parallel_microbatch_size": job.micro_batch,
            **_stages(job, why),
        }
    return _without_none(found)


def _experts(job: Job, sharing: int, why: dict[str, str]) -> tuple[int, int]:
    """The degrees of experts and of tensors in them, 1 and 1 where torchtitan has no mesh of such degrees.

    `sharing`: the devices that share state, over which torchtitan deals experts out (`ParallelDims.build_mesh`).
    """
    ep, tp = job.strategy.expert_parallel or 1, job.strategy.tensor
    etp = job.strategy.etp or tp
    if ep == 1 or (etp in (1, tp) and sharing * tp % (ep * etp) == 0):
        return ep, etp
    if etp not in (1, tp):
        why["expert_parallel"] = f"experts over {ep} replicas: torchtitan shards each expert over 1 or {tp}, not {etp}"
    else:
        why["expert_parallel"] = (
            f"experts over {ep} replicas: torchtitan's are over those that share state, {sharing} here"
        )
    return 1, 1


def _torchs_schedule(job: Job) -> str:
    """A schedule's name in `torch.distributed.pipelining`; 1F1B's for one that it lacks."""
    if job.strategy.schedule not in SCHEDULES:
        return "PipelineScheduleSingle" if job.strategy.stages_per_device == 1 else "PipelineScheduleMulti"
    torch = next((name for name, ours in TORCHS.items() if ours == job.strategy.schedule), None)
    return torch or "1F1B"


def _stages(job: Job, why: dict[str, str]) -> dict[str, Any]:
    """How layers are distributed over stages: equally, or by the names of modules."""
    own = job.strategy
    if not own.stages:
        known = SCHEDULES.get(own.schedule)
        usual = 1 if (own.stages_per_device if known is None else known.stages) == 1 else 2
        found: dict[str, Any] = dict.fromkeys(
            ("pipeline_parallel_first_stage_less_layers", "pipeline_parallel_last_stage_less_layers"), 0
        )
        if own.stages_per_device != usual and job.model is None:
            why["virtual"] = f"{own.stages_per_device} stages on each rank: set pipeline_parallel_layers_per_stage"
        elif own.stages_per_device != usual and job.model is not None:
            found["pipeline_parallel_layers_per_stage"] = -(-job.model.layers // (own.pipeline * own.stages_per_device))
        return found
    parts: list[list[str]] = []
    for count in own.stages:
        start = sum(own.stages[: len(parts)])
        parts.append([f"layers.{layer}" for layer in range(start, start + count)])
    parts[0].insert(0, "tok_embeddings")
    parts[-1] += ["norm", "output"]
    return {"module_fqns_per_model_part": parts}


def recomputation(job: Job) -> tuple[str, str]:
    """The mode of activation checkpointing, and the option of `selective`, empty for another mode."""
    what, _, layers = job.recompute.partition(":")
    if what in ("selective", "products"):
        return "selective", "op"
    if what == "full" and layers:
        total = job.model.layers if job.model else None
        return "selective", str(total // int(layers) if total and int(layers) else 2)
    return ("full" if what == "full" else "none"), ""


def _lines(table: dict[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, bool) else str(value).lower()


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if value is not None}


RUNS: Final = {
    "schedule": tuple(TORCHS.values()),
    "zero": (0, 2, 3),
    "precision": ("bf16", "fp8", "mxfp8", "fp32"),
    "gradients": ("auto",),
    "attention": ("",),
    "recompute": ("none", "selective", "full"),
    "overlap": (True,),
    "optimizer": ("",),
    "offloaded": (0,),
    "state_on_host": (False,),
}
"""What torchtitan runs, by field of a job; with `full`, one layer in N, too."""

TORCHTITAN = configuration_format(
    Format(
        name="torchtitan",
        title="torchtitan's job configuration (TOML)",
        version=VERSION,
        suffixes=(".toml",),
        read=read,
        framework="torchtitan",
        runs={**RUNS, "sequence": (True,)},
    ),
    write,
)
