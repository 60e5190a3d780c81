"""A layer of a decoder: attention, then an MLP or experts, each normalised before and added to what came in.

The arrangement is one that can be split: activations are (batch, sequence, width), queries, keys and values
(batch, sequence, heads * size), and no constant names the batch or the number of heads, except attributes of
`Attention` and `RotaryEmbedding`, which tensor parallelism divides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal as OneOf

from distir.ir import DISCARD, DTYPES, HOST, Dim, DType, Function, Literal, TensorType
from distir.models.block import ModelFunction
from distir.models.decoder import Decoder, Latent
from distir.models.sizes import BATCH


@dataclass(frozen=True, slots=True)
class Kind:
    """What tells layers of one model apart."""

    window: int | None
    routed: bool
    rotated: bool


@dataclass(frozen=True, slots=True)
class ModelPass:
    """What is done: a forward pass, or in serving the pass over the prompt, or the next token of each sequence."""

    tokens: int
    phase: OneOf["forward", "prefill", "decode"] = "forward"
    capacity: int = 0
    """The places of a cache."""

    def caches(self, model: Decoder, kind: Kind, dtype: DType, batch: Dim, device: int | None = None) -> Caches:
        """The types of a layer's caches by name. One with a window holds no more than that."""
        if self.phase == "forward":
            return {}
        places = self.capacity if kind.window is None else kind.window

        def cache(width: int) -> TensorType:
            return TensorType(dtype, (batch, places, width), device)

        if model.latent is not None:
            return {"latents": cache(model.latent.kv_rank + model.latent.rotated)}
        return {"keys": cache(model.shared_heads * model.size), "values": cache(model.shared_heads * model.size)}


Caches = Mapping[str, TensorType]

