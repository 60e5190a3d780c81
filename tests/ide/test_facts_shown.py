"""Facts in the editor: what they say, what may be stated, their colours, and names in them."""

import pytest
from editing_samples import at_cursor
from reading_samples import viewed

from distir.ide.completion import completions
from distir.ide.hover import hover

TEXT = """
func @layer_backward(%x: Tensor[Float32, (4,), 1], %dy: Tensor[Float32, (4,), 1]) backward, stage = 2 {
  %dx = ReluGrad(%dy, %x)
  return %dx
}

func @main(%w: Tensor[Float32, (4,), 1] {param}, %x: Tensor[Float32, (4,), 1]) {
  %y = Relu(%x) {forward, layer = 1}
  %dw = @layer_backward(%y, %x) {microbatch = 3}
  %w_new = SGD(%w, %dw) {optimizer, of = %w}
  return %w_new
}
"""


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("backward, stage", "computes gradients"),
        ("stage = 2", "stage of a pipeline"),
        ("forward, layer", "computes outputs"),
        ("microbatch = 3", "counted on"),
        ("of = %w", "that a gradient, an update"),
    ],
)
def test_hover_says_what_a_fact_says(word, says):
    found = hover(viewed(TEXT), TEXT.index(word) + 1)
    assert says in found.markdown
    assert TEXT[found.span.start : found.span.end] == word.split()[0].rstrip(",")


def test_a_parameter_in_a_fact_is_the_parameter():
    found = hover(viewed(TEXT), TEXT.index("of = %w}") + 6)
    assert "Tensor[Float32, (4,), 1]" in found.markdown


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("%y = Relu(%x) {<|>", {"forward", "backward", "weight", "optimizer", "stage", "microbatch", "layer", "of"}),
        ("%y = Relu(%x) on side {forward, <|>", {"stage", "of"}),
        ("%y = Relu(%x) {of = <|>", {"%x"}),
    ],
)
def test_facts_are_completed_in_their_braces(typed, offered):
    document, offset = at_cursor(f"func @f(%x: D1) {{\n  {typed}\n  return %y\n}}\n")
    assert offered <= {item.label for item in completions(document, offset).items}
