"""Follows a value back to its origin: from use to definition, into called functions and out of them again.

Terminates in programs with errors, too: within a function a trail only goes up (of several definitions of one name, the
last one before a use counts), and calls that form a cycle are not followed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from distir.ide.instances import KnownInstances
from distir.ir import Call, Function, results
from distir.simulate.show import Occurrence


def defining_statement(facts: KnownInstances, function: Function, name: str, before: int) -> int | None:
    """The last statement before number `before` that defines a value; None if only a parameter can."""
    names = facts.program.analysis.domain.structure.names[function.name]
    if name not in names.repeated:
        index = names.defined.get(name, -1)
        return index if 0 <= index < before else None
    above = range(min(before, len(function.body)) - 1, -1, -1)
    return next((index for index in above if name in results(function.body[index])), None)


@dataclass
class Trail:
    """A value of a function as one call runs it, and how it was reached. `before`: the statement that uses it."""

    facts: KnownInstances
    occurrence: Occurrence
    name: str
    before: int
    passed: int = 0
    """How many statements and calls the trail has passed."""
    entered: list[tuple[Occurrence, int]] = field(default_factory=list[tuple[Occurrence, int]])
    """The calls whose functions it has entered and not left, outermost first."""

    @property
    def function(self) -> Function:
        """The function whose value this is."""
        return self.occurrence.instance.function

    @property
    def definition(self) -> int | None:
        """The statement that defines the value; None for a parameter, and for what nothing defines."""
        return defining_statement(self.facts, self.function, self.name, self.before)

    @property
    def parameter(self) -> int | None:
        """Which parameter the value is, if no statement defines it; None if it is none either."""
        return next((i for i, p in enumerate(self.function.params) if p.name == self.name), None)

    def up(self, index: int, operand: str) -> None:
        """Go on with a value that the statement `index` uses."""
        self.name, self.before, self.passed = operand, index, self.passed + 1

    def enter(self, index: int) -> bool:
        """Go on with what the function called by the statement `index` returns; False where that cannot be followed."""
        call = self.function.body[index]
        callee = self.facts.called(self.occurrence, index) if isinstance(call, Call) else None
        if callee is None or not isinstance(call, Call):
            return False
        returned, position = callee.instance.function.returned, call.results.index(self.name)
        if position >= len(returned) or not isinstance(value := returned[position], str):
            return False
        self.entered.append((self.occurrence, index))
        self.occurrence = callee
        self.up(len(callee.instance.function.body), value)
        return True

    def leave(self, caller: Occurrence, index: int, argument: str) -> None:
        """Go on with an argument of the call that the statement `index` of `caller` is."""
        self.occurrence = caller
        self.up(index, argument)
