"""Statements that repeat, as those of a pipeline do with each microbatch, change nothing in how a program is split."""

import pytest
from dtp_samples import MODELS
from sharding_samples import assert_same

from distir.models import mlp
from distir.transform import transform


def weights(module):
    """The weights of the entry function, with their types, by name."""
    return {p.name: p.type for p in module.entry().params if p.roles.keys() & {"param", "state"}}


@pytest.mark.by_turns
@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith(("mlp", "gpt"))])
def test_more_microbatches_leave_the_weights_where_they_are(name):
    model = MODELS[name]()
    few, many = (transform(model, "dtp=2,2,2", microbatches=count) for count in (2, 8))
    assert weights(few) == weights(many)
    assert_same(model, many)


def test_a_pipeline_that_was_made_before_is_as_good_as_a_new_one():
    model = mlp(4, 8, 16, "Float64", training=True)
    by_hand = transform(transform(model, "pp=2", microbatches=4), "tp=2")
    for step in ("dtp=2,1,2", "dtp=1,2,2", "dtp=2,2,2", "dtp=1,2,2"):
        found = transform(model, step, microbatches=4)
        if step == "dtp=1,2,2":
            assert found == by_hand
    other = mlp(4, 8, 32, "Float64", training=True)
    assert transform(other, "dtp=1,2,2", microbatches=4) != by_hand
    assert_same(other, transform(other, "dtp=1,2,2", microbatches=4))
