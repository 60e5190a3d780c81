"""Optimizer steps, which update weights and state in place, and moving averages. Not in ONNX.

Tuples are updated leaf by leaf. The weights may be narrower than the state (mixed precision): a step is computed in the
widest of the operands' element types, at least Float32, and rounded once.

Each step takes two optional scalars. `rate` replaces the attribute `lr`, for a learning rate that changes from step to
step. `factor` multiplies the gradient first, as clipping and loss scaling want it; with a factor of 0 the step is left
out, and weights and state stay as they are.

An op becomes an optimizer of `grad` by an entry in `OPTIMIZERS`, below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Arg, Constant, Literal, Shape, TensorType
from distir.ir.registry import Registry
from distir.ops.core import Op, op
from distir.ops.host import Operand, known_ints
from distir.ops.layout import Layout, Letters, Parts
from distir.ops.numeric import Array, dense, np
from distir.ops.precision import wide
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Unpacked, Write


UPDATE = "it updates weights or statistics, after the loss"
"""Why the ops of this family have no gradient."""


@dataclass(frozen=True)
class OptimizerRule:
    """An optimizer of `grad`: its op, and the attributes that its name fixes.

    All else follows from the op. Operands whose memory its results take are the state, one tensor per weight, as large
    as the weight unless `shapes` says otherwise; an operand `step` is the number of the step, from 1; the remaining
    attributes are options of `grad`.
    """

    op: Op
    fixed: Mapping[str, Constant] = field(default_factory=dict[str, Constant])
    shapes: Callable[[Shape], Mapping[str, Shape]] | None = None
    """By name, the shapes of the state of a weight of this shape, where they are not its own."""

    @property
    def state(self) -> tuple[str, ...]:
        """The names of what is kept of each weight between steps, in the order of the op's operands."""
        taken = self.op.inplace
        assert not isinstance(taken, str)
        return tuple(self.op.operand_name(taken[i]) for i in sorted(taken) if taken[i] != 0)

    @property
    def counts(self) -> bool:
        """Whether the op takes the number of the step."""
        return any(operand.name == "step" for operand in self.op.operands)

    @property
    def options(self) -> tuple[str, ...]:
        """The attributes that a user may give."""
        return tuple(name for name in self.op.attributes if name not in self.fixed)


OPTIMIZERS: Final[Registry[OptimizerRule]] = Registry()
"""The optimizers by the names that `grad optimizer=` takes: built-in ones, and those of plugins."""


def optimizer(name: str, op: Op, shapes: Callable[[Shape], Mapping[str, Shape]] | None = None, **fixed: Constant) -> Op:
    """Register an op as an optimizer of `grad`. `fixed`: attributes that the name implies. Returns the op."""
    OPTIMIZERS.register(name, OptimizerRule(op, fixed, shapes), op.body.__module__)
    return op


SCALARS = "Optional[Tensor[r:float, (), d]], Optional[Tensor[f:float, (), d]]"
"""In signatures: `rate` and `factor`."""


@op(
    "Tensor[t:float, s, d], Tensor[u:float, s, d] -> Tensor[t, s, d]",
    flops=2,
    inplace={0: 0},
    leafwise=True,
    non_differentiable=UPDATE,
)
def Optimizer(w: Array, dw: Array, *, lr: float = 0.01) -> Array:
    """The generic optimizer, a step of gradient descent: `w - lr * dw`.

    %w_new = Optimizer(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1])
    %w_new = Optimizer(%w: Tuple[Tensor[Float32, (2, 3), 1], Float32[1]], %dw: Tuple[Tensor[Float32, (2, 3), 1], Float32[1]])
    """  # noqa: E501 - an example is one line
    return (wide(w) - lr * wide(dw)).astype(w.dtype, copy=False)


@Optimizer.torch(fresh=True)
def _(write: Write, w: Expr, dw: Expr, *, lr: float) -> str:
    return _descent(write, w, dw, lr, 0.0)


