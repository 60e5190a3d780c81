"""The step `seeded`: random numbers of dropout from one seed, whatever the program."""

import numpy as np
import pytest
from sharding_samples import assert_same, statements

import distir
from distir.analysis import execute, random_inputs
from distir.diagnostics import ProgramError
from distir.transform import transform

DEEP = """
func @inner(%x: Tensor[Float64, (B, 4)], %w: Tensor[Float64, (4, 4)]) {
  %h = MatMul(%x, %w)
  %y = Dropout(%h, 0.5, true)
  return %y
}

func @outer(%x: Tensor[Float64, (B, 4)], %w: Tensor[Float64, (4, 4)]) {
  %a = @inner(%x, %w)
  %b = @inner(%a, %w)
  %c = Dropout(%w, 0.25, true)
  %d = MatMul(%b, %c)
  return %d
}

func @idle(%x: Tensor[Float64, (B, 4)]) {
  %y = Dropout(%x, 0.5, false)
  return %y
}

func @main(%x: Tensor[Float64, (8, 4), 1] {batch = 0}, %w: Tensor[Float64, (4, 4), 1] {param}) {
  %a = @outer(%x, %w)
  %b = @idle(%a)
  %t = Transpose[perm = [1, 0]](%b)
  %c = Dropout(%t, 0.5, true)
  %d = Transpose[perm = [1, 0]](%c)
  %e = @outer(%d, %w)
  return %e
}
"""


def seeded():
    return transform(distir.parse(DEEP), "seeded")


def test_every_function_on_the_way_takes_a_key_and_the_examples():
    module = seeded()
    assert [p.name for p in module.functions["main"].params] == ["x", "w", "seed"]
    assert [p.name for p in module.functions["inner"].params] == ["x", "w", "rows", "seed"]
    assert module.functions["idle"] == distir.parse(DEEP).functions["idle"]
    (turned,) = statements(module, "Dropout", "main")
    assert turned.attrs["axis"] == 1, "the examples are columns there"
    (weights,) = statements(module, "Dropout", "outer")
    assert len(weights.args) == 4, "weights have no examples"


def test_each_call_drops_something_else():
    module = seeded()
    for function in ("main", "outer"):
        keys = [s.args for s in statements(module, "FoldIn", function)]
        assert len(keys) == len({*keys}) == 3
    inputs = random_inputs(module, 0, {})
    results = [execute(module, {**inputs, "seed": np.int64(seed)})[0].value for seed in (1, 1, 2)]
    np.testing.assert_array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


@pytest.mark.parametrize("chain", ["dp=2", "accumulate=4", "pp=2 microbatches=2 balance=uniform", "dp=2 zero=3"])
def test_distributed_programs_drop_the_same(chain):
    module = transform(seeded(), "grad", "loss=mse")
    assert_same(module, transform(module, *chain.split()))


def test_what_has_a_key_keeps_it_and_nothing_to_seed_is_refused():
    with pytest.raises(ProgramError, match="no `Dropout` in training is called from `@main` that has no key") as caught:
        transform(seeded(), "seeded")
    assert caught.value.diagnostics[0].code.number == "DIR609"
