"""Muon: a step along the momentum's nearest orthogonal matrix, and the iteration that finds it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Arg, DType, Literal, TensorType
from distir.ops.core import op
from distir.ops.host import Operand
from distir.ops.layout import Layout, Letters, WholeParts
from distir.ops.numeric import Array, np, numpy_dtype
from distir.ops.optimizer.rules import (
    SCALARS,
    UPDATE,
    factor_argument,
    optimizer,
    overwrite_argument,
    rate_or,
    scaled,
    unless_skipped,
)
from distir.ops.precision import wide
from distir.ops.resources import MatrixProduct, Product
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, Unpacked, Write

BFLOAT16: Final = DTYPES["BFloat16"]

QUINTIC: Final = (3.4445, -4.7750, 2.0315)
"""The coefficients of an iteration's polynomial, a x + b x³ + c x⁵ of each singular value x (Jordan, below)."""

EPSILON: Final = 1e-7
"""The least norm by which a matrix is divided."""

RATES: Final = ("original", "match_rms_adamw")
"""How steps of matrices of other shapes are made alike in size; the words are those of `torch.optim.Muon`."""


def _adjusted(adjust_lr: str, rows: int, columns: int) -> float:
    """What the learning rate is multiplied with."""
    return math.sqrt(max(1, rows / columns)) if adjust_lr == RATES[0] else 0.2 * math.sqrt(max(rows, columns))


def _sides(shape: Sequence[int]) -> tuple[int, int, int]:
    """How many matrices there are, and the shorter and the longer side of each."""
    *stack, rows, columns = shape
    return math.prod(stack), min(rows, columns), max(rows, columns)


def _products(steps: int, dtype: DType, shape: Sequence[int]) -> list[Product]:
    """Of each iteration: X · Xᵀ, of which the square, and that times X."""
    count, short, long = _sides(shape)
    kinds = ((short, short, long), (short, short, short), (short, long, short))
    once = [Product(dtype, 2 * count * m * n * k, MatrixProduct(m, n, k, count)) for m, n, k in kinds]
    return once * steps if count * short * long else []


def _traffic(steps: int, dtype: DType, shape: Sequence[int]) -> int:
    """Bytes read and written: the norm, the division by it, and the products, with what is added to two of them."""
    count, short, long = _sides(shape)
    return count * dtype.bytes * (3 * short * long + steps * (3 * short * long + 4 * short * short))


def _workspace(dtype: DType, shape: Sequence[int]) -> int:
    """One matrix after the other: X, the next X, and two squares."""
    _, short, long = _sides(shape)
    return dtype.bytes * (2 * short * long + 2 * short * short)


def _products_alone(*, given: Mapping[str, TensorType], steps: int, shapes: Sequence[Sequence[int]], **_: Any) -> Any:
    return _products(steps, _dtype(given["x"]), shapes[0])


def _traffic_alone(
    *, given: Mapping[str, TensorType], steps: int, shapes: Sequence[Sequence[int]], moved: int, **_: Any
) -> int:
    return moved + _traffic(steps, _dtype(given["x"]), shapes[0])


def _workspace_alone(*, given: Mapping[str, TensorType], shapes: Sequence[Sequence[int]], **_: Any) -> int:
    return _workspace(_dtype(given["x"]), shapes[0])


def _dtype(x: TensorType) -> DType:
    return x.dtype or BFLOAT16


def _products_of_step(*, ns_steps: int, inside: DType, shapes: Sequence[Sequence[int]], **_: Any) -> Any:
    return _products(ns_steps, inside, shapes[0])


def _traffic_of_step(*, ns_steps: int, inside: DType, shapes: Sequence[Sequence[int]], moved: int, **_: Any) -> int:
    return moved + _traffic(ns_steps, inside, shapes[0])


def _workspace_of_step(*, inside: DType, shapes: Sequence[Sequence[int]], **_: Any) -> int:
    return _workspace(inside, shapes[0])


def orthogonal(x: Array, steps: int, epsilon: float) -> Array:
    """The quintic iteration in the element type of `x`, rounded to it after the norm and after each product."""
    if not x.size:
        return x
    a, b, c = QUINTIC
    turned = x.shape[-2] > x.shape[-1]
    dtype, x = x.dtype, x.swapaxes(-1, -2) if turned else x

    def rounded(value: Array) -> Array:
        return wide(value.astype(dtype, copy=False))

    x = wide(x)
    norm = rounded(np.sqrt(np.square(x).sum((-2, -1), keepdims=True)))
    x = rounded(x / np.maximum(norm, epsilon))
    for _ in range(steps):
        gram = rounded(x @ x.swapaxes(-1, -2))
        x = rounded(a * x + rounded(b * gram + c * (gram @ gram)) @ x)
    return (x.swapaxes(-1, -2) if turned else x).astype(dtype, copy=False)


