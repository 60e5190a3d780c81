"""Short programs of equal layers: they add up to the whole, statement by statement, and so do stages made of them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from search_samples import MLP, UNEVEN

import distir
from distir.analysis import check
from distir.cost import load
from distir.ir import Apply, Call
from distir.models import named
from distir.search import Space, Subject, Workers
from distir.search.bounded import bounded
from distir.search.bounds import PlanBounds
from distir.search.estimate import Estimates
from distir.search.evaluate import evaluate
from distir.search.plans import Plans
from distir.search.sequential import load_at, sequential
from distir.search.shortened import PartOf, parts
from distir.search.stages import StageBounds, stage_of
from distir.search.whole import admitted, whole
from distir.transform import transform
from distir.transform.strategy import Strategy

SIZES = {"width": 128, "heads": 4, "kv_heads": 2, "ffn": 256, "vocabulary": 512}
STEP = ("grad", "optimizer=adamw", "precision=mixed")


def llama(layers, *steps, **sizes):
    return transform(named("llama3-8b", None, 128, layers=layers, **{**SIZES, **sizes}), *steps)


DENSE = llama(6, *STEP)
EXPERTS = transform(
    named(
        "mixtral-8x7b", None, 128, layers=5, **{k: v for k, v in SIZES.items() if k != "ffn"}, experts=4, expert_ffn=128
    ),
    *STEP,
)

TOGETHER = distir.parse(
    """
func @layer(%x: Tensor[Float32, (B, 64), 1], %w: Tensor[Float32, (64, 64), 1]) {
  %y = MatMul(%x, %w)
  %squared = Mul(%w, %w)
  return %y, %squared
}

