"""Counted calls and ranges of names in the editor: every query at every offset, hovers, renaming, occurrences."""

from bisect import bisect_right

import pytest
from editing_samples import opened
from reading_samples import drawn, viewed
from test_queries_never_fail import every_query

from distir.config import Hints
from distir.diagnostics import Span
from distir.ide.hints import hints
from distir.ide.hover import hover
from distir.ide.navigation import definition, references
from distir.ide.rename import RenameError, rename

TEXT = """// Four layers.
func @layer(%x: Tensor[Float32, (4, 4), 1], %w: Tensor[Float32, (4, 4), 1]) {
  %s = MatMul(%x, %w)
  %y = Relu(%s)
  return %y, %s
}

func @main(
  %x: Tensor[Float32, (4, 4), 1], // the input
  [%w_{1..4}: Tensor[Float32, (4, 4), 1] {param}, %b_{1..4}: Tensor[Float32, (4, 4), 1]]
) {
  %y, [%s_{1..4}] = @layer(%x then %y, [%w_{1..4}]) 4 times {layer = 1..4} // behind
  %q = Sum(%s_{1..4}, %b_{1..4}, %w_2)
  return %y, %q
}
"""


BLOCK = TEXT.replace(
    "  %y, [%s",
    """  repeat 4 times {
    %a = Concat[axis = 0]([%w_{1..4}], %x) {optimizer, of = [%w_{1..4}]} // why
    %t = Transpose[perm = [1, 0]](%a)
    _ = MatMul(%t, %a)
  }
  %y, [%s""",
)


@pytest.mark.parametrize("text", [TEXT, BLOCK])
def test_every_query_answers_everywhere(text):
    for offset in range(0, len(text), 3):
        every_query(opened(text), Span(offset, offset))
    view = viewed(text)
    for offset in range(len(text)):
        hover(view, offset)


def test_what_is_done_each_time_has_hovers_and_the_time_of_all_times():
    assert "Transpose(Tensor[Float32, (8, 4), 1]) ->" in said("Transpose", text=BLOCK)
    assert "attribute `perm` of `Transpose`" in said("perm", text=BLOCK)
    assert "last used by 3 statements 4 times, [line 12]" in said("%a = ", text=BLOCK)
    lines = drawn(BLOCK, hints(viewed(BLOCK), Span(0, len(BLOCK)), Hints())).splitlines()
    (row,) = (line for line in lines if "Transpose" in line)
    assert "%t⟦: f32[4,8]@1⟧" in row
    assert row.endswith("⟦+4.01us in 4⟧")
    assert any(line.startswith("  }⟦+12.0us @0.00us⟧") for line in lines)


def said(words, number=0, text=TEXT):
    """The hover on the first of the words that is from the given occurrence on."""
    at = -1
    for _ in range(number + 1):
        at = text.index(words, at + 1)
    return hover(viewed(text), at + 1).markdown


def test_hover_tells_of_each_call_and_of_all():
    found = said("@layer(", 1)
    assert "4 times, together: takes **8.0" in found
    assert "call 4 by a counted call, [line 12]" in found
    assert "%w_1: Tensor[Float32, (4, 4), 1]" in said("%w_{1..4}", 1)
    assert "last used by `@layer` 4 times, [line 12]" in said("%x: Tensor", 1)


def test_hints_stand_at_the_call():
    shown = drawn(TEXT, hints(viewed(TEXT), Span(0, len(TEXT)), Hints()))
    line = next(line for line in shown.splitlines() if "times" in line)
    assert "+8.01us @0.000us" in line


def test_a_name_in_a_range_is_found_and_not_renamed():
    document = opened(TEXT)
    at = TEXT.index("%w_2)")
    lines = [0, *(i + 1 for i, c in enumerate(TEXT) if c == "\n")]
    found = [bisect_right(lines, place.start) for place in references(document, at)]
    assert found == [10, 12, 13]
    (defined,) = definition(document, at)
    assert bisect_right(lines, defined.start) == 10
    with pytest.raises(RenameError, match="one of a range of names"):
        rename(document, at, "other")
