"""The sizes of a `Reshape` or `Expand`, said relative to the operand, so that no shape has to be computed.

`[B, 8, 4, 16]` for a tensor of (B, 8, 64) is `[0, 8, 4, 16]`, and the target `[B, 8, 4, 16]` for one of (B, 1, 4, 1) is
`[1, 8, 1, 16]`. Where an export has fixed the batch size, its multiples among the sizes are freed again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from distir.importers.core import Freed
from distir.ir import Dim, DimensionError, Scalar, Shape, SymbolicDim, dims


def relative_shape(shape: Shape, sizes: Sequence[Scalar | SymbolicDim], batch: Freed | None) -> tuple[int, ...] | None:
    """The sizes without symbols, for a tensor of `shape`; None where they must stay as they are.

    `batch`: the dimension that the export fixed.
    """
    if any(isinstance(size, SymbolicDim) for size in sizes):
        return _without_symbols(shape, [size if isinstance(size, SymbolicDim) else int(size) for size in sizes])
    if batch is None or not any(batch.within(dim) for dim in shape):
        return None
    return _freed(shape, [int(size) for size in sizes if not isinstance(size, SymbolicDim)], batch)


def relative_target(shape: Shape, sizes: Sequence[Scalar | SymbolicDim]) -> tuple[int, ...] | None:
    """The target of an `Expand` without symbols: 1 where a dimension stays as it is. None where it must stay so."""
    behind = len(sizes) - len(shape)
    if behind < 0 or not any(isinstance(size, SymbolicDim) for size in sizes):
        return None
    said = [1 if i >= behind and shape[i - behind] == size else size for i, size in enumerate(sizes)]
    known = tuple(int(size) for size in said if not isinstance(size, SymbolicDim))
    return known if len(known) == len(said) else None


def _without_symbols(shape: Shape, sizes: list[int | SymbolicDim]) -> tuple[int, ...] | None:
    if 0 in sizes:
        return None
    said: list[int] = []
    for i, size in enumerate(sizes):
        if isinstance(size, int):
            said.append(size)
        else:
            said.append(0 if i < len(shape) and shape[i] == size else -1)
    if said.count(-1) > 1:
        return None
    if -1 in sizes:
        return tuple(said)
    try:
        left = dims.divide(dims.product(shape), dims.product(s for s, k in zip(sizes, said, strict=True) if k != -1))
    except DimensionError:
        return None
    stated = sizes[said.index(-1)] if -1 in said else 1
    return tuple(said) if left == stated else None


def _freed(shape: Shape, sizes: list[int], batch: Freed) -> tuple[int, ...] | None:
    name, fixed = batch.name, batch.size
    was = [dims.substitute(dim, {name: fixed}) for dim in shape]
    free = [isinstance(dim, SymbolicDim) for dim in shape]
    if not all(isinstance(size, int) for size in was):
        return None
    said = list(sizes)
    for i, size in enumerate(sizes):
        kept = i < len(shape) and free[i] and size == was[i] and math.prod(sizes[:i]) == _product(was[:i])
        if kept and not (size > fixed == 1 and _splits_one(was, sizes, i + 1, i + 1)):
            said[i], free[i] = 0, False
    if not any(free):
        return tuple(said)
    if -1 in sizes:  # the size that is left over takes the batch with it, if no other one holds it
        return None
    place = _carrier([size for size in was if isinstance(size, int)], free, sizes, fixed)
    if place is None or said[place] == 0:
        return None
    said[place] = -1
    return tuple(said)


def _carrier(was: list[int], free: list[bool], sizes: list[int], fixed: int) -> int | None:
    """Which of the sizes holds the batch: the first multiple of it among those that the free dimension becomes."""
    i = j = 0
    while i < len(was) and j < len(sizes):
        if was[i] == fixed == 1 and free[i] and j > 0 and i + 1 < len(was) and was[i + 1] <= sizes[j]:
            return j - 1  # one that is gone: it went before, for what follows it was not split
        first, start = i, j
        left, right = was[i], sizes[j]
        while left != right:
            if left < right and i + 1 < len(was):
                i += 1
                left *= was[i]
            elif right < left and j + 1 < len(sizes):
                j += 1
                right *= sizes[j]
            else:
                return None
        i, j = i + 1, j + 1
        if any(free[first:i]):
            if fixed == 1 and 1 not in sizes[start:j] and _splits_one(was, sizes, i, j):
                return j
            return next((k for k in range(start, j) if sizes[k] % fixed == 0), None)
    return None


def _splits_one(was: Sequence[Dim], sizes: Sequence[int], i: int, j: int) -> bool:
    """Whether a batch of one, merged into the dimensions before these places, becomes one of its own again."""
    return 1 in sizes[j : j + 1] and 1 not in was[i : i + 1]


def _product(sizes: Sequence[Dim]) -> Dim:
    return dims.product(sizes)
