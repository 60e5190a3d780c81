"""What all shards of a stage have whole is sent in parts, and gathered on arrival: `scatter_gather` on a mesh."""

from functools import cache

import pytest
from each_device import as_each_device

import distir
from distir.cost import load
from distir.ir import ops_in
from distir.models import mlp, named
from distir.simulate.simulation import simulate
from distir.syntax import print_rolled
from distir.transform import StepError
from distir.transform.inline import without_calls
from distir.transform.mesh import erase, expand
from distir.transform.verification import verify

SMALL = {"layers": 2, "batch": 8, "sequence": 4, "width": 8, "heads": 2, "vocabulary": 16, "dtype": "Float32"}
MODELS = {
    "llama": lambda: named("llama3-8b", **SMALL, kv_heads=2, head_size=4, ffn=16),
    "t5": lambda: named("t5-small", **SMALL, head_size=4, ffn=16),
}


@cache
def program(model):
    return distir.transform(MODELS[model](), "grad", "optimizer=adam")


def placed(model, *words):
    return distir.transform(program(model), "pp=2", "microbatches=2", "mesh", *words)


@pytest.mark.parametrize("model", MODELS)
def test_every_copy_is_that_of_the_program_and_the_messages_are_parts(model):
    """Of the encoder-decoder, tuples are sent."""
    made = placed(model, "tp=2", "scatter_gather")
    compared = verify(program(model), made)
    assert compared.equal
    assert not compared.unclaimed
    assert any("_sent" in name for s in ops_in(made.entry(), "Send") for name in s.results)
    as_each_device(made, load("dgx-a100"))


def test_it_takes_the_time_that_it_takes_with_the_steps_of_one_axis():
    for words, steps in (("dp=2 tp=2", "dtp=2,2,2"), ("tp=2 zero=0", "dtp=1,2,2")):
        before = distir.transform(program("llama"), steps, "microbatches=2", "scatter_gather=true")
        found = expand(placed("llama", *words.split(), "scatter_gather"))
        assert simulate(found, "dgx-a100x2").latency_s == simulate(before, "dgx-a100x2").latency_s


def test_without_collectives_it_is_the_pipeline_up_to_names():
    erased = erase(placed("llama", "tp=2", "scatter_gather"))
    assert len(without_calls(erased).entry().body) == len(
        without_calls(erase(placed("llama", "tp=2", "scatter_gather=false"))).entry().body
    )


def test_a_sequence_that_is_spread_over_shards_is_in_parts_already():
    made, whole = (
        print_rolled(placed("llama", "tp=2", "sequence", f"scatter_gather={way}")) for way in ("true", "false")
    )
    assert made == whole


def test_it_is_on_where_there_are_several_nodes_of_devices():
    module = distir.transform(mlp(4, 16, 64, "Float32"), "grad", "pp=2", "microbatches=2")
    for words, default in (("dp=4 tp=2", "false"), ("dp=8 tp=2", "true")):
        stated = distir.transform(module, "mesh", *words.split(), f"scatter_gather={default}")
        assert distir.transform(module, "mesh", *words.split()) == stated
        assert stated.mesh


def test_it_needs_shards():
    with pytest.raises(StepError, match="`scatter_gather` is of what shards of a stage send: as in"):
        placed("llama", "dp=2", "scatter_gather")


@pytest.mark.parametrize("before", [(), ("accumulate=2",)])
def test_without_stages_nothing_is_sent_and_that_is_said(before):
    with pytest.raises(StepError, match=r"as in `pp=2 microbatches=8 mesh tp=2`"):
        distir.transform(program("llama"), *before, "mesh", "tp=2", "scatter_gather")
    assert distir.transform(program("llama"), *before, "mesh", "tp=2", "scatter_gather=false").mesh
