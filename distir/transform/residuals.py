"""Residuals: inner values that forward functions return in addition, for their VJP functions.

A function is extended once, however many VJP functions it has; each call discards (`_`) the residuals it does not use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest

from distir.ir import DISCARD, UNKNOWN, Apply, Call, Function, Module, Statement, results
from distir.ir.builder import FunctionBuilder, namer
from distir.ir.dataflow import definitions
from distir.ir.rewrite import Rewriter
from distir.transform.dead_code import with_results


class Residuals:
    """Collects residuals while VJP functions are written; then writes the extended forward functions."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._inside: dict[str, dict[str, None]] = {}
        """By function: its residuals."""
        self._extras: dict[tuple[str, int], dict[str, str]] = {}
        """By call: names for the callee's residuals."""
        self._places: dict[str, dict[str, tuple[int, str | None]]] = {}
        """By function: the definitions of values that had no name before, and the callee's value for each residual of a
        call."""
        self._named: dict[tuple[str, int], tuple[str, ...]] = {}
        """By statement: names for all its results, including discarded ones."""
        self._names: dict[str, FunctionBuilder] = {}

    def keep(self, function: str, name: str) -> None:
        """Make an inner value of a function a residual."""
        self._inside.setdefault(function, {})[name] = None

    def extra(self, function: str, index: int, call: Call, inside: str) -> str:
        """The caller's name for the callee's residual `inside`."""
        extras = self._extras.setdefault((function, index), {})
        if inside not in extras:
            hint = next((name for name in call.results if name), call.function)
            extras[inside] = fresh = self._namer(function).fresh(f"{hint}.{inside}")
            self._places.setdefault(function, {})[fresh] = index, inside
        return extras[inside]

    def inside_of(self, function: str, index: int, extra: str) -> str:
        """The callee's value whose name in the caller is `extra`."""
        at, inside = self._places[function][extra]
        assert at == index
        assert inside is not None
        return inside

    def all_named(self, function: str, index: int, statement: Apply | Call, least: int = 0) -> Apply | Call:
        """The statement with a name for every result, so that they can be mentioned.

        `least`: the number of results needed, for ops with optional results.
        """
        given = (*statement.results, *[DISCARD] * (least - len(statement.results)))
        if DISCARD not in given:
            return statement
        if (function, index) not in self._named:
            hint = next((name for name in given if name), "unused")
            fresh = self._namer(function).fresh
            named = tuple(name or fresh(f"{hint}.{i}") for i, name in enumerate(given))
            self._named[function, index] = named
            places = self._places.setdefault(function, {})
            places.update((own, (index, None)) for name, own in zip(given, named, strict=True) if not name)
        return with_results(statement, self._named[function, index])

    def names_with(self, function: str, builder: FunctionBuilder) -> None:
        """Take names for unnamed results of a function from `builder`, which writes its body."""
        self._names[function] = builder

    def own_names(self, function: str) -> Iterator[str]:
        """The names given to discarded results of a function."""
        yield from self._places.get(function, ())

    def definition(self, function: Function, name: str) -> tuple[int, Statement]:
        """The definition of one value; see `definitions`."""
        index, _ = self._places.get(function.name, {}).get(name, (None, None))
        if index is None:
            index = definitions(function)[name]
        return index, self._all_named(function, index)

    def _all_named(self, function: Function, index: int) -> Statement:
        """A statement of a function, with names for all its results where they are mentioned."""
        statement, named = function.body[index], self._named.get((function.name, index))
        return with_results(statement, named) if named and isinstance(statement, (Apply, Call)) else statement

    def definitions(self, function: Function) -> Mapping[str, tuple[int, Statement]]:
        """The definition of each value, including discarded results and residuals of calls."""
        found: dict[str, tuple[int, Statement]] = {}
        for index in range(len(function.body)):
            statement = self._all_named(function, index)
            extras = self._extras.get((function.name, index), {}).values()
            for name in (*results(statement), *extras):
                found.setdefault(name, (index, statement))
        return found

    def forward(self, name: str, used: Iterable[str] = ()) -> tuple[Statement, ...]:
        """The body of a function, with residuals named. `used`: values used after it."""
        return self._forward(self.module.functions[name], self._orders(), frozenset(used)).body

    def functions(self, entry: Function, backwards: Mapping[str, Iterable[Function]]) -> Iterator[Function]:
        """The module's functions: the new entry, the others extended by residuals, and their VJP functions."""
        orders = self._orders()
        for function in self.module:
            if function.name == entry.name:
                yield entry
                continue
            yield self._forward(function, orders)
            yield from backwards.get(function.name, ())

    def _forward(
        self, function: Function, orders: Mapping[str, tuple[str, ...]], used: frozenset[str] = frozenset()
    ) -> Function:
        inside, stated = orders.get(function.name, ()), function.result_types
        wanted = {*used, *inside}
        edit = Rewriter(function)
        for index, statement in edit:
            named = self._named.get((function.name, index))
            if named is not None and isinstance(statement, (Apply, Call)):
                statement = with_results(statement, _wanted(statement.results, named, wanted))
            if isinstance(statement, Call) and statement.function in orders:
                statement = self._with_extras(function.name, index, statement, orders[statement.function])
            edit.replace(index, statement)
        if not inside:
            return edit.done()
        edit.returns((*function.returned, *inside))
        return edit.done(result_types=stated if stated is None else (*stated, *(UNKNOWN for _ in inside)))

    def _orders(self) -> dict[str, tuple[str, ...]]:
        """By function: its residuals in the order of definition."""
        return {
            name: tuple(value for value in self.definitions(self.module.functions[name]) if value in inside)
            for name, inside in self._inside.items()
        }

    def _with_extras(self, function: str, index: int, call: Call, inside: tuple[str, ...]) -> Statement:
        """A call with names for the callee's residuals, `_` for unused ones."""
        extras = self._extras.get((function, index), {})
        wanted = tuple(extras.get(name, DISCARD) for name in inside)
        return with_results(call, (*call.results, *wanted))

    def _namer(self, function: str) -> FunctionBuilder:
        if function not in self._names:
            self._names[function] = namer(self.module.functions[function])
        return self._names[function]


def _wanted(results: tuple[str, ...], named: tuple[str, ...], wanted: set[str]) -> tuple[str, ...]:
    """The names of results that had a name or are wanted. Optional results are requested only if wanted."""
    found = [name if own or name in wanted else DISCARD for own, name in zip_longest(results, named, fillvalue=DISCARD)]
    while len(found) > len(results) and found[-1] == DISCARD:
        found.pop()
    return tuple(found)
