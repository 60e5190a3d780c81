"""Recurrences along a sequence whose state is linear in what came before: linear attention and selective scans.

Each is one kernel, as in flash-linear-attention and mamba-ssm: the states of the positions are in no memory, and the
backward pass computes them again. A state depends on all positions before it, so the sequence is never split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import Part, Shape, TensorType
from distir.ops.core import op
from distir.ops.host import Operand
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.specs import FIRST_ORDER_ONLY
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.torch_form import Expr, Unpacked, Write

CHUNK = 64
"""Positions that kernels compute at once, by matrix products: the chunk size of flash-linear-attention."""

_HEADS = (
    "Tensor[t:float, (b, s, j, n), d], Tensor[t, (b, s, j, n), d], Tensor[t, (b, s, h, p), d],"
    " Tensor[u:float, (b, s, h), d], Optional[Tensor[w:float, (b, s, h), d]]"
)


def _products(*, b: int, s: int, h: int, n: int, p: int, given: Any, **_: Any) -> int:
    """The FLOPs of the products of one pass in chunks (Yang et al., arXiv:2312.06635, 2412.06464).

    Within a chunk queries by keys, and those scores by values; queries by the state, and keys by values for the next
    one. The delta rule adds keys by keys, two products with the inverse of that, and the state by keys.
    """
    within, across = n + p, 2 * n * p
    if "beta" in given:
        within, across = within + 2 * n + p, across + n * p
    return 2 * b * s * h * (min(CHUNK, s) * within + across)


def _states(*, b: int, s: int, h: int, n: int, p: int, t: int, **_: Any) -> int:
    """The bytes of the states at which the chunks begin."""
    return b * h * -(-s // CHUNK) * n * p * t


def _passes(forward: int) -> dict[str, Any]:
    """The work of so many passes: products, and the states of the chunks, which are written and read."""

    def flops(**letters: Any) -> int:
        return forward * _products(**letters)

    def traffic(*, moved: int, **letters: Any) -> int:
        return moved + 2 * forward * _states(**letters)

    return {"flops": flops, "bytes": traffic, "temporary": _states}


@op(f"{_HEADS} -> Tensor[t, (b, s, h, p), d]", **_passes(1))
def GatedLinearAttention(
    q: Array, k: Array, v: Array, decay: Array, beta: Array | None = None, *, scale: float = 1.0
) -> Array:
    """Causal attention without a softmax: a state of each head, (n, p), is decayed and added to, and queries read it.

    `state = exp(decay) * state + outer(k, v)`, and `y = scale * q @ state`; the state begins as zeros, and is Float32.
    With `beta` it follows the gated delta rule: `beta * (v - k @ (exp(decay) * state))` is added in the place of `v`.
    Operands are (batch, sequence, heads, size); with fewer heads of queries and keys, groups of heads share them.

    This is the recurrence of Mamba-2 (queries are C, keys B, arXiv:2405.21060), gated linear attention, and gated
    DeltaNet (arXiv:2412.06464). Costs what kernels do that compute 64 positions at once, with matrix products. In
    ONNX's `LinearAttention`, heads of queries share those of keys and values.

    %y = GatedLinearAttention(%q: Tensor[Float32, (2, 5, 2, 3), 1], %k: Tensor[Float32, (2, 5, 2, 3), 1], %v: Tensor[Float32, (2, 5, 4, 6), 1], %g: Tensor[Float32, (2, 5, 4), 1])
    %y = GatedLinearAttention[scale = 0.5](%q: Tensor[Float32, (2, 5, 1, 3), 1], %q, %v: Tensor[Float32, (2, 5, 2, 4), 1], %g: Tensor[Float32, (2, 5, 2), 1], %b: Tensor[Float32, (2, 5, 2), 1])
    """  # noqa: E501
    queries, keys, values, factors, rates = _by_place(q, k, v, decay, beta)
    state = np.zeros((*values.shape[1:3], keys.shape[-1], values.shape[-1]), values.dtype)
    y = np.zeros_like(values)
    for t in range(len(y)):
        state, _ = _step(state, keys[t], values[t], factors[t], None if rates is None else rates[t])
        y[t] = scale * np.einsum("bhn,bhnp->bhp", queries[t], state)
    return np.moveaxis(y, 0, 1).astype(v.dtype)


def _by_place(
    q: Array, k: Array, v: Array, decay: Array, beta: Array | None
) -> tuple[Array, Array, Array, Array, Array | None]:
    """The operands with the sequence first, in the precision of the sums; queries and keys once for each head."""
    group = v.shape[2] // max(1, q.shape[2])
    queries, keys = (np.repeat(np.moveaxis(wide(x), 1, 0), group, axis=2) for x in (q, k))
    values = np.moveaxis(wide(v), 1, 0)
    factors = np.exp(np.moveaxis(wide(decay), 1, 0)).astype(values.dtype)
    return queries, keys, values, factors, None if beta is None else np.moveaxis(wide(beta), 1, 0)


def _step(state: Array, key: Array, value: Array, factor: Array, rate: Array | None) -> tuple[Array, Array]:
    """The decayed state with what a position adds, and what that is, of (batch, heads)."""
    decayed = factor[..., None, None] * state
    added = value if rate is None else rate[..., None] * (value - np.einsum("bhn,bhnp->bhp", key, decayed))
    return decayed + key[..., None] * added[..., None, :], added


@GatedLinearAttention.checks
def _(q: TensorType, k: TensorType, v: TensorType, *others: Operand | None, **attrs: Any) -> None:
    _check_heads(q, v)


def _check_heads(q: TensorType, v: TensorType) -> None:
    shared, heads = (None if x.shape is None else x.shape[2] for x in (q, v))
    if isinstance(shared, int) and isinstance(heads, int) and heads % max(1, shared):
        message = f"expected a multiple of the {shared} heads of queries and keys, found {heads} heads of values"
        raise Reject(codes.INDIVISIBLE, message, "v")


def _letters(q: TensorType) -> tuple[Letters, Letters, Letters]:
    """Of queries and keys, of values, and of numbers of a head: the batch and the heads may be split.

    A single head of queries and keys, which all share, is replicated.
    """
    shared = None if q.shape is not None and q.shape[2] == 1 else "h"
    return ("b", None, shared, None), ("b", None, "h", None), ("b", None, "h")


@GatedLinearAttention.sharding
def _(q: TensorType, k: TensorType, v: TensorType, decay: TensorType, beta: Any = None, **_: Any) -> Layout:
    shared, values, numbers = _letters(q)
    return Layout((shared, shared, values, numbers, *[numbers] * (beta is not None)), (values,))


@GatedLinearAttention.grad
def _(g: Backward) -> Gradients:
    q, k, v, decay, beta = (*g.x, None)[:5]
    given = (q, k, v, decay) if beta is None else (q, k, v, decay, beta)
    found = g.several("GatedLinearAttentionGrad", len(given), g.dy, *given, **g.statement.attrs)
    return [*found, *[None] * (len(g.x) - len(given))]


@GatedLinearAttention.torch(fresh=True)
def _(write: Write, q: Expr, k: Expr, v: Expr, decay: Expr, beta: Expr | None = None, *, scale: float) -> str:
    rates = None if beta is None else beta.tensor
    return f"{write.kernel('gated_linear_attention')}({q}, {k}, {v}, {decay.tensor}, {rates}, {write.number(scale)})"


@op(
    f"Tensor[t:float, (b, s, h, p), d], {_HEADS} -> Tensor[t, (b, s, j, n), d], Tensor[t, (b, s, j, n), d],"
    " Tensor[t, (b, s, h, p), d], Tensor[u, (b, s, h), d], *Tensor[w, (b, s, h), d]",
    **_passes(3),
    linear=("dy",),
    non_differentiable=FIRST_ORDER_ONLY,
)
def GatedLinearAttentionGrad(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    decay: Array,
    beta: Array | None = None,
    *,
    scale: float = 1.0,
    count: int = 4,
) -> list[Array]:
    """The gradients of `GatedLinearAttention` with respect to its operands: those of the state are found from the end on.

    The states are computed again. Costs three times what the forward pass does.

    %dq, %dk, %dv, %dg = GatedLinearAttentionGrad(%dy: Tensor[Float32, (2, 5, 4, 6), 1], %q: Tensor[Float32, (2, 5, 2, 3), 1], %k: Tensor[Float32, (2, 5, 2, 3), 1], %v: Tensor[Float32, (2, 5, 4, 6), 1], %g: Tensor[Float32, (2, 5, 4), 1])
    %dq, %dk, %dv, %dg, %db = GatedLinearAttentionGrad[scale = 0.5](%dy: Tensor[Float32, (2, 5, 2, 4), 1], %q: Tensor[Float32, (2, 5, 1, 3), 1], %q, %v: Tensor[Float32, (2, 5, 2, 4), 1], %g: Tensor[Float32, (2, 5, 2), 1], %b: Tensor[Float32, (2, 5, 2), 1])
    """  # noqa: E501
    queries, keys, values, factors, rates = _by_place(q, k, v, decay, beta)
    dys = np.moveaxis(wide(dy), 1, 0)
    state = np.zeros((*values.shape[1:3], keys.shape[-1], values.shape[-1]), values.dtype)
    steps: list[tuple[Array, Array, Array]] = []  # the state before a position and behind it, and what that adds
    for t in range(len(dys)):
        after, added = _step(state, keys[t], values[t], factors[t], None if rates is None else rates[t])
        steps.append((state, after, added))
        state = after
    dq, dk, dv, ddecay = (np.zeros_like(x) for x in (queries, keys, values, factors))
    dbeta = np.zeros_like(factors)
    dstate = np.zeros_like(state)
    for t in reversed(range(len(dys))):
        before, after, added = steps[t]
        decayed = factors[t][..., None, None] * before
        dq[t] = scale * np.einsum("bhnp,bhp->bhn", after, dys[t])
        dstate = dstate + scale * queries[t][..., None] * dys[t][..., None, :]
        dk[t] = np.einsum("bhnp,bhp->bhn", dstate, added)
        dv[t] = dadded = np.einsum("bhnp,bhn->bhp", dstate, keys[t])
        if rates is not None:
            missing = values[t] - np.einsum("bhn,bhnp->bhp", keys[t], decayed)
            dbeta[t] = np.sum(dadded * missing, axis=-1)
            dv[t] = dadded = rates[t][..., None] * dadded
            dk[t] -= np.einsum("bhnp,bhp->bhn", decayed, dadded)
            dstate = dstate - keys[t][..., None] * dadded[..., None, :]
        ddecay[t] = np.sum(dstate * decayed, axis=(-1, -2))
        dstate = factors[t][..., None, None] * dstate

    def shared(x: Array) -> Array:
        return x.reshape(*x.shape[:2], q.shape[2], -1, x.shape[3]).sum(axis=3)

    found = [(shared(dq), q), (shared(dk), k), (dv, v), (ddecay, decay)]
    found += [] if beta is None else [(dbeta, beta)]
    return [np.moveaxis(x, 0, 1).astype(like.dtype) for x, like in found][:count]


@GatedLinearAttentionGrad.checks
def _(dy: TensorType, q: TensorType, k: TensorType, v: TensorType, *others: Operand | None, **attrs: Any) -> None:
    _check_heads(q, v)


@GatedLinearAttentionGrad.shapes
def _(
    dy: TensorType,
    q: TensorType,
    k: TensorType,
    v: TensorType,
    decay: TensorType,
    beta: TensorType | None = None,
    *,
    count: int,
    **_: Any,
) -> Any:
    number = 4 if beta is None else 5
    if count > number:
        without = " without `beta`" if beta is None else ""
        message = f"`GatedLinearAttentionGrad` gives {number} results{without}, found {count} names"
        raise Reject(name_codes.RESULT_COUNT, message, Part("result", number))
    return [x.shape for x in (q, k, v, decay, beta) if x is not None][:count]


@GatedLinearAttentionGrad.sharding
def _(
    dy: TensorType,
    q: TensorType,
    k: TensorType,
    v: TensorType,
    decay: TensorType,
    beta: Any = None,
    *,
    results: Sequence[Shape | None],
    **_: Any,
) -> Layout:
    """As of `GatedLinearAttention`. The gradients of a head that all share are summed over the devices."""
    shared, values, numbers = _letters(q)
    given = (shared, shared, values, numbers, *[numbers] * (beta is not None))
    return Layout((values, *given), given[: len(results)])


@GatedLinearAttentionGrad.torch(fresh=True)
def _(
    write: Write, dy: Expr, q: Expr, k: Expr, v: Expr, decay: Expr, beta: Expr | None = None, *, scale: float
) -> Unpacked:
    rates = None if beta is None else beta.tensor
    operands = f"{q}, {k}, {v}, {decay.tensor}, {rates}"
    return write.unpacked(
        f"{write.kernel('gated_linear_attention_gradient')}({dy.tensor}, {operands}, {write.number(scale)})"
    )


_CHANNELS = (
    "Tensor[t:float, (b, c, s), d], Tensor[u:float, (b, c, s), d], Tensor[v:float, (c, n), d],"
    " Tensor[w:float, (b, n, s), d], Tensor[w, (b, n, s), d]"
)


def _scanned(steps: int) -> Any:
    """So many operations for each number of the states at all positions: no matrix products, so in Float32."""

    def flops(*, b: int, c: int, s: int, n: int, **_: Any) -> int:
        return steps * b * c * s * n

    return flops


@op(f"{_CHANNELS} -> Tensor[t, (b, c, s), d]", flops=_scanned(7))
def SelectiveScan(x: Array, dt: Array, a: Array, b: Array, c: Array) -> Array:
    """The selective scan of Mamba (arXiv:2312.00752): each channel has a state of n numbers, which its inputs change.

    `state = exp(dt * a) * state + dt * x * b`, and `y = sum(c * state)`; the state begins as zeros, and is Float32.
    Operands are (batch, channels, sequence), `a` is (channels, n), and `b` and `c` are (batch, n, sequence).

    %y = SelectiveScan(%x: Tensor[Float32, (2, 4, 5), 1], %dt: Tensor[Float32, (2, 4, 5), 1], %a: Tensor[Float32, (4, 3), 1], %b: Tensor[Float32, (2, 3, 5), 1], %c: Tensor[Float32, (2, 3, 5), 1])
    """  # noqa: E501
    inputs, steps, rates, ins, outs = (wide(value) for value in (x, dt, a, b, c))
    state = np.zeros((*x.shape[:2], a.shape[1]), inputs.dtype)
    y = np.zeros_like(inputs)
    for t in range(x.shape[2]):
        step = steps[..., t, None]
        state = np.exp(step * rates) * state + step * inputs[..., t, None] * ins[:, None, :, t]
        y[..., t] = np.einsum("bcn,bn->bc", state, outs[..., t])
    return y.astype(x.dtype)


_CHANNEL: Letters = ("b", "c", None)
_RATES: Letters = ("c", None)
_SHARED: Letters = ("b", None, None)


@SelectiveScan.sharding
def _(*operands: TensorType, **_: Any) -> Layout:
    """The batch and the channels may be split."""
    return Layout((_CHANNEL, _CHANNEL, _RATES, _SHARED, _SHARED), (_CHANNEL,))


@SelectiveScan.grad
def _(g: Backward) -> Gradients:
    return g.several("SelectiveScanGrad", 5, g.dy, *g.x)


@SelectiveScan.torch(fresh=True)
def _(write: Write, x: Expr, dt: Expr, a: Expr, b: Expr, c: Expr) -> str:
    return f"{write.kernel('selective_scan')}({x}, {dt}, {a}, {b}, {c})"


@op(
    f"Tensor[t:float, (b, c, s), d], {_CHANNELS} -> Tensor[t, (b, c, s), d], Tensor[u, (b, c, s), d],"
    " Tensor[v, (c, n), d], Tensor[w, (b, n, s), d], Tensor[w, (b, n, s), d]",
    flops=_scanned(25),
    linear=("dy",),
    non_differentiable=FIRST_ORDER_ONLY,
)
def SelectiveScanGrad(dy: Array, x: Array, dt: Array, a: Array, b: Array, c: Array) -> tuple[Array, ...]:
    """The gradients of `SelectiveScan` with respect to its operands. The states are computed again.

    %dx, %ddt, %da, %db, %dc = SelectiveScanGrad(%dy: Tensor[Float32, (2, 4, 5), 1], %x: Tensor[Float32, (2, 4, 5), 1], %dt: Tensor[Float32, (2, 4, 5), 1], %a: Tensor[Float32, (4, 3), 1], %b: Tensor[Float32, (2, 3, 5), 1], %c: Tensor[Float32, (2, 3, 5), 1])
    """  # noqa: E501
    dys, inputs, steps, rates, ins, outs = (wide(value) for value in (dy, x, dt, a, b, c))
    states = [np.zeros((*x.shape[:2], a.shape[1]), inputs.dtype)]
    for t in range(x.shape[2]):
        step = steps[..., t, None]
        states.append(np.exp(step * rates) * states[-1] + step * inputs[..., t, None] * ins[:, None, :, t])
    dx, ddt, da, db, dc = (np.zeros_like(value) for value in (inputs, steps, rates, ins, outs))
    dstate = np.zeros_like(states[0])
    for t in reversed(range(x.shape[2])):
        step, factor = steps[..., t], np.exp(steps[..., t, None] * rates)
        dc[..., t] = np.einsum("bcn,bc->bn", states[t + 1], dys[..., t])
        dstate = dstate + dys[..., t, None] * outs[:, None, :, t]
        dadded = np.einsum("bcn,bn->bc", dstate, ins[..., t])
        db[..., t] = np.einsum("bcn,bc->bn", dstate, step * inputs[..., t])
        dx[..., t] = dadded * step
        dexponent = dstate * factor * states[t]
        ddt[..., t] = dadded * inputs[..., t] + np.einsum("bcn,cn->bc", dexponent, rates)
        da += np.einsum("bcn,bc->cn", dexponent, step)
        dstate = dstate * factor
    return tuple(value.astype(like.dtype) for value, like in zip((dx, ddt, da, db, dc), (x, dt, a, b, c), strict=True))


@SelectiveScanGrad.sharding
def _(*operands: TensorType, **_: Any) -> Layout:
    """As of `SelectiveScan`. What has no letter of the batch or the channels is summed over them."""
    given = (_CHANNEL, _CHANNEL, _RATES, _SHARED, _SHARED)
    return Layout((_CHANNEL, *given), given)


@SelectiveScanGrad.torch(fresh=True)
def _(write: Write, dy: Expr, x: Expr, dt: Expr, a: Expr, b: Expr, c: Expr) -> Unpacked:
    return write.unpacked(f"{write.kernel('selective_scan_gradient')}({dy.tensor}, {x}, {dt}, {a}, {b}, {c})")
