"""Dead code elimination: unused statements, and unused results and parameters of functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from distir.ir import DISCARD, Apply, Arg, Call, Function, Module, Return, Statement, names, operands, results
from distir.ir.rewrite import mapped
from distir.transform.entry import entry_names
from distir.transform.steps import always, step

T = TypeVar("T")


@step(after=("inline", "fold"), tries=always("dce"))
def dce(module: Module) -> Module:
    """Dead code elimination: remove statements, results and parameters that no result of the entry needs."""
    while True:
        smaller = _unused_parameters(_unused_results(_dead_statements(module)))
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


def _dead_statements(module: Module) -> Module:
    return Module(map(pruned, module))


def _unused_results(module: Module) -> Module:
    """Functions and calls without the results that every call of a function discards."""
    kept: dict[str, set[int]] = {}
    for call in _calls(module):
        used = {i for i, name in enumerate(call.results) if name != DISCARD}
        kept.setdefault(call.function, set()).update(used)
    for name in entry_names(module):
        kept.pop(name, None)
    shrunk = {name: used for name, used in kept.items() if len(used) < len(module.functions[name].returned)}
    if not shrunk:
        return module
    return Module(_with_fewer_results(f, shrunk) for f in module)


def _with_fewer_results(function: Function, kept: dict[str, set[int]]) -> Function:
    def fewer(statement: Statement) -> Statement:
        if isinstance(statement, Return) and function.name in kept:
            return Return(_chosen(statement.args, kept[function.name]))
        if isinstance(statement, Call) and statement.function in kept:
            used = kept[statement.function]
            claims = _chosen(statement.claims, used)
            return replace(statement, results=_chosen(statement.results, used), claims=claims)
        return statement

    stated = function.result_types
    if stated is not None and function.name in kept:
        stated = _chosen(stated, kept[function.name])
    return replace(mapped(function, fewer), result_types=stated)


def _unused_parameters(module: Module) -> Module:
    """Functions and calls without parameters that the callee's body does not mention."""
    called = {call.function for call in _calls(module)} - set(entry_names(module))
    kept: dict[str, set[int]] = {}
    for name in called:
        function = module.functions[name]
        used = {n for statement in function.body for n in names(operands(statement))}
        indices = {i for i, param in enumerate(function.params) if param.name in used}
        if len(indices) < len(function.params):
            kept[name] = indices
    if not kept:
        return module

    def fewer(statement: Statement) -> Statement:
        if isinstance(statement, Call) and statement.function in kept:
            args: tuple[Arg, ...] = _chosen(statement.args, kept[statement.function])
            return replace(statement, args=args)
        return statement

    changed = (mapped(f, fewer) for f in module)
    return Module(replace(f, params=_chosen(f.params, kept[f.name])) if f.name in kept else f for f in changed)


def _calls(module: Module) -> Iterable[Call]:
    return (statement for function in module for statement in function.body if isinstance(statement, Call))


def _chosen(items: tuple[T, ...], indices: set[int]) -> tuple[T, ...]:
    return tuple(item for i, item in enumerate(items) if i in indices)
