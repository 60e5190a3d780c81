"""A builder for programs that write programs: fresh names, statements appended in order.

Example::

    f = FunctionBuilder("dense")
    x, w = f.param("x", types.UNKNOWN), f.param("w", types.UNKNOWN)
    (y,) = f.apply("MatMul", x, w)
    function = f.returns(y)
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import cast

from distir.ir.core import DISCARD, Apply, Arg, Call, Function, Literal, Module, Param, Return, Statement, results
from distir.ir.facts import NO_FACTS, Facts
from distir.ir.literals import NO_ATTRIBUTES, Attributes, Constant
from distir.ir.types import UNKNOWN, Type

Operand = Arg | Constant


class FunctionBuilder:
    """Collects one function. Strings are values' names; other constants become host values."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.params: list[Param] = []
        self.body: list[Statement] = []
        self.facts: Facts = NO_FACTS
        """What the statements state that are appended from now on."""
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """`hint` if it is free, else `hint_1`, `hint_2`, …; taken from now on."""
        name = hint
        while name in self._taken:
            self._next[hint] = self._next.get(hint, 0) + 1
            name = f"{hint}_{self._next[hint]}"
        self._taken.add(name)
        return name

    @property
    def taken(self) -> Set[str]:
        """The names that `fresh` does not give."""
        return self._taken

    def take(self, names: Iterable[str]) -> None:
        """Take names that are defined elsewhere: `fresh` does not give them."""
        self._taken.update(names)
        self._taken.discard(DISCARD)

    def give_back(self, name: str) -> None:
        """Let `fresh` give a name again."""
        self._taken.discard(name)

    def param(self, hint: str, type: Type = UNKNOWN, **roles: Constant) -> str:
        """Add a parameter and give its name."""
        name = self.fresh(hint)
        self.params.append(Param(name, type, Attributes(roles) if roles else NO_ATTRIBUTES))
        return name

    def apply(
        self, op: str, *operands: Operand, results: int | tuple[str, ...] = 1, **attrs: Constant
    ) -> tuple[str, ...]:
        """Append an op; `results` is how many it has, or hints for their names."""
        names = self._results(results, op.lower())
        attributes = Attributes(attrs) if attrs else NO_ATTRIBUTES
        self.body.append(Apply(names, op, tuple(map(_arg, operands)), attributes, facts=self.facts))
        return names

    def call(self, function: str, *operands: Operand, results: int | tuple[str, ...] = 1) -> tuple[str, ...]:
        """Append a call."""
        names = self._results(results, function)
        self.body.append(Call(names, function, tuple(map(_arg, operands)), facts=self.facts))
        return names

    def returns(self, *operands: Operand) -> Function:
        """Close the function and give it."""
        body = (*self.body, Return(tuple(map(_arg, operands))))
        return Function(self.name, tuple(self.params), body)

    def _results(self, results: int | tuple[str, ...], hint: str) -> tuple[str, ...]:
        hints = (hint,) * results if isinstance(results, int) else results
        return tuple(name if name == DISCARD else self.fresh(name) for name in hints)


def _arg(operand: Operand) -> Arg:
    if isinstance(operand, (str, Literal)):
        return operand
    if isinstance(operand, tuple) and _mentions_values(operand):
        return tuple(map(_arg, operand))
    return Literal(cast("Constant", operand))  # which mentions no value


def _mentions_values(operand: Operand) -> bool:
    """Whether a list holds values' names, so that it is a list of operands, not a constant."""
    if isinstance(operand, tuple):
        return any(map(_mentions_values, operand))
    return isinstance(operand, (str, Literal))


def namer(of: Function | Module) -> FunctionBuilder:
    """A builder that gives no name which a value of the function has, or a function of the module."""
    if isinstance(of, Module):
        builder = FunctionBuilder("")
        builder.take(of.functions)
        return builder
    builder = FunctionBuilder(of.name)
    builder.take(param.name for param in of.params)
    for statement in of.body:
        builder.take(results(statement))
    return builder
