"""`distir validate`: what it prints, writes and refuses."""

import csv
import json
from pathlib import Path

import pytest
from run_samples import row

MEASURED = Path(__file__).parents[2] / "examples/measured"


def test_groups_and_what_cannot_be_expressed_are_listed(distir, runs_file):
    path = runs_file(row(id="a:1"), row(id="a:2", micro_batch=2), row(id="a:3", micro_batch=""))
    ended = distir("validate", path)
    assert ended.code == 0
    assert "runs/megatron" in ended.out
    assert "2/3" in ended.out
    assert "1 run cannot be expressed" in ended.out
    assert "the micro batch is not stated: a:3" in ended.out


def test_predictions_are_written_and_continued_from(distir, runs_file, tmp_path):
    path, out = runs_file(row(id="a:1"), row(id="a:2", micro_batch=2)), tmp_path / "out.csv"
    assert distir("validate", path, "--csv", out).code == 0
    rows = list(csv.DictReader(out.open()))
    assert list(rows[0]) == ["id", "step_time_s", "peak_memory_bytes", "fits", "note"]
    assert [r["id"] for r in rows] == ["a:1", "a:2"]
    kept = out.read_text().splitlines()
    out.write_text("\n".join([*kept[:1], "a:1,123.0,1,true,", kept[2][:7]]))  # as if ended while it wrote
    assert distir("validate", path, "--csv", out).code == 0
    rows = {r["id"]: r for r in csv.DictReader(out.open())}
    assert rows["a:1"]["step_time_s"] == "123.0"
    assert set(rows) == {"a:1", "a:2"}


def test_as_json(distir, runs_file):
    ended = distir("validate", runs_file(row(step_time_s=0.01)), "--json")
    found = json.loads(ended.out)
    assert found["runs"][0]["time_error"] == pytest.approx(found["runs"][0]["step_time_s"] / 0.01 - 1)
    assert found["groups"][0]["runs"] == 1


def test_pictures_and_a_page(distir, runs_file, tmp_path):
    path = runs_file(row())
    ended = distir("validate", path, "--plot", tmp_path / "errors.svg", "--html", tmp_path / "page.html")
    assert ended.code == 0
    assert "<svg" in (tmp_path / "errors.svg").read_text()
    assert "r:1" in (tmp_path / "page.html").read_text()
    assert distir("validate", path, "--plot", tmp_path / "errors.gif").code == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gpu": "a100"}, "runs.csv:3:9: there is no gpu `a100`"),
        ({"framework": "megatrn"}, "runs.csv:3:17: there is no framework `megatrn`"),
        ({"layers": "x"}, "runs.csv:3:4: `layers` expected a whole number"),
    ],
)
def test_one_message_with_line_and_column(distir, runs_file, given, said):
    ended = distir("validate", runs_file(row(**given)))
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("error") == 1
    assert "Traceback" not in ended.err


def test_a_missing_file_is_refused(distir, tmp_path):
    ended = distir("validate", tmp_path / "none.csv")
    assert ended.code == 2
    assert "cannot read" in ended.err


def test_a_file_that_holds_no_predictions_is_left_alone(distir, runs_file, tmp_path):
    out = tmp_path / "notes.csv"
    out.write_text("my notes\nare here\n")
    ended = distir("validate", runs_file(row()), "--csv", out)
    assert ended.code == 2
    assert "holds no predictions" in ended.err
    assert out.read_text() == "my notes\nare here\n"


def test_same_predictions_on_several_processes(distir, runs_file):
    rows = [row(id=f"a:{i}", layers=2 + i) for i in range(9)]
    path = runs_file(*rows)
    alone, together = (json.loads(distir("validate", path, "--json", "--jobs", n).out) for n in (1, 2))
    assert alone == together
