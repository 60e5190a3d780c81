"""A search looks at one replica and one shard where all are alike: its rows are those of the whole programs."""

from random import Random

import pytest
from search_samples import CALIBRATED, GPT2, MLP

from distir import models
from distir.cost import load
from distir.diagnostics import ProgramError
from distir.ir import types
from distir.search import Space, Subject, distributed, evaluate
from distir.search.symmetry import interchangeable
from distir.simulate import simulate
from distir.transform import transform
from distir.transform.steps import StepError
from distir.transform.strategy.steps import apply, words_of

MODELS = {"mlp": MLP, "gpt2": GPT2}


@pytest.fixture(autouse=True)
def nothing_known():
    """Plans are carried out anew."""
    yield
    distributed.carried_out_for.cache_clear()


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("machine", ["dgx2-v100", "2x-dgx-a100", CALIBRATED], ids=["one", "two nodes", "calibrated"])
@pytest.mark.parametrize("model", MODELS)
def test_rows_are_those_of_the_whole(model, machine):
    subject = Subject(model, MODELS[model], load(machine))
    devices = min(8, subject.hardware.devices)
    trained = model == "mlp"
    space = Space(
        devices, (64, 96), (2, 8), ("gpipe", "zb-h1", "zb-v"), (0, 1, 2, 3) if trained else (0,),
        (False, True) if trained else (False,),
    )  # fmt: skip
    for plan in space.plans():
        if plan.zero and (plan.checkpoint or plan.schedule != "gpipe"):
            continue
        rows = list(evaluate.evaluate(subject, plan, space.batch_sizes))
        try:
            module = apply(subject.module, plan)
        except (ProgramError, StepError):
            assert all(row.reason for row in rows), plan
            continue
        for row in rows:
            whole = simulate(module, subject.hardware, bind={"B": row.batch_size})
            expected = whole.latency_s, max(whole.peaks.values())
            assert (row.latency_s, row.peak_memory_bytes) == expected, (plan, row.batch_size)


def test_replicas_that_hold_equal_parts_are_alike():
    subject = Subject("mlp", MLP, load("dgx2-v100"))
    for plan in Space(8, (64,), (2,), zero=(1, 2, 3)).plans():
        made = distributed.carried_out(subject, plan).module
        devices = {d for p in made.entry().params for d in types.devices(p.type)}
        assert len(devices) == plan.pipeline, plan


def test_replicas_that_hold_unequal_parts_are_simulated_one_by_one():
    subject = Subject("mlp", models.mlp(4, 63, training=True), load("dgx2-v100"))
    for plan in Space(4, (64,), (2,), zero=(1, 3), fixed={"T": (1,)}).plans():
        (row,) = evaluate.evaluate(subject, plan, (64,))
        whole = simulate(apply(subject.module, plan), subject.hardware, bind={"B": 64})
        assert (row.latency_s, row.peak_memory_bytes) == (whole.latency_s, max(whole.peaks.values()))


def test_what_is_alike():
    one, two = load("dgx2-v100"), load("2x-dgx-a100")
    assert interchangeable(one, 2, 4, 2)
    assert interchangeable(two, 4, 2, 2)  # a stage in each node
    assert interchangeable(two, 2, 8, 1)  # a replica in each node
    assert interchangeable(two, 3, 4, 1)  # two replicas in one node, the third in the other
    assert not interchangeable(two, 2, 6, 1)  # the shards of the second replica are in two nodes
    assert not interchangeable(two, 3, 1, 4)  # the third stage of two replicas is in the other node
    assert not interchangeable(one, 4, 4, 2)  # too many


@pytest.mark.parametrize("name", ["dgx2-v100", "6x-dgx-a100", "64x-dgx-h100", "4x-trainium2", "tpu-v5p"])
def test_a_machine_repeats_itself_after_its_period(name):
    machine, random = load(name), Random(1)
    for _ in range(50):
        group = random.sample(range(machine.devices), min(4, machine.devices))
        by = machine.period * random.randrange(1, 4)
        moved = tuple([device + by for device in group])
        if max(moved) < machine.devices:
            assert machine.shape(tuple(group)) == machine.shape(moved), (group, by)
    assert machine.devices % machine.period == 0


def test_a_machine_with_a_slow_device_does_not_repeat_itself():
    machine = load("4x-dgx-a100")
    assert machine.period == 8
    slower = machine.slowed({9: 1.5})
    assert slower.period == 32
    assert interchangeable(machine, 4, 8, 1)
    assert not interchangeable(slower, 4, 8, 1)


def test_what_is_not_alike_is_simulated_as_a_whole():
    """The shards of the second replica talk across nodes; the first one could not speak for it."""
    subject = Subject("mlp", models.mlp(4, 96, training=True), load("2x-dgx-a100"))
    (plan,) = Space(12, all_divisors=True, fixed={"D": (2,), "T": (6,)}).plans()
    (row,) = evaluate.evaluate(subject, plan, (96,))
    whole, one = (
        simulate(transform(subject.module, *words_of(plan), *option), subject.hardware, bind={"B": 96})
        for option in ((), ("representative=true",))
    )
    assert row.latency_s == whole.latency_s > one.latency_s
