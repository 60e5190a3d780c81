"""Which parameters are indices, and how large their elements may be."""

import numpy as np
import pytest

from distir.analysis import random_inputs
from distir.analysis.indices import index_bounds
from distir.models import gpt2
from distir.syntax import parse
from distir.transform import transform

TEXT = """\
func @main(
  %table: Tensor[Float32, (V, 4), 1],
  %small: Tensor[Float32, (4, 7), 1],
  %i: Tensor[Int64, (2, 50), 1],
  %j: Tensor[Int64, (50,), 1],
  %k: Tensor[Int64, (50,), 1]
) {
  %flat = Reshape(%i, [-1])
  %a = Gather[axis = 0](%table, %flat)
  %b = Gather[axis = 1](%small, %flat)
  %c = Gather[axis = 0](%table, %j)
  %next = Add(%k, 1)
  %d = Gather[axis = 0](%table, %next)
  %e = Mod(%k, 9)
  return %a, %b, %c, %d, %e
}
"""


def test_the_smallest_of_what_an_index_chooses_from_counts():
    main = parse(TEXT).module.functions["main"]
    assert index_bounds(main, {"V": 30}) == {"i": 7, "j": 30}
    assert index_bounds(main, {}) == {}


def test_random_indices_are_in_range_and_reach_all_of_it():
    main = parse(TEXT).module.functions["main"]
    found = random_inputs(main, 0, {"V": 30})
    assert set(found["i"].ravel()) == set(range(7))
    assert found["j"].max() > 20
    assert set(found["k"]) == {0, 1}


@pytest.mark.parametrize("strategy", [(), ("dp=2",), ("tp=2",)])
def test_tokens_of_a_model_are_of_its_whole_vocabulary(strategy):
    module = transform(gpt2(1, 32, 2, 8, 2, 40, dtype="Float32"), "grad", "loss=cross_entropy", "optimizer=sgd")
    main = transform(module, *strategy).functions["main"] if strategy else module.functions["main"]
    found = random_inputs(main, 0, {})
    tokens = [value for name, value in found.items() if name.startswith("input_ids")]
    assert tokens
    for value in tokens:
        assert 20 < np.max(value) < 40
