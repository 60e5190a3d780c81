"""The comparison of simulated and measured times, without measuring."""

import json
import subprocess
import sys

import pytest
from cost_samples import small_profile, toml

from distir.analysis import check
from distir.cost import load, parse

FOLDER = __file__.rsplit("/tests/", 1)[0] + "/examples/accuracy"


@pytest.fixture
def accuracy(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    names = ("comparison", "configurations", "accuracy")
    import comparison
    import configurations

    yield comparison, configurations
    for name in names:
        sys.modules.pop(name, None)


def test_what_is_drawn_is_enough_and_never_twice(accuracy):
    _, configurations = accuracy
    found = configurations.drawn()
    assert found == configurations.drawn()
    shapes = {(c.workload, c.strategy, c.layers, c.width, c.batch, c.tokens) for c in found}
    assert len(shapes) == len(found) >= 40
    assert {(c.workload, c.ranks) for c in found} == {(w, n) for w in configurations.STRATEGIES for n in (1, 2)}


@pytest.mark.parametrize("strategy", ["one", "dp", "tp", "pp", "dp overlap", "pp overlap"])
def test_programs_are_without_faults(accuracy, strategy):
    _, configurations = accuracy
    overlapped = strategy.endswith("overlap")
    for workload in configurations.OVERLAPPED if overlapped else configurations.STRATEGIES:
        small = configurations.Configuration(0, workload, strategy, 2, 64, 4, 16)
        module = small.program()
        assert not check(module).errors
        assert any(getattr(s, "stream", "") for f in module for s in f.body) == overlapped


def test_rank_correlation(accuracy):
    comparison, _ = accuracy
    assert comparison.spearman([1, 2, 3], [10, 20, 90]) == pytest.approx(1)
    assert comparison.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert comparison.spearman([1, 1, 2, 3], [1, 2, 2, 3]) == pytest.approx(0.8333, abs=1e-3)


def test_measured_times_are_kept_and_reported(accuracy, tmp_path):
    comparison, configurations = accuracy
    drawn = configurations.drawn()[:6]
    rows = [comparison.Measured(c, 9, 1e-3 * (n + 1), 0.1) for n, c in enumerate(drawn)]
    comparison.write(tmp_path / "measured.csv", rows)
    assert comparison.read(tmp_path / "measured.csv") == rows
    profile = small_profile()
    profile["sources"] = {"calibration": "guessed"}
    hardware = dict.fromkeys((1, 2), parse(toml(profile)))
    compared = comparison.compare(rows, hardware)
    assert [row.measured for row in compared] == rows
    text = comparison.report(compared, hardware)
    assert "| all | 6 |" in text
    assert "guessed" in text
    pytest.importorskip("matplotlib")
    comparison.draw(compared, tmp_path / "accuracy.svg")
    assert "Spearman" not in (tmp_path / "measured.csv").read_text()
    assert (tmp_path / "accuracy.svg").read_text().startswith("<?xml")


def test_a_gpu_has_programs_of_its_own(accuracy, tmp_path):
    comparison, configurations = accuracy
    found = configurations.drawn_on_gpu()
    shapes = {(c.workload, c.layers, c.width, c.batch, c.tokens) for c in found}
    assert len(found) >= 40
    assert len(shapes) == len(found)
    chosen = [c for c in found if c.workload in ("qwen3-4b training", "mlp training")]
    rows = [comparison.Measured(c, 9, 1e-2 * (n + 1), 0.1, 10**9) for n, c in enumerate(chosen)]
    for row in rows:
        module = row.configuration.program()
        assert not check(module).errors
        assert {p.type.dtype.name for p in module.functions["main"].params if "param" in p.roles} == {"BFloat16"}
    comparison.write(tmp_path / "measured.csv", rows)
    assert comparison.read(tmp_path / "measured.csv") == rows
    report = comparison.report(comparison.compare(rows, {1: load("h200")}), {})
    assert f"Peak memory of {len(rows)}: median error" in report
    assert "| layers of models, training | 2 |" in report


def test_programs_are_timed_one_after_the_other(accuracy, tmp_path):
    _, configurations = accuracy
    import accuracy as script

    chosen = [c for c in configurations.drawn_on_gpu() if c.workload == "mlp training"][:2]
    folders = script.write_programs(chosen, tmp_path)
    command = [sys.executable, f"{FOLDER}/together.py", *map(str, folders)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert [line["folder"] for line in found] == [folder.name for folder in folders]
    assert all(line["seconds"] and min(line["seconds"]) > 0 and "error" not in line for line in found)
