"""Orders in which each microbatch does what the one before it did, a period later.

Few passes decide of many: those of one microbatch are placed within a period so that none of a device overlap, whatever
the microbatch, as loops are software-pipelined (modulo scheduling: Rau and Glaeser, MICRO 1981; for pipelines with
limited memory: Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv:2405.15362). A microbatch that a stage
holds for up to n periods takes n places there.
"""

from __future__ import annotations

from collections.abc import Mapping

from distir.transform.pipeline.best.constraints import counting_work
from distir.transform.pipeline.best.problem import OrderProblem
from distir.transform.pipeline.passes import Order, Pass, Task, needs

TRIES = 5
"""How many periods are tried at most."""

Places = Mapping[tuple[int, Pass], int]
"""By pass: when it starts for the first microbatch."""


def repeated(problem: OrderProblem, span: int, seconds: float) -> Order | None:
    """An order that repeats, with as short a period as is found, if it is shorter than `span`; None without the solver.

    `seconds` are of a clock that counts work, in all.
    """
    least = max(problem.work(stages, *Pass) for stages in problem.own)
    most, best = span // problem.count, None
    for _ in range(TRIES):
        period = (least + most) // 2
        if period >= most:
            break
        places = _placed(problem, period, seconds / TRIES)
        if places is None:
            least = period + 1
            continue
        most = period
        order = _unrolled(problem, places, period)
        if problem.fits(order) and (took := problem.span(order)) < span:
            best, span = order, took
    return best


def _unrolled(problem: OrderProblem, places: Places, period: int) -> Order:
    def start(task: Task) -> int:
        return places[task.stage, task.kind] + period * task.microbatch

    order: list[list[Task]] = [[] for _ in range(problem.devices)]
    for task in problem.tasks():
        order[problem.homes[task.stage]].append(task)
    return tuple(tuple(sorted(tasks, key=start)) for tasks in order)


def _placed(problem: OrderProblem, period: int, seconds: float) -> Places | None:
    """The passes of one microbatch, for a period; None where there is no place for them, or none is found."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        return None
    model = cp_model.CpModel()
    room = min(problem.room, problem.count * max(map(len, problem.own)))
    passes = {(s, kind): Task(s, 0, kind) for s in range(problem.stages) for kind in Pass}
    within = {of: model.new_int_var(0, period - 1, "") for of in passes}
    start = {of: within[of] + period * model.new_int_var(0, room + 2 * problem.stages, "") for of in passes}
    model.add(start[0, Pass.FORWARD] == 0)
    for stages in problem.own:
        twice = [
            model.new_fixed_size_interval_var(within[of] + later, problem.length(passes[of]), "")
            for of in passes
            if of[0] in stages
            for later in (0, period)  # what continues into the next period is in the way there
        ]
        model.add_no_overlap(twice)
        held = {stage: model.new_int_var(1, room, "") for stage in stages}
        for stage, periods in held.items():
            end = start[stage, Pass.WEIGHT] + problem.length(passes[stage, Pass.WEIGHT])
            model.add(end <= start[stage, Pass.FORWARD] + period * periods)
        model.add(sum(held.values()) <= room)
    for of, task in passes.items():
        for need in needs(task, problem.stages):
            ready = problem.ready(task, need, problem.length(need))
            model.add(start[of] >= start[need.stage, need.kind] + ready)
    solver = counting_work(seconds)
    solver.parameters.stop_after_first_solution = True
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return {of: solver.value(at) for of, at in start.items()}
