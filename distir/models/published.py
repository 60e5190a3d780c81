"""Published models by name, with the sizes that their papers and configurations state.

A model is an entry of `PUBLISHED`, of the family that it belongs to; what sets a family apart is said once.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from functools import partial
from typing import Final

from distir.models.decoder import Decoder, Latent, Names, Router
from distir.models.encoder import Bert, Vit
from distir.models.encoder_decoder import T5
from distir.models.rotary import Rotary
from distir.models.sizes import ModelError

Model = Decoder | Bert | Vit | T5

LLAMA2 = partial(Decoder, vocabulary=32000, context=4096)
"""Touvron et al., arXiv:2307.09288."""

LLAMA3 = partial(Decoder, kv_heads=8, vocabulary=128256, context=8192, position=Rotary(500000.0))
"""Grattafiori et al., *The Llama 3 Herd of Models*, arXiv:2407.21783, in the context of its first pre-training."""

LLAMA31 = partial(LLAMA3, context=131072, position=Rotary(500000.0, factor=8.0, context=8192))
"""The same, further trained on longer sequences."""

MISTRAL = partial(Decoder, names=Names(layer="MistralDecoderLayer"))
"""Jiang et al., arXiv:2310.06825."""

QWEN3 = partial(
    Decoder,
    kv_heads=8,
    head_size=128,
    vocabulary=151936,
    context=32768,
    position=Rotary(1000000.0),
    epsilon=1e-6,
    head_norm=True,
    names=Names(layer="Qwen3DecoderLayer"),
)
"""Yang et al., arXiv:2505.09388."""

QWEN25 = partial(
    Decoder,
    vocabulary=152064,
    context=32768,
    position=Rotary(1000000.0),
    epsilon=1e-6,
    attention_bias=True,
    out_bias=False,
    names=Names(layer="Qwen2DecoderLayer"),
)
"""Qwen Team, arXiv:2412.15115."""

GEMMA2 = partial(
    Decoder,
    vocabulary=256000,
    context=8192,
    window=4096,
    window_every=2,
    norm="rms_offset",
    epsilon=1e-6,
    activation="gelu_tanh",
    tied=True,
    attention_softcap=50.0,
    logits_softcap=30.0,
    scaled_embedding=True,
    names=Names(
        layer="Gemma2DecoderLayer",
        attended_norm="post_attention_layernorm",
        mlp_norm="pre_feedforward_layernorm",
        changed_norm="post_feedforward_layernorm",
    ),
)
"""Gemma Team, arXiv:2408.00118."""

GPT3 = partial(
    Decoder,
    vocabulary=50257,
    context=2048,
    norm="layer",
    position="learned",
    attention_bias=True,
    mlp_bias=True,
    activation="gelu_tanh",
    gated=False,
    tied=True,
    names=Names(
        layer="GPT2Block",
        layers="transformer.h",
        embedding="transformer.wte",
        positions="transformer.wpe",
        last_norm="transformer.ln_f",
        attention_norm="ln_1",
        attention="attn",
        qkv="c_attn",
        out="c_proj",
        mlp_norm="ln_2",
        up="c_fc",
        down="c_proj",
    ),
)
"""Brown et al., arXiv:2005.14165, table 2.1: the architecture of GPT-2, dense in all layers.

