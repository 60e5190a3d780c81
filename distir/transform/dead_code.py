"""Dead code elimination: unused statements, and unused results and parameters of functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from distir.ir import DISCARD, Apply, Call, Function, Module, Return, Statement, names, operands, results
from distir.ir.calls import calls_of
from distir.ir.dataflow import uses
from distir.ir.rewrite import mapped
from distir.transform.entry import entry_names
from distir.transform.steps import always, step

T = TypeVar("T")


@step(after=("inline", "fold"), on_mesh=True, tries=always("dce"))
def dce(module: Module) -> Module:
    """Dead code elimination: remove statements, results and parameters that no result of the entry needs."""
    while True:
        smaller = _unused_ends(Module(map(pruned, module)))
        if smaller == module:
            return module
        module = smaller


def live(statements: Sequence[Statement], wanted: Iterable[str]) -> list[Statement]:
    """The statements on which the values `wanted` depend, with `_` for unused results."""
    needed = set(wanted)
    kept: list[Statement] = []
    for statement in reversed(statements):
        found = results(statement)
        if found and needed.isdisjoint(found):
            continue
        needed.update(names(operands(statement)))
        needed.discard(DISCARD)
        if isinstance(statement, (Apply, Call)):
            statement = with_results(statement, tuple(name if name in needed else DISCARD for name in found))
        kept.append(statement)
    return kept[::-1]


def pruned(function: Function) -> Function:
    """The function without statements on which none of its results depends."""
    return replace(function, body=tuple(live(function.body, ())))


def with_results(statement: Apply | Call, renamed: tuple[str, ...]) -> Apply | Call:
    """The statement with other names for its results, possibly more of them."""
    if renamed == statement.results:
        return statement
    more = len(renamed) - len(statement.results)
    claims = (*statement.claims, *[None] * more) if statement.claims else ()
    return replace(statement, results=renamed, claims=claims)


def _unused_ends(module: Module) -> Module:
    """Functions and calls without results that every call discards, and parameters that the callee does not mention."""
    given = {
        name: {i for _, _, call in calls for i, result in enumerate(call.results) if result != DISCARD}
        for name, calls in calls_of(module).items()
        if name not in entry_names(module)
    }
    taken = {name: _mentioned(module.functions[name]) for name in given}
    ends = {name: (len(module.functions[name].params), len(module.functions[name].returned)) for name in given}
    called = {name for name, counts in ends.items() if counts != (len(taken[name]), len(given[name]))}

    def fewer(function: Function, statement: Statement) -> Statement:
        if isinstance(statement, Return) and function.name in called:
            return Return(_chosen(statement.args, given[function.name]))
        if not isinstance(statement, Call) or statement.function not in called:
            return statement
        args, used = _chosen(statement.args, taken[statement.function]), given[statement.function]
        made, claims = _chosen(statement.results, used), _chosen(statement.claims, used)
        return replace(statement, args=args, results=made, claims=claims)

    def written(function: Function) -> Function:
        changed = mapped(function, partial(fewer, function))
        if function.name not in called:
            return changed
        stated = function.result_types and _chosen(function.result_types, given[function.name])
        return replace(changed, params=_chosen(function.params, taken[function.name]), result_types=stated)

    return Module(map(written, module))


def _mentioned(function: Function) -> set[int]:
    """The parameters that a function mentions."""
    return {i for i, param in enumerate(function.params) if param.name in uses(function)}


def _chosen(items: tuple[T, ...], indices: set[int]) -> tuple[T, ...]:
    return tuple(item for i, item in enumerate(items) if i in indices)
