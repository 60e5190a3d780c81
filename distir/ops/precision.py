"""The precision that reference implementations compute in. Knows no op."""

from __future__ import annotations

import math

from distir.ops.numeric import Array, np


def wide(x: Array) -> Array:
    """The array in Float32 if its own floating-point type is narrower than that, else as it is."""
    return x.astype(np.float32) if narrow(x) else x


def narrow(x: Array) -> bool:
    """Whether the elements are Float16, BFloat16 or 8-bit floats (numpy's kind of all but the first is `V`)."""
    return x.dtype.kind in "fV" and x.dtype.itemsize < 4


def mean(x: Array, axes: tuple[int, ...]) -> Array:
    """The mean along axes, which are kept. The mean of nothing is not a number; numpy's own would warn of it."""
    return np.sum(x, axis=axes, keepdims=True) / math.prod(x.shape[axis] for axis in axes)
