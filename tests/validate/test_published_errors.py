"""What published runs say of how far simulated times are off: the bands of profiles hold on rows held back."""

import importlib.util
from itertools import chain
from pathlib import Path

import pytest

from distir import cost
from distir.cost.hardware import PublishedErrors
from distir.validate import read_runs
from distir.validate.figures import ENOUGH, Outcome, published_errors
from distir.validate.log import parse

ROOT = Path(__file__).parents[2]
LOGGED = parse((ROOT / "docs/explanation/truth/predictions.csv").read_bytes(), "predictions.csv")
PREDICTED = {found.prediction.id: found.prediction for found in LOGGED}
RUNS = chain.from_iterable(read_runs(str(path)) for path in sorted((ROOT / "examples/measured").glob("*.csv")))
OUTCOMES = [Outcome(run, PREDICTED[run.id]) for run in RUNS if run.id in PREDICTED]
TIMED = [o for o in OUTCOMES if o.time_error is not None and o.run.source != "megatron_golden"]


def within(outcome, errors):
    return errors.low <= 1 / (1 + outcome.time_error) <= errors.high


@pytest.mark.parametrize("kept", [0, 1])
def test_8_of_10_runs_that_are_held_back_lie_in_the_band_of_the_others(kept):
    fitted = published_errors(TIMED[kept::2])
    held_back = TIMED[1 - kept :: 2]
    assert 0.7 <= sum(within(o, fitted) for o in held_back) / len(held_back) <= 0.9


def test_the_page_says_how_many_runs_of_files_that_are_held_back_lie_in_the_band_of_the_others():
    inside = 0
    for source in {o.run.source for o in TIMED}:
        fitted = published_errors([o for o in TIMED if o.run.source != source])
        inside += sum(within(o, fitted) for o in TIMED if o.run.source == source)
    share = inside / len(TIMED)
    assert 0.7 <= share <= 0.9
    page = (ROOT / "docs/explanation/truth.md").read_text()
    assert f"Of runs of a file, {100 * share:.0f} % lie in the band of all other files." in page


def test_profiles_state_what_the_page_says():
    spec = importlib.util.spec_from_file_location("report", ROOT / "examples/measured/report.py")
    report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(report)
    found = report.bands(OUTCOMES)
    for name in set(report.GPUS.values()):
        stated, expected = cost.load(name).published, found.get(name, found[""])
        figures = stated.low, stated.high, stated.apart
        assert figures == pytest.approx((expected.low, expected.high, expected.apart), abs=0.006), name


def test_the_band_of_exact_predictions_is_a_point_and_few_runs_have_none():
    exact = [Outcome(o.run, type(o.predicted)(o.run.id, o.run.step_time_s)) for o in TIMED]
    assert published_errors(exact) == PublishedErrors(1, 1, 0)
    assert published_errors(exact[: ENOUGH - 1]) is None


def test_times_are_alike_whose_ratio_is_below_that_of_errors():
    errors = PublishedErrors(0.9, 1.2, 0.1)
    assert errors.band(2) == (1.8, 2.4)
    assert errors.alike(1, 1.1)
    assert errors.alike(1.1, 1)
    assert not errors.alike(1, 1.11)
