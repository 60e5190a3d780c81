"""Attention written out in other ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from distir.ir import (
    DTYPES,
    Arg,
)
from distir.ops.heads import heads_apart, heads_joined

if TYPE_CHECKING:
    from distir.ops.backward import Rewrite


def written_out(g: Rewrite, count: int) -> list[str]:
    """The ops for `count` results."""
    q, k, v, mask, sinks, length, key, rows, start, *runs = g.x
    flat = g.rank(q) == 3
    queries = heads_apart(g, q, g.attrs["q_num_heads"]) if flat else q
    keys: Any = heads_apart(g, k, g.attrs["kv_num_heads"]) if flat else k
    if v is None:
        values: Any = g("Slice", keys, (0,), (cast(int, g.attrs["v_head_size"]),), (3,))
    else:
        values = heads_apart(g, v, g.attrs["kv_num_heads"]) if flat else v
    query_heads, key_heads = g.known_shape(queries)[1], g.known_shape(keys)[1]
    size = g.known_shape(queries)[3]
    if not (isinstance(query_heads, int) and isinstance(key_heads, int) and isinstance(size, int)):
        raise g.refuse("`Attention` is written out only where the number and the size of its heads are known")
    group = query_heads // max(1, key_heads)
    scores = _written_scores(g, queries, keys, (key_heads, group, size))
    chosen = mask is not None and g.dtype(mask).kind == "bool"
    if mask is not None and not chosen:
        scores = g("Add", scores, mask)
    for seen in _attended_keys(g, queries, keys, length, runs):
        scores = g("Where", seen, scores, -math.inf)
    # Of a query whose keys are all masked the softmax is to be of numbers; what is masked has no weight afterwards.
    finite = g("Where", mask, scores, _LOWEST.get(g.dtype(q).name, -1e30)) if chosen else scores
    weights = g("Softmax", finite if sinks is None else _with_sinks(g, finite, sinks), axis=-1)
    if sinks is not None:
        weights = g("Slice", weights, (0,), (-1,), (3,))
    if chosen:
        weights = g("Where", mask, weights, 0.0)
    if ratio := cast(float, g.attrs["dropout"]):
        if start is not None:
            raise g.refuse("`Attention` with dropout is written out before it is split")
        weights = g("Dropout", weights, ratio, True, *(() if key is None else (key, rows)))
    mixed = _grouped(g, weights, values, key_heads, group)
    results = [heads_joined(g, mixed) if flat else mixed]
    if count > 1:
        masked = g("Where", mask, scores, -math.inf) if chosen else scores
        whole = masked if sinks is None else _with_sinks(g, masked, sinks)
        dtype = g.dtype(q)
        exact = whole if dtype.bytes >= 4 else g("Cast", whole, to=DTYPES["Float32"])
        results.append(g("ReduceLogSumExp", exact, (3,), keepdims=False))
    return results


_LOWEST = {"Float16": -65504.0}


def _written_scores(g: Rewrite, queries: Arg, keys: Arg, sizes: tuple[int, int, int]) -> str:
    key_heads, group, size = sizes
    scale = g.attrs.get("scale")
    factor = 1 / math.sqrt(max(1, size)) if scale is None else scale
    flipped = g("Transpose", keys, perm=(0, 1, 3, 2))
    scores = g("Mul", _grouped(g, queries, flipped, key_heads, group), factor)
    softcap = cast(float, g.attrs["softcap"])
    return g("Mul", g("Tanh", g("Div", scores, softcap)), softcap) if softcap > 0 else scores


def _grouped(g: Rewrite, a: Arg, b: Arg, heads: int, group: int) -> str:
    """The product of (batch, heads * group, m, k) and (batch, heads, k, n)."""
    if group == 1:
        return g("MatMul", a, b)
    rows, columns = g.size_along(a, 2), g.size_along(a, 3)
    inner = _shape_operand(g, [0, heads, group, rows, columns])
    product = g("MatMul", g("Reshape", a, inner), g("Unsqueeze", b, (2,)))
    return g("Reshape", product, _shape_operand(g, [0, heads * group, rows, g.size_along(b, 3)]))


def _shape_operand(g: Rewrite, sizes: list[Any]) -> Any:
    """A shape operand, from numbers and scalars."""
    plain = [size.value if hasattr(size, "value") else size for size in sizes]
    if not any(isinstance(size, str) for size in plain):
        return tuple(plain)
    return g("Concat", *(g("Unsqueeze", size, (0,)) for size in sizes), axis=0)


def _with_sinks(g: Rewrite, scores: Arg, sinks: Arg) -> str:
    """The scores, followed by the sink of each head."""
    shape = _shape_operand(g, [*(g.size_along(scores, axis) for axis in range(3)), 1])
    return g("Concat", scores, g("Expand", g("Unsqueeze", sinks, (1, 2)), shape), axis=3)


def _attended_keys(g: Rewrite, queries: Arg, keys: Arg, length: Arg | None, runs: Sequence[Arg | None]) -> list[str]:
    """Masks of the keys that a query attends to: host values, but for a length on a device."""
    found: list[str] = []
    query_runs, key_runs = runs
    position: Arg = g("Unsqueeze", _written_places(g, queries, query_runs), (1,))
    key = _written_places(g, keys, key_runs)
    if length is not None:
        filled: Arg = g("Cast", length, to=DTYPES["Int64"])
        if g.known_shape(length) != ():
            filled = g("Unsqueeze", filled, (1, 2, 3))
        found.append(g("Less", key, filled))
        position = g("Add", position, g("Sub", filled, g.size_along(queries, 2)))
    if g.attrs["is_causal"]:
        seen = g("LessOrEqual", key, position)
        if window := g.attrs.get("window"):
            seen = g("And", seen, g("Greater", key, g("Sub", position, window)))
        found.append(seen)
    return found


def _written_places(g: Rewrite, x: Arg, runs: Arg | None) -> str:
    """The position of each query or key in the sequence."""
    size = g.size_along(x, 2)
    if runs is None:
        return g("Range", 0, size, 1)
    (count,) = g.known_shape(runs)
    assert isinstance(count, int)
    return g("Reshape", g("Add", g("Unsqueeze", runs, (1,)), g("Range", 0, g("Div", size, count), 1)), (-1,))