@op(
    f"Tensor[t:float, s, d], Tensor[u:float, s, d], {SCALARS} -> Tensor[t, s, d]",
    flops=lambda elements, weight_decay, **_: (4 if weight_decay else 2) * elements,
    inplace={0: 0},
    leafwise=True,
    non_differentiable=UPDATE,
)
def SGD(
    w: Array,
    dw: Array,
    rate: Array | None = None,
    factor: Array | None = None,
    *,
    lr: float = 0.01,
    weight_decay: float = 0.0,
) -> Array:
    """A step of gradient descent with weight decay: `w - lr * (dw + weight_decay * w)`.

    %w_new = SGD[lr = 0.1](%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1])
    %w_new = SGD(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %r: Float32[1], %f: Float32[1])
    """
    wide_w = wide(w)
    new = wide_w - _rate(lr, rate) * (_scaled(dw, factor) + weight_decay * wide_w)
    return unless_skipped(factor, w, new)


@SGD.torch(fresh=True)
def _(
    write: Write,
    w: Expr,
    dw: Expr,
    rate: Expr | None = None,
    factor: Expr | None = None,
    *,
    lr: float,
    weight_decay: float,
) -> str:
    if rate is None and factor is None:
        return _descent(write, w, dw, lr, weight_decay)
    settings = f"{rate or write.number(lr)}, {write.number(weight_decay)}"
    return f"{write.kernel('sgd')}({w}, {dw}, {settings}{_factor(factor)}{_overwritten(write, 0)})"


optimizer("sgd", SGD)


@op(
    f"Tensor[t:float, s, d], Tensor[u:float, s, d], Tensor[v:float, s, d], {SCALARS}"
    " -> Tensor[t, s, d], Tensor[v, s, d]",
    flops=lambda s, nesterov=False, weight_decay=0.0, **_: (4 + 2 * bool(nesterov) + 2 * bool(weight_decay)) * s,
    inplace={0: 0, 1: 2},
    leafwise=True,
    non_differentiable=UPDATE,
)
def Momentum(
    w: Array,
    dw: Array,
    m: Array,
    rate: Array | None = None,
    factor: Array | None = None,
    *,
    lr: float = 0.01,
    momentum: float = 0.9,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> tuple[Array, Array]:
    """A step along `m' = momentum * m + g`, where `g = dw + weight_decay * w`: `w - lr * m'`, and `m'`.

    With `nesterov`, along `g + momentum * m'` instead (Sutskever et al., 2013).

    %w_new, %m_new = Momentum(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1])
    """  # noqa: E501 - an example is one line
    wide_w = wide(w)
    gradient = _scaled(dw, factor) + weight_decay * wide_w
    velocity = momentum * wide(m) + gradient
    step = gradient + momentum * velocity if nesterov else velocity
    return unless_skipped(factor, w, wide_w - _rate(lr, rate) * step), unless_skipped(factor, m, velocity)


@Momentum.torch(fresh=True)
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
) -> Unpacked:
    settings = f"{rate or write.number(lr)}, {write.number(momentum)}, {nesterov}, {write.number(weight_decay)}"
    settings += _factor(factor) + _overwritten(write, 0, 2)
    return write.unpacked(f"{write.kernel('momentum')}({w}, {dw}, {m}, {settings})")


optimizer("momentum", Momentum)


@op(
    f"Tensor[t:float, s, d], Tensor[u:float, s, d], Tensor[v:float, s, d], {SCALARS}"
    " -> Tensor[t, s, d], Tensor[v, s, d]",
    flops=lambda s, weight_decay, **_: (10 if weight_decay else 8) * s,
    inplace={0: 0, 1: 2},
    leafwise=True,
    non_differentiable=UPDATE,
)
def Lion(
    w: Array,
    dw: Array,
    m: Array,
    rate: Array | None = None,
    factor: Array | None = None,
    *,
    lr: float = 0.0001,
    beta1: float = 0.9,
    beta2: float = 0.99,
    weight_decay: float = 0.0,
) -> tuple[Array, Array]:
    """A step of Lion, by the sign of an average (Chen et al., arXiv:2302.06675), and the new average `m`.

    `w' = w - lr * (sign(beta1 * m + (1 - beta1) * dw) + weight_decay * w)`, and `m' = beta2 * m + (1 - beta2) * dw`.

    %w_new, %m_new = Lion(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1])
    """  # noqa: E501 - an example is one line
    wide_w, average, gradient = wide(w), wide(m), _scaled(dw, factor)
    direction = np.sign(beta1 * average + (1 - beta1) * gradient)
    updated = wide_w - _rate(lr, rate) * (direction + weight_decay * wide_w)
    return unless_skipped(factor, w, updated), unless_skipped(factor, m, beta2 * average + (1 - beta2) * gradient)


