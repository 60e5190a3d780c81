"""All-to-alls of experts on a stream, beside what does not depend on them and beside another microbatch."""

from functools import cache
from pathlib import Path

import pytest
from test_expert_parallelism import DECODERS, SMALL
from thorough import ALL

from distir.diagnostics import ProgramError
from distir.ir import Apply, Call
from distir.models.catalogue import program
from distir.models.published import PUBLISHED, resized
from distir.simulate import simulate
from distir.transform import listening, transform, verify

SLOW_LINKS = str(Path(__file__).parent / "slow_links.toml")


@cache
def trained(name):
    model = resized(name, PUBLISHED[name], {**SMALL, **DECODERS[name]})
    return transform(program(model, 8, 8, "Float32"), "grad", "optimizer=sgd")


@cache
def overlapped(name, steps, hardware=SLOW_LINKS):
    before = transform(trained(name), *steps.split())
    with listening() as said:
        after = transform(before, "overlap=experts", f"hardware={hardware}")
    return before, after, said


CASES = ["ep=2", "ep=2 dp=2", "accumulate=2 ep=2", "accumulate=2 tp=2 ep=2", "pp=2 microbatches=4 ep=2"]
GPIPE = "pp=2 microbatches=4 schedule=gpipe ep=2"


OFTEN = [*CASES, GPIPE] if ALL else ["ep=2 dp=2"]
"""The strategies that are tried with the larger model, too; all with `DISTIR_TEST_ALL=1`."""


@pytest.mark.by_turns
@pytest.mark.parametrize(
    ("name", "steps"),
    [*(("mixtral-8x7b", steps) for steps in [*CASES, GPIPE]), *(("deepseek-v3", steps) for steps in OFTEN)],
)
def test_results_stay_the_same_and_no_step_is_slower(name, steps):
    before, after, _ = overlapped(name, steps)
    assert verify(trained(name), after).equal
    assert simulate(after, SLOW_LINKS).latency_s <= simulate(before, SLOW_LINKS).latency_s
    streams = {s.stream for f in after for s in f.body if isinstance(s, Apply) and s.op == "MPIAlltoall"}
    assert streams == {"experts"}


def exchanges(function):
    return [s for s in function.body if isinstance(s, Apply) and s.stream == "experts"]


def test_layers_of_two_microbatches_take_turns():
    before, after, said = overlapped("mixtral-8x7b", "accumulate=2 ep=2")
    assert "those of two microbatches in turns" in said[0]
    joint = after.functions["MixtralDecoderLayerGrad.MixtralDecoderLayer"]
    one, other = (after.functions[name] for name in joint.name.split("."))
    assert len(exchanges(joint)) == len(exchanges(one)) + len(exchanges(other))
    alone = transform(before, "overlap=experts", "hardware=dgx-h100")
    assert simulate(after, SLOW_LINKS).latency_s <= simulate(alone, SLOW_LINKS).latency_s


@pytest.mark.parametrize("steps", ["accumulate=4 ep=2", "accumulate=8 ep=2"])
def test_layers_of_accumulated_microbatches_do_so_in_rounds_too(steps):
    """Each backward pass runs beside the next microbatch's forward pass, however many there are."""
    model = resized("mixtral-8x7b", PUBLISHED["mixtral-8x7b"], {**SMALL, **DECODERS["mixtral-8x7b"]})
    plain = transform(program(model, 8, 16, "Float32"), "grad", "optimizer=sgd")
    before = transform(plain, *steps.split())
    after = transform(before, "overlap=experts", f"hardware={SLOW_LINKS}")
    count = int(steps.partition("=")[2].split()[0])
    joined = [s for s in after.entry().body if isinstance(s, Call) and "backward" in s.function and "." in s.function]
    assert len(joined) == count - 1
    assert verify(plain, after).equal
    assert simulate(after, SLOW_LINKS).latency_s < simulate(before, SLOW_LINKS).latency_s


def test_a_pass_waits_for_no_other_one_where_that_costs_time():
    _, _, said = overlapped("mixtral-8x7b", GPIPE)
    assert any("no microbatches take turns: that takes" in line for line in said)


def test_shared_experts_are_computed_while_tokens_travel():
    before, after, _ = overlapped("deepseek-v3", "ep=2")
    assert simulate(after, SLOW_LINKS).latency_s < simulate(before, SLOW_LINKS).latency_s


def test_processes_give_what_the_executor_does(ranks, tmp_path):
    pytest.importorskip("torch")
    ranks.largest_error(overlapped("mixtral-8x7b", "accumulate=2 ep=2")[1], tmp_path)


def test_it_is_said_where_no_tokens_travel():
    with pytest.raises(ProgramError, match="no tokens go to experts on other devices"):
        transform(trained("mixtral-8x7b"), "dp=2", "overlap=experts")
