"""Gradients of attention and rotary embedding."""

from __future__ import annotations

import math
from typing import Any, cast

from distir.ir import Arg
from distir.ops import attention as ops
from distir.ops.differentiation.backward import Backward, Gradients
from distir.ops.select import FAR


@ops.Attention.grad
def _(g: Backward) -> Gradients:
    """The gradient of the products, masks and softmax that attention is made of; they are computed again."""
    q, k, v, mask, sinks = g.x
    flat = g.rank(q) == 3
    heads, shared = (g.attrs.get("q_num_heads"), g.attrs.get("kv_num_heads"))
    queries = _by_head(g, q, heads) if flat else q
    keys, values = (_by_head(g, x, shared) if flat else x for x in (k, v))
    query_heads, key_heads = g.known_shape(queries)[1], g.known_shape(keys)[1]
    size = g.known_shape(queries)[3]
    if not (isinstance(query_heads, int) and isinstance(key_heads, int) and isinstance(size, int)):
        raise g.refuse("`Attention` has a gradient only where the number and the size of its heads are known")
    group = query_heads // max(1, key_heads)
    scores = _scores(g, queries, keys, (key_heads, group, size))
    if mask is not None:
        is_bool = g.dtype(mask).kind == "bool"
        scores = g("Where", mask, scores, -math.inf) if is_bool else g("Add", scores, mask)
    if g.attrs["is_causal"]:
        scores = g("Where", _seen(g, queries, keys), scores, -math.inf)
    weights = g("Softmax", scores, axis=-1) if sinks is None else _with_sinks(g, scores, sinks)
    mixed = _grouped(g, weights, values, key_heads, group)
    if flat:
        mixed = g("Reshape", g("Transpose", mixed, perm=(0, 2, 1, 3)), (0, 0, -1))
    return g.through(mixed, g.dy, [q, k, v, mask, sinks])


def _with_sinks(g: Backward, scores: Arg, sinks: Arg) -> str:
    """The softmax of the scores and, for each head, one more, which is then left out."""
    shape = _sizes(g, [*(g.size_along(scores, axis) for axis in range(3)), 1])
    sink = g("Expand", g("Unsqueeze", sinks, (1, 2)), shape)
    weights = g("Softmax", g("Concat", scores, sink, axis=3), axis=3)
    return g("Slice", weights, (0,), (-1,), (3,))


def _by_head(g: Backward, x: Arg, heads: Any) -> Arg:
    return g("Transpose", g("Reshape", x, (0, 0, heads, -1)), perm=(0, 2, 1, 3))


def _scores(g: Backward, queries: Arg, keys: Arg, sizes: tuple[int, int, int]) -> str:
    key_heads, group, size = sizes
    scale = g.attrs.get("scale")
    factor = 1 / math.sqrt(max(1, size)) if scale is None else scale
    flipped = g("Transpose", keys, perm=(0, 1, 3, 2))
    scores = g("Mul", _grouped(g, queries, flipped, key_heads, group), factor)
    softcap = cast(float, g.attrs["softcap"])
    return g("Mul", g("Tanh", g("Div", scores, softcap)), softcap) if softcap > 0 else scores


def _grouped(g: Backward, a: Arg, b: Arg, heads: int, group: int) -> str:
    """The product of (batch, heads * group, m, k) and (batch, heads, k, n)."""
    if group == 1:
        return g("MatMul", a, b)
    rows, columns = g.size_along(a, 2), g.size_along(a, 3)
    inner = _sizes(g, [0, heads, group, rows, columns])
    product = g("MatMul", g("Reshape", a, inner), g("Unsqueeze", b, (2,)))
    return g("Reshape", product, _sizes(g, [0, heads * group, rows, g.size_along(b, 3)]))


def _sizes(g: Backward, sizes: list[Any]) -> Any:
    """A shape as one operand, from numbers and scalars."""
    plain = [size.value if hasattr(size, "value") else size for size in sizes]
    if not any(isinstance(size, str) for size in plain):
        return tuple(plain)
    return g("Concat", *(g("Unsqueeze", size, (0,)) for size in sizes), axis=0)


def _seen(g: Backward, queries: Arg, keys: Arg) -> str:
    """Which keys a causal query sees, within its window if there is one: a host value."""
    position = g("Unsqueeze", g("Range", 0, g.size_along(queries, 2), 1), (1,))
    key = g("Range", 0, g.size_along(keys, 2), 1)
    seen = g("LessOrEqual", key, position)
    if window := g.attrs.get("window"):
        seen = g("And", seen, g("Greater", key, g("Sub", position, window)))
    return seen


@ops.RotaryEmbedding.grad
def _(g: Backward) -> Gradients:
    """Turned back by the same angles. Cosines and sines have a gradient as what is multiplied with the operand."""
    x, cos, sin, positions = g.x
    dx = g.same(g.dy, cos, g("Neg", g.definite(2)), positions) if g.wants(0) else None
    if not (g.wants(1) or g.wants(2)):
        return [dx, None, None, None]
    _, dcos, dsin = g.through(_turned(g, x, cos, sin, positions), g.dy, [None, cos, sin])
    return [dx, dcos, dsin, None]


def _turned(g: Backward, x: Arg, cos: Arg, sin: Arg, positions: Arg | None) -> str:
    """The embedding as the products and sums that it is made of."""
    flat = g.rank(x) == 3
    whole = _by_head(g, x, g.attrs["num_heads"]) if flat else x
    size = g.known_shape(whole)[3]
    turning = cast(int, g.attrs["rotary_embedding_dim"]) or size
    if not isinstance(turning, int):
        raise g.refuse("`RotaryEmbedding` has a gradient for its cosines only where the size of its heads is known")
    if positions is not None:
        cos, sin = g("Gather", cos, positions, axis=0), g("Gather", sin, positions, axis=0)
    cos, sin = g("Unsqueeze", cos, (1,)), g("Unsqueeze", sin, (1,))
    half = turning // 2

    def part(start: int, end: int, step: int = 1) -> str:
        return g("Slice", whole, (start,), (end,), (3,), (step,))

    apart = g.attrs["interleaved"]
    one, two = (part(0, turning, 2), part(1, turning, 2)) if apart else (part(0, half), part(half, turning))
    first = g("Sub", g("Mul", cos, one), g("Mul", sin, two))
    second = g("Add", g("Mul", sin, one), g("Mul", cos, two))
    if apart:
        pairs = g("Concat", g("Unsqueeze", first, (4,)), g("Unsqueeze", second, (4,)), axis=4)
        turned = g("Reshape", pairs, (0, 0, 0, turning))
    else:
        turned = g("Concat", first, second, axis=3)
    if turning != size:
        turned = g("Concat", turned, part(turning, FAR), axis=3)
    return g("Reshape", g("Transpose", turned, perm=(0, 2, 1, 3)), (0, 0, -1)) if flat else turned
