"""The same as a problem of constraint programming, for the CP-SAT solver of OR-tools (Perron and Didier).

Microbatches are alike, so that an order is no worse if each stage takes them in their order: of two that change places
somewhere, each may do from there on what the other one did.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from distir.ir.errors import DistirError
from distir.transform.pipeline.best.bound import held_at_most
from distir.transform.pipeline.best.problem import OrderProblem
from distir.transform.pipeline.passes import Order, Pass, Task, needs

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, CpSolver, IntervalVar, IntVar


LARGEST = 6_000
"""The solver is not asked for an order of more passes: it gets nowhere before its work is done."""


class NoSolverError(DistirError):
    """OR-tools is not installed."""


def solved(problem: OrderProblem, first: Order, bound: int, seconds: float, close: float) -> tuple[Order, int]:
    """An order no longer than `first`, and a lower bound: the best that are found, or `close` by a part of the bound.

    `seconds` are of a clock that counts work and not time. Raises NoSolverError.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise NoSolverError from None
    if 3 * problem.stages * problem.count > LARGEST:
        return first, bound
    model = cp_model.CpModel()
    hint = problem.starts(first)
    longest = problem.span(first)
    start = {task: model.new_int_var(0, longest, str(task)) for task in problem.tasks()}
    interval = {t: model.new_fixed_size_interval_var(start[t], problem.length(t), str(t)) for t in start}
    for tasks in first:
        model.add_no_overlap([interval[task] for task in tasks])
    for task in start:
        for need in needs(task, problem.stages):
            model.add(start[task] >= start[need] + problem.ready(task, need, problem.length(need)))
    for stage in range(problem.stages):
        for kind in Pass:
            for a, b in pairwise(Task(stage, k, kind) for k in range(problem.count)):
                model.add(start[b] >= start[a] + problem.length(a))
    span = model.new_int_var(bound, longest, "span")
    for device, stages in enumerate(problem.own):
        if problem.room < problem.count * len(stages):
            _limit(model, problem, device, start, longest)
            weights = [Task(s, k, Pass.WEIGHT) for s in stages for k in range(problem.count)]
            held = sum(start[w] + problem.length(w) - start[w._replace(kind=Pass.FORWARD)] for w in weights)
            model.add(held <= held_at_most(problem, stages)(span))  # follows from the limit; raises the lower bound
    for stage in range(problem.stages):
        for kind in (Pass.BACKWARD, Pass.WEIGHT):
            last = Task(stage, problem.count - 1, kind)
            model.add(span >= start[last] + problem.length(last))
    for task, at in hint.items():
        model.add_hint(start[task], at)
    model.add_hint(span, longest)
    model.minimize(span)
    solver = counting_work(seconds)
    solver.parameters.relative_gap_limit = close
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return first, bound
    found = tuple(tuple(sorted(tasks, key=lambda t: (solver.value(start[t]), _turn(t)))) for tasks in first)
    order = found if problem.fits(found) and problem.span(found) <= longest else first
    return order, max(bound, int(solver.best_objective_bound))


def counting_work(seconds: float) -> CpSolver:
    """A solver that stops after so many seconds of its own clock, which counts work, and does the same everywhere."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = seconds
    return solver


def _turn(task: Task) -> tuple[int, int, int]:
    """Between passes that take no time: as they need each other."""
    backward = task.kind is not Pass.FORWARD
    return task.microbatch, -task.stage if backward else task.stage, list(Pass).index(task.kind)


def _limit(model: CpModel, problem: OrderProblem, device: int, start: Mapping[Task, IntVar], longest: int) -> None:
    """A device holds no more microbatches than it has room for, from the forward pass to the gradients of weights."""
    stages = problem.own[device]
    if len(stages) == 1:
        (stage,) = stages
        for k in range(problem.count - problem.room):
            weight = Task(stage, k, Pass.WEIGHT)
            model.add(start[Task(stage, k + problem.room, Pass.FORWARD)] >= start[weight] + problem.length(weight))
        return
    held: list[IntervalVar] = []
    for stage in stages:
        for k in range(problem.count):
            forward, weight = Task(stage, k, Pass.FORWARD), Task(stage, k, Pass.WEIGHT)
            size = model.new_int_var(0, longest, "")
            end = start[weight] + problem.length(weight)
            held.append(model.new_interval_var(start[forward], size, end, ""))
    model.add_cumulative(held, [1] * len(held), problem.room)
