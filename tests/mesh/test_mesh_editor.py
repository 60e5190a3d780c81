"""Programs on a mesh in the editor: hints, hover, completion, colours, and the collective that is missing."""

import re

import pytest
from mesh_programs import MLP, TRAINING

from distir.analysis.program import read
from distir.config import Hints
from distir.cost import load, show_seconds
from distir.diagnostics import Span
from distir.ide.actions.fixes import quick_fixes
from distir.ide.completion import completions
from distir.ide.document import Setup, open_document
from distir.ide.hints import hints
from distir.ide.hover import hover
from distir.ide.mentions import functions_mentioned
from distir.simulate.show import moment
from tests.ide.editing_samples import after, opened
from tests.ide.reading_samples import drawn, viewed

BODY = "func @main(%x: Tensor[Float32, (8@dp, 4), 1]) mesh (dp = 2, tp = 4) {{\n  {}\n  return %y\n}}\n"


def test_hints_show_where_the_parts_of_values_are():
    shown = drawn(MLP, hints(viewed(MLP), Span(0, len(MLP)), Hints()))
    assert "%h⟦: f32[B@dp,24@tp]⟧ = MatMul" in shown
    assert "%p⟦: f32[B@dp,12] Σtp⟧ = MatMul" in shown
    assert "%y⟦: f32[B@dp,12]⟧ = AllReduce" in shown


def test_hover_shows_what_a_device_holds_and_why_a_value_is_pending():
    text = TRAINING.replace("%dw1 = All", "%dw1_neg = Neg(%dw1_own)\n  %dw1 = All").replace(
        "(%dw1_own)\n  %db1", "(%dw1_neg)\n  %db1"
    )
    said = hover(viewed(text), text.index("%dw1_neg") + 1).markdown
    assert "%dw1_neg: Tensor[Float32, (16, 32@tp), 1, sum dp]" in said
    assert "each of 4 devices holds `Tensor[Float32, (16, 16), 1]`, 1.02kB" in said
    assert "a pending sum over `dp` since `MatMul`, [line 30](#L30), ended by `AllReduce`, [line 32](#L32)" in said


@pytest.mark.parametrize("word", ["@dp, 12)", "dp = 2"])
def test_hover_on_an_axis_says_which_devices_are_along_it(word):
    said = hover(viewed(MLP), MLP.index(word) + 1).markdown
    assert said == "axis `dp` of `mesh (dp = 2, tp = 2)`: groups of 2 devices, 2 apart"


def test_hover_on_the_name_of_a_size_says_what_it_is():
    text = MLP.replace("dp = 2", "dp = D")
    said = hover(viewed(text), text.index("= D") + 2).markdown
    assert said == "the number of devices along `dp` of `mesh (dp = D, tp = 2)`: `--bind D=2` gives it"
    assert "groups of D devices, 2 apart" in hover(viewed(text), text.index("@dp") + 1).markdown
    assert "each of 2*D devices holds" in hover(viewed(text), text.index("%h") + 1).markdown


@pytest.mark.parametrize(
    ("line", "labels"),
    [
        ("%y = AllGather[axis = |](%x)", ['"dp"', '"tp"']),
        ("%y: Tensor[Float32, (8@|, 4), 1] = Relu(%x)", ["@dp", "@tp", "@zigzag"]),
        ("%y: Tensor[Float32, (8@(|, 4), 1] = Relu(%x)", ["dp", "tp", "zigzag"]),
        (
            "%y: Tensor[Float32, (8, 4), 1, |] = Relu(%x)",
            ["offloaded", "on dp 1", "on tp 1", "sum dp", "sum tp", "max dp", "max tp"],
        ),
    ],
)
def test_axes_and_what_may_be_pending_are_completed(line, labels):
    text = BODY.format(line)
    offset = text.index("|")
    found = completions(opened(text.replace("|", "")), offset)
    assert [item.label for item in found.items] == labels


def test_axes_are_completed_in_a_head_that_is_being_written():
    text = "func @main(%x: Tensor[Float32, (8@|, 4), 1]) mesh (dp = 2, tp = 4) {\n  return %x\n}\n"
    offset = text.index("|")
    found = completions(opened(text.replace("|", "")), offset)
    assert [item.label for item in found.items] == ["@dp", "@tp", "@zigzag"]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (MLP.replace("return %y", "%z = Relu(%p)\n  return %z, %y"), 'insert `AllReduce[axis = "tp"]` for `%p`'),
        (
            TRAINING.replace("SGD(%b2, %db2)", "SGD(%b2, %db2_own)"),
            'insert `AllReduce[axis = "dp"]` for `%db2_own` (64B on each device, TIME on dgx-a100)',
        ),
        (
            MLP.replace("B@", "4096@").replace("return %y", "return %p, %y"),
            'insert `AllReduce[axis = "tp"]` for `%p` (98.3kB on each device, TIME on dgx-a100)',
        ),
    ],
)
def test_the_missing_collective_is_inserted_and_what_it_costs_is_said(text, title):
    (action,) = (a for a in quick_fixes(opened(text), Span(0, len(text))) if a.title.startswith("insert"))
    mended = after(opened(text), action.edits)
    assert action.preferred
    assert not [d for d in read(mended).diagnostics if d.severity.value == "error"]
    if "TIME" in title:
        title = title.replace("TIME", re.search(r"([\d.]+us) on dgx-a100", action.title)[1])
    assert action.title == title


def test_the_cost_of_a_collective_is_that_of_its_statement():
    text = MLP.replace("B@", "4096@").replace("return %y", "%z = Relu(%p)\n  return %z, %y")
    (action,) = (a for a in quick_fixes(opened(text), Span(0, len(text))) if a.title.startswith("insert"))
    document = open_document(after(opened(text), action.edits), "mesh.dir", Setup(load("dgx-a100")))
    added = next(k for k, s in enumerate(document.entry.body) if s.results == ("p_sum",))
    taken = moment(document.simulation.timeline(), document.shown["mlp"], added)
    assert action.title.endswith(f", {show_seconds(taken.seconds)} on dgx-a100)")


def test_an_axis_is_no_function_of_its_name():
    text = "func @dp(%x: Tensor[Float32, ((B)@dp, 4@dp), 1]) {\n  return %x\n}\n"
    assert len(functions_mentioned(opened(text).program.syntax, "dp")) == 1
