"""Which call of a function is shown, and the facts of a text: latest types, times of the last simulated version.

A function that is called several times has other types, devices and times at each call. One is shown:
the first in program order, or the one that the user picks. While a text is being simulated again, its times are those
of the last version that was.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, cast
from weakref import WeakKeyDictionary, ref

from distir.analysis import Checker, Instance, State
from distir.analysis.revision import change
from distir.diagnostics.codes import lints
from distir.ide.document import Document
from distir.ide.proofs import Proved
from distir.ide.staleness import MARK, Stale, stale
from distir.ide.timeline_index import IdleTime, TimelineIndex
from distir.ir import Call, Function, Meshes, Site, results
from distir.ir.deep import Deep, finish
from distir.ops import Reject, Value
from distir.simulate.body import Body
from distir.simulate.effects import Effect
from distir.simulate.show import Moment, Occurrence
from distir.simulate.simulation import Simulation

T = TypeVar("T")

LONGEST_TRACED = 200_000
"""The critical path is not coloured in programs of more events than this, counted as if inlined."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """A statement that calls a function: the caller's name, and the number of the statement in its body."""

    caller: str
    index: int


class KnownInstances:
    """Analyses of one version of a text, each computed once on first use."""

    def __init__(self, document: Document) -> None:
        self.program = document.program
        self._document = ref(document)  # these facts are kept for as long as the document is
        self._picked = document.setup.picked
        self._shown: dict[str, Occurrence | None] = {}
        self._remembered: dict[type, object] = {}
        self._critical: dict[tuple[int, int], frozenset[int]] = {}

    @cached_property
    def simulation(self) -> Simulation | None:
        """The simulated entry function; it is simulated now if that was not done."""
        document = self._document()
        return document.simulation if document is not None else None

    @cached_property
    def _first(self) -> Mapping[str, Occurrence]:
        """By function, its first call in program order."""
        document = self._document()
        return document.shown if document is not None and self.simulation is not None else {}

    @cached_property
    def index(self) -> TimelineIndex | None:
        """The timeline; None without one."""
        return TimelineIndex(self.simulation.timeline()) if self.simulation is not None else None

    @cached_property
    def call_sites(self) -> Mapping[str, tuple[CallSite, ...]]:
        """By function: the statements that call it, in the order of the text."""
        return call_sites(self.program.module.functions.values())

    @cached_property
    def meshes(self) -> Meshes:
        """What each device of the program represents."""
        return self.program.module.meshes

    @cached_property
    def unused(self) -> Mapping[str, frozenset[str]]:
        """By function: the values that nothing uses."""
        found: dict[str, set[str]] = {}
        functions = self.program.module.functions
        for diagnostic in self.program.analysis.diagnostics:
            site = diagnostic.site
            if diagnostic.code is lints.UNUSED_VALUE and isinstance(site, Site) and site.part is not None:
                statement = functions[site.function].body[cast("int", site.index)]
                found.setdefault(site.function, set()).add(results(statement)[cast("int", site.part.key)])
        return {function: frozenset(names) for function, names in found.items()}

    def warm(self) -> None:
        """Compute ahead, in idle time, what hints, lenses and tokens need."""
        for name in self.program.module.functions:
            occurrence = self.shown(name)
            if occurrence is not None:
                self.critical_statements(occurrence)

    def remembered(self, table: type[T]) -> T:
        """The cache of another module for this version, by its type; empty at first."""
        found = self._remembered.get(table)
        if not isinstance(found, table):
            found = self._remembered[table] = table()
        return found

    def shown(self, name: str) -> Occurrence | None:
        """The call that a function is shown for; None if the entry function does not reach it."""
        return finish(self._chosen(name))

    def _chosen(self, name: str) -> Deep[Occurrence | None]:
        if name not in self._shown:
            self._shown[name] = yield from self._choose(name)
        return self._shown[name]

    def _choose(self, name: str) -> Deep[Occurrence | None]:
        first = self._first.get(name)
        if first is None or first.caller is None or not self._picked:
            return first
        sites = self.call_sites.get(name, ())
        number = self._picked.get(name, -1)
        if 0 <= number < len(sites):
            caller = yield self._chosen(sites[number].caller)
            if caller is not None:
                return self.called(caller, sites[number].index)
        function, index = first.caller
        caller = yield self._chosen(function.name)
        if caller is None or caller is self._first.get(function.name):
            return first
        return self.called(caller, index)

    def critical_statements(self, occurrence: Occurrence) -> frozenset[int]:
        """The statements of an occurrence that have an event on the critical path; none for long programs."""
        body, index = occurrence.body, self.index
        if body is None or index is None or len(index.timeline) > LONGEST_TRACED:
            return frozenset()
        key = (occurrence.first_event, id(body))
        if key not in self._critical:
            first, stop = occurrence.first_event, occurrence.first_event + body.events
            path = index.critical_path
            inside = path[bisect_left(path, first) : bisect_left(path, stop)]
            self._critical[key] = frozenset(bisect_right(body.first_events, event - first) - 1 for event in inside)
        return self._critical[key]

    def called(self, caller: Occurrence, index: int) -> Occurrence | None:
        """The occurrence that a call statement runs; None if it is unknown."""
        statement = caller.instance.function.body[index]
        assert isinstance(statement, Call)
        callee = called(self.program.analysis.domain, caller.instance, statement)
        if callee is None:
            return None
        body, first = caller.body, caller.first_event
        if body is None:
            return Occurrence(callee, None, first, (caller.instance.function, index), caller.depth + 1)
        step = body.steps[index]
        first += body.first_events[index]
        made = step if isinstance(step, Body) else None
        return Occurrence(callee, made, first, (caller.instance.function, index), caller.depth + 1)


