"""Recomputation of attention cores, and of some layers only: results stay, and memory falls as it is said."""

import re

import pytest
from sharding_samples import assert_same, llama, small_gpt2

import distir
from distir.analysis.kinds import ACTIVATIONS
from distir.diagnostics import ProgramError
from distir.ir import Apply, Call
from distir.models import gpt2, mlp
from distir.simulate import simulate
from distir.simulate.composition import compositions
from distir.transform import StepError, transform
from distir.transform.steps import listening

STRATEGIES = [
    (),
    ("dp=2",),
    ("tp=2",),
    ("dp=2", "zero=3 partition=split"),
    ("pp=2 microbatches=2",),
    ("pp=2 microbatches=2 schedule=zb-h1",),
    ("dtp=2,2,2 microbatches=2",),
]


def steps(module, *words):
    for word in words:
        module = transform(module, *word.split())
    return module


@pytest.fixture(scope="module")
def small():
    return transform(small_gpt2(layers=4, positions=6), "grad", optimizer="adam")


@pytest.fixture(scope="module")
def long():
    """Of long sequences, so that cores take most of the memory: 8 layers."""
    return transform(gpt2(8, 256, 8, 1024, 8, 64), "grad")


def activations(module):
    (kinds,) = compositions(simulate(module)).values()
    return kinds[ACTIVATIONS]


def peak(module):
    return max(use.peak_memory_bytes for use in simulate(module).devices.values())


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("words", ["selective", "selective layers=3", "full layers=1", "full layers=4", "2 layers=3"])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=" ".join)
def test_results_stay(small, strategy, words):
    assert_same(small, steps(small, f"checkpoint={words}", *strategy))


@pytest.mark.parametrize("before", [("inline",), ("outline",), ()], ids=" ".join)
def test_selective_works_with_functions_and_without(before):
    module = steps(transform(llama(), "grad"), *before)
    found = steps(module, "checkpoint=selective")
    assert_same(module, found)
    assert peak(found) < peak(module)


def test_selective_reaches_attention_in_a_function_of_its_own():
    text = """
        func @attend(%q, %k, %v) {
          %t = Transpose[perm = [0, 2, 1]](%k)
          %scores = MatMul(%q, %t)
          %shares = Softmax[axis = -1](%scores)
          %y = MatMul(%shares, %v)
          return %y
        }
        func @layer(%w, %u, %x) {
          %a = MatMul(%x, %w)
          %b = MatMul(%x, %u)
          %c = Tanh(%a)
          %y = @attend(%a, %b, %c)
          return %y
        }
        func @main(%w: Tensor[Float64, (4, 4), 1] {param}, %u: Tensor[Float64, (4, 4), 1] {param},
                   %x: Tensor[Float64, (2, 64, 4), 1] {batch = 0}) {
          %y = @layer(%w, %u, %x)
          %z = @layer(%w, %u, %y)
          return %z
        }"""
    module = transform(distir.parse(text), "grad")
    found = steps(module, "checkpoint=selective")
    assert_same(module, found)
    scores = 2 * 64 * 64 * 8
    assert activations(found) <= activations(module) - scores, "those of one layer are there when it is computed again"


def test_selective_recomputes_the_core_and_nothing_else(small):
    found = steps(small, "checkpoint=selective")
    again = [
        s.op for s in found.functions["layerGrad"].body if isinstance(s, Apply) and s.results[0].endswith("_again")
    ]
    assert again == ["MatMul", "Mul", "Where", "Softmax"]
    assert "shares" not in found.functions["layer"].returned
    assert "shares" not in [p.name for p in found.functions["layerGrad"].params]


def test_the_first_layers_alone(small):
    found = steps(small, "checkpoint=selective layers=3")
    called = [s.function for s in found.entry().body if isinstance(s, Call)]
    assert called == ["layerSelective"] * 3 + ["layer", "layerGrad"] + ["layerSelectiveGrad"] * 3


