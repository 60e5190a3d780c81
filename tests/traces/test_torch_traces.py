"""Real profiles of training runs that DistIR knows nothing of, beside programs that it distributes the same way."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import distir as distir

MODEL = """
func @wide(%w: Tensor[Float32, (96, 64)], %b: Tensor[Float32, (96,)], %x: Tensor[Float32, (N, 64)]) {
  %h = Gemm[transB = true](%x, %w, %b)
  %y = Relu(%h)
  return %y
}

func @narrow(%w: Tensor[Float32, (64, 96)], %b: Tensor[Float32, (64,)], %x: Tensor[Float32, (N, 96)]) {
  %h = Gemm[transB = true](%x, %w, %b)
  %y = Relu(%h)
  return %y
}

func @main(
  %w0: Tensor[Float32, (96, 64), 1] {param}, %b0: Tensor[Float32, (96,), 1] {param},
  %w1: Tensor[Float32, (64, 96), 1] {param}, %b1: Tensor[Float32, (64,), 1] {param},
  %w2: Tensor[Float32, (96, 64), 1] {param}, %b2: Tensor[Float32, (96,), 1] {param},
  %w3: Tensor[Float32, (64, 96), 1] {param}, %b3: Tensor[Float32, (64,), 1] {param},
  %x: Tensor[Float32, (16, 64), 1] {batch = 0}
) {
  %y0 = @wide(%w0, %b0, %x)
  %y1 = @narrow(%w1, %b1, %y0)
  %y2 = @wide(%w2, %b2, %y1)
  %y3 = @narrow(%w3, %b3, %y2)
  return %y3
}
"""

SIDE, TIMES = ("kind", "side"), ("n_simulated", "n_measured")


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """The folder with a folder of traces for each way to train."""
    folder = tmp_path_factory.mktemp("profiled")
    script = Path(__file__).with_name("profiled_training.py")
    started = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder)],
            env={**os.environ, "RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    complaints = [process.communicate(timeout=180)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], complaints
    return folder


@pytest.fixture
def compared(distir, traces, tmp_path):
    """Compares the model, transformed by some steps, with the traces of one way; gives the document."""

    def compare(way, *steps, options=()):
        (tmp_path / "model.dir").write_text(MODEL)
        plan = tmp_path / "plan.dir"
        words = ("grad", "loss=mse", "optimizer=sgd", *steps, tmp_path / "model.dir")
        ended = distir("transform", *words, "-o", plan)
        assert ended.code == 0, ended.err
        given = ("--measured", traces / way, "--hardware", "laptop-cpu", "--json", *options)
        ended = distir("compare", plan, *given)
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    return compare


def counts(document):
    """By kind and side: how often per step and device, simulated and measured."""
    return {tuple(row[k] for k in SIDE): tuple(row[k] for k in TIMES) for row in document["kinds"]}


def test_ddp(compared):
    document = compared("ddp", "dp=2", "overlap", "first_bucket_bytes=1048576")
    found = counts(document)
    assert found["Gemm", "both"] == (11, 11)  # four forward, and of the gradients all but that of the input
    assert found["Relu", "both"] == found["ReluGrad", "both"] == found["ReduceSum", "both"] == (4, 4)
    assert found["MSELoss", "both"] == found["MSELossGrad", "both"] == (1, 1)
    assert found["optimizer step", "both"] == (8, 8)
    assert found["allreduce", "both"] == (1, 1)  # one bucket
    assert document["matched"]["simulated"] > 0.6
    products = [row for row in document["statements"] if row["op"] == "Gemm"]
    forward = [row for row in products if row["torch"] == "aten::addmm"]
    layers = {f"Sequential_0/Linear_{i}" for i in range(4)}
    assert {module for row in forward for module in row["modules"]} == layers
    assert {module for row in products for module in row["modules"]} == layers  # gradients are of modules, too
    assert sum(row["runs"] for row in products) == 11 * 2 * 2  # two steps of two ranks: the first of three is left out


def test_differences_add_up(compared):
    document = compared("ddp", "dp=2")
    step = document["step"]
    total = sum(row["difference_s"] for row in document["kinds"])
    assert total == pytest.approx(step["measured_s"] - step["simulated_s"], rel=1e-6)
    assert sum(row["share"] for row in document["kinds"]) == pytest.approx(1)
    assert any("the run joins messages: 1 `allreduce`" in said for said in document["advice"])


def test_fsdp2(compared):
    document = compared("fsdp", "dp=2", "zero=3", "partition=split")
    found = counts(document)
    assert found["Gemm", "both"] == (11, 11)
    assert found["Relu", "both"] == found["ReluGrad", "both"] == (4, 4)
    assert found["allgather", "both"][1] >= 4  # each layer's, and again for the backward pass of most
    assert found["reducescatter", "both"][1] == 4  # gloo adds up where it is asked to scatter: the request counts
    assert ("allreduce", "measured") not in found


def test_pipelining(compared):
    document = compared("pipeline", "pp=2", "microbatches=2", "schedule=gpipe")
    found = counts(document)
    assert found["Gemm", "both"] == (11, 11)  # of two microbatches, the mean of both stages
    assert found["Relu", "both"] == found["ReluGrad", "both"] == (4, 4)
    assert found["send", "both"] == (4, 4)
    sent = [row for row in document["statements"] if row["op"] == "Send"]
    assert {row["torch"] for row in sent} <= {"gloo:send", "gloo:recv"}


def test_what_is_learned_is_in_the_profile(compared, distir, tmp_path):
    written = tmp_path / "ours.toml"
    document = compared("ddp", "dp=2", "overlap", options=("--profile-out", written))
    learned = document["profile"]
    ops = {row["op"]: row for row in learned["ops"]}
    assert ops["Gemm"]["measured"] == 11 * 2 * 2  # of a step, in two steps of two ranks
    assert ops["Gemm"]["dtype"] == "Float32"
    assert [(row["pattern"], row["devices"]) for row in learned["messages"]] == [("allreduce", 2)]
    shown = distir("hardware", written).out
    assert "torch.profiler's traces of 2 ranks, 4 steps" in shown
    again = compared("ddp", "dp=2", "overlap", options=("--hardware", written))
    assert again["step"]["simulated_s"] == pytest.approx(document["with_profile_s"])


def test_one_rank_of_two(distir, traces, tmp_path):
    (tmp_path / "model.dir").write_text(MODEL)
    plan = tmp_path / "plan.dir"
    distir("transform", "grad", "loss=mse", "optimizer=sgd", "dp=2", tmp_path / "model.dir", "-o", plan)
    one = traces / "ddp" / "rank1.json"
    ended = distir("compare", plan, "--measured", one, "--hardware", "laptop-cpu", "--json")
    document = json.loads(ended.out)
    assert [(row["rank"], row["device"]) for row in document["ranks"]] == [(1, 2)]
    assert any("1 of 2 ranks is here" in note for note in document["notes"])
    ended = distir("compare", plan, "--measured", one, "--hardware", "laptop-cpu", "--json", "--rank", "1=1")
    assert [row["device"] for row in json.loads(ended.out)["ranks"]] == [1]


def test_shown(distir, traces):
    ended = distir("import", "trace", traces / "pipeline", "--json")
    document = json.loads(ended.out)
    assert [row["rank"] for row in document["ranks"]] == [0, 1]
    for row in document["ranks"]:
        assert row["busy_s"] + row["idle_s"] == pytest.approx(row["step_s"])
        assert row["exposed_communication_s"] <= row["communication_s"] <= row["busy_s"]
    ops = {row["op"] for row in document["ops"]}
    assert {"send", "aten::addmm", "aten::mse_loss"} <= ops
    text = distir("import", "trace", traces / "pipeline").out
    assert "2 of 3" in text
    assert "8×64 64×96" in text


def test_csv(distir, traces, tmp_path):
    out = tmp_path / "ops.csv"
    assert distir("import", "trace", traces / "ddp" / "rank1.json", "-o", out).code == 0
    rows = list(csv.DictReader(out.open()))
    assert {row["rank"] for row in rows} == {"1"}
    products = [row for row in rows if row["op"] == "aten::addmm"]
    assert len(products) == 4 * 2
    assert {row["phase"] for row in products} == {"forward"}
    assert products[0]["modules"].endswith("Sequential_0/Linear_0")
    assert products[0]["of"] == "96 8×64 64×96"
