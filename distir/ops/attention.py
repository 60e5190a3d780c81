"""Attention and rotary position embedding as single ops.

The work is that of separate products, softmax and masks: `Attention` materialises its scores in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Arg, Dim, DimensionError, Part, Shape, dims, types
from distir.ops.core import op
from distir.ops.host import FAR, Operand
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.unify import Reject, broadcast

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.torch_form import Expr, Write


SCORE_FLOPS = 5
"""Per score: scaling, mask, exponential, sum and division."""


def _scores(*, b: int, q: int, k: int, h: int | None = None, q_num_heads: int = 0, **_: Any) -> int:
    """The number of scores: pairs of a query and a key."""
    return b * q * k * (q_num_heads if h is None else h)


def _attention_flops(*, q: int, k: int, elements: int, **letters: Any) -> int:
    queries = letters["b"] * q * (letters["h"] * letters["e"] if "h" in letters else letters["x"])
    return 2 * k * queries + 2 * k * elements + SCORE_FLOPS * _scores(q=q, k=k, **letters)


def _score_bytes(*, t: int, **letters: Any) -> int:
    return t * _scores(**letters)


def _attention_bytes(*, t: int, inputs: int, elements: int, **letters: Any) -> int:
    """The scores are written, read and written by the softmax, and read again."""
    return t * (inputs + elements) + 4 * _score_bytes(t=t, **letters)


@op(
    "Tensor[t:float, (b, h, q, e), d], Tensor[t:float, (b, g, k, e), d], Tensor[t:float, (b, g, k, v), d],"
    " Optional[Tensor[_, _, d]], Optional[Tensor[t, (h,), d]] -> Tensor[t, (b, h, q, v), d]",
    "Tensor[t:float, (b, q, x), d], Tensor[t:float, (b, k, y), d], Tensor[t:float, (b, k, z), d],"
    " Optional[Tensor[_, _, d]], Optional[Tensor[t, (n,), d]] -> Tensor[t, (b, q, _), d]",
    flops=_attention_flops,
    bytes=_attention_bytes,
    temporary=_score_bytes,
)
def Attention(
    q: Array,
    k: Array,
    v: Array,
    attn_mask: Array | None = None,
    sinks: Array | None = None,
    *,
    is_causal: bool = False,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    window: int | None = None,
) -> Array:
    """Softmax of the masked, scaled products of queries and keys, times the values. ONNX `Attention`, without a cache.

    Operands are (batch, heads, sequence, size), or (batch, sequence, heads * size) with `q_num_heads` and
    `kv_num_heads`. With fewer heads of keys and values, groups of query heads share them (GQA). In a Bool mask, true
    means attend; another mask is added to the scores. `is_causal` masks keys after the query. A query whose keys are all
    masked gives zeros. `scale` is by default one over
    the root of the head size; `softcap` > 0 bounds the scores by `softcap * tanh(score / softcap)`. With `window`
    a causal query attends to the last `window` keys only, including its own (sliding window). `sinks` holds a score for
    each query head, which is added to its softmax like a key without a value.

    %y = Attention(%q: Tensor[Float32, (2, 4, 3, 8), 1], %k: Tensor[Float32, (2, 2, 5, 8), 1], %v: Tensor[Float32, (2, 2, 5, 6), 1])
    %y = Attention[is_causal = true, q_num_heads = 2, kv_num_heads = 2](%x: Tensor[Float32, (2, 5, 8), 1], %x, %x)
    %y = Attention[is_causal = true, window = 2](%q: Tensor[Float32, (2, 4, 3, 8), 1], %k: Tensor[Float32, (2, 2, 3, 8), 1], %k, _, %s: Tensor[Float32, (4,), 1])
    """  # noqa: E501
    queries, keys, values = _by_head(q, q_num_heads), _by_head(k, kv_num_heads), _by_head(v, kv_num_heads)
    group = queries.shape[1] // max(1, keys.shape[1])
    keys, values = np.repeat(keys, group, axis=1), np.repeat(values, group, axis=1)
    factor = 1 / math.sqrt(max(1, queries.shape[-1])) if scale is None else scale
    scores = np.matmul(wide(queries), wide(keys).swapaxes(-1, -2)) * factor
    if softcap > 0:
        scores = softcap * np.tanh(scores / softcap)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + wide(attn_mask)
    if is_causal:
        scores = np.where(_hidden(scores.shape[-2], scores.shape[-1], window), -np.inf, scores)
    sink = np.full((1, 1, 1), -np.inf, scores.dtype) if sinks is None else wide(sinks).reshape(-1, 1, 1)
    largest = np.maximum(scores.max(axis=-1, keepdims=True, initial=-np.inf), sink)
    shift = np.where(largest == -np.inf, 0, largest)
    weights = np.exp(scores - shift)
    total = weights.sum(axis=-1, keepdims=True) + np.exp(sink - shift)
    mixed = np.matmul(weights / np.where(total == 0, 1, total), wide(values)).astype(q.dtype)
    return mixed if q.ndim == 4 else _joined(mixed)


@Attention.shapes
def _(
    q: Operand,
    k: Operand,
    v: Operand,
    attn_mask: Operand | None = None,
    sinks: Operand | None = None,
    **attrs: Any,
) -> Shape | None:
    window = attrs.get("window")
    if window is not None and (window < 1 or not attrs["is_causal"]):
        message = f"`Attention` expected a `window` of at least 1 key, and `is_causal`, found {window}"
        raise Reject(codes.BAD_VALUE, message, "window")
    rank = next((len(o.shape) for o in (q, k, v) if o.shape is not None), None)
    if rank is None:
        return None
    q_heads, kv_heads = attrs.get("q_num_heads"), attrs.get("kv_num_heads")
    for name, heads in (("q_num_heads", q_heads), ("kv_num_heads", kv_heads)):
        if heads is None and rank == 3:
            raise Reject(
                name_codes.MISSING_ATTRIBUTE, f"`Attention` of tensors of rank 3 needs `{name}`", Part("callee")
            )
    queries, keys = _split_heads("q", q, q_heads, rank), _split_heads("k", k, kv_heads, rank)
    values = _split_heads("v", v, kv_heads, rank)
    _check_heads(queries[1], keys[1])
    if None not in (queries[3], keys[3]) and queries[3] != keys[3]:
        message = f"`Attention` expected keys with heads of size {queries[3]}, found {keys[3]}"
        raise Reject(codes.SHAPE_MISMATCH, message, "k", ((Part("operand", 0), f"it is {queries[3]} here"),))
    batch = next((s[0] for s in (queries, keys, values) if s[0] is not None), None)
    length = keys[2] if values[2] is None else values[2]
    if attn_mask is not None:
        _check_mask(attn_mask, q, (batch, queries[1], queries[2], length))
    stated = None if sinks is None or not sinks.shape else sinks.shape[0]
    if None not in (queries[1], stated) and stated != queries[1]:
        message = f"`Attention` expected a sink for each of {dims.show(queries[1])} query heads"
        raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {dims.show(stated)}", "sinks")
    if rank == 4:
        return (batch, queries[1], queries[2], values[3])
    return (batch, queries[2], dims.multiply(queries[1], values[3]))


@Attention.sharding
def _(
    q: Operand,
    k: Operand,
    v: Operand,
    attn_mask: Operand | None = None,
    sinks: Operand | None = None,
    *,
    results: Sequence[Shape | None],
    **attrs: Any,
) -> Layout:
    """The batch and the heads may be split, and the queries unless the mask is causal.

    A single head of keys and values, which all queries share, is replicated.
    """
    query = None if attrs["is_causal"] else "q"
    if len(q.shape or ()) == 4:
        shared = None if k.shape is not None and k.shape[1] == 1 else "h"
        operands: list[Letters] = [("b", "h", query, None), ("b", shared, None, None), ("b", shared, None, "v")]
        result: Letters = ("b", "h", query, "v")
        divided: dict[str, tuple[str, ...]] = {}
    else:
        shared = None if attrs["kv_num_heads"] == 1 else "h"
        operands, result = [("b", query, "h"), ("b", None, shared), ("b", None, shared)], ("b", query, "h")
        divided = {"h": ("q_num_heads", "kv_num_heads") if shared else ("q_num_heads",)}
    if attn_mask is not None:
        shape = attn_mask.shape or ()
        letters = ("b", "h", query, None)[4 - len(shape) :]
        operands.append(tuple(None if dim == 1 else letter for letter, dim in zip(letters, shape, strict=True)))
    elif sinks is not None:
        operands.append(())
    if sinks is not None:
        operands.append(("h",))
    return Layout(tuple(operands), (result,), divided=divided)


@Attention.grad
def _(g: Backward) -> Gradients:
    """The gradient of the decomposition into products, masks and softmax, which are recomputed."""
    q, k, v, mask, sinks = g.x
    flat = g.rank(q) == 3
    heads, shared = (g.attrs.get("q_num_heads"), g.attrs.get("kv_num_heads"))
    queries = _heads_apart(g, q, heads) if flat else q
    keys, values = (_heads_apart(g, x, shared) if flat else x for x in (k, v))
    query_heads, key_heads = g.known_shape(queries)[1], g.known_shape(keys)[1]
    size = g.known_shape(queries)[3]
    if not (isinstance(query_heads, int) and isinstance(key_heads, int) and isinstance(size, int)):
        raise g.refuse("`Attention` has a gradient only where the number and the size of its heads are known")
    group = query_heads // max(1, key_heads)
    scores = _written_scores(g, queries, keys, (key_heads, group, size))
    if mask is not None:
        is_bool = g.dtype(mask).kind == "bool"
        scores = g("Where", mask, scores, -math.inf) if is_bool else g("Add", scores, mask)
    if g.attrs["is_causal"]:
        scores = g("Where", _attended_keys(g, queries, keys), scores, -math.inf)
    weights = g("Softmax", scores, axis=-1) if sinks is None else _with_sinks(g, scores, sinks)
    mixed = _grouped(g, weights, values, key_heads, group)
    if flat:
        mixed = g("Reshape", g("Transpose", mixed, perm=(0, 2, 1, 3)), (0, 0, -1))
    return g.through(mixed, g.dy, [q, k, v, mask, sinks])


def _written_scores(g: Backward, queries: Arg, keys: Arg, sizes: tuple[int, int, int]) -> str:
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
    inner = _shape_operand(g, [0, heads, group, rows, columns])
    product = g("MatMul", g("Reshape", a, inner), g("Unsqueeze", b, (2,)))
    return g("Reshape", product, _shape_operand(g, [0, heads * group, rows, g.size_along(b, 3)]))


def _shape_operand(g: Backward, sizes: list[Any]) -> Any:
    """A shape operand, from numbers and scalars."""
    plain = [size.value if hasattr(size, "value") else size for size in sizes]
    if not any(isinstance(size, str) for size in plain):
        return tuple(plain)
    return g("Concat", *(g("Unsqueeze", size, (0,)) for size in sizes), axis=0)


def _with_sinks(g: Backward, scores: Arg, sinks: Arg) -> str:
    """The softmax of the scores and of the sink of each head, without the sink's own result."""
    shape = _shape_operand(g, [*(g.size_along(scores, axis) for axis in range(3)), 1])
    sink = g("Expand", g("Unsqueeze", sinks, (1, 2)), shape)
    weights = g("Softmax", g("Concat", scores, sink, axis=3), axis=3)
    return g("Slice", weights, (0,), (-1,), (3,))


