"""A program on a mesh in the editor: placements where they change, pending sums until their end, hues, lens, marks."""

import re

import pytest
from reading_samples import opened, viewed
from test_tokens import decoded

from distir.config import Hints
from distir.cost import load
from distir.diagnostics import Span
from distir.ide.completion import completions
from distir.ide.going import placement_goal
from distir.ide.hints import hints
from distir.ide.hover import hover
from distir.ide.instances import View
from distir.ide.lenses import lens_text, lenses
from distir.ide.placements import marks

STEP = """\
func @block(%x, %w1, %w2) {
  %h = MatMul(%x, %w1)
  %a = Relu(%h) // %p is no name here
  %p = MatMul(%a, %w2)
  return %p, %a
}

func @main(
  %x: Tensor[Float32, (64@dp, 16), 1] {batch = 0},
  %w1: Tensor[Float32, (16, 32@tp), 1] {param},
  %w2: Tensor[Float32, (32@tp, 16), 1] {param}
) mesh (dp = 2, tp = 4) {
  %p, %b = @block(%x, %w1, %w2)
  %twice = Add(%p, %p)
  %y = AllReduce[axis = "tp"](%twice)
  %t = Transpose[perm = [1, 0]](%y)
  %own = ReduceSum(%y, [0])
  %loss = AllReduce[axis = "dp"](%own)
  %part = Shard[axis = "tp", dim = 0](%t)
  return %loss, %part
}
"""
GPUS = load("dgx-a100")


def shown(text=STEP, placements="changes", **setup):
    """By result: the label of its type."""
    view = viewed(text, GPUS, **setup)
    wanted = Hints(times=False, waits=False, length=0)
    found = hints(view, Span(0, len(text)), wanted, placements)
    return {re.search(r"%([\w.]+)$", text[: hint.offset])[1]: hint.label.strip(": ") for hint in found}


def test_microbatches_of_a_batch_by_name_have_its_size():
    text = """func @main(%x: Tensor[Float32, (B@dp[B/2, B/2], 8), 1] {batch = 0}) mesh (dp = 2) {
  %a, %b = Split[axis = 0, num_outputs = 2](%x)
  %y = Relu(%a)
  return %y, %b
}
"""
    assert shown(text, "all", bind={"B": 8}) == {"b": "2×f32[4@dp,8]", "y": "f32[4@dp,8]"}
    assert "f32[B/2@dp,8]" in shown(text, "all").values()


def asked(text, word, view=None):
    """What hover says of the first place of a word."""
    view = view or viewed(text, GPUS)
    return hover(view, text.index(word) + 1).markdown


def test_a_placement_is_shown_where_it_changes_and_a_pending_sum_always():
    assert shown() == {
        "x": "f32[64@dp,16]",
        "w1": "f32[16,32@tp]",
        "w2": "f32[32@tp,16]",
        "h": "f32[64@dp,32@tp]",
        "a": "f32[64,32]",
        "b": "f32[64@dp,32@tp]",
        "p": "f32[64@dp,16] Σtp",
        "twice": "f32[64,16] Σtp",
        "y": "f32[64@dp,16]",
        "t": "f32[16,64]",
        "own": "f32[1,16] Σdp",
        "loss": "f32[1,16] whole",
        "part": "f32[16@tp,64@dp]",
    }


def test_all_placements_are_shown_on_request_and_none_where_they_are_off():
    everywhere, nowhere = shown(placements="all"), shown(placements="off")
    assert everywhere["t"] == "f32[16,64@dp]"
    assert everywhere["loss"] == "f32[1,16]"
    assert everywhere["twice"] == "f32[64@dp,16] Σtp"
    assert not any(re.search("[@Σ]|whole", label) for label in nowhere.values())


def test_a_device_is_shown_where_a_program_names_several():
    stages = """\
func @main(%x: Tensor[Float32, (8@dp, 4), 1], %w: Tensor[Float32, (4, 4), 2]) mesh (dp = 2) {
  %a = Relu(%x)
  %b = Send[device = 2](%a)
  %y = MatMul(%b, %w)
  return %y
}
"""
    assert shown(stages) == {"a": "f32[8,4]@1", "b": "f32[8,4]@2", "y": "f32[8,4]@2"}
    view = viewed(stages, GPUS)
    assert lens_text(view, "main", "mesh").title == "dp=2 · stages 1, 2"
    one = viewed(stages.replace("2](%a)", "1](%a)").replace("(4, 4), 2", "(4, 4), 1"), GPUS)
    assert lens_text(one, "main", "mesh").title == "dp=2"


def test_stages_of_different_meshes_are_told_apart():
    stages = """\
func @second(%x: Tensor[Float32, (8@dp, 4), 2]) {
  %y = Relu(%x)
  return %y
}

func @main(%x: Tensor[Float32, (8@dp, 4), 1]) mesh (dp = 4), mesh 2 (dp = 2) {
  %b = Send[device = 2](%x)
  %y = @second(%b)
  return %y
}
"""
    view = viewed(stages, GPUS)
    assert lens_text(view, "main", "mesh").title == "dp=4 · stage 1, dp=2 · stage 2"
    assert lens_text(view, "second", "mesh").title == "dp=2 · stage 2"


def test_the_lens_of_the_mesh_stands_first_and_nowhere_else():
    document = opened(STEP, GPUS)
    assert [lens.function for lens in lenses(document) if lens.kind == "mesh"] == ["block", "main"]
    assert lens_text(View(document, document), "block", "mesh").title == "dp=2 · tp=4"
    assert not any(lens.kind == "mesh" for lens in lenses(opened("func @main(%x) {\n  return %x\n}\n")))


