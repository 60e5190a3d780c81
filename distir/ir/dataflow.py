"""Use-def chains of a function's body: the statement that defines a value, and those that use it, by index."""

from __future__ import annotations

from collections.abc import Iterable

from distir.ir.core import DISCARD, Statement, names, operands, results


def definitions(body: Iterable[Statement]) -> dict[str, int]:
    """By value: the index of the statement that defines it. Parameters have none."""
    return {name: index for index, s in enumerate(body) for name in results(s) if name != DISCARD}


def uses(body: Iterable[Statement]) -> dict[str, list[int]]:
    """By value: the indices of the statements that use it, each once, in order; the `return` included."""
    found: dict[str, list[int]] = {}
    for index, statement in enumerate(body):
        for name in dict.fromkeys(names(operands(statement))):
            found.setdefault(name, []).append(index)
    return found
