"""What is simulated for a run: its framework with what the run states, its program, and its machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast

from distir import cost
from distir.files import limits
from distir.models.decoder import Decoder
from distir.ops.optimizer import OPTIMIZERS
from distir.transform.sharding.steps import LARGEST_NODE
from distir.transform.strategy import Strategy
from distir.transform.strategy.partial import LOSS, of_sharding
from distir.transform.training.precision import GRADIENTS
from distir.transform.unfusing import decomposed
from distir.validate.causes import parameter
from distir.validate.decoders import decoder_of
from distir.validate.frameworks import (
    ASYNC_TP,
    ATTENTION_RATES,
    HOPPERS_DROPOUT,
    HOPPERS_RATES,
    Attention,
    Framework,
    HeldMemory,
    definition_of,
)
from distir.validate.machines import (
    BEFORE_HOPPER,
    BLACKWELL,
    GPUS,
    NODE_OF_A_GRAPH,
    SLOWER_HOSTS,
    Conditions,
    machine,
    whole_nodes,
)
from distir.validate.programs import ProgramRewrite, RunProgram, TrainingProgram
from distir.validate.rewrites import (
    with_bias_apart,
    with_clamps_apart,
    with_exact_softmax,
    with_flat_gradients,
    with_gathered_routes,
    with_logits_again,
    with_metrics,
    with_sorted_rows,
)
from distir.validate.runs import PARTS, MeasuredRun, UnsupportedError
from distir.validate.strategies import (
    ALL_TO_ALL,
    EIGHT_BITS,
    HYBRID,
    eight_bits,
    pipelining,
    placement_of_experts,
    recomputation,
    sharding_in_parts,
)

MOST_MICROBATCHES: Final = 1 << 14
"""What is simulated in minutes; rows with more have another figure in the column, such as tokens for sequences."""

USUAL_NODE: Final = parameter("GPUs of a node", 8, "NVIDIA DGX A100, DGX H100 and DGX B200 user guides: 8 GPUs")
"""The GPUs of a node where a run does not state them."""

MUON: Final = "muon"

FULL: Final = "fp32"
"""The precision of runs that compute in Float32: on NVIDIA's GPUs without TF32, as PyTorch does by default."""


def framework_of(run: MeasuredRun) -> Framework:
    """The framework of a run, with what the run states in the place of defaults.

    Raises UnsupportedError for a run with a word that is not known.
    """
    if run.fault:
        raise UnsupportedError(run.fault)
    found = definition_of(run.framework)
    if found.layer_wise and _optimizer(run, found) == MUON:
        memory = replace(found.memory, eight_bit_weights=False, remainders=False)
        found = replace(found, overlap=tuple(kind for kind in found.overlap if kind != "weights"), memory=memory)
    own = run.strategy
    parallel = own.tensor > 1 and (not own.whole if run.says("whole") else found.loss_parallel)
    wide = run.precision == FULL
    of_gpt = run.position == "learned" and found.gpt_dropout is not None
    dropout = found.gpt_dropout if of_gpt else found.dropout
    return replace(
        found,
        dropout=dropout if run.dropout is None else float(run.dropout),
        attention=_attention(run, found),
        gradients=_gradients(run, found),
        master="beside" if wide or _keeps_weights(run, found) else found.master,
        memory=_memory(run, found),
        recompute=run.recompute or found.recompute,
        sharding=_sharding(run, found),
        sequence_parallel=own.sequence if run.says("sequence") else found.sequence_parallel,
        overlap=_overlap(run, found),
        fused_norm=found.fused_norm if run.fused_norm is None else run.fused_norm,
        loss="apart" if parallel and found.loss == "gathered" else found.loss,
        kernels=found.kernels if not run.says("fuse") else found.compiled if own.fuse else "eager",
        dispatcher=run.dispatcher or found.dispatcher,
    )


def _keeps_weights(run: MeasuredRun, found: Framework) -> bool:
    """Whether replicas keep whole weights between passes that they shard between steps: as FSDP, in 16 bits."""
    return _sharding(run, found).startswith("zero2")


