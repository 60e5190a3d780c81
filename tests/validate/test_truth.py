"""The page on how true the simulator is: it holds what its predictions say, of which a sample is predicted again."""

import hashlib
import importlib.util
from pathlib import Path

import pytest
from run_samples import row, text
from thorough import ALL

from distir.validate import predict, read_runs
from distir.validate.figures import Outcome
from distir.validate.log import parse
from distir.validate.origin import code_digest, inputs_digest

ROOT = Path(__file__).parents[2]
RUNS = {run.id: run for path in sorted((ROOT / "examples/measured").glob("*.csv")) for run in read_runs(str(path))}
LOGGED = {
    found.prediction.id: found
    for found in parse((ROOT / "docs/explanation/truth/predictions.csv").read_bytes(), "predictions.csv")
}
PREDICTED = {name: found.prediction for name, found in LOGGED.items()}

QUICK = 1024 if ALL else 256
"""Microbatches times stages times layers of runs that are quick to predict."""

EVERY = 50
"""Of so many runs of a group one is drawn; by default one of a framework's, with experts and without."""

CLOSE = 0.001
"""Predictions may move by as much before the page must be written again (`make truth`)."""


def sample():
    """Runs of each kind, drawn by the digest of the code that predicts: each change of it is tried on others."""
    groups = {}
    for run in RUNS.values():
        microbatches = run.global_batch // (run.strategy.data * (run.micro_batch or 1))
        if microbatches * run.strategy.pipeline * run.strategy.stages_per_device * run.layers <= QUICK:
            groups.setdefault(run.group if ALL else (run.framework, run.experts > 0), []).append(run.id)
    for names in groups.values():
        names.sort(key=lambda name: hashlib.sha256(f"{code_digest()} {name}".encode()).digest())
        yield from names[: -(-len(names) // EVERY) if ALL else 1]


def test_the_page_is_what_its_predictions_say():
    spec = importlib.util.spec_from_file_location("report", ROOT / "examples/measured/report.py")
    report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(report)
    outcomes = [Outcome(run, PREDICTED[run.id]) for run in RUNS.values() if run.id in PREDICTED]
    assert report.PAGE.read_text() == report.page(outcomes, [run for run in RUNS.values() if run.id not in PREDICTED])


def test_predictions_are_of_runs_and_most_runs_are_there():
    assert set(PREDICTED) <= set(RUNS)
    assert len(PREDICTED) > 0.9 * len(RUNS)


def test_predictions_are_of_the_rows_frameworks_and_machines_of_today():
    """Where a figure of a profile or a framework has changed, `make truth` predicts these runs anew."""
    outdated = [name for name, found in LOGGED.items() if found.inputs != inputs_digest(RUNS[name])]
    assert not outdated


@pytest.mark.parametrize("name", list(sample()))
def test_a_sample_is_predicted_as_the_page_has_it(name):
    found, kept = predict(RUNS[name]), PREDICTED[name]
    assert (found.note, found.fits) == (kept.note, kept.fits)
    if kept.note:
        return  # it cannot be expressed
    assert found.step_time_s == pytest.approx(kept.step_time_s, rel=CLOSE)
    assert found.reported_memory_bytes == pytest.approx(kept.reported_memory_bytes, rel=CLOSE)


def test_a_part_of_the_files_keeps_what_is_predicted_of_others(tmp_path, monkeypatch):
    """`make truth ARGS=FILE.csv`, of one file behind the other: the page has the runs of both."""
    monkeypatch.syspath_prepend(str(ROOT / "examples/measured"))
    report = importlib.import_module("report")
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for file in files:
        file.write_text(text(row(id=f"{file.stem}:1")))
    places = {"HERE": tmp_path, "PAGE": tmp_path / "truth.md", "PREDICTIONS": tmp_path / "truth" / "predictions.csv"}
    for name, place in {**places, "PICTURE": tmp_path / "errors.svg"}.items():
        monkeypatch.setattr(report, name, place)
    report.main([str(files[0])])
    assert "`make truth` continues with them: b:1." in report.PAGE.read_text()
    report.main([str(files[1])])
    assert "a/megatron | 1 of 1" in report.PAGE.read_text()
    assert "not predicted yet" not in report.PAGE.read_text()
    with pytest.raises(SystemExit, match="expected files of"):
        report.main([str(ROOT / "README.md")])
