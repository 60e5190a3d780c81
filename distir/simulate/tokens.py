"""The number of tokens of a program's batch, where its types determine it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from distir.ir import Dim, DimensionError, Function, Module, TensorType, Type, types


def tokens_of_step(module: Module, entry: Function, given: Iterable[Type], sizes: Mapping[str, Dim]) -> int | None:
    """Tokens of a step of a program that may be distributed: `@main.scatter` takes the batch before it is spread.

    `given`: the types of what a device is given, on a mesh parts of what types say; `sizes`: named dimensions.
    """
    taking = module.functions.get(f"{entry.name}.scatter", entry)
    if taking is entry and not module.mesh:
        return tokens(entry, given)
    try:
        return tokens(taking, [types.substitute(param.type, sizes) for param in taking.params])
    except DimensionError:
        return None


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
