"""What is live where, event by event: the memory profile, and what stands in memory at its peak.

Computed only when it is looked at; peaks alone come from `Body.memory`, which costs one visit per distinct body.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from distir.ir import Apply, Call, Function, results
from distir.simulate.body import Body
from distir.simulate.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Live:
    """A value in memory: its size, and the statement that made it (None: a parameter of the entry function)."""

    name: str
    nbytes: int
    function: str
    index: int | None


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """From `time` in seconds, `nbytes` are in use in a memory. `event`: the op that changed it."""

    time: float
    memory: int
    nbytes: int
    event: int


class MemoryProfile:
    """Walks the program as inlined, with the identity of every storage."""

    def __init__(self, timeline: Timeline, entry_sizes: list[tuple[int, int]], entry_names: list[str]) -> None:
        self.timeline = timeline
        self.entry_sizes = entry_sizes
        self.entry_names = entry_names

    def points(self) -> Iterator[MemoryPoint]:
        """Every change of the bytes in use, in program order; temporary memory rises and falls with its op."""
        use = self._base()
        for memory, nbytes in use.items():
            yield MemoryPoint(0.0, memory, nbytes, -1)
        time: dict[int, float] = dict.fromkeys(use, 0.0)
        for step in _walk(self.timeline.body):
            start = end = 0.0
            if step.event is not None:
                start, end = self.timeline.starts[step.event], self.timeline.end(step.event)
            for moment, changes in ((start, step.rises), (end, step.falls)):
                for memory, difference in changes:
                    when = moment if step.event is not None else time.get(memory, 0.0)
                    use[memory] = use.get(memory, 0) + difference
                    time[memory] = max(when, time.get(memory, 0.0))
                    yield MemoryPoint(time[memory], memory, use[memory], -1 if step.event is None else step.event)

    def peak(self, memory: int) -> tuple[int, int | None, list[Live]]:
        """The most bytes in use in a memory, the first event at which that is so, and what is live then.

        The event is None where the parameters alone are the peak.
        """
        best, at = self._base().get(memory, 0), None
        use = best
        for number, step in enumerate(_walk(self.timeline.body)):
            for changed, difference in step.rises:
                if changed == memory:
                    use += difference
                    if use > best:
                        best, at = use, number
            use += sum(difference for changed, difference in step.falls if changed == memory)
        return best, *self._live(memory, at)

    def first_over(self, memory: int, capacity: int) -> tuple[int | None, list[Live]] | None:
        """The first event at which more than `capacity` bytes are in use, and what is live then; None if never."""
        use = self._base().get(memory, 0)
        if use > capacity:
            return self._live(memory, None)
        for number, step in enumerate(_walk(self.timeline.body)):
            for changed, difference in step.rises:
                if changed == memory:
                    use += difference
                    if use > capacity:
                        return self._live(memory, number)
            use += sum(difference for changed, difference in step.falls if changed == memory)
        return None

    def _base(self) -> dict[int, int]:
        use: dict[int, int] = {}
        for memory, size in self.entry_sizes:
            use[memory] = use.get(memory, 0) + size
        return use

    def _live(self, memory: int, until: int | None) -> tuple[int | None, list[Live]]:
        """The event of a step, and what is live in a memory while it runs, largest first."""
        entry = self.timeline.body.instance.function.name
        live = {
            i: Live(name, size, entry, None)
            for i, (name, (place, size)) in enumerate(zip(self.entry_names, self.entry_sizes, strict=True))
            if place == memory
        }
        event = None
        for number, step in enumerate(_walk(self.timeline.body)):
            if until is None or number > until:
                break
            for storage, place, size in step.taken:
                if place == memory:
                    live[storage] = Live(step.name, size, step.function.name, step.index)
            if number == until:
                event = step.event
                break
            for storage in step.given:
                live.pop(storage, None)
        return event, sorted(live.values(), key=lambda value: -value.nbytes)


@dataclass(slots=True)
class _Step:
    """One op of the inlined program, with storages numbered over the whole program."""

    function: Function
    index: int
    event: int | None
    taken: list[tuple[int, int, int]]
    given: list[int]
    rises: list[tuple[int, int]]
    falls: list[tuple[int, int]]

    @property
    def name(self) -> str:
        return next((name for name in results(self.function.body[self.index]) if name), "_")


class _Walk:
    """A walk over the inlined program; numbers storages as they appear, those of the entry's parameters first."""

    def __init__(self, body: Body) -> None:
        self.next_storage = len(body.parameters)
        self.next_event = 0

    def steps(self, body: Body, ours: dict[int, int]) -> Iterator[_Step]:
        function = body.instance.function
        sizes = body.sizes
        for index, step in enumerate(body.steps):
            statement = function.body[index]
            if isinstance(step, Body):
                assert isinstance(statement, Call)
                theirs = {i: ours[s] for i, s in enumerate(body.arguments[index])}
                yield from self.steps(step, theirs)
                for callee, caller in body.created[index]:
                    if callee in theirs:
                        ours[caller] = theirs[callee]
                continue
            if step is None:
                continue
            assert isinstance(statement, Apply)
            taken = [(self._new(ours, storage), *sizes[storage]) for storage in body.taken[index]]
            for new, old in body.moved.get(index, ()):
                ours[new] = ours[old]
            temporary = list(step.temporary)
            event = self.next_event if step.devices else None
            self.next_event += event is not None
            rises = [(memory, size) for _, memory, size in taken] + temporary
            falls = [(memory, -size) for memory, size in temporary]
            falls += [(memory, -size) for memory, size in (sizes[storage] for storage in body.given[index])]
            given = [ours[storage] for storage in body.given[index]]
            yield _Step(function, index, event, taken, given, rises, falls)

    def _new(self, ours: dict[int, int], storage: int) -> int:
        ours[storage] = number = self.next_storage
        self.next_storage += 1
        return number


def _walk(body: Body) -> Iterator[_Step]:
    return _Walk(body).steps(body, {i: i for i in range(len(body.parameters))})
