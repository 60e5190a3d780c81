"""The search of everything: what is tried, that bounds hold on all of it, and how near it comes to the best.

`DISTIR_TEST_ALL=1` draws more plans, and compares 20 spaces with their exhaustive search.
"""

import json
import random
from dataclasses import replace

import pytest
from search_samples import MLP
from thorough import ALL

from distir.cost import load
from distir.models import gpt2, named
from distir.search import COLUMNS, Annealing, Search, Space, SpaceError, Subject, Workers
from distir.search.binding import binding, bindings
from distir.search.bounded import usual_budget
from distir.search.bounds import least_memory
from distir.search.economy import economy, model_flops
from distir.search.evaluate import evaluate
from distir.search.rows import MEASURES, Row, pareto
from distir.search.sequential import load_at
from distir.search.stages import StageBounds
from distir.search.whole import admitted, whole
from distir.transform import Strategy, transform

HERE = Workers(jobs=1)
SIZES = {"layers": 4, "width": 128, "heads": 4, "kv_heads": 2, "ffn": 256, "vocabulary": 512}
LLAMA = transform(named("llama3-8b", None, 256, **SIZES), "grad", "optimizer=adamw", "precision=mixed")
"""A small decoder's training step: attention, experts none, four layers."""

GPT2 = transform(gpt2(2, 64, 4, 8, vocabulary=96), "grad", "loss=cross_entropy", "optimizer=adam")
SPARSE = {"layers": 2, "width": 128, "heads": 4, "kv_heads": 2, "vocabulary": 512, "experts": 8, "expert_ffn": 256}
EXPERTS = transform(named("mixtral-8x7b", None, 128, **SPARSE), "grad", "optimizer=adamw", "precision=mixed")
MODELS = {"llama": LLAMA, "gpt2": GPT2, "mlp": MLP}
"""Those that are searched whole."""


def subject(model, machine="dgx-h100"):
    return Subject(model, {**MODELS, "experts": EXPERTS}[model], load(machine))


def test_all_that_a_model_admits_is_tried():
    space = whole(subject("llama"), 8, (64,))
    plans, refused = admitted(subject("llama"), space.for_experts(None), 64, True)
    assert len(set(plans)) == len(plans)
    assert {plan.devices for plan in plans} == {8}
    for field, values in {
        "zero": {0, 1, 2, 3},
        "checkpoint": {False, True},
        "overlap": {False, True},
        "fuse": {False, True},
        "sequence": {False, True},
        "kind": {"", "allgather", "a2a", "ring"},
        "schedule": {"1f1b", "interleaved", "zb-h1", "zb-v"},
        "context": {1, 2, 4, 8},
        "tensor": {1, 2},
    }.items():
        assert {getattr(plan, field) for plan in plans} >= values
    assert any("more stages than the 4 layers" in why for why in refused)
    assert any(why.startswith("T = 4: ") for why in refused)  # of two heads of keys
    assert whole(subject("mlp"), 8, (64,)).context == (1,)  # nothing attends there


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("machine", ["dgx-h100", "dgx2-v100"])
def test_bounds_hold_on_plans_drawn_from_everything(model, machine):
    it, size = subject(model, machine), 32
    plans, _ = admitted(it, whole(it, 8, (size,)).for_experts(None), size, True)
    drawn = random.Random(7).sample(plans, 60 if ALL else 2)
    heavy, stages = load_at(it, size), StageBounds(it, size)
    stages.expect(drawn)
    found = [row for plan in drawn for row in evaluate(it, plan, [size])]
    simulated = [row for row in found if row.latency_s is not None]
    assert simulated
    for row in found:
        assert row.latency_s is None or stages.seconds(row.plan) < float("inf")
    for row in simulated:
        assert row.plan in drawn
        assert 0 < heavy.bound(row.plan, it.hardware) <= row.latency_s
        assert 0 < stages.at_best(row.plan) <= stages.seconds(row.plan) <= row.latency_s
        assert stages.known(row.plan) == stages.seconds(row.plan)
        assert least_memory(row.plan, it.weights_bytes, it.state_bytes) <= row.peak_memory_bytes


