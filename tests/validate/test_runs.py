"""Files of measured runs: what they hold, and what is said of those that hold none."""

from pathlib import Path

import pytest
from run_samples import HEADER, row, text

from distir.transform.strategy.partial import PRECISIONS, Stating
from distir.validate import RunsError, read_runs
from distir.validate.runs import parse_runs, said_in

MEASURED = sorted((Path(__file__).parents[2] / "examples/measured").glob("*.csv"))


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.stem)
def test_all_files_of_the_project_are_read_and_name_their_source(path):
    runs = read_runs(str(path))
    assert path.read_text().startswith("# source: ")
    assert all(run.gpus == run.strategy.devices for run in runs)
    assert {run.source for run in runs} == {path.stem}


def test_an_empty_cell_is_not_said():
    (run,) = parse_runs(text(row(micro_batch="")), "runs.csv")
    assert run.micro_batch is None
    assert "context" not in run.said.said


def test_cells_say_fields_of_a_strategy_and_words_come_back():
    header = HEADER + ",virtual,sharding,precision,compile"
    (run,) = parse_runs(text(row(pp=2, gpus=8) + ",4,hsdp:2,fp8,", header=header), "runs.csv")
    own = run.strategy
    assert (own.schedule, own.stages_per_device, own.zero, own.shard) == ("interleaved", 4, 3, 2)
    assert not run.says("fuse")
    for column, words in (("precision", PRECISIONS), ("sharding", SHARDINGS), ("recompute", RECOMPUTED)):
        assert [getattr(Stating(said=said_in({column: word})), column) for word in words] == [*words]


SHARDINGS = ("zero0", "zero1", "zero2", "zero3", "zero1:8", "hsdp:8")
RECOMPUTED = ("none", "full", "selective", "full:8", "products", "modules:layernorm,mlp")


def test_replicas_follow_from_the_other_ranks_where_they_are_not_said():
    (run,) = parse_runs(text(row(dp="")), "runs.csv")
    assert run.strategy.data == 2
    without = text(row(), header=HEADER.replace(",dp,", ",replicas,"))
    assert [run.strategy.data for run in parse_runs(without, "runs.csv")] == [2]
    with pytest.raises(RunsError, match=r"runs.csv:3: expected a multiple of tp · pp · cp = 3 in `gpus`, found 4"):
        parse_runs(text(row(dp="", tp=3)), "runs.csv")


def test_words_are_read_as_sources_write_them():
    cells = ",FP8-MX,FULL_SHARD,RoPE"
    header = HEADER + ",precision,sharding,position"
    known = {"framework": {"nemo": "nemo", "megatron-bridge": "nemo"}}
    (run,) = parse_runs(text(row(framework="Megatron-Bridge") + cells, header=header), "runs.csv", known)
    assert (run.precision, run.strategy.zero, run.position, run.framework) == ("mxfp8", 3, "rope", "nemo")


def test_a_run_with_an_unknown_word_is_at_fault_and_others_of_the_file_are_not():
    unlike, alike = parse_runs(text(row(), row(id="r:2", recompute="some")), "runs.csv")[::-1]
    assert unlike.fault == "runs.csv:4:16: there is no recompute `some`; expected one of none, selective, full"
    assert alike.fault == ""


RATED = HEADER + ",tokens_per_s_per_gpu"


def test_a_published_rate_is_a_time():
    (run,) = parse_runs(text(row(step_time_s="") + ",5120", header=RATED), "runs.csv")
    assert run.step_time_s == 8 * 256 / (4 * 5120)
    (rounded,) = parse_runs(text(row() + ",5.1e3", header=RATED), "runs.csv")
    assert rounded.step_time_s == 0.1


def test_a_column_that_is_like_one_that_is_absent_is_told():
    told = []
    parse_runs(text(row(), header=HEADER.replace("recompute", "recomputation")), "runs.csv", warn=told.append)
    assert told == ["runs.csv:2:16: the column `recomputation` is ignored; did you mean `recompute`?"]
    parse_runs(text(row() + ",mine", header=HEADER + ",remarks"), "runs.csv", warn=told.append)
    assert len(told) == 1


