"""Decoders: language models that predict the next token, from Llama to Gemma, of any size.

A `Decoder` says what sets a family apart; the program follows from it. A layer is normalisation, attention, and a sum
with its input, then the same with a perceptron. Weights are named as in the published checkpoints. There is no dropout.

The arrangement is one that can be split: activations are (batch, sequence, width), queries, keys and values
(batch, sequence, heads * size), and no constant names the batch or the number of heads, except attributes of
`Attention` and `RotaryEmbedding`, which tensor parallelism divides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal as OneOf

from distir.ir import DTYPES, HOST, Function, Module, TensorType
from distir.models.block import Activation, Block
from distir.models.rotary import Rotary, cosines_and_sines
from distir.models.sizes import (
    BATCH,
    DEVICE,
    ModelError,
    batch_dimension,
    check_divides,
    check_model_sizes,
    check_sizes,
    float_type,
)

SLIDING = "Sliding"
"""What the name of the function of layers with a sliding window ends with, where others have none."""


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
    q: str = "self_attn.q_proj"
    k: str = "self_attn.k_proj"
    v: str = "self_attn.v_proj"
    qkv: str = ""
    """One weight of queries, keys and values, side by side, in the place of three."""
    out: str = "self_attn.o_proj"
    attended_norm: str = ""
    """Normalises what attention gives."""
    q_norm: str = ""
    """Normalises each head of queries, as `k_norm` each head of keys."""
    k_norm: str = ""
    mlp_norm: str = "post_attention_layernorm"
    gate: str = "mlp.gate_proj"
    up: str = "mlp.up_proj"
    down: str = "mlp.down_proj"
    changed_norm: str = ""
    """Normalises what the perceptron gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """The sizes of a decoder, and what sets its family apart."""

    layers: int
    width: int
    heads: int
    ffn: int
    """The width between the layers of the perceptron."""
    vocabulary: int
    context: int
    """The length of the sequences that it is published for."""
    kv_heads: int | None = None
    """Heads of keys and values, which equally many heads of queries share; by default each has its own."""
    head_size: int | None = None
    """By default the width divided by the heads."""
    window: int | None = None
    """Of layers with a sliding window: to how many tokens before it, and itself, a token attends."""
    window_every: int = 1
    """Of so many layers, all but the last have the window; 1: all have it."""

    names: Names = Names()
    norm: OneOf["rms", "rms_offset", "layer"] = "rms"
    """`rms_offset`: the scale is one more than the weight."""
    epsilon: float = 1e-5
    norm_bias: bool = True
    """Whether `layer` normalisation has a bias."""
    position: Rotary | OneOf["learned", "alibi"] = Rotary()  # noqa: RUF009 - frozen
    bias: bool = False
    """Whether linear layers have a bias."""
    activation: Activation = "silu"
    gated: bool = True
    """Whether the perceptron's activation is a gate, multiplied with a second product."""
    tied: bool = False
    """Whether logits come from the token embedding."""
    scale: float | None = None
    """Of attention's scores; by default one over the root of the head size."""
    attention_softcap: float = 0.0
    logits_softcap: float = 0.0
    scaled_embedding: bool = False
    """Whether what is embedded is multiplied with the root of the width."""

    @property
    def size(self) -> int:
        """The size of a head. Raises ModelError where the heads do not divide the width."""
        if self.head_size is not None:
            return self.head_size
        check_divides("heads", self.heads, "the width", self.width)
        return self.width // self.heads

    @property
    def shared_heads(self) -> int:
        """Heads of keys and values."""
        return self.heads if self.kv_heads is None else self.kv_heads

    def check(self) -> None:
        """Raises ModelError for sizes that make no model."""
        check_model_sizes(self)
        check_divides("kv_heads", self.shared_heads, "the number of heads", self.heads)
        if isinstance(self.position, Rotary) and self.size % 2:
            raise ModelError(f"expected heads of an even size, whose pairs are rotated, found {self.size}")

    def layer_window(self, layer: int, sequence: int) -> int | None:
        """The window of a layer, counted from 0; None for one that hides nothing."""
        slides = self.window is not None and self.window < sequence
        return self.window if slides and (self.window_every == 1 or (layer + 1) % self.window_every) else None

    def norm_of(self, f: Block, x: str, name: str, width: int | None = None) -> str:
        """The family's normalisation, by default over the width of the model."""
        width = self.width if width is None else width
        if self.norm == "layer":
            return f.layer_norm(x, name, width, self.epsilon, bias=self.norm_bias)
        return f.rms_norm(x, name, width, self.epsilon, offset=self.norm == "rms_offset")

    def module(self, sequence: int | None = None, batch: int | None = None, dtype: str = "BFloat16") -> Module:
        """The forward pass of a decoder over sequences of `sequence` tokens, by default as many as its context.

        `@main` takes the weights, which are named as in the published checkpoint and are (inputs, outputs) in linear
        layers, and the tokens `%input_ids: (batch, sequence)`, Int64. It returns the logits
        `(batch, sequence, vocabulary)`. Without `batch` that dimension is called `B`.

        Raises ModelError.
        """
        sequence = self.context if sequence is None else sequence
        self.check()
        check_sizes(sequence=sequence)
        if self.position == "learned" and sequence > self.context:
            raise ModelError(
                f"expected `sequence` to be at most {self.context}, the positions there are, found {sequence}"
            )
        t, names = float_type(dtype), self.names
        f = Block("main", t, DEVICE)
        tokens = f.param("input_ids", TensorType(DTYPES["Int64"], (batch_dimension(batch), sequence), DEVICE), batch=0)
        embedding = f.weight(f"{names.embedding}.weight", self.vocabulary, self.width)
        x = f.op("Gather", embedding, tokens, axis=0, result="embedded")
        if self.scaled_embedding:
            x = f.op("Mul", x, math.sqrt(self.width), result="scaled")
        position = f.op("Range", 0, sequence, 1, result="position")
        tables: dict[str, TensorType] = {}
        if isinstance(self.position, Rotary):
            cosines_and_sines(f, self.position, position, self.size // 2, t)
            tables = dict.fromkeys(("cos", "sin"), TensorType(t, (1, sequence, self.size // 2), HOST))
        elif self.position == "alibi":
            tables = {_alibi(f, self.heads, position, sequence): TensorType(t, (1, self.heads, 1, sequence), HOST)}
        else:
            placed = f.op(
                "Gather",
                f.weight(f"{names.positions}.weight", self.context, self.width),
                position,
                axis=0,
                result="placed",
            )
            x = f.op("Add", x, placed, result="x0")
        layers: dict[int | None, Block] = {}
        functions: list[Function] = []
        windows = [self.layer_window(i, sequence) for i in range(self.layers)]
        for i, window in enumerate(windows):
            if window not in layers:
                name = names.layer + (SLIDING if window and None in windows else "")
                layers[window], function = _layer(self, Block(name, t), sequence, tables, window)
                functions.append(function)
            (x,) = f.layer(layers[window], f"{names.layers}.{i}.", x, *tables, results=(f"x{i + 1}",))
        hidden = self.norm_of(f, x, names.last_norm)
        if self.tied:
            logits = f.tied_logits(hidden, embedding, sequence, self.width, self.vocabulary)
        else:
            head = f.weight(f"{names.head}.weight", self.width, self.vocabulary)
            logits = f.op("MatMul", hidden, head, result="logits")
        if self.logits_softcap:
            bounded = f.op("Tanh", f.op("Div", logits, self.logits_softcap, result="quotient"), result="bounded")
            logits = f.op("Mul", bounded, self.logits_softcap, result="capped")
        return Module([*functions, f.returns(logits)])


def _layer(
    model: Decoder, f: Block, sequence: int, tables: dict[str, TensorType], window: int | None
) -> tuple[Block, Function]:
    """A layer: attention, then a perceptron, each normalised before and added to what came in."""
    names = model.names
    x = f.param("x", TensorType(f.dtype, (BATCH, sequence, model.width)))
    for name, t in tables.items():
        f.param(name, t)
    mixed = _attention(model, f, model.norm_of(f, x, names.attention_norm), window)
    if names.attended_norm:
        mixed = model.norm_of(f, mixed, names.attended_norm)
    attended = f.op("Add", x, mixed, result="attended")
    changed = _perceptron(model, f, model.norm_of(f, attended, names.mlp_norm))
    if names.changed_norm:
        changed = model.norm_of(f, changed, names.changed_norm)
    return f, f.returns(f.op("Add", attended, changed, result="y"))


def _attention(model: Decoder, f: Block, x: str, window: int | None) -> str:
    """Causal self-attention, and the linear layer behind it."""
    names, size = model.names, model.size
    wide, narrow = model.heads * size, model.shared_heads * size
    if names.qkv:
        qkv = f.linear(x, names.qkv, model.width, wide + 2 * narrow, bias=model.bias)
        q, k, v = f.apply("Split", qkv, axis=-1, num_outputs=3, results=("q", "k", "v"))
    else:
        q = f.linear(x, names.q, model.width, wide, bias=model.bias)
        k = f.linear(x, names.k, model.width, narrow, bias=model.bias)
        v = f.linear(x, names.v, model.width, narrow, bias=model.bias)
    if names.q_norm:
        q, k = _head_norm(model, f, q, names.q_norm), _head_norm(model, f, k, names.k_norm)
    mask: tuple[str, ...] = ()
    if isinstance(model.position, Rotary):
        q = f.op("RotaryEmbedding", q, "cos", "sin", num_heads=model.heads, result="q")
        k = f.op("RotaryEmbedding", k, "cos", "sin", num_heads=model.shared_heads, result="k")
    elif model.position == "alibi":
        mask = ("bias",)
    attrs: dict[str, float] = {"q_num_heads": model.heads, "kv_num_heads": model.shared_heads}
    if model.scale is not None:
        attrs["scale"] = model.scale
    if model.attention_softcap:
        attrs["softcap"] = model.attention_softcap
    if window is not None:
        attrs["window"] = window
    mixed = f.op("Attention", q, k, v, *mask, is_causal=True, **attrs, result="mixed")
    return f.linear(mixed, names.out, wide, model.width, bias=model.bias)


def _head_norm(model: Decoder, f: Block, x: str, name: str) -> str:
    """Each head normalised by itself."""
    heads = f.op("Reshape", x, (0, 0, -1, model.size), result=f"{x}_heads")
    return f.op("Reshape", model.norm_of(f, heads, name, model.size), (0, 0, -1), result=f"{x}_normal")


def _perceptron(model: Decoder, f: Block, x: str) -> str:
    """Two linear layers with an activation between them; if gated, three."""
    names = model.names
    inner = f.linear(x, names.gate if model.gated else names.up, model.width, model.ffn, bias=model.bias)
    inner = f.activation(inner, model.activation)
    if model.gated:
        inner = f.op("Mul", inner, f.linear(x, names.up, model.width, model.ffn, bias=model.bias), result="inner")
    return f.linear(inner, names.down, model.ffn, model.width, bias=model.bias)


def _alibi(f: Block, heads: int, position: str, sequence: int) -> str:
    """What is added to attention's scores, `slope * position` for each head's slope (Press et al., arXiv:2108.12409).

    Softmax ignores what all keys of a query have in common, so that this is as good as the distance.
    """
    power = 2 ** math.ceil(math.log2(heads))
    slopes = [2.0 ** (-8 * (i + 1) / power) for i in range(power)]
    if power != heads:
        slopes = (slopes[1::2] + slopes[::2])[:heads]
    last = f.op("Sub", position, sequence - 1, result="distance")
    distance = f.op("Cast", last, to=DTYPES["Float32"], result="wide_distance")
    bias = f.op("Mul", distance, tuple(((slope,),) for slope in slopes), result="wide_bias")
    row = f.op("Unsqueeze", bias, (0,), result="bias_row")
    return f.op("Cast", row, to=f.dtype, result="bias")
