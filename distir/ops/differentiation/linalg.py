"""Gradients of matrix products and contractions.

A matrix of weights is read transposed by `Gemm`, where a `Transpose` would copy it.
"""

from __future__ import annotations

from string import ascii_letters
from typing import Any, cast

from distir.ir import Arg
from distir.ops import linalg as ops
from distir.ops.differentiation.backward import Backward, Gradients
from distir.ops.equation import Equation, Labels, parse_equation


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


@ops.Einsum.grad
def _(g: Backward) -> Gradients:
    """The gradient of an operand is a contraction of the result's gradient with the other operands."""
    parsed = parse_equation(cast(str, g.attrs["equation"]))
    if any("..." in labels for labels in parsed.operands):
        parsed = _spelled_out(g, parsed)
    return [_contracted(g, parsed, i) if g.wants(i) else None for i in range(len(g.x))]


def _contracted(g: Backward, parsed: Equation, index: int) -> Arg:
    x, labels = g.x[index], parsed.operands[index]
    if len(set(labels)) < len(labels):
        raise g.refuse("`Einsum` has no gradient for an operand of which it takes a diagonal")
    others = [i for i in range(len(g.x)) if i != index]
    terms = (parsed.result, *(parsed.operands[i] for i in others))
    kept = tuple(label for label in labels if any(label in term for term in terms))
    dx = g("Einsum", g.dy, *(g.x[i] for i in others), equation=str(Equation(terms, kept)))
    summed = tuple(i for i, label in enumerate(labels) if label not in kept)
    if summed:  # a label of this operand alone was summed over: each of its elements counts alike
        dx = g("Expand", g("Unsqueeze", dx, summed), g.shape_of(x))
    return g.sum_to(dx, x)


def _spelled_out(g: Backward, parsed: Equation) -> Equation:
    """The equation with letters for `...`, where all operands that have it agree on it."""
    around = [len(labels) - 1 for labels in parsed.operands]
    shapes = [g.known_shape(x) if "..." in labels else () for x, labels in zip(g.x, parsed.operands, strict=True)]
    spread = [
        shape[labels.index("...") : len(shape) - n + labels.index("...")]
        for shape, labels, n in zip(shapes, parsed.operands, around, strict=True)
        if "..." in labels
    ]
    if any(dims != spread[0] for dims in spread):
        raise g.refuse("`Einsum` has a gradient only where the dimensions `...` of its operands agree")
    free = [letter for letter in ascii_letters if letter not in str(parsed)]
    letters = tuple(free[: len(spread[0])])

    def spell(labels: Labels) -> Labels:
        return tuple(letter for label in labels for letter in (letters if label == "..." else (label,)))

    return Equation(tuple(map(spell, parsed.operands)), spell(parsed.result))