def test_each_layer_more_takes_less_memory(long):
    for kind in ("selective", "full"):
        found = [activations(steps(long, f"checkpoint={kind} layers={n}")) for n in range(1, 8)]
        assert found == sorted(found, reverse=True)
        assert len(set(found)) == len(found)


@pytest.mark.by_turns
@pytest.mark.parametrize("part", [0.95, 0.8, 0.6, 0.45, 0.3])
def test_a_memory_target_takes_the_cheapest_set(long, part):
    """No other number of layers, selective or full, fits and is faster."""
    target = int(part * peak(long))
    found = steps(long, f"checkpoint={target}B")
    assert peak(found) <= target
    taken = simulate(found).latency_s
    for n in range(1, 9):
        for kind in ("selective", "full"):
            other = steps(long, f"checkpoint={kind} layers={n}")
            assert peak(other) > target or simulate(other).latency_s >= taken


BUDGETS = [0.8, 0.5, 0.2, 0.0]
"""What is left of what recomputing all would save."""


@pytest.fixture(scope="module")
def within(long):
    """By budget, what a step takes, and what it says."""
    least, most = peak(steps(long, "checkpoint=full")), peak(long)
    found = {}
    for part in BUDGETS:
        target = int(least + part * (most - least))
        with listening() as said:
            module = steps(long, f"checkpoint={target}B")
        assert peak(module) <= target
        found[part] = simulate(module).latency_s, said, module
    return found


def test_a_larger_budget_is_never_slower(within):
    times = [within[part][0] for part in BUDGETS]
    assert times == sorted(times)


def test_cheap_values_are_recomputed_before_whole_layers(long, within):
    """Activations and normalisations come first: nearly for nothing, where whole layers would take much."""
    seconds, said, module = within[0.8]
    assert re.fullmatch(r"recomputes `active`, .* of each `@layer` and .*: 1\.5\dGB, .*ms, \d\.\d% longer", said[0])
    before, full = simulate(long).latency_s, simulate(steps(long, "checkpoint=full")).latency_s
    assert seconds - before < 0.2 * (full - before)
    assert all(
        "MatMul" not in s.op for f in module for s in f.body if isinstance(s, Apply) and "active_again" in s.results
    )
    assert within[0.2][0] < full


@pytest.mark.parametrize("part", BUDGETS[1:3])
def test_sets_of_values_never_lose_to_whole_cores_and_layers(long, within, part):
    least, most = peak(steps(long, "checkpoint=full")), peak(long)
    for n in (2, 5, 8):
        for other in (f"checkpoint=full layers={n}", f"checkpoint=selective layers={n}"):
            module = steps(long, other)
            if peak(module) <= least + part * (most - least):
                assert within[part][0] <= simulate(module).latency_s


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("strategy", STRATEGIES, ids=" ".join)
@pytest.mark.parametrize("part", [0.7, 0.3])
def test_results_stay_with_sets_of_values(small, part, strategy):
    least, most = peak(steps(small, "checkpoint=full")), peak(small)
    found = steps(small, f"checkpoint={int(least + part * (most - least))}B")
    assert any("_again" in name for f in found for s in f.body if isinstance(s, Apply) for name in s.results)
    assert_same(small, steps(found, *strategy))


def test_layers_of_several_kinds_have_sets_of_their_own():
    text = """
        func @one(%w, %x) {
          %h = MatMul(%x, %w)
          %g = Gelu(%h)
          %y = MatMul(%g, %w)
          return %y
        }
        func @other(%w, %v, %x) {
          %h = MatMul(%x, %w)
          %t = Tanh(%h)
          %e = Exp(%t)
          %y = MatMul(%e, %v)
          return %y
        }
        func @main(%w: Tensor[Float64, (64, 64), 1] {param}, %v: Tensor[Float64, (64, 64), 1] {param},
                   %x: Tensor[Float64, (1024, 64), 1] {batch = 0}) {
          %a = @one(%w, %x)
          %b = @other(%w, %v, %a)
          %c = @one(%v, %b)
          %d = @other(%v, %w, %c)
          return %d
        }"""
    module = transform(distir.parse(text), "grad", loss="mse")
    most = peak(module)
    for part in (0.95, 0.85, 0.75):
        found = steps(module, f"checkpoint={int(part * most)}B")
        assert peak(found) <= part * most
        assert_same(module, found)


