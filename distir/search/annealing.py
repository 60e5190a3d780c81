"""Simulated annealing beyond the grid: unequal stages, and any D/T/P/K on the way (the paper's future work, section 8).

A step goes from a plan to a neighbour: a layer moves to an adjacent stage, microbatches double or halve, another axis
has another value, or a factor of two moves from one of D, T, P and CP to another. A worse plan is accepted with
probability exp(-rise/temperature), the rise relative to the latency; the temperature falls geometrically (Kirkpatrick,
Gelatt and Vecchi, "Optimization by Simulated Annealing", Science 1983).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from distir.search.evaluate import evaluate
from distir.search.rows import Row
from distir.search.space import Space
from distir.search.subject import Subject
from distir.search.work import Work
from distir.transform.strategy import AXES, BALANCES, Strategy

Layers = Callable[[Strategy], tuple[int, ...]]
"""How many layers each stage of a plan has; none where there are fewer layers than stages."""

HOT, COLD = 0.1, 0.001
"""Temperatures at the start and the end, relative to the latency."""


@dataclass(frozen=True, slots=True)
class Annealing:
    """The number of steps, and the random seed.

    `pipelines`: whether it only starts from plans that have stages: others have nothing that a grid does not have.
    """

    steps: int = 200
    seed: int = 0
    pipelines: bool = False


def anneal(
    subject: Subject,
    space: Space,
    start: Row,
    layers: Layers,
    settings: Annealing,
    known: dict[Strategy, Row],
    likely: Callable[[Strategy], bool] = lambda _: True,
    work: Work = evaluate,
) -> Generator[Row]:
    """The rows simulated on the way, each plan once.

    `layers`: how many each stage of a plan has. `known`: rows that need not be simulated again. `likely`: whether a
    plan is worth simulating, as far as that is known without it. `work`: makes the rows of a plan.
    """
    draw = random.Random(settings.seed)
    known = {**known, start.plan: start}
    here = start
    cooling = (COLD / HOT) ** (1 / max(1, settings.steps - 1))
    temperature = HOT
    for _ in range(settings.steps):
        options = [
            plan for plan in neighbours(here.plan, space, layers) if _allowed(plan, start, space) and likely(plan)
        ]
        if not options:
            return
        plan = draw.choice(options)
        row = known.get(plan)
        if row is None:
            (row,) = work(subject, plan, [start.batch_size])
            known[plan] = row
            yield row
        if _accepted(here, row, temperature, draw):
            here = row
        temperature *= cooling


def neighbours(plan: Strategy, space: Space, layers: Layers) -> Iterator[Strategy]:
    """The plans one step away, on the same number of devices. `layers`: how many each stage of a plan has."""
    yield from _other_stages(plan, layers)
    counts = space.counts(plan.pipeline)
    for count in (plan.microbatches // 2, plan.microbatches * 2):
        if min(counts) <= count <= max(counts):
            yield replace(plan, microbatches=count)
    for at, axis in enumerate(AXES):
        if axis.name not in ("microbatches", "stages"):
            for value in axis.tried(space, plan):
                if value != getattr(plan, axis.name):
                    yield settled(replace(plan, **{axis.name: value}), space, at + 1)
    degrees = {"data": plan.data, "tensor": plan.tensor, "pipeline": plan.pipeline}
    degrees |= {"context": plan.context} if len(space.context) > 1 else {}
    for one, degree in degrees.items():
        for other in [name for name in degrees if name != one]:  # in order, for the seed to determine the path
            if degree % 2 == 0:
                moved = {**degrees, one: degree // 2, other: degrees[other] * 2}
                counts = space.counts(moved["pipeline"])
                count = min(max(plan.microbatches, min(counts)), max(counts))
                experts = plan.experts if moved["data"] % plan.experts == 0 else 1
                yield settled(replace(plan, **moved, microbatches=count, experts=experts, stages=()), space, 0)


def settled(plan: Strategy, space: Space, first: int) -> Strategy:
    """The plan, where axes from the first on that do not admit their value have the first value that they admit."""
    for axis in AXES[first:]:
        if axis.name not in ("microbatches", "experts"):
            values = axis.tried(space, plan)
            own = getattr(plan, axis.name)
            if axis.name == "zero" and own not in (0, *values):  # another stage may represent it
                plan = replace(plan, zero=max((stage for stage in values if stage < own), default=0))
            elif axis.name != "zero" and own not in values:
                plan = replace(plan, **{axis.name: values[0]})
    return plan if plan.data > 1 else replace(plan, zero=0, shard=0)


def equal_stages(layers: int, stages: int) -> tuple[int, ...]:
    """The number of layers of each stage under `balance=uniform`."""
    starts = [-(-stage * layers // stages) for stage in range(stages + 1)]
    return tuple(b - a for a, b in pairwise(starts))


def _other_stages(plan: Strategy, layers: Layers) -> Iterator[Strategy]:
    """The plans of which one layer is in an adjacent stage."""
    sizes = plan.stages or (layers(plan) if plan.pipeline > 1 else ())
    uniform = equal_stages(sum(sizes), len(sizes)) if sizes else ()
    for i, size in enumerate(sizes):
        for j in (i - 1, i + 1):
            if 0 <= j < len(sizes) and size > 1:
                moved = tuple(n + (k == j) - (k == i) for k, n in enumerate(sizes))
                if min(moved) > 0:  # as `balance=2,3` wants them
                    yield replace(plan, stages=() if moved == uniform else moved, balance=BALANCES[0])


def _allowed(plan: Strategy, start: Row, space: Space) -> bool:
    within = space.holds(plan) and plan.context in space.context
    return within and (start.batch_size is None or space.allows(start.batch_size, plan))


def _accepted(here: Row, row: Row, temperature: float, draw: random.Random) -> bool:
    if not row.fits or row.latency_s is None:
        return False
    if here.latency_s is None or row.latency_s <= here.latency_s:
        return True
    rise = (row.latency_s - here.latency_s) / here.latency_s
    return draw.random() < math.exp(-rise / temperature)
