"""Code lenses: where they stand is the parse's, what they say the simulation's."""

import pytest
from reading_samples import PIPELINE, opened, viewed

from distir.cost import load
from distir.ide.document import Setup
from distir.ide.instances import View
from distir.ide.lenses import lens_text, lenses


def test_lenses_stand_at_functions_and_are_known_without_simulating_or_checking():
    document = opened(PIPELINE)
    found = lenses(document)
    assert [(lens.function, lens.kind) for lens in found] == [
        ("dense", "cost"),
        ("dense", "calls"),
        ("main", "cost"),
        ("main", "timeline"),
        ("main", "compare"),
        ("main", "hardware"),
    ]
    assert all(PIPELINE[lens.span.start : lens.span.end] == f"@{lens.function}" for lens in found)
    assert not document.is_simulated
    assert "analysis" not in document.program.__dict__


def test_an_error_in_a_statement_moves_no_lens():
    broken = PIPELINE.replace("Relu(%h)", "Relu(%h", 1)
    kinds = [(lens.function, lens.kind) for lens in lenses(opened(PIPELINE))]
    assert [(lens.function, lens.kind) for lens in lenses(opened(broken))] == kinds


@pytest.mark.parametrize(
    ("function", "kind", "title"),
    [
        ("main", "cost", "29.0us · peak 1: 240kB, 2: 160kB of 1.00MB · 21% idle"),
        ("main", "hardware", "machine"),
        ("dense", "cost", "4.80us @2.60us on device 1 · 40.0kB more on device 1"),
        ("dense", "calls", "4 calls, shown: 1, by @main, line 14"),
    ],
)
def test_texts(function, kind, title):
    assert lens_text(viewed(PIPELINE), function, kind).title == title


def test_the_calls_lens_leads_to_the_next_call_and_round():
    said = lens_text(viewed(PIPELINE), "dense", "calls")
    assert (said.command, tuple(said.arguments)) == ("distir.nextCall", ("dense", 1))
    view = viewed(PIPELINE, picked={"dense": 3})
    said = lens_text(view, "dense", "calls")
    assert said.title.startswith("4 calls, shown: 4, by @main, line 19")
    assert tuple(said.arguments) == ("dense", 0)
    assert lens_text(view, "dense", "cost").title.startswith("4.80us @24.2us on device 2")


def test_a_function_that_the_entry_never_reaches_says_so():
    text = PIPELINE + "\nfunc @other(%x) {\n  %y = Relu(%x)\n  return %y\n}\n"
    view = viewed(text)
    assert lens_text(view, "other", "cost").title == "not reached from @main"
    assert lens_text(view, "other", "calls").title == "not called"


def test_without_a_simulation_a_lens_says_why():
    document = opened(PIPELINE)
    assert lens_text(View(document, None), "main", "cost").title == "not simulated yet"
    said = lens_text(View(document, None), "main", "cost", "not simulated: the program has errors")
    assert said.title == "not simulated: the program has errors"


def test_lenses_of_an_earlier_version_are_marked_and_say_why():
    before = opened(PIPELINE)
    assert before.simulation is not None
    broken = before.edited(PIPELINE.replace("Relu(%h)", "Relu(%h", 1), 1)
    fresh = [lens_text(View(before, before), name, "cost").title for name in ("main", "dense")]
    titles = [lens_text(View(broken, before), name, "cost").title for name in ("main", "dense")]
    assert titles == [f"~{title} · stale: the program has errors" for title in fresh]
    mended = broken.edited(PIPELINE, 2)
    assert lens_text(View(mended, before), "main", "cost").title.endswith("stale: it is being simulated again")
    mended.simulate()
    assert [lens_text(View(mended, mended), name, "cost").title for name in ("main", "dense")] == fresh


def test_another_machine_makes_figures_stale_until_it_is_simulated():
    before = opened(PIPELINE)
    assert before.simulation is not None
    other = before.under(Setup(load("dgx-h100")))
    assert lens_text(View(other, before), "main", "cost").title.endswith("stale: it is being simulated on dgx-h100")
