"""Actions that change when things run: moves with their gain, and recomputing with what it saves and costs."""

from dataclasses import replace
from pathlib import Path

from editing_samples import SETUP, after, at_cursor, only, opened, with_selection

from distir.diagnostics import Span
from distir.ide.actions import recompute, schedule


def example(name):
    return (Path(__file__).parents[2] / f"examples/{name}.dir").read_text()


def test_figure_3s_swap_is_offered_with_its_gain():
    """The `Send` of `%as_2` blocks both devices: `%p_1` should come first."""
    text = example("mlp_pipeline_swapped")
    document, span = with_selection(text.replace("%ar_2: D2 =", "%ar_2<|>: D2 ="))
    (action,) = schedule.faster_moves(document, span)
    assert action.title.startswith("move `%p_1` above this `Send`: 1.")
    assert action.title.endswith("x faster")
    assert (action.kind, action.preferred) == ("quickfix", True)
    changed = opened(after(document, action.edits))
    assert changed.simulation.latency_s < document.simulation.latency_s
    assert changed.program.module == opened(example("mlp_pipeline")).program.module


def test_no_move_is_offered_without_a_gain():
    document, span = with_selection(example("mlp_pipeline").replace("%ar_2: D2 =", "%ar_2<|>: D2 ="))
    assert list(schedule.faster_moves(document, span)) == []


OVERLAP = """\
func @work(%x, %y) {
  %slow = MatMul(%x, %x)
  %a = Relu(%y)
  %slower = MatMul(%slow, %slow)
  %sent: D2 = Send[device = 2](%a)
  %far = MatMul(%sent, %sent)
  %farther = MatMul(%far, %far)
  return %slower, %farther
}

func @main(%x: Tensor[Float32, (4096, 4096), 1], %y: Tensor[Float32, (4096, 4096), 1]) {
  %a, %b = @work(%x, %y)
  %c, %d = @work(%a, %a)
  return %b, %c, %d
}
"""


def test_a_send_moves_together_with_what_it_sends():
    """Alone it cannot go before the value is made, and the value alone gains nothing: the device is busy then."""
    document, span = with_selection(OVERLAP.replace("%sent: D2", "%sent<|>: D2"))
    action, alone = schedule.faster_moves(document, span)
    assert action.title.startswith("move `%sent` with what it needs (1 more) above `%slow`: ")
    assert alone.title.startswith("move `%slower` below this `Send`: ")
    changed = opened(after(document, action.edits))
    body = changed.program.module.functions["work"].body
    assert [s.results[0] for s in body[:-1]] == ["a", "sent", "slow", "slower", "far", "farther"]
    gain = document.simulation.latency_s / changed.simulation.latency_s
    assert action.title.endswith(f"{gain:.2f}x faster")


def test_what_needs_an_op_moves_along():
    document, span = with_selection(OVERLAP.replace("%slow = MatMul", "%slow<|> = MatMul"))
    action, *_ = schedule.faster_moves(document, span)
    assert action.title.startswith("move `%slow` with what needs it (1 more) below `%sent`: ")


def test_moves_inside_a_call_that_is_not_the_first():
    """The call that begins later, with clocks of its own, is the one that the user picked."""
    document = opened(OVERLAP, replace(SETUP, picked={"work": 1}))
    at = document.text.index("%sent: D2")
    assert list(schedule.faster_moves(document, Span(at, at)))


def test_no_moves_in_functions_that_nothing_calls():
    document, span = with_selection(
        OVERLAP.replace("@work(%x, %y) {", "@idle(%x, %y) {").replace("%a = Re", "%a<|> = Re")
    )
    assert list(schedule.faster_moves(document, span)) == []
    assert list(recompute.recomputations(document, span)) == []


KEPT = """\
func @block(%x) {
  %s = Add(%x, %x)
  %a = Relu(%s)
  %m = ReduceSum[keepdims = false](%a)
  %b = Exp(%x)
  %c = Mul(%b, %b)
  %t = ReduceSum[keepdims = false](%c)
  %d = Mul(%a, %m)
  %e = Mul(%d, %t)
  return %e
}

func @main(%x: Tensor[Float32, (1024, 65536), 1]) {
  %y = @block(%x)
  return %y
}
"""


def test_recomputing_inside_a_call_with_what_it_is_made_of():
    """Alone it would only keep `%s` in place of `%a`."""
    document, span = with_selection(KEPT.replace("%d = Mul", "%d<|> = Mul"))
    action = only(
        recompute.recomputations(document, span), "recompute `%a` here with what it is made of (1 more) instead"
    )
    changed = opened(after(document, action.edits))
    assert "  %s_again = Add(%x, %x)\n  %a_again = Relu(%s_again)\n  %d = Mul(%a_again, %m)" in changed.text
    assert changed.simulation.devices[1].peak_memory_bytes < document.simulation.devices[1].peak_memory_bytes


def test_recomputing_tells_memory_and_time():
    big = "Tensor[Float32, (1024, 65536), 1]"
    text = f"""\
func @main(%x: {big}) {{
  %a = Relu(%x)
  %s = ReduceSum[keepdims = false](%a)
  %b = Add(%x, %x)
  %c = Mul(%b, %b)
  %t = ReduceSum[keepdims = false](%c)
  %d = Mul(%a, %s)
  %e = Mul(%d, %t)
  return %e
}}
"""
    document, span = with_selection(text.replace("%d = Mul", "%d<|> = Mul"))
    action = only(recompute.recomputations(document, span), "recompute `%a` here instead of keeping it: ")
    assert "less on device 1, " in action.title
    assert action.title.endswith(" longer")
    changed = opened(after(document, action.edits))
    assert "  %a_again = Relu(%x)\n  %d = Mul(%a_again, %s)" in changed.text
    assert changed.simulation.devices[1].peak_memory_bytes < document.simulation.devices[1].peak_memory_bytes


def test_no_gain_is_reported_of_programs_that_are_wrong():
    document, offset = at_cursor(example("mlp_pipeline_swapped").replace("@dense(%w1, %x_2)", "@dense(%w1<|>)"))
    assert list(schedule.faster_moves(document, Span(offset, offset))) == []


def test_offers_are_for_another_machine_too():
    """The gain is that of the machine that is set."""
    from distir.cost import load

    document = opened(example("mlp_pipeline_swapped"), replace(SETUP, hardware=load("dgx2-v100")))
    at = document.text.index("%ar_2: D2 =")
    (action,) = schedule.faster_moves(document, Span(at, at))
    assert "x faster" in action.title
