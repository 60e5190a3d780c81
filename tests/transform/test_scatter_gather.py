"""Sends between stages of several shards: a part by each, gathered where they arrive."""

import pytest
from dtp_samples import MODELS

import distir
from distir.cost import load
from distir.ir import Apply
from distir.search import Subject, evaluate
from distir.simulate import simulate
from distir.transform import transform
from distir.transform.strategy import Strategy
from distir.transform.strategy.steps import apply
from distir.transform.verification import verify

MLP = distir.models.mlp(4, 64, batch=32, training=True)


def sent(module):
    """The bytes that are sent, and the collectives."""
    effects = simulate(module, "dgx-h100x8").timeline().effects
    messages = [e.work.communication for e in effects if e.work.communication]
    return sum(c.nbytes for c in messages if c.pattern == "send"), {c.pattern for c in messages}


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("steps", [("pp=2", "microbatches=2", "tp=2"), ("dtp=1,2,2", "microbatches=4"), ("dtp=2,2,2",)])
@pytest.mark.parametrize("name", MODELS)
def test_results_are_those_of_the_sequential_program(name, steps):
    module = MODELS[name]()
    made = transform(module, *steps, "scatter_gather=true")
    assert verify(module, made) is not None


@pytest.mark.parametrize("steps", [("dtp=1,2,2", "microbatches=4"), ("dtp=1,4,2", "microbatches=2", "schedule=gpipe")])
def test_each_shard_sends_its_part_forward_and_back(steps):
    tensor = int(steps[0].split(",")[1])
    whole, parts = (transform(MLP, *steps, f"scatter_gather={way}") for way in ("false", "true"))
    (before, _), (after, patterns) = sent(whole), sent(parts)
    assert after * tensor == before
    assert "allgather" in patterns
    shapes = [s for f in parts for s in f.body if isinstance(s, Apply) and s.op == "Send"]
    assert shapes


def test_it_is_the_default_where_stages_are_on_several_nodes():
    for steps, default in ((("dtp=1,8,2",), "false"), (("dtp=2,8,2",), "true"), (("pp=4", "tp=8"), "true")):
        made = transform(MLP, *steps)
        assert made == transform(MLP, *steps, f"scatter_gather={default}"), steps


def test_stages_on_several_nodes_are_faster_with_it():
    module = distir.models.mlp(8, 4096, batch=4096, training=True)
    times = [
        simulate(transform(module, "dtp=1,8,4", "microbatches=4", f"scatter_gather={way}"), "dgx-h100x4").latency_s
        for way in ("true", "false")
    ]
    assert times[0] < 0.9 * times[1]


@pytest.mark.parametrize("degrees", ["1,2,2", "2,2,2", "2,4,2", "1,8,4"])
def test_a_representative_takes_as_long_and_as_much_memory(degrees):
    steps = (f"dtp={degrees}", "microbatches=4", "scatter_gather=true")
    whole = simulate(transform(MLP, *steps), "dgx-h100x4")
    one = simulate(transform(MLP, *steps, "representative=true"), "dgx-h100x4")
    assert one.latency_s == whole.latency_s
    assert one.devices.items() <= whole.devices.items()


def test_sequences_that_are_split_are_sent_so_already():
    module = distir.models.gpt2(2, 64, 4, 8, batch=8, vocabulary=96)
    steps = ("dtp=1,4,2", "microbatches=2", "sequence=true")
    before, after = (transform(module, *steps, f"scatter_gather={way}") for way in ("false", "true"))
    assert sent(before)[0] == sent(after)[0]


@pytest.mark.parametrize("count", [4, 10, 24])
def test_a_search_says_what_simulating_the_whole_does(count):
    subject = Subject("mlp", distir.models.mlp(8, 64, training=True), load("dgx-h100x4"))
    plan = Strategy(1, 8, 4, count)
    (row,) = evaluate.evaluate(subject, plan, (480,))
    module = apply(subject.module, plan)
    found = simulate(module, subject.hardware, bind={"B": 480})
    assert sent_in_parts(module)
    assert (row.latency_s, row.peak_memory_bytes) == (found.latency_s, max(found.peaks.values()))


def sent_in_parts(module):
    return any("_sent" in name for f in module for s in f.body if isinstance(s, Apply) for name in s.results)


def test_replicas_split_a_batch_that_the_program_fixes_as_one_that_it_names():
    """What is sent is cut along another dimension than that of the batch, which replicas split."""
    found = []
    for batch in (16, None):
        model = transform(distir.models.gpt2(2, 64, 4, 8, batch=batch, vocabulary=96), "grad", "loss=cross_entropy")
        steps = ("dtp=2,2,2", "microbatches=2", "scatter_gather=true")
        found.append(simulate(transform(model, *steps), "dgx-h100", bind={} if batch else {"B": 16}).latency_s)
    assert found[0] == found[1]
