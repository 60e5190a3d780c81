"""Families of models as users have them: small ones with random weights, most of them raw models of `transformers`.

Each builder gives a module in evaluation mode and its inputs by name, all of which carry the batch along their first
dimension. Sizes divide by 2 wherever a strategy splits them: the batch, heads, experts, channels, layers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import transformers
from torch import nn

BATCH, SEQUENCE, VOCABULARY, HIDDEN, LAYERS, HEADS = 4, 12, 96, 64, 2, 4
COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 128,
}
SHARED_HEADS = {**COMMON, "num_key_value_heads": 2}

Example = tuple[nn.Module, dict[str, torch.Tensor]]

FAMILIES: dict[str, Callable[[], Example]] = {}
"""By name, what builds a model and its inputs. Builders draw from torch's generator: see `example`."""


def example(name: str) -> Example:
    """The model of a family, in evaluation mode, and its inputs; the same ones every time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module, inputs = FAMILIES[name]()
    return module.eval(), inputs


def family(build: Callable[[], Example]) -> Callable[[], Example]:
    """Register a builder under its own name."""
    FAMILIES[build.__name__] = build
    return build


def tokens() -> torch.Tensor:
    """Any of the vocabulary, but the few first that models may take for padding or beginnings."""
    return torch.randint(4, VOCABULARY, (BATCH, SEQUENCE))


def images(size: int = 32) -> torch.Tensor:
    return torch.randn(BATCH, 3, size, size)


# Decoders.


@family
def llama() -> Example:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHARED_HEADS)), {"input_ids": tokens()}


@family
def qwen3() -> Example:
    config = transformers.Qwen3Config(**SHARED_HEADS, head_dim=16)
    return transformers.Qwen3ForCausalLM(config), {"input_ids": tokens()}


@family
def gemma2() -> Example:
    config = transformers.Gemma2Config(**SHARED_HEADS, head_dim=16, sliding_window=8, query_pre_attn_scalar=16)
    return transformers.Gemma2ForCausalLM(config), {"input_ids": tokens()}


@family
def mistral() -> Example:
    config = transformers.MistralConfig(**SHARED_HEADS, sliding_window=8)
    return transformers.MistralForCausalLM(config), {"input_ids": tokens()}


@family
def mixtral() -> Example:
    config = transformers.MixtralConfig(**SHARED_HEADS, num_local_experts=4, num_experts_per_tok=2)
    return transformers.MixtralForCausalLM(config), {"input_ids": tokens()}


@family
def qwen3_moe() -> Example:
    config = transformers.Qwen3MoeConfig(
        **SHARED_HEADS, head_dim=16, moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2
    )
    return transformers.Qwen3MoeForCausalLM(config), {"input_ids": tokens()}


@family
def deepseek_v3() -> Example:
    """Latent attention; a dense layer, then one of experts in groups with one that all share."""
    attention = {
        "num_key_value_heads": 4,
        "kv_lora_rank": 16,
        "q_lora_rank": 24,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16,
        "v_head_dim": 16,
    }
    experts = {
        "first_k_dense_replace": 1,
        "moe_intermediate_size": 32,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "n_group": 2,
        "topk_group": 1,
        "n_shared_experts": 1,
    }
    config = transformers.DeepseekV3Config(**COMMON, **attention, **experts)
    return transformers.DeepseekV3ForCausalLM(config), {"input_ids": tokens()}


@family
def gpt_oss() -> Example:
    """Attention with sinks, of which every second one slides; experts with biases."""
    config = transformers.GptOssConfig(
        **{**SHARED_HEADS, "intermediate_size": 32},
        head_dim=16,
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
    )
    return transformers.GptOssForCausalLM(config), {"input_ids": tokens()}


@family
def mamba() -> Example:
    config = transformers.MambaConfig(
        vocab_size=VOCABULARY, hidden_size=HIDDEN, num_hidden_layers=LAYERS, state_size=8, time_step_rank=4
    )
    return transformers.MambaForCausalLM(config), {"input_ids": tokens()}


@family
def mamba2() -> Example:
    config = transformers.Mamba2Config(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        state_size=8,
        num_heads=8,
        head_dim=16,
        n_groups=1,
        chunk_size=4,
    )
    return transformers.Mamba2ForCausalLM(config), {"input_ids": tokens()}


class Recurrent(nn.Module):
    """Tokens, two layers of LSTM, scores of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.LSTM(HIDDEN, HIDDEN, num_layers=LAYERS, batch_first=True)
        self.head = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(input_ids))[0])


