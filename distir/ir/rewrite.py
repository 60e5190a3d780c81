"""How programs are rewritten: an editor of a function's body, and variants of functions; what is known is kept.

Programs are values, so an edit gives another function, and the same one where nothing is changed: what is known of that
one by its identity still holds. Statements that replace others keep the facts of those.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

from distir.ir import types
from distir.ir.builder import FunctionBuilder, namer
from distir.ir.calls import callees_first
from distir.ir.core import (
    Apply,
    Arg,
    Broken,
    Call,
    Function,
    Module,
    Return,
    Statement,
    results,
)
from distir.ir.dataflow import Chains
from distir.ir.dims import Dim
from distir.ir.facts import NO_FACTS, PHASE_ORDER, Facts
from distir.ir.types import Type


class Rewriter:
    """Edits the body of a function, and gives the edited one.

    A statement is known by its number: its index in the given function, and a further one where it was inserted. So
    numbers, those of `dataflow` too, hold while others are inserted and erased. What is written before, behind, or in
    place of a statement has the facts of that which it does not state.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self._statements: list[Statement] = [*function.body]
        self._gone: set[int] = set()
        self._before: dict[int, list[int]] = {}
        self._behind: dict[int, list[int]] = {}
        """By statement: those that were inserted at it."""
        self._paths: dict[int, tuple[int, ...]] = {}
        """By inserted statement: its place, which sorts it among all."""
        self._edited: set[int] = set()

    @cached_property
    def builder(self) -> FunctionBuilder:
        """Writes statements, with names that the function does not have. `written` gives them."""
        return namer(self.function)

    def fresh(self, hint: str) -> str:
        """A name that no value of the function has."""
        return self.builder.fresh(hint)

    def written(self) -> list[Statement]:
        """What the builder has written since this was last asked for."""
        found, self.builder.body = self.builder.body, []
        return found

    # Reading: the statements as they are by now.

    @property
    def end(self) -> int:
        """The number of the `return`."""
        return len(self.function.body) - 1

    def __iter__(self) -> Iterator[tuple[int, Statement]]:
        """The statements in order, with their numbers; without those that are inserted meanwhile."""
        for number in self._numbers():
            if number not in self._gone:
                yield number, self._statements[number]

    def __getitem__(self, number: int) -> Statement:
        """The statement of a number. Raises KeyError for one that was erased."""
        if number in self._gone:
            raise KeyError(f"statement {number} of `@{self.function.name}` is erased")
        return self._statements[number]

    def place(self, value: Arg) -> int | None:
        """The number of the statement that defines a value; None for a parameter, a constant, or a list."""
        return self._chains.made.get(value) if isinstance(value, str) else None

    def maker(self, value: Arg) -> Statement | None:
        """That statement."""
        number = self.place(value)
        return None if number is None else self._statements[number]

    def users(self, value: str) -> list[int]:
        """The numbers of the statements that use a value, in order; of the `return` too."""
        return sorted(self._chains.used.get(value, ()), key=self._path)

    # Writing.

    def before(self, number: int, *statements: Statement, facts: Facts | None = None) -> None:
        """Insert statements before one, behind those inserted there earlier. `facts`: other ones than that one's."""
        self._insert(self._before, -1, number, statements, facts)

    def behind(self, number: int, *statements: Statement, facts: Facts | None = None) -> None:
        """Insert statements behind one, and behind those inserted there earlier; behind -1, at the start."""
        self._insert(self._behind, 1, number, statements, facts)

    def replace(self, number: int, *statements: Statement) -> None:
        """Write statements in place of one, on its stream unless they name another. The last one has its number.

        Without any, it is erased.
        """
        replaced = self._statements[number]
        stream = replaced.stream if isinstance(replaced, (Apply, Call)) else ""
        written = stating(facts_of(replaced), on_stream(stream, statements))
        self.before(number, *written[:-1])
        last = written[-1] if written else None
        if last is not self._statements[number] or number in self._gone:
            self._set(number, last)

    def erase(self, *numbers: int) -> None:
        """Remove statements. Nothing may use their results when all is done."""
        for number in numbers:
            self._set(number, None)

    def rename(self, instead: Mapping[str, Arg], numbers: Iterable[int] | None = None) -> None:
        """Let statements use other values instead of these: those of the numbers, or all that use them."""
        if numbers is None:
            numbers = {user for name in instead for user in self._chains.used.get(name, ())}
        for number in numbers:
            if number not in self._gone:
                self.replace(number, with_operands(self._statements[number], instead))

    def returns(self, args: Iterable[Arg]) -> None:
        """Let the function return these values."""
        self.replace(self.end, Return(tuple(args)))

    def done(self, **changes: Any) -> Function:
        """The function with its edits, and with other fields; the same one where nothing is changed.

        Raises ValueError where something uses a value whose statement was erased.
        """
        if self._edited:
            changes["body"] = tuple([statement for _, statement in self])
        for name in (name for number in self._gone for name in results(self._statements[number])):
            if self._chains.used.get(name) and name not in self._chains.made:
                raise ValueError(f"`%{name}` of `@{self.function.name}` is erased and used")
        return replace(self.function, **changes) if changes else self.function

    def _insert(
        self, at: dict[int, list[int]], side: int, number: int, statements: Sequence[Statement], facts: Facts | None
    ) -> None:
        for each in stating(facts_of(self._statements[number]) if facts is None else facts, statements):
            beside, own = at.setdefault(number, []), len(self._statements)
            self._paths[own] = (*self._path(number)[:-1], side, len(beside), 0)
            self._statements.append(Broken())
            self._set(own, each)
            beside.append(own)

    def _set(self, number: int, statement: Statement | None) -> None:
        before = Broken() if number in self._gone else self._statements[number]
        if statement is None:
            self._gone.add(number)
        else:
            self._gone.discard(number)
            self._statements[number] = statement
        if "_chains" in self.__dict__:
            self._chains.change(number, before, statement or Broken())
        self._edited.add(number)

    def _path(self, number: int) -> tuple[int, ...]:
        return self._paths.get(number) or (number, 0)

    def _numbers(self) -> Iterable[int]:
        if not self._paths:
            return range(len(self._statements))
        order: list[int] = []
        for each in self._behind.get(-1, ()):
            self._around(each, order)
        for number in range(len(self.function.body)):
            if number in self._before or number in self._behind:
                self._around(number, order)
            else:
                order.append(number)
        return order

    def _around(self, number: int, order: list[int]) -> None:
        for each in self._before.get(number, ()):
            self._around(each, order)
        order.append(number)
        for each in self._behind.get(number, ()):
            self._around(each, order)

    @cached_property
    def _chains(self) -> Chains:
        chains, body = Chains.of(self.function), self.function.body
        for number in self._edited:
            before = body[number] if number < len(body) else Broken()
            chains.change(number, before, Broken() if number in self._gone else self._statements[number])
        return chains


