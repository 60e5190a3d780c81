"""Bounds on every profile: no simulation beats them, and what is passed over is never the best of the grid."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from search_samples import CALIBRATED, GPT2, MLP, UNEVEN, UNUSED
from thorough import ALL

from distir.api import parse, simulate, transform
from distir.cost import load, profiles
from distir.models import mlp
from distir.search import Annealing, Search, Space, SpaceError, Subject, Workers
from distir.search.bounds import load_of
from distir.search.sequential import load_at as _load
from distir.transform.strategy import Strategy

HERE = Workers(jobs=1)
MACHINES = {name: load(name) for name in (*profiles(), CALIBRATED)}
MODELS = {"mlp": MLP, "gpt2": GPT2, "uneven": UNEVEN, "unused": UNUSED}


@st.composite
def searches(draw, machine):
    """A small space for a program on a machine."""
    hardware = MACHINES[machine]
    devices = draw(st.sampled_from([n for n in (1, 2, 4, 8) if n <= hardware.devices]))
    model = draw(st.sampled_from(sorted(MODELS)))
    trained = model == "mlp"
    space = Space(
        devices,
        (draw(st.sampled_from([16, 64, 1024])),),
        draw(st.sampled_from([(2,), (2, 8)])),
        draw(st.sampled_from([("1f1b",), ("gpipe", "1f1b")])),
        draw(st.sampled_from([(0,), (0, 1, 3)])) if trained and devices > 1 else (0,),
        draw(st.sampled_from([(False,), (False, True)])) if trained else (False,),
    )
    return Search(Subject(model, MODELS[model], hardware), space, workers=HERE)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda name: Path(name).stem)
@settings(
    max_examples=3 if ALL else 1,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_bounded_finds_the_best_of_the_grid(machine, data):
    search = data.draw(searches(machine))
    try:
        grid = search.table()
    except SpaceError:
        with pytest.raises(SpaceError):
            replace(search, method="bounded").table()
        return
    bounded = replace(search, method="bounded").table()
    (size,) = search.batch_sizes
    load_of_it = _load(search.subject, size)
    for row in grid:
        if row.latency_s is not None:
            assert load_of_it.bound(row.plan, search.subject.hardware) <= row.latency_s
    assert set(bounded) <= set(grid)
    best, found = grid.best, bounded.best
    assert (best and best.latency_s) == (found and found.latency_s)


@pytest.mark.parametrize("machine", ["dgx2-v100", CALIBRATED], ids=["published", "calibrated"])
def test_some_are_passed_over(machine):
    hardware = MACHINES[machine]
    search = Search(Subject("mlp", MLP, hardware), Space(min(4, hardware.devices), (4096,)), workers=HERE)
    assert len(replace(search, method="bounded").table()) < len(search.table())


def test_a_product_that_nothing_needs_bounds_nothing():
    subject = Subject("unused", UNUSED, MACHINES["dgx2-v100"])
    load_of_it = _load(subject, 64)
    for row in Search(subject, Space(4, (64,), (2, 4)), workers=HERE).table():
        if row.latency_s is not None:
            assert load_of_it.bound(row.plan, subject.hardware) <= row.latency_s


@pytest.mark.parametrize("edge", [-1.0, 1.0])
def test_the_bound_holds_at_the_edges_of_the_costs(edge):
    hardware = replace(MACHINES[CALIBRATED], edge=edge)
    subject = Subject("mlp", MLP, hardware)
    load_of_it = _load(subject, 256)
    rows = [row for row in Search(subject, Space(2, (256,), (2, 4)), workers=HERE).table() if row.latency_s is not None]
    assert rows
    for row in rows:
        assert load_of_it.bound(row.plan, hardware) <= row.latency_s


@pytest.mark.parametrize("rows", [16, 256, 4096, 65_536])
def test_the_bound_holds_for_products_by_shape(rows):
    hardware = load("dgx-h100")
    alone = simulate(
        parse(f"""func @main(%x: Tensor[BFloat16, ({rows}, 4096), 0], %w: Tensor[BFloat16, (4096, 4096), 0]) {{
  %y = MatMul(%x, %w)
  return %y
}}"""),
        hardware,
    )
    assert load_of(alone).bound(Strategy(1, 1, 1), hardware) <= alone.latency_s


def test_a_bound_that_is_met_is_not_passed():
    """Products and nothing else: the latency is the sum of what they take, in another order of adding up."""
    for name in ("dgx2-v100", "laptop-cpu"):
        for size in (64, 1024):
            subject = Subject("uneven", UNEVEN, MACHINES[name])
            load_of_it = _load(subject, size)
            for row in Search(subject, Space(2, (size,), fixed={"D": (2,)}), workers=HERE).table():
                assert 0.999 * row.latency_s < load_of_it.bound(row.plan, subject.hardware) <= row.latency_s


def test_rows_of_other_searches_bound_nothing():
    """A CSV may hold rows of other numbers of devices; they are no reason to pass anything over."""
    subject = Subject("mlp", MLP, MACHINES["dgx2-v100"])
    large = Search(subject, Space(4, (64,)), workers=HERE).table()
    small = Search(subject, Space(2, (64,)), "bounded", HERE)
    assert small.asked_for(large) == []
    assert small.asked_for(small.table()) == list(small.table())


@settings(max_examples=4 if ALL else 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(["mlp", "gpt2", "uneven"]), st.integers(0, 99), st.sampled_from([2, 4]))
def test_annealing_is_at_least_as_good_as_the_grid(model, seed, devices):
    subject = Subject(model, MODELS[model], MACHINES["dgx2-v100"])
    grid = Search(subject, Space(devices, (64,), (2, 4)), workers=HERE)
    annealed = replace(grid, method="anneal", annealing=Annealing(steps=8, seed=seed)).table()
    assert set(grid.table()) <= set(annealed)
    assert annealed.best.latency_s <= grid.table().best.latency_s
    assert replace(grid, method="anneal").asked_for(annealed) == list(annealed)


def test_annealing_finds_stages_that_the_grid_does_not_have():
    """Half of the work is in the first of four layers: 1 and 3 layers are faster than 2 and 2."""
    subject = Subject("uneven", UNEVEN, MACHINES["dgx2-v100"])
    grid = Search(subject, Space(2, (64,), (4,), fixed={"P": (2,)}), workers=HERE)
    annealed = replace(grid, method="anneal", annealing=Annealing(steps=20, seed=3)).table()
    assert annealed.best.plan.stages == (1, 3)
    assert annealed.best.latency_s < grid.table().best.latency_s


def test_products_of_8_bits_bound_a_search():
    program = transform(mlp(2, 256, dtype="BFloat16"), "fp8=tensor", "grad", "loss=mse", "optimizer=sgd")
    subject = Subject("fp8", program, MACHINES["dgx-h100"])
    load_of_it = _load(subject, 64)
    assert {dtype.name for _, dtype, _ in load_of_it.ops} == {"Float8E4M3FN", "Float8E5M2"}
    for row in Search(subject, Space(4, (64,), (2, 4)), workers=HERE).table():
        if row.latency_s is not None:
            assert 0 < load_of_it.bound(row.plan, subject.hardware) <= row.latency_s
