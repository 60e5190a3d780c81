"""Builds the bodies of functions from their storages, each distinct call's once.

A body is determined by the storages of its instance, how these are synchronised, the fate of its parameters' memory,
and the results that the caller uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from itertools import compress

from distir.analysis import Instance
from distir.diagnostics.codes import simulation as codes
from distir.ir.deep import Deep, finish
from distir.ir.roles import is_donated
from distir.ops import Reject
from distir.simulate.body import Body
from distir.simulate.effects import Effect
from distir.simulate.leaves import NO_STORAGE, Leaves
from distir.simulate.storage import STATEMENTS_BETWEEN_PAUSES, Called, StorageMap, Storages, Unplanned, own_of
from distir.simulate.synchronisation import PLAIN, Synchronisation, synchronised


class Fate(Enum):
    """The fate of a parameter's memory after its last use in a body."""

    KEPT = "the caller still needs it"
    PINNED = "its value is dead, but it is not freed: parameters of the entry function"
    FREED = "it is freed"

    __hash__ = object.__hash__  # many are hashed: not by way of their names


FATES = (Fate.KEPT, Fate.FREED)
"""The fate of a value that is used again, and of one that is not."""

NOTHING: Leaves = ()


Key = tuple[int, tuple[Fate, ...], tuple[bool, ...], Synchronisation]
"""The cache key of a body: storages by identity, the fate of its parameters' memory, the results used, and how its ops
are synchronised."""


@dataclass(slots=True)
class Bodies:
    """Builds bodies, each once."""

    storages: StorageMap
    sized: bool = field(default=True, kw_only=True)
    """Whether the storages' sizes are bytes, so that the bodies' use of memory is wanted."""
    known: dict[Key, Body] = field(default_factory=dict["Key", Body])
    synchronised: dict[int, Synchronisation] = field(default_factory=dict[int, Synchronisation], kw_only=True)
    """By identity of storages; without those that are plain."""
    unequal: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]], kw_only=True)
    """Pairs of sizes: were they equal, a result would be donated memory that it is not."""

    def entry(self, instance: Instance) -> Body:
        """The body of a program's entry function: its parameters live throughout, its results to the end.

        Those that are `{donated}` live until their last use. Raises Unplanned for a kernel, which takes time where it
        is called, and for what cannot be simulated.
        """
        name = instance.function.name
        if instance.function.kernel:
            message = f"`@{name}` is a kernel: it is simulated where a function calls it"
            raise Unplanned(name, None, Reject(codes.KERNEL_ALONE, message, help="simulate a function that calls it"))
        found = self.storages.of(instance)
        self.synchronised = synchronised(found, self.synchronised)
        returned = set(found.returned)
        donated = {s for p in instance.function.params if is_donated(p) for s in found.places[p.name]}

        def fate(storage: int) -> Fate:
            return Fate.KEPT if storage in returned else Fate.FREED if storage in donated else Fate.PINNED

        return finish(self._of(found, tuple(map(fate, range(found.parameters))), (True,) * len(found.returned)))

    def _of(self, found: Storages, fates: tuple[Fate, ...], wanted: tuple[bool, ...]) -> Deep[Body]:
        how = self.synchronised.get(id(found.origin), PLAIN)
        key = (id(found), fates, wanted, how)  # the storage map keeps `found`, so its id stays its own
        known = self.known.get(key)
        if known is not None:
            return known
        if found.replica is None:
            known = self.known[key] = yield from self.build(found, fates, wanted, how)
        else:
            before, there = found.replica
            origin = yield self._of(before, fates, wanted)
            known = self.known[key] = origin.relocated(there, found.instance)
        return known

    def build(
        self, found: Storages, fates: tuple[Fate, ...], wanted: tuple[bool, ...], how: Synchronisation
    ) -> Deep[Body]:
        """The body for one kind of call; `wanted` says which results are."""
        return (yield from Builder(self, found, fates, wanted, how).build())

    def called(self, called: Called, fates: tuple[Fate, ...], wanted: tuple[bool, ...]) -> Deep[Body]:
        """The body of a call."""
        body = yield self._of(called.callee, fates, wanted)
        if self.sized:
            _ = body.summary  # now, callees first, as all that is found of bodies
        return body


