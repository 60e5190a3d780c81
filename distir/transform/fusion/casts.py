"""Casts for hand-written kernels: each gets its own copy of the cast, and so reads the operand before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from distir.ir import Apply, Arg, Function, Statement, names, operands, results
from distir.ir.builder import namer

VIEWS = frozenset({"Flatten", "Reshape"})


def with_own_casts(function: Function, ops: Collection[str]) -> Function:
    """The function with a copy of a shared cast, and of the views after it, for each of these ops.

    So the gradient of a loss reads the logits themselves, not a Float32 copy that the loss would have to write.
    """
    makers = {name: s for s in function.body if isinstance(s, Apply) and len(s.results) == 1 for name in s.results}
    users = Counter(name for s in function.body for name in dict.fromkeys(names(operands(s))))
    fresh = namer(function).fresh
    body: list[Statement] = []
    copied: set[str] = set()

    def own(arg: Arg) -> Arg:
        chain: list[Apply] = []
        name = arg
        while isinstance(name, str) and (made := makers.get(name)) is not None and made.op in {"Cast", *VIEWS}:
            chain.append(made)
            name = made.args[0]
            if made.op == "Cast":
                break
        if not chain or chain[-1].op != "Cast" or not isinstance(arg, str) or users[arg] < 2:
            return arg
        for made in reversed(chain):
            copy = fresh(made.results[0])
            copied.update(made.results)
            body.append(replace(made, results=(copy,), args=(name, *made.args[1:]), claims=()))
            name = copy
        return name

    for statement in function.body:
        if isinstance(statement, Apply) and statement.op in ops:
            statement = replace(statement, args=tuple(map(own, statement.args)))
        body.append(statement)
    if len(body) == len(function.body):
        return function
    return replace(function, body=_without(body, copied))


def _without(body: Sequence[Statement], copied: set[str]) -> tuple[Statement, ...]:
    """The statements without the original casts that are no longer used."""
    kept: list[Statement] = []
    used: set[str] = set()
    for statement in reversed(body):
        made = results(statement)
        if made and all(name in copied for name in made) and used.isdisjoint(made):
            continue
        used.update(names(operands(statement)))
        kept.append(statement)
    return tuple(reversed(kept))
