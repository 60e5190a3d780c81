"""The model that arguments of Megatron-LM describe.

Facts of Megatron-LM (core 0.16): megatron/training/arguments.py, megatron/core/transformer/transformer_config.py
(`MLATransformerConfig`: what is low-rank), megatron/core/models/gpt/gpt_layer_specs.py (which layers have experts). Of
Megatron-DeepSpeed: megatron/model/transformer.py (`expert_interval`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from distir.configurations.models import of_these_sizes
from distir.configurations.options import Options, as_list
from distir.configurations.vocabularies import OWN, tokens_of
from distir.models.decoder import Decoder, Latent, Router
from distir.models.published import GPT3, LLAMA2
from distir.models.rotary import Rotary

POSITIONS: Final[Mapping[str, Literal["learned", "alibi"]]] = {"learned_absolute": "learned", "alibi": "alibi"}
"""Positions that are not rotary, by Megatron's words, and those of its forks."""

Experts = tuple[int | None, int]
"""How many first layers have no experts, and in which one of how many layers the others are."""


def model_of(options: Options) -> Decoder | None:
    """The model, where its layers are said. Raises ConfigurationError."""
    layers = options.optional("num_layers")
    if layers is None:
        return None
    width, heads = options.whole("hidden_size"), options.whole("num_attention_heads")
    gated = options.flag("swiglu") | options.flag("quick_geglu")
    squared = options.flag("squared_relu")
    if squared and gated:
        line = options.line("squared_relu")
        raise options.wrong(line, "`squared_relu` and `swiglu` contradict each other", "use one of them")
    rms = options.word("normalization", ("LayerNorm", "RMSNorm")) == "RMSNorm"
    position = _position(options)
    grouped, groups = options.flag("group_query_attention"), options.optional("num_query_groups")
    ffn = options.optional("ffn_hidden_size") or (4 * width if not gated else int(4 * width * 2 / 3 / 64) * 64)
    bias, of_queries = not options.flag("disable_bias_linear"), options.flag("add_qkv_bias")
    latent = _latent(options)
    head = options.optional("kv_channels") or width // heads
    window, window_every = _window(options)
    offset = options.flag("apply_layernorm_1p")
    rotary = _rotary(options)
    found = (LLAMA2 if rms else GPT3)(
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=(groups or heads) if grouped and latent is None else heads,
        head_size=head,
        ffn=ffn,
        latent=latent,
        context=_positions(options),
        norm="layer" if not rms else "rms_offset" if offset else "rms",
        epsilon=options.number("norm_epsilon") or 1e-5,
        window=window,
        window_every=window_every,
        sinks=options.word("softmax_type", ("vanilla", "off-by-one", "learnable")) == "learnable",
        head_norm=options.flag("qk_layernorm") and latent is None,  # of latent attention, its parts are
        position=POSITIONS.get(position or "") or rotary,
        rotary_size=_rotated(options, head),
        unrotated_every=options.optional("no_rope_freq") if str(options.get("no_rope_freq")).isdecimal() else None,
        activation="relu_squared" if squared else "silu" if gated else "gelu_tanh",
        gated=gated,
        tied=not options.flag("untie_embeddings_and_output_weights"),
        dropout=options.number("hidden_dropout") or 0.0,
        attention_dropout=_attention_dropout(options),
        attention_bias=bias or of_queries,
        out_bias=bias,
        mlp_bias=bias,
        names=replace(LLAMA2(layers=1, width=1, heads=1, ffn=1).names, positions="model.positions"),
    )
    found = _with_experts(options, found)
    return replace(found, vocabulary=_vocabulary(options, found))


def _rotary(options: Options) -> Rotary:
    """Rotary positions: of Llama 3.1 with their scaling, whose other figures Megatron Core has as constants."""
    theta = options.number("rotary_base") or 10000.0
    if not options.flag("use_rope_scaling"):
        return Rotary(theta)
    return Rotary(theta, factor=options.number("rope_scaling_factor") or 8.0, context=SCALED_CONTEXT)


SCALED_CONTEXT: Final = 8192
"""The context before scaling (megatron/core/models/common/embeddings/rotary_pos_embedding.py, `_apply_scaling`)."""


def _rotated(options: Options, head: int) -> int | None:
    """How much of a head is rotated; None for all of it."""
    share = options.number("rotary_percent")
    return None if share is None or share == 1 else int(head * share)


def _window(options: Options) -> tuple[int | None, int]:
    """To how many tokens each attends, with itself, and of how many layers the last one attends to all."""
    size = options.get("window_size")
    first = str((as_list(size) or [size])[0]).strip("( ").partition(",")[0]
    if not first.isdecimal():
        return None, 1
    every = str(options.get("window_attn_skip_freq") or 1)
    if not every.isdecimal():
        options.note(f"all layers have the window here, whatever `{every}` says", "window_attn_skip_freq")
    return int(first) + 1, int(every) if every.isdecimal() else 1


