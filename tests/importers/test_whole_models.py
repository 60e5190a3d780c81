"""The whole models that come with onnx: imported, checked, simulated and run."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import numpy_helper

import distir
from distir.importers.names import value_name

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
