"""What binds each row, and what would change the winner: as simulations of the same plans on other machines say."""

import json
from dataclasses import replace

import pytest
from search_samples import MLP

from distir import api, models
from distir.cost import load
from distir.search import Subject, Workers
from distir.search.binding import CLEARLY, bindings, changes, difference, other_machines
from distir.search.evaluate import evaluate
from distir.transform.strategy import Strategy

HERE = Workers(jobs=1)
WIDE = Subject("wide", models.mlp(4, 8192, training=True), load("dgx-h100", 2))
CONTENDERS = [Strategy(16, 1, 1), Strategy(2, 8, 1), Strategy(4, 4, 1), Strategy(8, 1, 2, 4)]


def rows_on(machine, size):
    it = replace(WIDE, hardware=machine)
    return [row for plan in CONTENDERS for row in evaluate(it, plan, [size])]


@pytest.mark.parametrize("size", [8192, 32768])
def test_what_would_change_the_winner_is_what_simulations_say(size):
    rows = rows_on(WIDE.hardware, size)
    best = min(rows, key=lambda row: row.latency_s)
    said = {change.what: change for change in changes(WIDE, rows, HERE)}
    for what, machine in other_machines(WIDE.hardware):
        times = {row.plan: row.latency_s for row in rows_on(machine, size)}
        first = min(times, key=times.get)
        if times[first] < (1 - CLEARLY) * times[best.plan]:
            assert said[what].plan == first
            assert said[what].gain == pytest.approx(1 - times[first] / times[best.plan])
        else:
            assert what not in said
    if size == 32768:
        assert str(said["with 800 Gb/s cards"]) == "with 800 Gb/s cards: T 4, D 4 (4/4/1/1, 2% faster)"


def test_the_machines_that_are_tried_are_those_that_are_sold():
    found = dict(other_machines(WIDE.hardware))
    assert set(found) == {
        "with twice the bandwidth of `nvlink`",
        "with 200 Gb/s cards",
        "with 800 Gb/s cards",
        "with devices twice as fast",
    }
    assert [level.cards.bandwidth for level in found["with 800 Gb/s cards"].levels if level.cards] == [100e9]
    (plan, one) = (Strategy(1, 1, 1), replace(WIDE, hardware=found["with devices twice as fast"]))
    (fast,), (usual,) = (list(evaluate(it, plan, [8192])) for it in (one, WIDE))
    assert fast.latency_s == pytest.approx(usual.latency_s / 2)


@pytest.mark.parametrize("nodes", [16, 2048])
def test_other_cards_are_those_of_all_levels_that_use_them(nodes):
    """Beyond the leaves of a large network, messages leave by the same cards as within one."""
    machine = load("dgx-h100", nodes)
    tried = list(other_machines(machine))
    assert len(dict(tried)) == len(tried), "each change is named once"
    assert {level.cards.bandwidth for level in dict(tried)["with 200 Gb/s cards"].levels if level.cards} == {25e9}


def test_more_memory_would_change_the_winner():
    usage = {row.plan: row.peak_memory_bytes for row in rows_on(WIDE.hardware, 32768)}
    small = WIDE.hardware.with_memory(usage[Strategy(16, 1, 1)] - 1)
    rows = rows_on(small, 32768)
    assert {row.fits for row in rows} == {True, False}
    first = next(iter(changes(replace(WIDE, hardware=small), rows, HERE)))
    assert "GB and more of memory: " in str(first)
    assert not next(row for row in rows if row.plan == first.plan).fits


def test_a_difference_is_said_in_the_words_of_its_users():
    plan = Strategy(8, 1, 2, 4)
    assert difference(plan, replace(plan, data=4, tensor=2)) == "T 2, D 4"
    assert difference(plan, replace(plan, zero=3)) == "zero 3"
    assert difference(plan, replace(plan, overlap=True, schedule="zb-h1")) == "schedule zb-h1, overlap on"


def test_shares_of_what_binds_add_up():
    it = Subject("mlp", MLP, load("dgx-h100"))
    rows = [
        row
        for plan in (Strategy(2, 1, 1), Strategy(1, 2, 2, 4), Strategy(1, 1, 4, 2))
        for row in evaluate(it, plan, [64])
    ]
    found = bindings(it, rows, HERE)
    assert set(found) == {row.key for row in rows}
    for (_, plan), one in found.items():
        assert one.compute + one.links + one.bubble + one.host == pytest.approx(1)
        assert (one.bubble > 0.01) == (plan.pipeline > 1)
        assert one.links > 0


def test_the_table_says_of_each_row_what_binds_it(distir, tmp_path):
    path = tmp_path / "m.dir"
    path.write_text(api.format(MLP))
    words = ("search", path, "--hardware", "dgx-h100", "--devices", "2", "--batch-size", "64", "--jobs", "1")
    found = distir(*words, "--microbatches", "2", "--explain")
    assert found.code == 0, found.err
    lines = found.out.splitlines()
    (head,) = (i for i, line in enumerate(lines) if "D/T/P/K" in line)
    assert "bound by" in lines[head]
    listed = [line for line in lines[head + 1 :] if line.strip().startswith("64 ")]
    assert len(listed) == 3
    assert all("compute " in line for line in listed)
    document = json.loads(distir(*words, "--microbatches", "2", "--explain", "--json").out)
    for row in document["rows"]:
        shares = row["bound_by"]
        assert sum(shares[name] for name in ("compute", "links", "bubble", "host")) == pytest.approx(1)
    assert "bound by" not in distir(*words, "--microbatches", "2").out
