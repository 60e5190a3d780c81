"""Losses and their gradients. Element types narrower than Float32 are computed in Float32.

The operand `dy` of a gradient op is the gradient of the loss: a scalar, or a tensor if `reduction = "none"`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Arg, DType, Literal, Part, Shape, TensorType, types
from distir.ops.activation import as_stored, is_narrow, log_softmax, parted_softmax, softmax_of_pieces
from distir.ops.attributes import check_word
from distir.ops.core import op
from distir.ops.layout import Layout, Letters, Parts, elementwise
from distir.ops.numeric import Array, dense, np
from distir.ops.precision import wide
from distir.ops.specs import FIRST_ORDER_ONLY
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients, Rewrite
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Unpacked, Write


REDUCTIONS = ("mean", "sum", "none")

ALONG_CLASSES = Literal((1,))

_LABELLED_GRADIENT = (
    "Tensor[t:float, _, d], Tensor[t:float, (n, c, *s), d], Tensor[i:int, (n, *s), d],"
    " Optional[Tensor[t:float, (c,), d]] -> Tensor[t, (n, c, *s), d]"
)
"""The signature of the gradients of losses over labels."""


def _labelled_check(name: str) -> Callable[..., None]:
    def check(dy: TensorType, scores: TensorType, labels: TensorType, *_: object, reduction: str, **attrs: Any) -> None:
        _check_gradient(name, dy, _labels_shape(scores, labels), reduction)

    return check


def _gradient_form(kernel: str) -> Callable[..., str]:
    def form(
        write: Write,
        dy: Expr,
        x: Expr,
        labels: Expr,
        weights: Expr | None = None,
        *,
        ignore_index: int | None = None,
        reduction: str,
    ) -> str:
        given = f"{dy}, {x}, {_torch_labels(labels)}, {weights}"
        return f"{write.kernel(kernel)}({given}, {ignore_index}, {reduction == 'mean'})"

    return form


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
    """The negative log softmax of the logits `scores`, along axis 1, at `labels`. ONNX `SoftmaxCrossEntropyLoss`.

    Each loss is multiplied with the weight of its label, which is 0 for the label `ignore_index`. The mean is the sum
    of the weighted losses divided by the sum of the weights. The optional second result is the log softmax.

    %loss = SoftmaxCrossEntropyLoss(%scores: Tensor[Float32, (2, 5), 1], %labels: Tensor[Int64, (2,), 1])
    %loss, %log_prob = SoftmaxCrossEntropyLoss(%scores: Tensor[Float32, (2, 5), 1], %labels: Tensor[Int64, (2,), 1])
    """
    log_prob = log_softmax(wide(scores), 1)
    label_weights = _label_weights("SoftmaxCrossEntropyLoss", log_prob, labels, weights, ignore_index)
    loss = _likelihood_loss(log_prob, labels, label_weights, reduction)
    return [loss.astype(scores.dtype, copy=False), log_prob.astype(scores.dtype, copy=False)][:count]


@SoftmaxCrossEntropyLoss.pieces
def _(
    p: Pieces,
    scores: Piece,
    labels: Piece,
    weights: Piece | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str,
) -> Any:
    """The logarithm of the sum of exponentials, less the logits at the labels."""
    if weights is not None:
        return NotImplemented
    shifted, logarithm = softmax_of_pieces(p, scores, 1)
    at_labels = p("GatherElements", shifted, p.unsqueezed(labels, (1,)), axis=1)
    loss = p.squeezed(p.sum((1.0, logarithm), (-1.0, at_labels)), (1,))
    loss = _reduced_in_parts(p, loss, labels, ignore_index, reduction, p.dtype(loss))
    found = [loss, p.sum((1.0, shifted), (-1.0, logarithm))]
    return [p.cast(x, p.dtype(scores)) for x in found[: p.count]]


@SoftmaxCrossEntropyLoss.shapes
def _(
    scores: TensorType, labels: TensorType, weights: TensorType | None = None, *, count: int, **attrs: Any
) -> list[Shape | None]:
    if count > 2:
        message = f"`SoftmaxCrossEntropyLoss` gives 2 results at most, found {count} names"
        raise Reject(name_codes.RESULT_COUNT, message, Part("result", 2))
    loss = _reduced_shape("SoftmaxCrossEntropyLoss", _labels_shape(scores, labels), attrs["reduction"])
    return [loss, _logits_shape(scores, labels)][:count]


def _split_labelled(gradient: bool, softmax: bool) -> Callable[..., Layout]:
    """The `sharding` rule of losses over labels. With `softmax`, the dimension of classes may be split, too."""

    def rule(*operands: TensorType | None, results: tuple[Shape | None, ...], **attrs: Any) -> Layout:
        scores, labels = operands[gradient : gradient + 2]
        assert scores is not None
        assert labels is not None
        weights_given = len(operands) > 2 + gradient
        weighted = weights_given or attrs.get("ignore_index") is not None
        mean, each_alone = attrs["reduction"] == "mean", attrs["reduction"] == "none"
        rank = len(labels.shape or ())
        # The sum of the weights of one part is unknown.
        examples: Letters = tuple(None if mean and weighted else f"s{k}" for k in range(rank))
        classes = "c" if softmax and not weights_given else None
        full = (*examples[:1], classes, *examples[1:])
        slope: tuple[Letters, ...] = (examples if each_alone else (),) if gradient else ()
        weights: tuple[Letters, ...] = ((None,),) * (len(operands) - 2 - gradient)
        first = full if gradient else examples if each_alone else ()
        averaged = frozenset(e for e in examples if e) if mean else frozenset[str]()
        return Layout(
            (*slope, full, examples, *weights),
            (first, full)[: len(results)],
            averaged,
            scaled=0 if gradient else None,
            parted=frozenset({classes} if classes else ()),
            positions=1 + gradient,
        )

    return rule


SoftmaxCrossEntropyLoss.sharding(_split_labelled(gradient=False, softmax=True))


@SoftmaxCrossEntropyLoss.parted
def _(w: Parts, scores: Arg, labels: Arg, *, ignore_index: int | None = None, reduction: str, count: int) -> list[Arg]:
    """Vocabulary-parallel cross entropy, which gathers no logits (Shoeybi et al., *Megatron-LM*, section 3)."""
    shifted, logarithm = parted_softmax(w, scores, 1)
    own, here = w.own(labels, _classes(w, scores))
    at_label = w("GatherElements", shifted, w("Unsqueeze", own, ALONG_CLASSES), axis=1)
    mine = w("Where", here, w("Squeeze", at_label, ALONG_CLASSES), Literal(0.0))
    share = w("Mul", w("Squeeze", logarithm, ALONG_CLASSES), Literal(1 / w.size))  # the devices' shares add up
    loss = w("Sub", share, mine)
    loss = _reduced_in_parts(w, loss, labels, ignore_index, reduction, _wide_type(w, scores))
    found = [loss, w("Sub", shifted, logarithm)] if count > 1 else [loss]
    return [as_stored(w, x, scores) for x in found]


@SoftmaxCrossEntropyLoss.grad
def _(g: Backward) -> Gradients:
    _no_gradient_of_weights(g)
    parts: list[str] = []
    if g.dys[0] is not None:
        parts.append(g("SoftmaxCrossEntropyLossGrad", g.dy, *g.x, **g.statement.attrs))
    if len(g.dys) > 1 and g.dys[1] is not None:
        parts.append(g("LogSoftmaxGrad", g.dys[1], g.y[1], axis=1))
    return [g.total(parts), None, None]


@SoftmaxCrossEntropyLoss.decomposition
def _(g: Rewrite) -> list[str]:
    """The log softmax, and the likelihood of the labels."""
    scores, *labels = g.x
    log_prob = g("LogSoftmax", scores, axis=1)
    return [g("NegativeLogLikelihoodLoss", log_prob, *labels, **g.statement.attrs), log_prob][: len(g.y)]


@SoftmaxCrossEntropyLoss.torch(fresh=True)
def _(
    write: Write,
    scores: Expr,
    labels: Expr,
    weights: Expr | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str,
) -> str | Unpacked:
    settings = _torch_settings(weights, ignore_index, reduction)
    if len(write.results) == 1:
        return write.narrowed(f"F.cross_entropy({scores.wide}, {_torch_labels(labels)}{settings})", scores.dtype)
    return write.unpacked(f"{write.kernel('cross_entropy_and_log_prob')}({scores}, {_torch_labels(labels)}{settings})")


@op(_LABELLED_GRADIENT, flops=lambda n=1, c=1, s=1, **_: n * s * (7 * c + 1), non_differentiable=FIRST_ORDER_ONLY)
def SoftmaxCrossEntropyLossGrad(
    dy: Array,
    scores: Array,
    labels: Array,
    weights: Array | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Array:
    """The gradient of `SoftmaxCrossEntropyLoss` with respect to the logits: softmax minus 1 at the labels, weighted.

    %dx = SoftmaxCrossEntropyLossGrad(%dy: Float32[1], %scores: Tensor[Float32, (2, 5), 1], %labels: Tensor[Int64, (2,), 1])
    """  # noqa: E501 - an example is one line
    log_prob = log_softmax(wide(scores), 1)
    label_weights = _label_weights("SoftmaxCrossEntropyLossGrad", log_prob, labels, weights, ignore_index)
    slope = np.exp(log_prob) - _at_labels(log_prob, labels)
    scale = np.expand_dims(_loss_gradient(dy, label_weights, reduction), 1)
    return (scale * slope).astype(scores.dtype, copy=False)


@SoftmaxCrossEntropyLossGrad.pieces
def _(
    p: Pieces,
    dy: Piece,
    scores: Piece,
    labels: Piece,
    weights: Piece | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str,
) -> Any:
    """The softmax less 1 at the labels, times the gradient of the loss."""
    if weights is not None:
        return NotImplemented
    shifted, logarithm = softmax_of_pieces(p, scores, 1)
    ends = dense((0.0, 1.0), p.dtype(shifted))
    at_labels = p("OneHot", labels, Literal(p.shape(scores)[1]), ends, axis=1)
    slope = p.sum((1.0, p("Exp", p.sum((1.0, shifted), (-1.0, logarithm)))), (-1.0, at_labels))
    scale = p.cast(dy, p.dtype(shifted))
    if ignore_index is not None:
        scale = _scale_of_counted(p, scale, labels, ignore_index, reduction, p.dtype(shifted))
    if reduction == "none" or ignore_index is not None:
        scale = p.unsqueezed(scale, (1,))
    elif reduction == "mean":
        scale = p.sum((1 / max(1, math.prod(p.shape(labels))), scale))
    return [p.cast(p("Mul", slope, scale), p.dtype(scores))]


SoftmaxCrossEntropyLossGrad.checks(_labelled_check("SoftmaxCrossEntropyLossGrad"))
SoftmaxCrossEntropyLossGrad.sharding(_split_labelled(gradient=True, softmax=True))


@SoftmaxCrossEntropyLossGrad.parted
def _(w: Parts, dy: Arg, scores: Arg, labels: Arg, *, ignore_index: int | None = None, reduction: str) -> list[Arg]:
    """The softmax minus 1 at the labels, each device for its own classes."""
    shifted, logarithm = parted_softmax(w, scores, 1)
    classes = _classes(w, scores)
    own, here = w.own(labels, classes)
    ends = Literal(dense((0.0, 1.0), _wide_type(w, scores)))
    ones = w("OneHot", own, Literal(classes // w.size), ends, axis=1)
    at_labels = w("Where", w("Unsqueeze", here, ALONG_CLASSES), ones, Literal(0.0))
    slope = w("Sub", w("Exp", w("Sub", shifted, logarithm)), at_labels)
    scale = w("Cast", dy, to=_wide_type(w, scores)) if is_narrow(w, scores) else dy
    if ignore_index is not None:
        scale = _scale_of_counted(w, scale, labels, ignore_index, reduction, _wide_type(w, scores))
    elif reduction == "mean":
        scale = _over_examples(w, dy, scale, labels, _wide_type(w, scores))
    if reduction == "none" or ignore_index is not None:
        scale = w("Unsqueeze", scale, ALONG_CLASSES)
    return [as_stored(w, w("Mul", slope, scale), scores)]


@SoftmaxCrossEntropyLossGrad.decomposition
def _(g: Rewrite) -> list[str]:
    """The gradients of both, with the log softmax computed again."""
    dy, scores, *labels = g.x
    log_prob = g("LogSoftmax", scores, axis=1)
    dlog_prob = g("NegativeLogLikelihoodLossGrad", dy, log_prob, *labels, **g.statement.attrs)
    return [g("LogSoftmaxGrad", dlog_prob, log_prob, axis=1)]


SoftmaxCrossEntropyLossGrad.torch(_gradient_form("cross_entropy_gradient"), fresh=True)


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
    """The negative of `input`, log probabilities along axis 1, at `target`. ONNX `NegativeLogLikelihoodLoss`.

    Weights and `ignore_index` are as in `SoftmaxCrossEntropyLoss`.

    %loss = NegativeLogLikelihoodLoss(%log_prob: Tensor[Float32, (2, 5), 1], %labels: Tensor[Int64, (2,), 1])
    """
    log_prob = wide(input)
    label_weights = _label_weights("NegativeLogLikelihoodLoss", log_prob, target, weight, ignore_index)
    return _likelihood_loss(log_prob, target, label_weights, reduction).astype(input.dtype, copy=False)


@NegativeLogLikelihoodLoss.shapes
def _(input: TensorType, target: TensorType, *_: object, reduction: str, **attrs: Any) -> Shape | None:
    return _reduced_shape("NegativeLogLikelihoodLoss", _labels_shape(input, target), reduction)


NegativeLogLikelihoodLoss.sharding(_split_labelled(gradient=False, softmax=False))


@NegativeLogLikelihoodLoss.grad
def _(g: Backward) -> Gradients:
    _no_gradient_of_weights(g)
    return [g("NegativeLogLikelihoodLossGrad", g.dy, *g.x, **g.statement.attrs), None, None]


@NegativeLogLikelihoodLoss.torch(fresh=True)
def _(
    write: Write,
    input: Expr,
    target: Expr,
    weight: Expr | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str,
) -> str:
    settings = _torch_settings(weight, ignore_index, reduction)
    return write.narrowed(f"F.nll_loss({input.wide}, {_torch_labels(target)}{settings})", input.dtype)


@op(
    _LABELLED_GRADIENT,
    flops=lambda n=1, s=1, **_: 2 * n * s,
    bytes=lambda n=1, c=1, s=1, t=1, i=1, **_: n * s * (i + t + c * t),
    non_differentiable=FIRST_ORDER_ONLY,
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


NegativeLogLikelihoodLossGrad.checks(_labelled_check("NegativeLogLikelihoodLossGrad"))
NegativeLogLikelihoodLossGrad.sharding(_split_labelled(gradient=True, softmax=False))
NegativeLogLikelihoodLossGrad.torch(_gradient_form("likelihood_gradient"), fresh=True)


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


@MSELoss.sharding
def _(prediction: TensorType, target: TensorType, *, results: tuple[Shape | None, ...], reduction: str) -> Layout:
    letters, loss, averaged = _split_squares(prediction, reduction)
    return Layout((letters, letters), (loss,), averaged)


@MSELoss.grad
def _(g: Backward) -> Gradients:
    dprediction = g("MSELossGrad", g.dy, *g.x, **g.statement.attrs)
    return [dprediction, g("Neg", dprediction)]


@MSELoss.torch(fresh=True)
def _(write: Write, prediction: Expr, target: Expr, *, reduction: str) -> str:
    if not prediction.elements and reduction == "mean":
        return f'torch.full((), float("nan"), dtype={write.dtype(prediction.dtype)}, device=DEVICE)'
    return write.narrowed(f"F.mse_loss({prediction.wide}, {target.wide}, reduction={reduction!r})", prediction.dtype)


@op(
    "Tensor[t:float, _, d], Tensor[t:float, s, d], Tensor[t:float, s, d] -> Tensor[t, s, d]",
    flops=2,
    non_differentiable=FIRST_ORDER_ONLY,
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


@MSELossGrad.sharding
def _(
    dy: TensorType, prediction: TensorType, target: TensorType, *, results: tuple[Shape | None, ...], reduction: str
) -> Layout:
    letters, loss, averaged = _split_squares(prediction, reduction)
    return Layout((loss, letters, letters), (letters,), averaged, scaled=0)


OF_ATEN = ("none", "mean", "sum")
"""The reductions in the order in which ATen numbers them."""


@MSELossGrad.torch(fresh=True)
def _(write: Write, dy: Expr, prediction: Expr, target: Expr, *, reduction: str) -> str:
    """As autograd calls it, so that profiles of models that are not lowered line up."""
    scale = f"{dy.tensor}.float()" if dy.narrow else dy.tensor
    operands = f"{scale}, {prediction.wide}, {target.wide}"
    return write.narrowed(f"aten.mse_loss_backward({operands}, {OF_ATEN.index(reduction)})", prediction.dtype)


def _split_squares(prediction: TensorType, reduction: str) -> tuple[Letters, Letters, frozenset[str]]:
    """The letters of the operands, those of the loss, and those over which the loss is a mean."""
    (letters,) = elementwise([prediction.shape])
    averaged = frozenset(letter for letter in letters if letter) if reduction == "mean" else frozenset[str]()
    return letters, letters if reduction == "none" else (), averaged


def _at_labels(log_prob: Array, labels: Array) -> Array:
    """A one-hot mask of the labels along axis 1."""
    classes: Array = np.arange(log_prob.shape[1], dtype=np.int64)
    return np.expand_dims(labels, 1) == np.expand_dims(classes, tuple(range(1, labels.ndim)))


def _label_weights(name: str, log_prob: Array, labels: Array, weights: Array | None, ignore_index: int | None) -> Array:
    """The weight of each label, 0 for ignored ones. Raises Reject for a label out of range."""
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
    """The gradients of the unweighted losses."""
    return wide(dy) * label_weights / (np.sum(label_weights) if reduction == "mean" else 1)


def _labels_shape(logits: TensorType, labels: TensorType) -> Shape | None:
    """The shape of the losses of all labels, combined from both operands."""
    if logits.shape is None:
        return labels.shape
    return _met((logits.shape[0], *logits.shape[2:]), labels.shape)


def _logits_shape(logits: TensorType, labels: TensorType) -> Shape | None:
    if logits.shape is None:
        return None if labels.shape is None else (labels.shape[0], None, *labels.shape[1:])
    losses = _met((logits.shape[0], *logits.shape[2:]), labels.shape)
    return (losses[0], logits.shape[1], *losses[1:])


def _same_shape(a: TensorType, b: TensorType) -> Shape | None:
    return b.shape if a.shape is None else _met(a.shape, b.shape)


def _met(a: Shape, b: Shape | None) -> Shape:
    """Two shapes combined: unknown dimensions of one are those of the other."""
    return a if b is None else tuple(n if m is None else m for m, n in zip(a, b, strict=True))


def _reduced_shape(name: str, losses: Shape | None, reduction: str) -> Shape | None:
    check_word(name, "reduction", reduction, REDUCTIONS)
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


def _no_gradient_of_weights(g: Backward) -> None:
    if g.wants(2):
        raise g.refuse(f"`{g.op.name}` has no gradient for its class weights")


NO_LABEL = -100
"""torch's default `ignore_index`. No label is negative."""


