"""What exporters of models write: zeros in the place of what is cut off again, and shapes that count with -1."""

import pytest

import distir
from distir.prove import prove

PADDED = """
func @main(%x: Tensor[Float32, (4, 3), 1] {batch = 0}, %w: Tensor[Float32, (3, 6), 1] {param}) {
  %h = MatMul(%x, %w)
  %n = Shape[start = 0, end = 1](%x)
  %s = Concat[axis = 0](%n, [2])
  %z = Expand([[0.0]], %s)
  %c = Concat[axis = 1](%h, %z)
  %p = Relu(%c)
  return %p
}
"""

REGROUPED = """
func @main(%x: Tensor[Float32, (4, 4, 2, 3), 1], %u: Tensor[Float32, (4, 4, 1), 1]) {
  %h = Reshape(%x, [4, 4, 6])
  %c = Concat[axis = 2](%h, %u)
  %p = Relu(%c)
  return %p
}
"""

REGROUPED_PARTS = """
func @main(
  %x_1: Tensor[Float32, (4, 2, 2, 3), 1], %x_2: Tensor[Float32, (4, 2, 2, 3), 2],
  %u_1: Tensor[Float32, (4, 2, 1), 1], %u_2: Tensor[Float32, (4, 2, 1), 2]
) {
  %h_1 = Reshape(%x_1, [-1, 2, 6])
  %h_2 = Reshape(%x_2, [-1, 2, 6])
  %c_1 = Concat[axis = 2](%h_1, %u_1)
  %c_2 = Concat[axis = 2](%h_2, %u_2)
  %p_1 = Relu(%c_1)
  %p_2 = Relu(%c_2)
  return %p_1, %p_2
}

func @main.scatter(%x: Tensor[Float32, (4, 4, 2, 3), 1], %u: Tensor[Float32, (4, 4, 1), 1]) {
  %x_1, %x_2 = MPIScatter[devices = [1, 2], axis = 1](%x)
  %u_1, %u_2 = MPIScatter[devices = [1, 2], axis = 1](%u)
  return %x_1, %x_2, %u_1, %u_2
}

func @main.gather(%p_1: Tensor[Float32, (4, 2, 7), 1], %p_2: Tensor[Float32, (4, 2, 7), 2]) {
  %p = MPIGather[axis = 1, root = 1](%p_1, %p_2)
  return %p
}
"""


def is_proved(text, sequential, *change):
    if change:
        assert change[0] in text
        text = text.replace(*change, 1)
    return prove(distir.parse(text), distir.parse(sequential)).proved


@pytest.mark.parametrize("words", ["dp=2", "dp=4"])
def test_zeros_beside_a_part_are_those_beside_the_whole(words):
    sequential = distir.parse(PADDED)
    found = distir.transform(sequential, *words.split())
    assert prove(found, sequential).failures == ()


@pytest.mark.parametrize(
    "change",
    [
        ("[[0.0]]", "[[1.0]]"),
        ("(%h_1, %z_part_1)", "(%z_part_1, %h_1)"),
        ("%h_2 = MatMul(%x_2, %w_2)", "%g_2 = MatMul(%x_2, %w_2)\n  %h_2 = Neg(%g_2)"),
    ],
)
def test_other_zeros_are_not_proved(change):
    text = distir.format(distir.transform(distir.parse(PADDED), "dp=2"))
    assert is_proved(text, PADDED)
    assert not is_proved(text, PADDED, *change)


def test_a_reshaped_part_is_of_the_shape_that_the_sequential_program_has():
    assert is_proved(REGROUPED_PARTS, REGROUPED)


@pytest.mark.parametrize(
    "change",
    [
        ("%u_1, %u_2 = MPIScatter[devices = [1, 2]", "%u_2, %u_1 = MPIScatter[devices = [2, 1]"),
        ("(%p_1, %p_2)\n", "(%p_2, %p_1)\n"),
    ],
)
def test_other_parts_are_not_proved(change):
    assert not is_proved(REGROUPED_PARTS, REGROUPED, *change)
