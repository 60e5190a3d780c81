"""Caches: what a model keeps between the steps of a generation, written in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import Dim, Shape, dims, types
from distir.ops.attributes import check_word
from distir.ops.core import op
from distir.ops.host import Operand, known_ints
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np
from distir.ops.unify import Reject, normal_axis

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, Write

MODES = ("linear", "circular")


@op(
    "Tensor[t, (*a, n@axis, *c), d], Tensor[t, (*a, m@axis, *c), d], Optional[Tensor[i:int, _, d]]"
    " -> Tensor[t, (*a, n, *c), d]",
    flops=0,
    bytes=lambda t, a, m, c, **_: 2 * t * a * m * c,
    inplace={0: 0},
    non_differentiable="it writes to a cache in place, where nothing is trained",
)
def TensorScatter(
    past_cache: Array, update: Array, write_indices: Array | None = None, *, axis: int = -2, mode: str = "linear"
) -> Array:
    """The cache with `update` written to its places from `write_indices` on, along `axis`. ONNX `TensorScatter`.

    The place is an integer for all sequences (the first dimension) or one for each; if omitted, it is 0. With
    `mode = "circular"` places behind the last are the first again, as for a sliding window. Where this is the last use
    of the cache, it is written in place: there is no second one, and the traffic is that of the update alone, which is
    what is counted in any case. So a step of a decoder appends the keys and values of its tokens:

        %keys = TensorScatter(%past_keys, %k, %position)
        %values = TensorScatter(%past_values, %v, %position)
        %y = Attention[is_causal = true](%q, %keys, %values, _, _, %length)

    %y = TensorScatter(%c: Tensor[Float32, (2, 2, 6, 4), 1], %u: Tensor[Float32, (2, 2, 1, 4), 1], 3)
    %y = TensorScatter(%c: Tensor[Float32, (2, 2, 6, 4), 1], %u: Tensor[Float32, (2, 2, 3, 4), 1])
    %y = TensorScatter[axis = 1](%c: Tensor[Float32, (2, 6, 8), 1], %u: Tensor[Float32, (2, 2, 8), 1], [0, 4])
    %y = TensorScatter[mode = "circular"](%c: Tensor[Float32, (2, 2, 6, 4), 1], %u: Tensor[Float32, (2, 2, 2, 4), 1], 5)
    """
    at = axis % past_cache.ndim
    size, written = int(past_cache.shape[at]), int(update.shape[at])
    first: Array = np.asarray(0 if write_indices is None else write_indices, np.int64).reshape(-1, 1)
    places = first + np.arange(written)
    if mode == "circular":
        places = places % max(1, size)
    elif places.size and not (places.min() >= 0 and places.max() < size):
        raise ValueError(f"the cache has {size} places, and {written} are written from {first.ravel().tolist()} on")
    cache = np.moveaxis(past_cache, at, 1).copy()
    sequences = np.arange(len(cache))[:, None]
    cache[sequences, places] = np.moveaxis(update, at, 1)
    return np.moveaxis(cache, 1, at)


@TensorScatter.checks
def _(past_cache: Operand, update: Operand, write_indices: Operand | None = None, *, axis: int, mode: str) -> None:
    check_word("TensorScatter", "mode", mode, MODES)
    shapes = [o.shape for o in (past_cache, update) if o.shape is not None]
    if not shapes:
        return
    if normal_axis(axis, len(shapes[0]), "TensorScatter", "axis") == 0:
        message = "`TensorScatter` expected an axis behind the first dimension, which counts sequences"
        raise Reject(codes.BAD_VALUE, message, "axis")
    size, written = (_along(o, axis) for o in (past_cache, update))
    if isinstance(size, int) and isinstance(written, int) and written > size:
        message = f"`TensorScatter` expected at most the {size} places of the cache, found {written} to be written"
        raise Reject(codes.BAD_VALUE, message, "update")
    if write_indices is None:
        return
    if write_indices.shape:
        stated, sequences = write_indices.shape[0], shapes[0][0]
        if len(write_indices.shape) > 1 or (None not in (stated, sequences) and stated != sequences):
            message = f"`TensorScatter` expected a place, or one for each of {dims.show(sequences)} sequences"
            raise Reject(
                codes.SHAPE_MISMATCH, f"{message}, found {types.show_shape(write_indices.shape)}", "write_indices"
            )
    for place in known_ints(write_indices) or ():
        _check_place(place, written, size, mode)


def _check_place(place: int, written: Dim, size: Dim, mode: str) -> None:
    if place < 0:
        message = f"`TensorScatter` expected a place from 0 on, found {place}"
        raise Reject(codes.BAD_VALUE, message, "write_indices")
    if mode == "linear" and isinstance(written, int) and isinstance(size, int) and place + written > size:
        message = f"`TensorScatter` expected a cache of at least {place + written} places, found {size}: "
        message += f"{written} are written from {place} on"
        hint = 'make the cache longer, or write over its oldest places with `mode = "circular"`'
        raise Reject(codes.BAD_VALUE, message, "past_cache", help=hint)


def _along(operand: Operand, axis: int) -> Dim:
    return None if operand.shape is None else operand.shape[axis]


@TensorScatter.sharding
def _(
    past_cache: Operand,
    update: Operand,
    write_indices: Operand | None = None,
    *,
    results: Sequence[Shape | None],
    axis: int,
    **attrs: Any,
) -> Layout:
    """Any dimension but the one that is written along may be split: sequences, heads."""
    rank = len(past_cache.shape or ())
    letters: Letters = tuple(None if k == axis % max(rank, 1) else f"a{k}" for k in range(rank))
    operands: list[Letters] = [letters, letters]
    if write_indices is not None:
        operands.append(("a0",) if write_indices.shape else ())
    return Layout(tuple(operands), (letters,))


@TensorScatter.torch(fresh=True)
def _(write: Write, past_cache: Expr, update: Expr, write_indices: Expr | None = None, *, axis: int, mode: str) -> str:
    place: object = 0
    if write_indices is not None:
        known = write_indices.value is not None and write_indices.rank == 0
        place = write_indices.scalar("a place") if known else write_indices.tensor
    into = ", overwrite=True" if write.may_overwrite(0) else ""
    at = axis % past_cache.rank
    return f"{write.kernel('written_cache')}({past_cache.tensor}, {update.tensor}, {place}, {at}, {mode!r}{into})"
