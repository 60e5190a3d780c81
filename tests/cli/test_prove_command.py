"""`distir prove`, and `transform --prove`."""

import json

import pytest

SEQUENTIAL = """
func @main(%x: Tensor[Float32, (B, 4), 1] {batch = 0}, %w: Tensor[Float32, (4, 6), 1] {param}) {
  %h = MatMul(%x, %w)
  %a = Relu(%h)
  return %a
}
"""


@pytest.fixture
def sequential(file):
    return file("sequential.dir", SEQUENTIAL.encode())


@pytest.fixture
def replicas(distir, sequential, tmp_path):
    out = tmp_path / "replicas.dir"
    assert distir("transform", "dp=2", sequential, "-o", out).code == 0
    return out


def test_what_is_right_is_proved(distir, sequential, replicas):
    ended = distir("prove", replicas, "--against", sequential, "--bind", "B=1000000")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.splitlines() == ["proved: 1 result, for all values, at these sizes"]


def test_what_is_wrong_is_shown_where_it_begins(distir, sequential, replicas):
    replicas.write_text(replicas.read_text().replace("%a_2 = Relu", "%a_2 = Gelu"))
    ended = distir("prove", replicas, "--against", sequential, "--bind", "B=8")
    assert ended.code == 1
    assert "error[DIR801]: not proved: the sequential program has no `Gelu`" in ended.err
    assert "%a_2 = Gelu(%h_2)" in ended.err


def test_sizes_must_be_known(distir, sequential, replicas):
    ended = distir("prove", replicas, "--against", sequential)
    assert ended.code == 2
    assert "`--bind`" in ended.err


def test_programs_must_belong_together(distir, sequential, file):
    other = file("other.dir", b"func @main(%x: Tensor[Float32, (8, 4), 1]) { return %x }")
    ended = distir("prove", other, "--against", sequential, "--bind", "B=8")
    assert ended.code == 2
    assert "expected 1 parameters, found 2 values for them; is `@main.scatter` missing?" in ended.err


def test_each_step_is_proved(distir, sequential, tmp_path):
    steps = ["grad", "optimizer=sgd", "dp=2", "zero=1"]
    ended = distir("transform", *steps, sequential, "--prove", "--bind", "B=8", "-o", tmp_path / "out.dir")
    assert ended.code == 0
    assert "proved: 2 results, for all values, at these sizes" in ended.err


def test_the_step_that_is_not_proved_is_named(distir, sequential, tmp_path, monkeypatch):
    from distir import format, parse  # noqa: A004
    from distir.transform.steps import STEPS, step

    @step
    def wrong_step(module):
        """Gives other results."""
        return parse(format(module).replace("Relu", "Gelu"))

    try:
        ended = distir("transform", "dp=2", "wrong_step", sequential, "--prove", "--bind", "B=8")
    finally:
        del STEPS["wrong_step"]
    assert ended.code == 1
    assert "sequential.dir after `wrong_step`" in ended.err


PLACEMENTS = b"""
[parameters]
x_1 = "x[0:4]"
x_2 = "x[4:8]"
w_1 = "w"
w_2 = "w"

[results]
a_1 = "a[0:4]"
a_2 = "a[4:8]"
"""

HALVES = b"""
func @main(
  %x_1: Tensor[Float32, (4, 4), 1], %x_2: Tensor[Float32, (4, 4), 2],
  %w_1: Tensor[Float32, (4, 6), 1], %w_2: Tensor[Float32, (4, 6), 2]
) {
  %h_1 = MatMul(%x_1, %w_1)
  %h_2 = MatMul(%x_2, %w_2)
  %a_1 = Relu(%h_1)
  %a_2 = Relu(%h_2)
  return %a_1, %a_2
}
"""


def test_placements_that_a_file_states(distir, sequential, file):
    ended = distir("prove", file("halves.dir", HALVES), "--against", sequential, "--bind", "B=8",
                   "--where", file("placements.toml", PLACEMENTS))  # fmt: skip
    assert (ended.code, ended.err.splitlines()[0]) == (0, "proved: 1 result, for all values, at these sizes")


def test_a_placement_that_cannot_be_is_shown_in_its_file(distir, sequential, file):
    wrong = file("placements.toml", PLACEMENTS.replace(b"x[4:8]", b"x[4:9]"))
    ended = distir("prove", file("halves.dir", HALVES), "--against", sequential, "--bind", "B=8", "--where", wrong)
    assert ended.code == 1
    assert "error[DIR803]" in ended.err
    assert "placements.toml:4:7" in ended.err


def test_the_settings_name_the_sequential_program(distir, sequential, replicas, file):
    file("distir.toml", b'sequential = "sequential.dir"\n[bind]\nB = 8\n')
    assert distir("prove", replicas).code == 0
    file("distir.toml", b'entry = "main"\nsequential = "gone.dir"\n')
    ended = distir("prove", replicas)
    assert ended.code != 0
    assert "distir.toml:2:14" in ended.err
    assert "no such file or directory" in ended.err


def test_without_either_the_option_is_asked_for(distir, replicas):
    ended = distir("prove", replicas)
    assert ended.code == 2
    assert "expected `--against SEQUENTIAL`" in ended.err


def test_the_best_rows_of_a_search_are_proved(distir, sequential):
    words = ["--devices", "2", "--batch-size", "8", "--pp", "1", "--prove"]
    ended = distir("search", sequential, *words)
    assert ended.code == 0
    assert "proved" in ended.out.splitlines()[2]
    assert "2 proved, for all values, at these sizes" in ended.out
    rows = json.loads(distir("search", sequential, *words, "--json").out)["rows"]
    assert [(row["proved"], row["not_proved"]) for row in rows] == [(True, None)] * len(rows)


def test_a_row_that_is_not_proved_says_why(distir, sequential):
    words = ["--devices", "2", "--batch-size", "8", "--pp", "1", "--prove"]
    ended = distir("search", sequential, *words, "--prove-timeout", "1ns")
    assert ended.code == 0
    assert ended.out.count("not proved: it takes longer than 1e-09 s") == 2
