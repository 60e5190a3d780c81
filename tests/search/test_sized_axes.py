"""Axes whose programs depend on sizes, or on parts of sequences: stages by memory, overlap of passes, cut sequences."""

import random

import pytest
from thorough import ALL

from distir.cost import load
from distir.models import named
from distir.search import Search, Space, Subject, Workers, read_rows, write_rows
from distir.search.distributed import program
from distir.search.evaluate import evaluate
from distir.search.sequential import load_at
from distir.search.stages import StageBounds
from distir.simulate import simulate
from distir.transform import transform
from distir.transform.strategy import Strategy

HERE = Workers(jobs=1)
STEPS = ("grad", "optimizer=adamw", "precision=mixed")
SIZES = {"layers": 4, "width": 128, "heads": 4, "kv_heads": 2, "ffn": 256, "vocabulary": 512}
WIDE = {"layers": 2, "width": 2048, "heads": 16, "kv_heads": 8, "ffn": 8192, "vocabulary": 2048}
SMALL = Subject("small", transform(named("llama3-8b", None, 128, **SIZES), *STEPS), load("dgx-h100"))
LARGE = Subject("large", transform(named("llama3-8b", None, 2048, **WIDE), *STEPS), load("dgx-h100"))
LONGER = WIDE | {"layers": 4, "width": 1024, "ffn": 4096}
LONG = Subject("long", transform(named("llama3-8b", None, 16384, **LONGER), *STEPS), load("dgx-h100"))
DEEP = Subject("deep", transform(named("llama3-8b", None, 512, **(SIZES | {"layers": 6})), *STEPS), load("dgx-h100"))
SPARSE = {"layers": 2, "width": 128, "heads": 4, "kv_heads": 2, "vocabulary": 512, "experts": 4, "expert_ffn": 256}
EXPERTS = Subject("e", transform(named("mixtral-8x7b", None, 128, **SPARSE), *STEPS), load("dgx-h100"))


def row_of(subject, plan, size=32):
    (row,) = evaluate(subject, plan, [size])
    assert row.latency_s is not None, row.reason
    return row


CASES = {
    "memory": (SMALL, Strategy(2, 1, 4, 8, balance="memory")),
    "passes": (LARGE, Strategy(1, 2, 1, 4, overlap=True, passes=True, sequence=True)),
    "passes in a pipeline": (LARGE, Strategy(1, 2, 2, 4, overlap=True, passes=True, zero=0)),
    "passes, experts": (EXPERTS, Strategy(2, 1, 1, 4, overlap=True, passes=True, experts=2, zero=1)),
    "chunks": (SMALL, Strategy(2, 1, 4, 4, "seq1f1b", chunks=4)),
    "chunks, zero, fused": (SMALL, Strategy(2, 2, 2, 2, "seq1f1b", chunks=2, zero=1, fuse=True, overlap=True)),
}


@pytest.mark.parametrize(("subject", "plan"), CASES.values(), ids=CASES)
def test_a_row_is_the_simulation_of_its_steps(subject, plan, tmp_path):
    row = row_of(subject, plan)
    whole = simulate(program(subject, plan, 32), subject.hardware, bind={} if plan.chunks else {"B": 32})
    assert row.latency_s == pytest.approx(whole.latency_s, rel=1e-9)
    assert row.peak_memory_bytes == max(use.peak_memory_bytes for use in whole.devices.values())
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        write_rows(file, [row])
    assert [row.plan for row in read_rows(str(tmp_path / "rows.csv"), "")] == [plan]


@pytest.mark.by_turns
@pytest.mark.parametrize("subject", [SMALL, LARGE, EXPERTS], ids=["small", "large", "experts"])
def test_bounds_hold(subject):
    space = Space(
        4,
        (32,),
        (2, 4, 8),
        ("1f1b", "seq1f1b"),
        (0, 1, 3),
        (False, True),
        accumulate=(1, 4),
        fuse=None,
        overlap=(False, True),
        passes=(False, True),
        balance=("uniform", "memory"),
        sequence=(False, True),
        context=(1, 2),
        kind=("allgather", "ring"),
        experts=(1, 2) if subject is EXPERTS else (1,),
    )
    new = [plan for plan in space.plans() if plan.sized or plan.chunks]
    assert {plan.passes for plan in new} == {False, True}
    assert not any(plan.chunks and plan.context > 1 for plan in new)
    bounds, stages = load_at(subject, 32), StageBounds(subject, 32)
    found = [row for plan in random.Random(1).sample(new, 60 if ALL else 3) for row in evaluate(subject, plan, [32])]
    assert any(row.latency_s is not None for row in found)
    for row in found:
        if row.latency_s is not None:
            assert 0 < bounds.bound(row.plan, subject.hardware) <= row.latency_s, row.plan
            assert stages.at_best(row.plan) <= row.latency_s, row.plan


def test_where_they_pay():
    """Collectives hidden by another microbatch; sequences cut where microbatches are few; less on the fullest stage."""
    passes = [row_of(LARGE, Strategy(1, 8, 1, 4, overlap=True, passes=on, sequence=True)) for on in (False, True)]
    assert passes[1].latency_s < passes[0].latency_s
    cut = [row_of(LONG, Strategy(1, 1, 4, 2, name, chunks=n), 2) for name, n in (("1f1b", 0), ("seq1f1b", 2))]
    assert cut[1].latency_s < cut[0].latency_s
    held = [row_of(DEEP, Strategy(1, 1, 4, 16, balance=how), 64).peak_memory_bytes for how in ("cost", "memory")]
    assert held[1] < held[0]


def test_bounded_search_finds_the_best_of_the_grid():
    space = Space(
        4,
        (8,),
        (2, 4),
        ("1f1b", "seq1f1b"),
        overlap=(False, True),
        passes=(False, True),
        chunks=(2,),
        fixed={"D": (1,), "T": (1, 2)},
    )
    grid = Search(SMALL, space, workers=HERE)
    best = Search(SMALL, space, "bounded", HERE).table().best
    assert best.latency_s == grid.table().best.latency_s


def test_the_options_that_admit_them(distir):
    import json

    sizes = (
        "--layers",
        "2",
        "--vocabulary",
        "512",
        "--width",
        "128",
        "--ffn",
        "256",
        "--heads",
        "4",
        "--kv-heads",
        "2",
    )
    words = ("search", "llama3-8b", *sizes, "--seq", "128", "--hardware", "dgx-h100", "--devices", "4", "--jobs", "1")
    words += ("--global-batch", "8", "--budget", "2", "--steps", "1", "--no-fuse", "--json", "--cp", "1")

    def rows(*more):
        found = distir(*words, *more)
        assert found.code == 0, found.err
        return json.loads(found.out)["rows"]

    pipelined = ("--pp", "2", "--tp", "1", "--micro-batch", "1")
    assert {row["chunks"] for row in rows(*pipelined, "--schedule", "seq1f1b", "--chunks", "4")} == {4}
    by_memory = rows(*pipelined, "--schedule", "1f1b", "--balance", "memory")
    assert by_memory
    assert all({"balance=memory", "bind=B=8"} <= {*row["steps"]} for row in by_memory)
    beside = rows("--tp", "2", "--pp", "1", "--micro-batch", "1", "--passes", "--overlap")
    assert any("overlap=all" in row["steps"] for row in beside)
    bad = distir(*words, "--schedule", "seq1f1b", "--chunks", "0")
    assert (bad.code, "`--chunks` expected degrees from 1" in bad.err) == (2, True)
