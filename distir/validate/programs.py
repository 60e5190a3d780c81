"""The program of a run: the training step that its framework would run, on the machine that the run names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from inspect import signature
from typing import Final

from distir.cost import Hardware
from distir.ir import Function, Module
from distir.models.block import Activation
from distir.models.catalogue import program
from distir.models.decoder import Decoder, Latent, Router
from distir.models.published import GPT3, LLAMA2, PUBLISHED
from distir.models.rotary import Rotary
from distir.models.sizes import BATCH
from distir.ops.optimizer import OPTIMIZERS
from distir.transform.all_steps import parse_steps, transform
from distir.transform.entry import entry_of
from distir.transform.overlap import overlapped
from distir.transform.overlap.products import in_bulk
from distir.transform.pipeline import Steady, steady
from distir.transform.sharding.steps import LARGEST_NODE
from distir.transform.unfusing import decomposed
from distir.validate.frameworks import (
    ASYNC_TP,
    ATTENTION_RATES,
    FRAMEWORKS,
    HOPPERS_DROPOUT,
    HOPPERS_RATES,
    NO_OTHER_MEMORY,
    Framework,
    HeldMemory,
)
from distir.validate.machines import (
    BEFORE_HOPPER,
    GPUS,
    NODE_OF_A_GRAPH,
    SLOWER_HOSTS,
    Conditions,
    machine,
    whole_nodes,
)
from distir.validate.microbatches import UnlikeMicrobatchesError, with_microbatches
from distir.validate.replicas import DeviceLayout, UnlikeError, have_equal_kernels, require_alike, with_replicas
from distir.validate.rewrites import (
    with_bias_apart,
    with_clamps_apart,
    with_exact_softmax,
    with_flat_gradients,
    with_logits_again,
    with_metrics,
    with_sorted_rows,
)
from distir.validate.runs import PARTS, MeasuredRun, UnsupportedError
from distir.validate.words import (
    ALL_TO_ALL,
    EIGHT_BITS,
    eight_bit_words,
    expert_words,
    recomputation_words,
    schedule_words,
    sharding_in_parts,
    sharding_words,
)

SOFTMAX = "Softmax"
"""Among the ops that are written out: it is taken in Float32."""

FUSED, EAGER = ("fuse",), ("fuse", "kernels=eager")
"""The steps that give a program its kernels."""

REPLICAS_WITHIN_STAGES: Final = "pdt"
"""The layout of programs that serve other numbers of replicas."""

MOST_LAYERS: Final = 4096
MOST_MICROBATCHES: Final = 1 << 14
"""What is simulated in minutes; rows with more have another figure in the column, such as tokens for sequences."""

USUAL_NODE: Final = 8
"""The GPUs of a node where a run does not state them."""

ACTIVATIONS: Final[Mapping[str, Activation]] = {"swiglu": "silu", "gelu": "gelu_tanh", "relu2": "relu_squared"}
"""The activation of each word in the column `mlp`."""

MEGATRONS_LATENT: Final = Latent(q_rank=512, kv_rank=512, plain=128, rotated=64, values=128)
"""Of models with latent attention that are not published: NVIDIA/Megatron-LM, core/transformer/transformer_config.py,
the defaults of `MLATransformerConfig`."""

LOSS: Final = "SoftmaxCrossEntropyLoss,SoftmaxCrossEntropyLossGrad"

LOSS_APART: Final = (f"apart={LOSS}",)
"""Of the step `fuse`: the loss reads logits in Float32."""

LOSS_ALONE: Final = (f"around={LOSS}",)
"""Of the step `fuse`: the loss is a kernel that reads the logits as they are, where each op is a kernel of its own."""


def framework_of(run: MeasuredRun) -> Framework:
    """The framework of a run, with what the run states in the place of defaults."""
    found = FRAMEWORKS[run.framework]
    parallel = run.tp > 1 and (found.loss_parallel if run.loss_parallel is None else run.loss_parallel)
    of_gpt = run.position == "learned" and found.gpt_dropout is not None
    dropout = found.gpt_dropout if of_gpt else found.dropout
    return replace(
        found,
        dropout=dropout if run.dropout is None else float(run.dropout),
        attention=found.flash if run.attention == "flash" else run.attention or found.attention,
        recompute=run.recompute or found.recompute,
        sharding=_sharding(run, found),
        sequence_parallel=found.sequence_parallel if run.sequence_parallel is None else run.sequence_parallel,
        overlap=_overlap(run, found),
        fused_norm=found.fused_norm if run.fused_norm is None else run.fused_norm,
        loss="apart" if parallel and found.loss == "gathered" else found.loss,
        kernels=found.kernels if run.compile is None else found.compiled if run.compile else "eager",
        dispatcher=run.dispatcher or found.dispatcher,
    )


def _overlap(run: MeasuredRun, found: Framework) -> tuple[str, ...]:
    """What is communicated beside computation: kinds of the step `overlap`."""
    sharded = _sharding(run, found).startswith(("zero3", "hsdp"))
    every = found.overlap + (found.overlap_of_sharded if sharded else ())
    kinds = tuple(kind for kind in dict.fromkeys(every) if kind != ASYNC_TP)
    wanted = ASYNC_TP in found.overlap if run.async_tp is None else run.async_tp
    return (*kinds, ASYNC_TP) if wanted and run.tp > 1 else kinds


def _sharding(run: MeasuredRun, found: Framework) -> str:
    """How weights, gradients and optimizer state are sharded: a word of the column `sharding`."""
    stated, most = run.sharding or found.sharding, found.shards_weights_over
    if stated == "zero3" and found.gathers_once and run.pp > 1:
        return "zero1"
    return f"hsdp:{most}" if stated == "zero3" and most is not None and run.dp > most else stated


def _optimizer(run: MeasuredRun, chosen: Framework) -> str:
    """The optimizer of a run. Sources say Adam of any form of it: the framework's is meant.

    Raises UnsupportedError for one that there is not.
    """
    name = run.optimizer.lower()
    if not name or "adam" in name:
        return chosen.optimizer
    if name not in OPTIMIZERS:
        raise UnsupportedError(f"there is no optimizer `{run.optimizer}`; known: {', '.join(sorted(OPTIMIZERS))}")
    return name


def conditions_of(run: MeasuredRun) -> Conditions:
    """How the framework of a run uses devices."""
    chosen = framework_of(run)
    before = run.gpu in BEFORE_HOPPER
    rates = ATTENTION_RATES if before else HOPPERS_RATES
    dropout = None if before else HOPPERS_DROPOUT.get(chosen.attention)
    attention = rates.get(chosen.attention, (1.0, 1.0))
    if run.cuda_graphs:
        return Conditions(NODE_OF_A_GRAPH, attention=attention, dropout=dropout)
    slower = SLOWER_HOSTS.get(run.gpu, 1.0)
    each = chosen.issue_of_expert[run.precision in EIGHT_BITS]
    each += chosen.issue_of_expert_bias if _adds_biases_apart(run, chosen) else 0.0
    communication = chosen.issue_of_communication
    return Conditions(
        chosen.issue * slower,
        None if communication is None else communication * slower,
        attention=attention,
        waits_for_sends=chosen.waits_for_sends,
        waits_for_counts=chosen.waits_for_counts,
        each_expert=each * slower,
        dropout=dropout,
    )


def _has_single_ops_of_experts(run: MeasuredRun) -> bool:
    """Whether the ops of experts are kernels of their own: in 8 bits recipes let Transformer Engine fuse them."""
    return bool(run.experts) and run.precision not in EIGHT_BITS


def _adds_biases_apart(run: MeasuredRun, chosen: Framework) -> bool:
    return chosen.expert_bias == "apart" and bool(run.bias) and _has_single_ops_of_experts(run)


def _per_device(run: MeasuredRun) -> float | None:
    """What a device sends to other nodes, in Gbit/s. The nodes of a run may be smaller than those of the profile."""
    return None if run.node_gbps is None else run.node_gbps / (run.gpus_per_node or USUAL_NODE)


def _published(run: MeasuredRun) -> Decoder | None:
    """The published model of the family that a run is of, for what no column says; None where none has its sizes.

    Layers and experts may be fewer, as of a proxy.
    """
    sizes = run.hidden, run.heads, run.ffn
    decoders = (model for model in PUBLISHED.values() if isinstance(model, Decoder))
    same = (m for m in decoders if bool(m.experts) == bool(run.experts) and m.gated == (run.mlp == "swiglu"))
    return next((m for m in same if (m.width, m.heads) == sizes[:2] and sizes[2] in (m.ffn, m.expert_ffn)), None)


def decoder_of(run: MeasuredRun, vocabulary: int) -> Decoder:
    """The model of a run. Raises UnsupportedError for one that is not among ours."""
    if run.experts and not run.top_k:
        raise UnsupportedError("the experts of a token are not stated")
    family = LLAMA2 if run.norm == "rmsnorm" else GPT3
    published = _published(run)
    if run.attention_kind == "gqa" and run.kv_heads is None:
        raise UnsupportedError("the heads of keys and values are not stated")
    if run.head_dim is None and run.hidden % run.heads:
        raise UnsupportedError(f"the size of {run.heads} heads is not stated, and they do not divide {run.hidden}")
    latent = None
    if run.attention_kind == "mla":
        latent = published.latent if published is not None and published.latent is not None else MEGATRONS_LATENT
    return family(
        layers=run.layers,
        width=run.hidden,
        heads=run.heads,
        kv_heads=run.kv_heads or run.heads,
        head_size=run.head_dim or run.hidden // run.heads,
        ffn=run.ffn,
        experts=run.experts or None,
        top_k=run.top_k if run.experts else None,
        expert_ffn=(run.expert_ffn or run.ffn) if run.experts else None,
        shared_experts=run.shared_experts or None if run.experts else None,
        dense_layers=run.dense_layers or None if run.experts else None,
        vocabulary=vocabulary,
        context=run.seq,
        norm="rms" if run.norm == "rmsnorm" else "layer",
        position=Rotary() if run.position == "rope" or latent else "alibi" if run.position == "alibi" else "learned",
        window=None if published is None else published.window,
        window_every=1 if published is None else published.window_every,
        sinks=published is not None and published.sinks,
        activation=published.activation if published is not None and published.gated else ACTIVATIONS[run.mlp],
        limit=None if published is None else published.limit,
        gated=run.mlp == "swiglu",
        tied=bool(run.tied) if run.tied is not None else True,
        dropout=framework_of(run).dropout,
        attention_dropout=0.0 if (run.cp or 1) > 1 else None,
        attention_bias=bool(run.bias),
        mlp_bias=bool(run.bias),
        latent=latent,
        head_norm=published is not None and published.head_norm,
        router=Router() if published is None else published.router,
        names=replace(LLAMA2(layers=1, width=1, heads=1, ffn=1).names, positions="model.positions"),
    )


@dataclass(frozen=True, slots=True)
class TrainingProgram:
    """A training step: the model, and the steps that make its program, as the command line writes them.

    `written`: ops that the framework has no kernel for. `overlap`: kinds of the step `overlap`, where they apply.
    `metrics`: see `with_metrics`; `logits_again`: see `with_logits_again`; `bias_apart`: see `with_bias_apart`;
    `clamps_apart`: see `with_clamps_apart`; `sorts_rows`: see `with_sorted_rows`; `behind_sums`: the option of the kind
    `weights`; `flat_gradients`: see `with_flat_gradients`.
    """

    model: Decoder
    sequence: int
    written: tuple[str, ...]
    training: tuple[str, ...]
    distribution: tuple[str, ...]
    overlap: tuple[str, ...]
    kernels: tuple[str, ...]
    metrics: int = 0
    logits_again: bool = False
    bias_apart: bool = False
    clamps_apart: bool = False
    sorts_rows: bool = False
    behind_sums: bool = False
    flat_gradients: bool = False

    def module(self) -> Module:
        """The program. Raises ProgramError or StepError where a step cannot be applied."""
        return self._made[0]

    def shared(self) -> Module:
        """A program that takes as long and as much memory, made of one that serves all numbers of replicas.

        Raises UnlikeError where there is none, or it might differ; else as `module` does.
        """
        data, shards, stages = self._degrees
        context = next((int(w.partition("=")[2]) for w in self.distribution if w.startswith("context=")), 1)
        few = DeviceLayout.of_few(shards, context)
        unlike = {"experts", "shard"}.intersection(word.partition("=")[0] for word in self.distribution)
        if data <= few.replicas or unlike or f"layout={REPLICAS_WITHIN_STAGES}" not in self.distribution:
            raise UnlikeError("it is a program of its own")
        if shards == 1 and any(word.startswith("zero=") for word in self.distribution):
            require_alike(entry_of(self.on_one_device), few, data)  # known without a program for few
        other = replace(self, distribution=(f"dtp={few.replicas},{shards},{stages}", *self.distribution[1:]))
        if any(word.startswith("kernels=") for word in self.kernels):  # which do not depend on sizes
            return with_replicas(*other._of_few_microbatches, few, data)
        unfused, whole = _unfused(other)
        if have_equal_kernels(entry_of(unfused), whole, few, data):
            return with_replicas(*other._made, few, data)
        return _applied(with_replicas(unfused, whole, few, data), self.kernels)

    @property
    def _degrees(self) -> tuple[int, int, int]:
        """Replicas, shards, stages."""
        data, shards, stages = self.distribution[0].removeprefix("dtp=").split(",")
        return int(data), int(shards), int(stages)

    @property
    def on_one_device(self) -> Module:
        """The training step on one device."""
        return _step(self.model, self.sequence, self.written, self.training, self.metrics, self.logits_again)

    @property
    def _made(self) -> tuple[Module, Function]:
        """The program, and its entry function before ZeRO."""
        return _made(self)

    @property
    def _of_few_microbatches(self) -> tuple[Module, Function]:
        """The same, if it can be made of one that serves all numbers of microbatches; takes as long, and as much.

        For kernels that do not depend on how far apart statements are, as those across rounds may.
        """
        count, found = self._microbatches, self._steady
        if found is None:
            return self._made
        words = [f"microbatches={found.microbatches}" if w == f"microbatches={count}" else w for w in self.distribution]
        module, whole = replace(self, distribution=tuple(words))._made
        try:
            return with_microbatches(module, found.more, found.microbatches, count), whole
        except UnlikeMicrobatchesError:
            return self._made

    @property
    def _microbatches(self) -> int:
        return int(self.distribution[1].removeprefix("microbatches="))

    @property
    def _steady(self) -> Steady | None:
        """How its pipeline follows from one of fewer microbatches; None where it does not, or is not repeated whole."""
        if self.overlap or "zero=3" in self.distribution:
            return None  # what rounds exchange is opened up: it depends on the rounds next to them
        options = parse_steps(self.distribution)[0].options
        given = {name: options[name] for name in signature(steady).parameters if name in options}
        found = steady(self.on_one_device, self._degrees[2], **given)
        return found if found is not None and found.microbatches < self._microbatches else None


@dataclass(frozen=True, slots=True)
class RunProgram:
    """A run: its program, how many sequences all replicas take together, and the machine.

    `memory`: what the framework does with memory besides.
    """

    step: TrainingProgram
    batch: int
    hardware: Hardware
    memory: HeldMemory = NO_OTHER_MEMORY
    gpu: str = ""
    tied: int = 0
    """Elements of a tied embedding of which the last stage holds a copy of its own."""
    kept: int = 0
    """Bytes of logits that the last stage holds beside its program's tensors."""
    share: float = 1.0
    """What a device holds of the optimizer state that its program has: see `sharding_in_parts`."""

    @property
    def bind(self) -> dict[str, int]:
        """The size of the program's batch."""
        return {str(BATCH): self.batch}


