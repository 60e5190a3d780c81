"""Inlines calls of one function on several devices, interleaved statement by statement.

So collectives can be placed between two statements of what was a function of one device, and each device reaches its
statements when its peers do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

from distir.ir import Apply, Arg, Call, Function, Module, Statement, names, operands, results
from distir.ir.builder import namer
from distir.ir.rewrite import with_operands
from distir.transform.inline import inlined_call


def interleaved_calls(
    module: Module, function: Function, calls: Collection[int], moves: Callable[[Apply], bool] = lambda statement: False
) -> Function:
    """The function with the calls at these indices of its body inlined and interleaved.

    Of consecutive calls of one function that do not depend on each other, the first statements come first, then the
    second ones, and so on. `moves` says which statements between two such calls may move before the first, if they do
    not use the calls' results.
    """
    if not calls:
        return function
    builder = namer(function)
    body: list[Statement] = []
    instead: dict[str, Arg] = {}
    index = 0
    while index < len(function.body):
        run, before = _run(function.body, index, calls, moves)
        if not run:
            body.append(with_operands(function.body[index], instead))
            index += 1
            continue
        body += [with_operands(statement, instead) for statement in before]
        columns: list[list[Statement]] = []
        for call in run:
            given = with_operands(call, instead)
            assert isinstance(given, Call)
            column, replaced = inlined_call(module, function, given, builder)
            columns.append(column)
            instead |= replaced
        rows = chain.from_iterable(zip_longest(*columns))
        body += [statement for statement in rows if statement is not None]
        index += len(run) + len(before)
    return replace(function, body=tuple(body))


def _run(
    body: Sequence[Statement], first: int, calls: Collection[int], moves: Callable[[Apply], bool]
) -> tuple[list[Call], list[Apply]]:
    """The calls from a statement on that are interleaved, and the statements between them that move before them."""
    run: list[Call] = []
    before: list[Apply] = []
    waiting: list[Apply] = []
    made: set[str] = set()
    for index in range(first, len(body)):
        statement = body[index]
        if not made.isdisjoint(names(operands(statement))):
            break
        if isinstance(statement, Call) and index in calls:
            if run and statement.function != run[0].function:
                break
            run.append(statement)
            before += waiting
            waiting = []
            made.update(results(statement))
        elif run and isinstance(statement, Apply) and moves(statement):
            waiting.append(statement)
        else:
            break
    return run, before
