"""Transforms as an editor's form asks for them: all that is registered, in order; for the machine that is looked at."""

from dataclasses import replace
from pathlib import Path

import pytest

from distir.cost import load
from distir.ide.actions.transforms import known_steps, transformed
from distir.ide.document import Setup, open_document
from distir.ide.hardware import changed
from distir.transform import transform
from distir.transform.all_steps import STEPS
from distir.transform.pipeline.schedules import SCHEDULES, schedule
from distir.transform.steps import in_order, step

PROGRAM = (Path(__file__).parents[2] / "examples" / "mlp_sequential.dir").read_text()


@pytest.fixture
def plugin():
    """A schedule and a step of somebody's own, as a plugin registers them."""

    @schedule("sideways")
    def sideways(devices, microbatches, virtual):
        return SCHEDULES["gpipe"].rule(devices, microbatches, virtual)

    @step(after=("dp",), choices={"dtype": ("Float16", "BFloat16")})
    def shrink(module, value: int = 2, *, dtype: str = "Float16", whole: bool = False):
        """A step of somebody's own."""
        return module

    yield
    del SCHEDULES["sideways"], STEPS["shrink"]


def test_a_form_offers_every_registered_step_and_schedule_without_an_edit(plugin):
    known = {found.name: found for found in known_steps()}
    assert known.keys() == STEPS.keys()
    choices = {option.name: option.choices for option in known["shrink"].options}
    assert choices == {"dtype": ("Float16", "BFloat16"), "whole": ("true", "false")}
    for name in ("pp", "dtp"):
        assert next(o.choices for o in known[name].options if o.name == "schedule") == tuple(SCHEDULES)


DEEP = """func @mlp(
  %w1: Tensor[Float32, (8, 8), 1] {param},
  %w2: Tensor[Float32, (8, 8), 1] {param},
  %w3: Tensor[Float32, (8, 8), 1] {param},
  %w4: Tensor[Float32, (8, 8), 1] {param},
  %x: Tensor[Float32, (16, 8), 1] {batch = 0}
) {
  %a = MatMul(%x, %w1)
  %b = MatMul(%a, %w2)
  %c = MatMul(%b, %w3)
  %d = MatMul(%c, %w4)
  return %d
}
"""
"""Deep enough for schedules with two stages on each of two devices."""


def test_each_choice_of_a_form_is_taken():
    document = open_document(DEEP, "a.dir", Setup(load()))
    for name, words in {"pp": ["pp=2", "microbatches=4"], "dtp": ["dtp=2,1,2", "microbatches=4"]}.items():
        found = next(found for found in known_steps() if found.name == name)
        for option in found.options:
            for word in option.choices or ():
                assert transformed(document, "mlp", [*words, f"{option.name}={word}"]).text, (name, word)


def test_steps_stand_behind_those_that_they_come_after(plugin):
    order = [found.name for found in known_steps()]
    for found in STEPS.values():
        for other in found.after:
            assert order.index(other) < order.index(found.name)
    for words in ("grad checkpoint pp tp dp zero reschedule", "dp shrink", "checkpoint dtp zero"):
        assert [found.name for found in in_order(STEPS[word] for word in reversed(words.split()))] == words.split()
    assert in_order(STEPS.values()) == in_order(reversed([*STEPS.values()]))  # in whatever order they were imported


def test_steps_that_ask_the_simulator_go_by_the_machine_and_the_sizes_that_are_looked_at():
    machine = changed("dgx-h100", {"nvlink send bandwidth": "1GB/s"}, "slow")
    setup = Setup(machine, bind={"B": 64})
    found = []

    @step
    def listen(module, *, hardware: str = "dgx-a100", bind: tuple[str, ...] = ()):
        found.append((hardware, bind))
        return transform(module, "pp=2", "microbatches=2", hardware=hardware)

    try:
        assert "Send" in transformed(open_document(PROGRAM, "a.dir", setup), "mlp", ["listen"]).text
        transformed(open_document(PROGRAM, "a.dir", setup), "mlp", ["listen", "hardware=dgx-h100"])
    finally:
        del STEPS["listen"]
    assert found[0] == (machine, ("B=64",))
    assert found[1][0] == "dgx-h100"


def test_an_option_that_is_no_parameter_is_refused_where_it_is_defined():
    with pytest.raises(TypeError, match="it has no parameter `colour`"):
        step(choices={"colour": ("red",)})(lambda module: module)


def test_comments_of_functions_that_are_not_transformed_are_not_reported():
    text = PROGRAM + "\n// Beside.\nfunc @beside(%x: Tensor[Float32, (4,), 1]) {\n  // own\n  return %x\n}\n"
    document = open_document(text, "a.dir", replace(Setup(load()), entry="mlp"))
    assert transformed(document, "mlp", ["dp=2"]).left_out == ()
