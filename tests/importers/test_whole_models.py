"""The models and the node cases that come with onnx, imported, checked, simulated and run."""

import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner
from onnx.reference import ReferenceEvaluator

import distir
from distir.importers import ImportRefused, import_model
from distir.importers.names import value_name

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
MODELS = sorted(path.name for path in LIGHT.glob("*.onnx"))
QUICK = ["light_bvlc_alexnet.onnx", "light_resnet50.onnx", "light_squeezenet.onnx", "light_zfnet512.onnx"]
"""Those that the reference executor runs within seconds."""


def its_input(name):
    graph = onnx.load(LIGHT / name).graph
    given = {tensor.name for tensor in graph.initializer}
    (found,) = (value for value in graph.input if value.name not in given)
    return found.name, [dim.dim_value for dim in found.type.tensor_type.shape.dim]


@pytest.mark.parametrize("name", MODELS)
def test_whole_models_simulate_at_any_batch_size(name):
    given, _ = its_input(name)
    module = distir.import_onnx(LIGHT / name, batch={given: 0})
    assert not [d for d in distir.check(module) if d.severity == "error"]
    times = [distir.simulate(module, bind={"B": size}).latency_s for size in (1, 8, 64)]
    assert 0 < times[0] < times[1] < times[2]


@pytest.mark.parametrize("name", QUICK)
def test_whole_models_give_what_is_recorded(name):
    given, shape = its_input(name)
    size = np.prod(shape)
    x = (np.arange(size).reshape(shape) / size).astype(np.float32)  # the input that the records were made of
    module = distir.import_onnx(LIGHT / name)
    (found,) = distir.run(module, {**module.weights, value_name(given): x}).values()
    recorded = onnx.TensorProto()
    recorded.ParseFromString((LIGHT / f"{Path(name).stem}_output_0.pb").read_bytes())
    np.testing.assert_allclose(found, numpy_helper.to_array(recorded), rtol=1e-3, atol=1e-6)


@cache
def node_cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_model_tests(kind="node")


def arrays(values):
    return [numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for v in values]


def passes(case, run):
    """Whether `run`, given the inputs, gives the outputs of the case."""
    ((inputs, outputs),) = case.data_sets
    try:
        found = run(arrays(inputs))
        Runner.assert_similar_outputs(arrays(outputs), found, rtol=case.rtol, atol=case.atol)
    except Exception:
        return False
    return True


def by_reference(model, inputs):
    return ReferenceEvaluator(model).run(None, dict(zip((i.name for i in model.graph.input), inputs, strict=True)))


def by_program(module, model, inputs):
    taken = {p.name for p in module.entry().params}
    given = dict(zip((value_name(i.name) for i in model.graph.input), inputs, strict=True))
    return list(distir.run(module, {**module.weights, **{n: v for n, v in given.items() if n in taken}}).values())


@pytest.mark.filterwarnings("ignore")
def test_node_cases_come_in_and_agree():
    """Of those that ONNX's own evaluator passes; the others, too, are refused or found wrong by the checker."""
    known = agreeing = 0
    for case in node_cases():
        try:
            module = import_model(case.model, ".")
            distir.check_text(distir.format(module))
        except ImportRefused as refusal:
            module = None
            told = str(refusal)
            assert "\n" not in told, case.name
        if passes(case, partial(by_reference, case.model)):
            known += 1
            agreeing += module is not None and passes(case, partial(by_program, module, case.model))
    assert agreeing >= 0.95 * known
