"""Generated GPT-2: the same numbers as a plain numpy implementation of the published architecture."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_samples import assert_sound, inputs, weights

import distir
from distir import models
from distir.ir import Call
from distir.models import ModelError


def normalised(x, scale, shift):
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    return (x - mean) / math.sqrt(variance + 1e-5) * scale + shift


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * np.power(x, 3.0))))


def attention(x, arrays, prefix, heads):
    """One sequence, head by head and token by token, each looking at itself and at what is before it."""
    width = x.shape[-1]
    size = width // heads
    qkv = x @ arrays[f"{prefix}c_attn.weight"] + arrays[f"{prefix}c_attn.bias"]
    mixed = np.zeros_like(x)
    for head in range(heads):
        q, k, v = (qkv[:, part * width + head * size :][:, :size] for part in range(3))
        for token in range(len(x)):
            scores = np.array([q[token] @ k[other] / math.sqrt(size) for other in range(token + 1)])
            shares = np.exp(scores - scores.max())
            mixed[token, head * size :][:size] = (shares / shares.sum()) @ v[: token + 1]
    return mixed @ arrays[f"{prefix}c_proj.weight"] + arrays[f"{prefix}c_proj.bias"]


def hidden_states(arrays, tokens, layers, heads):
    """The last hidden states of one sequence of tokens, (sequence, width)."""
    x = arrays["wte.weight"][tokens] + arrays["wpe.weight"][: len(tokens)]
    for i in range(layers):
        at = f"h.{i}."
        norm = [normalised(row, arrays[f"{at}ln_1.weight"], arrays[f"{at}ln_1.bias"]) for row in x]
        x = x + attention(np.array(norm), arrays, f"{at}attn.", heads)
        norm = np.array([normalised(row, arrays[f"{at}ln_2.weight"], arrays[f"{at}ln_2.bias"]) for row in x])
        inner = gelu(norm @ arrays[f"{at}mlp.c_fc.weight"] + arrays[f"{at}mlp.c_fc.bias"])
        x = x + inner @ arrays[f"{at}mlp.c_proj.weight"] + arrays[f"{at}mlp.c_proj.bias"]
    return np.array([normalised(row, arrays["ln_f.weight"], arrays["ln_f.bias"]) for row in x])


small = st.integers(1, 3)


@settings(deadline=None)
@given(
    layers=small,
    heads=small,
    size=st.integers(1, 4),
    sequence=st.integers(1, 5),
    batch=small,
    named=st.booleans(),
    spare=st.integers(0, 2),
    head=st.booleans(),
)
def test_the_results_are_those_of_the_published_architecture(layers, heads, size, sequence, batch, named, spare, head):
    vocabulary = 7
    module = models.gpt2(
        layers,
        heads * size,
        heads,
        sequence,
        None if named else batch,
        vocabulary,
        "Float64",
        positions=sequence + spare,
        head=head,
    )
    assert_sound(module)
    arrays = inputs(module, {"B": batch}, vocabulary=vocabulary)
    (result,) = distir.run(module, arrays).values()
    expected = np.array([hidden_states(arrays, tokens, layers, heads) for tokens in arrays["input_ids"]])
    if head:
        expected = expected @ arrays["wte.weight"].T
    assert result.shape == (batch, sequence, vocabulary if head else heads * size)
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-10)


def test_what_comes_later_changes_nothing_before():
    """Also of a sequence so long that its mask is not computed before the program runs."""
    long, short = 300, 20
    whole = models.gpt2(1, 8, 2, long, 1, 5, "Float64", head=False)
    arrays = inputs(whole, vocabulary=5)
    (expected,) = distir.run(whole, arrays).values()
    part = models.gpt2(1, 8, 2, short, 1, 5, "Float64", head=False)
    (found,) = distir.run(part, arrays | {"input_ids": arrays["input_ids"][:, :short]}).values()
    np.testing.assert_allclose(found, expected[:, :short], rtol=1e-10, atol=1e-12)


def test_half_precision_gives_nearly_the_same():
    results = []
    for dtype in ("Float16", "Float64"):
        module = models.gpt2(2, 16, 4, 6, 2, 11, dtype)
        arrays = inputs(models.gpt2(2, 16, 4, 6, 2, 11, "Float64"), vocabulary=11, scale=0.1)
        typed = {n: a if n == "input_ids" else a.astype(dtype.lower()) for n, a in arrays.items()}
        results += distir.run(module, typed).values()
    assert str(results[0].dtype) == "float16"
    np.testing.assert_allclose(results[0].astype("float64"), results[1], atol=0.02)


def test_the_weights_are_those_of_the_published_model():
    """GPT-2 small: 124,439,808 parameters."""
    module = models.gpt2(12, 768, 12, 1024, 1)
    assert models.parameter_count(module) == 124_439_808
    found = weights(module)
    assert len(found) == 2 + 12 * 12 + 2
    assert found["wte.weight"] == (50257, 768)
    assert found["wpe.weight"] == (1024, 768)
    assert found["h.11.attn.c_attn.weight"] == (768, 2304)
    assert found["h.0.mlp.c_fc.weight"] == (768, 3072)


@pytest.mark.parametrize(("sequence", "positions"), [(8, 1024), (1024, 1024), (2048, 2048)])
def test_there_are_positions_for_the_whole_sequence(sequence, positions):
    module = models.gpt2(1, 8, 2, sequence, 1, 10)
    assert weights(module)["wpe.weight"] == (positions, 8)
    assert distir.check(module) == []


def test_a_layer_more_is_a_call_more():
    short, long = (models.gpt2(layers, 8, 2, 4) for layers in (1, 96))
    assert short.functions["layer"] == long.functions["layer"]
    assert sum(isinstance(s, Call) for s in long.entry().body) == 96
    assert len(long.entry().body) - len(short.entry().body) == 95


def test_the_mask_takes_no_memory_on_the_device():
    """It is a host value; what grows with the sequence is the scores of attention, twice while they are scaled."""
    peaks = [
        distir.simulate(models.gpt2(1, 8, 1, s, 1, 2, positions=512, head=False)).devices[1].peak_memory_bytes
        for s in (128, 256, 512)
    ]
    scores = [s * s * 2 for s in (128, 256, 512)]
    linear = [peak - 2 * score for peak, score in zip(peaks, scores, strict=True)]
    assert linear[2] - linear[1] == 2 * (linear[1] - linear[0])


def test_a_model_is_simulated_the_same_with_its_batch_named_or_not():
    named = distir.simulate(models.gpt2(3, 64, 4, 8), bind={"B": 16})
    fixed = distir.simulate(models.gpt2(3, 64, 4, 8, 16))
    assert named.latency_s == fixed.latency_s
    assert named.devices[1] == fixed.devices[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"heads": 5}, "expected `heads` to divide the width 24, found 5; 2, 3, 4, 6, 8, 12 do"),
        ({"heads": 99}, "expected `heads` to divide the width 24, found 99; 8, 12, 24 do"),
        ({"heads": 0}, "expected `heads` to be 1 or more, found 0"),
        ({"sequence": 0}, "expected `sequence` to be 1 or more, found 0"),
        ({"width": 10**18}, "expected `width` to be 2147483647 at most, found 1000000000000000000"),
        ({"vocabulary": -3}, "expected `vocabulary` to be 1 or more, found -3"),
        (
            {"positions": 4},
            "expected `positions` to be 8 or more, as long as the sequence, found 4",
        ),
        ({"dtype": "half"}, "expected a floating-point type as `dtype`, found `half`; one of Float16, "),
    ],
)
def test_sizes_that_make_no_model_are_refused(arguments, message):
    with pytest.raises(ModelError) as error:
        models.gpt2(**({"layers": 2, "width": 24, "heads": 4, "sequence": 8} | arguments))
    assert str(error.value).startswith(message)