def _attended_keys(g: Backward, queries: Arg, keys: Arg) -> str:
    """The mask of the keys that a causal query attends to, as a host value."""
    position = g("Unsqueeze", g("Range", 0, g.size_along(queries, 2), 1), (1,))
    key = g("Range", 0, g.size_along(keys, 2), 1)
    seen = g("LessOrEqual", key, position)
    if window := g.attrs.get("window"):
        seen = g("And", seen, g("Greater", key, g("Sub", position, window)))
    return seen


@Attention.torch(fresh=True)
def _(
    write: Write,
    q: Expr,
    k: Expr,
    v: Expr,
    attn_mask: Expr | None = None,
    sinks: Expr | None = None,
    *,
    is_causal: bool,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    scale: float | None = None,
    softcap: float,
    window: int | None = None,
) -> str:
    heads = f"{q_num_heads if q.rank == 3 else None}, {kv_num_heads if q.rank == 3 else None}"
    mask = None if attn_mask is None else attn_mask.tensor
    settings = f"{is_causal}, {None if scale is None else write.number(scale)}, {write.number(softcap)}"
    given = f"{q}, {k}, {v}, {mask}"
    if softcap == 0 and not (is_causal and mask) and sinks is None and not window:
        return f"{write.kernel('attention')}({given}, {heads}, {settings})"
    sink = None if sinks is None else sinks.tensor
    return f"{write.kernel('attention_written_out')}({given}, {sink}, {heads}, {settings}, {window})"


