"""Attributes that take one of some words: another one is refused, with those that there are and the nearest."""

import pytest

from distir.analysis.program import read

PARAMETERS = "%x: Tensor[Float32, (2, 4), 1], %i: Tensor[Int64, (1, 2), 1], %u: Tensor[Float32, (1,), 1]"


@pytest.mark.parametrize(
    ("call", "expected", "near"),
    [
        ('Pad[mode = "reflct"](%x, [0, 0, 1, 1])', '"constant", "reflect", "edge" or "wrap"', "reflect"),
        ('Gelu[approximate = "tahn"](%x)', '"none" or "tanh"', "tanh"),
        ('ScatterND[reduction = "mull"](%x, %i, %u)', '"none", "add", "mul", "max" or "min"', "mul"),
        ('Gelu[approximate = "quite"](%x)', '"none" or "tanh"', None),
    ],
)
def test_a_word_that_is_none_of_them(call, expected, near):
    program = read(f"func @main({PARAMETERS}) {{\n  %y = {call}\n  return %y\n}}\n", "p.dir")
    (found,) = program.errors
    assert f"expected {expected} as `" in found.message
    assert found.help == (f'did you mean "{near}"?' if near else None)
