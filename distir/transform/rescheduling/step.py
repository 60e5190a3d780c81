"""The step `reschedule`: searches an order by simulation, and reports a lower bound for all orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from distir.cost import UnitError, parse_bytes, show_seconds
from distir.ir import Constant, Function, Module
from distir.simulate import BindError, Simulation, simulate
from distir.transform.entry import entry_of
from distir.transform.rescheduling.orders import Order, by_priority, moved
from distir.transform.rescheduling.tasks import Tasks, tasks_of
from distir.transform.steps import StepError, always, bound_sizes, step, tell

ROUNDING = 1e-9
"""Times with a smaller relative difference count as equal."""


@step(
    after=("grad", "checkpoint", "pp", "accumulate", "tp", "dp", "dtp", "zero", "overlap", "inline"),
    examples={"memory": ("32GB",)},
    tries=always("reschedule"),
)
def reschedule(
    module: Module,
    *,
    hardware: str = "dgx-a100",
    memory: str | None = None,
    attempts: int = 200,
    bind: tuple[str, ...] = (),
) -> Module:
    """Reorder the entry function's statements to reduce its latency, simulated on `hardware`.

    Dependencies are preserved, so the results are the same. No device exceeds `memory` (such as `memory=32GB`; by
    default its capacity), or its earlier peak if that was higher. Tries list schedules by priority first, then up to
    `attempts` moves of single statements. `bind=B=64` sets sizes. Orders are proposed with streams, and as
    if hosts took no time; the simulator judges them with both.

    Reports the latency before and after, and a lower bound for all orders. The program is unchanged if no better order
    is found. Raises ProgramError for a program that cannot be simulated, HardwareError for unknown hardware.
    """
    entry = entry_of(module)
    search = _Search(module, entry, hardware, bound_sizes(bind), _bytes(memory))
    found = search.best(attempts)
    tell(_report(search, found))
    return module if found is search.original else search.module(found.order)


@dataclass(frozen=True, slots=True)
class Found:
    """An order and its simulated cost."""

    order: Order
    latency_s: float


class _Search:
    """The search for an order of one program."""

    def __init__(
        self, module: Module, entry: Function, hardware: str, bind: Mapping[str, Constant], memory: int | None
    ) -> None:
        self._module, self._entry, self._hardware, self._bind = module, entry, hardware, bind
        simulation = self._simulated(module)
        self.tasks: Tasks = tasks_of(simulation)
        self.original = Found(tuple(range(len(self.tasks))), simulation.latency_s)
        self._allowed = {
            simulation.memory_of(device): max(use.peak_memory_bytes, use.capacity_bytes if memory is None else memory)
            for device, use in simulation.devices.items()
        }

    def module(self, order: Order) -> Module:
        """The program in another order."""
        body = self._entry.body
        ordered = replace(self._entry, body=(*(body[number] for number in order), body[-1]))
        return self._module.replacing(ordered)

    def best(self, attempts: int) -> Found:
        best = self.original
        orders = [(max(self.tasks.run(order).values(), default=0.0), order) for order in by_priority(self.tasks)]
        for latency, order in sorted(orders):
            if _less(latency, best.latency_s) and (judged := self._judged(order, best)) is not None:
                best = judged
        return self._improved(best, attempts)

    def _improved(self, best: Found, attempts: int) -> Found:
        """The order after moves of single tasks, each of which reduces the latency, or the devices' total time."""
        reached = self._reached(best.order)
        order, left, rejected = best.order, attempts, set[Order]()
        while left:
            for candidate in moved(self.tasks, order):
                if not left:
                    break
                left -= 1
                times = self._reached(candidate)
                better = _less(times[0], reached[0]) or (
                    not _less(reached[0], times[0]) and _less(times[1], reached[1])
                )
                if not better or candidate in rejected:
                    continue
                if _less(times[0], best.latency_s):
                    judged = self._judged(candidate, best)
                    if judged is None:
                        rejected.add(candidate)
                        continue
                    best = judged
                order, reached = candidate, times
                break
            else:
                break
        return best

    def _reached(self, order: Order) -> tuple[float, float]:
        clocks = self.tasks.run(order).values()
        return max(clocks, default=0.0), sum(clocks)

    def _judged(self, order: Order, best: Found) -> Found | None:
        """The order, if its simulation is faster than the best one and fits in memory."""
        simulation = self._simulated(self.module(order))
        fits = all(
            use.peak_memory_bytes <= self._allowed[simulation.memory_of(device)]
            for device, use in simulation.devices.items()
        )
        faster = _less(simulation.latency_s, best.latency_s)
        return Found(order, simulation.latency_s) if fits and faster else None

    def _simulated(self, module: Module) -> Simulation:
        try:
            return simulate(module, self._hardware, self._entry.name, self._bind)
        except BindError as error:
            raise StepError(str(error)) from None


def _less(a: float, b: float) -> bool:
    return a < b * (1 - ROUNDING)


def _report(search: _Search, found: Found) -> str:
    before, after = search.original.latency_s, found.latency_s
    path, busiest = search.tasks.longest_path(), search.tasks.busiest
    bound = max(path, busiest)
    if found is search.original:
        text = f"found nothing faster than {show_seconds(before)}"
    else:
        text = f"{show_seconds(before)} before, {show_seconds(after)} now, {(before - after) / before:.1%} less"
    gap = (after - bound) / after if after else 0.0
    what = "the longest dependence path" if path >= busiest else "the busiest device"
    return f"{text}; no order takes less than {show_seconds(bound)} ({what}): a gap of {gap:.1%}"


def _bytes(text: str | None) -> int | None:
    try:
        return None if text is None else parse_bytes(text)
    except UnitError as error:
        raise StepError(f"`memory={text}`: {error}") from None