def _with_experts(options: Options, model: Decoder) -> Decoder:
    """A model with the experts that options give it, if they do."""
    experts = _experts(options)
    if experts is None:
        return model
    ffn = options.optional("moe_ffn_hidden_size") or model.ffn
    shared = options.optional("moe_shared_expert_intermediate_size", least=0)
    dense, every = layers_with_experts(options, model.layers)
    return replace(
        model,
        experts=experts,
        top_k=options.optional("moe_router_topk") or 2,
        expert_ffn=ffn,
        shared_experts=shared // ffn if shared else None,
        dense_layers=dense,
        experts_every=every,
        router=_router(options),
    )


def _experts(options: Options) -> int | None:
    """How many experts there are; None for one, as scripts of Megatron-DeepSpeed say that there are none."""
    found = options.get("num_experts")
    if isinstance(found, str) and len(numbers := found.split()) > 1:  # of Megatron-DeepSpeed: by layer
        if len(set(numbers)) > 1:
            line = options.line("num_experts")
            raise options.wrong(
                line, f"`num_experts` is `{found}`: layers with different numbers of experts are not read"
            )
        found = numbers[0]
        return int(found) if found.isdecimal() and int(found) > 1 else None
    experts = options.optional("num_experts", least=0)
    return experts if experts and experts > 1 else None


def _router(options: Options) -> Router:
    groups, best = options.optional("moe_router_num_groups"), options.optional("moe_router_group_topk")
    grouped = bool(groups and best and groups > 1)
    score = options.get("moe_router_score_function")
    if score not in (None, "softmax", "sigmoid"):
        options.note(f"scores of experts by `{score}` are simulated as softmax", "moe_router_score_function")
    return Router(
        score="sigmoid" if score == "sigmoid" else "softmax",
        scale=options.number("moe_router_topk_scaling_factor") or 1.0,
        groups=(groups or 1) if grouped else 1,
        best_groups=(best or 1) if grouped else 1,
        correction=options.flag("moe_router_enable_expert_bias"),
        capacity_factor=options.number("moe_expert_capacity_factor"),
    )


def _latent(options: Options) -> Latent | None:
    """Multi-head latent attention, where it is on."""
    if not options.flag("multi_latent_attention"):
        return None
    return Latent(
        q_rank=options.optional("q_lora_rank", least=0) or 0,
        kv_rank=options.whole("kv_lora_rank"),
        plain=options.whole("qk_head_dim"),
        rotated=options.whole("qk_pos_emb_head_dim"),
        values=options.whole("v_head_dim"),
    )


def _vocabulary(options: Options, model: Decoder) -> int:
    """The tokens that options state, that the tokenizer has, or that the published model of these sizes has."""
    if (stated := options.optional("vocab_size")) is not None:
        return stated
    kind, more = (options.get(name) for name in ("tokenizer_type", "extra_vocab_size"))
    own = OWN.get(str(options.get("patch_tokenizer_type") or kind))
    if own is not None:
        return own + (int(more) if str(more).isdecimal() else 0)
    named = next((options.get(name) for name in TOKENIZERS if name in options), None)
    if (tokens := tokens_of(named)) is not None:
        return tokens
    if "merge_file" in options and kind is None:
        return OWN["GPT2BPETokenizer"]
    known = of_these_sizes(model)
    found = known[1].vocabulary if known else 32000 if model.norm == "rms" else 50257
    why = f", as of {known[0]}" if known else ""
    options.note(f"a vocabulary of {found} is assumed{why}; {STATED} states it")
    return found


STATED: Final = "`--vocab-size` (of NeMo `model.override_vocab_size`, of Megatron-Bridge `model.vocab_size`)"
"""The options that state a vocabulary."""

TOKENIZERS: Final = ("tokenizer_model", "tokenizer_name_or_path", "tokenizer_path", "hf_tokenizer_path")
"""Options that name or place a tokenizer."""


def _position(options: Options) -> str | None:
    """How positions are encoded: `rope` by its earlier name, too."""
    words = ("learned_absolute", "rope", "none", "yarn", "mrope", "relative", "alibi")
    found = options.word("position_embedding_type", words)
    without_own = options.flag("no_position_embedding") | options.is_off("add_position_embedding")
    if options.flag("use_rotary_position_embeddings"):
        found = "rope"
    if found == "learned_absolute" and without_own:
        found = "none"
    if found in ("none", "yarn", "mrope", "relative"):
        name = "position_embedding_type" if "position_embedding_type" in options else "no_position_embedding"
        options.note(f"positions `{found}` are simulated as `rope`", name)
    return found


def _positions(options: Options) -> int:
    """The positions that the model is for: those of a sequence, if options say no more."""
    return max(options.optional("max_position_embeddings") or 0, options.optional("seq_length") or 2048)


def _attention_dropout(options: Options) -> float | None:
    """Of attention's weights; None where it is that of the rest."""
    own, rest = options.number("attention_dropout"), options.number("hidden_dropout")
    return None if own == rest else own


