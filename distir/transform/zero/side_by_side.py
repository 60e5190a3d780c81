"""Calls that replicas make of one function, each by itself, written out statement by statement for all of them.

So that what replicas exchange can stand between two statements of what was a function of one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, zip_longest

from distir.ir import Arg, Call, Function, Module, Statement, names, operands, results
from distir.ir.builder import FunctionBuilder, namer
from distir.transform.common_subexpressions import with_arguments
from distir.transform.inline import written_out


def written_side_by_side(module: Module, functions: Collection[str]) -> Module:
    """The program without these functions.

    Where several calls of one follow each other, their first statements come first, then their second ones, and so on.
    """
    kept = [function for function in module if function.name not in functions]
    return Module(_written(module, function, functions) for function in kept)


def _written(module: Module, function: Function, chosen: Collection[str]) -> Function:
    if not any(isinstance(s, Call) and s.function in chosen for s in function.body):
        return function
    builder = namer(function)
    body: list[Statement] = []
    instead: dict[str, Arg] = {}
    for calls in _runs(function.body, chosen):
        run = [with_arguments(statement, instead) for statement in calls]
        called = [statement for statement in run if isinstance(statement, Call) and statement.function in chosen]
        body += _together(module, called, builder, instead) if called else run
    return replace(function, body=tuple(body))


def _runs(body: Sequence[Statement], chosen: Collection[str]) -> Iterator[list[Statement]]:
    """Statements in a row that call one of the functions, and do not need each other; other statements alone."""
    for index, group in groupby(
        enumerate(body), lambda at: s.function if isinstance(s := at[1], Call) and s.function in chosen else at[0]
    ):
        if isinstance(index, int):
            yield [statement for _, statement in group]
            continue
        run: list[Statement] = []
        made: set[str] = set()
        for _, statement in group:
            if not made.isdisjoint(names(operands(statement))):
                yield run
                run, made = [], set()
            run.append(statement)
            made.update(results(statement))
        yield run


def _together(
    module: Module, calls: Sequence[Call], builder: FunctionBuilder, instead: dict[str, Arg]
) -> Iterator[Statement]:
    bodies: list[list[Statement]] = []
    for call in calls:
        written, replaced = written_out(module, call, builder)
        bodies.append(written)
        instead |= replaced
    rows = zip_longest(*bodies)
    return (statement for statement in chain.from_iterable(rows) if statement is not None)