def mapped(function: Function, change: Callable[[Statement], Statement]) -> Function:
    """The function with each statement changed; the same one where none is."""
    body = tuple(map(change, function.body))
    same = all(new is old for new, old in zip(body, function.body, strict=True))
    return function if same else replace(function, body=body)


def with_types(function: Function, change: Callable[[Type], Type]) -> Function:
    """The function with the types changed that it states: of parameters, by claims, and of results."""
    params = tuple([p if (t := change(p.type)) is p.type else replace(p, type=t) for p in function.params])
    stated = function.result_types and tuple(map(change, function.result_types))
    return replace(mapped(function, lambda s: claiming(s, change)), params=params, result_types=stated)


def with_sizes(function: Function, sizes: Mapping[str, Dim]) -> Function:
    """The function with named dimensions replaced in the types that it states."""
    return with_types(function, lambda stated: types.substitute(stated, sizes))


def claiming(statement: Statement, change: Callable[[Type], Type]) -> Statement:
    """The statement with the types changed that it claims of its results."""
    claims = statement.claims if isinstance(statement, (Apply, Call)) else ()
    return replace(statement, claims=tuple([claim and change(claim) for claim in claims])) if claims else statement


def bottom_up(module: Module, write: Callable[[Function], Function]) -> Module:
    """The module with each function rewritten, after those that it calls."""
    return module.replacing(*map(write, callees_first(module)))


@dataclass(frozen=True)
class Variants:
    """Functions written of those of a module, once for each key, under names of their own."""

    module: Module
    made: dict[tuple[str, Hashable], Function] = field(default_factory=dict[tuple[str, Hashable], Function])
    """By function and key, callees first."""

    @cached_property
    def _names(self) -> FunctionBuilder:
        return namer(self.module)

    def of(self, name: str, key: Hashable, write: Callable[[Function], Function], hint: str = "") -> Function:
        """The variant of a function for a key, which `write` gives when it is first asked for."""
        if (name, key) not in self.made:
            written = write(self.module.functions[name])
            self.made[name, key] = replace(written, name=self._names.fresh(hint or name))
        return self.made[name, key]

    @property
    def origins(self) -> dict[str, str]:
        """By name of a variant, that of the function of which it was written."""
        return {made.name: name for (name, _), made in self.made.items()}


