"""What `overlap` writes of a pipeline reads from top to bottom: stage after stage, layers and updates counted."""

from itertools import groupby

import pytest

from distir.ir import Apply, Call
from distir.models import named
from distir.simulate import simulate
from distir.syntax import print_rolled
from distir.transform import transform
from distir.transform.overlap import overlapped
from distir.transform.overlap.runs import in_runs

SIZES = {"layers": 12, "width": 32, "heads": 4, "kv_heads": 2, "ffn": 64, "vocabulary": 64}
HARDWARE = "dgx-h100"


@pytest.fixture(scope="module")
def pipeline():
    step = transform(named("llama3-8b", 8, 8, **SIZES), "grad", "optimizer=adamw", "precision=mixed")
    return transform(step, "dtp=2,1,2", "microbatches=4", "representative=true", "zero=1", "partition=split")


@pytest.fixture(scope="module")
def ordered(pipeline):
    """The program as the kinds of overlap write it, and as the step gives it."""
    return overlapped(pipeline).module, transform(pipeline, "overlap", f"hardware={HARDWARE}")


def test_each_device_does_what_it_did(ordered):
    before, after = (simulate(module, HARDWARE) for module in ordered)
    assert (after.latency_s, after.devices, after.peaks) == (before.latency_s, before.devices, before.peaks)
    assert sorted(map(str, ordered[0].entry().body)) == sorted(map(str, ordered[1].entry().body))


def test_the_gradients_of_a_stage_stand_together_and_updates_follow_in_the_order_of_layers(ordered):
    _, after = ordered
    body = [s for s in after.entry().body if isinstance(s, (Apply, Call))]
    stages = [s.facts.stage for s in body if s.facts.phase == "backward" and s.facts.of]
    assert [stage for stage, _ in groupby(stages)] == [2, 1]
    text = print_rolled(after)
    repeated = [line for line in text.splitlines() if line.endswith("times {")]
    assert "  repeat 12 times {" in repeated
    assert text.count("= Adam") < 20
    assert len(text.splitlines()) < 0.7 * len(print_rolled(ordered[0]).splitlines())


def test_a_program_of_one_stage_stays_as_it_is():
    step = transform(named("llama3-8b", 8, 8, **SIZES), "grad", "optimizer=adamw", "dp=2", "overlap")
    assert in_runs(step) is step


def test_a_forward_pass_is_not_written_out_for_the_sums_of_gradients(ordered):
    _, after = ordered
    assert not [s for s in after.entry().body if isinstance(s, Apply) and s.facts.phase == "forward" and s.facts.layer]