def test_a_machine_of_the_users_own_may_have_any_gpu():
    line, known = row(gpu="mi300x"), {"gpu": ("h100_80gb",)}
    with pytest.raises(RunsError, match="there is no gpu `mi300x`"):
        parse_runs(text(line), "runs.csv", known)
    (run,) = parse_runs(text(line + ",mine.toml", header=HEADER + ",hardware"), "runs.csv", known)
    assert (run.gpu, run.hardware) == ("mi300x", "mine.toml")


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ("", "runs.csv:1: expected a header"),
        ("# source: nobody\n\n", "runs.csv:1: expected a header"),
        (text(), "runs.csv:2: expected runs below the header"),
        (text(row(), header=HEADER.replace("hidden", "hiden")), "expected a column `hidden`.*did you mean.*`hiden`"),
        (text(row(), header=HEADER.replace("ffn", "layers")), "runs.csv:2:6: the column `layers` is there twice"),
        (text(row(layers="many")), r"runs.csv:3:4: `layers` expected a whole number, found `many`"),
        (text(row(layers="9" * 5000)), r"`layers` expected a whole number, found `9{40}…`"),
        (text('"' + row()) + row(id="b"), r"runs.csv:3: a quote that this row opens is never closed"),
        (text(row(layers="0")), r"runs.csv:3:4: `layers` expected 1 or more, found `0`"),
        (text(row(step_time_s="nan")), r"runs.csv:3:19: `step_time_s` expected a number above 0, found `nan`"),
        (text(row(hidden="")), r"runs.csv:3:3: `hidden` is empty"),
        (text(row(recompute="some")), r"runs.csv:3:16: there is no recompute `some`"),
        (
            text(row(recompute="modules:layernorms")),
            r"runs.csv:3:16: there is no part `layernorms` of a layer; did you",
        ),
        (text(row(), row()), r"runs.csv:4:1: `r:1` names the run in line 3 already"),
        (text(row(dp=3)), r"runs.csv:3:10: expected gpus = dp · tp · pp · cp = 6, found 4"),
        (text(row() + ",more"), r"runs.csv:3: expected 20 cells, as in the header, found 21"),
        (row(), "runs.csv:1: expected a header with the columns id, .* found none of them"),
        (text(row(status="oom")), r"runs.csv:3:19: expected no measurement of a run with the status `oom`, found 0.1"),
        (text(row() + ",9", header=HEADER + ",dense_layers"), r"runs.csv:3:21: expected at most the 4 layers, found 9"),
        (text(row() + ",1", header=HEADER + ",dropout"), "runs.csv:3:21: `dropout` expected a share from 0"),
        (text(row() + ",9000", header=RATED), r"runs.csv:3:21: expected .* = 5120, found 9000"),
        (text(row() + ",cost", header=HEADER + ",stages"), "`stages` expected the layers of stages, .* found `cost`"),
    ],
)
def test_a_file_that_holds_no_runs_is_refused_with_line_and_column(broken, expected):
    with pytest.raises(RunsError, match=expected):
        parse_runs(broken, "runs.csv")


SPREADSHEETS = {
    "semicolons": lambda t: t.replace(",", ";").replace("0.1", "0,1"),
    "tabs": lambda t: t.replace(",", "\t"),
    "lines of Windows": lambda t: t.replace("\n", "\r\n"),
    "empty columns and rows": lambda t: t.replace("\n", ",,\n") + ",,,\n",
    "whole numbers with a point": lambda t: t.replace(",256,", ",256.0,").replace(",1024,", ",1.024E+03,"),
    "a quoted cell": lambda t: t.replace(",small,", ',"small",'),
}


@pytest.mark.parametrize("how", SPREADSHEETS)
def test_what_a_spreadsheet_writes_is_read_as_what_was_meant(how):
    (expected,) = parse_runs(text(row()), "runs.csv")
    assert parse_runs(SPREADSHEETS[how](text(row())), "runs.csv") == [expected]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_that_begins_with_a_mark_of_its_encoding_is_read(tmp_path, encoding):
    path = tmp_path / "runs.csv"
    path.write_text(text(row()), encoding=encoding)
    assert [run.id for run in read_runs(str(path))] == ["r:1"]


def test_true_is_a_flag():
    (run,) = parse_runs(text(row() + ",TRUE", header=HEADER + ",fused_norm"), "runs.csv")
    assert run.fused_norm is True


def test_bytes_that_are_no_text_are_refused_with_their_line(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_bytes(b"# source\n\xff\xfe")
    with pytest.raises(
        RunsError, match=r"runs\.csv:2: expected UTF-8 text, found the byte 0x[0-9a-f]{2} at byte \d+ of the line"
    ):
        read_runs(str(path))
