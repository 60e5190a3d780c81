"""Decoders: language models that predict the next token, from GPT-3 to Llama, Gemma and DeepSeek-V3, of any size.

A `Decoder` states what sets a family apart; `decoder_layer.py` and `decoder_program.py` write the program that follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal as OneOf

from distir.models.block import Activation
from distir.models.rotary import Rotary
from distir.models.sizes import ModelError, check_divides, check_model_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a published checkpoint calls its modules; those of Llama by default."""

    layer: str = "LlamaDecoderLayer"
    """The class of a layer, after which its function is named."""
    layers: str = "model.layers"
    embedding: str = "model.embed_tokens"
    positions: str = ""
    last_norm: str = "model.norm"
    head: str = "lm_head"
    attention_norm: str = "input_layernorm"
    attention: str = "self_attn"
    q: str = "q_proj"
    k: str = "k_proj"
    v: str = "v_proj"
    qkv: str = ""
    """One weight of queries, keys and values, side by side, in the place of three."""
    out: str = "o_proj"
    attended_norm: str = ""
    """Normalises what attention gives."""
    mlp_norm: str = "post_attention_layernorm"
    mlp: str = "mlp"
    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"
    changed_norm: str = ""
    """Normalises what the perceptron gives."""
    router: str = "gate"
    correction: str = "gate.e_score_correction_bias"
    """What is added to the router's scores, in the MLP's place."""


