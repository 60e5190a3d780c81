"""The values of ONNX's recurrent networks, `LSTM`, `GRU` and `RNN`, with all that their definitions have.

ONNX's reference implementation leaves lengths of sequences, activations, their parameters, `clip` and `input_forget`
out (1.23).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from distir.ops.activation import logistic
from distir.ops.numeric import Array, np
from distir.ops.precision import wide

Activation = Callable[[Array], Array]
States = tuple[Array, ...]


def recurrent(
    name: str,
    states: int,
    x: Array,
    w: Array,
    r: Array,
    *others: Array | None,
    rounds: Callable[[Array], Array] | None = None,
    **attrs: Any,
) -> list[Array]:
    """All hidden states, and the last of each of the `states`: hidden ones, and cells.

    `others`: biases, the lengths of sequences, initial states, and peepholes. `rounds`: what is done with a hidden
    state before it is multiplied.
    """
    b, lengths, *rest = [*others, *[None] * (3 + states - len(others))]
    initial, peepholes = rest[:states], rest[states]
    batch_first = attrs.get("layout", 0) == 1

    def steps_first(value: Array) -> Array:
        return np.swapaxes(value, 0, 1) if batch_first else value

    xs = wide(steps_first(x))
    ends = np.full(xs.shape[1], len(xs)) if lengths is None else lengths
    none = np.zeros((r.shape[0], xs.shape[1], r.shape[2]), xs.dtype)
    started = [none if state is None else wide(steps_first(state)) for state in initial]
    found: list[tuple[Array, States]] = []
    for k in range(r.shape[0]):
        halves = np.zeros((2, w.shape[1]), xs.dtype) if b is None else wide(b[k]).reshape(2, -1)
        parts = _Weights(wide(w[k]), wide(r[k]), halves, None if peepholes is None else wide(peepholes[k]), rounds)
        step = _STEPS[name](parts, list(_activations(name, k, attrs)), attrs)
        backward = k == 1 or attrs.get("direction") == "reverse"
        found.append(_one_way(step, xs, tuple(state[k] for state in started), ends, backward))
    y = np.stack([hidden for hidden, _ in found], 1)
    last = [steps_first(np.stack(each)) for each in zip(*(states for _, states in found), strict=True)]
    return [result.astype(x.dtype) for result in (np.moveaxis(y, 2, 0) if batch_first else y, *last)]


def _one_way(step: Any, xs: Array, states: States, ends: Array, backward: bool) -> tuple[Array, States]:
    """The hidden states of one direction, zeros behind the end of a sequence, and the states that it ends with."""
    y = np.zeros((len(xs), *states[0].shape), xs.dtype)
    for t in range(len(xs))[:: -1 if backward else 1]:
        runs = (t < ends)[:, None]
        states = tuple(np.where(runs, new, old) for new, old in zip(step(xs[t], states), states, strict=True))
        y[t] = np.where(runs, states[0], 0)
    return y, states


@dataclass(frozen=True, slots=True)
class _Weights:
    """Of one direction: for the input, for the last hidden state, the biases of both, and peepholes."""

    w: Array
    r: Array
    b: Array
    peepholes: Array | None
    rounds: Callable[[Array], Array] | None = None

    def products(self, x: Array, h: Array) -> tuple[Array, Array]:
        """What the input, and what the last hidden state, adds to all gates."""
        h = h if self.rounds is None else self.rounds(h)
        return x @ self.w.T + self.b[0], h @ self.r.T + self.b[1]


def _lstm(weights: _Weights, activations: Sequence[Activation], attrs: dict[str, Any]) -> Any:
    f, g, h = activations
    peepholes = np.split(np.zeros(3) if weights.peepholes is None else weights.peepholes, 3)

    def step(x: Array, states: States) -> States:
        hidden, cell = states
        i, o, forget, c = np.split(sum(weights.products(x, hidden)), 4, -1)
        share = f(i + peepholes[0] * cell)
        kept = 1 - share if attrs.get("input_forget") else f(forget + peepholes[2] * cell)
        cell = kept * cell + share * g(c)
        return f(o + peepholes[1] * cell) * h(cell), cell

    return step


def _gru(weights: _Weights, activations: Sequence[Activation], attrs: dict[str, Any]) -> Any:
    f, g = activations
    of_candidate = np.split(weights.r, 3)[2].T

    def step(x: Array, states: States) -> States:
        (hidden,) = states
        (a_z, a_r, a_h), (u_z, u_r, u_h) = (np.split(part, 3, -1) for part in weights.products(x, hidden))
        reset = f(a_r + u_r)
        if attrs.get("linear_before_reset"):
            candidate = g(a_h + reset * u_h)
        else:
            candidate = g(a_h + (reset * hidden) @ of_candidate + np.split(weights.b[1], 3)[2])
        z = f(a_z + u_z)
        return ((1 - z) * candidate + z * hidden,)

    return step


def _rnn(weights: _Weights, activations: Sequence[Activation], attrs: dict[str, Any]) -> Any:
    (f,) = activations

    def step(x: Array, states: States) -> States:
        of_input, of_state = weights.products(x, states[0])
        return (f(of_input + of_state),)

    return step


_STEPS: dict[str, Callable[[_Weights, Sequence[Activation], dict[str, Any]], Any]] = {
    "GRU": _gru,
    "LSTM": _lstm,
    "RNN": _rnn,
}

_USUAL = {"GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh"), "RNN": ("Tanh",)}

_FUNCTIONS: dict[str, tuple[Callable[[Array, float, float], Array], tuple[float, ...]]] = {
    "affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
    "elu": (lambda x, a, _: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x), (1.0,)),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), (0.2, 0.5)),
    "leakyrelu": (lambda x, a, _: np.where(x < 0, a * x, x), (0.01,)),
    "relu": (lambda x, *_: np.maximum(x, 0), ()),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), (1.0, 1.0)),
    "sigmoid": (lambda x, *_: logistic(x), ()),
    "softplus": (lambda x, *_: np.logaddexp(x, 0), ()),
    "softsign": (lambda x, *_: x / (1 + np.abs(x)), ()),
    "tanh": (lambda x, *_: np.tanh(x), ()),
    "thresholdedrelu": (lambda x, a, _: np.where(x > a, x, 0), (1.0,)),
}
"""By name in small letters: a function, and the defaults of its `alpha` and `beta`, as far as it has them."""


def _activations(name: str, direction: int, attrs: dict[str, Any]) -> Iterator[Activation]:
    """The activations of a direction, of what `clip` bounds. Those that have an `alpha` or `beta` take the next one."""
    usual, clip = _USUAL[name], attrs.get("clip")
    given: Sequence[str] = attrs.get("activations") or usual * 2
    stated = [iter(attrs.get(f"activation_{letter}") or ()) for letter in ("alpha", "beta")]
    for i, called in enumerate(given[: len(usual) * (direction + 1)]):
        function, defaults = _FUNCTIONS[called.lower()]
        numbers = [next(each, default) for each, default in zip(stated, defaults, strict=False)]
        if i >= len(usual) * direction:
            alpha, beta = [*numbers, 0.0, 0.0][:2]
            yield _bounded(function, alpha, beta, clip)


def _bounded(
    function: Callable[[Array, float, float], Array], alpha: float, beta: float, clip: float | None
) -> Activation:
    return lambda x: function(x if clip is None else np.clip(x, -clip, clip), alpha, beta)
