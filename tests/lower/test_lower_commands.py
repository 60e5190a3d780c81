"""`distir project`, `distir lower` and `distir launch`."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from distir.lower import Launch, LaunchError, launch
from distir.syntax import parse

PIPELINE = """\
func @layer(%w, %x) {
  %h = MatMul(%x, %w)
  %y = Relu(%h)
  return %y
}

func @main(
  %w1: Tensor[Float32, (8, 8), 1] {param},
  %w2: Tensor[Float32, (8, 8), 2] {param},
  %pair: Tuple[Tensor[BFloat16, (4,), 1], Float32[2]],
  %x: Tensor[Float32, (B, 8), 1] {batch = 0}
) {
  %a = @layer(%w1, %x)
  %b = Send[device = 2](%a)
  %y = @layer(%w2, %b)
  %half, %rest = UnpackTuple(%pair)
  %z = Mul(%y, %rest)
  %n = Neg(%half)
  return %z, %n
}
"""

HUGE = """
func @main(%x: Tensor[Float32, (1048576,), 1]) {
  %y = Relu(%x)
  %z = Tile(%y, [1000000000])
  return %z
}
"""


@pytest.fixture
def pipeline(tmp_path):
    path = tmp_path / "pipeline.dir"
    path.write_text(PIPELINE)
    return path


CHOOSING = """\
func @main(%table: Tensor[Float32, (50, 3), 1], %pair: Tuple[Tensor[Int64, (9,), 1], Tensor[Int64, (9,), 1]]) {
  %tokens, %mask = UnpackTuple(%pair)
  %x = Gather(%table, %tokens)
  return %x, %mask
}
"""


def test_a_lowered_program_knows_the_range_of_its_indices(distir, tmp_path):
    path = tmp_path / "choosing.dir"
    path.write_text(CHOOSING)
    assert distir("lower", path, "-o", tmp_path / "out").code == 0
    described = json.loads((tmp_path / "out" / "program.json").read_text())["entries"]["main"]["0"]["params"]
    assert [leaf.get("range") for leaf in described[1]["type"]] == [[0, 50], None]


def test_the_program_of_a_rank_is_printed(distir, pipeline, tmp_path):
    ended = distir("project", pipeline, "--rank", 2)
    assert ended.code == 0
    main_of_2 = parse(ended.out).module.functions["main"]
    assert [p.name for p in main_of_2.params] == ["w2", "pair", "a"]
    out = tmp_path / "rank.dir"
    assert distir("project", pipeline, "--rank", 2, "-o", out).code == 0
    assert out.read_text() == ended.out
    assert distir("check", out).code == 0


def test_ranks_are_listed(distir, pipeline):
    ended = distir("project", pipeline)
    assert ended.code == 0
    assert [line.split()[:1] for line in ended.out.splitlines()] == [["rank"], ["1"], ["2"]]


def test_a_rank_that_is_not_there_is_refused(distir, pipeline):
    ended = distir("project", pipeline, "--rank", 3)
    assert ended.code == 2
    assert "its ranks are 1, 2" in ended.err


def test_a_folder_is_written_without_torch(distir, pipeline, tmp_path):
    out = tmp_path / "lowered"
    assert distir("lower", pipeline, "-o", out, "--bind", "B=4").code == 0
    names = {path.name for path in out.iterdir()}
    assert {"program.py", "program.json", "run.py", "runtime.py", "README.md", "constants.safetensors"} <= names
    assert json.loads((out / "program.json").read_text())["devices"] == [1, 2]
    assert "--nproc-per-node=2" in (out / "README.md").read_text()


def test_what_cannot_be_lowered_is_shown_in_the_text(distir, tmp_path):
    path = tmp_path / "wrong.dir"
    path.write_text(
        "func @main(%x: Tensor[Float32, (3, 3), 1]) {\n  %y = Det(%x)\n  %z = Hardmax(%x)\n  return %y, %z\n}\n"
    )
    ended = distir("lower", path, "-o", tmp_path / "out")
    assert ended.code == 1
    assert "wrong.dir:2:3" in ended.err
    assert "wrong.dir:3:3" in ended.err
    assert not (tmp_path / "out").exists()


def test_a_size_must_be_given(distir, pipeline, tmp_path):
    ended = distir("lower", pipeline, "-o", tmp_path / "out")
    assert ended.code == 1
    assert "--bind B=64" in ended.err


def test_a_program_is_launched_verified_and_traced(distir, pipeline, tmp_path):
    pytest.importorskip("torch")
    trace = tmp_path / "trace.json"
    words = ["--bind", "B=4", "--verify", "--repeat", 3, "--trace", trace, "--json", "--timeout", "500s"]
    ended = distir("launch", pipeline, *words)
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["verified"] is True
    assert found["max_abs_error"] < 1e-5
    assert len(found["latencies_s"]) == 3
    assert found["latency_s"] == sorted(found["latencies_s"])[1]
    assert set(found["ranks"]) == {"1", "2"}
    for own in found["ranks"].values():
        assert found["observed_s"] >= own["busy_s"] >= own["comm_s"] > 0
    # w1, x, h and y of the first layer, half of the pair and its negative: all of rank 1 that is alive at once
    assert found["ranks"]["1"]["peak_memory_bytes"] == 4 * (64 + 32 + 32 + 32) + 2 * 4
    events = json.loads(trace.read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert {processes[e["pid"]] for e in slices} == {"device 1", "device 2"}
    sends = [e for e in slices if e["name"] == "Send"]
    assert len(sends) == 2
    assert sends[0]["ts"] == sends[1]["ts"]
    assert {e["cat"] for e in slices} == {"compute", "communication"}
    assert "@main › %y = @layer" in {e["args"].get("calls") for e in slices}


def test_running_out_of_memory_names_the_statement(distir, tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "huge.dir"
    path.write_text(HUGE)
    ended = distir("launch", path)
    assert ended.code == 2
    assert "1 rank needs about" in ended.err
    assert "`--max-memory`" in ended.err
    ended = distir("launch", path, "--max-memory", "100PB")
    assert ended.code == 2
    assert "rank 1 ran out of memory in `%z = Tile(%y, [1000000000])` of `@main`" in ended.err
    assert "`x` 4.19MB" in ended.err
    assert "Traceback" not in ended.err


TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


@pytest.fixture
def moved(distir, pipeline, tmp_path):
    """A lowered folder that is not where it was written."""
    pytest.importorskip("torch")
    distir("lower", pipeline, "-o", tmp_path / "first", "--bind", "B=4")
    return (tmp_path / "first").rename(tmp_path / "moved")


@pytest.mark.thorough
def test_another_number_of_ranks_than_lowered_for_is_refused(moved):
    words = [*TORCHRUN, "--standalone", "--nproc-per-node=3", str(moved / "run.py"), "--backend", "gloo"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode
    assert "the program was lowered for 2 ranks, found 3" in ended.stderr


def test_a_moved_folder_runs_under_torchrun_with_two_agents(moved, tmp_path):
    port = 20000 + os.getpid() % 20000
    agents = [
        subprocess.Popen(
            [
                *TORCHRUN,
                *("--nnodes=2", "--nproc-per-node=1", f"--node-rank={node}"),
                *("--master-addr=127.0.0.1", f"--master-port={port}"),
                *(str(moved / "run.py"), "--backend", "gloo", "--output", str(tmp_path / "results")),
            ],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
        )
        for node in range(2)
    ]
    assert [agent.wait(600) for agent in agents] == [0, 0]
    assert {path.name for path in (tmp_path / "results").iterdir()} == {
        "results.1.safetensors",
        "results.2.safetensors",
    }


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler of C++")
def test_functions_that_do_not_communicate_are_compiled(distir, pipeline, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no further processes, each of which imports torch
    ended = distir("launch", pipeline, "--bind", "B=4", "--compile", "--verify", "--json", "--timeout", "800s")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["verified"] is True


@pytest.mark.thorough
def test_a_rank_that_is_killed_ends_the_launch(distir, pipeline, tmp_path):
    """As by the system, when memory runs out: in the middle of the run, while the other rank waits.

    Ranks without PyTorch are killed in test_launching.py.
    """
    pytest.importorskip("torch")
    distir("lower", pipeline, "-o", tmp_path / "out", "--bind", "B=4")
    program = tmp_path / "out" / "program.py"
    head, mark, tail = program.read_text().partition("def f_main_rank_1")
    first = tail.index("\n    ")
    kill = "\n    if DEVICE.type != 'meta': import os; os.kill(os.getpid(), 9)"
    program.write_text(head + mark + tail[:first] + kill + tail[first:])
    with pytest.raises(LaunchError, match=r"rank 2 was killed by signal 9 \(SIGKILL\)"):
        launch(Launch(tmp_path / "out", (1, 2), timeout_s=500))
