"""Small models of each published family, and the same in `transformers`, from configurations built by hand."""

import numpy as np
import torch
import transformers

from distir.models.decoder import Decoder
from distir.models.encoder import Bert, Vit
from distir.models.published import PUBLISHED, resized

SEQUENCE, BATCH, VOCABULARY = 12, 3, 96

FEW_EXPERTS = {"expert_ffn": 24, "experts": 8, "top_k": 3}

SMALL = {
    "llama2-7b": {"width": 32, "heads": 4, "ffn": 48},
    "llama3-8b": {"width": 32, "heads": 4, "kv_heads": 2, "ffn": 48},
    "llama3.1-8b": {"width": 32, "heads": 4, "kv_heads": 2, "ffn": 48},
    "mistral-7b": {"width": 32, "heads": 4, "kv_heads": 2, "ffn": 48, "window": 5},
    "mistral-small-24b": {"width": 32, "heads": 4, "kv_heads": 2, "head_size": 16, "ffn": 48},
    "mistral-large-123b": {"width": 32, "heads": 4, "kv_heads": 2, "ffn": 48},
    "qwen2.5-7b": {"width": 32, "heads": 4, "kv_heads": 2, "ffn": 48},
    "phi4-14b": {"width": 32, "heads": 4, "kv_heads": 2, "ffn": 48},
    "smollm3-3b": {"layers": 4, "width": 32, "heads": 4, "kv_heads": 2, "ffn": 48},
    "qwen3-0.6b": {"width": 32, "heads": 4, "kv_heads": 2, "head_size": 16, "ffn": 48},
    "qwen3-8b": {"width": 32, "heads": 4, "kv_heads": 2, "head_size": 16, "ffn": 48},
    "gemma2-2b": {"width": 32, "heads": 4, "kv_heads": 2, "head_size": 16, "ffn": 48, "window": 5},
    "gemma2-27b": {"width": 32, "heads": 4, "kv_heads": 2, "head_size": 8, "ffn": 48, "window": 5},
    "gpt3-125m": {"width": 32, "heads": 4, "ffn": 128},
    "mpt-7b": {"width": 24, "heads": 6, "ffn": 96},
    "mixtral-8x7b": {"width": 32, "heads": 4, "kv_heads": 2, "expert_ffn": 24, "experts": 4},
    "qwen3-30b-a3b": {
        "width": 32,
        "heads": 4,
        "kv_heads": 2,
        "head_size": 16,
        "expert_ffn": 24,
        "experts": 8,
        "top_k": 3,
    },
    "deepseek-v3": {
        "layers": 3,
        "width": 32,
        "heads": 4,
        "ffn": 48,
        "expert_ffn": 24,
        "experts": 16,
        "top_k": 3,
        "dense_layers": 1,
    },
    "kimi-k2": {"layers": 3, "width": 32, "heads": 4, "ffn": 48, "expert_ffn": 24, "experts": 8, "top_k": 3},
    "glm-4.5-air": {"layers": 3, "width": 32, "heads": 4, "kv_heads": 2, "head_size": 128, **FEW_EXPERTS},
    "glm-4.5": {"layers": 4, "width": 32, "heads": 4, "kv_heads": 2, "head_size": 128, **FEW_EXPERTS},
    "minimax-m2": {"width": 32, "heads": 4, "kv_heads": 2, "head_size": 128, **FEW_EXPERTS},
    "gpt-oss-20b": {
        "width": 32,
        "heads": 4,
        "kv_heads": 2,
        "head_size": 16,
        "expert_ffn": 24,
        "experts": 4,
        "top_k": 2,
        "window": 5,
    },
    "bert-base": {"width": 32, "heads": 4, "ffn": 48},
    "t5-small": {"width": 24, "heads": 4, "head_size": 8, "ffn": 48},
    "vit-b": {"width": 32, "heads": 4, "ffn": 48},
}
"""A model of each family, and sizes that make it small."""


