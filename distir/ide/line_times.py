"""How much of a program's time each line takes, and how that differs between two versions.

A line's time is that of its ops in all calls of their function, of all devices together or of each; a line with a call
has the time of all that is called.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from distir.ide.counterparts import Group, groups
from distir.ide.document import Document
from distir.ide.instances import facts
from distir.ir import Function
from distir.simulate.body import Body, runs
from distir.simulate.effects import Effect
from distir.simulate.simulation import Simulation


@dataclass(frozen=True, slots=True)
class LineTimes:
    """Columns: for each line that takes time, or is on the critical path, in the order of the text.

    `line` from 0. `device_s`: seconds of devices; `share`: the part of (devices × latency), where streams of a device
    that run at the same time count each. `critical`: whether an op of the line is on the critical path, in the call of
    its function that is shown.
    """

    latency_s: float
    devices: int
    line: tuple[int, ...]
    device_s: tuple[float, ...]
    share: tuple[float, ...]
    critical: tuple[bool, ...]


@dataclass(slots=True)
class LineChanges:
    """Columns: the lines of one version whose time differs in the other one.

    `line` from 0. `devices`: how many devices run it; `each_s`: seconds of one of them, on average; `device_s`: of all
    together. `change_s`, `device_change_s`: how many more than in the other version; null for a statement that is only
    in this one. Statements that correspond are compared together (`counterparts`).
    """

    latency_s: float
    line: list[int] = field(default_factory=list[int])
    devices: list[int] = field(default_factory=list[int])
    each_s: list[float] = field(default_factory=list[float])
    device_s: list[float] = field(default_factory=list[float])
    change_s: list[float | None] = field(default_factory=list["float | None"])
    device_change_s: list[float | None] = field(default_factory=list["float | None"])

    def add(self, line: int, now: Taken, then: Taken | None) -> None:
        """One more line."""
        self.line.append(line)
        self.devices.append(len(now.devices))
        self.each_s.append(now.each_s)
        self.device_s.append(now.device_s)
        self.change_s.append(None if then is None else now.each_s - then.each_s)
        self.device_change_s.append(None if then is None else now.device_s - then.device_s)


@dataclass(frozen=True, slots=True)
class Taken:
    """The time that statements take in the whole program: the seconds of all devices, and which devices these are."""

    device_s: float = 0.0
    devices: frozenset[int] = frozenset()

    def __add__(self, other: Taken) -> Taken:
        return Taken(self.device_s + other.device_s, self.devices | other.devices)

    @property
    def each_s(self) -> float:
        """The seconds of one device, on average."""
        return self.device_s / len(self.devices) if self.devices else 0.0


def line_times(document: Document, starts: Sequence[int]) -> LineTimes | None:
    """The times of the lines of a simulated document; None without a simulation. `starts`: where its lines begin.

    They cost the kinds of calls that there are, not the ops of the program.
    """
    simulation = document.simulation
    if simulation is None:
        return None
    known = facts(document)
    seconds: dict[int, float] = defaultdict(float)
    critical: set[int] = set()
    for line, function, index, taken in _lines(document, simulation, starts):
        seconds[line] += taken.device_s
        occurrence = known.shown(function.name)
        if occurrence is not None and index in known.critical_statements(occurrence):
            critical.add(line)
    order = [line for line in sorted(seconds) if seconds[line] > 0 or line in critical]
    whole = simulation.latency_s * len(simulation.devices)
    return LineTimes(
        simulation.latency_s,
        len(simulation.devices),
        tuple(order),
        tuple(seconds[line] for line in order),
        tuple(seconds[line] / whole if whole else 0.0 for line in order),
        tuple(line in critical for line in order),
    )


def line_changes(document: Document, starts: Sequence[int], other: Document) -> LineChanges | None:
    """The lines of a document whose time differs from another version's; None without simulations."""
    simulation, before = document.simulation, other.simulation
    if simulation is None or before is None:
        return None
    known, there = groups(document.program.module, other.program.module)
    mine, theirs = _by_group(simulation, known), _by_group(before, there)
    own: dict[int, Taken] = defaultdict(Taken)
    shared: dict[int, set[Group]] = defaultdict(set)
    for line, function, index, taken in _lines(document, simulation, starts):
        group = known[function.name][index]
        if group is not None and group in theirs:
            shared[line].add(group)
        else:
            own[line] += taken
    found = LineChanges(simulation.latency_s)
    for line in sorted(own.keys() | shared.keys()):
        now = sum((mine[group] for group in shared[line]), own[line])
        then = sum((theirs[group] for group in shared[line]), Taken()) if shared[line] else None
        if _differs(now, then):
            found.add(line, now, then)
    return found


LEAST_CHANGE = 1e-6
"""Changes by a smaller part of a line's time are rounding."""


def _differs(now: Taken, then: Taken | None) -> bool:
    if then is None:
        return now.device_s > 0
    return abs(now.each_s - then.each_s) > LEAST_CHANGE * max(now.each_s, then.each_s)


def _by_group(simulation: Simulation, known: Mapping[str, Sequence[Group | None]]) -> Mapping[Group, Taken]:
    """The time of the statements of each group; that of a function that does not run is 0."""
    times = statement_times(simulation)
    found: dict[Group, Taken] = defaultdict(Taken)
    for name, groups_of in known.items():
        taken = times.get(name, {})
        for index, group in enumerate(groups_of):
            if group is not None:
                found[group] += taken.get(index, Taken())
    return found


def _lines(
    document: Document, simulation: Simulation, starts: Sequence[int]
) -> Iterator[tuple[int, Function, int, Taken]]:
    """The statements of a text: the line, from 0, the function, the number, the time."""
    times = statement_times(simulation)
    for written in document.program.syntax.functions:
        function = written.function
        if document.program.module.functions.get(function.name) is not function:
            continue  # a second function of that name
        taken = times.get(function.name, {})
        for index, offset in enumerate(written.starts):
            yield bisect_right(starts, offset) - 1, function, index, taken.get(index, Taken())


def statement_times(simulation: Simulation) -> Mapping[str, Mapping[int, Taken]]:
    """By function and statement: the time that it takes in the whole program, calls included."""
    one_run: dict[int, Taken] = {}
    found: dict[str, dict[int, Taken]] = defaultdict(lambda: defaultdict(Taken))
    for body, times in reversed(runs(simulation.body)):
        steps = [_taken(step, one_run) for step in body.steps]
        one_run[id(body)] = sum(steps, Taken())
        total = found[body.instance.function.name]
        for index, each in enumerate(steps):
            total[index] += Taken(times * each.device_s, each.devices)
    return found


def _taken(step: Effect | Body | None, one_run: Mapping[int, Taken]) -> Taken:
    if isinstance(step, Body):
        return one_run[id(step)]
    if step is None or not step.ticks:
        return Taken()
    return Taken(step.cost.seconds * len(step.devices), frozenset(step.devices))
