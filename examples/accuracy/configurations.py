"""What is measured: small MLP training, and GPT-2 in inference and training, over one and two ranks."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import distir
from distir.ir import Module
from distir.models import gpt2, mlp

SEED = 7
VOCABULARY = 512
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

    @property
    def ranks(self) -> int:
        return 1 if self.strategy == "one" else 2

    def program(self) -> Module:
        """The distributed program."""
        if self.workload == "mlp training":
            module = mlp(self.layers, self.width, self.batch, "Float32", training=True)
        else:
            heads = self.width // 32
            module = gpt2(self.layers, self.width, heads, self.tokens, self.batch, VOCABULARY, dtype="Float32")
            if self.workload == "gpt2 training":
                module = distir.transform(module, "grad", "loss=cross_entropy", "optimizer=sgd")
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
