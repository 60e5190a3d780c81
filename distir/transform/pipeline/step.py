"""The step `pp`: a sequential program made into a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache

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
from distir.transform.pipeline.repetition import Timetable, folded, microbatch, stretched, unfolded
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

ENOUGH = (6, 8, 12)
"""How many microbatches more than fill and drain a pipeline may be enough to see its steady state."""

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
    return _prepared(module, value, microbatches, schedule, virtual, balance, hardware).written


@dataclass(frozen=True, slots=True)
class Steady:
    """A pipeline told by one for `microbatches`.

    `more`: by function that is called for what the other one repeats, how many more calls it has. Where it has fewer
    microbatches, it has nothing of the last ones; each of its devices does the rest in the same order.
    """

    microbatches: int
    more: Mapping[str, int]


@lru_cache(maxsize=64)  # plans of a search have the same pipelines with other degrees of the others
def steady(
    module: Module,
    value: int,
    *,
    microbatches: int = 1,
    schedule: str = "1f1b",
    virtual: int = 1,
    balance: str = "uniform",
    hardware: str = "dgx-a100",
) -> Steady | None:
    """How the pipeline that `pp` makes with the same options is told by another one; None where it is by none.

    Apart from what `Steady` says, the two differ in the size of a microbatch, and in numbers that are no sizes. Raises
    ProgramError where `pp` does.
    """
    if microbatches == 1:
        return None  # the batch is not cut
    for few in _some(value, virtual, microbatches):
        if few == microbatches:
            return None
        other = _prepared(module, value, few, schedule, virtual, balance, hardware)
        more = other.more(microbatches)
        if more is not None:
            rounds = [f.name for f in other.written if f.name not in other.names]
            return Steady(few, dict(zip(rounds, more, strict=True))) if len(rounds) == len(more) else None
        if few > microbatches:
            return None
    return None


@lru_cache(maxsize=16)
def _prepared(
    module: Module, devices: int, microbatches: int, schedule: str, virtual: int, balance: str, hardware: str
) -> _Prepared:
    chosen = _schedule(schedule)
    _check_options(devices, microbatches, virtual, balance)
    reading = read(module, microbatches)
    cost = _cost(reading, balance, hardware)
    stages = cut(reading, devices * virtual, balance, cost)
    rule = _rule(reading, chosen, stages, devices, virtual)
    bodies = {where: [reading.statements[i][0] for i in numbers] for where, numbers in stages.passes.items()}
    functions = dict(reading.module.functions)
    split = chosen.splits and stages.trained
    if split:
        bodies, functions = split_backward(reading, bodies)
    reading, bodies, outside = pack(reading, bodies, used_outside(reading, bodies))
    passes = _outlined(reading, bodies, outside)
    placement = place(reading, devices, passes)
    functions_left = [*_kept(functions, reading, passes), *(o.function for o in passes.values())]
    lengths = _lengths(stages, chosen, cost)
    timed = hardware if split and cost is not None else None
    return _Prepared(placement, virtual, functions_left, rule, lengths, timed)


@dataclass(frozen=True)
class _Prepared:
    """A pipeline cut into passes, each of which is a function; only their order is still to be found."""

    placement: Placement
    virtual: int
    functions: Sequence[Function]
    rule: Rule
    lengths: Lengths
    timed: str | None
    """The hardware on which passes are to be timed again, as they are called, for an order that depends on it."""

    @cached_property
    def written(self) -> Module:
        """The pipeline."""
        made = write(self.placement, self.timetable, self.functions)
        if self.timed is None:
            return made
        lengths, count = self.lengths, self.count
        if exact := _exact_lengths(made, self.placement.passes, count, self.timed):  # only now this is known of halves
            lengths = {where: exact.get(where, 0.0) for where in lengths}
        orders = [self.rule(count), *split_orders(self.placement.devices, count, lengths)]
        events = min((self.merged(one, lengths) for one in orders), key=lambda found: self.span(found, lengths))
        return write(self.placement, folded(events, LEAST), self.functions)

    @cached_property
    def timetable(self) -> Timetable:
        """The order with its messages.

        It is played through for fewer microbatches, and stretched where it has come to a steady state, if that gives
        the order.
        """
        order = self.rule(self.count)
        for few in _some(self.placement.devices, self.virtual, self.count):
            if few >= self.count:
                break
            with suppress(ScheduleError):  # it may take only certain numbers
                shorter = folded(self.merged(self.rule(few), self.lengths), LEAST)
                found = self._fitting(stretched(shorter, self.count - few), order)
                if found is not None:
                    return found
        return folded(self.merged(order, self.lengths), LEAST)

    def more(self, count: int) -> list[int] | None:
        """How often more each repetition comes in the order for another number of microbatches; for fewer, 0.

        None where that order is another one.
        """
        repeated = [stretch.count for stretch in self.timetable if stretch.count > 1]
        if self.timed is not None:
            return None
        order = self.rule(count)
        if count > self.count:
            found = self._fitting(stretched(self.timetable, count - self.count), order)
            counts = [stretch.count for stretch in found or () if stretch.count > 1]
            return None if found is None else [now - then for now, then in zip(counts, repeated, strict=True)]
        devices, left = self.placement.devices, [e for e in unfolded(self.timetable) if microbatch(e) < count]
        alike = _by_device(left, devices) == _by_device(self.merged(order, self.lengths), devices)
        return [0] * len(repeated) if alike else None

    @property
    def count(self) -> int:
        """How many microbatches there are."""
        return self.placement.reading.count

    @cached_property
    def names(self) -> frozenset[str]:
        """The functions that there are in any case."""
        entry = self.placement.reading.entry.name
        return frozenset([*(f.name for f in self.functions), entry, f"{entry}.scatter", f"{entry}.gather"])

    def merged(self, order: Order, lengths: Lengths) -> Sequence[Event]:
        """An order with the messages that it needs."""
        count = sum(task.kind is Pass.FORWARD and task.stage == 0 for task in order[0])
        return _merged(order, _messages(self.placement, count), tuple(lengths.items()))

    def span(self, events: Sequence[Event], lengths: Lengths) -> float:
        """How long the passes take in all."""
        devices = self.placement.devices
        return makespan(events, lambda t: t.stage % devices, lambda t: lengths[t.stage, t.kind], devices)

    def _fitting(self, timetable: Timetable | None, order: Order) -> Timetable | None:
        """The timetable if it has the tasks of the order."""
        return timetable if timetable is not None and _tasks(timetable, self.placement.devices) == order else None


def _some(devices: int, virtual: int, count: int) -> list[int]:
    """For how many microbatches a schedule is played through to find what it repeats for `count`."""
    least = [devices * virtual + more for more in ENOUGH]
    return [n + (count - n) % (devices if virtual > 1 else 1) for n in least]


def _by_device(events: Sequence[Event], devices: int) -> list[list[Event]]:
    """What each device does, in order: events elsewhere may come before or after it."""
    found: list[list[Event]] = [[] for _ in range(devices)]
    for event in events:
        stages = (event.source.stage, event.target.stage) if isinstance(event, Message) else (event.stage,)
        for stage in stages:
            found[stage % devices].append(event)
    return found


@lru_cache(maxsize=32)  # pipelines of a search differ in the number of microbatches, and may be alike for a few of them
def _merged(order: Order, messages: tuple[Message, ...], lengths: tuple[tuple[Place, float], ...]) -> Sequence[Event]:
    known = dict(lengths)
    return merge(order, messages, lambda task: known[task.stage, task.kind])


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
