"""Drops the inner values of runs of blocks, and recomputes them where the backward pass needs them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from distir.ir import DISCARD, NO_FACTS, Apply, Arg, Call, Function, names, operands
from distir.ir.dataflow import needed, uses
from distir.ir.rewrite import Rewriter, with_operands
from distir.transform.checkpoint.blocks import TrainingStep
from distir.transform.dead_code import pruned


def recomputed(entry: Function, turn: int, inside: Mapping[str, Apply | Call]) -> Function | None:
    """The entry function with the values `inside` dropped before statement `turn`, and recomputed as late as possible.

    `inside`: by value, the statement that computes it. None if the backward pass uses none of them.
    """
    edit, again = Rewriter(entry), dict[str, Arg]()
    for index, statement in edit:
        if index < turn:
            continue
        for name in needed(names(operands(statement)), inside, again):
            made = with_operands(inside[name], again)
            own = {n: edit.fresh(f"{n}_again") for n in made.results if n in inside}
            facts = replace(made.facts, phase="backward") if made.facts.phase else made.facts
            given = tuple([own.get(n, DISCARD) for n in made.results])
            edit.before(index, replace(made, results=given, facts=facts), facts=NO_FACTS)
            again |= own
        edit.replace(index, with_operands(statement, again))
    return pruned(edit.done()) if again else None


def inside_runs(
    entry: Function, step: TrainingStep, count: int, layers: int, host: Container[str]
) -> dict[str, Apply | Call]:
    """The values used within their run of `count` blocks alone before the backward pass, and their statements.

    For the first `layers` blocks. Values on the `host` take no device memory and are left out, as are values passed
    from one run to the next.
    """
    run_of = {i: number // count for number, block in enumerate(step.blocks[:layers]) for i in block}
    used, outside = uses(entry), {*names(entry.returned), *step.prepared}

    def is_inside(name: str, run: int) -> bool:
        users = (user for user in used.get(name, ()) if user < step.turn)
        return name not in outside and name not in host and all(run_of.get(user) == run for user in users)

    makers = ((entry.body[index], run) for index, run in run_of.items() if index < step.turn)
    return {
        name: statement
        for statement, run in makers
        if isinstance(statement, (Apply, Call))
        for name in statement.results
        if name != DISCARD and is_inside(name, run)
    }