@op(
    "Tensor[t:float, (*s, m, n), d] -> Tensor[t, (*s, m, n), d]",
    flops=lambda elements, **_: 3 * elements,
    contraction=_products_alone,
    bytes=_traffic_alone,
    temporary=_workspace_alone,
    non_differentiable=UPDATE,
)
def Orthogonalize(x: Array, *, steps: int = 5, epsilon: float = EPSILON) -> Array:
    """Nearly the orthogonal matrix that is nearest to `x`: U Vᵀ, if `x` is U S Vᵀ. Of stacked matrices each by itself.

    By Newton-Schulz iterations on `x` over its Frobenius norm, `x' = 3.4445 x - 4.7750 x xᵀ x + 2.0315 (x xᵀ)² x`,
    which bring all singular values between 0.7 and 1.2 or so (Jordan et al., https://kellerjordan.github.io/posts/muon).

    %y = Orthogonalize(%x: Tensor[Float32, (2, 3), 1])
    %y = Orthogonalize[steps = 3](%x: Tensor[Float32, (2, 4, 3), 1])
    """
    return orthogonal(x, steps, epsilon)


@Orthogonalize.sharding
def _(x: TensorType, **attrs: object) -> Layout:
    """Stacked matrices; each is needed whole."""
    own = _letters(x)
    own = (*own[:-2], None, None)
    return Layout((own,), (own,))


@Orthogonalize.torch(fresh=True)
def _(write: Write, x: Expr, *, steps: int, epsilon: float) -> str:
    return f"{write.kernel('orthogonal')}({x}, {steps}, {write.number(epsilon)})"


@op(
    "Tensor[t:float, (*s, m, n), d], Tensor[u:float, (*s, m, n), d], Tensor[v:float, (*s, m, n), d],"
    f" {SCALARS} -> Tensor[t, (*s, m, n), d], Tensor[v, (*s, m, n), d]",
    flops=lambda inputs, weight_decay, **_: (11 if weight_decay else 9) * inputs // 3,
    contraction=_products_of_step,
    bytes=_traffic_of_step,
    temporary=_workspace_of_step,
    inplace={0: 0, 1: 2},
    leafwise=True,
    non_differentiable=UPDATE,
)
def Muon(
    w: Array,
    dw: Array,
    m: Array,
    rate: Array | None = None,
    factor: Array | None = None,
    *,
    lr: float = 0.001,
    momentum: float = 0.95,
    nesterov: bool = True,
    weight_decay: float = 0.0,
    ns_steps: int = 5,
    adjust_lr: str = "original",
    inside: DType = BFLOAT16,
) -> tuple[Array, Array]:
    """A step along the orthogonalised momentum of a matrix, and the new momentum. Of stacked matrices each by itself.

    `m' = momentum * m + (1 - momentum) * dw`; the direction `u` is `Orthogonalize` of `m'`, or with `nesterov` of
    `(1 - momentum) * dw + momentum * m'`, in the element type `inside`, with `ns_steps` iterations;
    `w' = w - lr * (r * u + weight_decay * w)`. Of a matrix of R rows and C columns `r` is `sqrt(max(1, R / C))` if
    `adjust_lr` is `original`, and `0.2 * sqrt(max(R, C))` if it is `match_rms_adamw`, with which steps are as large as
    those of AdamW (Jordan et al., https://kellerjordan.github.io/posts/muon; Liu et al., arXiv:2502.16982;
    `torch.optim.Muon`).

    It needs matrices whole: where rows or columns are split over devices, each gathers the momentum, and updates its
    part.

    %w_new, %m_new = Muon(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1])
    %w_new, %m_new = Muon[weight_decay = 0.1, adjust_lr = "match_rms_adamw"](%w: Tensor[Float32, (2, 4, 3), 1], %dw: Tensor[Float32, (2, 4, 3), 1], %m: Tensor[Float32, (2, 4, 3), 1], %s: Float32[1], %f: Float32[1])
    """  # noqa: E501 - an example is one line
    gradient = scaled(dw, factor)
    average = momentum * wide(m) + (1 - momentum) * gradient
    along = (1 - momentum) * gradient + momentum * average if nesterov else average
    direction = orthogonal(along.astype(numpy_dtype(inside)), ns_steps, EPSILON).astype(along.dtype)
    step = _adjusted(adjust_lr, *w.shape[-2:]) * direction
    updated = wide(w) - rate_or(lr, rate) * (step + weight_decay * wide(w))
    return unless_skipped(factor, w, updated), unless_skipped(factor, m, average)


