"""Bodies of the next version of a program: what an edit did not reach is taken from the version before.

A statement is looked at again where it changed, where a storage is now used for the last time or no longer is, and
where it became known that memory must not be given back. What bodies hold in all is put together from pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import TypeVar

from distir.analysis.revision import Change
from distir.ir.deep import Deep
from distir.simulate.algebra.clocks import Step
from distir.simulate.algebra.usage import Use, compose
from distir.simulate.body import Bodies, Body, Builder, Fate, events_of, use_of_memory
from distir.simulate.effects import Effect
from distir.simulate.revision_storage import Revised, RevisedStorages
from distir.simulate.storage import NO_STORAGE, Called, Leaves, Storages

PIECE = 256
"""How many statements the use of memory is summed up over."""

BODIES_KEPT = 1_000
"""When there are more, those that are no longer run are let go of."""

Known = TypeVar("Known")


@dataclass(slots=True)
class Made:
    """A body, and what is needed to make the next version of it."""

    body: Body
    found: Storages
    held: frozenset[int]
    """The storages that must not be given back."""
    live_out: frozenset[int]
    timed: list[Step | None] = field(default_factory=list[Step | None])
    """By statement: what it does to clocks."""
    events: list[int] = field(default_factory=list[int])
    ops: list[int] = field(default_factory=list[int])
    lengths: list[int] = field(default_factory=list[int])
    """How many statements each piece has."""
    uses: list[Use] = field(default_factory=list[Use])
    """By piece: the use of memory."""

    def prepare(self) -> None:
        """Find what is kept by statement; once, when the first edit comes."""
        if self.lengths:
            return
        steps = self.body.steps
        self.timed = [_timed(step) for step in steps]
        self.events = [events_of(step) for step in steps]
        self.ops = [_ops(step) for step in steps]
        starts = range(0, len(steps), PIECE)
        self.uses = [use_of_memory(self.body, start, start + PIECE) for start in starts]
        self.lengths = [min(PIECE, len(steps) - start) for start in starts]


@dataclass(slots=True)
class RevisedBodies(Bodies):
    """Builds bodies, from those of the version before where that is possible."""

    earlier: Mapping[tuple[int, tuple[Fate, ...], tuple[bool, ...]], Made] = field(
        default_factory=dict[tuple[int, tuple[Fate, ...], tuple[bool, ...]], Made]
    )
    made: dict[tuple[int, tuple[Fate, ...], tuple[bool, ...]], Made] = field(
        default_factory=dict[tuple[int, tuple[Fate, ...], tuple[bool, ...]], Made]
    )

    most_kept: int = BODIES_KEPT

    def take_over(self, earlier: RevisedBodies, functions: Set[str]) -> None:
        """Know what an earlier version knew: of all but these functions, all of it."""
        self.earlier = earlier.made
        self.made = {
            key: made for key, made in earlier.made.items() if made.found.instance.function.name not in functions
        }
        self.known = {key: made.body for key, made in self.made.items()}
        self.most_kept = earlier.most_kept

    def sweep(self, entry: Body) -> None:
        """Let go of bodies that are no longer run."""
        run = {id(entry)}
        waiting = [entry]
        while waiting:
            for step in waiting.pop().steps:
                if isinstance(step, Body) and id(step) not in run:
                    run.add(id(step))
                    waiting.append(step)
        self.made = {key: made for key, made in self.made.items() if id(made.body) in run}
        self.known = {key: made.body for key, made in self.made.items()}
        used = {id(made.found) for made in self.made.values()}
        self.storages.known = {key: found for key, found in self.storages.known.items() if id(found) in used}
        self.most_kept = max(BODIES_KEPT, 2 * len(self.made))

    def build(self, found: Storages, fates: tuple[Fate, ...], wanted: tuple[bool, ...]) -> Deep[Body]:
        """The body for one kind of call, made from that of the earlier version where there is one."""
        assert isinstance(self.storages, RevisedStorages)
        key = (id(found), fates, wanted)
        revised = self.storages.revised.get(id(found))
        old = self.earlier.get((id(revised.old), fates, wanted)) if revised is not None else None
        builder = Builder(self, found, fates, wanted)
        if revised is None or old is None or old.found is not revised.old or not old.body.steps:
            body = yield from builder.build()
            self.made[key] = Made(body, found, frozenset(builder.pinned), body.live_out)
        else:
            old.prepare()
            self.made[key] = made = yield from _Revision(builder, old, revised).made()
            body = made.body
        return body


class _Revision:
    """Makes one body from an earlier one."""

    def __init__(self, builder: Builder, old: Made, revised: Revised) -> None:
        self.builder, self.old, self.revised = builder, old, revised
        edit = self.edit = revised.edit
        body = old.body
        builder.pinned = set(old.held)
        builder.moved = _kept(body.moved, edit)
        builder.arguments = _kept(body.arguments, edit)
        builder.created = _kept(body.created, edit)
        self.steps: list[Effect | Body | None] = edit.carried(body.steps, None)
        self.taken: list[Leaves] = edit.carried(body.taken, ())
        self.given: list[Leaves] = edit.carried(body.given, ())
        self.touched: set[int] = set()

    def made(self) -> Deep[Made]:
        """Look at the statements that are reached, in order; put the body together."""
        builder, waiting = self.builder, [*self._reached()]
        heapify(waiting)
        while waiting:
            index = heappop(waiting)
            if index in self.touched:
                continue
            self.touched.add(index)
            for storage in (yield from self._look_at(index)):
                end = builder.last[storage]
                if end > index:
                    heappush(waiting, end)
        body = builder.body(self.steps, self.taken, self.given)
        return self._kept(body)

    def _reached(self) -> set[int]:
        """The statements that something reaches from outside of this body's own order."""
        builder, revised, edit = self.builder, self.revised, self.edit
        found = set(revised.touched)
        ends = dict(revised.moved_ends)
        different = self.old.live_out ^ builder.live_out
        old_last = revised.old.last_uses
        for storage in different:
            ends.setdefault(storage, old_last[storage] if storage < len(revised.old.sizes) else -1)
        for storage, old_end in ends.items():
            moved = edit.new_index(old_end) if old_end >= 0 else None
            found.update(index for index in (moved, builder.last[storage]) if index is not None and index >= 0)
        if different:
            statements = builder.found.statements
            found.update(
                index
                for index in builder.created
                if isinstance(called := statements[index], Called) and not different.isdisjoint(called.results)
            )
        return found

    def _look_at(self, index: int) -> Deep[list[int]]:
        """Find what a statement does; gives its storages of which it became known that they are held, or are not."""
        builder = self.builder
        own = self._own(index)
        before = [storage in builder.pinned for storage in own]
        builder.pinned.difference_update(own)
        for known in (builder.moved, builder.arguments, builder.created):
            known.pop(index, None)
        self.steps[index], self.taken[index], self.given[index] = yield from builder.statement(index)
        return [s for s, was in zip(own, before, strict=True) if (s in builder.pinned) != was]

    def _own(self, index: int) -> list[int]:
        """The storages that a statement makes."""
        found = self.builder.found
        statement = found.statements[index]
        if isinstance(statement, Called) or (statement is not None and not statement.view):
            return [s for s in found.created[index] if s != NO_STORAGE]
        return []

    def _kept(self, body: Body) -> Made:
        old, edit = self.old, self.edit
        timed: list[Step | None] = edit.carried(old.timed, None)
        events = edit.carried(old.events, 0)
        ops = edit.carried(old.ops, 0)
        for index in self.touched:
            step = self.steps[index]
            timed[index], events[index], ops[index] = _timed(step), events_of(step), _ops(step)
        lengths, uses = self._pieces(body)
        known = body.__dict__  # where cached properties are kept
        known["events"] = sum(events)
        known["ops"] = sum(ops)
        known["first_events"] = list(accumulate(events, initial=0))
        known["summaries"] = list(filter(None, timed))
        known["memory"] = compose(uses)
        builder = self.builder
        held, live_out = frozenset(builder.pinned), frozenset(builder.live_out)
        return Made(body, builder.found, held, live_out, timed, events, ops, lengths, uses)

    def _pieces(self, body: Body) -> tuple[list[int], list[Use]]:
        """The use of memory by pieces; found again for those that hold a statement that was looked at."""
        old, edit = self.old, self.edit
        touched = sorted(self.touched)
        lengths: list[int] = []
        uses: list[Use] = []
        start = old_start = position = 0
        for length, use in zip(old.lengths, old.uses, strict=True):
            old_end = old_start + length
            end = len(self.steps) if old_end == len(old.timed) else edit.new_boundary(old_end)
            while position < len(touched) and touched[position] < start:
                position += 1
            is_reached = position < len(touched) and touched[position] < end
            if end - start != length or is_reached or edit.changes(old_start, old_end):
                step = PIECE if end - start > 2 * PIECE else max(end - start, 1)
                for first in range(start, end, step):
                    lengths.append(min(step, end - first))
                    uses.append(use_of_memory(body, first, first + lengths[-1]))
            else:
                lengths.append(length)
                uses.append(use)
            start, old_start = end, old_end
        return lengths, uses


def _kept(known: Mapping[int, Known], edit: Change) -> dict[int, Known]:
    """What is known of some statements, without those that an edit replaced."""
    moved = ((edit.new_index(index), found) for index, found in known.items())
    return {index: found for index, found in moved if index is not None}


def _timed(step: Effect | Body | None) -> Step | None:
    if isinstance(step, Body):
        return step.summary if step.events else None
    return step if step is not None and step.devices else None


def _ops(step: Effect | Body | None) -> int:
    return step.ops if isinstance(step, Body) else int(step is not None)
