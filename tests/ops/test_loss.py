import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_samples import FLOATS, apply, close, filled_shapes, numerical_gradient, random_array, rejects, seeds
from thorough import most_examples

import distir.ops.loss  # noqa: F401 - registers the ops
from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, UNKNOWN, Attributes, TensorType
from distir.ir.dims import named
from distir.ops import OPS, Reject, infer_types, run
from distir.ops.attributes import bind

few = settings(max_examples=most_examples(25), deadline=None)  # central differences run an op twice per element
REDUCTIONS = ("mean", "sum", "none")


@st.composite
def classifications(draw, dtypes=FLOATS):
    """Scores, labels, weights or None, and attributes; at least one label counts."""
    n, c, seed = draw(st.integers(1, 3)), draw(st.integers(2, 4)), draw(seeds)
    rest = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    dtype = draw(st.sampled_from(dtypes))
    scores = random_array(dtype, (n, c, *rest), seed)
    labels = random_array(draw(st.sampled_from(("Int32", "Int64"))), (n, *rest), seed + 1, 0, c - 1)
    weights = random_array(dtype, (c,), seed + 2, 0.5, 2) if draw(st.booleans()) else None
    attrs = {"reduction": draw(st.sampled_from(REDUCTIONS))}
    if draw(st.booleans()):
        labels.reshape(-1)[1:][random_array("Bool", labels.size - 1, seed)] = -100
        attrs["ignore_index"] = -100
    return scores, labels, weights, attrs


def expected_losses(log_prob, labels, weights, attrs):
    """One label after the other."""
    losses, total = np.zeros(labels.shape), 0.0
    for index in np.ndindex(labels.shape):
        label = int(labels[index])
        if label != attrs.get("ignore_index"):
            weight = 1.0 if weights is None else float(weights[label])
            losses[index] = -weight * log_prob[(index[0], label, *index[1:])]
            total += weight
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / total}[attrs["reduction"]]


def log_softmax(scores):
    exponentials = np.exp(scores.astype(np.float64))
    return np.log(exponentials / exponentials.sum(1, keepdims=True))


@given(classifications())
def test_cross_entropy(case):
    scores, labels, weights, attrs = case
    operands = (scores, labels) if weights is None else (scores, labels, weights)
    loss, log_prob = apply("SoftmaxCrossEntropyLoss", *operands, count=2, **attrs)
    close(log_prob, log_softmax(scores))
    close(loss, expected_losses(log_softmax(scores), labels, weights, attrs))
    close(apply("SoftmaxCrossEntropyLoss", *operands, **attrs), loss)


@given(classifications())
def test_negative_log_likelihood(case):
    log_prob, labels, weights, attrs = case
    found = apply("NegativeLogLikelihoodLoss", log_prob, labels, weights, **attrs)
    close(found, expected_losses(log_prob.astype(np.float64), labels, weights, attrs))


@pytest.mark.parametrize("name", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
@few
@given(case=classifications(("Float64",)), seed=seeds)
def test_gradients_of_classification_losses(name, case, seed):
    scores, labels, weights, attrs = case
    op = OPS[name]

    def forward(v):
        return run(op, (v, labels, weights), bind(op, Attributes(attrs)), 1)[0]

    dy = random_array("Float64", forward(scores).shape, seed)
    found = apply(f"{name}Grad", dy, scores, labels, weights, **attrs)
    close(found, numerical_gradient(forward, scores, dy), 1e-6)


@few
@given(filled_shapes, seeds, st.sampled_from(REDUCTIONS))
def test_squared_errors(shape, seed, reduction):
    prediction, target = random_array("Float64", shape, seed), random_array("Float64", shape, seed + 1)
    squares = (prediction - target) ** 2
    loss = apply("MSELoss", prediction, target, reduction=reduction)
    close(loss, {"none": squares, "sum": squares.sum(), "mean": squares.mean()}[reduction])

    def forward(v):
        return run(OPS["MSELoss"], (v, target), bind(OPS["MSELoss"], Attributes({"reduction": reduction})), 1)[0]

    dy = random_array("Float64", loss.shape, seed + 2)
    gradient = apply("MSELossGrad", dy, prediction, target, reduction=reduction)
    close(gradient, numerical_gradient(forward, prediction, dy), 1e-6)
    narrow = apply("MSELoss", prediction.astype(np.float16), target.astype(np.float16), reduction=reduction)
    assert narrow.dtype == np.float16


def test_ignored_infinities_count_for_nothing():
    log_prob = np.array([[-np.inf, -1.0]] * 2, np.float32)
    assert apply("NegativeLogLikelihoodLoss", log_prob, np.array([0, 1]), ignore_index=0) == 1.0


def test_unknown_and_named_dimensions():
    scores = TensorType(DTYPES["Float32"], (None, 10), 1)
    labels = TensorType(DTYPES["Int64"], (named("B"),), 1)
    loss, log_prob = infer_types(OPS["SoftmaxCrossEntropyLoss"], [scores, labels], Attributes({"reduction": "none"}), 2)
    assert loss.shape == (named("B"),)
    assert log_prob.shape == (named("B"), 10)
    (loss,) = infer_types(OPS["SoftmaxCrossEntropyLoss"], [UNKNOWN, UNKNOWN], Attributes(), 1)
    assert loss.shape == ()


def test_wrong_operands():
    scores, labels = random_array("Float32", (2, 5)), np.array([0, 4])
    name = "SoftmaxCrossEntropyLoss"
    assert rejects(name, scores, np.array([0, 1, 2]))[0] is codes.SHAPE_MISMATCH
    assert rejects(name, scores, scores)[0] is codes.DTYPE_MISMATCH
    assert rejects(name, scores, labels, random_array("Float32", (4,)))[0] is codes.SHAPE_MISMATCH
    assert rejects(name, scores, labels, reduction="max")[0] is codes.BAD_VALUE
    assert rejects(name, scores, labels, count=3)[0] is name_codes.RESULT_COUNT
    assert rejects(f"{name}Grad", random_array("Float32", (2,)), scores, labels)[0] is codes.SHAPE_MISMATCH
    assert rejects("MSELoss", scores, random_array("Float32", (2, 4)))[0] is codes.SHAPE_MISMATCH
    for op, operands in ((name, ()), (f"{name}Grad", (np.array(1, np.float32),))):
        with pytest.raises(Reject, match="labels from 0 to 4, found 5"):
            apply(op, *operands, scores, np.array([0, 5]))
