"""Gradients of microbatches, summed over microbatches: what they take of memory."""

import pytest

from distir.ir import types
from distir.models import mlp
from distir.simulate import simulate
from distir.simulate.composition import GRADIENTS, WEIGHTS, compositions
from distir.transform import transform


@pytest.fixture(scope="module")
def training():
    return mlp(8, 256, 64, training=True)


def weight_bytes(module):
    return sum(types.nbytes(p.type) for p in module.entry().params if "param" in p.roles)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1"])
def test_sums_of_gradients_take_over_the_memory_of_the_sums_before(training, schedule):
    simulation = simulate(transform(training, "pp=2", microbatches=8, schedule=schedule))
    for kinds in compositions(simulation).values():
        assert kinds[GRADIENTS] <= 2 * kinds[WEIGHTS], kinds
