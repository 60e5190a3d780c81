"""Rules for operations that are layers of their own: normalization over a batch, and convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from distir.importers.stablehlo.elementwise import into_sizes, number_like
from distir.importers.stablehlo.shapes import reversed_along
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
    """A convolution of ONNX, whose dimensions are batch, channels and places, and those of its weights alike.

    With elements between those of its operand, as the gradient of one with strides, it is `ConvTranspose`.
    """
    x, weights = operands
    lefts, rights, results = _labels(operation)
    window = _window(operation, len(lefts) - 2)
    parts = int(operation.attribute("batch_group_count") or 1)
    groups = int(operation.attribute("feature_group_count") or 1) * parts
    places = [str(axis) for axis in range(len(lefts) - 2)]
    flipped = [rights.index(place) for place, is_reversed in zip(places, window["reverse"], strict=True) if is_reversed]
    weights = reversed_along(into, weights, flipped)
    x = into.transposed(x, [lefts.index(label) for label in ("b", "f", *places)])
    if parts > 1:  # parts of the batch, each with its own weights: as many more groups of channels
        batch, channels, *sizes = into.shape(x)
        x = into.reshaped(x, [parts, batch // parts, channels, *sizes])
        x = into.transposed(x, [1, 0, *range(2, len(sizes) + 3)])
        x = into.reshaped(x, [batch // parts, parts * channels, *sizes])
    weights = into.transposed(weights, [rights.index(label) for label in ("o", "i", *places)])
    if any(n != 1 for n in window["lhs_dilate"]):
        made = _transposed_convolution(into, operation, x, weights, window, groups)
    else:
        pads: list[Any] = [[int(end) for end in pair] for pair in window["pad"]]
        x = _cut(into, x, [[min(end, 0) for end in pair] for pair in pads])
        attrs: dict[str, Any] = {"strides": tuple(window["stride"]), "dilations": tuple(window["rhs_dilate"])}
        attrs |= {"pads": tuple(max(pair[side], 0) for side in (0, 1) for pair in pads), "group": groups}
        made = into.apply("Conv", x, weights, **attrs)
    order = ["b", "f", *places]
    of = into_sizes(tensor_type(operation.types[1][0], DEVICE, operation.place).shape)
    made = into.transposed(made, [order.index(label) for label in results])
    return into.reshaped(made, of) if math.prod(of) else made


def _transposed_convolution(
    into: StableHlo, operation: MlirOperation, x: str, weights: str, window: dict[str, Any], groups: int
) -> str:
    """The sum over places `i` of `x` and `k` of weights, at `i * spread - k * gap + low`: counted from the last `k`."""
    if any(n != 1 for n in window["stride"]):
        refuse("a convolution with strides, and elements between those of its operand", operation.place)
    features, inner, *kernel = into.shape(weights)
    count = len(kernel)
    weights = reversed_along(into, weights, range(2, count + 2))
    weights = into.reshaped(weights, [groups, features // groups, inner, *kernel])
    weights = into.transposed(weights, [0, 2, 1, *range(3, count + 3)])
    weights = into.reshaped(weights, [groups * inner, features // groups, *kernel])
    gaps, rows = window["rhs_dilate"], list(zip(kernel, window["rhs_dilate"], window["pad"], strict=True))
    ends = [[(size - 1) * gap - int(end) for end in pair] for size, gap, pair in rows]
    attrs: dict[str, Any] = {"strides": tuple(window["lhs_dilate"]), "dilations": tuple(gaps), "group": groups}
    attrs["pads"] = tuple(max(pair[side], 0) for side in (0, 1) for pair in ends)
    made = into.apply("ConvTranspose", x, weights, **attrs)
    around = [max(-pair[side], 0) for side in (0, 1) for pair in [[0, 0], [0, 0], *ends]]
    return into.apply("Pad", made, into.ints(around), number_like(into, made, 0)) if any(around) else made


def _cut(into: StableHlo, x: str, ends: Sequence[Sequence[int]]) -> str:
    """A value without so many elements at both ends of its last dimensions; the numbers are negative."""
    shape = into.shape(x)
    first = len(shape) - len(ends)
    starts = [0] * first + [-begin for begin, _ in ends]
    return into.sliced(x, starts, [*shape[:first], *(n + end for n, (_, end) in zip(shape[first:], ends, strict=True))])


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
