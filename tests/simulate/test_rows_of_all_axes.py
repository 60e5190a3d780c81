"""One law of all axes: the row of a plan, its representative and the whole program of its steps are equal, to the bit.

Plans are drawn from what the axes of a search declare, so that a new one takes part by itself. `DISTIR_TEST_SEED` draws
others.
"""

import os
import random
from dataclasses import replace

import pytest
from simulate_samples import with_hosts
from thorough import ALL, most_programs

from distir.cost import load
from distir.cost.host import Host
from distir.diagnostics import ProgramError
from distir.models import gpt2, mlp, named
from distir.ops import Reject
from distir.ops.attention import CONTEXTS
from distir.search import Space, Subject
from distir.search.distributed import program
from distir.search.evaluate import evaluate
from distir.search.space import divisors
from distir.simulate import BindError, simulate
from distir.transform import transform
from distir.transform.pipeline import SCHEDULES, SUMS
from distir.transform.steps import StepError
from distir.transform.strategy import AXES, BALANCES, RECOMPUTED, Strategy
from distir.transform.strategy.steps import words_of

PLANS = most_programs(300) if ALL else 8
SEED = int(os.environ.get("DISTIR_TEST_SEED", 0))

REFUSED = (ProgramError, StepError, Reject, BindError)

SMALL = {"width": 64, "heads": 4, "kv_heads": 2, "vocabulary": 96}
MODELS = {
    "mlp": (mlp(4, 64), "loss=mse"),
    "odd": (mlp(3, 66), "loss=mse"),  # with vectors that do not divide
    "gpt2": (gpt2(3, 64, 4, 8, vocabulary=96), "loss=cross_entropy"),
    "llama": (named("llama3-8b", None, 16, **SMALL, layers=4, ffn=128), "loss=cross_entropy"),
    "mixtral": (named("mixtral-8x7b", None, 16, **SMALL, layers=2, experts=4, expert_ffn=128), "loss=cross_entropy"),
}
MACHINES = {
    "node": load("dgx2-v100"),
    "nodes": load("2x-dgx-a100"),
    "hosts": with_hosts(load("2x-dgx-a100"), Host(3e-6), interference=0.2),
}
PRECISIONS = ("", "precision=mixed", "precision=mixed gradients=bf16")
OPTIMIZERS = ("", "optimizer=sgd", "optimizer=adamw", "optimizer=muon")
BEFORE, BEHIND = ("", "", "inline", "outline=2"), ("", "", "cse", "offload=activations")

WIDE = Space(
    1,
    microbatches=(2, 4, 5, 8, 12, 20),
    schedule=tuple(sorted(SCHEDULES)),
    zero=(0, 1, 2, 3),
    checkpoint=(False, True),
    all_divisors=True,
    sums=SUMS,
    fuse=None,
    accumulate=(1, 2, 4),
    overlap=(False, True),
    context=(1, 2, 4),
    kind=CONTEXTS,
    virtual=(2, 3),
    shard=(2,),
    sequence=(False, True),
    balance=BALANCES,
    etp=(0, 1),
    chunks=(2, 4),
    passes=(False, True),
    cp_experts=(False, True),
    recompute=("", *RECOMPUTED, "full:1", "selective:1"),
)
"""Values of all axes. What stages annealing finds is no axis of a space."""


def drawn_subject(draw):
    """A model, mostly a step of training, on a machine."""
    model, loss = MODELS[draw.choice(sorted(MODELS))]
    steps = ["grad", loss, draw.choice(OPTIMIZERS), draw.choice(PRECISIONS)] if draw.random() < 0.9 else []
    if steps:
        steps = [draw.choice(BEFORE), *steps, draw.choice(BEHIND)]
    return Subject("drawn", transform(model, *" ".join(steps).split()), MACHINES[draw.choice(sorted(MACHINES))])


def drawn_plan(draw, subject):
    """A plan that goes through all axes, and a batch size that it divides; None if the model has no such one."""
    count, skew = subject.experts, draw.choice((0.0, 1.0, 1.5))
    devices = draw.choice((2, 2, 3, 4, 4, 6, 8, 8, 8, 16))
    space = replace(WIDE, devices=devices, experts=(1,) if count is None else tuple(divisors(count)), skew=skew)
    data, tensor, pipeline, context = draw.choice([*space.degrees()])
    plan = Strategy(data, tensor, pipeline, context=context)
    for axis in AXES:
        plan = replace(plan, **{axis.name: draw.choice(tuple(axis.tried(space, plan)))})
    if plan.data % plan.experts or (context > 1 and not subject.attends):
        return None
    if (plan.zero or plan.checkpoint) and not subject.trains:
        return None
    return plan, plan.data * plan.microbatches * draw.choice((1, 1, 2, 3))


def whole(subject, plan, size):
    """The figures of the program that the steps of the row write; None if a step refuses."""
    try:
        made = program(subject, plan, size)
        found = simulate(made, subject.hardware, bind={} if plan.chunks else {"B": size})
    except REFUSED:
        return None
    return found.latency_s, max(found.peaks.values())


def row_of(subject, plan, size, *, extrapolates):
    (row,) = evaluate(subject, plan, [size], extrapolates=extrapolates)
    return None if row.latency_s is None else (row.latency_s, row.peak_memory_bytes)


@pytest.mark.parametrize("number", range(PLANS))
def test_a_row_is_the_whole_program(number):
    draw = random.Random(number + 1000 * SEED)
    for _ in range(30):  # until one is carried out
        subject = drawn_subject(draw)
        found = drawn_plan(draw, subject)
        if found is None:
            continue
        plan, size = found
        expected = whole(subject, plan, size)
        said = f"{words_of(plan)} at {size}"
        assert row_of(subject, plan, size, extrapolates=False) == expected, said
        assert row_of(subject, plan, size, extrapolates=True) == expected, said
        if expected is not None:
            return


@pytest.mark.parametrize("overlap", [False, True])
def test_experts_that_other_replicas_share_are_gathered_in_the_order_of_their_representative(overlap):
    model, loss = MODELS["mixtral"]
    subject = Subject("experts", transform(model, "grad", loss), MACHINES["node"])
    plan = Strategy(4, 1, 1, zero=3, shard=2, experts=2, overlap=overlap)
    assert row_of(subject, plan, 4, extrapolates=False) == whole(subject, plan, 4)


def test_every_axis_is_drawn():
    draw, drawn = random.Random(0), {axis.name: set() for axis in AXES}
    subjects = [
        Subject("some", transform(MODELS[name][0], "grad", MODELS[name][1]), MACHINES["node"]) for name in MODELS
    ]
    for _ in range(2000):
        found = drawn_plan(draw, draw.choice(subjects))
        for axis in AXES if found is not None else ():
            drawn[axis.name].add(getattr(found[0], axis.name))
    assert [field for field, values in drawn.items() if len(values) < 2] == ["stages"]