@lru_cache(maxsize=8)
def _made(of: TrainingProgram) -> tuple[Module, Function]:
    module, whole = _unfused(of)
    return _applied(module, of.kernels), whole


@lru_cache(maxsize=4)
def _unfused(of: TrainingProgram) -> tuple[Module, Function]:
    """The program without kernels, and its entry function before ZeRO."""
    module = of.on_one_device
    whole: Function | None = None
    for application in parse_steps(of.distribution):
        module = application.unchecked(module)
        whole = whole or entry_of(module)
    assert whole is not None
    kinds = [kind for kind in of.overlap if kind != ASYNC_TP]
    if kinds:
        module = overlapped(module, kinds, {"behind_sums": True} if of.behind_sums else {}).module
    if of.flat_gradients:
        module = with_flat_gradients(module)
    if ASYNC_TP in of.overlap:
        module = in_bulk(module)
    if of.bias_apart:
        module = with_bias_apart(module)
    if of.clamps_apart:
        module = with_clamps_apart(module)
    if of.sorts_rows:
        module = with_sorted_rows(module)
    return module, whole


def _applied(module: Module, words: Sequence[str]) -> Module:
    """The module after steps whose results are not checked one by one: that of the last one is."""
    for application in parse_steps(words):
        module = application.unchecked(module)
    return module


