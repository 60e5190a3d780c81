"""Recurrent networks whose weights are in 8 bits, as ONNX Runtime has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import Shape, TensorType, dims, types
from distir.ops.bridge.recurrences import recurrent
from distir.ops.core import op
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.recurrent import DIRECTIONS, as_arguments
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, Unpacked, Write

_STATE = "Tensor[t, (n, b, h), d]"


def _flops(s: int, b: int, i: int, n: int, g: int, h: int, **_: Any) -> int:
    """The two products of each step, and 18 for each element of the state, as of `LSTM`."""
    return s * b * n * (2 * g * (i + h) + 18 * h)


@op(
    "Tensor[t:float, (s, b, i), d], Tensor[u:int, (n, i, g), d], Tensor[t, _, d], Tensor[u, _, d],"
    " Tensor[u, (n, h, g), d], Tensor[t, _, d], Tensor[u, _, d], Optional[Tensor[t, (n, _), d]],"
    f" Optional[{_STATE}], Optional[{_STATE}]"
    f" -> Tensor[t, (s, n, b, h), d], {_STATE}, {_STATE}",
    flops=_flops,
    non_differentiable="its weights are quantised",
)
def DynamicQuantizeLSTM(
    x: Array,
    w: Array,
    w_scale: Array,
    w_zero: Array,
    r: Array,
    r_scale: Array,
    r_zero: Array,
    b: Array | None = None,
    initial_h: Array | None = None,
    initial_c: Array | None = None,
    *,
    direction: str = "forward",
) -> tuple[Array, ...]:
    """ONNX's `LSTM` with weights in 8 bits, as ONNX Runtime quantises it: all hidden states, the last ones, and cells.

    `w` and `r` are transposed, with a scale and a zero point for each direction, or for each of its columns. `x` is
    rounded to 8 bits as a whole, and in each step the hidden state of each sequence is.

    %y, %h, %c = DynamicQuantizeLSTM(%x: Tensor[Float32, (4, 2, 3), 1], %w: Tensor[Int8, (1, 3, 20), 1], %ws: Tensor[Float32, (1), 1], %wz: Tensor[Int8, (1), 1], %r: Tensor[Int8, (1, 5, 20), 1], %rs: Tensor[Float32, (1), 1], %rz: Tensor[Int8, (1), 1])
    """  # noqa: E501 - an example is one line
    scaled = [_scaled(*each) for each in ((w, w_scale, w_zero), (r, r_scale, r_zero))]
    others = (b, None, initial_h, initial_c)
    found = recurrent("LSTM", 2, in_8_bits(wide(x)), *scaled, *others, rounds=in_8_bits_by_row, direction=direction)
    return tuple(each.astype(x.dtype) for each in found)


def _scaled(weights: Array, scale: Array, zero: Array) -> Array:
    """The numbers that weights represent, (directions, rows of gates, columns)."""
    each = (weights.shape[0], 1, -1)
    numbers = (weights.astype(np.float32) - zero.reshape(each).astype(np.float32)) * wide(scale).reshape(each)
    return np.swapaxes(numbers, 1, 2)


def in_8_bits(x: Array, axes: tuple[int, ...] | None = None) -> Array:
    """The nearest of 256 numbers, from the least to the greatest along `axes`, 0 among them."""
    low = np.minimum(x.min(axes, keepdims=True, initial=0), 0)
    high = np.maximum(x.max(axes, keepdims=True, initial=0), 0)
    step = np.where(high > low, (high - low) / np.asarray(255, x.dtype), np.asarray(1, x.dtype))
    zero = np.clip(np.rint(-low / step), 0, 255)
    return (np.clip(np.rint(x / step) + zero, 0, 255) - zero) * step


def in_8_bits_by_row(x: Array) -> Array:
    """The same of each row by itself."""
    return in_8_bits(x, (-1,))


@DynamicQuantizeLSTM.checks
def _(x: TensorType, w: TensorType, *others: TensorType | None, direction: str) -> None:
    if direction not in DIRECTIONS:
        message = f"`DynamicQuantizeLSTM` expected one of {', '.join(DIRECTIONS)} as `direction`, found `{direction}`"
        raise Reject(codes.BAD_VALUE, message, "direction")
    count, names = DIRECTIONS[direction], ("w_scale", "w_zero", "r", "r_scale", "r_zero", "b")
    given = {"w": w, **dict(zip(names, others, strict=False))}
    r = given["r"]
    hidden = None if r is None or r.shape is None else r.shape[1]
    rows, biases = (dims.multiply(hidden, n) if hidden is not None else None for n in (4, 8))
    wanted: dict[str, list[Shape]] = {name: [(count,), (count, rows)] for name in names}
    wanted |= {"w": [(count, None, rows)], "r": [(count, hidden, rows)], "b": [(count, biases)]}
    for name, shapes in wanted.items():
        found = given.get(name)
        if found is not None and found.shape is not None and not any(_fits(found.shape, shape) for shape in shapes):
            listed, shown = " or ".join(map(types.show_shape, shapes)), types.show_shape(found.shape)
            message = f"`DynamicQuantizeLSTM` expected `{name}` of shape {listed}, found {shown}"
            raise Reject(codes.SHAPE_MISMATCH, message, name)


def _fits(shape: Shape, wanted: Shape) -> bool:
    return len(shape) == len(wanted) and all(None in (a, b) or a == b for a, b in zip(shape, wanted, strict=True))


@DynamicQuantizeLSTM.sharding
def _(*operands: TensorType | None, results: Sequence[Shape | None], **_: Any) -> Layout:
    """Nothing is split: the numbers that `x` is rounded to follow from all of it."""
    given: tuple[Letters, ...] = tuple((None,) * len((o and o.shape) or ()) for o in operands)
    return Layout(given, tuple((None,) * len(shape or ()) for shape in results))


def _form(write: Write, *operands: Expr | None, direction: str) -> Unpacked:
    given = as_arguments(*operands, *[None] * (10 - len(operands)))
    return write.unpacked(f"{write.kernel('quantized_lstm')}({given}, {direction!r})")


DynamicQuantizeLSTM.torch(_form, fresh=True)
