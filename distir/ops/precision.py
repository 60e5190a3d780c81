"""The precision in which reference implementations compute."""

from __future__ import annotations

import math

from distir.ops.numeric import Array, np


def wide(x: Array) -> Array:
    """The array in Float32 if its floating-point type is narrower, else the array itself."""
    return x.astype(np.float32) if narrow(x) else x


def narrow(x: Array) -> bool:
    """Whether the elements are Float16, BFloat16 or 8-bit floats (numpy's kind of all but the first is `V`)."""
    return x.dtype.kind in "fV" and x.dtype.itemsize < 4


def mean(x: Array, axes: tuple[int, ...]) -> Array:
    """The mean along axes, which become 1. The mean of no elements is NaN, without numpy's warning."""
    return np.sum(x, axis=axes, keepdims=True) / math.prod(x.shape[axis] for axis in axes)
