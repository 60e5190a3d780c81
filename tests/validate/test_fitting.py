"""Figures fitted to measured runs: those of a machine that made the runs are found again."""

import json
from dataclasses import replace

import pytest
from run_samples import row, text

from distir.validate.fitting import FitError, fit
from distir.validate.plans import conditions_of, plan_of
from distir.validate.predictions import figures_of
from distir.validate.runs import parse_runs


def made_up(**true):
    """Runs on a machine with these conditions, which a fit does not know."""
    layouts = [{"dp": 4, "tp": 1}, {"dp": 2, "tp": 2}, {"dp": 1, "tp": 4}, {"dp": 2, "tp": 1, "pp": 2}]
    rows = [
        row(id=f"r:{i}-{width}", hidden=width, ffn=4 * width, heads=8, seq=512, framework="vtrain", **layout)
        for width in (128, 2048)
        for i, layout in enumerate(layouts)
    ]
    runs = parse_runs(text(*rows), "runs.csv")
    return [replace(r, step_time_s=figures_of(plan_of(r, replace(conditions_of(r), **true)))[0]) for r in runs]


def test_what_made_the_runs_is_found():
    found = fit(made_up(issue=25e-6, compute=0.8, links=0.7), ["issue", "compute", "links"])
    assert [each.name for each in found.figures if each.determined] == ["issue", "compute", "links"]
    for each, true in zip(found.figures, (25, 0.8, 0.7), strict=True):
        assert each.value == pytest.approx(true, rel=0.05)
        assert each.low <= true <= each.high or each.high / each.low < 1.02
    assert found.error_after < 0.01 < found.error_before
    assert len(found.used) == 8


def test_what_rows_do_not_determine_is_said():
    """On one device nothing is sent."""
    alone = {"gpus": 1, "dp": 1, "tp": 1, "framework": "vtrain"}
    rows = [row(id=f"r:{n}", layers=n, step_time_s=0.01 * n, **alone) for n in (1, 2, 3, 4)]
    _, links = fit(parse_runs(text(*rows), "runs.csv"), ["issue", "links"]).figures
    assert not links.determined


def test_too_few_runs_and_several_kinds_are_refused():
    runs = parse_runs(text(row(id="a"), row(id="b")), "runs.csv")
    with pytest.raises(FitError, match="expected more runs"):
        fit(runs, ["issue", "links"])
    with pytest.raises(FitError, match="one framework on one kind of GPU"):
        fit([runs[0], replace(runs[1], framework="nemo")], ["issue"])


def test_the_command(distir, runs_file):
    rows = [row(id=f"r:{n}", layers=n, gpus=1, dp=1, tp=1, step_time_s=0.01 * n) for n in (1, 2, 3, 4)]
    path = runs_file(*rows, row(id="r:oom", status="oom", step_time_s=""))
    ended = distir("calibrate", "--runs", path, "--fit", "issue,links")
    assert ended.code == 0
    assert "4 runs: mean error" in ended.out
    assert "1 left out, as out of memory, without a time, or impossible to express: r:oom" in ended.err
    assert "these runs do not determine `links`" in ended.err
    found = json.loads(distir("calibrate", "--runs", path, "--fit", "issue", "--json").out)
    assert found["figures"][0]["name"] == "issue"
    assert distir("calibrate", "--runs", path, "--fit", "isue").code == 2
    assert "expected the file to write" in distir("calibrate").err
