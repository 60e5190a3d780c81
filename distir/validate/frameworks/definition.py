"""What a framework does, as a value: every parameter of a definition, and the registry of definitions."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, Final, Literal

from distir.ir.registry import Registry
from distir.validate.causes import Cause, uncaused

Attention = Literal["unfused", "fused", "flash1", "triton", "flash2", "flash"]
Kernels = Literal["eager", "blocks", "fused"]

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