@lru_cache(maxsize=8)
def _step(
    model: Decoder, sequence: int, written: tuple[str, ...], words: tuple[str, ...], metrics: int, logits_again: bool
) -> Module:
    module = program(model, sequence)
    for op in written:
        module = with_exact_softmax(module) if op == SOFTMAX else decomposed(module, op)
    step = transform(module, *words)
    step = with_logits_again(step) if logits_again else step
    return with_metrics(step, metrics) if metrics else step


def plan_of(run: MeasuredRun, conditions: Conditions | None = None, described: Decoder | None = None) -> RunProgram:
    """The program of a run. `conditions`: in the place of those that follow from its framework.

    `described`: the model, where more is known of it than the run says.

    Raises UnsupportedError, with the reason, for one that cannot be expressed; MachineError.
    """
    chosen = framework_of(run)
    context, micro_batch = run.cp or 1, run.micro_batch or chosen.micro_batch
    if micro_batch is None:
        raise UnsupportedError("the micro batch is not stated")
    experts = expert_words(run, chosen)
    if run.offload and (run.pp > 1 or run.offload >= run.layers):
        raise UnsupportedError("activations are offloaded without a pipeline, of all layers but the last at most")
    if run.precision == "fp32":
        raise UnsupportedError("computation in 32-bit floats cannot be expressed")
    if run.precision == "nvfp4":
        raise UnsupportedError("products in 4-bit floats: no profile states their rates")
    in_memory = chosen.attention in ("unfused", "fused")
    if chosen.recompute == "selective" and not in_memory and not chosen.operators:
        known = f"with `{chosen.attention}` attention `{run.framework}` has no selective recomputation"
        raise UnsupportedError(f"{known}: name the parts in `recompute`, as in `modules:core_attn`")
    if context > 1 and in_memory:
        kept = f"parts of a sequence on {context} ranks, with `{chosen.attention}` attention, keep scores in memory"
        raise UnsupportedError(f"{kept}: say `flash` in `attention`, or `cp` 1")
    rows, left = divmod(run.global_batch, run.dp * micro_batch)
    if left or not rows:
        each = f"micro batches of {micro_batch} on {run.dp} replicas"
        raise UnsupportedError(f"{each} do not divide the batch of {run.global_batch}")
    if run.layers > MOST_LAYERS:
        raise UnsupportedError(f"{run.layers} layers, which are more than {MOST_LAYERS}")
    stages = run.pp * (run.virtual or 1)  # the embedding and the output layer may have their own
    if run.pp > run.layers or stages > run.layers + 2:
        each = f" with {run.virtual} stages each" if stages != run.pp else ""
        raise UnsupportedError(f"a pipeline of {run.pp} ranks{each}, for {run.layers} layers: some have no layer")
    if rows > MOST_MICROBATCHES:
        most = f"which are more than {MOST_MICROBATCHES}: the batch is in sequences"
        raise UnsupportedError(f"{rows} micro batches, {most}")
    named = run.hardware or run.gpu
    hardware = machine(named, run.gpus, _per_device(run), conditions or conditions_of(run), run.gpus_per_node)
    profile = whole_nodes(GPUS[named], run.pp).name if named in GPUS else named
    padded = chosen.vocabulary * run.tp
    vocabulary = -(-run.vocab // padded) * padded
    model = decoder_of(run, vocabulary) if described is None else replace(described, vocabulary=vocabulary)
    written = ["Attention"] if in_memory else []
    # Megatron's softmax kernel takes 16-bit scores: the peaks of its tests have no other copy.
    written += [SOFTMAX] if chosen.attention == "unfused" and chosen.kernels == "eager" else []
    if not chosen.fused_norm and run.norm == "rmsnorm":
        written.append("RMSNormalization")
    if not chosen.fused_rotary and run.position == "rope":
        written.append("RotaryEmbedding")
    parts = chosen.recompute.removeprefix(PARTS).split(",") if chosen.recompute.startswith(PARTS) else []
    if "layernorm" in parts and "RMSNormalization" in written:
        raise UnsupportedError("norms that are not one kernel cannot be recomputed as `layernorm`: say `fused_norm` 1")
    if "mlp" in parts and run.experts and not run.dense_layers:
        raise UnsupportedError(
            "`mlp` in `recompute` is of layers without experts, of which the model has none: say `moe`"
        )
    training: list[str] = []
    if run.precision in EIGHT_BITS:
        training += eight_bit_words(run, chosen)
    precision = "fp16" if run.precision == "fp16" else chosen.precision
    training += ["seeded"] if model.dropout else []
    training += ["grad", f"optimizer={_optimizer(run, chosen)}", f"precision={precision}"]
    training += [f"gradients={chosen.gradients}"] if chosen.gradients != "auto" else []
    training += ["clip=1"] if chosen.clip else []
    training += ["master=only"] if chosen.master == "only" and run.precision != "fp16" else []
    training += ["cse"] if run.precision == "mxfp8" else []  # what several products take is quantised once
    training += recomputation_words(chosen, run.mlp == "swiglu")
    training += ["offload=activations", f"layers={run.offload}"] if run.offload else []
    virtual = run.virtual or 1
    steps = [f"dtp={run.dp},{run.tp},{run.pp}", f"microbatches={rows}", f"layout={chosen.layout}"]
    steps += experts
    steps += [f"context={context}", f"cp_kind={chosen.context}"] if context > 1 else []
    if run.pp > 1:
        steps += schedule_words(run, chosen, virtual, profile)
    steps += ["representative=true", "ends=false"]
    # Decided here, for programs that serve several numbers of replicas.
    steps += [f"scatter_gather={str(run.gpus > LARGEST_NODE).lower()}"] if run.tp > 1 and run.pp > 1 else []
    gathers = chosen.loss == "gathered" and (run.tp == 1 or context == 1)
    steps += [f"whole={LOSS}"] if gathers and run.tp > 1 else []
    steps += ["sequence=true"] if chosen.sequence_parallel and run.tp > 1 else []
    share = 1.0
    if run.dp * context > 1:
        sharding, share = sharding_in_parts(model, run.tp, run.dp * context, chosen)
        steps += sharding_words(sharding)
        steps += ["sums=float32"] if chosen.float32_sums and chosen.sharding == "zero1" else []
    steps += [f"decompose={LOSS}"] if gathers else []
    kernels = FUSED if chosen.kernels == "fused" else ("fuse", f"kernels={chosen.kernels}")
    kernels = (*kernels, *LOSS_APART) if chosen.loss == "apart" and chosen.kernels != "eager" else kernels
    kernels = (*kernels, *LOSS_ALONE) if chosen.loss == "fused" and chosen.kernels == "eager" else kernels
    overlap = (*chosen.overlap, "experts") if run.overlap_experts else chosen.overlap
    words = tuple(training), tuple(steps), overlap, kernels
    again = chosen.recomputes_logits and chosen.recompute == "full"
    apart = _adds_biases_apart(run, chosen)
    clamps_apart = chosen.clamps == "apart" and model.limit is not None and _has_single_ops_of_experts(run)
    # With shards, or parts of sequences, exchanges of counts look like those of rows: these stay as they come.
    several = run.tp == context == 1 and (run.experts or 0) > (run.ep or 1) > 1
    some = chosen.sorts_rows and chosen.dispatcher == ALL_TO_ALL and several
    behind = chosen.backward_prefetch == "post" and "weights" in overlap
    flat = chosen.flat_gradients
    step = TrainingProgram(
        model, run.seq, tuple(written), *words, chosen.metrics, again, apart, clamps_apart, some, behind, flat
    )
    tied = model.vocabulary * model.width // run.tp if chosen.memory.copies_tied and model.tied and run.pp > 1 else 0
    kept = min(chosen.memory.kept_logits, rows) * 2 * micro_batch * run.seq * model.vocabulary
    return RunProgram(step, run.global_batch, hardware, chosen.memory, run.gpu, tied, kept, share)
