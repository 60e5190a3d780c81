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
    if of_queries and not bias:
        options.note("the last layer of attention has a bias here, too", "add_qkv_bias")
    latent = _latent(options)
    found = (LLAMA2 if rms else GPT3)(
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=(groups or heads) if grouped and latent is None else heads,
        head_size=options.optional("kv_channels") or width // heads,
        ffn=ffn,
        latent=latent,
        context=_positions(options, position == "learned_absolute"),
        norm="rms" if rms else "layer",
        head_norm=options.flag("qk_layernorm") and latent is None,  # of latent attention, its parts are
        position=POSITIONS.get(position or "") or Rotary(options.number("rotary_base") or 10000.0),
        activation="relu_squared" if squared else "silu" if gated else "gelu_tanh",
        gated=gated,
        tied=not options.flag("untie_embeddings_and_output_weights"),
        dropout=options.number("hidden_dropout") or 0.0,
        attention_dropout=_attention_dropout(options),
        attention_bias=bias or of_queries,
        mlp_bias=bias,
        names=replace(LLAMA2(layers=1, width=1, heads=1, ffn=1).names, positions="model.positions"),
    )
    found = _with_experts(options, found)
    return replace(found, vocabulary=_vocabulary(options, found))


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
    return Router(
        score="sigmoid" if options.get("moe_router_score_function") == "sigmoid" else "softmax",
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


def _positions(options: Options, learned: bool) -> int:
    """The positions of which the model has an embedding, or those of a sequence."""
    most, sequence = options.optional("max_position_embeddings") or 0, options.optional("seq_length") or 2048
    return max(most, sequence) if learned else sequence


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
    if found in (None, 1):
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
    message = f"`moe_layer_freq` of `{found}` is not read for {layers} layers"
    hint = "experts are in all layers but some first ones, or in one of every few layers"
    raise options.wrong(options.line("moe_layer_freq"), message, hint)