def _attention(run: MeasuredRun, found: Framework) -> Attention:
    if run.attention:
        return found.flash if run.attention == "flash" else cast("Attention", run.attention)
    return found.float32_attention or found.attention if run.precision == FULL else found.attention


def _gradients(run: MeasuredRun, found: Framework) -> str:
    """The precision in which gradients are added up: a word of the step `grad`."""
    own = found.gradients if run.precision not in ("fp16", FULL) or found.gradients == "auto" else run.precision
    stated = run.strategy.gradients
    return (FULL if run.precision == FULL else own) if stated == "auto" else stated


def _memory(run: MeasuredRun, found: Framework) -> HeldMemory:
    """What a framework holds, where it has buffers of gradients in the precision of these.

    Where weights are in Float32 alone, as with FSDP, so are gradients, in whatever precision they are reduced:
    torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, `foreach_reduce`.
    """
    use, dtype = found.memory, GRADIENTS[_gradients(run, found)]
    wide = replace(use, remainders=False) if run.precision == FULL else use
    stated = (run.strategy.gradients != "auto" and found.master == "beside") or run.precision == FULL
    return replace(wide, gradients=dtype.bytes) if stated and dtype is not None and use.gradients else wide


def _overlap(run: MeasuredRun, found: Framework) -> tuple[str, ...]:
    """What is communicated beside computation: kinds of the step `overlap`.

    Where a run says whether what replicas exchange is, that is as it says, unless its framework always does so.
    """
    sharded = _sharding(run, found).startswith(("zero3", "hsdp"))
    every = found.overlap + (found.overlap_of_sharded if sharded else ())
    kinds = tuple(kind for kind in dict.fromkeys(every) if kind != ASYNC_TP)
    if run.says("overlap") and run.overlaps and not kinds:
        kinds = ("weights", "gradients") if run.strategy.zero else ("gradients",)
    elif run.says("overlap") and not run.overlaps and found.overlap and not found.always_overlaps:
        kinds = tuple(kind for kind in kinds if kind == "transfers")
    wanted = ASYNC_TP in found.overlap if run.async_tp is None else run.async_tp
    return (*kinds, ASYNC_TP) if wanted and run.strategy.tensor > 1 else kinds


def _sharding(run: MeasuredRun, found: Framework) -> str:
    """How weights, gradients and optimizer state are sharded: a word of the column `sharding`."""
    stated, most = run.sharding or found.sharding, found.shards_weights_over
    if stated == "zero3" and found.gathers_once and run.strategy.pipeline > 1:
        return "zero1"
    return f"hsdp:{most}" if stated == "zero3" and most is not None and run.strategy.data > most else stated


def _optimizer(run: MeasuredRun, chosen: Framework) -> str:
    """The optimizer of a run. Raises UnsupportedError for one that there is not."""
    name = run.strategy.optimizer or chosen.optimizer
    if name not in OPTIMIZERS:
        raise UnsupportedError(f"there is no optimizer `{name}`; known: {', '.join(sorted(OPTIMIZERS))}")
    return name


def conditions_of(run: MeasuredRun) -> Conditions:
    """How the framework of a run uses devices. Raises HardwareError for an unknown profile."""
    chosen = framework_of(run)
    before = run.gpu in BEFORE_HOPPER
    rates = ATTENTION_RATES if before else HOPPERS_RATES
    dropout = None if before else HOPPERS_DROPOUT.get(chosen.attention)
    attention = rates.get(chosen.attention, (1.0, 1.0))
    hybrid = chosen.dispatcher == HYBRID
    if run.cuda_graphs:
        return Conditions(NODE_OF_A_GRAPH, attention=attention, dropout=dropout, hybrid=hybrid)
    slower = SLOWER_HOSTS.get(run.gpu, 1.0)
    each = chosen.issue_of_expert[run.precision in EIGHT_BITS]
    each += chosen.issue_of_expert_bias if _adds_biases_apart(run, chosen) else 0.0
    communication = chosen.issue_of_communication
    return Conditions(
        _issue_of_profile(run) or chosen.issue * slower,
        None if communication is None else communication * slower,
        attention=attention,
        waits_for_sends=chosen.waits_for_sends,
        waits_for_counts=chosen.waits_for_counts,
        each_expert=each * slower,
        dropout=dropout,
        hybrid=hybrid,
    )


