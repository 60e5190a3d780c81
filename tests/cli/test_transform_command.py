"""`distir transform`."""

import re

import pytest
from cli_samples import SMALL

from distir import format  # noqa: A004
from distir.syntax import parse
from distir.transform.steps import STEPS, step

TRAINING = """
func @dense(%w, %x) {
  %h = MatMul(%x, %w)
  %a = Relu(%h)
  return %a
}

func @main(
  %w1: Tensor[Float64, (8, 16), 1] {param},
  %w2: Tensor[Float64, (16, 4), 1] {param},
  %x: Tensor[Float64, (6, 8), 1] {batch = 0}
) {
  %a = @dense(%w1, %x)
  %p = @dense(%w2, %a)
  return %p
}
"""


@pytest.fixture
def forward(file):
    return file("forward.dir", TRAINING.encode())


def test_a_strategy_is_written_and_verified(distir, forward, tmp_path):
    out = tmp_path / "out.dir"
    steps = ["grad", "loss=mse", "optimizer=sgd", "pp=2", "microbatches=3", "dp=2"]
    ended = distir("transform", *steps, forward, "-o", out, "--verify")
    assert ended.code == 0
    shares, *_, verified = ended.err.splitlines()
    assert shares.startswith("pp: 2 stages have ")
    assert verified.startswith("verified: both programs give the same results (3, no difference)")
    assert "main.scatter" in parse(out.read_text()).module.functions
    assert distir("check", out).code == 0


@pytest.fixture
def wrong_step():
    """A step that gives other results: none that comes with DistIR does."""

    @step
    def half_as_much_again(module):
        return parse(format(module).replace("  return %p", "  %q = Mul(%p, 1.5)\n  return %q")).module

    yield half_as_much_again.__name__
    del STEPS[half_as_much_again.__name__]


def test_a_comparison_says_behind_which_step_it_begins(distir, forward, tmp_path):
    given = [forward, "--verify", "--prove", "-o", tmp_path / "out.dir"]
    alone = distir("transform", "grad", "loss=mse", *given)
    assert "nothing is compared: `grad` changes what a program computes" in alone.err
    assert "verified" not in alone.err
    behind = distir("transform", "grad", "loss=mse", "dp=2", *given)
    assert behind.err.count(": what follows `grad`") == 2


def test_verification_that_fails_says_which_results_differ_where_and_by_how_much(distir, forward, wrong_step):
    ended = distir("transform", wrong_step, forward, "--verify", "-o", "/dev/null")
    assert ended.code == 1
    first, second = ended.err.splitlines()
    assert first == "error: the programs give different results: 1 of 1"
    apart = r"  %p: \d+ of 24 elements differ by up to \S+, most at \[\d, \d\]: expected \S+, found \S+"
    assert re.fullmatch(apart, second)


def test_without_an_output_the_program_is_printed(distir, forward):
    ended = distir("transform", "inline", forward)
    assert ended.code == 0
    assert list(parse(ended.out).module.functions) == ["main"]


def test_the_steps_are_listed_with_their_options(distir):
    ended = distir("transform", "--list")
    assert ended.code == 0
    assert "pp=N" in ended.out
    assert "microbatches=N (default 1)" in ended.out


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["dp=5"], 1, "error[DIR6"),
        (["dp"], 2, "the step `dp` needs a value"),
        (["dp=two"], 2, "`dp` expected an integer from 1, found `two`"),
        (["dp=0"], 2, "`dp` expected an integer from 1, found `0`"),
        (["dp=2", "bucket_bytes=9s"], 2, "`bucket_bytes` expected a number of bytes, such as `25MiB`, found `9s`"),
        (["gradd"], 2, "did you mean `grad`?"),
        (["dp=2", "schedule=gpipe"], 2, "there is no step or option `schedule` after `dp`"),
        (["dp=2", "zero=1", "bucket_bytes=9"], 2, "after `zero`; it is an option of `dp`, and comes behind that step"),
        (["grad", "representative=true"], 2, "after `grad`; it is an option of `cp`, `dtp` or `ep`"),
        (["pp=2", "dp=2", "microbatchs=2"], 2, "after `dp`; did you mean `microbatches`, an option of `pp`?"),
        ([], 2, "expected steps before"),
    ],
)
def test_what_cannot_be_done_is_said(distir, forward, words, code, text):
    ended = distir("transform", *words, forward)
    assert ended.code == code
    assert text in ended.err
    assert "bug" not in ended.err


def test_a_later_step_is_refused_in_the_text_that_it_was_given(distir, forward):
    ended = distir("transform", "grad", "loss=mse", "dp=4", forward)
    assert ended.code == 1
    assert "forward.dir after `grad`:" in ended.err


def test_steps_that_ask_the_simulator_go_by_the_settings(distir, file):
    text = TRAINING.replace("(6, 8)", "(B, 8)")
    program = file("named.dir", text.encode())
    file("distir.toml", b'hardware = "dgx2-v100"\n')
    assert distir("transform", "reschedule", program).code != 0, "nothing says how large the batch is"
    slow = distir("transform", "reschedule", program, "--bind", "B=4096")
    fast = distir("transform", "reschedule", "hardware=dgx-a100", program, "--bind", "B=4096")
    named = distir("transform", "reschedule", "hardware=dgx2-v100", "bind=B=4096", program)
    assert slow.code == fast.code == named.code == 0
    assert slow.err == named.err != fast.err


@pytest.mark.parametrize("words", [("--max-memory", "1GB"), ("--seed", "3")])
def test_options_of_verify_are_refused_without_it(distir, file, words):
    ended = distir("transform", "inline", file("a.dir", SMALL), *words)
    assert (ended.code, ended.out) == (2, "")
    assert f"`{words[0]}` is for `--verify`" in ended.err


def test_a_size_that_is_none_is_refused_before_anything_is_written(distir, file, tmp_path):
    out = tmp_path / "out.dir"
    ended = distir("transform", "inline", file("a.dir", SMALL), "--verify", "--max-memory", "much", "-o", out)
    assert (ended.code, ended.out) == (2, "")
    assert "`--max-memory`" in ended.err
    assert not out.exists()
