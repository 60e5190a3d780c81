"""Collectives of layers beside what passes of another microbatch compute."""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from distir.diagnostics import ProgramError
from distir.ir import Apply
from distir.models.catalogue import program
from distir.models.published import PUBLISHED, resized
from distir.simulate import simulate
from distir.simulate.trace import placing_of
from distir.transform import listening, transform, verify

SLOW_LINKS = str(Path(__file__).parent / "slow_links.toml")
SMALL = {"layers": 4, "width": 16, "heads": 4, "vocabulary": 32, "kv_heads": 2, "head_size": 4}
MODELS = {"llama3-8b": {"ffn": 16}, "mixtral-8x7b": {"expert_ffn": 16, "experts": 4, "top_k": 2}}


@cache
def trained(name):
    model = program(resized(name, PUBLISHED[name], SMALL | MODELS[name]), 16, 8, "Float32")
    return transform(model, "grad", "optimizer=sgd")


@cache
def overlapped(name, steps):
    before = transform(trained(name), *steps.split())
    with listening() as said:
        after = transform(before, "overlap=passes", f"hardware={SLOW_LINKS}")
    return before, after, " ".join(said)


TURNS = [
    ("llama3-8b", "dtp=1,2,1 microbatches=4 sequence=true"),
    ("llama3-8b", "dtp=1,2,2 microbatches=4 schedule=dualpipev sequence=true"),
    ("llama3-8b", "dtp=1,2,2 microbatches=4 schedule=zb-v"),
]
ALONE = [
    ("llama3-8b", "dtp=1,2,2 microbatches=4"),
    ("llama3-8b", "dtp=1,1,2 microbatches=2 context=2"),
    ("llama3-8b", "dtp=1,2,2 microbatches=2 schedule=seq1f1b chunks=2"),
    ("mixtral-8x7b", "dtp=2,1,2 microbatches=4 experts=2"),
]


@pytest.mark.by_turns
@pytest.mark.parametrize(("name", "steps"), [*TURNS, *ALONE])
def test_results_stay_the_same_and_no_step_is_slower(name, steps):
    """On links on which nothing that runs beside it costs a device anything."""
    before, after, _ = overlapped(name, steps)
    assert verify(trained(name), after).equal
    assert simulate(after, SLOW_LINKS).latency_s <= simulate(before, SLOW_LINKS).latency_s


@pytest.mark.parametrize(("name", "steps"), TURNS)
def test_layers_of_two_microbatches_take_turns_and_hide_more(name, steps):
    """A pass hides what the other one communicates: more than what a pass by itself has beside it."""
    before, after, said = overlapped(name, steps)
    assert "those of two microbatches in turns" in said
    assert "% less" in said
    assert any(f.name.count("LlamaDecoderLayer") == 2 for f in after)
    took = [simulate(m, SLOW_LINKS).latency_s for m in (after, before)]
    assert took[0] < took[1]


def works(module):
    """By phase, layer and microbatch: the FLOPs of products and attention."""
    simulation, found = simulate(module, SLOW_LINKS), Counter()
    placing = placing_of(simulation)
    for event in simulation.timeline().events():
        facts, work = placing(event), event.effect.work
        if work.contractions:
            found[facts.phase, facts.layer, facts.microbatch] += work.flops
    return found


@pytest.mark.parametrize(("name", "steps"), TURNS)
def test_each_of_two_layers_keeps_its_number_and_its_microbatch(name, steps):
    before, after, _ = overlapped(name, steps)
    assert works(after) == works(before)


def test_it_is_done_only_where_it_is_named():
    before = transform(trained("llama3-8b"), "dtp=1,2,1", "microbatches=4")
    streams = {s.stream for f in transform(before, "overlap") for s in f.body if isinstance(s, Apply)}
    assert "passes" not in streams


def test_processes_give_what_the_executor_does(ranks, tmp_path):
    pytest.importorskip("torch")
    ranks.largest_error(overlapped(*TURNS[0])[1], tmp_path)


def test_what_has_no_layers_that_communicate_is_refused():
    with pytest.raises(
        ProgramError, match=r"DIR\d+.*no function of layers communicates; apply `tp`, `cp` or `ep` first"
    ):
        transform(transform(trained("llama3-8b"), "pp=2", "microbatches=2"), "overlap=passes")
