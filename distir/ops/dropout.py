"""Dropout whose mask is a function of a seed and of positions in the whole tensor.

Random bits come from a counter-based generator (`philox`): the seed is its key, an element's coordinates in the whole
tensor are its counter. So shards, replicas and microbatches drop what the sequential program drops, if they know where
they begin:

- along the dimension `axis`, mostly the batch, by the operand `rows`. `Positions` makes it of an input, and it is split
  with the batch as any other value is;
- along other dimensions by the operand `start`, a host value that transforms write (`Layout.start`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import Dense, Part, Shape, TensorType
from distir.ops.core import op
from distir.ops.host import Operand, known_ints, length
from distir.ops.layout import Layout, Letters, elementwise
from distir.ops.numeric import Array, np
from distir.ops.philox import folded_in, words
from distir.ops.precision import wide
from distir.ops.specs import FIRST_ORDER_ONLY, HOST_RESULTS
from distir.ops.unify import Reject, normal_axis

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.torch_form import Expr, Unpacked, Write

RATIO = 0.5
"""The default ratio, as in ONNX."""

FLOPS = 27
"""Of an element: ten rounds of ten operations on integers give four numbers; a comparison and a product."""

START = 5
"""The place of the operand `start`."""


def _draws(data: TensorType, *others: Operand | None, **_: Any) -> bool:
    return _drops(*others) and not _has_key(*others)


def _drops(ratio: Operand | None = None, training: Operand | None = None, *_: Operand | None) -> bool:
    """Whether elements are dropped, as far as known."""
    return training is not None and not (isinstance(training, Dense) and not training.values[0])


def _has_key(*others: Operand | None) -> bool:
    return len(others) > 2 and others[2] is not None


@op(
    "Tensor[t:float, s, d], Optional[Tensor[u:float, (), d]], Optional[Tensor[Bool, (), d]],"
    " Optional[Tensor[Int64, (), host]], Optional[Tensor[Int64, (_,), d]], Optional[Tensor[Int64, (_,), host]]"
    " -> Tensor[t, s, d], *Tensor[Bool, s, d]",
    flops=FLOPS,
    draws=_draws,
)
def Dropout(
    data: Array,
    ratio: Array | None = None,
    training_mode: Array | None = None,
    key: Array | None = None,
    rows: Array | None = None,
    start: Array | None = None,
    *,
    seed: int = 0,
    axis: int = 0,
    count: int = 1,
) -> list[Array]:
    """With `training_mode = true`, elements are dropped with probability `ratio`, others divided by `1 - ratio`.

    ONNX `Dropout`, with the operands from `key` on added. The optional second result is the mask of what is kept, one
    byte per element. Where it has a name the gradient takes it, as in PyTorch; else it is made again, as fused kernels
    do.

    What is dropped depends on `key` and on an element's position in the whole tensor, so the sequential program and its
    shards, replicas and microbatches drop the same. `key` is an input of the step; `FoldIn` gives each statement one of
    its own. `rows` are the positions along `axis`, as `Positions` makes them of an input, or those of equal blocks of
    it. `start` is where `data` begins in the whole along each dimension, written by transforms; of several runs of one
    length, the start of each, one after the other. Without a key numbers are drawn in turn, with the attribute `seed`,
    as in ONNX's reference: then nothing can be split.

    Random numbers are Philox4x32-10 with the key `key`. The counter is the last coordinate divided by 4, whose
    remainder selects one of the four words, the coordinate before, the one before that, and the others joined. Kept are
    the words that are not below `ratio`, which is rounded to 24 bits.

    %y = Dropout(%x: Tensor[Float32, (2, 3), 1], 0.1, true, 7)
    %y, %mask = Dropout(%x: Tensor[Float32, (2, 3), 1], 0.5, true, 7, %rows: Tensor[Int64, (2,), 1])
    %y = Dropout(%x: Tensor[Float32, (2, 3), 1], 0.5, true, 7, _, [0, 3])
    %y = Dropout(%x: Tensor[Float32, (2, 3), 1])
    """
    share = rounded(RATIO if ratio is None else float(ratio.item()))
    if training_mode is None or not training_mode.item():
        return [data, np.ones(data.shape, np.bool_)][:count]
    if key is None:
        mask = np.random.RandomState(seed).uniform(0, 1, data.shape) >= share
        return [_kept(data, mask, share), mask][:count]
    places = coordinates(start, data.shape)
    if rows is not None:
        places[axis] = places_of(rows, data.shape[axis])
    mask = kept(share, key, places)
    return [_kept(data, mask, share), mask][:count]


def rounded(ratio: float) -> float:
    """The ratio with 24 bits: the same whether it comes in Float32 or in Float64."""
    return round(ratio * 2**24) / 2**24


def least_kept(ratio: float) -> int:
    """The smallest random word for which an element is kept. `ratio` is `rounded`."""
    return int(ratio * 2**32)


def kept_scale(ratio: float) -> float:
    """The factor of retained elements."""
    return 0.0 if ratio >= 1 else 1 / (1 - ratio)


def kept(ratio: float, key: Array, places: Sequence[Array]) -> Array:
    """The mask of what is kept, by coordinates along each dimension of the whole tensor. `ratio` is `rounded`."""
    return words(int(key), places) >= least_kept(ratio)


def runs_of(start: Sequence[int], rank: int) -> list[tuple[int, ...]]:
    """By dimension, where its runs begin: one run, unless there are several starts that differ there."""
    every = [tuple(start[axis::rank]) for axis in range(rank)]
    return [own if len(set(own)) > 1 else own[:1] for own in every]


def coordinates(start: Array | None, shape: tuple[int, ...]) -> list[Array]:
    """The indices of elements along each dimension of the whole tensor."""
    begin: list[int] = [0] * len(shape) if start is None else cast("list[int]", start.tolist())
    return [
        np.concatenate([np.arange(first, first + size // len(runs)) for first in runs])
        for runs, size in zip(runs_of(begin, len(shape)), shape, strict=True)
    ]


def check_start(op: str, start: Operand | None, shape: Shape | None) -> None:
    """Raises Reject for a number of starts that is none of the number of dimensions."""
    given, rank = None if start is None else length(start), 0 if shape is None else len(shape)
    if shape is not None and isinstance(given, int) and (given % rank if rank else given):
        message = f"`{op}` expected a start for each of {rank} dimensions, found {given}"
        raise Reject(codes.BAD_VALUE, message, "start")
    runs = known_ints(start) if start is not None else None
    for distinct, size in zip(runs_of(runs or (), rank), shape or (), strict=False):
        if runs and isinstance(size, int) and size % len(distinct):
            message = f"`{op}` expected runs of one length in each dimension, found {len(distinct)} starts in {size}"
            raise Reject(codes.BAD_VALUE, message, "start")


def places_of(rows: Array, size: int) -> Array:
    """The coordinates along a dimension of `size` whose equal blocks are at the positions `rows`."""
    block = size // max(len(rows), 1)
    return (rows[:, None] * block + np.arange(block)).reshape(-1)


def _kept(x: Array, mask: Array, ratio: float) -> Array:
    return np.where(mask, wide(x) * kept_scale(ratio), 0).astype(x.dtype, copy=False)


@Dropout.checks
def _(
    data: TensorType,
    ratio: Operand | None = None,
    training_mode: Operand | None = None,
    key: Operand | None = None,
    rows: Operand | None = None,
    start: Operand | None = None,
    *,
    axis: int,
    count: int,
    **_: Any,
) -> None:
    if count > 2:
        message = f"`Dropout` gives 2 results at most, found {count} names"
        raise Reject(name_codes.RESULT_COUNT, message, Part("result", 2))
    if isinstance(ratio, Dense) and not 0 <= cast(float, ratio.values[0]) <= 1:
        raise Reject(codes.BAD_VALUE, f"`Dropout` expected a ratio from 0 to 1, found {ratio.values[0]}", "ratio")
    if data.shape is None:
        return
    check_start("Dropout", start, data.shape)
    if rows is not None and rows.shape is not None:
        size, given = data.shape[normal_axis(axis, len(data.shape), "Dropout", "axis")], rows.shape[0]
        if isinstance(size, int) and isinstance(given, int) and (size % given if given else size):
            message = f"`Dropout` expected a number of rows that divides dimension {axis} of size {size}, found {given}"
            raise Reject(codes.BAD_VALUE, message, "rows")


@Dropout.shapes
def _(data: TensorType, *_: Operand | None, count: int, **attrs: Any) -> list[Shape | None]:
    return [data.shape] * count


@Dropout.sharding
def _(data: TensorType, *others: Operand | None, results: Sequence[Shape | None], axis: int, **_: Any) -> Layout:
    drops = _drops(*others)
    if drops and not _has_key(*others):
        return Layout(((None,) * len(data.shape or ()),), ((None,) * len(data.shape or ()),) * len(results))
    (letters,) = elementwise([data.shape])
    rows = others[3] if len(others) > 3 else None
    given: list[Letters] = [() if o is None else (None,) * len(o.shape or ()) for o in others]
    located = set(letters) if drops else set[str | None]()
    if rows is not None and letters:
        given[3] = (letters[axis],)
        located.discard(letters[axis])
    return Layout(
        (letters, *given),
        (letters,) * len(results),
        contiguous=frozenset(filter(None, letters)),
        start=START,
        starts=True,
        located=frozenset(filter(None, located)),
    )


@Dropout.grad
def _(g: Backward) -> Gradients:
    none = [None] * (len(g.x) - 1)
    mode = None if g.x[2] is None else g.numbers(g.x[2])
    if g.x[2] is None or mode in ((0,), (False,)):
        return [g.dy, *none]
    if mode is not None and len(g.y) > 1 and g.y[1]:
        return [g("DropoutGrad", g.dy, g.y[1], g.x[1]), *none]
    return [g.same(g.dy, *g.x[1:]), *none]


@Dropout.torch
def _(
    write: Write,
    data: Expr,
    ratio: Expr | None = None,
    training_mode: Expr | None = None,
    key: Expr | None = None,
    rows: Expr | None = None,
    start: Expr | None = None,
    *,
    seed: int,
    axis: int,
) -> str | list[str] | Unpacked:
    masked = len(write.results) > 1
    if training_mode is None or not training_mode.scalar("whether it is a training step"):
        return [data.tensor, f"torch.ones_like({data}, dtype=torch.bool)"] if masked else data.tensor
    if key is None:
        reason = "`Dropout` without a key draws random numbers in turn, which no two implementations share"
        raise write.refuse(reason, "give it a key: the step `seeded` does")
    share = _ratio(ratio)
    begin = runs_of(start.ints("where a part begins") if start else (0,) * data.rank, data.rank)
    given = (
        f"{least_kept(share)}, {write.number(kept_scale(share))}, {key}, {rows}, {begin}, {axis % max(data.rank, 1)}"
    )
    call = f"{write.kernel('dropout')}({data}, {given})"
    return write.unpacked(call) if masked else f"{call}[0]"


def _ratio(ratio: Expr | None) -> float:
    return rounded(RATIO if ratio is None else float(ratio.scalar("the ratio of `Dropout`")))


@op(
    "Tensor[t:float, s, d], Tensor[Bool, s, d], Optional[Tensor[u:float, (), d]] -> Tensor[t, s, d]",
    flops=1,
    inplace={0: 0},
    linear=("dy",),
    non_differentiable=FIRST_ORDER_ONLY,
)
def DropoutGrad(dy: Array, mask: Array, ratio: Array | None = None) -> Array:
    """The gradient of `Dropout` in training: `dy / (1 - ratio)` where `mask` holds, else 0.

    %dx = DropoutGrad(%dy: Tensor[Float32, (2, 3), 1], %mask: Tensor[Bool, (2, 3), 1], 0.1)
    """
    return _kept(dy, mask, rounded(RATIO if ratio is None else float(ratio.item())))


@DropoutGrad.torch(fresh=True)
def _(write: Write, dy: Expr, mask: Expr, ratio: Expr | None = None) -> str:
    share = _ratio(ratio)
    scaled = f"torch.where({mask}, {dy.wide} * {write.number(kept_scale(share))}, 0.0)"
    return write.narrowed(scaled, dy.dtype)


@op(
    "Tensor[t, (*a, n@axis, *b), d], Optional[Tensor[Int64, (_,), host]] -> Tensor[Int64, (n,), d]",
    flops=0,
    bytes=lambda n, **_: 8 * n,
    non_differentiable="its results are positions",
)
def Positions(data: Array, start: Array | None = None, *, axis: int = 0) -> Array:
    """Where the elements of `data` are along `axis` in the whole tensor: 0, 1, 2, and so on.

    They stay those of the sequential program where `data` is a part: of an input that holds the batch they are the
    examples' numbers, for `Dropout`. `start` is where `data` begins along each dimension, written by transforms, as of
    `Dropout`. No element is read.

    %rows = Positions(%x: Tensor[Float32, (2, 3), 1])
    %rows = Positions[axis = 1](%x: Tensor[Float32, (2, 3), 1], [0, 3])
    """
    return coordinates(start, data.shape)[axis].astype(np.int64, copy=False)


@Positions.checks
def _(data: TensorType, start: Operand | None = None, *, axis: int) -> None:
    check_start("Positions", start, data.shape)


@Positions.sharding
def _(data: TensorType, start: Operand | None = None, *, results: Sequence[Shape | None], axis: int) -> Layout:
    rank = len(data.shape or ())
    letters = tuple("n" if k == axis % max(rank, 1) else f"o{k}" for k in range(rank))
    operands = (letters,) if start is None else (letters, (None,))
    own = frozenset("n")
    return Layout(operands, (("n",),), contiguous=own, start=1, starts=True, located=own, whole=frozenset({0}))


@Positions.torch(fresh=True)
def _(write: Write, data: Expr, start: Expr | None = None, *, axis: int) -> str:
    runs = runs_of(start.ints("where a part begins"), data.rank)[axis] if start else (0,)
    size = data.shape[axis] // len(runs)
    parts = [f"torch.arange({first}, {first + size}, device={data}.device)" for first in runs]
    return parts[0] if len(parts) == 1 else f"torch.cat([{', '.join(parts)}])"


@op(
    "Tensor[Int64, (), host], Tensor[Int64, (), host] -> Tensor[Int64, (), host]",
    flops=0,
    non_differentiable=HOST_RESULTS,
)
def FoldIn(key: Array, number: Array) -> Array:
    """Another key for random numbers, for each `number`: of a step, a layer, a statement.

    Two words of Philox4x32-10 with the counter `(number modulo 2^32, number / 2^32, 2^32 - 1, 2^32 - 1)`.

    %layer = FoldIn(7, 3)
    """
    return np.asarray(folded_in(int(key), int(number)), np.int64)


@FoldIn.torch(fresh=True)
def _(write: Write, key: Expr, number: Expr) -> str:
    return f"{write.kernel('folded_in')}({key}, {number})"
