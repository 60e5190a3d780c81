"""A rank's program has the times of the whole one, in every call, whatever its functions are called there."""

from pathlib import Path

import pytest

from distir.config import Hints
from distir.cost import load, show_seconds, time_scale
from distir.diagnostics import Span
from distir.ide.document import Setup, open_document
from distir.ide.hints import hints
from distir.ide.hover import hover
from distir.ide.instances import View
from distir.ide.part_view import PartView
from distir.ide.rank_program import origins, rank_program
from distir.ir import Return
from distir.syntax import print_module
from distir.transform import transform

EXAMPLES = Path(__file__).parents[2] / "examples"
PIPELINE = (EXAMPLES / "mlp_pipeline.dir").read_text()


def opened(text, machine="dgx-a100"):
    document = open_document(text, "a.dir", Setup(load(machine)))
    assert document.simulation is not None, document.unsimulated
    return document


def made(*steps):
    module = opened((EXAMPLES / "mlp_sequential.dir").read_text()).program.module
    return print_module(transform(module, *steps))


def part(whole, rank):
    text = rank_program(whole, rank).text
    alone = opened(text)
    return PartView(alone, alone, whole, rank)


@pytest.mark.parametrize("text", [PIPELINE, made("pp=2", "microbatches=8", "dp=2"), made("dp=2", "inline")])
def test_each_statement_of_a_rank_runs_when_it_does_in_the_whole_program(text):
    whole = opened(text)
    timeline = View(whole, whole)
    entry = whole.entry
    compared = 0
    for rank in rank_program(whole, 1).ranks:
        view = part(whole, rank)
        for index, number in enumerate(origins(view.document.entry, entry)):
            if isinstance(view.document.entry.body[index], Return):
                continue
            assert number is not None
            assert view.moment(view.document.entry, index) == timeline.moment(entry, number), (rank, index)
            compared += timeline.moment(entry, number) is not None
    assert compared > 10


def test_functions_are_shown_for_a_call_that_the_rank_makes():
    whole = opened(PIPELINE)
    view = part(whole, 2)
    function = next(f for f in view.document.program.module if f is not view.document.entry and "Grad" not in f.name)
    moments = [m for i in range(len(function.body)) if (m := view.moment(function, i)) is not None]
    assert moments
    assert all(moment.devices == (2,) for moment in moments)
    assert min(moment.start for moment in moments) > 0, "device 2 waits for what device 1 sends"


def test_hints_and_hovers_of_a_rank_say_the_whole_programs_times_for_the_machine_that_is_looked_at():
    whole = opened(PIPELINE, "dgx-h100")
    view, alone = part(whole, 2), View(opened(rank_program(whole, 2).text), None)
    text = view.document.text
    said = [hint.label for hint in hints(view, Span(0, len(text)), Hints()) if hint.kind == "time"]
    entry = whole.entry
    timeline = View(whole, whole)
    starts = [m.start for i in range(len(entry.body)) if (m := timeline.moment(entry, i))]
    wanted = {f"@{time_scale(starts).show(start)}" for start in starts}
    entry_text = text.index("func @mlpPP")
    shown = [h.label for h in hints(view, Span(entry_text, len(text)), Hints()) if h.kind == "time"]
    assert shown
    assert {label.split()[-1] for label in shown} <= wanted
    assert said
    about = hover(view, text.index("Send[device = 2]"))
    assert about is not None
    assert "starts at **" in about.markdown
    latency = show_seconds(whole.simulation.latency_s)
    of_all = hover(view, text.index("@mlpPP") + 1)
    assert of_all is not None
    assert f"takes **{latency}** on dgx-h100" in of_all.markdown
    assert alone.simulation is None


def test_without_a_simulation_of_the_whole_there_are_no_times():
    whole = opened(PIPELINE)
    view = PartView(opened(rank_program(whole, 2).text), None, None, 2)
    entry = view.document.entry
    assert all(view.moment(entry, i) is None and not view.idle(entry, i) for i in range(len(entry.body)))
    assert view.simulation is None
    assert view.critical(entry) == frozenset()