def called(domain: Checker, instance: Instance, call: Call) -> Instance | None:
    """The function that a call runs, for its arguments; None where that cannot be followed."""
    if call.function not in domain.module.functions or call.function in domain.structure.recursive:
        return None
    try:
        return domain.instance(call.function, instance.state(call.args))
    except Reject:
        return None


def calls_shown(document: Document) -> dict[str, tuple[str, int]]:
    """By function, the call that it is shown for: the caller, and which statement of it."""
    if not document.is_simulated or document.simulation is None:
        return {}
    found = {name: facts(document).shown(name) for name in document.program.module.functions}
    callers = {name: occurrence.caller for name, occurrence in found.items() if occurrence is not None}
    return {name: (caller[0].name, caller[1]) for name, caller in callers.items() if caller is not None}


_FACTS: WeakKeyDictionary[Document, KnownInstances] = WeakKeyDictionary()


def facts(document: Document) -> KnownInstances:
    """The facts of a document: the same object each time."""
    known = _FACTS.get(document)
    if known is None:
        known = _FACTS[document] = KnownInstances(document)
    return known


def call_sites(functions: Iterable[Function]) -> Mapping[str, tuple[CallSite, ...]]:
    """By function: the statements that call it, in order."""
    found: dict[str, list[CallSite]] = {}
    for function in functions:
        for index, statement in enumerate(function.body):
            if type(statement) is Call:
                found.setdefault(statement.function, []).append(CallSite(function.name, index))
    return {name: tuple(sites) for name, sites in found.items()}


