"""Every op's gradient: a rule that agrees with central differences, or a reason why there is none."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gradient_samples import (
    MORE,
    is_float,
    named_dims,
    numerical_gradients,
    open_dims,
    parsed,
    prepared,
    rule_gradients,
)

from distir.ir import TensorType, dims
from distir.ops import OPS
from distir.ops.backward import NotDifferentiable
from distir.ops.specs import BOOLEAN_RESULTS, HOST_RESULTS

OURS = {name: op for name, op in OPS.items() if op.body.__module__.startswith("distir.")}

REFUSED = {
    'ScatterElements[axis = 1, reduction = "max"]': '`reduction = "max"` has no gradient',
    'Einsum[equation = "ii"]': "diagonal",
    "GatherND[batch_dims = 1]": "batch_dims",
    'Pad[mode = "reflect"': 'mode = "reflect"',
    'ScatterElements[reduction = "mul"]': "reduction",
    'ScatterND[reduction = "max"]': "reduction",
}
"""Examples of which a part has no gradient: what the refusal says."""

SIZED = ("Attention", "RotaryEmbedding", "Tile", "Slice", "SliceView", "Einsum", "MPIAllgather", "MPIGather")
"""Ops that have gradients only where some sizes are known."""

EXAMPLES = [text for op in OURS.values() if "grad" in op.rules for text in op.examples]


def refusal(text):
    return next((said for start, said in REFUSED.items() if f"= {start}" in text and "[[[" not in text), None)


@pytest.mark.parametrize("weaken", [lambda known: known, named_dims, open_dims], ids=["known", "named", "open"])
@pytest.mark.parametrize("text", [*EXAMPLES, *MORE])
def test_a_rule_agrees_with_central_differences(text, weaken):
    params, statement, values, dys = prepared(text)
    if statement.op == "ScatterND" and "[[0]" not in text and "add" not in text and not refusal(text):
        values["i"] = np.array([[0], [2]])  # a place that is written twice has no gradient
    if not dys or not any(is_float(p.type) for p in params):
        pytest.skip("nothing here is a number to be moved a little")
    if said := refusal(text):
        with pytest.raises(NotDifferentiable, match=re.escape(said)):
            rule_gradients(params, statement, values, dys)
        return
    try:
        found = rule_gradients(params, statement, values, dys, weaken)
    except NotDifferentiable:
        assert weaken in (named_dims, open_dims)
        assert statement.op in SIZED
        return
    expected = numerical_gradients(params, statement, values, dys)
    for name, slopes in expected.items():
        _check_close(found[name], slopes)


def _check_close(found, expected):
    if isinstance(expected, tuple):
        for f, e in zip(found, expected, strict=True):
            _check_close(f, e)
    elif found is None:
        np.testing.assert_allclose(expected, 0, atol=1e-7)
    else:
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", OURS)
def test_every_op_has_a_gradient_or_a_reason_in_its_definition(name):
    op = OURS[name]
    assert ("grad" in op.rules) != bool(op.non_differentiable)


def test_a_reason_agrees_with_the_signature():
    for op in OURS.values():
        if op.non_differentiable == BOOLEAN_RESULTS:
            assert any("Bool" in text.split("->")[1] for text in op.signature_texts)
        if op.non_differentiable == HOST_RESULTS:
            assert any("host" in text for text in op.signature_texts)


def test_differentiating_an_op_without_a_gradient_reports_its_reason():
    params, statement, values, dys = prepared(
        "%y = MovingAverage(%m: Tensor[Float64, (2,), 1], %x: Tensor[Float64, (2,), 1])"
    )
    with pytest.raises(NotDifferentiable) as caught:
        rule_gradients(params, statement, values, dys)
    assert str(caught.value) == f"`MovingAverage` has no gradient: {OURS['MovingAverage'].non_differentiable}"
    assert "@MovingAverage.grad" in caught.value.help


def test_refusals_say_what_to_do():
    params, statement, values, dys = prepared(
        "%y = GatherND[batch_dims = 1](%x: Tensor[Float64, (4, 5, 6), 1], %i: Tensor[Int64, (4, 1), 1])"
    )
    with pytest.raises(NotDifferentiable) as caught:
        rule_gradients(params, statement, values, dys)
    assert "`batch_dims`" in str(caught.value)
    assert caught.value.help is not None


def batch_named(type):
    """The type with a name for its first dimension."""
    return TensorType(type.dtype, (dims.named("B"), *type.shape[1:]), type.device)


@pytest.mark.parametrize(
    "axes", ["[1, 3], [100, 0], [1, 2], [2, -1]", "[0, 3], [9223372036854775807, 0], [0, 2], [1, -2]"]
)
def test_slices_with_steps_are_taken_back_at_any_batch_size(axes):
    params, statement, values, dys = prepared(f"%y = Slice(%x: Tensor[Float64, (2, 5, 4), 1], {axes})")
    found = rule_gradients(params, statement, values, dys, batch_named)
    _check_close(found["x"], numerical_gradients(params, statement, values, dys)["x"])


def test_equal_extremes_share_the_gradient():
    params, statement = parsed("%y = ReduceMax(%x: Tensor[Float64, (2, 2), 1], [1])")
    values = {"x": np.array([[3.0, 3.0], [1.0, 2.0]])}
    found = rule_gradients(params, statement, values, {"y": np.ones((2, 1))})
    np.testing.assert_array_equal(found["x"], [[0.5, 0.5], [0, 1]])


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_a_product_has_a_gradient_where_factors_are_zero(zeros):
    params, statement = parsed("%y = ReduceProd(%x: Tensor[Float64, (3,), 1])")
    x = np.array([2.0, 3.0, 4.0])
    x[:zeros] = 0
    found = rule_gradients(params, statement, {"x": x}, {"y": np.ones(1)})
    np.testing.assert_array_equal(found["x"], [np.prod(np.delete(x, i)) for i in range(3)])
