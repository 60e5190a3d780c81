"""Breakpoints: from what a person asks for to watches, or the reason why it cannot be had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from distir.analysis.program import Program
from distir.diagnostics import suggestion
from distir.ide.stepping.conditions import ConditionError, read_condition, read_message
from distir.ide.stepping.stepper import Stepper
from distir.ide.stepping.watches import (
    CallGraph,
    EventsWatch,
    FunctionWatch,
    StatementWatch,
    StopWatch,
    WaitWatch,
    read_count,
)
from distir.ir import Site
from distir.ir.errors import DistirError
from distir.simulate.body import Body
from distir.simulate.show import Occurrence, occurrences

SHARE_OF_LATENCY = 0.01
"""A wait for longer than this is a long one, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A breakpoint on what happens, wherever it does. `asks`: what to write as its condition."""

    name: str
    label: str
    description: str
    asks: str


FILTERS: tuple[Filter, ...] = (
    Filter(
        "waits",
        "Device waits",
        "Stop at ops before which a device idles; without a condition, for more than 1 % of the latency.",
        "for example: wait > 1ms and device == 3",
    ),
    Filter(
        "peak",
        "Peak of memory",
        "Stop where a device's memory is fullest: of the device with the highest peak, or of that in the condition.",
        "for example: device == 3",
    ),
    Filter(
        "critical",
        "Critical path",
        "Stop at each op of the critical path, for which a condition may hold.",
        "for example: duration > 1ms",
    ),
    Filter(
        "ops",
        "Ops where …",
        "Stop at any op for which the condition holds.",
        'for example: op == "AllReduce" and time > 10ms',
    ),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The conditions of a breakpoint, as written."""

    condition: str = ""
    count: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Placed:
    """A resolved breakpoint: its watch, or the reason why there is none. `site`: its actual location."""

    watch: StopWatch | None
    site: Site | None = None
    trouble: str = ""


class UnplacedError(DistirError, ValueError):
    """A breakpoint that cannot be had, and why."""


