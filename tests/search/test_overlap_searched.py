"""Searches that try overlap: rows are simulations, and bounds still hold."""

from dataclasses import replace

import pytest
from search_samples import GPT2, MLP

import distir
from distir.search import Space
from distir.transform.strategy.steps import apply

SPACE = Space(4, (4096,), (2, 4), zero=(0, 3), accumulate=(1, 4), overlap=(False, True))


@pytest.fixture(scope="module")
def table():
    return distir.search(MLP, hardware="dgx2-v100", space=SPACE)


def test_rows_are_simulations_of_the_steps(table):
    for row in table:
        if not row.plan.overlap or row.latency_s is None:
            continue
        made = apply(MLP, row.plan)
        simulation = distir.simulate(made, "dgx2-v100", bind={"B": 4096})
        assert row.latency_s == pytest.approx(simulation.latency_s, rel=1e-12)
        assert row.peak_memory_bytes == max(use.peak_memory_bytes for use in simulation.devices.values())


def test_overlap_is_a_column_that_pays_and_changes_no_other_row(table):
    plain = {row.plan: row.latency_s for row in table if not row.plan.overlap}
    assert plain == {
        row.plan: row.latency_s
        for row in distir.search(MLP, hardware="dgx2-v100", space=replace(SPACE, overlap=(False,)))
    }
    beside = [row for row in table if row.plan.overlap and row.latency_s is not None]
    assert any(row.plan.data > 1 and row.plan.zero == 3 for row in beside)
    for row in beside:
        before = plain[replace(row.plan, overlap=False)]
        assert row.latency_s <= before
        assert row.plan.data == 1 or row.latency_s < before
    assert table.best is not None
    assert "overlap" in str(next(row.plan for row in beside))


def test_the_bound_never_costs_the_best_row(table):
    bounded = distir.search(MLP, hardware="dgx2-v100", space=SPACE, method="bounded")
    assert bounded.best == table.best


def test_what_cannot_be_overlapped_is_a_row_with_its_reason():
    found = distir.search(GPT2, hardware="dgx2-v100", space=Space(2, (8,), (2,), overlap=(True,), fixed={"D": (2,)}))
    (row,) = found
    assert row.latency_s is None
    assert "overlap" in row.reason
