"""How near `schedule=best` comes to the least that is possible, over drawn pipelines.

    bench_schedules.py                              48 pipelines of up to 8 devices, 10 s each at most
    bench_schedules.py --devices 16 --instances 200 --seconds 0     without the solver

Stages, costs and memory are unequal: a device holds from one microbatch to twice as many as there are devices. `gap` is
by what part of the lower bound the order may be too long. Nothing is asserted; where a machine is busy, the solver gets
less done before its deadline.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from contextlib import suppress

from distir.transform.pipeline.best import OrderProblem, best_order, placements
from distir.transform.pipeline.passes import Order, Pass, stage_devices, with_weights
from distir.transform.pipeline.schedules import SCHEDULES
from distir.transform.pipeline.validation import ScheduleError

MEMORY = ("little", "some", "enough")
"""Less than P/2 microbatches on a device; less than P; P or more."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--instances", type=int, default=48)
    parser.add_argument("--devices", type=int, default=8, help="at most")
    parser.add_argument("--microbatches", type=int, default=64, help="at most")
    parser.add_argument("--seconds", type=float, default=5.0, help="of the solver's own clock")
    parser.add_argument("--memory", choices=MEMORY, help="only pipelines with so much")
    parser.add_argument("--each", action="store_true", help="print each pipeline")
    asked = parser.parse_args()
    gaps: dict[str, list[float]] = {}
    longest, worse = 0.0, 0
    drawn = (p for p in problems(asked.devices, asked.microbatches) if asked.memory in (None, memory_of(p)))
    for problem, _ in zip(drawn, range(asked.instances), strict=False):
        names = [*named(problem)]
        start = time.perf_counter()
        found = best_order(problem, names, asked.seconds)
        took = time.perf_counter() - start
        longest = max(longest, took)
        worse += any(problem.span(order) < found.span for order in names if problem.fits(order))
        for group in ("all", *classes(problem)):
            gaps.setdefault(group, []).append(found.gap)
        if asked.each:
            each = problem.room // (problem.stages // problem.devices)
            size = (
                f"P {problem.devices}, {problem.stages // problem.devices} stages each, K {problem.count}, room {each}"
            )
            print(f"    {size}: {found.bound} to {found.span}, gap {found.gap:.1%}, {took:.1f} s", flush=True)
    print(f"{'':<24}{'pipelines':>10}{'median':>9}{'90 %':>9}{'worst':>9}{'2 % or less':>13}")
    for group in sorted(gaps):
        some = sorted(gaps[group])
        figures = (some[len(some) // 2], some[min(len(some) - 1, 9 * len(some) // 10)], some[-1])
        shown = "".join(f"{gap:>9.1%}" for gap in figures)
        print(f"{group:<24}{len(some):>10}{shown}{sum(gap <= 0.02 for gap in some) / len(some):>13.0%}")
    print(f"{worse} worse than a schedule by name; {longest:.1f} s for the slowest")


def problems(devices: int, microbatches: int) -> Iterator[OrderProblem]:
    """Pipelines of 2 or more devices, with one or two stages each."""
    draw = random.Random(0)
    while True:
        number, per_device = draw.randint(2, devices), draw.choice((1, 1, 2))
        homes = draw.choice(list(placements(number, per_device)))
        lengths = {(s, kind): draw.randint(50, 100) for s in range(len(homes)) for kind in Pass}
        room = per_device * draw.randint(1, 2 * number)
        yield OrderProblem(homes, lengths, draw.randint(1, microbatches), room)


def classes(problem: OrderProblem) -> tuple[str, ...]:
    """The groups of a pipeline."""
    devices = next(f"P up to {n}" for n in (2, 4, 8, 16, 1 << 30) if problem.devices <= n)
    count = next(f"K up to {n}" for n in (8, 16, 32, 64, 1 << 30) if problem.count <= n)
    stages = f"stages: {problem.stages // problem.devices}"
    return f"memory: {memory_of(problem)}", devices, count, stages


def memory_of(problem: OrderProblem) -> str:
    """How much memory there is."""
    each = problem.room / (problem.stages // problem.devices)
    return MEMORY[(each >= problem.devices / 2) + (each >= problem.devices)]


def named(problem: OrderProblem) -> Iterator[Order]:
    """The orders of schedules by name, with backward passes split."""
    for schedule in SCHEDULES.values():
        with suppress(ScheduleError):
            order = schedule(problem.devices, problem.count, problem.stages // problem.devices)
            if stage_devices(order) == problem.homes:
                yield order if schedule.splits else with_weights(order)


if __name__ == "__main__":
    main()
