"""The step `pp`: a sequential program made into a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.diagnostics.nearest import nearest
from distir.ir import Call, Function, Module, Part, Site, Type, dims, types
from distir.ops import type_of
from distir.transform.pipeline.costs import call_costs, statement_costs
from distir.transform.pipeline.emission import on_device, write
from distir.transform.pipeline.frames import LEAST
from distir.transform.pipeline.order import NOMINAL, SPLIT, Event, Message, makespan, merge
from distir.transform.pipeline.outlining import Outlined, outline, reachable
from distir.transform.pipeline.packing import pack
from distir.transform.pipeline.placement import Place, Placement, place
from distir.transform.pipeline.reading import Phase, Reading, Work, read
from distir.transform.pipeline.repetition import Timetable, folded, stretched, unfolded
from distir.transform.pipeline.schedules import (
    SCHEDULES,
    Lengths,
    Order,
    Pass,
    Schedule,
    ScheduleError,
    Task,
    inference,
    split_orders,
)
from distir.transform.pipeline.splitting import split_backward, used_outside
from distir.transform.pipeline.stages import Cost, Stages, cut
from distir.transform.steps import StepError, step

FEW = 8
"""How many microbatches more than fill and drain a pipeline are enough to see its steady state."""

Rule = Callable[[int], Order]
"""From the number of microbatches to the order."""


@step
def pp(
    module: Module,
    value: int,
    *,
    microbatches: int = 1,
    schedule: str = "1f1b",
    virtual: int = 1,
    balance: str = "uniform",
    hardware: str = "dgx-a100",
) -> Module:
    """Pipeline parallelism over `value` devices.

    The layers of the entry function are cut into stages, one per device (`virtual` per device for
    `schedule=interleaved`). The batch is cut into `microbatches` parts, which follow each other through the stages; the
    gradients of the parts are added up, and the weights are updated once, at the end. `schedule` is `gpipe`, `1f1b`,
    `interleaved` or `zb-h1`; a program without a backward pass has forward passes alone, whatever the schedule.

    With many microbatches what repeats is a function, `round`, that is called again and again, and `rounds` is several
    of them in one. The step `inline=rounds,round` writes them out.

    `balance`: `uniform`, equally many layers per stage; `cost`, by estimated time; `3,2,3`, so many layers each. Times
    are estimated on `hardware`; they also say where sends stand, and in `zb-h1` the gradients of weights.
    """
    chosen = _schedule(schedule)
    _check_options(value, microbatches, virtual, balance)
    reading = read(module, microbatches)
    cost = _cost(reading, balance, hardware)
    stages = cut(reading, value * virtual, balance, cost)
    rule = _rule(reading, chosen, stages, value, virtual)
    bodies = {where: [reading.statements[i][0] for i in numbers] for where, numbers in stages.passes.items()}
    functions = dict(reading.module.functions)
    if chosen.splits and stages.trained:
        bodies, functions = split_backward(reading, bodies)
    reading, bodies, outside = pack(reading, bodies, used_outside(reading, bodies))
    passes = _outlined(reading, bodies, outside)
    placement = place(reading, value, passes)
    functions_left = [*_kept(functions, reading, passes), *(o.function for o in passes.values())]

    def merged(order: Order, lengths: Lengths) -> Sequence[Event]:
        """An order with the messages that it needs."""
        count = sum(task.kind is Pass.FORWARD and task.stage == 0 for task in order[0])
        return _merged(order, _messages(placement, count), tuple(lengths.items()))

    def span(events: Sequence[Event], lengths: Lengths) -> float:
        return makespan(events, lambda task: task.stage % value, lambda task: lengths[task.stage, task.kind], value)

    lengths = _lengths(stages, chosen, cost)
    made = write(placement, _timetable(rule, reading.count, virtual, lambda o: merged(o, lengths)), functions_left)
    if not (chosen.splits and stages.trained and cost is not None):
        return made
    if exact := _exact_lengths(made, passes, reading.count, hardware):  # how long the halves take is known only now
        lengths = {where: exact.get(where, 0.0) for where in lengths}
    orders = [rule(reading.count), *split_orders(value, reading.count, lengths)]
    events = min((merged(one, lengths) for one in orders), key=lambda found: span(found, lengths))
    return write(placement, folded(events, LEAST), functions_left)


@lru_cache(maxsize=32)  # pipelines of a search differ in the number of microbatches, and may be alike for a few of them
def _merged(order: Order, messages: tuple[Message, ...], lengths: tuple[tuple[Place, float], ...]) -> Sequence[Event]:
    known = dict(lengths)
    return merge(order, messages, lambda task: known[task.stage, task.kind])


def _timetable(rule: Rule, count: int, virtual: int, merged: Callable[[Order], Sequence[Event]]) -> Timetable:
    """The order for `count` microbatches, with its messages.

    It is played through for fewer, and stretched where it has come to a steady state, if that gives the order.
    """
    order = rule(count)
    devices = len(order)
    few = devices * virtual + FEW
    few += (count - few) % (devices if virtual > 1 else 1)
    if few < count:
        with suppress(ScheduleError):  # it may take only certain numbers
            found = stretched(folded(merged(rule(few)), LEAST), count - few)
            if found is not None and _tasks(found, devices) == order:
                return found
    return folded(merged(order), LEAST)


def _tasks(timetable: Timetable, devices: int) -> Order:
    """By device: its tasks."""
    found: list[list[Task]] = [[] for _ in range(devices)]
    for event in unfolded(timetable):
        if isinstance(event, Task):
            found[event.stage % devices].append(event)
    return tuple(map(tuple, found))


def _schedule(name: str) -> Schedule:
    if name not in SCHEDULES:
        near = nearest(name, SCHEDULES)
        hint = f"did you mean `{near}`?" if near else f"the schedules are {', '.join(SCHEDULES)}"
        raise StepError(f"there is no schedule `{name}`; {hint}")
    return SCHEDULES[name]


def _check_options(devices: int, microbatches: int, virtual: int, balance: str) -> None:
    for name, number in (("pp", devices), ("microbatches", microbatches), ("virtual", virtual)):
        if number < 1:
            raise StepError(f"`{name}` expected 1 or more, found {number}")
    if balance not in ("uniform", "cost") and not all(part.strip().isdecimal() for part in balance.split(",")):
        raise StepError(f"`balance` expected `uniform`, `cost`, or numbers with commas between them, found `{balance}`")


def _cost(reading: Reading, balance: str, hardware: str) -> Cost | None:
    """What statements cost. Nobody needs to know where stages are not balanced by it: None if it cannot be told."""
    try:
        return statement_costs(reading, hardware)
    except ProgramError:
        if balance == "cost":
            raise
        return None


def _rule(reading: Reading, chosen: Schedule, stages: Stages, devices: int, virtual: int) -> Rule:
    """The order by the number of microbatches. Raises ProgramError where the schedule cannot take what is asked for."""
    try:
        chosen(devices, reading.count, virtual)
    except ScheduleError as error:
        site = Site(reading.entry.name, None, Part("name"))
        raise ProgramError([Diagnostic(codes.BAD_SCHEDULE, site, str(error))]) from None
    return lambda count: (chosen if stages.trained else inference)(devices, count, virtual)


def _outlined(
    reading: Reading, bodies: Mapping[Place, Sequence[Work]], outside: Mapping[Place, set[str]]
) -> dict[Place, Outlined]:
    """The function of each stage and pass."""
    whole = {name: dims.multiply(dims.named(name), reading.count) for name in reading.symbols}

    def type_of_part(name: str) -> Type:
        return types.substitute(on_device(type_of(reading.part(name)), None), whole)

    found: dict[Place, Outlined] = {}
    taken = {*reading.module.functions}
    for where in sorted(bodies, key=lambda w: (w[0], list(Pass).index(w[1]))):
        stage, kind = where
        name = f"stage_{stage + 1}_{kind.value}"
        while name in taken:
            name += "_"
        taken.add(name)
        outlined = outline(name, bodies[where], outside[where], type_of_part)
        if outlined is not None:
            found[where] = outlined
    return found


def _lengths(stages: Stages, chosen: Schedule, cost: Cost | None) -> dict[Place, float]:
    """How long each pass of each stage takes: as estimated, in hundredths of the longest, or else some nominal time.

    Coarse on purpose: passes that take about as long count as equal, and sums of whole numbers are exact.
    """
    nominal = SPLIT if chosen.splits else NOMINAL
    places = [(stage, kind) for stage in range(stages.count) for kind in Pass]
    if cost is None:
        return {(stage, kind): nominal[kind] for stage, kind in places}
    found = {where: sum(cost(i) for i in stages.passes.get(where, ())) for where in places}
    if chosen.splits:  # about half of a backward pass is for the weights
        for stage in range(stages.count):
            half = found[stage, Pass.BACKWARD] / 2
            found[stage, Pass.BACKWARD] = found[stage, Pass.WEIGHT] = half
    return _hundredths(found)


def _exact_lengths(made: Module, passes: Mapping[Place, Outlined], count: int, hardware: str) -> dict[Place, float]:
    """The same by what each pass is made of, as the pipeline calls it; nothing if that cannot be told."""
    try:
        cost = call_costs(made, {o.function.name for o in passes.values()}, count, hardware)
    except ProgramError:
        return {}
    return _hundredths({where: cost.get(o.function.name, 0.0) for where, o in passes.items()})


def _hundredths(seconds: Mapping[Place, float]) -> dict[Place, float]:
    longest = max(seconds.values()) or 1.0
    return {where: round(100 * s / longest) for where, s in seconds.items()}


def _messages(placement: Placement, count: int) -> tuple[Message, ...]:
    return tuple(
        Message(Task(source[0], k, source[1]), Task(target[0], k, target[1]))
        for source, target in placement.messages
        for k in range(count)
    )


def _kept(functions: Mapping[str, Function], reading: Reading, passes: Mapping[Place, Outlined]) -> list[Function]:
    """The functions of the sequential module, but for those that only the sequential entry function called."""
    others = [s for s, phase in reading.statements if phase is not Phase.MICROBATCH]
    called = {s.function for s in others if isinstance(s, Call)}
    roots = [*(o.function for o in passes.values()), *(functions[name] for name in called)]
    now = reachable(functions, roots) | called
    gone = {reading.entry.name, *(reachable(functions, [reading.entry]) - now)}
    return [f for f in functions.values() if f.name not in gone]
