"""What a program is: statements, functions, modules. Frozen, compared by value, free of text positions.

Paper, section 2. Values and functions are known by their names, without `%` and `@`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Union

from distir.ir.facts import NO_FACTS, Facts
from distir.ir.literals import NO_ATTRIBUTES, Attributes, Constant, identity
from distir.ir.notebook import ShownFunction, ShownModule
from distir.ir.places import Mesh, OnMeshes, Stages
from distir.ir.types import Type

DISCARD = ""
"""The name of a result that is discarded, written `_`."""


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant in an operand's place: a host value."""

    value: Constant

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and identity(self.value) == identity(other.value)

    def __hash__(self) -> int:
        return hash(identity(self.value))


COMPUTE = "compute"
"""The stream on which a statement runs that names none. In a statement it is the empty name."""

Arg = Union[str, Literal, "tuple[Arg, ...]"]
"""A value's name, a constant, or a list of those."""

Claims = tuple[Type | None, ...]
"""The types that a statement declares for its results, one per result; empty if it declares none."""


@dataclass(frozen=True, slots=True)
class Apply:
    """`%r: T, ... = Op[attrs](args) on stream {facts}`.

    `stream`: in whose order its devices run it; empty for the one that computes. Values belong to devices, not to
    streams: an op waits for its operands, wherever they were made. So a stream changes what a program costs, never
    what it means.
    """

    results: tuple[str, ...]
    op: str
    args: tuple[Arg, ...]
    attrs: Attributes = NO_ATTRIBUTES
    claims: Claims = ()
    stream: str = ""
    facts: Facts = NO_FACTS


@dataclass(frozen=True, slots=True)
class Call:
    """`%r: T, ... = @function(args) on stream {facts}`.

    It means the same as the inlined body; one of a kernel costs what one op does, and only such a one has a stream.
    """

    results: tuple[str, ...]
    function: str
    args: tuple[Arg, ...]
    claims: Claims = ()
    stream: str = ""
    facts: Facts = NO_FACTS


@dataclass(frozen=True, slots=True)
class Return:
    """`return %a, ...`; the last statement of every function."""

    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """A statement that could not be read. Its results are of unknown type, so that it causes no second error."""

    results: tuple[str, ...] = ()


Statement = Apply | Call | Return | Broken


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter; `roles` hold what a strategy must know (`ir/roles.py`): `{param}`, `{batch = 0}`."""

    name: str
    type: Type
    roles: Attributes = NO_ATTRIBUTES


@dataclass(frozen=True, slots=True, repr=False)
class Function(ShownFunction):
    """A straight-line body in SSA form. `result_types` is empty where the program does not state them.

    `kernel`: a call of it is one launch on its device, whose intermediate values stay on the chip. It means what its
    body means; only what it costs differs. `facts`: those of every statement in it. `mesh`: what each device of the
    module represents, but for those in `stages`; stated by one function or more, they are the module's.
    """

    name: str
    params: tuple[Param, ...]
    body: tuple[Statement, ...]
    result_types: tuple[Type, ...] | None = None
    kernel: bool = False
    facts: Facts = NO_FACTS
    mesh: Mesh = ()
    stages: Stages = ()
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __hash__(self) -> int:
        if not self._hash:  # computed when asked for: it visits every statement
            object.__setattr__(self, "_hash", hash(self.__reduce__()) or 1)
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        stated = self.result_types, self.kernel, self.facts, self.mesh, self.stages
        return Function, (self.name, self.params, self.body, *stated)

    @property
    def returned(self) -> tuple[Arg, ...]:
        """What the function returns; nothing if its `return` is missing."""
        return self.body[-1].args if self.body and isinstance(self.body[-1], Return) else ()


class Module(ShownModule, OnMeshes):
    """A sequence of functions with distinct names."""

    __slots__ = ("functions",)

    functions: Mapping[str, Function]

    def __init__(self, functions: Iterable[Function] = ()) -> None:
        table: dict[str, Function] = {}
        for function in functions:
            if table.setdefault(function.name, function) is not function:
                raise ValueError(f"two functions are called `@{function.name}`")
        self.functions = table

    def __iter__(self) -> Iterator[Function]:
        return iter(self.functions.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Module) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def replacing(self, *functions: Function) -> Module:
        """The module with functions in the places of those of the same names, or behind all; itself if it has these."""
        new = {function.name: function for function in functions}
        return self if new.items() <= self.functions.items() else Module({**self.functions, **new}.values())

    def entry(self, name: str | None = None) -> Function | None:
        """The function named, else `@main`, else the last one.

        Neither a kernel, if there are others, nor `@main.scatter` or `@main.gather`.
        """
        if name is not None:
            return self.functions.get(name.removeprefix("@"))
        helpers = {f"{f}.{role}" for f in self.functions for role in ("scatter", "gather")}
        candidates = [f for name, f in self.functions.items() if name not in helpers]
        candidates = [f for f in candidates if not f.kernel] or candidates
        return self.functions.get("main") or (candidates[-1] if candidates else None)


def names(args: Iterable[Arg]) -> list[str]:
    """The values that arguments mention, in order, with repetitions. An operand that is left out is none."""
    found: list[str] = []
    for arg in args:
        if isinstance(arg, str) and arg:
            found.append(arg)
        elif isinstance(arg, tuple):
            found += names(arg)
    return found


def results(statement: Statement) -> tuple[str, ...]:
    """The names that a statement defines, with `DISCARD` for `_`."""
    return () if isinstance(statement, Return) else statement.results


def operands(statement: Statement) -> tuple[Arg, ...]:
    """The arguments of a statement; none of one that could not be read."""
    return () if isinstance(statement, Broken) else statement.args