def _torch_labels(labels: Expr) -> str:
    return labels.tensor if labels.dtype.name == "Int64" else f"{labels.tensor}.long()"


def _torch_settings(weights: Expr | None, ignore_index: int | None, reduction: str) -> str:
    text = "" if weights is None else f", weight={weights.wide}"
    ignored = NO_LABEL if ignore_index is None else ignore_index
    return f"{text}, ignore_index={ignored}, reduction={reduction!r}"


def _reduced_in_parts(
    write: Callable[..., Any], loss: Any, labels: Any, ignore_index: int | None, reduction: str, dtype: DType | None
) -> Any:
    """The loss of each label, reduced; ignored ones do not count. `dtype`: in which they are counted."""
    if ignore_index is None:
        return loss if reduction == "none" else write(f"Reduce{reduction.title()}", loss, keepdims=False)
    counts = _counts(write, labels, ignore_index)
    loss = write("Where", counts, loss, Literal(0.0))
    if reduction != "none":
        loss = write("ReduceSum", loss, keepdims=False)
    return loss if reduction != "mean" else write("Div", loss, _number(write, counts, dtype))


def _over_examples(w: Parts, dy: Arg, scale: Arg, labels: Arg, dtype: DType) -> Arg:
    """The gradient of each example's loss; where numbers are known, their quotient, which no element type rounds."""
    examples = w.type(labels).elements
    if not isinstance(examples, int):
        return w("Div", scale, w("Cast", w("Size", labels), to=dtype))
    if isinstance(dy, Literal) and isinstance(dy.value, float):
        return Literal(dy.value / max(1, examples))
    return w("Div", scale, Literal(float(examples)))


def _scale_of_counted(
    write: Callable[..., Any], scale: Any, labels: Any, ignore_index: int, reduction: str, dtype: DType | None
) -> Any:
    """By what each label's slope is multiplied: zero for ignored ones."""
    counts = _counts(write, labels, ignore_index)
    if reduction == "mean":
        scale = write("Div", scale, _number(write, counts, dtype))
    return write("Where", counts, scale, Literal(0.0))


def _counts(write: Callable[..., Any], labels: Any, ignore_index: int) -> Any:
    return write("Not", write("Equal", labels, Literal(ignore_index)))


def _number(write: Callable[..., Any], counts: Any, dtype: DType | None) -> Any:
    return write("ReduceSum", write("Cast", counts, to=dtype), keepdims=False)


def _classes(w: Parts, logits: Arg) -> int:
    shape = w.type(logits).shape
    assert shape is not None
    assert isinstance(shape[1], int)
    return shape[1]


def _wide_type(w: Parts, logits: Arg) -> DType:
    dtype = w.type(logits).dtype
    return DTYPES["Float32"] if dtype is None or is_narrow(w, logits) else dtype
