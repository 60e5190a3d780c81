"""`MaxPool` and the places of the greatest elements.

ONNX's implementation (1.23) counts these wrongly where windows move by one, and stops at some padded operands.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from distir.ops.numeric import Array, np


def pooled_with_places(x: Array, shape: tuple[int, ...], attrs: Mapping[str, Any]) -> list[Array]:
    """The greatest element of each window, the first of equal ones, and where it stands in the operand, flat.

    `shape`: that of the results. Places count rows first, or with `storage_order` columns first within each plane.
    """
    numpy: Any = np  # its stubs leave the types of such indices unknown
    sizes, results = x.shape[2:], shape[2:]
    kernel = tuple(attrs["kernel_shape"])
    strides, dilations = (tuple(attrs.get(name) or (1,) * len(kernel)) for name in ("strides", "dilations"))
    before = _before(sizes, results, kernel, strides, dilations, attrs)
    plane = numpy.arange(int(numpy.prod(sizes))).reshape(sizes, order="F" if attrs.get("storage_order") else "C")
    best: Any = numpy.zeros(shape, x.dtype)
    places: Any = numpy.full(shape, -1, numpy.int64)
    for offsets in itertools.product(*map(range, kernel)):
        along = [
            numpy.arange(o) * s - p + k * d
            for o, s, p, k, d in zip(results, strides, before, offsets, dilations, strict=True)
        ]
        at: Any = numpy.ix_(*(numpy.clip(a, 0, n - 1) for a, n in zip(along, sizes, strict=True)))
        found: Any = x[(slice(None), slice(None), *at)]
        present: Any = numpy.ones((), bool)
        for i, (a, n) in enumerate(zip(along, sizes, strict=True)):
            present = present & ((a >= 0) & (a < n)).reshape(-1, *(1,) * (len(sizes) - 1 - i))
        better = present & ((places < 0) | (found > best))
        best = numpy.where(better, found, best)
        places = numpy.where(better, plane[at], places)
    planes: Any = numpy.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * len(sizes))
    return [best, places + planes * plane.size]


def _before(
    sizes: tuple[int, ...],
    results: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    attrs: Mapping[str, Any],
) -> tuple[int, ...]:
    """How far the first window begins before the operand."""
    auto = attrs.get("auto_pad") or "NOTSET"
    if auto == "NOTSET":
        return tuple(attrs.get("pads") or (0,) * 2 * len(kernel))[: len(kernel)]
    if auto == "VALID":
        return (0,) * len(kernel)
    totals = [
        max((o - 1) * s + (k - 1) * d + 1 - n, 0)
        for n, o, k, s, d in zip(sizes, results, kernel, strides, dilations, strict=True)
    ]
    return tuple(total // 2 if auto == "SAME_UPPER" else total - total // 2 for total in totals)
