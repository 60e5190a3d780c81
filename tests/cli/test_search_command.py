"""`distir search` as its users run it: rows that stay, searches that go on, pictures, other frameworks' options."""

import csv
import json
import re
from pathlib import Path

import pytest
from cli_samples import run_process
from thorough import ALL

import distir as api
from distir.cost import load

HARDWARE = ("--hardware", "dgx2-v100", "--jobs", "1")
SMALL_SEARCH = ("--devices", "4", "--batch-size", "64", "--microbatches", "2", *HARDWARE)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.dir"
    path.write_text(api.format(api.models.mlp(4, 64, training=True)))
    return path


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_a_table_of_the_best(distir, model):
    found = distir("search", model, *SMALL_SEARCH)
    assert found.code == 0
    assert "6 configurations" in found.out
    assert "D/T/P/K" in found.out


def test_a_model_of_the_paper_by_name(distir):
    found = distir("search", "mlp-1b", "--batch-size", "256", "--fix", "P=1", "--top", "1", *HARDWARE)
    assert "1/16/1/1" in found.out


def test_a_published_model_by_name_with_sizes_of_its_own(distir):
    sizes = ("--layers", "2", "--vocabulary", "512", "--width", "256", "--ffn", "512", "--seq", "128")
    words = ("--batch-size", "16", "--devices", "2", "--microbatches", "2", "--json", "--jobs", "1")
    training = ("--apply", "grad precision=mixed optimizer=adamw", "--hardware", "dgx-h100")
    found = distir("search", "llama3-8b", *sizes, *words, *training)
    assert found.code == 0, found.err
    document = json.loads(found.out)
    assert document["configurations"] == 3
    assert document["rows"][0]["fits"]
    assert document["rows"][0]["fit"] == "fits"
    serving = ("--phase", "decode", "--context", "256", "--hardware", "dgx-h100")
    assert distir("search", "llama3-8b", *sizes[:-2], *words, *serving).code == 0


def test_a_precision_that_the_machine_lacks_is_said_before_the_search(distir):
    sizes = ("--layers", "2", "--vocabulary", "512", "--seq", "64", "--batch-size", "8", "--devices", "2")
    found = distir("search", "gemma2-2b", *sizes, "--jobs", "1", "--hardware", "dgx2-v100")
    assert "warning: no arithmetic in BFloat16 on `NVIDIA V100-SXM3-32GB`: it runs as Float32 (DIR512)" in found.err


def test_a_search_by_name_is_one_of_the_program_of_that_name(distir, tmp_path):
    sizes = ("--layers", "2", "--vocabulary", "512", "--seq", "64", "--dtype", "Float16")
    words = ("--batch-size", "8", "--devices", "2", "--json", *HARDWARE)
    path = tmp_path / "model.dir"
    assert distir("model", "gemma2-2b", *sizes, "-o", path).code == 0
    by_name, by_file = (json.loads(distir("search", *m, *words).out) for m in (("gemma2-2b", *sizes), (path,)))
    assert by_name["rows"] == [{**row, "model": by_name["rows"][0]["model"]} for row in by_file["rows"]]


def test_the_csv_has_the_promised_columns(distir, model, tmp_path):
    path = tmp_path / "rows.csv"
    assert distir("search", model, *SMALL_SEARCH, "--csv", path).code == 0
    header = path.read_text().split("\n")[0]
    assert header.startswith("model,batch_size,D,T,P,K,latency_s,throughput,peak_memory_bytes,fits")
    assert len(rows(path)) == 6
    assert all(float(row["latency_s"]) > 0 and row["fits"] == "true" for row in rows(path))


def test_json_has_the_best_and_all_rows(distir, model):
    document = json.loads(distir("search", model, *SMALL_SEARCH, "--json").out)
    assert document["configurations"] == 6
    assert document["best"] == document["rows"][0]
    assert any(step.startswith("dtp=") for step in document["best"]["steps"])
    speeds = [row["throughput"] for row in document["rows"]]
    assert speeds == sorted(speeds, reverse=True)


def test_rows_that_cannot_be_told_apart_are_counted(distir, model):
    document = json.loads(distir("search", model, *SMALL_SEARCH, "--json").out)
    speeds = [row["throughput"] for row in document["rows"]]
    errors = load(document["hardware"]).published
    assert document["alike"] == sum(errors.alike(speeds[0], speed) for speed in speeds)
    said = f"rows 1 to {document['alike']} cannot be distinguished"
    assert (said in distir("search", model, *SMALL_SEARCH).out) == (document["alike"] > 1)