@dataclass(eq=False)
class Breakpoints:
    """The breakpoints of one program."""

    program: Program
    stepper: Stepper
    graph: CallGraph = field(init=False)

    def __post_init__(self) -> None:
        self.graph = CallGraph(module=self.program.module)

    @cached_property
    def _runs(self) -> Mapping[str, Occurrence]:
        simulation = self.stepper.simulation
        return occurrences(self.program.analysis.domain, simulation.instance, simulation.body)

    def at_line(self, number: int, line: int, asked: Asked) -> Placed:
        """At the first statement from a line on that takes time, within the same function."""
        try:
            site = self._site(line)
            watch = StatementWatch(
                number=number,
                function=site.function,
                statement=site.index or 0,
                leading=self.graph.leading_to([site.function]),
            )
            return Placed(_with(watch, asked), site)
        except (UnplacedError, ConditionError) as error:
            return Placed(None, None, _in_words(error))

    def at_function(self, number: int, name: str, asked: Asked) -> Placed:
        """At every call of a function."""
        try:
            return Placed(_with(self._calls(number, name.strip().removeprefix("@")), asked))
        except (UnplacedError, ConditionError) as error:
            return Placed(None, None, _in_words(error))

    def of_filter(self, number: int, name: str, condition: str) -> Placed:
        """On what happens, by the name of a filter."""
        try:
            return Placed(self._filter(number, name, Asked(condition)))
        except (UnplacedError, ConditionError) as error:
            return Placed(None, None, _in_words(error))

    def lines(self, first: int, last: int) -> list[int]:
        """The lines of a range at which a breakpoint can be."""
        found: dict[int, None] = {}
        for line in range(first, last + 1):
            try:
                site = self._site(line)
            except UnplacedError:
                continue
            span = self.program.locate(site)
            assert span is not None
            if self.program.source.position(span.start)[0] == line:
                found[line] = None
        return list(found)

    def _site(self, line: int) -> Site:
        source, syntax = self.program.source, self.program.syntax
        if not 1 <= line <= len(source.line_starts):
            raise UnplacedError("there is no such line")
        start = source.line_starts[line - 1]
        end = start + len(source.line(line))
        written = syntax.function_at(end) or syntax.function_at(start)
        if written is None or syntax.by_name.get(written.function.name) is not written:
            raise UnplacedError("expected a statement of a function")
        name = written.function.name
        occurrence = self._runs.get(name)
        if occurrence is None or occurrence.body is None:
            entry = self.stepper.simulation.function.name
            raise UnplacedError(f"`@{name}` takes no part in `@{entry}`, which is simulated")
        for index, step in enumerate(occurrence.body.steps):
            if written.ends[index] < start or step is None:
                continue
            if step.events if isinstance(step, Body) else step.devices:
                return Site(name, index)
        raise UnplacedError(f"from here to the end of `@{name}`, nothing takes time on a device")

    def _calls(self, number: int, name: str) -> FunctionWatch:
        functions, entry = self.program.module.functions, self.stepper.simulation.function.name
        if name not in functions:
            hint = suggestion(name, functions, "@")
            raise UnplacedError(f"there is no function `@{name}`" + (f": {hint}" if hint else ""))
        if name == entry:
            raise UnplacedError(f"the program is a run of `@{name}`: it stops there as it starts")
        leading = self.graph.leading_to(self.graph.callers.get(name, ()))
        if entry not in leading:
            raise UnplacedError(f"`@{entry}`, which is simulated, does not call `@{name}`")
        return FunctionWatch(number=number, function=name, leading=leading)

    def _filter(self, number: int, name: str, asked: Asked) -> StopWatch:
        stepper = self.stepper
        timeline = stepper.streams.timeline
        match name:
            case "waits":
                least = 0.0 if asked.condition.strip() else SHARE_OF_LATENCY * timeline.latency
                return _with(WaitWatch(number=number, least=least), asked)
            case "critical":
                if timeline.is_long:
                    raise UnplacedError("the critical path of so many ops is not followed: filter ops by `critical`")
                return _with(EventsWatch(number=number, events=sorted(timeline.critical_path())), asked)
            case "peak":
                return self._peak(number, asked)
            case "ops":
                if not asked.condition.strip():
                    raise UnplacedError("expected a condition, or it would stop at every op")
                return _with(StopWatch(number=number), asked)
            case _:
                known = ", ".join(f"`{each.name}`" for each in FILTERS)
                raise UnplacedError(f"there is no filter `{name}`: there are {known}")

    def _peak(self, number: int, asked: Asked) -> StopWatch:
        simulation = self.stepper.simulation
        wanted = read_condition(asked.condition).device if asked.condition.strip() else None
        uses = simulation.memory_uses
        if wanted is not None and wanted not in uses:
            raise UnplacedError(f"the program has no device {wanted}")
        device = wanted if wanted is not None else max(uses, key=lambda each: uses[each].peak_memory_bytes)
        event = peak_event(self.stepper, device)
        if event is None:
            raise UnplacedError(f"the parameters alone are the peak of device {device}: that is at the start")
        return _with(EventsWatch(number=number, events=[event], devices={event: device}), asked)


def peak_event(stepper: Stepper, device: int) -> int | None:
    """The first event at which a device's memory is fullest; None where its parameters alone are the peak."""
    _, event, _ = stepper.simulation.memory().peak(stepper.simulation.memory_of(device))
    return event


def _with(watch: StopWatch, asked: Asked) -> StopWatch:
    """A watch with its conditions. Raises ConditionError."""
    return replace(
        watch,
        condition=read_condition(asked.condition) if asked.condition.strip() else None,
        count=read_count(asked.count) if asked.count.strip() else None,
        message=read_message(asked.message) if asked.message else None,
    )


def _in_words(error: UnplacedError | ConditionError) -> str:
    advice = error.help if isinstance(error, ConditionError) else None
    return f"{error}; {advice}" if advice else str(error)
