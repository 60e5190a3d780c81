"""What a peak of memory is made of: known sizes of weights and state, and what strategies take off which."""

from itertools import pairwise

import pytest

import distir
from distir.analysis.kinds import KINDS
from distir.models import mlp
from distir.simulate.composition import compositions
from distir.transform import transform

LAYERS, WIDTH = 4, 64


def model(batch=8):
    return mlp(layers=LAYERS, width=WIDTH, batch=batch)


def made_of(module, *steps):
    """By device."""
    found = distir.simulate(transform(module, *steps) if steps else module)
    memory = compositions(found)
    for device, use in found.devices.items():
        own = memory[found.memory_of(device)]
        assert sum(own.values()) == use.peak_memory_bytes
        assert set(own) <= set(KINDS)
        assert min(own.values()) > 0
    return {device: memory[found.memory_of(device)] for device in found.devices}


def weight_bytes(module):
    return sum(p.type.nbytes for p in module.entry().params if "param" in p.roles)


def test_parameters_are_what_their_roles_say():
    module = model()
    (own,) = made_of(module, "grad", "optimizer=adam").values()
    assert own["weights"] == weight_bytes(module)
    step = transform(module, "grad", "optimizer=adam")
    state = [p.type for p in step.entry().params if "state" in p.roles and p.type.device == 1]
    assert own["optimizer state"] == sum(stated.nbytes for stated in state)
    assert 0 < own["gradients"] <= own["weights"]


def test_caches_are_no_optimizer_state_before_they_are_written_and_after():
    text = """
    func @main(%c: Tensor[Float32, (2, 64, 8), 1] {batch = 0, state}, %u: Tensor[Float32, (2, 1, 8), 1] {batch = 0}) {
      %new = @append(%c, %u)
      %y = Exp(%u)
      return %new, %y
    }
    func @append(%c, %u) {
      %new = TensorScatter(%c, %u, 3)
      return %new
    }
    """
    (own,) = made_of(distir.parse(text)).values()
    assert own["caches"] == 2 * 64 * 8 * 4
    assert "optimizer state" not in own


def test_a_program_that_infers_has_no_gradients():
    (own,) = made_of(model()).values()
    assert "gradients" not in own
    assert own["activations"] > 0


@pytest.mark.parametrize("steps", [("dp=2",), ("tp=2",), ("pp=2", "microbatches=4"), ("dtp=2,2,2", "microbatches=2")])
def test_kinds_add_up_to_the_peak_and_gradients_are_found_across_calls(steps):
    for own in made_of(model(), "grad", "optimizer=adam", *steps).values():
        assert own["gradients"] > 0
        assert own["optimizer state"] > 0


def test_zero_takes_state_then_gradients_then_weights():
    stages = [made_of(model(), "grad", "optimizer=adam", "dp=2", *zero) for zero in ((), ("zero=1",), ("zero=3",))]
    none, first, third = ({kind: max(own.get(kind, 0) for own in s.values()) for kind in KINDS} for s in stages)
    assert first["optimizer state"] < 0.8 * none["optimizer state"]
    assert first["weights"] >= none["weights"], "and copies of new ones on their way"
    assert third["weights"] < 0.8 * none["weights"]


def test_checkpointing_takes_activations_alone():
    (plain,) = made_of(model(4096), "grad").values()
    (less,) = made_of(model(4096), "grad", "checkpoint=2").values()
    assert less["activations"] < plain["activations"]
    assert less["weights"] == plain["weights"]


def test_more_examples_take_more_activations_alone():
    found = [next(iter(made_of(model(batch), "grad", "optimizer=adam").values())) for batch in (1024, 2048, 4096)]
    for less, more in pairwise(found):
        assert more["activations"] == pytest.approx(2 * less["activations"], rel=0.1)
        assert (more["weights"], more["optimizer state"]) == (less["weights"], less["optimizer state"])


SHARED = """
func @update(%w: Tensor[Float32, (64, 64), 1], %g: Tensor[Float32, (64, 64), 1]) {
  %n = SGD(%w, %g)
  return %n
}

func @main(%w: Tensor[Float32, (64, 64), 1] {param}, %b: Tensor[Float32, (1000,), 1] {buffer}, %x: Tensor[Float32, (64, 64), 1]) {
  %a = MatMul(%x, %w)
  %t = Transpose(%x)
  %g = MatMul(%t, %a)
  %h = MatMul(%t, %t)
  %s = Add(%g, %h)
  %n = @update(%w, %s)
  return %n, %b
}
"""  # noqa: E501


def test_a_gradient_is_what_an_optimizer_takes_in_whatever_function():
    (own,) = made_of(distir.parse(SHARED)).values()
    one = 64 * 64 * 4
    expected = {"weights": one, "buffers": 4000, "inputs": one, "gradients": one, "activations": 2 * one}
    assert own == expected, "as %g is computed, of %t and %a"