@Lion.torch(fresh=True)
def _(
    write: Write,
    w: Expr,
    dw: Expr,
    m: Expr,
    rate: Expr | None = None,
    factor: Expr | None = None,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
) -> Unpacked:
    settings = ", ".join([str(rate or write.number(lr)), *map(write.number, (beta1, beta2, weight_decay))])
    settings += _factor(factor) + _overwritten(write, 0, 2)
    return write.unpacked(f"{write.kernel('lion')}({w}, {dw}, {m}, {settings})")


optimizer("lion", Lion)


@op(
    "Tensor[t:float, s, d], Tensor[u:float, s, d], Tensor[v:float, s, d], Tensor[v:float, s, d], Tensor[Int64, (), d],"
    f" {SCALARS} -> Tensor[t, s, d], Tensor[v, s, d], Tensor[v, s, d]",
    flops=lambda s, weight_decay, **_: (16 if weight_decay else 14) * s,
    inplace={0: 0, 1: 2, 2: 3},
    leafwise=True,
    non_differentiable=UPDATE,
)
def Adam(
    w: Array,
    dw: Array,
    m: Array,
    v: Array,
    step: Array,
    rate: Array | None = None,
    factor: Array | None = None,
    *,
    lr: float = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled: bool = True,
) -> tuple[Array, Array, Array]:
    """A step of Adam, and the new moments `m` and `v`. `step` counts from 1.

    `m' = beta1 * m + (1 - beta1) * dw`, `v' = beta2 * v + (1 - beta2) * dw * dw`, and
    `w' = w - lr * (m' / (1 - beta1 ** step) / (sqrt(v' / (1 - beta2 ** step)) + epsilon) + weight_decay * w)`
    (Kingma and Ba, arXiv:1412.6980; Loshchilov and Hutter, arXiv:1711.05101: AdamW). If not `decoupled`,
    `weight_decay * w` is added to `dw` instead, as the gradient of an L2 penalty (PyTorch's `Adam`).

    %w_new, %m_new, %v_new = Adam(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1], %v: Tensor[Float32, (2, 3), 1], 1)
    """  # noqa: E501 - an example is one line
    wide_w, gradient = wide(w), _scaled(dw, factor)
    if not decoupled:
        gradient = gradient + weight_decay * wide_w
    first = beta1 * wide(m) + (1 - beta1) * gradient
    second = beta2 * wide(v) + (1 - beta2) * np.square(gradient)
    number = float(step)
    direction = first / (1 - beta1**number) / (np.sqrt(second / (1 - beta2**number)) + epsilon)
    updated = wide_w - _rate(lr, rate) * (direction + (weight_decay * wide_w if decoupled else 0))
    return unless_skipped(factor, w, updated), unless_skipped(factor, m, first), unless_skipped(factor, v, second)


@Adam.checks
def _(
    w: TensorType, dw: TensorType, m: TensorType, v: TensorType, step: Operand, *scalars: Operand, **attrs: object
) -> None:
    known = known_ints(step)
    if known is not None and known[0] < 1:
        raise Reject(codes.BAD_VALUE, f"`Adam` expected a step from 1, found {known[0]}", "step")


@Adam.torch(fresh=True)
def _(
    write: Write,
    w: Expr,
    dw: Expr,
    m: Expr,
    v: Expr,
    step: Expr,
    rate: Expr | None = None,
    factor: Expr | None = None,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
    decoupled: bool,
) -> Unpacked:
    settings = ", ".join([str(rate or write.number(lr)), *map(write.number, (beta1, beta2, epsilon, weight_decay))])
    settings += ("" if decoupled else ", decoupled=False") + _factor(factor) + _overwritten(write, 0, 2, 3)
    return write.unpacked(f"{write.kernel('adam')}({w}, {dw}, {m}, {v}, {step}, {settings})")


