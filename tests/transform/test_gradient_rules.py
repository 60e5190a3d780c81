# ruff: noqa: E501 - an example is one line
"""Every op's gradient: a rule that agrees with central differences, or a reason why there is none."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gradient_samples import (
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

OURS = {name: op for name, op in OPS.items() if op.body.__module__.startswith("distir.")}

TRUTHS = "its results are truth values"
HOST = "its results are host values, known before the program runs"
SECOND = "it belongs to a gradient already; gradients of gradients are not offered"
UPDATE = "it updates weights, behind the loss"
STANDS = "it stands for what other devices do, whose gradients may differ"
WITHOUT_GRADIENT = {
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Not"), TRUTHS),
    **dict.fromkeys(("Constant", "ConstantOfShape", "Range", "Shape", "Size"), HOST),
    **dict.fromkeys((name for name in OURS if name.endswith("Grad")), SECOND),
    "ReduceTo": SECOND,
    **dict.fromkeys((name for name, op in OURS.items() if op.family == "optimizer"), UPDATE),
    **dict.fromkeys((name for name, op in OURS.items() if op.family == "group"), STANDS),
}

REFUSED = {
    'Einsum[equation = "ii"]': "diagonal",
    "GatherND[batch_dims = 1]": "batch_dims",
    'Pad[mode = "reflect"': 'mode = "reflect"',
    'ScatterElements[reduction = "mul"]': "reduction",
    'ScatterND[reduction = "max"]': "reduction",
}
"""Examples of which a part has no gradient: what the refusal says."""

MORE = """
%c = Add(%a: Tensor[Float64, (2, 1, 3), 1], %b: Tensor[Float64, (4, 1), 1])
%c = Sub(%a: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (2, 3), 1])
%c = Mul(%a: Tensor[Float64, (2, 3), 1], %a)
%c = Div(%a: Float64[1], %b: Tensor[Float64, (2, 3), 1])
%c = Pow(%a: Tensor[Float64, (2, 3), 1], 3.0)
%c = Pow(%a: Tensor[Float64, (2, 3), 1], 2)
%c = Max(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1], 0.5)
%c = Min(%a: Tensor[Float64, (2, 3), 1])
%c = Sum(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1], %a)
%c = Mean(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (1, 3), 1], %d: Float64[1])
%y = Clip(%x: Tensor[Float64, (2, 3), 1], %a: Float64[1], %b: Float64[1])
%y = Clip(%x: Tensor[Float64, (2, 3), 1], _, 0.6)
%y = Cast[to = Float64](%x: Tensor[Float64, (2, 3), 1])
%y = Identity(%x: Tuple[Tensor[Float64, (2, 3), 1], Float64[1]])
%y = Gelu[approximate = "tanh"](%x: Tensor[Float64, (5,), 1])
%y = Softmax[axis = 0](%x: Tensor[Float64, (3, 2), 1])
%c = MatMul(%a: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (3,), 1])
%c = MatMul(%a: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (3, 4), 1])
%c = MatMul(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1])
%c = MatMul(%a: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (2, 3, 4), 1])
%c = MatMul(%a: Tensor[Float64, (5, 2, 3), 1], %b: Tensor[Float64, (3,), 1])
%c = MatMul(%a: Tensor[Float64, (2, 1, 2, 3), 1], %b: Tensor[Float64, (4, 3, 2), 1])
%c = MatMul(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (4, 3, 2), 1])
%c = MatMul(%a: Tensor[Float64, (2, 3, 4), 1], %b: Tensor[Float64, (1, 4, 2), 1])
%y = Gemm[alpha = 0.5, beta = 2.0](%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3, 4), 1], %c: Tensor[Float64, (2, 1), 1])
%y = Gemm[transA = true, alpha = 0.5](%a: Tensor[Float64, (3, 2), 1], %b: Tensor[Float64, (3, 4), 1], %c: Float64[1])
%y = Gemm[transA = true, transB = true](%a: Tensor[Float64, (3, 2), 1], %b: Tensor[Float64, (4, 3), 1], %c: Tensor[Float64, (1, 4), 1])
%y = ReduceSum(%x: Tensor[Float64, (2, 3, 4), 1], [0, -1])
%y = ReduceSum[keepdims = false](%x: Tensor[Float64, (2, 3, 4), 1], [0, -1])
%y = ReduceSum[noop_with_empty_axes = true](%x: Tensor[Float64, (2, 3), 1])
%y = ReduceMean[keepdims = false](%x: Tensor[Float64, (2, 3), 1])
%y = ReduceMean[keepdims = false](%x: Tensor[Float64, (2, 3), 1], [1])
%y = ReduceMax[keepdims = false](%x: Tensor[Float64, (2, 3), 1], [0])
%y = ReduceMin(%x: Tensor[Float64, (2, 3), 1])
%y = ReduceProd[keepdims = false](%x: Tensor[Float64, (2, 3), 1])
%y = ReduceL2[keepdims = false](%x: Tensor[Float64, (2, 3), 1], [1])
%y = ReduceLogSumExp[keepdims = false](%x: Tensor[Float64, (2, 3), 1], [0])
%y = ReduceSumSquare[keepdims = false](%x: Tensor[Float64, (2, 3), 1], [0])
%y = CumSum[exclusive = true, reverse = true](%x: Tensor[Float64, (2, 3), 1], 1)
%v, %i = TopK[axis = 0, largest = false](%x: Tensor[Float64, (3, 2), 1], [2])
%y = Squeeze(%x: Tensor[Float64, (1, 3, 1), 1])
%y = Transpose[perm = [2, 0, 1]](%x: Tensor[Float64, (2, 3, 4), 1])
%y = Expand(%x: Tensor[Float64, (3, 1), 1], [2, 3, 4])
%y = Pad(%x: Tensor[Float64, (2, 3), 1], [1, -1, 0, 2], %v: Float64[1])
%y = Pad(%x: Tensor[Float64, (2, 3), 1], [1, 2], _, [-1])
%y = Slice(%x: Tensor[Float64, (5, 3), 1], [-3], [-1], [0])
%y = Slice(%x: Tensor[Float64, (5, 4), 1], [1, 3], [100, 0], [0, 1], [2, -1])
%y = Slice(%x: Tensor[Float64, (5,), 1], [3], [2])
%y = Slice(%x: Tensor[Float64, (1, 5, 1, 4), 1], [-1, 3], [-5, 0], [1, 3], [-2, -1])
%y = Concat[axis = 1](%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (2, 1), 1], %a)
%y = Concat[axis = -1](%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (2, 3), 1])
%y = Gather[axis = 1](%x: Tensor[Float64, (2, 3), 1], %i: Tensor[Int64, (2, 2), 1])
%y = GatherElements[axis = 0](%x: Tensor[Float64, (2, 3), 1], %i: Tensor[Int64, (4, 3), 1])
%y = GatherND(%x: Tensor[Float64, (2, 3), 1], %i: Tensor[Int64, (4, 2), 1])
%y = ScatterElements[reduction = "add"](%x: Tensor[Float64, (3, 3), 1], %i: Tensor[Int64, (2, 3), 1], %u: Tensor[Float64, (2, 3), 1])
%y = ScatterElements[reduction = "mul"](%x: Tensor[Float64, (3, 3), 1], %i: Tensor[Int64, (2, 3), 1], %u: Tensor[Float64, (2, 3), 1])
%y = ScatterND[reduction = "add"](%x: Tensor[Float64, (4, 5), 1], %i: Tensor[Int64, (2, 1), 1], %u: Tensor[Float64, (2, 5), 1])
%y = ScatterND(%x: Tensor[Float64, (4, 5), 1], [[0], [2]], %u: Tensor[Float64, (2, 5), 1])
%y = ScatterND[reduction = "max"](%x: Tensor[Float64, (4, 5), 1], %i: Tensor[Int64, (2, 1), 1], %u: Tensor[Float64, (2, 5), 1])
%y = OneHot[axis = 0](%i: Tensor[Int64, (2, 3), 1], 4, %v: Tensor[Float64, (2,), 1])
%y = Where(%c: Tensor[Bool, (3,), 1], %x: Tensor[Float64, (2, 1), 1], %z: Float64[1])
%y = LayerNormalization[axis = 1](%x: Tensor[Float64, (2, 3, 4), 1], %s: Tensor[Float64, (3, 4), 1])
%y = LayerNormalization[axis = 1](%x: Tensor[Float64, (2, 3, 4), 1], %s: Tensor[Float64, (3, 4), 1], %b: Tensor[Float64, (3, 4), 1])
%y = Attention(%q: Tensor[Float64, (1, 2, 3, 4), 1], %k: Tensor[Float64, (1, 2, 5, 4), 1], %v: Tensor[Float64, (1, 2, 5, 3), 1], %m: Tensor[Bool, (3, 5), 1])
%y = Attention[scale = 0.3, softcap = 2.0](%q: Tensor[Float64, (1, 4, 3, 2), 1], %k: Tensor[Float64, (1, 2, 3, 2), 1], %v: Tensor[Float64, (1, 2, 3, 2), 1])
%y = Attention[is_causal = true, window = 2](%q: Tensor[Float64, (2, 4, 5, 2), 1], %k: Tensor[Float64, (2, 2, 5, 2), 1], %v: Tensor[Float64, (2, 2, 5, 3), 1], _, %s: Tensor[Float64, (4,), 1])
%y = Attention(%q: Tensor[Float64, (1, 2, 3, 4), 1], %k: Tensor[Float64, (1, 2, 5, 4), 1], %v: Tensor[Float64, (1, 2, 5, 3), 1], %m: Tensor[Float64, (2, 1, 5), 1])
%y = RotaryEmbedding[interleaved = true, rotary_embedding_dim = 4](%x: Tensor[Float64, (2, 3, 2, 6), 1], %c: Tensor[Float64, (2, 2, 2), 1], %s: Tensor[Float64, (2, 2, 2), 1])
%y = RotaryEmbedding(%x: Tensor[Float64, (2, 2, 3, 4), 1], [[[0.6, 0.8], [0.1, 0.2], [0.0, 1.0]]], [[[0.8, 0.6], [0.3, 0.4], [1.0, 0.0]]])
%y = RotaryEmbedding[interleaved = true](%x: Tensor[Float64, (1, 2, 3, 4), 1], [[[0.6, 0.8], [0.1, 0.2], [0.0, 1.0]]], [[[0.8, 0.6], [0.3, 0.4], [1.0, 0.0]]])
%c = Einsum[equation = "...ij,...jk->...ik"](%a: Tensor[Float64, (2, 2, 3), 1], %b: Tensor[Float64, (2, 3, 4), 1])
%c = Einsum[equation = "ij,kl->il"](%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (2, 3), 1])
%c = Einsum[equation = "bij,bij"](%a: Tensor[Float64, (2, 2, 3), 1], %a)
%c = Einsum[equation = "ij->"](%a: Tensor[Float64, (2, 3), 1])
%l = SoftmaxCrossEntropyLoss[reduction = "none"](%s: Tensor[Float64, (2, 3, 2), 1], %t: Tensor[Int64, (2, 2), 1])
%l, %p = SoftmaxCrossEntropyLoss[ignore_index = 0](%s: Tensor[Float64, (4, 3), 1], %t: Tensor[Int64, (4,), 1])
%l = MSELoss[reduction = "none"](%p: Tensor[Float64, (2, 3), 1], %t: Tensor[Float64, (2, 3), 1])
%y = Send[device = 2](%x: Tuple[Tensor[Float64, (2, 3), 1], Float64[1]])
%y_1, %y_2 = MPIAllreduce(%a: Tuple[Float64[1], Float64[1]], %b: Tuple[Float64[2], Float64[2]])
%y_1, %y_2 = MPIAlltoall[split_axis = 1](%x_1: Tensor[Float64, (2, 4), 1], %x_2: Tensor[Float64, (2, 4), 2])
""".strip().splitlines()

EXAMPLES = [text for op in OURS.values() if op.name not in WITHOUT_GRADIENT for text in op.examples]


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
        assert statement.op in ("Attention", "RotaryEmbedding", "Tile", "Slice", "Einsum", "MPIAllgather", "MPIGather")
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
def test_every_op_has_a_rule_or_a_reason(name):
    assert ("grad" in OURS[name].rules) != (name in WITHOUT_GRADIENT)


def test_a_reason_is_one():
    for name, reason in WITHOUT_GRADIENT.items():
        if reason == TRUTHS:
            assert any("Bool" in text.split("->")[1] for text in OURS[name].signature_texts)
        if reason == HOST:
            assert any("host" in text for text in OURS[name].signature_texts)


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
