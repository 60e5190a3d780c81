"""Products of 8-bit floats with scales: per tensor, or per block of rows and columns.

A quantised tensor is its elements in an 8-bit type and scales in Float32: an element is worth its value times the
scale of its block. Blocks are over the last two dimensions, or over as many as `block` has sizes, where 0 is the whole
of a dimension; `block = []` is one scale for the whole tensor. The scale is the greatest magnitude of a block divided
by the largest number of the type (448 for Float8E4M3FN, 57344 for Float8E5M2), 1 for a block of zeros, as in torchao
and Transformer Engine ("current scaling"). DeepSeek-V3 (arXiv:2412.19437, section 3.3) has blocks of 1 x 128 for
activations and gradients, 128 x 128 for weights. Current scaling in a step of microbatches and replicas, each of which
has a scale of its own, is `block = [4, 0, 0]`: one for each 4 examples of (example, place, feature).

With delayed scaling (Micikevicius et al., arXiv:2209.05433; Transformer Engine) the scale of a tensor follows from the
greatest magnitudes that it had in the last steps, its history, which is state of the training step: `ScaleToFloat8`
takes it, and gives the greatest magnitudes of this step, which `RecordGreatest` keeps for the next ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Arg, Dim, DType, Literal, Shape, SymbolicDim, TensorType, dims
from distir.ops.core import op
from distir.ops.layout import Layout, Letters, Parts
from distir.ops.numeric import Array, np, numpy_dtype
from distir.ops.precision import wide
from distir.ops.resources import MatrixProduct
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.torch_form import Expr, Unpacked, Write

E4M3, E5M2, FLOAT32 = DTYPES["Float8E4M3FN"], DTYPES["Float8E5M2"], DTYPES["Float32"]
LARGEST = {E4M3: 448.0, E5M2: 57344.0}
"""The 8-bit types that products take, with their largest numbers."""

MEASURES = {"QuantizeFloat8": (1,), "DequantizeFloat8": (1,), "ScaleToFloat8": (1,), "ScaledMatMul": (2, 3, 4)}
"""By op: its operands that are scales or greatest magnitudes, which are Float32 in any precision."""

ROWS, COLUMNS, SQUARES = (1, 128), (128, 1), (128, 128)


@op(
    "Tensor[t:float, s, d], Optional[Tensor[h:float, _, d]] -> Tensor[to, s, d], Tensor[Float32, _, d]",
    flops=lambda s, **_: 4 * s,
)
def QuantizeFloat8(
    x: Array, greatest: Array | None = None, *, to: DType = E4M3, block: tuple[int, ...] = ROWS
) -> tuple[Array, Array]:
    """`x` in an 8-bit float type, and the scale of each block of its last dimensions, two as a rule.

    A scale is the greatest magnitude in the block divided by the largest number of the type; `greatest` gives what that
    is where `x` is a part of what has a scale in common. A size of 0 is the whole of a dimension; with `block = []`
    there is one scale. Blocks at an end may be smaller. The gradient takes no notice of the rounding.

    %q, %scale = QuantizeFloat8[block = [1, 2]](%x: Tensor[Float32, (2, 4), 1])
    %q, %scale = QuantizeFloat8[block = [2, 0, 0]](%x: Tensor[Float32, (4, 3, 2), 1])
    %q, %scale = QuantizeFloat8[to = Float8E5M2, block = []](%x: Tensor[Float32, (2, 4), 1])
    """
    values, largest = wide(x), LARGEST[to]
    found = (_greatest(values, block) if greatest is None else greatest).astype(np.float32)
    scale = np.where(found > 0, found / np.float32(largest), np.float32(1)).astype(np.float32)
    scaled = values / _spread(scale, values.shape, block)
    return np.clip(scaled, -largest, largest).astype(numpy_dtype(to)), scale


def _greatest(x: Array, block: tuple[int, ...]) -> Array:
    """The greatest magnitude of each block; of a whole tensor without blocks."""
    if not block:
        return np.asarray(np.max(np.abs(x), initial=0.0))
    leading = x.ndim - len(block)
    ends = [(0, -n % size if size else 0) for size, n in zip(block, x.shape[leading:], strict=True)]
    whole = np.pad(np.abs(x), [(0, 0)] * leading + ends)
    tiles = [
        n for size, m in zip(block, whole.shape[leading:], strict=True) for n in ((m // size, size) if size else (1, m))
    ]
    axes = tuple(range(leading + 1, leading + 2 * len(block), 2))
    return np.max(whole.reshape((*x.shape[:leading], *tiles)), axis=axes, initial=0.0)


def _spread(scale: Array, shape: tuple[int, ...], block: tuple[int, ...]) -> Array:
    """The scale of each element, as far as it does not broadcast."""
    scale = scale.astype(np.float32)
    for axis, size in enumerate(block, len(shape) - len(block)):
        if size > 1:
            scale = np.take(np.repeat(scale, size, axis=axis), range(shape[axis]), axis=axis)
    return scale


def _check_type(name: str, dtype: DType | None, part: str) -> None:
    if dtype is not None and dtype not in LARGEST:
        known = " or ".join(f"`{known}`" for known in LARGEST)
        raise Reject(codes.BAD_VALUE, f"`{name}` expected {known}, found `{dtype}`", part)


def _check_block(name: str, block: tuple[int, ...], shape: Shape | None, part: str = "block") -> None:
    if len(block) == 1 or any(size < 0 for size in block):
        message = f"`{name}` expected a block of rows and columns, as in `[1, 128]`, or `[]`, found {list(block)}"
        raise Reject(codes.BAD_VALUE, message, part)
    if shape is None:
        return
    if len(shape) < len(block):
        least = "two" if len(block) == 2 else len(block)
        message = f"`{name}` expected {least} dimensions or more for blocks, found {len(shape)}"
        raise Reject(codes.BAD_VALUE, message, part)
    for axis, size in enumerate(block, len(shape) - len(block)) if 0 in block else ():  # blocks of whole examples
        if size > 1 and isinstance(dim := shape[axis], int) and dim % size:
            message = f"`{name}` expected a multiple of {size} in dimension {axis}, as its blocks are, found {dim}"
            raise Reject(codes.SHAPE_MISMATCH, message, part)


def scale_shape(shape: Shape | None, block: tuple[int, ...]) -> Shape | None:
    """The shape of the scales."""
    if not block or shape is None:
        return () if not block else None
    leading = len(shape) - len(block)
    return (*shape[:leading], *map(_blocks, shape[leading:], block))


def _blocks(dim: Dim, size: int) -> Dim:
    """How many blocks of a size a dimension has; 0 is its own."""
    if size < 2:
        return dim if size else 1
    return dims.divide_up(dim, size) if isinstance(dim, int) or _is_multiple(dim, size) else None


def _is_multiple(dim: Dim, size: int) -> bool:
    """Whether a dimension is known to fall into whole blocks."""
    if isinstance(dim, SymbolicDim):
        return all(coefficient % (size * dim.denominator) == 0 for _, coefficient in dim.terms)
    return dim is not None and dim % size == 0


def _of_scale(letters: Letters, shape: Shape | None, block: tuple[int, ...]) -> tuple[Letters, Letters]:
    """The letters of a tensor, and of its scales: those of dimensions that fall into whole blocks.

    A dimension that is one block has a letter in the tensor alone.
    """
    if not block or shape is None:
        return (letters if not block else (None,) * len(letters)), ()
    kept, scale = list(letters), list(letters)
    for axis, size in enumerate(block, len(shape) - len(block)):
        if size > 1 and not _is_multiple(shape[axis], size):
            kept[axis] = None
        scale[axis] = kept[axis] if size else None
    return tuple(kept), tuple(scale)


def _letters(x: TensorType) -> tuple[str, ...]:
    return tuple(f"s{k}" for k in range(len(x.shape or ())))


@QuantizeFloat8.checks
def _(x: TensorType, greatest: TensorType | None = None, *, to: DType, block: tuple[int, ...]) -> None:
    _check_type("QuantizeFloat8", to, "to")
    _check_block("QuantizeFloat8", block, x.shape)
    if greatest is not None:
        _check_scale("QuantizeFloat8", x, greatest, block, "greatest")


@QuantizeFloat8.shapes
def _(x: TensorType, greatest: TensorType | None = None, *, to: DType, block: tuple[int, ...]) -> list[Shape | None]:
    return [x.shape, scale_shape(x.shape, block)]


@QuantizeFloat8.sharding
def _(
    x: TensorType,
    greatest: TensorType | None = None,
    *,
    results: Sequence[Shape | None],
    to: DType,
    block: tuple[int, ...],
) -> Layout:
    letters, scale = _of_scale(_letters(x), x.shape, block)
    every = frozenset(filter(None, letters))
    if greatest is not None:
        return Layout((letters, scale), (letters, scale), contiguous=every, whole=frozenset({1}))
    return Layout(
        (letters,),
        (letters, scale),
        contiguous=every,
        parted=every - {*scale},
        instead="give each microbatch a scale of its own: `fp8=tensor micro_batch=N`, of N examples",
        whole=frozenset({1}),
    )


@QuantizeFloat8.parted
def _(w: Parts, x: Arg, *, to: DType, block: tuple[int, ...]) -> list[Arg]:
    """Scales that all parts have in common: of the greatest magnitude that each device finds, the greatest."""
    greatest = _greatest_of_parts(w, x, block)
    q, scale = w.several("QuantizeFloat8", 2, x, greatest, to=to, block=block)
    return [q, scale]


@QuantizeFloat8.grad
def _(g: Backward) -> Gradients:
    given = g.dtype(g.x[0])
    dx = g.dy if g.dtype(g.dy) == given else g("Cast", g.dy, to=given)
    return [dx, *[None] * (len(g.x) - 1)]


@QuantizeFloat8.torch(fresh=True)
def _(write: Write, x: Expr, greatest: Expr | None = None, *, to: DType, block: tuple[int, ...]) -> Unpacked:
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
    return _greatest(wide(x).astype(np.float32), block)


@GreatestOfBlocks.checks
def _(x: TensorType, *, block: tuple[int, ...]) -> None:
    _check_block("GreatestOfBlocks", block, x.shape)


@GreatestOfBlocks.shapes
def _(x: TensorType, *, block: tuple[int, ...]) -> Shape | None:
    return scale_shape(x.shape, block)


@GreatestOfBlocks.sharding
def _(x: TensorType, *, results: Sequence[Shape | None], block: tuple[int, ...]) -> Layout:
    letters, scale = _of_scale(_letters(x), x.shape, block)
    every = frozenset(filter(None, letters))
    return Layout((letters,), (scale,), contiguous=every, parted=every - {*scale}, whole=frozenset({0}))


@GreatestOfBlocks.parted
def _(w: Parts, x: Arg, *, block: tuple[int, ...]) -> list[Arg]:
    return [_greatest_of_parts(w, x, block)]


def _greatest_of_parts(w: Parts, x: Arg, block: tuple[int, ...]) -> Arg:
    """The greatest in each block, of what each device finds in its part."""
    own, first = w("GreatestOfBlocks", x, block=block), Literal((0,))
    if block:
        return w.greatest(own, _letters(w.type(x)).index(w.letter))
    return w("Squeeze", w.greatest(w("Unsqueeze", own, first), 0), first)


@GreatestOfBlocks.torch(fresh=True)
def _(write: Write, x: Expr, *, block: tuple[int, ...]) -> str:
    return f"{write.kernel('greatest_of_blocks')}({x}, {write.items(block) if block else '()'})"


@op(
    "Tensor[t:float, s, d], Tensor[u:float, _, d] -> Tensor[to, s, d]",
    flops=1,
)
def DequantizeFloat8(q: Array, scale: Array, *, to: DType = FLOAT32, block: tuple[int, ...] = ROWS) -> Array:
    """The values of a quantised tensor: each element times the scale of its block.

    %x = DequantizeFloat8[block = [1, 2]](%q: Tensor[Float8E4M3FN, (2, 4), 1], %scale: Tensor[Float32, (2, 2), 1])
    """
    return (q.astype(np.float32) * _spread(scale, q.shape, block)).astype(numpy_dtype(to))


def _check_scale(name: str, x: TensorType, scale: TensorType, block: tuple[int, ...], part: str) -> None:
    expected = scale_shape(x.shape, block)
    if expected is None or scale.shape is None:
        return
    same = len(expected) == len(scale.shape)
    if not same or any(a != b for a, b in zip(expected, scale.shape, strict=True) if None not in (a, b)):
        message = f"`{name}` expected scales of shape {list(expected)}, found {list(scale.shape)}"
        raise Reject(codes.SHAPE_MISMATCH, message, part)


@DequantizeFloat8.checks
def _(q: TensorType, scale: TensorType, *, to: DType, block: tuple[int, ...]) -> None:
    _check_type("DequantizeFloat8", q.dtype, "q")
    _check_block("DequantizeFloat8", block, q.shape)
    _check_scale("DequantizeFloat8", q, scale, block, "scale")


@DequantizeFloat8.sharding
def _(
    q: TensorType, scale: TensorType, *, results: Sequence[Shape | None], to: DType, block: tuple[int, ...]
) -> Layout:
    letters, own = _of_scale(_letters(q), q.shape, block)
    return Layout((letters, own), (letters,), contiguous=frozenset(filter(None, letters)))


@DequantizeFloat8.grad
def _(g: Backward) -> Gradients:
    return [g.dy, None]


@DequantizeFloat8.torch(fresh=True)
def _(write: Write, q: Expr, scale: Expr, *, to: DType, block: tuple[int, ...]) -> str:
    spelled = write.items(block) if block else "()"
    return f"{write.kernel('dequantize_float8')}({q}, {scale}, {spelled}).to({write.dtype(to)})"


def _scaled_product(*, s: int = 1, m: int, k: int, elements: int, transA: bool, **_: Any) -> MatrixProduct:
    rows = k if transA else s * m
    return MatrixProduct(rows, elements // rows, s * m if transA else k)


@op(
    "Tensor[t:float, (n, *s), d], Tensor[h:float, (_,), d]"
    " -> Tensor[to, (n, *s), d], Tensor[Float32, (), d], Tensor[Float32, _, d]",
    flops=lambda elements, **_: 4 * elements,
)
def ScaleToFloat8(x: Array, greatest: Array, *, to: DType = E4M3, slot: int = 0) -> tuple[Array, Array, Array]:
    """`x` in an 8-bit float type by a scale that is known before, the scale, and the greatest magnitudes of `x`.

    The scale is `greatest[slot]` divided by the largest number of the type, 1 for 0; what is greater than expected is
    the largest number. The last result has the greatest magnitude of each row, that is along the last dimension, one
    pass with the rest. The gradient takes no notice of the rounding.

    %q, %scale, %now = ScaleToFloat8(%x: Tensor[Float32, (2, 4), 1], %greatest: Tensor[Float32, (3,), 1])
    %q, %scale, %now = ScaleToFloat8[to = Float8E5M2, slot = 2](%x: Tensor[Float32, (2, 3, 4), 1], %greatest: Tensor[Float32, (3,), 1])
    """  # noqa: E501 - an example is one line
    values, largest = wide(x), np.float32(LARGEST[to])
    expected = greatest[slot].astype(np.float32)
    scale = np.asarray(expected / largest if expected > 0 else 1, np.float32)
    now = np.max(np.abs(values), axis=-1, initial=0.0).astype(np.float32)
    return np.clip(values / scale, -largest, largest).astype(numpy_dtype(to)), scale, now


@ScaleToFloat8.checks
def _(x: TensorType, greatest: TensorType, *, to: DType, slot: int) -> None:
    _check_type("ScaleToFloat8", to, "to")
    _check_slot("ScaleToFloat8", greatest, slot)


@ScaleToFloat8.shapes
def _(x: TensorType, greatest: TensorType, *, to: DType, slot: int) -> list[Shape | None]:
    return [x.shape, (), x.shape if x.shape is None else x.shape[:-1]]


def _check_slot(name: str, greatest: TensorType, slot: int) -> None:
    size = greatest.shape[0] if greatest.shape else None
    if slot < 0 or (isinstance(size, int) and slot >= size):
        raise Reject(codes.BAD_VALUE, f"`{name}` expected a slot from 0 to {size} (excluded), found {slot}", "slot")


@ScaleToFloat8.sharding
def _(x: TensorType, greatest: TensorType, *, results: Sequence[Shape | None], to: DType, slot: int) -> Layout:
    own = _letters(x)
    return Layout(
        (own, (None,)),
        (own, (), own[:-1]),
        contiguous=frozenset(own[-1:]),
        parted=frozenset(own[-1:]),
        whole=frozenset({1, 2}),
    )


@ScaleToFloat8.parted
def _(w: Parts, x: Arg, greatest: Arg, *, to: DType, slot: int) -> list[Arg]:
    """The greatest of all parts of each row."""
    q, scale, own = w.several("ScaleToFloat8", 3, x, greatest, to=to, slot=slot)
    axis = len(w.type(x).shape or (0,)) - 1
    ends = Literal((axis,))
    return [q, scale, w("Squeeze", w.greatest(w("Unsqueeze", own, ends), axis), ends)]


@ScaleToFloat8.grad
def _(g: Backward) -> Gradients:
    given = g.dtype(g.x[0])
    return [g.dy if g.dtype(g.dy) == given else g("Cast", g.dy, to=given), None]


@ScaleToFloat8.torch(fresh=True)
def _(write: Write, x: Expr, greatest: Expr, *, to: DType, slot: int) -> Unpacked:
    given = f"{x}, {greatest}, {slot}, {write.dtype(to)}, {LARGEST[to]}"
    return write.unpacked(f"{write.kernel('scale_to_float8')}({given})")


@op(
    "Tensor[h:float, (t, n), d] -> Tensor[h, (t, n), d]",
    flops=0,
    inplace={0: 0},
    non_differentiable="it is state of a step",
)
def NextHistory(history: Array) -> Array:
    """A history of greatest magnitudes, by tensor and step, a step later: the oldest is dropped, the newest is 0.

    %next = NextHistory(%history: Tensor[Float32, (3, 16), 1])
    """
    return np.concatenate([np.zeros_like(history[:, :1]), history[:, :-1]], axis=1)


@NextHistory.sharding
def _(history: TensorType, *, results: Sequence[Shape | None]) -> Layout:
    return Layout((("t", None),), (("t", None),))


@NextHistory.torch(fresh=True)
def _(write: Write, history: Expr) -> str:
    return f"{write.kernel('next_history')}({history})"


@op(
    "Tensor[h:float, s, d] -> Tensor[h, (), d]",
    flops=lambda inputs, **_: inputs,
    non_differentiable="it is what the state of a step follows from",
)
def Greatest(now: Array) -> Array:
    """The greatest of greatest magnitudes, which are not below 0: over rows, devices, microbatches.

    %greatest = Greatest(%now: Tensor[Float32, (4,), 1])
    """
    return np.asarray(np.max(now, initial=0.0)).astype(now.dtype)


@Greatest.sharding
def _(now: TensorType, *, results: Sequence[Shape | None]) -> Layout:
    own = _letters(now)
    return Layout((own,), ((),), contiguous=frozenset(own), parted=frozenset(own), whole=frozenset({0}))


@Greatest.parted
def _(w: Parts, now: Arg) -> list[Arg]:
    """The greatest of what each device has."""
    ends = Literal((0,))
    return [w("Squeeze", w.greatest(w("Unsqueeze", w("Greatest", now), ends), 0), ends)]


@Greatest.torch(fresh=True)
def _(write: Write, now: Expr) -> str:
    return f"{write.kernel('greatest')}({now})"


@op(
    "Tensor[h:float, (t, n), d], Tensor[g:float, (), d] -> Tensor[h, (t, n), d]",
    flops=1,
    bytes=12,
    inplace={0: 0},
    non_differentiable="it is state of a step",
)
def RecordGreatest(history: Array, greatest: Array, *, slot: int = 0) -> Array:
    """The history with the greatest magnitude of this step as the newest of a tensor, unless more is there.

    %recorded = RecordGreatest[slot = 1](%history: Tensor[Float32, (3, 16), 1], %greatest: Float32[1])
    """
    recorded = history.copy()
    recorded[slot, 0] = np.maximum(history[slot, 0], greatest)
    return recorded


@RecordGreatest.checks
def _(history: TensorType, greatest: TensorType, *, slot: int) -> None:
    _check_slot("RecordGreatest", history, slot)


@RecordGreatest.sharding
def _(history: TensorType, greatest: TensorType, *, results: Sequence[Shape | None], slot: int) -> Layout:
    return Layout(((None, None), ()), ((None, None),))


@RecordGreatest.torch(fresh=True)
def _(write: Write, history: Expr, greatest: Expr, *, slot: int) -> str:
    return f"{write.kernel('record_greatest')}({history}, {greatest}, {slot})"


@op(
    "Tensor[t:float, (*s, m, k), d], Tensor[u:float, _, d], Tensor[v:float, _, d], Tensor[w:float, _, d],"
    " Optional[Tensor[h:float, (_,), d]] -> Tensor[to, _, d]",
    flops=lambda s, m, k, elements, transA, **_: 2 * (s * m if transA else k) * elements,
    contraction=_scaled_product,
)
def ScaledMatMul(
    a: Array,
    b: Array,
    a_scale: Array,
    b_scale: Array,
    greatest: Array | None = None,
    *,
    to: DType = FLOAT32,
    transA: bool = False,
    transB: bool = False,
    block_a: tuple[int, ...] = ROWS,
    block_b: tuple[int, ...] = SQUARES,
    slot: int = 0,
) -> Array:
    """The product of quantised tensors, `a' @ b'`, summed in Float32 at least, in the element type `to`.

    A prime is a transposition if `transA` or `transB` is set; blocks are those before it. Leading dimensions of `a` are
    rows; with `transA` those of both are summed over, too. Its gradient quantises `dy` to Float8E5M2 in the blocks of `a`; for that of `b`,
    whose sums are over rows, both factors are quantised again in blocks of rows, as in DeepSeek-V3, unless blocks are
    whole examples. With `greatest`, the greatest magnitudes expected, that of `dy` in `slot`, its scale follows from it.

    %y = ScaledMatMul[block_a = [1, 2], block_b = [2, 2]](%a: Tensor[Float8E4M3FN, (3, 4), 1], %b: Tensor[Float8E4M3FN, (4, 2), 1], %a_scale: Tensor[Float32, (3, 2), 1], %b_scale: Tensor[Float32, (2, 1), 1])
    """  # noqa: E501 - an example is one line
    summed = numpy_dtype(max(FLOAT32, to, key=lambda dtype: dtype.bytes))
    left = a.astype(summed) * _spread(a_scale, a.shape, block_a)
    right = b.astype(summed) * _spread(b_scale, b.shape, block_b)
    if transA:
        left, right = left.reshape(-1, a.shape[-1]).T, right.reshape(-1, b.shape[-1])
    product = np.matmul(left, right.T if transB else right)
    return product.astype(numpy_dtype(to))


@ScaledMatMul.checks
def _(
    a: TensorType,
    b: TensorType,
    a_scale: TensorType,
    b_scale: TensorType,
    greatest: TensorType | None = None,
    *,
    to: DType,
    transA: bool,
    **attrs: Any,
) -> None:
    if greatest is not None:
        _check_slot("ScaledMatMul", greatest, attrs["slot"])
    for name, x, scale in (("a", a, a_scale), ("b", b, b_scale)):
        _check_type("ScaledMatMul", x.dtype, name)
        _check_block("ScaledMatMul", attrs[f"block_{name}"], x.shape, f"block_{name}")
        _check_scale("ScaledMatMul", x, scale, attrs[f"block_{name}"], f"{name}_scale")
    if b.shape is None or (transA and a.shape is None):
        return
    rank = len(a.shape or ()) if transA else 2
    if len(b.shape) != rank or (rank != 2 and attrs["transB"]):
        expected = (
            "2 dimensions in both with `transA` and `transB`" if rank != 2 and attrs["transB"] else f"{rank} dimensions"
        )
        raise Reject(codes.BAD_VALUE, f"`ScaledMatMul` expected {expected}, found {len(b.shape)}", "b")


@ScaledMatMul.shapes
def _(a: TensorType, b: TensorType, *_: TensorType, transA: bool, transB: bool, **attrs: Any) -> Shape | None:
    if a.shape is None or b.shape is None:
        return None
    rows, summed = ((a.shape[-1],), a.shape[:-1]) if transA else (a.shape[:-1], a.shape[-1:])
    columns, inner = (b.shape[0], b.shape[1:]) if transB else (b.shape[-1], b.shape[:-1])
    for n, own in zip(summed, inner, strict=True):
        if None not in (n, own) and n != own:
            message = f"`ScaledMatMul` operands disagree on the dimension that is summed: {n} and {own}"
            raise Reject(codes.SHAPE_MISMATCH, message, "b")
    return (*rows, columns)


@ScaledMatMul.sharding
def _(
    a: TensorType,
    b: TensorType,
    *others: TensorType,
    results: Sequence[Shape | None],
    transA: bool,
    transB: bool,
    block_a: tuple[int, ...],
    block_b: tuple[int, ...],
    **attrs: Any,
) -> Layout:
    leading = tuple(f"s{i}" for i in range(len(a.shape or ()) - 2))
    left = (*leading, "k", "m") if transA else (*leading, "m", "k")
    summed = left[:-1] if transA else left[-1:]
    right = ("n", *summed) if transB else (*summed, "n")
    first, a_scale = _of_scale(left, a.shape, block_a)
    second, b_scale = _of_scale(right, b.shape, block_b)
    shared = {letter for letter in summed if (letter in first) != (letter in second)}
    first, second, a_scale, b_scale = (
        tuple(None if letter in shared else letter for letter in own) for own in (first, second, a_scale, b_scale)
    )
    kept = {*first, *second}
    of_result = ("m", "n") if transA else (*left[:-1], "n")
    result = tuple(letter if letter in kept else None for letter in of_result)
    expected: tuple[Letters, ...] = ((None,),) * (len(others) - 2)
    contiguous = frozenset(filter(None, kept)) if block_a or block_b else frozenset[str]()
    return Layout((first, second, a_scale, b_scale, *expected), (result,), contiguous=contiguous)


@ScaledMatMul.grad
def _(g: Backward) -> Gradients:
    a, b, a_scale, b_scale = g.x[:4]
    expected = [x for x in g.x[4:] if x]
    to, flip_b = cast(DType, g.attrs["to"]), bool(g.attrs["transB"])
    block_a, block_b = (cast("tuple[int, ...]", g.attrs[name]) for name in ("block_a", "block_b"))
    if g.attrs["transA"]:
        raise g.refuse("`ScaledMatMul` with `transA` is part of a gradient", "transpose the operand instead")
    da = db = None
    if expected:
        dy, dy_scale, _ = g.several("ScaleToFloat8", 3, g.dy, expected[0], to=E5M2, slot=cast(int, g.attrs["slot"]))
    else:
        dy, dy_scale = g.several("QuantizeFloat8", 2, g.dy, to=E5M2, block=block_a)
    if g.wants(0):
        blocks = {"block_a": block_a, "block_b": block_b}
        da = g("ScaledMatMul", dy, b, dy_scale, b_scale, to=to, transB=not flip_b, **blocks)
    if g.wants(1):
        down, rows, drows = block_a, a, dy  # an example, and a whole tensor, has one scale however it is summed
        if any(block_a[1:]):
            down = block_a[::-1]
            wide_a = g("DequantizeFloat8", a, a_scale, to=to, block=block_a)
            rows, drows = (g("Flatten", x, axis=g.rank(a) - 1) if g.rank(a) > 2 else x for x in (wide_a, g.dy))
            rows, a_scale = g.several("QuantizeFloat8", 2, rows, to=g.dtype(a), block=down)
            drows, dy_scale = g.several("QuantizeFloat8", 2, drows, to=E5M2, block=down)
        blocks = {"to": to, "transA": True, "block_a": down, "block_b": down}
        operands = (drows, rows, dy_scale, a_scale) if flip_b else (rows, drows, a_scale, dy_scale)
        db = g("ScaledMatMul", *operands, **blocks)
    return [da, db, *[None] * (len(g.x) - 2)]


@ScaledMatMul.torch(fresh=True)
def _(
    write: Write,
    a: Expr,
    b: Expr,
    a_scale: Expr,
    b_scale: Expr,
    greatest: Expr | None = None,
    *,
    to: DType,
    transA: bool,
    transB: bool,
    block_a: tuple[int, ...],
    block_b: tuple[int, ...],
    slot: int,
) -> str:
    spelled = (write.items(block) if block else "()" for block in (block_a, block_b))
    given = f"{a}, {b}, {a_scale}, {b_scale}, {transA}, {transB}, {', '.join(spelled)}"
    return f"{write.kernel('scaled_product')}({given}).to({write.dtype(to)})"
