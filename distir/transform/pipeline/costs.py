"""Estimates of how long statements take, to balance stages and to place sends."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from distir.analysis import analysed, check, check_entry
from distir.cost import Hardware, load
from distir.cost.larger import with_devices
from distir.diagnostics import ProgramError
from distir.ir import DISCARD, Call, Constant, Function, Module, results, types
from distir.ir.per_thread import kept_per_thread
from distir.simulate.body import Body, distinct
from distir.simulate.effects import Effect
from distir.simulate.simulation import arguments, plan
from distir.transform.pipeline.passes import Pass
from distir.transform.pipeline.placement import Place, Placement
from distir.transform.pipeline.reading import Reading

ASSUMED_SIZE = 64
"""The size assumed for named dimensions: the relative cost of layers depends little on the batch size."""


def statement_costs(reading: Reading, machine: Hardware) -> Callable[[int], float]:
    """The seconds of each statement of the reading on `machine`, by its number.

    Raises ProgramError where the cost of an op is not known.
    """
    by_result = _result_costs(reading.module, machine)

    def cost(number: int) -> float:
        statement, _ = reading.statements[number]
        return max((by_result.get(name, 0.0) for name in statement.results), default=0.0)

    return cost


@kept_per_thread(4)  # independent of the number of microbatches
def _result_costs(module: Module, machine: Hardware) -> Mapping[str, float]:
    """By value of the entry function: the seconds of the statement that defines it."""
    analysis, entry = analysed(module), module.entry()
    assert entry is not None
    instance = analysis.domain.entered(entry, arguments(entry, _bound(entry, ASSUMED_SIZE)))
    body = plan(module, analysis.domain, instance, machine).body
    seconds = _seconds(body)
    by_result: dict[str, float] = {}
    for statement, step in zip(body.instance.function.body, body.steps, strict=True):
        by_result.update(dict.fromkeys(results(statement), seconds(step)))
    by_result.pop(DISCARD, None)
    return by_result


@dataclass(frozen=True, slots=True)
class PipelineCost:
    """The cost of a pipeline: latency in `seconds`, and the greatest `peak_bytes` of a device. Infinite if unknown."""

    seconds: float = math.inf
    peak_bytes: float = math.inf


def pipeline_cost(
    module: Module, count: int, devices: int, machine: Hardware, bind: Mapping[str, Constant] | None = None
) -> PipelineCost:
    """The cost of a pipeline of `count` microbatches, with sizes `bind` for named dimensions, or assumed ones.

    If `machine` has too few devices, on more nodes of its kind.
    """
    if machine.devices < devices:
        enough = with_devices(machine, devices)
        if enough is None:
            return PipelineCost()
        machine = load(enough[0])
    try:
        entry, analysis = check_entry(module)
        assumed = _bound(entry, ASSUMED_SIZE * count)
        sizes = assumed | {name: size for name, size in (bind or {}).items() if name in assumed}
        found = plan(module, analysis.domain, analysis.instance(entry, arguments(entry, sizes)), machine)
        return PipelineCost(found.latency_s, max(found.peaks.values(), default=0))
    except ProgramError:
        return PipelineCost()


def exact_lengths(
    made: Module, placement: Placement, count: int, machine: Hardware
) -> tuple[dict[Place, float], dict[Place, float]] | None:
    """The length of each pass, as `made` calls its function, and of the messages to it.

    `made`: a program of `count` microbatches. In hundredths of the longest pass; None if unknown.
    """
    passes = {where: outlined.function.name for where, outlined in placement.passes.items()}
    try:
        cost, sends = _call_costs(made, set(passes.values()), count, machine)
    except ProgramError:
        return None
    exact = {where: cost.get(name, 0.0) for where, name in passes.items()}
    longest, messages = max(exact.values()) or 1.0, dict[Place, float]()
    for kind, step in ((Pass.FORWARD, 1), (Pass.BACKWARD, -1)):
        for stage in range(max(step, 0), len(placement.stage_devices) + min(step, 0)):
            way = sorted((placement.device(stage - step), placement.device(stage)))
            if way[0] != way[1]:
                messages[stage, kind] = round(100 * sends.get((way[0], way[1]), 0.0) / longest)
    return hundredths(exact), messages


def hundredths(seconds: Mapping[Place, float]) -> dict[Place, float]:
    """Times as integers: hundredths of the longest."""
    longest = max(seconds.values()) or 1.0
    return {where: round(100 * s / longest) for where, s in seconds.items()}


def _call_costs(
    module: Module, called: Collection[str], count: int, machine: Hardware
) -> tuple[dict[str, float], dict[tuple[int, int], float]]:
    """The seconds of a call of each of these functions in a pipeline, and of a message between two devices.

    `count` is the number of microbatches. Raises ProgramError where the cost of an op is not known.
    """
    entry, analysis = module.entry(), check(module, late=True)  # only what is called is costed
    if entry is None or analysis.errors:
        raise ProgramError(analysis.errors)
    instance = analysis.domain.entered(entry, arguments(entry, _bound(entry, ASSUMED_SIZE * count)))
    body = plan(module, analysis.domain, instance, machine).body
    seconds = _seconds(body)
    found: dict[str, float] = {}
    sends: dict[tuple[int, int], float] = {}
    seen = {id(body)}
    waiting = [body]
    while waiting:
        current = waiting.pop()
        for statement, step in zip(current.instance.function.body, current.steps, strict=True):
            if isinstance(statement, Call) and statement.function in called:
                found[statement.function] = max(found.get(statement.function, 0.0), seconds(step))
            elif isinstance(step, Effect) and step.op == "Send" and len(step.devices) == 2:
                way = min(step.devices), max(step.devices)
                sends[way] = max(sends.get(way, 0.0), seconds(step))
            elif isinstance(step, Body) and id(step) not in seen:
                seen.add(id(step))
                waiting.append(step)
    return found, sends


def _bound(entry: Function, size: int) -> dict[str, int]:
    """An assumed size for every named dimension."""
    named = frozenset[str]().union(*(types.dim_names(p.type) for p in entry.params))
    return dict.fromkeys(named, size)


def _seconds(entry: Body) -> Callable[[Effect | Body | None], float]:
    """The serial time of planned statements. Each body is planned, and its time summed, once."""
    known: dict[int, float] = {}

    def seconds(step: Effect | Body | None) -> float:
        if isinstance(step, Body):
            return known[id(step)]
        return 0.0 if step is None else step.cost.seconds

    for body in distinct(entry):
        known[id(body)] = sum(map(seconds, body.steps))
    return seconds