class View:
    """A text as it is shown: the latest `document`, and the last one that was simulated, `timed`, if there is one.

    Values are those of the call shown, as long as what the function's own types say of them has not changed since;
    times are those of the same statement then. Where they are of an earlier version, `stale` says so. `proved`: the
    last version that was compared with the sequential program.
    """

    def __init__(
        self,
        document: Document,
        timed: Document | None,
        on_demand: Callable[[], bool] = lambda: False,
        proved: Proved | None = None,
    ) -> None:
        self.document = document
        self._timed, self._on_demand, self._proved = timed, on_demand, proved
        self.facts = facts(document)
        self.timed = facts(timed) if timed is not None and timed.simulation is not None else None
        self.is_current = self.timed is None or self.timed.program is document.program

    def seen_from(self, offset: int) -> View:
        """The view for questions about a place in the text. Nothing was simulated of a second function of a name."""
        document = self.document.seen_from(offset)
        return self if document is self.document else View(document, None)

    @property
    def is_stale(self) -> bool:
        """Whether times, and values known only from the call shown, are of an earlier version or another setup."""
        if self.timed is None or self._timed is None:
            return False
        return not self.is_current or self._timed.setup is not self.document.setup

    @cached_property
    def stale(self) -> Stale | None:
        """Why the view is stale; None if everything is of the latest version."""
        return stale(self.document, self._timed, self._on_demand()) if self.is_stale else None

    @property
    def simulation(self) -> Simulation | None:
        """The simulation, if there is one in time."""
        return self.timed.simulation if self.timed is not None else None

    @property
    def index(self) -> TimelineIndex | None:
        """The events by statement, if there is a simulation in time."""
        return self.timed.index if self.timed is not None else None

    @property
    def simulated(self) -> KnownInstances | None:
        """The version that was simulated, whose times are shown; None where there are none."""
        return self.timed

    def shown(self, function: str) -> Occurrence | None:
        """The call that a function is shown for, in the version that was simulated."""
        return self.timed.shown(function) if self.timed is not None else None

    def value(self, function: str, name: str) -> Value:
        """A value in the call shown; else as the function's own types give it."""
        own = self._own(self.document, function, name)
        occurrence = self.shown(function)
        if occurrence is None:
            return own
        if not self.is_current:
            assert self.timed is not None
            before = self.timed.program.analysis.domain.own.get(function)
            if before is None or name not in before.state or before.state[name] != own:
                return own
        return occurrence.instance.state.get(name, own)

    def placement(self, function: str, name: str) -> str | None:
        """A value's relation to the sequential program, from the last version that was compared with it."""
        placements = self._proved.placements if self._proved is not None else None
        said = placements.of(function, name) if placements is not None else None
        return f"{MARK}{said}" if said and self.is_proved_then else said

    @property
    def is_proved_then(self) -> bool:
        """Whether placements are of an earlier version."""
        return self._proved is not None and self._proved.document.program is not self.document.program

    def is_known_then(self, function: str, name: str) -> bool:
        """Whether `value` comes from the earlier version's call: the current text alone does not determine it."""
        return self.is_stale and self.value(function, name) != self._own(self.document, function, name)

    def values(self, function: str) -> Callable[[str], Value]:
        """The same for many values of one function."""
        occurrence = self.shown(function)
        if self.is_current and occurrence is not None:
            return occurrence.instance.state.__getitem__
        return lambda name: self.value(function, name)

    def state(self, function: str) -> State | None:
        """The values of a function in the call shown, if its text has not changed since, else for its own types."""
        occurrence = self.shown(function)
        latest = self.document.program.module.functions.get(function)
        if occurrence is not None and latest is occurrence.instance.function:
            return occurrence.instance.state
        own = self.document.program.analysis.domain.own.get(function)
        return own.state if own is not None else None

    def then(self, function: Function, index: int) -> int | None:
        """The number that a statement of the latest version had when it was simulated; None for what is new."""
        if self.timed is None:
            return None
        if self.is_current:
            return index
        before = self.timed.program.module.functions.get(function.name)
        if before is None:
            return None
        if before is function:
            return index
        return change(before.body, function.body).old_index(index)

    def moment(self, function: Function, index: int) -> Moment | None:
        """When a statement of the latest version runs in the call shown; None for one that takes no time."""
        at = self.at(function, index)
        return self.index.moment(*at) if at is not None and self.index is not None else None

    def moment_of(self, occurrence: Occurrence, index: int) -> Moment | None:
        """When a statement of an occurrence runs."""
        return self.index.moment(occurrence, index) if self.index is not None else None

    def event(self, function: Function, index: int) -> int | None:
        """The number on the timeline of an op of the latest version, in the call shown."""
        at = self.at(function, index)
        return self.index.event(*at) if at is not None and self.index is not None else None

    def events(self, function: Function, index: int) -> range:
        """The numbers on the timeline of what a statement of the latest version does, in the call shown."""
        at = self.at(function, index)
        return self.index.events(*at) if at is not None and self.index is not None else range(0)

    def idle(self, function: Function, index: int) -> tuple[IdleTime, ...]:
        """The devices that idle before an op of the latest version, in the call shown."""
        at = self.at(function, index)
        return self.index.idle(*at) if at is not None and self.index is not None else ()

    def effect(self, function: Function, index: int) -> Effect | None:
        """The effect of an op on its devices and their memories, in the call shown."""
        at = self.at(function, index)
        if at is None or at[0].body is None:
            return None
        step = at[0].body.steps[at[1]]
        return step if isinstance(step, Effect) else None

    def critical(self, function: Function) -> frozenset[int]:
        """The statements of the latest version that have an event on the critical path, in the call shown."""
        occurrence = self.shown(function.name)
        is_known = self.document.program.module.functions.get(function.name) is function  # no second one of its name
        if occurrence is None or occurrence.body is None or self.timed is None or not is_known:
            return frozenset()
        then = self.timed.critical_statements(occurrence)
        before = occurrence.instance.function
        if self.is_current or before is function:
            return then
        edit = change(before.body, function.body)
        return frozenset(index for i in then if (index := edit.new_index(i)) is not None)

    def at(self, function: Function, index: int) -> tuple[Occurrence, int] | None:
        """What was simulated of a statement of the latest version: the call shown, and its number there."""
        then, occurrence = self.then(function, index), self.shown(function.name)
        return (occurrence, then) if then is not None and occurrence is not None else None

    @staticmethod
    def _own(document: Document, function: str, name: str) -> Value:
        own = document.program.analysis.domain.own.get(function)
        return own.state[name] if own is not None else None