optimizer("adam", Adam, decoupled=False)
optimizer("adamw", Adam)


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
    wide_w, gradient = wide(w), _scaled(dw, factor)
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
    updated = wide_w - _rate(lr, rate) * (direction + weight_decay * wide_w)
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
    letters = [f"s{k}" for k in range(len(write.type(w).shape or ()))]
    doubled = DTYPES["Float64"] in (write.type(w).dtype, write.type(rows).dtype)
    to = DTYPES["Float64" if doubled else "Float32"]

    def widened(x: Arg) -> Arg:
        return x if write.type(x).dtype is to else write("Cast", x, to=to)

    def mean(x: Arg, axes: Sequence[int], *, keepdims: bool = False) -> Arg:
        own = write("ReduceMean", x, Literal(tuple(axes)), keepdims=keepdims)
        parted = any(letters[axis] == write.letter for axis in axes)
        return write("Mul", write.sum(own), Literal(1 / write.size)) if parted else own

    def average(before: Arg, now: Arg) -> Arg:
        kept = write("Mul", write("Sub", Literal(1.0), share), widened(before))
        return write("Add", kept, write("Mul", share, now))

    last = len(letters) - 1
    gradient = widened(dw) if factor == "" else write("Mul", widened(dw), widened(factor))
    squares = write("Add", write("Mul", gradient, gradient), Literal(epsilon))
    share = write("Pow", write("Cast", step, to=to), Literal(dense(-decay, to)))
    if last < 1:
        new_rows, new_columns = average(rows, squares), columns
        direction = write("Div", gradient, write("Sqrt", new_rows))
    else:
        new_rows, new_columns = average(rows, mean(squares, [last])), average(columns, mean(squares, [last - 1]))
        relative = write("Div", new_rows, mean(new_rows, [last - 1], keepdims=True))
        across, down = (write("Unsqueeze", x, Literal((k,))) for x, k in ((relative, last), (new_columns, last - 1)))
        direction = write("Div", gradient, write("Sqrt", write("Mul", across, down)))
    size = write("Sqrt", mean(write("Mul", direction, direction), range(last + 1)))
    direction = write("Div", direction, write("Max", write("Div", size, Literal(threshold)), Literal(1.0)))
    if weight_decay:
        direction = write("Add", direction, write("Mul", widened(w), Literal(weight_decay)))
    speed: Arg = Literal(lr) if rate == "" else widened(rate)
    updated = write("Sub", widened(w), write("Mul", direction, speed))

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
    settings = ", ".join([str(rate or write.number(lr)), *numbers]) + _factor(factor) + _overwritten(write, 0, 2, 3)
    return write.unpacked(
        f"{write.kernel('adafactor')}({w}, {dw}, {rows.tensor}, {columns.tensor}, {step.tensor}, {settings})"
    )


def _factored(shape: Shape) -> Mapping[str, Shape]:
    """The shapes of Adafactor's averages."""
    return {"rows": shape[:-1], "columns": (*shape[:-2], shape[-1])} if len(shape) > 1 else {"columns": ()}


optimizer("adafactor", Adafactor, _factored)


@op(
    "Tensor[t:float, s, d], Tensor[u:float, s, d] -> Tensor[t, s, d]",
    flops=0,
    inplace={0: 0},
    leafwise=True,
    non_differentiable=UPDATE,
)
def Assign(w: Array, source: Array) -> Array:
    """`source` in the element type of `w`, in its memory: the weights that a model computes with, from master weights.

    %w_new = Assign(%w: Tensor[BFloat16, (2, 3), 1], %master: Tensor[Float32, (2, 3), 1])
    """
    return source.astype(w.dtype)


@Assign.pieces
def _(p: Pieces, w: Piece, source: Piece) -> list[Piece]:
    return [p.cast(source, p.dtype(w))]


@Assign.torch(fresh=True)
def _(write: Write, w: Expr, source: Expr) -> str:
    return f"{w}.copy_({source})" if write.may_overwrite(0) else f"torch.empty_like({w}).copy_({source})"


SCHEDULES = ("constant", "linear", "cosine")
"""How a learning rate falls behind its warm-up."""


