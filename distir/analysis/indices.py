"""How large the elements of a parameter may be that a function uses as indices; for random inputs.

Only what the text of the function says counts: tables that are parameters, and numbers that stand in it. A parameter of
which anything else is asked is left out. Runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distir.ir import Apply, Arg, Call, Dim, Function, Literal, TensorType, types

MOVING = frozenset(
    ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Concat", "Cast", "Send")
    + ("MPIBroadcast", "MPIScatter", "MPIGather", "MPIAllgather")
)
"""Ops whose results hold elements of their first operands, and no others."""


def index_bounds(function: Function, sizes: Mapping[str, Dim]) -> dict[str, int]:
    """By parameter: the number that its elements must be less than, where it is known. `sizes`: of named dimensions."""
    stated = {p.name: types.substitute(p.type, sizes) for p in function.params}
    origins = {p.name: frozenset((p.name,)) for p in function.params if _is_index(stated[p.name])}
    bounds: dict[str, int] = {}
    unknown: set[str] = set()
    for statement in function.body:
        if not isinstance(statement, (Apply, Call)):
            continue
        for place, arg in enumerate(statement.args):
            own = origins.get(arg, frozenset[str]()) if isinstance(arg, str) else _inside(arg, origins)
            if not own:
                continue
            if isinstance(statement, Apply) and statement.op in MOVING:
                for name in statement.results:
                    origins[name] = origins.get(name, frozenset[str]()) | own
                continue
            bound = _bound(statement, place, stated) if isinstance(statement, Apply) else None
            if bound is None:
                unknown |= own
            else:
                bounds.update((name, min(bound, bounds.get(name, bound))) for name in own)
    return {name: bound for name, bound in bounds.items() if name not in unknown and bound > 0}


def _is_index(stated: types.Type) -> bool:
    return isinstance(stated, TensorType) and stated.dtype is not None and stated.dtype.name in ("Int32", "Int64")


def _inside(arg: Arg, origins: Mapping[str, frozenset[str]]) -> frozenset[str]:
    found = frozenset[str]()
    for item in arg if isinstance(arg, tuple) else ():
        found |= origins.get(item, frozenset[str]()) if isinstance(item, str) else _inside(item, origins)
    return found


def _bound(statement: Apply, place: int, stated: Mapping[str, types.Type]) -> int | None:
    """What an op says of its operand at `place`: the number of things that there are to choose from."""
    axis = statement.attrs.get("axis", 0)
    match statement.op, place:
        case "Gather", 1:
            table = statement.args[0]
            shape = getattr(stated.get(table), "shape", None) if isinstance(table, str) else None
            return _at(shape or (), axis)
        case "GatherGrad", 1:
            return _at(_numbers(statement.args[2]), axis)
        case "Mod", 0:
            return _at(_numbers(statement.args[1]), 0)
        case _:
            return None


def _at(numbers: Sequence[object], axis: object) -> int | None:
    if not isinstance(axis, int) or not -len(numbers) <= axis < len(numbers):
        return None
    found = numbers[axis]
    return found if isinstance(found, int) else None


def _numbers(arg: Arg) -> Sequence[object]:
    """The elements of a constant of one dimension at most."""
    from distir.ops import dense

    constant = dense(arg.value) if isinstance(arg, Literal) else None
    return constant.values if constant is not None and len(constant.shape) <= 1 else ()
