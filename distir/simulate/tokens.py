"""How many tokens a program takes in, where its types tell."""

from __future__ import annotations

from collections.abc import Iterable

from distir.ir import Function, TensorType, Type


def tokens(function: Function, given: Iterable[Type]) -> int | None:
    """Tokens of a step: the elements of the `{batch}` parameters that hold integers, a row for each sequence.

    `given`: the types of the arguments. Ids and labels are of one shape and count once. None where there are none, or
    they differ, or lie on several devices: whether these hold parts of a batch or copies, no type says.
    """
    found: set[tuple[object, int | None]] = set()
    for param, leaf in zip(function.params, given, strict=True):
        if "batch" not in param.roles or not isinstance(leaf, TensorType) or leaf.dtype is None:
            continue
        if leaf.dtype.kind in ("int", "uint") and leaf.shape is not None and len(leaf.shape) == 2:
            found.add((leaf.elements, leaf.device))
    (count, _) = found.pop() if len(found) == 1 else (None, None)
    return count if isinstance(count, int) else None
