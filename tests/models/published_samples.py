"""Small models of each published family, and the same in `transformers`, from configurations built by hand."""

import numpy as np
import torch
import transformers

from distir.models.decoder import Decoder
from distir.models.encoder import Bert, Vit
from distir.models.published import PUBLISHED, resized

SEQUENCE, BATCH, VOCABULARY = 12, 3, 96

SMALL = {
    "llama2-7b": {"width": 32, "heads": 4, "ffn": 48},
    "llama3-8b": {"width": 32, "heads": 4, "kv_heads": 2, "ffn": 48},
    "llama3.1-8b": {"width": 32, "heads": 4, "kv_heads": 2, "ffn": 48},
    "mistral-7b": {"width": 32, "heads": 4, "kv_heads": 2, "ffn": 48, "window": 5},
    "qwen3-0.6b": {"width": 32, "heads": 4, "kv_heads": 2, "head_size": 16, "ffn": 48},
    "qwen3-8b": {"width": 32, "heads": 4, "kv_heads": 2, "head_size": 16, "ffn": 48},
    "gemma2-2b": {"width": 32, "heads": 4, "kv_heads": 2, "head_size": 16, "ffn": 48, "window": 5},
    "gemma2-27b": {"width": 32, "heads": 4, "kv_heads": 2, "head_size": 8, "ffn": 48, "window": 5},
    "gpt3-125m": {"width": 32, "heads": 4, "ffn": 128},
    "mpt-7b": {"width": 24, "heads": 6, "ffn": 96},
    "bert-base": {"width": 32, "heads": 4, "ffn": 48},
    "t5-small": {"width": 24, "heads": 4, "head_size": 8, "ffn": 48},
    "vit-b": {"width": 32, "heads": 4, "ffn": 48},
}
"""A model of each family, and sizes that make it small."""


def small(name):
    """The description of a small model of a family."""
    sizes = {"layers": 2, **SMALL[name]}
    model = PUBLISHED[name]
    return resized(name, model, sizes if isinstance(model, Vit) else {**sizes, "vocabulary": VOCABULARY})


def config(name, model):
    """The configuration in `transformers`."""
    if isinstance(model, Decoder):
        return DECODERS[name.split("-")[0]](model)
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


def mistral(model):
    rope = {"rope_type": "default", "rope_theta": 1e4}
    return transformers.MistralConfig(**common(model, sliding_window=model.window, rope_parameters=rope))


def qwen3(model):
    return transformers.Qwen3Config(**common(model, rope_parameters={"rope_type": "default", "rope_theta": 1e6}))


def gemma2(model):
    scalar = 144 if model.scale else model.size
    return transformers.Gemma2Config(**common(model, sliding_window=model.window, query_pre_attn_scalar=scalar))


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
    "mistral": mistral,
    "qwen3": qwen3,
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
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_(std=0.2)
    return made


def state(module, made):
    """Their weights under our names; those of linear layers are transposed, but for GPT-2's, which are (in, out)."""
    found = {}
    theirs = made.state_dict()
    linear = {f"{n}.weight" for n, m in made.named_modules() if isinstance(m, torch.nn.Linear)}
    for p in module.entry().params:
        if "param" in p.roles:
            w = theirs[p.name].numpy()
            found[p.name] = w.T if p.name in linear else w
    assert {n: a.shape for n, a in found.items()} == {
        p.name: p.type.shape for p in module.entry().params if "param" in p.roles
    }
    held = {theirs[name].data_ptr() for name in found}
    assert all(w.data_ptr() in held for w in theirs.values() if w.is_floating_point()), "every weight of theirs is ours"
    return found


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
