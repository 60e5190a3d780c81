"""Streams in the editor: hover, completion, renaming, highlights, colours."""

import pytest
from editing_samples import after, at_cursor, marked, opened
from reading_samples import viewed
from test_tokens import decoded

from distir.config import Hints
from distir.diagnostics import Span
from distir.ide.completion import completions
from distir.ide.formatting import format_document
from distir.ide.hints import hints
from distir.ide.hover import hover
from distir.ide.navigation import highlights, references
from distir.ide.rename import RenameError, prepare, rename

TEXT = """\
func @layer(%x, %y) {
  %a, %b = MPIAllreduce(%x, %y) on reduce
  return %a, %b
}

func @main(%x: Tensor[Float32, (2,), 1], %y: Tensor[Float32, (2,), 2]) {
  %a, %b = @layer(%x, %y)
  %c = Relu(%x) on side // on reduce
  %d, %e = MPIAllreduce(%c, %y) on reduce
  %f = Tanh(%b) on compute
  return %a, %d, %e, %f
}
"""


def offset_of(text, part):
    return text.index(part) + len(part) - 1


def test_hover_says_whose_stream_it_is_and_what_else_is_on_it():
    said = hover(viewed(TEXT), offset_of(TEXT, "(%c, %y) on reduce"))
    assert TEXT[said.span.start : said.span.end] == "reduce"
    assert "stream `reduce` of 2 devices 1, 2" in said.markdown
    assert "2 statements on it" in said.markdown
    assert "`%a, %b = MPIAllreduce(%x, %y) on reduce` in `@layer`" in said.markdown
    assert "of device 1:" in hover(viewed(TEXT), offset_of(TEXT, "(%x) on side")).markdown
    assert "names none" in hover(viewed(TEXT), offset_of(TEXT, "on compute")).markdown


def test_hover_says_what_a_stream_hides():
    text = TEXT.replace("  %f = ", "  %f = Tanh(%a)\n  %g = ").replace("(2,)", "(200000,)")
    assert (
        "hidden behind what its devices compute, over 2 devices"
        in hover(viewed(text), offset_of(text, "(%c, %y) on reduce")).markdown
    )


def test_what_is_on_a_stream_is_found_in_all_functions():
    document = opened(TEXT)
    at = offset_of(TEXT, "(%c, %y) on reduce")
    expected = TEXT.replace("%y) on reduce", "%y) on <[reduce]>")
    assert marked(TEXT, references(document, at)) == expected
    assert marked(TEXT, [h.span for h in highlights(document, at)]) == expected


def test_a_stream_is_renamed_in_all_functions():
    document = opened(TEXT)
    at = offset_of(TEXT, "(%c, %y) on reduce")
    span, name = prepare(document, at)
    assert (TEXT[span.start : span.end], name) == ("reduce", "reduce")
    assert after(document, rename(document, at, "sums")) == TEXT.replace("%y) on reduce", "%y) on sums")


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ("reduce", "another stream"),
        ("compute", "another stream"),
        ("a.b", "no stream's name"),
        ("host", "no stream's name"),
    ],
)
def test_two_streams_do_not_become_one(new, why):
    with pytest.raises(RenameError, match=why):
        rename(opened(TEXT), offset_of(TEXT, "(%x) on side"), new)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%f = Tanh(%b) on <|>", ["reduce", "side", "gather", "copy"]),
        ("%f = Tanh(%b) on re<|>", ["reduce", "side", "gather", "copy"]),
        ("%f = Tanh(%b) <|>", ["on"]),
        ("%f = Tanh(%b) o<|>", ["on"]),
        ("%f = Tanh(%b) on reduce <|>", []),
    ],
)
def test_completion_knows_the_streams_of_the_program(text, expected):
    found = completions(*at_cursor(TEXT.replace("%f = Tanh(%b) on compute", text)))
    assert [item.label for item in found.items] == expected


def test_the_word_and_the_name_are_coloured():
    found = [(word, kind) for word, kind, _ in decoded(viewed(TEXT)) if word in ("on", "reduce", "side")]
    assert found == [("on", "keyword"), ("reduce", "property"), ("on", "keyword"), ("side", "property")] + [
        ("on", "keyword"),
        ("reduce", "property"),
        ("on", "keyword"),
    ]


def test_the_formatter_writes_streams_in_one_way():
    messy = TEXT.replace("(%c, %y) on reduce", "(%c, %y)on   reduce")
    document = opened(messy)
    assert after(document, format_document(document)) == TEXT.replace(" on compute", "")


def test_a_stream_that_is_free_before_it_is_needed_is_no_idle_device():
    """Device 1 computes meanwhile; only what `%e` waits for leaves a device idle."""
    text = """\
func @main(%x: Tensor[Float32, (512, 512), 1], %y: Tensor[Float32, (512, 512), 2]) {
  %a = MatMul(%x, %x)
  %b = Send[device = 2](%a) on copy
  %c = Relu(%a)
  %d = Relu(%y)
  %e = Add(%b, %d)
  return %c, %e
}
"""
    view = viewed(text)
    said = hover(view, offset_of(text, "Send")).markdown
    assert "idles" not in said
    assert "follows `%a`" in said
    assert "device 2 idles" in hover(view, offset_of(text, "Add")).markdown
    waits = [hint for hint in hints(view, Span(0, len(text)), Hints()) if hint.kind == "wait"]
    assert [text[: hint.offset].count("\n") for hint in waits] == [5]