def test_progress_for_programs_counts_to_the_total_and_names_the_best_so_far(distir, model, tmp_path):
    path = tmp_path / "rows.csv"
    found = distir("search", model, *SMALL_SEARCH, "--json", "--progress", "json", "--csv", path)
    lines = [json.loads(line) for line in found.err.splitlines()]
    assert [line["done"] for line in lines] == list(range(7))
    assert {line["of"] for line in lines} == {6}
    assert lines[0]["best"] is None
    best = json.loads(found.out)["best"]
    plan = "{D}/{T}/{P}/{K}".format(**best)
    assert lines[-1]["best"] == {"plan": plan, "throughput": best["throughput"]}
    speeds = [line["best"]["throughput"] for line in lines if line["best"]]
    assert speeds == sorted(speeds)
    again = distir("search", model, *SMALL_SEARCH, "--json", "--progress", "json", "--csv", path, "--resume")
    (line,) = map(json.loads, again.err.splitlines())
    assert line == lines[-1]
    assert distir("search", model, "--progress", "xml").code == 2


def test_a_search_resumes(distir, model, tmp_path):
    path = tmp_path / "rows.csv"
    distir("search", model, *SMALL_SEARCH, "--csv", path)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + lines[4][:10])  # as a full disk or a kill leaves it
    assert distir("search", model, *SMALL_SEARCH, "--csv", path, "--resume").code == 0
    resumed = path.read_bytes()
    assert resumed.splitlines()[:4] == whole.splitlines()[:4]
    assert sorted(resumed.splitlines()) == sorted(whole.splitlines())
    again = distir("search", model, *SMALL_SEARCH, "--csv", path, "--resume")
    assert path.read_bytes() == resumed
    assert "6 configurations" in again.out


def test_rows_of_another_search_are_refused(distir, model, tmp_path):
    path = tmp_path / "rows.csv"
    distir("search", model, *SMALL_SEARCH, "--csv", path)
    before = path.read_bytes()
    model.write_text(api.format(api.models.mlp(4, 128, training=True)))
    found = distir("search", model, *SMALL_SEARCH, "--csv", path, "--resume")
    assert found.code == 2
    assert "is of another search" in found.err
    assert path.read_bytes() == before
    path.write_text("a,b\n1,2\n")
    assert "is not the CSV of a search" in distir("search", model, *SMALL_SEARCH, "--csv", path, "--resume").err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk_is_said(distir, model):
    found = distir("search", model, *SMALL_SEARCH, "--csv", "/dev/full")
    assert found.code == 2
    assert "no space left on device" in found.err


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".html"])
def test_pictures(distir, model, tmp_path, suffix):
    pytest.importorskip("plotly" if suffix == ".html" else "matplotlib")
    path = tmp_path / f"rows{suffix}"
    assert distir("search", model, *SMALL_SEARCH, "--plot", path).code == 0
    data = path.read_bytes()
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".html": b"<!doctype html>"}[suffix]
    assert data.startswith(start)
    if suffix == ".svg":
        assert re.search(rb">\d/\d/\d/\d</text>", data)  # points of the front have names
    if suffix == ".html":
        assert b"D\\u002fT" in data  # as plotly writes `D/T`
        assert b"<script src=" not in data  # nothing is fetched


