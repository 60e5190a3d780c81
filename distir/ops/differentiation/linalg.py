"""Gradients of matrix products. A matrix of weights is read transposed by `Gemm`, where a `Transpose` would copy it."""

from __future__ import annotations

from typing import Any

from distir.ir import Arg
from distir.ops import linalg as ops
from distir.ops.differentiation.backward import Backward, Gradients


@ops.MatMul.grad
def _(g: Backward) -> Gradients:
    a, b = g.definite(0), g.definite(1)
    # A vector stands for a matrix of one row (left) or one column (right).
    left = g("Unsqueeze", a, (0,)) if g.rank(a) == 1 else a
    right = g("Unsqueeze", b, (1,)) if g.rank(b) == 1 else b
    dy: Any = g.dy
    if g.rank(b) == 1:
        dy = g("Unsqueeze", dy, (-1,))
    if g.rank(a) == 1:
        dy = g("Unsqueeze", dy, (-2,))
    da, db = _weighted(g, left, right, dy) if g.rank(right) == 2 else _batched(g, left, right, dy)
    return [
        g("Squeeze", da, (0,)) if g.rank(a) == 1 and da is not None else da,
        g("Squeeze", db, (1,)) if g.rank(b) == 1 and db is not None else db,
    ]


def _weighted(g: Backward, a: Arg, w: Arg, dy: Arg) -> tuple[Arg | None, Arg | None]:
    """The leading dimensions of `a` are one long one for the matrix `w`."""
    rank = g.rank(a)
    rows = a if rank == 2 else g("Flatten", a, axis=rank - 1)
    drows = dy if rank == 2 else g("Flatten", dy, axis=rank - 1)
    da = g.reshape_like(g("Gemm", drows, w, transB=True), a) if g.wants(0) else None
    dw = g("Gemm", rows, drows, transA=True) if g.wants(1) else None
    return da, dw


def _batched(g: Backward, a: Arg, b: Arg, dy: Arg) -> tuple[Arg | None, Arg | None]:
    da = g.sum_to(g("MatMul", dy, g.transposed(b)), a) if g.wants(0) else None
    db = g.sum_to(g("MatMul", g.transposed(a), dy), b) if g.wants(1) else None
    return da, db


@ops.Gemm.grad
def _(g: Backward) -> Gradients:
    a, b, c = g.x
    flip_a, flip_b = g.attrs["transA"], g.attrs["transB"]
    factor = {} if g.attrs["alpha"] == 1 else {"alpha": g.attrs["alpha"]}
    da = db = dc = None
    if g.wants(0):
        # a' = dy @ b'.T, and if a is read transposed, all of it is.
        da = _gemm(g, b, g.dy, flip_b, True, factor) if flip_a else _gemm(g, g.dy, b, False, not flip_b, factor)
    if g.wants(1):
        db = _gemm(g, g.dy, a, True, flip_a, factor) if flip_b else _gemm(g, a, g.dy, not flip_a, False, factor)
    if g.wants(2):
        scaled = g.dy if g.attrs["beta"] == 1 else g("Mul", g.dy, g.attrs["beta"])
        dc = g.sum_to(scaled, c)
    return [da, db, dc]


def _gemm(g: Backward, a: Arg, b: Arg, flip_a: object, flip_b: object, factor: dict[str, Any]) -> str:
    flips = {name: True for name, flip in (("transA", flip_a), ("transB", flip_b)) if flip}
    return g("Gemm", a, b, **factor, **flips)
