"""The bytes in use in each memory over time, by kind: found once for all calls that run alike.

Two calls run alike if they run the same body but for devices' numbers and memories, from clocks that differ by one and
the same time, on operands of the same kinds. Of such a body the *course* of each memory is kept, from where the body
begins, and laid where it is called: so the curves of a million ops cost what the distinct runs of functions do. Without
clocks, a course is the algebra of `algebra.usage` with the kinds at the peak.

A *tolerance* thins courses as they are made: of what happens within so many ticks, the highest moment and the last one
are kept. None is moved, so peaks and ends are exact. Knows no names: kinds are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import add
from typing import Any

from distir.ir.deep import Deep, finish
from distir.simulate.algebra.clocks import renamed_clock
from distir.simulate.body import Body
from distir.simulate.descent import EventPlace, Run
from distir.simulate.memory import names_of_made

Levels = tuple[int, ...]
"""Bytes by kind."""

Moment = tuple[int, int, Levels]
"""From when on, in ticks; the bytes in use, and which they are. Within a body, both are counted from its beginning."""

AS_BEFORE = -(1 << 200)
"""The time of what happens when what is before it in its memory does: ops that take no time."""

MOST_VISITED = 4_000_000
"""Statements of runs that differ; beyond, programs have no curves."""


class TooManyRuns(Exception):  # noqa: N818 - a verdict on a program, not a failure of ours
    """A program has more runs that differ than are followed."""


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of storages, by number. `temporary`: the kind of ops' temporary memory."""

    count: int
    temporary: int
    of_value: Callable[[str, str], int]
    """Of a function's value, by their names."""


@dataclass(slots=True)
class Course:
    """The changes in one memory. `now`: the bytes in use after them."""

    now: Levels
    total: int = 0
    moments: list[Moment] = field(default_factory=list[Moment])
    group: int = 0
    """The place of the first moment that those within the tolerance are thinned with."""
    since: int = 0

    def put(self, at: int, total: int, levels: Levels, tolerance: int | None) -> None:
        """From a time on, so much is in use."""
        self.now, self.total = levels, total
        moments = self.moments
        if moments:
            at = max(at, moments[-1][0])  # memory follows the order of the program
        if tolerance is None:
            moments.append((at, total, levels))
        elif not moments or at - self.since > tolerance:
            self.group, self.since = len(moments), at
            moments.append((at, total, levels))
        elif total > moments[self.group][1]:
            moments[self.group :] = [(at, total, levels)]
        else:
            moments[self.group + 1 :] = [(at, total, levels)]

    def lay(self, course: Course, at: int, tolerance: int | None) -> None:
        """Append a call's changes, from a time on."""
        levels, total = self.now, self.total
        for when, more, added in course.moments:
            moment = when if when == AS_BEFORE else when + at
            self.put(moment, total + more, tuple(map(add, levels, added)), tolerance)


@dataclass(frozen=True, slots=True)
class RunCourses:
    """The courses of a body's memories, by memory of the original body, and the kinds of its storages."""

    courses: Mapping[int, Course]
    made: Mapping[int, int]


def courses(
    entry: Body, run: Run | None, kinds: Kinds, given: bytes, base: Mapping[int, Levels], tolerance: int | None
) -> dict[int, list[Moment]]:
    """By memory: the moments from which on something else is in use, in order.

    `given`: the kinds of the parameters' storages; `base`: what these take, by memory. Without a `run`, all at
    one time. Raises TooManyRuns.
    """
    walk = _Walk(kinds, tolerance, run is not None)
    start = {memory: Course(levels) for memory, levels in base.items()}
    for memory, levels in base.items():
        start[memory].put(0, sum(levels), levels, tolerance)
    finish(walk.body(entry, run, given, 0, start))
    return {
        memory: [(max(0, at), total, levels) for at, total, levels in course.moments]
        for memory, course in start.items()
    }