def small(name):
    """The description of a small model of a family, with all that the model of that name has of its own but sizes."""
    model = PUBLISHED[name]
    same = (other for other in SMALL if other == name or _family(other) == _family(name))
    sizes = {"layers": 2, **SMALL[name if name in SMALL else next(same)]}
    if getattr(model, "kv_heads", None) is not None:
        sizes = {"kv_heads": 2, **sizes}
    return resized(name, model, sizes if isinstance(model, Vit) else {**sizes, "vocabulary": VOCABULARY})


def _family(name):
    """The first part of a name, and whether a model has experts."""
    return name.partition("-")[0], getattr(PUBLISHED[name], "experts", None) is not None


def config(name, model):
    """The configuration in `transformers`."""
    if isinstance(model, Decoder):
        if name.startswith("qwen3-") and model.experts is not None:
            return qwen3_moe(model)
        return next(made for family, made in DECODERS.items() if name.startswith(f"{family}-"))(model)
    if isinstance(model, Bert):
        return transformers.BertConfig(
            vocab_size=model.vocabulary,
            hidden_size=model.width,
            num_hidden_layers=model.layers,
            num_attention_heads=model.heads,
            intermediate_size=model.ffn,
            max_position_embeddings=model.context,
        )
    if isinstance(model, Vit):
        return transformers.ViTConfig(
            hidden_size=model.width,
            num_hidden_layers=model.layers,
            num_attention_heads=model.heads,
            intermediate_size=model.ffn,
            patch_size=model.patch,
            image_size=model.image,
            num_labels=model.classes,
        )
    return transformers.T5Config(
        vocab_size=model.vocabulary,
        d_model=model.width,
        d_kv=model.head_size,
        d_ff=model.ffn,
        num_layers=model.layers,
        num_heads=model.heads,
    )


def common(model, **others):
    return {
        "vocab_size": model.vocabulary,
        "hidden_size": model.width,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.shared_heads,
        "head_dim": model.size,
        "intermediate_size": model.ffn,
        "max_position_embeddings": model.context,
        "rms_norm_eps": model.epsilon,
        "tie_word_embeddings": model.tied,
        "pad_token_id": None,
        **others,
    }


def llama(model, **others):
    return transformers.LlamaConfig(**common(model, rope_parameters={"rope_type": "default", "rope_theta": 5e5}))


def llama2(model):
    return transformers.LlamaConfig(**common(model, rope_parameters={"rope_type": "default", "rope_theta": 1e4}))


