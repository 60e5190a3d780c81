"""Models by the names of repositories, `meta-llama/Llama-3.1-8B-Instruct`, and as people spell them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

SAME_SIZES: Final = {
    "llama3.3": "llama3.1",
    "metallama": "llama",
    "mistral7binstructv0.2": "mistral7b",
    "qwen2.5coder": "qwen2.5",
    "qwen2.5math": "qwen2.5",
}
"""Beginnings of names of repositories that are those of models with the same sizes."""

TRAINED: Final = re.compile(r"(?:instruct|chat|base|hf|it|pt|v0\.1|thinking|\d{4}|bnb|[48]bit|unsloth|gguf|bf16|fp8)*")
"""What names of repositories say of how a model was trained, and in which form its weights are."""


def of_repository(name: str, models: Collection[str]) -> str | None:
    """That of `models` which a repository is of, by its own name; None for another one.

    Beside the model, a name may say how it was trained, and in which form its weights are. A name that says more, such
    as a size, is another model's.
    """
    own = name.strip("/").rpartition("/")[2].lower()
    return _of_words(own, models) or _of_words(re.sub(r"(?<=\d)_(?=\d)", ".", own, count=1), models)  # `llama3_1`


def _of_words(name: str, models: Collection[str]) -> str | None:
    plain = re.sub(r"[-_\s]", "", name)
    for begin, same in SAME_SIZES.items():
        plain = same + plain.removeprefix(begin) if plain.startswith(begin) else plain
    for known in sorted(models, key=len, reverse=True):
        short = known.replace("-", "")
        if plain.startswith(short) and TRAINED.fullmatch(plain[len(short) :]):
            return known
    return None