@op(
    "Tensor[t:float, (b, h, s, e), d], Tensor[t:float, (m, r), d], Tensor[t:float, (m, r), d],"
    " Optional[Tensor[i:int, (b, s), d]] -> Tensor[t, (b, h, s, e), d]",
    "Tensor[t:float, (b, h, s, e), d], Tensor[t:float, (b, s, r), d], Tensor[t:float, (b, s, r), d]"
    " -> Tensor[t, (b, h, s, e), d]",
    "Tensor[t:float, (b, h, s, e), d], Tensor[t:float, (1, s, r), d], Tensor[t:float, (1, s, r), d]"
    " -> Tensor[t, (b, h, s, e), d]",
    "Tensor[t:float, (b, s, x), d], Tensor[t:float, (m, r), d], Tensor[t:float, (m, r), d],"
    " Optional[Tensor[i:int, (b, s), d]] -> Tensor[t, (b, s, x), d]",
    "Tensor[t:float, (b, s, x), d], Tensor[t:float, (b, s, r), d], Tensor[t:float, (b, s, r), d]"
    " -> Tensor[t, (b, s, x), d]",
    "Tensor[t:float, (b, s, x), d], Tensor[t:float, (1, s, r), d], Tensor[t:float, (1, s, r), d]"
    " -> Tensor[t, (b, s, x), d]",
    flops=lambda b, s, r, num_heads, h=None, **_: 6 * b * s * r * (num_heads if h is None else h),
    bytes=lambda t, elements, b, s, r, i=0, **_: 2 * t * elements + b * s * (2 * t * r + i),
)
def RotaryEmbedding(
    x: Array,
    cos_cache: Array,
    sin_cache: Array,
    position_ids: Array | None = None,
    *,
    interleaved: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Array:
    """Each pair of elements of a head rotated by the angle of its position. ONNX `RotaryEmbedding`.

    `x` is (batch, heads, sequence, size), or (batch, sequence, heads * size) with `num_heads`. The caches are rows of
    cosines and sines, indexed by `position_ids`; if omitted, there is a row for each token, with a batch of 1 if all
    sequences have the same positions. Pairs are the halves of a
    head, or neighbours if `interleaved`; only the first `rotary_embedding_dim` elements are rotated, if that is not 0.

    %y = RotaryEmbedding(%x: Tensor[Float32, (2, 4, 3, 8), 1], %c: Tensor[Float32, (9, 4), 1], %s: Tensor[Float32, (9, 4), 1], %i: Tensor[Int64, (2, 3), 1])
    %y = RotaryEmbedding(%x: Tensor[Float32, (2, 4, 3, 8), 1], %c: Tensor[Float32, (1, 3, 4), 1], %s: Tensor[Float32, (1, 3, 4), 1])
    %y = RotaryEmbedding[num_heads = 4](%x: Tensor[Float32, (2, 3, 32), 1], %c: Tensor[Float32, (2, 3, 4), 1], %s: Tensor[Float32, (2, 3, 4), 1])
    """  # noqa: E501
    heads = wide(_by_head(x, num_heads))
    at = ... if position_ids is None else position_ids
    cos, sin = (wide(cache[at])[:, None] for cache in (cos_cache, sin_cache))
    turning, rest = np.split(heads, [rotary_embedding_dim or heads.shape[-1]], axis=-1)
    half = turning.shape[-1] // 2
    even, odd = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, half), slice(half, None))
    turned = np.empty_like(turning)
    turned[..., even] = cos * turning[..., even] - sin * turning[..., odd]
    turned[..., odd] = sin * turning[..., even] + cos * turning[..., odd]
    whole = np.concatenate([turned, rest], axis=-1).astype(x.dtype)
    return whole if x.ndim == 4 else _joined(whole)


