"""Bodies: a function's statements with their costs and what happens to memory, once per distinct call.

A body depends on the arguments' types and devices, on which of the arguments share memory, on what becomes of that
memory, and on which results the caller wants: a call means the same as its inlined body, in memory too.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import accumulate

from distir.analysis import Instance
from distir.simulate.effects import Effect
from distir.simulate.storage import NO_STORAGE, Called, Leaves, StorageMap, Storages


class Fate(Enum):
    """What becomes of a parameter's memory after its last use in a body."""

    KEPT = "the caller still needs it"
    PINNED = "nobody needs what it holds, but it is not given back: parameters of the entry function"
    DYING = "it is given back"


NOTHING: Leaves = ()


@dataclass
class Body:
    """The statements of one function for one kind of call, in order."""

    instance: Instance
    parameters: list[tuple[int, int]]
    """Memory and bytes of the storages of the parameters."""
    steps: list[Effect | Body | None]
    """By statement: an op's effect, a call's body; None for `return`."""
    sizes: Sequence[tuple[int, int]]
    """Memory and bytes of each of the body's storages."""
    taken: list[Leaves]
    """By statement: the storages that an op takes as it starts. A call takes its own."""
    given: list[Leaves]
    """By statement: the storages that are given back as the op ends."""
    moved: dict[int, tuple[tuple[int, int], ...]]
    """By statement, for few: storages that take over another's memory, the new one and the old one."""
    arguments: dict[int, tuple[int, ...]]
    """By calling statement: our storage for each storage of the callee's parameters."""
    created: dict[int, tuple[tuple[int, int], ...]]
    """By calling statement: the callee's storages that become ours: theirs, ours."""
    live_out: frozenset[int]
    """The storages of ours that the caller wants."""
    pinned: frozenset[int]
    """The leaves returned that are in memory which must not be given back."""

    @cached_property
    def timed(self) -> list[Effect | Body]:
        """The steps that occupy devices, and the calls that hold some."""
        return [s for s in self.steps if (s.events if isinstance(s, Body) else s is not None and s.devices)]  # type: ignore[misc]

    @cached_property
    def passed_on(self) -> tuple[frozenset[int], dict[int, int]]:
        """What becomes of the parameters' storages: those given back, and by storage of ours the one it took over."""
        held = {s: s for s in range(len(self.parameters))}
        released: set[int] = set()
        for index, step in enumerate(self.steps):
            if isinstance(step, Body):
                ours = self.arguments[index]
                gone, inherited = step.passed_on
                released.update(held.pop(ours[p]) for p in gone if ours[p] in held)
                for theirs, mine in self.created[index]:
                    if theirs in inherited and ours[inherited[theirs]] in held:
                        held[mine] = held.pop(ours[inherited[theirs]])
                continue
            for new, old in self.moved.get(index, ()):
                if old in held:
                    held[new] = held.pop(old)
            released.update(held.pop(s) for s in self.given[index] if s in held)
        return frozenset(released), {s: parameter for s, parameter in held.items() if s >= len(self.parameters)}

    @cached_property
    def events(self) -> int:
        """How many ops occupy devices, in calls too."""
        return sum(_events(step) for step in self.steps)

    @cached_property
    def ops(self) -> int:
        """How many ops there are, in calls too."""
        return sum(s.ops if isinstance(s, Body) else s is not None for s in self.steps)

    @cached_property
    def first_events(self) -> list[int]:
        """By statement: how many events come before it in this body."""
        return [0, *accumulate(_events(step) for step in self.steps)]

    @cached_property
    def memory(self) -> dict[int, tuple[int, int]]:
        """By memory: by how many bytes its use changes from start to end, and how far it rises in between.

        These compose: after (c, p), (d, q) gives (c + d, max(p, c + q)).
        """
        use: dict[int, int] = {}
        peak: dict[int, int] = {}
        sizes = self.sizes
        for step, taken, given in zip(self.steps, self.taken, self.given, strict=True):
            if isinstance(step, Body):
                for memory, (difference, rise) in step.memory.items():
                    before = use.get(memory, 0)
                    peak[memory] = max(peak.get(memory, 0), before + rise)
                    use[memory] = before + difference
                continue
            for storage in taken:
                memory, size = sizes[storage]
                use[memory] = used = use.get(memory, 0) + size
                if used > peak.get(memory, 0):
                    peak[memory] = used
            if step is not None and step.temporary:
                for memory, size in step.temporary:
                    peak[memory] = max(peak.get(memory, 0), use.get(memory, 0) + size)
            for storage in given:
                memory, size = sizes[storage]
                use[memory] = use.get(memory, 0) - size
        return {memory: (use.get(memory, 0), max(peak.get(memory, 0), 0)) for memory in {*use, *peak}}


def _events(step: Effect | Body | None) -> int:
    if isinstance(step, Body):
        return step.events
    return 1 if step is not None and step.devices else 0


