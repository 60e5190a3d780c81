"""Collections that are computed when they are first accessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar, overload

Item = TypeVar("Item")
Key = TypeVar("Key")


class Late(Sequence[Item]):
    """A sequence that is computed when it is first accessed."""

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[], Sequence[Item]]) -> None:
        self._find = find
        self._found: Sequence[Item] | None = None

    @property
    def items(self) -> Sequence[Item]:
        """All of them."""
        if self._found is None:
            self._found = self._find()
        return self._found

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        return self.items[index]

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class LateMapping(Mapping[Key, Item]):
    """A mapping that is computed when it is first accessed."""

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[], Mapping[Key, Item]]) -> None:
        self._find = find
        self._found: Mapping[Key, Item] | None = None

    @property
    def _items(self) -> Mapping[Key, Item]:
        if self._found is None:
            self._found = self._find()
        return self._found

    def __getitem__(self, key: Key) -> Item:
        return self._items[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)
