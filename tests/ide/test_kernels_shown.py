"""The editor shows a kernel's call with its time, as one op, and the ops in its body as parts of it."""

from editing_samples import at_cursor
from reading_samples import viewed

from distir.config import Hints
from distir.diagnostics import Span
from distir.ide.completion import completions
from distir.ide.folding import folds
from distir.ide.hints import hints, tooltip
from distir.ide.hover import hover
from distir.ide.lenses import lens_text

TEXT = """\
func @fused_add_relu(%x, %y) kernel {
  %a = Add(%x, %y)
  %b = Relu(%a)
  return %b
}

func @main(%x: Tensor[Float32, (100, 100), 1], %y: Tensor[Float32, (100, 100), 1]) {
  %b = @fused_add_relu(%x, %y)
  %c = Relu(%b)
  return %c
}
"""


def test_a_call_has_a_time_and_the_body_has_none():
    view = viewed(TEXT)
    timed = [h for h in hints(view, Span(0, len(TEXT)), Hints()) if h.kind == "time"]
    assert [(h.function, h.index) for h in timed] == [("main", 0), ("main", 1)]
    assert "memory traffic" in tooltip(view, "main", "time", 0, 0)
    (event, _) = view.simulation.timeline().events()
    assert event.op == "@fused_add_relu"


def test_hovering_says_what_a_kernel_is_and_what_its_ops_are():
    view = viewed(TEXT)
    call = hover(view, TEXT.index("@fused_add_relu(%x, %y)\n")).markdown
    assert "one kernel" in call
    assert "120 kB of memory traffic" in call.replace("120kB", "120 kB")
    inside = hover(view, TEXT.index("Add(")).markdown
    assert "part of the kernel `@fused_add_relu`" in inside
    assert "starts at" not in inside


def test_the_mark_behind_a_head_is_offered_and_explained():
    at = TEXT.index("kernel {")
    said = hover(viewed(TEXT), at + 2)
    assert "a call is one launch" in said.markdown
    assert TEXT[said.span.start : said.span.end] == "kernel"
    heads = {"func @f(%x, %y) <|> {\n  return %x\n}\n": None, "func @f(%x) -> D1 ker<|> {\n  return %x\n}\n": None}
    heads |= {"func @f(\n  %x,\n  %y\n) ker<|>": "kernel {\n  $0\n}", "func @f(%x) <|>\n": "kernel {\n  $0\n}"}
    for text, snippet in heads.items():
        document, offset = at_cursor(text)
        offered = {i.label: i.snippet for i in completions(document, offset).items}
        assert offered["kernel"] == snippet, text
        assert {"backward", "stage"} < {*offered}, text
    for text in ("func @f(%x <|>", "func @f(%x: Tensor[Float32, (<|>", "func @f<|>", "func @f(%x) kernel <|>{\n}\n"):
        document, offset = at_cursor(text)
        assert "kernel" not in [i.label for i in completions(document, offset).items], text
    named = TEXT.replace("(100, 100)", "(kernel, 100)")
    assert "one launch" not in (hover(viewed(named), named.index("(kernel") + 2).markdown)


def test_the_lens_above_a_kernel_has_its_time_and_its_body_folds_to_its_head():
    view = viewed(TEXT)
    assert lens_text(view, "fused_add_relu", "cost").title.startswith("one kernel: ")
    first = folds(view.document)[0]
    assert TEXT[first.span.start : first.span.end] == TEXT[: TEXT.index("}") + 1]
