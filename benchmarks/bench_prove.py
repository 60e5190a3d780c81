"""What a proof costs that a distributed program computes what the sequential one does: CPU time and memory.

    bench_prove.py [NAME …]    all: each of the table below; by default GPT-2 of the paper, forward and training step

`prove` alone, of a program that was just made; memory is the most so far, with both programs. Run it as a script.
Nothing is asserted: times depend on the machine.
"""

from __future__ import annotations

import sys

from timed import timed

from distir import models
from distir.ir import Module
from distir.prove import prove
from distir.transform import transform

TRAINING = "grad loss=cross_entropy optimizer=adam"

CASES = {
    "gpt2": ("gpt2-1.6b", None, "", "dtp=4,4,2 microbatches=4"),
    "gpt2-training": ("gpt2-1.6b", None, TRAINING, "dtp=4,4,2 microbatches=4"),
    "deepseek": ("deepseek-v3", 64, TRAINING, "ep=64"),
    "llama": ("llama3-405b", 64, TRAINING, "dtp=1,8,16 microbatches=16 sequence=true"),
    "llama-replicas": (
        "llama3-405b",
        1024,
        TRAINING,
        "dtp=64,8,16 microbatches=16 sequence=true representative=true",
    ),
}
"""By name: a model, its batch, the steps on one device, and those that distribute it."""

SIZES = {"B": 64}
"""Of named dimensions, which the models of the paper have."""


def sequential(model: str, batch: int | None, steps: str) -> Module:
    """The program on one device."""
    made = models.named(model) if batch is None else models.named(model, batch=batch)
    return transform(made, *steps.split()) if steps else made


def measure(name: str) -> None:
    """One case."""
    model, batch, steps, distributing = CASES[name]
    original = sequential(model, batch, steps)
    print(f"{model}{', training step' if steps else ''}: {distributing}")
    module = timed("transform", lambda: transform(original, *distributing.split()))
    found = timed("prove", lambda: prove(module, original, SIZES))
    size = sum(len(function.body) for function in module)
    print(f"    {'proved' if found.proved else 'not proved'}: {len(found.results)} results, {size:,} statements")


def main() -> None:
    """Each case that is named."""
    names = list(CASES) if sys.argv[1:] == ["all"] else sys.argv[1:]
    for name in names or ("gpt2", "gpt2-training"):
        measure(name)


if __name__ == "__main__":
    main()
