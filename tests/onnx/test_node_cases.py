"""ONNX's backend cases come in and run; what is left out is what `docs/onnx-ops.md` says is left out."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from left_out import PAGE, documented, page_of_ops
from node_case_samples import node_cases, outcome, passes_reference
from thorough import also

import distir
from distir.importers import ImportRefused
from distir.importers.names import value_name

PARTS = 4
"""The cases are run in so many tests: by default a quarter of them, with DISTIR_TEST_ALL=1 all."""

DATA = Path(onnx.__file__).parent / "backend/test/data"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", [0, *also(*range(1, PARTS))])
def test_each_case_comes_in_and_runs_or_is_documented_as_left_out(part):
    listed = documented()
    for case in list(node_cases().values())[part::PARTS]:
        found = outcome(case)
        assert found == listed.get(case.name), f"{case.name}: `python tests/onnx/left_out.py` writes {PAGE.name}"


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_nineteen_of_twenty_cases_that_onnx_itself_passes_run():
    listed = documented()
    assert listed.keys() <= node_cases().keys()
    passing = [name for name, case in node_cases().items() if passes_reference(case)]
    assert sum(name not in listed for name in passing) >= 0.95 * len(passing)


def test_the_ops_left_out_are_documented():
    assert page_of_ops() in PAGE.read_text()


@pytest.mark.parametrize("kind", ["pytorch-converted", "pytorch-operator", "simple"])
def test_small_models_that_come_with_onnx_give_what_is_recorded(kind):
    """They are exports to operator set 6, most of them: what has changed since is converted."""
    ran = 0
    for folder in sorted((DATA / kind).iterdir()):
        with suppress(ImportRefused):
            module = None
            module = distir.import_onnx(folder / "model.onnx")
        if module is None:
            assert folder.name.startswith(("test_sequence", "test_strnorm"))
            continue
        if module.notes:
            assert "of the domain `ai.onnx.preview.training` is no op that is known here" in module.notes[0]
            continue
        found = distir.run(module, {**module.weights, **inputs(folder, module)})
        for number, array in enumerate(found.values()):
            np.testing.assert_allclose(array, recorded(folder, f"output_{number}"), rtol=1e-3, atol=1e-6)
        ran += 1
    assert ran >= 5


def inputs(folder, module):
    graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
    given = {tensor.name for tensor in graph.initializer}
    names = [value_name(value.name) for value in graph.input if value.name not in given]
    taken = {param.name for param in module.entry().params}
    return {name: recorded(folder, f"input_{i}") for i, name in enumerate(names) if name in taken}


def recorded(folder, name):
    return onnx.numpy_helper.to_array(onnx.load_tensor(folder / f"test_data_set_0/{name}.pb"))
