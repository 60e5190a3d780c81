"""On which streams ops make and use values, found statement by statement. Knows storages by number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

NO_STREAMS: Set[str] = frozenset()

COMPUTES: Set[str] = frozenset(("",))
"""The compute stream alone."""

ByStream = defaultdict[str, set[int]]
"""By stream: storages."""


@dataclass(slots=True)
class StreamUse:
    """Which storages of a function have to do with named streams; "" is the compute stream.

    What the compute stream makes is not listed, nor that it uses what it has made, or parameters.
    """

    named: dict[int, str] = field(default_factory=dict[int, str])
    """By statement that is on another stream than that of compute: its name."""
    anywhere: bool = False
    """Whether a statement is, here or in calls."""
    made: ByStream = field(default_factory=lambda: ByStream(set))
    """What its ops make, here or in calls."""
    fresh: set[int] = field(default_factory=set[int])
    """The part of that which no op on the compute stream has used yet."""
    used: ByStream = field(default_factory=lambda: ByStream(set))
    """What those of its ops use that occupy a device, here or in calls."""
    crossing: set[int] = field(default_factory=set[int])
    """What is used here on a stream that has not made it, nor waited for it in the call that makes it."""
    first_uses: list[int] = field(default_factory=list[int])
    """The statements that are the first to use a storage on a stream."""

    def make(self, storages: Sequence[int], stream: str) -> None:
        """An op on a named stream makes these."""
        self.anywhere = True
        self.made[stream].update(storages)
        self.fresh.update(storages)

    def use(self, index: int, storages: Iterable[int], stream: str) -> None:
        """A statement uses these on a stream."""
        used = self.used[stream]
        new = {*storages} - used
        if new:
            used |= new
            self.first_uses.append(index)
            self.crossing |= new - self.made[stream]
            if not stream:
                self.fresh -= new

    def behind(self, storage: int) -> Set[str]:
        """The streams that, as the function returns, have made what is in a storage, or have waited for it."""
        makers = [stream for stream, made in self.made.items() if storage in made]
        return {*(makers or COMPUTES), *[stream for stream, used in self.used.items() if storage in used]}
