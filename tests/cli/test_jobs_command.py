"""`distir import` and `distir export` of configurations: the answer, the program, and what is refused."""

import json

import pytest

from distir.search import Row, write_rows
from distir.transform import Strategy

JOB = """\
[model]
name = "llama3"
flavor = "debugmodel"

[training]
local_batch_size = 2
seq_len = 512
"""


@pytest.fixture
def job(file):
    return file("job.toml", JOB)


def test_a_job_is_answered_in_a_line(distir, job, tmp_path):
    out = tmp_path / "job.dir"
    ended = distir("import", "torchtitan", job, "--hardware", "dgx-h100", "--gpus", "4", "-o", out)
    assert ended.code == 0
    first, what, *rest = ended.out.splitlines()
    assert first.startswith("fits: ")
    assert "a step" in first
    assert "tokens/s" in first
    assert what.startswith("llama3-debugmodel on 4 x h100_80gb: dp=4 zero=3, sequences of 512, micro batch 2")
    assert any("one layer in 2" in line for line in rest)
    assert distir("check", out).code == 0


def test_a_job_that_needs_more_does_not_fit(distir, file):
    large = file(
        "large.toml", JOB.replace("debugmodel", "8B").replace("= 512", "= 8192") + "[compile]\nenable = true\n"
    )
    ended = distir("import", "torchtitan", large, "--hardware", "a100-40", "--gpus", "1")
    assert ended.code == 0
    assert ended.out.startswith("does not fit: ")


def test_a_job_with_anything_not_simulated_is_refused_if_asked(distir, job):
    ended = distir("import", "torchtitan", job, "--hardware", "dgx-h100", "--gpus", "4", "--strict")
    assert ended.code == 2
    assert "one layer in 2" in " ".join(ended.err.split())


def test_the_batch_that_a_file_leaves_open_is_asked_for_and_given(distir, file):
    left = file("ds.json", '{"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true}}')
    words = (
        "import",
        "deepspeed",
        left,
        "--model",
        "qwen3-0.6b",
        "--seq",
        "128",
        "--hardware",
        "dgx-h100",
        "--gpus",
        "2",
    )
    refused = distir(*words)
    assert refused.code == 2
    assert "`--micro-batch 1`" in refused.err
    ended = distir(*words, "--micro-batch", "1", "--global-batch", "4")
    assert ended.code == 0
    assert "micro batch 1, global batch 4" in ended.out


def test_a_job_goes_to_another_framework(distir, job, tmp_path):
    ended = distir("export", "deepspeed", job, "--gpus", "4")
    assert ended.code == 0
    found = json.loads(ended.out)
    assert (found["train_batch_size"], found["zero_optimization"]["stage"]) == (8, 3)
    plan = tmp_path / "plan.py"
    assert distir("export", "fsdp2", job, "--gpus", "4", "-o", plan).code == 0
    assert '"shard": 4' in plan.read_text()


def test_a_row_of_a_search_goes_to_a_framework(distir, tmp_path):
    rows = tmp_path / "rows.csv"
    row = Row("llama3-8b (layers=2, sequence=512) grad", 8, Strategy(2, 2, zero=1), 0.1, 80.0, 1, True)
    with open(rows, "w", newline="") as file:
        write_rows(file, [row])
    ended = distir("export", "megatron", rows)
    assert ended.code == 0
    for words in ("--num-layers 2 ", "--hidden-size 4096 ", "--seq-length 512 ", "--tensor-model-parallel-size 2 "):
        assert words in ended.out
    assert distir("export", "megatron", rows, "--row", "999").code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("import", "torchtita", "job.toml"), "did you mean `torchtitan`?"),
        (("import", "torchtitan", "job.toml", "--model", "llama3-8"), "did you mean `llama3-8b`?"),
        (("import", "torchtitan-python", "job.toml"), "no function returns a configuration"),
        (("import", "onnx", "job.toml", "--gpus", "8"), "`--gpus` is for jobs of training frameworks"),
        (("import", "onnx", "job.toml", "--micro-batch", "8"), "`--micro-batch` is for jobs of training frameworks"),
        (("export", "megatorn", "job.toml"), "did you mean `megatron`?"),
        (("export", "megatron", "job.dir"), "neither the rows of a search nor a configuration"),
    ],
)
def test_a_request_without_an_answer_is_refused(distir, job, words, message):
    words = [job if word == "job.toml" else word for word in words]
    ended = distir(*words)
    assert ended.code == 2
    assert message in " ".join(ended.err.split())
