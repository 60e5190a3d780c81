"""Numbers for what a client may ask about later. Knows no requests."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class References(Generic[T]):
    """Things of the current stop by number. A number is given once: one of an earlier stop names nothing."""

    def __init__(self) -> None:
        self._first = 1
        self._known: list[T] = []

    def add(self, thing: T) -> int:
        """The number of a new thing."""
        self._known.append(thing)
        return self._first + len(self._known) - 1

    def get(self, number: int) -> T | None:
        """The thing of a number; None for a number of an earlier stop, or one that was never given."""
        index = number - self._first
        return self._known[index] if 0 <= index < len(self._known) else None

    def forget(self) -> None:
        """Drop what was numbered: the program is about to be stepped."""
        self._first += len(self._known)
        self._known = []
