"""Adafactor, which keeps the averages of rows and columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from distir.ir import DTYPES, Arg, Literal, Shape, TensorType
from distir.ops.core import op
from distir.ops.layout import Layout, Letters, Parts
from distir.ops.numeric import Array, dense, np
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

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, Unpacked, Write


@op(
    "Tensor[t:float, (*s, m, n), d], Tensor[u:float, (*s, m, n), d], Tensor[v:float, (*s, m), d],"
    f" Tensor[v:float, (*s, n), d], Tensor[Int64, (), d], {SCALARS}"
    " -> Tensor[t, (*s, m, n), d], Tensor[v, (*s, m), d], Tensor[v, (*s, n), d]",
    "Tensor[t:float, s, d], Tensor[u:float, s, d], Tensor[v:float, s, d], Tensor[v:float, (), d], Tensor[Int64, (), d],"
    f" {SCALARS} -> Tensor[t, s, d], Tensor[v, s, d], Tensor[v, (), d]",
    flops=lambda elements, **_: 14 * elements,
    inplace={0: 0, 1: 2, 2: 3},
    temporary=lambda elements, **_: 4 * elements,
    leafwise=True,
    non_differentiable=UPDATE,
)
def Adafactor(
    w: Array,
    dw: Array,
    rows: Array,
    columns: Array,
    step: Array,
    rate: Array | None = None,
    factor: Array | None = None,
    *,
    lr: float = 0.001,
    epsilon: float = 1e-30,
    threshold: float = 1.0,
    decay: float = 0.8,
    weight_decay: float = 0.0,
) -> tuple[Array, Array, Array]:
    """A step of Adafactor, whose second moments are averages over rows and over columns. `step` counts from 1.

    With `b = 1 - step ** -decay` and `g = dw * dw + epsilon`, `rows' = b * rows + (1 - b) * mean(g)` over each row, and
    `columns'` likewise. The direction `u` is `dw` divided by the root of `rows' * columns' / mean(rows')`, and scaled
    down where its root mean square is above `threshold`: `w' = w - lr * (u + weight_decay * w)` (Shazeer and Stern,
    arXiv:1804.04235, without relative steps, as `Adafactor` of `transformers` with `relative_step=False` and
    `scale_parameter=False`). A weight of one dimension has one average per element, in `rows`.

    Its means are over whole weights: where these are split, averages of rows or columns, and the mean of squares, are
    added up over the devices.

    %w_new, %r_new, %c_new = Adafactor(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %r: Tensor[Float32, (2,), 1], %c: Tensor[Float32, (3,), 1], 1)
    %w_new, %r_new, %c_new = Adafactor[weight_decay = 0.1](%w: Tensor[Float32, (2, 2, 4), 1], %dw: Tensor[Float32, (2, 2, 4), 1], %r: Tensor[Float32, (2, 2), 1], %c: Tensor[Float32, (2, 4), 1], 2, %s: Float32[1], %f: Float32[1])
    %w_new, %r_new, %c_new = Adafactor(%w: Tensor[Float32, (3,), 1], %dw: Tensor[Float32, (3,), 1], %r: Tensor[Float32, (3,), 1], %c: Float32[1], 1)
    """  # noqa: E501 - an example is one line
    wide_w, gradient = wide(w), scaled(dw, factor)
    squares = np.square(gradient) + epsilon
    share = float(step) ** -decay
    if w.ndim < 2:
        new_rows, new_columns = (1 - share) * wide(rows) + share * squares, wide(columns)
        direction = gradient / np.sqrt(new_rows)
    else:
        new_rows = (1 - share) * wide(rows) + share * squares.mean(-1)
        new_columns = (1 - share) * wide(columns) + share * squares.mean(-2)
        relative = new_rows / new_rows.mean(-1, keepdims=True)
        direction = gradient / np.sqrt(relative[..., :, None] * new_columns[..., None, :])
    direction = direction / np.maximum(1, np.sqrt(np.square(direction).mean()) / threshold)
    updated = wide_w - rate_or(lr, rate) * (direction + weight_decay * wide_w)
    return (
        unless_skipped(factor, w, updated),
        unless_skipped(factor, rows, new_rows),
        unless_skipped(factor, columns, new_columns),
    )


@Adafactor.sharding
def _(w: TensorType, *others: TensorType, **attrs: object) -> Layout:
    """Along any dimension, in other ops: its means are over whole rows and columns, and over the whole weight."""
    own: Letters = tuple(f"s{k}" for k in range(len(w.shape or ())))
    rows, columns = (own[:-1], (*own[:-2], own[-1])) if len(own) > 1 else (own, ())
    scalars: tuple[Letters, ...] = ((),) * (len(others) - 3)
    every = frozenset(own)
    return Layout(
        (own, own, rows, columns, *scalars),
        (own, rows, columns),
        contiguous=every,
        parted=frozenset(own),
        whole=frozenset({1, 2}),
    )


@Adafactor.parted
def _(
    write: Parts,
    w: Arg,
    dw: Arg,
    rows: Arg,
    columns: Arg,
    step: Arg,
    rate: Arg = "",
    factor: Arg = "",
    *,
    lr: float,
    epsilon: float,
    threshold: float,
    decay: float,
    weight_decay: float,
) -> list[Arg]:
    """Each device's part of the weight: what is averaged over parts is summed over the devices."""
    shape = write.type(w).shape or ()
    letters = [f"s{k}" for k in range(len(shape))]
    doubled = DTYPES["Float64"] in (write.type(w).dtype, write.type(rows).dtype)
    to = DTYPES["Float64" if doubled else "Float32"]

    def widened(x: Arg) -> Arg:
        return x if write.type(x).dtype is to else write("Cast", x, to=to)

    def mean(x: Arg, axes: Sequence[int], *, keepdims: bool = False) -> Arg:
        own = write("ReduceMean", x, Literal(tuple(axes)), keepdims=keepdims)
        parted = any(letters[axis] == write.letter for axis in axes)
        return write("Mul", write.sum(own), Literal(1 / write.size)) if parted else own

    def mean_square(x: Arg, axes: Sequence[int]) -> Arg:
        """Of a value of the weight's shape: in one pass over it, of which no squares are kept."""
        number = math.prod(dim if isinstance(dim := shape[axis], int) else 0 for axis in axes)
        if not number:
            return mean(write("Mul", x, x), axes)
        own = write("ReduceSumSquare", x, Literal(tuple(axes)), keepdims=False)
        parted = any(letters[axis] == write.letter for axis in axes)
        return write("Mul", write.sum(own) if parted else own, Literal(1 / number))

    def average(before: Arg, now: Arg) -> Arg:
        kept = write("Mul", write("Sub", Literal(1.0), share), widened(before))
        return write("Add", kept, write("Mul", share, now))

    last = len(letters) - 1
    gradient = widened(dw) if factor == "" else write("Mul", widened(dw), widened(factor))
    share = write("Pow", write("Cast", step, to=to), Literal(dense(-decay, to)))
    if last < 1:
        squares = write("Add", write("Mul", gradient, gradient), Literal(epsilon))
        new_rows, new_columns = average(rows, squares), columns
        direction = write("Div", gradient, write("Sqrt", new_rows))
    else:
        squares_of_rows, squares_of_columns = (
            write("Add", mean_square(gradient, [axis]), Literal(epsilon)) for axis in (last, last - 1)
        )
        new_rows, new_columns = average(rows, squares_of_rows), average(columns, squares_of_columns)
        relative = write("Div", new_rows, mean(new_rows, [last - 1], keepdims=True))
        across, down = (
            write("Unsqueeze", write("Sqrt", x), Literal((k,))) for x, k in ((relative, last), (new_columns, last - 1))
        )
        direction = write("Div", write("Div", gradient, across), down)
    size = write("Sqrt", mean_square(direction, range(last + 1)))
    speed: Arg = Literal(lr) if rate == "" else widened(rate)
    scale = write("Div", speed, write("Max", write("Div", size, Literal(threshold)), Literal(1.0)))
    before = widened(w)
    if weight_decay:
        before = write("Mul", before, write("Sub", Literal(1.0), write("Mul", speed, Literal(weight_decay))))
    updated = write("Sub", before, write("Mul", direction, scale))

    def stored(old: Arg, new: Arg) -> Arg:
        """In the old one's memory, and as it was where the step is left out."""
        if factor != "" and new != old:
            new = write("Where", write("Equal", factor, Literal(0.0)), widened(old), new)
        return write("Assign", old, new)

    return [stored(w, updated), stored(rows, new_rows), stored(columns, new_columns)]


@Adafactor.torch(fresh=True)
def _(
    write: Write,
    w: Expr,
    dw: Expr,
    rows: Expr,
    columns: Expr,
    step: Expr,
    rate: Expr | None = None,
    factor: Expr | None = None,
    *,
    lr: float,
    epsilon: float,
    threshold: float,
    decay: float,
    weight_decay: float,
) -> Unpacked:
    numbers = map(write.number, (epsilon, threshold, decay, weight_decay))
    settings = (
        ", ".join([str(rate or write.number(lr)), *numbers])
        + factor_argument(factor)
        + overwrite_argument(write, 0, 2, 3)
    )
    return write.unpacked(
        f"{write.kernel('adafactor')}({w}, {dw}, {rows.tensor}, {columns.tensor}, {step.tensor}, {settings})"
    )


def _factored(shape: Shape) -> Mapping[str, Shape]:
    """The shapes of Adafactor's averages."""
    return {"rows": shape[:-1], "columns": (*shape[:-2], shape[-1])} if len(shape) > 1 else {"columns": ()}


optimizer("adafactor", Adafactor, _factored)
