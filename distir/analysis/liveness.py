"""When each value of a function is used last, by name. Where its memory goes is `simulate`'s business."""

from __future__ import annotations

from distir.ir import DISCARD, Function, names, operands, results


def last_uses(function: Function) -> dict[str, int]:
    """By value: the statement that mentions it last, or defines it if none does; -1 for unused parameters."""
    last = {param.name: -1 for param in function.params}
    for index, statement in enumerate(function.body):
        for name in results(statement):
            last[name] = index
        for name in names(operands(statement)):
            last[name] = index
    last.pop(DISCARD, None)
    return last
