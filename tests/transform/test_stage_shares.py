"""Pipelines are cut by time, and say each stage's share of the time, the FLOPs and the weights."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import distir
from distir.ir import Call
from distir.models import gpt2, mlp
from distir.transform import listening, stage_shares, transform
from distir.transform.pipeline.balance import most_even


def runs(weights, starts):
    return [sum(weights[a:b]) for a, b in itertools.pairwise([*starts, len(weights)])]


@given(st.data())
def test_the_heaviest_run_is_as_light_as_can_be_and_the_others_even(data):
    weights = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=8))
    count = data.draw(st.integers(1, len(weights)))
    found = most_even(weights, count)
    assert len(set(found)) == count
    assert found[0] == 0
    every = [runs(weights, [0, *cut]) for cut in itertools.combinations(range(1, len(weights)), count - 1)]
    expected = min((max(one), sum(n * n for n in one)) for one in every)
    assert (max(runs(weights, found)), sum(n * n for n in runs(weights, found))) == expected


def layers(made, stages):
    calls = [s for f in made for s in f.body if isinstance(s, Call) and s.facts.stage and s.facts.phase == "forward"]
    passes = {s.facts.stage: made.functions[s.function] for s in reversed(calls)}
    return [sum(isinstance(s, Call) for s in passes[stage].body) for stage in range(1, stages + 1)]


def with_a_large_head():
    """Eight layers, and a vocabulary whose products take as long as some of them."""
    return transform(gpt2(8, 256, 4, 256, 8, 16384, "Float32"), "grad", "loss=cross_entropy")


def test_the_stage_of_a_large_head_has_fewer_layers():
    step = with_a_large_head()
    even = layers(transform(step, "pp=2", "microbatches=2", "balance=uniform"), 2)
    cut = layers(transform(step, "pp=2", "microbatches=2"), 2)
    assert even == [4, 4]
    assert cut[0] > cut[1] > 0
    assert max(s.time for s in stage_shares(step, 2, microbatches=2).stages) < max(
        s.time for s in stage_shares(step, 2, microbatches=2, balance="uniform").stages
    )


def test_equal_layers_are_dealt_out_equally():
    step = transform(mlp(8, 64, batch=16), "grad", "loss=mse")
    assert layers(transform(step, "pp=4", "microbatches=2"), 4) == [2, 2, 2, 2]


@pytest.mark.parametrize(("schedule", "stages"), [("1f1b", 2), ("interleaved", 4), ("zb-v", 4)])
def test_shares_are_of_the_whole_program(schedule, stages):
    virtual = 2 if schedule == "interleaved" else 1
    step = with_a_large_head()
    found = stage_shares(step, 2, microbatches=4, schedule=schedule, virtual=virtual)
    assert len(found.stages) == stages
    assert sum(s.time for s in found.stages) == pytest.approx(1)
    assert sum(s.flops for s in found.stages) == pytest.approx(1)
    assert sum(s.weights for s in found.stages) >= 1, "a tied weight counts for each stage that has it"
    assert {s.device for s in found.stages} == {1, 2}


def test_weights_are_those_that_a_stage_holds():
    found = stage_shares(transform(mlp(4, 64, batch=16, bias=False), "grad", "loss=mse"), 2, microbatches=2)
    assert [s.weights for s in found.stages] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    "steps", [["pp=2", "microbatches=2"], ["dtp=1,1,2", "microbatches=2"], ["dtp=2,1,2", "microbatches=2"]]
)
def test_the_shares_are_said_for_every_question(steps):
    step = with_a_large_head()
    for _ in range(2):
        with listening() as said:
            transform(step, *steps)
        assert re.fullmatch(
            r"2 stages have \S+ and \S+ % of the time, \S+ and \S+ % of the FLOPs and \S+ and \S+ % of the weights,"
            r" where 50 % is an even part",
            said[0],
        )


UNEVEN = """
func @dense(%w, %x) {
  %h = MatMul(%x, %w)
  %a = Relu(%h)
  return %a
}

func @main(
  %small: Tensor[Float32, (64, 64), 1] {param},
  %large: Tensor[Float32, (64, 65536), 1] {param},
  %x: Tensor[Float32, (512, 64), 1] {batch = 0}
) {
  %a = @dense(%small, %x)
  %y = @dense(%large, %a)
  return %y
}
"""


def test_a_layer_that_outweighs_all_others_is_named():
    found = stage_shares(distir.parse(UNEVEN), 2, microbatches=2)
    assert found.slowest == 1
    (line,) = found.lines[1:]
    told = r"stage 2 is the bottleneck, with (\S+) % of the time: `@dense` for `%y` alone takes (\S+) %; "
    match = re.match(told, line)
    assert match
    assert 50 < float(match[2]) <= float(match[1])


def test_what_is_uneven_for_want_of_trying_says_what_to_try():
    found = stage_shares(with_a_large_head(), 2, microbatches=2, balance="7,1")
    assert found.lines[1].endswith("; `balance=cost` balances stages by time")


def test_many_stages_are_said_in_one_line():
    step = transform(mlp(16, 16, batch=16), "grad", "loss=mse")
    line, *_ = stage_shares(step, 16, microbatches=2).lines
    assert re.match(r"16 stages have \S+ to \S+ % of the time", line)
