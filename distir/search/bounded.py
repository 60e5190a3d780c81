"""Best-first search with bounds: the best row of the grid, without simulating what bounds exclude.

Plans are simulated in the order of what they probably take (`estimate`). Those are passed over whose lower bound is no
better than the best row that fits in memory, or of which weights and optimizer state alone need more memory than there
is. There are two bounds: one of products alone (`bounds`), which costs next to nothing, and one for which a stage is
simulated by itself (`stages`), which is asked for when the first no longer tells. When nothing is left the best row is
that of the whole grid. A search that may simulate no more than some plans ends before that; `Certificate` says how much
better one that it left could be at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from distir.diagnostics import ProgramError
from distir.ir.collection import paused_collection
from distir.ops import Reject
from distir.search.bounds import MEMORY_FIELDS, TIME_FIELDS, Load, PlanBounds, least_memory
from distir.search.evaluate import evaluate
from distir.search.plans import Plans
from distir.search.rows import Row
from distir.search.sequential import load_at, sequential
from distir.search.stages import StageBounds, at_best, stage_of
from distir.search.subject import Subject
from distir.search.work import Work, Workers, carry_out
from distir.simulate.simulation import BindError
from distir.transform.strategy import Strategy

if TYPE_CHECKING:
    from distir.search.estimate import Estimates

np: Any = import_module("numpy")

Stages = dict[int | None, StageBounds]
"""What a search has learnt of stages, by batch size."""

BEAM = 4
"""How many plans are simulated at a time, at least; with more workers, one each. As many stages, whatever workers."""

WORTH = 4
"""One stage may be simulated by itself for this many plans of the budget, to exclude plans by its bound."""

STAGES = 24
"""How many stages a search with a budget simulates by themselves at most, or as many as plans: one costs far less."""

FAMILIES = 2
"""One in `FAMILIES` of these stages may be of different families, before those that are probably the fastest."""

EFFORT = 256
"""The effort of a plan that counts as one of a budget: longer pipelines count as several."""

PATIENCE = 4
"""A search ends after this fraction (one in `PATIENCE`) of its budget without a faster plan."""

FASTER = 0.001
"""By how much a row must be faster to count as such, as a share."""

STATEMENTS = 24_000
"""The default budget of a search of training: plans times statements of the training step."""

FEWEST, MOST = 6, 64
"""How many plans that is at least, and at most."""

APART = 16
"""How many configurations of a grid, whose families share most of their work, take as long as one that is apart."""

SEARCHED = 256
"""How many plans, those with the least bounds, are searched for stages to simulate together."""

BEHIND = 1e3
"""By what the estimate of a plan is multiplied that would not fit without a framework: it comes last."""

PROOFS = 64
"""How many stages are simulated by themselves at the end of a search without a budget, at most."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is proved about the plans of a grid at one batch size that were not simulated.

    `simulated`: how many were, `beyond` of them others than those of the grid. `slower`: by their bounds, no faster
    than the best. `over`: weights and optimizer state alone need more memory than there is. `refused`: a stage of them
    cannot be, by itself. `left`: of which nothing is known but bounds. `gap`: how much less time than the best one of
    these could take at most, as a share of it; 0 where none is left, None where none fits.
    """

    batch_size: int | None
    simulated: int
    beyond: int
    slower: int
    over: int
    refused: int
    left: int
    gap: float | None

    @property
    def proven(self) -> bool:
        """Whether the best row is the best of the grid."""
        return self.left == 0


def bounded(
    subject: Subject,
    plans: Plans,
    batch_sizes: Sequence[int | None],
    workers: Workers,
    known: Sequence[Row] = (),
    budget: int | None = None,
    *,
    stages: Stages | None = None,
    work: Callable[[float], Work] = lambda _: evaluate,
    runs: Callable[[Strategy], bool] | None = None,
) -> Generator[Row]:
    """The rows that were simulated; without a `budget`, each batch size's best is among these or the `known` ones.

    `budget`: how many plans are simulated at each batch size at most; fewer of long pipelines, and where a quarter of
    them, one after the other, bring nothing faster. `stages`: filled with what the search learns of stages. `work`:
    what makes the rows of a plan, where the best one so far takes so many seconds. `runs`: whether the framework that
    this is of runs a plan. Bounds are of ideal programs: with a framework they say what is tried first, and exclude
    nothing.
    """
    workers = settled(workers, subject, len(plans), budget)
    beam = max(BEAM, workers.jobs)
    for size in batch_sizes:
        mine = {row.plan: row for row in known if row.batch_size == size}
        best = min((_latency(row) for row in mine.values()), default=math.inf)
        bounds = _Limits(subject, size, plans, {} if stages is None else stages)
        open_plans = plans.take((bounds.all_fit(plans) | (runs is not None)) & ~_among(plans, mine))
        behind = np.where(bounds.all_fit(open_plans), 1.0, BEHIND)
        least = bounds.all_seconds(open_plans)
        estimates = _estimates(subject, bounds.load, size, open_plans)
        if estimates is not None:
            estimates.learn(mine.values())
        waiting = np.ones(len(open_plans), dtype=bool)
        left = len(open_plans) if budget is None else budget
        most = bounds.stages.simulated + max(1, len(open_plans) // WORTH if budget is None else max(STAGES, budget))
        patience, in_vain, reached = math.inf if budget is None else max(beam, budget // PATIENCE), 0, best
        while left > 0 and in_vain < patience:
            if budget is not None and estimates is not None:
                least = _with_stages(bounds, estimates, open_plans, waiting, least, best, most, workers)
            if runs is None:
                waiting &= least < best
            scores = behind * _scores(waiting, least, estimates)
            first: list[int] = []
            for i in takewhile(waiting.__getitem__, map(int, np.argsort(scores, kind="stable"))):
                plan: Strategy = open_plans[int(i)]
                if runs is not None:
                    waiting[i] = runs(plan)
                elif budget is None:
                    least[i] = bounds.closer(plan, most)
                    waiting[i] = least[i] < best
                if waiting[i] and _is_apart(i, first, open_plans):
                    first.append(i)
                    left -= 1 if budget is None else effort(plan)
                    if len(first) == beam or left <= 0:
                        break
            if not first:
                break
            waiting[first] = False
            rows = list[Row]()
            for row in carry_out(subject, [(open_plans[i], (size,)) for i in first], workers, work(best)):
                best = min(best, _latency(row))
                rows.append(row)
                yield row
            if best < (1 - FASTER) * reached or best == math.inf:
                in_vain, reached = 0, best
            else:
                in_vain += len(rows)
            if estimates is not None:
                estimates.learn(rows)


def _scores(waiting: Any, least: Any, estimates: Estimates | None) -> Any:
    """The order in which plans are simulated: by their probable seconds; infinite where they need not be."""
    return np.where(waiting, least if estimates is None else np.maximum(least, estimates.scores()), np.inf)


def _with_stages(
    bounds: _Limits,
    estimates: Estimates,
    plans: Plans,
    waiting: Any,
    least: Any,
    best: float,
    most: int,
    workers: Workers,
) -> Any:
    """The bounds of plans, where stages of those that are probably the fastest are simulated by themselves."""
    stages = bounds.stages
    while stages.simulated < most:
        scores = _scores(waiting & (least < best), least, estimates)
        if not stages.simulated:
            front, count = estimates.of_each_family(scores), most // FAMILIES
        else:
            near = np.argpartition(scores, min(SEARCHED, len(scores) - 1))[:SEARCHED]
            near = near[np.argsort(scores[near], kind="stable")]
            front, count = near[np.isfinite(scores[near])].tolist(), BEAM
        few = estimates.unknown(front, stages, min(count, most - stages.simulated))
        if not few:
            break
        stages.simulate(few, workers)
        estimates.learn_stages(stages)
        least = np.maximum(least, stages.all_known(plans))
    return least


def _among(plans: Plans, some: Iterable[Strategy]) -> Any:
    """By plan, whether it is one of these."""
    found = np.zeros(len(plans), dtype=bool)
    found[[at for plan in some if (at := plans.find(plan)) is not None]] = True
    return found


def _is_apart(one: int, others: Sequence[int], plans: Plans) -> bool:
    """Whether a plan is of other degrees than those chosen already: then it tells most of the rest."""

    def degrees(i: int) -> tuple[object, ...]:
        plan = plans[i]
        return plan.data, plan.tensor, plan.pipeline, plan.context, plan.checkpoint

    return all(degrees(one) != degrees(other) for other in others)


def usual_budget(subject: Subject) -> int:
    """How many plans a search of a training step simulates where that is not stated: fewer of longer programs."""
    return min(max(STATEMENTS // len(subject.entry.body), FEWEST), MOST)


def effort(plan: Strategy) -> int:
    """As how many plans of a budget this one counts."""
    return max(1, round(plan.effort / EFFORT))


def settled(workers: Workers, subject: Subject, plans: int, budget: int | None) -> Workers:
    """The same with the number of processes for a best-first search of so many plans.

    Plans that are chosen to be apart share little: each takes as long as many of a grid do.
    """
    configurations = plans if budget is None else APART * min(budget, plans)
    return workers.settled(configurations, len(subject.entry.body))


def certificate(
    subject: Subject,
    plans: Plans,
    size: int | None,
    rows: Sequence[Row],
    budget: int | None,
    *,
    stages: Stages,
    workers: Workers,
) -> Certificate:
    """What rows at a batch size prove about all plans of a grid.

    `budget`: that of the search. As many stages are simulated by themselves at most, beside those of the search.
    `stages`: what the search learnt of them.
    """
    done = {row.plan for row in rows if row.batch_size == size}
    best = min((_latency(row) for row in rows if row.batch_size == size), default=float("inf"))
    of_the_grid = _among(plans, done)
    others = plans.take(~of_the_grid)
    bounds = _Limits(subject, size, others, stages)
    fitting = others.take(bounds.all_fit(others))
    most = bounds.stages.simulated + PROOFS if budget is None else budget + max(STAGES, budget) if budget else 0
    for variant in (at_best, stage_of):
        _raise_least(fitting, best, variant, bounds, most, workers)
    seconds = bounds.all_seconds(fitting)
    left = int((seconds < best).sum())
    over, refused = len(others) - len(fitting), int((seconds == math.inf).sum())
    slower = len(fitting) - left - refused
    gap = None if best == float("inf") and left else 0.0 if not left else 1 - float(seconds.min()) / best
    beyond = len(done) - int(of_the_grid.sum())
    return Certificate(size, len(done), beyond, slower, over, refused, left, gap)


def _raise_least(
    plans: Plans, best: float, variant: Callable[[Strategy], Strategy], bounds: _Limits, most: int, workers: Workers
) -> None:
    """Make the least bound of plans that may be faster than the best larger as long as it can be: it is what counts.

    `variant`: the stage that bounds a plan. `most`: how many stages may have been simulated in all.
    """
    stages = bounds.stages
    while stages.simulated < most:
        seconds = bounds.all_seconds(plans)
        order = np.argsort(seconds, kind="stable")[:SEARCHED]
        first = [*plans.take(order[seconds[order] < best])]
        if not first or not stages.lacks(first[0], variant(first[0])):
            break
        unknown = dict.fromkeys(variant(plan) for plan in first if stages.lacks(plan, variant(plan)))
        stages.simulate([*unknown][: min(BEAM, most - stages.simulated)], workers)


def may_be(subject: Subject, size: int | None, most: float, stages: Stages) -> Callable[[Strategy], bool]:
    """Whether a plan may fit into the memory and take less than so many seconds, as far as that is known."""
    bounds = _Limits(subject, size, (), stages)
    return lambda plan: bounds.fits(plan) and bounds.seconds(plan) < most


class _Limits:
    """Lower bounds of plans at one batch size."""

    def __init__(self, subject: Subject, size: int | None, plans: Iterable[Strategy], stages: Stages) -> None:
        self.load = load_at(subject, size)
        self.least = PlanBounds(self.load, subject.hardware).seconds
        self.stages = stages.setdefault(size, StageBounds(subject, size))
        self.stages.expect(plans)
        self.weights, self.state = subject.weights_bytes, subject.state_bytes
        self.capacity = max(kind.memory + kind.process.left_out for kind in subject.hardware.kinds.distinct)

    def fits(self, plan: Strategy) -> bool:
        return self._least_memory(plan) <= self.capacity

    def all_fit(self, plans: Plans) -> Any:
        """Of each plan, whether it fits."""
        return plans.found(self._least_memory, *MEMORY_FIELDS) <= self.capacity

    def _least_memory(self, plan: Strategy) -> float:
        return least_memory(plan, self.weights, self.state)

    def seconds(self, plan: Strategy) -> float:
        """The bound without simulating a stage."""
        return max(self.least(plan), self.stages.known(plan))

    def all_seconds(self, plans: Plans) -> Any:
        """Of each plan, the bound without simulating a stage."""
        return np.maximum(plans.found(self.least, *TIME_FIELDS), self.stages.all_known(plans))

    def closer(self, plan: Strategy, most: int) -> float:
        """The bound with a simulated stage, within the limit of simulated stages."""
        if self.stages.simulated >= most:
            return self.seconds(plan)
        return max(self.least(plan), self.stages.at_best(plan))


def _latency(row: Row) -> float:
    return row.latency_s if row.fits and row.latency_s is not None else float("inf")


def _estimates(subject: Subject, load: Load, size: int | None, plans: Plans) -> Estimates | None:
    """None where there is no plan, or the program says too little of itself."""
    from distir.search.estimate import Estimates

    if size is None or not load.ops or not plans:
        return None
    try:
        with paused_collection():
            return Estimates(sequential(subject, load, size), load, subject.hardware, size, plans)
    except (ProgramError, BindError, Reject):
        return None
