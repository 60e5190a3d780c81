"""Use-def chains of a function's body: the statement that defines a value, and those that use it, by index.

A function never changes, and several passes over it ask in turn: the chains of those last asked for are kept. `Chains`
follow the edits of a body that does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

from distir.ir.core import DISCARD, Arg, Function, Param, Statement, names, operands, results

T = TypeVar("T")

KEPT = 1 << 17
"""The chains of functions are kept that have so many statements together: an entry function may have as many alone."""


class _Kept(Generic[T]):
    """What is found of the functions last asked for, `KEPT` statements together, but for the last of them."""

    def __init__(self, find: Callable[[Function], T]) -> None:
        self._find = find
        self._known: OrderedDict[Function, T] = OrderedDict()
        self._length = 0
        self._lock = Lock()
        self._last: tuple[Function, T] | None = None

    def __call__(self, function: Function) -> T:
        """What is found of a function, now or earlier."""
        last = self._last
        if last is None or last[0] is not function:
            self._last = last = function, self._of(function)
        return last[1]

    def _of(self, function: Function) -> T:
        with self._lock:
            known = self._known.pop(function, None)
            if known is not None:
                self._known[function] = known  # under this one: equal functions are compared once, not at each call
                return known
        found = self._find(function)
        with self._lock:
            if function not in self._known:
                self._known[function] = found
                self._length += len(function.body)
            while self._length > KEPT and len(self._known) > 1:
                oldest, _ = self._known.popitem(last=False)
                self._length -= len(oldest.body)
        return found


def _definitions(function: Function) -> Mapping[str, int]:
    return {name: index for index, s in enumerate(function.body) for name in results(s) if name != DISCARD}


def _uses(function: Function) -> Mapping[str, Sequence[int]]:
    found: dict[str, list[int]] = {}
    for index, statement in enumerate(function.body):
        for arg in operands(statement):
            for name in (arg,) if isinstance(arg, str) else names((arg,)):
                if name:
                    users = found.setdefault(name, [])
                    if not users or users[-1] != index:
                        users.append(index)
    return found


definitions = _Kept(_definitions)
"""By value of a function: the index of the statement that defines it. Parameters have none."""

uses = _Kept(_uses)
"""By value of a function: the indices of the statements that use it, each once, in order; the `return` included."""


def maker(function: Function, value: Arg) -> Statement | None:
    """The statement that defines a value; None for a parameter, a constant, or a list."""
    number = definitions(function).get(value) if isinstance(value, str) else None
    return None if number is None else function.body[number]


def needed(wanted: Iterable[str], makers: Mapping[str, Statement | Param], there: Container[str]) -> Iterator[str]:
    """The values that have to be computed for those wanted, each behind what it is computed of.

    `makers`: what defines a value; others are available. So is what is `there`, to which the caller adds each value.
    """
    waiting = [name for name in wanted if name in makers and name not in there]
    while waiting:
        maker = makers[name := waiting[-1]]
        args = () if name in there or isinstance(maker, Param) else operands(maker)
        missing = [arg for arg in names(args) if arg in makers and arg not in there]
        waiting += missing
        if not missing:
            waiting.pop()
            if name not in there:
                yield name


@dataclass(slots=True)
class Chains:
    """Use-def chains of a body under edit, by number of a statement.

    `made`: by value, the statement that defines it; `used`: by value, those that use it, each once, in no order.
    """

    made: dict[str, int]
    used: dict[str, Collection[int]]

    @classmethod
    def of(cls, function: Function) -> Chains:
        """The chains of a function, whose statements have their indices as numbers."""
        return cls(dict(definitions(function)), dict(uses(function)))

    def change(self, number: int, before: Statement, after: Statement) -> None:
        """Follow the edit of a statement; `Broken()` is none."""
        old, new = set(names(operands(before))), set(names(operands(after)))
        for name in old ^ new:
            users = self.used.get(name)
            if not isinstance(users, dict):  # as `uses` has it, until an edit concerns it
                self.used[name] = users = dict.fromkeys(users or ())
            if name in new:
                users[number] = None
            else:
                del users[number]
        for name in results(before):
            if self.made.get(name) == number:
                del self.made[name]
        self.made.update((name, number) for name in results(after) if name != DISCARD)