@family
def lstm() -> Example:
    return Recurrent(), {"input_ids": tokens()}


# Encoders, and encoders with decoders.


@family
def bert() -> Example:
    """With a mask that leaves out the last tokens of every second sequence."""
    mask = torch.ones(BATCH, SEQUENCE, dtype=torch.long)
    mask[1::2, -3:] = 0
    return transformers.BertModel(transformers.BertConfig(**COMMON), add_pooling_layer=False), {
        "input_ids": tokens(),
        "attention_mask": mask,
    }


@family
def t5() -> Example:
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=HIDDEN, d_kv=16, d_ff=128, num_layers=LAYERS, num_heads=HEADS
    )
    model = transformers.T5ForConditionalGeneration(config)
    return model, {"input_ids": tokens(), "decoder_input_ids": tokens()}


@family
def whisper() -> Example:
    """Sound as 16 bands at 40 times."""
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        num_mel_bins=16,
        d_model=HIDDEN,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_source_positions=20,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        begin_suppress_tokens=None,
        suppress_tokens=None,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    return model, {"input_features": torch.randn(BATCH, 16, 40), "decoder_input_ids": tokens()}


VISION = {
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 128,
    "image_size": 32,
    "patch_size": 8,
}


@family
def clip() -> Example:
    text = {**COMMON, "max_position_embeddings": 32, "eos_token_id": 2, "bos_token_id": 1}
    config = transformers.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=32)
    return transformers.CLIPModel(config), {"input_ids": tokens(), "pixel_values": images()}


@family
def vit() -> Example:
    return transformers.ViTForImageClassification(transformers.ViTConfig(**VISION)), {"pixel_values": images()}


# Convolutions.

STAGES = {"hidden_sizes": [16, 32, 32, 64], "depths": [1, 2, 1, 1]}


@family
def resnet() -> Example:
    config = transformers.ResNetConfig(embedding_size=16, **STAGES)
    return transformers.ResNetForImageClassification(config), {"pixel_values": images()}


@family
def convnext() -> Example:
    return transformers.ConvNextForImageClassification(transformers.ConvNextConfig(**STAGES)), {
        "pixel_values": images()
    }


class UNet(nn.Module):
    """Down and up again, with group norms; one step up is learned, one takes the nearest."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.down, self.deep = self.block(3, channels), self.block(channels, 2 * channels)
        self.bottom = self.block(2 * channels, 2 * channels)
        self.nearest, self.learned = nn.Upsample(scale_factor=2), nn.ConvTranspose2d(2 * channels, channels, 2, 2)
        self.up, self.out = self.block(2 * channels, channels), nn.Conv2d(channels, 3, 1)
        self.pool = nn.MaxPool2d(2)

    @staticmethod
    def block(before: int, after: int) -> nn.Sequential:
        first = [nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU()]
        return nn.Sequential(*first, nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU())

    def forward(self, sample: torch.Tensor) -> torch.Tensor:
        wide = self.down(sample)
        deep = self.deep(self.pool(wide))
        deep = self.nearest(self.bottom(self.pool(deep))) + deep
        return self.out(self.up(torch.cat([self.learned(deep), wide], 1)))


@family
def unet() -> Example:
    return UNet(), {"sample": images(16)}
