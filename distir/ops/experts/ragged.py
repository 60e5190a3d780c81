"""Products and addends of rows that are sorted by expert."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import Dim, Part, Shape, TensorType
from distir.ops.core import op
from distir.ops.experts.of_pieces import expanded, multiplied, outer, summed
from distir.ops.experts.operands import letters_of, stated_rows, touched
from distir.ops.host import Operand, known_dims
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.resources import MatrixProduct
from distir.ops.specs import FIRST_ORDER_ONLY
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write


def ragged_flops(*, n: int, k: int, elements: int, load: float, **_: Any) -> int:
    """The FLOPs of a product of as many rows as a run has."""
    return round(load * 2 * k * elements)


def ragged_product(
    *, e: int, n: int, k: int, elements: int, load: float, top_k: int, g: int = 1, i: int = 0, **_: Any
) -> MatrixProduct:
    """Each expert that has rows is a product of its own, of its rows in all groups."""
    experts = max(1, round(touched(load * g * n, e, top_k) if i else e))
    return MatrixProduct(math.ceil(load * g * n / experts), elements // (g * n), k, experts, grouped=True)


def _ragged_bytes(
    *,
    t: int,
    e: int,
    r: int,
    s: int,
    n: int,
    k: int,
    elements: int,
    load: float,
    top_k: int,
    g: int = 1,
    i: int = 0,
    **_: Any,
) -> int:
    rows = load * g * n
    matrices = touched(rows, e, top_k) if i else e
    return round(t * (rows * k + load * elements + matrices * r * s)) + i * g * e


@op(
    "Tensor[t:float, (*g, n, k), d], Tensor[t:float, (e, r, s), d], Optional[Tensor[i:int, (*g, e), d]]"
    " -> Tensor[t, (*g, n, _), d]",
    flops=ragged_flops,
    contraction=ragged_product,
    bytes=_ragged_bytes,
    linear=("x", "w"),
)
def RaggedMatMul(
    x: Array,
    w: Array,
    counts: Array | None = None,
    *,
    transW: bool = False,
    load: float = 1.0,
    top_k: int = 1,
    owners: int = 1,
) -> Array:
    """Rows that are sorted by expert, times the matrices of their experts, transposed if `transW`.

    In each group the first `counts[0]` rows of `x` are multiplied with `w[0]`, the next `counts[1]` with `w[1]`, and so
    on; rows after them give 0. Without `counts` each expert has equally many rows (a capacity). It is `grouped_mm` of
    torch, `ragged_dot` of JAX, Megatron's grouped GEMM.

    With `owners`, the rows of each group are in so many equal parts, one after the other, each with the rows of as many
    experts and a rest without an expert, as `Dispatch` makes them for devices that have parts of the experts.

    Two attributes concern the work alone. `load` is the number of rows that a run multiplies, over those of `x`: 1.3 on
    a device whose experts get 1.3 times the mean, less than 1 where a static bound leaves rows empty. FLOPs and the
    traffic of rows are multiplied by it. `top_k` says how many rows are of one token, and so of different experts. Of E
    experts, R rows read the weights of E * (1 - (1 - top_k / E) ** (R / top_k)), which is all of them for many rows.

    %y = RaggedMatMul(%x: Tensor[Float32, (6, 5), 1], %w: Tensor[Float32, (4, 5, 3), 1], [2, 0, 3, 1])
    %y = RaggedMatMul[transW = true](%x: Tensor[Float32, (2, 4, 5), 1], %w: Tensor[Float32, (3, 6, 5), 1], %counts: Tensor[Int64, (2, 3), 1])
    %y = RaggedMatMul(%x: Tensor[Float32, (2, 6, 5), 1], %w: Tensor[Float32, (3, 5, 4), 1])
    %y = RaggedMatMul[owners = 2](%x: Tensor[Float32, (8, 5), 1], %w: Tensor[Float32, (4, 5, 3), 1], [2, 0, 3, 1])
    """  # noqa: E501 - an example is one line
    matrices = wide(w).swapaxes(1, 2) if transW else wide(w)
    rows, result = wide(x), np.zeros((*x.shape[:-1], matrices.shape[2]), matrices.dtype)
    counts = _even(x, len(w)) if counts is None else counts
    for expert, own in _of_experts("RaggedMatMul", counts, x.shape[-2], owners):
        result[own] = rows[own] @ matrices[expert]
    return result.astype(x.dtype, copy=False)


@RaggedMatMul.pieces
def _(p: Pieces, x: Piece, w: Piece, counts: Piece | None = None, **attrs: Any) -> Any:
    return multiplied(p, x, w, counts, **attrs)


@RaggedMatMul.shapes
def _(
    x: TensorType,
    w: TensorType,
    counts: TensorType | None = None,
    *,
    transW: bool,
    load: float,
    top_k: int,
    owners: int,
) -> Shape | None:
    check_load("RaggedMatMul", load, top_k)
    e, r, s = w.shape or (None, None, None)
    check_owners("RaggedMatMul", owners, x.shape[-2] if x.shape else None, e)
    if counts is None:
        _check_even("RaggedMatMul", x, e)
    k, m = (s, r) if transW else (r, s)
    found = x.shape[-1] if x.shape else None
    if found is not None and k is not None and found != k:
        note = (Part("operand", 0), f"`k` is {found} here")
        message = f"`RaggedMatMul` operands disagree on dimension `k`: expected {found}, found {k}"
        raise Reject(codes.SHAPE_MISMATCH, message, "w", (note,))
    return None if x.shape is None else (*x.shape[:-1], m)


@RaggedMatMul.sharding
def _(
    x: TensorType,
    w: TensorType,
    counts: TensorType | None = None,
    *,
    results: Sequence[Shape],
    transW: bool,
    owners: int,
    **_: Any,
) -> Layout:
    own, said = owned_letter(owners)
    matrix: Letters = (own, "m", "k") if transW else (own, "k", "m")
    groups = letters_of(x, 2)
    given: tuple[Letters, ...] = ((*groups, own, "k"), matrix, (*groups, own))
    return Layout(given[: 2 if counts is None else 3], ((*groups, own, "m"),), **said)


@RaggedMatMul.grad
def _(g: Backward) -> Gradients:
    x, w, counts = g.definite(0), g.definite(1), g.definite(2)
    other = {name: value for name, value in g.statement.attrs.items() if name != "transW"}
    if not g.attrs["transW"]:
        other["transW"] = True
    dx = g("RaggedMatMul", g.dy, w, counts, **other) if g.wants(0) else None
    experts = g.size_along(w, 0) if counts is None and g.wants(1) else None
    dw = g("RaggedMatMulGrad", g.dy, x, counts, experts, **g.statement.attrs) if g.wants(1) else None
    return [dx, dw, None]


@RaggedMatMul.torch(fresh=True)
def _(
    write: Write,
    x: Expr,
    w: Expr,
    counts: Expr | None = None,
    *,
    transW: bool,
    load: float,
    top_k: int,
    owners: int,
) -> str:
    matrices = f"{w}.transpose(1, 2)" if transW else str(w)
    given = None if counts is None else counts.tensor
    return f"{write.kernel('ragged_product')}({x}, {matrices}, {given}{stated_owners(owners)})"


def ragged_gradient_flops(*, n: int, m: int, k: int, load: float, g: int = 1, **_: Any) -> int:
    """The FLOPs of the gradient of all matrices."""
    return round(load * 2 * g * n * m * k)


def ragged_gradient_product(
    *, n: int, m: int, k: int, load: float, elements: int, g: int = 1, **_: Any
) -> MatrixProduct:
    """Each expert is a product that is summed over its rows."""
    experts = max(1, elements // (m * k))
    return MatrixProduct(k, m, math.ceil(load * g * n / experts), experts, grouped=True)


def _ragged_gradient_bytes(
    *, t: int, n: int, m: int, k: int, load: float, elements: int, g: int = 1, e: int = 0, i: int = 0, **_: Any
) -> int:
    return round(load * t * g * n * (m + k)) + t * elements + i * g * e


@op(
    "Tensor[t:float, (*g, n, m), d], Tensor[t:float, (*g, n, k), d], Optional[Tensor[i:int, (*g, e), d]],"
    " Optional[Tensor[Int64, (), host]] -> Tensor[t, (_, _, _), d]",
    flops=ragged_gradient_flops,
    contraction=ragged_gradient_product,
    bytes=_ragged_gradient_bytes,
    linear=("dy", "x"),
    non_differentiable=FIRST_ORDER_ONLY,
)
def RaggedMatMulGrad(
    dy: Array,
    x: Array,
    counts: Array | None = None,
    experts: Array | None = None,
    *,
    transW: bool = False,
    load: float = 1.0,
    top_k: int = 1,
    owners: int = 1,
) -> Array:
    """The gradient of `RaggedMatMul` with respect to `w`. The gradients of all experts are written.

    Without `counts`, each of `experts` has equally many rows.

    %dw = RaggedMatMulGrad(%dy: Tensor[Float32, (6, 3), 1], %x: Tensor[Float32, (6, 5), 1], [2, 0, 3, 1])
    %dw = RaggedMatMulGrad[experts = 3](%dy: Tensor[Float32, (2, 6, 3), 1], %x: Tensor[Float32, (2, 6, 5), 1])
    %dw = RaggedMatMulGrad[owners = 2](%dy: Tensor[Float32, (8, 3), 1], %x: Tensor[Float32, (8, 5), 1], [2, 0, 3, 1])
    """
    left, right = (wide(dy), wide(x)) if transW else (wide(x), wide(dy))
    counts = _even(x, 1 if experts is None else int(experts)) if counts is None else counts
    result = np.zeros((counts.shape[-1], left.shape[-1], right.shape[-1]), left.dtype)
    for expert, own in _of_experts("RaggedMatMulGrad", counts, x.shape[-2], owners):
        result[expert] += left[own].T @ right[own]
    return result.astype(dy.dtype, copy=False)


@RaggedMatMulGrad.pieces
def _(p: Pieces, dy: Piece, x: Piece, counts: Piece | None = None, experts: Piece | None = None, **attrs: Any) -> Any:
    return outer(p, dy, x, counts, experts, **attrs)


@RaggedMatMulGrad.shapes
def _(
    dy: TensorType,
    x: TensorType,
    counts: TensorType | None = None,
    experts: Operand | None = None,
    *,
    transW: bool,
    load: float,
    top_k: int,
    owners: int,
) -> Shape:
    check_load("RaggedMatMulGrad", load, top_k)
    check_owners("RaggedMatMulGrad", owners, x.shape[-2] if x.shape else None, None)
    if (counts is None) == (experts is None):
        message = "`RaggedMatMulGrad` expected either `counts` or `experts`, found "
        raise Reject(codes.BAD_VALUE, message + ("neither" if counts is None else "both"), Part("callee"))
    (stated,) = known_dims(experts) or (None,)
    if counts is None:
        _check_even("RaggedMatMulGrad", x, stated)
    elif counts.shape:
        stated = counts.shape[-1]
    m, k = (operand.shape[-1] if operand.shape else None for operand in (dy, x))
    return (stated, *((m, k) if transW else (k, m)))


@RaggedMatMulGrad.sharding
def _(
    dy: TensorType,
    x: TensorType,
    counts: TensorType | None = None,
    experts: Operand | None = None,
    *,
    results: Sequence[Shape],
    transW: bool,
    owners: int,
    **_: Any,
) -> Layout:
    own, said = owned_letter(owners)
    matrix: Letters = (own, "m", "k") if transW else (own, "k", "m")
    groups = letters_of(x, 2)
    others: tuple[Letters, ...] = ((*groups, own),) if experts is None else ((), ())
    if experts is not None and own is not None:
        said["divided_operands"] = {"o": (3,)}
    return Layout(((*groups, own, "m"), (*groups, own, "k"), *others), (matrix,), **said)


@RaggedMatMulGrad.torch(fresh=True)
def _(
    write: Write,
    dy: Expr,
    x: Expr,
    counts: Expr | None = None,
    experts: Expr | None = None,
    *,
    transW: bool,
    load: float,
    top_k: int,
    owners: int,
) -> str:
    left, right = (dy, x) if transW else (x, dy)
    count, *_ = write.results[0].shape or (0,)
    given = None if counts is None else counts.tensor
    return f"{write.kernel('ragged_outer_product')}({left}, {right}, {given}, {count}{stated_owners(owners)})"


@op(
    "Tensor[t:float, (e, h), d], Tensor[i:int, (*g, e), d], Tensor[Int64, (), host] -> Tensor[t, (*g, _, h), d]",
    flops=0,
    bytes=lambda t, i, elements, e, g=1, **_: 2 * t * elements + i * g * e,
    linear=("x",),
)
def RaggedExpand(x: Array, counts: Array, rows: Array, *, owners: int = 1) -> Array:
    """The row of each expert, for each of the rows that are sorted by expert: what is added as the experts' biases.

    In each group there are `counts[e]` times `x[e]`, and zeros up to `rows`. torch's `repeat_interleave`. `owners`
    as in `RaggedMatMul`.

    %y = RaggedExpand(%bias: Tensor[Float32, (4, 5), 1], [2, 0, 3, 1], 6)
    %y = RaggedExpand(%bias: Tensor[Float32, (3, 5), 1], %counts: Tensor[Int64, (2, 3), 1], 4)
    %y = RaggedExpand[owners = 2](%bias: Tensor[Float32, (4, 5), 1], [2, 0, 3, 1], 8)
    """
    result = np.zeros((*counts.shape[:-1], int(rows), x.shape[-1]), x.dtype)
    for expert, own in _of_experts("RaggedExpand", counts, int(rows), owners):
        result[own] = x[expert]
    return result


@RaggedExpand.pieces
def _(p: Pieces, x: Piece, counts: Piece, rows: Piece, *, owners: int) -> Any:
    return expanded(p, x, counts, rows, owners=owners)


@RaggedExpand.shapes
def _(x: TensorType, counts: TensorType, rows: Operand, *, owners: int) -> Shape | None:
    stated, width = stated_rows("RaggedExpand", rows), x.shape[-1] if x.shape else None
    check_owners("RaggedExpand", owners, stated, x.shape[0] if x.shape else None)
    return None if counts.shape is None else (*counts.shape[:-1], stated, width)


@RaggedExpand.sharding
def _(x: TensorType, counts: TensorType, rows: Operand, *, results: Sequence[Shape], owners: int) -> Layout:
    own, said = owned_letter(owners)
    groups = letters_of(counts, 1)
    if own is not None:
        said["divided_operands"] = {"o": (2,)}
    return Layout(((own, "h"), (*groups, own), ()), ((*groups, own, "h"),), **said)


@RaggedExpand.grad
def _(g: Backward) -> Gradients:
    return [g("RaggedSum", g.dy, g.definite(1), **g.statement.attrs), None, None]


@RaggedExpand.torch(fresh=True)
def _(write: Write, x: Expr, counts: Expr, rows: Expr, *, owners: int) -> str:
    *_, count, _ = write.results[0].shape or (0, 0)
    return f"{write.kernel('ragged_expand')}({x.tensor}, {counts.tensor}, {count}{stated_owners(owners)})"


@op(
    "Tensor[t:float, (*g, n, h), d], Tensor[i:int, (*g, e), d] -> Tensor[t, (_, h), d]",
    flops=lambda inputs, **_: inputs,
    linear=("x",),
)
def RaggedSum(x: Array, counts: Array, *, owners: int = 1) -> Array:
    """The sum of each expert's rows, over all groups: the transposition of `RaggedExpand`. `owners` as there.

    %y = RaggedSum(%x: Tensor[Float32, (6, 5), 1], [2, 0, 3, 1])
    %y = RaggedSum(%x: Tensor[Float32, (2, 4, 5), 1], %counts: Tensor[Int64, (2, 3), 1])
    %y = RaggedSum[owners = 2](%x: Tensor[Float32, (8, 5), 1], [2, 0, 3, 1])
    """
    total = np.zeros((counts.shape[-1], x.shape[-1]), wide(x).dtype)
    for expert, own in _of_experts("RaggedSum", counts, x.shape[-2], owners):
        total[expert] += np.sum(wide(x[own]), axis=0)
    return total.astype(x.dtype, copy=False)


@RaggedSum.pieces
def _(p: Pieces, x: Piece, counts: Piece, *, owners: int) -> Any:
    return summed(p, x, counts, owners=owners)


@RaggedSum.shapes
def _(x: TensorType, counts: TensorType, *, owners: int) -> Shape | None:
    e = counts.shape[-1] if counts.shape else None
    check_owners("RaggedSum", owners, x.shape[-2] if x.shape else None, e)
    return None if x.shape is None or counts.shape is None else (e, x.shape[-1])


@RaggedSum.sharding
def _(x: TensorType, counts: TensorType, *, results: Sequence[Shape], owners: int) -> Layout:
    own, said = owned_letter(owners)
    groups = letters_of(x, 2)
    return Layout(((*groups, own, "h"), (*groups, own)), ((own, "h"),), **said)


@RaggedSum.grad
def _(g: Backward) -> Gradients:
    x = g.x[0]
    count = g.size_along(x, g.rank(x) - 2)
    return [g("RaggedExpand", g.dy, g.definite(1), count, **g.statement.attrs), None]


@RaggedSum.torch(fresh=True)
def _(write: Write, x: Expr, counts: Expr, *, owners: int) -> str:
    return f"{write.kernel('ragged_sum')}({x}, {counts.tensor}{stated_owners(owners)})"


def _of_experts(name: str, counts: Array, rows: int, owners: int) -> Iterator[tuple[int, tuple[int | slice, ...]]]:
    """Each expert of each group that has rows, and where they are."""
    room = rows // owners
    parts = counts.reshape(*counts.shape[:-1], owners, -1)
    last = np.cumsum(parts, axis=-1)
    if counts.size and (counts.min() < 0 or last.max() > room):
        message = f"`{name}` expected counts whose sum is at most {room} rows, found {last[..., -1].max()}"
        raise Reject(codes.BAD_VALUE, message, "counts")
    last = (last + room * np.arange(owners)[:, None]).reshape(counts.shape)
    for place in zip(*np.nonzero(counts), strict=True):
        *group, expert = map(int, place)
        end = int(last[place])
        yield expert, (*group, slice(end - int(counts[place]), end))


def _even(x: Array, experts: int) -> Array:
    """The counts where each expert has equally many rows."""
    return np.full((*x.shape[:-2], experts), x.shape[-2] // max(experts, 1))


def _check_even(name: str, x: TensorType, experts: Dim) -> None:
    rows = x.shape[-2] if x.shape else None
    if isinstance(experts, int) and experts < 1:
        raise Reject(codes.BAD_VALUE, f"`{name}` expected at least 1 expert, found {experts}", Part("callee"))
    if isinstance(rows, int) and isinstance(experts, int) and rows % experts:
        message = f"`{name}` without `counts` expected equally many rows for each of {experts} experts, found {rows}"
        raise Reject(codes.SHAPE_MISMATCH, message, "x", help="give the number of rows of each expert as `counts`")


def check_load(name: str, load: float, top_k: int) -> None:
    """Raise Reject for an impossible `load` or `top_k`."""
    if not 0 < load < math.inf:
        raise Reject(codes.BAD_VALUE, f"`{name}` expected a load above 0, found {load}", "load")
    if top_k < 1:
        raise Reject(codes.BAD_VALUE, f"`{name}` expected at least 1 row for a token, found {top_k}", "top_k")


def check_owners(name: str, owners: int, rows: Dim, experts: Dim) -> None:
    """Raise Reject if rows or experts have no such number of owners."""
    for count, of in ((rows, "rows"), (experts, "experts")):
        if owners < 1 or (isinstance(count, int) and count % owners):
            message = f"`{name}` expected owners of equal parts of {count} {of}, found {owners}"
            raise Reject(codes.BAD_VALUE, message, "owners")


def owned_letter(owners: int) -> tuple[str | None, dict[str, Any]]:
    """The letter of experts that several devices own, and of their rows, with its layout."""
    return ("o", {"owned": "o", "divided": {"o": ("owners",)}}) if owners > 1 else (None, {})


def stated_owners(owners: int) -> str:
    """The argument of a torch kernel, where there are several owners."""
    return f", owners={owners}" if owners > 1 else ""