class Builder:
    """Builds one body, statement by statement."""

    def __init__(
        self, bodies: Bodies, found: Storages, fates: Sequence[Fate], wanted: Sequence[bool], how: Synchronisation
    ) -> None:
        self.bodies = bodies
        self.found = found
        self.last = found.last_uses
        self.used = self.last
        """By storage: its last use, with no regard to ops on other streams that are pending."""
        self.lent = found.lent
        if found.held.pendings:
            self.last, self.used = self.last[:], found.last_used
        self.fates = fates
        self.wanted = wanted
        self.live_out = {s for s, w in zip(found.returned, wanted, strict=True) if w and s >= found.parameters}
        self.pinned = {s for s, fate in enumerate(fates) if fate is Fate.PINNED}
        self.kept = {s for s, fate in enumerate(fates) if fate is Fate.KEPT}
        self.moved: dict[int, tuple[tuple[int, int], ...]] = {}
        self.arguments: dict[int, Leaves] = {}
        self.created: dict[int, tuple[tuple[int, int], ...]] = {}
        self.synchronisation = how

    def build(self) -> Deep[Body]:
        """The body, statement by statement."""
        done: list[tuple[Effect | Body | None, Leaves, Leaves]] = []
        for index in range(len(self.found.statements)):
            if not index % STATEMENTS_BETWEEN_PAUSES:
                self.bodies.storages.pause()
            done.append((yield from self.statement(index)))
        body = self.body([d[0] for d in done], [d[1] for d in done], [d[2] for d in done])
        _ = body.events, body.ops  # now, callees first: later a long chain of calls would be too deep
        if self.bodies.sized:
            _ = body.memory
        return body

    def statement(self, index: int) -> Deep[tuple[Effect | Body | None, Leaves, Leaves]]:
        """The effect of a statement, and the storages allocated at its start and freed at its end."""
        statement = self.found.statements[index]
        if isinstance(statement, Called):
            return (yield from self._call(index, statement)), NOTHING, NOTHING
        if statement is None:
            return None, NOTHING, NOTHING
        created = self.found.created[index]
        takes = own_of(statement, created)
        gives = self._last_used(index)
        if (statement.donations or statement.reuses) and (gives or index in self.lent):
            takes, gives = self._take_over(index, statement, created, takes, gives)
        if NO_STORAGE in takes:
            takes = tuple([s for s in takes if s != NO_STORAGE])
        if self.pinned and gives:
            gives = tuple([s for s in gives if s not in self.pinned])
        return statement, takes, gives

    def body(self, steps: list[Effect | Body | None], taken: list[Leaves], given: list[Leaves]) -> Body:
        """The body that consists of what was found of its statements."""
        found = self.found
        pinned = frozenset(i for i, s in enumerate((*found.returned, *found.left)) if s in self.pinned)
        live_out = self.live_out
        if self.used is not self.last:
            left = {s for number in found.held.left for s in found.held.pendings[number].uses}
            live_out = live_out.union([s for s in left if s >= found.parameters and self.last[s] == len(steps)])
        body = Body(
            found.instance,
            found.sizes[: found.parameters],
            steps,
            found.sizes,
            taken,
            given,
            self.moved,
            self.arguments,
            self.created,
            frozenset(live_out),
            pinned,
            flow=self.synchronisation.flow,
            edge=self.synchronisation.edge,
        )
        body.passed_on = self._passed_on(body)
        return body

    def _last_used(self, index: int) -> Leaves:
        """The storages that are dead after an op, in the order in which it mentions them."""
        last = self.last
        last_used = [s for s in self.found.operands[index] if last[s] == index]
        last_used += [s for s in self.found.created[index] if last[s] == index]
        waited = self.found.held.waited
        if index in waited:
            last_used += [s for s in waited[index] if last[s] == index]
        if not last_used:
            return NOTHING
        live_out, kept = self.live_out, self.kept
        return tuple([s for s in dict.fromkeys(last_used) if s >= 0 and s not in live_out and s not in kept])

    def _passed_on(self, body: Body) -> tuple[frozenset[int], dict[int, int]]:
        """Follow each parameter's memory through those that take it over."""
        released: set[int] = set()
        inherited: dict[int, int] = {}
        ends: dict[int, tuple[Set[int], Mapping[int, int]]] = {}
        for parameter in range(self.found.parameters):
            held = parameter
            while (index := self.last[held]) >= 0:
                if index not in ends:
                    ends[index] = self._ends(body, index) if index < len(body.steps) else (set[int](), {})
                given, heirs = ends[index]
                if held in given:
                    released.add(parameter)
                    break
                if held not in heirs:
                    if held >= self.found.parameters:
                        inherited[held] = parameter
                    break
                held = heirs[held]
        return frozenset(released), inherited

    def _ends(self, body: Body, index: int) -> tuple[Set[int], Mapping[int, int]]:
        """The storages that a statement frees, and by donated storage the one that it becomes."""
        step = body.steps[index]
        if not isinstance(step, Body):
            return set(body.given[index]), {old: new for new, old in self.moved.get(index, ())}
        ours, (released, inherited) = self.arguments[index], step.passed_on
        heirs = {ours[inherited[theirs]]: mine for theirs, mine in self.created[index] if theirs in inherited}
        return {ours[parameter] for parameter in released}, heirs

    def _take_over(
        self, index: int, effect: Effect, created: Leaves, takes: Leaves, gives: Leaves
    ) -> tuple[Leaves, Leaves]:
        """Donate the memory of operands that die here to results; returns what is still allocated and freed."""
        moved: dict[int, int] = {}
        operands, sizes = self.found.operands[index], self.found.sizes
        free = {*gives, *self._free_but_lent(index)}
        owned = [(w, v) for w, v in effect.reuses if operands[v] not in self.pinned] if effect.reuses else []
        for w, v in (*effect.donations, *owned):
            old, new = operands[v], created[w]
            if old not in free or new == NO_STORAGE or new in moved:
                continue
            if sizes[old] != sizes[new]:
                (here, was), (there, will_be) = sizes[old], sizes[new]
                if here == there:
                    self.bodies.unequal.add((was, will_be))
                continue
            moved[new] = old
            free.discard(old)
            if self.used is not self.last:
                self.last[old] = index  # whatever is pending now uses what it became
            if old in self.pinned:
                self.pinned.add(new)
        if not moved:
            return takes, gives
        self.moved[index] = tuple(moved.items())
        gone = set(moved.values())
        return tuple([s for s in takes if s not in moved]), tuple([s for s in gives if s not in gone])

    def _free_but_lent(self, index: int) -> list[int]:
        """The storages that nothing needs after a statement, but for ops that it leaves pending."""
        return [s for s in self.lent.get(index, ()) if s not in self.live_out and s not in self.kept]

    def _call(self, index: int, called: Called) -> Deep[Body]:
        fates = self._fates(index, called.arguments)
        # By leaf of the results; `NO_STORAGE` is the last entry, which nothing uses.
        wanted = tuple(map(index.__lt__, map(self.used.__getitem__, called.results)))
        if not self.live_out.isdisjoint(called.results):
            wanted = tuple([w or s in self.live_out for w, s in zip(wanted, called.results, strict=True)])
        created = self._created(index)
        self.arguments[index] = called.arguments
        self.created[index] = created
        body = yield from self.bodies.called(called, fates, wanted)
        for i in body.pinned:
            self.pinned.add((*called.results, *(ours for _, ours in called.left))[i])
        if called.left or index in self.lent:
            self._taken_over(index, body)
        return body

    def _created(self, index: int) -> tuple[tuple[int, int], ...]:
        """The storages that a call makes: the callee's, ours."""
        called = self.found.statements[index]
        assert isinstance(called, Called)
        return tuple(zip(called.callee.made, self.found.created[index], strict=True)) + called.left

    def _fates(self, index: int, arguments: Leaves) -> tuple[Fate, ...]:
        """The fates of the arguments of a call, of which there are many."""
        last = self.last
        early = [(s, last[s]) for s in self._free_but_lent(index)]
        for storage, _ in early:  # pending ops use them later: those wait for what the callee does
            last[storage] = index
        ends = [*map(index.__eq__, map(last.__getitem__, arguments))]  # used here, and then no more
        for storage, until in early:
            last[storage] = until
        dead = {*compress(arguments, ends)}
        if dead.isdisjoint(self.live_out) and dead.isdisjoint(self.kept) and dead.isdisjoint(self.pinned):
            return tuple(map(FATES.__getitem__, ends))
        alive = self.live_out | self.kept
        return tuple(
            Fate.KEPT if not ended or s in alive else Fate.PINNED if s in self.pinned else Fate.FREED
            for ended, s in zip(ends, arguments, strict=True)
        )

    def _taken_over(self, index: int, body: Body) -> None:
        """Storages whose memory has been freed in a call, or become that of others, although pending ops used them."""
        arguments, created = self.arguments[index], self.created[index]
        taken, dead = body.ended_outside(created)
        if index in self.lent:
            for parameter in taken:
                self.last[arguments[parameter]] = index
        for at in dead:
            self.last[created[at][1]] = index
