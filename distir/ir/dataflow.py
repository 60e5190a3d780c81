"""Use-def chains of a function's body: the statement that defines a value, and those that use it, by index.

A function never changes, and several passes over it ask in turn: the chains of those last asked for are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from distir.ir.core import DISCARD, Function, names, operands, results

KEPT = 1 << 10
"""Of how many functions at most the chains are kept."""


@lru_cache(maxsize=KEPT)
def definitions(function: Function) -> Mapping[str, int]:
    """By value: the index of the statement that defines it. Parameters have none."""
    return {name: index for index, s in enumerate(function.body) for name in results(s) if name != DISCARD}


@lru_cache(maxsize=KEPT)
def uses(function: Function) -> Mapping[str, Sequence[int]]:
    """By value: the indices of the statements that use it, each once, in order; the `return` included."""
    found: dict[str, list[int]] = {}
    for index, statement in enumerate(function.body):
        for arg in operands(statement):
            for name in (arg,) if isinstance(arg, str) else names((arg,)):
                if name:
                    users = found.setdefault(name, [])
                    if not users or users[-1] != index:
                        users.append(index)
    return found
