"""The editor shows a kernel's call with its time, as one op, and the ops in its body as parts of it."""

from reading_samples import viewed

from distir.config import Hints
from distir.diagnostics import Span
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


def test_the_lens_above_a_kernel_has_its_time_and_its_body_folds_to_its_head():
    view = viewed(TEXT)
    assert lens_text(view, "fused_add_relu", "cost").title.startswith("one kernel: ")
    first = folds(view.document)[0]
    assert TEXT[first.span.start : first.span.end] == TEXT[: TEXT.index("}") + 1]
