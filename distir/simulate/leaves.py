"""The storages of values, leaf by leaf of their types, by number. Independent of ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from distir.ir import DISCARD, Arg

NO_STORAGE = -1
"""Stands for the storage of a host value."""

Leaves = tuple[int, ...]
"""The storages of a value, or of several, one per leaf of the types."""


def canonical(leaves: Sequence[int]) -> Leaves:
    """Which leaves are the same, with storages numbered from 0 in the order of appearance."""
    different = dict.fromkeys(leaves)
    if len(different) == len(leaves) and NO_STORAGE not in different:
        return _all_different(len(leaves))
    different.pop(NO_STORAGE, None)
    numbers = dict(zip(different, range(len(different)), strict=True))
    numbers[NO_STORAGE] = NO_STORAGE
    return tuple(map(numbers.__getitem__, leaves))


@cache
def _all_different(count: int) -> Leaves:
    return tuple(range(count))


def name_results(names: Sequence[str], leaves: Leaves, widths: Sequence[int], places: dict[str, Leaves]) -> None:
    """Say where the results of a statement are."""
    if len(names) == 1:
        places[names[0]] = leaves
        return
    position = 0
    for name, width in zip(names, widths, strict=True):
        places[name] = leaves[position : position + width]
        position += width


def leaves_of(args: tuple[Arg, ...], places: Mapping[str, Leaves]) -> Leaves:
    """The storages of arguments, one after the other."""
    if len(args) == 1 and isinstance(args[0], str):
        return places[args[0]] if args[0] != DISCARD else ()
    found: list[int] = []
    for arg in args:
        if isinstance(arg, str):
            if arg != DISCARD:
                found += places[arg]
        elif isinstance(arg, tuple):
            found += leaves_of(arg, places)
        else:
            found.append(NO_STORAGE)
    return tuple(found)
