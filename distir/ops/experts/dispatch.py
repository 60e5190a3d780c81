"""The order of tokens by expert, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import DISCARD, Arg, Literal, Shape, TensorType, dims
from distir.ops.core import op
from distir.ops.experts.of_pieces import dispatched, of_rows, permuted
from distir.ops.experts.operands import check_experts, letters_of, stated_rows
from distir.ops.host import Operand
from distir.ops.layout import Layout, Letters, Parts
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.specs import FIRST_ORDER_ONLY
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Unpacked, Write


@op(
    "Tensor[i:int, (*g, n, k), d] -> Tensor[Int64, (*g, n, k), d], Tensor[Int64, (*g, _), d]",
    flops=2,
    whole=("n", "k"),
)
def Dispatch(
    experts: Array, *, num_experts: int, capacity: int | None = None, owners: int = 1, room: int | None = None
) -> tuple[Array, Array]:
    """The order of tokens by expert: the row of each choice of each token, and how many choices each expert has.

    `experts` is (…, tokens, choices), from 0 to `num_experts` - 1. Rows are counted in each group (the dimensions
    before) by expert, and for one expert in token order. `Permute` moves the tokens there, `Unpermute` back.

    With a `capacity`, the rows of expert e begin at e * `capacity`, and the choices beyond it, in token order, are
    dropped: their row is -1. The counts include them.

    With `owners`, so many devices have equal parts of the experts: the rows of the first one begin at 0, those of the
    next one at `room`, and so on. It is a mistake if an owner has more choices of a group than that.

    %places, %counts = Dispatch[num_experts = 4](%experts: Tensor[Int64, (2, 3, 2), 1])
    %places, %counts = Dispatch[num_experts = 4, owners = 2, room = 6](%experts: Tensor[Int64, (2, 3, 2), 1])
    %places, %counts = Dispatch[num_experts = 4, capacity = 2](%experts: Tensor[Int64, (3, 2), 1])
    """
    check_experts("Dispatch", experts, num_experts)
    *outer, n, k = experts.shape
    flat = experts.reshape(-1, n * k).astype(np.int64)
    places = np.argsort(np.argsort(flat, axis=1, kind="stable"), axis=1)
    counts = np.zeros((len(flat), num_experts), np.int64)
    np.add.at(counts, (np.arange(len(flat))[:, None], flat), 1)
    if capacity is not None:
        first = np.cumsum(counts, axis=1) - counts
        at = places - np.take_along_axis(first, flat, axis=1)
        places = np.where(at < capacity, flat * capacity + at, -1)
    elif room is not None:
        owner = flat // (num_experts // owners)
        first = (np.cumsum(counts, axis=1) - counts)[:, :: num_experts // owners]
        at = places - np.take_along_axis(first, owner, axis=1)
        if at.size and at.max() >= room:
            message = f"`Dispatch` expected at most {room} choices of a group for each owner, found {at.max() + 1}"
            raise Reject(codes.BAD_VALUE, message, "room", help="state a larger `room`; `ep` has the option `skew`")
        places = owner * room + at
    return places.reshape(experts.shape), counts.reshape(*outer, num_experts)


@Dispatch.pieces
def _(
    p: Pieces, experts: Piece, *, num_experts: int, owners: int, capacity: int | None = None, room: int | None = None
) -> Any:
    return dispatched(p, experts, num_experts, capacity, owners, room)


@Dispatch.shapes
def _(
    experts: TensorType, *, num_experts: int, owners: int, capacity: int | None = None, room: int | None = None
) -> list[Shape | None]:
    if num_experts < 1:
        raise Reject(codes.BAD_VALUE, f"`Dispatch` expected at least 1 expert, found {num_experts}", "num_experts")
    if capacity is not None and capacity < 1:
        raise Reject(codes.BAD_VALUE, f"`Dispatch` expected a capacity of at least 1, found {capacity}", "capacity")
    if owners < 1 or num_experts % owners:
        message = f"`Dispatch` expected owners of equal parts of {num_experts} experts, found {owners}"
        raise Reject(codes.BAD_VALUE, message, "owners")
    if room is not None and (room < 1 or capacity is not None):
        message = f"`Dispatch` expected a `room` of at least 1, and no `capacity` beside it, found {room}"
        raise Reject(codes.BAD_VALUE, message, "room")
    if owners > 1 and room is None:
        raise Reject(codes.BAD_VALUE, f"`Dispatch` expected the `room` of each of {owners} owners", "owners")
    shape = experts.shape
    return [shape, None if shape is None else (*shape[:-2], num_experts)]


@Dispatch.sharding
def _(experts: TensorType, *, results: Sequence[Shape], **_: Any) -> Layout:
    groups = letters_of(experts, 2)
    return Layout(((*groups, None, None),), ((*groups, None, None), (*groups, None)))


@Dispatch.grad
def _(g: Backward) -> Gradients:
    return [None]


@Dispatch.torch(fresh=True)
def _(
    write: Write, experts: Expr, *, num_experts: int, owners: int, capacity: int | None = None, room: int | None = None
) -> Unpacked:
    owned = "" if room is None else f", {owners}, {room}"
    return write.unpacked(f"{write.kernel('dispatch')}({experts.tensor}, {num_experts}, {capacity}{owned})")


@op(
    "Tensor[t:float, (*g, n, h), d], Tensor[i:int, (*g, n, k), d], Optional[Tensor[u:float, (*g, n, k), d]],"
    " Optional[Tensor[Int64, (), host]] -> Tensor[t, (*g, _, h), d]",
    flops=lambda elements, u=0, **_: elements if u else 0,
    linear=("x", "weights"),
)
def Permute(x: Array, places: Array, weights: Array | None = None, rows: Array | None = None) -> Array:
    """The tokens at their rows in the order by expert, each once for each choice, times its weight if there are any.

    `places` are those of `Dispatch`; -1 is left out. There are as many `rows` in each group as choices, by default;
    with a capacity, there are experts * capacity, and empty ones are 0. Rows in one place are added up: this is the
    transposition of `Unpermute`.

    %rows = Permute(%x: Tensor[Float32, (2, 3, 4), 1], %places: Tensor[Int64, (2, 3, 2), 1])
    %rows = Permute[rows = 8](%x: Tensor[Float32, (3, 4), 1], [[0, 2], [1, 4], [3, -1]], %weights: Tensor[Float32, (3, 2), 1])
    """  # noqa: E501 - an example is one line
    *outer, n, k = places.shape
    count, width = n * k if rows is None else int(rows), x.shape[-1]
    _check_places("Permute", places, count)
    each = np.broadcast_to(wide(x)[..., None, :], (*outer, n, k, width))
    if weights is not None:
        each = each * wide(weights)[..., None]
    result = np.zeros((math.prod(outer), count + 1, width), each.dtype)  # the last one takes what is left out
    groups = np.arange(math.prod(outer))[:, None]
    np.add.at(result, (groups, places.reshape(-1, n * k)), each.reshape(-1, n * k, width))
    return result[:, :count].reshape(*outer, count, width).astype(x.dtype, copy=False)


@Permute.pieces
def _(p: Pieces, x: Piece, places: Piece, weights: Piece | None = None, rows: Piece | None = None) -> Any:
    return permuted(p, x, places, weights, rows)


@Permute.shapes
def _(
    x: TensorType, places: TensorType, weights: TensorType | None = None, rows: Operand | None = None
) -> Shape | None:
    stated = None if rows is None else stated_rows("Permute", rows)
    if x.shape is None or places.shape is None:
        return None
    choices = dims.multiply(places.shape[-2], places.shape[-1])
    return (*x.shape[:-2], choices if rows is None else stated, x.shape[-1])


@Permute.sharding
def _(x: TensorType, places: TensorType, *others: Operand | None, results: Sequence[Shape]) -> Layout:
    groups = letters_of(x, 2)
    choices: Letters = (*groups, None, None)
    given = [choices if k == 0 and other is not None else () for k, other in enumerate(others)]
    operands = ((*groups, None, "h"), choices, *given)
    return _or_by_rows(Layout(operands, ((*groups, "r", "h"),)), 1)


@Permute.parted
def _(w: Parts, x: Arg, places: Arg, weights: Arg = DISCARD, rows: Arg = DISCARD) -> list[Arg]:
    """Each device has the rows of its experts."""
    count = rows.value if isinstance(rows, Literal) else dims.multiply(*(w.type(places).shape or ())[-2:])
    assert isinstance(count, int)
    return [w("Permute", x, _own_places(w, places, count), weights, Literal(count // w.size))]


@Permute.grad
def _(g: Backward) -> Gradients:
    x, places, weights, _ = g.x
    dx = g("Unpermute", g.dy, places, weights) if g.wants(0) else None
    return [dx, None, g("UnpermuteGrad", x, g.dy, places, weights) if g.wants(2) else None]


@Permute.torch(fresh=True)
def _(write: Write, x: Expr, places: Expr, weights: Expr | None = None, rows: Expr | None = None) -> str:
    *_, count, _ = write.results[0].shape or (0, 0)
    given = f"{x}, {places.tensor}, {None if weights is None else weights.tensor}"
    return f"{write.kernel('permute')}({given}, {count})"


@op(
    "Tensor[t:float, (*g, r, h), d], Tensor[i:int, (*g, n, k), d], Optional[Tensor[u:float, (*g, n, k), d]]"
    " -> Tensor[t, (*g, n, h), d]",
    flops=lambda n, k, h, u=0, g=1, **_: (2 if u else 1) * g * n * k * h,
    bytes=lambda t, i, n, k, h, u=0, g=1, **_: g * n * (t * (k + 1) * h + k * (i + u)),
    linear=("rows", "weights"),
    whole=("r", "k"),
)
def Unpermute(rows: Array, places: Array, weights: Array | None = None) -> Array:
    """The sum of each token's rows, times their weights if there are any: back from the order by expert to that of tokens.

    `places` are those of `Dispatch`, -1 adds nothing; `weights` those of `Route`. The sum is that of Float32 at least.

    %y = Unpermute(%rows: Tensor[Float32, (2, 6, 4), 1], %places: Tensor[Int64, (2, 3, 2), 1], %weights: Tensor[Float32, (2, 3, 2), 1])
    %y = Unpermute(%rows: Tensor[Float32, (6, 4), 1], [[0, 2], [1, 5], [3, -1]])
    """  # noqa: E501 - an example is one line
    each = wide(_rows_of("Unpermute", rows, places))
    total = np.sum(each if weights is None else each * wide(weights)[..., None], axis=-2, dtype=each.dtype)
    return total.astype(rows.dtype, copy=False)


@Unpermute.pieces
def _(p: Pieces, *given: Piece | None) -> Any:
    return of_rows(p, "Unpermute", given, 0, 1)


@Unpermute.sharding
def _(rows: TensorType, places: TensorType, *weights: Operand | None, results: Sequence[Shape]) -> Layout:
    groups = letters_of(rows, 2)
    choices: Letters = (*groups, "n", None)
    given: list[Letters] = [() if other is None else choices for other in weights]
    return _or_by_rows(Layout(((*groups, "r", "h"), choices, *given), ((*groups, "n", "h"),)), 1)


@Unpermute.parted
def _(w: Parts, rows: Arg, places: Arg, *weights: Arg) -> list[Arg]:
    """Each device adds up the rows that it has."""
    return [w("Unpermute", rows, _own_places(w, places, _count(w, rows)), *weights)]


@Unpermute.grad
def _(g: Backward) -> Gradients:
    rows, places, weights = g.x
    dropless = g.known_shape(rows)[-2] == dims.multiply(*g.known_shape(places)[-2:])
    count = None if dropless else g.size_along(rows, g.rank(rows) - 2)
    drows = g("Permute", g.dy, places, weights, count) if g.wants(0) else None
    return [drows, None, g("UnpermuteGrad", g.dy, rows, places, weights) if g.wants(2) else None]


@Unpermute.torch(fresh=True)
def _(write: Write, rows: Expr, places: Expr, weights: Expr | None = None) -> str:
    return f"{write.kernel('unpermute')}({rows}, {places.tensor}, {None if weights is None else weights.tensor})"


@op(
    "Tensor[t:float, (*g, n, h), d], Tensor[t:float, (*g, r, h), d], Tensor[i:int, (*g, n, k), d],"
    " Tensor[u:float, (*g, n, k), d] -> Tensor[u, (*g, n, k), d]",
    flops=lambda n, k, h, g=1, **_: 2 * g * n * k * h,
    bytes=lambda t, i, u, n, k, h, g=1, **_: g * n * (t * (k + 1) * h + k * (i + u)),
    linear=("dy", "rows"),
    whole=("r", "k"),
    non_differentiable=FIRST_ORDER_ONLY,
)
def UnpermuteGrad(dy: Array, rows: Array, places: Array, weights: Array) -> Array:
    """The gradient of `Unpermute` with respect to the weights: the products of each token's `dy` with its rows.

    It has the element type of the weights, which are not read.

    %dw = UnpermuteGrad(%dy: Tensor[Float32, (3, 4), 1], %rows: Tensor[Float32, (6, 4), 1], [[0, 2], [1, 5], [3, -1]], %w: Tensor[Float32, (3, 2), 1])
    """  # noqa: E501 - an example is one line
    each = wide(_rows_of("UnpermuteGrad", rows, places))
    return np.sum(each * wide(dy)[..., None, :], axis=-1, dtype=each.dtype).astype(weights.dtype, copy=False)


@UnpermuteGrad.pieces
def _(p: Pieces, *given: Piece) -> Any:
    return of_rows(p, "UnpermuteGrad", given, 1, 2)


@UnpermuteGrad.sharding
def _(dy: TensorType, rows: TensorType, places: TensorType, weights: TensorType, *, results: Sequence[Shape]) -> Layout:
    groups = letters_of(rows, 2)
    choices: Letters = (*groups, "n", None)
    operands = ((*groups, "n", "h"), (*groups, "r", "h"), choices, choices)
    return _or_by_rows(Layout(operands, (choices,)), 2)


@UnpermuteGrad.parted
def _(w: Parts, dy: Arg, rows: Arg, places: Arg, weights: Arg) -> list[Arg]:
    """Each device has the products with the rows that it has."""
    return [w("UnpermuteGrad", dy, rows, _own_places(w, places, _count(w, rows)), weights)]


@UnpermuteGrad.torch(fresh=True)
def _(write: Write, dy: Expr, rows: Expr, places: Expr, weights: Expr) -> str:
    form = f"{write.kernel('unpermute_gradient')}({dy}, {rows}, {places.tensor})"
    return f"{form}.to({write.dtype(weights.dtype)})"


def _or_by_rows(found: Layout, positions: int) -> Layout:
    """The layout by groups; or that by rows `r`, of which each device has those of its experts; or that by tokens `n`.

    Rows of several groups are exchanged: an all-to-all of them, where a sum would be of all tokens.
    """

    def without(*gone: str) -> Layout:
        operands, results = (
            tuple(tuple(None if letter in gone else letter for letter in letters) for letters in every)
            for every in (found.operands, found.results)
        )
        return replace(found, operands=operands, results=results)

    by_rows = replace(without("n"), parted=frozenset({"r"}), blocked=frozenset({"r"}), positions=positions)
    return replace(without("n", "r"), others=(by_rows, without("r")))


def _count(w: Parts, rows: Arg) -> int:
    """The number of rows of a group on all devices."""
    count = dims.product((w.type(rows).shape or ())[-2:-1])
    assert isinstance(count, int)
    return count


def _own_places(w: Parts, places: Arg, rows: int) -> Arg:
    """The places of the rows that a device has, in its part of them; -1 for the others."""
    own, here = w.own(places, rows)
    taken = w("And", here, w("GreaterOrEqual", places, Literal(0)))
    return w("Where", taken, own, Literal(-1))


def _rows_of(name: str, rows: Array, places: Array) -> Array:
    """The rows of each choice of each token, zeros for -1."""
    *outer, n, k = places.shape
    _check_places(name, places, rows.shape[-2])
    found = np.take_along_axis(rows, np.maximum(places, 0).reshape(*outer, n * k, 1), axis=-2) if rows.size else None
    if found is None:
        return np.zeros((*places.shape, rows.shape[-1]), rows.dtype)
    return np.where(places[..., None] < 0, np.zeros((), rows.dtype), found.reshape(*places.shape, rows.shape[-1]))


def _check_places(name: str, places: Array, rows: int) -> None:
    if places.size and not (places.min() >= -1 and places.max() < rows):
        message = f"`{name}` expected rows from -1 to {rows - 1}, found {places.min()} to {places.max()}"
        raise Reject(codes.BAD_VALUE, message, "places")
