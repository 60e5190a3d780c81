"""Rotary position embedding as a single op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import Arg, Part, Shape, dims, types
from distir.ops.core import op
from distir.ops.heads import by_head, heads_apart, heads_joined, joined, split_heads
from distir.ops.host import FAR, Operand
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients, Rewrite
    from distir.ops.torch_form import Expr, Write


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
    heads = wide(by_head(x, num_heads))
    at = ... if position_ids is None else position_ids
    cos, sin = (wide(cache[at])[:, None] for cache in (cos_cache, sin_cache))
    turning, rest = np.split(heads, [rotary_embedding_dim or heads.shape[-1]], axis=-1)
    half = turning.shape[-1] // 2
    even, odd = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, half), slice(half, None))
    turned = np.empty_like(turning)
    turned[..., even] = cos * turning[..., even] - sin * turning[..., odd]
    turned[..., odd] = sin * turning[..., even] + cos * turning[..., odd]
    whole = np.concatenate([turned, rest], axis=-1).astype(x.dtype)
    return whole if x.ndim == 4 else joined(whole)


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
    size = split_heads("x", x, heads, len(x.shape), "RotaryEmbedding", "num_heads")[3]
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
    _, dcos, dsin = g.through({_rotated(g, x, cos, sin, positions): g.dy}, [None, cos, sin])
    return [dx, dcos, dsin, None]


@RotaryEmbedding.decomposition
def _(g: Rewrite) -> list[str]:
    """Products and sums of the halves."""
    return [_rotated(g, *g.x)]


def _rotated(g: Rewrite, x: Arg, cos: Arg, sin: Arg, positions: Arg | None) -> str:
    """The decomposition into products and sums."""
    flat = g.rank(x) == 3
    whole = heads_apart(g, x, g.attrs["num_heads"]) if flat else x
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
    return heads_joined(g, turned) if flat else turned


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