def llama31(model):
    rope = {
        "rope_type": "llama3",
        "rope_theta": 5e5,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    return transformers.LlamaConfig(**common(model, rope_parameters=rope))


def mistral_large(model):
    rope = {"rope_type": "default", "rope_theta": 1e6}
    return transformers.MistralConfig(**common(model, sliding_window=None, rope_parameters=rope))


def mistral_small(model):
    rope = {"rope_type": "default", "rope_theta": 1e8}
    return transformers.MistralConfig(**common(model, sliding_window=None, rope_parameters=rope))


def mistral(model):
    rope = {"rope_type": "default", "rope_theta": 1e4}
    return transformers.MistralConfig(**common(model, sliding_window=model.window, rope_parameters=rope))


def qwen25(model):
    settings = common(model, rope_parameters={"rope_type": "default", "rope_theta": 1e6})
    del settings["head_dim"]
    return transformers.Qwen2Config(**settings)


def phi4(model):
    settings = common(model, rope_parameters={"rope_type": "default", "rope_theta": 250000.0})
    del settings["head_dim"]
    return transformers.Phi3Config(**settings)


def smollm3(model):
    settings = common(model, rope_parameters={"rope_type": "default", "rope_theta": 5e6})
    del settings["head_dim"]
    return transformers.SmolLM3Config(**settings, no_rope_layer_interval=4)


def qwen3(model):
    return transformers.Qwen3Config(**common(model, rope_parameters={"rope_type": "default", "rope_theta": 1e6}))


def gemma2(model):
    scalar = 144 if model.scale else model.size
    return transformers.Gemma2Config(**common(model, sliding_window=model.window, query_pre_attn_scalar=scalar))


def mixtral(model):
    rope = {"rope_type": "default", "rope_theta": 1e6}
    return transformers.MixtralConfig(
        **common(model, rope_parameters=rope, num_local_experts=model.experts, num_experts_per_tok=model.top_k)
        | {"intermediate_size": model.expert_ffn}
    )


def qwen3_moe(model):
    rope = {"rope_type": "default", "rope_theta": 1e6}
    return transformers.Qwen3MoeConfig(
        **common(model, rope_parameters=rope, num_experts=model.experts, num_experts_per_tok=model.top_k),
        moe_intermediate_size=model.expert_ffn,
        norm_topk_prob=True,
    )


def deepseek_v3(model):
    rope = {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
    }
    settings = common(model, rope_parameters=rope, max_position_embeddings=163840)
    del settings["head_dim"]
    return transformers.DeepseekV3Config(
        **settings,
        n_routed_experts=model.experts,
        num_experts_per_tok=model.top_k,
        moe_intermediate_size=model.expert_ffn,
        n_shared_experts=model.shared_experts,
        first_k_dense_replace=model.dense_layers,
        n_group=8,
        topk_group=4,
        norm_topk_prob=True,
        routed_scaling_factor=2.5,
        q_lora_rank=1536,
        kv_lora_rank=512,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
    )


def kimi_k2(model):
    made = deepseek_v3(model)
    made.rope_parameters |= {"rope_theta": 5e4, "factor": 32.0, "beta_fast": 1, "beta_slow": 1}
    made.n_group = made.topk_group = 1
    made.routed_scaling_factor = 2.827
    return made


def glm45(model):
    rope = {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5}
    return transformers.Glm4MoeConfig(
        **common(model, rope_parameters=rope),
        attention_bias=True,
        use_qk_norm=model.head_norm,
        n_routed_experts=model.experts,
        num_experts_per_tok=model.top_k,
        moe_intermediate_size=model.expert_ffn,
        n_shared_experts=1,
        first_k_dense_replace=model.dense_layers,
        n_group=1,
        topk_group=1,
        norm_topk_prob=True,
        routed_scaling_factor=2.5 if model.head_norm else 1.0,
    )


def minimax_m2(model):
    rope = {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5}
    settings = common(model, rope_parameters=rope, num_local_experts=model.experts, num_experts_per_tok=model.top_k)
    return transformers.MiniMaxM2Config(**settings | {"intermediate_size": model.expert_ffn})


def gpt_oss(model):
    rope = {
        "rope_type": "yarn",
        "rope_theta": 150000.0,
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "original_max_position_embeddings": 4096,
        "truncate": False,
    }
    settings = common(model, rope_parameters=rope, num_local_experts=model.experts, num_experts_per_tok=model.top_k)
    return transformers.GptOssConfig(**settings | {"intermediate_size": model.expert_ffn}, sliding_window=model.window)


def gpt3(model):
    return transformers.GPT2Config(
        vocab_size=model.vocabulary,
        n_positions=model.context,
        n_embd=model.width,
        n_layer=model.layers,
        n_head=model.heads,
        bos_token_id=0,
        eos_token_id=0,
    )


def mpt(model):
    return transformers.MptConfig(
        vocab_size=model.vocabulary,
        d_model=model.width,
        n_heads=model.heads,
        n_layers=model.layers,
        max_seq_len=model.context,
    )


DECODERS = {
    "llama2": llama2,
    "llama3": llama,
    "llama3.1": llama31,
    "mistral-large": mistral_large,
    "mistral-small": mistral_small,
    "mistral": mistral,
    "qwen2.5": qwen25,
    "phi4": phi4,
    "smollm3": smollm3,
    "kimi": kimi_k2,
    "glm": glm45,
    "minimax": minimax_m2,
    "qwen3": qwen3,
    "mixtral": mixtral,
    "deepseek": deepseek_v3,
    "gpt-oss": gpt_oss,
    "gemma2": gemma2,
    "gpt3": gpt3,
    "mpt": mpt,
}

CLASSES = {"BertConfig": "BertForMaskedLM", "ViTConfig": "ViTForImageClassification"}


def theirs(name, model):
    """The model of `transformers`, with weights large enough that every part of it counts."""
    settings = config(name, model)
    kind = type(settings).__name__
    maker = CLASSES.get(kind) or kind.replace("Config", "ForConditionalGeneration" if "T5" in kind else "ForCausalLM")
    if kind == "GPT2Config":
        maker = "GPT2LMHeadModel"
    made = getattr(transformers, maker)._from_config(settings, attn_implementation="eager")
    torch.manual_seed(0)
    made = made.double().eval()
    if made._can_set_experts_implementation():
        made.set_experts_implementation("eager")  # the other ones are for narrower types only
    with torch.no_grad():
        for weight in [*made.parameters(), *(b for n, b in made.named_buffers() if n.endswith("correction_bias"))]:
            weight.normal_(std=0.2)
    return made


def state(module, made):
    """Their weights under our names; those of linear layers are transposed, but for GPT-2's, which are (in, out)."""
    theirs, found, used = made.state_dict(), {}, set()
    linear = {
        f"{name}.weight"
        for name, part in made.named_modules()
        if isinstance(part, torch.nn.Linear) or type(part).__name__.lower().endswith("topkrouter")
    }
    for p in module.entry().params:
        if "batch" in p.roles:
            continue
        name, part = p.name, None
        if ".experts." in name and name not in theirs:  # gates and other products are one weight there
            part = "up" if "up_proj" in name else "gate"
            name = name.replace("gate_proj" if part == "gate" else "up_proj", "gate_up_proj")
        name, rows = fused(made, name)
        w = theirs[name].numpy()[rows]
        used.add(theirs[name].data_ptr())
        if name in linear or (".experts." in name and w.ndim == 3 and w.shape[1:] != expected_shape(made, p, part)):
            w = w.swapaxes(-1, -2)
        if part:
            w = half(made, w, part)
        found[p.name] = w
        assert w.shape == p.type.shape, p.name
    assert all(w.data_ptr() in used for w in theirs.values() if w.is_floating_point()), "every weight of theirs is ours"
    return found


def fused(made, name):
    """The weight of theirs that holds one of ours, and its rows there: Phi-4 has one for several."""
    config = made.config
    if config.model_type != "phi3":
        return name, slice(None)
    shared = config.hidden_size // config.num_attention_heads * config.num_key_value_heads
    queries = {"q_proj": config.hidden_size, "k_proj": shared, "v_proj": shared}
    gates = dict.fromkeys(("gate_proj", "up_proj"), config.intermediate_size)
    for whole, parts in (("qkv_proj", queries), ("gate_up_proj", gates)):
        start = 0
        for part, size in parts.items():
            if f".{part}." in name:
                return name.replace(part, whole), slice(start, start + size)
            start += size
    return name, slice(None)


def expected_shape(made, param, part):
    """The shape of a matrix of theirs that holds inputs first, as only gpt-oss's do."""
    inputs, outputs = param.type.shape[1:]
    return (inputs, outputs * 2 if part else outputs) if isinstance(made.config, transformers.GptOssConfig) else None


def half(made, w, part):
    """The gate, or the other product, of both: one after the other, or interleaved in gpt-oss."""
    if isinstance(made.config, transformers.GptOssConfig):
        return w[..., part == "up" :: 2]
    return np.split(w, 2, axis=-1)[part == "up"]


def inputs(module, seed=1):
    """Tokens, or images, by name."""
    generator = np.random.default_rng(seed)
    found = {}
    for p in module.entry().params:
        if "batch" in p.roles:
            shape = [BATCH if d == BATCH or not isinstance(d, int) else d for d in p.type.shape]
            is_int = p.type.dtype.kind == "int"
            found[p.name] = generator.integers(0, VOCABULARY, shape) if is_int else generator.normal(size=shape)
    return found
