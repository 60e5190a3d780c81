"""What attention hides: steps of masking as one mask, and masks that are a word."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distir.importers.recognition.rewriting import MatchedFunction
from distir.importers.recognition.views import reshaped
from distir.ir import DTYPES, Dim, DType, Shape

LOWEST = -1e9
"""A score that is set to less is as good as none: next to it, scores vanish in Float32 and narrower elements."""

LARGEST_MASK = 1 << 24
"""Elements of the largest mask that is computed to see what it hides."""


@dataclass(frozen=True, slots=True)
class Masking:
    """One step of masking: an addend (or what is subtracted), or a condition under which scores stay (or do not)."""

    mask: str
    fill: float | None = None
    negated: bool = False


def moved(program: MatchedFunction, mask: str, perm: tuple[int, ...]) -> str:
    """A mask for scores whose dimensions are in another order."""
    shape = program.shape(mask)
    if shape is None or all(size == 1 for size in shape[:-2]):
        return mask
    missing = range(len(perm) - len(shape))
    whole = program.apply("Unsqueeze", mask, program.sizes([*missing], mask)) if missing else mask
    return program.apply("Transpose", whole, perm=perm)


def joined(program: MatchedFunction, steps: Sequence[Masking], dtype: DType | None, q: Shape) -> tuple[bool, str]:
    """One mask for all steps of masking, "" for none; and whether there is one that says the same."""
    rank = len(q)
    mask = ""
    if dtype is None:
        return False, ""
    for step in steps:
        fits = program.dtype(step.mask) in ((DTYPES["Bool"],) if step.fill is not None else (dtype,))
        if not fits or (step.fill not in (None, -math.inf) and dtype.bytes > 4):
            return False, ""
        mask = _with_step(program, mask, step, dtype)
    shape = program.shape(mask) if mask else ()
    if shape is None:
        return False, ""
    if rank == 3 and len(shape) == 3 and shape[0] != 1:  # a batch, not heads
        mask = program.apply("Unsqueeze", mask, program.sizes([1], mask))
    if rank == 5 and len(shape) > 3:
        return _of_all_heads(program, mask, shape, q)
    if rank == 5 and len(shape) == 3 and shape[0] != 1:
        return False, ""
    return True, mask


def _of_all_heads(program: MatchedFunction, mask: str, shape: Shape, q: Shape) -> tuple[bool, str]:
    """A mask of (batch, groups, heads, queries, keys) without the groups: where it is the same for all, or for none."""
    padded: tuple[Dim, ...] = (*(1,) * (5 - len(shape)), *shape)
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) == 5 and shape[1:3] == q[1:3]:
        return True, reshaped(program, mask, [sizes[0], sizes[1] * sizes[2], *sizes[3:]])
    if padded[1:3] != (1, 1) or len(shape) != 5:
        return len(shape) == 4 and padded[1:3] == (1, 1), mask
    return True, program.squeezed(mask, 1)


def _with_step(program: MatchedFunction, mask: str, step: Masking, dtype: DType) -> str:
    """A mask after one more step."""
    condition = step.mask
    if step.fill is None and step.negated:
        return _with_step(program, mask, Masking(program.apply("Neg", step.mask)), dtype)
    if step.fill is None:
        if mask and program.dtype(mask) == DTYPES["Bool"]:
            return program.apply("Where", mask, step.mask, program.constant(-math.inf, dtype, step.mask))
        return program.apply("Add", mask, step.mask) if mask else step.mask
    hidden = step.fill == -math.inf
    if hidden and not mask:
        return program.apply("Not", condition) if step.negated else condition
    if hidden and program.dtype(mask) == DTYPES["Bool"]:
        return program.apply("And", mask, program.apply("Not", condition) if step.negated else condition)
    like = "" if not mask or program.dtype(mask) == DTYPES["Bool"] else mask
    seen = like or program.constant(0.0, dtype, condition)
    if mask and not like:
        seen = program.apply("Where", mask, seen, program.constant(-math.inf, dtype, condition))
    fill = program.constant(step.fill, dtype, condition)
    return program.apply("Where", condition, *((fill, seen) if step.negated else (seen, fill)))


def looking_back(size: int, window: int) -> Any:
    """Which keys queries see that look back: themselves, and so many in all."""
    import numpy as np

    ahead: Any = np.subtract.outer(np.arange(size), np.arange(size)).T
    return (ahead <= 0) & (ahead > -window)


def seen_by(program: MatchedFunction, mask: str) -> Any:
    """Which keys each query sees, by a mask that depends on no input and hides fully or not at all."""
    found = program.computed(mask, LARGEST_MASK)
    if found is None:
        return None
    plain = found.reshape(found.shape[-2:])
    if plain.dtype == bool:
        return plain
    hidden = plain <= LOWEST
    return ~hidden if (hidden | (plain == 0)).all() and not hidden.all(axis=-1).any() else None
