"""Plans by columns: there may be a million, of which few differ in any few fields. Each is made when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, overload

from distir.transform.strategy import SEARCHED, Choices, Declared, Strategy

np: Any = import_module("numpy")

DENSE = 1 << 22
"""Keys up to this are looked up in a table; larger ones are sorted."""


CHUNK = 1 << 12
"""So many plans are made at a time where all are gone through."""


class Column(NamedTuple):
    """A field of all plans: its distinct values, and by plan the place of its own."""

    values: tuple[Any, ...]
    codes: Any

    def take(self, rows: Any) -> Column:
        """The field of some of the plans."""
        return Column(self.values, self.codes[rows])

    @classmethod
    def of(cls, values: Iterable[Any]) -> Column:
        """The column of these values."""
        found: dict[Any, int] = {}
        codes = [found.setdefault(value, len(found)) for value in values]
        return cls(tuple(found), np.array(codes, dtype=_type(len(found))))


class Plans(Sequence[Strategy]):
    """A sequence of plans. Whatever depends on a few fields alone is found once for each of their combinations."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns

    @classmethod
    def of(cls, plans: Iterable[Strategy]) -> Plans:
        """These plans."""
        rows = [*plans]
        return cls({name: Column.of(getattr(plan, name) for plan in rows) for name in SEARCHED})

    def __len__(self) -> int:
        return len(self._columns["data"].codes)

    @overload
    def __getitem__(self, index: int) -> Strategy: ...
    @overload
    def __getitem__(self, index: slice) -> Plans: ...
    def __getitem__(self, index: int | slice) -> Strategy | Plans:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        return Strategy(**{name: column.values[column.codes[index]] for name, column in self._columns.items()})

    def __iter__(self) -> Iterator[Strategy]:
        for first in range(0, len(self), CHUNK):
            columns = [
                [*map(column.values.__getitem__, column.codes[first : first + CHUNK].tolist())]
                for column in self._columns.values()
            ]
            for values in zip(*columns, strict=True):
                yield Strategy(**dict(zip(self._columns, values, strict=True)))

    def __contains__(self, plan: object) -> bool:
        return isinstance(plan, Strategy) and self.find(plan) is not None

    def find(self, plan: Strategy) -> int | None:
        """The place of a plan; None if it is not there."""
        rows: Any = None
        for name, column in self._columns.items():
            value = getattr(plan, name)
            if value not in column.values:
                return None
            equal = column.codes == column.values.index(value)
            rows = equal if rows is None else rows & equal
        found = np.flatnonzero(rows)
        return int(found[0]) if len(found) else None

    def take(self, rows: Any) -> Plans:
        """Those at some places, or where an array of Booleans is true."""
        return Plans({name: column.take(rows) for name, column in self._columns.items()})

    def column(self, name: str) -> Any:
        """The values of a field of numbers, as an array."""
        values, codes = self._columns[name]
        return np.array(values)[codes]

    def groups(self, *names: str, also: Any = None) -> tuple[Any, Any]:
        """Plans that agree in these fields: by group the place of its first plan, and by plan its group.

        `also`: whole numbers from 0, in which those of a group agree, too.
        """
        key, most = np.zeros(len(self), dtype=np.int64), 1
        columns = [(self._columns[name].codes, len(self._columns[name].values)) for name in names]
        if also is not None:
            columns.append((also, int(also.max(initial=0)) + 1))
        for codes, count in columns:
            if most * count >= DENSE:
                _, key = _compact(key, most)
                most = int(key.max(initial=0)) + 1
            key, most = key * count + codes, most * count
        return _compact(key, most)

    def found(self, of: Callable[[Strategy], float], *names: str) -> Any:
        """For each plan what is found of it, which depends on these fields alone."""
        first, place = self.groups(*names)
        return np.array([of(plan) for plan in self.take(first)])[place]

    def along(self, axis: Declared, space: Choices) -> Plans:
        """The plans that differ from these on an axis, of all values that a space tries: those of a plan together."""
        first, place = self.groups(*axis.depends)
        tried = [tuple(axis.tried(space, plan)) for plan in self.take(first)]
        values = tuple(dict.fromkeys(value for some in tried for value in some))
        numbers = {value: number for number, value in enumerate(values)}
        counts = np.array([len(some) for some in tried], dtype=np.int64)
        starts = np.cumsum(counts) - counts
        codes = np.array([numbers[value] for some in tried for value in some], dtype=_type(len(values)))
        each = counts[place]
        rows = np.repeat(np.arange(len(self)), each)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(each) - each, each)
        made = {name: column.take(rows) for name, column in self._columns.items()}
        made[axis.name] = Column(values, codes[starts[place[rows]] + within])
        return Plans(made)


def _type(count: int) -> Any:
    """The smallest type for the places of so many values."""
    return np.min_scalar_type(max(count - 1, 0))


def _compact(key: Any, most: int) -> tuple[Any, Any]:
    """By distinct key, less than `most`, the first place of it, and by place the number of its key."""
    if most > DENSE:
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        return first, place
    first = np.full(most, -1, dtype=np.int64)
    first[key[::-1]] = np.arange(len(key) - 1, -1, -1)
    there = np.flatnonzero(first >= 0)
    number = np.zeros(most, dtype=np.int64)
    number[there] = np.arange(len(there))
    return first[there], number[key]
