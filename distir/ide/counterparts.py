"""Which statements of two versions of a program correspond: those that define the same values.

A value of one version may be several of the other, such as one for each device: `%h` is `%h_1` and `%h_2` there. One
statement may define what several did, as counted calls do. So groups of statements correspond.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from distir.ir import DISCARD, Function, Module, results
from distir.syntax.carrying import without_numbers

Group = tuple[str, Hashable]
"""The function, and the label that represents the group."""


def groups(one: Module, other: Module) -> tuple[Mapping[str, list[Group | None]], Mapping[str, list[Group | None]]]:
    """Of both versions, by function, the group of each statement; None for one that defines nothing."""
    found: tuple[dict[str, list[Group | None]], dict[str, list[Group | None]]] = {}, {}
    for name in one.functions.keys() | other.functions.keys():
        sides = [module.functions.get(name) for module in (one, other)]
        labels = _labels(*(_defined(side) for side in sides))
        joined = _Joined()
        for side in sides:
            for statement in side.body if side is not None else ():
                joined.join([labels(result) for result in results(statement) if result != DISCARD])
        for groups_of, side in zip(found, sides, strict=True):
            if side is not None:
                groups_of[name] = [_group(name, results(s), labels, joined) for s in side.body]
    return found


def _defined(function: Function | None) -> set[str]:
    return {name for statement in function.body for name in results(statement)} if function is not None else set()


def _labels(one: set[str], other: set[str]) -> Callable[[str], Hashable]:
    """What a value is called in both versions: its name if both have that, else its name without numbers.

    A value beside one of that shorter name, which both versions have, is no part of it.
    """

    def label(name: str) -> Hashable:
        *_, root = without_numbers(name)
        is_own = name in one and name in other
        return name if is_own or (root in one and root in other) else (root,)

    return label


def _group(function: str, made: Iterable[str], labels: Callable[[str], Hashable], joined: _Joined) -> Group | None:
    named = [labels(name) for name in made if name != DISCARD]
    return (function, joined.first(named[0])) if named else None


class _Joined:
    """Labels that some statement defines together, each group with one of them for all."""

    def __init__(self) -> None:
        self._next: dict[Hashable, Hashable] = {}

    def first(self, label: Hashable) -> Hashable:
        """The label that represents the group."""
        while (further := self._next.get(label, label)) != label:
            self._next[label] = self._next.get(further, further)
            label = further
        return label

    def join(self, labels: Iterable[Hashable]) -> None:
        """Make one group of labels."""
        first, *others = [self.first(label) for label in labels] or [None]
        for other in others:
            if other != first:
                self._next[other] = first
