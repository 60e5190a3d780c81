"""Models as frameworks name them: torchtitan by name and flavor, others by sizes."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final

from distir.models.decoder import Decoder, Latent, Router
from distir.models.published import DEEPSEEK_V3, GPT_OSS, LLAMA2, LLAMA3, PUBLISHED, QWEN3, QWEN3_MOE
from distir.models.repositories import of_repository
from distir.models.rotary import Rotary

SMALL_LLAMA: Final = LLAMA3(layers=6, width=256, heads=16, kv_heads=16, ffn=768, vocabulary=2048)
"""torchtitan's `debugmodel`: an MLP of 2/3 of four times the width, rounded up to a multiple of 256."""

DEEPSEEK_16B: Final = DEEPSEEK_V3(
    layers=27,
    width=2048,
    heads=16,
    ffn=10944,
    experts=64,
    top_k=6,
    expert_ffn=1408,
    shared_experts=2,
    dense_layers=1,
    vocabulary=102400,
    latent=Latent(q_rank=0, kv_rank=512, plain=128, rotated=64, values=128),
    scale=None,
    router=Router(),
)
"""torchtitan's `16B`, of the sizes of DeepSeek-V2-Lite (torchtitan/models/deepseek_v3/__init__.py)."""

SMALL_DEEPSEEK: Final = replace(
    DEEPSEEK_16B, layers=6, width=256, ffn=1024, experts=8, top_k=3, expert_ffn=256, vocabulary=2048
)

DEEPSEEK_236B: Final = replace(
    DEEPSEEK_16B,
    layers=60,
    width=5120,
    heads=128,
    ffn=12288,
    experts=160,
    expert_ffn=1536,
    latent=Latent(q_rank=1536, kv_rank=512, plain=128, rotated=64, values=128),
    router=Router(scale=16.0, groups=8, best_groups=3),
)
"""Of the sizes of DeepSeek-V2."""

_KNOWN = PUBLISHED["deepseek-v3"]
assert isinstance(_KNOWN, Decoder)
DEEPSEEK: Final = _KNOWN

LLAMA4: Final = partial(
    Decoder,
    layers=48,
    width=5120,
    heads=40,
    kv_heads=8,
    ffn=16384,
    top_k=1,
    expert_ffn=8192,
    shared_experts=1,
    vocabulary=202048,
    context=8192,
    position=Rotary(500000.0),
    router=Router(score="sigmoid"),
)
"""torchtitan's Llama 4, all of whose layers are rotated and attend to all tokens (torchtitan/models/llama4)."""


