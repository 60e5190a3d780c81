"""Bodies: a function's statements with their costs and what happens to memory, once per distinct call.

A body depends on the arguments' types and devices, on which of the arguments share memory, on what becomes of that
memory, and on which results the caller wants: a call means the same as its inlined body, in memory too.
"""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """What a statement does to memory: what it takes as it starts, and what is given back as it ends.

    Storages are the body's own; sizes are in bytes.
    """

    taken: tuple[tuple[int, int, int], ...] = ()
    """Storage, memory, bytes."""
    given: tuple[tuple[int, int, int], ...] = ()
    """Storage, memory, bytes."""
    moved: tuple[tuple[int, int], ...] = ()
    """Storages that take over another's memory: the new one, the old one."""


NO_CHANGE = MemoryChange()


@dataclass
class Body:
    """The statements of one function for one kind of call, in order."""

    instance: Instance
    parameters: list[tuple[int, int]]
    """Memory and bytes of the storages of the parameters."""
    steps: list[Effect | Body | None]
    """By statement: an op's effect, a call's body; None for `return`."""
    changes: list[MemoryChange]
    """By statement. For a call, only what the caller does: nothing."""
    arguments: dict[int, tuple[int, ...]]
    """By calling statement: our storage for each storage of the callee's parameters."""
    created: dict[int, tuple[tuple[int, int], ...]]
    """By calling statement: the callee's storages that become ours: theirs, ours."""
    pinned: frozenset[int]
    """The leaves returned that are in memory which must not be given back."""

    @cached_property
    def timed(self) -> list[Effect | Body]:
        """The steps that occupy devices, and the calls that hold some."""
        return [s for s in self.steps if (s.events if isinstance(s, Body) else s is not None and s.devices)]  # type: ignore[misc]

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
        for step, change in zip(self.steps, self.changes, strict=True):
            if isinstance(step, Body):
                for memory, (difference, rise) in step.memory.items():
                    before = use.get(memory, 0)
                    peak[memory] = max(peak.get(memory, 0), before + rise)
                    use[memory] = before + difference
                continue
            for _, memory, size in change.taken:
                use[memory] = used = use.get(memory, 0) + size
                if used > peak.get(memory, 0):
                    peak[memory] = used
            if step is not None and step.temporary:
                for memory, size in step.temporary:
                    peak[memory] = max(peak.get(memory, 0), use.get(memory, 0) + size)
            for _, memory, size in change.given:
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
        return self._of(found, (Fate.PINNED,) * found.parameters, (True,) * len(found.returned))

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
        self.arguments: dict[int, Leaves] = {}
        self.created: dict[int, tuple[tuple[int, int], ...]] = {}

    def build(self) -> Body:
        found = self.found
        dying = self._dying()
        steps: list[Effect | Body | None] = []
        changes: list[MemoryChange] = []
        for index, statement in enumerate(found.statements):
            step: Effect | Body | None = None
            change = NO_CHANGE
            if isinstance(statement, Called):
                step = self._call(index, statement)
            elif statement is not None:
                step = statement
                created = () if statement.view else found.created[index]
                if created or index in dying:
                    change = self._change(index, statement, created, dying.get(index, ()))
            steps.append(step)
            changes.append(change)
        pinned = frozenset(i for i, s in enumerate(found.returned) if s in self.pinned)
        parameters = found.sizes[: found.parameters]
        return Body(found.instance, parameters, steps, changes, self.arguments, self.created, pinned)

    def _dying(self) -> dict[int, list[int]]:
        """By statement: the storages that nobody needs after it."""
        dying: dict[int, list[int]] = {}
        last, live_out, kept = self.last, self.live_out, self.kept
        for storage in range(len(self.found.sizes)):
            index = last[storage]
            if index >= 0 and storage not in live_out and storage not in kept:
                if index in dying:
                    dying[index].append(storage)
                else:
                    dying[index] = [storage]
        return dying

    def _change(self, index: int, effect: Effect, created: Leaves, dying: Sequence[int]) -> MemoryChange:
        sizes, pinned = self.found.sizes, self.pinned
        moved = self._take_over(index, effect, created, dying) if effect.takeovers else {}
        taken = tuple([(s, *sizes[s]) for s in created if s != NO_STORAGE and s not in moved])
        gone = moved.values()
        given = tuple([(s, *sizes[s]) for s in dying if s not in pinned and s not in gone])
        return MemoryChange(taken, given, tuple(moved.items()))

    def _take_over(self, index: int, effect: Effect, created: Leaves, dying: Sequence[int]) -> dict[int, int]:
        """Let results take over the memory of operands that die here: the new storages, and the old ones."""
        moved: dict[int, int] = {}
        operands, sizes = self.found.operands[index], self.found.sizes
        for w, v in effect.takeovers:
            old, new = operands[v], created[w]
            if NO_STORAGE in (old, new) or old in moved.values() or old not in dying or sizes[old] != sizes[new]:
                continue
            moved[new] = old
            if old in self.pinned:
                self.pinned.add(new)
        return moved

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
