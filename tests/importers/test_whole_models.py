"""The whole models that come with onnx: imported, checked, simulated and run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import numpy_helper

import distir
from distir.importers.names import value_name
from distir.ir import Apply, Module, Return

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
MODELS = sorted(path.name for path in LIGHT.glob("*.onnx"))
QUICK = [
    "light_bvlc_alexnet.onnx",
    "light_resnet50.onnx",
    "light_shufflenet.onnx",
    "light_squeezenet.onnx",
    "light_zfnet512.onnx",
]
"""Those that the reference executor runs within seconds."""


def its_input(name):
    graph = onnx.load(LIGHT / name).graph
    given = {tensor.name for tensor in graph.initializer}
    (found,) = (value for value in graph.input if value.name not in given)
    return found.name, [dim.dim_value for dim in found.type.tensor_type.shape.dim]


@pytest.mark.by_turns
@pytest.mark.parametrize("name", MODELS)
def test_whole_models_simulate_at_any_batch_size(name):
    given, _ = its_input(name)
    module = distir.import_onnx(LIGHT / name, batch={given: 0})
    assert not [d for d in distir.check(module) if d.severity == "error"]
    times = [distir.simulate(module, bind={"B": size}).latency_s for size in (1, 8, 64)]
    assert 0 < times[0] < times[1] < times[2]


def up_to_its_softmax(module):
    """The module without its last `Softmax`: it gives what that takes."""
    entry = module.entry()
    last = max(i for i, s in enumerate(entry.body) if isinstance(s, Apply) and s.op == "Softmax")
    body = (*entry.body[:last], Return(entry.body[last].args))
    return Module(replace(f, body=body) if f is entry else f for f in module)


@pytest.mark.parametrize("name", QUICK)
def test_whole_models_give_what_is_recorded(name):
    """All classes alike, as their weights are.

    Logits reach 1e19: there a difference in their last digit, of which the BLAS library decides, takes a class out of
    the softmax. So logits are compared, to Float32's digits.
    """
    given, shape = its_input(name)
    size = np.prod(shape)
    x = (np.arange(size).reshape(shape) / size).astype(np.float32)  # the input that the records were made of
    recorded = onnx.TensorProto()
    recorded.ParseFromString((LIGHT / f"{Path(name).stem}_output_0.pb").read_bytes())
    classes = numpy_helper.to_array(recorded).ravel()
    np.testing.assert_allclose(classes, 1 / classes.size, rtol=1e-6)
    module = distir.import_onnx(LIGHT / name)
    (logits,) = distir.run(up_to_its_softmax(module), {**module.weights, value_name(given): x}).values()
    assert logits.size == classes.size
    np.testing.assert_allclose(logits, logits.mean(), rtol=2e-5)
    assert np.abs(logits).max() > 1
