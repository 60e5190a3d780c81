"""What is measured: small MLP training, and GPT-2 in inference and training, over one and two ranks.

On a GPU, layers of published models, as wide as they are, and smaller programs, which wait for the host.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import distir
from distir.ir import Module
from distir.models import PUBLISHED, gpt2, mlp, named

SEED = 7
VOCABULARY, GPU_VOCABULARY = 512, 32000
STRATEGIES = {
    "mlp training": ("one", "one", "dp", "tp", "pp"),
    "gpt2 inference": ("one", "one", "dp", "tp", "pp"),
    "gpt2 training": ("one", "one", "dp", "tp", "pp"),
}
"""What is drawn from, by workload: half as often two ranks in each way as one."""

OF_EACH = 15

OVERLAPPED = {"mlp training": ("dp overlap", "pp overlap"), "gpt2 training": ("dp overlap", "pp overlap")}
"""Strategies with communication on streams of its own, drawn after the others."""

OVERLAPPED_OF_EACH = 4

ON_GPU = ("gpt3-350m", "gpt3-1.3b", "gpt3-6.7b", "llama2-13b", "llama3-8b", "qwen3-4b", "mistral-7b", "qwen3-30b-a3b")
"""Published models of which a GPU runs some layers."""

SMALL_ON_GPU = ("mlp training", "gpt2 inference", "gpt2 training")
ON_GPU_OF_EACH = 2


@dataclass(frozen=True, slots=True)
class Configuration:
    """One program. `tokens` is 0 for an MLP."""

    number: int
    workload: str
    strategy: str
    layers: int
    width: int
    batch: int
    tokens: int
    on_gpu: bool = False

    @property
    def ranks(self) -> int:
        return 1 if self.strategy == "one" else 2

    @property
    def phase(self) -> str:
        """`inference` or `training`."""
        return self.workload.split()[1]

    @property
    def dtype(self) -> str:
        return "BFloat16" if self.on_gpu else "Float32"

    def program(self) -> Module:
        """The distributed program."""
        model, phase = self.workload.split()
        if model == "mlp":
            module = mlp(self.layers, self.width, self.batch, self.dtype, training=True)
        elif model in PUBLISHED:
            sizes = {"layers": self.layers, "vocabulary": GPU_VOCABULARY}
            module = named(model, self.batch, self.tokens, **sizes)
        else:
            heads = self.width // 32
            module = gpt2(self.layers, self.width, heads, self.tokens, self.batch, VOCABULARY, dtype=self.dtype)
        if phase == "training" and model != "mlp":
            optimizer = "adam" if self.on_gpu else "sgd"
            module = distir.transform(module, "grad", "loss=cross_entropy", f"optimizer={optimizer}")
        match self.strategy:
            case "dp":
                return distir.transform(module, "dp=2")
            case "tp":
                return distir.transform(module, "tp=2")
            case "pp":
                return distir.transform(module, "pp=2", microbatches=2)
            case "dp overlap":
                return distir.transform(module, "dp=2", "overlap=gradients", bucket_bytes=1 << 20)
            case "pp overlap":
                return distir.transform(module, "pp=2", "microbatches=2", "overlap=transfers")
        return module


def drawn_on_gpu() -> list[Configuration]:
    """Those for one GPU, in BFloat16: layers of published models, and smaller ones that wait for the host."""
    choose = random.Random(SEED)
    found: list[Configuration] = []
    for model in ON_GPU:
        for phase in ("inference", "training"):
            longest = (1024, 2048) if model.startswith("gpt3") else (1024, 2048, 4096)
            every = [(layers, batch, tokens) for layers in (1, 2, 4) for batch in (1, 2) for tokens in longest]
            for layers, batch, tokens in choose.sample(every, ON_GPU_OF_EACH):
                found.append(
                    Configuration(len(found), f"{model} {phase}", "one", layers, 0, batch, tokens, on_gpu=True)
                )
    for workload in SMALL_ON_GPU:
        for _ in range(2 * ON_GPU_OF_EACH):
            found.append(replace(_one(choose, len(found), workload, "one"), on_gpu=True))
    return found


def drawn() -> list[Configuration]:
    """The configurations; always the same, and no two alike."""
    choose = random.Random(SEED)
    found: list[Configuration] = []
    series = [(*one, OF_EACH) for one in STRATEGIES.items()]
    series += [(*one, OVERLAPPED_OF_EACH) for one in OVERLAPPED.items()]
    for workload, strategies, count in series:
        for number in range(count):
            drawn = _one(choose, len(found), workload, strategies[number % len(strategies)])
            while any(replace(drawn, number=other.number) == other for other in found):
                drawn = _one(choose, len(found), workload, drawn.strategy)
            found.append(drawn)
    return found


def _one(choose: random.Random, number: int, workload: str, strategy: str) -> Configuration:
    layers = choose.choice((2, 4, 6))
    if workload == "mlp training":
        width, batch, tokens = choose.choice((64, 128, 256, 512, 1024)), choose.choice((16, 64, 256)), 0
    else:
        width, batch = choose.choice((64, 128, 256, 512)), choose.choice((2, 4, 8))
        tokens = choose.choice((16, 32, 64, 128) if workload == "gpt2 inference" else (16, 32, 64))
    return Configuration(number, workload, strategy, layers, width, batch, tokens)
