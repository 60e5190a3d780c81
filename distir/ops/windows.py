"""Sliding windows: the greatest elements of each and their indices, and the corresponding arguments in torch.

ONNX's implementation of `MaxPool` (1.23) gives wrong indices for windows with stride 1, and fails for some padded
operands.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import Shape, TensorType
from distir.ops.numeric import Array, np
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, Write


def pooled_with_indices(x: Array, shape: tuple[int, ...], attrs: Mapping[str, Any]) -> list[Array]:
    """The greatest element of each window, the first of equal ones, and its flat index in the operand.

    `shape`: that of the results. Indices are row-major, or with `storage_order` column-major within each plane.
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


def window_count(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    """How many windows stand along a dimension of `size`, with so much padding on both sides together."""
    return (size + padding - dilation * (kernel - 1) - 1) // stride + 1


def check_window_count(
    name: str,
    found: Shape,
    shape: Shape,
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    more: int = 0,
) -> None:
    """Raises Reject where `found`, behind batch and channels, has not as many elements as there are windows in `shape`.

    `more`: so many may be there in addition, where windows are rounded up.
    """
    count = len(kernel)
    steps, gaps, around = strides or (1,) * count, dilations or (1,) * count, pads or (0,) * 2 * count
    sizes = zip(found[2:], shape[2:], kernel, steps, gaps, around, around[count:], strict=False)
    for n, size, k, s, d, before, after in sizes:
        if isinstance(n, int) and isinstance(size, int):
            windows = window_count(size, k, s, d, before + after)
            if not windows <= n <= windows + more:
                message = f"`{name}` expected {windows} windows in a dimension of {size}, found {n}"
                raise Reject(codes.SHAPE_MISMATCH, message)


def _before(
    sizes: tuple[int, ...],
    results: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    attrs: Mapping[str, Any],
) -> tuple[int, ...]:
    """The padding before each dimension."""
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


def movement(x: Expr, attrs: dict[str, Any], kernel: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """The strides, dilations and paddings of a sliding window. Paddings: before each dimension, then after each."""
    count = x.rank - 2
    strides = list(attrs.get("strides") or [1] * count)
    dilations = list(attrs.get("dilations") or [1] * count)
    pads = list(attrs.get("pads") or [0] * 2 * count)
    mode = attrs.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        for i, size in enumerate(x.shape[2:]):
            reach = (kernel[i] - 1) * dilations[i] + 1
            total = max((-(-size // strides[i]) - 1) * strides[i] + reach - size, 0)
            less, more = total // 2, total - total // 2
            pads[i], pads[count + i] = (less, more) if mode == "SAME_UPPER" else (more, less)
    elif mode == "VALID":
        pads = [0] * 2 * count
    return strides, dilations, pads


def padded(write: Write, x: str, pads: Sequence[int], filling: float) -> tuple[str, list[int]]:
    """The operand, padded if torch's window cannot pad it itself, and the remaining paddings of the window."""
    half = len(pads) // 2
    if list(pads[:half]) == list(pads[half:]):
        return x, list(pads[:half])
    flat = [n for i in reversed(range(half)) for n in (pads[i], pads[half + i])]
    return f"F.pad({x}, {write.items(flat)}, value={write.number(filling)})", [0] * half


def dimensions(write: Write, x: Expr, name: str) -> int:
    """The number of dimensions of the windows. Raises Unlowerable if torch does not support it."""
    if x.rank not in (3, 4, 5):
        raise write.refuse(f"torch has `{name}` for 1, 2 and 3 dimensions, found {x.rank - 2}")
    return x.rank - 2


def rounded_up(
    x: Expr, y: TensorType, pads: list[int], strides: list[int], dilations: list[int], kernel: Sequence[int]
) -> list[int]:
    """Paddings, extended for the last window where sizes are rounded up, which the result's shape shows."""
    count = x.rank - 2
    more = list(pads)
    for i, size in enumerate((y.shape or ())[2:]):
        assert isinstance(size, int)
        reach = (kernel[i] - 1) * dilations[i] + 1
        more[count + i] = max((size - 1) * strides[i] + reach - x.shape[2 + i] - pads[i], pads[count + i])
    return more
