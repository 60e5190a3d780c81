"""Files that are no traces, no whole ones, or unusual ones: one message each, or what is assumed instead."""

import gzip
import json
import os

import pytest
from command_line import distir as distir
from kineto_samples import PROGRAM, Rank, two_ranks

from distir.traces import events

WHOLE = json.dumps(
    {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1, "tid": 1}] * 50}
)

FILES = {
    "empty": (b"", "it is empty"),
    "truncated": (WHOLE[:-500].encode(), "it ends in line 1"),
    "packed and truncated": (gzip.compress(os.urandom(100) + WHOLE.encode())[:-60], "the compressed file ends early"),
    "damaged": (b"\x1f\x8b" + b"?" * 40, "the compressed file ends early or is damaged"),
    "another encoding": (WHOLE.encode("utf-16"), "byte 0 is not UTF-8"),
    "text": (b"step 1\nstep 2\n", "it is not JSON: line 1, column 1"),
    "other JSON": (b'{"steps": 3}', "expected a trace with `traceEvents`, found other JSON"),
    "a number": (b"3", "expected a trace with `traceEvents`, found other JSON"),
    "no events": (b'{"traceEvents": []}', "no op and no kernel is among its 0 events"),
    "no objects": (b'{"traceEvents": [1, 2]}', "an event is not a JSON object"),
    "no names": (b'{"traceEvents": [{"ph": "X", "ts": 1}]}', "an event is not as the format has it"),
    "times that are words": (
        b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": "x"}]}',
        "not as the format",
    ),
}


@pytest.fixture(params=["at once", "one by one"])
def reading(request, monkeypatch):
    """Both ways to read: as small files are, and as large ones."""
    if request.param == "one by one":
        monkeypatch.setattr(events, "WHOLE", 0)
    return request.param


@pytest.mark.parametrize("kind", FILES)
def test_refused(kind, reading, distir, tmp_path):
    data, why = FILES[kind]
    path = tmp_path / ("rank0.json.gz" if data[:1] == b"\x1f" else "rank0.json")
    path.write_bytes(data)
    ended = distir("import", "trace", path)
    assert ended.code == 2
    assert ended.err.startswith(f"error: `{path}`: ")
    assert "Traceback" not in ended.err
    if reading == "at once":
        assert why in ended.err


def test_large_files_are_read_in_the_same_way(distir, tmp_path, monkeypatch):
    folder = two_ranks(tmp_path, steps=3)
    at_once = distir("import", "trace", folder, "--json").out
    monkeypatch.setattr(events, "WHOLE", 0)
    assert distir("import", "trace", folder, "--json").out == at_once
    listed = tmp_path / "rank0.json.gz"  # a list of events alone, as Chrome writes it
    listed.write_bytes(json.dumps(json.loads(gzip.decompress(listed.read_bytes()))["traceEvents"]).encode())
    (document,) = json.loads(distir("import", "trace", listed, "--json").out)["ranks"]
    assert document["rank"] == 0  # by the file's name


def test_without_steps(distir, tmp_path):
    rank = Rank(0, 1)
    rank.kernel("k", 5, 20, 50, external=rank.op("aten::mm", 0, 10, [(4, 4), (4, 4)]))
    ended = distir("import", "trace", rank.write(tmp_path / "a.json"), "--json")
    document = json.loads(ended.out)
    assert document["ranks"][0]["step_s"] == pytest.approx(70e-6)
    assert any("no `ProfilerStep` is marked" in note for note in document["notes"])


def test_without_shapes_the_order_counts(distir, tmp_path):
    rank = Rank(0, 1)
    rank.step(1, 0, 500)
    for at, took in ((10, 40), (100, 20)):
        rank.kernel("k", at + 2, at + 5, took, external=rank.op("aten::relu", at, 10))
    rank.write(tmp_path / "a.json")
    program = """
    func @main(%x: Tensor[Float32, (8, 4), 1], %w: Tensor[Float32, (64, 64), 1]) {
      %y = Relu(%x)
      %z = Relu(%w)
      return %y, %z
    }
    """
    (tmp_path / "p.dir").write_text(program)
    ended = distir("compare", tmp_path / "p.dir", "--measured", tmp_path / "a.json", "--json")
    document = json.loads(ended.out)
    assert {row["result"]: row["measured_s"] for row in document["statements"]} == {
        "%y": pytest.approx(40e-6),
        "%z": pytest.approx(20e-6),
    }
    assert any("no shapes are recorded" in note for note in document["notes"])


def test_refused_comparisons(distir, tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    program = tmp_path / "program.dir"
    program.write_text(PROGRAM)

    def refused(*words):
        ended = distir("compare", *words)
        assert ended.code == 2, ended.out
        return ended.err

    assert "expected the traces of a run" in refused(program)
    assert "expected a folder with traces" in refused(program, "--measured", folder)
    assert "cannot read" in refused(program, "--measured", tmp_path / "none.json")
    two_ranks(folder)
    assert "no device 7" in refused(program, "--measured", folder, "--rank", "0=7")
    assert "no trace is of rank 4" in refused(program, "--measured", folder, "--rank", "4=1")
    assert "expected a rank and a device" in refused(program, "--measured", folder, "--rank", "zero")
    (folder / "again_rank0.json.gz").write_bytes((folder / "rank0.json.gz").read_bytes())
    assert "are both of rank 0" in refused(program, "--measured", folder)
    (folder / "again_rank0.json.gz").unlink()
    Rank(5, 8).write(folder / "rank5.json")
    assert "no op and no kernel" in refused(program, "--measured", folder)
    more = Rank(5, 8)
    more.op("aten::mm", 0, 1, [(2, 2), (2, 2)])
    more.write(folder / "rank5.json")
    assert "rank 5 has no device: the program has 2" in refused(program, "--measured", folder)
    assert "ends in `.toml`" in refused(program, "--measured", folder, "--profile-out", "x.json")
    assert "ops of a trace are written as CSV" in distir("import", "trace", folder, "-o", "x.dir").err


def test_traces_of_distir_are_for_diff(distir, tmp_path):
    program, trace = tmp_path / "program.dir", tmp_path / "trace.json"
    program.write_text(PROGRAM)
    assert distir("simulate", program, "--trace", trace).code == 0
    ended = distir("compare", program, "--measured", trace)
    assert (ended.code, "`distir diff`" in ended.err) == (2, True)
    two_ranks(tmp_path)
    ended = distir("diff", program, tmp_path / "rank0.json.gz")
    assert (ended.code, "`distir compare`" in ended.err) == (2, True)
