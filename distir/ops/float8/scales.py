"""Types, blocks and the scales of blocks: what the ops of 8-bit floats have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distir.diagnostics.codes import types as codes
from distir.ir import DTYPES, Dim, DType, Shape, TensorType, dims
from distir.ops.layout import Exchange, Letters
from distir.ops.numeric import Array, np
from distir.ops.unify import Reject

E4M3, E5M2, FLOAT32 = DTYPES["Float8E4M3FN"], DTYPES["Float8E5M2"], DTYPES["Float32"]
LARGEST = {E4M3: 448.0, E5M2: 57344.0}
"""The 8-bit types that products take, with their largest numbers."""

MEASURES = {
    "QuantizeFloat8": (1,),
    "DequantizeFloat8": (1,),
    "ScaleToFloat8": (1,),
    "ScaledMatMul": (2, 3, 4),
    "ScaledRaggedMatMul": (3, 4, 5),
    "ScaledRaggedMatMulGrad": (3, 4),
}
"""By op: its operands that are scales or greatest magnitudes, which are Float32 in any precision."""

ROWS, SQUARES = (1, 128), (128, 128)

OWNER = "o"
"""The letter of rows that devices with experts own."""


def greatest_of(x: Array, block: tuple[int, ...]) -> Array:
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


def spread(scale: Array, shape: tuple[int, ...], block: tuple[int, ...]) -> Array:
    """The scale of each element, as far as it does not broadcast."""
    scale = scale.astype(np.float32)
    for axis, size in enumerate(block, len(shape) - len(block)):
        if size > 1:
            scale = np.take(np.repeat(scale, size, axis=axis), range(shape[axis]), axis=axis)
    return scale


def scale_shape(shape: Shape | None, block: tuple[int, ...]) -> Shape | None:
    """The shape of the scales."""
    if not block or shape is None:
        return () if not block else None
    leading = len(shape) - len(block)
    return (*shape[:leading], *map(_blocks, shape[leading:], block))


def _blocks(dim: Dim, size: int) -> Dim:
    """The number of blocks of a size in a dimension; size 0 means the whole dimension."""
    if size < 2:
        return dim if size else 1
    return dims.divide_up(dim, size) if isinstance(dim, int) or dims.is_multiple(dim, size) else None


def letters_of_scale(letters: Letters, shape: Shape | None, block: tuple[int, ...]) -> tuple[Letters, Letters]:
    """The letters of a tensor, and of its scales: those of dimensions that fall into several whole blocks.

    A dimension that is one block by definition, of size 0, has a letter in the tensor alone.
    """
    if not block or shape is None:
        return (letters if not block else (None,) * len(letters)), ()
    kept, scale = list(letters), list(letters)
    for axis, size in enumerate(block, len(shape) - len(block)):
        if size > 1 and (shape[axis] == size or not dims.is_multiple(shape[axis], size)):
            kept[axis] = None
        scale[axis] = kept[axis] if size else None
    return tuple(kept), tuple(scale)


def letters_of_factors(
    factors: Sequence[tuple[Letters, Shape | None, tuple[int, ...]]], others: Sequence[Letters]
) -> tuple[list[Letters], list[Letters], list[Letters]]:
    """The letters of quantised factors of a product, those of their scales, and those of what they are multiplied to.

    `factors`: by factor its letters, its shape and its blocks. A letter that the blocks of one factor do not keep is
    none anywhere.
    """
    pairs = [letters_of_scale(*factor) for factor in factors]
    lost = {x for (own, _, _), (kept, _) in zip(factors, pairs, strict=True) for x in own if x not in kept}

    def without(letters: Letters) -> Letters:
        return tuple(None if letter in lost else letter for letter in letters)

    kept, scales = ([without(pair[i]) for pair in pairs] for i in range(2))
    return kept, scales, [without(letters) for letters in others]


def regrouped(letters: Letters, block: tuple[int, ...]) -> frozenset[str]:
    """The letters of dimensions of which several places have a scale in common, and so lie side by side."""
    sizes = zip(letters[len(letters) - len(block) :], block, strict=True)
    return frozenset(letter for letter, size in sizes if size != 1 and letter is not None)


def grains_of(*factors: tuple[Letters, tuple[int, ...]]) -> dict[str, int]:
    """By letter, how many places have a scale in common, of tensors with their blocks. None where these differ."""
    found: dict[str, set[int]] = {}
    for letters, block in factors:
        for letter, size in zip(letters[len(letters) - len(block) :], block, strict=True):
            if letter is not None and size > 1:
                found.setdefault(letter, set()).add(size)
    return {letter: min(sizes) for letter, sizes in found.items() if len(sizes) == 1}


def letters_of(x: TensorType) -> tuple[str, ...]:
    """A letter for each dimension."""
    return tuple(f"s{k}" for k in range(len(x.shape or ())))


def by_owner(letters: Letters, owners: int) -> tuple[Letters, dict[str, Any]]:
    """The letters of rows that so many devices own, and what else a layout says of them.

    Rows that are split along another letter, as they are before they are sent to their owners, are sent first: they
    travel in the element type that they have.
    """
    if owners == 1 or len(letters) < 2:
        return letters, {}
    rows = len(letters) - 2
    groups = [letter for letter in letters[:rows] if letter is not None]
    exchanged = Exchange(groups[0], OWNER, "owners", frozenset(range(3))) if groups else None
    owned = (*letters[:rows], OWNER, letters[-1])
    return owned, {"divided": {OWNER: ("owners",)}, "exchanged": exchanged}


def check_type(name: str, dtype: DType | None, part: str) -> None:
    """Raises Reject for what is no 8-bit type of products."""
    if dtype is not None and dtype not in LARGEST:
        known = " or ".join(f"`{known}`" for known in LARGEST)
        raise Reject(codes.BAD_VALUE, f"`{name}` expected {known}, found `{dtype}`", part)


def check_block(name: str, block: tuple[int, ...], shape: Shape | None, part: str = "block") -> None:
    """Raises Reject for sizes that cut no such shape into blocks."""
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


def check_scale(name: str, x: TensorType, scale: TensorType, block: tuple[int, ...], part: str) -> None:
    """Raises Reject for scales of another shape than the blocks of `x` have."""
    expected = scale_shape(x.shape, block)
    if expected is None or scale.shape is None:
        return
    same = len(expected) == len(scale.shape)
    if not same or any(a != b for a, b in zip(expected, scale.shape, strict=True) if None not in (a, b)):
        message = f"`{name}` expected scales of shape {list(expected)}, found {list(scale.shape)}"
        raise Reject(codes.SHAPE_MISMATCH, message, part)


def check_slot(name: str, greatest: TensorType, slot: int, part: str = "slot") -> None:
    """Raises Reject for a place that a history does not have."""
    size = greatest.shape[0] if greatest.shape else None
    if slot < 0 or (isinstance(size, int) and slot >= size):
        raise Reject(codes.BAD_VALUE, f"`{name}` expected a slot from 0 to {size} (excluded), found {slot}", part)
