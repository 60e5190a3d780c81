"""Storages of the next version of an instance: of statements that an edit did not reach they are kept.

A storage that a changed statement makes keeps its number where it can, so that what uses it need not be looked at.
Numbers therefore do not tell an order; what nothing makes any more leaves a hole.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from distir.analysis import Instance
from distir.analysis.revision import Change, change
from distir.analysis.revision_instances import Origin
from distir.analysis.revision_names import mentioned
from distir.ir import DISCARD, Apply, Broken, Call, Return, Statement, results, types
from distir.ir.deep import Deep
from distir.ops import Reject, Value, type_of
from distir.simulate.effects import Effect
from distir.simulate.storage import (
    NO_STORAGE,
    Called,
    Leaves,
    StorageMap,
    Storages,
    Unplanned,
    canonical,
    create,
    leaves_of,
    name_results,
)

HOLES = 1_000
"""So many storages may have been dropped before all are numbered anew; or as many as there are."""


@dataclass(frozen=True, slots=True)
class Revised:
    """Storages made from earlier ones: the statements (of the new body) and the storages that are to be looked at."""

    old: Storages
    edit: Change
    touched: frozenset[int]
    moved_ends: dict[int, int]
    """Storages that are used last elsewhere than before, with the statement (of the old body) that used them last."""


@dataclass(slots=True)
class RevisedStorages(StorageMap):
    """Finds the storages of instances; made from those of the version before where that is possible."""

    earlier: dict[tuple[str, tuple[Value, ...], Leaves], Storages] = field(
        default_factory=dict[tuple[str, tuple[Value, ...], Leaves], Storages]
    )
    functions: Set[str] = frozenset()
    """The functions that have come to mean something else."""
    revised: dict[int, Revised] = field(default_factory=dict[int, Revised])
    """By the identity of new storages: how they were made."""

    def take_over(self, earlier: RevisedStorages) -> None:
        """Know what an earlier version knew: of functions that mean the same, all of it."""
        self.earlier = earlier.known
        self.known = {key: found for key, found in earlier.known.items() if key[0] not in self.functions}

    def found(self, instance: Instance, partition: Leaves | None = None) -> Deep[Storages]:
        """The storages of an instance, taken from the earlier version where nothing that matters has changed."""
        if partition is None:
            sizes = self.sizes(instance)
            partition = canonical([NO_STORAGE if size is None else i for i, size in enumerate(sizes)])
        key = (instance.function.name, instance.args, partition)
        known = self.known.get(key)
        if known is not None and known.instance is instance:
            return known
        old = self.earlier.get(key)
        origin = self.domain.earlier.origins.get(id(instance))
        if old is None or origin is None or origin.instance is not old.instance:
            return (yield from self.fresh(key, instance, partition))
        if old.dropped > max(HOLES, len(old.sizes) // 2):
            return (yield from self.fresh(key, instance, partition))
        revision = _Revision(self, old, instance, origin)
        self.known[key] = revision.new
        self.revised[id(revision.new)] = yield from revision.done()
        return revision.new


class _Revision:
    """Makes the storages of a new instance from those of the one that it was made from."""

    def __init__(self, storages: RevisedStorages, old: Storages, instance: Instance, origin: Origin) -> None:
        self.map, self.old, self.instance = storages, old, instance
        self.body = instance.function.body
        edit = self.edit = change(old.instance.function.body, self.body)
        self.new = Storages(
            instance,
            old.parameters,
            old.sizes.copy(),
            edit.carried(old.statements, None),
            edit.carried(old.operands, ()),
            edit.carried(old.created, ()),
            old.returned,
            old.places.copy(),
            old.dropped,
        )
        self.changed = set(origin.changed)
        self.touched: dict[int, int | None] = {}
        """Statements that were looked at, and which old ones they follow."""
        self.resized: set[int] = set()

    def done(self) -> Deep[Revised]:
        """Look at all that the edit reaches."""
        edit, body = self.edit, self.body
        old_body = self.old.instance.function.body
        names = self.map.domain.structure.names[self.instance.function.name]
        calls = names.calls.keys() & self.map.functions
        gone: dict[tuple[str, ...], int] = {}
        for index in edit.gone():
            gone.setdefault(results(old_body[index]), index)
            for name in results(old_body[index]):
                self.new.places.pop(name, None)
        for same, hunk in edit.stretches():
            if calls or any(name in names.uses for name in self.changed):
                yield from self._look_at_users(same.start, same.stop)
            if hunk is None:
                break
            for index in range(hunk.first, hunk.end):
                self.changed.update(name for name in results(old_body[index]) if name != DISCARD)
            for index in range(hunk.new_first, hunk.new_end):
                yield from self._look_at(index, gone.pop(results(body[index]), None) if results(body[index]) else None)
        moved_ends = self._last_uses()
        return Revised(self.old, edit, frozenset(self.touched), moved_ends)

    def _look_at_users(self, first: int, end: int) -> Deep[None]:
        """Look at the statements that mention a changed value or call a changed function."""
        body, changed, functions = self.body, self.changed, self.map.functions
        for index in range(first, end):
            statement = body[index]
            if (isinstance(statement, Call) and statement.function in functions) or (
                changed and not changed.isdisjoint(mentioned(statement))
            ):
                yield from self._look_at(index, self.edit.old_index(index))

    def _look_at(self, index: int, old_index: int | None) -> Deep[None]:
        statement, new = self.body[index], self.new
        self.touched[index] = old_index
        operands = leaves_of(statement.args, new.places) if not isinstance(statement, Broken) else ()
        done: Effect | Called | None = None
        created: Leaves = ()
        if isinstance(statement, Apply):
            try:
                done = self.map.effects.of(statement, self.instance.state)
            except Reject as reject:
                raise Unplanned(self.instance.function.name, index, reject) from None
            created = operands[: len(done.sizes)] if done.view else self._create(done, old_index)
            self._name(statement, created, done.widths)
        elif isinstance(statement, Call):
            done, created = yield from self._call(statement, operands, old_index)
            returned = (type_of(w) for w in done.callee.instance.state.returned)
            self._name(statement, done.results, [sum(1 for _ in types.leaves(t)) for t in returned])
        elif isinstance(statement, Return):
            new.returned = operands
        new.statements[index], new.operands[index], new.created[index] = done, operands, created

    def _create(self, effect: Effect, old_index: int | None) -> Leaves:
        """The storages of an op's results: those of the statement that it follows, if they fit."""
        sizes = self.new.sizes
        known = self.old.statements[old_index] if old_index is not None else None
        if old_index is not None and isinstance(known, Effect) and not known.view:
            created = self.old.created[old_index]
            if len(created) == len(effect.sizes) and all(
                (storage == NO_STORAGE) == (size is None) for storage, size in zip(created, effect.sizes, strict=True)
            ):
                for storage, size in zip(created, effect.sizes, strict=True):
                    if size is not None and size != sizes[storage]:
                        sizes[storage] = size
                        self.resized.add(storage)
                return created
        return create(self.new, effect.sizes)

    def _call(self, call: Call, operands: Leaves, old_index: int | None) -> Deep[tuple[Called, Leaves]]:
        instance = self.map.domain.instance(call.function, self.instance.state(call.args))
        callee = yield self.map.found(instance, canonical(operands))
        known = self.old.statements[old_index] if old_index is not None else None
        spare = list(self.old.created[old_index]) if old_index is not None and isinstance(known, Called) else []
        arguments = tuple(dict.fromkeys(s for s in operands if s != NO_STORAGE))
        ours: dict[int, int] = dict(enumerate(arguments)) | {NO_STORAGE: NO_STORAGE}
        created: list[int] = []
        for storage in callee.returned:
            if storage not in ours:
                if spare:
                    ours[storage] = spare.pop(0)
                    self.new.sizes[ours[storage]] = callee.sizes[storage]
                    self.resized.add(ours[storage])
                else:
                    ours[storage] = len(self.new.sizes)
                    self.new.sizes.append(callee.sizes[storage])
                created.append(ours[storage])
        return Called(callee, arguments, tuple(ours[s] for s in callee.returned)), tuple(created)

    def _name(self, statement: Statement, leaves: Leaves, widths: Iterable[int]) -> None:
        """Say where results are; a value that is elsewhere than before counts as changed."""
        places, names = self.new.places, results(statement)
        before = [self.old.places.get(name) for name in names]
        name_results(names, leaves, list(widths), places)
        for name, place in zip(names, before, strict=True):
            if name != DISCARD and places[name] != place:
                self.changed.add(name)

    def _last_uses(self) -> dict[int, int]:
        """Find the last uses of the new body; gives those that are not the old ones, moved."""
        old, new, edit = self.old, self.new, self.edit
        last = edit.renumbered(old.last_uses[:-1])
        last.extend([-1] * (len(new.sizes) - len(old.sizes) + 1))
        before, made = self._forget_uses(last)
        for index in sorted(self.touched):
            for storage in new.uses(index):
                last[storage] = max(last[storage], index)
        kept = {s for index in self.touched for s in new.created[index]}
        dropped = made - kept
        new.dropped += len(dropped)
        self._search({s: index for s, index in before.items() if s not in dropped}, last)
        last[-1] = NO_STORAGE
        new.__dict__["last_uses"] = last
        fresh = {s: -1 for index in self.touched for s in new.uses(index) if s != NO_STORAGE}
        seen = {**fresh, **before}
        old_last = old.last_uses
        return {
            s: old_last[s] if s < len(old.sizes) else -1
            for s in seen
            if s in self.resized
            or s >= len(old.sizes)
            or (edit.new_index(old_last[s]) if old_last[s] >= 0 else -1) != last[s]
        }

    def _forget_uses(self, last: array[int]) -> tuple[dict[int, int], set[int]]:
        """Forget the last uses by old statements that are gone or were looked at again.

        Gives these storages with the statement of the new body before which another use may be, and what the old
        statements made.
        """
        old, edit = self.old, self.edit
        before: dict[int, int] = {}
        made: set[int] = set()
        places = [(index, hunk.new_first) for hunk in edit.hunks for index in range(hunk.first, hunk.end)]
        redone = ((edit.old_index(index), index) for index in self.touched)
        places += [(old_index, index) for old_index, index in redone if old_index is not None]
        for old_index, index in places:
            for storage in old.uses(old_index):
                if storage != NO_STORAGE and old.last_uses[storage] == old_index:
                    before[storage] = index
                    last[storage] = -1
            statement = old.statements[old_index]
            if isinstance(statement, Called) or (isinstance(statement, Effect) and not statement.view):
                made.update(s for s in old.created[old_index] if s != NO_STORAGE)
        return before, made

    def _search(self, before: dict[int, int], last: array[int]) -> None:
        """Find the last use of storages before certain statements, going backwards."""
        new = self.new
        later = sorted((index, s) for s, index in before.items() if index > last[s])
        waiting: set[int] = set()
        index = 0
        while later or waiting:
            if not waiting:
                index = later[-1][0]
            while later and later[-1][0] >= index:
                waiting.add(later.pop()[1])
            index -= 1
            if index < 0:
                return
            uses = new.operands[index] + new.created[index]
            if uses and not waiting.isdisjoint(uses):
                for storage in waiting.intersection(new.uses(index)):
                    last[storage] = max(last[storage], index)
                    waiting.remove(storage)
            if later or index & 63:
                continue
            waiting = {s for s in waiting if last[s] < index}  # nothing before a known use is its last one
