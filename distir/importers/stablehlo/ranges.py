"""Which numbers indices can be: those out of range, StableHLO moves to the nearest that is in range, or leaves out."""

from __future__ import annotations

from distir.importers.stablehlo.translating import StableHlo
from distir.ir import Apply, Dense, DType
from distir.ops.numeric import np

Range = tuple[int, int]
"""The least and the largest."""

VIEWS = frozenset(("Cast", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"))
"""Ops whose elements are those of their first operand."""


def clamped(into: StableHlo, indices: str, least: int, most: int) -> str:
    """Indices moved into this range; the same where they cannot be out of it."""
    low, high = range_of(into, indices)
    for op, bound, beyond in (("Max", least, low < least), ("Min", most, high > most)):
        if beyond:
            limit = into.known_value(Dense(into.dtype(indices), (), (bound,)))
            indices = into.apply(op, indices, limit)
    return indices


def range_of(into: StableHlo, name: str) -> Range:
    """Numbers between which all elements are; those of the element type where nothing more is known."""
    least, most = bounds(into.dtype(name))
    found = _known(into, name) or _made(into, name)
    return (least, most) if found is None else (max(least, found[0]), min(most, found[1]))


def bounds(dtype: DType) -> Range:
    """How far an element type of integers reaches."""
    bits = 8 * int(dtype.bytes)
    return (0, (1 << bits) - 1) if dtype.name.startswith("U") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _known(into: StableHlo, name: str) -> Range | None:
    array = into.array(name)
    return None if array is None or array.size == 0 else (int(np.min(array)), int(np.max(array)))


def _made(into: StableHlo, name: str) -> Range | None:
    """What the op says that gives a value."""
    made = into.makers.get(name)
    if made is None:
        return None
    args = [str(arg) for arg in made.args if isinstance(arg, str)]
    if made.op in VIEWS and into.dtype(args[0]).kind == "int":
        return range_of(into, args[0])
    if made.op in ("Max", "Min") and len(args) == 2:
        bound = max if made.op == "Max" else min
        (a, b), (c, d) = (range_of(into, arg) for arg in args)
        return bound(a, c), bound(b, d)
    if made.op == "Concat":
        ranges = [range_of(into, arg) for arg in args]
        return min(low for low, _ in ranges), max(high for _, high in ranges)
    return _place(into, made, name)


def _place(into: StableHlo, made: Apply, name: str) -> Range | None:
    """A place along a dimension."""
    shape = into.shape(str(made.args[0])) if made.args else ()
    if made.op in ("ArgMax", "ArgMin"):
        axis = made.attrs.get("axis", 0)
        return (0, shape[axis] - 1) if isinstance(axis, int) else None
    if made.op == "TopK" and made.results.index(name) == 1:
        axis = made.attrs.get("axis", -1)
        return (0, shape[axis] - 1) if isinstance(axis, int) else None
    return None
