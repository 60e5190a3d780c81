"""Gradient ops of the recurrent networks that ONNX defines: `LSTM`, `GRU` and `RNN`. Not in ONNX.

There are no residuals from inside the network: its steps are recomputed and then differentiated, so the work is three
times that of the network. Sequences have equal lengths, activations are sigmoid and tanh, and there are no peepholes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from distir.diagnostics.codes import types as codes
from distir.ir import Shape, TensorType, types
from distir.ops.activation import logistic
from distir.ops.core import op
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.specs import FIRST_ORDER_ONLY
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, Unpacked, Write


DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
"""The number of networks, each with its own weights, by `direction`."""

_GIVEN = (
    "Tensor[t:float, _, d], Tensor[t:float, (_, _, i), d], Tensor[t:float, (n, g, i), d],"
    " Tensor[t:float, (n, g, h), d], Optional[Tensor[t:float, (n, _), d]]"
)

_STATE = "Optional[Tensor[t:float, (_, _, h), d]]"


_FOUND = "Tensor[t, _, d], Tensor[t, (n, g, i), d], Tensor[t, (n, g, h), d], Tensor[t, _, d], Tensor[t, _, d]"


def _flops(shapes: list[tuple[int, ...]], **_: Any) -> int:
    """The two products of each step: recomputed, and their gradients with respect to both factors."""
    (steps, batch, _size), w, r = shapes[1:4]
    return 3 * steps * batch * (2 * math.prod(w) + 2 * math.prod(r) + 6 * math.prod(w[:2]))


@op(
    f"{_GIVEN}, {_STATE}, {_STATE}, {_STATE}, {_STATE} -> {_FOUND}, Tensor[t, _, d]",
    flops=_flops,
    non_differentiable=FIRST_ORDER_ONLY,
)
def LSTMGrad(
    dy: Array,
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    initial_h: Array | None = None,
    initial_c: Array | None = None,
    dy_h: Array | None = None,
    dy_c: Array | None = None,
    *,
    direction: str = "forward",
    layout: int = 0,
) -> tuple[Array, ...]:
    """The gradients of `LSTM` with respect to `x`, `w`, `r`, `b`, `initial_h` and `initial_c`.

    `dy`, `dy_h` and `dy_c` are the gradients of its results: all hidden states, the last ones, and the last cells.

    %dx, %dw, %dr, %db, %dh, %dc = LSTMGrad(%dy: Tensor[Float32, (4, 1, 2, 5), 1], %x: Tensor[Float32, (4, 2, 3), 1], %w: Tensor[Float32, (1, 20, 3), 1], %r: Tensor[Float32, (1, 20, 5), 1])
    """  # noqa: E501 - an example is one line
    network = _Network(_lstm, _lstm_back, w, r, b, direction)
    return network.gradients(dy, x, (initial_h, initial_c), (dy_h, dy_c), layout == 1)


@op(f"{_GIVEN}, {_STATE}, {_STATE} -> {_FOUND}", flops=_flops, non_differentiable=FIRST_ORDER_ONLY)
def GRUGrad(
    dy: Array,
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    initial_h: Array | None = None,
    dy_h: Array | None = None,
    *,
    direction: str = "forward",
    layout: int = 0,
) -> tuple[Array, ...]:
    """The gradients of `GRU` with respect to `x`, `w`, `r`, `b` and `initial_h`, where `linear_before_reset` is set.

    `dy` and `dy_h` are the gradients of its results: all hidden states, and the last ones.

    %dx, %dw, %dr, %db, %dh = GRUGrad(%dy: Tensor[Float32, (4, 1, 2, 5), 1], %x: Tensor[Float32, (4, 2, 3), 1], %w: Tensor[Float32, (1, 15, 3), 1], %r: Tensor[Float32, (1, 15, 5), 1])
    """  # noqa: E501 - an example is one line
    return _Network(_gru, _gru_back, w, r, b, direction).gradients(dy, x, (initial_h,), (dy_h,), layout == 1)


@op(f"{_GIVEN}, {_STATE}, {_STATE} -> {_FOUND}", flops=_flops, non_differentiable=FIRST_ORDER_ONLY)
def RNNGrad(
    dy: Array,
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    initial_h: Array | None = None,
    dy_h: Array | None = None,
    *,
    direction: str = "forward",
    layout: int = 0,
) -> tuple[Array, ...]:
    """The gradients of `RNN` with respect to `x`, `w`, `r`, `b` and `initial_h`.

    `dy` and `dy_h` are the gradients of its results: all hidden states, and the last ones.

    %dx, %dw, %dr, %db, %dh = RNNGrad(%dy: Tensor[Float32, (4, 1, 2, 5), 1], %x: Tensor[Float32, (4, 2, 3), 1], %w: Tensor[Float32, (1, 5, 3), 1], %r: Tensor[Float32, (1, 5, 5), 1])
    """  # noqa: E501 - an example is one line
    return _Network(_rnn, _rnn_back, w, r, b, direction).gradients(dy, x, (initial_h,), (dy_h,), layout == 1)


def _check(name: str, gates: int) -> Any:
    def check(
        dy: TensorType, x: TensorType, w: TensorType, r: TensorType, *states: Any, direction: str, layout: int
    ) -> None:
        if direction not in DIRECTIONS:
            message = f"`{name}` expected one of {', '.join(DIRECTIONS)} as `direction`, found `{direction}`"
            raise Reject(codes.BAD_VALUE, message, "direction")
        if layout not in (0, 1):
            raise Reject(codes.BAD_VALUE, f"`{name}` expected 0 or 1 as `layout`, found {layout}", "layout")
        if r.shape is not None and not _fits(r.shape, DIRECTIONS[direction], gates):
            expected = f"({DIRECTIONS[direction]}, {gates} * h, h)"
            message = f"`{name}` expected weights of shape {expected}, found {types.show_shape(r.shape)}"
            raise Reject(codes.SHAPE_MISMATCH, message, "r")

    return check


def _fits(shape: Shape, directions: int, gates: int) -> bool:
    count, rows, hidden = shape
    return count in (directions, None) and (not isinstance(hidden, int) or rows in (gates * hidden, None))


def _shapes(states: int) -> Any:
    def shapes(
        dy: TensorType, x: TensorType, w: TensorType, r: TensorType, *_: Any, direction: str, layout: int
    ) -> list[Shape | None]:
        count, rows, hidden = r.shape or (DIRECTIONS.get(direction), None, None)
        bias = (count, 2 * rows if isinstance(rows, int) else None)
        batch = x.shape[0 if layout else 1] if x.shape is not None else None
        state = (batch, count, hidden) if layout else (count, batch, hidden)
        return [x.shape, w.shape, r.shape, bias, *[state] * states]

    return shapes


def _sharding(states: int) -> Any:
    """The batch may be split; then the gradients of weights are partial sums."""

    def sharding(*operands: TensorType | None, results: Sequence[Shape | None], layout: int, **_: Any) -> Layout:
        batch: Letters = ("b", None, None) if layout else (None, "b", None)
        whole: Letters = (None,) * 3
        dy: Letters = ("b", None, None, None) if layout else (None, None, "b", None)
        letters = (dy, batch, whole, whole, (None, None), *[batch] * 2 * states)
        given = tuple(() if o is None else found for o, found in zip(operands, letters, strict=False))
        return Layout(given, (batch, whole, whole, (None, None), *[batch] * states))

    return sharding


def _form(name: str, states: int) -> Any:
    def form(
        write: Write,
        dy: Expr,
        x: Expr,
        w: Expr,
        r: Expr,
        b: Expr | None = None,
        *others: Expr | None,
        direction: str,
        layout: int,
    ) -> Unpacked:
        padded = [*others, *[None] * (2 * states - len(others))]
        initial, last = as_arguments(*padded[:states]), as_arguments(*padded[states:])
        network = f"{as_arguments(x, w, r, b)}, ({initial},), {direction!r}, {layout}"
        return write.unpacked(
            f"{write.kernel('recurrent_gradient')}({name!r}, ({as_arguments(dy)}, {last}), {network})"
        )

    return form


def as_arguments(*operands: Expr | None) -> str:
    """Operands as the arguments of a call in torch."""
    return ", ".join("None" if operand is None else operand.tensor for operand in operands)


for _op, _gates, _states in ((LSTMGrad, 4, 2), (GRUGrad, 3, 1), (RNNGrad, 1, 1)):
    _op.checks(_check(_op.name, _gates))
    _op.shapes(_shapes(_states))
    _op.sharding(_sharding(_states))
    _op.torch(_form(_op.name.removesuffix("Grad"), _states), fresh=True)


# One step: from the input's contribution `a`, the last hidden state's contribution `u`, and the states, to new states.

States = tuple[Array, ...]


def _lstm(a: Array, u: Array, states: States) -> States:
    i, o, f, g = _lstm_gates(a, u)
    c = f * states[1] + i * g
    return o * np.tanh(c), c


def _lstm_gates(a: Array, u: Array) -> tuple[Array, Array, Array, Array]:
    i, o, f, g = np.split(a + u, 4, axis=-1)
    return logistic(i), logistic(o), logistic(f), np.tanh(g)


def _lstm_back(a: Array, u: Array, states: States, dstates: States) -> tuple[Array, Array, States]:
    """The gradients of `a`, of `u`, and of the previous states except through `u`."""
    i, o, f, g = _lstm_gates(a, u)
    (_, before), (dh, dc) = states, dstates
    tanh = np.tanh(f * before + i * g)
    dc = dc + dh * o * (1 - tanh**2)
    gates = (dc * g * i * (1 - i), dh * tanh * o * (1 - o), dc * before * f * (1 - f), dc * i * (1 - g**2))
    dsum = np.concatenate(gates, axis=-1)
    return dsum, dsum, (np.zeros_like(dh), dc * f)


def _gru(a: Array, u: Array, states: States) -> States:
    z, _, n = _gru_gates(a, u)
    return ((1 - z) * n + z * states[0],)


def _gru_gates(a: Array, u: Array) -> tuple[Array, Array, Array]:
    (a_z, a_r, a_n), (u_z, u_r, u_n) = np.split(a, 3, axis=-1), np.split(u, 3, axis=-1)
    reset = logistic(a_r + u_r)
    return logistic(a_z + u_z), reset, np.tanh(a_n + reset * u_n)


def _gru_back(a: Array, u: Array, states: States, dstates: States) -> tuple[Array, Array, States]:
    z, reset, n = _gru_gates(a, u)
    (before,), (dh,) = states, dstates
    dn = dh * (1 - z) * (1 - n**2)
    dz = dh * (before - n) * z * (1 - z)
    dreset = dn * np.split(u, 3, axis=-1)[2] * reset * (1 - reset)
    return np.concatenate((dz, dreset, dn), -1), np.concatenate((dz, dreset, dn * reset), -1), (dh * z,)


def _rnn(a: Array, u: Array, states: States) -> States:
    return (np.tanh(a + u),)


def _rnn_back(a: Array, u: Array, states: States, dstates: States) -> tuple[Array, Array, States]:
    (dh,) = dstates
    dsum = dh * (1 - np.tanh(a + u) ** 2)
    return dsum, dsum, (np.zeros_like(dh),)


class _Network(NamedTuple):
    """A recurrent network in one direction or both."""

    step: Any
    step_back: Any
    w: Array
    r: Array
    b: Array | None
    direction: str

    def gradients(
        self, dy: Array, x: Array, initial: Sequence[Array | None], last: Sequence[Array | None], batch_first: bool
    ) -> tuple[Array, ...]:
        """The gradients of `x`, the weights, the biases and the initial states. `last`: those of the last states."""

        def steps_first(value: Array) -> Array:
            return np.swapaxes(value, 0, 1) if batch_first else value

        count, hidden = self.r.shape[0], self.r.shape[2]
        xs = wide(steps_first(x))
        dys = wide(np.moveaxis(dy, 0, 2)) if batch_first else wide(dy)  # steps, directions, batch, hidden
        none = np.zeros((count, xs.shape[1], hidden), xs.dtype)
        states, dstates = ([none if s is None else wide(steps_first(s)) for s in given] for given in (initial, last))
        found = [
            self._one_way(k, dys[:, k], xs, tuple(s[k] for s in states), tuple(s[k] for s in dstates))
            for k in range(count)
        ]
        dxs, *rest = zip(*found, strict=True)
        dx = steps_first(np.sum(np.stack(dxs), axis=0))
        weights, of_states = [np.stack(parts) for parts in rest[:3]], [np.stack(parts) for parts in rest[3:]]
        results = (dx, *weights, *map(steps_first, of_states))
        return tuple(result.astype(x.dtype, copy=False) for result in results)

    def _one_way(self, k: int, dys: Array, xs: Array, states: States, dstates: States) -> list[Array]:
        """The gradients of one direction."""
        turned = self.direction == "reverse" or k == 1
        order = range(len(xs))[::-1] if turned else range(len(xs))
        w, r = wide(self.w[k]), wide(self.r[k])
        b_w, b_r = (0, 0) if self.b is None else np.split(wide(self.b[k]), 2)
        done: list[tuple[int, Array, Array, States]] = []
        for t in order:
            a, u = xs[t] @ w.T + b_w, states[0] @ r.T + b_r
            done.append((t, a, u, states))
            states = self.step(a, u, states)
        dxs, dw, dr = np.zeros_like(xs), np.zeros_like(w), np.zeros_like(r)
        db = np.zeros((2, w.shape[0]), w.dtype)
        for t, a, u, before in reversed(done):
            da, du, beside = self.step_back(a, u, before, (dstates[0] + dys[t], *dstates[1:]))
            dxs[t] = da @ w
            dw, dr = dw + da.T @ xs[t], dr + du.T @ before[0]
            db += np.stack((da.sum(0), du.sum(0)))
            dstates = (du @ r + beside[0], *beside[1:])
        return [dxs, dw, dr, db.reshape(-1), *dstates]
