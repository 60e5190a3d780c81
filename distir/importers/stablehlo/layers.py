"""Rules for operations that are layers of their own: normalization over a batch, and convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from distir.importers.stablehlo.elementwise import into_sizes, number_like
from distir.importers.stablehlo.tensors import tensor_type
from distir.importers.stablehlo.text import Braces, MlirOperation, MlirWord, lists, refuse
from distir.importers.stablehlo.translating import DEVICE, StableHlo, rule


@rule("batch_norm_training")
def _batch_norm_training(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    x, scale, offset = operands
    feature = int(operation.attribute("feature_index"))
    axes = into.ints([axis for axis in range(len(into.shape(x))) if axis != feature])
    mean = into.apply("ReduceMean", x, axes)
    away = into.apply("Sub", x, mean)
    variance = into.apply("ReduceMean", into.apply("Mul", away, away), axes)
    made = _normalized(into, operation, away, variance, scale, offset)
    return made, *(into.reshaped(of, (into.shape(x)[feature],)) for of in (mean, variance))


@rule("batch_norm_inference")
def _batch_norm_inference(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    x, scale, offset, mean, variance = operands
    column = _column(into, operation, x)
    away = into.apply("Sub", x, into.reshaped(mean, column))
    return _normalized(into, operation, away, into.reshaped(variance, column), scale, offset)


def _normalized(into: StableHlo, operation: MlirOperation, away: str, variance: str, scale: str, offset: str) -> str:
    """What lies so far away from the mean, over the deviation, scaled and moved by what a feature has."""
    column = _column(into, operation, away)
    wide = into.apply("Add", variance, number_like(into, away, float(operation.attribute("epsilon"))))
    made = into.apply("Div", away, into.apply("Sqrt", wide))
    for op, of, neutral in (("Mul", scale, 1), ("Add", offset, 0)):
        if not into.all_equal(of, neutral):
            made = into.apply(op, made, into.reshaped(of, column))
    return made


def _column(into: StableHlo, operation: MlirOperation, x: str) -> list[int]:
    """The shape in which what each feature has broadcasts to a value."""
    feature = int(operation.attribute("feature_index"))
    return [size if axis == feature else 1 for axis, size in enumerate(into.shape(x))]


@rule("convolution")
def _convolution(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    """A convolution of ONNX, whose dimensions are batch, channels and places, and those of its weights alike."""
    x, weights = operands
    lefts, rights, results = _labels(operation)
    count = len(lefts) - 2
    window = _window(operation, count)
    groups = int(operation.attribute("feature_group_count") or 1)
    if int(operation.attribute("batch_group_count") or 1) != 1 or any(n != 1 for n in window["lhs_dilate"]):
        refuse("a convolution of parts of a batch, or with elements between those of its operand", operation.place)
    if any(window["reverse"]):
        refuse("a convolution with reversed weights has no op here", operation.place)
    places = [str(axis) for axis in range(count)]
    x = into.transposed(x, [lefts.index(label) for label in ("b", "f", *places)])
    weights = into.transposed(weights, [rights.index(label) for label in ("o", "i", *places)])
    pads: list[Any] = window["pad"]
    attrs: dict[str, Any] = {"strides": tuple(window["stride"]), "dilations": tuple(window["rhs_dilate"])}
    attrs |= {"pads": (*(int(low) for low, _ in pads), *(int(high) for _, high in pads)), "group": groups}
    made = into.apply("Conv", x, weights, **attrs)
    order = ["b", "f", *places]
    of = into_sizes(tensor_type(operation.types[1][0], DEVICE, operation.place).shape)
    made = into.transposed(made, [order.index(label) for label in results])
    return into.reshaped(made, of) if math.prod(of) else made


def _labels(operation: MlirOperation) -> list[list[str]]:
    """What the dimensions of both operands and of the result are: batch, features, and places by number."""
    given = operation.attribute("dim_numbers", "dimension_numbers")
    listed = given.listed if isinstance(given, Braces) else given
    return [[w.text if isinstance(w, MlirWord) else str(w) for w in one] for one in listed]


def _window(operation: MlirOperation, count: int) -> dict[str, Any]:
    """Strides, padding and dilations, in the pretty form or the generic one."""
    pretty = operation.attribute("window")
    named: dict[str, Any] = pretty.named if isinstance(pretty, Braces) else {}
    padding = operation.attribute("padding")
    pairs = lists(padding.listed[0]) if isinstance(padding, Braces) and padding.listed else []
    generic = {
        "stride": operation.attribute("window_strides"),
        "pad": pairs or None,
        "lhs_dilate": operation.attribute("lhs_dilation"),
        "rhs_dilate": operation.attribute("rhs_dilation"),
        "reverse": operation.attribute("window_reversal"),
    }
    usual = {"stride": [1] * count, "pad": [[0, 0]] * count, "lhs_dilate": [1] * count, "rhs_dilate": [1] * count}
    usual["reverse"] = [0] * count
    return {key: named.get(key) or generic[key] or usual[key] for key in usual}