def _llama2(layers: int, width: int, heads: int) -> Decoder:
    """A small Llama of torchtitan's: an MLP of 2/3 of four times the width, rounded up to a multiple of 256."""
    return LLAMA2(layers=layers, width=width, heads=heads, ffn=-(-int(8 * width / 3) // 256) * 256)


SMALL_LLAMAS: Final = {
    "debugmodel": _llama2(8, 256, 16),
    "271M": _llama2(16, 1024, 8),
    "1B": _llama2(18, 2048, 16),
    "26B": _llama2(80, 5120, 40),
}
"""Of torchtitan before 0.1, torchtitan/models/__init__.py."""

LLAMA32: Final = partial(LLAMA3, context=131072, position=Rotary(500000.0, factor=32.0, context=8192), tied=True)

SMALL_QWEN: Final = QWEN3(layers=8, width=256, heads=16, ffn=3072, vocabulary=2048, tied=True)
SMALL_QWEN_MOE: Final = QWEN3_MOE(
    layers=8, width=256, heads=16, kv_heads=8, ffn=3072, experts=64, expert_ffn=768, vocabulary=2048
)

UNPUBLISHED: Final = {
    ("llama3", "debugmodel"): ("llama3-debugmodel", SMALL_LLAMA),
    ("qwen3", "debugmodel"): ("qwen3-debugmodel", SMALL_QWEN),
    ("qwen3", "debugmodel_moe"): ("qwen3-debugmodel-moe", SMALL_QWEN_MOE),
    ("gpt_oss", "debugmodel"): ("gpt-oss-debugmodel", GPT_OSS(layers=4, width=256, experts=8)),
    ("deepseek_v3", "debugmodel"): ("deepseek-v3-debugmodel", SMALL_DEEPSEEK),
    ("deepseek_v3", "16B"): ("deepseek-v3-16b", DEEPSEEK_16B),
    ("deepseek_v3", "236B"): ("deepseek-v3-236b", DEEPSEEK_236B),
    ("llama4", "17bx16e"): ("llama4-scout", LLAMA4(experts=16)),
    ("llama4", "17bx128e"): ("llama4-maverick", LLAMA4(experts=128, experts_every=2)),
    ("llama4", "debugmodel"): (
        "llama4-debugmodel",
        LLAMA4(
            layers=6,
            width=256,
            heads=16,
            kv_heads=16,
            ffn=768,
            expert_ffn=512,
            experts=8,
            experts_every=2,
            vocabulary=2048,
        ),
    ),
    **{("llama2", flavor): (f"llama2-{flavor.lower()}", model) for flavor, model in SMALL_LLAMAS.items()},
    ("llama3", "1B"): ("llama3.2-1b", LLAMA32(layers=16, width=2048, heads=32, ffn=8192)),
    ("llama3", "3B"): ("llama3.2-3b", LLAMA32(layers=28, width=3072, heads=24, ffn=8192)),
}
"""By name and flavor: models that `--model` does not know, and what they are called here."""

FLAVORS: Final[dict[tuple[str, str], str]] = {
    **{("llama2", size): f"llama2-{size.lower()}" for size in ("7B", "13B", "70B")},
    ("llama3", "8B"): "llama3-8b",
    ("llama3", "70B"): "llama3-70b",
    ("llama3", "405B"): "llama3-405b",
    ("qwen3", "0.6B"): "qwen3-0.6b",
    ("qwen3", "1.7B"): "qwen3-1.7b",
    ("qwen3", "4B"): "qwen3-4b",
    ("qwen3", "8B"): "qwen3-8b",
    ("qwen3", "14B"): "qwen3-14b",
    ("qwen3", "32B"): "qwen3-32b",
    ("qwen3", "30B-A3B"): "qwen3-30b-a3b",
    ("qwen3", "235B-A22B"): "qwen3-235b-a22b",
    ("deepseek_v3", "671B"): "deepseek-v3",
    ("deepseek_v3", "kimi_k2"): "kimi-k2",
    **{("qwen2", f"{size}B"): f"qwen2.5-{size}b" for size in ("0.5", "1.5", "3", "7", "14", "32", "72")},
    ("gpt_oss", "20b"): "gpt-oss-20b",
    ("gpt_oss", "120b"): "gpt-oss-120b",
}
"""torchtitan 0.2.2, torchtitan/models/*/__init__.py: name and flavor, and the published model of these sizes.

Those of Llama 2 are of its versions before 0.1.
"""

VARIANTS: Final = re.compile(
    r"(?:[\w.]+\.)?(?P<name>llama[234]?|qwen[23]|gpt_oss|deepseek_v3)(?:_(?!(?:mm|multimodal|vl|vlm|vision|next)\b)[a-z]\w*)?"
)
"""Models that are parallelised otherwise, as `simple_fsdp.llama3`, and what of their names says the model."""


def of_flavor(name: str, flavor: str) -> tuple[str, Decoder] | None:
    """The model of torchtitan's name and flavor, as `--model` calls it; None for one that is not among ours."""
    plain, variant = plain_flavor(flavor), VARIANTS.fullmatch(name)
    name = variant["name"] if variant else name
    name = "llama2" if name == "llama" else name
    if (name, plain) in UNPUBLISHED:
        return UNPUBLISHED[name, plain]
    published = FLAVORS.get((name, plain))
    model = PUBLISHED.get(published or "")
    return (published, model) if published and isinstance(model, Decoder) else None


def of_name(name: str) -> tuple[str, Decoder] | None:
    """The model of a repository such as `meta-llama/Llama-3.1-8B-Instruct`, by its own name; None for another one."""
    models = {**{n: m for n, m in PUBLISHED.items() if isinstance(m, Decoder)}, **dict(UNPUBLISHED.values()), **ALIASES}
    known = of_repository(name, models)
    return None if known is None else (known, models[known])


ALIASES: Final = {
    "deepseek-v2-lite": DEEPSEEK_16B,
    "deepseek-v2": DEEPSEEK_236B,
    "deepseek-v3.1": DEEPSEEK,
    "deepseek-r1": DEEPSEEK,
    **{
        name.replace("2.5", "2"): model
        for name, model in PUBLISHED.items()
        if isinstance(model, Decoder) and name.startswith("qwen2.5")
    },
}
"""Models by further names."""


def plain_flavor(flavor: str) -> str:
    """A flavor without what it says of its attention, of adapters, and of how experts are balanced."""
    return re.sub(r"_(?:(?:flex|varlen|sdpa)(?:_attn)?|irope|q?lora|llep)$", "", flavor)


def flavor_of(published: str) -> tuple[str, str] | None:
    """Torchtitan's name and flavor of a published model; those of Llama 3.1 are Llama 3's."""
    for flavor, (called, _) in UNPUBLISHED.items():
        if published == called:
            return flavor
    return {model: flavor for flavor, model in FLAVORS.items()}.get(published.replace("llama3.1-", "llama3-"))


def published_decoder(name: str) -> Decoder | None:
    """A published decoder by name; None if there is none."""
    model = PUBLISHED.get(name)
    return model if isinstance(model, Decoder) else None


@lru_cache(maxsize=16)
def name_of(model: Decoder) -> str:
    """The published name of a model of these sizes, whatever its context; a name by its sizes if there is none."""
    sizes = _sizes(model)
    found = [name for name, known in PUBLISHED.items() if isinstance(known, Decoder) and _sizes(known) == sizes]
    named = f"{model.layers} layers of {model.width}"
    return next((name for name in found if PUBLISHED[name].position == model.position), (*found, named)[0])  # pyright: ignore


def called(model: Decoder) -> tuple[str, Decoder]:
    """A model that options state, by the published name of its sizes, with what the published one calls its weights.

    What else sets that one apart is not assumed: options state it, or the framework trains another model.
    """
    name = name_of(model)
    known = published_decoder(name)
    if known is None:
        return name, model
    one, other = model.names, known.names
    alike = all(bool(getattr(one, part)) == bool(getattr(other, part)) for part in ("attended_norm", "changed_norm"))
    context = model.context if model.position == "learned" else known.context  # of which there is an embedding
    model = replace(model, context=context, names=known.names if alike else model.names)
    same = replace(known, context=context, dropout=model.dropout, attention_dropout=model.attention_dropout)
    return name, same if explicit(same) == explicit(model) else model


def explicit(model: Decoder) -> Decoder:
    """A model whose fields that follow from others are stated, and those without effect are at their defaults."""
    plain = Decoder(layers=1, width=1, heads=1, ffn=1, vocabulary=1, context=1)
    of_experts = ("top_k", "expert_ffn", "shared_experts", "dense_layers", "experts_every", "router")
    if model.experts is None:
        model = replace(model, **{name: getattr(plain, name) for name in of_experts})
    if isinstance(model.position, Rotary):
        position = model.position
        unscaled = Rotary(position.theta, scale=position.scale)
        model = replace(model, position=unscaled if position.factor == 1 else position, rotary_size=model.rotated)
    else:
        model = replace(model, rotary_size=None, unrotated_every=None)
    if model.position != "learned":
        model = replace(model, names=replace(model.names, positions=""))
    return replace(
        model,
        kv_heads=model.shared_heads,
        head_size=model.size,
        head_norm=model.head_norm and model.latent is None,  # of latent attention, its parts are
        norm_bias=model.norm_bias or model.norm != "layer",
        window_every=model.window_every if model.window else 1,
        shared_experts=model.shared_experts or None,
        dense_layers=model.dense_layers or None,
        out_bias=model.attention_bias if model.out_bias is None else model.out_bias,
        attention_dropout=model.dropout if model.attention_dropout is None else model.attention_dropout,
    )


def of_these_sizes(model: Decoder) -> tuple[str, Decoder] | None:
    """The published model of these sizes, whatever the vocabulary; None if there is none, or several."""
    theta = model.position.theta if isinstance(model.position, Rotary) else None
    found = [
        (name, known)
        for name, known in PUBLISHED.items()
        if isinstance(known, Decoder)
        and _sizes(replace(known, vocabulary=model.vocabulary)) == _sizes(model)
        and (known.position.theta if isinstance(known.position, Rotary) else None) == theta
    ]
    return found[0] if len({known.vocabulary for _, known in found}) == 1 else None


def _sizes(model: Decoder) -> dict[str, Any]:
    plain = replace(model, names=Decoder(layers=1, width=1, heads=1, ffn=1, vocabulary=1, context=1).names)
    kept = ("layers", "width", "heads", "shared_heads", "ffn", "vocabulary", "experts", "top_k", "expert_ffn", "tied",
            "dense_layers", "experts_every")  # fmt: skip
    kind = plain.position if isinstance(plain.position, str) else "rotary"
    is_layer, latent = plain.norm == "layer", plain.latent
    more = {"size": plain.size, "gated": plain.gated, "position": kind, "is_layer": is_layer, "latent": latent}
    biases = {"attention_bias": plain.attention_bias, "mlp_bias": plain.mlp_bias, "window": plain.window}
    return {field: getattr(plain, field) for field in kept} | more | biases