def test_hover_says_what_devices_hold_and_who_placed_it_so_at_what_cost():
    view = viewed(STEP, GPUS)
    said = asked(STEP, "%twice", view)
    assert "each of 8 devices holds `Tensor[Float32, (32, 16), 1]`, 2.05kB" in said
    assert "dp 0  [0:32, :] term 0   [0:32, :] term 1   [0:32, :] term 2   [0:32, :] term 3\n" in said
    assert "placed so by `MatMul`, [line 4](#L4) of `@block`, without communication" in said
    took = view.moment(view.document.program.module.functions["main"], 2).seconds
    placed = re.search(r"placed so by `AllReduce`, \[line 15\]\(#L15\) in ([\d.]+)us", asked(STEP, "%t = ", view))
    assert float(placed[1]) == pytest.approx(1e6 * took, rel=0.01)
    assert "placed so" not in asked(STEP, "%x: ", view)


def test_hover_says_why_a_value_is_pending_across_calls():
    view = viewed(STEP, GPUS)
    ended = "since `MatMul`, [line 4](#L4){}, ended by `AllReduce`, [line 15](#L15){}"
    assert f"a pending sum over `tp` {ended.format('', ' of `@main`')}" in asked(STEP, "%p = MatMul", view)
    assert f"a pending sum over `tp` {ended.format(' of `@block`', '')}" in asked(STEP, "%twice", view)


def test_what_is_marked_and_the_way_from_one_to_the_next():
    view = View(opened(STEP, GPUS), None)  # no simulation is needed
    found = marks(view)
    assert [STEP[span.start :].partition(" ")[0] for span in found.resharding] == ["%y", "%loss"]
    names = [STEP[span.start : span.end] for span in marks(viewed(STEP, GPUS)).pending]
    assert names == ["%p", "%p", "%p", "%twice", "%p", "%p", "%twice", "%own", "%own"]  # none in the comment
    there = placement_goal(view, 0, "nextResharding")
    assert STEP[there.span.start :].startswith("%y = AllReduce")
    assert placement_goal(view, there.span.start, "nextResharding").span == found.resharding[1]
    assert placement_goal(view, found.resharding[1].start, "previousResharding").span == there.span
    assert placement_goal(view, there.span.start, "previousResharding") is None
    assert placement_goal(view, len(STEP), "nextResharding") is None


def test_collectives_in_what_is_repeated_are_marked_each():
    text = """\
func @main([%x_{1..4}: Tensor[Float32, (4, 8@tp), 1], %w_{1..4}: Tensor[Float32, (8@tp, 4), 1]]) mesh (tp = 2) {
  repeat 4 times {
    [%p_{1..4}] = MatMul([%x_{1..4}], [%w_{1..4}])
    [%y_{1..4}] = AllReduce[axis = "tp"]([%p_{1..4}])
  }
  return [%y_{1..4}]
}
"""
    view = viewed(text, GPUS)
    found = marks(view)
    (there,) = found.resharding
    assert text[there.start : there.end] == '[%y_{1..4}] = AllReduce[axis = "tp"]([%p_{1..4}])'
    assert [text[span.start : span.end] for span in found.pending] == ["%p_{1..4}", "%p_{1..4}"]
    offsets = {hint.offset for hint in hints(view, Span(0, len(text)), Hints())}
    assert text.index("repeat") not in offsets


def test_names_have_the_hue_of_the_axis_that_is_pending_or_splits_them_innermost():
    tokens = decoded(viewed(STEP, GPUS))
    of = {word: {m for m in modifiers if m[:4] in ("axis", "pend")} for word, _, modifiers in reversed(tokens)}
    assert of["%h"] == {"axis1"}
    assert of["%p"] == of["%twice"] == {"axis1", "pending"}
    assert of["%y"] == of["%x"] == {"axis0"}
    assert of["%own"] == {"axis0", "pending"}
    assert of["%loss"] == set()
    assert of["@tp"] == of['"tp"'] == of["tp"] == {"axis1"}
    assert not any("device" in m for _, _, modifiers in tokens for m in modifiers)


def test_texts_that_two_meshes_share_have_the_hues_of_each():
    other = STEP.replace("mesh (dp = 2, tp = 4)", "mesh (tp = 4, dp = 2)")
    for text, number in ((STEP, 1), (other, 0), (STEP, 1)):
        hues = {m for word, _, modifiers in decoded(viewed(text, GPUS)) if word == '"tp"' for m in modifiers}
        assert hues == {f"axis{number}"}


def test_programs_without_a_mesh_are_as_they_were():
    view = viewed("func @main(%x: Tensor[Float32, (4, 4), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n")
    assert marks(view).pending == marks(view).resharding == ()
    assert shown(view.document.text) == {"y": "f32[4,4]@1"}


@pytest.mark.parametrize("written", ["¦", '"¦"', '"¦', '"t¦"'])
def test_axes_are_offered_in_quotes_and_without(written):
    text = STEP.replace('"tp"](%twice)', f"{written}](%twice)")
    offset = text.index("¦")
    document = opened(text.replace("¦", ""), GPUS)
    found = completions(document, offset)
    assert [item.label for item in found.items] == ['"dp"', '"tp"']
    assert document.text[found.word.start : found.word.end] == written.replace("¦", "")
