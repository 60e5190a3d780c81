"""Best-first search with bounds: the best row of the grid, without simulating what bounds exclude.

Plans are simulated in the order of what they probably take (`estimate`). Those are passed over whose lower bound is no
better than the best row that fits in memory, or of which weights and optimizer state alone need more memory than there
is. When nothing is left the best row is that of the whole grid. A search that may simulate no more than some plans
ends before that; `Certificate` says how much better one that it left could be at most.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from distir.diagnostics import ProgramError
from distir.ops import Reject
from distir.search.bounds import Load, PlanBounds, least_memory
from distir.search.plan import Plan
from distir.search.rows import Row
from distir.search.sequential import load_at, sequential
from distir.search.subject import Subject
from distir.search.work import Workers, carry_out
from distir.simulate.simulation import BindError

if TYPE_CHECKING:
    from distir.search.estimate import Estimates

BEAM = 4
"""How many plans are simulated at a time, at least; with more workers, one each."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is known of the plans of a grid at one batch size that were not simulated.

    `simulated`: how many were. `slower`: by their bounds, no faster than the best. `over`: weights and optimizer state
    alone need more memory than there is. `left`: of which nothing is known but bounds. `gap`: how much less time than
    the best one of these could take at most, as a share of it; 0 where none is left, None where none fits.
    """

    batch_size: int | None
    simulated: int
    slower: int
    over: int
    left: int
    gap: float | None

    @property
    def proven(self) -> bool:
        """Whether the best row is the best of the grid."""
        return self.left == 0


def bounded(
    subject: Subject,
    plans: Sequence[Plan],
    batch_sizes: Sequence[int | None],
    workers: Workers,
    known: Sequence[Row] = (),
    budget: int | None = None,
) -> Generator[Row]:
    """The rows that were simulated; without a `budget`, each batch size's best is among these or the `known` ones.

    `budget`: how many plans are simulated at each batch size at most.
    """
    import numpy as np

    workers = workers.settled(min(budget or len(plans), len(plans)), len(subject.entry.body))
    beam = max(BEAM, workers.jobs)
    for size in batch_sizes:
        mine = {row.plan: row for row in known if row.batch_size == size}
        best = min((_latency(row) for row in mine.values()), default=float("inf"))
        bounds = _Limits(subject, size)
        open_plans = [plan for plan in plans if plan not in mine and bounds.fits(plan)]
        least = np.array([bounds.seconds(plan) for plan in open_plans])
        estimates = _estimates(subject, bounds.load, size, open_plans)
        if estimates is not None:
            estimates.learn(mine.values())
        waiting = np.ones(len(open_plans), dtype=bool)
        left = len(open_plans) if budget is None else budget
        while left > 0:
            waiting &= least < best
            scores = np.where(waiting, least if estimates is None else estimates.scores(), np.inf)
            order = (int(i) for i in np.argsort(scores, kind="stable"))
            first = _apart(takewhile(waiting.__getitem__, order), open_plans, min(beam, left))
            if not first:
                break
            waiting[first] = False
            left -= len(first)
            rows = list[Row]()
            for row in carry_out(subject, [(open_plans[i], (size,)) for i in first], workers):
                best = min(best, _latency(row))
                rows.append(row)
                yield row
            if estimates is not None:
                estimates.learn(rows)


def _apart(order: Iterable[int], plans: Sequence[Plan], count: int) -> list[int]:
    """The first of the plans by their numbers, of those of equal degrees the first: they tell most of the others."""
    found: dict[object, int] = {}
    for i in order:
        plan = plans[i]
        found.setdefault((plan.data, plan.tensor, plan.pipeline, plan.context, plan.checkpoint), i)
        if len(found) == count:
            break
    return list(found.values())


def certificate(subject: Subject, plans: Sequence[Plan], size: int | None, rows: Sequence[Row]) -> Certificate:
    """What rows at a batch size prove of all plans of a grid."""
    bounds, done = _Limits(subject, size), {row.plan for row in rows if row.batch_size == size}
    best = min((_latency(row) for row in rows if row.batch_size == size), default=float("inf"))
    over = slower = left = 0
    least = best
    for plan in plans:
        if plan in done:
            continue
        if not bounds.fits(plan):
            over += 1
        elif (bound := bounds.seconds(plan)) >= best:
            slower += 1
        else:
            left += 1
            least = min(least, bound)
    gap = None if best == float("inf") and left else 0.0 if not left else 1 - least / best
    return Certificate(size, len(done), slower, over, left, gap)


class _Limits:
    """Lower bounds of plans at one batch size."""

    def __init__(self, subject: Subject, size: int | None) -> None:
        self.load = load_at(subject, size)
        self.seconds = PlanBounds(self.load, subject.hardware).seconds
        self.weights, self.state = subject.weights_bytes, subject.state_bytes
        self.capacity = max(kind.memory + kind.process.left_out for kind in subject.hardware.kinds.distinct)

    def fits(self, plan: Plan) -> bool:
        return least_memory(plan, self.weights, self.state) <= self.capacity


def _latency(row: Row) -> float:
    return row.latency_s if row.fits and row.latency_s is not None else float("inf")


def _estimates(subject: Subject, load: Load, size: int | None, plans: Sequence[Plan]) -> Estimates | None:
    """None where the program says too little of itself."""
    from distir.search.estimate import Estimates

    if size is None or not load.ops:
        return None
    try:
        return Estimates(sequential(subject, load, size), load, subject.hardware, size, plans)
    except (ProgramError, BindError, Reject):
        return None
