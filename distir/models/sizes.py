"""The sizes of models: given by a user and checked, and the number of parameters that they imply.

Knows no model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from distir.diagnostics.spelling import nearest
from distir.files import limits
from distir.ir import DTYPES, Dim, DType, Module, TensorType, dims, types
from distir.ir.builder import FunctionBuilder
from distir.ir.errors import DistirError

DEVICE: Final = 1
"""Where a sequential model lives."""

BATCH = dims.named("B")
"""The batch dimension wherever it is not a number. In functions of layers it always has a name: they fit any batch."""


class ModelError(DistirError, ValueError):
    """Invalid sizes of a model, or an unknown model; the text says what was expected."""


def check_sizes(**sizes: int) -> None:
    """Raises ModelError for the first size that is less than 1 or larger than any model's."""
    for name, size in sizes.items():
        most = limits.LAYERS if name == "layers" else dims.LARGEST
        if size < 1:
            raise ModelError(f"expected `{name}` to be 1 or more, found {size}")
        if size > most:
            raise ModelError(f"expected `{name}` to be {most} at most, found {size}")


def check_model_sizes(model: Any, **others: int) -> None:
    """Raises ModelError for the first size of a model's description, or of `others`, that makes no sense."""
    found = ((field.name, getattr(model, field.name)) for field in fields(model))
    sizes = {name: size for name, size in found if isinstance(size, int) and not isinstance(size, bool)}
    check_sizes(**sizes | others)


def check_divides(name: str, size: int, what: str, whole: int) -> None:
    """Raises ModelError, with the nearest divisors, for a size that does not divide another one."""
    if whole % size:
        small = [n for n in range(1, math.isqrt(whole) + 1) if whole % n == 0]
        every = sorted({*small, *(whole // n for n in small)})
        near = [*[n for n in every if n < size][-3:], *[n for n in every if n > size][:3]]
        does = "does" if len(near) == 1 else "do"
        raise ModelError(
            f"expected `{name}` to divide {what} {whole}, found {size}; {', '.join(map(str, near))} {does}"
        )


def batch_dimension(batch: int | None) -> Dim:
    """The batch dimension of the entry function: the number, or `B`. Raises ModelError."""
    if batch is None:
        return BATCH
    check_sizes(batch=batch)
    return batch


def float_type(name: str) -> DType:
    """The element type of that name. Raises ModelError, with the nearest name, for what is no type of floats."""
    known = [dtype.name for dtype in DTYPES.values() if dtype.kind == "float"]
    if name in known:
        return DTYPES[name]
    near = nearest(name, known)
    hint = f"did you mean `{near}`?" if near else f"one of {', '.join(known)}"
    raise ModelError(f"expected a floating-point type as `dtype`, found `{name}`; {hint}")


def add_weights(
    f: FunctionBuilder, weights: Mapping[str, TensorType], prefix: str = "", device: int | None = None
) -> list[str]:
    """Add a parameter for each weight, in order, and give their names. On a device they are marked `{param}`."""
    roles = {} if device is None else {"param": True}
    return [f.param(prefix + name, TensorType(t.dtype, t.shape, device), **roles) for name, t in weights.items()]


def parameter_count(module: Module) -> int:
    """How many numbers the `{param}` parameters of a module's entry function hold; 0 without an entry function.

    Raises ModelError where the shape of one is not known.
    """
    entry = module.entry()
    params = [p for p in entry.params if "param" in p.roles] if entry else []
    total = 0
    for param in params:
        for leaf in types.leaves(param.type):
            shape = leaf.shape if isinstance(leaf, TensorType) else None
            sizes = [dim for dim in shape or () if isinstance(dim, int)]
            if shape is None or len(sizes) < len(shape):
                raise ModelError(f"expected `%{param.name}` to be of a known shape, found `{leaf}`")
            total += math.prod(sizes)
    return total


def check_dropout(share: float) -> float:
    """The share that dropout drops. Raises ModelError for one that is none."""
    if not 0 <= share < 1:
        raise ModelError(f"expected `dropout` to be at least 0 and less than 1, found {share:g}")
    return share
