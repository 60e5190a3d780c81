"""`distir diff` with traces: a run as simulated beside the same run as measured."""

import json
import re

import pytest

from distir.cli.app import main

PROGRAM = """\
func @main(
  %w_1: Tensor[Float32, (8, 8), 1] {param},
  %w_2: Tensor[Float32, (8, 8), 2] {param},
  %x: Tensor[Float32, (B, 8), 1] {batch = 0}
) {
  %x_1, %x_2 = MPIScatter[devices = [1, 2]](%x)
  %s = Shape(%x)
  %h_1 = @layer(%w_1, %x_1)
  %h_2 = @layer(%w_2, %x_2)
  %k_1 = @layer(%w_1, %h_1)
  %k_2 = @layer(%w_2, %h_2)
  %z_1, %z_2 = MPIAllreduce(%k_1, %k_2)
  return %z_1, %z_2
}

func @layer(%w, %x) {
  %wx = MakeTuple(%w, %x)
  %v, %u = UnpackTuple(%wx)
  %y = MatMul(%u, %v)
  %a = Relu(%y)
  return %a
}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.dir").write_text(PROGRAM)
    return tmp_path


def said(capsys, *words):
    code = main(["diff", *words])
    return code, capsys.readouterr()


def test_a_measured_run_beside_the_simulated_program(here, capsys):
    pytest.importorskip("torch")
    assert main(["launch", "p.dir", "--bind", "B=4", "--repeat", "3", "--trace", "t.json"]) == 0
    tells_what_was_measured(capsys.readouterr().out)
    code, ended = said(capsys, "p.dir", "t.json", "--bind", "B=4", "--json")
    assert code == 0
    found = json.loads(ended.out)
    rows = {(row["op"], row["line"], row["device"]): row for row in found["ops"]}
    assert {key: row["runs"] for key, row in rows.items()} == {
        ("MPIScatter", 6, 1): 1,
        ("MPIScatter", 6, 2): 1,
        ("MatMul", 19, 1): 2,
        ("MatMul", 19, 2): 2,
        ("Relu", 20, 1): 2,
        ("Relu", 20, 2): 2,
        ("MPIAllreduce", 12, 1): 1,
        ("MPIAllreduce", 12, 2): 1,
    }
    for row in rows.values():
        assert row["measured_s"] > 0
        assert row["ratio"] == row["measured_s"] / row["simulated_s"]
    for device, total in found["devices"].items():
        own = [row for row in rows.values() if str(row["device"]) == device]
        assert total["measured_s"] == pytest.approx(sum(row["measured_s"] for row in own))
        assert total["simulated_s"] == pytest.approx(sum(row["simulated_s"] for row in own))
    code, ended = said(capsys, "t.json", "p.dir", "--bind", "B=4", "--markdown", "--top", "1")
    assert "| device | simulated | measured | ratio |" in ended.out
    assert "(7 more: --top)" in ended.out


def tells_what_was_measured(out):
    """What `launch` prints: each time with the runs that it is of."""
    median, nothing, watched, head, *ranks = out.splitlines()
    assert re.fullmatch(r"@main: \S+ per run, the median of 3 runs", median)
    assert nothing == ""
    assert re.fullmatch(r"one more run, profiled op by op and therefore slower: \S+", watched)
    assert head.split() == ["rank", "busy", "communicating", "peak", "memory"]
    assert [rank.split()[0] for rank in ranks] == ["1", "2"]


@pytest.fixture
def traces(here, capsys):
    other = PROGRAM.replace("%a = Relu(%y)", "%a = Tanh(%y)")
    (here / "other.dir").write_text(other)
    for name in ("p", "other"):
        assert main(["simulate", f"{name}.dir", "--bind", "B=4", "--trace", f"{name}.json"]) == 0
    capsys.readouterr()


def test_two_traces_of_one_kind(traces, capsys):
    code, ended = said(capsys, "p.json", "p.json", "--json")
    found = json.loads(ended.out)
    assert code == 0
    assert found["latency"]["ratio"] == 1
    assert {row["ratio"] for row in found["ops"] if row["a_s"]} == {1}
    assert {row["line"] for row in found["ops"]} >= {6, 12, 19, 20}


def test_traces_of_other_programs_are_refused(traces, capsys):
    for words in (("p.json", "other.json"), ("other.dir", "p.json", "--bind", "B=4")):
        code, ended = said(capsys, *words)
        assert code == 2
        assert "is not a run of the program of" in ended.err
        assert "`%a` of `@layer` on device" in ended.err


def test_traces_over_other_devices_are_refused(traces, here, capsys):
    document = json.loads((here / "p.json").read_text())
    document["traceEvents"] = [r for r in document["traceEvents"] if r.get("pid") != 3]
    (here / "one.json").write_text(json.dumps(document))
    code, ended = said(capsys, "p.json", "one.json")
    assert code == 2
    assert "runs on the devices 1, 2, the other on 1" in ended.err


def test_processes_that_are_no_devices_are_refused(here, capsys, traces):
    document = json.loads((here / "p.json").read_text())
    document["traceEvents"] = [r for r in document["traceEvents"] if r["name"] != "process_name"]
    (here / "unnamed.json").write_text(json.dumps(document))
    code, ended = said(capsys, "p.dir", "unnamed.json", "--bind", "B=4")
    assert code == 2
    assert "found no device of the process 2" in ended.err


@pytest.mark.parametrize("text", ["", "[1", "{}", '{"traceEvents": []}', '{"traceEvents": [1]}', "[" * 10**5])
def test_what_is_no_trace_is_refused(here, capsys, text):
    (here / "no.json").write_text(text)
    code, ended = said(capsys, "p.dir", "no.json", "--bind", "B=4")
    assert code == 2
    assert "expected a trace" in ended.err
