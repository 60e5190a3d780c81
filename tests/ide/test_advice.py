"""Advice: what is found makes a program faster as it says, gives the same results, and leaves the rest of the text."""

from dataclasses import replace
from pathlib import Path

import pytest
from editing_samples import SETUP, opened

from distir.ide.advice.core import AdviceKind, Assurance
from distir.ide.advice.search import NoAdvice, advise
from distir.ide.edits import applied

EXAMPLES = Path(__file__).parents[2] / "examples"
SWAPPED = (EXAMPLES / "mlp_pipeline_swapped.dir").read_text()
SEQUENTIAL = (EXAMPLES / "mlp_sequential.dir").read_text()
LONG_S = 300.0


@pytest.fixture(scope="module")
def swapped():
    return advise(SWAPPED, "mlp.dir", SETUP, LONG_S)


def test_figure_3s_swap_is_found_in_the_whole_program(swapped):
    (move,) = (advice for advice in swapped.advice if advice.kind is AdviceKind.MOVE)
    assert (move.title, move.assurance) == ("move `%p_1` above `%ar_2`", Assurance.ORDER)
    made = opened(applied(SWAPPED, move.edits))
    assert made.program.module == opened((EXAMPLES / "mlp_pipeline.dir").read_text()).program.module
    assert made.simulation.latency_s == move.after.latency_s


def test_every_advice_gains_what_it_says_and_still_checks(swapped):
    for advice in swapped.advice:
        made = opened(applied(SWAPPED, advice.edits))
        assert not made.program.errors
        assert made.simulation.latency_s == advice.after.latency_s
        assert advice.speedup == opened(SWAPPED).simulation.latency_s / advice.after.latency_s


def test_the_best_comes_first_and_more_devices_are_no_free_lunch(swapped):
    speedups = [advice.speedup for advice in swapped.advice if advice.speedup > 1]
    assert speedups == sorted(speedups, reverse=True)
    assert swapped.advice[0].steps == ("dp=4",)
    assert not swapped.advice[0].is_free
    assert swapped.fastest.steps == ("overlap",)
    assert all(advice.is_free for advice in swapped.about_places())


def test_results_are_proved_and_where_not_it_is_said_why(swapped):
    by_steps = {advice.steps: advice for advice in swapped.advice}
    assert by_steps["dp=2",].assurance is Assurance.PROVED
    for advice in swapped.advice:
        assert (advice.why is None) == (advice.assurance is not Assurance.NOT_COMPARED)


def test_functions_that_the_entry_does_not_reach_and_comments_stay():
    text = "// of the sequential program\nfunc @other(%x) {\n  return %x  // as it is\n}\n\n" + SEQUENTIAL
    found = advise(text, "mlp.dir", replace(SETUP, entry="mlp"), LONG_S)
    fused = next(advice for advice in found.advice if advice.steps == ("fuse",))
    made = applied(text, fused.edits)
    assert "func @other(%x) {\n  return %x  // as it is\n}" in made
    assert not opened(made).program.errors


def test_what_there_was_no_time_for_is_named():
    found = advise(SEQUENTIAL, "mlp.dir", SETUP, 0.0)
    assert found.advice == ()
    assert "`fuse`" in found.untried
    assert "`dp=2`" in found.untried


def test_a_search_ends_when_nobody_wants_it_any_more():
    class UnwantedError(Exception):
        pass

    def pause():
        raise UnwantedError

    with pytest.raises(UnwantedError):
        advise(SEQUENTIAL, "mlp.dir", SETUP, LONG_S, pause)


def test_a_program_that_cannot_be_simulated_gets_none():
    with pytest.raises(NoAdvice, match="errors"):
        advise("func @main(%x) {\n  return %y\n}\n", "x.dir", SETUP, LONG_S)
