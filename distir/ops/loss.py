"""Losses and their gradients. What is narrower than Float32 is computed in Float32.

A gradient takes `dy`, the gradient with respect to the loss: a scalar, or a tensor where `reduction = "none"`.
"""

from __future__ import annotations

from typing import Any

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import Part, Shape, TensorType, types
from distir.ops.activation import log_softmax
from distir.ops.core import op
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.unify import Reject

REDUCTIONS = ("mean", "sum", "none")


@op(
    "Tensor[t:float, (n, c, *s), d], Tensor[i:int, (n, *s), d], Optional[Tensor[t:float, (c,), d]]"
    " -> Tensor[t, _, d], *Tensor[t, (n, c, *s), d]",
    flops=lambda n=1, c=1, s=1, **_: n * s * (5 * c + 2),
)
def SoftmaxCrossEntropyLoss(
    scores: Array,
    labels: Array,
    weights: Array | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    count: int = 1,
) -> list[Array]:
    """Minus the logarithm of the softmax of `scores` along axis 1 at `labels`. ONNX `SoftmaxCrossEntropyLoss`.

    The losses are weighted by the `weights` of their labels, and those labelled `ignore_index` count for nothing; the
    mean is the sum of what remains divided by the sum of the weights. On request, the second result is the logarithm
    of the softmax.

    %loss = SoftmaxCrossEntropyLoss(%scores: Tensor[Float32, (2, 5), 1], %labels: Tensor[Int64, (2,), 1])
    %loss, %log_prob = SoftmaxCrossEntropyLoss(%scores: Tensor[Float32, (2, 5), 1], %labels: Tensor[Int64, (2,), 1])
    """
    log_prob = log_softmax(wide(scores), 1)
    label_weights = _label_weights("SoftmaxCrossEntropyLoss", log_prob, labels, weights, ignore_index)
    loss = _likelihood_loss(log_prob, labels, label_weights, reduction)
    return [loss.astype(scores.dtype, copy=False), log_prob.astype(scores.dtype, copy=False)][:count]


@SoftmaxCrossEntropyLoss.shapes
def _(
    scores: TensorType, labels: TensorType, weights: TensorType | None = None, *, count: int, **attrs: Any
) -> list[Shape | None]:
    if count > 2:
        message = f"`SoftmaxCrossEntropyLoss` gives 2 results at most, found {count} names"
        raise Reject(name_codes.RESULT_COUNT, message, Part("result", 2))
    loss = _reduced_shape("SoftmaxCrossEntropyLoss", _labels_shape(scores, labels), attrs["reduction"])
    return [loss, _scores_shape(scores, labels)][:count]


