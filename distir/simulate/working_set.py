"""Times a body again, with costs that depend on the program's working set, or at an edge of the uncertainty band.

The use of memory does not depend on the costs of ops. So bodies are built once (by the simulator, a sweep, a revision);
then their memory peaks determine the costs on each device (`distir.cost.Hardware.running`), and each distinct op and
each distinct body is timed again. On a machine whose profile has no figures for caches, the first times stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from distir.cost import Hardware
from distir.simulate.body import Body, distinct
from distir.simulate.effects import Effect, Effects, to_ticks


def timed_on(hardware: Hardware, entry: Body, effects: Effects) -> Body:
    """The body with all that it calls, with the costs of `hardware`; its storages and their bytes stay."""
    there = Effects(effects.domain, hardware, effects.place)
    made: dict[int, Effect | Body] = {}
    for body in distinct(entry):
        for key, step in {id(step): step for step in body.steps}.items():
            if isinstance(step, Effect) and key not in made:
                made[key] = _timed(step, there)
        made[id(body)] = again = _body(body, [None if step is None else made[id(step)] for step in body.steps])
        if body is not entry:
            _ = again.summary
    found = made[id(entry)]
    assert isinstance(found, Body)
    return found


def _timed(effect: Effect, effects: Effects) -> Effect:
    cost = effects.cost(effect.work, effect.devices, effect.op)
    if cost == effect.cost:
        return effect
    taxes = effects.taxes(effect.work, effect.devices, cost)
    return replace(effect, cost=cost, ticks=to_ticks(cost.seconds), taxes=taxes)


def _body(body: Body, steps: Sequence[Effect | Body | None]) -> Body:
    again = body.alike(steps, body.sizes, body.parameters)
    vars(again)["memory"] = body.memory
    return again
