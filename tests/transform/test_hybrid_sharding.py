"""`zero=N shard=M`: state is partitioned within groups of replicas, and each group holds all of it."""

from functools import cache

import pytest

from distir.diagnostics import ProgramError
from distir.models.catalogue import program
from distir.models.published import PUBLISHED, resized
from distir.simulate import simulate
from distir.transform import StepError, transform, verify

SIZES = {"layers": 2, "width": 32, "heads": 4, "kv_heads": 2, "head_size": 8, "ffn": 64, "vocabulary": 64}


@cache
def trained(*options):
    module = program(resized("llama3-8b", PUBLISHED["llama3-8b"], SIZES), 8, 8, "Float32")
    return transform(module, "grad", "optimizer=adam", *options)


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("steps", ["dp=4", "accumulate=2 dp=4", "dtp=4,1,2 microbatches=2", "cp=2 dp=2", "tp=2 dp=4"])
@pytest.mark.parametrize(
    "stage", ["zero=1 shard=2", "zero=2 shard=2 partition=split", "zero=3 shard=2 partition=split"]
)
def test_a_training_step_gives_what_the_sequential_one_does(steps, stage):
    module = trained("clip=1")
    assert verify(module, transform(module, *steps.split(), *stage.split())).equal


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_group_holds_all_of_the_state_once(stage):
    def held(*steps):
        params = transform(trained(), *steps).entry().params
        return sum(p.type.elements for p in params if "state" in p.roles and p.type.shape)

    once = held("dp=4", f"zero={stage}", "partition=split")
    assert held("dp=4", f"zero={stage}", "shard=2", "partition=split") == 2 * once
    assert held("dp=4", f"zero={stage}", "shard=4", "partition=split") == once


def test_as_much_travels_as_the_formula_says():
    """A gradient of S bytes is scattered in the group, and its part summed over groups (FSDP, arXiv:2304.11277, 3.2.2).

    With zero=3 the weight is gathered in each pass. Norms and the loss are single numbers.
    """
    module = transform(trained(), "dp=4", "zero=3", "shard=2", "partition=split")
    effects = simulate(module, "dgx-a100").timeline().effects
    messages = [m for e in effects if (m := e.work.communication) is not None and m.nbytes > 4]
    weights = sum(p.type.elements * 4 for p in trained().entry().params if "param" in p.roles)
    sent = {
        pattern: sum(m.nbytes for m in messages if m.pattern == pattern)
        for pattern in ("reducescatter", "allreduce", "allgather")
    }
    assert sent["reducescatter"] == 2 * weights  # two groups
    assert sent["allreduce"] == 2 * weights // 2  # two parts
    assert sent["allgather"] >= 2 * weights


@pytest.mark.each_once
@pytest.mark.parametrize("words", [("dtp=4,1,1",), ("dtp=4,1,2", "microbatches=2"), ("dtp=2,1,1", "context=2")])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_one_device_represents_all(words, stage):
    rest = (*words[1:], f"zero={stage}", "shard=2", "partition=split")
    whole = simulate(transform(trained(), words[0], *rest), "dgx-a100")
    one = simulate(transform(trained(), words[0], "representative=true", *rest), "dgx-a100")
    assert one.latency_s == whole.latency_s
    assert {u.peak_memory_bytes for u in one.devices.values()} == {u.peak_memory_bytes for u in whole.devices.values()}


def test_what_does_not_fit_is_said():
    with pytest.raises(ProgramError, match=r"DIR620.*4 replicas hold .* which do not divide into groups of 3"):
        transform(trained(), "dp=4", "zero=3", "shard=3")
    with pytest.raises(StepError, match="`shard` expected a number of replicas, found -1"):
        transform(trained(), "dp=4", "zero=3", "shard=-1")
