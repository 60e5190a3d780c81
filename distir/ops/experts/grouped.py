"""Products of rows in token order with the matrices of their experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import Part, Shape, TensorType, types
from distir.ops.core import op
from distir.ops.experts.operands import touched
from distir.ops.host import Operand, known_ints
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.resources import MatrixProduct
from distir.ops.specs import FIRST_ORDER_ONLY
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.torch_form import Expr, Write


def _grouped_bytes(
    *, t: int, i: int, n: int, c: int, e: int, r: int, s: int, inputs: int, elements: int, **_: Any
) -> int:
    rows = inputs - e * r * s - n * c
    return round(t * (rows + elements + touched(n * c, e, c) * r * s)) + i * n * c


def _grouped_product(*, n: int, c: int, k: int, e: int, elements: int, **_: Any) -> MatrixProduct:
    experts = min(n * c, e)
    return MatrixProduct(-(-n * c // experts), elements // (n * c), k, experts, grouped=True)


def _grouped_gradient_product(*, n: int, c: int, m: int, k: int, elements: int, **_: Any) -> MatrixProduct:
    experts = max(1, min(n * c, elements // (m * k)))
    return MatrixProduct(k, m, -(-n * c // experts), experts, grouped=True)


@op(
    "Tensor[t:float, (n, k), d], Tensor[t:float, (e, r, s), d], Tensor[i:int, (n, c), d] -> Tensor[t, _, d]",
    "Tensor[t:float, (n, c, k), d], Tensor[t:float, (e, r, s), d], Tensor[i:int, (n, c), d] -> Tensor[t, _, d]",
    flops=lambda k, elements, **_: 2 * k * elements,
    contraction=_grouped_product,
    bytes=_grouped_bytes,
    linear=("x", "w"),
)
def GroupedMatMul(x: Array, w: Array, group: Array, *, transW: bool = False) -> Array:
    """Each row of `x` times the matrices of `w` that `group` names for it, transposed if `transW`.

    Traffic is that of rows in any order: of the experts' matrices those are read that have rows, if each row of `group`
    names different ones evenly, as `RaggedMatMul` counts them.

    The result at [i, j] is `x[i] @ w[group[i, j]]`, or `x[i, j] @ w[group[i, j]]` where `x` has a row for each. Groups
    can be empty.

    %y = GroupedMatMul(%x: Tensor[Float32, (3, 5), 1], %w: Tensor[Float32, (4, 5, 6), 1], [[0, 1], [1, 3], [0, 1]])
    %y = GroupedMatMul[transW = true](%x: Tensor[Float32, (3, 2, 5), 1], %w: Tensor[Float32, (4, 6, 5), 1], [[0, 1], [1, 3], [0, 1]])
    """  # noqa: E501
    _check_groups("GroupedMatMul", group, len(w))
    matrices = wide(w).swapaxes(1, 2) if transW else wide(w)
    rows = _row_for_each(wide(x), group)
    result = np.zeros((*group.shape, matrices.shape[2]), matrices.dtype)
    for expert, matrix in enumerate(matrices):
        own = group == expert
        result[own] = rows[own] @ matrix
    return result.astype(x.dtype, copy=False)


@GroupedMatMul.shapes
def _(x: TensorType, w: TensorType, group: TensorType, *, transW: bool) -> Shape:
    k = x.shape[-1] if x.shape else None
    n, c = group.shape or (None, None)
    _, r, s = w.shape or (None, None, None)
    k_w, m = (s, r) if transW else (r, s)
    if k is not None and k_w is not None and k != k_w:
        note = (Part("operand", 0), f"`k` is {k} here")
        message = f"`GroupedMatMul` operands disagree on dimension `k`: expected {k}, found {k_w}"
        raise Reject(codes.SHAPE_MISMATCH, message, "w", (note,))
    return (n, c, m)


@GroupedMatMul.sharding
def _(x: TensorType, w: TensorType, group: TensorType, *, results: Sequence[Shape], transW: bool) -> Layout:
    matrix: Letters = (None, "m", "k") if transW else (None, "k", "m")
    return Layout((_letters(x, "k"), matrix, ("n", "c")), (("n", "c", "m"),))


@GroupedMatMul.grad
def _(g: Backward) -> Gradients:
    x, w, group = g.definite(0), g.definite(1), g.definite(2)
    flip = {} if g.attrs["transW"] else {"transW": True}
    dx = g("GroupedMatMul", g.dy, w, group, **flip) if g.wants(0) else None
    if dx is not None and g.rank(x) == 2:
        dx = g("ReduceSum", dx, (1,), keepdims=False)
    flip = {"transW": True} if g.attrs["transW"] else {}
    dw = g("GroupedMatMulGrad", g.dy, x, group, g.shape_of(w), **flip) if g.wants(1) else None
    return [dx, dw, None]


@GroupedMatMul.torch(fresh=True)
def _(write: Write, x: Expr, w: Expr, group: Expr, *, transW: bool) -> str:
    matrices = f"{w}.transpose(1, 2)" if transW else str(w)
    return f"{write.kernel('grouped_product')}({x}, {matrices}, {group.tensor})"


@op(
    "Tensor[t:float, (n, c, m), d], Tensor[t:float, (n, k), d], Tensor[i:int, (n, c), d], Tensor[Int64, (r,), host]"
    " -> Tensor[t, _, d]",
    "Tensor[t:float, (n, c, m), d], Tensor[t:float, (n, c, k), d], Tensor[i:int, (n, c), d],"
    " Tensor[Int64, (r,), host] -> Tensor[t, _, d]",
    flops=lambda n, c, m, k, **_: 2 * n * c * m * k,
    contraction=_grouped_gradient_product,
    linear=("dy", "x"),
    non_differentiable=FIRST_ORDER_ONLY,
)
def GroupedMatMulGrad(dy: Array, x: Array, group: Array, shape: Array, *, transW: bool = False) -> Array:
    """The gradient of `GroupedMatMul` with respect to `w`, which has this `shape`.

    %dw = GroupedMatMulGrad(%dy: Tensor[Float32, (3, 2, 6), 1], %x: Tensor[Float32, (3, 5), 1], [[0, 1], [1, 3], [0, 1]], [4, 5, 6])
    """  # noqa: E501
    experts = int(shape[0])
    _check_groups("GroupedMatMulGrad", group, experts)
    rows = _row_for_each(wide(x), group)
    left, right = (wide(dy), rows) if transW else (rows, wide(dy))
    result = np.zeros((experts, left.shape[-1], right.shape[-1]), left.dtype)
    for expert in range(experts):
        own = group == expert
        result[expert] = left[own].T @ right[own]
    return result.astype(dy.dtype, copy=False)


@GroupedMatMulGrad.shapes
def _(dy: TensorType, x: TensorType, group: TensorType, shape: Operand, *, transW: bool) -> Shape:
    m, k = (operand.shape[-1] if operand.shape else None for operand in (dy, x))
    own = (m, k) if transW else (k, m)
    sizes = known_ints(shape)
    if sizes is None:
        return (None, *own)
    matrix = zip(sizes[1:], own, strict=False)
    if len(sizes) != 3 or any(isinstance(found, int) and found != stated for stated, found in matrix):
        message = f"`GroupedMatMulGrad` expected the shape {types.show_shape((None, *own))}"
        raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {types.show_shape(sizes)}", "shape")
    return (sizes[0], *own)


@GroupedMatMulGrad.sharding
def _(
    dy: TensorType, x: TensorType, group: TensorType, shape: Operand, *, results: Sequence[Shape], transW: bool
) -> Layout:
    matrix: Letters = (None, "m", "k") if transW else (None, "k", "m")
    return Layout((("n", "c", "m"), _letters(x, "k"), ("n", "c"), ()), (matrix,), stated=3)


@GroupedMatMulGrad.torch(fresh=True)
def _(write: Write, dy: Expr, x: Expr, group: Expr, shape: Expr, *, transW: bool) -> str:
    left, right = (dy, x) if transW else (x, dy)
    experts, *_ = write.results[0].shape or (0,)
    return f"{write.kernel('grouped_outer_product')}({left}, {right}, {group.tensor}, {experts})"


def _letters(x: TensorType, width: str) -> Letters:
    return ("n", width) if len(x.shape or ()) == 2 else ("n", "c", width)


def _row_for_each(x: Array, group: Array) -> Array:
    """The rows as (n, c, k): one for each matrix to multiply with."""
    return x if x.ndim == 3 else np.broadcast_to(x[:, None], (*group.shape, x.shape[-1]))


def _check_groups(op: str, group: Array, experts: int) -> None:
    if group.size and not (group.min() >= 0 and group.max() < experts):
        message = f"`{op}` expected groups from 0 to {experts - 1}, found {group.min()} to {group.max()}"
        raise Reject(codes.BAD_VALUE, message, "group")
