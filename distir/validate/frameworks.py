"""Frameworks that people train with: what each does where a run does not say. A framework is one definition.

A definition states facts of the framework's code and of its defaults, each with its source. What a run states counts
before them.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields, replace
from typing import Any, Final, Literal

from distir.ir.registry import Registry
from distir.validate.causes import Cause, cause, parameter, uncaused

Attention = Literal["unfused", "fused", "flash1", "triton", "flash2", "flash"]
Kernels = Literal["eager", "blocks", "fused"]


Rates = dict[str, tuple[float, float]]
"""By kernel of attention: forward and backward."""

ATTENTION_RATES: Final[Rates] = parameter(
    "rates of attention",
    {"flash1": (0.5, 0.5), "triton": (0.71, 0.5)},
    "Dao, arXiv:2307.08691, section 4.1 and figures 4 to 6: FlashAttention 2 is about twice as fast as the first "
    "version, and 1.3 to 1.5 times as fast as the one in Triton forward, twice as fast backward",
)
"""Rates of attention's kernels over those of the profiles, which are of the kernels that were written for a GPU."""

HOPPERS_RATES: Final[Rates] = parameter(
    "rates of attention since Hopper",
    {"flash1": (0.3, 0.3), "triton": (0.43, 0.3), "flash2": (0.6, 0.6)},
    "Shah et al., arXiv:2407.08608, figures 5 and 6: FlashAttention 2 has 0.55 to 0.65 of the rate of FlashAttention 3 "
    "and cuDNN, which the profiles are of; the others to it as before",
)
"""The same on Hopper and later."""

HOPPERS_DROPOUT: Final[Rates] = parameter(
    "dropout of attention since Hopper",
    {"flash1": (1.2, 1.14), "flash2": (1.2, 1.14)},
    "FlashAttention 2, as the profile `a100-80` has it, measured with torch 2.11; of the first version, the same (not "
    "measured)",
)
"""Of attention's kernels on Hopper and later: by what dropout multiplies their arithmetic, forward and backward."""


ASYNC_TP: Final = "products"
"""The kind of the step `overlap` for the collectives of tensor parallelism; whole, where a product hides them."""