@dataclass(slots=True)
class Bodies:
    """Builds bodies, each once."""

    storages: StorageMap
    known: dict[tuple[int, tuple[Fate, ...], tuple[bool, ...]], Body] = field(
        default_factory=dict[tuple[int, tuple[Fate, ...], tuple[bool, ...]], Body]
    )

    def entry(self, instance: Instance) -> Body:
        """The body of a program's entry function: its parameters live throughout, its results to the end."""
        found = self.storages.of(instance)
        returned = set(found.returned)
        fates = tuple(Fate.KEPT if s in returned else Fate.PINNED for s in range(found.parameters))
        return self._of(found, fates, (True,) * len(found.returned))

    def _of(self, found: Storages, fates: tuple[Fate, ...], wanted: tuple[bool, ...]) -> Body:
        key = (id(found), fates, wanted)  # the storage map keeps `found`, so its id stays its own
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = _Builder(self, found, fates, wanted).build()
        return known

    def called(self, called: Called, fates: tuple[Fate, ...], wanted: tuple[bool, ...]) -> Body:
        """The body of a call."""
        return self._of(called.callee, fates, wanted)


class _Builder:
    """Builds one body, statement by statement."""

    def __init__(self, bodies: Bodies, found: Storages, fates: Sequence[Fate], wanted: Sequence[bool]) -> None:
        self.bodies = bodies
        self.found = found
        self.last = found.last_uses
        self.fates = fates
        self.wanted = wanted
        self.live_out = {s for s, w in zip(found.returned, wanted, strict=True) if w and s >= found.parameters}
        self.pinned = {s for s, fate in enumerate(fates) if fate is Fate.PINNED}
        self.kept = {s for s, fate in enumerate(fates) if fate is Fate.KEPT}
        self.moved: dict[int, tuple[tuple[int, int], ...]] = {}
        self.arguments: dict[int, Leaves] = {}
        self.created: dict[int, tuple[tuple[int, int], ...]] = {}

    def build(self) -> Body:
        found = self.found
        first, following = self._dying()
        steps: list[Effect | Body | None] = []
        taken: list[Leaves] = []
        given: list[Leaves] = []
        for index, statement in enumerate(found.statements):
            step: Effect | Body | None = None
            takes, gives = NOTHING, NOTHING
            if isinstance(statement, Called):
                step = self._call(index, statement)
            elif statement is not None:
                step = statement
                if not statement.view:
                    takes = found.created[index]
                if first[index] >= 0:
                    gives = _chain(first[index], following)
                if statement.takeovers:
                    takes, gives = self._take_over(index, statement, takes, gives)
                if NO_STORAGE in takes:
                    takes = tuple([s for s in takes if s != NO_STORAGE])
                if self.pinned:
                    gives = tuple([s for s in gives if s not in self.pinned])
            steps.append(step)
            taken.append(takes)
            given.append(gives)
        pinned = frozenset(i for i, s in enumerate(found.returned) if s in self.pinned)
        parameters = found.sizes[: found.parameters]
        body = Body(
            found.instance,
            parameters,
            steps,
            found.sizes,
            taken,
            given,
            self.moved,
            self.arguments,
            self.created,
            frozenset(self.live_out),
            pinned,
        )
        _ = (
            body.events,
            body.ops,
            body.memory,
            body.passed_on,
        )  # now, callees first: later a long chain of calls would be too deep
        return body

    def _dying(self) -> tuple[array[int], array[int]]:
        """The storages that nobody needs after a statement, as chains: by statement the first, by storage the next."""
        first = array("q", [-1]) * len(self.found.statements)
        following = array("q", [-1]) * len(self.found.sizes)
        last, live_out, kept = self.last, self.live_out, self.kept
        for storage in range(len(self.found.sizes) - 1, -1, -1):
            index = last[storage]
            if index >= 0 and storage not in live_out and storage not in kept:
                following[storage] = first[index]
                first[index] = storage
        return first, following

    def _take_over(self, index: int, effect: Effect, takes: Leaves, gives: Leaves) -> tuple[Leaves, Leaves]:
        """Let results take over the memory of operands that die here; gives what is still taken and given back."""
        moved: dict[int, int] = {}
        operands, sizes = self.found.operands[index], self.found.sizes
        for w, v in effect.takeovers:
            old, new = operands[v], takes[w]
            if NO_STORAGE in (old, new) or old in moved.values() or old not in gives or sizes[old] != sizes[new]:
                continue
            moved[new] = old
            if old in self.pinned:
                self.pinned.add(new)
        if moved:
            self.moved[index] = tuple(moved.items())
        gone = moved.values()
        return tuple([s for s in takes if s not in moved]), tuple([s for s in gives if s not in gone])

    def _call(self, index: int, called: Called) -> Body:
        callee = called.callee
        fates = tuple(self._fate(index, storage) for storage in called.arguments)
        fates = tuple(fate if i in callee.used_parameters else Fate.KEPT for i, fate in enumerate(fates))
        wanted = tuple(s != NO_STORAGE and (s in self.live_out or self.last[s] > index) for s in called.results)
        body = self.bodies.called(called, fates, wanted)
        self.arguments[index] = called.arguments
        fresh = {s: ours for s, ours in zip(callee.returned, called.results, strict=True) if s >= callee.parameters}
        self.created[index] = tuple(fresh.items())
        for i in body.pinned:
            self.pinned.add(called.results[i])
        return body

    def _fate(self, index: int, storage: int) -> Fate:
        """What becomes of a storage that is passed to a call."""
        if storage in self.live_out or storage in self.kept or self.last[storage] > index:
            return Fate.KEPT
        return Fate.PINNED if storage in self.pinned else Fate.DYING


def _chain(first: int, following: array[int]) -> Leaves:
    storage = following[first]
    if storage < 0:
        return (first,)
    chain = [first]
    while storage >= 0:
        chain.append(storage)
        storage = following[storage]
    return tuple(chain)
