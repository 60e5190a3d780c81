"""Hover: golden files of marked-up programs (`pytest --bless` writes the answers anew), and laws over all of a text."""

import re
from pathlib import Path

import pytest
from reading_samples import PIPELINE, marked, opened, viewed

from distir.cost import load
from distir.ide.hover import hover
from distir.ide.instances import View

FOLDER = Path(__file__).parent / "golden"
FILES = sorted(FOLDER.glob("hover*.md"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path, request):
    found = answered(path.read_text())
    if request.config.getoption("--bless"):
        path.write_text(found)
    assert found == path.read_text()


def answered(page):
    """The page with an answer for each mark in its program."""
    head, _, rest = page.partition("```dir\n")
    program = rest.partition("\n```\n")[0] + "\n"
    text, places = marked(program)
    view = viewed(text, bind={"B": 16} if "(B" in text else {})
    parts = [f"{head}```dir\n{program.rstrip()}\n```\n"]
    for offset in places:
        said = hover(view, offset)
        word = text[said.span.start : said.span.end] if said else "nothing"
        line = text.count("\n", 0, offset) + 1
        parts.append(f"## `{word}`, line {line}\n\n{said.markdown if said else ''}\n")
    return "\n".join(parts)


def test_every_offset_of_a_text_is_answered_or_not_and_none_raises():
    for text in (PIPELINE, PIPELINE[: len(PIPELINE) // 2], PIPELINE.replace("(", "", 3), "", "func", "%x", "func @f("):
        view = viewed(text)
        for offset in range(len(text) + 1):
            said = hover(view, offset)
            assert said is None or said.span.start <= offset <= said.span.end


def test_comments_are_not_about_anything():
    text = PIPELINE.replace("  %h = Gemm", "  // %h and @dense and Gemm\n  %h = Gemm")
    view = viewed(text)
    assert all(hover(view, m.start() + 1) is None for m in re.finditer(r"(?<=// )%h|(?<=and )\S+", text))


def test_the_call_that_is_picked_is_the_one_shown():
    offset = PIPELINE.index("%h =")
    first, last = (hover(viewed(PIPELINE, picked={"dense": n}), offset).markdown for n in (0, 3))
    assert "on device 1" in first
    assert "call 1 of 4" in first
    assert "on device 2" in last
    assert "call 4 of 4" in last


def test_a_pick_that_is_gone_shows_the_first_call():
    offset = PIPELINE.index("%h =")
    assert hover(viewed(PIPELINE, picked={"dense": 9}), offset) == hover(viewed(PIPELINE), offset)


def test_picking_a_call_of_the_caller_moves_what_it_calls():
    text = (
        PIPELINE.replace("func @main", "func @outer(%w, %x) {\n  %r = @dense(%w, %x)\n  return %r\n}\n\nfunc @main")
        .replace("D1 = @dense", "D1 = @outer")
        .replace("D2 = @dense", "D2 = @outer")
    )
    offset = text.index("%h =")
    assert "on device 1" in hover(viewed(text), offset).markdown
    assert "on device 2" in hover(viewed(text, picked={"outer": 2}), offset).markdown


def test_while_a_text_is_simulated_again_its_times_are_those_of_before():
    before = opened(PIPELINE)
    assert before.simulation is not None
    edited = PIPELINE.replace("  %a = Relu(%h)", "  %new = Tanh(%h)\n  %a = Relu(%new)")
    after = before.edited(edited, 1)
    view = View(after, before)
    said = hover(view, edited.index("Relu(%new)")).markdown
    assert "Relu(Tensor[" not in said or "starts at" not in said  # it is a new statement
    said = hover(view, edited.index("Gemm(")).markdown
    assert "starts at **2.60us**" in said
    assert said.endswith("*stale, simulated 1 edit ago: it is being simulated again*")
    said = hover(view, edited.index("%new =")).markdown
    assert "made by `Tanh`" in said
    assert not after.is_simulated, "asking must not simulate"


def test_after_a_syntax_error_every_hover_with_figures_says_whose_they_are():
    before = opened(PIPELINE)
    assert before.simulation is not None
    assert "stale" not in hover(View(before, before), PIPELINE.index("Gemm(")).markdown
    text = PIPELINE.replace("Relu(%h)", "Relu(%h", 1)
    view = View(before.edited(text, 2), before)
    for words in ("@dense(%w,", "Gemm(", "%h =", "@main(", "@dense(%w1, %x_1)", "Split("):
        said = hover(view, text.index(words) + 1).markdown
        assert re.search(r"\*stale, simulated 2 edits ago: the program has errors \(line 4, .*\)\*$", said), words


def test_a_value_whose_type_an_edit_changed_is_not_shown_as_it_was():
    text = "func @main(%x: Tensor[Float32, (4, 8), 1]) {\n  %a = Relu(%x)\n  %b = Relu(%a)\n  return %b\n}\n"
    before = opened(text)
    assert before.simulation is not None
    edited = text.replace("(4, 8)", "(6, 8)")
    said = hover(View(before.edited(edited, 1), before), edited.index("%b =")).markdown
    assert "(6, 8)" in said
    assert "(4, 8)" not in said


def test_the_entry_function_says_what_share_waits_for_the_host():
    text = "func @main(%x: Tensor[Float32, (8, 8), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n"
    eager = hover(viewed(text, load("dgx-h100@eager")), text.index("@main") + 1).markdown
    assert "of which 74% waits for the host, 1 op" in eager
    assert "host" not in hover(viewed(text, load("dgx-h100")), text.index("@main") + 1).markdown
