"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distir.ir import DISCARD, Apply, Arg, Call, Module, Return, Statement
from distir.transform.dead_code import with_results
from distir.transform.steps import always, step


@step(tries=always("cse"))
def cse(module: Module) -> Module:
    """Common subexpression elimination: replace an op or call by an earlier one with the same operands.

    This undoes recomputation and repeated sends that save memory; apply it before such steps.
    """
    return Module(replace(f, body=_distinct(f.body)) for f in module)


def _distinct(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    kept: list[Statement] = []
    first: dict[object, int] = {}
    same: dict[str, Arg] = {}
    for statement in body:
        statement = with_arguments(statement, same)
        if not isinstance(statement, (Apply, Call)):
            kept.append(statement)
            continue
        earlier = first.setdefault(_key(statement), len(kept))
        if earlier == len(kept):
            kept.append(statement)
        else:
            kept[earlier] = _merged(kept[earlier], statement, same)
    return tuple(kept)


def _key(statement: Apply | Call) -> tuple[object, ...]:
    """Equal for two statements with equal ops, operands, streams and claims."""
    if isinstance(statement, Apply):
        what: tuple[object, ...] = ("op", statement.op, statement.attrs)
    else:
        what = ("call", statement.function)
    return (*what, statement.args, len(statement.results), statement.claims, statement.stream)


def _merged(earlier: Statement, later: Apply | Call, same: dict[str, Arg]) -> Statement:
    """The earlier statement, with names also for those results that only the later one uses."""
    assert isinstance(earlier, (Apply, Call))
    results = tuple(a or b for a, b in zip(earlier.results, later.results, strict=True))
    same.update({b: a for a, b in zip(results, later.results, strict=True) if b not in (DISCARD, a)})
    return with_results(earlier, results)


def with_arguments(statement: Statement, renamed: Mapping[str, Arg]) -> Statement:
    """The statement with its arguments replaced by `renamed`."""
    if not renamed:
        return statement
    match statement:
        case Apply() | Call() | Return():
            return replace(statement, args=substituted(statement.args, renamed))
        case _:
            return statement


def substituted(args: tuple[Arg, ...], renamed: Mapping[str, Arg]) -> tuple[Arg, ...]:
    """Arguments replaced by `renamed`, in lists too."""

    def one(arg: Arg) -> Arg:
        if isinstance(arg, tuple):
            return tuple(map(one, arg))
        return renamed.get(arg, arg) if isinstance(arg, str) else arg

    return tuple(map(one, args))
