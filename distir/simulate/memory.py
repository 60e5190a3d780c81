"""The memory profile, event by event, and the contents of memory at its peak.

Computed only on request; peaks alone come from `Body.memory`, which costs one visit per distinct body.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest

from distir.ir import Function, results
from distir.ir.roles import described
from distir.simulate.body import Body, events_of
from distir.simulate.effects import Effect
from distir.simulate.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Live:
    """A value in memory: its size, and the statement that made it (None: a parameter of the entry function).

    `role`: what a parameter is, in words, if it says so. `event`: the number of the op that made it; None for a
    parameter, and for an op that takes no time.
    """

    name: str
    nbytes: int
    function: str
    index: int | None
    role: str = ""
    event: int | None = field(default=None, compare=False)


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
        use = dict(self._base)
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

    def most(self, memory: int) -> int:
        """The most bytes in use in a memory."""
        return self._base.get(memory, 0) + self.timeline.body.memory.get(memory, (0, 0))[1]

    def peak(self, memory: int) -> tuple[int, int | None, list[Live]]:
        """The most bytes in use in a memory, the first event at which that is so, and what is live then.

        The event is None where the parameters alone are the peak.
        """
        most = self.most(memory)
        reached = self.first_over(memory, most - 1)
        event, live = reached if reached is not None else (None, [])
        return most, event, live

    def first_over(self, memory: int, capacity: int) -> tuple[int | None, list[Live]] | None:
        """The first event at which more than `capacity` bytes are in use, and the values live then; None if never.

        Calls whose peak stays below it are not entered.
        """
        use = self._base.get(memory, 0)
        body = self.timeline.body
        if use + body.memory.get(memory, (0, 0))[1] <= capacity:
            return None
        residents = _Residents(self, memory)
        if use > capacity:
            return None, residents.shown()
        first_event = 0
        turns = iter(_turns(body)[memory])
        while True:
            index = next(turns)
            step = body.steps[index]
            if isinstance(step, Body):
                difference, rise = step.memory.get(memory, (0, 0))
                if use + rise > capacity:
                    residents.enter(body, index)
                    first_event += body.first_events[index]
                    body, turns = step, iter(_turns(step)[memory])
                    continue
                use += difference
                residents.pass_over(body, index, step)
            elif step is not None:
                use += residents.take(body, index)
                if use + sum(size for place, size in step.temporary if place == memory) > capacity:
                    return first_event + body.first_events[index] if step.devices else None, residents.shown()
                use -= residents.give(body, index)

    def during(self, memory: int, event: int) -> list[Live]:
        """The values live in a memory while an event's op runs, largest first. Raises IndexError if it is no event."""
        body = self.timeline.body
        if not 0 <= event < body.events:
            raise IndexError(f"there is no event {event}")
        residents = _Residents(self, memory)
        index = 0
        while True:
            step = body.steps[index]
            if isinstance(step, Body):
                following = residents.first + body.first_events[index + 1]
                if event < following:
                    residents.enter(body, index)
                    body, index = step, 0
                    continue
                residents.pass_over(body, index, step)
            elif step is not None:
                residents.take(body, index)
                if step.devices and residents.first + body.first_events[index] == event:
                    return residents.shown()
                residents.give(body, index)
            index += 1

    def parameters(self, memory: int) -> list[Live]:
        """The parameters in a memory, largest first."""
        return _Residents(self, memory).shown()

    @cached_property
    def roles(self) -> dict[str, str]:
        """By parameter of the entry function: what it is, in words."""
        return {p.name: described(p) for p in self.timeline.body.instance.function.params}

    @cached_property
    def _base(self) -> dict[int, int]:
        use: dict[int, int] = {}
        for memory, size in self.entry_sizes:
            use[memory] = use.get(memory, 0) + size
        return use