@op("Tensor[Int64, (), d] -> Tensor[Float32, (), d]", flops=8, non_differentiable=UPDATE)
def LearningRate(
    step: Array, *, lr: float, schedule: str = "constant", warmup: int = 0, steps: int = 0, least: float = 0.0
) -> Array:
    """The learning rate at a step, counted from 1: a linear warm-up, then constant, or falling until `steps`.

    With `s = step - 1`, it is `lr * s / warmup` while `s < warmup`. Then, with `p = (s - warmup) / (steps - warmup)`,
    at most 1, it is `least + (lr - least) * (1 - p)` if `linear`, `least + (lr - least) * (1 + cos(pi * p)) / 2` if
    `cosine`, and `lr` if `constant`: the schedules of `transformers`, for `least = 0`.

    %lr = LearningRate[lr = 0.001, schedule = "cosine", warmup = 10, steps = 100](3)
    """
    done = float(step) - 1
    if done < warmup:
        return np.asarray(lr * done / warmup, np.float32)
    share = min(1.0, (done - warmup) / max(1, steps - warmup))
    left = {"constant": 1.0, "linear": 1 - share, "cosine": (1 + math.cos(math.pi * share)) / 2}[schedule]
    return np.asarray(least + (lr - least) * left, np.float32)


@LearningRate.checks
def _(step: Operand, *, lr: float, schedule: str, warmup: int, steps: int, least: float) -> None:
    if schedule not in SCHEDULES:
        message = f"`LearningRate` expected a schedule of {', '.join(SCHEDULES)}, found `{schedule}`"
        raise Reject(codes.BAD_VALUE, message, "schedule")
    if warmup < 0 or (schedule != "constant" and steps <= warmup):
        message = f"`LearningRate` expected more `steps` than `warmup`, found {steps} and {warmup}"
        raise Reject(codes.BAD_VALUE, message, "steps")


@LearningRate.torch(fresh=True)
def _(write: Write, step: Expr, *, lr: float, schedule: str, warmup: int, steps: int, least: float) -> str:
    numbers = f"{write.number(lr)}, {schedule!r}, {warmup}, {steps}, {write.number(least)}"
    return f"{write.kernel('learning_rate')}({step.tensor}, {numbers})"


@op(
    "Tensor[t:float, s, d], Tensor[u:float, s, d] -> Tensor[t, s, d]",
    flops=3,
    inplace={0: 0},
    leafwise=True,
    non_differentiable=UPDATE,
)
def MovingAverage(mean: Array, x: Array, *, momentum: float = 0.1) -> Array:
    """A step of an exponential moving average, as for running statistics: `(1 - momentum) * mean + momentum * x`.

    %mean_new = MovingAverage(%mean: Tensor[Float32, (3,), 1], %x: Tensor[Float32, (3,), 1])
    """
    return ((1 - momentum) * wide(mean) + momentum * wide(x)).astype(mean.dtype, copy=False)


@MovingAverage.torch(fresh=True)
def _(write: Write, mean: Expr, x: Expr, *, momentum: float) -> str:
    given = x if x.dtype is mean.dtype else f"{x}.to({mean}.dtype)"
    return f"{mean}.{'lerp_' if write.may_overwrite(0) else 'lerp'}({given}, {write.number(momentum)})"


def _descent(write: Write, w: Expr, dw: Expr, lr: float, weight_decay: float) -> str:
    if weight_decay:
        into = _overwritten(write, 0)
        return f"{write.kernel('sgd')}({w}, {dw}, {write.number(lr)}, {write.number(weight_decay)}{into})"
    if dw.value is not None:
        dw = Expr(dw.tensor, dw.type)
    if write.may_overwrite(0):
        return f"{w}.sub_({dw}, alpha={write.number(lr)})"
    cast = "" if w.dtype is dw.dtype else f".to({w}.dtype)"
    return f"torch.sub({w}, {dw}, alpha={write.number(lr)}){cast}"


def _rate(lr: float, rate: Array | None) -> float | Array:
    return lr if rate is None else rate


def _scaled(dw: Array, factor: Array | None) -> Array:
    return wide(dw) if factor is None else wide(dw) * factor


def unless_skipped(factor: Array | None, old: Array, new: Array) -> Array:
    """The new value in the element type of the old one, which stays with a factor of 0: for bodies of optimizers."""
    new = new.astype(old.dtype, copy=False)
    return new if factor is None else np.where(factor != 0, new, old)


def _factor(factor: Expr | None) -> str:
    """The argument `factor` of a kernel."""
    return "" if factor is None else f", factor={factor.tensor}"


def _overwritten(write: Write, *operands: int) -> str:
    """The argument `overwrite` of a kernel, if it may overwrite the operands."""
    return ", overwrite=True" if all(map(write.may_overwrite, operands)) else ""
