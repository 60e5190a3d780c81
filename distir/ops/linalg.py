"""Matrix products."""

from __future__ import annotations

from typing import Any

from distir.diagnostics.codes import types as codes
from distir.ir import DimensionError, Part, Shape, TensorType, types
from distir.ops.core import op
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.unify import Reject, broadcast


@op(
    "Tensor[t:number, (..., m, k), d], Tensor[t:number, (..., k, n), d] -> Tensor[t, (..., m, n), d]",
    "Tensor[t:number, (k,), d], Tensor[t:number, (..., k, n), d] -> Tensor[t, (..., n), d]",
    "Tensor[t:number, (..., m, k), d], Tensor[t:number, (k,), d] -> Tensor[t, (..., m), d]",
    "Tensor[t:number, (k,), d], Tensor[t:number, (k,), d] -> Tensor[t, (), d]",
    flops=lambda k, elements, **_: 2 * k * elements,
    linear=("a", "b"),
)
def MatMul(a: Array, b: Array) -> Array:
    """Matrix product over the last two dimensions; leading dimensions broadcast. ONNX `MatMul`.

    %c = MatMul(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (3, 4), 1])
    %c = MatMul(%a: Tensor[Float32, (5, 2, 3), 1], %b: Tensor[Float32, (3, 4), 1])
    """
    return np.matmul(wide(a), wide(b)).astype(a.dtype, copy=False)


@op(
    "Tensor[t:number, (p, q), d], Tensor[t:number, (r, s), d], Optional[Tensor[t:number, (...), d]] -> Tensor[t, _, d]",
    flops=lambda p, q, elements, transA, **_: 2 * (p if transA else q) * elements,
)
def Gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: bool = False,
    transB: bool = False,
) -> Array:
    """`alpha * a' @ b' + beta * c`, where a prime is a transposition if `transA` or `transB` says so. ONNX `Gemm`.

    %y = Gemm(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (3, 4), 1], %c: Tensor[Float32, (4,), 1])
    %y = Gemm[transB = true](%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (4, 3), 1])
    """
    product = np.matmul(wide(a.T if transA else a), wide(b.T if transB else b))
    scaled = product if alpha == 1 else alpha * product
    whole = scaled if c is None else scaled + (wide(c) if beta == 1 else beta * wide(c))
    return whole.astype(a.dtype, copy=False)


@Gemm.shapes
def _(a: TensorType, b: TensorType, c: TensorType | None = None, **attrs: Any) -> Shape:
    (p, q), (r, s) = a.shape or (None, None), b.shape or (None, None)
    (m, k), (k_b, n) = (q, p) if attrs["transA"] else (p, q), (s, r) if attrs["transB"] else (r, s)
    if k is not None and k_b is not None and k != k_b:
        note = (Part("operand", 0), f"`k` is {k} here")
        message = f"`Gemm` operands disagree on dimension `k`: expected {k}, found {k_b}"
        raise Reject(codes.SHAPE_MISMATCH, message, "b", (note,))
    if c is not None and c.shape is not None:
        try:
            fits = broadcast(c.shape, (m, n)) == (m, n) or None in (m, n, *c.shape)
        except DimensionError:
            fits = False
        if not fits:
            message = f"`Gemm` expected an addend that broadcasts to {types.show_shape((m, n))}"
            raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {types.show_shape(c.shape)}", "c")
    return (m, n)


@Gemm.sharding
def _(a: TensorType, b: TensorType, c: TensorType | None = None, *, results: tuple[Shape, ...], **attrs: Any) -> Layout:
    first, second = ("k", "m") if attrs["transA"] else ("m", "k"), ("n", "k") if attrs["transB"] else ("k", "n")
    operands: list[Letters] = [first, second]
    if c is not None:
        letters = zip(("m", "n")[2 - len(c.shape or ()) :], c.shape or (), strict=True)
        operands.append(tuple(None if dim == 1 else letter for letter, dim in letters))
    # Of a partial product the addend is to be added once: a part of it on each device.
    return Layout(tuple(operands), (("m", "n"),), divided={"k": ("beta",)} if c is not None else {})
