"""How losses are split over devices: examples may be apart from each other, and with a softmax the classes too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distir.ir import DTYPES, Arg, DType, Literal, Shape, TensorType
from distir.ops.layout import Layout, Letters, Parts, elementwise
from distir.ops.loss import (
    MSELoss,
    MSELossGrad,
    NegativeLogLikelihoodLoss,
    NegativeLogLikelihoodLossGrad,
    SoftmaxCrossEntropyLoss,
    SoftmaxCrossEntropyLossGrad,
)
from distir.ops.numeric import dense


def _split_labelled(gradient: bool, softmax: bool) -> Callable[..., Layout]:
    """The rule for losses over labels; with `softmax` there is a rule for classes in parts, too."""

    def rule(*operands: TensorType | None, results: tuple[Shape | None, ...], **attrs: Any) -> Layout:
        scores, labels = operands[gradient : gradient + 2]
        assert scores is not None
        assert labels is not None
        weighted = len(operands) > 2 + gradient or attrs.get("ignore_index") is not None
        mean, each_alone = attrs["reduction"] == "mean", attrs["reduction"] == "none"
        rank = len(labels.shape or ())
        # How much the labels of one part weigh is not known.
        examples: Letters = tuple(None if mean and weighted else f"s{k}" for k in range(rank))
        counted = not mean or isinstance(labels.elements, int)
        classes = "c" if softmax and not weighted and counted else None
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
            parted=classes,
        )

    return rule


SoftmaxCrossEntropyLoss.sharding(_split_labelled(gradient=False, softmax=True))
SoftmaxCrossEntropyLossGrad.sharding(_split_labelled(gradient=True, softmax=True))
NegativeLogLikelihoodLoss.sharding(_split_labelled(gradient=False, softmax=False))
NegativeLogLikelihoodLossGrad.sharding(_split_labelled(gradient=True, softmax=False))

ALONG_CLASSES = Literal((1,))


@SoftmaxCrossEntropyLoss.parted
def _(w: Parts, scores: Arg, labels: Arg, *, reduction: str, count: int, **_: Any) -> list[Arg]:
    """Classes in parts, without bringing the scores together (Shoeybi et al., *Megatron-LM*, section 3)."""
    shifted, logarithm = _parted_softmax(w, scores)
    own, here = w.own(labels, _classes(w, scores))
    at_label = w("GatherElements", shifted, w("Unsqueeze", own, ALONG_CLASSES), axis=1)
    mine = w("Where", here, w("Squeeze", at_label, ALONG_CLASSES), Literal(0.0))
    share = w("Mul", w("Squeeze", logarithm, ALONG_CLASSES), Literal(1 / w.size))  # the devices' shares add up
    loss = w("Sub", share, mine)
    if reduction != "none":
        loss = w("ReduceSum" if reduction == "sum" else "ReduceMean", loss, keepdims=False)
    found = [loss, w("Sub", shifted, logarithm)] if count > 1 else [loss]
    return [_narrowed(w, x, scores) for x in found]


@SoftmaxCrossEntropyLossGrad.parted
def _(w: Parts, dy: Arg, scores: Arg, labels: Arg, *, reduction: str, **_: Any) -> list[Arg]:
    """The softmax minus 1 at the labels, each device for its own classes."""
    shifted, logarithm = _parted_softmax(w, scores)
    classes = _classes(w, scores)
    own, here = w.own(labels, classes)
    ends = Literal(dense((0.0, 1.0), _wide(w, scores)))
    ones = w("OneHot", own, Literal(classes // w.size), ends, axis=1)
    at_labels = w("Where", w("Unsqueeze", here, ALONG_CLASSES), ones, Literal(0.0))
    slope = w("Sub", w("Exp", w("Sub", shifted, logarithm)), at_labels)
    scale = w("Cast", dy, to=_wide(w, scores)) if _is_narrow(w, scores) else dy
    if reduction == "none":
        scale = w("Unsqueeze", scale, ALONG_CLASSES)
    elif reduction == "mean":
        examples = w.type(labels).elements
        assert isinstance(examples, int)
        scale = w("Div", scale, Literal(float(examples)))
    return [_narrowed(w, w("Mul", slope, scale), scores)]


def _parted_softmax(w: Parts, scores: Arg) -> tuple[Arg, Arg]:
    """The scores minus the greatest one of each example; and the logarithm of the sum of their exponentials."""
    wide = w("Cast", scores, to=_wide(w, scores)) if _is_narrow(w, scores) else scores
    shifted = w("Sub", wide, w.greatest(w("ReduceMax", wide, ALONG_CLASSES), axis=1))
    return shifted, w("Log", w.sum(w("ReduceSum", w("Exp", shifted), ALONG_CLASSES)))


def _classes(w: Parts, scores: Arg) -> int:
    shape = w.type(scores).shape
    assert shape is not None
    assert isinstance(shape[1], int)
    return shape[1]


def _wide(w: Parts, scores: Arg) -> DType:
    dtype = w.type(scores).dtype
    return DTYPES["Float32"] if dtype is None or _is_narrow(w, scores) else dtype


def _is_narrow(w: Parts, scores: Arg) -> bool:
    dtype = w.type(scores).dtype
    return dtype is not None and dtype.bytes < DTYPES["Float32"].bytes


def _narrowed(w: Parts, x: Arg, scores: Arg) -> Arg:
    dtype = w.type(scores).dtype
    return w("Cast", x, to=dtype) if dtype is not None and _is_narrow(w, scores) else x


@MSELoss.sharding
def _(prediction: TensorType, target: TensorType, *, results: tuple[Shape | None, ...], reduction: str) -> Layout:
    (letters,) = elementwise([prediction.shape])
    averaged = frozenset(letter for letter in letters if letter) if reduction == "mean" else frozenset[str]()
    return Layout((letters, letters), (letters if reduction == "none" else (),), averaged)


@MSELossGrad.sharding
def _(
    dy: TensorType, prediction: TensorType, target: TensorType, *, results: tuple[Shape | None, ...], reduction: str
) -> Layout:
    (letters,) = elementwise([prediction.shape])
    averaged = frozenset(letter for letter in letters if letter) if reduction == "mean" else frozenset[str]()
    slope = letters if reduction == "none" else ()
    return Layout((slope, letters, letters), (letters,), averaged, scaled=0)
