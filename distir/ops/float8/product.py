"""The product of quantised tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics.codes import types as codes
from distir.ir import DType, Shape, TensorType, dims
from distir.ops.core import op
from distir.ops.float8.scales import (
    E5M2,
    FLOAT32,
    ROWS,
    SQUARES,
    check_block,
    check_scale,
    check_slot,
    check_type,
    grains_of,
    letters_of_factors,
    regrouped,
    spread,
)
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np, numpy_dtype
from distir.ops.resources import MatrixProduct
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.torch_form import Expr, Write


def _scaled_product(*, s: int = 1, m: int, k: int, elements: int, transA: bool, **_: Any) -> MatrixProduct:
    rows = k if transA else s * m
    return MatrixProduct(rows, elements // rows, s * m if transA else k)


@op(
    "Tensor[t:float, (*s, m, k), d], Tensor[u:float, _, d], Tensor[v:float, _, d], Tensor[w:float, _, d],"
    " Optional[Tensor[h:float, (_,), d]] -> Tensor[to, _, d]",
    flops=lambda s, m, k, elements, transA, **_: 2 * (s * m if transA else k) * elements,
    contraction=_scaled_product,
)
def ScaledMatMul(
    a: Array,
    b: Array,
    a_scale: Array,
    b_scale: Array,
    greatest: Array | None = None,
    *,
    to: DType = FLOAT32,
    transA: bool = False,
    transB: bool = False,
    block_a: tuple[int, ...] = ROWS,
    block_b: tuple[int, ...] = SQUARES,
    slot: int = 0,
) -> Array:
    """The product of quantised tensors, `a' @ b'`, summed in Float32 at least, in the element type `to`.

    A prime is a transposition if `transA` or `transB` is set; blocks are those before it. Leading dimensions of `a` are
    rows; with `transA` those of both are summed over, too. Its gradient quantises `dy` to Float8E5M2 in the blocks of
    `a`; for that of `b`, whose sums are over rows, both factors are quantised again in blocks of rows, as in
    DeepSeek-V3, unless blocks are whole examples. Blocks are of rows of one sequence where they fill it, so that parts
    of sequences are quantised where they are. With `greatest`, the greatest magnitudes expected, that of `dy` in
    `slot`, its scale follows from it.

    %y = ScaledMatMul[block_a = [1, 2], block_b = [2, 2]](%a: Tensor[Float8E4M3FN, (3, 4), 1], %b: Tensor[Float8E4M3FN, (4, 2), 1], %a_scale: Tensor[Float32, (3, 2), 1], %b_scale: Tensor[Float32, (2, 1), 1])
    """  # noqa: E501 - an example is one line
    summed = numpy_dtype(max(FLOAT32, to, key=lambda dtype: dtype.bytes))
    left = a.astype(summed) * spread(a_scale, a.shape, block_a)
    right = b.astype(summed) * spread(b_scale, b.shape, block_b)
    if transA:
        left, right = left.reshape(-1, a.shape[-1]).T, right.reshape(-1, b.shape[-1])
    product = np.matmul(left, right.T if transB else right)
    return product.astype(numpy_dtype(to))


@ScaledMatMul.checks
def _(
    a: TensorType,
    b: TensorType,
    a_scale: TensorType,
    b_scale: TensorType,
    greatest: TensorType | None = None,
    *,
    to: DType,
    transA: bool,
    **attrs: Any,
) -> None:
    if greatest is not None:
        check_slot("ScaledMatMul", greatest, attrs["slot"])
    for name, x, scale in (("a", a, a_scale), ("b", b, b_scale)):
        check_type("ScaledMatMul", x.dtype, name)
        check_block("ScaledMatMul", attrs[f"block_{name}"], x.shape, f"block_{name}")
        check_scale("ScaledMatMul", x, scale, attrs[f"block_{name}"], f"{name}_scale")
    if b.shape is None or (transA and a.shape is None):
        return
    rank = len(a.shape or ()) if transA else 2
    if len(b.shape) != rank or (rank != 2 and attrs["transB"]):
        expected = (
            "2 dimensions in both with `transA` and `transB`" if rank != 2 and attrs["transB"] else f"{rank} dimensions"
        )
        raise Reject(codes.BAD_VALUE, f"`ScaledMatMul` expected {expected}, found {len(b.shape)}", "b")


@ScaledMatMul.shapes
def _(a: TensorType, b: TensorType, *_: TensorType, transA: bool, transB: bool, **attrs: Any) -> Shape | None:
    if a.shape is None or b.shape is None:
        return None
    rows, summed = ((a.shape[-1],), a.shape[:-1]) if transA else (a.shape[:-1], a.shape[-1:])
    columns, inner = (b.shape[0], b.shape[1:]) if transB else (b.shape[-1], b.shape[:-1])
    for n, own in zip(summed, inner, strict=True):
        if None not in (n, own) and n != own:
            message = f"`ScaledMatMul` operands disagree on the dimension that is summed: {n} and {own}"
            raise Reject(codes.SHAPE_MISMATCH, message, "b")
    return (*rows, columns)


@ScaledMatMul.sharding
def _(
    a: TensorType,
    b: TensorType,
    *others: TensorType,
    results: Sequence[Shape | None],
    transA: bool,
    transB: bool,
    block_a: tuple[int, ...],
    block_b: tuple[int, ...],
    **attrs: Any,
) -> Layout:
    leading = tuple(f"s{i}" for i in range(len(a.shape or ()) - 2))
    left = (*leading, "k", "m") if transA else (*leading, "m", "k")
    summed = left[:-1] if transA else left[-1:]
    right = ("n", *summed) if transB else (*summed, "n")
    of_result = ("m", "n") if transA else (*left[:-1], "n")
    factors, scales, (result,) = letters_of_factors([(left, a.shape, block_a), (right, b.shape, block_b)], [of_result])
    expected: tuple[Letters, ...] = ((None,),) * (len(others) - 2)
    contiguous = frozenset[str]().union(*map(regrouped, factors, (block_a, block_b)))
    grains = grains_of(*zip(factors, (block_a, block_b), strict=True))
    return Layout((*factors, *scales, *expected), (result,), contiguous=contiguous, grains=grains)


@ScaledMatMul.grad
def _(g: Backward) -> Gradients:
    a, b, a_scale, b_scale = g.x[:4]
    expected = [x for x in g.x[4:] if x]
    to, flip_b = cast(DType, g.attrs["to"]), bool(g.attrs["transB"])
    block_a, block_b = (cast("tuple[int, ...]", g.attrs[name]) for name in ("block_a", "block_b"))
    if g.attrs["transA"]:
        raise g.refuse("`ScaledMatMul` with `transA` is part of a gradient", "transpose the operand instead")
    da = db = None
    if expected:
        dy, dy_scale, _ = g.several("ScaleToFloat8", 3, g.dy, expected[0], to=E5M2, slot=cast(int, g.attrs["slot"]))
    else:
        dy, dy_scale = g.several("QuantizeFloat8", 2, g.dy, to=E5M2, block=block_a)
    if g.wants(0):
        blocks = {"block_a": block_a, "block_b": block_b}
        da = g("ScaledMatMul", dy, b, dy_scale, b_scale, to=to, transB=not flip_b, **blocks)
    if g.wants(1):
        down, rows, drows = block_a, a, dy  # an example, and a whole tensor, has one scale however it is summed
        if any(block_a[1:]):
            down = block_a[::-1]
            rows, drows = g("DequantizeFloat8", a, a_scale, to=to, block=block_a), g.dy
            shape = g.known_shape(a)
            if len(shape) > 2 and not dims.is_multiple(shape[-2], down[-2]):  # a block is of several sequences
                rows, drows = (g("Flatten", x, axis=len(shape) - 1) for x in (rows, drows))
            rows, a_scale = g.several("QuantizeFloat8", 2, rows, to=g.dtype(a), block=down)
            drows, dy_scale = g.several("QuantizeFloat8", 2, drows, to=E5M2, block=down)
        blocks = {"to": to, "transA": True, "block_a": down, "block_b": down}
        operands = (drows, rows, dy_scale, a_scale) if flip_b else (rows, drows, a_scale, dy_scale)
        db = g("ScaledMatMul", *operands, **blocks)
    return [da, db, *[None] * (len(g.x) - 2)]


@ScaledMatMul.torch(fresh=True)
def _(
    write: Write,
    a: Expr,
    b: Expr,
    a_scale: Expr,
    b_scale: Expr,
    greatest: Expr | None = None,
    *,
    to: DType,
    transA: bool,
    transB: bool,
    block_a: tuple[int, ...],
    block_b: tuple[int, ...],
    slot: int,
) -> str:
    spelled = (write.items(block) if block else "()" for block in (block_a, block_b))
    given = f"{a}, {b}, {a_scale}, {b_scale}, {transA}, {transB}, {', '.join(spelled)}"
    return f"{write.kernel('scaled_product')}({given}).to({write.dtype(to)})"
