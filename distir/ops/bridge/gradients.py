"""Gradients of the bridged ops that common networks train with: convolutions, pooling, batch normalisation.

Written in ops of the same families, as the rules of our own ops are; loaded when such an op is differentiated. Sizes
along which windows move must be known; the batch need not be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from distir.ops.differentiation.backward import Backward, Gradients

MOST_GROUPS = 1024
"""Groups of a convolution whose weights' gradients are computed one by one."""


def convolution(g: Backward) -> Gradients:
    """By the operand, a transposed convolution; by the weights, one over the batch, stride and dilation swapped."""
    x, w, bias = g.x
    windows = _Windows(g, x, _sizes(g, w)[2:])
    found: list[Any] = [None, None, None]
    if g.wants(0):
        found[0] = windows.spread(g.dy, w, int(cast(Any, g.attrs["group"])))
    if g.wants(1):
        found[1] = _weights(g, windows)
    if g.wants(2) and bias is not None:
        found[2] = g("ReduceSum", g.dy, (0, *range(2, g.rank(x))), keepdims=False)
    return found


def average_pooling(g: Backward) -> Gradients:
    """Each element of a window has the same share. Refused where windows are unequal or channels unknown."""
    (x,) = g.x
    kernel = cast("tuple[int, ...]", g.attrs["kernel_shape"])
    windows = _Windows(g, x, kernel)
    if g.attrs["ceil_mode"] or (any(windows.pads) and not g.attrs["count_include_pad"]):
        raise g.refuse("the gradient of `AveragePool` needs windows of equal numbers of elements")
    channels = g.known_shape(x)[1]
    if not isinstance(channels, int):
        raise g.refuse("the gradient of `AveragePool` needs the number of channels, which is unknown")
    share = g("CastLike", 1 / math.prod(kernel), x)
    return [windows.spread(g.dy, g("Expand", share, (channels, 1, *kernel)), channels)]


def maximum_pooling(g: Backward) -> Gradients:
    """To the greatest element of each window; ONNX's indices count through the whole operand, row by row only."""
    (x,) = g.x
    if g.attrs["storage_order"]:
        raise g.refuse("the gradient of `MaxPool` is stated for `storage_order = 0`")
    _, places = g.several("MaxPool", 2, x, **g.statement.attrs)
    flat = (-1,)
    spread = g(
        "ScatterElements",
        g("Reshape", g.zeros(x), flat),
        g("Reshape", places, flat),
        g("Reshape", g.dy, flat),
        axis=0,
        reduction="add",
    )
    return [g.reshape_like(spread, x)]


def global_average_pooling(g: Backward) -> Gradients:
    """Each element has the same share."""
    (x,) = g.x
    elements = math.prod(_sizes(g, x)[2:])
    return [g("Expand", g("Div", g.dy, float(elements)), g.shape_of(x))]


def batch_normalization(g: Backward) -> Gradients:
    """In inference, where the statistics are given."""
    if g.attrs["training_mode"]:
        raise g.refuse("the gradient of `BatchNormalization` is stated for inference, where statistics are given")
    x, scale, _, mean, variance = g.x
    rank = g.rank(x)
    others = (0, *range(2, rank))

    def aligned(value: Any) -> Any:
        return g("Unsqueeze", value, tuple(range(1, rank - 1))) if rank > 2 else value

    inverse = g("Reciprocal", g("Sqrt", g("Add", variance, float(cast(Any, g.attrs["epsilon"])))))
    factor = g("Mul", scale, inverse)
    total = g("ReduceSum", g.dy, others, keepdims=False)
    moment = g("ReduceSum", g("Mul", g.dy, g("Sub", x, aligned(mean))), others, keepdims=False)
    slope = g("Mul", moment, inverse)
    cubed = g("Mul", g("Mul", slope, inverse), g("Mul", factor, -0.5))
    return [g("Mul", g.dy, aligned(factor)), slope, total, g("Neg", g("Mul", total, factor)), cubed]


RULES: dict[str, Callable[[Backward], Gradients]] = {
    "AveragePool": average_pooling,
    "BatchNormalization": batch_normalization,
    "Conv": convolution,
    "GlobalAveragePool": global_average_pooling,
    "MaxPool": maximum_pooling,
}


class _Windows:
    """How the windows of a convolution or a pooling move over its operand: a number for each dimension they move in."""

    def __init__(self, g: Backward, x: Any, kernel: tuple[int, ...]) -> None:
        if g.attrs["auto_pad"] not in ("NOTSET", "VALID"):
            raise g.refuse(f"the gradient of `{g.op.name}` needs `pads` as numbers, found `auto_pad`")
        count = len(kernel)
        self.g, self.kernel = g, kernel
        self.sizes, self.results = _sizes(g, x)[2:], _sizes(g, g.y[0])[2:]
        self.strides = self._numbers("strides", (1,) * count)
        self.dilations = self._numbers("dilations", (1,) * count)
        self.pads = self._numbers("pads", (0,) * 2 * count)

    def spread(self, dy: Any, weights: Any, group: int) -> Any:
        """What reaches each element of the operand: the transposed convolution of the results' gradient."""
        covered = [
            (o - 1) * s - before - after + (k - 1) * d + 1
            for o, s, k, d, before, after in zip(
                self.results, self.strides, self.kernel, self.dilations, *self._sides(), strict=True
            )
        ]
        left = tuple(n - c for n, c in zip(self.sizes, covered, strict=True))
        return self.g(
            "ConvTranspose",
            dy,
            weights,
            strides=self.strides,
            dilations=self.dilations,
            pads=self.pads,
            output_padding=left,
            group=group,
        )

    def _numbers(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        return cast("tuple[int, ...] | None", self.g.attrs.get(name)) or default

    def _sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        half = len(self.pads) // 2
        return self.pads[:half], self.pads[half:]


def _weights(g: Backward, windows: _Windows) -> Any:
    groups = int(cast(Any, g.attrs["group"]))
    if groups > MOST_GROUPS:
        raise g.refuse(f"the gradient of `Conv` by its weights is stated for {MOST_GROUPS} groups at most")
    x, dy = g.x[0], g.dy
    xs = g.several("Split", groups, x, axis=1, num_outputs=groups) if groups > 1 else (x,)
    dys = g.several("Split", groups, dy, axis=1, num_outputs=groups) if groups > 1 else (dy,)
    swapped = (1, 0, *range(2, g.rank(x)))
    count = len(windows.kernel)
    parts: list[Any] = []
    for data, slope in zip(xs, dys, strict=True):
        wide = g(
            "Conv",
            g("Transpose", data, perm=swapped),
            g("Transpose", slope, perm=swapped),
            strides=windows.dilations,
            dilations=windows.strides,
            pads=windows.pads,
        )
        kept = g("Slice", wide, (0,) * count, windows.kernel, tuple(range(2, count + 2)))
        parts.append(g("Transpose", kept, perm=swapped))
    return parts[0] if len(parts) == 1 else g("Concat", *parts, axis=0)


def _sizes(g: Backward, arg: Any) -> tuple[Any, ...]:
    """A shape whose dimensions behind the second are known."""
    shape = g.known_shape(arg)
    if not all(isinstance(size, int) for size in shape[2:]):
        raise g.refuse(f"the gradient of `{g.op.name}` needs the sizes that its windows move over, which are unknown")
    return shape
