"""The page on how true the simulator is: it holds what its predictions say, of which a sample is predicted again."""

import importlib.util
from pathlib import Path

import pytest

from distir.validate import predict, read_runs
from distir.validate.figures import Outcome
from distir.validate.log import parse

ROOT = Path(__file__).parents[2]
RUNS = {run.id: run for path in sorted((ROOT / "examples/measured").glob("*.csv")) for run in read_runs(str(path))}
PREDICTED = {
    found.id: found
    for found in parse((ROOT / "docs/explanation/truth/predictions.csv").read_bytes(), "predictions.csv")
}
SAMPLE = (
    ("vtrain_single:970", "vtrain_single:1210"),
    ("mosaic:216", "mosaic:188"),
    ("aleph_alpha:140",),
    ("nemo_long:2",),
    ("torchtitan:1", "torchtitan:2", "torchtitan:4", "torchtitan:5"),
    tuple(f"megatron_golden:{number}" for number in (60, 61, 62, 63, 64, 66, 67)),
    tuple(f"megatron_golden:{number}" for number in (442, 443, 444, 446, 447, 448, 463, 464, 465, 466, 467, 468)),
)
"""Runs of several frameworks that are quick to predict, those together that share most of their work."""

CLOSE = 0.02
"""Costs may move by as much before the page must be written again (`make truth`)."""


def test_the_page_is_what_its_predictions_say():
    spec = importlib.util.spec_from_file_location("report", ROOT / "examples/measured/report.py")
    report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(report)
    outcomes = [Outcome(run, PREDICTED[run.id]) for run in RUNS.values() if run.id in PREDICTED]
    assert report.PAGE.read_text() == report.page(outcomes, [run for run in RUNS.values() if run.id not in PREDICTED])


def test_predictions_are_of_runs_and_most_runs_are_there():
    assert set(PREDICTED) <= set(RUNS)
    assert len(PREDICTED) > 0.9 * len(RUNS)


@pytest.mark.parametrize("names", SAMPLE, ids=lambda names: names[0])
def test_a_sample_is_predicted_as_the_page_has_it(names):
    for name in names:
        found, kept = predict(RUNS[name]), PREDICTED[name]
        assert (name, found.note, found.fits) == (name, kept.note, kept.fits)
        assert found.step_time_s == pytest.approx(kept.step_time_s, rel=CLOSE), name
        assert found.peak_memory_bytes == pytest.approx(kept.peak_memory_bytes, rel=CLOSE), name
