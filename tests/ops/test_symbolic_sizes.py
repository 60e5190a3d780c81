"""Shapes that hold named dimensions, computed as values: what exported models do with a symbolic batch."""

import pytest

from distir.analysis.program import read

FLATTENED = """
func @main(%x: Tensor[Float32, (B, 8, 768), 1], %w: Tensor[Float32, (768, 4), 1]) {
  %s = Shape(%x)
  %batch = Gather[axis = 0](%s, 0)
  %eight = Gather[axis = 0](%s, 1)
  %rows = Mul(%batch, %eight)
  %rows_1 = Unsqueeze(%rows, [0])
  %last = Slice(%s, [2], [3])
  %shape = Concat[axis = 0](%rows_1, %last)
  %flat = Reshape(%x, %shape)
  %y = Gemm(%flat, %w)
  return %y
}
"""


def types_of(text):
    program = read(text)
    assert program.errors == ()
    return {name: str(value) for name, value in program.analysis.states["main"].items() if name}


def test_a_chain_of_sizes_keeps_the_name_of_the_batch():
    types = types_of(FLATTENED)
    assert types["flat"] == "Tensor[Float32, (8*B, 768), 1]"
    assert types["y"] == "Tensor[Float32, (8*B, 4), 1]"


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [
        ("[-1, 768]", "(8*B, 768)"),
        ("[0, -1]", "(B, 6144)"),
        ("[0, 2, 4, 768]", "(B, 2, 4, 768)"),
        ("[4, -1]", "(4, 1536*B)"),
    ],
)
def test_reshape_of_a_named_batch(sizes, shape):
    text = f"func @main(%x: Tensor[Float32, (B, 8, 768), 1]) {{\n  %y = Reshape(%x, {sizes})\n  return %y\n}}\n"
    assert types_of(text)["y"] == f"Tensor[Float32, {shape}, 1]"


def test_a_size_that_no_rule_can_take_is_unknown_not_an_error():
    text = """
func @main(%x: Tensor[Float32, (B, 8), 1]) {
  %s = Shape(%x)
  %f = Cast[to = Float32](%s)
  %r = Sqrt(%f)
  return %r
}
"""
    assert types_of(text)["r"] == "Tensor[Float32, (2,), host]"


def test_bound_names_give_the_same_types_as_numbers_written_out():
    named = types_of(FLATTENED)
    numbers = types_of(FLATTENED.replace("(B,", "(6,"))
    assert {name: text.replace("8*B", "48").replace("B", "6") for name, text in named.items() if "Tensor[" in text} == {
        name: text for name, text in numbers.items() if "Tensor[" in text
    }
