"""How many tokens there are, where a configuration names a tokenizer and not their number."""

from __future__ import annotations

import re
from typing import Final

SIZES: Final = (
    *(("llama4", 202048), ("llama3", 128256), ("llama2", 32000), ("codellama", 32016), ("mixtral", 32000)),
    *(("mistral7b", 32000), ("qwen3", 151936), ("qwen25", 151936), ("qwen2", 151936), ("deepseekv2", 102400)),
    *(("deepseekv3", 129280), ("deepseekr1", 129280), ("gptoss", 201088), ("kimik2", 163840), ("gemma2", 256000)),
    *(("gptneox", 50432), ("pythia", 50304), ("gpt2", 50257), ("falcon", 65024), ("llama", 32000)),
)
"""By what the name or the path of a tokenizer has in it, letters and digits alone: embeddings of the models of it."""

OWN: Final = {
    **dict.fromkeys(("LLamaTokenizer", "Llama2Tokenizer", "MistralTokenizer", "MixtralTokenizer"), 32000),
    **dict.fromkeys(("Qwen2Tokenizer", "Qwen3Tokenizer", "Qwen2VLTokenizer"), 151643),
    "LLama3Tokenizer": 128000,
    "BloomTokenizerFromHF": 250680,
    "FalconTokenizer": 65024,
    "GPT2BPETokenizer": 50257,
}
"""Tokens by the type of a tokenizer, without those that are added (`--extra-vocab-size` of Pai-Megatron-Patch)."""


def tokens_of(tokenizer: object) -> int | None:
    """The vocabulary of the models that a tokenizer is published with; None for one that is not known."""
    plain = re.sub(r"[^a-z0-9]", "", str(tokenizer or "").lower())
    return next((size for name, size in SIZES if name in plain), None)
