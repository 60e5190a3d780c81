"""Searching models with experts: over how many of the replicas these are split is one more degree."""

import csv
import io
import json

import pytest
from command_line import distir as command
from expert_programs import decoder
from search_samples import MLP

import distir
from distir.configurations import Supplied
from distir.configurations.rows import exported, job_of_row
from distir.cost import load
from distir.search import Annealing, Search, Space, SpaceError, Subject, Workers, read_rows, write_rows
from distir.search.bounds import load_of
from distir.search.sequential import load_at
from distir.search.symmetry import interchangeable
from distir.simulate import simulate
from distir.transform import transform
from distir.transform.strategy import Strategy
from distir.transform.strategy.steps import apply, words_of

__all__ = ["command"]  # a fixture

STEP = transform(decoder(layers=2), "grad", "optimizer=adam")
"""A training step of a decoder with four experts in each layer; its batch is `B`."""

HERE = Workers(jobs=1)


def searched(space, hardware="dgx-a100", **options):
    return distir.search(STEP, hardware=hardware, space=space, workers=HERE, **options)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("experts") / "step.dir"
    path.write_text(distir.format(STEP))
    return path


def test_all_degrees_that_divide_experts_and_replicas_are_tried():
    table = searched(Space(8, (16,), (2,)))
    assert {(row.plan.data, row.plan.experts) for row in table} == {
        (d, e) for d in (1, 2, 4, 8) for e in (1, 2, 4) if d % e == 0
    }
    assert {row.plan.experts for row in searched(Space(8, (16,), (2,), experts=(2,)))} == {2}
    assert {
        row.plan.experts for row in distir.search(MLP, hardware="dgx-a100", space=Space(4, (16,)), workers=HERE)
    } == {1}


def test_a_row_is_what_simulating_the_whole_program_gives():
    space = Space(8, (32,), (2,), zero=(0, 1), fixed={"D": (4, 8), "T": (1,)}, skew=1.5)
    rows = [row for row in searched(space) if row.plan.experts > 1]
    assert {(row.plan.pipeline, row.plan.experts, row.plan.zero) for row in rows} >= {(2, 4, 0), (1, 2, 1), (1, 4, 1)}
    for row in rows[::2]:
        whole = simulate(apply(STEP, row.plan), "dgx-a100", bind={"B": row.batch_size})
        assert row.latency_s == pytest.approx(whole.latency_s, rel=1e-12), row.plan
        assert row.peak_memory_bytes == max(use.peak_memory_bytes for use in whole.devices.values()), row.plan


def test_a_skew_makes_exchanges_and_products_larger():
    even, uneven = (searched(Space(4, (16,), experts=(4,), fixed={"D": (4,)}, skew=skew))[0] for skew in (1.0, 2.0))
    assert even.latency_s < uneven.latency_s
    assert even.peak_memory_bytes < uneven.peak_memory_bytes


@pytest.mark.by_turns
@pytest.mark.parametrize("machine", ["dgx-a100", "dgx-h100", "laptop-cpu"])
def test_no_row_is_faster_than_its_bound_of_all_products(machine):
    hardware = load(machine)
    subject = Subject("experts", STEP, hardware)
    load_of_it = load_at(subject, 64)
    space = Space(min(4, hardware.devices), (64,), (2,), overlap=(False, True), fuse=(False, True), skew=1.0)
    rows = [row for row in Search(subject, space, workers=HERE).table() if row.latency_s is not None]
    assert {row.plan.experts for row in rows} >= {1, 2}
    for row in rows:
        assert 0 < load_of_it.bound(row.plan, hardware) <= row.latency_s


def test_products_of_experts_alone_take_as_long_as_their_bound():
    hardware = load("dgx2-v100")
    alone = simulate(
        distir.parse("""func @main(%x: Tensor[Float32, (8, 4096, 1024), 0], %w: Tensor[Float32, (8, 1024, 4096), 0]) {
  %y = RaggedMatMul(%x, %w)
  return %y
}"""),
        hardware,
    )
    assert 0.9 * alone.latency_s < load_of(alone).bound(Strategy(1, 1, 1), hardware) <= alone.latency_s


def test_groups_that_lie_differently_are_not_represented_by_one():
    nodes = load("dgx-a100", nodes=3)
    assert interchangeable(nodes, 24, 1, 1, 4)
    assert interchangeable(nodes, 24, 1, 1, 8)
    assert not interchangeable(nodes, 24, 1, 1, 3)  # some within a node, some across two


def test_a_plan_comes_back_from_its_row():
    row = searched(Space(4, (16,), experts=(4,), fixed={"D": (4,)}, skew=1.25))[0]
    assert str(row.plan) == "4/1/1/1 ep=4"
    assert words_of(row.plan) == ["dtp=4,1,1", "experts=4", "skew=1.25"]
    file = io.StringIO()
    write_rows(file, [row])
    assert {"EP": "4", "skew": "1.25"}.items() <= next(csv.DictReader(io.StringIO(file.getvalue()))).items()


