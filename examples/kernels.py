"""The kernels of one more layer, side by side: those of `fuse`, and those that torch.compile (Inductor) generates.

    python examples/kernels.py llama
    python examples/kernels.py llama gpt2 qwen3-moe

The same model of `transformers`, from its configuration, with random weights: imported and fused here, and compiled by
PyTorch for the CPU, where no GPU is needed to see what its scheduler fuses. Both take a training step of two and of
three layers; what three layers have more is what a layer costs. Needs torch and transformers.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import distir

torch: Any = importlib.import_module("torch")
transformers: Any = importlib.import_module("transformers")

WIDTH = {"vocab_size": 128, "hidden_size": 64, "num_attention_heads": 4, "use_cache": False}
DECODER = {**WIDTH, "num_key_value_heads": 2, "intermediate_size": 96}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 16}
NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
MODELS = {
    "llama": ("Llama", DECODER),
    "qwen3-moe": ("Qwen3Moe", {**DECODER, **EXPERTS}),
    "gpt2": ("GPT2", {**NO_DROPOUT, "vocab_size": 128, "n_embd": 64, "n_head": 4, "use_cache": False}),
}
"""Configurations by name, small: which kernels there are does not depend on sizes."""

PASSES = ("forward", "backward")
OURS_ALONE = re.compile(r"^(MatMul|Gemm|RaggedMatMul|Attention|Route|Dispatch|Permute|Unpermute|Gather)")
"""Ops that are products, attention and routing: libraries' kernels, or the hand-written ones of a router."""

Kernels = dict[str, list[str]]
"""By pass: names, in order."""


def model_of(name: str, layers: int) -> Any:
    """A model of `transformers` with so many layers."""
    kind, settings = MODELS[name]
    key = "n_layer" if name == "gpt2" else "num_hidden_layers"
    torch.manual_seed(0)
    chosen = getattr(transformers, f"{kind}Config")(**settings, **{key: layers})
    suffix = "LMHeadModel" if name == "gpt2" else "ForCausalLM"
    return getattr(transformers, f"{kind}{suffix}")(chosen)


def tokens() -> Any:
    """Two sequences of 16 tokens."""
    return torch.arange(32).reshape(2, 16)


def generated(name: str, layers: int) -> Kernels:
    """The loop nests that Inductor generates for a training step, by the calls of its wrapper."""
    inductor: Any = importlib.import_module("torch._inductor.utils")
    settings: Any = importlib.import_module("torch._inductor.config")
    settings.compile_threads, settings.force_disable_caches = 1, True
    torch.compiler.reset()
    compiled = torch.compile(model_of(name, layers))
    ids = tokens()

    def step() -> None:
        compiled(input_ids=ids, labels=ids).loss.backward()

    _, sources = inductor.run_and_get_code(step)
    found: Kernels = {part: [] for part in PASSES}
    for source in dict.fromkeys(sources):
        part = "backward" if "tangents_" in source else "forward"
        found[part] += re.findall(r"^\s+cpp_fused_(\w+?)(?:_\d+)?\(", source, re.M)
    return found


def fused(name: str, layers: int) -> Kernels:
    """The kernels of the imported model's training step, fused, without those of libraries."""
    ids = tokens()
    imported = distir.import_torch(model_of(name, layers).eval(), (ids,))
    step = distir.transform(imported, "grad", "loss=cross_entropy", "optimizer=none", "fuse")
    events = [event.op for event in distir.simulate(step, hardware="dgx-h100").timeline().events()]
    turn = next(number for number, op in enumerate(events) if "entropy" in op.lower() and "grad" in op.lower())
    parts = {"forward": events[:turn], "backward": events[turn:]}
    return {part: [op for op in ops if not OURS_ALONE.match(op)] for part, ops in parts.items()}


def of_a_layer(kernels: dict[int, Kernels], part: str) -> list[str]:
    """The kernels that three layers have more than two, by name, where names of both agree."""
    fewer, more = (kernels[layers][part] for layers in (2, 3))
    found = list((Counter(more) - Counter(fewer)).elements())
    surplus = len(found) - (len(more) - len(fewer))  # names that differ at the model's ends
    return found[: len(found) - surplus] if surplus > 0 else found


def compared(name: str) -> dict[str, tuple[list[str], list[str]]]:
    """By pass: the kernels of a layer, ours and Inductor's."""
    ours = {layers: fused(name, layers) for layers in (2, 3)}
    theirs = {layers: generated(name, layers) for layers in (2, 3)}
    return {part: (of_a_layer(ours, part), of_a_layer(theirs, part)) for part in PASSES}


def main(names: Sequence[str]) -> None:
    """Print both columns for each model."""
    for name in names or list(MODELS):
        for part, (ours, theirs) in compared(name).items():
            print(f"{name}, {part}: fuse {len(ours)}, Inductor {len(theirs)}")
            for mine, other in zip_longest(ours, theirs, fillvalue=""):
                print(f"  {mine:44} {other}")


if __name__ == "__main__":
    main(sys.argv[1:])
