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


ROTATED = """
func @main(
  %x: Tensor[Float32, (4, 8, 8), 1] {batch = 0}, %frequencies: Tensor[Float32, (2,), 1] {param},
  %qkv: Tensor[Float32, (24, 8), 1] {param}, %out: Tensor[Float32, (8, 8), 1] {param},
  %norm: Tensor[Float32, (8,), 1] {param}, %up: Tensor[Float32, (8, 16), 1] {param},
  %down: Tensor[Float32, (16, 8), 1] {param}
) {
  %angles = Mul([[[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0]]], %frequencies)
  %h = MatMul(%x, %up)
  %a = Relu(%h)
  %e = MatMul(%a, %down)
  %n = RMSNormalization(%e, %norm)
  %turned = Transpose[perm = [1, 0]](%qkv)
  %linear = MatMul(%n, %turned)
  %q = Slice(%linear, [0], [8], [2], [1])
  %k = Slice(%linear, [8], [16], [2], [1])
  %v = Slice(%linear, [16], [24], [2], [1])
  %q_view = Reshape(%q, [-1, 8, 2, 4])
  %q_heads = Transpose[perm = [0, 2, 1, 3]](%q_view)
  %k_view = Reshape(%k, [-1, 8, 2, 4])
  %k_heads = Transpose[perm = [0, 2, 1, 3]](%k_view)
  %v_view = Reshape(%v, [-1, 8, 2, 4])
  %v_heads = Transpose[perm = [0, 2, 1, 3]](%v_view)
  %cos = Cos(%angles)
  %sin = Sin(%angles)
  %q_rotated = RotaryEmbedding(%q_heads, %cos, %sin)
  %k_rotated = RotaryEmbedding(%k_heads, %cos, %sin)
  %mixed = Attention[is_causal = true](%q_rotated, %k_rotated, %v_heads)
  %turned_back = Transpose[perm = [0, 2, 1, 3]](%mixed)
  %together = Reshape(%turned_back, [-1, 8, 8])
  %o = MatMul(%together, %out)
  %y = Add(%e, %o)
  return %y
}
"""


@pytest.mark.parametrize("steps", [["tp=2", "sequence=true"], ["grad", "tp=2", "sequence=true"], ["grad", "dp=2"]])
def test_angles_that_the_program_computes_are_cut_with_the_sequence(steps):
    sequential = distir.parse(ROTATED)
    if steps[0] == "grad":
        sequential, steps = distir.transform(sequential, "grad", "loss=mse"), steps[1:]
    made = distir.transform(sequential, *steps)
    assert prove(made, sequential).failures == ()
    if "sequence=true" in steps:
        text = distir.format(made)
        old = next(line for line in text.splitlines() if "_part_2 = Split" in line and ("cos" in line or "sin" in line))
        name = old.split("%")[1].split(" ")[0]
        first = f"  %{name}, _ = Split{old.split('Split')[1]}"
        assert not prove(distir.parse(text.replace(old, first, 1)), sequential).proved
