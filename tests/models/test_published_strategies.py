"""Published families, small, through `grad` and each strategy, verified by the reference executor."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from published_samples import SEQUENCE, SMALL, small

from distir import models
from distir.models.catalogue import program
from distir.models.encoder import Vit
from distir.transform import transform, verify

STEPS = {
    "dp": ("dp=2",),
    "tp": ("tp=2",),
    "pp": ("pp=2", "microbatches=2"),
    "zero": ("dp=2", "zero=3"),
    "dtp": ("dtp=2,2,2", "microbatches=2"),
}


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("strategy", STEPS)
@pytest.mark.parametrize("name", SMALL)
def test_a_training_step_is_the_same_on_many_devices(name, strategy):
    model = small(name)
    module = program(model, None if isinstance(model, Vit) else SEQUENCE, None, "Float64")
    step = transform(module, "grad", "optimizer=adam")
    found = verify(step, transform(step, *STEPS[strategy]), tolerance=1e-9, bind={"B": 4})
    assert found.results
    assert [r for r in found.results if not r.equal] == []


@pytest.mark.by_turns
@pytest.mark.parametrize(
    "name",
    ["llama2-70b", "llama3-405b", "mistral-7b", "qwen3-32b", "gemma2-27b", "mpt-30b", "gpt3-175b", "t5-11b", "vit-h"],
)
def test_tensor_parallelism_splits_all_that_is_heavy(name):
    """Over the 8 devices of a node, `strict` refuses what leaves 1 % of the weights or of the FLOPs whole."""
    transform(models.named(name), "tp=8", "strict=true")
