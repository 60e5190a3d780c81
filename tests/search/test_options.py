"""Options that are tried of the best rows alone: where they are for what binds a row, and no option says otherwise."""

from dataclasses import replace

import pytest

from distir.cli.search_space import Tries
from distir.cost import load
from distir.models import named
from distir.search import Annealing, Search, Subject, Workers
from distir.search.binding import evaluated, other_machines
from distir.search.evaluate import evaluate
from distir.search.options import options
from distir.search.rows import Binding, Row
from distir.search.whole import OF_THE_BEST, whole
from distir.transform import transform
from distir.transform.strategy import Strategy

HERE = Workers(jobs=1)
SIZES = {"layers": 4, "width": 512, "heads": 8, "kv_heads": 4, "ffn": 1024, "vocabulary": 512}
LLAMA = transform(named("llama3-8b", None, 256, **SIZES), "grad", "optimizer=adamw", "precision=mixed")
SUBJECT = Subject("llama", LLAMA, load("dgx-h100"))
SPACE = whole(SUBJECT, 8, (32,))
CAPACITY = 1000


def row(plan, seconds, held, binding=None):
    fits = held <= CAPACITY
    return Row(
        "llama",
        32,
        plan,
        latency_s=seconds,
        throughput=32 / seconds,
        peak_memory_bytes=held,
        fits=fits,
        binding=binding,
    )


BOUND = {
    "links": Binding(0.8, 0.2, 0.0, 0.0, 0.5),
    "bubble": Binding(0.6, 0.0, 0.4, 0.0, 0.5),
    "compute": Binding(1.0, 0.0, 0.0, 0.0, 0.5),
}
PIPE = Strategy(2, 2, 2, 4, overlap=True)


@pytest.mark.parametrize(
    ("held", "by", "tried"),
    [
        (500, "compute", set()),
        (950, "compute", set()),
        (500, "links", {replace(PIPE, passes=True)}),
        (500, "bubble", {replace(PIPE, schedule="seq1f1b", chunks=2)}),
    ],
)
def test_what_binds_a_row_says_which_options_are_tried(held, by, tried):
    assert {*options([row(PIPE, 1.0, held, BOUND[by])], SPACE, CAPACITY)} == tried


def test_stages_by_memory_may_make_a_faster_row_fit():
    slower, faster = row(PIPE, 1.0, 500, BOUND["compute"]), row(Strategy(1, 2, 4, 8), 0.9, 1050)
    assert [*options([slower, faster], SPACE, CAPACITY)] == [Strategy(1, 2, 4, 8, balance="memory")]
    assert [*options([slower, replace(faster, latency_s=1.1)], SPACE, CAPACITY)] == []
    assert [*options([faster], SPACE, CAPACITY)] == []


def test_options_that_a_plan_does_not_admit_are_not_tried():
    alone, shared = Strategy(8, 1, 1, 4, overlap=True), Strategy(1, 2, 2, 4, context=2, kind="ring")
    assert [*options([row(alone, 1.0, 999, BOUND["links"])], SPACE, CAPACITY)] == []
    assert [*options([row(shared, 1.0, 500, BOUND["bubble"])], SPACE, CAPACITY)] == []


def is_option(plan):
    return plan.passes or plan.balance == "memory" or plan.chunks


def test_a_search_of_training_tries_options_of_its_best():
    ways = {"context": (1,), "overlap": (True,), "fuse": False, "micro_batches": (8,), "zero": (0,)}
    space = replace(whole(SUBJECT, 4, (32,)), fixed={"T": (2,), "P": (2,)}, **ways)
    search = Search(SUBJECT, space, "anneal", HERE, Annealing(2, pipelines=True), budget=3, explain=True)
    rows = [*search.rows()]
    tried = [one for one in rows if is_option(one.plan)]
    assert tried
    assert search.asked_for(rows) == rows, "a search that continues knows them"
    for one in tried[:2]:
        (same,) = evaluate(SUBJECT, one.plan, [32])
        assert one.latency_s == same.latency_s
    without = replace(search, space=replace(space, of_the_best=()), budget=1, explain=False, annealing=Annealing(1))
    assert not [one for one in without.rows() if is_option(one.plan)]


def test_what_is_stated_is_not_tried_otherwise():
    def left(**stated):
        return Tries(stated, (), (), {}, False).space(SUBJECT, 8, (32,), True).of_the_best

    assert left() == OF_THE_BEST
    assert {name for name, _ in left(passes=False)} == {"balance", "schedule"}
    assert {name for name, _ in left(schedule=("1f1b",))} == {"balance", "passes"}
    assert {name for name, _ in left(balance=("cost",))} == {"passes", "schedule"}


def test_contenders_know_what_they_would_take_elsewhere():
    """As a search of that machine says; others are not asked."""
    plan = Strategy(2, 2, 2, 4, zero=1, fuse=True)
    (one,) = evaluated(float("inf"), SUBJECT, plan, [32])
    machines = dict(other_machines(SUBJECT.hardware))
    assert set(one.elsewhere) == set(machines)
    for what, machine in machines.items():
        (there,) = evaluate(replace(SUBJECT, hardware=machine), plan, [32])
        assert one.elsewhere[what] == there.latency_s
    (slow,) = evaluated(one.latency_s / 2, SUBJECT, plan, [32])
    assert slow == one
    assert not slow.elsewhere