COUNTED = 2
"""The best experts of a group, whose scores say how good it is: as in DeepSeek-V3, and by default in `Route`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """How the experts of a token are chosen, and weighted. See the op `Route`."""

    score: OneOf["softmax", "sigmoid"] = "softmax"
    scale: float = 1.0
    groups: int = 1
    best_groups: int = 1
    """From how many groups of neighbouring experts a token's experts are chosen."""
    correction: bool = False
    """Whether a buffer, which balances the load, is added to scores where experts are chosen."""
    bias: bool = False
    """Whether the linear layer has a bias."""
    capacity_factor: float | None = None
    """Each expert takes that multiple of an even share of the choices of a sequence, and drops others; None: all."""

    def capacity(self, tokens: int, top_k: int, experts: int) -> int | None:
        """The choices of a sequence of so many tokens that an expert takes; None if it takes all."""
        if self.capacity_factor is None:
            return None
        return min(tokens, math.ceil(self.capacity_factor * tokens * top_k / experts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Multi-head latent attention (DeepSeek-AI, arXiv:2405.04434): low-rank queries, keys and values."""

    q_rank: int
    """Of queries; 0 where they are of full rank."""
    kv_rank: int
    plain: int
    """The part of a head of queries and keys that is not rotated."""
    rotated: int
    """The part that is rotated; in keys, all heads share it."""
    values: int
    """The size of a head of values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """The sizes of a decoder, and what sets its family apart."""

    layers: int
    width: int
    heads: int
    ffn: int
    """The width between the layers of the perceptron; of layers without experts, where others have them."""
    vocabulary: int
    context: int
    """The length of the sequences that it is published for."""
    kv_heads: int | None = None
    """Heads of keys and values, which equally many heads of queries share; by default each has its own."""
    head_size: int | None = None
    """By default the width divided by the heads."""
    latent: Latent | None = None
    window: int | None = None
    """Of layers with a sliding window: to how many tokens before it, and itself, a token attends."""
    window_every: int = 1
    """Of so many layers, all but the last have the window; 1: all have it."""
    experts: int | None = None
    """Experts of a layer, each an MLP, in place of one for all tokens."""
    top_k: int | None = None
    """Experts that a token is given to."""
    expert_ffn: int | None = None
    """The width between the layers of an expert."""
    shared_experts: int | None = None
    """Experts for all tokens, side by side as one perceptron."""
    dense_layers: int | None = None
    """How many of the first layers have no experts."""
    experts_every: int = 1
    """Of so many layers, the last has experts; 1: all have them."""

    names: Names = Names()
    norm: OneOf["rms", "rms_offset", "layer"] = "rms"
    """`rms_offset`: the scale is one more than the weight."""
    epsilon: float = 1e-5
    norm_bias: bool = True
    """Whether `layer` normalisation has a bias."""
    head_norm: bool = False
    """Whether each head of queries and keys is normalised before it is rotated."""
    joint_norm: bool = False
    """Whether all heads are normalised as one instead."""
    position: Rotary | OneOf["learned", "alibi"] = Rotary()  # noqa: RUF009 - frozen
    rotary_size: int | None = None
    """So many of the first elements of a head are rotated; by default all."""
    unrotated_every: int | None = None
    """The last of so many layers rotates no heads, and so knows no positions."""
    attention_bias: bool = False
    """Whether the linear layers of attention have a bias."""
    out_bias: bool | None = None
    """Whether the one behind attention has one, where that is not as for the others."""
    mlp_bias: bool = False
    """Whether those of MLPs and experts have one."""
    activation: Activation = "silu"
    gated: bool = True
    """Whether the perceptron's activation is a gate, multiplied with a second product."""
    limit: float | None = None
    """Between which bounds the gate (above) and the second product are clamped; the product is then raised by 1."""
    tied: bool = False
    """Whether logits come from the token embedding."""
    scale: float | None = None
    """Of attention's scores; by default one over the root of the head size."""
    attention_softcap: float = 0.0
    logits_softcap: float = 0.0
    sinks: bool = False
    """Whether the softmax of each head has a learned score that takes part of the weight."""
    scaled_embedding: bool = False
    """Whether what is embedded is multiplied with the root of the width."""
    router: Router = Router()
    dropout: float = 0.0
    """The share that is dropped in training: of embeddings, of attention's weights, and of what layers add."""
    attention_dropout: float | None = None
    """That of attention's weights, where it is another one."""

    @property
    def size(self) -> int:
        """The size of a head of queries and keys. Raises ModelError where the heads do not divide the width."""
        if self.latent is not None:
            return self.latent.plain + self.latent.rotated
        if self.head_size is not None:
            return self.head_size
        check_divides("heads", self.heads, "the width", self.width)
        return self.width // self.heads

    @property
    def rotated(self) -> int:
        """The part of a head that is rotated."""
        return (self.rotary_size or self.size) if self.latent is None else self.latent.rotated

    @property
    def shared_heads(self) -> int:
        """Heads of keys and values."""
        return self.heads if self.kv_heads is None else self.kv_heads

    def check(self) -> None:
        """Raises ModelError for sizes that make no model."""
        check_model_sizes(self)
        rotated = self.rotated  # of heads, which divide the width
        check_divides("kv_heads", self.shared_heads, "the number of heads", self.heads)
        if isinstance(self.position, Rotary) and rotated % 2:
            raise ModelError(f"expected heads of an even size, whose pairs are rotated, found {rotated}")
        if self.experts is not None:
            groups = self.router.groups
            if groups > 1 and (self.experts % groups or self.experts < groups * COUNTED):
                expected = f"a multiple of {groups}, the number of their groups, and {COUNTED} or more in each"
                raise ModelError(f"expected `experts` to be {expected}, found {self.experts}")
            among = self.experts // self.router.groups * self.router.best_groups
            if (self.top_k or 0) > among:
                raise ModelError(
                    f"expected `top_k` to be at most {among}, the experts to choose from, found {self.top_k}"
                )

    def layer_window(self, layer: int, sequence: int) -> int | None:
        """The window of a layer, counted from 0; None for one that hides nothing."""
        slides = self.window is not None and self.window < sequence
        return self.window if slides and (self.window_every == 1 or (layer + 1) % self.window_every) else None

    def is_rotated(self, layer: int) -> bool:
        """Whether a layer, counted from 0, rotates its heads."""
        return isinstance(self.position, Rotary) and not (
            self.unrotated_every and (layer + 1) % self.unrotated_every == 0
        )

    def is_routed(self, layer: int) -> bool:
        """Whether a layer, counted from 0, has experts."""
        is_one = layer >= (self.dense_layers or 0) and (layer + 1) % self.experts_every == 0
        return self.experts is not None and is_one
