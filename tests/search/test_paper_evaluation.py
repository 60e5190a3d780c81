"""The paper's evaluation as a command: what is searched is kept, and the page says what the pictures show."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "paper.md"


@pytest.fixture
def evaluation(monkeypatch, tmp_path):
    """The module that the parts share, which keeps its rows in an empty folder, on two devices."""
    monkeypatch.syspath_prepend(ROOT / "examples" / "paper")
    for name in ("evaluation", "best", "figure3", "table1", "memory_throughput", "scaling", "report"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("evaluation")
    monkeypatch.setattr(module, "OUT", tmp_path / "kept")
    monkeypatch.setattr(module, "REPORT", tmp_path / "report")
    monkeypatch.setattr(module, "DEVICES", 2)
    return module


def test_a_grid_is_searched_once(evaluation, capsys):
    first = evaluation.grid("mlp-1b", (256,), "small")
    assert "small: 9 of 9 configurations to simulate" in capsys.readouterr().err
    again = evaluation.grid("mlp-1b", (256,), "small")
    assert capsys.readouterr().err == ""
    assert again == first


def test_an_interrupted_grid_goes_on_and_adds_up_the_time(evaluation, capsys, monkeypatch):
    whole = evaluation.grid("mlp-1b", (256,), "whole")
    add = evaluation.Log.add

    def interrupted(log, row):
        add(log, row)
        if row.plan.microbatches == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(evaluation.Log, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluation.grid("mlp-1b", (256,), "part")
    monkeypatch.setattr(evaluation.Log, "add", add)
    spent = json.loads((evaluation.OUT / "part.json").read_text())
    capsys.readouterr()
    found = evaluation.grid("mlp-1b", (256,), "part")
    assert "part: 5 of 9 configurations to simulate" in capsys.readouterr().err
    assert sorted(map(str, found.table)) == sorted(map(str, whole.table))
    assert found.cpu_s > spent["cpu_s"] > 0


def test_the_traces_have_the_papers_order(evaluation, capsys):
    figure3 = importlib.import_module("figure3")
    figure3.OUT = evaluation.OUT
    evaluation.OUT.mkdir()
    figure3.main()
    assert "takes 1.0" in capsys.readouterr().out
    drawn = (evaluation.REPORT / "figure3.svg").read_text()
    assert all(f">{label}<" in drawn for label in ("as_1", "p_1", "ar_2", "dw2_1", "dw1_2"))
    bars = {}
    for name, program in figure3.PROGRAMS.items():
        text = (ROOT / "examples" / f"{program}.dir").read_text()
        simulation = figure3.distir.simulate(figure3.distir.parse(text))
        bars[name] = figure3._bars(simulation)
    swapped, printed = bars["swapped"], bars["as printed"]
    assert printed["p_1", 2].start < printed["ar_2", 2].start
    assert swapped["ar_2", 2].start < swapped["p_1", 2].start
    assert swapped["p_1", 2].start > printed["p_1", 2].start


def test_the_page_has_its_pictures_and_they_are_small():
    text = PAGE.read_text()
    pictures = [PAGE.parent / name for name in re.findall(r"!\[[^]]*\]\((\S+)\)", text)]
    assert len(pictures) == 9
    assert all(picture.read_text().startswith("<?xml") for picture in pictures)
    assert sum(picture.stat().st_size for picture in (PAGE.parent / "paper").iterdir()) < 1_000_000
    assert {picture.name for picture in pictures} == {path.name for path in (PAGE.parent / "paper").iterdir()}


def test_the_page_compares_with_what_the_paper_says():
    """The conclusions that section 5.1 draws from its figures hold here, and table 2 is nearly the same."""
    text = PAGE.read_text()
    assert text.count("| the same") == 3
    assert int(re.search(r"(\d+)\sof\sits\s12\schoices", text)[1]) >= 10
