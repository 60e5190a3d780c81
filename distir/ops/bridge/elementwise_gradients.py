"""Gradients of bridged elementwise ops, and of those that rearrange elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients

Slope = Callable[["Backward", Any], Any]
"""Writes the derivative at an operand."""


def _times(slope: Slope) -> Callable[[Backward], Gradients]:
    return lambda g: [g("Mul", g.dy, slope(g, g.x[0]))]


def _square(g: Backward, x: Any) -> Any:
    return g("Mul", x, x)


def _inverse_root(g: Backward, square: Any) -> Any:
    return g("Reciprocal", g("Sqrt", square))


def _mish(g: Backward, x: Any) -> Any:
    """Of `x * t`, where `t = Tanh(Softplus(x))`."""
    t = g("Tanh", g("Softplus", x))
    return g("Add", t, g("Mul", g("Mul", x, g("Sigmoid", x)), g("Sub", 1.0, _square(g, t))))


def _selu(g: Backward, x: Any) -> Any:
    alpha, gamma = cast(float, g.attrs["alpha"]), cast(float, g.attrs["gamma"])
    below = g("Mul", g("Exp", g("Min", x, 0.0)), alpha * gamma)
    return g("Where", g("Greater", x, 0.0), gamma, below)


def _celu(g: Backward, x: Any) -> Any:
    return g("Exp", g("Div", g("Min", x, 0.0), cast(float, g.attrs["alpha"])))


def _prelu(g: Backward) -> Gradients:
    x, slope = g.x
    below = g("Less", x, 0.0)
    dx = g("Where", below, g("Mul", g.dy, slope), g.dy)
    return [dx, g.sum_to(g("Where", below, g("Mul", g.dy, x), 0.0), slope)]


def _depth_to_space(g: Backward) -> Gradients:
    """The blocks are moved back to the depth dimension."""
    x, block = g.x[0], cast(int, g.attrs["blocksize"])
    channels, height, width = g.known_shape(x)[1:]
    if not all(isinstance(size, int) for size in (channels, height, width)):
        raise g.refuse("`DepthToSpace` has a gradient only where the sizes of its channels and images are known")
    apart = g("Reshape", g.dy, (0, cast(int, channels) // block**2, height, block, width, block))
    perm = (0, 3, 5, 1, 2, 4) if g.attrs["mode"] == "DCR" else (0, 1, 3, 5, 2, 4)
    return [g.reshape_like(g("Transpose", apart, perm=perm), x)]


RULES: dict[str, Callable[[Backward], Gradients]] = {
    "Acos": _times(lambda g, x: g("Neg", _inverse_root(g, g("Sub", 1.0, _square(g, x))))),
    "Acosh": _times(lambda g, x: _inverse_root(g, g("Sub", _square(g, x), 1.0))),
    "Asin": _times(lambda g, x: _inverse_root(g, g("Sub", 1.0, _square(g, x)))),
    "Asinh": _times(lambda g, x: _inverse_root(g, g("Add", _square(g, x), 1.0))),
    "Atan": _times(lambda g, x: g("Reciprocal", g("Add", _square(g, x), 1.0))),
    "Atanh": _times(lambda g, x: g("Reciprocal", g("Sub", 1.0, _square(g, x)))),
    "CastLike": lambda g: [g("CastLike", g.dy, g.x[0]), None],
    "Celu": _times(_celu),
    "Cosh": _times(lambda g, x: g("Sinh", x)),
    "DepthToSpace": _depth_to_space,
    "Mish": _times(_mish),
    "PRelu": _prelu,
    "Selu": _times(_selu),
    "Sinh": _times(lambda g, x: g("Cosh", x)),
    "Softsign": _times(lambda g, x: g("Reciprocal", _square(g, g("Add", g("Abs", x), 1.0)))),
    "SpaceToDepth": lambda g: [g("DepthToSpace", g.dy, **g.statement.attrs)],
    "Tan": _times(lambda g, x: g("Add", _square(g, g.y[0]), 1.0)),
    "ThresholdedRelu": lambda g: [g("Where", g("Greater", g.x[0], cast(float, g.attrs["alpha"])), g.dy, 0.0)],
}