@pytest.mark.by_turns
@pytest.mark.parametrize(
    "plan",
    [
        Strategy(1, 2, 1),
        Strategy(1, 2, 1, sequence=True),
        Strategy(2, 1, 1, 4, context=2, kind="ring"),
        Strategy(2, 1, 1, context=2, kind="a2a"),
        Strategy(4, 1, 1),
        Strategy(8, 1, 1, experts=4),
        Strategy(2, 1, 2, 4, experts=2, zero=1),
    ],
    ids=str,
)
def test_the_bound_knows_what_a_plan_must_move(plan):
    """Slower links raise it, as they raise what a simulation takes, which it stays below."""
    model = "experts" if plan.experts > 1 else "llama"
    fast = subject(model, "dgx-h100")
    levels = tuple(
        replace(level, links={use: replace(link, bandwidth=link.bandwidth / 20) for use, link in level.links.items()})
        for level in fast.hardware.levels
    )
    slow = replace(fast, hardware=replace(fast.hardware, levels=levels))
    bounds, found = [], []
    for it in (fast, slow):
        (row,) = evaluate(it, plan, [64])
        bounds.append(StageBounds(it, 64).seconds(plan))
        found.append(row.latency_s)
        assert load_at(it, 64).bound(plan, it.hardware) < bounds[-1] <= row.latency_s
    rise = bounds[1] - bounds[0]
    assert 0 < rise <= found[1] - found[0] + 1e-12
    hidden = replace(plan, overlap=True)
    (row,) = evaluate(slow, hidden, [64])
    assert row.latency_s is None or StageBounds(slow, 64).seconds(hidden) <= row.latency_s


def test_what_is_left_of_a_search_is_known_to_be_little_faster():
    """Products alone say that others may take a fraction of the best's time; stages say that they cannot."""
    it = subject("llama", "dgx-h100")
    space = replace(whole(it, 2, (16,)), schedule=("1f1b",), zero=(0, 1), micro_batches=(1, 4), kind=("ring",))
    search = Search(it, replace(space, recompute=("",), balance=("uniform",), fuse=False), "bounded", HERE, budget=12)
    rows = list(search.rows())
    best = min(row.latency_s for row in rows if row.fits)
    (certificate,) = search.certificates(rows)
    plans, _ = admitted(it, search.grid, 16, True)
    heavy = load_at(it, 16)
    alone = min(heavy.bound(plan, it.hardware) for plan in plans) / best
    assert alone < 0.1
    assert certificate.gap < 0.5
    assert certificate.slower > len(plans) / 10


def test_annealing_continues_where_a_best_first_search_ends():
    """From its best, with a fixed seed, also to stages of other sizes; what is left is counted."""
    it = subject("mlp", "dgx-h100")
    space = replace(whole(it, 4, (16,)), schedule=("1f1b",), micro_batches=(1, 4), fixed={"P": (2, 4)}, zero=(0, 1))
    first = Search(it, space, "bounded", HERE, budget=4)
    further = replace(first, method="anneal", annealing=Annealing(steps=12, seed=1))
    begun, rows, again = list(first.rows()), list(further.rows()), list(further.rows())
    assert rows == again
    assert rows[: len(begun)] == begun
    assert len(begun) < len(rows) <= len(begun) + 12
    assert further.asked_for(rows) == rows
    (certificate,) = further.certificates(rows)
    plans, _ = admitted(it, further.grid, 16, True)
    assert certificate.beyond == len({row.plan for row in rows} - {*plans})
    rest = certificate.slower + certificate.over + certificate.refused + certificate.left
    assert certificate.simulated - certificate.beyond + rest == len(plans)


def test_a_search_is_the_same_whatever_was_searched_before():
    """What another search of the same program learnt of stages is not known to it: not to its rows, nor its proof."""
    it = subject("mlp", "dgx-h100")
    space = replace(whole(it, 4, (16,)), schedule=("1f1b",), micro_batches=(1, 4), zero=(0,), fuse=False)
    first = Search(it, space, "bounded", HERE, budget=4)
    rows = list(first.rows())
    alone = first.certificates(rows)
    other = replace(first, budget=8)
    other.certificates(list(other.rows()))
    again = replace(first)
    assert list(again.rows()) == rows
    assert again.certificates(rows) == alone
    assert replace(first).certificates(rows) == replace(first).certificates(rows)


def test_annealing_continues_only_where_stages_can_be_cut_otherwise():
    """Behind a best-first search that nobody asked to anneal: a best without stages has been among all its like."""
    it = subject("mlp", "dgx-h100")
    space = replace(whole(it, 2, (16,)), schedule=("1f1b",), micro_batches=(1, 4), zero=(0,), overlap=(False,))
    for degree in (1, 2):
        search = Search(it, replace(space, fixed={"P": (degree,)}), "bounded", HERE, budget=4)
        few = list(search.rows())
        annealed = replace(search, method="anneal", annealing=Annealing(steps=6, pipelines=True))
        more = list(annealed.rows())
        assert more[: len(few)] == few
        assert (len(more) > len(few)) == (degree > 1) == any(map(annealed.continues, few))


def test_fewer_plans_of_longer_programs_are_simulated():
    counts = [usual_budget(subject(model)) for model in ("mlp", "llama")]
    deep = Subject("", transform(named("llama3-8b", None, 128, layers=60), "grad"), load("dgx-h100"))
    assert counts == [64, 64]
    assert 6 <= usual_budget(deep) < 64