Two rows of that table contradict themselves: the XL's 24 heads of size 128 do not make its width of 2048 (16 do), and
the 13B's width of 5140 is not 40 heads of size 128 (5120 is).
"""

MIXTRAL = partial(
    Decoder,
    kv_heads=8,
    vocabulary=32000,
    experts=8,
    top_k=2,
    position=Rotary(1000000.0),
    names=Names(layer="MixtralDecoderLayer"),
)
"""Jiang et al., arXiv:2401.04088."""

QWEN3_MOE = partial(QWEN3, kv_heads=4, experts=128, top_k=8, names=Names(layer="Qwen3MoeDecoderLayer"))
"""Of the same report: all layers have experts."""

DEEPSEEK_V3 = partial(
    Decoder,
    vocabulary=129280,
    context=4096,
    epsilon=1e-6,
    latent=Latent(q_rank=1536, kv_rank=512, plain=128, rotated=64, values=128),
    position=Rotary(10000.0, factor=40.0, context=4096, high=32.0, by_pair=True),
    scale=192**-0.5 * (0.1 * math.log(40) + 1) ** 2,
    router=Router(score="sigmoid", scale=2.5, groups=8, best_groups=4, correction=True),
    names=Names(layer="DeepseekV3DecoderLayer"),
)
"""DeepSeek-AI, arXiv:2412.19437, without the layer for multi-token prediction; sequences as in its pre-training."""

KIMI_K2 = partial(
    DEEPSEEK_V3,
    vocabulary=163840,
    context=131072,
    position=Rotary(50000.0, factor=32.0, context=4096, high=1.0, by_pair=True),
    scale=192**-0.5 * (0.1 * math.log(32) + 1) ** 2,
    router=Router(score="sigmoid", scale=2.827, correction=True),
)
"""Kimi Team, arXiv:2507.20534."""

GLM45 = partial(
    Decoder,
    heads=96,
    kv_heads=8,
    head_size=128,
    vocabulary=151552,
    context=131072,
    position=Rotary(1000000.0),
    rotary_size=64,
    attention_bias=True,
    out_bias=False,
    top_k=8,
    shared_experts=1,
    names=Names(layer="Glm4MoeDecoderLayer"),
)
"""GLM-4.5 Team, arXiv:2508.06471, without the layer for multi-token prediction."""

GLM45_LARGE = partial(
    GLM45,
    layers=92,
    width=5120,
    ffn=12288,
    experts=160,
    expert_ffn=1536,
    dense_layers=3,
    head_norm=True,
    router=Router(score="sigmoid", scale=2.5, correction=True),
)

MINIMAX_M2 = partial(
    Decoder,
    vocabulary=200064,
    context=196608,
    epsilon=1e-6,
    position=Rotary(5000000.0),
    rotary_size=64,
    joint_norm=True,
    router=Router(score="sigmoid", correction=True),
    names=Names(layer="MiniMaxM2DecoderLayer", correction="e_score_correction_bias"),
)
"""MiniMax, *MiniMax-M2*, 2025."""

GPT_OSS = partial(
    Decoder,
    width=2880,
    heads=64,
    kv_heads=8,
    head_size=64,
    ffn=2880,
    expert_ffn=2880,
    top_k=4,
    vocabulary=201088,
    context=131072,
    window=128,
    window_every=2,
    attention_bias=True,
    mlp_bias=True,
    sinks=True,
    activation="silu_1.702",
    limit=7.0,
    position=Rotary(
        150000.0, factor=32.0, context=4096, high=32.0, by_pair=True, truncated=False, scale=0.1 * math.log(32) + 1
    ),
    router=Router(bias=True),
    names=Names(layer="GptOssDecoderLayer", router="router"),
)
"""OpenAI, arXiv:2508.10925."""

MPT = partial(
    Decoder,
    vocabulary=50432,
    norm="layer",
    norm_bias=False,
    position="alibi",
    activation="gelu",
    gated=False,
    tied=True,
    names=Names(
        layer="MptBlock",
        layers="transformer.blocks",
        embedding="transformer.wte",
        last_norm="transformer.norm_f",
        attention_norm="norm_1",
        attention="attn",
        qkv="Wqkv",
        out="out_proj",
        mlp_norm="norm_2",
        mlp="ffn",
    ),
)
"""MosaicML, *Introducing MPT-7B*, 2023."""

PUBLISHED: Final[dict[str, Model]] = {
    "llama2-7b": LLAMA2(layers=32, width=4096, heads=32, ffn=11008),
    "llama2-13b": LLAMA2(layers=40, width=5120, heads=40, ffn=13824),
    "llama2-70b": LLAMA2(layers=80, width=8192, heads=64, kv_heads=8, ffn=28672),
    "llama3-8b": LLAMA3(layers=32, width=4096, heads=32, ffn=14336),
    "llama3-70b": LLAMA3(layers=80, width=8192, heads=64, ffn=28672),
    "llama3-405b": LLAMA3(layers=126, width=16384, heads=128, ffn=53248),
    "llama3.1-8b": LLAMA31(layers=32, width=4096, heads=32, ffn=14336),
    "llama3.1-70b": LLAMA31(layers=80, width=8192, heads=64, ffn=28672),
    "llama3.1-405b": LLAMA31(layers=126, width=16384, heads=128, ffn=53248),
    "mistral-7b": MISTRAL(
        layers=32, width=4096, heads=32, kv_heads=8, ffn=14336, vocabulary=32000, context=8192, window=4096
    ),
    "mistral-small-24b": MISTRAL(
        layers=40,
        width=5120,
        heads=32,
        kv_heads=8,
        head_size=128,
        ffn=32768,
        vocabulary=131072,
        context=32768,
        position=Rotary(100000000.0),
    ),
    "mistral-large-123b": MISTRAL(
        layers=88,
        width=12288,
        heads=96,
        kv_heads=8,
        ffn=28672,
        vocabulary=32768,
        context=131072,
        position=Rotary(1000000.0),
    ),
    "qwen2.5-0.5b": QWEN25(layers=24, width=896, heads=14, kv_heads=2, ffn=4864, vocabulary=151936, tied=True),
    "qwen2.5-1.5b": QWEN25(layers=28, width=1536, heads=12, kv_heads=2, ffn=8960, vocabulary=151936, tied=True),
    "qwen2.5-3b": QWEN25(layers=36, width=2048, heads=16, kv_heads=2, ffn=11008, vocabulary=151936, tied=True),
    "qwen2.5-7b": QWEN25(layers=28, width=3584, heads=28, kv_heads=4, ffn=18944),
    "qwen2.5-14b": QWEN25(layers=48, width=5120, heads=40, kv_heads=8, ffn=13824, epsilon=1e-5),
    "qwen2.5-32b": QWEN25(layers=64, width=5120, heads=40, kv_heads=8, ffn=27648, epsilon=1e-5),
    "qwen2.5-72b": QWEN25(layers=80, width=8192, heads=64, kv_heads=8, ffn=29568, epsilon=1e-5),
    "qwen3-0.6b": QWEN3(layers=28, width=1024, heads=16, ffn=3072, tied=True),
    "qwen3-1.7b": QWEN3(layers=28, width=2048, heads=16, ffn=6144, tied=True),
    "qwen3-4b": QWEN3(layers=36, width=2560, heads=32, ffn=9728, tied=True),
    "qwen3-8b": QWEN3(layers=36, width=4096, heads=32, ffn=12288),
    "qwen3-14b": QWEN3(layers=40, width=5120, heads=40, ffn=17408),
    "qwen3-32b": QWEN3(layers=64, width=5120, heads=64, ffn=25600),
    "phi4-14b": Decoder(
        layers=40,
        width=5120,
        heads=40,
        kv_heads=10,
        ffn=17920,
        vocabulary=100352,
        context=16384,
        position=Rotary(250000.0),
        names=Names(layer="Phi3DecoderLayer"),
    ),
    "smollm3-3b": Decoder(
        layers=36,
        width=2048,
        heads=16,
        kv_heads=4,
        ffn=11008,
        vocabulary=128256,
        context=65536,
        epsilon=1e-6,
        position=Rotary(5000000.0),
        unrotated_every=4,
        tied=True,
        names=Names(layer="SmolLM3DecoderLayer"),
    ),
    "gemma2-2b": GEMMA2(layers=26, width=2304, heads=8, kv_heads=4, head_size=256, ffn=9216),
    "gemma2-9b": GEMMA2(layers=42, width=3584, heads=16, kv_heads=8, head_size=256, ffn=14336),
    "gemma2-27b": GEMMA2(layers=46, width=4608, heads=32, kv_heads=16, head_size=128, ffn=36864, scale=144**-0.5),
    "gpt3-125m": GPT3(layers=12, width=768, heads=12, ffn=3072),
    "gpt3-350m": GPT3(layers=24, width=1024, heads=16, ffn=4096),
    "gpt3-760m": GPT3(layers=24, width=1536, heads=16, ffn=6144),
    "gpt3-1.3b": GPT3(layers=24, width=2048, heads=16, ffn=8192),
    "gpt3-2.7b": GPT3(layers=32, width=2560, heads=32, ffn=10240),
    "gpt3-6.7b": GPT3(layers=32, width=4096, heads=32, ffn=16384),
    "gpt3-13b": GPT3(layers=40, width=5120, heads=40, ffn=20480),
    "gpt3-175b": GPT3(layers=96, width=12288, heads=96, ffn=49152),
    "mpt-7b": MPT(layers=32, width=4096, heads=32, ffn=16384, context=2048),
    "mpt-30b": MPT(layers=48, width=7168, heads=64, ffn=28672, context=8192),
    "mixtral-8x7b": MIXTRAL(layers=32, width=4096, heads=32, ffn=14336, expert_ffn=14336, context=32768),
    "mixtral-8x22b": MIXTRAL(layers=56, width=6144, heads=48, ffn=16384, expert_ffn=16384, context=65536),
    "qwen3-30b-a3b": QWEN3_MOE(layers=48, width=2048, heads=32, ffn=6144, expert_ffn=768),
    "qwen3-235b-a22b": QWEN3_MOE(layers=94, width=4096, heads=64, ffn=12288, expert_ffn=1536),
    "deepseek-v3": DEEPSEEK_V3(
        layers=61,
        width=7168,
        heads=128,
        ffn=18432,
        experts=256,
        top_k=8,
        expert_ffn=2048,
        shared_experts=1,
        dense_layers=3,
    ),
    "kimi-k2": KIMI_K2(
        layers=61,
        width=7168,
        heads=64,
        ffn=18432,
        experts=384,
        top_k=8,
        expert_ffn=2048,
        shared_experts=1,
        dense_layers=1,
    ),
    "glm-4.5-air": GLM45(
        layers=46,
        width=4096,
        ffn=10944,
        experts=128,
        expert_ffn=1408,
        dense_layers=1,
        router=Router(score="sigmoid", correction=True),
    ),
    "glm-4.5": GLM45_LARGE(),
    "glm-4.6": GLM45_LARGE(context=202752),
    "minimax-m2": MINIMAX_M2(
        layers=62, width=3072, heads=48, kv_heads=8, head_size=128, ffn=1536, experts=256, top_k=8, expert_ffn=1536
    ),
    "gpt-oss-20b": GPT_OSS(layers=24, experts=32),
    "gpt-oss-120b": GPT_OSS(layers=36, experts=128),
    "bert-base": Bert(layers=12, width=768, heads=12, ffn=3072),
    "bert-large": Bert(layers=24, width=1024, heads=16, ffn=4096),
    "t5-small": T5(layers=6, width=512, heads=8, head_size=64, ffn=2048),
    "t5-base": T5(layers=12, width=768, heads=12, head_size=64, ffn=3072),
    "t5-large": T5(layers=24, width=1024, heads=16, head_size=64, ffn=4096),
    "t5-3b": T5(layers=24, width=1024, heads=32, head_size=128, ffn=16384),
    "t5-11b": T5(layers=24, width=1024, heads=128, head_size=128, ffn=65536),
    "vit-b": Vit(layers=12, width=768, heads=12, ffn=3072, patch=16),
    "vit-l": Vit(layers=24, width=1024, heads=16, ffn=4096, patch=16),
    "vit-h": Vit(layers=32, width=1280, heads=16, ffn=5120, patch=14),
}
"""By name, in BFloat16 unless asked for otherwise."""

SIZES: Final = (
    "layers",
    "width",
    "heads",
    "kv_heads",
    "head_size",
    "ffn",
    "vocabulary",
    "window",
    "experts",
    "top_k",
    "expert_ffn",
    "shared_experts",
    "dense_layers",
    "patch",
    "image",
    "classes",
)
"""The sizes that may be overridden, where a model has them."""


def sizes_of(model: Model) -> list[str]:
    """Which of `SIZES` a model has, and `sequence` if its sequences may have any length."""
    found = {field.name for field in fields(model) if getattr(model, field.name) is not None}
    if isinstance(model, Decoder) and model.latent is None:
        found |= {"head_size"} if model.names.qkv else {"head_size", "kv_heads"}
    if isinstance(model, Decoder) and model.experts is not None and not model.dense_layers:
        found.remove("ffn")
    return [*(name for name in SIZES if name in found), *([] if isinstance(model, Vit) else ["sequence"])]


def resized(name: str, model: Model, sizes: dict[str, int]) -> Model:
    """A published model with other sizes. Raises ModelError for one that it does not have."""
    known = sizes_of(model)
    for size in sizes:
        if size not in known:
            raise ModelError(f"the model `{name}` has no size `{size}`; it has {', '.join(known)}")
    return replace(model, **sizes)
