"""The model of a run: what its columns say, and of published models what no column says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from distir.models.block import Activation
from distir.models.decoder import Decoder, Latent, Router
from distir.models.published import GPT3, LLAMA2, PUBLISHED
from distir.models.rotary import Rotary
from distir.validate.causes import parameter
from distir.validate.runs import MeasuredRun, UnsupportedError

ACTIVATIONS: Final[Mapping[str, Activation]] = {"swiglu": "silu", "gelu": "gelu_tanh", "relu2": "relu_squared"}
"""The activation of each word in the column `mlp`."""

MEGATRONS_LATENT: Final = parameter(
    "ranks of latent attention",
    Latent(q_rank=512, kv_rank=512, plain=128, rotated=64, values=128),
    "NVIDIA/Megatron-LM, core/transformer/transformer_config.py: the defaults of `MLATransformerConfig`",
)
"""Of models with latent attention that are not published."""


def _published(run: MeasuredRun) -> Decoder | None:
    """The published model of the family that a run is of, for what no column says; None where none has its sizes.

    Layers and experts may be fewer, as of a proxy.
    """
    sizes = run.hidden, run.heads, run.ffn
    decoders = (model for model in PUBLISHED.values() if isinstance(model, Decoder))
    same = (m for m in decoders if bool(m.experts) == bool(run.experts) and m.gated == (run.mlp == "swiglu"))
    return next((m for m in same if (m.width, m.heads) == sizes[:2] and sizes[2] in (m.ffn, m.expert_ffn)), None)


def decoder_of(run: MeasuredRun, vocabulary: int, dropout: float) -> Decoder:
    """The model of a run, of a padded vocabulary. Raises UnsupportedError for one that is not among ours."""
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
        dropout=dropout,
        attention_dropout=0.0 if run.strategy.context > 1 else None,
        attention_bias=bool(run.bias),
        mlp_bias=bool(run.bias),
        latent=latent,
        head_norm=published is not None and published.head_norm,
        router=Router() if published is None else published.router,
        names=replace(LLAMA2(layers=1, width=1, heads=1, ffn=1).names, positions="model.positions"),
    )
