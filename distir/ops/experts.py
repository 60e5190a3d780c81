"""Products with the weights of experts: each row has a matrix of its own, one of a few.

What a mixture of experts adds to the other ops (its router is a product, a softmax and `TopK`). Work is that of the
grouped kernels: a row is multiplied once, and the matrix of an expert is read once, however many rows go to it; it is
charged as if every expert had a row, where there are as many rows (Gale et al., *MegaBlocks*, MLSys 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distir.diagnostics.codes import types as codes
from distir.ir import Part, Shape, TensorType, types
from distir.ops.core import op
from distir.ops.host import Operand, known_ints
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.unify import Reject


def _weights_read(*, n: int, e: int, r: int, s: int, **_: Any) -> int:
    return min(n, e) * r * s


def _bytes(*, t: int, n: int, k: int, elements: int, i: int = 0, **letters: Any) -> int:
    return t * (n * k + elements + _weights_read(n=n, **letters)) + i * n


@op(
    "Tensor[t:float, (n, k), d], Tensor[t:float, (e, r, s), d], Tensor[i:int, (n,), d] -> Tensor[t, _, d]",
    flops=lambda k, elements, **_: 2 * k * elements,
    bytes=_bytes,
    linear=("x", "w"),
)
def GroupedMatMul(x: Array, w: Array, group: Array, *, transW: bool = False) -> Array:
    """Each row of `x` times the matrix of `w` that `group` names for it, transposed if `transW` says so.

    Row i of the result is `x[i] @ w[group[i]]`. Groups may have any number of rows, none too, in any order.

    %y = GroupedMatMul(%x: Tensor[Float32, (6, 3), 1], %w: Tensor[Float32, (2, 3, 4), 1], [0, 1, 1, 0, 1, 1])
    %y = GroupedMatMul[transW = true](%x: Tensor[Float32, (6, 3), 1], %w: Tensor[Float32, (2, 4, 3), 1], [0, 1, 1, 0, 1, 1])
    """  # noqa: E501
    _check_groups("GroupedMatMul", group, len(w))
    matrices = wide(w).swapaxes(1, 2) if transW else wide(w)
    result = np.zeros((len(x), matrices.shape[2]), matrices.dtype)
    for expert, matrix in enumerate(matrices):
        rows = group == expert
        result[rows] = wide(x)[rows] @ matrix
    return result.astype(x.dtype, copy=False)


@GroupedMatMul.shapes
def _(x: TensorType, w: TensorType, group: TensorType, *, transW: bool) -> Shape:
    n, k = x.shape or (None, None)
    _, r, s = w.shape or (None, None, None)
    k_w, m = (s, r) if transW else (r, s)
    if k is not None and k_w is not None and k != k_w:
        note = (Part("operand", 0), f"`k` is {k} here")
        message = f"`GroupedMatMul` operands disagree on dimension `k`: expected {k}, found {k_w}"
        raise Reject(codes.SHAPE_MISMATCH, message, "w", (note,))
    return (n, m)


@GroupedMatMul.sharding
def _(x: TensorType, w: TensorType, group: TensorType, *, results: Sequence[Shape], transW: bool) -> Layout:
    matrix: Letters = (None, "m", "k") if transW else (None, "k", "m")
    return Layout((("n", "k"), matrix, ("n",)), (("n", "m"),))


@op(
    "Tensor[t:float, (n, m), d], Tensor[t:float, (n, k), d], Tensor[i:int, (n,), d], Tensor[Int64, (r,), host]"
    " -> Tensor[t, _, d]",
    flops=lambda n, m, k, **_: 2 * n * m * k,
    linear=("dy", "x"),
)
def GroupedMatMulGrad(dy: Array, x: Array, group: Array, shape: Array, *, transW: bool = False) -> Array:
    """The gradient of `GroupedMatMul` with respect to `w`, which has this `shape`: by expert, of its rows' product.

    %dw = GroupedMatMulGrad(%dy: Tensor[Float32, (6, 4), 1], %x: Tensor[Float32, (6, 3), 1], [0, 1, 1, 0, 1, 1], [2, 3, 4])
    """  # noqa: E501
    experts = int(shape[0])
    _check_groups("GroupedMatMulGrad", group, experts)
    left, right = (wide(dy), wide(x)) if transW else (wide(x), wide(dy))
    result = np.zeros((experts, left.shape[1], right.shape[1]), left.dtype)
    for expert in range(experts):
        rows = group == expert
        result[expert] = left[rows].T @ right[rows]
    return result.astype(dy.dtype, copy=False)


@GroupedMatMulGrad.shapes
def _(dy: TensorType, x: TensorType, group: TensorType, shape: Operand, *, transW: bool) -> Shape:
    m, k = (operand.shape[1] if operand.shape else None for operand in (dy, x))
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
    return Layout((("n", "m"), ("n", "k"), ("n",), ()), (matrix,), stated=3)


def _check_groups(op: str, group: Array, experts: int) -> None:
    if group.size and not (group.min() >= 0 and group.max() < experts):
        message = f"`{op}` expected groups from 0 to {experts - 1}, found {group.min()} to {group.max()}"
        raise Reject(codes.BAD_VALUE, message, "group")