@RotaryEmbedding.shapes
def _(x: Operand, cos_cache: Operand, sin_cache: Operand, position_ids: Operand | None = None, **attrs: Any) -> Any:
    if cos_cache.shape is not None and len(cos_cache.shape) != (3 if position_ids is None else 2):
        expected = "a row for each token" if position_ids is None else "a table of rows"
        message = f"`RotaryEmbedding` expected {expected}, found {types.show_shape(cos_cache.shape)}"
        raise Reject(codes.RANK_MISMATCH, message, "cos_cache")
    if x.shape is None:
        return None
    turning = attrs["rotary_embedding_dim"]
    if len(x.shape) == 3 and attrs["num_heads"] == 0:
        message = "`RotaryEmbedding` of a tensor of rank 3 needs `num_heads`"
        raise Reject(name_codes.MISSING_ATTRIBUTE, message, Part("callee"))
    heads = attrs["num_heads"] if len(x.shape) == 3 else None
    size = _split_heads("x", x, heads, len(x.shape), "RotaryEmbedding", "num_heads")[3]
    if turning < 0 or turning % 2 or (isinstance(size, int) and turning > size):
        message = f"`RotaryEmbedding` expected an even number up to the head size {dims.show(size)}, found {turning}"
        raise Reject(codes.BAD_VALUE, message, "rotary_embedding_dim")
    pairs = None if cos_cache.shape is None else cos_cache.shape[-1]
    expected = turning or size
    if isinstance(expected, int) and isinstance(pairs, int) and expected != 2 * pairs:
        message = f"`RotaryEmbedding` expected {expected} / 2 cosines in a row, found {pairs}"
        raise Reject(codes.SHAPE_MISMATCH, message, "cos_cache")
    return x.shape