def test_a_mixture_is_taken_where_selective_is_too_little_and_full_too_much(long):
    selective, full = (peak(steps(long, f"checkpoint={kind}")) for kind in ("selective", "full"))
    found = steps(long, f"checkpoint={(selective + full) // 2}B")
    assert peak(found) <= (selective + full) // 2
    assert simulate(found).latency_s < simulate(steps(long, "checkpoint=full")).latency_s


def test_the_older_name_is_read(small):
    assert steps(small, "checkpoint=block") == steps(small, "checkpoint=full") == steps(small, "checkpoint")


def test_nothing_to_recompute_without_scores():
    module = mlp(4, 8, 8, "Float64", training=True)
    with pytest.raises(ProgramError, match="keeps no scores of attention") as raised:
        steps(module, "checkpoint=selective")
    assert raised.value.diagnostics[0].code.number == "DIR680"
    assert "checkpoint=full" in raised.value.diagnostics[0].help


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("selective layers=9", "`layers` expected at most 4, the blocks of the program, found 9"),
        ("full layers=-1", "`layers` expected 1 or more, found -1"),
        ("16GB layers=2", "a memory size chooses the layers itself: leave out `layers=2`"),
        ("selektive", "expected `full`, `selective`, `products`, a number of blocks, or a memory size"),
    ],
)
def test_what_is_no_choice_is_refused(small, words, said):
    with pytest.raises(StepError) as raised:
        steps(small, f"checkpoint={words}")
    assert said in str(raised.value)


@pytest.mark.parametrize("words", ["selective", "full layers=2"])
def test_results_stay_with_sequences_split(words):
    module = transform(gpt2(3, 16, 4, 8, 4, 12, "Float64"), "grad")
    assert_same(module, steps(module, f"checkpoint={words}", "tp=2 sequence=true"))


@pytest.mark.parametrize("strategy", [(), ("tp=2",), ("dp=2",), ("pp=2 microbatches=2",)], ids=" ".join)
@pytest.mark.parametrize("words", ["selective", "full"])
def test_what_was_dropped_is_dropped_again(words, strategy):
    """The mask of the attention is made again from its key; it is the same."""
    module = transform(gpt2(2, 16, 4, 8, 4, 12, "Float64", dropout=0.25), "grad")
    found = steps(module, f"checkpoint={words}")
    assert_same(module, steps(found, *strategy))
    if words == "selective":
        assert "Dropout" in [s.op for s in found.functions["layerGrad"].body if isinstance(s, Apply)]


def test_of_attention_that_is_one_op_there_is_nothing_to_recompute():
    text = """
        func @layer(%w, %x) {
          %a = MatMul(%x, %w)
          %b = Reshape(%a, [0, 0, 2, 4])
          %h = Transpose[perm = [0, 2, 1, 3]](%b)
          %y = Attention(%h, %h, %h)
          %t = Transpose[perm = [0, 2, 1, 3]](%y)
          %z = Reshape(%t, [0, 0, 8])
          return %z
        }
        func @main(%w: Tensor[Float64, (8, 8), 1] {param}, %x: Tensor[Float64, (2, 6, 8), 1] {batch = 0}) {
          %y = @layer(%w, %x)
          %z = @layer(%w, %y)
          return %z
        }"""
    with pytest.raises(ProgramError, match="its attention is one op, which saves nothing of the sequence's length"):
        steps(transform(distir.parse(text), "grad"), "checkpoint=selective")
