"""Normalisation over the last dimensions.

The normalised values are computed in Float32 or wider, as ONNX's `stash_type = 1` requires; the scale and the bias are
applied in the operand's element type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Part, Shape, TensorType
from distir.ops.core import op
from distir.ops.layout import Layout
from distir.ops.numeric import Array, np
from distir.ops.precision import mean, wide
from distir.ops.unify import Reject, normal_axis

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients, Rewrite
    from distir.ops.torch_form import Expr, Unpacked, Write


@op(
    "Tensor[t:float, (*a, n@axis, *b), d], Tensor[t:float, (n, *b), d], Optional[Tensor[t:float, (n, *b), d]]"
    " -> Tensor[t, (*a, n, *b), d], *Tensor[Float32, _, d]",
    flops=lambda a=1, n=1, b=1, **_: 8 * a * n * b,
)
def LayerNormalization(
    x: Array,
    scale: Array,
    b: Array | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    count: int = 1,
) -> list[Array]:
    """`(x - mean) / sqrt(variance + epsilon) * scale + b`. ONNX `LayerNormalization`.

    Mean and variance are those of the dimensions from `axis` on. The optional second and third result are the mean and
    `1 / sqrt(variance + epsilon)`, in Float32.

    %y = LayerNormalization(%x: Tensor[Float32, (2, 3), 1], %scale: Tensor[Float32, (3,), 1], %b: Tensor[Float32, (3,), 1])
    %y, %mean, %inverse = LayerNormalization(%x: Tensor[Float32, (2, 3), 1], %scale: Tensor[Float32, (3,), 1])
    """  # noqa: E501 - an example is one line
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide_x = wide(x)
    centre = mean(wide_x, axes)
    centred = wide_x - centre
    inverse = 1 / np.sqrt(mean(centred**2, axes) + epsilon)
    scaled = (centred * inverse).astype(x.dtype, copy=False) * scale
    y = scaled if b is None else scaled + b
    return [y, centre.astype(np.float32), inverse.astype(np.float32)][:count]


@LayerNormalization.checks
def _(x: TensorType, scale: TensorType, b: TensorType | None = None, *, count: int, **attrs: Any) -> None:
    if count > 3:
        message = f"`LayerNormalization` gives 3 results at most, found {count} names"
        raise Reject(name_codes.RESULT_COUNT, message, Part("result", 3))
    _check_stash_type("LayerNormalization", attrs["stash_type"])


@LayerNormalization.shapes
def _(
    x: TensorType, scale: TensorType, b: TensorType | None = None, *, axis: int, count: int, **attrs: Any
) -> list[Shape | None]:
    if x.shape is None:
        return [None] * count
    first = normal_axis(axis, len(x.shape), "LayerNormalization", "axis")
    inner = b.shape if scale.shape is None and b is not None else scale.shape
    whole = x.shape
    if inner is not None:
        whole = x.shape[:first] + tuple(n if m is None else m for m, n in zip(x.shape[first:], inner, strict=True))
    return [whole, *[(*x.shape[:first], *(1 for _ in x.shape[first:]))] * (count - 1)]


@LayerNormalization.sharding
def _(x: TensorType, *weights: TensorType | None, results: tuple[Shape | None, ...], axis: int, **_: Any) -> Layout:
    rank = len(x.shape or ())
    first = axis % max(rank, 1)
    letters = tuple(f"a{k}" if k < first else None for k in range(rank))
    whole = tuple((None,) * len(w.shape or ()) if w else () for w in weights)
    return Layout((letters, *whole), (letters,) * len(results))


@LayerNormalization.grad
def _(g: Backward) -> Gradients:
    if any(dy is not None for dy in g.dys[1:]):
        raise g.refuse("`LayerNormalization` has a gradient for its first result only", "compute the mean by itself")
    attrs = {name: value for name, value in g.statement.attrs.items() if name != "stash_type"}
    return g.several("LayerNormalizationGrad", 3, g.dy, *g.x[:2], **attrs)[: len(g.x)]


@LayerNormalization.torch(fresh=True)
def _(
    write: Write,
    x: Expr,
    scale: Expr,
    b: Expr | None = None,
    *,
    axis: int,
    epsilon: float,
    stash_type: int,
) -> str | Unpacked:
    given = f"{x}, {write.items(x.shape[axis % x.rank :])}, {scale}, {b}, {write.number(epsilon)}"
    if len(write.results) == 1:
        return f"F.layer_norm({given})"
    return write.unpacked(f"{write.kernel('layer_norm_and_statistics')}({given})[: {len(write.results)}]")


@op(
    "Tensor[t:float, (*a, n@axis, *b), d], Tensor[t:float, (n, *b), d] -> Tensor[t, (*a, n, *b), d]",
    flops=4,
    whole=("b",),
)
def RMSNormalization(x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Array:
    """`x / sqrt(mean(x * x) + epsilon) * scale`, the mean over the dimensions from `axis` on. ONNX `RMSNormalization`.

    Zhang and Sennrich, arXiv:1910.07467.

    %y = RMSNormalization(%x: Tensor[Float32, (2, 3), 1], %scale: Tensor[Float32, (3,), 1])
    """
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide_x = wide(x)
    inverse = 1 / np.sqrt(mean(wide_x**2, axes) + epsilon)
    return (wide_x * inverse).astype(x.dtype, copy=False) * scale


@RMSNormalization.checks
def _(x: TensorType, scale: TensorType, **attrs: Any) -> None:
    _check_stash_type("RMSNormalization", attrs["stash_type"])


@RMSNormalization.grad
def _(g: Backward) -> Gradients:
    attrs = {name: value for name, value in g.statement.attrs.items() if name != "stash_type"}
    return g.several("RMSNormalizationGrad", 2, g.dy, *g.x[:2], **attrs)


@RMSNormalization.decomposition
def _(g: Rewrite) -> list[str]:
    """Op by op, the statistics in Float32, as in models that are written in PyTorch."""
    x, scale = g.x
    axes = tuple(range(cast(int, g.attrs["axis"]) % g.rank(x), g.rank(x)))
    dtype = g.dtype(x)
    wide_x = g("Cast", x, to=DTYPES["Float32"]) if dtype.bytes < 4 else x
    mean_square = g("ReduceMean", g("Mul", wide_x, wide_x), axes)
    inverse = g("Reciprocal", g("Sqrt", g("Add", mean_square, cast(float, g.attrs["epsilon"]))))
    normal = g("Mul", wide_x, inverse)
    return [g("Mul", g("Cast", normal, to=dtype) if dtype.bytes < 4 else normal, scale)]


@RMSNormalization.torch(fresh=True)
def _(write: Write, x: Expr, scale: Expr, *, axis: int, epsilon: float, stash_type: int) -> str:
    return f"F.rms_norm({x}, {write.items(x.shape[axis % x.rank :])}, {scale}, {write.number(epsilon)})"


def _check_stash_type(name: str, stash_type: int) -> None:
    if stash_type != 1:
        message = f"`{name}` expected 1 (Float32) as `stash_type`, found {stash_type}"
        raise Reject(codes.BAD_VALUE, message, "stash_type")
