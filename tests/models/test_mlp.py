"""Generated perceptrons: forward as in numpy, gradients as by differences, one program for any batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_samples import assert_sound, inputs, weights

import distir
from distir import models
from distir.ir import Call
from distir.models import ModelError

sizes = st.integers(1, 4)


def forward(arrays, layers):
    x = arrays["x"]
    for i in range(1, layers + 1):
        x = np.maximum(x @ arrays[f"w{i}"] + arrays.get(f"b{i}", 0.0), 0)
    return x


def loss(arrays, layers):
    return np.square(forward(arrays, layers) - arrays["y"]).mean(axis=1).sum()


@settings(deadline=None)
@given(layers=sizes, width=sizes, batch=sizes, named=st.booleans(), bias=st.booleans())
def test_inference_is_a_chain_of_matrix_products(layers, width, batch, named, bias):
    module = models.mlp(layers, width, None if named else batch, "Float64", bias=bias)
    assert_sound(module)
    arrays = inputs(module, {"B": batch})
    (prediction,) = distir.run(module, arrays).values()
    np.testing.assert_allclose(prediction, forward(arrays, layers), rtol=1e-12, atol=1e-14)


@settings(deadline=None)
@given(layers=sizes, width=sizes, batch=sizes, named=st.booleans(), bias=st.booleans())
def test_a_training_step_returns_the_loss_and_a_new_value_for_each_weight(layers, width, batch, named, bias):
    module = models.mlp(layers, width, None if named else batch, "Float64", training=True, bias=bias)
    assert_sound(module)
    arrays = inputs(module, {"B": batch})
    results = distir.run(module, arrays)
    assert results.pop("loss") == pytest.approx(loss(arrays, layers), rel=1e-12)
    assert {name: array.shape for name, array in results.items()} == {
        f"{name}_new": shape for name, shape in weights(module).items()
    }


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_gradients_are_those_of_numerical_differences(bias, seed):
    layers = 3
    module = models.mlp(layers, 4, 5, "Float64", training=True, bias=bias, learning_rate=1.0)
    arrays = inputs(module, seed=seed)
    results = distir.run(module, arrays)
    step = 1e-6
    for name in weights(module):
        differences = np.zeros_like(arrays[name])
        for place in np.ndindex(differences.shape):
            moved = []
            for sign in (1, -1):
                weight = arrays[name].copy()
                weight[place] += sign * step
                moved.append(loss(arrays | {name: weight}, layers))
            differences[place] = (moved[0] - moved[1]) / (2 * step)
        gradient = arrays[name] - results[f"{name}_new"]
        np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-8)


def train(module, arrays, steps):
    losses = []
    for _ in range(steps):
        results = distir.run(module, arrays)
        losses.append(float(results["loss"]))
        arrays = arrays | {name: results[f"{name}_new"] for name in weights(module)}
    return losses


@pytest.mark.parametrize("dtype", ["Float16", "Float32", "Float64"])
def test_training_lowers_the_loss_at_every_step(dtype):
    module = models.mlp(2, 8, 16, dtype, training=True, learning_rate=0.02)
    losses = train(module, inputs(module), 8)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.95 * losses[0]


def test_losses_and_gradients_of_parts_of_the_batch_add_up():
    """So data parallelism and microbatches need no scaling."""
    module = models.mlp(2, 4, None, "Float64", training=True, learning_rate=1.0)
    arrays = inputs(module, {"B": 6})
    whole = distir.run(module, arrays)
    parts = [distir.run(module, arrays | {n: arrays[n][rows] for n in "xy"}) for rows in (slice(0, 2), slice(2, 6))]
    assert whole["loss"] == pytest.approx(sum(part["loss"] for part in parts), rel=1e-12)
    for name in weights(module):
        gradients = [arrays[name] - results[f"{name}_new"] for results in (whole, *parts)]
        np.testing.assert_allclose(gradients[0], sum(gradients[1:]), atol=1e-12)


def test_a_loss_in_half_precision_does_not_overflow():
    module = models.mlp(1, 8, 2048, "Float16", training=True)
    arrays = inputs(module)
    arrays["y"] += 20
    assert 65504 < distir.run(module, arrays)["loss"] < np.inf


@pytest.mark.parametrize("training", [False, True])
def test_a_layer_more_is_calls_more(training):
    short, long = (models.mlp(layers, 8, training=training) for layers in (2, 96))
    assert [f for f in short if f.name != "main"] == [f for f in long if f.name != "main"]
    calls = [s.function for s in long.entry().body if isinstance(s, Call)]
    assert calls.count("dense") == 96
    assert calls.count("denseGrad") == (96 if training else 0)


@pytest.mark.parametrize("dtype", ["Float16", "BFloat16", "Float32"])
@pytest.mark.parametrize("training", [False, True])
def test_any_floating_point_type_will_do(dtype, training):
    assert_sound(models.mlp(3, 16, 4, dtype, training=training))


def test_a_model_is_simulated_the_same_with_its_batch_named_or_not():
    named = distir.simulate(models.mlp(4, 64, training=True), bind={"B": 32})
    fixed = distir.simulate(models.mlp(4, 64, 32, training=True))
    assert named.latency_s == fixed.latency_s
    assert named.devices[1] == fixed.devices[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": 0}, "expected `layers` to be 1 or more, found 0"),
        ({"width": -1}, "expected `width` to be 1 or more, found -1"),
        ({"batch": 0}, "expected `batch` to be 1 or more, found 0"),
        (
            {"dtype": "float16"},
            "expected a floating-point type as `dtype`, found `float16`; did you mean `Float16`?",
        ),
    ],
)
def test_sizes_that_make_no_model_are_refused(arguments, message):
    with pytest.raises(ModelError) as error:
        models.mlp(**({"layers": 2, "width": 4} | arguments))
    assert str(error.value) == message


def test_integers_are_no_element_type_of_a_model():
    with pytest.raises(ModelError, match="expected a floating-point type as `dtype`, found `Int64`"):
        models.mlp(1, 1, dtype="Int64")
