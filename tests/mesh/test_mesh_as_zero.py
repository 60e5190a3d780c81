"""Optimizer state on a mesh takes the time and memory of the step `zero`, or differs for a reason that is named.

Models, optimizers, and what else is done with a training step; each with stages of ZeRO on two replicas, on one device
each, with microbatches, and in a pipeline.
"""

from dataclasses import dataclass
from functools import cache

import pytest
from thorough import also_together

import distir
from distir.models import gpt2, named
from distir.simulate.simulation import simulate
from distir.transform.mesh import expand

SMALL = {"layers": 2, "batch": 8, "sequence": 8, "width": 32, "heads": 4, "vocabulary": 64, "dtype": "Float32"}
GROUPED = {**SMALL, "kv_heads": 2, "head_size": 8}

MODELS = {
    "gpt2": lambda: gpt2(**SMALL, positions=8),
    "llama": lambda: named("llama3-8b", **GROUPED, ffn=64),
    "gemma": lambda: named("gemma2-2b", **GROUPED, ffn=64),
    "mpt": lambda: named("mpt-7b", **SMALL, ffn=64),
    "mixtral": lambda: named("mixtral-8x7b", **GROUPED, experts=4, expert_ffn=32),
}

TIED = {"gpt2", "gemma", "mpt"}
"""Models whose head has the weight of the embedding."""

STEPS = {
    "sgd": "grad optimizer=sgd",
    "adam": "grad optimizer=adam",
    "lion": "grad optimizer=lion",
    "muon": "grad optimizer=muon",
    "adafactor": "grad optimizer=adafactor",
    "clipped": "grad optimizer=adam clip=1.0",
    "mixed": "grad optimizer=adamw precision=mixed",
    "checkpointed": "grad optimizer=adam checkpoint",
    "fp8": "fp8=tensor grad optimizer=adam",
}

PIPES = {"": "dp=2", "accumulate=4": "dtp=2,1,1 microbatches=4", "pp=2 microbatches=4": "dtp=2,1,2 microbatches=4"}
"""By the step before `mesh`: the steps of today that are the same."""


@dataclass(frozen=True)
class Reason:
    """Why the mesh differs: `why`, and between which factors its time and its peak memory are those of today."""

    why: str
    time: tuple[float, float] = (1, 1)
    memory: tuple[float, float] = (1, 1)


SAME = Reason("")
POSITIONS = Reason("`zero` leaves learned positions to every replica; they are split, scattered and gathered",
                   (0.996, 1.016), (0.98, 1))  # fmt: skip
MUON = Reason("the scale of an update is computed once, not on each part again", (0.96, 0.999))
AVERAGES = Reason("averages of rows and columns are summed over replicas; `zero` gives whole matrices to owners",
                  (1.2, 4), (0.98, 1.1))  # fmt: skip
RECOMPUTED = Reason("a gathered weight is shared by a recomputed layer and its backward pass; `zero` gathers it twice",
                    (0.85, 1), (1, 1.002))  # fmt: skip
PASSES = Reason("a tied weight of another stage is gathered in each pass; `zero` keeps it whole there", (0.98, 1.04))
ONCE = Reason(
    "a tied weight is gathered once for the forward pass, and `1 + scale` of a norm in each", (0.98, 1.01), (0.998, 1)
)
CAST = Reason(
    "both parts of a tied gradient are reduced with each of 4 microbatches, before they are cast: 7 messages more",
    (0.99, 1.03),
    (0.97, 1),
)


def reasons(model, step, pipe, zero, partition):
    """The reasons for which a step on the mesh may differ."""
    if partition == "owner":
        yield from [RECOMPUTED] if zero == 3 and step == "checkpointed" else []
        return
    if model == "gpt2":
        yield POSITIONS
    if step == "muon":
        yield MUON
    if step == "adafactor":
        yield AVERAGES
    if zero == 3 and step == "checkpointed":
        yield RECOMPUTED
    if zero == 3 and model in TIED:
        yield PASSES if pipe.startswith("pp") else ONCE
    if zero > 1 and model in TIED and step == "mixed" and pipe == "accumulate=4":
        yield CAST


@cache
def training(model, step):
    return distir.transform(MODELS[model](), *STEPS[step].split())


def cost(module):
    found = simulate(module, "dgx-a100")
    return found.latency_s, max(use.peak_memory_bytes for use in found.devices.values())


def within(found, before, bounds):
    """Whether a quotient is within all bounds together."""
    low, high = 1.0, 1.0
    for each_low, each_high in bounds:
        low, high = low * min(each_low, 1), high * max(each_high, 1)
    if len(bounds) == 1:
        low, high = bounds[0]
    return low * before <= found <= high * before


def as_zero(model, step, pipe, zero, partition="split"):
    """Time and memory of the mesh, and of `zero` after the steps of today."""
    words = [f"zero={zero}", f"partition={partition}"]
    made = distir.transform(training(model, step), *pipe.split(), "mesh", "dp=2", *words)
    before = distir.transform(training(model, step), *PIPES[pipe].split(), *words)
    return cost(expand(made)), cost(before)


CASES = [
    ("llama", "adam", "", 3, "split"),
    ("llama", "sgd", "", 1, "split"),
    ("llama", "sgd", "accumulate=4", 2, "split"),
    ("llama", "fp8", "", 3, "split"),
    ("llama", "checkpointed", "accumulate=4", 3, "split"),
    ("gemma", "adam", "pp=2 microbatches=4", 3, "split"),
    ("llama", "adafactor", "", 3, "owner"),
    ("llama", "clipped", "", 2, "owner"),
]
FURTHER = [
    (model, step, pipe, zero, "split")
    for model in MODELS
    for step in STEPS
    for pipe in PIPES
    for zero in (1, 2, 3)
    if not (step == "fp8" and pipe)  # a scale of the whole batch is not one of microbatches
]
OWNERS = [
    (model, step, pipe, zero, "owner")
    for model in ("llama", "mixtral")
    for step in ("adam", "muon", "adafactor", "clipped", "mixed", "checkpointed")
    for pipe in PIPES
    for zero in (1, 2, 3)
]


@pytest.mark.parametrize(
    ("model", "step", "pipe", "zero", "partition"),
    [*CASES, *also_together(*(case for case in (*FURTHER, *OWNERS) if case not in CASES))],
)
def test_state_on_a_mesh_takes_what_zero_takes(model, step, pipe, zero, partition):
    found = [*reasons(model, step, pipe, zero, partition)] or [SAME]
    (time, memory), (time_before, memory_before) = as_zero(model, step, pipe, zero, partition)
    assert within(time, time_before, [r.time for r in found]), time / time_before
    assert within(memory, memory_before, [r.memory for r in found]), memory / memory_before