@Muon.checks
def _(*operands: Operand, adjust_lr: str, **attrs: Any) -> None:
    if adjust_lr not in RATES:
        message = f"`Muon` expected `adjust_lr` to be one of {', '.join(RATES)}, found `{adjust_lr}`"
        raise Reject(codes.BAD_VALUE, message, "adjust_lr")


@Muon.sharding
def _(w: TensorType, *others: TensorType, **attrs: object) -> Layout:
    """Stacked matrices, each by itself; along rows or columns, as parts of what is gathered."""
    own = _letters(w)
    scalars: tuple[Letters, ...] = ((),) * (len(others) - 2)
    sides = frozenset(filter(None, own[-2:]))
    return Layout((own, own, own, *scalars), (own, own), parted=sides, gathered=sides)


@Muon.parted
def _(
    write: WholeParts,
    w: Arg,
    dw: Arg,
    m: Arg,
    rate: Arg = "",
    factor: Arg = "",
    *,
    lr: float,
    momentum: float,
    nesterov: bool,
    weight_decay: float,
    ns_steps: int,
    adjust_lr: str,
    inside: DType,
) -> list[Arg]:
    """Each device's part of the weight and of the momentum; the direction is computed whole on each device."""
    of = write.type(w)
    rows, columns = (dim if isinstance(dim, int) else 1 for dim in (of.shape or (1, 1))[-2:])  # known, or not split
    doubled = DTYPES["Float64"] in (of.dtype, write.type(m).dtype)
    to = DTYPES["Float64" if doubled else "Float32"]

    def widened(x: Arg) -> Arg:
        return x if write.type(x).dtype is to else write("Cast", x, to=to)

    def mixed(old: Arg, new: Arg) -> Arg:
        return write("Add", write("Mul", old, Literal(momentum)), write("Mul", new, Literal(1 - momentum)))

    def stored(old: Arg, new: Arg) -> Arg:
        """In the old one's memory, and as it was where the step is left out."""
        if factor != "":
            new = write("Where", write("Equal", factor, Literal(0.0)), widened(old), new)
        return write("Assign", old, new)

    gradient = widened(dw) if factor == "" else write("Mul", widened(dw), widened(factor))
    average = mixed(widened(m), gradient)
    along = mixed(average, gradient) if nesterov else average
    whole = write.whole(write("Cast", along, to=inside), w)
    direction = write("Cast", write.part(write("Orthogonalize", whole, steps=ns_steps), w), to=to)
    step = write("Mul", direction, Literal(_adjusted(adjust_lr, rows, columns)))
    if weight_decay:
        step = write("Add", step, write("Mul", widened(w), Literal(weight_decay)))
    speed: Arg = Literal(lr) if rate == "" else widened(rate)
    updated = write("Sub", widened(w), write("Mul", step, speed))
    return [stored(w, updated), stored(m, average)]


@Muon.torch(fresh=True)
def _(
    write: Write,
    w: Expr,
    dw: Expr,
    m: Expr,
    rate: Expr | None = None,
    factor: Expr | None = None,
    *,
    lr: float,
    momentum: float,
    nesterov: bool,
    weight_decay: float,
    ns_steps: int,
    adjust_lr: str,
    inside: DType,
) -> Unpacked:
    ratio = _adjusted(adjust_lr, *w.shape[-2:])
    numbers = ", ".join(map(write.number, (momentum, weight_decay, ratio)))
    settings = f"{rate or write.number(lr)}, {numbers}, {nesterov}, {ns_steps}, {write.dtype(inside)}"
    settings += factor_argument(factor) + overwrite_argument(write, 0, 2)
    return write.unpacked(f"{write.kernel('muon')}({w}, {dw}, {m}, {settings})")


def _letters(x: TensorType) -> Letters:
    shape = x.shape or ()
    first = len(shape) - 2
    return tuple(f"s{k}" if k < first or isinstance(dim, int) else None for k, dim in enumerate(shape))


optimizer("muon", Muon, others="adamw")