@RotaryEmbedding.sharding
def _(
    x: Operand,
    cos_cache: Operand,
    sin_cache: Operand,
    position_ids: Operand | None = None,
    *,
    results: Sequence[Shape | None],
    **attrs: Any,
) -> Layout:
    by_head = len(x.shape or ()) == 4
    letters: Letters = ("b", "h", "s", None) if by_head else ("b", "s", "h")
    rows: Letters = (None if (cos_cache.shape or ())[:1] == (1,) else "b", "s", None)
    caches: tuple[Letters, ...] = ((None, None) if position_ids is not None else rows,) * 2
    positions: tuple[Letters, ...] = () if position_ids is None else (("b", "s"),)
    divided = {} if by_head else {"h": ("num_heads",)}
    return Layout((letters, *caches, *positions), (letters,), divided=divided)


@RotaryEmbedding.grad
def _(g: Backward) -> Gradients:
    """The gradient of `x` is rotated back by the same angles; that of cosines and sines is one of the products."""
    x, cos, sin, positions = g.x
    dx = g.same(g.dy, cos, g("Neg", g.definite(2)), positions) if g.wants(0) else None
    if not (g.wants(1) or g.wants(2)):
        return [dx, None, None, None]
    _, dcos, dsin = g.through(_rotated(g, x, cos, sin, positions), g.dy, [None, cos, sin])
    return [dx, dcos, dsin, None]


def _rotated(g: Backward, x: Arg, cos: Arg, sin: Arg, positions: Arg | None) -> str:
    """The decomposition into products and sums."""
    flat = g.rank(x) == 3
    whole = _heads_apart(g, x, g.attrs["num_heads"]) if flat else x
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


