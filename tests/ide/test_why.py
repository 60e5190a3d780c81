"""Why a statement takes long: what bounds it, who waits, what would be won, and the lane of its device."""

import pytest
from hypothesis import HealthCheck, given, settings
from programs import programs
from reading_samples import MACHINE, PIPELINE, opened, viewed
from thorough import most_examples

from distir.cost import load
from distir.ide.advice.search import advise
from distir.ide.document import Setup, open_document
from distir.ide.hover_ops import run
from distir.ide.instances import View
from distir.ide.why import PARTS, why
from distir.syntax import print_module


def asked(view, words):
    return why(view, view.document.text.index(words))


def test_it_says_what_hover_says_who_waits_and_what_would_be_won():
    view = viewed(PIPELINE)
    relu = asked(view, "  %a = Relu")
    assert relu.name == "`Relu` `%a`, [line 4](#L4)"
    function = view.document.program.module.functions["dense"]
    assert list(relu.why) == run(view, function, 2)
    (wait,) = [wait for wait in view.index.timeline.idle_devices if wait.start == 0]
    assert relu.waited_s == wait.seconds
    assert relu.waits == ("device 2 waits **7.40us** before `%ar_1` (`Send` of `@main`, [line 15](#L15))",)
    assert relu.shown.startswith("*for call 1 of 4, by `@main`")
    last = asked(view, "  %p_2: D2")
    assert (last.name, last.roof, last.waits) == ("`@dense` `%p_2`, [line 19](#L19)", None, ())
    assert last.won == "at most **4.80us** of 29.0us (16.6%), if it took no time"
    beside = asked(view, "  %as_2: D1 = @dense")
    assert (beside.won_s, beside.won) == (0, "nothing: a critical path is without it")


@pytest.mark.parametrize("words", ["return %a", "func @dense", "%A, %b = Unpack", "\n\nfunc @main"])
def test_there_is_nothing_to_say_of_what_takes_no_time(words):
    assert asked(viewed(PIPELINE), words) is None
    assert why(View(opened(PIPELINE), None), PIPELINE.index("Relu")) is None, "nor before there is a simulation"


def test_what_bounds_an_op_may_be_its_host():
    text = "func @main(%x: Tensor[Float32, (8, 8), 1]) {\n  %a = Relu(%x)\n  %b = Relu(%a)\n  return %b\n}\n"
    assert asked(viewed(text, load("dgx-h100@eager")), "%b = Relu").roof == "host"
    assert asked(viewed(text, load("dgx-h100")), "%b = Relu").roof == "latency"
    large = text.replace("(8, 8)", "(65536, 8192)")
    assert asked(viewed(large, load("dgx-h100")), "%b = Relu").roof == "memory"
    assert (
        asked(viewed(large.replace("Relu(%x)", "MatMul(%x, %x)").replace("65536", "8192"), load("dgx-h100")), "%a").roof
        == "compute"
    )


@given(programs())
@settings(max_examples=most_examples(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_won_adds_up_to_the_latency_and_lanes_to_what_devices_do(module):
    document = open_document(print_module(getattr(module, "module", module)), "random.dir", Setup(MACHINE))
    simulation = document.simulation
    if simulation is None:
        return
    view, timeline = View(document, document), simulation.timeline()
    written = document.program.syntax.by_name[simulation.function.name]
    found = [said for start in written.starts if (said := why(view, start)) is not None]
    assert sum(said.won_s for said in found) == pytest.approx(simulation.latency_s)
    for said in found:
        assert said.won_s <= said.duration_s * 1.000001
        assert 0 <= said.waited_s <= sum(wait.seconds for wait in timeline.idle_devices) + 1e-15
        if view.event(written.function, said.statement) is not None and said.won_s == 0:
            assert said.won == "nothing: a critical path is without it"
        width, lane = simulation.latency_s / PARTS, said.lane
        assert sum(lane.communicates) * width == pytest.approx(timeline.communication[lane.device], rel=0.01, abs=width)


def test_of_counted_statements_all_times_are_won():
    text = """func @main(%x: Tensor[Float32, (64, 64), 1]) {
  repeat 3 times {
    %z = MatMul(%x, %x)
  }
  return %z
}
"""
    view = viewed(text)
    said = asked(view, "%z = MatMul")
    assert said.name == "`MatMul` `%z`, [line 3](#L3)"
    assert said.won_s == pytest.approx(3 * said.duration_s)
    assert said.won.endswith("if it took no time, each time")


def test_advice_is_that_of_the_place():
    text = PIPELINE
    advised = advise(text, "p.dir", Setup(MACHINE), 20)
    for advice in advised.about_places():
        assert advice in advised.about(advice.span)
    end = len(text)
    from distir.diagnostics import Span

    assert not advised.about(Span(end, end))
