"""What a statement on a mesh becomes on a device, as one statement: where it is several, a call of what they do.

So the program of a device has a statement for each of the text's, in the same place: what is simulated of it is shown
there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from distir.ir import DISCARD, Call, Function, Param, Return, Statement, operands, results
from distir.ir import names as names_of
from distir.ir.counted import name_of_parts
from distir.ir.rewrite import facts_of
from distir.ir.types import UNKNOWN


def in_lines(function: Function, starts: Sequence[int] | None) -> Iterator[Function]:
    """The function with one statement from each start to the next, and the functions that these call.

    As it is without starts: it was written for a kernel, which is a line of its callers.
    """
    if starts is None:
        yield function
        return
    last = len(function.body) - 1
    used: set[str] = set(names_of(operands(function.body[last])))
    body: list[Statement] = [function.body[last]]
    for start, end in reversed([*zip(starts, [*starts[1:], last], strict=True)]):
        run = function.body[start:end]
        if len(run) == 1:
            body.append(run[0])
        else:
            call, made = _called(run, used)
            yield made
            body.append(call)
        used.update(name for statement in run for name in names_of(operands(statement)))
    yield replace(function, body=tuple(reversed(body)))


def _called(run: Sequence[Statement], used: set[str]) -> tuple[Call, Function]:
    """Some statements as a call of a function; `used`: the values that later ones use."""
    made = [name for statement in run for name in results(statement) if name != DISCARD]
    given = dict.fromkeys(name for statement in run for name in names_of(operands(statement)))
    args = tuple(name for name in given if name not in made)
    returned = tuple(name for name in made if name in used)
    body = (*run, Return(returned))
    params = tuple(Param(name, UNKNOWN) for name in args)
    function = Function(name_of_parts(params, body), params, body)
    facts = facts_of(run[0])
    return Call(returned, function.name, args, facts=facts), function
