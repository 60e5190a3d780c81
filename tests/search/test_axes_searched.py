"""How layers are dealt out, what is recomputed, whose experts are whole: what a search tries, and in whose words."""

import random

import pytest
from thorough import ALL

from distir.cost import load
from distir.models import named
from distir.search import Search, Space, Subject, Workers, read_rows, write_rows
from distir.search.evaluate import evaluate
from distir.search.stages import StageBounds
from distir.search.whole import admitted, whole
from distir.transform import transform
from distir.transform.strategy import Strategy
from distir.transform.strategy.steps import words_of

HERE = Workers(jobs=1)
SIZES = {"layers": 4, "width": 128, "heads": 4, "kv_heads": 2, "ffn": 256, "vocabulary": 512}
SPARSE = {"layers": 2, "width": 128, "heads": 4, "kv_heads": 2, "vocabulary": 512, "experts": 8, "expert_ffn": 256}
STEPS = ("grad", "optimizer=adamw", "precision=mixed")
DENSE = Subject("d", transform(named("llama3-8b", None, 128, **SIZES), *STEPS), load("dgx-h100"))
EXPERTS = Subject("e", transform(named("mixtral-8x7b", None, 128, **SPARSE), *STEPS), load("dgx-h100"))


def row_of(subject, plan, size=32):
    (row,) = evaluate(subject, plan, [size])
    assert row.latency_s is not None, row.reason
    return row


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "interleaved", "zb-h1", "zb-v"])
def test_in_pipelines_one_stage_of_zero_represents_the_other(schedule):
    one, two = (row_of(DENSE, Strategy(2, 1, 2, 4, schedule, zero=zero)) for zero in (1, 2))
    assert (one.latency_s, one.peak_memory_bytes) == (two.latency_s, two.peak_memory_bytes)
    space = Space(4, (32,), (4,), (schedule,), zero=(0, 1, 2, 3), accumulate=(1,))
    tried = {(plan.pipeline > 1, plan.zero) for plan in space.plans() if plan.data > 1}
    assert tried == {(piped, zero) for piped in (False, True) for zero in (0, 1, 2, 3)} - {(True, 2)}
    assert Search(DENSE, space, workers=HERE).notes == [
        "in pipelines `zero=1` represents `zero=2`, whose rows are equal"
    ]
    assert {plan.zero for plan in Space(4, (32,), (4,), zero=(2,), fixed={"P": (2,)}).plans()} == {2}


def test_all_that_can_pay_is_tried_and_written_down(tmp_path):
    plans, _ = admitted(DENSE, whole(DENSE, 4, (32,)).for_experts(None), 32, True)
    assert {plan.balance for plan in plans if plan.pipeline > 1} == {"uniform", "cost"}
    assert {plan.balance for plan in plans if plan.pipeline == 1} == {"uniform"}
    assert {(plan.checkpoint, plan.recompute) for plan in plans} == {
        (False, ""),
        (True, ""),
        (True, "products"),
        (True, "full:2"),
    }
    sparse, _ = admitted(EXPERTS, whole(EXPERTS, 4, (32,)).for_experts(8), 32, True)
    assert {plan.etp for plan in sparse if plan.experts > 1 and plan.tensor > 1} == {0, 1}
    assert {plan.etp for plan in sparse if plan.experts == 1 or plan.tensor == 1} == {0}
    assert {plan.cp_experts for plan in sparse if plan.context > 1} == {False, True}
    some = [
        Strategy(2, 1, 2, 4, balance="cost", checkpoint=True, recompute="full:2"),
        Strategy(2, 2, 1, experts=2, etp=1),
    ]
    rows = [row_of(DENSE, some[0]), row_of(EXPERTS, some[1])]
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        write_rows(file, rows)
    assert [row.plan for row in read_rows(str(tmp_path / "rows.csv"), "")] == some
    assert words_of(some[0]) == [
        "checkpoint=full",
        "layers=2",
        "dtp=2,1,2",
        "microbatches=4",
        "schedule=1f1b",
        "balance=cost",
    ]
    assert words_of(some[1]) == ["dtp=2,2,1", "experts=2", "etp=1"]