class _Residents:
    """The live values of one memory, while walking the program from its start into the calls that matter.

    Storages are known by the body that made them and their number there; `local` finds those of the current body.
    """

    def __init__(self, profile: MemoryProfile, memory: int) -> None:
        self.profile = profile
        self.memory = memory
        sizes = profile.entry_sizes
        self.live: dict[int, tuple[Body | None, int, int]] = {
            i: (None, i, 0) for i, (place, _) in enumerate(sizes) if place == memory
        }
        """The origin of a live value: the body, its storage there, and the number of that body's first event."""
        self.first = 0
        """The number of the current body's first event."""
        self.local: dict[int, int] = {i: i for i in self.live}
        self.next_key = len(sizes)

    def take(self, body: Body, index: int) -> int:
        """An op starts: how many bytes it takes."""
        taken = 0
        for storage in body.taken[index]:
            taken += self._new(storage, body, storage, self.first)
        for new, old in body.moved.get(index, ()):
            if old in self.local:
                self.local[new] = self.local.pop(old)
        return taken

    def give(self, body: Body, index: int) -> int:
        """An op ends: how many bytes it gives back."""
        given = 0
        for storage in body.given[index]:
            if storage in self.local:
                del self.live[self.local.pop(storage)]
                given += body.sizes[storage][1]
        return given

    def enter(self, body: Body, index: int) -> None:
        """A call begins."""
        self.first += body.first_events[index]
        self.local = {i: self.local[s] for i, s in enumerate(body.arguments[index]) if s in self.local}

    def pass_over(self, body: Body, index: int, callee: Body) -> None:
        """A call that is not looked into."""
        ours = body.arguments[index]
        released, inherited = callee.passed_on
        for parameter in released:
            if ours[parameter] in self.local:
                del self.live[self.local.pop(ours[parameter])]
        for theirs, mine in body.created[index]:
            if theirs not in inherited:
                if theirs in callee.live_out:
                    self._new(mine, callee, theirs, self.first + body.first_events[index])
            elif ours[inherited[theirs]] in self.local:
                self.local[mine] = self.local.pop(ours[inherited[theirs]])

    def shown(self) -> list[Live]:
        """The live values, largest first."""
        found = [self._named(body, storage, first) for body, storage, first in self.live.values()]
        return sorted(found, key=lambda value: -value.nbytes)

    def _new(self, local: int, maker: Body, storage: int, first: int) -> int:
        place, size = maker.sizes[storage]
        if place != self.memory:
            return 0
        self.local[local] = self.next_key
        self.live[self.next_key] = (maker, storage, first)
        self.next_key += 1
        return size

    def _named(self, body: Body | None, storage: int, first: int) -> Live:
        if body is None:
            size = self.profile.entry_sizes[storage][1]
            name = self.profile.entry_names[storage]
            entry = self.profile.timeline.body.instance.function
            return Live(name, size, entry.name, None, self.profile.roles.get(name, ""))
        origin = _origin_of(body, storage)
        event = None if origin.event is None else first + origin.event
        return Live(origin.name, body.sizes[storage][1], origin.function, origin.index, event=event)


@dataclass(frozen=True, slots=True)
class _Origin:
    """The op that made a storage: its result's name, its function, its number there.

    `event`: the number of its event among those of the body that the storage is known in; None if it is none.
    """

    name: str
    function: str
    index: int
    event: int | None

    def behind(self, events: int) -> _Origin:
        """The same in a body with so many events before the call."""
        return self if self.event is None else replace(self, event=events + self.event)


def _turns(body: Body) -> dict[int, list[int]]:
    """By memory: the statements that use it, in order. Found once of a body, for all memories."""
    known = vars(body)
    if "turns" in known:
        return known["turns"]
    place = [memory for memory, _ in body.sizes]
    found: dict[int, list[int]] = {}
    for index, step in enumerate(body.steps):
        used: set[int] = set()
        if isinstance(step, Body):
            used.update(step.memory)
            used.update([place[storage] for storage in body.arguments[index]])
            used.update([place[ours] for _, ours in body.created[index]])
        elif step is not None:
            used.update([place[storage] for storage in (*body.taken[index], *body.given[index])])
            used.update([place[new] for new, _ in body.moved.get(index, ())])
            used.update([memory for memory, _ in step.temporary])
        for memory in used:
            found.setdefault(memory, []).append(index)
    known["turns"] = found
    return found


def _makers(body: Body) -> dict[int, tuple[int, int]]:
    """By storage that is not a parameter's: the statement that made it, and its number there. Found once of a body."""
    body = _first_of(body)  # they do not depend on devices
    known = vars(body)
    if "makers" in known:
        return known["makers"]
    found: dict[int, tuple[int, int]] = {}
    for index, step in enumerate(body.steps):
        if isinstance(step, Body):
            for theirs, ours in body.created[index]:
                found.setdefault(ours, (index, theirs))
        else:
            for storage in body.taken[index]:
                found.setdefault(storage, (index, storage))
            for new, old in body.moved.get(index, ()):
                found[new] = found[old] if old >= len(body.parameters) else (index, new)
    known["makers"] = found
    return found


def _origin_of(body: Body, storage: int) -> _Origin:
    """The origin of a storage that is not a parameter's. Found once of a body, and in calls of it."""
    passed: list[tuple[dict[int, _Origin], int, int]] = []
    """By body on the way to the op: its known origins, the storage, and how many events come before the call."""
    while True:
        body = _first_of(body)
        known: dict[int, _Origin] = vars(body).setdefault("origins", {})
        if storage in known:
            found = known[storage]
            break
        index, there = _makers(body)[storage]
        step, before = body.steps[index], body.first_events[index]
        if not isinstance(step, Body):
            name, event = names_of_made(body, index)[there], before if events_of(step) else None
            found = known[storage] = _Origin(name, body.instance.function.name, index, event)
            break
        passed.append((known, storage, before))
        body, storage = step, there
    for known, storage, before in reversed(passed):
        found = known[storage] = found.behind(before)
    return found


def _first_of(body: Body) -> Body:
    """The body that this one follows from, on other devices."""
    while body.origin is not None:
        body = body.origin[0]
    return body


def names_of_made(body: Body, index: int) -> dict[int, str]:
    """By storage that an op makes: the result that it belongs to. They are numbered as the results' leaves come."""
    step, names = body.steps[index], results(body.instance.function.body[index])
    assert isinstance(step, Effect)
    leaves = (name for name, width in zip(names, step.widths, strict=True) for _ in range(width))
    made = zip_longest(leaves, step.sizes, step.shares)
    stored = [name or "_" for name, size, shared in made if size is not None and shared is None]
    return dict(zip(body.made(index), stored, strict=False))


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
