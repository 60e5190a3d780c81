"""How much of a program's time each line takes, and how that differs between two versions.

A line's time is that of its ops on all of their devices, in all calls of their function; a line with a call has the
time of all that is called.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from distir.ide.document import Document
from distir.ide.instances import facts
from distir.ir import Function, results
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


@dataclass(frozen=True, slots=True)
class LineChanges:
    """Columns: the lines of one version whose time differs in the other one.

    `line` from 0; `device_s`: seconds of devices here; `change_s`: how many more than in the other version, of a
    statement that is there, too. Of one that is not it is null.
    """

    latency_s: float
    line: tuple[int, ...]
    device_s: tuple[float, ...]
    change_s: tuple[float | None, ...]


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
        seconds[line] += taken
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
    """The lines of a document whose time differs from another version's; None without simulations.

    A statement of the other version is the same where it is equal, wherever it stands, or else has the same results.
    """
    simulation, before = document.simulation, other.simulation
    if simulation is None or before is None:
        return None
    theirs = statement_times(before)
    places = {f.name: _places(f) for f in other.program.module}
    seconds: dict[int, float] = defaultdict(float)
    changes: dict[int, float | None] = {}
    for line, function, index, taken in _lines(document, simulation, starts):
        statement = function.body[index]
        there = places.get(function.name, {})
        place = there.get(statement, there.get(results(statement)) if results(statement) else None)
        seconds[line] += taken
        if place is None:
            changes.setdefault(line, None)
        else:
            changes[line] = (changes.get(line) or 0.0) + taken - theirs.get(function.name, {}).get(place, 0.0)
    order = [line for line in sorted(seconds) if _differs(seconds[line], changes[line])]
    return LineChanges(
        simulation.latency_s,
        tuple(order),
        tuple(seconds[line] for line in order),
        tuple(changes[line] for line in order),
    )


LEAST_CHANGE = 1e-6
"""Changes by a smaller part of a line's time are rounding."""


def _differs(seconds: float, change: float | None) -> bool:
    return seconds > 0 if change is None else abs(change) > LEAST_CHANGE * max(seconds, abs(change))


def _places(function: Function) -> dict[object, int]:
    """The statements of a function, by themselves and by their results."""
    found: dict[object, int] = {results(s): i for i, s in enumerate(function.body) if results(s)}
    return found | {statement: index for index, statement in enumerate(function.body)}


def _lines(
    document: Document, simulation: Simulation, starts: Sequence[int]
) -> Iterator[tuple[int, Function, int, float]]:
    """The statements of a text: the line, from 0, the function, the number, seconds of devices."""
    times = statement_times(simulation)
    for written in document.program.syntax.functions:
        function = written.function
        if document.program.module.functions.get(function.name) is not function:
            continue  # a second function of that name
        seconds = times.get(function.name, {})
        for index, offset in enumerate(written.starts):
            yield bisect_right(starts, offset) - 1, function, index, seconds.get(index, 0.0)


def statement_times(simulation: Simulation) -> Mapping[str, Mapping[int, float]]:
    """By function and statement: the seconds of devices that it takes in the whole program, calls included."""
    one_run: dict[int, float] = {}
    found: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for body, times in reversed(runs(simulation.body)):
        seconds = [_seconds(step, one_run) for step in body.steps]
        one_run[id(body)] = sum(seconds)
        total = found[body.instance.function.name]
        for index, each in enumerate(seconds):
            total[index] += times * each
    return found


def _seconds(step: Effect | Body | None, one_run: Mapping[int, float]) -> float:
    if isinstance(step, Body):
        return one_run[id(step)]
    return step.cost.seconds * len(step.devices) if step is not None and step.ticks else 0.0