def _issue_of_profile(run: MeasuredRun) -> float:
    """What a profile that a run names says of its hosts, whatever issues ops; 0 for nothing."""
    if not run.hardware:
        return 0.0
    return max(kind.host.issue for kind in cost.load(run.hardware).kinds.distinct)


def _has_single_ops_of_experts(run: MeasuredRun) -> bool:
    """Whether the ops of experts are kernels of their own: in 8 bits recipes let Transformer Engine fuse them."""
    return bool(run.experts) and run.precision not in EIGHT_BITS


def _adds_biases_apart(run: MeasuredRun, chosen: Framework) -> bool:
    return chosen.expert_bias == "apart" and bool(run.bias) and _has_single_ops_of_experts(run)


def _per_device(run: MeasuredRun) -> float | None:
    """What a device sends to other nodes, in Gbit/s. The nodes of a run may be smaller than those of the profile."""
    return None if run.node_gbps is None else run.node_gbps / (run.gpus_per_node or USUAL_NODE)


def plan_of(run: MeasuredRun, conditions: Conditions | None = None, described: Decoder | None = None) -> RunProgram:
    """The program of a run. `conditions`: in the place of those that follow from its framework.

    `described`: the model, where more is known of it than the run says.

    Raises UnsupportedError, with the reason, for one that cannot be expressed; MachineError.
    """
    chosen = framework_of(run)
    micro_batch, rows = _microbatches(run, chosen)
    _require_stages(run)
    named = run.hardware or run.gpu
    hardware = machine(named, run.gpus, _per_device(run), conditions or conditions_of(run), run.gpus_per_node)
    padded = chosen.vocabulary * run.strategy.tensor
    vocabulary = -(-run.vocab // padded) * padded
    given = decoder_of(run, vocabulary, chosen.dropout) if described is None else described
    model = replace(given, vocabulary=vocabulary)
    strategy, share = strategy_of_run(run, chosen, model, rows)
    step = TrainingProgram(
        model=model,
        sequence=run.seq,
        strategy=strategy,
        profile=_profile(run, named),
        of_model=_rewrites_of_model(run, chosen),
        of_step=_rewrites_of_step(chosen),
        of_ranks=_rewrites_of_ranks(run, chosen, model),
    )
    copies = chosen.memory.copies_tied and model.tied and run.strategy.pipeline > 1
    tied = vocabulary * model.width // run.strategy.tensor if copies else 0
    kept = min(chosen.memory.kept_logits, rows) * 2 * micro_batch * run.seq * vocabulary
    return RunProgram(step, run.global_batch, hardware, chosen.memory, run.gpu, tied, kept, share)


def _microbatches(run: MeasuredRun, chosen: Framework) -> tuple[int, int]:
    """Sequences of a microbatch, and the microbatches of a replica."""
    micro_batch = run.micro_batch or chosen.micro_batch
    if micro_batch is None and run.global_batch == run.strategy.data:
        micro_batch = 1
    if micro_batch is None:
        raise UnsupportedError("the micro batch is not stated")
    rows, left = divmod(run.global_batch, run.strategy.data * micro_batch)
    if left or not rows:
        each = f"micro batches of {micro_batch} on {run.strategy.data} replicas"
        raise UnsupportedError(f"{each} do not divide the batch of {run.global_batch}")
    if rows > MOST_MICROBATCHES:
        most = f"which are more than {MOST_MICROBATCHES}: the batch is in sequences"
        raise UnsupportedError(f"{rows} micro batches, {most}")
    return micro_batch, rows


def _require_stages(run: MeasuredRun) -> None:
    if run.layers > limits.LAYERS:
        raise UnsupportedError(f"{run.layers} layers, which are more than {limits.LAYERS}")
    own = run.strategy
    stages = own.pipeline * own.stages_per_device  # the embedding and the output layer may have their own
    if own.pipeline > run.layers or stages > run.layers + 2:
        each = f" with {own.stages_per_device} stages each" if stages != own.pipeline else ""
        raise UnsupportedError(f"a pipeline of {own.pipeline} ranks{each}, for {run.layers} layers: some have no layer")


def _keeps_scores(chosen: Framework) -> bool:
    """Whether the scores of attention are in memory."""
    return chosen.attention in ("unfused", "fused")


def _rewrites_of_model(run: MeasuredRun, chosen: Framework) -> tuple[ProgramRewrite, ...]:
    """The ops that the framework has no kernel for are written out."""
    found: list[ProgramRewrite] = []
    if _keeps_scores(chosen):
        found.append(ProgramRewrite(decomposed, ("Attention",)))
        if chosen.attention == "unfused" and chosen.kernels == "eager" and run.precision != FULL:
            # Megatron's softmax kernel takes 16-bit scores: the peaks of its tests have no other copy.
            found.append(ProgramRewrite(with_exact_softmax))
    if not chosen.fused_norm and run.norm == "rmsnorm":
        found.append(ProgramRewrite(decomposed, ("RMSNormalization",)))
    if not chosen.fused_rotary and run.position == "rope":
        found.append(ProgramRewrite(decomposed, ("RotaryEmbedding",)))
    return tuple(found)


def _rewrites_of_step(chosen: Framework) -> tuple[ProgramRewrite, ...]:
    again = (ProgramRewrite(with_logits_again),) if chosen.recomputes_logits and chosen.recompute == "full" else ()
    return (*again, ProgramRewrite(with_metrics, (chosen.metrics,))) if chosen.metrics else again


def _rewrites_of_ranks(run: MeasuredRun, chosen: Framework, model: Decoder) -> tuple[ProgramRewrite, ...]:
    found: list[ProgramRewrite] = []
    if chosen.flat_gradients:
        found.append(ProgramRewrite(with_flat_gradients))
    if _adds_biases_apart(run, chosen):
        found.append(ProgramRewrite(with_bias_apart))
    if chosen.clamps == "apart" and model.limit is not None and _has_single_ops_of_experts(run):
        found.append(ProgramRewrite(with_clamps_apart))
    own, ranks = run.strategy, run.strategy.expert_parallel
    if chosen.dispatcher == HYBRID and ranks > 1:
        found.append(ProgramRewrite(with_gathered_routes))
    # With shards, or parts of sequences, exchanges of counts look like those of rows: these stay as they come.
    several = own.tensor == own.context == 1 and (run.experts or 0) > ranks > 1
    if several and chosen.sorts_rows and chosen.dispatcher == ALL_TO_ALL:
        found.append(ProgramRewrite(with_sorted_rows))
    return tuple(found)


def strategy_of_run(run: MeasuredRun, chosen: Framework, model: Decoder, rows: int) -> tuple[Strategy, float]:
    """How a run is trained and distributed, and what a device holds of the optimizer state that its program has.

    `rows`: the microbatches of a replica. Raises UnsupportedError for what cannot be expressed.
    """
    training = _training(run, chosen, model)
    distribution, share = _distribution(run, chosen, model)
    overlap = (*chosen.overlap, "experts") if run.overlap_experts else chosen.overlap
    own = run.strategy
    found = Strategy(
        data=own.data,
        tensor=own.tensor,
        pipeline=own.pipeline,
        microbatches=rows,
        overlap=bool(overlap),
        kinds=overlap,
        behind_sums=chosen.backward_prefetch == "post" and "weights" in overlap,
        state_on_host=own.state_on_host,
        fuse=True,
        kernels="compiled" if chosen.kernels == "fused" else chosen.kernels,
        # The loss reads logits in Float32; or it is a kernel that reads them as they are, where others are single ops.
        apart=LOSS if chosen.loss == "apart" and chosen.kernels != "eager" else (),
        around=LOSS if chosen.loss == "fused" and chosen.kernels == "eager" else (),
        **training,
        **distribution,
    )
    return found, share


def _profile(run: MeasuredRun, named: str) -> str:
    """The machine by which a pipeline orders its messages."""
    if run.strategy.pipeline == 1:
        return ""
    return whole_nodes(GPUS[named], run.strategy.pipeline).name if named in GPUS else named


def _training(run: MeasuredRun, chosen: Framework, model: Decoder) -> dict[str, Any]:
    """The fields of the training step that is derived from the model."""
    _require_precision(run)
    _require_recomputation(run, chosen)
    offloaded = run.strategy.offloaded
    if offloaded and (run.strategy.pipeline > 1 or offloaded >= run.layers):
        raise UnsupportedError("activations are offloaded without a pipeline, of all layers but the last at most")
    return {
        **(eight_bits(run, chosen) if run.precision in EIGHT_BITS else {}),
        "seeded": bool(model.dropout),
        "optimizer": _optimizer(run, chosen),
        "precision": run.precision if run.precision in ("fp16", FULL) else chosen.precision,
        "gradients": chosen.gradients,
        "clip": 1.0 if chosen.clip else None,
        "master": "only" if chosen.master == "only" and run.precision != "fp16" else "beside",
        "merged": run.precision == "mxfp8",  # what several products take is quantised once
        **recomputation(chosen, run.mlp == "swiglu"),
        "offloaded": offloaded,
    }


def _require_precision(run: MeasuredRun) -> None:
    """Products in a precision that the GPU has."""
    if run.precision == "nvfp4":
        raise UnsupportedError("products in 4-bit floats: no profile states their rates")
    if run.precision in EIGHT_BITS and run.gpu in BEFORE_HOPPER:
        raise UnsupportedError(f"products in 8-bit floats, which `{run.gpu}` does not have: GPUs since Hopper do")
    if run.precision == "mxfp8" and run.gpu in GPUS and run.gpu not in BLACKWELL:
        raise UnsupportedError(f"products in MXFP8, which `{run.gpu}` does not have: GPUs since Blackwell do")


def _require_recomputation(run: MeasuredRun, chosen: Framework) -> None:
    if chosen.recompute == "selective" and not _keeps_scores(chosen) and not chosen.operators:
        known = f"with `{chosen.attention}` attention `{run.framework}` has no selective recomputation"
        raise UnsupportedError(f"{known}: name the parts in `recompute`, as in `modules:core_attn`")
    parts = chosen.recompute.removeprefix(PARTS).split(",") if chosen.recompute.startswith(PARTS) else []
    if "layernorm" in parts and not chosen.fused_norm and run.norm == "rmsnorm":
        raise UnsupportedError("norms that are not one kernel cannot be recomputed as `layernorm`: say `fused_norm` 1")
    if "mlp" in parts and run.experts and not run.dense_layers:
        raise UnsupportedError(
            "`mlp` in `recompute` is of layers without experts, of which the model has none: say `moe`"
        )


def _gathers_logits(run: MeasuredRun, chosen: Framework) -> bool:
    return chosen.loss == "gathered" and (run.strategy.tensor == 1 or run.strategy.context == 1)


def _distribution(run: MeasuredRun, chosen: Framework, model: Decoder) -> tuple[dict[str, Any], float]:
    """The fields that distribute a training step, and what a device holds of the optimizer state that it has."""
    context = run.strategy.context
    if context > 1 and _keeps_scores(chosen):
        kept = f"parts of a sequence on {context} ranks, with `{chosen.attention}` attention, keep scores in memory"
        raise UnsupportedError(f"{kept}: say `flash` in `attention`, or `cp` 1")
    gathers = _gathers_logits(run, chosen)
    found = {
        "layout": chosen.layout,
        **placement_of_experts(run, chosen),
        **({"context": context, "kind": chosen.context} if context > 1 else {}),
        **(pipelining(run, chosen) if run.strategy.pipeline > 1 else {}),
        # Decided here, for programs that serve several numbers of replicas.
        "scatter_gather": run.gpus > LARGEST_NODE if run.strategy.tensor > 1 and run.strategy.pipeline > 1 else None,
        "whole": LOSS if gathers and run.strategy.tensor > 1 else (),
        "sequence": chosen.sequence_parallel and run.strategy.tensor > 1,
        "decomposed": LOSS if gathers else (),
    }
    share = 1.0
    if run.strategy.data * context > 1:
        sharding, share = sharding_in_parts(model, run.strategy.tensor, run.strategy.data * context, chosen)
        found |= of_sharding(sharding) | {"wide_sums": chosen.float32_sums and chosen.sharding == "zero1"}
    return found, share
