"""Which parameter each value of a program belongs to: what it is a copy, an update, or a gradient of.

What statements state (`of`), and else what follows: what copies, sends, casts or adds up values of one parameter gives
one of it, and an optimizer's gradient belongs to what it updates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Union

from distir.analysis.kinds import Place, ValueKinds, carries, in_place, moved, updates
from distir.ir import Apply, Arg, Call, Function, Statement, results
from distir.ir.calls import callees_first
from distir.ir.rewrite import facts_of
from distir.ops import OPS

Owner = Union[str, "tuple[Owner, ...]"]
"""A parameter, of the value's function or of the entry function, or an item of one: `weights 3`; of a tuple, by item.

Empty if none is known.
"""


def passed(owner: Owner, given: Mapping[str, Owner]) -> Owner:
    """The owner in a caller, for what is passed for the callee's parameters."""
    if isinstance(owner, tuple):
        return tuple([passed(item, given) for item in owner])
    name, *path = owner.split(" ")
    found = given.get(name, name)
    for index in path:
        found = found[int(index)] if isinstance(found, tuple) else found and f"{found} {index}"
    return found


@dataclass(frozen=True)
class Belongings:
    """The owners of the values of a program, of the kinds `kinds`."""

    kinds: ValueKinds

    def of(self, function: str, statement: Statement, given: Mapping[str, Owner] | None = None) -> str:
        """The parameter that a statement belongs to, or else the first of its results; empty if none is known.

        `given`: what is passed for parameters of its function, of which the answer is in terms.
        """
        own = (self._known.get((function, name), "") for name in results(statement))
        found = (passed(owner, given or {}) for owner in (facts_of(statement).of, *own))
        return next((owner.split(" ")[0] for owner in found if isinstance(owner, str) and owner), "")

    def value(self, function: str, arg: Arg) -> Owner:
        """The owner of a value."""
        return self._known.get((function, arg), "") if isinstance(arg, str) else ""

    @cached_property
    def _known(self) -> dict[Place, Owner]:
        found: dict[Place, Owner] = {}
        for function in callees_first(self.kinds.module):
            own = _Function(self.kinds, function, found).found()
            found.update({(function.name, name): owner for name, owner in own.items()})
        return found


@dataclass
class _Function:
    """Finds the owners of a function's values. `known`: those of its callees."""

    kinds: ValueKinds
    function: Function
    known: Mapping[Place, Owner]
    own: dict[str, Owner] = field(default_factory=dict[str, Owner])

    def found(self) -> dict[str, Owner]:
        """By value: its owner."""
        name, params = self.function.name, [p.name for p in self.function.params if self._belongs(p.name)]
        self.own = {param: param for param in params if not self.kinds.is_gradient(name, param)}
        for statement in self.function.body:
            if isinstance(statement, (Apply, Call)):
                made = self._made(statement) if isinstance(statement, Apply) else self._returned(statement)
                self.own |= {name: of for name, of in zip(statement.results, made, strict=True) if self._belongs(name)}
        for statement in reversed(self.function.body):
            if isinstance(statement, (Apply, Call)):
                for arg, of in zip(statement.args, self._taken(statement), strict=False):
                    if isinstance(arg, str) and self._belongs(arg):
                        self.own[arg] = _filled(self._of(arg), of)
            if isinstance(statement, Apply) and statement.op == "Assign":  # a master weight is of the weight
                self.own[str(statement.args[1])] = self._of(statement.args[0])
        return self.own

    def _belongs(self, name: str) -> bool:
        return self.kinds.belongs(self.function.name, name)

    def _of(self, arg: Arg) -> Owner:
        if isinstance(arg, tuple):
            return tuple(map(self._of, arg))
        return self.own.get(arg, "") if isinstance(arg, str) else ""

    def _across(self, call: Call, values: Sequence[Arg]) -> Iterator[Owner]:
        """The owners of a callee's values, for what is passed for its parameters."""
        callee = self.kinds.module.functions[call.function]
        given = {param.name: self._of(arg) for param, arg in zip(callee.params, call.args, strict=True)}
        return (passed(self.known.get((callee.name, str(value)), ""), given) for value in values)

    def _returned(self, call: Call) -> Iterator[Owner]:
        return self._across(call, self.kinds.module.functions[call.function].returned)

    def _made(self, statement: Apply) -> Sequence[Owner]:
        """The owners of a statement's results, by those of its operands."""
        count, of, stated = len(statement.results), [self._of(arg) for arg in moved(statement)], statement.facts.of
        if statement.op == "MakeTuple":
            return [tuple(of)]
        if statement.op == "UnpackTuple":
            (packed,) = of
            return packed if isinstance(packed, tuple) else [packed and f"{packed} {k}" for k in range(count)]
        if written := in_place(statement):
            return [stated or of[written.get(k, 0)] for k in range(count)]
        if not carries(statement):  # of several gradients, as of a scale and a bias, the first is meant
            first = next(filter(self._belongs, statement.results), "")
            return [stated if name == first else "" for name in statement.results]
        copies = OPS[statement.op].communication is not None
        if copies and len(of) == count:
            return [owner or stated for owner in of]
        first = next(filter(None, of), "")
        return [stated or (first if copies or {*of} <= {first, ""} else "")] * count

    def _taken(self, statement: Apply | Call) -> Sequence[Owner]:
        """What the gradients that a statement takes belong to: what its results do, or what it updates."""
        if isinstance(statement, Call):
            params = self.kinds.module.functions[statement.function].params
            return [*self._across(statement, [p.name for p in params])]
        made = [self._of(name) for name in statement.results]
        if statement.op == "UnpackTuple":
            return [tuple(made)]
        if statement.op == "MakeTuple" and isinstance(made[0], tuple):
            return made[0]
        if updates(statement):
            return ["", statement.facts.of or made[0]]
        count = len(moved(statement)) if carries(statement) else 0
        return made if len(made) == count else made[:1] * count


def _filled(own: Owner, other: Owner) -> Owner:
    """What is known of an owner, item by item, and else of the other."""
    if isinstance(own, tuple) and isinstance(other, tuple) and len(own) == len(other):
        return tuple(_filled(a, b) for a, b in zip(own, other, strict=True))
    return own or other