class _Walk:
    def __init__(self, kinds: Kinds, tolerance: int | None, timed: bool) -> None:
        self._kinds = kinds
        self._tolerance = tolerance
        self._timed = timed
        self._nothing: Levels = (0,) * kinds.count
        self._units = [[int(i == kind) for i in range(kinds.count)] for kind in range(kinds.count)]
        self._pieces: dict[Any, RunCourses] = {}
        self._roots: dict[int, tuple[Body, Mapping[int, int], Mapping[int, int]]] = {}
        self._visited = 0

    def body(self, body: Body, run: Run | None, given: bytes, base: int, into: dict[int, Course]) -> Deep[list[int]]:
        """Write a body's changes into courses, with times from `base` on. Returns the kinds of its storages."""
        function, tolerance = body.instance.function.name, self._tolerance
        kinds = [*given, *[0] * (len(body.sizes) + 1 - len(given))]
        self._visited += len(body.steps)
        if self._timed and self._visited > MOST_VISITED:
            raise TooManyRuns
        for index, step in enumerate(body.steps):
            if isinstance(step, Body):
                passed = bytes([kinds[storage] for storage in body.arguments[index]])
                piece, names, begin = yield self._called(step, run, index, passed)
                for memory, course in piece.courses.items():
                    ours = names.get(memory, memory)
                    own = into.get(ours)
                    if own is None:
                        own = into[ours] = Course(self._nothing)
                    own.lay(course, begin - base, tolerance)
                for theirs, ours in body.created[index]:
                    kinds[ours] = piece.made[theirs]
                continue
            if step is None:
                continue
            taken, freed = body.taken[index], body.given[index]
            if taken:
                names_of = names_of_made(body, index)
                for storage in taken:
                    kinds[storage] = self._kinds.of_value(function, names_of[storage])
            for new, old in body.moved.get(index, ()):
                kinds[new] = kinds[old]
            if not taken and not freed and not step.temporary:
                continue
            start = end = AS_BEFORE
            if run is not None and step.devices:
                start = EventPlace(run, index).start - base
                end = start + step.ticks
            kind = self._kinds.temporary
            sizes = body.sizes
            rises = [(sizes[s][0], kinds[s], sizes[s][1]) for s in taken] + [(m, kind, n) for m, n in step.temporary]
            falls = [(m, kind, -n) for m, n in step.temporary] + [(sizes[s][0], kinds[s], -sizes[s][1]) for s in freed]
            self._change(into, start, rises)
            self._change(into, end, falls)
        return kinds

    def _change(self, into: dict[int, Course], at: int, changes: list[tuple[int, int, int]]) -> None:
        if not changes:
            return
        after: dict[int, list[int]] = {}
        for memory, kind, nbytes in changes:
            levels = after.get(memory)
            if levels is None:
                course = into.get(memory)
                levels = after[memory] = [*(course.now if course is not None else self._nothing)]
            levels[kind] += nbytes
        for memory, levels in after.items():
            course = into.get(memory)
            if course is None:
                course = into[memory] = Course(self._nothing)
            course.put(at, sum(levels), tuple(levels), self._tolerance)

    def _called(
        self, body: Body, run: Run | None, index: int, given: bytes
    ) -> Deep[tuple[RunCourses, Mapping[int, int], int]]:
        """The courses of a call, its memories' numbers in the caller, and its start."""
        root, devices, memories = self._root(body)
        begin, relative, entered = 0, None, None
        if run is not None and run.groups[index]:
            clocks = run.entering(index)
            begin = min(clocks.values())
            relative = frozenset((renamed_clock(clock, devices), at - begin) for clock, at in clocks.items())
        key = id(root), relative, given
        piece = self._pieces.get(key)
        if piece is None:
            if relative is not None and run is not None:
                entered = run.enter(index)
            made: dict[int, Course] = {}
            kinds: list[int] = yield self.body(body, entered, given, begin, made)
            back = {ours: theirs for theirs, ours in memories.items()}
            renamed = {back.get(memory, memory): course for memory, course in made.items()}
            piece = self._pieces[key] = RunCourses(renamed, dict(enumerate(kinds)))
        return piece, memories, begin

    def _root(self, body: Body) -> tuple[Body, Mapping[int, int], Mapping[int, int]]:
        """The body that this one follows from elsewhere; by device of this one, its device, and by its memory, ours."""
        found = self._roots.get(id(body))
        if found is None:
            root, devices, memories = body, dict[int, int](), dict[int, int]()
            while root.origin is not None:
                root, there = root.origin
                back = {now: before for before, now in there.devices.items()}
                devices = {d: back.get(now, now) for d, now in devices.items()} if devices else back
                ours = there.memories
                memories = {before: memories.get(now, now) for before, now in ours.items()} if memories else dict(ours)
            found = self._roots[id(body)] = root, devices, memories
        return found
