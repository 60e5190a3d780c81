"""Gradients of attention, rotary embedding and the general contraction."""

from __future__ import annotations

import math
from string import ascii_letters
from typing import Any, cast

from distir.ir import Arg
from distir.ops import attention as ops
from distir.ops.differentiation.backward import Backward, Gradients
from distir.ops.equation import Equation, Labels, parse_equation


@ops.Attention.grad
def _(g: Backward) -> Gradients:
    """The gradient of the products, masks and softmax that attention is made of; they are computed again."""
    q, k, v, mask = g.x
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
        if g.wants(3):
            raise g.refuse("`Attention` has no gradient for its mask")
        is_bool = g.dtype(mask).kind == "bool"
        scores = g("Where", mask, scores, -math.inf) if is_bool else g("Add", scores, mask)
    if g.attrs["is_causal"]:
        scores = g("Where", _not_later(g, queries, keys), scores, -math.inf)
    mixed = _grouped(g, g("Softmax", scores, axis=-1), values, key_heads, group)
    if flat:
        mixed = g("Reshape", g("Transpose", mixed, perm=(0, 2, 1, 3)), (0, 0, -1))
    return [*g.through(mixed, g.dy, [q, k, v]), None]


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


def _not_later(g: Backward, queries: Arg, keys: Arg) -> str:
    """Which keys do not stand behind which queries: a host value."""
    position = g("Range", 0, g.size_along(queries, 2), 1)
    return g("LessOrEqual", g("Range", 0, g.size_along(keys, 2), 1), g("Unsqueeze", position, (1,)))


@ops.RotaryEmbedding.grad
def _(g: Backward) -> Gradients:
    """Turned back by the same angles."""
    _, cos, _, positions = g.x
    if g.wants(1) or g.wants(2):
        raise g.refuse("`RotaryEmbedding` has no gradient for its cosines and sines")
    return [g.same(g.dy, cos, g("Neg", g.definite(2)), positions), None, None, None]


@ops.Einsum.grad
def _(g: Backward) -> Gradients:
    """The gradient of an operand is a contraction of the result's gradient with the other operands."""
    parsed = parse_equation(cast(str, g.attrs["equation"]))
    if any("..." in labels for labels in parsed.operands):
        parsed = _spelled_out(g, parsed)
    return [_contracted(g, parsed, i) if g.wants(i) else None for i in range(len(g.x))]


def _contracted(g: Backward, parsed: Equation, index: int) -> Arg:
    x, labels = g.x[index], parsed.operands[index]
    if len(set(labels)) < len(labels):
        raise g.refuse("`Einsum` has no gradient for an operand of which it takes a diagonal")
    others = [i for i in range(len(g.x)) if i != index]
    terms = (parsed.result, *(parsed.operands[i] for i in others))
    kept = tuple(label for label in labels if any(label in term for term in terms))
    dx = g("Einsum", g.dy, *(g.x[i] for i in others), equation=str(Equation(terms, kept)))
    summed = tuple(i for i, label in enumerate(labels) if label not in kept)
    if summed:  # a label of this operand alone was summed over: each of its elements counts alike
        dx = g("Expand", g("Unsqueeze", dx, summed), g.shape_of(x))
    return g.sum_to(dx, x)


def _spelled_out(g: Backward, parsed: Equation) -> Equation:
    """The equation with letters for `...`, where all operands that have it agree on it."""
    around = [len(labels) - 1 for labels in parsed.operands]
    shapes = [g.known_shape(x) if "..." in labels else () for x, labels in zip(g.x, parsed.operands, strict=True)]
    spread = [
        shape[labels.index("...") : len(shape) - n + labels.index("...")]
        for shape, labels, n in zip(shapes, parsed.operands, around, strict=True)
        if "..." in labels
    ]
    if any(dims != spread[0] for dims in spread):
        raise g.refuse("`Einsum` has a gradient only where the dimensions `...` of its operands agree")
    free = [letter for letter in ascii_letters if letter not in str(parsed)]
    letters = tuple(free[: len(spread[0])])

    def spell(labels: Labels) -> Labels:
        return tuple(letter for label in labels for letter in (letters if label == "..." else (label,)))

    return Equation(tuple(map(spell, parsed.operands)), spell(parsed.result))
