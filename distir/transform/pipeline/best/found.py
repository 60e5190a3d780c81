"""The best of many orders: those of the named schedules, those by simple rules, and what a solver makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from distir.transform.pipeline.best.bound import lower_bound
from distir.transform.pipeline.best.constraints import solved
from distir.transform.pipeline.best.deadline import Deadline
from distir.transform.pipeline.best.periodic import repeated
from distir.transform.pipeline.best.playing import improved, played, rules
from distir.transform.pipeline.best.problem import OrderProblem
from distir.transform.pipeline.filling import filled_orders
from distir.transform.pipeline.passes import Order


@dataclass(frozen=True, slots=True)
class BestOrder:
    """An order, how long it takes, and how long any order takes at least."""

    order: Order
    span: int
    bound: int
    named: tuple[Order, ...] = ()
    """The other orders that fit, no shorter: where a device waits to send, one of them may be."""

    @property
    def gap(self) -> float:
        """By what part of the bound the order may be too long."""
        return self.span / self.bound - 1 if self.bound else 0.0


CLOSE = 0.002
"""The part of the bound by which an order may be too long and still be as good as the best."""


LIMIT_S = 8.0
"""Of wall time, for all of a search: where a machine is slow, or busy with other things, results may differ by it."""


def best_order(
    problem: OrderProblem, named: Iterable[Order], seconds: float, deadline: Deadline | None = None
) -> BestOrder:
    """The shortest order that is found, no longer than any of `named` that fits the problem.

    `named` split their backward passes. The solver is asked for `seconds` of a clock that counts its work; with none it
    is not. Nothing is tried after the `deadline`, by default in `LIMIT_S`, once there is an order. Raises NoSolverError
    without the solver, and ValueError where no order fits: a device has less room than it has stages.
    """
    deadline = deadline or Deadline(LIMIT_S)
    bound, fitting = lower_bound(problem), tuple(filter(problem.fits, named))
    best = min(((problem.span(order), order) for order in fitting), key=lambda found: found[0], default=None)
    for order in _simple(problem, fitting) if best is None or best[0] > bound * (1 + CLOSE) else ():
        span = problem.span(order)
        if best is None or span < best[0]:
            best = span, order
        if span <= bound * (1 + CLOSE) or not deadline.left:
            break
    if best is None:
        raise ValueError("no order fits into the room that devices have")
    if best[0] > bound * (1 + CLOSE) and seconds and problem.stages > problem.devices:  # of one stage none is found
        found = repeated(problem, best[0], seconds, deadline)
        best = best if found is None else (problem.span(found), found)
    if best[0] > bound * (1 + CLOSE) and seconds:
        best = improved(problem, best, int(bound * (1 + CLOSE)), deadline)
    span, order = best
    if span > bound * (1 + CLOSE) and seconds:
        order, bound = solved(problem, order, bound, seconds, CLOSE, deadline)
        span = problem.span(order)
    return BestOrder(order, span, bound, fitting)


def _simple(problem: OrderProblem, named: Iterable[Order]) -> Iterator[Order]:
    for order in named:
        yield from filter(problem.fits, filled_orders(order, problem.lengths))
    for rule in rules(problem):
        order = played(problem, rule)
        if order is not None and problem.fits(order):
            yield order