Loss = Literal["fused", "apart", "gathered"]
"""`fused`: one kernel with what surrounds it, as a compiler makes it. `apart`: it reads a Float32 copy of the logits,
and writes their gradient in its place. `gathered`: as `torch.nn.functional.cross_entropy` without a compiler, on the
logits of all shards, which are gathered, with the log-probabilities and two gradients of them in memory. With context
and tensor parallelism both, each device is left with its own logits, as in `fused`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMemory:
    """A framework's device memory beside the program's tensors, in bytes.

    `peak`: of what its published peak is: tensors, or what the allocator has taken of the device for them; `of`: of
    which device it is published, where stages of a pipeline differ. `gradients`: bytes of each element of buffers in
    which the gradients of all weights lie, from the start of training on. `copies_tied`: whether the last stage of a
    pipeline holds a tied embedding of its own, with its gradients and its optimizer state. `workspace`: of libraries,
    as far as the allocator counts it, before Hopper and since. `copied_outputs`: the profiles of GPUs on which the
    output of attention is copied, so that its kernel and the layer behind it save one each. `weighed_experts`: whether
    what experts give is weighed between their products, so that it is not saved for the weights' gradients, as it is in
    the program. `eight_bit_weights`: whether weights that products take in 8 bits are held so alone, in each layout
    that products take, and not in 16 bits beside. `remainders`: whether, without products in 8 bits, of Float32 weights
    only the 16 bits are held that the others lack. `kept_logits`: of how many microbatches the logits are held, as the
    last layer gives them, beside those that the program has.
    """

    peak: Literal["allocated", "reserved"] = "allocated"
    of: Literal["last", "largest"] = "largest"
    gradients: int = 0
    copies_tied: bool = False
    workspace: tuple[int, int] = (0, 0)
    copied_outputs: tuple[str, ...] = ()
    weighed_experts: bool = False
    eight_bit_weights: bool = False
    remainders: bool = False
    kept_logits: int = 0


NO_OTHER_MEMORY: Final = HeldMemory()


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """How a framework trains.

    `precision` and `gradients` are those of the step `grad`. `kernels`: `eager` runs each op by itself; in `fused`
    elementwise ops are fused, by hand or by a compiler, in `blocks` those of layers alone. `attention`, `recompute`,
    `sharding` are what is meant where a run does not say; `sequence_parallel`: whether tensor parallelism implies it.
    `layout` orders the axes of parallelism from outermost to innermost. `vocabulary`: it is padded to a multiple of
    this, times the tensor-parallel ranks. `overlap`: what is communicated beside computation, in words of the step
    `overlap`. `issue`: seconds in which the host issues an op.
    """

    name: str
    title: str
    sources: tuple[Cause, ...]
    """What it is read from, each with the parameters that it is the cause of."""
    also: tuple[str, ...] = ()
    """What sources call it otherwise, in small letters."""
    precision: Literal["mixed", "bf16", "fp32"] = "mixed"
    gradients: str = "auto"
    master: Literal["beside", "only"] = "beside"
    """Whether weights in Float32 are beside those of the program, or the only ones: see the step `grad`."""
    fp8: str = "delayed"
    """How products in 8-bit floats are scaled: a word of the step `fp8`. By default as Transformer Engine does."""
    optimizer: str = "adamw"
    layer_wise: bool = False
    """Whether with Muon each replica updates whole matrices, sends new weights when all are there, and holds them in 16
    bits, whatever products take; with Float32 master weights."""
    clip: bool = True
    kernels: Kernels = "fused"
    compiled: Kernels = "fused"
    """Its kernels where a run says that it is compiled."""
    by_compiler: bool = False
    """Whether torch.compile makes its kernels, so that a job without it runs each op by itself."""
    fused_norm: bool = True
    fused_rotary: bool = True
    fused_gates: bool = False
    """Whether its fused kernel of a gate and its activation saves the products alone, and recomputes the rest."""
    attention: Attention = "flash"
    float32_attention: Attention | None = None
    """What it runs where a run computes in Float32 and does not say, if that is another kernel."""
    flash: Attention = "flash"
    """The kernel that it runs where a run says `flash`."""
    recompute: str = "none"
    """`none`, `selective`, `full`, or `modules:` and names of parts of layers, as `modules:layernorm,mlp`."""
    recomputes_logits: bool = False
    """Whether `full` recomputation is of the output layer, too."""
    operators: Literal["", "products", "core_attn"] = ""
    """What runs with `selective` recomputation and fused attention recompute: all but products, or a part of layers."""
    sharding: str = "zero0"
    shards_weights_over: int | None = None
    """Among how many devices it shards weights at most; with more, groups of so many are replicas (HSDP)."""
    gathers_once: bool = False
    """Whether stages of a pipeline gather sharded weights once in a step, and reduce gradients once: as ZeRO-1 does."""
    float32_sums: bool = False
    """Whether gradients of replicas are summed whole and in Float32 where their optimizer state is sharded."""
    sequence_parallel: bool = False
    layout: str = "pdt"
    vocabulary: int = 1
    context: str = "allgather"
    """How parts of a sequence attend to each other: a word of the option `cp_kind`."""
    skew: float = 1.0
    """How many tokens the busiest device of expert parallelism gets, as a multiple of the mean."""
    micro_batch: int | None = None
    """The micro-batch size if a run states none."""
    overlap: tuple[str, ...] = ()
    overlap_of_sharded: tuple[str, ...] = ()
    """What else is, where weights are sharded, as with ZeRO-3."""
    always_overlaps: bool = False
    """Whether no job can turn that off."""
    flat_gradients: bool = False
    """Whether the gradients of a layer are copied into one tensor, and divided there, before they are summed."""
    backward_prefetch: Literal["pre", "post"] = "pre"
    """When a layer's weights are gathered for the backward pass: beside the layer before, or behind the sum of its
    gradients, where neither is hidden. The words of PyTorch's FSDP."""
    issue: float = 0.0
    issue_of_communication: float | None = None
    """Seconds in which it issues a collective or a transfer; None: as long as another op."""
    counts_ends: bool = False
    """Whether the embedding and the loss count as a layer each where layers alone do not divide over stages."""
    waits_for_sends: bool = False
    """Whether the host waits for each transfer between stages."""
    waits_for_counts: bool = False
    """Whether the host waits for how many tokens each expert has, to size what follows."""
    issue_of_expert: tuple[float, float] = (0.0, 0.0)
    """Seconds in which the host issues a product of one expert, in 16 and in 8 bits; 0: those of all are one op."""
    issue_of_expert_bias: float = 0.0
    """Seconds that it takes besides with each product of an expert whose bias is added apart."""
    expert_bias: Literal["fused", "apart"] = "fused"
    """How biases of experts' last products are added in 16 bits: with the product, or in Float32, by their own ops."""
    clamps: Literal["fused", "apart"] = "fused"
    """How gates of experts are clamped in 16 bits: in the kernel of the gate, or before it, by their own ops."""
    dispatcher: Literal["alltoall", "deepep", "hybridep"] = "alltoall"
    """How tokens get to the devices of their experts, where a run does not say: a word of the step `ep`, or `hybridep`,
    which as `deepep` sends a token once to each node and forwards it there."""
    sorts_rows: bool = False
    """Whether the rows of several experts that an all-to-all brings are sorted by expert, and back, in memory."""
    memory: HeldMemory = NO_OTHER_MEMORY
    """What it holds of a device's memory beside the program's tensors, and what its measured peak is of."""
    loss: Loss = "fused"
    """How it computes the loss: see `Loss`."""
    loss_parallel: bool = False
    """Whether, with tensor parallelism, each shard computes the loss of its logits where a run does not say."""
    metrics: int = 0
    """Cross entropies of the logits that it computes with each microbatch beside the loss, for what it logs."""
    dropout: float = 0.0
    """The share that is dropped of embeddings, of attention's weights, and of what layers add, if a run states none."""
    gpt_dropout: float | None = None
    """The same of GPT, whose positions are learned; None: as of other models."""
    band: tuple[float, float] = (1.0, 1.0)
    """Of a definition that represents others: how many times as long as predicted 8 of 10 of their runs take."""

    @property
    def parameters(self) -> dict[str, object]:
        """What differs from the defaults of a definition, by name; those of `memory` behind `memory.`."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in WORDS and self._differs(f)}
        held = own.pop("memory", NO_OTHER_MEMORY)
        parts = {f.name: getattr(held, f.name) for f in fields(held)}
        return own | {f"memory.{name}": part for name, part in parts.items() if part != getattr(NO_OTHER_MEMORY, name)}

    @property
    def uncaused(self) -> list[str]:
        """Its parameters of which no source is the cause: none, in a definition that is complete."""
        return uncaused(self.parameters, self.sources)

    def _differs(self, of: Field[Any]) -> bool:
        return of.default is not MISSING and getattr(self, of.name) != of.default


WORDS: Final = ("name", "title", "also", "sources")
"""The fields of a framework that say what it is called, and where it is read."""

FRAMEWORKS: Final[Registry[Framework]] = Registry()
"""By the word in the column `framework`."""


def framework(definition: Framework) -> Framework:
    """Register a framework. Raises ValueError where a plugin takes a name that there is."""
    FRAMEWORKS.register(definition.name, definition, "")
    return definition


def framework_names() -> dict[str, str]:
    """The words for frameworks in the column `framework`, each with the name that it means."""
    return {word: each.name for each in FRAMEWORKS.values() for word in (each.name, *each.also)}


ISSUE_OF_MEGATRON: Final = cause(
    "issue",
    "calibrated: all 23 runs of vtrain_single, which wait for the host, chose it among five figures, 42 to 50 us. An "
    "op of the fused program is two or three launches, with the states of random numbers, which the program does not "
    "have",
    "VIA-Research/vTrain",
)
MEGATRONS_ISSUE_OF_COMMUNICATION: Final = cause(
    "issue_of_communication",
    "a collective is one launch, which takes the 20 us of an eager op in the profiles: pytorch/pytorch, issue 41383, "
    "and facebookresearch/sam2, issue 768",
)

MEGATRONS_MEMORY: Final = HeldMemory(
    of="last",
    gradients=4,
    copies_tied=True,
    workspace=(68 << 20, 96 << 20),
    copied_outputs=("a100_40gb", "a100_80gb", "b200", "gb200", "b300", "gb300"),
    weighed_experts=True,
)
"""Megatron Core with Transformer Engine."""

MEGATRONS_MEMORY_CAUSES: Final = (
    cause(
        "memory.of",
        "NVIDIA/Megatron-LM, megatron/training/global_vars.py: rank world_size - 1 writes what is logged; "
        "training/training.py: `mem-max-allocated-bytes` is the peak of what torch has allocated",
    ),
    cause(
        "memory.gradients",
        "megatron/core/distributed/param_and_grad_buffer.py: buffers of gradients, in fp32, are allocated with the "
        "model",
    ),
    cause(
        "memory.copies_tied",
        "megatron/core/models/common/language_module: the last stage shares the embedding's values, not its memory",
    ),
    cause(
        "memory.weighed_experts",
        "megatron/core/transformer/moe/experts.py, `TEGroupedMLP`, since 0.12: the probabilities of routing are "
        "factors of the activation, before the second product",
    ),
    cause(
        "memory.workspace",
        "NVIDIA/TransformerEngine, cpp_extensions/gemm.py: a workspace for products of 32 MiB since Hopper, of 4 MiB "
        "before; and torch's (aten/src/ATen/cuda/CublasHandlePool.cpp), one for each thread, so another one for the "
        "backward pass, of 32 MiB with `CUBLAS_WORKSPACE_CONFIG=:4096:8`, which Megatron's tests set",
    ),
    cause(
        "memory.copied_outputs",
        "NVIDIA/TransformerEngine, attention/utils.py: cuDNN's kernel on Hopper, FlashAttention elsewhere, whose "
        "output is transposed into the layout of what follows; on Blackwell cuDNN's is not deterministic, which "
        "Megatron's tests ask for (inferred)",
    ),
)

MEGATRON = framework(
    Framework(
        name="megatron",
        title="Megatron-LM (Megatron Core)",
        also=("megatron-lm", "megatron_lm", "megatron-core", "megatron_core", "mcore"),
        sources=(
            cause(
                "vocabulary dropout",
                "NVIDIA/Megatron-LM, megatron/training/arguments.py: bf16 accumulates gradients in fp32; clip_grad "
                "1.0, vocabulary padded to a multiple of 128 · tp; Adam by default",
            ),
            cause("operators", "Korthikanti et al., arXiv:2205.05198: fused kernels, sequence parallelism"),
            cause(
                "context",
                "megatron/training/arguments.py: `--cp-comm-type` is p2p by default, a ring (Transformer Engine's "
                "AttnFuncWithCPAndKVP2P)",
            ),
            cause(
                "fused_gates", "megatron/core/fusions/fused_bias_swiglu.py, used by default: what it saves is its input"
            ),
            cause(
                "float32_attention",
                "NVIDIA/TransformerEngine, pytorch/attention, `get_attention_backend`: neither FlashAttention nor "
                "cuDNN's kernel takes Float32: attention is products, and a kernel for scale, mask and softmax",
            ),
            cause(
                "",
                "megatron/core/distributed, the distributed optimizer: state of experts is sharded over the replicas "
                "of an expert, all other state over all replicas",
            ),
            cause(
                "expert_bias",
                "megatron/core/transformer/moe/experts.py, `TEGroupedMLP._apply_bias`: biases of experts' last "
                "products, times the weights of rows, are added in Float32, expert by expert; not where Transformer "
                "Engine fuses the ops of experts, as recipes in 8 bits let it",
            ),
            cause(
                "clamps",
                "megatron/core/fusions/fused_bias_geglu.py, `weighted_bias_quick_geglu_impl`: both halves of the first "
                "products of experts are clamped and concatenated before the fused kernel of the gate, for which the "
                "host copies a number to the device, and waits",
            ),
            cause(
                "sorts_rows",
                "megatron/core/transformer/moe/token_dispatcher.py, `MoEAlltoAllTokenDispatcher`: rows are sorted by "
                "expert behind the all-to-all, and back before the other one; probabilities travel with them (not "
                "expressed)",
            ),
            cause(
                "overlap_of_sharded",
                "megatron/core/distributed/fsdp, `MegatronFSDP`: with `optim_grads_params` it sets "
                "`overlap_param_gather` and `overlap_grad_reduce`, which are off otherwise",
            ),
            cause(
                "layer_wise",
                "megatron/core/optimizer, `LayerWiseDistributedOptimizer` with `dist_muon`: gradients are summed "
                "whole, each replica updates some matrices, and broadcasts them at the end; master weights and "
                "momentum are in Float32. The one replica of a program here updates its part of each matrix instead, "
                "and orthogonalises all; that sums are whole is not expressed, and the first products of experts, "
                "which are one matrix there, are two here",
            ),
            cause(
                "waits_for_sends",
                "megatron/core/model_parallel_config.py: `batch_p2p_comm` and `batch_p2p_sync` are on by default, so "
                "that the host waits for each transfer (core/pipeline_parallel/p2p_communication.py)",
            ),
            cause(
                "loss",
                "megatron/core/tensor_parallel/cross_entropy.py: logits are copied to Float32, and their gradients "
                "written in their place",
            ),
            ISSUE_OF_MEGATRON,
            MEGATRONS_ISSUE_OF_COMMUNICATION,
            *MEGATRONS_MEMORY_CAUSES,
        ),
        overlap_of_sharded=("gradients", "weights"),
        layer_wise=True,
        fused_gates=True,
        expert_bias="apart",
        clamps="apart",
        sorts_rows=True,
        operators="core_attn",
        float32_attention="fused",
        context="ring",
        vocabulary=128,
        issue=46e-6,
        issue_of_communication=20e-6,
        waits_for_sends=True,
        loss="apart",
        dropout=0.1,
        memory=MEGATRONS_MEMORY,
    )
)

NEMO = framework(
    replace(
        MEGATRON,
        name="nemo",
        title="NeMo and Megatron-Bridge",
        also=("megatron-bridge", "megatron_bridge"),
        sources=(
            *MEGATRON.sources,
            cause(
                "sharding overlap sequence_parallel micro_batch",
                "NVIDIA-NeMo/NeMo, recipes of nemo.collections.llm: distributed optimizer, sequence parallelism with "
                "tp, overlap of gradient reduction and parameter gathers, micro_batch_size=1 at long sequences",
            ),
            cause(
                "gradients memory.gradients",
                "NVIDIA-NeMo/Megatron-Bridge, scripts/performance/configs/llama, `set_llama3_common_configs`: "
                "`grad_reduce_in_fp32 = False` in all precisions, so that buffers of gradients are bf16, as with "
                "`grad_sync_dtype: bf16` in NVIDIA/dgxc-benchmarking, nemo_megatron/gpt3_175b_hydra.yaml",
            ),
            cause(
                "loss",
                "NVIDIA/NeMo, scripts/performance/helpers.py: `cross_entropy_fusion_impl` is Transformer Engine's, one "
                "kernel on 16-bit logits",
            ),
            cause(
                "dispatcher",
                "NVIDIA-NeMo/Megatron-Bridge, scripts/performance/configs: `moe_router_force_load_balancing`, all "
                "experts get as many tokens; `moe_flex_dispatcher_backend` is DeepEP or HybridEP in most recipes",
            ),
            cause(
                "waits_for_counts issue_of_expert",
                "NVIDIA/TransformerEngine, pytorch/module/grouped_linear.py: a product of cuBLAS for each expert, "
                "whose rows are quantised by themselves in 8 bits; NVIDIA/Megatron-LM, "
                "core/transformer/moe/token_dispatcher.py: the host waits for the tokens of each expert",
            ),
            cause(
                "issue_of_expert",
                "16 bits: yanring/Megatron-MoE-ModelZoo, issue 7: `nvte_cublas_gemm` takes the host 20 us in the mean, "
                "14 in the median (8 B200, under a profiler); 8 bits: NVIDIA/TransformerEngine, issue 761: the host "
                "takes more than twice as long for a linear layer in 8 bits as for one in 16, here twice (H100, April "
                "2024). Before this cause was known, two runs of Megatron-Bridge had chosen as much over 30 and 46 us",
            ),
            cause(
                "issue_of_expert_bias",
                "megatron/core/transformer/moe/experts.py, `_apply_bias`: 2 launches forward and 8 backward for the "
                "nine products of an expert, at 18 us, as an op of 46 us is two or three launches",
                *ISSUE_OF_MEGATRON.chosen_by,
            ),
            cause(
                "waits_for_sends",
                "NVIDIA-NeMo/Megatron-Bridge, recipes: `overlap_p2p_comm`, with which no transfer is waited for",
            ),
            cause(
                "dropout gpt_dropout",
                "NVIDIA/dgxc-benchmarking, nemo_megatron/gpt3_175b_hydra.yaml (NeMo 24.05 and 24.12): `hidden_dropout` "
                "and `attention_dropout` are 0.1; so NVIDIA/NeMo-Framework-Launcher, conf/training/gpt3. In those of "
                "Llama and Nemotron they are 0",
            ),
            cause(
                "overlap",
                "NVIDIA/NeMo-Framework-Launcher, conf/training (gpt3/175b, llama3_1_70b, llama3_1_405b, nemotron_15b, "
                "nemotron_340b): `ub_tp_comm_overlap: True`; so NeMo's and Megatron-Bridge's performance recipes. Of "
                "its user buffers, what is in bulk (gradients of QKV and of the first product) is expressed; what is "
                "cut with its product (`ring_exchange`, `pipeline`) waits here",
            ),
            cause(
                "counts_ends",
                "NVIDIA-NeMo/Megatron-Bridge, recipes of Llama 3.1 405B and Qwen3 235B: "
                "`account_for_embedding_in_pipeline_split` and `account_for_loss_in_pipeline_split`, which each count "
                "as a layer (NVIDIA/Megatron-LM, core/transformer/transformer_block.py, `get_num_layers_to_build`)",
            ),
            cause(
                "memory.eight_bit_weights",
                "NVIDIA-NeMo/Megatron-Bridge, training/mixed_precision.py (delayed and current scaling, MXFP8), and "
                "NVIDIA/NeMo, llm/recipes/precision/mixed_precision.py (delayed and current scaling): "
                "`fp8_param_gather = True`, so that weights of products are in 8 bits alone; NVIDIA/TransformerEngine, "
                "pytorch/utils.py, `is_non_tn_fp8_gemm_supported`: before Blackwell products take them transposed, "
                "too; tensor/mxfp8_tensor.py: MXFP8 has them quantised along rows and along columns",
            ),
            cause(
                "memory.remainders",
                "NVIDIA/NeMo, scripts/performance/helpers.py, and NVIDIA-NeMo/Megatron-Bridge, "
                "scripts/performance/utils/overrides.py: `use_precision_aware_optimizer = True` in bf16, with which "
                "Transformer Engine's Adam holds what bf16 weights lack (NVIDIA/Megatron-LM, "
                "core/optimizer/__init__.py, `store_param_remainders`)",
            ),
            cause(
                "layer_wise",
                "NVIDIA-NeMo/Megatron-Bridge, recipes/kimi/kimi_k2.py and scripts/performance/configs/kimi: Muon is "
                "`dist_muon`, without `use_distributed_optimizer`, `overlap_param_gather`, `fp8_param_gather` and "
                "`use_precision_aware_optimizer`, and with `grad_reduce_in_fp32 = False`",
            ),
            cause(
                "memory.copied_outputs",
                "NVIDIA-NeMo/Megatron-Bridge, recipes: none asks for deterministic kernels, so that cuDNN's attention "
                "runs on Blackwell, too, whose output is not copied",
            ),
        ),
        waits_for_sends=False,
        counts_ends=True,
        sharding="zero1",
        overlap=("gradients", "weights", "transfers", ASYNC_TP),
        sequence_parallel=True,
        dropout=0.0,
        gpt_dropout=0.1,
        micro_batch=1,
        loss="fused",
        gradients="bf16",
        memory=replace(
            MEGATRONS_MEMORY,
            gradients=2,
            copied_outputs=("a100_40gb", "a100_80gb"),
            eight_bit_weights=True,
            remainders=True,
        ),
        waits_for_counts=True,
        issue_of_expert=(20e-6, 40e-6),
        issue_of_expert_bias=20e-6,
        dispatcher="deepep",
    )
)

PAXML = framework(
    Framework(
        name="paxml",
        title="Paxml on JAX",
        sources=(
            cause(
                "sharding",
                "google/paxml, praxis: fully sharded weights (ici_mesh_shape), compiled by XLA; with Transformer "
                "Engine's layers (contrib/gpu/scripts_gpu/te_helper.py)",
            ),
            cause(
                "recompute",
                "NVIDIA/dgxc-benchmarking, paxml/paxml_mod_configs.py: `SAVE_QKV_OUT_PROJ`; google/praxis, "
                "layers/checkpoint_policy.py: queries, keys, values and the attention's output projection are saved, "
                "and of each layer its input",
            ),
            cause(
                "shards_weights_over",
                "NVIDIA/dgxc-benchmarking, paxml/configure.sh: `FSDP=16` nodes, weights are sharded over 128 GPUs",
            ),
            cause(
                "overlap",
                "NVIDIA/JAX-Toolbox, rosetta/docs/GPU_performance.md: XLA's latency-hiding scheduler, with "
                "asynchronous all-gathers and reduce-scatters",
            ),
        ),
        kernels="fused",
        recompute="modules:layernorm,context,mlp",
        sharding="zero3",
        shards_weights_over=128,
        overlap=("weights", "gradients"),
    )
)

ALEPH = framework(
    Framework(
        name="aleph",
        title="Aleph Alpha's training code",
        sources=(
            cause(
                "sharding kernels gradients",
                "Hagemann et al., arXiv:2311.05610, sections 3 and 4: AdamW, ZeRO-1, bf16 with fp32 master weights, "
                "1F1B; kernels and recomputation as the rows say",
            ),
            cause(
                "loss",
                "Aleph-Alpha/scaling, transformer/model/layers/lm_head.py and losses/cross_entropy.py: logits of all "
                "shards are gathered, and torch's cross entropy is of float32 logits",
            ),
            cause(
                "memory.kept_logits",
                "Aleph-Alpha/scaling, core/nn/parallel_module/parallel_module.py: a stage's output is read from its "
                "buffer for the loss, and stays there; core/nn/pipeline_schedule/train.py: microbatches take turns at "
                "two buffers or more",
            ),
            cause(
                "recomputes_logits",
                "Aleph-Alpha/scaling, core/nn/parallel_module/parallel_module.py, `forward`: of the layers that are "
                "all recomputed, the output layer is one",
            ),
            cause("fused_rotary", "Aleph-Alpha/scaling, core/nn/rotary.py: positions are rotated by torch's ops"),
            cause(
                "float32_sums",
                "Aleph-Alpha/scaling, core/optimizer/allreduce.py: gradients are summed by all-reduces of Float32 "
                "copies, whole on each replica, also where the optimizer's state is sharded",
            ),
        ),
        kernels="eager",
        gradients="bf16",
        recomputes_logits=True,
        float32_sums=True,
        fused_rotary=False,
        sharding="zero1",
        clip=True,
        loss="gathered",
        memory=HeldMemory(kept_logits=2),
    )
)

LLM_FOUNDRY = framework(
    Framework(
        name="llm-foundry",
        title="MosaicML's llm-foundry and Composer, on PyTorch FSDP",
        also=("llm_foundry", "composer"),
        sources=(
            cause(
                "precision sharding overlap",
                "mosaicml/llm-foundry, scripts/train/benchmarking/README.md: FSDP, one layer a unit; bf16 weights and "
                "optimizer on A100-40GB",
            ),
            cause(
                "kernels flash",
                "mosaicml/llm-foundry, mpt/configuration_mpt.py: flash attention, all else torch's own kernels; "
                "scripts/train/benchmarking/submit_benchmarks.py of 2023: `attn_impl` is `triton`, the kernel of "
                "flash-attn 1's flash_attn_triton.py",
            ),
            cause(
                "backward_prefetch",
                "mosaicml/composer, trainer/dist_strategy.py, `prepare_fsdp_module`: `backward_prefetch` is "
                "BACKWARD_POST where a configuration does not say, as those of MPT do not "
                "(scripts/train/yamls/pretrain/mpt-*.yaml); torch/distributed/fsdp/_runtime_utils.py: so a layer's "
                "gather is issued behind the sum of the gradients before it, in the same process group",
            ),
            cause(
                "flat_gradients",
                "torch/distributed/fsdp/_flat_param.py, _runtime_utils.py: a layer's gradients are copied into one "
                "tensor, which is divided before it is summed",
            ),
            cause(
                "metrics",
                "llmfoundry/models/mpt/modeling_mpt.py: `loss_fn: fused_crossentropy` by default, flash-attn's kernel, "
                "which takes 16-bit logits; `train_metrics` are LanguageCrossEntropy and LanguagePerplexity",
            ),
            cause(
                "metrics",
                "mosaicml/composer, trainer/trainer.py, `_eval_train_metrics`: behind each microbatch's backward pass, "
                "metrics are updated with its logits; metrics/nlp.py: each with torch's cross entropy, which is of "
                "float32 logits under autocast",
            ),
        ),
        precision="bf16",
        kernels="eager",
        flash="triton",
        sharding="zero3",
        overlap=("weights", "gradients"),
        flat_gradients=True,
        backward_prefetch="post",
        metrics=2,
    )
)

TORCHTITAN = framework(
    Framework(
        name="torchtitan",
        title="torchtitan: FSDP2 of PyTorch",
        sources=(
            cause(
                "sharding kernels compiled by_compiler master memory.gradients",
                "pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md: FSDP2, torch.compile of each block, "
                "selective activation checkpointing per operator; float32 parameters, bf16 computation, gradients "
                "reduced in float32",
            ),
            cause(
                "operators loss",
                "torchtitan/parallelisms/parallelize_llama.py: of each block every other product's result is saved, "
                "and attention's; torchtitan/train.py: torch's cross entropy of float32 logits, not compiled",
            ),
            cause(
                "loss_parallel",
                "torchtitan/parallelisms/parallel_dims.py, `loss_parallel_enabled`: with tensor parallelism, each "
                "shard computes the loss of its part of the vocabulary",
            ),
            cause(
                "memory.gradients",
                "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: sharded gradients are allocated on a stream "
                "of their own, whose memory nothing else uses",
            ),
            cause(
                "gathers_once",
                "torchtitan/parallelisms/parallelize_llama.py, `apply_fsdp`: in pipelines weights are not resharded "
                "after the forward pass; torch/distributed/pipelining/stage.py: nor are gradients reduced before the "
                "last microbatch",
            ),
            cause(
                "fused_norm fused_rotary",
                "torchtitan/models/norms.py and models/llama/model.py: of December 2024, norms and rotations are "
                "torch's ops, which torch.compile fuses",
            ),
            cause(
                "overlap always_overlaps",
                "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py: gathers and reductions are on streams of "
                "their own, which nothing turns off",
            ),
            cause(
                "memory.peak",
                "torchtitan/metrics.py, `DeviceMemoryMonitor`: `reserved_bytes.all.peak`, what the allocator has taken "
                "of the device. What that is beyond tensors has no cause here: it is in the band",
            ),
            cause("attention flash", "torch's scaled_dot_product_attention is FlashAttention 2"),
            cause(
                "context",
                "torch/distributed/tensor/experimental/_attention.py: parts of a sequence are attended to one after "
                "the other, around a ring, balanced",
            ),
        ),
        context="ring",
        precision="mixed",
        master="only",
        kernels="blocks",
        compiled="blocks",
        by_compiler=True,
        always_overlaps=True,
        fused_norm=False,
        fused_rotary=False,
        flash="flash2",
        attention="flash2",
        operators="products",
        loss="gathered",
        loss_parallel=True,
        sharding="zero3",
        gathers_once=True,
        overlap=("weights", "gradients"),
        memory=HeldMemory(peak="reserved", gradients=4),
    )
)

MEGATRON_DEEPSPEED = framework(
    Framework(
        name="vtrain",
        title="Megatron-DeepSpeed, as in vTrain's measurements",
        also=("megatron-deepspeed", "megatron_deepspeed"),
        sources=(
            cause(
                "recompute",
                "VIA-Research/vTrain, config/validation: activation checkpointing, 1F1B, no ZeRO, gradients not "
                "bucketed",
            ),
            cause(
                "attention",
                "microsoft/Megatron-DeepSpeed: fp16 with fp32 master weights, Megatron's softmax and layer norm "
                "kernels",
            ),
            cause(
                "waits_for_sends",
                "NVIDIA/Megatron-LM v2, megatron/p2p_communication.py: torch.cuda.synchronize() behind each transfer",
            ),
            ISSUE_OF_MEGATRON,
            MEGATRONS_ISSUE_OF_COMMUNICATION,
            cause(
                "dropout vocabulary",
                "VIA-Research/vTrain, src/model/gpt_model.py: 0.1 of embeddings, of attention's weights and of outputs "
                "is dropped, as by default in Megatron-LM",
            ),
        ),
        attention="fused",
        dropout=0.1,
        recompute="full",
        vocabulary=128,
        issue=46e-6,
        issue_of_communication=20e-6,
        waits_for_sends=True,
    )
)

FSDP2 = framework(
    replace(
        TORCHTITAN,
        name="fsdp2",
        title="FSDP2 of PyTorch, each op a kernel of its own",
        also=("fsdp", "pytorch-fsdp"),
        sources=(
            cause(
                "sharding overlap kernels",
                "torch/distributed/fsdp/_fully_shard: weights are gathered, and gradients reduced, beside computation",
            ),
            cause(
                "memory.peak memory.gradients attention flash context operators gathers_once master compiled "
                "by_compiler loss fused_norm fused_rotary",
                "all else as torchtitan, which is built on it",
            ),
        ),
        loss_parallel=False,
        always_overlaps=False,
        kernels="eager",
        compiled="blocks",
    )
)

DEEPSPEED = framework(
    replace(
        FSDP2,
        name="deepspeed",
        also=(),
        title="DeepSpeed with a model of transformers",
        sources=(
            cause(
                "master gradients memory.gradients",
                "deepspeed 0.19.8, runtime/bf16_optimizer.py and runtime/zero/stage_1_and_2.py: 16-bit weights and "
                "gradients, float32 master weights in the optimizer's state",
            ),
            cause("", "runtime/zero/config.py: `overlap_comm` is on by default in stage 3 alone"),
            cause(
                "loss attention flash",
                "huggingface/transformers, loss/loss_utils.py: logits are cast to float32 for the loss; attention is "
                "torch's scaled_dot_product_attention",
            ),
            cause(
                "kernels compiled by_compiler fused_norm fused_rotary",
                "huggingface/transformers, models/llama/modeling_llama.py: norms and rotations are torch's ops",
            ),
            cause("operators gathers_once memory.peak", "as torchtitan (not opened)"),
            cause(
                "context",
                "deepspeed/sequence/layer.py, `DistributedAttention` (Ulysses): parts of sequences are exchanged for "
                "heads",
            ),
        ),
        master="beside",
        gradients="bf16",
        sharding="zero0",
        context="a2a",
        overlap=(),
        memory=HeldMemory(peak="reserved", gradients=2),
    )
)

GENERIC = framework(
    Framework(
        name="generic",
        title="a framework that is not known",
        sources=(
            cause(
                "operators sequence_parallel micro_batch overlap loss memory.peak memory.gradients",
                "assumed, as most of the others do it: mixed precision with float32 master weights and gradients, "
                "fused kernels and attention in one, gradients and weights communicated beside computation, sequence "
                "parallelism with tensor parallelism, one sequence in a micro batch, what torch's allocator reserves",
            ),
            cause(
                "band",
                "band: measured over predicted of 27 runs of seven other definitions on up to 64 GPUs, from the first "
                "tenth to the last; small models that wait for their hosts take up to 4.2 times as long",
            ),
        ),
        operators="core_attn",
        band=(0.9, 2.2),
        sequence_parallel=True,
        micro_batch=1,
        overlap=("gradients", "weights"),
        loss="apart",
        memory=HeldMemory(peak="reserved", gradients=4),
    )
)
"""What runs of a framework that has no definition here are predicted as."""


def definition_of(name: str) -> Framework:
    """The definition of a framework, `GENERIC` for one that is not known."""
    return FRAMEWORKS.get(name, GENERIC)
