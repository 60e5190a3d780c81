"""Small copies of configurations of `transformers`: the same model with fewer layers and narrower ones.

Sizes are divided alike, so that those that depend on each other still do. What a model chooses of the sequence (a
window, the best keys) is less than the sequence of a copy, so that the choice counts. The names of settings tell what
they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

SEQUENCE = 12
"""Tokens of a sequence of a copy."""

CHOSEN = 5
"""Of these so many are in a window, or are chosen."""

VOCABULARY = 96
EXPERTS = 16

WINDOW = re.compile(
    r"sliding_window(_size)?$|^(attention_)?window(_size)?$|index_topk$|(index|sparse)_block_size$|attention_chunk_size$"
)
BLOCKS = re.compile(r"(index|sparse)_topk_blocks$")
VOCAB = re.compile(r"vocab_size(_per_layer_input)?$")
TOKEN = re.compile(r"_token_id$|_token_index$")
COUNT_OF_EXPERTS = re.compile(r"^(moe_)?(num|n)_(local_|routed_)?experts$")
OF_HEAD = re.compile(r"head_?(dim|size)$|d_head$|^(qk|v)_.*dim$|^d_kv$|_head_dim$|^rotary_dim$")
HEADS = re.compile(r"(^|_)(n|num)_(\w+_)?heads?$|_attention_heads$|^heads?$")
WIDTH = re.compile(
    r"(_size|_dim|_rank|_width|_channels)$|d_(state|ssm)$|^d_(model|ff|inner)$|^n_(embd|inner)$|^ffn?_\w*dim$|^dim$"
)
NO_WIDTH = re.compile(r"vocab|batch|patch|merge|kernel|chunk|block|image|group|max_|position|conv_size|type_")
SCAN, WIDTH_OF_SCAN = "mamba_", "mamba_d_ssm"
"""What a scan is called, and the setting with which its sizes do not depend on others."""

SECTIONS = re.compile(r"mrope_section$|^(short|long)_factor$")


def small(stated: Mapping[str, Any], hidden: int | None = None, heads: int | None = None) -> dict[str, Any]:
    """The settings of a configuration, made smaller. `hidden`, `heads`: of the model, where they have other names."""
    apart = {name: value for name, value in stated.items() if name.startswith(SCAN) and stated.get(WIDTH_OF_SCAN)}
    if 0 < len(apart) < len(stated):
        return small({n: v for n, v in stated.items() if n not in apart}, hidden, heads) | small(apart)
    numbers = {name: value for name, value in stated.items() if type(value) is int and value > 0}
    counts = [value for name, value in numbers.items() if HEADS.search(name) and value > 1]
    fewer = _divisor(counts, 2, 1)
    of_heads = [value for name, value in numbers.items() if OF_HEAD.search(name)]
    width = numbers.get("hidden_size", hidden)
    number = numbers.get("num_attention_heads", heads)
    narrower = _divisor(of_heads or ([width // number] if width and number else []), 8, 2)
    found = {name: _smaller(name, value, narrower, fewer) for name, value in stated.items()}
    return {name: min(v, VOCABULARY - 1) if TOKEN.search(name) and type(v) is int else v for name, v in found.items()}


def _divisor(sizes: list[int], least: int, unit: int) -> int:
    """The largest power of two that leaves multiples of `unit` of at least so much."""
    found = 1
    while sizes and all(size % (2 * found * unit) == 0 and size // (2 * found) >= least for size in sizes):
        found *= 2
    return found


def _smaller(name: str, value: Any, narrower: int, fewer: int) -> Any:
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, Any]", value)
        if "model_type" in inner:
            return small(inner)
        return {key: _smaller(str(key), each, narrower, fewer) for key, each in inner.items()}
    if SECTIONS.search(name) and hasattr(value, "__iter__"):
        return _of_sections([*value], narrower)
    if isinstance(value, list):  # for example one for each layer
        return [_smaller(name, each, narrower, fewer) for each in cast("list[Any]", value)]
    if type(value) is not int or value <= 1:
        return value
    return next(_sizes(name, value, narrower, fewer), value)


def _of_sections(listed: list[Any], narrower: int) -> list[Any]:
    """What is said of the parts of a head, or of each of its frequencies."""
    return [n // narrower for n in listed] if all(type(n) is int for n in listed) else listed[::narrower]


def _sizes(name: str, value: int, narrower: int, fewer: int) -> Iterator[int]:
    """What a number becomes, by what its name says that it is."""
    if WINDOW.search(name):
        yield min(value, CHOSEN)
    elif BLOCKS.search(name):
        yield 1 if value == 1 else 2  # of three
    elif VOCAB.search(name):
        yield min(value, VOCABULARY)
    elif COUNT_OF_EXPERTS.search(name):
        yield min(value, EXPERTS)
    elif OF_HEAD.search(name):
        yield max(2, value // narrower)
    elif HEADS.search(name) or (name.endswith("n_groups") and value > 1):
        yield max(1, value // fewer)
    elif WIDTH.search(name) and not NO_WIDTH.search(name):
        yield min(value, max(8, value // (narrower * fewer) // 4 * 4))
