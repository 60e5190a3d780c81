"""What edits of a function's body changed: the statements before, between and after them are the same.

The parser takes statements that an edit did not touch from the version before, so most are the same objects, and two
bodies are compared at the price of comparing pointers.
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from distir.diagnostics import Diagnostic, Note
from distir.diagnostics.core import Span
from distir.ir import Function, Module, Site, Statement, results

_BLOCK = 1 << 12

_FARTHEST = 1_000
"""By how many statements others may have moved between two edits, to be found again."""

_KNOWN = 4
"""How many changes are remembered: one edit is asked about for names, types and storages."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """The statements from `first` to before `end` became those from `new_first` to before `new_end`."""

    first: int
    end: int
    new_first: int
    new_end: int

    @property
    def moved(self) -> int:
        """By how much the statements after it have moved."""
        return self.new_end - self.end


@dataclass(frozen=True, slots=True)
class Change:
    """How one body becomes another: what lies between the hunks is the same in both. In order; they do not touch."""

    hunks: tuple[Hunk, ...]
    old_size: int
    new_size: int

    @property
    def moves(self) -> bool:
        """Whether some statements have another number now."""
        return any(hunk.moved for hunk in self.hunks)

    def gone(self) -> Iterator[int]:
        """The statements of the old body that are in the new one no more."""
        for hunk in self.hunks:
            yield from range(hunk.first, hunk.end)

    def fresh(self) -> Iterator[int]:
        """The statements of the new body that are not in the old one."""
        for hunk in self.hunks:
            yield from range(hunk.new_first, hunk.new_end)

    def stretches(self) -> Iterator[tuple[range, Hunk | None]]:
        """The new body in order: each piece that is as before, and the hunk that follows it; None after the last."""
        start = 0
        for hunk in self.hunks:
            yield range(start, hunk.new_first), hunk
            start = hunk.new_end
        yield range(start, self.new_size), None

    def old_index(self, index: int) -> int | None:
        """Where a statement of the new body was; None for one that is new."""
        at = bisect.bisect_right(self.hunks, index, key=_new_first) - 1
        if at < 0:
            return index
        hunk = self.hunks[at]
        return index - hunk.moved if index >= hunk.new_end else None

    def new_index(self, index: int) -> int | None:
        """Where a statement of the old body is; None for one that is gone."""
        at = bisect.bisect_right(self.hunks, index, key=_first) - 1
        if at < 0:
            return index
        hunk = self.hunks[at]
        return index + hunk.moved if index >= hunk.end else None

    def new_boundary(self, boundary: int) -> int:
        """Where a piece of the new body ends that ended before the statement `boundary` of the old one.

        New statements belong to the piece that follows, where they are at its beginning.
        """
        at = bisect.bisect_left(self.hunks, boundary, key=_first) - 1
        if at < 0:
            return boundary
        hunk = self.hunks[at]
        return boundary + hunk.moved if boundary >= hunk.end else hunk.new_first

    def changes(self, start: int, end: int) -> bool:
        """Whether something is gone from, or new in, the statements from `start` to before `end` of the old body."""
        at = bisect.bisect_left(self.hunks, end, key=_first) - 1
        return at >= 0 and self.hunks[at].end > start

    def renumbered(self, indices: array[int]) -> array[int]:
        """The numbers of statements, as they are now; any number for those that are gone. Negative ones stay."""
        if not self.moves:
            return indices[:]
        if len(self.hunks) == 1:
            end, by = self.hunks[0].end, self.hunks[0].moved
            return array("q", [index + by if index >= end else index for index in indices])
        places = array("q", range(self.old_size))
        for hunk, following in pairwise((*self.hunks, None)):
            end = self.old_size if following is None else following.first
            if hunk is not None:
                places[hunk.end : end] = array("q", range(hunk.end + hunk.moved, end + hunk.moved))
        return array("q", [places[index] if index >= 0 else index for index in indices])


def change(old: Sequence[Statement], new: Sequence[Statement]) -> Change:
    """What makes one body from another: few changes, though not always the fewest."""
    for before, now, known in _known[:]:
        if before is old and now is new:
            return known
    shorter = min(len(old), len(new))
    before = _common(old, new, shorter, from_end=False)
    after = _common(old, new, shorter - before, from_end=True)
    found = Change(tuple(_hunks(old, new, before, len(old) - after, len(new) - after)), len(old), len(new))
    _known[:] = [(old, new, found), *_known[: _KNOWN - 1]]
    return found


_known: list[tuple[Sequence[Statement], Sequence[Statement], Change]] = []
"""The bodies that were compared last, and the change between them."""


def _hunks(
    old: Sequence[Statement], new: Sequence[Statement], start: int, old_end: int, new_end: int
) -> Iterator[Hunk]:
    """The hunks from `start` in both bodies to before their ends. A statement is found again by what it defines."""
    if start == old_end == new_end:
        return
    places: dict[tuple[str, ...], int] = {}
    if old_end - start != new_end - start:
        places = {names: index for index in range(start, old_end) if (names := results(old[index]))}
    first = at = start
    """Where the hunk that is being found begins in the old and the new body; what follows is compared."""
    old_at, new_at = start, start
    while new_at < new_end:
        statement = new[new_at]
        index = old_at if not places else places.get(results(statement), -1)
        if old_at <= index < min(old_end, old_at + _FARTHEST) and _is_same(old[index], statement):
            if index > first or new_at > at:
                yield Hunk(first, index, at, new_at)
            first, at = index + 1, new_at + 1
            old_at = first
        elif not places:
            old_at += 1
        new_at += 1
    if first < old_end or at < new_end:
        yield Hunk(first, old_end, at, new_end)


def _is_same(a: Statement, b: Statement) -> bool:
    return a is b or a == b


def _first(hunk: Hunk) -> int:
    return hunk.first


def _new_first(hunk: Hunk) -> int:
    return hunk.new_first


def _common(old: Sequence[Statement], new: Sequence[Statement], most: int, from_end: bool) -> int:
    """How many statements two bodies have in common at one end. Slices are compared by identity first."""
    same = 0
    block = _BLOCK
    while block:
        while same + block <= most and _piece(old, same, block, from_end) == _piece(new, same, block, from_end):
            same += block
        block //= 2
    return same


def _piece(body: Sequence[Statement], skipped: int, count: int, from_end: bool) -> Sequence[Statement]:
    end = len(body) - skipped
    return body[end - count : end] if from_end else body[skipped : skipped + count]


def affected(old: Module, new: Module, callees: Mapping[str, Iterable[str]], changed: Iterable[str]) -> frozenset[str]:
    """The functions that mean something else than before: other ones, and all that call them, at any depth.

    `callees`: by function of the new module, what it calls. `changed`: functions that count as other ones anyway.
    """
    names = {*old.functions, *new.functions}
    found = {name for name in names if old.functions.get(name) is not new.functions.get(name)} | set(changed)
    if not found:
        return frozenset()
    callers: dict[str, list[str]] = {}
    for caller, called in callees.items():
        for name in called:
            callers.setdefault(name, []).append(caller)
    waiting = list(found)
    while waiting:
        for caller in callers.get(waiting.pop(), ()):
            if caller not in found:
                found.add(caller)
                waiting.append(caller)
    return frozenset(found)


def moved(diagnostic: Diagnostic, function: Function, edit: Change) -> Diagnostic | None:
    """A diagnostic of a statement of the old body, for the new one; None where the statement is gone."""
    site = diagnostic.site
    if not isinstance(site, Site) or site.index is None:
        return diagnostic
    index = edit.new_index(site.index)
    if index is None or not edit.moves:
        return None if index is None else diagnostic
    notes = tuple(Note(note.message, _moved_site(note.site, function, edit)) for note in diagnostic.notes)
    return replace(diagnostic, site=Site(site.function, index, site.part), notes=notes)


def _moved_site(site: Site | Span | None, function: Function, edit: Change) -> Any:
    if isinstance(site, Site) and site.function == function.name and site.index is not None:
        return Site(site.function, edit.new_index(site.index), site.part)
    return site