def layers_with_experts(options: Options, layers: int) -> Experts:
    """Which layers have experts, of `moe_layer_freq`: a number, or a list of 0 and 1. Raises ConfigurationError."""
    if (interval := options.optional("expert_interval")) is not None:  # of Megatron-DeepSpeed, which has 2 by default
        return None, interval
    found: Any = options.get("moe_layer_freq")
    if isinstance(found, str):
        pattern = found.replace(" ", "").strip("\"'")
        if re.fullmatch(r"\(?(\[[01](,[01])*\](\*\d{1,4})?\+?)+\)?", pattern):
            parts = re.findall(r"\[([01,]+)\](?:\*(\d+))?", pattern)
            found = [int(n) for part, times in parts for n in part.split(",") * int(times or 1)]
        elif pattern.isdecimal():
            found = int(pattern)
    if found is None or (found == 1 and found is not True):
        return None, 1
    if isinstance(found, int) and 1 < found <= layers:
        options.note(f"experts are in the last one of {found} layers here, not in the first", "moe_layer_freq")
        return None, found
    if (routed := as_list(found)) is not None and len(routed) == layers and any(routed):
        dense = routed.index(1)
        if all(routed[dense:]):
            return dense or None, 1
        if all(layer == ((index + 1) % (dense + 1) == 0) for index, layer in enumerate(routed)):
            return None, dense + 1
    message = f"`moe_layer_freq` of `{options.get('moe_layer_freq')}` is not read for {layers} layers"
    hint = "experts are in all layers but some first ones, or in one of every few layers"
    raise options.wrong(options.line("moe_layer_freq"), message, hint)


def model_options(model: Decoder) -> dict[str, Any]:
    """The arguments that state a model, as far as there are any; None for those that are left out."""
    grouped, rotary = model.shared_heads != model.heads, model.position if isinstance(model.position, Rotary) else None
    scaled = rotary is not None and rotary == Rotary(rotary.theta, rotary.factor, SCALED_CONTEXT) and rotary.factor != 1
    return {
        "num_layers": model.layers,
        "hidden_size": model.width,
        "ffn_hidden_size": model.ffn,
        "num_attention_heads": model.heads,
        "group_query_attention": (grouped and model.latent is None) or None,
        "num_query_groups": model.shared_heads if grouped and model.latent is None else None,
        "kv_channels": model.size,
        "vocab_size": model.vocabulary,
        "normalization": "LayerNorm" if model.norm == "layer" else "RMSNorm",
        "apply_layernorm_1p": model.norm == "rms_offset" or None,
        "norm_epsilon": model.epsilon,
        "qk_layernorm": (model.head_norm or model.latent is not None) or None,
        "position_embedding_type": "rope" if rotary else "learned_absolute",
        "rotary_base": int(rotary.theta) if rotary else None,
        "rotary_percent": model.rotated / model.size if rotary and model.rotary_size else None,
        "use_rope_scaling": scaled or None,
        "rope_scaling_factor": rotary.factor if rotary and scaled else None,
        "no_rope_freq": model.unrotated_every,
        "window_size": f"{model.window - 1},0" if model.window else None,
        "window_attn_skip_freq": model.window_every if model.window and model.window_every > 1 else None,
        "softmax_type": "learnable" if model.sinks else None,
        "swiglu": model.gated or None,
        "squared_relu": model.activation == "relu_squared" or None,
        "untie_embeddings_and_output_weights": (not model.tied) or None,
        "disable_bias_linear": (not model.mlp_bias) or None,
        "add_qkv_bias": (model.attention_bias and not model.mlp_bias) or None,
        "hidden_dropout": model.dropout,
        "attention_dropout": model.dropout if model.attention_dropout is None else model.attention_dropout,
        **(_latent_options(model.latent) if model.latent else {}),
        **(_expert_options(model) if model.experts else {}),
    }


def _latent_options(latent: Latent) -> dict[str, Any]:
    return {
        "multi_latent_attention": True,
        "q_lora_rank": latent.q_rank or None,
        "kv_lora_rank": latent.kv_rank,
        "qk_head_dim": latent.plain,
        "qk_pos_emb_head_dim": latent.rotated,
        "v_head_dim": latent.values,
    }


def _expert_options(model: Decoder) -> dict[str, Any]:
    router, layers = model.router, [int(model.is_routed(layer)) for layer in range(model.layers)]
    dense = model.dense_layers or 0
    pattern = f"([0]*{dense}+[1]*{model.layers - dense})" if dense and model.experts_every == 1 else str(layers)
    grouped = router.groups > 1
    return {
        "num_experts": model.experts,
        "moe_router_topk": model.top_k,
        "moe_ffn_hidden_size": model.expert_ffn,
        "moe_grouped_gemm": True,
        "moe_shared_expert_intermediate_size": (model.shared_experts or 0) * (model.expert_ffn or model.ffn) or None,
        "moe_layer_freq": None if all(layers) else pattern.replace(" ", ""),
        "moe_router_score_function": None if router.score == "softmax" else router.score,
        "moe_router_topk_scaling_factor": None if router.scale == 1 else router.scale,
        "moe_router_num_groups": router.groups if grouped else None,
        "moe_router_group_topk": router.best_groups if grouped else None,
        "moe_router_enable_expert_bias": router.correction or None,
        "moe_expert_capacity_factor": router.capacity_factor,
    }
