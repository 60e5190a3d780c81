"""The best of many orders: those of the named schedules, those by simple rules, and what a solver makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from distir.transform.counting import percent
from distir.transform.pipeline.best.bound import lower_bound
from distir.transform.pipeline.best.constraints import solved
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

    @property
    def line(self) -> str:
        """The line that compares the order with the bound."""
        by = 0 if self.span == self.bound else 1 - self.bound / self.span
        shorter = f"more than {percent(by)} shorter" if by else "shorter"
        return f"no order of the passes is {shorter}, by what they are estimated to take"


CLOSE = 0.002
"""The part of the bound by which an order may be too long and still be as good as the best."""


SIMPLE = 400_000
"""How many passes simple rules order together, once there is an order."""


def best_order(problem: OrderProblem, named: Iterable[Order], seconds: float) -> BestOrder:
    """The shortest order that is found, no longer than any of `named` that fits the problem.

    `named` split their backward passes. The solver is asked for `seconds` of a clock that counts its work; with none it
    is not. All limits are of work, so that the order is the same on every machine, at any load. Raises NoSolverError
    without the solver, and ValueError where no order fits: a device has less room than it has stages.
    """
    most = max(1, SIMPLE // (3 * problem.stages * problem.count))
    bound, fitting = lower_bound(problem), tuple(filter(problem.fits, named))
    best = min(((problem.span(order), order) for order in fitting), key=lambda found: found[0], default=None)
    tried = _simple(problem, fitting) if best is None or best[0] > bound * (1 + CLOSE) else ()
    for number, order in enumerate(tried, 1):
        span = problem.span(order)
        if best is None or span < best[0]:
            best = span, order
        if span <= bound * (1 + CLOSE) or number >= most:
            break
    if best is None:
        raise ValueError("no order fits into the room that devices have")
    if best[0] > bound * (1 + CLOSE) and seconds and problem.stages > problem.devices:  # of one stage none is found
        found = repeated(problem, best[0], seconds)
        best = best if found is None else (problem.span(found), found)
    if best[0] > bound * (1 + CLOSE) and seconds:
        best = improved(problem, best, int(bound * (1 + CLOSE)))
    span, order = best
    if span > bound * (1 + CLOSE) and seconds:
        order, bound = solved(problem, order, bound, seconds, CLOSE)
        span = problem.span(order)
    return BestOrder(order, span, bound, fitting)


def _simple(problem: OrderProblem, named: Iterable[Order]) -> Iterator[Order]:
    for order in named:
        yield from filter(problem.fits, filled_orders(order, problem.lengths))
    for rule in rules(problem):
        order = played(problem, rule)
        if order is not None and problem.fits(order):
            yield order
