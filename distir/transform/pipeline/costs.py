"""How long the statements of a sequential program take, estimated: for stages that take equally long."""

from __future__ import annotations

from collections.abc import Callable

from distir.cost import load
from distir.ir import DISCARD, results, types
from distir.simulate.body import Body
from distir.simulate.effects import Effect
from distir.simulate.simulation import arguments, plan
from distir.transform.pipeline.reading import Reading

ASSUMED_SIZE = 64
"""Stands for a named dimension: which layers are slow depends little on the size of the batch."""


def statement_costs(reading: Reading) -> Callable[[int], float]:
    """Seconds that a statement of the reading takes on the default hardware, by its number.

    Raises ProgramError where the cost of an op cannot be told.
    """
    named = frozenset[str]().union(*(types.dim_names(p.type) for p in reading.entry.params))
    bind = dict.fromkeys(named, ASSUMED_SIZE)
    instance = reading.checker.entered(reading.entry, arguments(reading.entry, bind))
    body = plan(reading.module, reading.checker, instance, load()).body
    known: dict[int, float] = {}

    def seconds(step: Effect | Body | None) -> float:
        if isinstance(step, Body):
            if id(step) not in known:
                known[id(step)] = sum(map(seconds, step.steps))
            return known[id(step)]
        return 0.0 if step is None else step.cost.seconds

    by_result: dict[str, float] = {}
    for statement, step in zip(body.instance.function.body, body.steps, strict=True):
        by_result.update(dict.fromkeys(results(statement), seconds(step)))
    by_result.pop(DISCARD, None)

    def cost(number: int) -> float:
        statement, _ = reading.statements[number]
        return max((by_result.get(name, 0.0) for name in statement.results), default=0.0)

    return cost
