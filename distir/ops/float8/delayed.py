"""Tensors to 8-bit floats by scales of the last steps, and the history that they follow from: delayed scaling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import DType, Shape, TensorType
from distir.ops.core import op
from distir.ops.float8.scales import E4M3, LARGEST, by_owner, check_slot, check_type, letters_of
from distir.ops.layout import Layout
from distir.ops.numeric import Array, np, numpy_dtype
from distir.ops.precision import wide
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Unpacked, Write


@op(
    "Tensor[t:float, (n, *s), d], Tensor[h:float, (_,), d]"
    " -> Tensor[to, (n, *s), d], Tensor[Float32, (), d], Tensor[Float32, _, d]",
    flops=lambda elements, **_: 4 * elements,
)
def ScaleToFloat8(
    x: Array, greatest: Array, *, to: DType = E4M3, slot: int = 0, owners: int = 1
) -> tuple[Array, Array, Array]:
    """`x` in an 8-bit float type by a scale that is known before, the scale, and the greatest magnitudes of `x`.

    The scale is `greatest[slot]` divided by the largest number of the type, 1 for 0; what is greater than expected is
    the largest number. The last result has the greatest magnitude of each row, that is along the last dimension, one
    pass with the rest. The gradient takes no notice of the rounding. `owners` as in `QuantizeFloat8`.

    %q, %scale, %now = ScaleToFloat8(%x: Tensor[Float32, (2, 4), 1], %greatest: Tensor[Float32, (3,), 1])
    %q, %scale, %now = ScaleToFloat8[to = Float8E5M2, slot = 2](%x: Tensor[Float32, (2, 3, 4), 1], %greatest: Tensor[Float32, (3,), 1])
    """  # noqa: E501 - an example is one line
    values, largest = wide(x), np.float32(LARGEST[to])
    expected = greatest[slot].astype(np.float32)
    scale = np.asarray(expected / largest if expected > 0 else 1, np.float32)
    now = np.max(np.abs(values), axis=-1, initial=0.0).astype(np.float32)
    return np.clip(values / scale, -largest, largest).astype(numpy_dtype(to)), scale, now


@ScaleToFloat8.checks
def _(x: TensorType, greatest: TensorType, *, to: DType, slot: int, owners: int) -> None:
    check_type("ScaleToFloat8", to, "to")
    check_slot("ScaleToFloat8", greatest, slot)


@ScaleToFloat8.shapes
def _(x: TensorType, greatest: TensorType, *, to: DType, slot: int, owners: int) -> list[Shape | None]:
    return [x.shape, (), x.shape if x.shape is None else x.shape[:-1]]


@ScaleToFloat8.sharding
def _(
    x: TensorType, greatest: TensorType, *, results: Sequence[Shape | None], to: DType, slot: int, owners: int
) -> Layout:
    own, said = by_owner(letters_of(x), owners)
    return Layout((own, (None,)), (own, (), own[:-1]), whole=frozenset({1}), greatest=frozenset({2}), **said)


@ScaleToFloat8.grad
def _(g: Backward) -> Gradients:
    given = g.dtype(g.x[0])
    return [g.dy if g.dtype(g.dy) == given else g("Cast", g.dy, to=given), None]


@ScaleToFloat8.torch(fresh=True)
def _(write: Write, x: Expr, greatest: Expr, *, to: DType, slot: int, owners: int) -> Unpacked:
    given = f"{x}, {greatest}, {slot}, {write.dtype(to)}, {LARGEST[to]}"
    return write.unpacked(f"{write.kernel('scale_to_float8')}({given})")


@op(
    "Tensor[h:float, (t, n), d] -> Tensor[h, (t, n), d]",
    flops=0,
    inplace={0: 0},
    non_differentiable="it is state of a step",
)
def NextHistory(history: Array) -> Array:
    """A history of greatest magnitudes, by tensor and step, a step later: the oldest is dropped, the newest is 0.

    %next = NextHistory(%history: Tensor[Float32, (3, 16), 1])
    """
    return np.concatenate([np.zeros_like(history[:, :1]), history[:, :-1]], axis=1)


@NextHistory.sharding
def _(history: TensorType, *, results: Sequence[Shape | None]) -> Layout:
    return Layout((("t", None),), (("t", None),))


@NextHistory.torch(fresh=True)
def _(write: Write, history: Expr) -> str:
    return f"{write.kernel('next_history')}({history})"


@op(
    "Tensor[h:float, s, d] -> Tensor[h, (1,), d]",
    flops=lambda inputs, **_: inputs,
    non_differentiable="it is what the state of a step follows from",
)
def Greatest(now: Array) -> Array:
    """The greatest of greatest magnitudes, which are not below 0: over rows, devices, microbatches.

    %greatest = Greatest(%now: Tensor[Float32, (4,), 1])
    """
    return np.max(now, initial=0.0).astype(now.dtype).reshape(1)


@Greatest.sharding
def _(now: TensorType, *, results: Sequence[Shape | None]) -> Layout:
    return Layout((letters_of(now),), ((None,),), greatest=frozenset({0}))


@Greatest.pieces
def _(p: Pieces, now: Piece) -> Any:
    """Of maxima over some places: the greatest over these places."""
    found = p.maxima(now)
    if found is None:
        return NotImplemented
    every, over = found
    return [p.over_maxima(p("Greatest", every), over)]


@Greatest.torch(fresh=True)
def _(write: Write, now: Expr) -> str:
    return f"{write.kernel('greatest')}({now})"


@op(
    "Tensor[h:float, (t, n), d], Tensor[g:float, (k,), d] -> Tensor[h, (t, n), d]",
    flops=lambda k, **_: k,
    bytes=lambda k, **_: 12 * k,
    inplace={0: 0},
    non_differentiable="it is state of a step",
)
def RecordGreatest(history: Array, greatest: Array, *, slots: tuple[int, ...]) -> Array:
    """The history with the greatest magnitudes of this step as the newest of tensors, unless more is there.

    %recorded = RecordGreatest[slots = [1, 0]](%history: Tensor[Float32, (3, 16), 1], %greatest: Tensor[Float32, (2,), 1])
    """  # noqa: E501 - an example is one line
    recorded = history.copy()
    np.maximum.at(recorded[:, 0], list(slots), greatest)
    return recorded


@RecordGreatest.checks
def _(history: TensorType, greatest: TensorType, *, slots: tuple[int, ...]) -> None:
    for slot in slots:
        check_slot("RecordGreatest", history, slot, "slots")
    count = greatest.shape[0] if greatest.shape else None
    if isinstance(count, int) and count != len(slots):
        message = f"`RecordGreatest` expected {len(slots)} greatest magnitudes, one for each slot, found {count}"
        raise Reject(codes.SHAPE_MISMATCH, message, "greatest")


@RecordGreatest.sharding
def _(history: TensorType, greatest: TensorType, *, results: Sequence[Shape | None], slots: tuple[int, ...]) -> Layout:
    return Layout(((None, None), (None,)), ((None, None),))


@RecordGreatest.torch(fresh=True)
def _(write: Write, history: Expr, greatest: Expr, *, slots: tuple[int, ...]) -> str:
    return f"{write.kernel('record_greatest')}({history}, {greatest}, {write.items(slots)})"
