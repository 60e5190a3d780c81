"""`distir export`: what it writes, and what it refuses."""

import json

import pytest

MODEL = """
func @main(
  %w: Tensor[Float32, (4, 4), 1] {param},
  %v: Tensor[Float32, (4, 4), 1] {param},
  %x: Tensor[Float32, (8, 4), 1] {batch = 0}
) {
  %a = MatMul(%x, %w)
  %b = MatMul(%a, %v)
  return %b
}
"""


@pytest.fixture
def pipeline(distir, file, tmp_path):
    def made(*words):
        out = tmp_path / "pipeline.dir"
        assert distir("transform", "grad", "loss=mse", *words, file("model.dir", MODEL), "-o", out).code == 0
        return out

    return made


def test_a_schedule_goes_out_and_comes_back(distir, pipeline, tmp_path):
    program = pipeline("pp=2", "microbatches=4", "schedule=gpipe")
    text = program.read_text()
    ended = distir("export", "torch-csv", program)
    assert ended.code == 0
    assert ended.out.splitlines() == ["0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3", "1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3"]
    order = tmp_path / "order.csv"
    assert distir("export", "torch-csv", program, "-o", order).code == 0
    assert pipeline("pp=2", f"schedule={order}").read_text() == text


def test_messages_and_what_fsdp_does_are_written_when_asked_for(distir, pipeline):
    ended = distir("export", "torch-csv", pipeline("pp=2", "microbatches=2"), "--comms")
    assert ended.out.splitlines() == [
        "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD",
        "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD",
    ]


def test_replicas_and_shards_are_named_by_rank(distir, pipeline):
    ended = distir("export", "torch-csv", pipeline("dtp=2,1,2", "microbatches=2"))
    assert ended.code == 0
    assert "0: 1, 2; 1: 3, 4" in ended.err
    assert len(ended.out.splitlines()) == 2


def test_what_cannot_be_exported_is_refused(distir, pipeline, file):
    ended = distir("export", "torch-cvs", file("model.dir", MODEL))
    assert ended.code == 2
    assert "did you mean `torch-csv`" in ended.err
    ended = distir("export", "torch-csv", file("model.dir", MODEL))
    assert ended.code == 1
    assert "DIR651" in ended.err + ended.out


def test_a_bad_file_is_one_message_with_line_and_column(distir, file):
    bad = file("bad.csv", "0F0,0B0\n1F0,1C0\n")
    ended = distir("transform", "grad", "pp=2", f"schedule={bad}", file("m.dir", MODEL))
    assert ended.code == 2
    (error,) = [line for line in ended.err.splitlines() if line.startswith("error")]
    assert "bad.csv`, line 2, column 5: expected an action" in error


def test_execution_traces_are_written_into_a_folder(distir, pipeline, tmp_path):
    program = pipeline("dp=4")
    ended = distir("export", "chakra", program, "-o", tmp_path / "traces", "--hardware", "dgx-a100")
    assert ended.code == 0, ended.err
    assert {path.name for path in (tmp_path / "traces").iterdir()} == {
        *(f"trace.{rank}.et" for rank in range(4)),
        "comm_groups.json",
    }
    assert json.loads((tmp_path / "traces" / "comm_groups.json").read_text()) == {"1": [0, 1, 2, 3]}


def test_what_of_execution_traces_is_refused(distir, file, pipeline, tmp_path):
    model = file("model.dir", MODEL)
    for words, said in {
        (): "is a folder of files",
        ("-o", tmp_path / "out", "--comms"): "`--comms`: an export to `chakra` takes none",
        ("-o", tmp_path / "out", "--bind", "B=4"): "has no dimension or host value `B`",
        ("-o", tmp_path / "out", "--hardware", "dgx-a10"): "unknown hardware `dgx-a10`",
        ("-o", model): "cannot write",
    }.items():
        ended = distir("export", "chakra", model, *words)
        assert ended.code == 2, words
        assert said in ended.err
        assert len(ended.err.splitlines()) <= 3
    ended = distir("export", "torch-csv", pipeline("pp=2", "microbatches=2"), "--hardware", "dgx-a100")
    assert (ended.code, "`--hardware`: an export to `torch-csv` takes none" in ended.err) == (2, True)
    assert not (tmp_path / "out").exists()
    stands = pipeline("dtp=2,1,1", "representative=true")
    ended = distir("export", "chakra", stands, "-o", tmp_path / "out")
    assert (ended.code, "without `representative=true`" in ended.err) == (2, True)


def test_nodes_that_astra_sim_does_not_run_are_named(distir, file, tmp_path):
    text = """
func @main(%x: Tensor[Float32, (4, 8), 0], %y: Tensor[Float32, (4, 8), 1]) {
  %a = MPIReduce[root = 1](%x, %y)
  return %a
}
"""
    ended = distir("export", "chakra", file("reduce.dir", text), "-o", tmp_path / "out")
    assert ended.code == 0
    assert "warning: ASTRA-sim does not run a reduce, of which there are 2 nodes" in ended.err