@op(
    "Tensor[t:float, _, d], Tensor[t:float, (n, c, *s), d], Tensor[i:int, (n, *s), d],"
    " Optional[Tensor[t:float, (c,), d]] -> Tensor[t, (n, c, *s), d]",
    flops=lambda n=1, c=1, s=1, **_: n * s * (7 * c + 1),
)
def SoftmaxCrossEntropyLossGrad(
    dy: Array,
    scores: Array,
    labels: Array,
    weights: Array | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Array:
    """The gradient of `SoftmaxCrossEntropyLoss` with respect to the scores: softmax minus 1 at the labels, weighted.

    %dx = SoftmaxCrossEntropyLossGrad(%dy: Float32[1], %scores: Tensor[Float32, (2, 5), 1], %labels: Tensor[Int64, (2,), 1])
    """  # noqa: E501 - an example is one line
    log_prob = log_softmax(wide(scores), 1)
    label_weights = _label_weights("SoftmaxCrossEntropyLossGrad", log_prob, labels, weights, ignore_index)
    slope = np.exp(log_prob) - _at_labels(log_prob, labels)
    scale = np.expand_dims(_loss_gradient(dy, label_weights, reduction), 1)
    return (scale * slope).astype(scores.dtype, copy=False)


@SoftmaxCrossEntropyLossGrad.checks
def _(dy: TensorType, scores: TensorType, labels: TensorType, *_: object, reduction: str, **attrs: Any) -> None:
    _check_gradient("SoftmaxCrossEntropyLossGrad", dy, _labels_shape(scores, labels), reduction)


@op(
    "Tensor[t:float, (n, c, *s), d], Tensor[i:int, (n, *s), d], Optional[Tensor[t:float, (c,), d]] -> Tensor[t, _, d]",
    flops=lambda n=1, s=1, **_: 2 * n * s,
    bytes=lambda n=1, c=1, s=1, t=1, i=1, elements=0, **_: n * s * (t + i) + elements * t,
)
def NegativeLogLikelihoodLoss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Array:
    """Minus `input`, logarithms of probabilities along axis 1, at `target`. ONNX `NegativeLogLikelihoodLoss`.

    Weights and `ignore_index` are as in `SoftmaxCrossEntropyLoss`.

    %loss = NegativeLogLikelihoodLoss(%log_prob: Tensor[Float32, (2, 5), 1], %labels: Tensor[Int64, (2,), 1])
    """
    log_prob = wide(input)
    label_weights = _label_weights("NegativeLogLikelihoodLoss", log_prob, target, weight, ignore_index)
    return _likelihood_loss(log_prob, target, label_weights, reduction).astype(input.dtype, copy=False)


@NegativeLogLikelihoodLoss.shapes
def _(input: TensorType, target: TensorType, *_: object, reduction: str, **attrs: Any) -> Shape | None:
    return _reduced_shape("NegativeLogLikelihoodLoss", _labels_shape(input, target), reduction)


@op(
    "Tensor[t:float, _, d], Tensor[t:float, (n, c, *s), d], Tensor[i:int, (n, *s), d],"
    " Optional[Tensor[t:float, (c,), d]] -> Tensor[t, (n, c, *s), d]",
    flops=lambda n=1, s=1, **_: 2 * n * s,
    bytes=lambda n=1, c=1, s=1, t=1, i=1, **_: n * s * (i + t + c * t),
)
def NegativeLogLikelihoodLossGrad(
    dy: Array,
    input: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Array:
    """The gradient of `NegativeLogLikelihoodLoss` with respect to `input`: minus the weight at `target`, else 0.

    %dx = NegativeLogLikelihoodLossGrad(%dy: Float32[1], %log_prob: Tensor[Float32, (2, 5), 1], %labels: Tensor[Int64, (2,), 1])
    """  # noqa: E501 - an example is one line
    log_prob = wide(input)
    label_weights = _label_weights("NegativeLogLikelihoodLossGrad", log_prob, target, weight, ignore_index)
    scale = np.expand_dims(_loss_gradient(dy, label_weights, reduction), 1)
    return (-scale * _at_labels(log_prob, target)).astype(input.dtype, copy=False)


@NegativeLogLikelihoodLossGrad.checks
def _(dy: TensorType, input: TensorType, target: TensorType, *_: object, reduction: str, **attrs: Any) -> None:
    _check_gradient("NegativeLogLikelihoodLossGrad", dy, _labels_shape(input, target), reduction)


@op("Tensor[t:float, s, d], Tensor[t:float, s, d] -> Tensor[t, _, d]", flops=lambda s, **_: 3 * s)
def MSELoss(prediction: Array, target: Array, *, reduction: str = "mean") -> Array:
    """The squares of `prediction - target`: their mean, their sum, or each of them.

    %loss = MSELoss(%prediction: Tensor[Float32, (2, 3), 1], %target: Tensor[Float32, (2, 3), 1])
    """
    squares = np.square(wide(prediction) - wide(target))
    return _reduced(squares, reduction, squares.size).astype(prediction.dtype, copy=False)


@MSELoss.shapes
def _(prediction: TensorType, target: TensorType, *, reduction: str) -> Shape | None:
    return _reduced_shape("MSELoss", _same_shape(prediction, target), reduction)


@op(
    "Tensor[t:float, _, d], Tensor[t:float, s, d], Tensor[t:float, s, d] -> Tensor[t, s, d]",
    flops=2,
)
def MSELossGrad(dy: Array, prediction: Array, target: Array, *, reduction: str = "mean") -> Array:
    """The gradient of `MSELoss` with respect to the prediction; with respect to the target it is the negative.

    %dx = MSELossGrad(%dy: Float32[1], %prediction: Tensor[Float32, (2, 3), 1], %target: Tensor[Float32, (2, 3), 1])
    """
    difference = wide(prediction) - wide(target)
    scale = 2 * wide(dy) / (max(prediction.size, 1) if reduction == "mean" else 1)
    return (scale * difference).astype(prediction.dtype, copy=False)


@MSELossGrad.checks
def _(dy: TensorType, prediction: TensorType, target: TensorType, *, reduction: str) -> None:
    _check_gradient("MSELossGrad", dy, _same_shape(prediction, target), reduction)


def _at_labels(log_prob: Array, labels: Array) -> Array:
    """Whether a place along axis 1 is the one that the label names."""
    classes: Array = np.arange(log_prob.shape[1], dtype=np.int64)
    return np.expand_dims(labels, 1) == np.expand_dims(classes, tuple(range(1, labels.ndim)))


def _label_weights(name: str, log_prob: Array, labels: Array, weights: Array | None, ignore_index: int | None) -> Array:
    """What each label counts: its weight, or 0 where it is to be ignored. Raises Reject for what is no label."""
    counts = np.ones(labels.shape, bool) if ignore_index is None else labels != ignore_index
    classes = log_prob.shape[1]
    wrong = labels[counts & ((labels < 0) | (labels >= classes))]
    if wrong.size:
        message = f"`{name}` expected labels from 0 to {classes - 1}, found {wrong[0]}"
        raise Reject(codes.BAD_VALUE, message, Part("callee"))
    if weights is None:
        return counts.astype(log_prob.dtype)
    by_class = wide(weights).reshape(-1, *(1,) * (labels.ndim - 1))
    return np.sum(np.broadcast_to(by_class, log_prob.shape), axis=1, where=_at_labels(log_prob, labels)) * counts


def _likelihood_loss(log_prob: Array, labels: Array, label_weights: Array, reduction: str) -> Array:
    at_labels = np.sum(log_prob, axis=1, where=_at_labels(log_prob, labels))
    losses = np.where(label_weights == 0, 0, -label_weights * at_labels)  # an ignored infinity is 0, too
    return _reduced(losses, reduction, np.sum(label_weights))


def _reduced(losses: Array, reduction: str, divisor: Any) -> Array:
    if reduction == "none":
        return losses
    total = np.sum(losses, dtype=losses.dtype)
    return np.asarray(total / divisor if reduction == "mean" else total, losses.dtype)


def _loss_gradient(dy: Array, label_weights: Array, reduction: str) -> Array:
    """The gradient with respect to each unweighted loss."""
    return wide(dy) * label_weights / (np.sum(label_weights) if reduction == "mean" else 1)


def _labels_shape(scores: TensorType, labels: TensorType) -> Shape | None:
    """The shape of one loss per label, from whatever is known of either."""
    if scores.shape is None:
        return labels.shape
    return _met((scores.shape[0], *scores.shape[2:]), labels.shape)


def _scores_shape(scores: TensorType, labels: TensorType) -> Shape | None:
    if scores.shape is None:
        return None if labels.shape is None else (labels.shape[0], None, *labels.shape[1:])
    losses = _met((scores.shape[0], *scores.shape[2:]), labels.shape)
    return (losses[0], scores.shape[1], *losses[1:])


def _same_shape(a: TensorType, b: TensorType) -> Shape | None:
    return b.shape if a.shape is None else _met(a.shape, b.shape)


def _met(a: Shape, b: Shape | None) -> Shape:
    """Two shapes that agree, with what is known of either."""
    return a if b is None else tuple(n if m is None else m for m, n in zip(a, b, strict=True))


def _reduced_shape(name: str, losses: Shape | None, reduction: str) -> Shape | None:
    if reduction not in REDUCTIONS:
        message = f'`{name}` expected "mean", "sum" or "none" as `reduction`, found "{reduction}"'
        raise Reject(codes.BAD_VALUE, message, "reduction")
    return losses if reduction == "none" else ()


def _check_gradient(name: str, dy: TensorType, losses: Shape | None, reduction: str) -> None:
    expected = _reduced_shape(name, losses, reduction)
    if dy.shape is None or expected is None:
        return
    agree = all(m == n or None in (m, n) for m, n in zip(dy.shape, expected, strict=False))
    if len(dy.shape) != len(expected) or not agree:
        message = f"`{name}` expected a gradient of shape {types.show_shape(expected)}"
        hint = f'the loss has this shape where `reduction = "{reduction}"`'
        raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {types.show_shape(dy.shape)}", "dy", help=hint)
