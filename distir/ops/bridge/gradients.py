"""Gradients of the bridged ops that common networks train with: convolutions, pooling, norms, recurrent networks.

The rules write ops of the same families; they are loaded with the bridged ops.
Sizes along which windows move must be known; the batch need not be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from distir.ir import Dense
from distir.ops.bridge import elementwise_gradients
from distir.ops.bridge.resizing import changes, interpolation

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients


def convolution(g: Backward) -> Gradients:
    """The gradient of the operand is a transposed convolution."""
    x, w, bias = g.x
    windows = _Windows(g, x, _sizes(g, w)[2:])
    found: list[Any] = [None, None, None]
    if g.wants(0):
        found[0] = windows.spread(g.dy, w, int(cast(Any, g.attrs["group"])))
    if g.wants(1):
        found[1] = windows.weights(g.dy, x)
    if g.wants(2) and bias is not None:
        found[2] = _over_channels(g)
    return found


def transposed_convolution(g: Backward) -> Gradients:
    """The gradient of the operand is a convolution of `dy`; that of the weights is the weight gradient of this one."""
    x, w, bias = g.x
    if g.attrs.get("output_shape"):
        raise g.refuse("the gradient of `ConvTranspose` needs `pads` as numbers, found `output_shape`")
    windows = _Windows(g, x, _sizes(g, w)[2:])
    more = cast("tuple[int, ...]", g.attrs.get("output_padding") or ())
    if any(extra >= stride for extra, stride in zip(more, windows.strides, strict=False)):
        raise g.refuse("the gradient of `ConvTranspose` needs `output_padding` below `strides`")
    dx = dw = None
    if g.wants(0):
        dx = g("Conv", g.dy, w, **windows.moves, group=g.attrs["group"])
    if g.wants(1):
        dw = windows.weights(x, g.dy)
    return [dx, dw, _over_channels(g) if g.wants(2) and bias is not None else None]


def _over_channels(g: Backward) -> Any:
    """The gradient of a bias per channel."""
    return g("ReduceSum", g.dy, (0, *range(2, g.rank(g.x[0]))), keepdims=False)


def average_pooling(g: Backward) -> Gradients:
    """Each element of a window has the same share. Raises NotDifferentiable for unequal windows or unknown channels."""
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
    """The gradient goes to the greatest element of each window, the first of equal ones."""
    attrs = {name: value for name, value in g.statement.attrs.items() if name != "storage_order"}
    return [g("MaxPoolGrad", g.dy, g.x[0], **attrs)]


def global_average_pooling(g: Backward) -> Gradients:
    """Each element has the same share."""
    (x,) = g.x
    elements = math.prod(_sizes(g, x)[2:])
    return [g("Expand", g("Div", g.dy, float(elements)), g.shape_of(x))]


def global_maximum_pooling(g: Backward) -> Gradients:
    """The gradient goes to the greatest element; equal ones share it."""
    (x,) = g.x
    most = g("ReduceMax", x, tuple(range(2, g.rank(x))))
    return g.through({most: g.dy}, [x])


def batch_normalization(g: Backward) -> Gradients:
    """In inference the statistics are operands; in training they are those of the batch.

    The given ones are then averaged with them, which gradients do not follow. Operands of several element types, as
    statistics in Float32 beside activations in 16 bits: what there is of each channel is computed in the widest.
    """
    x, scale, bias, mean, variance = g.x
    if g.attrs["training_mode"]:
        if any(dy is not None for dy in g.dys[1:]):
            raise g.refuse("`BatchNormalization` in training has no gradient of its running statistics")
        like = _like(g, scale, x)
        dx, *given = g.several("BatchNormalizationGrad", 3, g.dy, x, like, epsilon=cast(Any, g.attrs["epsilon"]))
        return [dx, *(_like(g, value, scale) for value in given), None, None]
    rank = g.rank(x)
    others = (0, *range(2, rank))
    exact = max((x, scale, mean), key=lambda operand: g.dtype(operand).bytes)

    def aligned(value: Any) -> Any:
        along = _like(g, value, x)
        return g("Unsqueeze", along, tuple(range(1, rank - 1))) if rank > 2 else along

    inverse = g("Reciprocal", g("Sqrt", g("Add", _like(g, variance, exact), float(cast(Any, g.attrs["epsilon"])))))
    factor = g("Mul", _like(g, scale, exact), inverse)
    total = _like(g, g("ReduceSum", g.dy, others, keepdims=False), exact)
    moment = _like(g, g("ReduceSum", g("Mul", g.dy, g("Sub", x, aligned(mean))), others, keepdims=False), exact)
    slope = g("Mul", moment, inverse)
    cubed = g("Mul", g("Mul", slope, inverse), g("Mul", factor, -0.5))
    dx, dmean = g("Mul", g.dy, aligned(factor)), g("Neg", g("Mul", total, factor))
    return [dx, _like(g, slope, scale), _like(g, total, bias), _like(g, dmean, mean), _like(g, cubed, variance)]


def _like(g: Backward, value: Any, operand: Any) -> Any:
    """A value in the element type of an operand."""
    return value if g.dtype(value) is g.dtype(operand) else g("Cast", value, to=g.dtype(operand))


def group_normalization(g: Backward) -> Gradients:
    """The gradient is an op of its own."""
    groups, epsilon = cast(Any, g.attrs["num_groups"]), cast(Any, g.attrs["epsilon"])
    return g.several("GroupNormalizationGrad", 3, g.dy, g.x[0], g.x[1], num_groups=groups, epsilon=epsilon)


def instance_normalization(g: Backward) -> Gradients:
    """The gradient of a group normalisation with one group per channel."""
    channels = g.known_shape(g.x[0])[1]
    if not isinstance(channels, int):
        raise g.refuse("the gradient of `InstanceNormalization` needs the number of channels, which is unknown")
    epsilon = cast(Any, g.attrs["epsilon"])
    return g.several("GroupNormalizationGrad", 3, g.dy, g.x[0], g.x[1], num_groups=channels, epsilon=epsilon)


def resizing(g: Backward) -> Gradients:
    """Along each dimension, the gradient goes to the neighbours of each element, times their interpolation weights."""
    x, _, scales, _ = g.x
    before, after = g.known_shape(x), g.known_shape(g.y[0])
    factors = None if scales is None else g.numbers(scales)
    if scales is not None and factors is None:
        raise g.refuse("the gradient of `Resize` needs its scales, which are unknown")
    found = changes(before, after, factors, g.attrs)
    if found is None:
        raise g.refuse("the gradient of `Resize` is defined for whole operands that are stretched")
    dx: Any = g.dy
    for axis, factor in found:
        n, m = before[axis], after[axis]
        if not (isinstance(n, int) and isinstance(m, int)):
            raise g.refuse("the gradient of `Resize` needs the sizes that it changes, which are unknown")
        shape = g.resized_shape(dx, axis, n)
        parts: list[Any] = []
        for places, weights in interpolation(n, m, factor, g.statement.attrs):
            ones = all(weight == 1 for weight in weights)
            share = Dense(g.dtype(x), (m, *(1,) * (len(before) - axis - 1)), weights)
            parts.append(g("GatherGrad", dx if ones else g("Mul", dx, share), places, shape, axis=axis))
        dx = g.total(parts)
    return [dx, None, None, None]


def _either(*activations: str) -> tuple[object, ...]:
    """The accepted values of `activations`: omitted, or these, for one direction or both."""
    return (None, activations, activations * 2)


def recurrence(states: int, **usual: tuple[object, ...]) -> Callable[[Backward], Gradients]:
    """The rule of a recurrent network with this number of states. `usual`: the accepted values of each attribute."""

    def rule(g: Backward) -> Gradients:
        name = g.op.name
        for attribute, allowed in {**usual, "clip": (None,)}.items():
            if g.attrs.get(attribute) not in allowed:
                shown = f"`{attribute} = {g.attrs.get(attribute)}`"
                raise g.refuse(f"the gradient of `{name}` is defined for the networks of PyTorch, found {shown}")
        x, w, r, b, lengths, *rest = g.x
        initial, peepholes = rest[:states], rest[states:]
        if lengths is not None:
            raise g.refuse(f"the gradient of `{name}` is defined for sequences of equal length, found `sequence_lens`")
        if any(operand is not None for operand in peepholes):
            raise g.refuse(f"the gradient of `{name}` is defined for networks without peepholes, found `P`")
        last = [*g.dys[1:], *[None] * (1 + states - len(g.dys))]
        placed = {key: g.attrs[key] for key in ("direction", "layout")}
        dx, dw, dr, db, *dstates = g.several(f"{name}Grad", 4 + states, g.dy, x, w, r, b, *initial, *last, **placed)
        return [dx, dw, dr, db, None, *dstates]

    return rule


RULES: dict[str, Callable[[Backward], Gradients]] = {
    **elementwise_gradients.RULES,
    "AveragePool": average_pooling,
    "BatchNormalization": batch_normalization,
    "Conv": convolution,
    "ConvTranspose": transposed_convolution,
    "GRU": recurrence(1, activations=_either("Sigmoid", "Tanh"), linear_before_reset=(True,)),
    "GlobalAveragePool": global_average_pooling,
    "GlobalMaxPool": global_maximum_pooling,
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "LSTM": recurrence(2, activations=_either("Sigmoid", "Tanh", "Tanh"), input_forget=(False,)),
    "MaxPool": maximum_pooling,
    "RNN": recurrence(1, activations=_either("Tanh")),
    "Resize": resizing,
}


class _Windows:
    """The strides, dilations and paddings of a convolution or pooling, per spatial dimension."""

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
        """The gradient of the operand: the transposed convolution of the result's gradient."""
        covered = [
            (o - 1) * s - before - after + (k - 1) * d + 1
            for o, s, k, d, before, after in zip(
                self.results, self.strides, self.kernel, self.dilations, *self._sides(), strict=True
            )
        ]
        left = tuple(n - c for n, c in zip(self.sizes, covered, strict=True))
        return self.g("ConvTranspose", dy, weights, **self.moves, output_padding=left, group=group)

    def weights(self, dy: Any, x: Any) -> Any:
        """The gradient of the weights of a convolution of `x`."""
        return self.g("ConvWeightGrad", dy, x, kernel_shape=self.kernel, **self.moves, group=self.g.attrs["group"])

    @property
    def moves(self) -> dict[str, Any]:
        """As attributes."""
        return {"strides": self.strides, "dilations": self.dilations, "pads": self.pads}

    def _numbers(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        return cast("tuple[int, ...] | None", self.g.attrs.get(name)) or default

    def _sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        half = len(self.pads) // 2
        return self.pads[:half], self.pads[half:]


def _sizes(g: Backward, arg: Any) -> tuple[Any, ...]:
    """A shape whose spatial dimensions are known. Raises NotDifferentiable."""
    shape = g.known_shape(arg)
    if not all(isinstance(size, int) for size in shape[2:]):
        raise g.refuse(f"the gradient of `{g.op.name}` needs the sizes that its windows move over, which are unknown")
    return shape
