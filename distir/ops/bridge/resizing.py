"""`Resize` along one dimension, as a weighted sum of neighbouring elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from distir.ir import Attributes, Shape
from distir.ops.bridge.reference import run_reference
from distir.ops.numeric import np


def changes(
    before: Shape, after: Shape, factors: Sequence[Any] | None, attrs: Mapping[str, Any]
) -> list[tuple[int, float | None]] | None:
    """The resized dimensions, with their scales if given; None if they depend on one another.

    `factors`: the scales, if given instead of sizes.
    """
    mode, policy = attrs.get("coordinate_transformation_mode"), attrs.get("keep_aspect_ratio_policy", "stretch")
    if mode == "tf_crop_and_resize" or policy != "stretch":
        return None
    if factors is None:
        return [(i, None) for i, (n, m) in enumerate(zip(before, after, strict=True)) if n is None or n != m]
    axes: Sequence[int] = attrs.get("axes") or range(len(before))
    by_axis = {axis % len(before): float(factor) for axis, factor in zip(axes, factors, strict=False)}
    return [(axis, by_axis[axis]) for axis in sorted(by_axis) if by_axis[axis] != 1]


def interpolation(
    before: int, after: int, factor: float | None, attrs: Attributes
) -> Iterator[tuple[tuple[int, ...], tuple[float, ...]]]:
    """The neighbours of all results and their weights: the first neighbour of each result, then the second, and so on.

    `factor`: the scale, if given instead of the size. Computed by resizing every unit vector.
    """
    numpy: Any = np  # its stubs leave the types of such indices unknown
    kept = Attributes({name: value for name, value in attrs.items() if name != "axes"})
    scales = None if factor is None else np.array([1, factor], np.float32)
    sizes = np.array([before, after], np.int64) if factor is None else None
    (weights,) = run_reference("Resize", [np.eye(before), None, scales, sizes], kept, 1)
    while weights.any():
        places = numpy.abs(weights).argmax(0)
        columns = numpy.arange(after)
        yield tuple(places.tolist()), tuple(weights[places, columns].tolist())
        weights[places, columns] = 0
