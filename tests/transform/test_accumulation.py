"""Gradients of microbatches, summed over microbatches: what they take of memory."""

import pytest

from distir.analysis.kinds import GRADIENTS, WEIGHTS
from distir.ir import types
from distir.models import mlp
from distir.simulate import simulate
from distir.simulate.composition import compositions
from distir.transform import StepError, transform, verify


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


LAYERS = 8


@pytest.mark.each_once
@pytest.mark.parametrize("strategy", ["pp=2", "dtp=1,1,1", "dtp=2,1,2", "dtp=1,2,2", "pp=4"])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"])
def test_a_stage_holds_its_gradients_once(training, strategy, schedule):
    """Beside the sums there are the gradients of one layer at most; a second copy of all is `sums=stage`."""
    made = transform(training, strategy, microbatches=8, schedule=schedule)
    layer = weight_bytes(training) / LAYERS
    for kinds in compositions(simulate(made)).values():
        assert kinds[GRADIENTS] <= kinds[WEIGHTS] + layer, kinds


def test_sums_by_stage_hold_a_second_copy(training):
    once, twice = (
        transform(training, "pp=2", microbatches=8, schedule="gpipe", sums=sums) for sums in ("layer", "stage")
    )
    stage = weight_bytes(training) / 2
    assert max(simulate(twice).peaks.values()) - max(simulate(once).peaks.values()) > stage / 2


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"])
@pytest.mark.parametrize("microbatches", [2, 4, 16])
def test_sums_are_the_same(schedule, microbatches):
    module = mlp(8, 4, 32, "Float64", training=True)
    options = {"virtual": 2} if schedule == "interleaved" else {}
    made = transform(module, "pp=2", microbatches=microbatches, schedule=schedule, **options)
    assert verify(module, made, seed=1).equal


def test_sums_work_with_shards_and_replicas():
    module = mlp(8, 4, 32, "Float64", training=True)
    made = transform(module, "dtp=2,2,2", microbatches=4)
    assert verify(module, made, seed=1).equal


def test_an_unknown_time_for_sums_is_refused(training):
    with pytest.raises(StepError, match="`sums` expected `layer` or `stage`, found `layers`; did you mean `layer`"):
        transform(training, "pp=2", microbatches=2, sums="layers")


def test_microbatches_on_one_device_have_no_second_copy_of_gradients(training):
    (kinds,) = compositions(simulate(transform(training, "accumulate=8"))).values()
    assert kinds[GRADIENTS] <= kinds[WEIGHTS] * (1 + 2 / LAYERS)
