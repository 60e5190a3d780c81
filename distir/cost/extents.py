"""Sequences over the devices of a machine that take no room per device: a machine of thousands costs what a node does.

A machine of nodes repeats one of them. These hold the node, and say how often it is repeated.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, overload

T = TypeVar("T")


class Lazy(Sequence[T]):
    """A sequence that computes its items."""

    __slots__ = ()

    @abstractmethod
    def item(self, index: int) -> T:
        """The item at an index from 0 to the length."""

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(map(self.item, range(*index.indices(len(self)))))
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        return self.item(at)

    def __iter__(self) -> Iterator[T]:
        return map(self.item, range(len(self)))


@dataclass(frozen=True, slots=True)
class Runs(Lazy[T]):
    """Values in runs, `(value, how often)`, all of them `times` over; at the indices of `others` another value."""

    runs: tuple[tuple[T, int], ...]
    times: int = 1
    others: Mapping[int, T] = field(default_factory=dict[int, T])
    period: int = field(init=False, repr=False, compare=False)
    """How many values there are in all runs, once."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "period", sum([count for _, count in self.runs]))

    def __len__(self) -> int:
        return self.times * self.period

    def item(self, index: int) -> T:
        """The value at an index."""
        if index in self.others:
            return self.others[index]
        index %= self.period
        for value, count in self.runs:
            if index < count:
                return value
            index -= count
        raise IndexError(index)

    def map(self, change: Callable[[T], T]) -> Runs[T]:
        """The same of other values."""
        runs = tuple([(change(value), count) for value, count in self.runs])
        return Runs(runs, self.times, {index: change(value) for index, value in self.others.items()})

    @property
    def distinct(self) -> tuple[T, ...]:
        """The values of the runs, and the others."""
        return (*(value for value, _ in self.runs), *self.others.values())


@dataclass(frozen=True, slots=True)
class LevelBlocks(Lazy[range]):
    """Ranges of devices: those of `pattern`, in ascending order, again every `period` devices, up to the device `stop`.

    A range that `stop` cuts to fewer than `least` devices is none.
    """

    pattern: tuple[range, ...]
    period: int
    stop: int
    least: int = 2

    @staticmethod
    def equal(size: int, stop: int, least: int = 2) -> LevelBlocks:
        """Ranges of one size."""
        return LevelBlocks((range(size),) if size >= least else (), max(size, 1), stop, least)

    def __len__(self) -> int:
        whole, rest = divmod(self.stop, self.period)
        return whole * len(self.pattern) + sum(min(b.stop, rest) - b.start >= self.least for b in self.pattern)

    def item(self, index: int) -> range:
        """The range of a number."""
        turn, at = divmod(index, len(self.pattern))
        return self._range(self.pattern[at], turn * self.period)

    def at(self, device: int) -> range | None:
        """The range that holds a device."""
        turn, offset = divmod(device, self.period)
        index = bisect_right(self.pattern, offset, key=lambda block: block.start) - 1
        if index < 0 or offset >= self.pattern[index].stop:
            return None
        found = self._range(self.pattern[index], turn * self.period)
        return found if len(found) >= self.least else None

    def within(self, devices: range) -> Iterator[range]:
        """Ranges that lie in this one: all that differ, not those of every repetition."""
        turn = devices.start // self.period
        for block in self.pattern:
            for start in (turn * self.period, (turn + 1) * self.period):
                found = self._range(block, start)
                if len(found) >= self.least and devices.start <= found.start and found.stop <= devices.stop:
                    yield found

    def _range(self, block: range, start: int) -> range:
        return range(block.start + start, min(block.stop + start, self.stop))