@RotaryEmbedding.torch(fresh=True)
def _(
    write: Write,
    x: Expr,
    cos_cache: Expr,
    sin_cache: Expr,
    position_ids: Expr | None = None,
    *,
    interleaved: bool,
    num_heads: int,
    rotary_embedding_dim: int,
) -> str:
    heads = num_heads if x.rank == 3 else None
    given = f"{x}, {cos_cache}, {sin_cache}, {None if position_ids is None else position_ids.tensor}"
    return f"{write.kernel('rotary_embedding')}({given}, {interleaved}, {heads}, {rotary_embedding_dim})"


def _hidden(queries: int, keys: int, window: int | None) -> Array:
    """The mask of the keys hidden from a causal query: those after it, and those `window` or more before it."""
    ahead = np.arange(keys) - np.arange(queries)[:, None]
    return (ahead > 0) | (ahead <= -window) if window else ahead > 0


def _by_head(x: Array, heads: int | None) -> Array:
    """The operand, in either layout, as (batch, heads, sequence, size)."""
    if x.ndim == 4 or heads is None:
        return x
    batch, length, hidden = x.shape
    return x.reshape(batch, length, heads, hidden // heads).swapaxes(1, 2)


def _joined(x: Array) -> Array:
    """From (batch, heads, sequence, size) to (batch, sequence, heads * size)."""
    batch, heads, length, size = x.shape
    return x.swapaxes(1, 2).reshape(batch, length, heads * size)


def _split_heads(
    name: str, x: Operand, heads: int | None, rank: int, op: str = "Attention", attribute: str | None = None
) -> tuple[Dim, Dim, Dim, Dim]:
    """Batch, heads, sequence and size of an operand in either layout. Raises Reject for an indivisible size."""
    attribute = attribute or ("q_num_heads" if name == "q" else "kv_num_heads")
    if heads is not None and heads < 1:
        raise Reject(codes.BAD_VALUE, f"`{op}` expected at least 1 head, found {heads}", attribute)
    if x.shape is None:
        return (None, heads, None, None)
    if rank == 4:
        batch, found, length, size = x.shape
        if heads is not None and isinstance(found, int) and found != heads:
            message = f"`{op}` expected {heads} heads (`{attribute}`), found {found}"
            raise Reject(codes.SHAPE_MISMATCH, message, name)
        return (batch, found, length, size)
    batch, length, hidden = x.shape
    try:
        return (batch, heads, length, dims.divide(hidden, heads))
    except DimensionError as error:
        raise Reject(codes.INDIVISIBLE, f"`{op}` cannot cut `{name}` into {heads} heads: {error}", attribute) from None


def _check_heads(queries: Dim, keys: Dim) -> None:
    if isinstance(queries, int) and isinstance(keys, int) and keys and queries % keys:
        message = f"`Attention` expected a multiple of the {keys} heads of keys and values, found {queries}"
        raise Reject(codes.INDIVISIBLE, message, "q")


def _check_mask(mask: Operand, q: Operand, scores: Shape) -> None:
    if None not in (mask.dtype, q.dtype) and mask.dtype not in (q.dtype, DTYPES["Bool"]):
        message = f"`Attention` expected a mask of Bool or {q.dtype} elements, found {mask.dtype}"
        raise Reject(codes.DTYPE_MISMATCH, message, "attn_mask")
    if mask.shape is None:
        return
    try:
        fits = broadcast(mask.shape, scores) == scores or None in (*scores, *mask.shape)
    except DimensionError:
        fits = False
    if not fits:
        message = f"`Attention` expected a mask that broadcasts to the scores {types.show_shape(scores)}"
        raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {types.show_shape(mask.shape)}", "attn_mask")


def _heads_apart(g: Backward, x: Arg, heads: Any) -> Arg:
    return g("Transpose", g("Reshape", x, (0, 0, heads, -1)), perm=(0, 2, 1, 3))
