"""Tensors to 8-bit floats and back, by scales of what is there: current scaling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distir.ir import Arg, DType, Literal, Shape, TensorType
from distir.ops.core import op
from distir.ops.float8.scales import (
    E4M3,
    FLOAT32,
    LARGEST,
    ROWS,
    by_owner,
    check_block,
    check_scale,
    check_type,
    grains_of,
    greatest_of,
    letters_of,
    letters_of_scale,
    regrouped,
    scale_shape,
    spread,
)
from distir.ops.layout import Layout, Parts
from distir.ops.numeric import Array, np, numpy_dtype
from distir.ops.precision import wide

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Unpacked, Write


@op(
    "Tensor[t:float, s, d], Optional[Tensor[h:float, _, d]] -> Tensor[to, s, d], Tensor[Float32, _, d]",
    flops=lambda s, **_: 4 * s,
)
def QuantizeFloat8(
    x: Array, greatest: Array | None = None, *, to: DType = E4M3, block: tuple[int, ...] = ROWS, owners: int = 1
) -> tuple[Array, Array]:
    """`x` in an 8-bit float type, and the scale of each block of its last dimensions, two as a rule.

    A scale is the greatest magnitude in the block divided by the largest number of the type; `greatest` gives what that
    is where `x` is a part of what has a scale in common. A size of 0 is the whole of a dimension; with `block = []`
    there is one scale. Blocks at an end may be smaller. The gradient takes no notice of the rounding. `owners`: the
    rows of `x` are those of so many devices with experts, each of which quantises its own, if a row has its own scales.

    %q, %scale = QuantizeFloat8[block = [1, 2]](%x: Tensor[Float32, (2, 4), 1])
    %q, %scale = QuantizeFloat8[block = [2, 0, 0]](%x: Tensor[Float32, (4, 3, 2), 1])
    %q, %scale = QuantizeFloat8[to = Float8E5M2, block = []](%x: Tensor[Float32, (2, 4), 1])
    """
    values, largest = wide(x), LARGEST[to]
    found = (greatest_of(values, block) if greatest is None else greatest).astype(np.float32)
    scale = np.where(found > 0, found / np.float32(largest), np.float32(1)).astype(np.float32)
    scaled = values / spread(scale, values.shape, block)
    return np.clip(scaled, -largest, largest).astype(numpy_dtype(to)), scale


@QuantizeFloat8.checks
def _(x: TensorType, greatest: TensorType | None = None, *, to: DType, block: tuple[int, ...], owners: int) -> None:
    check_type("QuantizeFloat8", to, "to")
    check_block("QuantizeFloat8", block, x.shape)
    if greatest is not None:
        check_scale("QuantizeFloat8", x, greatest, block, "greatest")


@QuantizeFloat8.shapes
def _(
    x: TensorType, greatest: TensorType | None = None, *, to: DType, block: tuple[int, ...], owners: int
) -> list[Shape | None]:
    return [x.shape, scale_shape(x.shape, block)]


@QuantizeFloat8.sharding
def _(
    x: TensorType,
    greatest: TensorType | None = None,
    *,
    results: Sequence[Shape | None],
    to: DType,
    block: tuple[int, ...],
    owners: int,
) -> Layout:
    letters, scale = letters_of_scale(letters_of(x), x.shape, block)
    every = frozenset(filter(None, letters))
    contiguous = regrouped(letters, block) if block else every
    if owners > 1 and block and block[-2] == 1:  # a row that another device has may have the same scale, else
        letters, said = by_owner(letters, owners)
        scale = (*scale[:-2], letters[-2], *scale[-1:])
        return Layout((letters,), (letters, scale), contiguous=contiguous, whole=frozenset({1}), **said)
    grains = grains_of((letters, block))
    if greatest is not None:
        return Layout((letters, scale), (letters, scale), contiguous=contiguous, grains=grains, whole=frozenset({1}))
    return Layout(
        (letters,),
        (letters, scale),
        contiguous=contiguous,
        grains=grains,
        parted=every - {*scale},
        instead="give each microbatch a scale of its own: `fp8=tensor micro_batch=N`, of N examples",
        whole=frozenset({1}),
    )


@QuantizeFloat8.parted
def _(w: Parts, x: Arg, *, to: DType, block: tuple[int, ...], owners: int) -> list[Arg]:
    """Scales that all parts have in common: of the greatest magnitude that each device finds, the greatest."""
    greatest = _greatest_of_parts(w, x, block)
    q, scale = w.several("QuantizeFloat8", 2, x, greatest, to=to, block=block)
    return [q, scale]


@QuantizeFloat8.pieces
def _(p: Pieces, x: Piece, greatest: Piece | None = None, *, to: DType, block: tuple[int, ...], owners: int) -> Any:
    """With the greatest magnitudes of the whole: parts of what the whole is with its own."""
    if greatest is None:
        return NotImplemented
    axes = _in_part(p, x, block)
    whole = x
    for axis in axes:
        whole = p.whole(whole, axis)
    if not axes or not p.is_same(greatest, p("GreatestOfBlocks", whole, block=block)):
        return NotImplemented
    q, scale = p.several("QuantizeFloat8", 2, whole, to=to, block=block)
    for axis in axes:
        q = p.placed(q, axis, x, axis)
    return [q, scale]


@QuantizeFloat8.grad
def _(g: Backward) -> Gradients:
    given = g.dtype(g.x[0])
    dx = g.dy if g.dtype(g.dy) == given else g("Cast", g.dy, to=given)
    return [dx, *[None] * (len(g.x) - 1)]


@QuantizeFloat8.torch(fresh=True)
def _(
    write: Write, x: Expr, greatest: Expr | None = None, *, to: DType, block: tuple[int, ...], owners: int
) -> Unpacked:
    given = f"{x}, {greatest}, {write.dtype(to)}, {LARGEST[to]}, {write.items(block) if block else '()'}"
    return write.unpacked(f"{write.kernel('quantize_float8')}({given})")


@op(
    "Tensor[t:float, s, d] -> Tensor[Float32, _, d]",
    flops=lambda s, **_: s,
    non_differentiable="it is what scales follow from",
)
def GreatestOfBlocks(x: Array, *, block: tuple[int, ...] = ROWS) -> Array:
    """The greatest magnitude in each block of `x`, of which `QuantizeFloat8` has a scale; blocks are as there.

    %greatest = GreatestOfBlocks[block = [1, 2]](%x: Tensor[Float32, (2, 4), 1])
    %greatest = GreatestOfBlocks[block = []](%x: Tensor[Float32, (2, 4), 1])
    """
    return greatest_of(wide(x).astype(np.float32), block)


@GreatestOfBlocks.checks
def _(x: TensorType, *, block: tuple[int, ...]) -> None:
    check_block("GreatestOfBlocks", block, x.shape)


@GreatestOfBlocks.shapes
def _(x: TensorType, *, block: tuple[int, ...]) -> Shape | None:
    return scale_shape(x.shape, block)


@GreatestOfBlocks.sharding
def _(x: TensorType, *, results: Sequence[Shape | None], block: tuple[int, ...]) -> Layout:
    letters, scale = letters_of_scale(letters_of(x), x.shape, block)
    every = frozenset(filter(None, letters))
    return Layout((letters,), (scale,), contiguous=every, parted=every - {*scale}, again=True, whole=frozenset({0}))


@GreatestOfBlocks.pieces
def _(p: Pieces, x: Piece, *, block: tuple[int, ...]) -> Any:
    """Of a part of a block: the greatest over its places."""
    axes, whole = _in_part(p, x, block), x
    if not axes:
        return NotImplemented
    for axis in axes:
        whole = p.whole(whole, axis)
    over = [(axis, p.places(x, axis), p.whole_size(x, axis)) for axis in axes]
    return [p.greatest_over(p("GreatestOfBlocks", whole, block=block), over)]


def _in_part(p: Pieces, x: Piece, block: tuple[int, ...]) -> list[int]:
    """The dimensions of which a block has all, and `x` a part."""
    rank = len(p.shape(x))
    first = rank - len(block) if block else 0
    every = (axis for axis in range(first, rank) if not block or not block[axis - first])
    return [axis for axis in every if not p.has_all(x, axis)]


@GreatestOfBlocks.parted
def _(w: Parts, x: Arg, *, block: tuple[int, ...]) -> list[Arg]:
    return [_greatest_of_parts(w, x, block)]


@GreatestOfBlocks.torch(fresh=True)
def _(write: Write, x: Expr, *, block: tuple[int, ...]) -> str:
    return f"{write.kernel('greatest_of_blocks')}({x}, {write.items(block) if block else '()'})"


def _greatest_of_parts(w: Parts, x: Arg, block: tuple[int, ...]) -> Arg:
    """The greatest in each block, of what each device finds in its part."""
    own, first = w("GreatestOfBlocks", x, block=block), Literal((0,))
    if block:
        return w.greatest(own, letters_of(w.type(x)).index(w.letter))
    return w("Squeeze", w.greatest(w("Unsqueeze", own, first), 0), first)


@op(
    "Tensor[t:float, s, d], Tensor[u:float, _, d] -> Tensor[to, s, d]",
    flops=1,
)
def DequantizeFloat8(q: Array, scale: Array, *, to: DType = FLOAT32, block: tuple[int, ...] = ROWS) -> Array:
    """The values of a quantised tensor: each element times the scale of its block.

    %x = DequantizeFloat8[block = [1, 2]](%q: Tensor[Float8E4M3FN, (2, 4), 1], %scale: Tensor[Float32, (2, 2), 1])
    """
    return (q.astype(np.float32) * spread(scale, q.shape, block)).astype(numpy_dtype(to))


@DequantizeFloat8.checks
def _(q: TensorType, scale: TensorType, *, to: DType, block: tuple[int, ...]) -> None:
    check_type("DequantizeFloat8", q.dtype, "q")
    check_block("DequantizeFloat8", block, q.shape)
    check_scale("DequantizeFloat8", q, scale, block, "scale")


@DequantizeFloat8.sharding
def _(
    q: TensorType, scale: TensorType, *, results: Sequence[Shape | None], to: DType, block: tuple[int, ...]
) -> Layout:
    letters, own = letters_of_scale(letters_of(q), q.shape, block)
    grains = grains_of((letters, block))
    return Layout((letters, own), (letters,), contiguous=regrouped(letters, block), grains=grains)


@DequantizeFloat8.grad
def _(g: Backward) -> Gradients:
    return [g.dy, None]


@DequantizeFloat8.torch(fresh=True)
def _(write: Write, q: Expr, scale: Expr, *, to: DType, block: tuple[int, ...]) -> str:
    spelled = write.items(block) if block else "()"
    return f"{write.kernel('dequantize_float8')}({q}, {scale}, {spelled}).to({write.dtype(to)})"
