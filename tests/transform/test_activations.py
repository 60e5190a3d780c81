"""What a layer of a GPT saves for the way back: the formulas of Korthikanti et al. (arXiv:2205.05198), section 4.

Of s tokens, b sequences, h wide, with a heads, over t shards: in bytes, with activations of 16 bits and dropout masks
of one byte.
"""

from functools import lru_cache

import pytest

from distir.analysis.kinds import ACTIVATIONS
from distir.models import gpt2
from distir.simulate import simulate
from distir.simulate.composition import compositions
from distir.transform import transform

SIZES = [(16, 512, 1024, 64), (16, 1024, 1024, 32), (32, 512, 2048, 128), (8, 2048, 512, 8)]
"""a, s, h, b; b so large that memory peaks where the way back begins, and not at its end, with all gradients."""


@lru_cache
def model(layers, a, s, h, b):
    return transform(gpt2(layers, h, a, s, b, 64, dropout=0.1), "grad")


def activations(layers, a, s, h, b, steps):
    module = model(layers, a, s, h, b)
    for step in steps:
        module = transform(module, *step.split())
    return max(kinds[ACTIVATIONS] for kinds in compositions(simulate(module, "dgx-h100")).values())


def per_layer(a, s, h, b, *steps):
    """Bytes that one layer more takes at the peak."""
    few, many = (activations(layers, a, s, h, b, steps) for layers in (4, 8))
    return (many - few) / 4


def close(found, expected):
    assert found == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(("a", "s", "h", "b"), SIZES)
def test_without_recomputation(a, s, h, b):
    close(per_layer(a, s, h, b), s * b * h * (34 + 5 * a * s / h))


@pytest.mark.parametrize(("a", "s", "h", "b"), SIZES)
def test_selective(a, s, h, b):
    close(per_layer(a, s, h, b, "checkpoint=selective"), 34 * s * b * h)


@pytest.mark.parametrize(("a", "s", "h", "b"), SIZES)
def test_full(a, s, h, b):
    close(per_layer(a, s, h, b, "checkpoint=full"), 2 * s * b * h)


@pytest.mark.each_once
@pytest.mark.parametrize("t", [2, 4, 8])
@pytest.mark.parametrize(("a", "s", "h", "b"), SIZES)
def test_tensor_parallel(a, s, h, b, t):
    close(per_layer(a, s, h, b, f"tp={t}"), s * b * h * (10 + 24 / t + 5 * a * s / (h * t)))


@pytest.mark.each_once
@pytest.mark.parametrize("t", [2, 8])
@pytest.mark.parametrize(("a", "s", "h", "b"), SIZES)
def test_tensor_and_sequence_parallel(a, s, h, b, t):
    close(per_layer(a, s, h, b, f"tp={t} sequence=true"), s * b * h / t * (34 + 5 * a * s / h))


@pytest.mark.each_once
@pytest.mark.parametrize("t", [2, 8])
@pytest.mark.parametrize(("a", "s", "h", "b"), SIZES)
def test_selective_with_tensor_and_sequence_parallel(a, s, h, b, t):
    close(per_layer(a, s, h, b, "checkpoint=selective", f"tp={t} sequence=true"), 34 * s * b * h / t)


@pytest.mark.parametrize(("a", "s", "h", "b"), SIZES)
def test_selective_with_tensor_parallel(a, s, h, b):
    close(per_layer(a, s, h, b, "checkpoint=selective", "tp=4"), s * b * h * (10 + 24 / 4))
