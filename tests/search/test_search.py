"""Searching: the space, that rows are what simulating by hand gives, and that bounds lose nothing."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_samples import GPT2, MLP, UNEVEN
from thorough import most_examples

import distir
from distir.cost import load
from distir.search import Annealing, Row, Search, Space, SpaceError, Subject, Table, Workers, pareto
from distir.search.annealing import neighbours
from distir.search.distributed import layers_of_stages
from distir.search.work import Handed
from distir.transform.strategy import Strategy
from distir.transform.strategy.steps import apply

HERE = Workers(jobs=1)


def searched(module, space, **options):
    return distir.search(module, hardware="dgx2-v100", space=space, workers=HERE, **options)


def test_the_papers_grids_have_the_papers_sizes():
    mlp = Space(16, (65536,))
    assert len(list(mlp.plans())) == 75
    gpt2 = Space(16, tuple(2**n for n in range(7, 21)))
    allowed = [1 for plan in gpt2.plans() for size in gpt2.batch_sizes if gpt2.allows(size, plan)]
    assert len(allowed) == 1035


@given(st.integers(1, 64), st.booleans())
def test_every_plan_uses_all_devices_and_none_is_there_twice(devices, all_divisors):
    space = Space(devices, all_divisors=all_divisors)
    try:
        plans = list(space.plans())
    except SpaceError:
        assert devices & (devices - 1)
        assert not all_divisors
        return
    assert all(plan.devices == devices for plan in plans)
    assert len(set(plans)) == len(plans)


@pytest.mark.parametrize("row", range(0, 40, 7))
def test_a_row_is_what_simulating_by_hand_gives(row):
    table = searched(MLP, Space(4, (32, 64)))
    row = table[row]
    by_hand = apply(MLP, row.plan)
    simulation = distir.simulate(by_hand, "dgx2-v100", bind={"B": row.batch_size})
    assert row.latency_s == pytest.approx(simulation.latency_s, rel=1e-12)
    assert row.throughput == pytest.approx(row.batch_size / simulation.latency_s)
    assert row.peak_memory_bytes == max(use.peak_memory_bytes for use in simulation.devices.values())


def test_zero_checkpointing_and_schedules_are_part_of_the_space():
    space = Space(4, (64,), (4,), ("gpipe", "1f1b"), (0, 3), (False, True))
    table = searched(MLP, space)
    assert {row.plan.zero for row in table} == {0, 3}
    assert {row.plan.schedule for row in table if row.plan.pipeline > 1} == {"gpipe", "1f1b"}
    assert {row.plan.checkpoint for row in table} == {False, True}
    assert any(row.latency_s for row in table if row.plan.zero == 3)


def test_one_stage_accumulates_gradients_as_written_out_by_hand():
    space = Space(4, (4096,), (2, 4), zero=(0, 1), sums=("layer", "stage"), accumulate=(1, 2, 8))
    assert len(set(space.plans())) == len(list(space.plans()))
    table = searched(MLP, space)
    rows = [row for row in table if row.plan.pipeline == 1]
    assert {(row.plan.data, row.plan.tensor, row.plan.microbatches) for row in rows} == {
        (d, 4 // d, k) for d in (1, 2, 4) for k in (1, 2, 8)
    }
    for row in rows:
        simulation = distir.simulate(apply(MLP, row.plan), "dgx2-v100", bind={"B": 4096})
        assert row.latency_s == pytest.approx(simulation.latency_s, rel=1e-12)
        assert row.peak_memory_bytes == max(use.peak_memory_bytes for use in simulation.devices.values())
    memory = {row.plan: row.peak_memory_bytes for row in rows}
    assert memory[Strategy(4, 1, 1, 8)] < memory[Strategy(4, 1, 1, 1)]
    assert searched(MLP, space, method="bounded").best == table.best


def test_what_cannot_be_is_a_row_with_its_reason():
    table = searched(MLP, Space(8, (64,), (2,)))  # 4 layers are too few for 8 stages
    failed = [row for row in table if row.plan.pipeline == 8]
    assert failed
    assert all(row.latency_s is None and "too few" in row.reason for row in failed)
    assert table.best is not None


@pytest.mark.parametrize("module", [MLP, GPT2], ids=["mlp", "gpt2"])
@pytest.mark.parametrize("size", [32, 512])
def test_the_bound_never_costs_the_best_row(module, size):
    grid = searched(module, Space(4, (size,)))
    bounded = searched(module, Space(4, (size,)), method="bounded")
    assert (bounded.best.latency_s, bounded.best.plan) == (grid.best.latency_s, grid.best.plan)
    assert set(bounded) <= set(grid)
    assert len(bounded) <= len(grid)


def test_the_bound_is_below_every_simulation_and_prunes():
    from distir.search.sequential import load_at as _load

    subject = Subject("mlp", MLP, load("dgx2-v100"))
    table = searched(MLP, Space(4, (256,)))
    bounds = _load(subject, 256)
    for row in table:
        if row.latency_s is not None:
            bound = bounds.bound(row.plan, subject.hardware)
            assert 0 < bound <= row.latency_s
    assert len(searched(MLP, Space(4, (256,)), method="bounded")) < len(table)


ANNEALED = """
from distir.search import Space
from distir.search.annealing import neighbours
from distir.transform.strategy import Strategy
from distir.transform import Strategy
print(*neighbours(Strategy(4, 2, 2, 8), Space(16, (64,)), lambda plan: (4, 4)), sep=", ")
"""


def test_annealing_is_the_same_for_the_same_seed():
    space = Space(2, (64,), (4,), fixed={"P": (2,)})
    subject = Subject("", UNEVEN, load("dgx2-v100"))
    first, second = (Search(subject, space, "anneal", HERE, Annealing(steps=20, seed=3)).table() for _ in range(2))
    assert list(first) == list(second)


def test_annealing_moves_layers_of_the_stages_that_a_plan_has():
    subject = Subject("", UNEVEN, load("dgx2-v100"))
    plan = Strategy(1, 1, 3, 4, balance="cost")
    sizes = layers_of_stages(subject, plan)
    uniform = layers_of_stages(subject, replace(plan, balance="uniform"))
    assert sum(sizes) == sum(uniform)
    assert sizes != uniform
    assert layers_of_stages(subject, replace(plan, balance="uniform", stages=sizes)) == sizes
    space = Space(3, (64,), (4,), ("1f1b", "interleaved"), all_divisors=True, balance=("uniform", "cost"))
    found = [*neighbours(plan, space, partial(layers_of_stages, subject))]
    moved = [other for other in found if other.stages]
    assert moved
    for other in moved:
        assert (sum(other.stages), other.balance) == (sum(sizes), "uniform")
        assert sum(abs(a - b) for a, b in zip(other.stages, sizes, strict=True)) == 2
    scheduled = neighbours(replace(plan, stages=sizes), space, partial(layers_of_stages, subject))
    assert {len(o.stages) for o in scheduled if o.schedule == "interleaved"} == {0}  # it has twice as many stages


def test_annealing_has_the_same_choices_in_every_process():
    found = [
        subprocess.run(
            [sys.executable, "-c", ANNEALED], env=os.environ | {"PYTHONHASHSEED": str(number)}, text=True,
            capture_output=True, check=True,
        ).stdout
        for number in range(4)
    ]  # fmt: skip
    assert len(set(found)) == 1


def test_a_search_goes_on_where_it_was():
    space = Space(4, (64,))
    subject = Subject("mlp", MLP, load("dgx2-v100"))
    whole = Search(subject, space, workers=HERE).table()
    some = tuple(whole)[:5]
    rest = list(Search(subject, space, workers=HERE, known=some).rows())
    assert sorted(map(str, [*some, *rest])) == sorted(map(str, whole))


def test_processes_find_the_same_rows():
    space = Space(4, (64, 128), (2, 4))
    here = searched(MLP, space)
    there = distir.search(MLP, hardware="dgx2-v100", space=space, workers=Workers(jobs=2))
    assert sorted(map(str, here)) == sorted(map(str, there))


def test_a_dask_cluster_finds_the_same_rows():
    distributed = pytest.importorskip("distributed")
    space = Space(4, (64,), (2,))
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        there = distir.search(MLP, hardware="dgx2-v100", space=space, workers=Workers(backend=address))
    assert sorted(map(str, searched(MLP, space))) == sorted(map(str, there))


@pytest.mark.thorough
def test_workers_of_a_dask_cluster_may_be_killed():
    """Their tasks go to others, or to those that are started in their place."""
    distributed = pytest.importorskip("distributed")
    space = Space(4, (64, 128), (2, 4))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        search = Search(Subject("", MLP, load("dgx2-v100")), space, workers=Workers(backend=address))
        found = []
        for row in search.rows():
            if not found:
                os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
            found.append(row)
    assert sorted(map(str, found)) == sorted(map(str, replace(search, workers=HERE).rows()))


@settings(max_examples=most_examples(50))
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.booleans()), max_size=12))
def test_the_front_has_what_nothing_else_dominates(points):
    rows = [_row(memory, speed, fits, i) for i, (memory, speed, fits) in enumerate(points)]
    front = pareto(rows)
    fitting = [row for row in rows if row.fits]
    for row in fitting:
        assert any(f.peak_memory_bytes <= row.peak_memory_bytes and f.throughput >= row.throughput for f in front)
    for one in front:
        for other in front:
            if one is not other:
                assert (one.peak_memory_bytes < other.peak_memory_bytes) == (one.throughput < other.throughput)


def test_what_does_not_fit_is_not_ranked():
    table = Table((_row(1, 5, False, 0), _row(2, 3, True, 1)))
    assert table.best.throughput == 3
    assert Table((_row(1, 5, False, 0),)).best is None


@pytest.mark.parametrize(
    ("module", "space", "message"),
    [
        (MLP, Space(6, (64,)), "6 devices are no product of powers of two"),
        (MLP, Space(0, (64,)), "expected 1 device or more"),
        (MLP, Space(32, (64,)), "`dgx2-v100` has 16 devices, 32 are asked for"),
        (MLP, Space(4), "`B` has no size"),
        (MLP, Space(4, (0,)), "expected a batch size of 1 or more"),
        (MLP, Space(4, (3,), fixed={"D": (2,)}), "no batch of 3 can be cut"),
        (MLP, Space(4, (64,), fixed={"D": (3,)}), "cannot be split"),
    ],
)
def test_nothing_to_search_is_said_so(module, space, message):
    with pytest.raises(SpaceError, match=message):
        searched(module, space)


def test_a_batch_that_the_program_says_needs_no_other():
    fixed = distir.models.mlp(4, 64, 32, training=True)
    table = searched(fixed, Space(2))
    assert {row.batch_size for row in table} == {32}
    assert table.best.throughput == pytest.approx(32 / table.best.latency_s)
    with pytest.raises(SpaceError, match="the program itself says the batch size, 32"):
        searched(fixed, Space(2, (64,)))


def _row(memory, speed, fits, number):
    return Row("m", number, Strategy(), 1.0, float(speed), memory, fits)


def test_a_plan_is_written_as_the_paper_writes_it():
    assert str(Strategy(2, 4, 2, 128)) == "2/4/2/128"
    assert str(Strategy(2, 1, 2, 4, "gpipe", 1, True)) == "2/1/2/4 gpipe zero=1 checkpoint"


def test_workers_tell_programs_of_two_names_apart():
    """They stay for the next search, and keep what they were handed."""
    subjects = [Subject(name, MLP, load("dgx2-v100")) for name in ("one", "one", "two")]
    first, again, other = map(Handed.of, subjects)
    assert first == again
    assert first != other
