"""The kernels of a layer beside those of torch.compile: `examples/kernels.py` counts both."""

import importlib.util
from pathlib import Path

import pytest
from thorough import ALL

pytest.importorskip("torch")
pytest.importorskip("transformers")
MORE = 3
"""As many kernels more than Inductor's there may be."""
COUNTED = {"llama": (4, 7), "gpt2": (3, 4), "qwen3-moe": (8, 10)}
"""Forward and backward, what Inductor of torch 2.13 generates."""


@pytest.fixture(scope="module")
def kernels():
    spec = importlib.util.spec_from_file_location("kernels", Path(__file__).parents[2] / "examples/kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", COUNTED if ALL else ["llama"])
def test_a_layer_has_about_the_kernels_that_inductor_generates(kernels, name):
    ours = {layers: kernels.fused(name, layers) for layers in (2, 3)}
    for part, theirs in zip(kernels.PASSES, COUNTED[name], strict=True):
        found = kernels.of_a_layer(ours, part)
        assert len(found) <= theirs + MORE, found
        assert "Transpose" not in found


@pytest.mark.thorough
@pytest.mark.parametrize("name", COUNTED)
def test_inductor_generates_what_is_written_here(kernels, name):
    theirs = {layers: kernels.generated(name, layers) for layers in (2, 3)}
    assert tuple(len(kernels.of_a_layer(theirs, part)) for part in kernels.PASSES) == COUNTED[name]
