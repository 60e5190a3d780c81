"""Which ops wait for which values of other streams: found function by function, callers before callees.

A value that another stream waits for gets ready by a clock of its own. Which values of a call do, its callers decide;
all calls of a function share what any of them needs (`Edge`), so that one body serves them all. That changes nothing: a
stream that waits for a value again does not wait, and a value whose clock nothing sets is there from the start.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import count

from distir.simulate.body import CLOSED, Edge
from distir.simulate.effects import DataFlow, Effect
from distir.simulate.storage import Called, Storages
from distir.simulate.stream_use import COMPUTES, NO_STREAMS


@dataclass(frozen=True, slots=True, eq=False)
class Synchronisation:
    """How the ops of a function are synchronised by data flow; the same object for all its bodies."""

    flow: Mapping[int, DataFlow]
    """By statement, where that does not follow from devices alone."""
    edge: Edge
    calls: Sequence[tuple[Storages, _Needed]]
    """The callees, each once, and what the calls here need of them."""


@dataclass(slots=True)
class _Needed:
    """What some calls of a function need."""

    awaited: dict[int, Set[str]] = field(default_factory=dict[int, Set[str]])
    """Storages of parameters, each with the streams that need not wait for it."""
    made: set[int] = field(default_factory=set[int])
    """Storages that the function makes."""

    def add(self, other: _Needed) -> None:
        """Include what other calls need."""
        for parameter, behind in other.awaited.items():
            self.await_(parameter, behind)
        self.made |= other.made

    def await_(self, parameter: int, behind: Set[str]) -> None:
        """A call waits for the value of a parameter, except on some streams."""
        known = self.awaited.get(parameter)
        self.awaited[parameter] = behind if known is None else known & behind

    def edge(self, found: Storages) -> Edge:
        """The edge of the function. What it makes on named streams gets ready by clocks of its own, needed or not."""
        made = self.made.union(found.made_on_streams)
        if not made and not self.awaited:
            return CLOSED
        awaited = sorted(self.awaited)
        return Edge(
            tuple(awaited),
            tuple([tuple(sorted(self.awaited[parameter])) for parameter in awaited]),
            tuple([storage for storage in found.made if storage in made]),
        )


FEW = 4
"""Up to so many storages are found one by one among the arguments of a call."""

PLAIN = Synchronisation({}, CLOSED, ())
"""Of a function whose ops are synchronised by their devices alone."""


def synchronised(entry: Storages, earlier: Mapping[int, Synchronisation]) -> dict[int, Synchronisation]:
    """By identity of storages that an entry function's calls lead to: how they are synchronised; not of plain ones.

    `earlier`: those of another version of the program, to be used again.
    """
    found: dict[int, Synchronisation] = {}
    if not entry.streams.anywhere:
        return found
    needed: dict[int, _Needed] = {}
    for storages in _callers_first(entry):
        edge = CLOSED if storages is entry else needed.pop(id(storages), _Needed()).edge(storages)
        if not storages.streams.anywhere and edge == CLOSED:
            continue
        done = earlier.get(id(storages))
        if done is None or done.edge != edge:
            done = _Walk(storages, edge).synchronisation()
        found[id(storages)] = done
        for callee, calls in done.calls:
            needed.setdefault(id(callee), _Needed()).add(calls)
    return found


def _callers_first(entry: Storages) -> list[Storages]:
    """All storages that an entry function's calls lead to, on whichever devices, each after those that call it."""
    found: list[Storages] = []
    seen = {id(entry)}

    def callees(storages: Storages) -> Iterator[Storages]:
        return (callee.origin for callee in storages.callees.values())

    way = [(entry, callees(entry))]
    while way:
        storages, rest = way[-1]
        callee = next((callee for callee in rest if id(callee) not in seen), None)
        if callee is None:
            way.pop()
            found.append(storages)
        else:
            seen.add(id(callee))
            way.append((callee, callees(callee)))
    return found[::-1]


class _Walk:
    """The statements of one function, one after the other."""

    def __init__(self, found: Storages, edge: Edge) -> None:
        self.found = found
        self.edge = edge
        self.crossing = {s for s in found.streams.crossing if s >= found.parameters}.union(edge.made)
        """The storages made here that ops of other streams wait for."""
        self.in_order = sorted(self.crossing)
        """The same, to find those that a call makes: their numbers follow each other."""
        self.ready: dict[int, Set[str]] = dict(zip(edge.awaited, map(frozenset, edge.behind), strict=True))
        """The storages that are ready by a clock of their own so far, and the streams that need not wait for it.

        Those are the one that has made the value, and those on which an op that uses it has waited.
        """
        self.flow: dict[int, DataFlow] = {}
        self.calls: dict[int, tuple[Storages, _Needed]] = {}

    def synchronisation(self) -> Synchronisation:
        """What is found of all statements."""
        found = self.found
        for index in self._concerned():
            statement = found.statements[index]
            if isinstance(statement, Called):
                self._call(statement, found.created[index])
            elif statement is not None:
                self._op(index, statement)
        return Synchronisation(self.flow, self.edge, tuple(self.calls.values()))

    def _concerned(self) -> Iterable[int]:
        """The statements that may wait for a value, or make one that others wait for."""
        found, crossing = self.found, self.crossing
        concerned = {*found.streams.named, *found.streams.first_uses}
        concerned.update([index for index, created in enumerate(found.created) if not crossing.isdisjoint(created)])
        if self.ready:
            given = frozenset(self.ready)
            concerned.update([index for index, used in enumerate(found.operands) if not given.isdisjoint(used)])
        return sorted(concerned)

    def _op(self, index: int, effect: Effect) -> None:
        """Find what an op waits for beside its devices, and who waits for it."""
        if not effect.devices:
            return
        ready, operands, created = self.ready, self.found.operands[index], self.found.created[index]
        stream = self.found.streams.named.get(index, "")
        waits: list[int] = []
        for storage in operands:
            behind = ready.get(storage)
            if behind is not None and stream not in behind:
                ready[storage] = behind | {stream}
                waits.append(storage)
        made: list[int] = []
        if not self.crossing.isdisjoint(created):
            alone = frozenset((stream,))
            for storage in created:  # of a view, what is there already is not made
                if storage in self.crossing and storage not in ready and storage not in operands:
                    ready[storage] = alone
                    made.append(storage)
        if stream or waits or made:
            self.flow[index] = DataFlow(stream, tuple(waits), tuple(made))

    def _call(self, called: Called, created: Sequence[int]) -> None:
        """Find which values get ready by clocks of their own as they come into a call, and which as they leave it."""
        ready, callee, arguments = self.ready, called.callee, called.arguments
        like = callee.origin
        found = self.calls.get(id(like))
        if found is None:
            found = self.calls[id(like)] = like, _Needed()
        needed = found[1]
        given = ready.keys() & arguments
        if len(given) > FEW:
            given = [storage for storage in given if not like.streams_of_parameters <= ready[storage]]
        places = arguments.index if len(given) <= FEW else dict(zip(arguments, count())).__getitem__
        for storage in given:
            parameter, behind = places(storage), ready[storage]
            users = like.users_of_parameters.get(parameter, NO_STREAMS)
            if not users <= behind:
                needed.await_(parameter, users & behind)
                ready[storage] = behind | users
        if created:
            first, crossing = created[0], self.in_order
            for ours in crossing[bisect_left(crossing, first) : bisect_right(crossing, created[-1])]:
                theirs = callee.made[ours - first]
                needed.made.add(theirs)
                ready[ours] = like.behind.get(theirs, COMPUTES)