def test_less_recomputation_takes_less_time_and_more_memory():
    def of(**how):
        return row_of(DENSE, Strategy(2, 1, 1, 4, **how), 256)

    none, half, full = of(), of(checkpoint=True, recompute="full:2"), of(checkpoint=True)
    products = of(checkpoint=True, recompute="products")
    assert none.latency_s < half.latency_s < full.latency_s
    assert none.peak_memory_bytes > half.peak_memory_bytes > full.peak_memory_bytes
    assert none.latency_s < products.latency_s < full.latency_s


@pytest.mark.by_turns
@pytest.mark.parametrize("subject", [DENSE, EXPERTS], ids=["dense", "experts"])
def test_bounds_hold_on_the_new_axes(subject):
    space = whole(subject, 8 if ALL else 4, (32,)).for_experts(subject.experts)
    plans, _ = admitted(subject, space, 32, True)
    new = [p for p in plans if p.balance != "uniform" or p.etp or p.cp_experts or p.recompute]
    drawn = random.Random(5).sample(new, 40 if ALL else 3)
    stages = StageBounds(subject, 32)
    found = [row for plan in drawn for row in evaluate(subject, plan, [32]) if row.latency_s is not None]
    assert found
    for row in found:
        assert stages.at_best(row.plan) <= stages.seconds(row.plan) <= row.latency_s


SMALL = ("llama3-8b", "--layers", "2", "--vocabulary", "512", "--width", "128", "--ffn", "256", "--heads", "4")
WORDS = (*SMALL, "--kv-heads", "2", "--seq", "128", "--hardware", "dgx-h100", "--devices", "2", "--jobs", "1")


def test_bad_words_of_the_new_options_are_refused(distir):
    for words, said in {
        ("--checkpoint", "offf"): "did you mean `off`?",
        ("--checkpoint", "full:x"): "as in full:16",
        ("--balance", "costs"): "`--balance` expected uniform, cost or memory, found `costs`",
        ("--etp", "-1"): "`--etp` expected 0 (each expert split over all shards) or a number of them, found -1",
        ("--fp8", "tensors"): "`--fp8` expected tensor or block or mx or delayed, found `tensors`",
        ("--fp8", "delayed", "--hardware", "dgx-a100"): "has no arithmetic of 8-bit floats",
    }.items():
        found = distir("search", *WORDS, "--global-batch", "8", *words)
        assert (found.code, said in found.err) == (2, True), found.err


def test_what_is_asked_for_is_what_is_searched(distir):
    import json

    words = ("--global-batch", "8", "--pp", "2", "--budget", "1", "--no-explain", "--no-fuse", "--json")
    found = distir("search", *WORDS, *words, "--checkpoint", "products,selective:1", "--balance", "cost")
    assert found.code == 0, found.err
    document = json.loads(found.out)
    rows = [*document["rows"], *document["left_out"]]
    assert {row["balance"] for row in rows} == {"cost"}
    assert {row["recompute"] for row in rows} <= {"products", "selective:1"}
    found = distir("search", *WORDS, *words, "--fp8", "block")
    assert found.code == 0, found.err
    assert "fp8=block grad" in json.loads(found.out)["model"]


def test_scales_of_tensors_go_with_microbatches_of_any_size(distir):
    import json

    words = ("--batch-size", "8", "--dp", "1", "--tp", "1", "--pp", "1,2", "--accumulate", "2", "--json")
    found = distir("search", *WORDS, *words, "--cp", "1,2", "--fp8", "tensor", "--apply", "grad precision=mixed")
    assert found.code == 0, found.err
    rows = json.loads(found.out)["rows"]
    assert {(row["P"], row["CP"], row["K"]) for row in rows} >= {(1, 2, 2), (2, 1, 2), (2, 1, 4)}
    assert all(row["latency_s"] for row in rows)


def test_why_a_layer_is_no_call_of_a_microbatch_is_in_its_row(distir):
    words = ("--batch-size", "8", "--dp", "1", "--tp", "1", "--pp", "2", "--apply", "fp8=tensor grad precision=mixed")
    found = distir("search", *WORDS, *words)
    assert "`QuantizeFloat8` cannot be computed by microbatches" in found.out
    assert "`fp8=tensor micro_batch=N`" in found.out
