"""`distir prove`, and `transform --prove`."""

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
