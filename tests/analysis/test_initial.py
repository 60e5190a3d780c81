"""Random weights: what a program gives of them is of sane size, however wide and deep it is."""

from itertools import pairwise

import numpy as np
import pytest

import distir
from distir.analysis import execute, random_inputs


def results(text, **sizes):
    module = distir.parse(text)
    return [output.value for output in execute(module, random_inputs(module, 0, sizes))]


def chain(widths, marks):
    """Products with weights one after the other."""
    pairs = list(pairwise(widths))
    params = [f"%w{i}: Tensor[Float32, {pair}, 1] {marks}" for i, pair in enumerate(pairs)]
    body = [f"  %x{i + 1} = MatMul(%x{i}, %w{i})" for i in range(len(pairs))]
    head = f"func @main(%x0: Tensor[Float32, (4, {widths[0]}), 1], {', '.join(params)}) {{"
    return "\n".join([head, *body, f"  return %x{len(pairs)}", "}"])


@pytest.mark.parametrize(
    "widths", [[8] * 40, [512] * 40, [64, 256] * 20, [256, 16] * 20], ids=lambda w: f"{w[0]}-{w[1]}"
)
def test_values_keep_their_size_through_products(widths):
    (found,) = results(chain(widths, "{param}"))
    assert 1e-3 < np.abs(found).mean() < 1e1


def test_what_is_no_weight_is_drawn_as_any_input():
    module = distir.parse(chain([512, 512], ""))
    weight = random_inputs(module, 0, {})["w0"]
    assert weight.std() == pytest.approx(0.1, rel=0.05)


NORMALIZED = """
func @block(%x: Tensor[Float32, (4, 8, 6, 6), 1], %w, %s, %b, %m, %v) {
  %c = Conv[pads = [1, 1, 1, 1]](%x, %w)
  %n = BatchNormalization(%c, %s, %b, %m, %v)
  %y = Relu(%n)
  return %y
}

func @main(%x0: Tensor[Float32, (4, 8, 6, 6), 1], PARAMS) {
BODY
  return %x30
}
"""


def test_a_running_variance_is_near_one_and_a_mean_near_zero_through_calls():
    """Else each layer divides by what may be nearly nothing, and a deep network gives infinities."""
    marked = {"w": "(8, 8, 3, 3), 1] {param}", "s": "(8,), 1] {param}", "b": "(8,), 1] {param}"}
    marked |= {"m": "(8,), 1] {buffer}", "v": "(8,), 1] {buffer}"}
    params = [f"%{name}{i}: Tensor[Float32, {rest}" for i in range(30) for name, rest in marked.items()]
    body = [f"  %x{i + 1} = @block(%x{i}, {', '.join(f'%{name}{i}' for name in marked)})" for i in range(30)]
    text = NORMALIZED.replace("PARAMS", ", ".join(params)).replace("BODY", "\n".join(body))
    module = distir.parse(text)
    given = random_inputs(module, 0, {})
    for i in range(30):
        assert (np.abs(given[f"v{i}"] - 1) < 0.6).all()
        assert (np.abs(given[f"s{i}"] - 1) < 0.6).all()
        assert (given[f"m{i}"] < 0.6).all()
    (found,) = (output.value for output in execute(module, given))
    assert 1e-3 < np.abs(found).mean() < 1e2
