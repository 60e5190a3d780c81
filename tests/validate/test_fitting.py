"""Figures fitted to measured runs: those of a machine that made the runs are found again."""

import json
from dataclasses import replace

import pytest
from run_samples import row, text

from distir import cost
from distir.validate.fitting import FitError, fit
from distir.validate.plans import conditions_of, plan_of
from distir.validate.predictions import figures_of
from distir.validate.runs import parse_runs

LAYOUTS = [{"dp": 4, "tp": 1}, {"dp": 2, "tp": 2}, {"dp": 1, "tp": 4}, {"dp": 2, "tp": 1, "pp": 2}]


def rows_of(width, **given):
    return [
        row(id=f"r:{i}-{width}", hidden=width, ffn=4 * width, heads=8, seq=512, framework="vtrain", **layout, **given)
        for i, layout in enumerate(LAYOUTS)
    ]


def made_up(**true):
    """Runs on a machine with these conditions, which a fit does not know."""
    rows = [*rows_of(128), *rows_of(2048)]
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


def test_the_profile_that_is_written_predicts_what_was_fitted(distir, runs_file, tmp_path):
    """Read by `validate`, it gives the error that the fit states; figures that rows do not determine are not in it."""
    runs = made_up(issue=25e-6, compute=0.8, links=0.7)
    seconds = {run.id: run.step_time_s for run in runs}
    rows = [cells.replace(",0.1,", f",{seconds[cells.split(',')[0]]},") for w in (128, 2048) for cells in rows_of(w)]
    path, out = runs_file(*rows), str(tmp_path / "ours.toml")
    ended = distir("calibrate", "--runs", path, "-o", out)
    assert (ended.code, f"wrote {out}") == (0, ended.err.strip())
    node, several = cost.load(out), cost.load(out, 2)
    (kind,) = node.kinds.distinct
    assert kind.host.issue == pytest.approx(25e-6, rel=0.05)
    assert kind.sustained_products == pytest.approx(0.8, rel=0.05)
    # No run is on two nodes, so that nothing is said of what joins them.
    assert [level.reached for level in several.levels] == [pytest.approx(0.7, rel=0.05), 1]
    usual, fitted = (json.loads(distir("validate", path, "--json", *more).out)["groups"][0]["time"]["mean"]
                     for more in ((), ("--hardware", out)))  # fmt: skip
    assert fitted < 0.01 < usual
    again = {each.name: each for each in fit([replace(run, hardware=out) for run in runs], ["issue", "links"]).figures}
    assert again["issue"].before == pytest.approx(25, rel=0.05)
    assert again["links"].value == pytest.approx(1, rel=0.02)


def test_nothing_is_written_of_figures_that_are_not_determined(distir, runs_file, tmp_path):
    rows = [row(id=f"r:{n}", layers=n, gpus=1, dp=1, tp=1, step_time_s=0.01 * n) for n in (1, 2, 3, 4)]
    out = tmp_path / "ours.toml"
    ended = distir("calibrate", "--runs", runs_file(*rows), "--fit", "links", "-o", str(out))
    assert ended.code == 2
    assert "these runs determine no figure" in ended.err
    assert not out.exists()
