"""Reductions over windows: cumulative sums, and pooling by a maximum or a sum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from distir.importers.stablehlo.elementwise import number_like
from distir.importers.stablehlo.shapes import REDUCTIONS, plain_region
from distir.importers.stablehlo.text import MlirOperation, lists, refuse
from distir.importers.stablehlo.translating import StableHlo, rule

MOST_POOLED: Final = 3
"""Dimensions that a pooling op slides along."""


@dataclass(frozen=True, slots=True)
class _Windows:
    """Of each dimension: the size of windows, how far apart they and their elements are, and what is added around."""

    sizes: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    padding: Sequence[Sequence[int]]

    def is_plain(self, axis: int) -> bool:
        """Whether a dimension stays as it is."""
        return self.sizes[axis] == self.strides[axis] == 1 and not any(self.padding[axis])


@rule("reduce_window")
def _reduce_window(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    x, start = operands[:2]
    windows = _windows(into, operation, x)
    applied = plain_region(operation.regions[0]) if operation.regions else []
    name = applied[0].rpartition(".")[2] if len(applied) == 1 else ""
    if name == "add" and (summed := _cumulative(into, x, windows)) is not None:
        return summed
    moved = [axis for axis in range(len(windows.sizes)) if not windows.is_plain(axis)]
    first = into.array(start)
    is_neutral = first is not None and name in REDUCTIONS and bool((first == REDUCTIONS[name][2]).all())
    around = any(begin < 0 or end < 0 for begin, end in windows.padding)
    if name not in ("add", "maximum") or not is_neutral or around or not 0 < len(moved) <= MOST_POOLED:
        refuse("a reduction over windows has no op here, but a cumulative sum, and pooling", operation.place)
    return _pooled(into, x, windows, moved, name)


def _windows(into: StableHlo, operation: MlirOperation, x: str) -> _Windows:
    count = len(into.shape(x))
    if any(n != 1 for n in operation.attribute("base_dilations") or ()):
        refuse("a reduction over windows of what is spread has no op here", operation.place)
    given = operation.attribute("padding")
    pairs: Any = given.listed[0] if given is not None else 0
    ones = [1] * count
    return _Windows(
        sizes=operation.attribute("window_dimensions"),
        strides=operation.attribute("window_strides") or ones,
        dilations=operation.attribute("window_dilations") or ones,
        padding=lists(pairs) or [[pairs, pairs]] * count,
    )


def _cumulative(into: StableHlo, x: str, windows: _Windows) -> str | None:
    """A cumulative sum, as jax writes it for one axis; None for another one."""
    shape = into.shape(x)
    axes = [axis for axis, size in enumerate(windows.sizes) if size != 1]
    if len(axes) != 1 or any(n != 1 for n in (*windows.strides, *windows.dilations)):
        return None
    (axis,) = axes
    n = shape[axis]
    forward, backward = (
        [pair if i == axis else [0, 0] for i in range(len(shape))] for pair in ([n - 1, 0], [0, n - 1])
    )
    if windows.sizes[axis] != n or windows.padding not in (forward, backward):
        return None
    return into.apply("CumSum", x, into.known_value(axis), reverse=windows.padding == backward)


@rule("select_and_scatter")
def _select_and_scatter(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    """The gradient of a maximum over windows: what each gives goes to its greatest element, the first of equal ones."""
    x, given, start = operands
    windows = _windows(into, operation, x)
    moved = [axis for axis in range(len(windows.sizes)) if not windows.is_plain(axis)]
    chosen, added = operation.regions
    compared = [word for inner in chosen.operations if inner.name.endswith("compare") for word in inner.words]
    is_maximum = [getattr(word, "text", "") for word in compared[:1]] in (["GE"], ["GT"])
    sums = [name.rpartition(".")[2] for name in plain_region(added)] == ["add"]
    if not (is_maximum and sums and into.all_equal(start, 0) and 0 < len(moved) <= MOST_POOLED):
        refuse("a scatter to chosen elements of windows has no op here, but to the greatest", operation.place)
    rows, dy = (_in_front(into, name, moved) for name in (x, given))
    made = into.several("MaxPoolGrad", 1, dy, rows, **_sliding(windows, moved))[0]
    return _back(into, made, into.shape(x), moved)


def _sliding(windows: _Windows, moved: Sequence[int]) -> dict[str, Any]:
    """Windows as attributes of pooling ops."""
    return {
        "kernel_shape": tuple(windows.sizes[axis] for axis in moved),
        "strides": tuple(windows.strides[axis] for axis in moved),
        "dilations": tuple(windows.dilations[axis] for axis in moved),
        "pads": tuple(windows.padding[axis][end] for end in (0, 1) for axis in moved),
    }


def _in_front(into: StableHlo, x: str, moved: Sequence[int]) -> str:
    """A value whose last dimensions are those that windows move along; the others are one in front of them."""
    shape = into.shape(x)
    others = [axis for axis in range(len(shape)) if axis not in moved]
    sizes = [math.prod(shape[axis] for axis in others), 1, *(shape[axis] for axis in moved)]
    return into.reshaped(into.transposed(x, [*others, *moved]), sizes)


def _back(into: StableHlo, made: str, shape: Sequence[int], moved: Sequence[int]) -> str:
    """What pooling gives, with its dimensions as those of its operand, of this shape."""
    others = [axis for axis in range(len(shape)) if axis not in moved]
    order = [*others, *moved]
    made = into.reshaped(made, [*(shape[axis] for axis in others), *into.shape(made)[2:]])
    return into.transposed(made, [order.index(axis) for axis in range(len(shape))])


def _pooled(into: StableHlo, x: str, windows: _Windows, moved: Sequence[int], name: str) -> str:
    """Pooling along some dimensions."""
    rows, attrs = _in_front(into, x, moved), _sliding(windows, moved)
    if name == "maximum":
        made = into.several("MaxPool", 1, rows, **attrs)[0]
    else:
        mean = into.apply("AveragePool", rows, **attrs, count_include_pad=True)
        made = into.apply("Mul", mean, number_like(into, mean, math.prod(attrs["kernel_shape"])))
    return _back(into, made, into.shape(x), moved)