# Values.


@overload
def with_operands(statement: Apply | Call, renamed: Mapping[str, Arg]) -> Apply | Call: ...


@overload
def with_operands(statement: Statement, renamed: Mapping[str, Arg]) -> Statement: ...


def with_operands(statement: Statement, renamed: Mapping[str, Arg]) -> Statement:
    """The statement with operands substituted, in lists too; itself where none is."""
    if not renamed or isinstance(statement, Broken):
        return statement
    args = substituted(statement.args, renamed)
    return statement if args == statement.args else replace(statement, args=args)


def substituted(args: tuple[Arg, ...], renamed: Mapping[str, Arg]) -> tuple[Arg, ...]:
    """Operands replaced by `renamed`, in lists too."""
    return tuple(
        [
            renamed.get(arg, arg)
            if isinstance(arg, str)
            else substituted(arg, renamed)
            if isinstance(arg, tuple)
            else arg
            for arg in args
        ]
    )


@overload
def with_names(statement: Apply | Call, names: Mapping[str, str]) -> Apply | Call: ...


@overload
def with_names(statement: Statement, names: Mapping[str, str]) -> Statement: ...


def with_names(statement: Statement, names: Mapping[str, str]) -> Statement:
    """The statement with values renamed, operands and results."""
    renamed = with_operands(statement, names)
    made = tuple([names.get(name, name) for name in results(statement)])
    return renamed if made == results(statement) or isinstance(renamed, Return) else replace(renamed, results=made)


# Facts.


def facts_of(statement: Statement) -> Facts:
    """The facts that a statement states."""
    return statement.facts if isinstance(statement, (Apply, Call)) else NO_FACTS


def stated_with(statement: Statement, facts: Facts) -> Statement:
    """The statement with these facts alone."""
    return replace(statement, facts=facts) if isinstance(statement, (Apply, Call)) else statement


def shared(windows: Sequence[Sequence[Facts]]) -> tuple[list[Facts], list[Facts]]:
    """The facts of statements that become one function, and those of its calls.

    `windows`: for each call, the facts of the statements that it replaces. Microbatches and layers count on from those
    of the calls. What differs otherwise is dropped.
    """
    calls = [
        Facts(microbatch=_least(facts.microbatch for facts in own), layer=_least(facts.layer for facts in own))
        for own in windows
    ]
    relative = [[_counted_from(call, facts) for facts in own] for call, own in zip(calls, windows, strict=True)]
    return [_common(column) for column in zip(*relative, strict=True)], calls


def _least(numbers: Iterable[int]) -> int:
    return min((number for number in numbers if number), default=0)


def _counted_from(first: Facts, facts: Facts) -> Facts:
    return replace(
        facts,
        microbatch=facts.microbatch and facts.microbatch - first.microbatch + 1,
        layer=facts.layer and facts.layer - first.layer + 1,
    )


def _common(facts: Sequence[Facts]) -> Facts:
    first = facts[0].stated
    return Facts(**{name: value for name, value in first.items() if all(getattr(f, name) == value for f in facts)})


def stating(facts: Facts, statements: Iterable[Statement]) -> list[Statement]:
    """The statements, with those of `facts` that they lack: for what is written in place of one that states these."""
    return [_filled(statement, facts) for statement in statements] if facts else list(statements)


def on_stream(stream: str, statements: Iterable[Statement]) -> list[Statement]:
    """The statements, on `stream` unless they name another."""

    def moved(statement: Statement) -> Statement:
        is_free = isinstance(statement, (Apply, Call)) and not statement.stream
        return replace(statement, stream=stream) if is_free else statement

    return list(map(moved, statements)) if stream else list(statements)


def common(facts: Iterable[Facts]) -> Facts:
    """The facts of what does as one what was stated with these: those they share, and the latest of their phases."""
    found = list(facts)
    latest = max(found, key=lambda each: PHASE_ORDER[each.phase], default=NO_FACTS).phase
    return replace(_common(found), phase=latest) if found else NO_FACTS


def state_since(body: list[Statement], start: int, facts: Facts) -> None:
    """State `facts` at the statements of `body` from `start` on, where they lack them."""
    if facts:
        body[start:] = stating(facts, body[start:])


def _filled(statement: Statement, facts: Facts) -> Statement:
    if not isinstance(statement, (Apply, Call)):
        return statement
    found = statement.facts.filled(facts)
    return statement if found is statement.facts else replace(statement, facts=found)
