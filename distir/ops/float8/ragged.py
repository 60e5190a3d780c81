"""Products of experts in 8-bit floats: those of rows that are sorted by expert, quantised.

Blocks are along features alone, as the rows of an expert begin anywhere: a row has the same scales in its product and
in that of its expert's gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics.codes import types as codes
from distir.ir import DType, Shape, TensorType
from distir.ops.core import op
from distir.ops.experts.operands import letters_of, touched
from distir.ops.experts.ragged import (
    RaggedMatMul,
    RaggedMatMulGrad,
    check_load,
    check_owners,
    owned_letter,
    ragged_flops,
    ragged_gradient_flops,
    ragged_gradient_product,
    ragged_product,
    stated_owners,
)
from distir.ops.float8.scales import (
    E5M2,
    FLOAT32,
    ROWS,
    SQUARES,
    check_block,
    check_scale,
    check_slot,
    check_type,
    letters_of_factors,
    regrouped,
    spread,
)
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, numpy_dtype
from distir.ops.specs import FIRST_ORDER_ONLY
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.torch_form import Expr, Write


def _bytes(
    *,
    t: int,
    u: int,
    to: DType,
    e: int,
    r: int,
    s: int,
    n: int,
    k: int,
    i: int,
    elements: int,
    load: float,
    top_k: int,
    g: int = 1,
    **_: Any,
) -> int:
    rows = load * g * n
    return round(t * rows * k + to.bytes * load * elements + u * touched(rows, e, top_k) * r * s) + i * g * e


@op(
    "Tensor[t:float, (*g, n, k), d], Tensor[u:float, (e, r, s), d], Tensor[i:int, (*g, e), d], Tensor[v:float, _, d],"
    " Tensor[w:float, _, d], Optional[Tensor[h:float, (_,), d]] -> Tensor[to, (*g, n, _), d]",
    flops=ragged_flops,
    contraction=ragged_product,
    bytes=_bytes,
)
def ScaledRaggedMatMul(
    x: Array,
    w: Array,
    counts: Array,
    x_scale: Array,
    w_scale: Array,
    greatest: Array | None = None,
    *,
    to: DType = FLOAT32,
    transW: bool = False,
    load: float = 1.0,
    top_k: int = 1,
    owners: int = 1,
    block_x: tuple[int, ...] = ROWS,
    block_w: tuple[int, ...] = SQUARES,
    slot: int = 0,
) -> Array:
    """`RaggedMatMul` of quantised rows and matrices, summed in Float32 at least, in the element type `to`.

    Blocks of `w` are those before it is transposed by `transW`. The gradient quantises `dy` to Float8E5M2 in the blocks
    of `x`; with `greatest`, the greatest magnitudes expected, that of `dy` in `slot`, its scale follows from it.

    %y = ScaledRaggedMatMul[block_x = [1, 2], block_w = [2, 2]](%x: Tensor[Float8E4M3FN, (6, 4), 1], %w: Tensor[Float8E4M3FN, (3, 4, 2), 1], [2, 3, 1], %x_scale: Tensor[Float32, (6, 2), 1], %w_scale: Tensor[Float32, (3, 2, 1), 1])
    """  # noqa: E501 - an example is one line
    summed = numpy_dtype(max(FLOAT32, to, key=lambda dtype: dtype.bytes))
    rows = x.astype(summed) * spread(x_scale, x.shape, block_x)
    matrices = w.astype(summed) * spread(w_scale, w.shape, block_w)
    return RaggedMatMul.body(rows, matrices, counts, transW=transW, owners=owners).astype(numpy_dtype(to))


@ScaledRaggedMatMul.checks
def _(
    x: TensorType,
    w: TensorType,
    counts: TensorType,
    x_scale: TensorType,
    w_scale: TensorType,
    greatest: TensorType | None = None,
    **attrs: Any,
) -> None:
    if greatest is not None:
        check_slot("ScaledRaggedMatMul", greatest, attrs["slot"])
    for name, operand, scale in (("x", x, x_scale), ("w", w, w_scale)):
        _check_quantised("ScaledRaggedMatMul", operand, scale, attrs[f"block_{name}"], name)


@ScaledRaggedMatMul.shapes
def _(
    x: TensorType, w: TensorType, *_: TensorType, transW: bool, load: float, top_k: int, owners: int, **attrs: Any
) -> Shape | None:
    check_load("ScaledRaggedMatMul", load, top_k)
    e, r, s = w.shape or (None, None, None)
    check_owners("ScaledRaggedMatMul", owners, x.shape[-2] if x.shape else None, e)
    k, m = (s, r) if transW else (r, s)
    found = x.shape[-1] if x.shape else None
    if None not in (found, k) and found != k:
        message = f"`ScaledRaggedMatMul` operands disagree on the dimension that is summed: {found} and {k}"
        raise Reject(codes.SHAPE_MISMATCH, message, "w")
    return None if x.shape is None else (*x.shape[:-1], m)


@ScaledRaggedMatMul.sharding
def _(
    x: TensorType,
    w: TensorType,
    counts: TensorType,
    *others: TensorType,
    results: Sequence[Shape | None],
    transW: bool,
    owners: int,
    block_x: tuple[int, ...],
    block_w: tuple[int, ...],
    **_: Any,
) -> Layout:
    own, said = owned_letter(owners)
    groups = letters_of(x, 2)
    rows, matrix = (*groups, own, "k"), (own, "m", "k") if transW else (own, "k", "m")
    return _layout(rows, matrix, (*groups, own), (*groups, own, "m"), (x, w), (block_x, block_w), others, said)


@ScaledRaggedMatMul.grad
def _(g: Backward) -> Gradients:
    x, w, counts, x_scale, w_scale = g.x[:5]
    expected = [given for given in g.x[5:] if given]
    to, block_x = cast(DType, g.attrs["to"]), cast("tuple[int, ...]", g.attrs["block_x"])
    work = {name: g.attrs[name] for name in ("load", "top_k", "owners")}
    if expected:
        dy, dy_scale, _ = g.several("ScaleToFloat8", 3, g.dy, expected[0], to=E5M2, slot=cast(int, g.attrs["slot"]))
    else:
        dy, dy_scale = g.several("QuantizeFloat8", 2, g.dy, to=E5M2, block=block_x)
    dx = dw = None
    if g.wants(0):
        blocks = {"block_x": block_x, "block_w": g.attrs["block_w"]}
        flip = {"transW": not g.attrs["transW"]}
        dx = g("ScaledRaggedMatMul", dy, w, counts, dy_scale, w_scale, to=to, **flip, **blocks, **work)
    if g.wants(1):
        given = {"to": to, "block": block_x, "transW": g.attrs["transW"], **work}
        dw = g("ScaledRaggedMatMulGrad", dy, x, counts, dy_scale, x_scale, **given)
    return [dx, dw, *[None] * (len(g.x) - 2)]


@ScaledRaggedMatMul.torch(fresh=True)
def _(
    write: Write,
    x: Expr,
    w: Expr,
    counts: Expr,
    x_scale: Expr,
    w_scale: Expr,
    greatest: Expr | None = None,
    *,
    to: DType,
    transW: bool,
    load: float,
    top_k: int,
    owners: int,
    block_x: tuple[int, ...],
    block_w: tuple[int, ...],
    slot: int,
) -> str:
    rows, matrices = _wide(write, x, x_scale, block_x, to), _wide(write, w, w_scale, block_w, to)
    matrices = f"{matrices}.transpose(1, 2)" if transW else matrices
    return f"{write.kernel('ragged_product')}({rows}, {matrices}, {counts.tensor}{stated_owners(owners)})"


def _gradient_bytes(
    *,
    t: int,
    u: int,
    to: DType,
    n: int,
    m: int,
    k: int,
    e: int,
    i: int,
    elements: int,
    load: float,
    g: int = 1,
    **_: Any,
) -> int:
    return round(load * g * n * (t * m + u * k)) + to.bytes * elements + i * g * e


@op(
    "Tensor[t:float, (*g, n, m), d], Tensor[u:float, (*g, n, k), d], Tensor[i:int, (*g, e), d], Tensor[v:float, _, d],"
    " Tensor[w:float, _, d] -> Tensor[to, _, d]",
    flops=ragged_gradient_flops,
    contraction=ragged_gradient_product,
    bytes=_gradient_bytes,
    non_differentiable=FIRST_ORDER_ONLY,
)
def ScaledRaggedMatMulGrad(
    dy: Array,
    x: Array,
    counts: Array,
    dy_scale: Array,
    x_scale: Array,
    *,
    to: DType = FLOAT32,
    transW: bool = False,
    load: float = 1.0,
    top_k: int = 1,
    owners: int = 1,
    block: tuple[int, ...] = ROWS,
) -> Array:
    """The gradient of `ScaledRaggedMatMul` with respect to `w`, of quantised rows, in the element type `to`.

    %dw = ScaledRaggedMatMulGrad[block = [1, 2]](%dy: Tensor[Float8E5M2, (6, 4), 1], %x: Tensor[Float8E4M3FN, (6, 2), 1], [2, 3, 1], %dy_scale: Tensor[Float32, (6, 2), 1], %x_scale: Tensor[Float32, (6, 1), 1])
    """  # noqa: E501 - an example is one line
    summed = numpy_dtype(max(FLOAT32, to, key=lambda dtype: dtype.bytes))
    drows, rows = (q.astype(summed) * spread(s, q.shape, block) for q, s in ((dy, dy_scale), (x, x_scale)))
    return RaggedMatMulGrad.body(drows, rows, counts, transW=transW, owners=owners).astype(numpy_dtype(to))


@ScaledRaggedMatMulGrad.checks
def _(
    dy: TensorType,
    x: TensorType,
    counts: TensorType,
    dy_scale: TensorType,
    x_scale: TensorType,
    *,
    block: tuple[int, ...],
    **_: Any,
) -> None:
    for name, operand, scale in (("dy", dy, dy_scale), ("x", x, x_scale)):
        _check_quantised("ScaledRaggedMatMulGrad", operand, scale, block, name, "block")


@ScaledRaggedMatMulGrad.shapes
def _(
    dy: TensorType,
    x: TensorType,
    counts: TensorType,
    *_: TensorType,
    transW: bool,
    load: float,
    top_k: int,
    owners: int,
    **attrs: Any,
) -> Shape:
    check_load("ScaledRaggedMatMulGrad", load, top_k)
    check_owners("ScaledRaggedMatMulGrad", owners, x.shape[-2] if x.shape else None, None)
    m, k = (operand.shape[-1] if operand.shape else None for operand in (dy, x))
    return (counts.shape[-1] if counts.shape else None, *((m, k) if transW else (k, m)))


@ScaledRaggedMatMulGrad.sharding
def _(
    dy: TensorType,
    x: TensorType,
    counts: TensorType,
    *others: TensorType,
    results: Sequence[Shape | None],
    transW: bool,
    owners: int,
    block: tuple[int, ...],
    **_: Any,
) -> Layout:
    own, said = owned_letter(owners)
    groups = letters_of(x, 2)
    drows, rows = (*groups, own, "m"), (*groups, own, "k")
    result = (own, "m", "k") if transW else (own, "k", "m")
    return _layout(drows, rows, (*groups, own), result, (dy, x), (block, block), others, said)


@ScaledRaggedMatMulGrad.torch(fresh=True)
def _(
    write: Write,
    dy: Expr,
    x: Expr,
    counts: Expr,
    dy_scale: Expr,
    x_scale: Expr,
    *,
    to: DType,
    transW: bool,
    load: float,
    top_k: int,
    owners: int,
    block: tuple[int, ...],
) -> str:
    drows, rows = _wide(write, dy, dy_scale, block, to), _wide(write, x, x_scale, block, to)
    left, right = (drows, rows) if transW else (rows, drows)
    count, *_ = write.results[0].shape or (0,)
    given = f"{left}, {right}, {counts.tensor}, {count}{stated_owners(owners)}"
    return f"{write.kernel('ragged_outer_product')}({given})"


def _check_quantised(
    op: str, x: TensorType, scale: TensorType, block: tuple[int, ...], name: str, attr: str = ""
) -> None:
    check_type(op, x.dtype, name)
    check_block(op, block, x.shape, attr or f"block_{name}")
    check_scale(op, x, scale, block, f"{name}_scale")


def _layout(
    left: Letters,
    right: Letters,
    counts: Letters,
    result: Letters,
    operands: tuple[TensorType, TensorType],
    blocks: tuple[tuple[int, ...], tuple[int, ...]],
    others: Sequence[TensorType],
    said: dict[str, Any],
) -> Layout:
    """Of two quantised operands and their result."""
    shapes = [x.shape for x in operands]
    factors, scales, (counted, made) = letters_of_factors(
        [*zip((left, right), shapes, blocks, strict=True)], (counts, result)
    )
    expected: tuple[Letters, ...] = ((None,),) * (len(others) - 2)
    contiguous = frozenset[str]().union(*map(regrouped, factors, blocks))
    return Layout((*factors, counted, *scales, *expected), (made,), contiguous=contiguous, **said)


def _wide(write: Write, q: Expr, scale: Expr, block: tuple[int, ...], to: DType) -> str:
    spelled = write.items(block) if block else "()"
    return f"{write.kernel('dequantize_float8')}({q}, {scale}, {spelled}).to({write.dtype(to)})"