def test_rows_of_a_search_that_explains_say_what_binds_them():
    it = subject("mlp", "dgx-h100")
    search = Search(it, replace(whole(it, 2, (16,)), micro_batches=(4,)), "bounded", HERE, budget=4, explain=True)
    rows = [row for row in search.rows() if row.fits]
    assert rows
    for row in rows:
        assert row.binding == binding(it, row.plan, 16)
    assert bindings(it, rows, HERE) == {row.key: row.binding for row in rows}
    assert "binding" not in COLUMNS


def test_the_bound_knows_the_bubble():
    it = subject("mlp")
    heavy = load_at(it, 64)
    piped, deeper = (heavy.bound(Strategy(1, 1, p, 4), it.hardware) for p in (2, 4))
    alone = heavy.bound(Strategy(1, 1, 1, 4), it.hardware)
    assert piped > alone / 2
    assert deeper > alone / 4
    assert heavy.bound(Strategy(1, 1, 4, 4, "zb-h1"), it.hardware) == pytest.approx(alone / 4)


SPACES = [
    (model, devices, size, machine)
    for model in MODELS
    for devices, size in ((2, 16), (4, 16), (4, 64), (8, 64))
    for machine in ("dgx-h100", "dgx2-v100")
][:20]


@pytest.mark.parametrize(("model", "devices", "size", "machine"), SPACES if ALL else [("gpt2", 2, 16, "dgx-h100")])
def test_best_first_is_within_a_percent_of_all(model, devices, size, machine):
    it = subject(model, machine)
    space = replace(whole(it, devices, (size,)), micro_batches=(1, 4), kind=("ring",), overlap=(False,), fuse=False)
    space = replace(space, schedule=("1f1b", "interleaved", "zb-h1"), virtual=(2,), zero=(0, 1, 3), sequence=(False,))
    search = Search(it, space, "bounded", HERE)
    plans, _ = admitted(it, search.grid, size, True)
    every = [row for plan in plans for row in evaluate(it, plan, [size])]
    best = min(row.latency_s for row in every if row.fits)
    budget = max(24, len(plans) // 10)
    rows = list(replace(search, budget=budget).rows())
    found = min(row.latency_s for row in rows if row.fits)
    assert len(rows) <= budget
    assert found <= 1.01 * best
    (certificate,) = search.certificates(rows)
    counted = certificate.simulated + certificate.slower + certificate.over + certificate.refused + certificate.left
    assert counted == len(plans)
    assert (1 - certificate.gap) * found <= best
    proven = list(search.rows())
    assert min(row.latency_s for row in proven if row.fits) == best
    assert search.certificates(proven)[0].proven


def test_figures_of_a_run_by_the_published_formula():
    it = Subject("l", LLAMA, load("dgx-h100"))
    (row,) = evaluate(it, Strategy(8, 1, 1), [16])
    tokens = 16 * 256
    dtype, flops = model_flops(it, 16)
    products = 4 * (128 * 128 * 2 + 2 * 128 * 64 + 3 * 128 * 256) + 128 * 512
    attention = 12 * 4 * 128 * 256
    assert dtype.name == "BFloat16"
    assert flops == tokens * (6 * products + attention)
    found = economy(it, row, budget=1e12, watts=700)
    assert found.tokens_per_s == pytest.approx(tokens / row.latency_s)
    assert found.mfu == pytest.approx(flops / row.latency_s / (8 * 989e12))
    assert found.days == pytest.approx(1e12 / found.tokens_per_s / 86400)
    assert found.kwh == pytest.approx(8 * 700 / found.tokens_per_s / 3.6)
    assert found.cost is None


def test_fronts_of_any_two_are_not_beaten():
    draw = random.Random(3)
    rows = [
        Row(
            "m",
            i,
            Strategy(2),
            draw.random(),
            draw.random(),
            draw.randrange(99),
            fits=i % 5 > 0,
            cost_per_step=draw.random(),
        )
        for i in range(60)
    ]
    for first in MEASURES:
        for second in MEASURES:
            one, other = MEASURES[first], MEASURES[second]
            front = pareto(rows, first, second)
            for row in (row for row in rows if row.fits):
                assert any(one(kept) <= one(row) and other(kept) <= other(row) for kept in front)
            assert all(
                not (one(a) <= one(b) and other(a) <= other(b) and (one(a), other(a)) != (one(b), other(b)))
                for a in front
                for b in front
            )


def test_a_space_of_nothing_says_what_would_do():
    with pytest.raises(SpaceError, match=r"T in \{3\}; T = 2 would do"):
        list(Space(8, (64,), fixed={"T": (3,)}).plans())
    with pytest.raises(SpaceError, match="8 would do"):
        Search(subject("mlp"), Space(8, (7,), fixed={"D": (8,)}), workers=HERE).table()
    with pytest.raises(SpaceError, match="more stages than the 4 layers"):
        Search(subject("mlp"), Space(8, (64,), fixed={"P": (8,)}), "bounded", HERE).table()


WORDS = ("--layers", "2", "--vocabulary", "512", "--width", "128", "--ffn", "256", "--heads", "4", "--kv-heads", "2")
SMALL = ("llama3-8b", *WORDS, "--seq", "128", "--hardware", "dgx-h100", "--devices", "2", "--jobs", "1")


def test_the_usual_batch_of_a_large_cluster_is_one_that_is_trained_with(distir):
    small = ("llama3-8b", *WORDS, "--seq", "8192", "--hardware", "dgx-h100", "--nodes", "512", "--jobs", "1")
    found = distir("search", *small, "--tp", "8", "--pp", "1", "--cp", "1", "--budget", "1", "--method", "bounded")
    assert "the batch of a step is not stated: 2048, 16,777,216 tokens; `--global-batch N` says another" in found.err


def test_a_model_by_its_name_and_nothing_else(distir):
    found = distir(
        "search", *SMALL, "--budget", "4", "--steps", "3", "--tokens", "1T", "--power", "700", "--price", "2USD/h"
    )
    assert found.code == 0, found.err
    assert "the batch of a step is not stated: 32, 16 for each device" in found.err
    assert "best-first, then 3 steps of annealing from the best (seed 0): " in found.out
    assert " are not known; none can take less than " in found.out
    for column in ("tokens/s", "MFU", "USD/Mtoken", "kWh/Mtoken", "days"):
        assert column in found.out
    assert "the best is bound by: " in found.out


def test_a_memory_that_holds_nothing(distir):
    words = ("llama3-8b", "--layers", "2", "--seq", "128", "--hardware", "dgx-h100", "--devices", "2", "--jobs", "1")
    found = distir("search", *words, "--global-batch", "8", "--max-memory", "1GB")
    assert found.code == 1
    assert "are too large: weights and optimizer state alone do not fit" in found.out
    assert "none fits into memory" in found.out


def test_context_parallelism_in_the_words_of_its_users(distir):
    words = ("--batch-size", "8", "--apply", "grad", "--cp", "2", "--cp-kind", "ulysses,ring")
    document = json.loads(distir("search", *SMALL, *words, "--json", "--pareto", "time,memory").out)
    rows = [*document["rows"], *document["left_out"]]
    assert {row["cp_kind"] for row in rows} <= {"a2a", "ring"}
    assert {row["CP"] for row in rows} == {2}
    assert all(any(step == "context=2" for step in row["steps"]) for row in rows)
    times = [row["latency_s"] for row in document["rows"]]
    assert times == sorted(times)


def test_bad_words_are_refused_before_anything_runs(distir):
    for words, said in {
        ("--cp-kind", "rings"): "`--cp-kind` expected allgather, a2a or ring, found `rings`",
        ("--pareto", "time"): "`--pareto` expected two of",
        ("--pareto", "time,speed"): "`--pareto` expected two of",
        ("--tokens", "many"): "`--tokens` expected a number of tokens",
        ("--price", "2"): "`--price`",
        ("--cp", "0"): "`--cp` expected degrees from 1",
        ("--tp", "3"): "D·T·P with T in {3}\n  help: T = 2 would do",
        ("--dp", "2", "--tp", "2"): "with T in {2} and D in {2}\n  help: T = 1 would do; D = 1 would do",
        ("--cp", "3"): "CP in {3}",
        ("--cp", "3", "--tp", "1"): "CP = 2 would do",
        ("--pp", "4", "--devices", "8"): "P times virtual stages of 2 or less would do",
        (
            "--zero",
            "3",
            "--shard",
            "3",
            "--devices",
            "8",
        ): "a multiple of 3, to partition state among\n  help: 2, 4 would do",
        ("--virtual", "2", "--schedule", "1f1b"): "`--virtual` is for schedules that have any number of stages",
        ("--micro-batch", "3"): "sizes that divide the batch 8, found 3\n  help: 2 would do",
        ("--devices", "9"): "`dgx-h100` has 8 devices, 9 are asked for",
        ("--measure", "1", "--measure-backend", "mpi"): "`--measure-backend` expected gloo or nccl, found `mpi`",
        ("--prove", "--prove-timeout", "long"): "`--prove-timeout`",
        ("--chunks", "2"): "`--chunks` is for schedules that cut sequences\n  help: `--schedule seq1f1b`",
        ("--checkpoint", "16GB"): "here `--max-memory` says it",
        ("--checkpoint", "full:9"): "`full:9` recomputes 9 layers, and there are 2\n  help: 2 would do",
    }.items():
        found = distir("search", *SMALL, "--global-batch", "8", *words)
        assert (found.code, said in found.err) == (2, True), found.err