func @main(%x0: Tensor[Float32, (B, 64), 1] {batch = 0}"""
    + "".join(f", %w{i}: Tensor[Float32, (64, 64), 1] {{param}}" for i in range(5))
    + ") {\n"
    + "".join(f"  %x{i + 1}, %s{i} = @layer(%x{i}, %w{i})\n" for i in range(5))
    + "  %all = Concat[axis = 0](%s0, %s1, %s2, %s3, %s4)\n  return %x5, %all\n}\n"
)
"""An op that needs something of each layer."""


def does(module):
    return Counter(
        statement.op if isinstance(statement, Apply) else f"@{statement.function}"
        for statement in module.entry().body
        if isinstance(statement, Apply | Call)
    )


@pytest.mark.parametrize("module", [DENSE, EXPERTS, llama(7)], ids=["training", "experts", "inference"])
def test_short_programs_add_up_to_the_whole(module):
    found = parts(module)
    assert sum(part.factor for part in found) == 1
    total = Counter()
    for factor, part in found:
        assert not check(part).errors
        assert len(part.entry().body) < len(module.entry().body)
        for what, times in does(part).items():
            total[what] += factor * times
    assert {what: times for what, times in total.items() if times} == does(module)


@pytest.mark.parametrize("module", [UNEVEN, llama(3, *STEP), TOGETHER], ids=["flat", "few", "together"])
def test_a_program_without_many_equal_layers_stays_whole(module):
    assert parts(module) == (PartOf(1, module),)


@pytest.mark.parametrize(
    ("module", "plan"),
    [
        (DENSE, Strategy(1, 1, 1, 2, fuse=True)),
        (DENSE, Strategy(1, 2, 1, 2, sequence=True, fuse=True, overlap=True)),
        (DENSE, Strategy(1, 2, 1, 2, checkpoint=True, recompute="products", fuse=True)),
        (DENSE, Strategy(1, 1, 1, context=2, kind="ring", overlap=True)),
        (EXPERTS, Strategy(4, 1, 1, 2, experts=4, fuse=True)),
    ],
    ids=str,
)
def test_a_stage_does_what_its_short_programs_add_up_to(module, plan):
    it = Subject("m", module, load("dgx-h100"))
    bounds, stage = StageBounds(it, 32), stage_of(plan)
    assert len(bounds.parts) > 1
    whole_one = bounds.spent(stage, [16], [PartOf(1, module)])
    assert whole_one[16].ops
    assert bounds.spent(stage, [16], bounds.parts)[16].ops == whole_one[16].ops


@pytest.mark.parametrize(
    "plan", [Strategy(1, 1, 1, 2, fuse=True), Strategy(1, 2, 1, 4, sequence=True, overlap=True)], ids=str
)
def test_a_stage_says_what_one_microbatch_more_takes(plan):
    """And what it holds: at least the inputs of all layers, no more than a step holds in all."""
    it = Subject("m", DENSE, load("dgx-h100"))
    bounds = StageBounds(it, 8 * plan.microbatches)
    assert bounds.figures(plan) is None
    least = bounds.seconds(plan)
    figures = bounds.figures(plan)
    one, two = (next(evaluate(it, replace(plan, microbatches=k), [8 * k])) for k in (1, 2))
    assert figures.seconds == pytest.approx(two.latency_s - one.latency_s, rel=1e-3)
    assert least <= figures.seconds * plan.microbatches
    assert 8 * 6 * 128 * SIZES["width"] * 2 / plan.tensor < figures.nbytes


def test_what_is_known_of_many_plans_is_what_is_known_of_each():
    it = Subject("m", DENSE, load("dgx-h100"))
    plans = admitted(it, whole(it, 4, (64,)).for_experts(None), 64, True)[0][::37]
    bounds = StageBounds(it, 64)
    assert not bounds.all_known(plans).any()
    for plan in plans[:: len(plans) // 3]:
        bounds.seconds(plan)
    found = bounds.all_known(plans)
    assert found.any()
    assert found.tolist() == [bounds.known(plan) for plan in plans]


def test_activations_are_known_where_the_optimizer_takes_more_memory_than_those_of_few_examples():
    """At least the inputs of layers are there, 128 tokens of 4,096 numbers of 2 bytes in an example."""
    layers, width = 4, 4096
    it = Subject("m", llama(layers, *STEP, width=width, heads=32, ffn=16384), load("dgx-h100"))
    assert sequential(it, load_at(it, 256), 256).saved > layers * 128 * width * 2


def test_activations_that_are_computed_again_take_no_memory():
    """But for the inputs of layers, and what one layer works with."""
    it = Subject("m", llama(8, *STEP), load("dgx-h100"))
    found = sequential(it, load_at(it, 256), 256)
    assert found.recomputed < 0.5 * found.saved


def test_the_best_plan_of_each_way_of_splitting_products_comes_first():
    it = Subject("m", EXPERTS, load("dgx-h100"))
    heavy = load_at(it, 64)
    plans = Plans.of([Strategy(8, 1, 1, k, experts=e) for e in (1, 2, 4) for k in (1, 2)] + [Strategy(4, 2, 1, 1)])
    estimates = Estimates(sequential(it, heavy, 64), heavy, it.hardware, 64, plans)
    scores = np.array([3.0, 4.0, 2.0, 1.0, 9.0, 9.5, np.inf])
    assert estimates.of_each_family(scores) == [3, 0, 4]


def test_estimates_know_the_stage_that_has_the_head():
    """A head as large as several layers: stages of equally many layers wait for the last one."""
    it = Subject("m", llama(8, *STEP, vocabulary=16384), load("dgx-h100"))
    heavy = load_at(it, 32)
    even, timed = (Strategy(1, 1, 4, 32, balance=balance) for balance in ("uniform", "cost"))
    alone, most = Strategy(4, 1, 1, 8), Strategy(1, 1, 4, 32, stages=(3, 2, 2, 1))
    plans = Plans.of([even, timed, alone, most])
    scores = Estimates(sequential(it, heavy, 32), heavy, it.hardware, 32, plans).scores()
    assert heavy.beside(8) > 0.3
    assert scores[1] < scores[0]
    assert scores[3] < scores[0]
    assert PlanBounds(heavy, it.hardware).seconds(even) == PlanBounds(heavy, it.hardware).seconds(timed)


def test_a_budget_is_not_used_up_where_nothing_is_faster():
    it = Subject("m", MLP, load("dgx-h100"))
    space = replace(whole(it, 4, (64,)), schedule=("1f1b",), micro_batches=(1, 4))
    plans, _ = admitted(it, space.for_experts(None), 64, True)
    budget = 48
    rows = list(bounded(it, plans, [64], Workers(jobs=1), budget=budget))
    best = min(row.latency_s for row in rows if row.fits)
    first = next(i for i, row in enumerate(rows) if row.fits and row.latency_s <= 1.001 * best)
    assert len(rows) < budget
    assert len(rows) - first >= budget // 4
    assert isinstance(space, Space)
