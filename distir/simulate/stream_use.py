"""On which streams ops make and use values, found statement by statement. Knows storages by number."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

NO_STREAMS: Set[str] = frozenset()

COMPUTES: Set[str] = frozenset(("",))
"""The compute stream alone."""


@dataclass(slots=True)
class StreamUse:
    """Which storages of a function have to do with named streams; "" is the compute stream.

    What the compute stream makes is not listed, nor that it uses what it has made, or parameters.
    """

    parameters: int = 0
    """How many storages are those of parameters; they come first."""
    named: dict[int, str] = field(default_factory=dict[int, str])
    """By statement that is on another stream than that of compute: its name."""
    anywhere: bool = False
    """Whether a statement is, here or in calls."""
    made: dict[int, str] = field(default_factory=dict[int, str])
    """By storage: the stream of the op that makes it, here or in calls."""
    fresh: set[int] = field(default_factory=set[int])
    """Those of them that no op on the compute stream has used yet."""
    used: dict[int, Set[str]] = field(default_factory=dict[int, Set[str]])
    """By storage: the streams on which ops use it that occupy a device, here or in calls."""
    crossing: set[int] = field(default_factory=set[int])
    """The storages made here, or in a call, that are used here on streams which have not waited for them there."""
    first_uses: list[int] = field(default_factory=list[int])
    """The statements that are the first to use a storage on a stream."""

    def make(self, storages: Iterable[int], stream: str) -> None:
        """An op on a named stream makes these."""
        self.anywhere = True
        for storage in storages:
            self.made[storage] = stream
            self.fresh.add(storage)

    def use(self, index: int, storage: int, stream: str) -> None:
        """A statement uses a storage on a stream."""
        known = self.used.get(storage, NO_STREAMS)
        if stream not in known:
            self.used[storage] = known | {stream}
            self.first_uses.append(index)
            if not stream:
                self.fresh.discard(storage)
            if storage >= self.parameters and stream != self.made.get(storage, ""):
                self.crossing.add(storage)

    def behind(self, storage: int) -> Set[str]:
        """The streams that, as the function returns, have made what is in a storage, or have waited for it."""
        return self.used.get(storage, NO_STREAMS) | {self.made.get(storage, "")}
