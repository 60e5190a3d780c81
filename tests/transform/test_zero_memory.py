"""ZeRO keeps one copy of the weights: what is gathered takes the place of what it replaces."""

import pytest
from oracle import oracle
from sharding_samples import assert_same, small_gpt2

from distir.analysis.kinds import ACTIVATIONS, STATE, WEIGHTS
from distir.models import gpt2
from distir.simulate import simulate
from distir.simulate.composition import compositions
from distir.transform import transform

DEVICES = 4


@pytest.fixture(scope="module")
def training():
    return transform(gpt2(4, 256, 8, 32, 8, 64), "grad", optimizer="adam")


def weights_of(module):
    return compositions(simulate(module))[0][WEIGHTS]


@pytest.mark.parametrize("stage", [1, 2])
def test_new_weights_take_the_place_of_the_old_ones(training, stage):
    """Beside them there is the part of one weight that its device updates, and no second copy of all."""
    largest = max(p.type.nbytes for p in training.entry().params if "param" in p.roles)
    found = transform(transform(training, f"dp={DEVICES}"), f"zero={stage}", partition="split")
    for kinds in compositions(simulate(found)).values():
        assert weights_of(training) <= kinds[WEIGHTS] <= weights_of(training) + largest


@pytest.mark.each_once
@pytest.mark.parametrize("partition", ["owner", "split"])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_the_oracle_agrees(training, stage, partition):
    found = transform(transform(training, "dp=2"), f"zero={stage}", partition=partition)
    simulation = simulate(found)
    assert simulation.peaks == oracle(found, simulation.hardware).peaks


def test_gathered_weights_are_there_while_they_are_used(training):
    """With stage 3 a device holds its parts, and the weights of about one layer."""
    layer = sum(p.type.nbytes for p in training.entry().params if p.name.startswith("h.0."))
    found = transform(transform(training, f"dp={DEVICES}"), "zero=3", partition="split")
    for kinds in compositions(simulate(found)).values():
        assert kinds[WEIGHTS] <= weights_of(training) / DEVICES + 1.5 * layer
        assert kinds[STATE] <= compositions(simulate(training))[0][STATE] / DEVICES * 1.3
        assert kinds[ACTIVATIONS] > 0


@pytest.mark.each_once
@pytest.mark.parametrize("partition", ["owner", "split"])
@pytest.mark.parametrize("stage", [1, 2])
def test_results_stay(stage, partition):
    module = transform(small_gpt2(layers=2), "grad", optimizer="adam")
    assert_same(module, transform(transform(module, "dp=2"), f"zero={stage}", partition=partition))
