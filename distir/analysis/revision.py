"""What an edit of a function's body changed: the statements before and after it are the same.

The parser takes statements that an edit did not touch from the version before, so they are the same objects, and two
bodies are compared at the price of comparing pointers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from distir.diagnostics import Diagnostic, Note
from distir.diagnostics.core import Span
from distir.ir import Function, Module, Site, Statement

_BLOCK = 1 << 12


@dataclass(frozen=True, slots=True)
class Change:
    """The statements from `first` to before `old_end` became those from `first` to before `new_end`."""

    first: int
    old_end: int
    new_end: int

    @property
    def moved(self) -> int:
        """By how much the statements after the change have moved."""
        return self.new_end - self.old_end

    def old_index(self, index: int) -> int | None:
        """Where a statement of the new body was; None for one that is new."""
        if index < self.first:
            return index
        return index - self.moved if index >= self.new_end else None

    def new_index(self, index: int) -> int | None:
        """Where a statement of the old body is; None for one that is gone."""
        if index < self.first:
            return index
        return index + self.moved if index >= self.old_end else None


def change(old: Sequence[Statement], new: Sequence[Statement]) -> Change:
    """The least change that makes one body from another."""
    shorter = min(len(old), len(new))
    before = _common(old, new, shorter, from_end=False)
    after = _common(old, new, shorter - before, from_end=True)
    return Change(before, len(old) - after, len(new) - after)


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
    if site.index < edit.first:
        return diagnostic
    index = edit.new_index(site.index)
    if index is None or not edit.moved:
        return None if index is None else diagnostic
    notes = tuple(Note(note.message, _moved_site(note.site, function, edit)) for note in diagnostic.notes)
    return replace(diagnostic, site=Site(site.function, index, site.part), notes=notes)


def _moved_site(site: Site | Span | None, function: Function, edit: Change) -> Any:
    if isinstance(site, Site) and site.function == function.name and site.index is not None:
        return Site(site.function, edit.new_index(site.index), site.part)
    return site