def test_annealing_goes_from_degree_to_degree():
    space = Space(8, (32,), (2, 4), fixed={"T": (1,)})
    rows = [*Search(Subject("", STEP, load("dgx-a100")), space, "anneal", HERE, Annealing(40)).rows()]
    assert all(row.plan.data % row.plan.experts == 0 for row in rows)
    assert len({row.plan for row in rows}) == len(rows)


def test_what_cannot_be_searched_is_said():
    with pytest.raises(SpaceError, match="dispatches no tokens to experts, to be split over 2 devices"):
        distir.search(MLP, hardware="dgx-a100", space=Space(4, (16,), experts=(1, 2)), workers=HERE)
    with pytest.raises(SpaceError, match="D is no multiple of 3"):
        searched(Space(4, (16,), experts=(3,)))
    row = searched(Space(8, (16,), experts=(8,), fixed={"D": (8,)}))[0]
    assert row.reason == "4 experts do not split over 8 devices"


def test_other_frameworks_get_their_degree():
    # torchtitan deals experts out over the replicas that share their state, so stage 3
    row = searched(Space(8, (16,), experts=(4,), zero=(3,), fixed={"D": (4,)}))[0]
    job = job_of_row(row, Supplied())
    flags = exported(job, "megatron").text
    assert "--expert-model-parallel-size 4" in flags
    assert "--expert-tensor-parallel-size 2" in flags
    assert "expert_parallel_degree = 4" in exported(job, "torchtitan").text
    assert "ep_size=4" in exported(job, "deepspeed").text


WORDS = ("--devices", "4", "--batch-size", "16", "--microbatches", "2", "--hardware", "dgx-a100", "--jobs", "1")


def test_the_command_lists_the_degree(command, path, tmp_path):
    found = command("search", path, *WORDS, "--csv", tmp_path / "rows.csv")
    assert found.code == 0, found.err
    assert "D/T/P/K   EP" in found.out
    assert "skipped" not in found.out
    document = json.loads(command("search", path, *WORDS, "--json").out)
    assert {row["EP"] for row in document["rows"]} == {1, 2, 4}
    assert len(read_rows(str(tmp_path / "rows.csv"), document["best"]["search"])) == document["configurations"]


def test_degrees_are_restricted_in_their_users_words(command, path):
    found = command("search", path, *WORDS, "--ep", "4", "--skew", "1.2")
    assert "5 more are skipped: EP does not divide D" in found.out
    assert "1 configuration" in found.out
    words = [*WORDS[: WORDS.index("--microbatches")], *WORDS[WORDS.index("--hardware") :]]
    document = json.loads(command("search", path, *words, "--dp", "2", "--tp", "1,2", "--pp", "1", "--json").out)
    assert {(row["D"], row["T"], row["P"]) for row in document["rows"]} == {(2, 2, 1)}
    refused = command("search", path, *WORDS, "--tp", "2", "--fix", "T=2")
    assert "`--tp` excludes `--fix T=`" in refused.err
    assert "EP = 4 would do" in command("search", path, *WORDS, "--ep", "8").err
    assert "EP = 2 would do" in command("search", path, *WORDS, "--dp", "2", "--ep", "4").err
    assert "`--ep` expected degrees from 1, found 0" in command("search", path, *WORDS, "--ep", "0").err
    assert (
        "`--skew` expected a multiple of the mean from 1, or 0" in command("search", path, *WORDS, "--skew", "0.5").err
    )


def test_less_memory_than_there_is(command, path):
    document = json.loads(command("search", path, *WORDS, "--json").out)
    memory = sorted(row["peak_memory_bytes"] for row in document["rows"])
    most = memory[len(memory) // 2]
    limited = json.loads(command("search", path, *WORDS, "--json", "--max-memory", f"{most}B").out)
    assert len(limited["rows"]) == sum(size <= most for size in memory) < len(memory)
    assert "`--max-memory`" in command("search", path, *WORDS, "--max-memory", "much").err


def test_a_global_batch_is_one_of_training(command):
    sizes = ("--layers", "2", "--vocabulary", "512", "--width", "256", "--expert-ffn", "512", "--seq", "64")
    words = (*sizes, "--hardware", "dgx-h100", "--devices", "4", "--tp", "1", "--pp", "1", "--jobs", "1")
    some = (
        "--cp",
        "1",
        "--ep",
        "1,2",
        "--balance",
        "uniform",
        "--zero",
        "0,1",
        "--checkpoint",
        "off",
        "--schedule",
        "1f1b",
        "--no-fuse",
        "--no-overlap",
    )
    found = command("search", "mixtral-8x7b", *words, *some, "--method", "grid", "--global-batch", "16", "--json")
    assert found.code == 0, found.err
    document = json.loads(found.out)
    assert document["model"].endswith("grad optimizer=adamw precision=mixed")
    assert {row["zero"] for row in document["rows"]} == {0, 1}
    assert {row["micro_batch"] for row in document["rows"]} == {1, 2, 4}
    assert (
        "excludes `--batch-size`"
        in command("search", "mixtral-8x7b", *words, "--global-batch", "16", "--batch-size", "8").err
    )


def test_stated_degrees_need_not_be_powers_of_two():
    plans = [*Space(24, (48,), (2,), fixed={"T": (3,)}).plans()]
    assert Strategy(8, 3, 1) in plans
