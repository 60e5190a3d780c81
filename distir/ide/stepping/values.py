"""The values of a function in one of its runs: which are live at a statement, how large, when made and when freed.

Memory follows the order of the program (docs/explanation/memory.md): so a value is live at a statement from
the op that makes it to the last one that uses it, whatever other devices have done by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from distir.ide.stepping.streams import Spot, Streams
from distir.ir import DISCARD, HOST, Type, results, types
from distir.ops import Value, type_of
from distir.simulate.body import Body
from distir.simulate.descent import EventPlace, Run
from distir.simulate.leaves import NO_STORAGE, Leaves
from distir.simulate.simulation import Simulation
from distir.simulate.storage import Called, StorageMap, Storages


@dataclass(frozen=True, slots=True, eq=False)
class HeldValue:
    """A value of a run. `leaves`: the storages that hold it; `statement`: the one that makes it, None for a parameter.

    `is_view`: it is in the memory of values made before.
    """

    name: str
    value: Value
    run: Run
    leaves: Leaves
    statement: int | None
    is_view: bool = False

    @property
    def type(self) -> Type:
        """Its type."""
        return type_of(self.value)

    @property
    def nbytes(self) -> int:
        """Bytes of the storages that hold it."""
        return sum(self.run.body.sizes[storage][1] for storage in set(self.leaves) - {NO_STORAGE})

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices that it is on; none for a host value."""
        return tuple(sorted(types.devices(self.type) - {HOST}))


@dataclass(frozen=True, slots=True, eq=False)
class Ending:
    """The end of a storage: the event after which it is free, or in which its memory becomes that of a result.

    `place` is None where it is retained to the end of the program; so it is for what no device does.
    """

    place: EventPlace | None
    donated: bool = False


@dataclass(eq=False)
class _Table:
    """The lifetimes of the storages of a body: what makes them and what ends them, by statement."""

    body: Body

    @cached_property
    def made(self) -> dict[int, tuple[int, int]]:
        """By storage: the statement, and for a call the callee's storage."""
        found: dict[int, tuple[int, int]] = {}
        for index, step in enumerate(self.body.steps):
            if isinstance(step, Body):
                for theirs, ours in self.body.created[index]:
                    found.setdefault(ours, (index, theirs))
            elif step is not None:
                for storage in self.body.made(index):
                    found.setdefault(storage, (index, storage))
        return found

    @cached_property
    def ended(self) -> dict[int, tuple[int, int]]:
        """By storage: the statement, and for a call the callee's storage; that of a result where it is donated."""
        found: dict[int, tuple[int, int]] = {}
        for index, step in enumerate(self.body.steps):
            if isinstance(step, Body):
                released, inherited = step.passed_on
                ours = self.body.arguments[index]
                found.update((ours[p], (index, p)) for p in (*released, *inherited.values()))
            elif step is not None:
                found.update((storage, (index, storage)) for storage in self.body.given[index])
                found.update((old, (index, new)) for new, old in self.body.moved.get(index, ()))
        return found


class LiveValues:
    """The values of a simulated program. Storages are found when first asked about: planning has not retained them."""

    def __init__(self, simulation: Simulation, streams: Streams) -> None:
        self.simulation, self.streams = simulation, streams
        self._tables: dict[int, _Table] = {}

    @cached_property
    def _root(self) -> Storages:
        effects = self.simulation.effects
        return StorageMap(effects.domain, effects).of(self.simulation.instance)

    def storages(self, run: Run) -> Storages:
        """The storages of a run, with the names of the values in them."""
        way: list[int] = []
        current = run
        while current.caller is not None:
            way.append(current.caller[1])
            current = current.caller[0]
        found = self._root
        for statement in reversed(way):
            called = found.statements[statement]
            assert isinstance(called, Called)
            found = called.callee
        return found

    def live(self, spot: Spot) -> list[HeldValue]:
        """The values of a function that are in memory while a statement runs, in the order of the program."""
        at = spot.statement
        statements = spot.function.body[: at + 1]
        found = [self._named(spot, param.name, None) for param in spot.function.params]
        found += [
            self._named(spot, name, index)
            for index, statement in enumerate(statements)
            for name in results(statement)
            if name != DISCARD
        ]
        return [value for value in found if any(self._is_live(spot, s) for s in set(value.leaves) - {NO_STORAGE})]

    def named(self, spot: Spot, name: str) -> HeldValue | None:
        """A value of the function that a statement is in; None if it has none of that name."""
        function = spot.function
        if any(param.name == name for param in function.params):
            return self._named(spot, name, None)
        for index, statement in enumerate(function.body):
            if name != DISCARD and name in results(statement):
                return self._named(spot, name, index)
        return None

    def made(self, run: Run, storage: int) -> EventPlace | None:
        """The op that makes what is in a storage; None for a parameter of the entry function."""
        while True:
            if storage < len(run.body.parameters):
                if run.caller is None:
                    return None
                run, statement = run.caller
                storage = run.body.arguments[statement][storage]
                continue
            statement, storage = self._table(run.body).made[storage]
            if not isinstance(run.body.steps[statement], Body):
                return EventPlace(run, statement)
            run = self.streams.enter(Spot(run, statement))

    def ended(self, run: Run, storage: int) -> Ending:
        """The end of a storage."""
        while True:
            found = self._table(run.body).ended.get(storage)
            if found is not None:
                statement, inner = found
                if isinstance(run.body.steps[statement], Body):
                    run, storage = self.streams.enter(Spot(run, statement)), inner
                    continue
                return Ending(EventPlace(run, statement), inner != storage)
            if run.caller is None:
                return Ending(None)
            caller, call = run.caller
            if storage < len(run.body.parameters):
                outer: int | None = caller.body.arguments[call][storage]
            else:
                outer = dict(caller.body.created[call]).get(storage)
            if outer is None:
                return Ending(None)
            run, storage = caller, outer

    def _is_live(self, spot: Spot, storage: int) -> bool:
        """Whether what has been made by a statement is still needed then, here or by callers.

        An argument that the callee's ops do not use may have been freed before the call.
        """
        while True:
            run, at = spot
            ended = self._table(run.body).ended.get(storage)
            if ended is not None:
                return ended[0] >= at
            if storage >= len(run.body.parameters):
                return storage in run.body.live_out
            if run.caller is None:
                return True
            spot = Spot(*run.caller)
            storage = spot.run.body.arguments[spot.statement][storage]

    def _named(self, spot: Spot, name: str, statement: int | None) -> HeldValue:
        run = spot.run
        leaves = self.storages(run).places[name]
        value = run.body.instance.state[name]
        step = run.body.steps[statement] if statement is not None else None
        is_view = step is not None and not isinstance(step, Body) and step.view
        return HeldValue(name, value, run, leaves, statement, is_view)

    def _table(self, body: Body) -> _Table:
        found = self._tables.get(id(body))
        if found is None:
            found = self._tables[id(body)] = _Table(body)
        return found


def leaves_of_value(value: HeldValue) -> Sequence[int]:
    """The storages of a value on devices, each once."""
    return sorted(set(value.leaves) - {NO_STORAGE})
