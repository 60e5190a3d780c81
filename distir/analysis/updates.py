"""Which parameters a function's values are updates of: a training step's new weights and state, and what they replace.

Optimizer ops update an operand in place. A value that is derived from the update of a parameter, also through sends,
gathers and splits, is that parameter's new value; a whole number of the host, such as a count of steps, is what is
counted up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from distir.ir import DISCARD, Apply, Arg, Call, Function, Module, names
from distir.ir.deep import Deep, finish
from distir.ir.roles import is_held
from distir.ops import OPS
from distir.ops.mesh import COLLECTIVES

Consists = frozenset[tuple[str, bool]]
"""The parameters that a value consists of, and whether they were updated."""

NOTHING: Consists = frozenset()

REARRANGING = frozenset(
    [
        *("Identity", "After", "Cast", "MakeTuple", "UnpackTuple", "Reshape", "Flatten", "Squeeze", "Unsqueeze"),
        *("Split", "Concat", "Slice", "Pad", "Transpose", "Fetch", "Offload"),
    ]
)
"""Ops whose results consist of elements of their operands, besides communication and the collectives of a mesh."""


@dataclass
class ParameterUpdates:
    """What the values of a module's functions consist of."""

    module: Module
    _tables: dict[str, dict[str, Consists]] = field(default_factory=dict[str, "dict[str, Consists]"])

    def of(self, function: Function, arg: Arg) -> frozenset[str]:
        """The function's parameters whose updates a value consists of."""
        return frozenset(name for name, updated in self.consists(function, arg) if updated)

    def consists(self, function: Function, arg: Arg) -> Consists:
        """The function's parameters that a value consists of, and whether they were updated."""
        known = self._tables.get(function.name)
        return _of(finish(self._table(function)) if known is None else known, arg)

    def replaced(self, function: Function) -> dict[int, int]:
        """By the number of a weight or state: the first value returned that is its update, and of no other's."""
        numbers = {p.name: i for i, p in enumerate(function.params) if is_held(p)}
        found: dict[int, int] = {}
        for k, arg in enumerate(function.returned):
            updated = [numbers[name] for name, again in self.consists(function, arg) if again and name in numbers]
            if len(updated) == 1:
                found.setdefault(updated[0], k)
        return found

    def _table(self, function: Function) -> Deep[dict[str, Consists]]:
        """What each value of a function consists of."""
        if function.name not in self._tables:
            table = self._tables[function.name] = {p.name: frozenset({(p.name, False)}) for p in function.params}
            for statement in function.body:
                if isinstance(statement, (Apply, Call)):
                    made = yield from self._statement(statement, table)
                    table.update((n, of) for n, of in zip(statement.results, made, strict=True) if n != DISCARD)
        return self._tables[function.name]

    def _statement(self, statement: Apply | Call, table: Mapping[str, Consists]) -> Deep[list[Consists]]:
        given = [table.get(arg, NOTHING) if isinstance(arg, str) else _of(table, arg) for arg in statement.args]
        if isinstance(statement, Call):
            callee = self.module.functions[statement.function]
            own = {p.name: of for p, of in zip(callee.params, given, strict=True)}
            inside = yield self._table(callee)
            return [
                frozenset((name, updated or again) for param, updated in _of(inside, arg) for name, again in own[param])
                for arg in callee.returned
            ]
        op, count = OPS[statement.op], len(statement.results)
        if op.communication is not None and op.inplace == "each":
            return [given[0] if len(given) == 1 else NOTHING.union(*given)] * count
        taken = dict(op.inplace) if op.inplace != "each" else {}
        if taken.get(0) == 0 and op.communication is None:
            return [
                frozenset((name, True) for name, _ in given[taken[i]]) if i in taken else NOTHING for i in range(count)
            ]
        if op.communication is not None or statement.op in COLLECTIVES or statement.op in REARRANGING:
            return [given[0] if len(given) == 1 else NOTHING.union(*given)] * count
        counted = [of for arg, of in zip(statement.args, given, strict=True) if isinstance(arg, str)]
        if statement.op == "Add" and len(counted) == 1:  # a step count
            return [frozenset((name, True) for name, _ in counted[0])]
        return [NOTHING] * count


def mentioned(function: Function) -> list[tuple[str, ...]]:
    """By value returned: the parameters that it depends on, in their order."""
    order = {p.name: i for i, p in enumerate(function.params)}
    nothing = frozenset[str]()
    found = {name: frozenset((name,)) for name in order}

    def of(args: tuple[Arg, ...]) -> frozenset[str]:
        return nothing.union(*(found.get(name, nothing) for name in names(args)))

    for statement in function.body:
        if isinstance(statement, (Apply, Call)):
            found.update(dict.fromkeys(statement.results, of(statement.args)))
    return [tuple(sorted(of((arg,)), key=order.__getitem__)) for arg in function.returned]


def _of(table: Mapping[str, Consists], arg: Arg) -> Consists:
    if isinstance(arg, str):
        return table.get(arg, NOTHING)
    return NOTHING.union(*(table.get(name, NOTHING) for name in names((arg,))))