@pytest.mark.parametrize(
    ("framework", "expected"),
    [
        ("megatron", "--tensor-model-parallel-size 2"),
        ("deepspeed", '"autotp_size": 2'),
        ("torchtitan", "tensor_parallel_degree = 2"),
        ("torchtitan-python", "config.parallelism.tensor_parallel_degree = 2"),
    ],
)
def test_a_row_for_another_framework(distir, model, tmp_path, framework, expected):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "rows.svg"
    found = distir("search", model, *SMALL_SEARCH, "--fix", "T=2", "--export", framework, "--plot", picture)
    assert found.code == 0
    assert picture.exists()
    assert expected in found.out
    if framework == "deepspeed":
        assert json.loads(found.out)["train_batch_size"] == 64


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mlp-1c", "--batch-size", "8"), "did you mean `mlp-1b`?"),
        (("llama3-8", "--batch-size", "8"), "did you mean `llama3-8b`?"),
        (("llama3-8b", "--batch-size", "8", "--heads", "7"), "expected `heads` to divide the width 4096, found 7"),
        (("mlp-1b", "--batch-size", "8", "--layers", "2"), "the model `mlp-1b` has no option `--layers`"),
        (("a.dir", "--layers", "2"), "`--layers` is for a model by its name, and `a.dir` is a program"),
        (("mlp-1b", "--apply", "gard"), "`--apply`: there is no step or option `gard`; did you mean `grad`?"),
        (("gpt2", "--apply", "checkpoint"), "so there is nothing to recompute"),
        (("mlp-1b",), "say which batch sizes to try, such as `--batch-size 64,128`"),
        (("mlp-1b", "--batch-size", "x"), "`--batch-size` expected comma-separated numbers"),
        (("mlp-1b", "--batch-size", "8", "--devices", "6"), "are no product of powers of two"),
        (("mlp-1b", "--batch-size", "8", "--devices", "32"), "has 16 devices, 32 are asked for"),
        (("mlp-1b", "--batch-size", "8", "--fix", "Q=2"), "`--fix` expected D, T, P or K"),
        (("mlp-1b", "--batch-size", "8", "--schedule", "1f2b"), "did you mean `1f1b`?"),
        (("mlp-1b", "--batch-size", "8", "--schedule", "foo"), "there are `1f1b`, `best`, `dualpipev`, `gpipe`"),
        (("mlp-1b", "--batch-size", "8", "--zero", "4"), "`--zero` expected stages from 0 to 3"),
        (("mlp-1b", "--batch-size", "8", "--plot", "a.bmp"), "expected a picture ending in"),
        (("mlp-1b", "--batch-size", "8", "--export", "megatorn"), "did you mean `megatron`?"),
        (("mlp-1b", "--batch-size", "8", "--resume"), "`--resume` needs `--csv`"),
        (("mlp-1b", "--batch-size", "8", "--backend", "spark://a"), "there is no backend"),
    ],
)
def test_a_request_that_cannot_be_is_refused(distir, words, message):
    found = distir("search", *words, *(HARDWARE if "32" not in words else HARDWARE[:2]))
    assert found.code == 2
    assert message in found.err


def test_help_shows_examples():
    assert "distir search mlp-1b" in run_process("search", "--help").out


def test_the_best_are_measured_beside_what_was_simulated(distir, model, tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "rows.csv"
    model.write_text(api.format(api.models.mlp(4, 64, dtype="Float32", training=True)))
    small, count = ("--devices", "2", "--batch-size", "8", "--microbatches", "2", *HARDWARE), 2 if ALL else 1
    found = distir("search", model, *small, "--csv", path, "--measure", count)
    assert found.code == 0
    assert "measured" in found.out.split("\n")[2]
    measured = [row for row in rows(path) if row["measured_latency_s"]]
    best = sorted(rows(path), key=lambda row: -float(row["throughput"]))[:count]
    assert sorted(row["D"] for row in measured) == sorted(row["D"] for row in best)
    assert all(float(row["measured_latency_s"]) > 0 for row in measured)
    for row in measured:  # what the ranks held is near what was simulated
        assert 0.5 < int(row["measured_memory_bytes"]) / int(row["peak_memory_bytes"]) < 2


def test_a_row_that_takes_longer_than_it_may_says_so(distir, model):
    pytest.importorskip("torch")
    words = ("search", model, "--devices", "2", "--batch-size", "64", *HARDWARE)
    found = distir(*words, "--measure", "1", "--measure-timeout", "1ms")
    assert found.code == 0, found.err
    assert "not measured: " in found.out


def test_microbatches_may_be_stated_by_their_size(distir):
    words = ("search", "mlp-1b", "--devices", "4", "--batch-size", "64", *HARDWARE, "--jobs", "1")
    ended = distir(*words, "--micro-batch", "4,8", "--json")
    assert ended.code == 0, ended.err
    rows = json.loads(ended.out)["rows"]
    assert {r["micro_batch"] for r in rows if r["P"] > 1} == {r["micro_batch"] for r in rows if r["P"] == 1} == {4, 8}
    assert all(r["micro_batch"] * r["D"] * r["K"] == 64 for r in rows)
    refused = {
        ("--micro-batch", "5"): "`--micro-batch` expected sizes that divide the batch 64, found 5",
        ("--micro-batch", "4", "--microbatches", "2"): "`--micro-batch` excludes `--microbatches`",
        ("--micro-batch", "4", "--accumulate", "2"): "excludes `--microbatches` and `--accumulate`",
        ("--accumulate", "0"): "`--accumulate` expected 1 or more, found 0",
        ("--apply", "accumulate=2"): "`--apply`: `accumulate=2` is what a search tries itself",
        ("--micro-batch", "0"): "`--micro-batch` expected 1 or more, found 0",
    }
    for more, message in refused.items():
        ended = distir(*words, *more)
        assert ended.code == 2
        assert message in ended.err