POSITION = TensorType(DTYPES["Int64"], (), HOST)
"""Of the position of the next token."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The function of a kind of layer, while it is written."""

    model: Decoder
    f: ModelFunction
    kind: Kind
    done: ModelPass

    def function(self, tables: Mapping[str, TensorType]) -> Function:
        """The function of the hidden state `x`, of what positions add, and of caches, whose new state it returns."""
        names, f = self.model.names, self.f
        x = f.param("x", TensorType(f.dtype, (BATCH, self.done.tokens, self.model.width)))
        caches = self.done.caches(self.model, self.kind, f.dtype, BATCH)
        for name, t in {**tables, **caches}.items():
            f.param(name, t)
        mixed, kept = self.attention(self.norm(x, names.attention_norm))
        mixed = f.dropped(mixed)
        if names.attended_norm:
            mixed = self.norm(mixed, names.attended_norm)
        attended = f.op("Add", x, mixed, result="attended")
        normal = self.norm(attended, names.mlp_norm)
        changed = self.experts(normal) if self.kind.routed else self.perceptron(normal, names.mlp, self.model.ffn)
        changed = f.dropped(changed)
        if names.changed_norm:
            changed = self.norm(changed, names.changed_norm)
        return f.returns(f.op("Add", attended, changed, result="y"), *kept)

    def norm(self, x: str, name: str, width: int | None = None) -> str:
        """The family's normalisation, by default over the width of the model."""
        return norm(self.model, self.f, x, name, width)

    def attention(self, x: str) -> tuple[str, list[str]]:
        """Causal self-attention, and the linear layer behind it; and the caches as they are then."""
        model, f, names = self.model, self.f, self.model.names
        if model.latent is None:
            q, *new = self.heads(x)
            kept = self.appended(dict(zip(("keys", "values"), new, strict=True)))
            keys, values = kept if self.done.phase == "decode" else new
            mixed = self.attend(q, keys, values, model.shared_heads)
        else:
            mixed, kept = self.latent_attention(x, model.latent)
        wide = model.heads * (model.size if model.latent is None else model.latent.values)
        bias = model.attention_bias if model.out_bias is None else model.out_bias
        return f.linear(mixed, f"{names.attention}.{names.out}", wide, model.width, bias=bias), kept

    def attend(self, q: str, keys: str, values: str, shared_heads: int, **attrs: float) -> str:
        """The op, for a token of each sequence to what its cache holds."""
        model, f, decodes = self.model, self.f, self.done.phase == "decode"
        # A token attends to all that a cache with a window holds, whatever the order.
        is_causal, window = not decodes, None if decodes else self.kind.window
        sinks = f.weight(f"{model.names.attention}.sinks", model.heads) if model.sinks else DISCARD
        operands = [q, keys, values, "bias" if model.position == "alibi" else DISCARD, sinks, DISCARD]
        if decodes:
            operands[-1] = self.filled()
        while operands[-1] == DISCARD:
            operands.pop()
        attrs |= {"q_num_heads": model.heads, "kv_num_heads": shared_heads}
        if is_causal:
            attrs = {"is_causal": True, **attrs}
        if model.scale is not None:
            attrs["scale"] = model.scale
        if model.attention_softcap:
            attrs["softcap"] = model.attention_softcap
        if window is not None:
            attrs["window"] = window
        return f.attention(*operands, **attrs)

    def appended(self, new: Mapping[str, str]) -> list[str]:
        """The caches, with what is new in its places: of a window, the last of them, the first ones overwritten."""
        f, window, tokens = self.f, self.kind.window, self.done.tokens
        if self.done.phase == "forward":
            return []
        kept: list[str] = []
        for name, x in new.items():
            attrs: dict[str, int | str] = {"axis": 1}
            first: str | int = "position" if self.done.phase == "decode" else 0
            if window is not None:
                attrs["mode"] = "circular"
                if tokens > window:
                    first = tokens - window
                    ends = Literal((first,)), Literal((tokens,)), Literal((1,))
                    x = f.op("Slice", x, *ends, result=f"last_{name}")
            kept.append(f.op("TensorScatter", name, x, first, **attrs, result=f"new_{name}"))
        return kept

    def filled(self) -> str:
        """How many places of the cache are filled, with the token's own."""
        filled = self.f.op("Add", "position", 1, result="length")
        return filled if self.kind.window is None else self.f.op("Min", filled, self.kind.window, result="filled")

    def heads(self, x: str) -> tuple[str, str, str]:
        """Queries, keys and values, the heads side by side."""
        model, f, names = self.model, self.f, self.model.names
        wide, narrow = model.heads * model.size, model.shared_heads * model.size
        at, bias = names.attention, model.attention_bias
        if names.qkv:
            qkv = f.linear(x, f"{at}.{names.qkv}", model.width, wide + 2 * narrow, bias=bias)
            q, k, v = f.apply("Split", qkv, axis=-1, num_outputs=3, results=("q", "k", "v"))
        else:
            q = f.linear(x, f"{at}.{names.q}", model.width, wide, bias=bias)
            k = f.linear(x, f"{at}.{names.k}", model.width, narrow, bias=bias)
            v = f.linear(x, f"{at}.{names.v}", model.width, narrow, bias=bias)
        if model.head_norm:
            q, k = self.head_norm(q, f"{at}.q_norm"), self.head_norm(k, f"{at}.k_norm")
        if model.joint_norm:
            q, k = self.norm(q, f"{at}.q_norm", wide), self.norm(k, f"{at}.k_norm", narrow)
        if self.kind.rotated:
            part = {} if model.rotary_size is None else {"rotary_embedding_dim": model.rotary_size}
            q = f.op("RotaryEmbedding", q, "cos", "sin", num_heads=model.heads, **part, result="q")
            k = f.op("RotaryEmbedding", k, "cos", "sin", num_heads=model.shared_heads, **part, result="k")
        return q, k, v

    def head_norm(self, x: str, name: str) -> str:
        """Each head normalised by itself."""
        return self.joined(self.norm(self.by_head(x, self.model.size), name, self.model.size), f"{x}_normal")

    def latent_attention(self, x: str, latent: Latent) -> tuple[str, list[str]]:
        """Attention with low-rank queries, keys and values, where all heads share the rotated part of the keys."""
        model, f, at = self.model, self.f, self.model.names.attention
        low, rank, q_name = x, model.width, "q_proj"
        if latent.q_rank:
            low, rank, q_name = f.linear(x, f"{at}.q_a_proj", model.width, latent.q_rank), latent.q_rank, "q_b_proj"
            low = self.norm(low, f"{at}.q_a_layernorm", rank)
        q = f.linear(low, f"{at}.{q_name}", rank, model.heads * model.size)
        sizes = Literal((latent.plain, latent.rotated))
        q_plain, q_part = f.apply("Split", self.by_head(q, model.size), sizes, axis=-1, results=("q_plain", "q_part"))
        turned = self.rotated(self.joined(q_part, "q_flat"), model.heads, "q_turned")
        q_rotated = self.by_head(turned, latent.rotated)

        both = f.linear(x, f"{at}.kv_a_proj_with_mqa", model.width, latent.kv_rank + latent.rotated)
        sizes = Literal((latent.kv_rank, latent.rotated))
        low, k_part = f.apply("Split", both, sizes, axis=-1, results=("kv_low", "k_part"))
        low = self.norm(low, f"{at}.kv_a_layernorm", latent.kv_rank)
        k_rotated = self.rotated(k_part, 1, "k_turned")
        kept: list[str] = []
        if self.done.phase != "forward":
            kept = self.appended({"latents": f.op("Concat", low, k_rotated, axis=-1, result="latent")})
        if self.done.phase == "decode":
            return self.absorbed(q_plain, q_rotated, kept[0], latent), kept

        kv = f.linear(low, f"{at}.kv_b_proj", latent.kv_rank, model.heads * (latent.plain + latent.values))
        sizes = Literal((latent.plain, latent.values))
        kv_heads = self.by_head(kv, latent.plain + latent.values)
        k_plain, v = f.apply("Split", kv_heads, sizes, axis=-1, results=("k_plain", "v_heads"))
        shared = f.op("Unsqueeze", k_rotated, Literal((2,)), result="k_rotated")
        each = f.op("Expand", shared, Literal((1, 1, model.heads, 1)), result="k_shared")
        keys = f.op("Concat", k_plain, each, axis=-1, result="k_whole")
        queries = f.op("Concat", q_plain, q_rotated, axis=-1, result="q_whole")
        q, k, v = self.joined(queries, "q"), self.joined(keys, "k"), self.joined(v, "v")
        return self.attend(q, k, v, model.heads), kept

    def absorbed(self, q_plain: str, q_rotated: str, latents: str, latent: Latent) -> str:
        """Attention to the latents themselves, a single head of keys and values for all queries.

        The products that make keys and values of latents are done to queries and results instead, of which there are
        fewer (arXiv:2405.04434, section 2.1.2).
        """
        model, f = self.model, self.f
        sizes = latent.plain, latent.values
        weight = f.weight(f"{model.names.attention}.kv_b_proj.weight", latent.kv_rank, model.heads * sum(sizes))
        matrices = f.op("Reshape", weight, Literal((0, -1, sum(sizes))), result="kv_matrices")
        to_keys, to_values = f.apply("Split", matrices, Literal(sizes), axis=-1, results=("to_keys", "to_values"))
        low = f.op("Einsum", q_plain, to_keys, equation="bshn,rhn->bshr", result="q_latent")
        queries = f.op("Concat", low, q_rotated, axis=-1, result="q_whole")
        mixed = self.attend(self.joined(queries, "q"), latents, DISCARD, 1, v_head_size=latent.kv_rank)
        values = f.op(
            "Einsum", self.by_head(mixed, latent.kv_rank), to_values, equation="bshr,rhv->bshv", result="mixed_values"
        )
        return self.joined(values, "mixed_heads")

    def rotated(self, x: str, heads: int, result: str) -> str:
        """Heads, side by side, rotated by the angles of the positions, neighbours as pairs."""
        return self.f.op("RotaryEmbedding", x, "cos", "sin", num_heads=heads, interleaved=True, result=result)

    def joined(self, x: str, result: str) -> str:
        """From (batch, sequence, heads, size) to (batch, sequence, heads * size)."""
        return self.f.op("Reshape", x, Literal((0, 0, -1)), result=result)

    def by_head(self, x: str, size: int) -> str:
        """The other way round."""
        return self.f.op("Reshape", x, Literal((0, 0, -1, size)), result=f"{x}_heads")

    def perceptron(self, x: str, at: str, ffn: int) -> str:
        """Two linear layers with an activation between them; if gated, three."""
        model, f, names = self.model, self.f, self.model.names
        up = f.linear(x, f"{at}.{names.up}", model.width, ffn, bias=model.mlp_bias)
        if not model.gated:
            inner = f.activation(up, model.activation)
        else:
            inner = self.gate(f.linear(x, f"{at}.{names.gate}", model.width, ffn, bias=model.mlp_bias), up)
        return f.linear(inner, f"{at}.{names.down}", ffn, model.width, bias=model.mlp_bias)

    def gate(self, gate: str, up: str) -> str:
        """The activation of one product, times the other."""
        model, f = self.model, self.f
        if model.limit is not None:
            gate = f.op("Clip", gate, DISCARD, model.limit, result="bounded_gate")
            bounded = f.op("Clip", up, -model.limit, model.limit, result="bounded_up")
            up = f.op("Add", bounded, 1.0, result="raised_up")
        return f.op("Mul", f.activation(gate, model.activation), up, result="inner")

    def experts(self, x: str) -> str:
        """The perceptrons of a token's experts, weighted, and those for all tokens."""
        model, f, names, router = self.model, self.f, self.model.names, self.model.router
        assert model.experts is not None
        assert model.top_k is not None
        assert model.expert_ffn is not None
        at = f"{names.mlp}.{names.router}"
        logits = f.linear(x, at, model.width, model.experts, bias=router.bias)
        added = f"{names.mlp}.{names.correction}"
        correction = [f.weight(added, model.experts, buffer=True)] if router.correction else []
        attrs: dict[str, float | str] = {"top_k": model.top_k}
        if router.score != "softmax":
            attrs["score"] = router.score
        if router.scale != 1:
            attrs["scale"] = router.scale
        if router.groups > 1:
            attrs |= {"n_group": router.groups, "topk_group": router.best_groups}
        weights, chosen = f.apply("Route", logits, *correction, **attrs, results=("weights", "experts"))
        capacity = router.capacity(self.done.tokens, model.top_k, model.experts)
        room = {} if capacity is None else {"capacity": capacity}
        places, counts = f.apply("Dispatch", chosen, num_experts=model.experts, **room, results=("places", "counts"))
        count = () if capacity is None else (DISCARD, model.experts * capacity)
        rows = f.op("Permute", x, places, *count, result="rows")
        up = self.each_expert(rows, counts, names.up, model.width, model.expert_ffn)
        if model.gated:
            inner = self.gate(self.each_expert(rows, counts, names.gate, model.width, model.expert_ffn), up)
        else:
            inner = f.activation(up, model.activation)
        result = self.each_expert(inner, counts, names.down, model.expert_ffn, model.width)
        y = f.op("Unpermute", result, places, weights, result="routed")
        if not model.shared_experts:
            return y
        shared = self.perceptron(x, f"{names.mlp}.shared_experts", model.shared_experts * model.expert_ffn)
        return f.op("Add", y, shared, result="all_experts")

    def each_expert(self, rows: str, counts: str, name: str, inputs: int, outputs: int) -> str:
        """A linear layer of each expert, for the rows that are its own."""
        model, f, at = self.model, self.f, f"{self.model.names.mlp}.experts.{name}"
        assert model.experts is not None
        assert model.top_k is not None
        weight = f.weight(at, model.experts, inputs, outputs)
        capacity = model.router.capacity(self.done.tokens, model.top_k, model.experts)
        given = (counts,) if capacity is None else ()  # with a capacity, rows are as many for each
        product = f.op("RaggedMatMul", rows, weight, *given, top_k=model.top_k, result=f"experts_{name}")
        if not model.mlp_bias:
            return product
        bias = f.weight(f"{at}_bias", model.experts, outputs)
        if capacity is None:
            each = f.op("RaggedExpand", bias, counts, self.done.tokens * model.top_k, result=f"experts_{name}_bias")
            return f.op("Add", product, each, result=f"experts_{name}_sum")
        by_expert = f.op("Reshape", product, Literal((0, model.experts, capacity, outputs)), result=f"by_{name}")
        raised = f.op("Unsqueeze", bias, Literal((1,)), result=f"experts_{name}_bias")
        total = f.op("Add", by_expert, raised, result=f"experts_{name}_sum")
        return f.op("Reshape", total, Literal((0, -1, outputs)), result=f"rows_{name}")


def norm(model: Decoder, f: ModelFunction, x: str, name: str, width: int | None = None) -> str:
    """The family's normalisation, by default over the width of the model."""
    width = model.width if width is None else width
    if model.norm == "layer":
        return f.layer_norm(x, name, width, model.epsilon, bias=model.norm_bias)
    return f.rms_norm(x, name, width, model.epsilon, offset=model.norm == "rms_offset")
