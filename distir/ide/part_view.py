"""The program of one rank as it is shown: its values are its own, its times those that it has in the whole program.

Alone it would run sooner, since nothing of what other ranks do is there to wait for. Functions are known by the calls
that lead to them, since a rank's may have other names.
"""

from __future__ import annotations

from distir.ide.document import Document
from distir.ide.instances import KnownInstances, View, facts
from distir.ide.rank_program import origins
from distir.ide.timeline_index import IdleTime, TimelineIndex
from distir.ir import Call, Function
from distir.simulate.show import Moment, Occurrence
from distir.simulate.simulation import Simulation


class PartView(View):
    """The program of device `rank`: `document`; `whole`: the simulated whole program, if there is one."""

    def __init__(self, document: Document, timed: Document | None, whole: Document | None, rank: int) -> None:
        super().__init__(document, timed)
        self.rank = rank
        self._whole = facts(whole) if whole is not None and whole.simulation is not None else None
        self._entered: dict[str, Occurrence | None] = {}
        self._origins: dict[tuple[str, str], list[int | None]] = {}

    @property
    def simulated(self) -> KnownInstances | None:
        """The whole program."""
        return self._whole

    @property
    def simulation(self) -> Simulation | None:
        """The simulation of the whole program."""
        return self._whole.simulation if self._whole is not None else None

    @property
    def index(self) -> TimelineIndex | None:
        """The whole program's."""
        return self._whole.index if self._whole is not None else None

    def at(self, function: Function, index: int) -> tuple[Occurrence, int] | None:
        """The run of the whole program that holds a statement here, and the number of the statement there."""
        then = self.then(function, index)
        occurrence = self.shown(function.name)
        return self._there(occurrence.instance.function, then) if then is not None and occurrence is not None else None

    def moment_of(self, occurrence: Occurrence, index: int) -> Moment | None:
        """When a statement of an occurrence here runs in the whole program."""
        there = self._there(occurrence.instance.function, index)
        return self.index.moment(*there) if there is not None and self.index is not None else None

    def idle(self, function: Function, index: int) -> tuple[IdleTime, ...]:
        """How this device idles before an op."""
        return tuple(idle for idle in super().idle(function, index) if idle.device == self.rank)

    def critical(self, function: Function) -> frozenset[int]:
        """The statements that have an event on the whole program's critical path."""
        there = self._run(function.name)
        if there is None or self._whole is None:
            return frozenset()
        on_path = self._whole.critical_statements(there)
        found = ((number, self.at(function, number)) for number in range(len(function.body)))
        return frozenset(number for number, at in found if at is not None and at[1] in on_path)

    def _there(self, function: Function, index: int) -> tuple[Occurrence, int] | None:
        """The run of the whole program that a function here is a part of, and the number of a statement there."""
        run = self._run(function.name)
        number = self._number(run, function, index) if run is not None else None
        return (run, number) if run is not None and number is not None else None

    def _run(self, name: str) -> Occurrence | None:
        """What the whole program runs where a function here is called for what is shown."""
        if name not in self._entered:
            self._entered[name] = self._follow(name)
        return self._entered[name]

    def _follow(self, name: str) -> Occurrence | None:
        """From the entry function down the calls that lead here."""
        calls: list[tuple[Function, int]] = []
        here = self.shown(name)
        while here is not None and here.caller is not None:
            calls.append(here.caller)
            here = self.shown(here.caller[0].name)
        if here is None or self._whole is None or self._whole.simulation is None:
            return None
        there = self._whole.shown(self._whole.simulation.function.name)
        for caller, index in reversed(calls):
            number = self._number(there, caller, index) if there is not None else None
            if there is None or number is None or not isinstance(there.instance.function.body[number], Call):
                return None
            there = self._whole.called(there, number)
        return there

    def _number(self, run: Occurrence, function: Function, index: int) -> int | None:
        """The statement of the whole program that one here comes from."""
        key = (run.instance.function.name, function.name)
        if key not in self._origins:
            self._origins[key] = origins(function, run.instance.function)
        return self._origins[key][index]
