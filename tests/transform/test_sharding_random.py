"""Any program over several devices, its parameters split anyhow: the results stay."""

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import programs
from sharding_samples import assert_same
from thorough import most_examples

from distir.ir import TensorType, TupleType, types
from distir.placement.along import WHOLE, Split
from distir.transform.sharding import split


def states(type, size):
    """Every state that a parameter of this type can be given."""
    if isinstance(type, TupleType):
        return [tuple(found) for found in itertools.product(*(states(item, size) for item in type.items))]
    if not isinstance(type, TensorType) or type.shape is None or types.device_of(type) == types.HOST:
        return [WHOLE]
    return [WHOLE, *(Split(axis) for axis, dim in enumerate(type.shape) if dim % size == 0)]


@settings(max_examples=most_examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(program=programs(), place=st.sampled_from(["innermost", "outermost"]), data=st.data())
def test_results_stay_however_parameters_are_split(program, place, data):
    module = program.module
    entry = module.entry()
    plan = [data.draw(st.sampled_from(states(p.type, 2))) for p in entry.params]
    assert_same(module, split(module, 2, place, lambda *_: plan))
