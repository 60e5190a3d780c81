"""A decoder with a mixture of experts, distributed: results and gradients stay, and experts are split inside."""

import pytest
from expert_programs import CAPACITY, LAYER, decoder

import distir
from distir.analysis import check
from distir.ir import Apply
from distir.transform import tensor_shares, transform, verify

WAYS = [
    ["dp=2"],
    ["tp=2"],
    ["pp=2"],
    ["grad", "dp=2"],
    ["grad", "tp=2", "sequence=true"],
    ["grad", "tp=2"],
    ["grad", "pp=2", "microbatches=2"],
    ["grad", "checkpoint", "tp=2"],
    ["grad", "optimizer=adam", "dp=2", "zero=3"],
    ["grad", "dtp=2,2,2", "microbatches=2"],
]


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("layer", [LAYER, CAPACITY], ids=["dropless", "capacity"])
@pytest.mark.parametrize("words", WAYS, ids=" ".join)
def test_results_stay(words, layer):
    module = decoder(layer)
    made = transform(module, *words)
    assert not check(made).errors
    steps = [w for w in words if w.startswith(("grad", "optimizer"))]
    original = transform(module, *steps) if steps else module
    found = verify(original, made, bind={"B": 4})
    assert found.equal, found.results


def ops(module, name):
    return [s for function in module for s in function.body if isinstance(s, Apply) and s.op == name]


def test_experts_are_split_inside_and_the_router_is_whole():
    made = transform(decoder(), "tp=2")
    shapes = {p.name: p.type.shape for p in made.entry().params}
    assert shapes["gate0_1"] == shapes["up0_2"] == (4, 8, 6)
    assert shapes["down0_1"] == (4, 6, 8)
    assert shapes["router0_1"] == (8, 4)
    assert shapes["shared_up0_1"] == (8, 6)


def test_experts_and_shared_experts_are_summed_at_once():
    """And for tokens, not for each of their choices; the other sums are those of the embedding and of attention."""
    made = transform(decoder(layers=1), "tp=2", "inline")
    entry = made.functions["main"]
    sums = [s.args[0] for s in entry.body if isinstance(s, Apply) and s.op == "MPIAllreduce"]
    assert sums == ["x0_1", "o_1", "both_1"]
    assert not ops(made, "MPIAllgather")


def test_weights_of_experts_are_shared_and_routers_are_not():
    shares = tensor_shares(decoder(batch=4), 2)
    assert {name for part in shares.whole for name in part.names} == {f"{n}{i}" for i in (0, 1) for n in WHOLE}


WHOLE = ("norm", "norm2", "router")


def test_one_device_for_all_that_are_alike_takes_the_same_time():
    words = ["dtp=2,2,2", "microbatches=4"]
    step = transform(decoder(layers=2, batch=8), "grad")
    every, one = (distir.simulate(transform(step, *words, *more)) for more in ([], ["representative=true"]))
    assert one.latency_s == every.latency_s
