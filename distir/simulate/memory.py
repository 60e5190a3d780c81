"""What is live where, event by event: the memory profile, and what stands in memory at its peak.

Computed only when it is looked at; peaks alone come from `Body.memory`, which costs one visit per distinct body.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from distir.ir import Function, results
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


@dataclass(slots=True)
class _Frame:
    """A body that is being walked: its storages as numbered over the whole program, and the statement that is next."""

    body: Body
    ours: dict[int, int]
    index: int = 0


def _walk(body: Body) -> Iterator[_Step]:
    """Walk the inlined program. Storages are numbered as they appear, those of the entry's parameters first.

    With a stack of its own: calls may be deeper than Python's stack.
    """
    frames = [_Frame(body, {i: i for i in range(len(body.parameters))})]
    storages, events = len(body.parameters), 0
    while frames:
        frame = frames[-1]
        body, ours, index = frame.body, frame.ours, frame.index
        if index == len(body.steps):
            frames.pop()
            if frames:
                _return(frames[-1], ours)
            continue
        frame.index += 1
        step = body.steps[index]
        if isinstance(step, Body):
            frames.append(_Frame(step, {i: ours[s] for i, s in enumerate(body.arguments[index])}))
        elif step is not None:
            taken: list[tuple[int, int, int]] = []
            for storage in body.taken[index]:
                ours[storage] = storages
                taken.append((storages, *body.sizes[storage]))
                storages += 1
            for new, old in body.moved.get(index, ()):
                ours[new] = ours[old]
            rises = [(memory, size) for _, memory, size in taken]
            rises += step.temporary
            falls = [(memory, -size) for memory, size in step.temporary]
            falls += [(memory, -size) for memory, size in (body.sizes[storage] for storage in body.given[index])]
            given = [ours[storage] for storage in body.given[index]]
            yield _Step(body.instance.function, index, events if step.devices else None, taken, given, rises, falls)
            events += bool(step.devices)


def _return(caller: _Frame, theirs: dict[int, int]) -> None:
    """Let the caller know the storages that its last call created."""
    for callee, ours in caller.body.created[caller.index - 1]:
        if callee in theirs:
            caller.ours[ours] = theirs[callee]
