"""Each parameter of the model has a cause that can be read, and none is chosen by runs in silence."""

import ast
from dataclasses import fields, replace
from pathlib import Path

import pytest

import distir.validate
from distir import cost
from distir.validate import FRAMEWORKS, Framework
from distir.validate import plans as _  # noqa: F401 - declares parameters
from distir.validate.causes import PARAMETERS, Cause, cause, uncaused
from distir.validate.frameworks import HeldMemory

ROOT = Path(__file__).parents[2]
HERE = Path(distir.validate.__file__).parent
MODEL = (
    *("decoders", "machines", "memory", "plans", "programs", "rewrites", "strategies"),
    *sorted(f"frameworks/{path.stem}" for path in (HERE / "frameworks").glob("*.py")),
)
"""The modules that say what a run is, and on what it runs."""

DECLARING = ("parameter", "framework", "HeldMemory", "cause")
NO_PARAMETERS = {"MOST_MICROBATCHES": "a limit on what is simulated", "WIDE": "the bytes of a 16-bit float"}


@pytest.mark.parametrize("name", sorted(FRAMEWORKS))
def test_each_parameter_of_a_framework_has_a_cause(name):
    found = FRAMEWORKS[name]
    assert found.uncaused == []
    known = {f.name for f in fields(Framework)} | {f"memory.{f.name}" for f in fields(HeldMemory)}
    assert all(set(each.of) <= known for each in found.sources)


def test_a_parameter_without_a_cause_is_named():
    megatron = FRAMEWORKS["megatron"]
    assert replace(megatron, skew=1.2).uncaused == ["skew"]
    assert replace(megatron, memory=replace(megatron.memory, kept_logits=1)).uncaused == ["memory.kept_logits"]
    assert replace(megatron, skew=1.2, sources=(cause("skew", "a table"), *megatron.sources)).uncaused == []
    assert uncaused(["issue"], [Cause(("issue",), "")]) == ["issue"]


def test_each_parameter_of_all_frameworks_and_of_machines_has_a_cause():
    assert {"slower hosts", "rates of attention", "ops of a graph"} <= set(PARAMETERS)
    for name, found in PARAMETERS.items():
        assert found.causes, name
        assert all(each.source for each in found.causes), name


@pytest.mark.parametrize("name", MODEL)
def test_numbers_of_the_model_are_declared(name):
    """A number in a module of the model is a parameter, or in a definition: what has no cause is not in the model."""
    tree = ast.parse((HERE / f"{name}.py").read_text())
    for statement in tree.body:
        value = getattr(statement, "value", None)
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or value is None:
            continue
        numbers = [n for n in ast.walk(value) if isinstance(n, ast.Constant) and type(n.value) in (int, float)]
        target = ast.unparse(statement.targets[0] if isinstance(statement, ast.Assign) else statement.target)
        declared = isinstance(value, ast.Call) and ast.unparse(value.func) in DECLARING
        assert not numbers or declared or target in NO_PARAMETERS, f"{name}.{target}"


def test_defaults_of_a_definition_are_those_of_nothing():
    """What a framework does not say takes no time, no memory, and no more than its share."""
    for of in (*fields(Framework), *fields(HeldMemory)):
        if type(of.default) in (int, float):
            assert of.default in (0, 1), of.name


@pytest.mark.parametrize("name", cost.profiles())
def test_no_figure_of_a_machine_is_chosen_by_published_runs_but_its_band(name):
    chosen = [figure.name for figure in cost.load(name).figures if "runs" in figure.source.split(", ")]
    assert all(figure.startswith("published ") for figure in chosen)


def test_runs_that_chose_a_value_are_of_files_that_are_here():
    heads = [path.read_text().splitlines()[0] for path in (ROOT / "examples/measured").glob("*.csv")]
    every = [each for found in FRAMEWORKS.values() for each in found.sources]
    every += [each for found in PARAMETERS.values() for each in found.causes]
    chosen = {name for each in every for name in each.chosen_by}
    assert chosen == {"VIA-Research/vTrain"}
    assert all(any(name in head for head in heads) for name in chosen)
    assert "(chosen by runs of VIA-Research/vTrain)" in str(next(each for each in every if each.chosen_by))
